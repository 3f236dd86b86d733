"""What `lethe verilog` writes, simulated as it is, with other people's streams on the other ends."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from cocotb_tests.benches.pair import TOP, pair
from lethe.spec.config import System, load
from lethe.spec.events import Counter, Status
from lethe.verilog import run_yosys
from lethe_sim.cli import main
from lethe_sim.lockstep import simulators
from tests.helpers.tiers import but

needs_icarus = pytest.mark.skipif(not simulators.has_icarus(), reason="Icarus Verilog is not installed")

#: Two configurations that understand each other, with tables of different sizes.
WIRE = '[topology]\nkind = "wire"\n[wire]\nslot_bits = 3\nflit_bits = {bits}\nmtu = 20\n'
TABLES = {
    "a_": "[ni]\nslots = 4\nsets = 2\nways = 2\n",
    "b_": "[ni]\nslots = 8\nsets = 4\nways = 1\n[timers]\nbackoff_steps = 3\n",
}


@dataclass(frozen=True)
class Export:
    """The system of the first NI; headers and Verilog of both, by their prefixes."""

    system: System
    headers: dict[str, str]
    texts: dict[str, str]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Writes both NIs with flits of so many bits, once."""
    found = {}

    def export(bits: int) -> Export:
        if bits not in found:
            place = tmp_path_factory.mktemp(f"export{bits}")
            headers, texts, system = {}, {}, None
            for prefix, tables in TABLES.items():
                toml, written, header = (place / f"{prefix}{end}" for end in ("ni.toml", "ni.v", "ni.vh"))
                toml.write_text(WIRE.format(bits=bits) + tables)
                command = ["verilog", str(toml), "--block", "ni", "--name", prefix, "-o", str(written)]
                assert main([*command, "--header", str(header), "--no-watch", "--no-dump"]) == 0
                headers[prefix], texts[prefix] = header.read_text(), written.read_text()
                system = system or load(toml)
            assert system is not None
            found[bits] = Export(system, headers, texts)
        return found[bits]

    return export


def move(tmp_path: Path, export: Export, simulator: str, *options: str, count: int = 24, seed: int = 2) -> None:
    """Datagrams both ways over lossy links, and what the counters say of them."""
    design = "".join([*export.headers.values(), *export.texts.values(), pair()])
    directory = simulators.build(design, TOP, simulator, options=options)
    counters = (Counter.SENDS, Counter.DELIVERED, Counter.DUPLICATES, Counter.RELEASED, Counter.COMPLETED)
    job = {
        "seed": seed,
        "count": count,
        "mtu": export.system.wire.mtu,
        "accepted": Status.ACCEPTED,
        "counters": {counter.name: counter for counter in counters},
    }
    found = simulators.outcome(directory, TOP, "cocotb_tests.benches.pair_bench", tmp_path, job, simulator=simulator)
    assert found["DELIVERED"] == found["RELEASED"] == found["COMPLETED"] == [count, count]
    assert found["lost"] > count and found["flipped"] > 0
    assert min(found["SENDS"]) > count and sum(found["DUPLICATES"]) > 0


@needs_icarus
@pytest.mark.parametrize("generation", but([], ["-g2005", "-g2012"], push=["-g2012"]))
def test_icarus_moves_datagrams(tmp_path, exported, generation):
    """As Verilog-2005 and as SystemVerilog, which begin differently."""
    move(tmp_path, exported(64), "icarus", generation)


@pytest.mark.full
def test_verilator_moves_datagrams(tmp_path, exported):
    move(tmp_path, exported(64), "verilator")


def read_back(place: Path, export: Export, commands: str) -> Export:
    """Both texts after Yosys has read them and written them again."""
    texts = {}
    for prefix, text in export.texts.items():
        (place / "in.v").write_text(text)
        top = f"{prefix}lethe_ni"
        run_yosys(
            place, f"read_verilog in.v; hierarchy -check -top {top}; {commands.format(top=top)}; write_verilog out.v"
        )
        texts[prefix] = (place / "out.v").read_text()
    return Export(export.system, export.headers, texts)


@pytest.mark.full
@pytest.mark.parametrize("bits", [16, 32, 128])
@pytest.mark.parametrize("simulator", ["verilator", pytest.param("icarus", marks=needs_icarus)])
def test_every_width_moves_datagrams(tmp_path, exported, simulator, bits):
    """Acks and Forgets of one flit and of several; three times as many datagrams, another seed."""
    move(tmp_path, exported(bits), simulator, count=72, seed=bits)


@pytest.mark.push
@needs_icarus
def test_what_yosys_reads_moves_datagrams(tmp_path, exported):
    """Yosys takes the text for the same circuit.  (It writes no function for a tree of multiplexers.)"""
    found = read_back(tmp_path, exported(64), "proc; pmuxtree; memory_collect; opt_clean; check -assert")
    move(tmp_path, found, "icarus", "-g2012")


@pytest.mark.full
def test_gates_move_datagrams(tmp_path, exported):
    """Synthesised, without a library: cells of one bit each, memories as registers."""
    found = read_back(tmp_path, exported(64), "synth -top {top} -noabc; check -assert")
    move(tmp_path, found, "verilator")

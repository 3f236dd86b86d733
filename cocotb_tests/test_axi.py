"""NIs on AXI4-Streams, simulated as `lethe verilog` writes them, with cocotbext-axi's sources and sinks around them."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from cocotb_tests.benches.axi_pair import TOP, pair
from lethe.spec.axi import axi_layouts
from lethe.spec.config import System, load
from lethe.spec.events import Status
from lethe.spec.registers import RegisterMap
from lethe.spec.sections import relay
from lethe_sim.cli import main
from lethe_sim.lockstep import simulators
from tests.helpers.tiers import but

needs_icarus = pytest.mark.skipif(not simulators.has_icarus(), reason="Icarus Verilog is not installed")

CONFIGURATION = (
    '[topology]\nkind = "wire"\n[wire]\nflit_bits = {bits}\nmtu = 20\n[ni]\nslots = 4\nsets = 2\nways = 2\n{more}'
)
#: A service, which wants an NI of its own: longer messages, slots for control.
OF_SERVICE = (
    '[topology]\nkind = "wire"\n[wire]\nflit_bits = {bits}\nmtu = 36\n'
    "[ni]\nslots = 8\nsets = 2\nways = 4\ncontrol_slots = 4\n{more}"
)
FLOW = (
    "control_classes = 1\nmerge_bits = 16\nreject = true\nsource_incarnation = true\nacceptance = true\nsweep = true\n"
    "[flow]\nports = 4\ncells = 8\nin_order = 2\n"
)
RELAY = "control_classes = 2\n[relay]\nslots = 4\nradix = 0\ncells = 8\nbuffers = 4\n"
#: Control slots, deliver streams of control, incarnations of sources, and a loop.
RICH = "control_slots = 1\ncontrol_classes = 1\nsource_incarnation = true\n[loop]\nslots = 2\n"
#: Picoseconds of the host's clock, beside 10,000 of the NI's: slower, and faster.
SLOW, FAST = 13_700, 6_100


@dataclass(frozen=True)
class Export:
    design: str
    job: dict


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Writes an NI with these options, once, and the job of its bench."""

    @cache
    def export(bits: int, more: str = "", options: tuple[str, ...] = (), bus: str = "axi") -> Export:
        place = tmp_path_factory.mktemp("axi")
        toml, written, listing = (place / name for name in ("ni.toml", "ni.v", "ni.json"))
        toml.write_text((OF_SERVICE if more in (FLOW, RELAY) else CONFIGURATION).format(bits=bits, more=more))
        command = ["verilog", str(toml), "--block", "ni", "--bus", bus, "-o", str(written)]
        assert main([*command, "--list", str(listing), "--no-watch", *options]) == 0
        told, system = json.loads(listing.read_text()), load(toml, hosted=False)
        store = "--store-and-forward" in options
        highest = (1 << system.format.class_bits) - 1
        registers = RegisterMap(system) if bus == "axi" else None
        named = [*registers.registers, *registers.counters] if registers else []
        job = {
            "registers": {register.name: register.address for register in named},
            "register_fields": {r.name: {f.name: (f.shift, f.bits) for f in r.fields} for r in named},
            "mtu": system.flow_mtu if more == FLOW else system.relay_mtu if more == RELAY else system.wire.mtu,
            "wire_mtu": system.wire.mtu,
            "ports": system.flow.ports,
            "relayed": more == RELAY,
            "trees": [tree(system, node) for node in range(system.nodes)] if more == RELAY else [],
            "store": store,
            "fields": {port: dict(record) for port, record in axi_layouts(system, store=store).items()},
            "streams": {stream["name"]: list(stream["ports"]) for stream in told["streams"]},
            "cls": {"s_axis_send_control": highest, "m_axis_deliver_control1": highest},
            "accepted": Status.ACCEPTED,
            "rejected": Status.REJECTED,
            "rounds": 2,
            "resets": 12,
            "host_clock": 0,
            "only": [],
        }
        return Export(written.read_text() + pair(told["top"], told["modules"][told["top"]]), job)

    return export


def tree(system: System, node: int) -> list[dict[str, int]]:
    """The routes of a node's overlay while everybody lives, and the first notice."""
    return [
        {part: value for part, value in word._asdict().items() if part != "cycle"} for word in relay.words(system, node)
    ]


def move(tmp_path: Path, export: Export, simulator: str, *options: str, **job) -> None:
    """All tests of the bench."""
    directory = simulators.build(export.design, TOP, simulator, options=options)
    told = {"seed": 5} | export.job | job
    found = simulators.outcome(directory, TOP, "cocotb_tests.benches.axi_bench", tmp_path, told, simulator=simulator)
    results = (tmp_path / "results.xml").read_text()
    assert "<failure" not in results and "<error" not in results, results
    assert found["lost"] > 0


#: Enough of each for the default tier; `test_every_width_moves_datagrams` has more.
BRIEF = {"rounds": 1, "resets": 6}
#: What a slow simulator plays in the default tier.
SHORT = ("every_length_both_ways", "registers_beside_the_streams")


@needs_icarus
@pytest.mark.parametrize("generation", but([], ["-g2005", "-g2012"], push=["-g2012"]))
def test_icarus_moves_datagrams(tmp_path, exported, generation):
    move(tmp_path, exported(64), "icarus", generation, only=SHORT, rounds=1)


@pytest.mark.full
@needs_icarus
def test_icarus_resets_and_refuses(tmp_path, exported):
    move(tmp_path, exported(64), "icarus", "-g2005")


@pytest.mark.push
def test_verilator_moves_datagrams(tmp_path, exported):
    """With a stream of every kind."""
    move(tmp_path, exported(64, RICH), "verilator", **BRIEF)


@pytest.mark.full
def test_streams_alone_move_datagrams(tmp_path, exported):
    """Without registers: ports for all else."""
    move(tmp_path, exported(128, "", bus="axi-stream"), "verilator", rounds=1)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--store-and-forward",), marks=pytest.mark.full),
        pytest.param(("--store-and-forward", "--host-clock"), marks=pytest.mark.push),
    ],
)
def test_what_is_stored_and_forwarded_needs_no_length(tmp_path, exported, options):
    clock = {"host_clock": SLOW} if "--host-clock" in options else {}
    move(tmp_path, exported(32, "", options), "verilator", **BRIEF, **clock)


@pytest.mark.full
@pytest.mark.parametrize("period", [FAST, SLOW])
def test_a_host_has_a_clock_of_its_own(tmp_path, exported, period):
    move(tmp_path, exported(64, "", ("--host-clock",)), "verilator", host_clock=period, **BRIEF)


def serve(tmp_path, exported, more: str, bits: int, simulator: str, options=(), *, generation=(), bus="axi", **job):
    """An NI with more than it needs, under a simulator, with a clock of the host's if the options say so."""
    clock = {"host_clock": SLOW if bits > 32 else FAST} if "--host-clock" in options else {}
    move(tmp_path, exported(bits, more, options, bus), simulator, *generation, **clock, **job)


#: Options, by a name.
OPTIONS = {
    "plain": (), "stored": ("--store-and-forward",), "clock": ("--host-clock",),
    "both": ("--host-clock", "--store-and-forward"),
}  # fmt: skip
#: By simulator, the options with which each width is tried; the second is slow.
TRIED = {
    "verilator": [(bits, options) for options in ("plain", "stored", "both") for bits in (16, 32, 64, 128)],
    "icarus": [(16, "plain"), (32, "stored"), (64, "both"), (128, "plain")],
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("simulator", "bits", "options"),
    [
        pytest.param(simulator, bits, options, marks=needs_icarus if simulator == "icarus" else ())
        for simulator, tried in TRIED.items()
        for bits, options in tried
    ],
)
def test_every_width_moves_datagrams(tmp_path, exported, simulator, bits, options):
    """With all streams, and another seed; with more datagrams where a simulator is fast."""
    much = {"rounds": 4, "resets": 30} if simulator == "verilator" else BRIEF
    serve(tmp_path, exported, RICH, bits, simulator, OPTIONS[options], seed=bits, **much)


SERVICES = pytest.mark.parametrize(
    "more", [pytest.param(FLOW, id="flow"), pytest.param(RELAY, id="relay", marks=pytest.mark.full)]
)


@SERVICES
@pytest.mark.parametrize("bits", but([], [16, 32, 64, 128], push=[64]))
def test_messages_of_a_service_pass_in_order(tmp_path, exported, more, bits):
    serve(tmp_path, exported, more, bits, "verilator", **BRIEF)


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "bits", "service"),
    [
        ("stored", 32, "flow"), ("stored", 64, "relay"), ("clock", 64, "flow"), ("clock", 32, "relay"),
        ("both", 32, "flow"), ("both", 64, "relay"),
    ],
)  # fmt: skip
def test_messages_of_a_service_are_stored_and_cross(tmp_path, exported, options, bits, service):
    more = FLOW if service == "flow" else RELAY
    serve(tmp_path, exported, more, bits, "verilator", OPTIONS[options], seed=bits)


@pytest.mark.full
@SERVICES
def test_messages_of_a_service_pass_by_streams_alone(tmp_path, exported, more):
    serve(tmp_path, exported, more, 64, "verilator", bus="axi-stream")


@pytest.mark.full
@needs_icarus
@pytest.mark.parametrize(("more", "generation"), [(FLOW, "-g2012"), (RELAY, "-g2005")], ids=["flow", "relay"])
def test_icarus_passes_messages_of_a_service(tmp_path, exported, more, generation):
    serve(tmp_path, exported, more, 64, "icarus", generation=(generation,), only=[*SHORT, "ports_and_peers"], rounds=1)

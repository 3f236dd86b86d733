"""What is built is what is simulated: the self-test, as RTL and after synthesis, in lockstep with the golden model."""

import json
from pathlib import Path

import pytest

from lethe import verilog
from lethe.spec.toml import dump
from lethe_fpga.boards import BOARDS, DEFAULT, platform_for
from lethe_fpga.build import build, clock_for
from lethe_fpga.selftest import MIRRORED_NEEDS, NEEDS, SelfTest, selftest
from lethe_fpga.top import BoardTop, blink_bits
from lethe_sim.lockstep import simulators
from tests.fpga import gates

BENCH = "tests.fpga.selftest_bench"


def built() -> SelfTest:
    """The self-test of the default build, with its trace words as ports."""
    return SelfTest(selftest(), blink_bits(clock_for(DEFAULT, None).mhz), watch=True)


def hold(text: str, cycles: int, workspace: Path, *options: str) -> dict:
    """Run ``text`` beside the golden model for so many cycles; returns what the bench found."""
    directory = simulators.build(text, gates.TOP, options=options)
    path = workspace / "job.json"
    again = "pytest tests/fpga/test_built.py -m full"
    path.write_text(json.dumps({"toml": dump(selftest()), "cycles": cycles, "reproduce": again}))
    simulators.run(directory, gates.TOP, BENCH, "verilator", workspace, {"LETHE_JOB": str(path)})
    found = workspace / "outcome.json"
    assert found.exists(), (workspace / "simulation.log").read_text()[-3000:]
    return json.loads(found.read_text())


def test_the_system_that_is_built_is_the_one_that_is_simulated():
    """A board's top has the very self-test, with the system and the LEDs' rhythm that the tests below simulate."""
    top = BoardTop(selftest(), clock_for(DEFAULT, None))
    assert top.selftest.system == built().system == selftest()
    assert top.selftest.blink_bits == built().blink_bits


@pytest.mark.full
def test_twenty_thousand_cycles_of_the_rtl(tmp_path):
    """Every trace word of every cycle; no LED says anything yet."""
    found = hold(verilog.emit(built(), gates.TOP), 20_000, tmp_path)
    assert not found["report"], found["report"]
    assert found["cycles"] == 20_000
    assert found["events"] > 1_000
    assert found["leds"] == [[0, 0, 0, 0, 0]]


@pytest.mark.full
def test_two_thousand_cycles_of_the_gates(tmp_path):
    """The netlist that Yosys makes of it for an ECP5, with its block RAMs, in the state a bitstream gives it."""
    unhurried = ("-CFLAGS", "-O0")  # compiles in a tenth of the time
    found = hold(gates.netlist(built()), 2_000, tmp_path, *unhurried)
    assert not found["report"], found["report"]
    assert found["cycles"] == 2_000
    assert found["events"] > 100
    assert found["leds"] == [[0, 0, 0, 0, 0]]


@pytest.mark.full
def test_a_whole_bitstream_for_the_default_board(tmp_path):
    """Yosys, nextpnr and ecppack make a bitstream that meets the PLL's clock and takes what the list of boards says."""
    phases = []
    report = build(DEFAULT, tmp_path / "out", say=lambda phase, what: phases.append(phase))
    assert report.fmax >= report.target == 50
    assert (tmp_path / "out" / "lethe_selftest.bit").stat().st_size == report.bytes > 100_000
    for cell, need in NEEDS.items():
        assert report.cells[cell][0] == pytest.approx(need, rel=0.05), f"{cell}: tell selftest.NEEDS"
    assert list(dict.fromkeys(phases)) == [
        "elaborating",
        "synthesis",
        "packing",
        "placing",
        "routing",
        "writing",
        "reading",
    ]
    assert platform_for(DEFAULT).device in BOARDS[DEFAULT].about


@pytest.mark.full
@pytest.mark.parametrize("board", [name for name in BOARDS if BOARDS[name].mirror])
def test_a_whole_bitstream_for_every_ice40(board, tmp_path):
    """At the clock of the PLL or faster, and as large as the list of boards says."""
    report = build(board, tmp_path / "out")
    assert report.fmax >= report.target == float(BOARDS[board].mhz)
    assert (tmp_path / "out" / "lethe_selftest.bin").stat().st_size == report.bytes > 10_000
    for cell, need in MIRRORED_NEEDS.items():
        assert report.cells[cell][0] == pytest.approx(need, rel=0.1), f"{cell}: tell selftest.MIRRORED_NEEDS"
    assert report.cells["ICESTORM_PLL"][0] == 1

"""The self-test that goes on a board: its LEDs, the boards, and (long) a whole bitstream."""

import pytest
from amaranth.sim import Simulator

from lethe.spec.config import System
from lethe_fpga.boards import BOARDS, BoardError, platform_for
from lethe_fpga.build import build
from lethe_fpga.selftest import SELFTEST, SelfTest


def small(count: int) -> System:
    """The self-test's system with little traffic, on two nodes."""
    sections = {name: dict(section) for name, section in SELFTEST.items()}
    sections["topology"] = {"kind": "tree", "arity": 2, "levels": 1}
    sections["workload"] |= {"count": count}
    return System.make(**sections)


def test_leds_tell_that_every_datagram_arrived_once():
    """`passed` comes on once, after everything has drained, and then `running` is steadily on."""
    dut = SelfTest(small(3), blink_bits=3)
    seen = []

    async def watch(ctx):
        for _ in range(6000):
            await ctx.tick()
            seen.append((ctx.get(dut.running), ctx.get(dut.passed)))
            if len(seen) > 40 and all(pair == (1, 1) for pair in seen[-40:]):
                return

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(watch)
    simulator.run()
    assert seen[-1] == (1, 1)
    first = [passed for _, passed in seen].index(1)
    assert first > 100
    assert {running for running, _ in seen[:first]} == {0, 1}, "it blinks while datagrams are under way"


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_has_two_leds(name):
    platform = platform_for(name)
    for number in (0, 1):
        assert ("led", number) in platform.resources


def test_unknown_board_is_named_with_those_that_are_known():
    with pytest.raises(BoardError, match="no such board 'ulx4s'; known are ulx3s_25f"):
        platform_for("ulx4s")


@pytest.mark.full
def test_bitstream(tmp_path):
    """Yosys, nextpnr and ecppack make a bitstream that meets the board's clock."""
    report = build("ulx3s_85f", tmp_path, system=small(1000))
    assert report.bytes > 10_000
    assert report.fmax >= report.target
    assert report.cells["TRELLIS_FF"][0] > 1000

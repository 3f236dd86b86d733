"""Dividers of the ECP5's PLL: within the data sheet's limits, and the best there are."""

from bisect import bisect_right
from fractions import Fraction
from functools import cache

import pytest
from amaranth.sim import Simulator

from lethe_fpga import ice40
from lethe_fpga.boards import BOARDS, clock_mhz, platform_for
from lethe_fpga.pll import PllError, dividers

CLOCKS = sorted({clock_mhz(platform_for(name)) for name in BOARDS})
WANTED = [Fraction(n, 4) for n in range(13, 700, 41)] + [Fraction(48), Fraction(400), Fraction(100, 3)]


@cache
def everything(board: Fraction) -> list[Fraction]:
    """Every frequency that any dividers make of ``board``, by trying them all."""
    oscillators = set()
    for reference in range(1, 129):
        for feedback in range(1, 81):
            first = board * feedback / reference
            if 10 <= board / reference <= 400 and Fraction(25, 8) <= first <= 400:
                oscillators |= {first * loop for loop in range(1, 129) if 400 <= first * loop <= 800}
    return sorted({vco / output for vco in oscillators for output in range(1, 129) if vco / output <= 400})


def test_the_boards_have_clocks_of_every_kind():
    assert [float(clock) for clock in CLOCKS] == [12, 25, 48, 100]


@pytest.mark.parametrize("board", CLOCKS, ids=float)
def test_the_highest_frequency_not_above_the_wanted_one(board):
    """As found by trying all dividers, for frequencies from 3.25 to 400 MHz; each within the data sheet's limits."""
    possible = everything(board)
    for wanted in WANTED:
        found = dividers(board, wanted)
        assert found.mhz == possible[bisect_right(possible, wanted) - 1], f"{wanted} of {board}"
        assert found.mhz == board / found.reference * found.feedback * found.loop / found.output
        assert 1 <= found.reference <= 128 and 1 <= found.feedback <= 80
        assert 1 <= found.loop <= 128 and 1 <= found.output <= 128
        assert 10 <= found.phase_detector <= 400
        assert 400 <= found.vco <= 800
        assert Fraction(25, 8) <= found.first_output <= 400


@pytest.mark.parametrize("board", CLOCKS, ids=float)
def test_round_frequencies_are_exact(board):
    for mhz in (25, 40, 50, 60):
        assert dividers(board, Fraction(mhz)).mhz == mhz


@pytest.mark.parametrize(
    ("board", "wanted", "message"),
    [
        (25, 3, r"^3 MHz: a PLL of the ECP5 makes 3.125 to 400 MHz$"),
        (25, 401, r"^401 MHz: a PLL of the ECP5 makes 3.125 to 400 MHz$"),
        (25, 0, r"^0 MHz: a PLL of the ECP5 makes"),
        (5, 50, r"^5 MHz: a PLL of the ECP5 takes 8 to 400 MHz$"),
        (12, "3.125", r"^3.125 MHz: the lowest that a PLL makes of the board's 12 MHz is 3.1875$"),
    ],
)
def test_what_cannot_be_made_is_told(board, wanted, message):
    with pytest.raises(PllError, match=message):
        dividers(Fraction(board), Fraction(wanted))


@cache
def everything_ice40(board: Fraction) -> list[Fraction]:
    """Every frequency that any dividers of an iCE40 make of ``board``, by trying them all."""
    oscillators = {
        board / reference * feedback
        for reference in range(1, 17)
        for feedback in range(1, 129)
        if 10 <= board / reference <= 133 and 533 <= board / reference * feedback <= 1066
    }
    return sorted({vco / 2**power for vco in oscillators for power in range(1, 7) if 16 <= vco / 2**power <= 275})


@pytest.mark.parametrize("board", [Fraction(12), Fraction(48), Fraction(100)], ids=float)
def test_the_highest_frequency_of_an_ice40_not_above_the_wanted_one(board):
    """As found by trying all dividers; each within the data sheet's limits."""
    possible = everything_ice40(board)
    for wanted in [Fraction(n, 4) for n in range(68, 1100, 41)] + [Fraction(24), Fraction(275)]:
        found = ice40.dividers(board, wanted)
        assert found.mhz == possible[bisect_right(possible, wanted) - 1], f"{wanted} of {board}"
        assert found.mhz == board / found.reference * found.feedback / 2**found.power
        assert 1 <= found.reference <= 16 and 1 <= found.feedback <= 128 and 1 <= found.power <= 6
        assert 10 <= found.phase_detector <= 133 and 533 <= found.vco <= 1066
    assert ice40.dividers(Fraction(12), Fraction(24)).mhz == 24


def test_the_loop_filter_of_an_ice40_follows_the_phase_detector():
    found = {ice40.dividers(Fraction(mhz), Fraction(30)).phase_detector: mhz for mhz in (12, 25, 40)}
    assert found == {12: 12, 25: 25, 40: 40}
    assert [ice40.dividers(Fraction(mhz), Fraction(30)).filter for mhz in (12, 25, 40)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("board", "wanted", "message"),
    [
        (12, 15, r"^15 MHz: a PLL of the iCE40 makes 16 to 275 MHz$"),
        (12, 276, r"^276 MHz: a PLL of the iCE40 makes 16 to 275 MHz$"),
        (8, 50, r"^8 MHz: a PLL of the iCE40 takes 10 to 133 MHz$"),
        (12, 16, r"^16 MHz: the lowest that a PLL makes of the board's 12 MHz is 16.125$"),
    ],
)
def test_what_no_pll_of_an_ice40_makes(board, wanted, message):
    with pytest.raises(PllError, match=message):
        ice40.dividers(Fraction(board), Fraction(wanted))


def test_the_clock_of_an_ice40_waits_for_the_lock_of_its_pll():
    """The wait counts only cycles with the lock, and its end is for good."""
    wait = ice40.Wait()

    async def bench(ctx):
        ctx.set(wait.lock, 0)
        await ctx.tick().repeat(2 << ice40.WAIT_BITS)
        assert not ctx.get(wait.over)
        ctx.set(wait.lock, 1)
        await ctx.tick().repeat((1 << ice40.WAIT_BITS) + 1)
        assert not ctx.get(wait.over)
        await ctx.tick()
        assert ctx.get(wait.over)
        ctx.set(wait.lock, 0)
        await ctx.tick().repeat(10)
        assert ctx.get(wait.over)

    simulator = Simulator(wait)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()

"""Dividers of the ECP5's PLL: within the data sheet's limits, and the best there are."""

from bisect import bisect_right
from fractions import Fraction
from functools import cache

import pytest

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

"""Taps on links: every flit of chosen links is noted, with what became of it there.

Row 0 of the notes is no flit: its first word counts the rows in use.
"""

from collections.abc import Sequence

import numpy as np

from lethe.spec.capture import Passage
from lethe_sim.golden.compile import apart
from lethe_sim.golden.state import FIRST, LAST

#: Words of a flit: cycle; link, flags and passage; data.
COLUMNS = 4
FLIPPED, PASSAGE, LINK = 8, 4, 8

#: A flit as `flits` gives it: ``first``, ``last`` and data as they reach the end of the link, or entered it if they did
#: not reach it.
FLIT = np.dtype(
    [
        ("cycle", np.int64), ("link", np.int32), ("passage", np.uint8), ("first", bool), ("last", bool),
        ("flipped", bool), ("data", np.uint8, 16),
    ]
)  # fmt: skip


def chosen(links: int, tapped: Sequence[int]) -> np.ndarray:
    """uint8[links]: which of them are tapped."""
    found = np.zeros(max(1, links), np.uint8)
    found[list(tapped)] = 1
    return found


@apart
def note(tapped, taps, f, cycle, link, flags, low, high, survives):
    """Note a flit that is on a link, if that is tapped."""
    if not tapped[link]:
        return
    passage = Passage.PASSED
    if not survives:
        passage = Passage.DEAD if f.links[link].dead_count > 0 else Passage.LOST
    n = np.int64(taps[0]) + 1
    taps[0] = np.uint64(n)
    at = n * COLUMNS
    taps[at] = np.uint64(cycle)
    taps[at + 1] = np.uint64(link << LINK | passage << PASSAGE | flags & (FIRST | LAST))
    taps[at + 2], taps[at + 3] = low, high


@apart
def flipped(tapped, taps, link, flags, low, high):
    """The latest flit as it reaches the end of its link, perhaps with a bit flipped."""
    if not tapped[link]:
        return
    at = np.int64(taps[0]) * COLUMNS
    before = np.int64(taps[at + 1])
    word = before & ~(FIRST | LAST) | flags & (FIRST | LAST)
    if word != before or low != taps[at + 2] or high != taps[at + 3]:
        taps[at + 1] = np.uint64(word | FLIPPED)
        taps[at + 2], taps[at + 3] = low, high


def flits(taps: np.ndarray, count: int) -> np.ndarray:
    """The first ``count`` flits of the notes, as `FLIT`."""
    rows = taps[COLUMNS : (count + 1) * COLUMNS].reshape(count, COLUMNS)
    words = rows[:, 1].astype(np.int64)
    found = np.zeros(count, FLIT)
    found["cycle"], found["link"] = rows[:, 0], words >> LINK
    found["passage"] = words >> PASSAGE & (1 << LINK - PASSAGE) - 1
    found["first"], found["last"], found["flipped"] = words & FIRST, words & LAST, words & FLIPPED
    found["data"] = np.ascontiguousarray(rows[:, 2:]).astype("<u8").view(np.uint8)
    return found

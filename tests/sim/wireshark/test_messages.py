"""Flits by hand: where a message begins and ends, and when it is given out."""

import numpy as np

from lethe.spec.capture import Mark, Passage
from lethe.spec.config import System
from lethe_sim.golden.fabric.tap import FLIT
from lethe_sim.golden.model import EVENT
from lethe_sim.wireshark.messages import Messages

WIRE = System.make(topology={"kind": "wire"})
NO_EVENTS = np.zeros(0, EVENT)


def flits(told: str) -> np.ndarray:
    """One link's flits from cycle 0 on: F first, L last, W both, b neither, a dot none; small letters are lost."""
    found = []
    for cycle, sign in enumerate(told):
        if sign != ".":
            one = np.zeros((), FLIT)
            one["cycle"], one["first"], one["last"] = cycle, sign in "FWfw", sign in "LWlw"
            one["passage"] = Passage.LOST if sign in "fwl" else Passage.PASSED
            one["data"][0] = cycle
            found.append(one)
    return np.array(found, FLIT)


def cut(told: str, cycle: int, *, over: bool = False) -> list[tuple[int, int, int, int, Passage]]:
    """(cycle, flits, reached, marks, passage) of the messages that are out in a cycle."""
    rows = flits(told)
    out = Messages(WIRE, [0]).take(rows[rows["cycle"] < cycle], NO_EVENTS, cycle, over=over)
    return [(m.cycle, m.flits, m.reached, int(m.marks), m.passage) for m in out]


def test_a_message_ends_with_last_or_before_first_or_before_a_gap():
    fragment, headless, passed = Mark.FRAGMENT, Mark.HEADLESS, Passage.PASSED
    assert cut("FbLW", 20) == [(0, 3, 3, 0, passed), (3, 1, 1, 0, passed)]
    assert cut("FbFL", 20) == [(0, 2, 2, fragment, passed), (2, 2, 2, 0, passed)]
    assert cut("Fb.bL", 20) == [(0, 2, 2, fragment, passed), (3, 2, 2, headless, passed)]
    assert cut("LbW", 20) == [
        (0, 1, 1, headless, passed), (1, 1, 1, headless | fragment, passed), (2, 1, 1, 0, passed),
    ]  # fmt: skip


def test_a_lost_message_is_one_message():
    assert cut("flFL", 20) == [(0, 2, 0, 0, Passage.LOST), (2, 2, 2, 0, Passage.PASSED)]
    assert cut("wW", 20) == [(0, 1, 0, 0, Passage.LOST), (1, 1, 1, 0, Passage.PASSED)]


def test_what_may_go_on_is_kept_and_what_has_ended_is_given_out():
    assert cut("Fb", 2) == []
    assert cut("Fb", 3) == [(0, 2, 2, Mark.FRAGMENT, Passage.PASSED)]
    assert cut("Fb", 2, over=True) == [(0, 2, 2, Mark.FRAGMENT, Passage.PASSED)]
    # A whole message waits until the NI has acted on it, and so does what came after it.
    assert cut("FL", 7) == [] and len(cut("FL", 8)) == 1
    assert cut("W.w", 6) == [] and len(cut("W.w", 7)) == 2


def test_pieces_are_joined():
    messages, rows, found = Messages(WIRE, [0]), flits("FbbbL"), []
    for cycle in range(1, 20):
        found += messages.take(rows[rows["cycle"] == cycle - 1], NO_EVENTS, cycle)
    assert [(m.cycle, m.end, m.flits, m.data[::8]) for m in found] == [(0, 4, 5, bytes(range(5)))]

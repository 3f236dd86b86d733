"""What is said of a divergence: unit, word, and the last events of the datagrams that it is about."""

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.services.loop import LOOP
from lethe.spec.wire import pack_uid
from lethe_sim.lockstep.divergence import describe_word, place, report

SYSTEM = System.make(topology={"kind": "tree", "arity": 2, "levels": 2}, loop={"slots": 2})
LAYOUT = SYSTEM.layout


def test_every_word_has_a_place():
    units = {place(LAYOUT, index)[0] for index in range(LAYOUT.words)}
    assert units == {
        "links", *(f"{name}{node}" for name in ("ni", "loop") for node in range(4)),
        *(f"router{router}" for router in range(SYSTEM.graph.routers)),
    }  # fmt: skip
    first = LAYOUT.service_place(3, 0)
    assert [place(LAYOUT, first + word) for word in (0, 1, 4, LOOP.flags, LOOP.words - 1)] == [
        ("loop3", "lane accept, event"), ("loop3", "lane accept, uid"), ("loop3", "lane take, event"),
        ("loop3", "flags"), ("loop3", "beat"),
    ]  # fmt: skip
    assert place(LAYOUT, first - 1) == ("loop2", "beat")


def test_flags_of_a_service_have_names():
    flags = LAYOUT.service_place(0, 0) + LOOP.flags
    assert describe_word(LAYOUT, flags, 0b1000_0001) == "send.ready idle"
    assert describe_word(LAYOUT, flags, 0) == "none"


def test_a_report_tells_of_the_own_datagram():
    uid = pack_uid(3, 1, SYSTEM.ni.slots, 0)
    first = LAYOUT.service_place(3, 0)
    past, golden = np.zeros((4, LAYOUT.words), np.uint64), np.zeros(LAYOUT.words, np.uint64)
    past[1, first : first + 2] = Event.LOOPED | 3 << 16 | 8 << 32, uid
    past[2, 0] = Event.ACK  # of another
    golden[first + 2 : first + 4] = Event.LOOP_COMPLETE | 3 << 16, uid
    error = report(SYSTEM, 14, golden, np.zeros_like(golden), [(10, past)], "again")
    assert {difference.unit for difference in error.differences} == {"loop3"}
    text = str(error)
    assert "loop3      lane complete, event     golden LOOP_COMPLETE peer 3 length 0 detail 0" in text
    assert f"cycle 11 loop3 accept: LOOPED peer 3 length 8 detail 0 uid 3:1:{SYSTEM.ni.slots}:0" in text
    assert "ACK" not in text


def test_without_a_datagram_it_tells_of_the_unit():
    flags = LAYOUT.service_place(2, 0) + LOOP.flags
    past, golden = np.zeros((4, LAYOUT.words), np.uint64), np.zeros(LAYOUT.words, np.uint64)
    past[1, LAYOUT.service_place(2, 0) + 4] = Event.LOOP_TAKE | 2 << 16
    past[3, LAYOUT.service_place(1, 0) + 4] = Event.LOOP_TAKE | 1 << 16
    golden[flags] = 1
    text = str(report(SYSTEM, 14, golden, np.zeros_like(golden), [(10, past)], "again"))
    assert "last events of the units that differ" in text
    assert "cycle 11 loop2 take: LOOP_TAKE peer 2" in text and "loop1" not in text

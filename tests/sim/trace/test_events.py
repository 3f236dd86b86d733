"""Trace words ↔ raw events ↔ rows, against encodings made by hand."""

import numpy as np
import pytest

from lethe.spec import trace as layout
from lethe.spec.config import System
from lethe.spec.events import (
    LANE_ACCEPT,
    LANE_FRAGMENT,
    LANE_RX,
    LANE_TX,
    LOOP_ACCEPT,
    LOOP_TAKEN,
    Drop,
    Event,
    Kind,
)
from lethe.spec.services.loop import LOOP
from lethe.spec.trace import event_hash
from lethe.spec.wire import pack_uid
from lethe_sim.trace import RAW_EVENT, SCHEMA, decode, digest, encode, events_from_words

TREE = System.make(topology={"kind": "tree", "arity": 2, "levels": 2})
UID = pack_uid(1, 1, 2, 3)


def ni_word(event: Event, detail: int = 0, peer: int = 0, length: int = 0, extra: int = 0) -> int:
    return event | detail << 8 | peer << 16 | length << 32 | extra << 48


def head(system: System, **fields: int) -> int:
    flit = system.format.flits({"kind": Kind.SEND, **fields})[0]
    return flit & (1 << layout.HEAD.bits) - 1


def raw(*rows: tuple) -> np.ndarray:
    return np.array(list(rows), RAW_EVENT)


def test_schema_is_the_specification():
    assert SCHEMA.names == [
        "run", "cycle", "unit", "port", "event", "uid", "peer", "length", "detail", "tag", "head",
    ]  # fmt: skip
    assert [field.nullable for field in SCHEMA] == [False] * 5 + [True] * 3 + [False] + [True] * 2


def test_ni_events():
    rows = decode(
        raw(
            (7, 1, LANE_RX, ni_word(Event.DROP, Drop.CRC), 0),
            (5, 1, LANE_ACCEPT, ni_word(Event.ACCEPT, Kind.SEND, 0, 0, extra=9), UID),
            (6, 1, LANE_TX, ni_word(Event.ACK, 0, 0), UID),
            (8, 0, LANE_RX, ni_word(Event.RESET, 0, 0, 3), 0),
            (9, 0, LANE_FRAGMENT, ni_word(Event.FRAGMENT), 0),
        ),
        TREE,
        "here",
    ).to_pylist()
    base = {"run": "here", "unit": 1, "detail": 0, "tag": None, "head": None}
    assert rows[0] == base | {
        "cycle": 5, "port": LANE_ACCEPT, "event": Event.ACCEPT, "uid": UID, "peer": 0, "length": 0, "detail": 1,
        "tag": 9,
    }  # fmt: skip
    assert rows[1] == base | {"cycle": 6, "port": 0, "event": Event.ACK, "uid": UID, "peer": 0, "length": None}
    assert rows[2] == base | {
        "cycle": 7, "port": LANE_RX, "event": Event.DROP, "uid": None, "peer": None, "length": None, "detail": Drop.CRC,
    }  # fmt: skip
    assert rows[3]["length"] == 3 and rows[3]["peer"] is None
    assert rows[4]["event"] == Event.FRAGMENT and rows[4]["uid"] is None


def test_router_heads_name_their_datagram():
    """An Ack's datagram belongs to the node the Ack travels to."""
    send = head(TREE, source=1, destination=3, slot=2, generation=3, incarnation=1)
    ack = head(TREE, kind=Kind.ACK, source=3, destination=1, slot=2, generation=3, incarnation=1)
    rows = decode(
        raw(
            (1, 4, 1, Event.FORWARD | 2 << 8 | send << 16, 0),
            (2, 4, 1, Event.DISCARD_BUSY | ack << 16, 0),
            (3, 4, 0, Event.STRAY, 0),
            (4, 8, 0, Event.LOST, 0),
        ),
        TREE,
    ).to_pylist()
    assert [(r["uid"], r["peer"], r["detail"]) for r in rows] == [
        (UID, 3, 2),
        (UID, 1, 0),
        (None, None, 0),
        (None, None, 0),
    ]
    assert all(r["length"] is r["tag"] is None for r in rows)
    assert [r["head"] for r in rows] == [send, ack, 0, None]


@pytest.mark.parametrize("flit_bits, peer", [(16, 3), (32, 3)])
def test_narrow_heads_know_only_what_they_hold(flit_bits, peer):
    system = System.make(topology={"kind": "tree", "arity": 2, "levels": 2}, wire={"flit_bits": flit_bits})
    word = head(system, source=1, destination=3, slot=2, generation=3, incarnation=1)
    (row,) = decode(raw((1, 4, 0, Event.FORWARD | word << 16, 0)), system).to_pylist()
    whole = flit_bits >= 3 + 2 + 2 + 4 + 12 + 4
    assert row["uid"] == (UID if whole else None) and row["peer"] == peer


def test_words_to_events():
    places, graph = TREE.layout, TREE.graph
    words = np.zeros((3, places.words), np.uint64)
    words[1, 2 * places.ni_words + 2] = ni_word(Event.DELIVER, 0, 1, 8)
    words[1, 2 * places.ni_words + 3] = UID
    words[1, 2 * places.ni_words + layout.NI_FLAGS] = 0x3FF  # flags, flits and beats are no events
    words[1, 2 * places.ni_words + layout.NI_FLIT] = 0x1234
    words[2, places.router_base(1) + 3] = Event.FORWARD | 1 << 8
    links = places.link_base
    words[0, links + 1] = Event.LOST << 8 * 3
    expected = raw(
        (10, graph.nodes + graph.routers + 11, 0, Event.LOST, 0),
        (11, 2, LANE_RX, ni_word(Event.DELIVER, 0, 1, 8), UID),
        (12, graph.nodes + 1, 3, Event.FORWARD | 1 << 8, 0),
    )
    assert events_from_words(words, places, first_cycle=10).tolist() == expected.tolist()


def test_words_of_services():
    """A service's lanes are rows of its own unit, behind all others; its flags and its beat are no events."""
    system = TREE.replace(loop={"slots": 2})
    places = system.layout
    own = pack_uid(3, 1, system.ni.slots, 0)
    words = np.zeros((2, places.words), np.uint64)
    first = places.service_place(3, 0)
    words[0, first : first + 2] = ni_word(Event.LOOPED, 0, 3, 8, 77), own
    words[0, first + 2 * LOOP_TAKEN] = ni_word(Event.LOOP_TAKE, 0, 3, 5)
    words[1, places.service_place(0, 0) + 2 * LOOP_ACCEPT] = ni_word(Event.LOOP_RESET, length=1)
    words[:, first + LOOP.flags : first + LOOP.words] = 0xFFFF
    words[1, 0] = ni_word(Event.ACK)
    unit = places.service_unit(3, 0)
    events = events_from_words(words, places, first_cycle=4)
    assert events.tolist() == [
        (4, unit, LOOP_ACCEPT, ni_word(Event.LOOPED, 0, 3, 8, 77), own),
        (4, unit, LOOP_TAKEN, ni_word(Event.LOOP_TAKE, 0, 3, 5), 0),
        (5, 0, LANE_TX, ni_word(Event.ACK), 0),
        (5, places.service_unit(0, 0), LOOP_ACCEPT, ni_word(Event.LOOP_RESET, length=1), 0),
    ]
    rows = decode(events, system)
    assert (encode(rows, system) == events).all()
    stored, taken, _, reset = rows.to_pylist()
    assert (stored["uid"], stored["peer"], stored["length"], stored["tag"], stored["head"]) == (own, 3, 8, 77, None)
    assert (taken["uid"], taken["peer"], taken["length"], taken["tag"]) == (None, 3, 5, None)
    assert (reset["uid"], reset["peer"], reset["length"], reset["tag"]) == (None, None, 1, None)


def test_words_of_another_graph_are_refused():
    with pytest.raises(ValueError, match=r"rows of \d+ words, not of shape \(2, 5\)"):
        events_from_words(np.zeros((2, 5), np.uint64), TREE.layout)


def test_wire_has_no_routers():
    places = System.make(topology={"kind": "wire"}).layout
    words = np.zeros((1, places.words), np.uint64)
    words[0, places.link_base] = Event.DEAD << 8
    assert events_from_words(words, places).tolist() == [(0, 3, 0, Event.DEAD, 0)]


def test_digest_is_the_specification():
    events = raw((5, 1, 2, ni_word(Event.ACCEPT, 1, 3, 8, 77), UID), (2**40, 70_000, 3, 2**64 - 1, 2**60 - 1))
    assert digest(events) == sum(event_hash(*map(int, row)) for row in events.tolist()) % 2**64

"""Ladders of lives made by hand: every fate, in words and in place."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lethe.spec import trace as layout
from lethe.spec.config import System
from lethe.spec.events import LANE_ACCEPT, LANE_COMPLETE, LANE_RX, LANE_TX, Drop, Event, Kind
from lethe.spec.stages import ACTS
from lethe.spec.wire import pack_uid
from lethe_sim.trace import RAW_EVENT, SCHEMA, TraceError, TraceWriter
from lethe_sim.trace.ladder import find, listing, text_ladder

# Nodes 0 and 3 meet at the top: three routers, of which the first is router 0.
SYSTEM = System.make(topology={"kind": "tree", "arity": 2, "levels": 2}, run={"name": "ladder"})
NODES, ROUTERS = SYSTEM.nodes, SYSTEM.graph.routers
UID = pack_uid(0, 1, 2, 3)
FLITS = SYSTEM.format.send_flits(8)


def word(event: Event, detail: int = 0, peer: int = 0, length: int = 0) -> int:
    return event | detail << 8 | peer << 16 | length << 32


def send(cycle: int, tries: int = 0):
    return cycle, 0, LANE_TX, word(Event.SEND, tries, 3, 8), UID


def at_router(cycle: int, router: int, port: int, event: Event, detail: int = 0):
    head = SYSTEM.format.flits(
        {"kind": Kind.SEND, "destination": 3, "source": 0, "slot": 2, "generation": 3, "incarnation": 1}
    )[0]
    return cycle, NODES + router, port, event | detail << 8 | (head & (1 << layout.HEAD.bits) - 1) << 16, 0


def at_link(cycle: int, link: int, event: Event):
    return cycle, NODES + ROUTERS + link, 0, int(event), 0


def arrival(launched: int) -> int:
    return launched + FLITS - 1 + 3 * SYSTEM.router.latency + ACTS


def up_and_over(cycle: int):
    """A head's way from node 0 to node 3 by the first up-port: router 0, router 2, router 1."""
    return [
        at_router(cycle, 0, 0, Event.FORWARD, 2),
        at_router(cycle + 1, 2, 0, Event.FORWARD, 1),
        at_router(cycle + 2, 1, 2, Event.FORWARD, 1),
    ]


LIFE = [
    (5, 0, LANE_ACCEPT, word(Event.ACCEPT, Kind.SEND, 3, 8), UID),
    send(10),
    at_link(10, 0, Event.LOST),
    send(100, 1),
    at_router(100, 0, 0, Event.DISCARD_UP),
    send(200, 2),
    *up_and_over(200)[:1],
    at_router(201, 2, 0, Event.DISCARD_CONTENTION),
    send(300, 3),
    *up_and_over(300),
    (arrival(300), 3, LANE_RX, word(Event.DROP, Drop.DELIVER_FULL, 0, 8), UID),
    send(400, 4),
    *up_and_over(400),
    (arrival(400), 3, LANE_RX, word(Event.DROP, Drop.CRC), 0),
    send(500, 5),
    *up_and_over(500),
    send(600, 6),
    *up_and_over(600),
    (arrival(600), 3, LANE_RX, word(Event.DELIVER, 0, 0, 8), UID),
    (690, 0, LANE_RX, word(Event.REPEAT, 7, 3), UID),
    (800, 0, LANE_RX, word(Event.GIVE_UP, 1, 3), UID),
    (802, 0, LANE_COMPLETE, word(Event.COMPLETE, 1 << 4 | 1, 3), UID),
    (900, 3, LANE_RX, word(Event.ORPHAN, 0, 0), UID),
]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "ladder.parquet"
    with TraceWriter(path, SYSTEM) as writer:
        writer.append(np.array(LIFE, RAW_EVENT))
        writer.finish(cycles=1000, drained=True)
    return path


def test_fates(trace):
    life = find(trace, "0:1:2:3")
    assert [(worm.launched, worm.arrived, worm.fate) for worm in life.worms] == [
        (10, None, "lost on link0 node0→router0.0"),
        (100, None, "router0: no up-port free"),
        (200, None, "router2: lost the draw"),
        (300, arrival(300), "dropped: deliver full"),
        (400, None, "dropped by node 3: crc"),
        (500, None, "damaged on its way to node 3"),
        (600, arrival(600), "delivered, Ack queued"),
    ]
    assert [worm.name for worm in life.worms[:2]] == ["Send", "Send (repeat 1)"]
    progress = [worm.progress for worm in life.worms[:3]]
    assert progress == sorted(progress) and progress[0] > 0
    assert [(note.cycle, note.at_sender, note.text) for note in life.notes] == [
        (5, True, "accepted"),
        (690, True, "time-out: repeat"),
        (800, True, "given up: retry limit"),
        (802, True, "completed UNKNOWN (retry limit)"),
        (900, False, "sender silent: entry reclaimed"),
    ]


def test_text(trace):
    lines = text_ladder(trace).splitlines()
    assert lines[0] == "datagram 0:1:2:3: node 0 to node 3, 8 bytes"
    assert any("╳" in line and "no up-port free" in line for line in lines)
    assert any("▶" in line and "delivered" in line for line in lines)
    bars = {(line.index("│"), line.rindex("│")) for line in lines if line.count("│") == 2}
    assert len(bars) == 1, "the two lines are straight"


@pytest.mark.parametrize("which", ["unlucky", str(UID), hex(UID), "0:1:2:3"])
def test_ways_to_name_it(trace, which):
    assert find(trace, which).uid == UID


@pytest.mark.parametrize(
    "which, told",
    [
        ("lucky", "'lucky' is no UID; give source:incarnation:slot:generation"),
        ("1:2:3", "is no UID"),
        ("1:999:3:4", "is no UID"),
        ("0", "is no UID"),
        ("1:1:0:0", "no datagram 1:1:0:0 in this trace; the nearest is 0:1:2:3, and `lethe ladder .* --list` names"),
    ],
)
def test_errors(trace, which, told):
    with pytest.raises(TraceError, match=f"ladder.parquet: .*{told}"):
        find(trace, which)


def test_the_nearest_is_that_of_the_same_node_and_slot(tmp_path):
    path = tmp_path / "three.parquet"
    uids = [pack_uid(*uid) for uid in ((0, 1, 2, 3), (1, 1, 2, 3), (1, 1, 2, 9))]
    rows = [(cycle, 0, LANE_ACCEPT, word(Event.ACCEPT, Kind.SEND, 3, 8), uid) for cycle, uid in enumerate(uids)]
    rows += [(9, 0, LANE_TX, word(Event.SEND, 0, 3, 8), uids[1]), (10, 0, LANE_TX, word(Event.SEND, 1, 3, 8), uids[1])]
    with TraceWriter(path, SYSTEM) as writer:
        writer.append(np.array([*rows, (11, 0, LANE_TX, word(Event.SEND, 0, 3, 8), uids[0])], RAW_EVENT))
        writer.finish(cycles=20, drained=True)
    for which, nearest in (
        ("1:1:2:8", "1:1:2:9"),
        ("1:1:0:0", "1:1:2:3"),
        ("0:0:0:0", "0:1:2:3"),
        ("9:9:9:9", "1:1:2:9"),
    ):
        with pytest.raises(TraceError, match=f"no datagram {which} in this trace; the nearest is {nearest}, and"):
            find(path, which)
    assert listing(path) == "1:1:2:3  sent 2 times\n0:1:2:3  sent 1 time\nof 2 datagrams"


def test_nothing_ever_sent(tmp_path):
    path = tmp_path / "empty.parquet"
    with TraceWriter(path, SYSTEM) as writer:
        writer.finish(cycles=1, drained=True)
    with pytest.raises(TraceError, match="no datagram that was ever sent"):
        find(path, "unlucky")


def test_a_uid_that_came_round(tmp_path):
    """The life that was sent most often is drawn, alone."""
    path = tmp_path / "round.parquet"
    accept = (word(Event.ACCEPT, Kind.SEND, 3, 8), UID)
    rows = [(1, 0, LANE_ACCEPT, *accept), send(3), (50, 0, LANE_ACCEPT, *accept), send(52), send(90, 1)]
    with TraceWriter(path, SYSTEM) as writer:
        writer.append(np.array(rows, RAW_EVENT))
        writer.finish(cycles=200, drained=True)
    life = find(path, "0:1:2:3")
    assert [note.cycle for note in life.notes] == [50] and [worm.launched for worm in life.worms] == [52, 90]


@pytest.mark.parametrize("column", SCHEMA.names)
def test_cells_that_are_null(trace, column):
    """Whole columns and single cells: a ladder or an error, never another's exception."""
    file = pq.read_table(trace)
    metadata = pq.ParquetFile(trace).metadata.metadata
    place = file.column_names.index(column)
    values = file[column].to_pylist()
    for bent in ([None] * len(values), [None, *values[1:]], [*values[:-1], None]):
        cells = pa.array(bent, file.schema.field(column).type)
        pq.write_table(file.set_column(place, column, cells).replace_schema_metadata(metadata), trace)
        for ask in (text_ladder, listing, lambda path: find(path, "0:1:2:4")):
            with suppress(TraceError):
                ask(trace)

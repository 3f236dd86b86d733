"""Raw events, as both sides record them, and the Arrow table that a trace is.

A raw event is (cycle, unit, lane, word, uid): the non-zero trace words of `docs/reference/cycle-contract.md`, 7.
Rows hold all of it: `encode` is the inverse of `decode`, so that a digest can be taken from rows.
"""

import numpy as np
import pyarrow as pa

from lethe.spec import trace as layout
from lethe.spec.config import System
from lethe.spec.events import EVENTS, TRACE_COLUMNS, UNREADABLE, Column, Event, Kind
from lethe.spec.wire import UID_BITS, UID_GENERATION_SHIFT, UID_INCARNATION_SHIFT, UID_SLOT_SHIFT, UID_SOURCE_SHIFT

#: One raw event.  ``lane`` is that of the NI, router or service, or 0; ``uid`` is 0 at routers and links.
RAW_EVENT = np.dtype([("cycle", "<i8"), ("unit", "<i4"), ("lane", "<i2"), ("word", "<u8"), ("uid", "<u8")])

_ARROW = {"string": pa.string(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}

#: The Arrow schema of every trace.
SCHEMA = pa.schema([pa.field(name, _ARROW[kind], nullable=nullable) for name, kind, nullable, _ in TRACE_COLUMNS])

# By event code: the columns that mean something, in which a cell of 0 is no null.
_COLUMNS = np.zeros(1 << layout.EVENT.bits, np.int8)
for _event, _facts in EVENTS.items():
    _COLUMNS[_event] = _facts.columns.value
_NO_PEER_DROP = np.isin(np.arange(1 << layout.DETAIL.bits), UNREADABLE)


def decode(events: np.ndarray, system: System, run: str | None = None) -> pa.Table:
    """The trace table of raw events, ordered by (cycle, unit, port).

    ``run`` names the rows; by default it is the system's ``run.name``.  A router's events carry UID and peer
    (the worm's destination) if the header fields they need lie in the head bits that a trace word holds.
    """
    events = events[np.lexsort((events["lane"], events["unit"], events["cycle"]))]
    columns = [pa.repeat(run or system.run.name, len(events))]
    for field, (values, null) in zip(list(SCHEMA)[1:], cells(events, system).values(), strict=True):
        columns.append(pa.array(np.ascontiguousarray(values), field.type, mask=null))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def encode(rows: pa.Table | pa.RecordBatch, system: System) -> np.ndarray:
    """The raw events of rows, in the order of the rows: what `decode` made them from.

    A null counts as 0, and of a number only the bits that its field has.
    """
    events = np.empty(len(rows), RAW_EVENT)
    column = {name: filled(rows[name])[0] for name in SCHEMA.names if name != "run"}
    events["cycle"], events["unit"], events["lane"] = column["cycle"], column["unit"], column["port"]
    named, at_link = _sorts(events["unit"], system)
    word = _field(column["event"], layout.EVENT)
    word |= np.where(at_link, np.uint64(0), _field(column["detail"], layout.DETAIL))
    of_lane = _field(column["peer"], layout.PEER)
    of_lane |= _field(column["length"], layout.LENGTH)
    of_lane |= _field(column["tag"], layout.EXTRA)
    of_router = _field(column["head"], layout.HEAD)
    of_router[at_link] = 0
    events["word"] = word | np.where(named, of_lane, of_router)
    events["uid"] = np.where(named, column["uid"] & ((1 << UID_BITS) - 1), 0)
    return events


def filled(column: pa.Array | pa.ChunkedArray, instead: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
    """A column's values, ``instead`` where it is null, and where it is null (None: nowhere)."""
    if not column.null_count:
        return column.to_numpy(), None
    return column.fill_null(instead).to_numpy(), column.is_null().to_numpy(zero_copy_only=False)


def cells(events: np.ndarray, system: System) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """The cells of raw events by column, all but ``run``: values, 0 where null, and where they are null."""
    word, unit = events["word"], events["unit"]
    event = layout.EVENT.of(word).astype(np.int16)
    detail = layout.DETAIL.of(word).astype(np.int32)
    named, at_link = _sorts(unit, system)
    at_router = ~(named | at_link)
    detail[at_link] = 0

    uid = np.where(named, events["uid"], 0).astype(np.int64)
    peer = np.where(named, layout.PEER.of(word), 0).astype(np.int32)
    length = np.where(named, layout.LENGTH.of(word), 0).astype(np.int32)
    tag = np.where(named, layout.EXTRA.of(word), 0).astype(np.int32)
    head = np.where(at_router, layout.HEAD.of(word), 0).astype(np.int64)

    of_event = _COLUMNS[event]

    def silent(column: Column) -> np.ndarray:
        return of_event & column.value == 0

    no_peer = silent(Column.PEER)
    no_peer |= (event == Event.DROP) & _NO_PEER_DROP[detail]
    peer_null = ~named | (no_peer & (peer == 0))
    length_null = ~named | (silent(Column.LENGTH) & (length == 0))
    tag_null = ~named | (silent(Column.TAG) & (tag == 0))

    heads = np.flatnonzero(at_router & ~silent(Column.HEAD))
    if len(heads):
        uid[heads], peer[heads], knows_peer = _heads(head[heads], system)
        peer_null[heads] = not knows_peer
    return {
        "cycle": (events["cycle"], None),
        "unit": (unit, None),
        "port": (events["lane"], None),
        "event": (event, None),
        "uid": (uid, uid == 0),
        "peer": (peer, peer_null),
        "length": (length, length_null),
        "detail": (detail, None),
        "tag": (tag, tag_null),
        "head": (head, ~at_router),
    }


def _sorts(unit: np.ndarray, system: System) -> tuple[np.ndarray, np.ndarray]:
    """Of each unit whether its events name datagrams (NIs, services), and whether it is a link."""
    graph, first_service = system.graph, system.layout.first_service
    named, at_link = unit < graph.first_router, unit >= graph.first_link
    if system.services:
        named, at_link = named | (unit >= first_service), at_link & (unit < first_service)
    return named, at_link


def head_fields(system: System) -> dict[str, tuple[int, int]]:
    """Header fields, as (offset, width), that lie wholly in the head bits of a router's trace word."""
    visible = min(system.format.flit_bits, layout.HEAD.bits)
    return {f.name: (f.offset, f.width) for f in system.format.common if f.offset + f.width <= visible}


def _heads(head: np.ndarray, system: System) -> tuple[np.ndarray, np.ndarray | int, bool]:
    """(uid, 0 if it is not known; destination; whether that is known) of heads."""
    fields = head_fields(system)
    known = {name: head >> offset & ((1 << width) - 1) for name, (offset, width) in fields.items()}
    destination = known.get("destination", 0)
    if not {"kind", "destination", "source", "slot", "generation", "incarnation"} <= known.keys():
        return np.zeros(len(head), np.int64), destination, "destination" in known
    # An Ack and a REJECT travel towards the source of their datagram; everything else comes from it.
    origin = np.where(np.isin(known["kind"], (Kind.ACK, Kind.REJECT)), destination, known["source"])
    uid = (
        origin << UID_SOURCE_SHIFT
        | known["incarnation"] << UID_INCARNATION_SHIFT
        | known["slot"] << UID_SLOT_SHIFT
        | known["generation"] << UID_GENERATION_SHIFT
    )
    return uid, destination, True


def _field(values: np.ndarray, field: layout.Bits) -> np.ndarray:
    """Words with values in a field."""
    return (values.astype(np.int64) & ((1 << field.bits) - 1)).astype(np.uint64) << np.uint64(field.shift)


def digest(events: np.ndarray) -> int:
    """Sum mod 2^64 of `spec.trace.event_hash` over raw events: the digest of a run, or of a part of it."""
    with np.errstate(over="ignore"):
        place = (events["unit"].astype(np.uint64) << np.uint64(8)) | events["lane"].astype(np.uint64)
        h = mix(events["cycle"].astype(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15) + place)
        h = mix((h ^ events["word"]) + events["uid"] * np.uint64(0xD6E8_FEB8_6659_FD93))
        return int(h.sum(dtype=np.uint64))


def mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of `lethe.spec.trace.mix64`, for arrays."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D0_49BB_1331_11EB)
    return x ^ x >> np.uint64(31)

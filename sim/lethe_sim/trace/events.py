"""Raw events, as both sides record them, and the Arrow table that a trace is.

A raw event is (cycle, unit, lane, word, uid): the non-zero trace words of `docs/cycle-contract.md`, section 7.
Decoding loses two things that no column has room for: the host's tag, and where the bits of a head are not UID
or destination.  The digest is taken over the raw events, so it sees them.
"""

import numpy as np
import pyarrow as pa

from lethe.spec import trace as layout
from lethe.spec.config import System
from lethe.spec.events import TRACE_COLUMNS, Drop, Event, Kind
from lethe.spec.wire import UID_GENERATION_SHIFT, UID_INCARNATION_SHIFT, UID_SLOT_SHIFT, UID_SOURCE_SHIFT

#: One raw event.  ``lane`` is the NI's lane, the router's lane, or 0; ``uid`` is 0 outside NIs.
RAW_EVENT = np.dtype([("cycle", "<i8"), ("unit", "<i4"), ("lane", "<i2"), ("word", "<u8"), ("uid", "<u8")])

_ARROW = {"string": pa.string(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}

#: The Arrow schema of every trace.
SCHEMA = pa.schema([pa.field(name, _ARROW[kind], nullable=nullable) for name, kind, nullable, _ in TRACE_COLUMNS])

# NI events that speak of a payload; elsewhere a length of 0 is no length.
_WITH_LENGTH = (
    Event.SEND, Event.BE, Event.DELIVER, Event.DELIVER_BE, Event.DUPLICATE, Event.ACCEPT, Event.TAKE, Event.RESET,
)  # fmt: skip
# NI events, and drop reasons, that do not know the other node.
_NO_PEER = (Event.RESET, Event.FRAGMENT)
_NO_PEER_DROPS = (Drop.RESETTING, Drop.CRC, Drop.KIND, Drop.LENGTH)
_HEAD_FATES = (
    Event.FORWARD, Event.DISCARD_BUSY, Event.DISCARD_CONTENTION, Event.DISCARD_UP, Event.DISCARD_ROUTE,
    Event.DISCARD_FULL,
)  # fmt: skip


def decode(events: np.ndarray, system: System, run: str | None = None) -> pa.Table:
    """The trace table of raw events, ordered by (cycle, unit, port).

    ``run`` names the rows; by default it is the system's ``run.name``.  A router's events carry UID and peer
    (the worm's destination) if the header fields they need lie in the head bits that a trace word holds.
    """
    events = events[np.lexsort((events["lane"], events["unit"], events["cycle"]))]
    graph = system.graph
    word, unit = events["word"], events["unit"]
    event = (word & np.uint64(0xFF)).astype(np.int16)
    detail = _bits(word, *layout.DETAIL).astype(np.int32)
    at_ni, at_link = unit < graph.nodes, unit >= graph.nodes + graph.routers

    uid = np.where(at_ni, events["uid"], 0).astype(np.int64)
    peer = np.where(at_ni, _bits(word, *layout.PEER), 0).astype(np.int32)
    length = np.where(at_ni, _bits(word, *layout.LENGTH), 0).astype(np.int32)
    drop_without = (event == Event.DROP) & np.isin(detail, _NO_PEER_DROPS)
    peer_known = at_ni & ((peer != 0) | ~(np.isin(event, _NO_PEER) | drop_without))
    length_known = at_ni & ((length != 0) | np.isin(event, _WITH_LENGTH))

    heads = ~at_ni & ~at_link & np.isin(event, _HEAD_FATES)
    if heads.any():
        uid[heads], peer[heads], knows_uid, knows_peer = _heads(word[heads] >> np.uint64(layout.HEAD_SHIFT), system)
        peer_known[heads] = knows_peer
        if not knows_uid:
            uid[heads] = 0
    detail[at_link] = 0
    columns = [
        pa.repeat(run or system.run.name, len(events)),
        events["cycle"],
        unit,
        events["lane"],
        event,
        pa.array(uid, mask=uid == 0),
        pa.array(peer, mask=~peer_known),
        pa.array(length, mask=~length_known),
        detail,
    ]
    return pa.Table.from_arrays(
        [c if isinstance(c, pa.Array) else pa.array(np.ascontiguousarray(c)) for c in columns], schema=SCHEMA
    )


def head_fields(system: System) -> dict[str, tuple[int, int]]:
    """Header fields, as (offset, width), that lie wholly in the head bits of a router's trace word."""
    visible = min(system.format.flit_bits, layout.HEAD_BITS)
    return {f.name: (f.offset, f.width) for f in system.format.common if f.offset + f.width <= visible}


def _heads(data: np.ndarray, system: System) -> tuple[np.ndarray, np.ndarray, bool, bool]:
    """(uid, destination, whether UIDs are known, whether destinations are) of heads."""
    fields = head_fields(system)
    known = {name: _bits(data, *place).astype(np.int64) for name, place in fields.items()}
    destination = known.get("destination", np.zeros(len(data), np.int64))
    if not {"source", "slot", "generation", "incarnation"} <= known.keys():
        return np.zeros(len(data), np.int64), destination.astype(np.int32), False, "destination" in known
    # An Ack travels towards the source of its datagram; everything else comes from it.
    origin = np.where(known["kind"] == Kind.ACK, destination, known["source"])
    uid = (
        origin << UID_SOURCE_SHIFT
        | known["incarnation"] << UID_INCARNATION_SHIFT
        | known["slot"] << UID_SLOT_SHIFT
        | known["generation"] << UID_GENERATION_SHIFT
    )
    return uid, destination.astype(np.int32), True, True


def _bits(word: np.ndarray, offset: int, width: int) -> np.ndarray:
    return word >> np.uint64(offset) & np.uint64((1 << width) - 1)


def digest(events: np.ndarray) -> int:
    """Sum mod 2^64 of `spec.trace.event_hash` over raw events: the digest of a run, or of a part of it."""
    with np.errstate(over="ignore"):
        place = (events["unit"].astype(np.uint64) << np.uint64(8)) | events["lane"].astype(np.uint64)
        h = _mix(events["cycle"].astype(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15) + place)
        h = _mix((h ^ events["word"]) + events["uid"] * np.uint64(0xD6E8_FEB8_6659_FD93))
        return int(h.sum(dtype=np.uint64))


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D0_49BB_1331_11EB)
    return x ^ x >> np.uint64(31)

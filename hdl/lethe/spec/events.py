"""Events, drop reasons, completion statuses and counters: everything that can be seen to happen.

One event is one row of a trace, whichever side wrote it (`TRACE_COLUMNS`).  The same codes travel on
the NI's trace lanes, so that lockstep, pipeline and reports speak one language.
"""

import enum
from typing import NamedTuple


class Kind(enum.IntEnum):
    """Message kinds, as the 3-bit field on the wire (IMP-14, IMP-15, IMP-16, RELM-02)."""

    SEND = 1  # carries a datagram that is to be delivered exactly once
    ACK = 2  # the receiver has committed it
    FORGET = 3  # the sender has forgotten it, so the receiver may
    BE = 4  # carries a datagram once, without any state
    RESERVED = 5  # dropped on arrival
    REJECT = 6  # reserved, dropped on arrival


class Mode(enum.IntEnum):
    """What a host asks for with a record."""

    EXACTLY_ONCE = 0  # a Send, repeated until it is acknowledged
    BEST_EFFORT = 1  # a BE, sent once


class Status(enum.IntEnum):
    """How a datagram ended for its sender."""

    ACCEPTED = 0  # committed to the receiver's deliver FIFO
    UNKNOWN = 1  # ended without an Ack: it may or may not have been delivered
    REJECTED = 2  # refused by the local NI before anything was sent
    NEVER_SENT = 3  # cancelled before its first flit left


class Cause(enum.IntEnum):
    """Why a datagram ended as it did."""

    NONE = 0  # it was acknowledged
    RETRY_LIMIT = 1  # repeated as often as its record allowed
    DEADLINE = 2  # not acknowledged in the time its record allowed
    CANCELLED = 3  # its host gave it up
    BEST_EFFORT = 4  # sent once, which is all that was asked
    DESTINATION = 5  # no such node, or the node itself
    LENGTH = 6  # longer than the MTU
    MODE = 7  # a mode that is not defined


class Drop(enum.IntEnum):
    """Why an arriving message was not acted on.  Order is the order of the checks."""

    NONE = 0  # it was acted on
    CRC = 1  # the check failed
    KIND = 2  # no kind that travels, or a Send in one flit
    LENGTH = 3  # flits and length field disagree, or it is longer than the MTU
    MISROUTED = 4  # for another node
    SOURCE = 5  # from no node, or from this one
    SLOT = 6  # an Ack for a slot that does not exist
    EXTENSION = 7  # mode and kind disagree, or an extension that is not defined
    INCARNATION = 8  # a Send that expects another incarnation of this node
    TABLE_FULL = 9  # no entry free for a new datagram
    DELIVER_FULL = 10  # no room for its payload or record
    TIMER_FULL = 11  # no room for its Ack timer
    RESETTING = 12  # the NI is initialising after a reset


class Event(enum.IntEnum):
    """What happened.  0 is "nothing" on a trace lane."""

    NOTHING = 0
    # NI, tx lane: in the cycle of the worm's first flit (KILLED: when it would have been).
    SEND = 1  # a Send leaves; detail: tries so far, 0 for the first
    ACK = 2  # an Ack leaves
    FORGET = 3  # a Forget leaves
    BE = 4  # a best-effort datagram leaves
    KILLED = 5  # a Send found its datagram ended when it was granted the link
    # NI, rx lane: in the cycle in which an arrived message or an internal request acts.
    DELIVER = 8  # a Send was committed: datagram entered, Ack queued
    DELIVER_BE = 9  # a best-effort message was committed
    DUPLICATE = 10  # a Send whose datagram is already here: Ack again
    DROP = 11  # an arriving message was not acted on; detail: Drop
    RELEASE = 12  # an Ack ended the datagram: Forget queued, completion queued
    ACK_IGNORED = 13  # an Ack for nothing live here: Forget queued (IMP-22)
    FORGOTTEN = 14  # a Forget erased the entry
    FORGET_IGNORED = 15  # a Forget matched nothing
    REPEAT = 16  # the repeat timer expired: a Send is queued again; detail: tries
    ACK_REPEAT = 17  # the Ack timer expired: an Ack is queued again; detail: tries
    GIVE_UP = 18  # ended without an Ack; detail: Cause
    ORPHAN = 19  # an entry whose sender fell silent was reclaimed
    # NI, host lanes.
    ACCEPT = 24  # the datagram is fully stored; detail: Kind it will travel as
    COMPLETE = 25  # the completion was taken; detail: Status << 4 | Cause
    TAKE = 26  # the host took the record from the deliver FIFO
    RESET = 27  # the NI was reset; length: deliver records lost with it
    # Fabric.
    FORWARD = 32  # a head won its output; detail: output port
    DISCARD_BUSY = 33  # its output carries another worm
    DISCARD_CONTENTION = 34  # it lost the draw
    DISCARD_UP = 35  # no up-port was free
    DISCARD_ROUTE = 36  # no legal output
    STRAY = 37  # a flit without a worm (the rest of a fragment)
    FRAGMENT = 38  # a worm that ended without its last flit
    OVERLONG = 39  # a worm longer than any legal one was cut
    LOST = 40  # random loss on the link
    DEAD = 41  # the link was dead
    FLIP = 42  # a bit was flipped
    DISCARD_FULL = 43  # the queue of its input is full


#: Columns of a trace: name, Arrow/Spark type, nullable, meaning.
TRACE_COLUMNS = (
    ("run", "string", False, "name of the run; one file may hold several"),
    ("cycle", "int64", False, "cycle in which the event is visible, 0 is the first after reset"),
    ("unit", "int32", False, "NIs 0 … N−1, then routers, then links (Topology.unit_name)"),
    ("port", "int16", False, "NI: lane; router: input port, ports + input port for what its queue refuses; link: 0"),
    ("event", "int16", False, "spec.events.Event"),
    ("uid", "int64", True, "packed UID (spec.wire.pack_uid); null where the unit cannot know it"),
    ("peer", "int32", True, "the other node: destination at the sender, source at the receiver"),
    ("length", "int32", True, "payload bytes; null for control messages and fabric events"),
    ("detail", "int32", False, "per event, 0 unless Event says otherwise"),
    ("tag", "int32", True, "ACCEPT and COMPLETE: the host's tag; else null"),
    ("head", "int64", True, "router: low 48 bits of the head flit, 0 if none is shown; else null"),
)

#: Lanes that every NI has, the `port` column of its events, in the order of the trace words.  The take lanes of control
#: FIFOs come after them (`spec.trace.take_lane`).
LANE_NAMES = ("tx", "rx", "accept", "complete", "take", "fragment")
LANE_TX, LANE_RX, LANE_ACCEPT, LANE_COMPLETE, LANE_TAKE, LANE_FRAGMENT = range(len(LANE_NAMES))


class Counter(enum.IntEnum):
    """NI counters, one per pulse; the index is the address in the statistics block."""

    SENDS = 0
    ACKS = 1
    FORGETS = 2
    BEST_EFFORTS = 3
    KILLED = 4
    DELIVERED = 5
    DELIVERED_BE = 6
    DUPLICATES = 7
    RELEASED = 8
    ACKS_IGNORED = 9
    FORGOTTEN = 10
    FORGETS_IGNORED = 11
    REPEATS = 12
    ACK_REPEATS = 13
    GIVEN_UP = 14
    ORPHANS = 15
    DROP_CRC = 16
    DROP_KIND = 17
    DROP_LENGTH = 18
    DROP_MISROUTED = 19
    DROP_SOURCE = 20
    DROP_SLOT = 21
    DROP_EXTENSION = 22
    DROP_INCARNATION = 23
    DROP_TABLE_FULL = 24
    DROP_DELIVER_FULL = 25
    DROP_TIMER_FULL = 26
    DROP_RESETTING = 27
    REPLIES_DROPPED = 28
    FRAGMENTS = 29
    ACCEPTED = 30
    COMPLETED = 31


class RouterCounter(enum.IntEnum):
    """Router counters; the index is the address in the statistics block.  FULL is only there with input queues."""

    FORWARDED = 0
    BUSY = 1
    CONTENTION = 2
    UP = 3
    ROUTE = 4
    STRAY = 5
    FRAGMENT = 6
    OVERLONG = 7
    FULL = 8


class LinkCounter(enum.IntEnum):
    """What is counted of a link, in the golden model and in a trace's metadata."""

    LOST = 0
    DEAD = 1
    FLIPS = 2


class Unit(enum.IntEnum):
    """The sorts of units, in the order in which a trace numbers them (`Topology.first_router` and so on)."""

    NI = 0
    ROUTER = 1
    LINK = 2


class Column(enum.Flag):
    """Columns of a trace that mean something for some events only."""

    UID = enum.auto()
    PEER = enum.auto()
    LENGTH = enum.auto()
    TAG = enum.auto()
    HEAD = enum.auto()  # the head flit, and with it UID and peer as far as the head shows them


class Role(enum.Flag):
    """What an event is in the life of a worm or a datagram."""

    NONE = 0
    LAUNCH = enum.auto()  # a worm leaves its node
    ARRIVAL = enum.auto()  # a worm has arrived and acts, or does not
    LOSS = enum.auto()  # a worm disappears in a router or on a link
    END = enum.auto()  # the datagram has ended for its sender


class Facts(NamedTuple):
    """What is known of every occurrence of an event.

    Attributes
    ----------
    units : the sorts of units that show it
    columns : the columns that mean something for it
    role : what it is in the life of a worm or a datagram
    lane : the lane of the NI that shows it; a take lane stands for all of them
    worm : for a launch or an arrival, the kind of the worm (a BE travels as a Send does); None if that varies
    detail : the codes that its detail is one of; None for a number, or nothing
    counters : the counters that count it; those of DROP follow from its detail
    """

    units: tuple[Unit, ...]
    columns: Column
    role: Role = Role.NONE
    lane: int | None = None
    worm: Kind | None = None
    detail: type[enum.IntEnum] | None = None
    counters: tuple[Counter | RouterCounter | LinkCounter, ...] = ()


def _ni(lane: int, columns: Column, role: Role = Role.NONE, *, counter: Counter | None = None, **more) -> Facts:
    return Facts((Unit.NI,), columns, role, lane, counters=() if counter is None else (counter,), **more)


def _router(counter: RouterCounter, columns: Column = Column(0), role: Role = Role.NONE) -> Facts:
    return Facts((Unit.ROUTER,), columns, role, counters=(counter,))


def _link(counter: LinkCounter, role: Role = Role.NONE) -> Facts:
    return Facts((Unit.LINK,), Column(0), role, counters=(counter,))


_PEER, _LENGTH, _HEAD = Column.PEER, Column.LENGTH, Column.HEAD
_NAMED = Column.UID | Column.PEER
_PAYLOAD = _NAMED | Column.LENGTH

#: The one table of events.  Whatever names events by what they are derives from it.
EVENTS: dict[Event, Facts] = {
    Event.SEND: _ni(LANE_TX, _PAYLOAD, Role.LAUNCH, worm=Kind.SEND, counter=Counter.SENDS),
    Event.ACK: _ni(LANE_TX, _NAMED, Role.LAUNCH, worm=Kind.ACK, counter=Counter.ACKS),
    Event.FORGET: _ni(LANE_TX, _NAMED, Role.LAUNCH, worm=Kind.FORGET, counter=Counter.FORGETS),
    Event.BE: _ni(LANE_TX, _PAYLOAD, Role.LAUNCH, worm=Kind.SEND, counter=Counter.BEST_EFFORTS),
    Event.KILLED: _ni(LANE_TX, _NAMED, counter=Counter.KILLED),
    Event.DELIVER: _ni(LANE_RX, _PAYLOAD, Role.ARRIVAL, worm=Kind.SEND, counter=Counter.DELIVERED),
    Event.DELIVER_BE: _ni(LANE_RX, _PAYLOAD, Role.ARRIVAL, worm=Kind.SEND, counter=Counter.DELIVERED_BE),
    Event.DUPLICATE: _ni(LANE_RX, _PAYLOAD, Role.ARRIVAL, worm=Kind.SEND, counter=Counter.DUPLICATES),
    Event.DROP: _ni(LANE_RX, _NAMED, Role.ARRIVAL, detail=Drop),
    Event.RELEASE: _ni(LANE_RX, _NAMED, Role.ARRIVAL | Role.END, worm=Kind.ACK, counter=Counter.RELEASED),
    Event.ACK_IGNORED: _ni(LANE_RX, _NAMED, Role.ARRIVAL, worm=Kind.ACK, counter=Counter.ACKS_IGNORED),
    Event.FORGOTTEN: _ni(LANE_RX, _NAMED, Role.ARRIVAL, worm=Kind.FORGET, counter=Counter.FORGOTTEN),
    Event.FORGET_IGNORED: _ni(LANE_RX, _NAMED, Role.ARRIVAL, worm=Kind.FORGET, counter=Counter.FORGETS_IGNORED),
    Event.REPEAT: _ni(LANE_RX, _NAMED, counter=Counter.REPEATS),
    Event.ACK_REPEAT: _ni(LANE_RX, _NAMED, counter=Counter.ACK_REPEATS),
    Event.GIVE_UP: _ni(LANE_RX, _NAMED, Role.END, detail=Cause, counter=Counter.GIVEN_UP),
    Event.ORPHAN: _ni(LANE_RX, _NAMED, counter=Counter.ORPHANS),
    Event.ACCEPT: _ni(LANE_ACCEPT, _PAYLOAD | Column.TAG, detail=Kind, counter=Counter.ACCEPTED),
    Event.COMPLETE: _ni(LANE_COMPLETE, _NAMED | Column.TAG, counter=Counter.COMPLETED),
    Event.TAKE: _ni(LANE_TAKE, _PEER | _LENGTH),
    Event.RESET: _ni(LANE_RX, _LENGTH),
    Event.FORWARD: _router(RouterCounter.FORWARDED, _HEAD),
    Event.DISCARD_BUSY: _router(RouterCounter.BUSY, _HEAD, Role.LOSS),
    Event.DISCARD_CONTENTION: _router(RouterCounter.CONTENTION, _HEAD, Role.LOSS),
    Event.DISCARD_UP: _router(RouterCounter.UP, _HEAD, Role.LOSS),
    Event.DISCARD_ROUTE: _router(RouterCounter.ROUTE, _HEAD, Role.LOSS),
    Event.STRAY: _router(RouterCounter.STRAY),
    Event.FRAGMENT: Facts(
        (Unit.NI, Unit.ROUTER), Column(0), lane=LANE_FRAGMENT, counters=(Counter.FRAGMENTS, RouterCounter.FRAGMENT)
    ),
    Event.OVERLONG: _router(RouterCounter.OVERLONG),
    Event.LOST: _link(LinkCounter.LOST, Role.LOSS),
    Event.DEAD: _link(LinkCounter.DEAD, Role.LOSS),
    Event.FLIP: _link(LinkCounter.FLIPS),
    Event.DISCARD_FULL: _router(RouterCounter.FULL, _HEAD, Role.LOSS),
}


def events_with(*, role: Role = Role.NONE, columns: Column = Column(0), unit: Unit | None = None) -> tuple[Event, ...]:
    """The events that have this role, mean all of these columns, and can be shown by this sort of unit, by code."""
    return tuple(
        event
        for event, facts in EVENTS.items()
        if role in facts.role and columns in facts.columns and (unit is None or unit in facts.units)
    )


#: Events by which a worm leaves its node; by which it acts where it has arrived; by which it disappears on its way.
LAUNCHES, ARRIVALS, DISCARDS = (events_with(role=role) for role in (Role.LAUNCH, Role.ARRIVAL, Role.LOSS))
#: NI events whose UID is a datagram's.
OF_DATAGRAM = events_with(columns=Column.UID, unit=Unit.NI)
#: Drop reasons for which the header is not believed, so that UID and peer are not known.
UNREADABLE = (Drop.CRC, Drop.KIND, Drop.LENGTH, Drop.RESETTING)
#: Drop reasons of a sound Send: it names its datagram.
REFUSALS = (Drop.INCARNATION, Drop.TABLE_FULL, Drop.DELIVER_FULL, Drop.TIMER_FULL)

#: The detail of COMPLETE is a status, shifted by so many bits, and a cause.
CAUSE_BITS = 4
MOST_CAUSE = (1 << CAUSE_BITS) - 1

#: What each NI counter counts: an event, and for drops its detail.  REPLIES_DROPPED has no event of its own.
COUNTED: dict[Counter, tuple[Event, Drop]] = {
    **{c: (event, Drop.NONE) for event, facts in EVENTS.items() for c in facts.counters if isinstance(c, Counter)},
    **{Counter[f"DROP_{drop.name}"]: (Event.DROP, drop) for drop in Drop if drop},
}
#: What each router counter counts.  FRAGMENT has more: a worm that a head cut short.
ROUTER_COUNTED: dict[RouterCounter, Event] = {
    c: event for event, facts in EVENTS.items() for c in facts.counters if isinstance(c, RouterCounter)
}
#: What each link counter counts.
LINK_COUNTED: dict[LinkCounter, Event] = {
    c: event for event, facts in EVENTS.items() for c in facts.counters if isinstance(c, LinkCounter)
}


def bank(counters: type[enum.IntEnum], least: int = 1) -> int:
    """Addresses of one unit's counters: a power of two, at least ``least``, with room for all."""
    return max(least, 1 << (len(counters) - 1).bit_length())


#: Counter addresses of a router.
ROUTER_COUNTER_STEP = bank(RouterCounter, 16)
#: Counter addresses of an NI, a multiple of a router's.
COUNTER_STEP = bank(Counter, ROUTER_COUNTER_STEP)

"""Events, drop reasons, completion statuses and counters: everything that can be seen to happen.

One event is one row of a trace, whichever side wrote it (`TRACE_COLUMNS`).  The same codes travel on
the NI's trace lanes, so that lockstep, pipeline and reports speak one language.
"""

import enum
from collections.abc import Sized
from typing import NamedTuple


class Kind(enum.IntEnum):
    """Message kinds, as the 3-bit field on the wire (IMP-14, IMP-15, IMP-16, RELM-02)."""

    SEND = 1  # carries a datagram, to be delivered exactly once
    ACK = 2  # the receiver has committed the datagram
    FORGET = 3  # the sender has forgotten the datagram, so the receiver may forget it
    BE = 4  # carries a datagram once, without any state
    RESERVED = 5  # dropped on arrival
    REJECT = 6  # the receiver is not the incarnation that a Send expects; dropped on arrival without ni.reject


#: Kinds without a datagram, which let one end: a router can let them pass others (`router.control_first`).
CONTROL_KINDS = (Kind.ACK, Kind.FORGET, Kind.REJECT)


class Mode(enum.IntEnum):
    """What a host asks for with a record."""

    EXACTLY_ONCE = 0  # a Send, repeated until it is acknowledged
    BEST_EFFORT = 1  # a BE, sent once


class Status(enum.IntEnum):
    """How a datagram ended for its sender."""

    ACCEPTED = 0  # committed to the receiver's deliver FIFO
    UNKNOWN = 1  # ended without an Ack: it may or may not have been delivered
    REJECTED = 2  # refused by the local NI before anything was sent
    NEVER_SENT = 3  # nothing of it left: cancelled in time, or its destination is silent


class Cause(enum.IntEnum):
    """Why a datagram ended as it did."""

    NONE = 0  # an Ack came
    RETRY_LIMIT = 1  # repeated as often as the record allows, without an Ack
    DEADLINE = 2  # no Ack came within the deadline of the record
    CANCELLED = 3  # the host cancelled it
    BEST_EFFORT = 4  # sent once, as best effort; no Ack ever comes
    DESTINATION = 5  # the destination does not exist, or is the node itself
    LENGTH = 6  # the payload is longer than the MTU
    MODE = 7  # the mode is not defined
    CLASS = 8  # a data class, where only control is taken
    RESTARTED = 9  # the receiver is not the incarnation that it expects
    SILENT = 10  # its destination answers nothing any more, or is said to be dead
    NOT_BOUND = 11  # flow: the port that it is sent from is not bound to that number
    NOT_CONNECTED = 12  # flow: its peer is not up yet, or no more
    CONGESTED = 13  # flow: the port that it is sent to is congested
    BUFFER = 14  # flow: the socket has as many bytes or messages under way as it may; relay: no slot is free
    WINDOW = 15  # flow: its stream has no number or no credit for it now; relay: too many live messages of its stream


class Drop(enum.IntEnum):
    """Why an arriving message was not acted on.  Order is the order of the checks."""

    NONE = 0  # the message was acted on
    CRC = 1  # the CRC is wrong
    KIND = 2  # the kind does not travel, or a Send has one flit
    LENGTH = 3  # number of flits and length field disagree, or the payload is longer than the MTU
    MISROUTED = 4  # the destination is another node
    SOURCE = 5  # the source does not exist, or is this node
    SLOT = 6  # the slot of an Ack does not exist
    EXTENSION = 7  # mode and kind disagree, or the extension is not defined
    INCARNATION = 8  # a Send expects another incarnation of this node
    TABLE_FULL = 9  # the receive table has no free entry for a new datagram
    DELIVER_FULL = 10  # the deliver FIFO has no room for the payload or the record
    TIMER_FULL = 11  # the Ack ladder has no room for the time-out
    RESETTING = 12  # the NI is initialising its tables after a reset
    NOT_OPEN = 13  # a service refuses it: nobody there waits for it
    PORT_FULL = 14  # a service refuses it: the port that it is for has no room
    EARLY = 15  # a service refuses it: others must come before it


class Event(enum.IntEnum):
    """What happened.  0 is "nothing" on a trace lane."""

    NOTHING = 0
    # NI, tx lane: in the cycle of the worm's first flit (KILLED: when it would have been).
    SEND = 1  # a Send leaves; detail: number of repeats so far, 0 for the first Send
    ACK = 2  # an Ack leaves
    FORGET = 3  # a Forget leaves
    BE = 4  # a best-effort datagram leaves
    KILLED = 5  # a Send was granted the link and does not leave: its datagram has ended
    REJECT = 6  # a REJECT leaves
    # NI, rx lane: in the cycle in which an arrived message or an internal request acts.
    DELIVER = 8  # a Send was committed: entry made, Ack queued
    DELIVER_BE = 9  # a best-effort message was committed
    DUPLICATE = 10  # a Send arrived whose datagram has an entry: Ack queued again
    DROP = 11  # a message arrived and was dropped; detail: Drop
    RELEASE = 12  # an Ack ended the datagram: Forget and completion queued
    ACK_IGNORED = 13  # an Ack arrived whose datagram is not live: Forget queued (IMP-22)
    FORGOTTEN = 14  # a Forget erased its entry
    FORGET_IGNORED = 15  # a Forget arrived that has no entry
    REPEAT = 16  # a Send's time-out: a repeat is queued; detail: its number, 1 for the first
    ACK_REPEAT = 17  # an Ack's time-out: a repeat is queued; detail: its number, 1 for the first
    GIVE_UP = 18  # the datagram ended without an Ack; detail: Cause
    ORPHAN = 19  # an entry whose sender fell silent was reclaimed
    REJECT_IGNORED = 20  # a REJECT of nothing live here
    SWEPT = 21  # an entry was erased because a service sweeps its source away
    # NI, host lanes.
    ACCEPT = 24  # a datagram has been stored whole; detail: Kind of its message, SEND or BE
    COMPLETE = 25  # the host took a completion; detail: Status << 4 | Cause, so 17 is UNKNOWN, RETRY_LIMIT
    TAKE = 26  # the host took a record from a deliver FIFO
    RESET = 27  # the NI was reset; length: number of records lost in its deliver FIFOs
    # Fabric.
    FORWARD = 32  # a head won its output; detail: output port
    DISCARD_BUSY = 33  # a head was discarded: its output carries another worm
    DISCARD_CONTENTION = 34  # a head was discarded: another head won the draw for its output
    DISCARD_UP = 35  # a head was discarded: no up-port was free
    DISCARD_ROUTE = 36  # a head was discarded: no such destination, or no legal turn
    STRAY = 37  # a flit arrived without a head before it, for example the rest of a fragment
    FRAGMENT = 38  # a worm ended without its last flit
    OVERLONG = 39  # a worm was cut because it is longer than any message
    LOST = 40  # a worm was lost at random
    DEAD = 41  # a worm was lost because the link is dead
    FLIP = 42  # a bit of a flit was flipped
    DISCARD_FULL = 43  # a head was discarded: the queue of its input is full
    # Loop.
    LOOPED = 44  # a datagram to the own node has been stored whole, and is offered to its host
    LOOP_COMPLETE = 45  # the host took the completion of such a datagram; detail as of COMPLETE
    LOOP_TAKE = 46  # the host took its record
    LOOP_RESET = 47  # the loop was reset; length: number of records lost
    # Flow.
    FLOW_SEND = 64  # a message has its number; detail: the number
    FLOW_REFUSED = 65  # a message is refused; detail: Cause
    FLOW_CARRY = 66  # the datagram of a message has been stored whole; detail: the message's number
    FLOW_COMMIT = 67  # a message was accepted; detail: its number
    FLOW_IGNORED = 68  # a message was taken that is no use: it is there already, or its port is not bound
    FLOW_PLACE = 69  # a message has its place in the list of its port; detail: its number
    FLOW_TAKE = 70  # the host took a message's record; detail: its number
    FLOW_FLUSHED = 71  # a message left the list of a port that is bound no more; detail: its number
    FLOW_END = 72  # the host took a message's completion; detail as of COMPLETE
    FLOW_TOLD = 73  # a control word leaves; detail: its code
    FLOW_HEARD = 74  # a control word acts; detail: its code
    FLOW_CONGESTED = 75  # a port is congested (detail 1), or no more (0)
    FLOW_PEER = 76  # a peer has another state; detail: the state
    FLOW_RESET = 77  # flow was reset; length: number of messages lost
    # Relay.
    RELAY_SEND = 80  # a message has its uid, and is live at its origin
    RELAY_REFUSED = 81  # a message is refused; detail: Cause
    RELAY_HOP = 82  # a message's data go to the next hop; detail: 1 if not for the first time from here
    RELAY_POST = 83  # a message is posted: it waits for its host
    RELAY_PARK = 84  # a message waits for its predecessor
    RELAY_HUNGRY = 85  # a message finds no cell, and is dropped
    RELAY_TAKE = 86  # the host took a message's record
    RELAY_END = 87  # a message ended for its origin; detail: Status << 4 | Cause
    RELAY_TOLD = 88  # control goes to a hop; detail: its type and flags
    RELAY_DROPPED = 89  # control found its queue full; detail as of RELAY_TOLD
    RELAY_HEARD = 90  # control acts; detail as of RELAY_TOLD
    RELAY_IGNORED = 91  # a datagram of relay that says nothing that is taken
    RELAY_STALE = 92  # data from a node that is not on the way, or of a life that is over
    RELAY_NOTICE = 93  # the node was told of a death; detail: 1 if it has been promoted
    RELAY_OWED = 94  # a relay without a buffer drops data, and will ask for them
    RELAY_UNTRACKED = 95  # a relay has no room for a record of a message
    RELAY_EVICT = 96  # data are dropped for those of another message
    RELAY_EXPIRE = 97  # a record ends by its time
    RELAY_FORGOT = 98  # a record ends
    RELAY_RESET = 99  # relay was reset; length: number of messages lost at the Post
    RELAY_HALT = 100  # a beat in its memory is wrong, and relay halts; detail: 1 of a slot, 2 of a buffer, 4 of a cell


#: Lanes of a loop.
LOOP_LANES = ("accept", "complete", "take")
LOOP_ACCEPT, LOOP_DONE, LOOP_TAKEN = range(len(LOOP_LANES))

#: Lanes of flow.
FLOW_LANES = ("message", "carry", "arrive", "place", "take", "end", "control", "peer")
(
    FLOW_MESSAGE, FLOW_CARRIED, FLOW_ARRIVE, FLOW_PLACED, FLOW_TAKEN, FLOW_ENDED, FLOW_CONTROL, FLOW_PEERS,
) = range(len(FLOW_LANES))  # fmt: skip

#: Lanes of relay.
RELAY_LANES = ("message", "hop", "post", "take", "end", "told", "heard", "relay")
(
    RELAY_MESSAGE, RELAY_HOPS, RELAY_POSTS, RELAY_TAKEN, RELAY_ENDED, RELAY_TELLS, RELAY_HEARS, RELAY_RELAYS,
) = range(len(RELAY_LANES))  # fmt: skip

#: Columns of a trace: name, Arrow/Spark type, nullable, meaning.
TRACE_COLUMNS = (
    ("run", "string", False, "name of the run; one file may hold several"),
    ("cycle", "int64", False, "cycle in which the event is visible; 0 is the first cycle after reset"),
    ("unit", "int32", False, "NIs 0 … N−1, then routers, then links, then services by node (Layout.unit_name)"),
    (
        "port",
        "int16",
        False,
        "NI, service: lane; router: input port, ports + input port for what its queue refuses; link: 0",
    ),
    ("event", "int16", False, "code of the event (spec.events.Event)"),
    ("uid", "int64", True, "packed UID (spec.wire.pack_uid); null where the unit cannot know it"),
    ("peer", "int32", True, "the other node: the destination at a sender, the source at a receiver"),
    ("length", "int32", True, "payload bytes; null for control messages and fabric events"),
    ("detail", "int32", False, "depends on the event, see the table of events; else 0"),
    (
        "tag",
        "int32",
        True,
        "ACCEPT, COMPLETE, a loop: the host's tag; flow: tag, port or index; relay: tag or uid; else null",
    ),
    ("head", "int64", True, "router: low 48 bits of the head flit, 0 if none is shown; else null"),
)

#: Lanes that every NI has, the `port` column of its events, in the order of the trace words.  The take lanes of control
#: FIFOs come after them (`spec.trace.take_lane`).
LANE_NAMES = ("tx", "rx", "accept", "complete", "take", "fragment")
LANE_TX, LANE_RX, LANE_ACCEPT, LANE_COMPLETE, LANE_TAKE, LANE_FRAGMENT = range(len(LANE_NAMES))


class Counter(enum.IntEnum):
    """NI counters, one per pulse; the index is the address in the statistics block.  Those of
    `OPTIONAL_COUNTERS` are optional.
    """

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
    REJECTS = 32
    REJECTS_IGNORED = 33
    DROP_NOT_OPEN = 34
    DROP_PORT_FULL = 35
    DROP_EARLY = 36
    SWEPT = 37


class RouterCounter(enum.IntEnum):
    """Router counters; the index is the address in the statistics block.  FULL is only there with queues or a pool."""

    FORWARDED = 0
    BUSY = 1
    CONTENTION = 2
    UP = 3
    ROUTE = 4
    STRAY = 5
    FRAGMENT = 6
    OVERLONG = 7
    FULL = 8


class LoopCounter(enum.IntEnum):
    """Counters of a loop; the index is the address in its statistics block."""

    LOOPED = 0
    COMPLETED = 1
    TAKEN = 2


class FlowCounter(enum.IntEnum):
    """Counters of flow; the index is the address in its statistics block."""

    SENT = 0
    REFUSED = 1
    CARRIED = 2
    COMMITTED = 3
    IGNORED = 4
    PLACED = 5
    TAKEN = 6
    FLUSHED = 7
    ENDED = 8
    TOLD = 9
    HEARD = 10
    CONGESTIONS = 11
    PEER_CHANGES = 12
    CONTROL_IGNORED = 13  # words of control that mean nothing
    RAISED = 14  # limits that a message's header raised


class RelayCounter(enum.IntEnum):
    """Counters of relay; the index is the address in its statistics block.  HALTED is only there with CRCs."""

    SENT = 0
    REFUSED = 1
    HOPS = 2
    POSTED = 3
    PARKED = 4
    HUNGRY = 5
    TAKEN = 6
    ENDED = 7
    TOLD = 8
    DROPPED = 9
    HEARD = 10
    IGNORED = 11
    STALE = 12
    NOTICES = 13
    OWED = 14
    UNTRACKED = 15
    EVICTED = 16
    EXPIRED = 17
    FORGOTTEN = 18
    HALTED = 19


class LinkCounter(enum.IntEnum):
    """What is counted of a link, in the golden model and in a trace's metadata."""

    LOST = 0
    DEAD = 1
    FLIPS = 2


class Unit(enum.IntEnum):
    """The sorts of units, in the order in which a trace numbers them (`Topology.first_router` and so on).

    Services come last: by node, and at a node by their order in the stack (`trace.Layout.service_unit`).
    """

    NI = 0
    ROUTER = 1
    LINK = 2
    LOOP = 3
    FLOW = 4
    RELAY = 5


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
    RESET = enum.auto()  # its unit was reset, and lost what it held


class Facts(NamedTuple):
    """What is known of every occurrence of an event.

    Attributes
    ----------
    units : the sorts of units that show it
    columns : the columns that mean something for it
    role : what it is in the life of a worm or a datagram
    lane : the lane of the NI or service that shows it; a take lane stands for all of them
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
    counters: tuple[Counter | RouterCounter | LinkCounter | LoopCounter | FlowCounter | RelayCounter, ...] = ()


def _ni(lane: int, columns: Column, role: Role = Role.NONE, *, counter: Counter | None = None, **more) -> Facts:
    return Facts((Unit.NI,), columns, role, lane, counters=() if counter is None else (counter,), **more)


def _router(counter: RouterCounter, columns: Column = Column(0), role: Role = Role.NONE) -> Facts:
    return Facts((Unit.ROUTER,), columns, role, counters=(counter,))


def _link(counter: LinkCounter, role: Role = Role.NONE) -> Facts:
    return Facts((Unit.LINK,), Column(0), role, counters=(counter,))


def _loop(lane: int, columns: Column, role: Role = Role.NONE, *, counter: LoopCounter | None = None) -> Facts:
    return Facts((Unit.LOOP,), columns, role, lane, counters=() if counter is None else (counter,))


def _flow(lane: int, columns: Column, role: Role = Role.NONE, *, counter: FlowCounter | None = None, **more) -> Facts:
    return Facts((Unit.FLOW,), columns, role, lane, counters=() if counter is None else (counter,), **more)


def _relay(lane: int, columns: Column, role: Role = Role.NONE, *, counter: RelayCounter | None = None, **more) -> Facts:
    return Facts((Unit.RELAY,), columns, role, lane, counters=() if counter is None else (counter,), **more)


_PEER, _LENGTH, _HEAD = Column.PEER, Column.LENGTH, Column.HEAD
_NAMED = Column.UID | Column.PEER
_PAYLOAD = _NAMED | Column.LENGTH

#: The one table of events.  Whatever names events by what they are derives from it.
EVENTS: dict[Event, Facts] = {
    Event.SEND: _ni(LANE_TX, _PAYLOAD, Role.LAUNCH, worm=Kind.SEND, counter=Counter.SENDS),
    Event.ACK: _ni(LANE_TX, _NAMED, Role.LAUNCH, worm=Kind.ACK, counter=Counter.ACKS),
    Event.FORGET: _ni(LANE_TX, _NAMED, Role.LAUNCH, worm=Kind.FORGET, counter=Counter.FORGETS),
    Event.BE: _ni(LANE_TX, _PAYLOAD, Role.LAUNCH, worm=Kind.SEND, counter=Counter.BEST_EFFORTS),
    Event.KILLED: _ni(LANE_TX, Column.UID, counter=Counter.KILLED),
    Event.REJECT: _ni(LANE_TX, _NAMED, Role.LAUNCH, worm=Kind.REJECT, counter=Counter.REJECTS),
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
    Event.REJECT_IGNORED: _ni(LANE_RX, _NAMED, Role.ARRIVAL, worm=Kind.REJECT, counter=Counter.REJECTS_IGNORED),
    Event.SWEPT: _ni(LANE_RX, _NAMED, counter=Counter.SWEPT),
    Event.ACCEPT: _ni(LANE_ACCEPT, _PAYLOAD | Column.TAG, detail=Kind, counter=Counter.ACCEPTED),
    Event.COMPLETE: _ni(LANE_COMPLETE, _NAMED | Column.TAG, counter=Counter.COMPLETED),
    Event.TAKE: _ni(LANE_TAKE, _PEER | _LENGTH),
    Event.RESET: _ni(LANE_RX, _LENGTH, Role.RESET),
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
    Event.LOOPED: _loop(LOOP_ACCEPT, _PAYLOAD | Column.TAG, counter=LoopCounter.LOOPED),
    Event.LOOP_COMPLETE: _loop(LOOP_DONE, _NAMED | Column.TAG, counter=LoopCounter.COMPLETED),
    Event.LOOP_TAKE: _loop(LOOP_TAKEN, _PEER | _LENGTH, counter=LoopCounter.TAKEN),
    Event.LOOP_RESET: _loop(LOOP_ACCEPT, _LENGTH, Role.RESET),
    Event.FLOW_SEND: _flow(FLOW_MESSAGE, _PEER | _LENGTH | Column.TAG, counter=FlowCounter.SENT),
    Event.FLOW_REFUSED: _flow(FLOW_MESSAGE, _PEER | _LENGTH | Column.TAG, detail=Cause, counter=FlowCounter.REFUSED),
    Event.FLOW_CARRY: _flow(FLOW_CARRIED, _PAYLOAD | Column.TAG, counter=FlowCounter.CARRIED),
    Event.FLOW_COMMIT: _flow(FLOW_ARRIVE, _PEER | _LENGTH | Column.TAG, counter=FlowCounter.COMMITTED),
    Event.FLOW_IGNORED: _flow(FLOW_ARRIVE, _PEER | _LENGTH | Column.TAG, counter=FlowCounter.IGNORED),
    Event.FLOW_PLACE: _flow(FLOW_PLACED, _PEER | Column.TAG, counter=FlowCounter.PLACED),
    Event.FLOW_TAKE: _flow(FLOW_TAKEN, _PEER | _LENGTH | Column.TAG, counter=FlowCounter.TAKEN),
    Event.FLOW_FLUSHED: _flow(FLOW_TAKEN, _PEER | _LENGTH | Column.TAG, counter=FlowCounter.FLUSHED),
    Event.FLOW_END: _flow(FLOW_ENDED, _PEER | Column.TAG, counter=FlowCounter.ENDED),
    Event.FLOW_TOLD: _flow(FLOW_CONTROL, _PEER, counter=FlowCounter.TOLD),
    Event.FLOW_HEARD: _flow(FLOW_CONTROL, _PEER, counter=FlowCounter.HEARD),
    Event.FLOW_CONGESTED: _flow(FLOW_PEERS, Column.TAG, counter=FlowCounter.CONGESTIONS),
    Event.FLOW_PEER: _flow(FLOW_PEERS, _PEER, counter=FlowCounter.PEER_CHANGES),
    Event.FLOW_RESET: _flow(FLOW_MESSAGE, _LENGTH, Role.RESET),
    Event.RELAY_SEND: _relay(RELAY_MESSAGE, _PAYLOAD | Column.TAG, counter=RelayCounter.SENT),
    Event.RELAY_REFUSED: _relay(
        RELAY_MESSAGE, _PEER | _LENGTH | Column.TAG, detail=Cause, counter=RelayCounter.REFUSED
    ),
    Event.RELAY_HOP: _relay(RELAY_HOPS, _PAYLOAD | Column.TAG, counter=RelayCounter.HOPS),
    Event.RELAY_POST: _relay(RELAY_POSTS, _PAYLOAD | Column.TAG, counter=RelayCounter.POSTED),
    Event.RELAY_PARK: _relay(RELAY_POSTS, _PAYLOAD | Column.TAG, counter=RelayCounter.PARKED),
    Event.RELAY_HUNGRY: _relay(RELAY_POSTS, _PAYLOAD | Column.TAG, counter=RelayCounter.HUNGRY),
    Event.RELAY_TAKE: _relay(RELAY_TAKEN, _PEER | _LENGTH | Column.TAG, counter=RelayCounter.TAKEN),
    Event.RELAY_END: _relay(RELAY_ENDED, _NAMED | Column.TAG, counter=RelayCounter.ENDED),
    Event.RELAY_TOLD: _relay(RELAY_TELLS, _NAMED | Column.TAG, counter=RelayCounter.TOLD),
    Event.RELAY_DROPPED: _relay(RELAY_TELLS, _NAMED | Column.TAG, counter=RelayCounter.DROPPED),
    Event.RELAY_HEARD: _relay(RELAY_HEARS, _NAMED | Column.TAG, counter=RelayCounter.HEARD),
    Event.RELAY_IGNORED: _relay(RELAY_HEARS, _PEER, counter=RelayCounter.IGNORED),
    Event.RELAY_STALE: _relay(RELAY_HEARS, _PEER, counter=RelayCounter.STALE),
    Event.RELAY_NOTICE: _relay(RELAY_RELAYS, _PEER, counter=RelayCounter.NOTICES),
    Event.RELAY_OWED: _relay(RELAY_RELAYS, _PAYLOAD | Column.TAG, counter=RelayCounter.OWED),
    Event.RELAY_UNTRACKED: _relay(RELAY_RELAYS, _PAYLOAD | Column.TAG, counter=RelayCounter.UNTRACKED),
    Event.RELAY_EVICT: _relay(RELAY_RELAYS, _PAYLOAD | Column.TAG, counter=RelayCounter.EVICTED),
    Event.RELAY_EXPIRE: _relay(RELAY_RELAYS, _PAYLOAD | Column.TAG, counter=RelayCounter.EXPIRED),
    Event.RELAY_FORGOT: _relay(RELAY_RELAYS, _PAYLOAD | Column.TAG, counter=RelayCounter.FORGOTTEN),
    Event.RELAY_RESET: _relay(RELAY_MESSAGE, _LENGTH, Role.RESET),
    Event.RELAY_HALT: _relay(RELAY_RELAYS, Column(0), counter=RelayCounter.HALTED),
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
#: Events of a reset, one for each sort of unit that has any.
RESETS = events_with(role=Role.RESET)
#: NI events whose UID is a datagram's.
OF_DATAGRAM = events_with(columns=Column.UID, unit=Unit.NI)
#: Drop reasons for which the header is not believed, so that UID and peer are not known.
UNREADABLE = (Drop.CRC, Drop.KIND, Drop.LENGTH, Drop.RESETTING)
#: Drop reasons of a sound Send: it names its datagram.
REFUSALS = (
    Drop.INCARNATION, Drop.TABLE_FULL, Drop.DELIVER_FULL, Drop.TIMER_FULL,
    Drop.NOT_OPEN, Drop.PORT_FULL, Drop.EARLY,
)  # fmt: skip
#: What a service says at the acceptance port, by its number there; 0 is nothing.
ACCEPTANCE = (Drop.NONE, Drop.NOT_OPEN, Drop.PORT_FULL, Drop.EARLY)
#: Drop reasons of a Send that a REJECT answers, with ``ni.reject``.
REJECTED = (Drop.INCARNATION, Drop.NOT_OPEN)
#: Events that erase an entry of the receive table.
ERASURES = (Event.FORGOTTEN, Event.ORPHAN, Event.SWEPT)

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
#: What each counter of a loop counts.
LOOP_COUNTED: dict[LoopCounter, Event] = {
    c: event for event, facts in EVENTS.items() for c in facts.counters if isinstance(c, LoopCounter)
}
#: What each link counter counts.
LINK_COUNTED: dict[LinkCounter, Event] = {
    c: event for event, facts in EVENTS.items() for c in facts.counters if isinstance(c, LinkCounter)
}


#: Counters that an NI has with an option only, and the key of `[ni]` that is its.
OPTIONAL_COUNTERS = {
    Counter.REJECTS: "reject",
    Counter.REJECTS_IGNORED: "reject",
    Counter.DROP_NOT_OPEN: "acceptance",
    Counter.DROP_PORT_FULL: "acceptance",
    Counter.DROP_EARLY: "acceptance",
    Counter.SWEPT: "sweep",
}


def bank(counters: Sized, least: int = 1) -> int:
    """Addresses of one unit's counters: a power of two, at least ``least``, with room for all."""
    return max(least, 1 << (len(counters) - 1).bit_length())


#: Counter addresses of a router.  `System.counter_step` has those of an NI.
ROUTER_COUNTER_STEP = bank(RouterCounter, 16)

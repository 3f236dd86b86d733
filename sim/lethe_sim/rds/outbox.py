"""A node's sending side: which datagram is offered next, and what becomes of those that were (RDS-09, 13, 14, 42, 43).

Flow has no list of what waits: what it cannot take now it refuses, with a cause.  The list is here.  Messages to one
index of one destination are a `Lane`.  A lane offers one datagram at a time, because two could overtake each other if
the first is refused and the second is not.  It carries one long message at a time, so that the receiver knows whose
part is missing.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lethe.spec.events import Cause, Status

from .parts import cut
from .transport import AGAIN, LAST, NOWAIT, Accepted, DatagramEnd, FlowRecord, FlowTransport

if TYPE_CHECKING:
    from .endpoint import Endpoint

__all__ = ["Lane", "Outbox", "Outgoing"]

#: Datagrams of a node that may be offered and not answered yet.
OFFERS = 4
#: Cycles after which a refused datagram is offered again, if nothing tells earlier that it is worth while.
PAUSES = {
    Cause.NOT_BOUND: 64,
    Cause.NOT_CONNECTED: 512,
    Cause.CONGESTED: 2048,
    Cause.BUFFER: 256,
    Cause.WINDOW: 32,
    Cause.DEADLINE: 64,
}
#: What follows a pause for WINDOW is twice as long, up to this.
LONGEST_PAUSE = 1024


@dataclass(eq=False)
class Outgoing:
    """A message of the user that has not ended.

    Attributes
    ----------
    number : which of its socket's messages, from 0
    node : the destination
    address : where to, (address, port)
    again : it may have arrived before
    start : the first byte that has no datagram yet
    whole : every byte has one
    offered : its next datagram is offered, and not answered yet
    cancelled, done : its socket has given it up; it has ended
    under_way : its datagrams by tag, each with {slot, generation}
    unsent : a datagram of it never left, so the message did not arrive
    failure : how a datagram ended that was not accepted
    """

    endpoint: "Endpoint"
    number: int
    node: int
    address: tuple[str, int]
    payload: bytes = field(repr=False)
    again: bool = False
    start: int = 0
    whole: bool = False
    offered: bool = False
    cancelled: bool = False
    done: bool = False
    unsent: bool = False
    under_way: dict[int, tuple[int, int]] = field(default_factory=dict)
    failure: tuple[Status, Cause] | None = None

    @property
    def begun(self) -> bool:
        """A datagram of it has a number."""
        return self.start > 0 or self.whole

    @property
    def stopped(self) -> bool:
        """No further datagram of it is to be offered."""
        return self.whole or self.cancelled or self.failure is not None

    def anew(self) -> None:
        """All of it is to be sent once more."""
        self.again = self.again or not self.unsent
        self.start, self.whole, self.unsent, self.failure = 0, False, False, None


@dataclass(eq=False)
class Backlog:
    """What one socket has for a lane.

    Attributes
    ----------
    queue : not wholly offered, in the order of their numbers
    begun : messages that have begun and not ended
    recovering : one failed and is to be sent again; nothing else goes before all that have begun have ended
    """

    queue: deque[Outgoing] = field(default_factory=deque)
    begun: int = 0
    recovering: bool = False


class Lane:
    """Messages to one index of one destination.

    Attributes
    ----------
    admitted : datagrams that got a number
    ready : the cycle from which on it may offer again
    """

    def __init__(self, node: int, index: int):
        self.node, self.index = node, index
        self.backlogs: dict[Endpoint, Backlog] = {}
        self.open: Outgoing | None = None
        self.offer: Outgoing | None = None
        self.ready = 0
        self.pause = PAUSES[Cause.WINDOW]
        self.admitted = 0

    def next(self, now: int) -> Outgoing | None:
        """The message whose datagram is to be offered; sockets take turns between messages."""
        if self.open is not None:
            return self.open if self.open.endpoint.ready <= now else None
        for endpoint in list(self.backlogs):
            backlog = self.backlogs[endpoint]
            if backlog.queue and not backlog.recovering and endpoint.ready <= now:
                self.backlogs[endpoint] = self.backlogs.pop(endpoint)
                return backlog.queue[0]
        return None

    def wake(self, now: int) -> int | None:
        """The first cycle in which `next` could have something that it has not now; None: only an event can tell."""
        waiting = [self.open] if self.open is not None else [b.queue[0] for b in self._waiting()]
        return min((max(message.endpoint.ready, self.ready, now) for message in waiting), default=None)

    def _waiting(self) -> Iterator[Backlog]:
        return (backlog for backlog in self.backlogs.values() if backlog.queue and not backlog.recovering)


class Outbox:
    """Sends what the sockets of a node have to send.

    Parameters
    ----------
    number : the node

    Attributes
    ----------
    up : the peers that are up
    maps : the congested ports of each peer, a bit for each index; those of the own node, too
    lanes : by (destination, index)
    """

    def __init__(self, transport: FlowTransport, number: int):
        self._transport, self._number = transport, number
        self.up: set[int] = set()
        self.maps: dict[int, int] = {}
        self.lanes: dict[tuple[int, int], Lane] = {}
        self._offers: dict[int, tuple[Lane, Outgoing, int, int]] = {}
        self._live: dict[int, tuple[Lane, Outgoing]] = {}
        self._peer_ready: dict[int, int] = {}
        self._tag = self._unended = 0
        self._stale = False
        self._wake: int | None = None

    # What is asked

    @property
    def busy(self) -> bool:
        """A message has not ended."""
        return self._unended > 0

    def congested(self, node: int, port: int) -> bool:
        """The port is congested, as far as is known here."""
        return bool(self.maps.get(node, 0) >> port % self._transport.ports & 1)

    def pumped(self) -> int | None:
        """Offer what can be offered; the first cycle in which there may be more, None: not before something happens."""
        if self._stale or (self._wake is not None and self._wake <= self._transport.cycle):
            self._pump()
            self._wake, self._stale = self._next(), False
        return self._wake

    def _next(self) -> int | None:
        """The first cycle in which something is to be offered; None: not before something happens."""
        if self._full:
            return None
        now = self._transport.cycle
        cycles = [
            max(cycle, self._peer_ready.get(lane.node, 0))
            for lane in self.lanes.values()
            if lane.offer is None and (cycle := lane.wake(now)) is not None
        ]
        return min(cycles, default=None)

    @property
    def _full(self) -> bool:
        """Nothing more can be offered before something happens: each datagram has a tag of its own until it ends."""
        return len(self._offers) >= OFFERS or len(self._offers) + len(self._live) >= self._transport.tags

    def messages(self) -> Iterator[Outgoing]:
        """All that have not ended."""
        seen = set()
        for lane in self.lanes.values():
            for backlog in lane.backlogs.values():
                seen.update(backlog.queue)
        for _, message in self._live.values():
            seen.add(message)
        seen.update(message for _, message, _, _ in self._offers.values())
        yield from sorted(seen, key=lambda message: (message.endpoint.descriptor, message.number))

    # What the host does

    def push(self, message: Outgoing) -> None:
        """Take a message; its socket hears of its end."""
        self._stale = True
        self._backlog(message).queue.append(message)
        self._unended += 1

    def _pump(self) -> None:
        """Offer what can be offered now."""
        now = self._transport.cycle
        for key, lane in list(self.lanes.items()):
            if self._full:
                return
            if lane.offer is not None or lane.ready > now or self._peer_ready.get(lane.node, 0) > now:
                continue
            message = lane.next(now)
            if message is not None:
                self._offer(lane, message)
                self.lanes[key] = self.lanes.pop(key)

    def cancel(self, endpoint: "Endpoint", address: tuple[str, int] | None = None) -> None:
        """Give up a socket's messages to an address, or all of them (RDS-20)."""
        self._stale = True
        for message in list(self.messages()):
            if message.endpoint is endpoint and address in (None, message.address):
                message.cancelled = True
                for slot, generation in message.under_way.values():
                    self._transport.cancel(self._number, slot, generation)
                self._stop(message)
                self._settle(message)

    # What happens

    def accepted(self, event: Accepted) -> None:
        """A datagram has its number."""
        self._stale = True
        if event.tag not in self._offers:
            return
        lane, message, end, flags = self._offers.pop(event.tag)
        lane.offer, message.offered = None, False
        lane.admitted += 1
        lane.pause = PAUSES[Cause.WINDOW]
        backlog = self._backlog(message)
        backlog.begun += not message.begun
        message.start, message.whole = end, bool(flags & LAST)
        message.under_way[event.tag] = event.slot, event.generation
        self._live[event.tag] = lane, message
        if message.whole or message.cancelled or message.failure is not None:
            self._stop(message)
        else:
            lane.open = message
        if message.cancelled:
            self._transport.cancel(self._number, event.slot, event.generation)

    def ended(self, event: DatagramEnd) -> None:
        """A datagram ended, or was refused."""
        self._stale = True
        if event.tag in self._offers:
            if event.status is Status.REJECTED:
                self._refused(event)
                return
            self.accepted(Accepted(event.node, event.cycle, event.slot, event.generation, event.tag))
        if event.tag not in self._live:
            return
        lane, message = self._live.pop(event.tag)
        del message.under_way[event.tag]
        lane.ready = message.endpoint.ready = event.cycle
        if event.status is not Status.ACCEPTED:
            self._failed(lane, message, event.status, event.cause)
        self._settle(message)

    def noticed(self, peer: int, up: bool, bits: int) -> int:
        """News of a peer; returns its ports that are congested no more, a bit for each index."""
        self._stale = True
        was, self.maps[peer] = self.maps.get(peer, 0), bits
        (self.up.add if up else self.up.discard)(peer)
        if up:
            self._peer_ready[peer] = 0
        else:
            self._break_off([lane for lane in self.lanes.values() if lane.node == peer], Cause.SILENT)
        for lane in self.lanes.values():
            if lane.node == peer and (was & ~bits) >> lane.index & 1:
                lane.ready = self._transport.cycle
        return was & ~bits

    def restarted(self) -> int:
        """The node was reset: what was offered never left, what was under way ended without an answer.

        Returns the ports of all nodes that were thought congested, a bit for each index; now none is.
        """
        self._stale = True
        cleared = 0
        for bits in self.maps.values():
            cleared |= bits
        self.up.clear()
        self.maps.clear()
        self._peer_ready.clear()
        touched: list[Outgoing] = []
        for tag, (lane, message, _, _) in list(self._offers.items()):
            del self._offers[tag]
            lane.offer, message.offered = None, False
            self._failed(lane, message, Status.NEVER_SENT, Cause.RESTARTED)
            touched.append(message)
        for tag, (lane, message) in list(self._live.items()):
            del self._live[tag], message.under_way[tag]
            self._failed(lane, message, Status.UNKNOWN, Cause.RESTARTED)
            touched.append(message)
        for lane in self.lanes.values():
            lane.ready = self._transport.cycle
        for message in touched:
            self._settle(message)
        self._break_off(list(self.lanes.values()), Cause.RESTARTED)
        return cleared

    def forget(self) -> None:
        """The node is dead: nothing that was to be sent ends any more."""
        self.up.clear()
        for known in (self.maps, self.lanes, self._offers, self._live, self._peer_ready):
            known.clear()
        self._unended = 0

    # The steps

    def _backlog(self, message: Outgoing) -> Backlog:
        key = message.node, message.address[1] % self._transport.ports
        lane = self.lanes.setdefault(key, Lane(*key))
        return lane.backlogs.setdefault(message.endpoint, Backlog())

    def _lane(self, message: Outgoing) -> Lane:
        return self.lanes[message.node, message.address[1] % self._transport.ports]

    def _offer(self, lane: Lane, message: Outgoing) -> None:
        end, flags = cut(len(message.payload), self._transport.mtu, message.start)
        while self._tag in self._offers or self._tag in self._live:
            self._tag = (self._tag + 1) % self._transport.tags
        tag, self._tag = self._tag, (self._tag + 1) % self._transport.tags
        port = message.endpoint.port
        assert port is not None, "only a bound socket has messages"
        lane.offer, message.offered = message, True
        self._offers[tag] = lane, message, end, flags
        self._transport.send(
            self._number,
            FlowRecord(
                message.node, port, message.address[1], flags | NOWAIT | (AGAIN if message.again else 0), tag,
                message.payload[message.start : end],
            ),
        )  # fmt: skip

    def _refused(self, event: DatagramEnd) -> None:
        """A datagram has no number: it is offered again, or was wrong."""
        lane, message, _, _ = self._offers.pop(event.tag)
        lane.offer, message.offered = None, False
        match event.cause:
            case Cause.NOT_CONNECTED:
                self.up.discard(lane.node)
                self._peer_ready[lane.node] = event.cycle + PAUSES[event.cause]
            case Cause.BUFFER:
                message.endpoint.ready = event.cycle + PAUSES[event.cause]
            case Cause.WINDOW:
                lane.ready = event.cycle + lane.pause
                lane.pause = min(2 * lane.pause, LONGEST_PAUSE)
            case Cause.CONGESTED:
                # The notice of it may be on its way.
                self.maps[lane.node] = self.maps.get(lane.node, 0) | 1 << lane.index
                lane.ready = event.cycle + PAUSES[event.cause]
            case Cause.NOT_BOUND | Cause.DEADLINE:
                lane.ready = event.cycle + PAUSES[event.cause]
            case _:
                message.failure = event.status, event.cause
                self._stop(message)
        self._settle(message)

    def _failed(self, lane: Lane, message: Outgoing, status: Status, cause: Cause) -> None:
        """A datagram of a message was not accepted, so the message is not whole."""
        message.unsent |= status is Status.NEVER_SENT
        message.failure = message.failure or (status, cause)
        self._stop(message)
        if message.cancelled or not self._repeats(message):
            return
        backlog = self._backlog(message)
        backlog.recovering = backlog.begun > 0
        if lane.open is not None and lane.open.endpoint is message.endpoint:
            # Its rest would come before what is sent again.
            behind = lane.open
            behind.failure, behind.unsent = (Status.NEVER_SENT, Cause.CANCELLED), True
            self._stop(behind)
            self._settle(behind)

    def _break_off(self, lanes: list[Lane], cause: Cause) -> None:
        """The other side has thrown away what it had of the open messages, even if nothing of them is under way."""
        for lane in lanes:
            if (message := lane.open) is not None:
                self._failed(lane, message, Status.NEVER_SENT, cause)
                self._settle(message)

    def _repeats(self, message: Outgoing) -> bool:
        return message.endpoint.sends_again or message.unsent

    def _stop(self, message: Outgoing) -> None:
        """No further datagram of it is offered."""
        lane = self._lane(message)
        if lane.open is message:
            lane.open = None
        queue = self._backlog(message).queue
        if message in queue:
            queue.remove(message)

    def _settle(self, message: Outgoing) -> None:
        """If nothing of a message is under way or will be, it has ended, or begins again."""
        if message.done or message.offered or message.under_way or not message.stopped:
            return
        lane, backlog = self._lane(message), self._backlog(message)
        backlog.begun -= message.begun
        if message.failure is not None and not message.cancelled and self._repeats(message):
            message.anew()
            message.endpoint.begins_anew()
            later = (i for i, other in enumerate(backlog.queue) if other.number > message.number)
            backlog.queue.insert(next(later, len(backlog.queue)), message)
        else:
            message.done = True
            self._unended -= 1
            message.endpoint.ended(message)
        if backlog.begun == 0:
            backlog.recovering = False
            if not backlog.queue:
                lane.backlogs.pop(message.endpoint, None)

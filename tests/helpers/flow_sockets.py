"""Sockets over a golden system with flow that send as much as they can: messages of a byte, each its number."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from lethe.spec.config import System
from lethe.spec.events import Cause, Status
from lethe_sim.golden.services.flow.state import Flow
from lethe_sim.rds import transport
from lethe_sim.rds.golden import GoldenFlow
from lethe_sim.rds.transport import FIRST, LAST, NOWAIT, FlowRecord

#: Cycles after which a socket offers again what was refused.
PAUSE = 64


@dataclass(eq=False)
class Socket:
    """Sends message after message of a byte to a port, each as soon as the last has its number."""

    node: int
    sport: int
    destination: int
    dport: int
    sent: int = 0
    offered: bool = False
    ready: int = 0
    taken: list[int] = field(default_factory=list)  # the cycle of each message
    ends: Counter[tuple[Status, Cause]] = field(default_factory=Counter)  # but of what was refused


class Flood:
    """Sockets over a system with flow; what they get is numbered, and comes in order.

    Parameters
    ----------
    liars : nodes of which anything may come, and which may lose anything
    """

    def __init__(self, system: System, sockets: list[Socket], liars: Collection[int] = ()):
        self.flow, self.sockets, self.liars = GoldenFlow(system), sockets, liars
        self._tags: dict[tuple[int, int], Socket] = {}
        self._streams = {(s.node, s.sport, s.destination, s.dport): s for s in sockets}
        self._next = 0

    def run(self, until: int, *, sends: bool = True, between: Callable[[], None] | None = None) -> None:
        """Up to this cycle; ``between`` is called before each cycle."""
        while self.flow.cycle < until:
            now, wakes = self.flow.cycle, [until]
            for socket in self.sockets if sends else []:
                if socket.offered:
                    continue
                if socket.ready <= now:
                    self._offer(socket)
                else:
                    wakes.append(socket.ready)
            if between:
                between()
                wakes.append(now + 1)
            for event in self.flow.advance(max(1, min(wakes) - now)):
                self._follow(event)

    def _offer(self, socket: Socket) -> None:
        self._next = (self._next + 1) % self.flow.tags
        self._tags[socket.node, self._next] = socket
        socket.offered = True
        payload = bytes([socket.sent & 255])
        flags = FIRST | LAST | NOWAIT
        record = FlowRecord(socket.destination, socket.sport, socket.dport, flags, self._next, payload)
        self.flow.send(socket.node, record)

    def _follow(self, event: transport.Happening) -> None:
        match event:
            case transport.Accepted():
                socket = self._tags[event.node, event.tag]
                socket.offered, socket.ready, socket.sent = False, event.cycle, socket.sent + 1
            case transport.DatagramEnd(status=Status.REJECTED):
                socket = self._tags[event.node, event.tag]
                socket.offered, socket.ready = False, event.cycle + PAUSE
            case transport.DatagramEnd():
                self._tags[event.node, event.tag].ends[event.status, event.cause] += 1
            case transport.Restarted():
                for socket in self.sockets:
                    if socket.node == event.node:
                        socket.offered, socket.ready = False, event.cycle + PAUSE
            case transport.Arrived() if not {event.source, event.node} & {*self.liars}:
                socket = self._streams[event.source, event.sport, event.node, event.dport]
                assert event.payload == bytes([len(socket.taken) & 255])
                socket.taken.append(event.cycle)

    def at(self, node: int) -> Flow:
        """What a node's flow knows."""
        return Flow(self.flow.golden.numbers[node], int(self.flow.golden.k.rooms[0].at))

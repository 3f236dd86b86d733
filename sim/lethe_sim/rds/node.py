"""RDS of one node: its sockets by port, and what it makes of what the transport tells (RDS-48)."""

import errno
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass

from .addresses import Addresses, rds_error
from .constants import FLUSH, PING_PORT, SO_RDS_ENDED, SOL_RDS
from .counters import Counted
from .endpoint import MOST_MESSAGES, Endpoint
from .outbox import Outbox, Outgoing
from .parts import Joiner
from .transport import (
    Accepted,
    Answered,
    Arrived,
    Congested,
    DatagramEnd,
    Died,
    FlowTransport,
    Happening,
    Noticed,
    Restarted,
    SettingCode,
)

__all__ = ["RdsNode"]

#: Answers of `set` (flow.md, 9.4).
_DONE, _BOUND, _NOT_EMPTY = 0, 1, 2
#: The first port that `bind` chooses by itself.
FIRST_CHOSEN = 0x8000


@dataclass(eq=False)
class Asked:
    """A `set` under way; ``error`` is None until it is answered, and -1 if a reset or the node's death came before."""

    error: int | None = None


class RdsNode:
    """The sockets of a node.

    Parameters
    ----------
    number : the node
    pings : answer pings, which takes port 0 and with it index 0

    Attributes
    ----------
    endpoints : the bound sockets, by index
    outbox : what they send
    joiners : of each (source, index)
    died : the cycle from which on the node is dead; None: it is not
    """

    def __init__(self, transport: FlowTransport, number: int, addresses: Addresses, *, pings: bool):
        self.number, self.addresses, self.ports = number, addresses, transport.ports
        self.outbox = Outbox(transport, number)
        self.counters = Counted()
        self.endpoints: dict[int, Endpoint] = {}
        self.joiners: dict[tuple[int, int], Joiner] = {}
        self.died: int | None = None
        self._transport = transport
        self._asked: deque[Asked] = deque()
        self._mask = (1 << transport.ports) - 1
        self._next_port = FIRST_CHOSEN
        self._pings = Endpoint(self, -1)
        self._pings.set_option(SOL_RDS, SO_RDS_ENDED, FLUSH)
        for index in range(transport.ports):
            self._set(SettingCode.UNBIND, index, 0)
        if pings:
            self._pings.port, self._pings.address = PING_PORT, addresses.of(number)
            self.endpoints[0] = self._pings
            self._set(SettingCode.BIND, 0, PING_PORT)

    # What the sockets ask for

    def take(self, endpoint: Endpoint, port: int) -> int:
        """Reserve a port; 0 chooses one.  A port whose index another has is in use (RDS-06)."""
        if port == 0:
            port = self._choose()
        other = self.endpoints.get(port % self.ports)
        if other is not None:
            index = f"index {port % self.ports} (the number modulo {self.ports})"
            if other is self._pings:
                raise rds_error(errno.EADDRINUSE, f"port {port} has {index}, which answers pings; take another port")
            raise rds_error(errno.EADDRINUSE, f"port {port} has {index}, and so has port {other.port}, which is bound")
        self.endpoints[port % self.ports] = endpoint
        return port

    def must_live(self) -> None:
        """ENETDOWN if the node is dead."""
        if self.died is not None:
            raise rds_error(errno.ENETDOWN, f"node {self.number} is dead from cycle {self.died:,} on")

    def bind(self, port: int) -> Generator[int, None, None]:
        """Have the hardware bind a port that is reserved; what was there before goes first."""
        index = port % self.ports
        self._set(SettingCode.RECEIVE_LIMIT, index, self._transport.receive_limit)
        asked = self._set(SettingCode.BIND, index, port)
        while True:
            while asked.error is None:
                yield 0
            self.must_live()
            if asked.error == _DONE:
                return
            if asked.error == _BOUND:
                self._set(SettingCode.UNBIND, index, 0)
            elif asked.error > _NOT_EMPTY:
                raise RuntimeError(f"node {self.number} refuses to bind port {port} to index {index}")
            asked = self._set(SettingCode.BIND, index, port)

    def release(self, endpoint: Endpoint) -> None:
        """A bound socket is closed."""
        assert endpoint.port is not None
        index = endpoint.port % self.ports
        if self.endpoints.get(index) is not endpoint:
            return
        del self.endpoints[index]
        self._set(SettingCode.UNBIND, index, 0)
        self._read(index, True)
        for (_, to), joiner in self.joiners.items():
            if to == index:
                joiner.drop()

    def stop(self, port: int) -> None:
        """A port is congested: its messages stay where they are, and its peers are told."""
        # A limit of 0 bytes is reached by an empty list.
        self._set(SettingCode.RECEIVE_LIMIT, port % self.ports, 0)
        self._read(port % self.ports, False)

    def go_on(self, port: int) -> None:
        """A port is congested no more."""
        self._set(SettingCode.RECEIVE_LIMIT, port % self.ports, self._transport.receive_limit)
        self._read(port % self.ports, True)

    # What the transport tells

    def handle(self, event: Happening) -> None:
        """Something has happened at this node."""
        match event:
            case Arrived():
                self._arrived(event)
            case Accepted():
                self.outbox.accepted(event)
            case DatagramEnd():
                self.outbox.ended(event)
            case Answered():
                self._asked.popleft().error = event.error
            case Noticed():
                self.counters.conn_reset += event.peer in self.outbox.up and not event.up
                self._congested(event.peer, event.up, event.map)
            case Congested():
                self._congested(self.number, True, event.map)
            case Restarted():
                self._restarted()
            case Died():
                self._died(event.cycle)

    # The steps

    def _arrived(self, event: Arrived) -> None:
        index = event.dport % self.ports
        joiner = self.joiners.setdefault((event.source, index), Joiner(own=event.source == self.number))
        endpoint, before = self.endpoints.get(index), joiner.discarded
        whole = joiner.take(event)
        if endpoint is None or endpoint.port != event.dport:
            joiner.drop()
            self.counters.recv_drop_no_sock += 1
        elif whole is not None and endpoint is self._pings:
            self._answer(event.source, whole.sport)
        elif whole is not None:
            endpoint.put(whole)
        self.counters.recv_drop_partial += joiner.discarded - before

    def _answer(self, source: int, port: int) -> None:
        """A pong: an empty message from port 0.  What comes from a port 0 is one, and is not answered."""
        self.counters.recv_ping += 1
        if port == PING_PORT or self._pings.unended >= MOST_MESSAGES:
            return
        self.counters.send_pong += 1
        address = self.addresses.of(source), port
        self._pings.unended += 1
        self.outbox.push(Outgoing(self._pings, self._pings.messages, source, address, b""))
        self._pings.messages += 1

    def _congested(self, peer: int, up: bool, bits: int) -> None:
        known = self.outbox.maps.get(peer, 0)
        cleared = self.outbox.noticed(peer, up, bits)
        self.counters.cong_update_received += peer != self.number and known != bits
        for endpoint in self.endpoints.values():
            endpoint.uncongested(cleared)
            if known != bits:
                endpoint.news()

    def _restarted(self) -> None:
        """A reset of the node: ports and limits are set again; parts of messages are lost."""
        self._lost()
        if cleared := self.outbox.restarted():
            for endpoint in self.endpoints.values():
                endpoint.uncongested(cleared)
                endpoint.news()
        for index in range(self.ports):
            self._set(SettingCode.UNBIND, index, 0)
            endpoint = self.endpoints.get(index)
            if endpoint is None or endpoint.port is None:
                continue
            self._set(SettingCode.BIND, index, endpoint.port)
            if endpoint.congested:
                self._set(SettingCode.RECEIVE_LIMIT, index, 0)
        self._transport.receive(self.number, self._mask)

    def _died(self, cycle: int) -> None:
        """Nobody is told of what has not ended: every call of the node's sockets says that it is dead."""
        self.died = cycle
        self._lost()
        self.outbox.forget()

    def _lost(self) -> None:
        """What was asked for gets no answer, and messages that have begun to come do not go on."""
        for asked in self._asked:
            asked.error = -1
        self._asked.clear()
        for joiner in self.joiners.values():
            joiner.drop()

    def _set(self, code: SettingCode, index: int, value: int) -> Asked:
        asked = Asked()
        self._asked.append(asked)
        self._transport.set(self.number, code, index, value)
        return asked

    def _read(self, index: int, on: bool) -> None:
        mask = self._mask | 1 << index if on else self._mask & ~(1 << index)
        if mask != self._mask:
            self._mask = mask
            self._transport.receive(self.number, mask)

    def _choose(self) -> int:
        for _ in range(self.ports):
            port, self._next_port = self._next_port, self._next_port + 1
            if self._next_port > 0xFFFF:
                self._next_port = FIRST_CHOSEN
            if port % self.ports not in self.endpoints:
                return port
        raise rds_error(errno.EADDRINUSE, f"every port of node {self.number} is bound")

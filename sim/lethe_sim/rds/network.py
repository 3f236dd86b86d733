"""A network of nodes with RDS, in this process: it owns the transport, and lets time pass while a call waits."""

import errno
from collections.abc import Generator
from typing import Any, Protocol

from .addresses import Addresses, rds_error
from .cycles import whole_cycles
from .endpoint import Call, Endpoint
from .info import Information, gather
from .node import RdsNode
from .socket import Socket
from .transport import FlowTransport

__all__ = ["RdsNetwork", "Sockets", "Wait"]

#: Cycles that pass at most between two looks at what waits.
STEP = 4096

#: Bits of poll by descriptor.
Bits = dict[int, int]


class Sockets(Protocol):
    """What a `Socket` works on: an `RdsNetwork` here, or a `client.Client` of one in another process."""

    @property
    def cycle(self) -> int:
        """Cycles of the network so far."""
        ...

    def open(self, node: int) -> int:
        """A new socket's descriptor."""
        ...

    def call(self, descriptor: int, name: str, *arguments: Any, cycles: int | None = 0) -> Any:
        """A call of an `Endpoint` by name, which waits for at most so many cycles; None: for ever."""
        ...

    def poll(self, wanted: Bits, cycles: int | None) -> Bits:
        """Which of these are ready for what; empty when the time is over."""
        ...


class Wait:
    """A call under way.

    Parameters
    ----------
    cycles : how long it may wait; None: for ever, 0: not at all, and what cannot be done takes a cycle, so that time
        passes for a program that asks again and again
    now : the cycle in which it begins

    Attributes
    ----------
    value : what it returned
    end : the cycle in which its time is over; None: there is none, or it is not asked

    Raises
    ------
    ValueError, TypeError : ``cycles`` is no number of cycles
    """

    def __init__(self, call: Call, cycles: int | None, now: int):
        self.value: Any = None
        self.end: int | None = None
        self._call, self._cycles = call, None if cycles is None else whole_cycles(cycles)
        self._last = None if self._cycles is None else now + max(1, self._cycles)
        self._reason = 0

    @property
    def for_ever(self) -> bool:
        """It waits for something that may never come."""
        return bool(self._reason) and self._last is None

    def over(self, now: int) -> bool:
        """Go on with the call; True: it has ended.

        Raises
        ------
        OSError : of the call; of a call that may not wait, what it would wait for
        TimeoutError : its time is over
        """
        try:
            self._reason = next(self._call)
        except StopIteration as done:
            self.value = done.value
            return True
        self.end = self._last if self._reason else None
        if self.end is None or now < self.end:
            return False
        self._call.close()
        if self._cycles == 0:
            raise rds_error(self._reason)
        raise TimeoutError(errno.ETIMEDOUT, f"not within {self._cycles} cycles")

    def give_up(self) -> None:
        """Nobody waits any more."""
        self._call.close()


class RdsNetwork:
    """RDS on every node of a transport.

    Parameters
    ----------
    transport : closed with the network
    addresses : which node has which; by default node n has 10.0.0.0 + n + 1
    pings : nodes answer pings, which takes index 0 of each

    Examples
    --------
    A first program is in docs/use/rds.md.
    """

    def __init__(self, transport: FlowTransport, *, addresses: Addresses | None = None, pings: bool = True):
        self.transport = transport
        self.addresses = addresses or Addresses(transport.nodes)
        self.nodes = [RdsNode(transport, number, self.addresses, pings=pings) for number in range(transport.nodes)]
        self._endpoints: dict[int, Endpoint] = {}
        self._next = 3
        self._closed = False

    def __enter__(self) -> "RdsNetwork":
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def close(self) -> None:
        """Give up all sockets and the transport."""
        if not self._closed:
            self._closed = True
            for endpoint in list(self._endpoints.values()):
                endpoint.close()
            self._endpoints.clear()
            self.transport.close()

    # For users

    def socket(self, node: int) -> Socket:
        """A new socket of a node."""
        return Socket(self, node)

    @property
    def cycle(self) -> int:
        """Cycles so far."""
        return self.transport.cycle

    @property
    def idle(self) -> bool:
        """Nothing is under way, and nothing waits to be sent."""
        return self.transport.idle and not any(node.outbox.busy for node in self.nodes)

    def run(self, cycles: int) -> None:
        """Let so many cycles pass."""
        end = self.cycle + whole_cycles(cycles)
        while self.cycle < end:
            self.go_on(end)

    def information(self, node: int | None = None) -> Information:
        """What `rds-info` shows, of one node or all."""
        return gather(self.nodes if node is None else [self.nodes[self._node(node)]])

    # For sockets

    def open(self, node: int) -> int:
        """A new socket's descriptor."""
        self._must_be_open()
        descriptor, self._next = self._next, self._next + 1
        self._endpoints[descriptor] = Endpoint(self.nodes[self._node(node)], descriptor)
        return descriptor

    def begin(self, descriptor: int, name: str, arguments: tuple) -> Any:
        """A call of a socket: its result, or the generator of a call that may have to wait."""
        endpoint = self._endpoint(descriptor)
        if name == "close":
            del self._endpoints[descriptor]
        return CALLS[name](endpoint, *arguments)

    def call(self, descriptor: int, name: str, *arguments: Any, cycles: int | None = 0) -> Any:
        """A call of a socket, waiting for at most so many cycles; None: for ever."""
        result = self.begin(descriptor, name, arguments)
        return self.perform(result, cycles) if isinstance(result, Generator) else result

    def watch(self, wanted: Bits) -> Call:
        """The call behind `poll`."""
        while True:
            ready = {}
            for descriptor, bits in wanted.items():
                if found := self._endpoint(descriptor).ready_for() & bits:
                    ready[descriptor] = found
            if ready:
                return ready
            yield errno.EAGAIN

    def poll(self, wanted: Bits, cycles: int | None) -> Bits:
        """Which sockets are ready for what; waits for at most so many cycles."""
        try:
            return self.perform(self.watch(wanted), cycles)
        except (BlockingIOError, TimeoutError):
            return {}

    # Time

    def perform(self, call: Call, cycles: int | None) -> Any:
        """Run a call to its end.

        Raises
        ------
        OSError : of the call; with ``cycles`` 0 also what it waits for (EAGAIN, ENOBUFS); EDEADLK if it would wait
            for ever, because nothing is under way
        TimeoutError : the cycles are over
        """
        under_way = Wait(call, cycles, self.cycle)
        while not under_way.over(self.cycle):
            if under_way.for_ever and self.idle:
                call.close()
                raise rds_error(
                    errno.EDEADLK,
                    "the call would wait for ever: nothing is under way, and this program is who could send something",
                )
            self.go_on(under_way.end)
        return under_way.value

    def go_on(self, end: int | None = None) -> None:
        """Let time pass until something happens, something is to be offered, or ``end``; at least a cycle."""
        now = self.cycle
        wakes = [wake for node in self.nodes if (wake := node.outbox.pumped()) is not None]
        until = min(now + STEP, *wakes, now + STEP if end is None else end)
        for event in self.transport.advance(max(1, until - now)):
            self.nodes[event.node].handle(event)

    # The steps

    def _node(self, node: int) -> int:
        if not 0 <= node < len(self.nodes):
            raise ValueError(f"node {node}: there are {len(self.nodes)}; name one of 0 to {len(self.nodes) - 1}")
        return node

    def _must_be_open(self) -> None:
        if self._closed:
            raise rds_error(errno.ENETDOWN, "the network is closed")

    def _endpoint(self, descriptor: int) -> Endpoint:
        self._must_be_open()
        if descriptor not in self._endpoints:
            raise rds_error(errno.EBADF, "the socket is closed")
        return self._endpoints[descriptor]


#: The calls of a socket, by name.
CALLS = {
    name: getattr(Endpoint, name)
    for name in (
        "bind", "connect", "send", "receive", "drain", "close", "set_option", "get_option", "cancel_sent_to", "names",
    )
}  # fmt: skip

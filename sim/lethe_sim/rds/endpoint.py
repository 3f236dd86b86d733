"""The near half of a socket: its queues, its options, and the errno of every call.

A call that may have to wait is a generator.  Each ``yield`` says: not yet, and which errno a caller gets that does
not wait; 0 is for what every caller waits for.  Who runs it (`network.RdsNetwork.perform`, `server.Server`) lets time
pass in between.  Everything else is a plain method.
"""

import errno
import ipaddress
import struct
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import constants as rds
from .addresses import Addresses, rds_error
from .notices import Cmsg, GivenUp, congestion_update
from .outbox import Outgoing
from .parts import Whole

if TYPE_CHECKING:
    from .node import RdsNode

__all__ = ["Call", "Endpoint", "ReadMessage"]

#: A call that may have to wait.
Call = Generator[int, None, Any]
#: Messages that a socket's queue holds at most, either way: empty ones do not count to SO_SNDBUF and SO_RCVBUF.
MOST_MESSAGES = 4096
#: Options that can be set, all with an int.
_SETTABLE = {
    (rds.SOL_SOCKET, rds.SO_SNDBUF), (rds.SOL_SOCKET, rds.SO_RCVBUF), (rds.SOL_RDS, rds.RDS_RECVERR),
    (rds.SOL_RDS, rds.RDS_CONG_MONITOR), (rds.SOL_RDS, rds.SO_RDS_TRANSPORT), (rds.SOL_RDS, rds.SO_RDS_ENDED),
}  # fmt: skip
_INT = struct.Struct("=i")
#: What a control message takes of a buffer: its header, and its data to the next multiple of 8.
_CMSG_HEADER, _CMSG_ALIGN = 16, 8


@dataclass(frozen=True)
class ReadMessage:
    """What `recvmsg` returns; ``length`` is that of the whole message, ``number`` its number in its stream."""

    data: bytes
    length: int
    ancdata: list[Cmsg]
    flags: int
    address: tuple[str, int] | None
    number: int | None = None


@dataclass(frozen=True)
class Waiting:
    """A message that waits for its program."""

    message: Whole
    address: tuple[str, int] = field(default=("", 0))


class Endpoint:
    """A socket of a node, as the driver sees it.

    Attributes
    ----------
    descriptor : its number in the network
    address, port : where it is bound; None before
    peer : where `send` goes; None before `connect`
    queued : bytes of its messages that have not ended (RDS-09)
    waiting : bytes that wait for the program; only payload counts (RDS-36)
    ready : the cycle from which on it may offer again
    messages : how many it has sent
    """

    def __init__(self, node: "RdsNode", descriptor: int):
        self.node, self.descriptor = node, descriptor
        self.address: str | None = None
        self.port: int | None = None
        self.peer: tuple[str, int] | None = None
        self.queued = self.waiting = self.ready = self.messages = 0
        self.unended = 0
        self.sndbuf = self.rcvbuf = rds.BUFFER
        self.closed = self.congested = False
        self.queue: deque[Waiting] = deque()
        self._transport = rds.RDS_TRANS_NONE
        self._monitor = self._recverr = 0
        self._ended = rds.RESEND
        self._notices: deque[GivenUp] = deque()
        self._armed = self._uncongested = 0
        self._refused = self._news = False

    # Calls

    def bind(self, host: str, port: int) -> Call:
        """Take an address of the node and a port; port 0 chooses one (RDS-06).  Returns both."""
        self._usable()
        host, port = Addresses.checked((host, port))
        if self.port is not None:
            raise rds_error(errno.EINVAL, f"the socket is bound to port {self.port} already")
        if port == rds.PROBE_PORT:
            raise rds_error(errno.EINVAL, f"port {rds.PROBE_PORT} is kept for probes")
        if self.node.addresses.node(host) != self.node.number:
            raise rds_error(errno.EADDRNOTAVAIL, f"{host} is no address of node {self.node.number}")
        self.port = self.node.take(self, port)
        self.address = host
        if self._transport == rds.RDS_TRANS_NONE:
            self._transport = rds.RDS_TRANS_LETHE
        yield from self.node.bind(self.port)
        return self.address, self.port

    def connect(self, host: str, port: int) -> None:
        """Name the destination of `send`."""
        self._usable()
        host, port = Addresses.checked((host, port))
        if not int(ipaddress.IPv4Address(host)):
            raise rds_error(errno.EDESTADDRREQ, "there is no wildcard")
        self._sound(host)
        self.peer = host, port

    def send(self, payload: bytes, to: tuple[str, int] | None, flags: int) -> Call:
        """Put a message into the queue (RDS-12 … RDS-15); returns its length."""
        self._usable()
        if flags & ~rds.MSG_DONTWAIT:
            raise rds_error(errno.EOPNOTSUPP, "a message is sent with MSG_DONTWAIT or without a flag")
        to = to or self.peer
        if self.port is None or to is None:
            raise rds_error(errno.ENOTCONN, "bind the socket first" if to else "name a destination")
        host, port = Addresses.checked(to)
        self._sound(host)
        if len(payload) > min(rds.LONGEST, self.sndbuf):
            limit = "1 MiB" if self.sndbuf > rds.LONGEST else f"SO_SNDBUF, {self.sndbuf:,}"
            raise rds_error(errno.EMSGSIZE, f"{len(payload):,} bytes are more than {limit}")
        node = self.node.addresses.node(host)
        if node is None:
            raise rds_error(errno.EHOSTUNREACH, f"no node has the address {host}")
        yield from self._congestion(node, port)
        counted = False
        while self.queued + len(payload) > self.sndbuf or self.unended >= MOST_MESSAGES:
            self.node.counters.send_queue_full += not counted
            counted = True
            yield errno.EAGAIN
            self._usable()
        message = Outgoing(self, self.messages, node, (host, port), bytes(payload))
        self.messages += 1
        self.unended += 1
        self.queued += len(payload)
        self.node.counters.send_queued += 1
        self.node.outbox.push(message)
        return len(payload)

    def receive(self, size: int, ancillary: int, flags: int) -> Call:
        """Take the oldest message, or a notice: those come first, and alone (RDS-17, RDS-49)."""
        self._usable()
        if flags & rds.MSG_OOB:
            raise rds_error(errno.EOPNOTSUPP, "RDS has no urgent data")
        if self.port is None:
            raise rds_error(errno.ENOTCONN, "bind the socket first")
        while True:
            if self._notices or self._uncongested:
                return self._told(ancillary)
            if self.queue:
                return self._taken(size, ancillary, flags)
            yield errno.EAGAIN
            self._usable()

    def names(self) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
        """The own name and the destination of `send`."""
        own = (self.address, self.port) if self.address is not None and self.port is not None else None
        return own, self.peer

    def drain(self) -> Call:
        """Wait until every message that was sent has ended."""
        self.node.must_live()
        while self.unended:
            yield errno.EAGAIN
            self.node.must_live()

    def close(self) -> None:
        """Give up what has not ended and what was not read, and free the port."""
        if self.closed:
            return
        self.closed = True
        self.node.outbox.cancel(self)
        self.queue.clear()
        self.waiting = 0
        if self.port is not None:
            self.node.release(self)

    def ready_for(self) -> int:
        """The bits of poll (RDS-18, RDS-19).  Who waits for a socket of a dead node is woken: its calls say so."""
        if self.node.died is not None:
            return rds.POLLIN | rds.POLLRDNORM | rds.POLLOUT | rds.POLLWRNORM | rds.POLLWRBAND
        bits = 0
        if self._notices or self._uncongested or self.queue:
            bits |= rds.POLLIN | rds.POLLRDNORM
        if not self._monitor and self._news:
            # Who does not ask for the monitor is woken so, once for each piece of news.
            bits |= rds.POLLIN | rds.POLLRDNORM | rds.POLLWRBAND
            self._news = False
        if self.queued < self.sndbuf and self.unended < MOST_MESSAGES:
            bits |= rds.POLLOUT | rds.POLLWRNORM
        return bits

    # Options

    def set_option(self, level: int, name: int, given: object) -> None:
        """An option with an int, or its bytes (RDS-08, RDS-21); first the option is judged, then the value."""
        self._usable()
        if level == rds.SOL_RDS and name in (rds.RDS_GET_MR, rds.RDS_FREE_MR, rds.RDS_GET_MR_FOR_DEST):
            raise rds_error(errno.EOPNOTSUPP, "there is no remote memory")
        if (level, name) not in _SETTABLE:
            raise rds_error(errno.ENOPROTOOPT, f"level {level}, option {name}")
        value = _int(given)
        if level == rds.SOL_SOCKET:
            if value < 0:
                raise rds_error(errno.EINVAL, f"a buffer of {value} bytes")
            if name == rds.SO_SNDBUF:
                self.sndbuf = value
            else:
                self.rcvbuf = value
                self._judge()
        elif name == rds.RDS_RECVERR:
            self._recverr = int(bool(value))
        elif name == rds.RDS_CONG_MONITOR:
            self._monitor = int(bool(value))
            if not self._monitor:
                self._armed = self._uncongested = 0
        elif name == rds.SO_RDS_TRANSPORT:
            self._choose(value)
        else:
            if value not in (rds.FLUSH, rds.RESEND):
                raise rds_error(errno.EINVAL, f"{value} is neither 0 (FLUSH) nor 1")
            self._ended = value

    def get_option(self, level: int, name: int) -> int:
        """The value of an option."""
        values = {
            (rds.SOL_SOCKET, rds.SO_TYPE): rds.SOCK_SEQPACKET,
            (rds.SOL_SOCKET, rds.SO_DOMAIN): rds.AF_RDS,
            (rds.SOL_SOCKET, rds.SO_PROTOCOL): 0,
            (rds.SOL_SOCKET, rds.SO_ERROR): 0,
            (rds.SOL_SOCKET, rds.SO_SNDBUF): self.sndbuf,
            (rds.SOL_SOCKET, rds.SO_RCVBUF): self.rcvbuf,
            (rds.SOL_RDS, rds.RDS_RECVERR): self._recverr,
            (rds.SOL_RDS, rds.RDS_CONG_MONITOR): self._monitor,
            (rds.SOL_RDS, rds.SO_RDS_TRANSPORT): self._transport,
            (rds.SOL_RDS, rds.SO_RDS_ENDED): self._ended,
        }
        if (level, name) not in values:
            raise rds_error(errno.ENOPROTOOPT, f"level {level}, option {name}")
        return values[level, name]

    def cancel_sent_to(self, host: str, port: int) -> None:
        """Give up what was sent to an address and has not ended (RDS-20)."""
        self._usable()
        if self.port is None:
            raise rds_error(errno.ENOTCONN, "bind the socket first")
        self.node.outbox.cancel(self, (host, port))

    # What the node tells

    @property
    def sends_again(self) -> bool:
        """A message that ended without an answer is sent once more (RDS-43)."""
        return self._ended == rds.RESEND

    def ended(self, message: Outgoing) -> None:
        """A message of the socket has ended."""
        self.unended -= 1
        self.queued -= len(message.payload)
        counters = self.node.counters
        if message.cancelled:
            counters.send_cancelled += 1
        elif message.failure is None:
            counters.send_drop_acked += 1
        else:
            counters.send_given_up += 1
            if self._recverr:
                self._notices.append(GivenUp(message.address, message.number, *message.failure, len(message.payload)))

    def begins_anew(self) -> None:
        """A message of the socket is sent once more."""
        self.node.counters.send_again += 1

    def put(self, message: Whole) -> None:
        """A message has arrived.  It is taken even beyond SO_RCVBUF, which is a soft limit (RDS-10)."""
        self.queue.append(Waiting(message, (self.node.addresses.of(message.source), message.sport)))
        self.waiting += len(message.payload)
        self.node.counters.recv_queued += 1
        self._judge()

    def uncongested(self, indices: int) -> None:
        """Ports are congested no more, a bit for each index (RDS-23)."""
        ports = self.node.ports
        mask = sum(1 << bit for bit in range(rds.MONITOR_BITS) if indices >> bit % ports & 1)
        self._uncongested |= self._armed & mask if self._monitor else 0
        self._armed &= ~mask

    def news(self) -> None:
        """A peer's congested ports are others."""
        self._news, self._refused = self._news or self._refused, False

    # The steps

    @staticmethod
    def _sound(host: str) -> None:
        address = ipaddress.IPv4Address(host)
        if address.is_multicast or address == ipaddress.IPv4Address("255.255.255.255") or not int(address):
            raise rds_error(errno.EINVAL, f"{host} is no node's address: there is no multicast, broadcast or wildcard")

    def _usable(self) -> None:
        if self.closed:
            raise rds_error(errno.EBADF, "the socket was closed meanwhile")
        self.node.must_live()

    def _congestion(self, node: int, port: int) -> Call:
        """Wait for a congested port, or give up and arm the monitor (RDS-15, RDS-38)."""
        if not self.node.outbox.congested(node, port):
            return
        try:
            while self.node.outbox.congested(node, port):
                yield errno.ENOBUFS
                self._usable()
        except GeneratorExit:
            self.node.counters.cong_send_error += 1
            self._refused = True
            if self._monitor:
                self._armed |= 1 << port % rds.MONITOR_BITS
            raise
        self.node.counters.cong_send_blocked += 1

    def _choose(self, transport: int) -> None:
        if transport == rds.RDS_TRANS_NONE:
            raise rds_error(errno.EINVAL, "RDS_TRANS_NONE is no transport")
        if self._transport != rds.RDS_TRANS_NONE:
            raise rds_error(errno.EOPNOTSUPP, "the socket has its transport")
        if transport not in (rds.RDS_TRANS_IB, rds.RDS_TRANS_TCP, rds.RDS_TRANS_LETHE):
            raise rds_error(errno.EINVAL, f"there is no transport {transport}")
        self._transport = transport

    def _told(self, room: int) -> ReadMessage:
        """Notices: as many as there is room for; one at least is used up."""
        items: list[Cmsg] = []
        while self._notices:
            item = self._notices[0].cmsg()
            if items and _space(item) > room:
                break
            self._notices.popleft()
            items.append(item)
            room -= _space(item)
        else:
            if self._uncongested and (not items or room >= _space(congestion_update(0))):
                items.append(congestion_update(self._uncongested))
                self._uncongested = 0
                room -= _space(items[-1])
        if room < 0:
            # As a system call does: what has no room is lost, and the flag says so.
            return ReadMessage(b"", 0, [], rds.MSG_CTRUNC, None)
        return ReadMessage(b"", 0, items, 0, None)

    def _taken(self, size: int, ancillary: int, flags: int) -> ReadMessage:
        waiting = self.queue[0]
        message = waiting.message
        if not flags & rds.MSG_PEEK:
            self.queue.popleft()
            self.waiting -= len(message.payload)
            self.node.counters.recv_delivered += 1
            self._judge()
        items: list[Cmsg] = []
        told = 0
        if message.again:
            item = rds.SOL_RDS, rds.RDS_CMSG_AGAIN, b""
            if _space(item) <= ancillary:
                items.append(item)
            else:
                told |= rds.MSG_CTRUNC
        data = message.payload[:size]
        if len(data) < len(message.payload):
            told |= rds.MSG_TRUNC
        return ReadMessage(data, len(message.payload), items, told, waiting.address, message.number)

    def _judge(self) -> None:
        """The port is congested from SO_RCVBUF on, until the queue is below half of it (RDS-10, RDS-16, RDS-36)."""
        if self.port is None or self.closed:
            return
        full = self.waiting >= max(self.rcvbuf, 1) or len(self.queue) >= MOST_MESSAGES
        if not self.congested and full:
            self.congested = True
            self.node.counters.recv_congested += 1
            self.node.stop(self.port)
        elif self.congested and (not self.queue or (2 * self.waiting < self.rcvbuf and not full)):
            self.congested = False
            self.node.go_on(self.port)


def _int(value: object) -> int:
    """The int that an option's value is, or whose bytes it is."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        packed = bytes(value)
        if len(packed) != _INT.size:
            raise rds_error(errno.EINVAL, f"{len(packed)} bytes are no int")
        return _INT.unpack(packed)[0]
    if not isinstance(value, int):
        raise rds_error(errno.EINVAL, f"{value!r} is no int")
    if not -(1 << 31) <= value < 1 << 31:
        raise rds_error(errno.EINVAL, f"{value} is no int of 32 bits")
    return int(value)


def _space(item: Cmsg) -> int:
    """Bytes that a control message takes of a buffer."""
    return _CMSG_HEADER + -(-len(item[2]) // _CMSG_ALIGN) * _CMSG_ALIGN

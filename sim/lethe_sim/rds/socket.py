"""The socket of a user's program, with the calls of Python's `socket` (RDS-08, RDS-49).

Time is in cycles of the network, not in seconds.
"""

import errno
import ipaddress
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from . import constants as rds
from .addresses import Addresses, rds_error
from .cycles import whole_cycles
from .notices import Cmsg

if TYPE_CHECKING:
    from .endpoint import ReadMessage
    from .network import Sockets

__all__ = ["Bytes", "Socket", "SocketMessage"]

Bytes = bytes | bytearray | memoryview

#: Room for control messages, if the caller does not say.  Python's `socket` has none then, and would lose notices.
ROOM = 4096
#: struct sockaddr_in: family in the machine's order, port and address in the network's.
_SOCKADDR_IN = struct.Struct("=H2s4s8x")
_INT = struct.Struct("=i")


class SocketMessage(NamedTuple):
    """What `Socket.recvmsg` returns, as Python's does.

    ``address`` is None for a notice, which has no data either.
    """

    data: bytes
    ancdata: list[Cmsg]
    msg_flags: int
    address: tuple[str, int] | None


class Socket:
    """A socket of a node.

    Parameters
    ----------
    sockets : the network, or the client of one
    node : whose socket it is; in Linux that is the machine on which the program runs

    Calls raise OSError with the errno of RDS.  Those that may wait take at most the cycles of `settimeout`, and then
    raise TimeoutError, as Python's do.
    """

    family, type, proto = rds.AF_RDS, rds.SOCK_SEQPACKET, 0

    def __init__(self, sockets: "Sockets", node: int):
        self.sockets, self.node = sockets, node
        self.descriptor = sockets.open(node)
        self._cycles: int | None = None
        self._closed = False

    def __enter__(self) -> "Socket":
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Socket {self.descriptor} of node {self.node}{', closed' if self._closed else ''}>"

    # Names

    def bind(self, address: tuple[str, int]) -> None:
        """Take an address of the node and a port, which must be done before anything is sent or received (RDS-06).

        Raises
        ------
        OSError : EADDRINUSE: the port's index is taken; EADDRNOTAVAIL: the address is another node's, or none;
            EINVAL: the socket is bound, the port is 1, or this is no address
        """
        self._call("bind", *Addresses.checked(address), cycles=None)

    def connect(self, address: tuple[str, int]) -> None:
        """Name the destination of `send`.  Nothing is sent: peers connect with the first message (RDS-12)."""
        self._call("connect", *Addresses.checked(address))

    def getsockname(self) -> tuple[str, int]:
        """The own address and port; ("0.0.0.0", 0) before `bind`."""
        return self._names()[0] or ("0.0.0.0", 0)

    def getpeername(self) -> tuple[str, int]:
        """The destination of `send`; ENOTCONN before `connect`."""
        peer = self._names()[1]
        if peer is None:
            raise rds_error(errno.ENOTCONN, "the socket has no destination of its own")
        return peer

    # Messages out

    def send(self, data: Bytes, flags: int = 0) -> int:
        """Send a message to the destination of `connect`; see `sendmsg`."""
        return self.sendmsg([data], flags=flags)

    def sendto(self, data: Bytes, *rest) -> int:
        """``sendto(data, address)`` or ``sendto(data, flags, address)``; see `sendmsg`."""
        if len(rest) not in (1, 2):
            raise TypeError("sendto takes data, address or data, flags, address")
        flags, address = rest if len(rest) == 2 else (0, rest[0])
        return self.sendmsg([data], flags=flags, address=address)

    def sendmsg(
        self,
        buffers: Iterable[Bytes],
        ancdata: Iterable[Cmsg] = (),
        flags: int = 0,
        address: tuple[str, int] | None = None,
    ) -> int:
        """Send the buffers as one message; it leaves the socket's queue when the other side acknowledges it.

        Returns
        -------
        int : its length in bytes

        Raises
        ------
        OSError : EMSGSIZE: longer than SO_SNDBUF or 1 MiB; EAGAIN: the queue would pass SO_SNDBUF; ENOBUFS: the
            destination's port is congested (the last two only of a socket that does not wait); ENOTCONN: the socket is
            not bound, or there is no destination; EHOSTUNREACH: no node has the address; EOPNOTSUPP, EINVAL: flags or
            control messages
        """
        for level, kind, _ in ancdata:
            if level != rds.SOL_RDS:
                continue
            if kind in (rds.RDS_CMSG_RDMA_ARGS, rds.RDS_CMSG_RDMA_DEST, rds.RDS_CMSG_RDMA_MAP, *rds.RDS_CMSG_ATOMICS):
                raise rds_error(errno.EOPNOTSUPP, "there is no remote memory")
            raise rds_error(errno.EINVAL, f"a control message of type {kind} is not for sending")
        to = None if address is None else Addresses.checked(address)
        payload = b"".join(bytes(memoryview(buffer)) for buffer in buffers)
        return self._call("send", payload, to, flags, cycles=self._patience(flags))

    def drain(self, cycles: int | None = None) -> None:
        """Wait until every message that was sent has ended; `close` does not."""
        self._call("drain", cycles=cycles)

    # Messages in

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """The next message's data; see `recvmsg`."""
        return self.recvmsg(bufsize, flags=flags).data

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, tuple[str, int] | None]:
        """The next message's data, and where it is from; see `recvmsg`."""
        message = self.recvmsg(bufsize, flags=flags)
        return message.data, message.address

    def recv_into(self, buffer: bytearray | memoryview, nbytes: int = 0, flags: int = 0) -> int:
        """As `recv`, into a buffer; returns the bytes written, or with MSG_TRUNC the message's length.

        A buffer that is too small for ``nbytes``, or cannot be written, is refused before a message is taken.
        """
        view = memoryview(buffer).cast("B")
        if view.readonly:
            raise TypeError("the buffer cannot be written")
        if nbytes > len(view):
            raise ValueError(f"the buffer has {len(view):,} bytes, not {nbytes:,}")
        taken = self._take(nbytes or len(view), ROOM, flags)
        view[: len(taken.data)] = taken.data
        return taken.length if flags & rds.MSG_TRUNC else len(taken.data)

    def recvmsg(self, bufsize: int, ancbufsize: int = ROOM, flags: int = 0) -> SocketMessage:
        """The next message, or notices: they come first and alone, without data and address.

        Parameters
        ----------
        bufsize : bytes; a longer message is cut, and ``msg_flags`` has MSG_TRUNC
        ancbufsize : bytes for control messages; one that has no room is lost, and ``msg_flags`` has MSG_CTRUNC
        flags : MSG_PEEK leaves the message where it is, MSG_DONTWAIT does not wait

        Raises
        ------
        OSError : EAGAIN: nothing is there, and the socket does not wait; ENOTCONN: it is not bound; EOPNOTSUPP: MSG_OOB
        """
        taken = self._take(bufsize, ancbufsize, flags)
        return SocketMessage(taken.data, taken.ancdata, taken.flags, taken.address)

    # Options and waiting

    def setsockopt(self, level: int, name: int, value: int | bytes | tuple[str, int]) -> None:
        """Set an option; the value is an int of 32 bits, its bytes, or an address for RDS_CANCEL_SENT_TO.

        Raises
        ------
        OSError : EINVAL: the value; ENOPROTOOPT: the option is not known; EOPNOTSUPP: not now, or not here
        """
        if (level, name) == (rds.SOL_RDS, rds.RDS_CANCEL_SENT_TO):
            self._call("cancel_sent_to", *_address(value))
            return
        self._call("set_option", level, name, value)

    def getsockopt(self, level: int, name: int, buflen: int = 0) -> int | bytes:
        """An option's value; as bytes, if ``buflen`` is given."""
        value = self._call("get_option", level, name)
        if not buflen:
            return value
        if buflen < _INT.size:
            raise rds_error(errno.EINVAL, f"{buflen} bytes have no room for an int")
        return _INT.pack(value)

    def cancel_sent_to(self, address: tuple[str, int]) -> None:
        """Give up what was sent to an address and has not ended (RDS-20)."""
        self.setsockopt(rds.SOL_RDS, rds.RDS_CANCEL_SENT_TO, address)

    def settimeout(self, cycles: int | None) -> None:
        """How many cycles a call waits at most, a whole number; None: for ever, 0: not at all."""
        self._cycles = None if cycles is None else whole_cycles(cycles)

    def gettimeout(self) -> int | None:
        """What `settimeout` set."""
        return self._cycles

    def setblocking(self, flag: bool) -> None:
        """True: a call waits for ever; False: not at all."""
        self._cycles = None if flag else 0

    def poll(self, bits: int, cycles: int | None = None) -> int:
        """Wait until the socket is ready for one of these (POLLIN, POLLOUT …); 0: the cycles are over."""
        return self.sockets.poll({self.descriptor: bits}, cycles).get(self.descriptor, 0)

    def close(self) -> None:
        """Free the port.  As in Linux, what was sent and is not acknowledged is given up; see `drain`."""
        if not self._closed:
            self._closed = True
            try:
                self.sockets.call(self.descriptor, "close")
            except OSError as error:
                # It, or the network, was closed before; or the network is gone.
                if error.errno not in (errno.EBADF, errno.ENETDOWN):
                    raise

    # The steps

    def _call(self, name: str, *arguments, cycles: int | None = 0):
        if self._closed:
            raise rds_error(errno.EBADF, "the socket is closed")
        return self.sockets.call(self.descriptor, name, *arguments, cycles=cycles)

    def _names(self) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
        return self._call("names")

    def _patience(self, flags: int) -> int | None:
        return 0 if flags & rds.MSG_DONTWAIT else self._cycles

    def _take(self, size: int, ancillary: int, flags: int) -> "ReadMessage":
        if size < 0 or ancillary < 0:
            raise ValueError("a buffer has 0 bytes or more")
        return self._call("receive", size, ancillary, flags, cycles=self._patience(flags))


def _address(value: object) -> tuple[str, int]:
    """A socket address, as Python has it or as struct sockaddr_in."""
    if isinstance(value, Bytes):
        packed = bytes(value)
        if len(packed) < _SOCKADDR_IN.size:
            raise rds_error(errno.EINVAL, f"{len(packed)} bytes are no struct sockaddr_in")
        _, port, host = _SOCKADDR_IN.unpack_from(packed)
        return str(ipaddress.IPv4Address(host)), int.from_bytes(port, "big")
    return Addresses.checked(value)

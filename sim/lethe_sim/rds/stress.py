"""`rds-stress`: sockets on several nodes send each other requests, and each request is answered.

Every message says who sent it, to whom, and which of these it is; the rest of it follows from that.  So whoever
receives it can tell whether it is damaged, late, doubled or another's.
"""

import errno
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import constants as rds
from .constants import LONGEST
from .polling import Poll
from .socket import Socket

if TYPE_CHECKING:
    from .network import Sockets

__all__ = ["HEADER", "Interval", "Running", "Stress", "Wrong"]

#: Bytes of a message at least: kind, sender, receiver, number.
HEADER = struct.Struct("<HHHQ")
_REQUEST, _ACK = 1, 2
#: The largest value of an option.
_MOST = (1 << 31) - 1


@dataclass(frozen=True, kw_only=True)
class Stress:
    """What is done.

    Attributes
    ----------
    tasks : sockets; socket i is on node i mod nodes
    depth : requests that a socket may have unanswered
    request, ack : bytes of a request and of its answer, at least `HEADER.size`
    cycles : how long requests are sent; after that, what is under way ends
    interval : cycles from line to line
    patience : cycles without a message after which something is lost
    """

    tasks: int = 8
    depth: int = 4
    request: int = 256
    ack: int = 64
    cycles: int = 20_000
    interval: int = 5_000
    patience: int = 1_000_000
    seed: int = 1

    def __post_init__(self):
        if self.tasks < 2:
            raise ValueError(f"tasks: must be at least 2, not {self.tasks}; one sends to the other")
        for name in ("depth", "cycles", "interval", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, not {getattr(self, name)}")
        for name in ("request", "ack"):
            if not HEADER.size <= getattr(self, name) <= LONGEST:
                raise ValueError(
                    f"{name}: must be {HEADER.size} to {LONGEST:,} bytes, not {getattr(self, name)}: "
                    "its first bytes name the message"
                )


@dataclass
class Interval:
    """What happened from ``start`` to ``end``, in cycles.

    Attributes
    ----------
    requests, acks : received
    bytes : payload received
    round_trips : cycles, of each request that was answered
    refused : sends that met a congested port (ENOBUFS)
    again : messages that may have arrived before
    """

    start: int
    end: int = 0
    requests: int = 0
    acks: int = 0
    bytes: int = 0
    refused: int = 0
    again: int = 0
    round_trips: list[int] = field(default_factory=list)


class Wrong(Exception):
    """A message that must not be: damaged, doubled, out of order or another's."""


def content(seed: int, kind: int, sender: int, receiver: int, number: int, length: int) -> bytes:
    """A message, which follows from its name."""
    header = HEADER.pack(kind, sender, receiver, number)
    return header + random.Random(f"{seed} {header.hex()}").randbytes(length - len(header))


class StressSocket:
    """A socket, and what it has sent and received; ``answered``: requests of it that were answered."""

    def __init__(self, socket: Socket, number: int):
        self.socket, self.number = socket, number
        self.address: tuple[str, int] = ("", 0)
        self.next: dict[tuple[int, int], int] = {}
        self.expected: dict[tuple[int, int], int] = {}
        self.unanswered: dict[tuple[int, int], int] = {}
        self.owed: list[tuple[int, int]] = []
        self.turn = number
        self.answered = 0
        self.stuck = False


class Running:
    """A stress under way."""

    def __init__(self, sockets: "Sockets", addresses: list[str], stress: Stress):
        self.stress, self.sockets = stress, sockets
        self.tasks: list[StressSocket] = []
        self.by_address: dict[tuple[str, int], StressSocket] = {}
        longest = max(stress.request, stress.ack)
        for number in range(stress.tasks):
            task = StressSocket(Socket(sockets, number % len(addresses)), number)
            self.tasks.append(task)
            task.socket.bind((addresses[number % len(addresses)], 0))
            task.address = task.socket.getsockname()
            task.socket.setblocking(False)
            task.socket.setsockopt(rds.SOL_SOCKET, rds.SO_SNDBUF, min(2 * stress.depth * longest, _MOST))
            task.socket.setsockopt(rds.SOL_RDS, rds.RDS_CONG_MONITOR, 1)
            self.by_address[task.address] = task
        self.tallied = Interval(sockets.cycle)
        self.moved = sockets.cycle

    def run(self) -> Iterator[Interval]:
        """Send, receive and check until the time is over and everything is answered.

        Raises `Wrong` for a message that is not as it must be, and if nothing arrives any more.
        """
        start = self.sockets.cycle
        end, poll, moved = start + self.stress.cycles, Poll(), self.tasks
        of = {task.socket: task for task in self.tasks}
        while True:
            now = self.sockets.cycle
            sending = now < end
            for task in moved:
                self._send(task, sending)
                poll.register(task.socket, rds.POLLIN | (rds.POLLOUT if task.stuck else 0))
            if not sending and not any(task.unanswered or task.owed for task in self.tasks):
                break
            if now - self.moved > self.stress.patience:
                left = sum(len(task.unanswered) for task in self.tasks)
                raise Wrong(
                    f"nothing has arrived for {self.stress.patience:,} cycles, and {left:,} requests are unanswered"
                )
            due = self.tallied.start + self.stress.interval
            lost = self.moved + self.stress.patience + 1
            ready = poll.poll(max(1, min(due, lost, end if sending else due) - now))
            moved = [of[socket] for socket, _ in ready]
            for task in moved:
                self._receive(task)
            if self.sockets.cycle >= due:
                yield self._tally()
        if self.sockets.cycle > self.tallied.start:
            yield self._tally()

    def lines(self) -> Iterator[str]:
        """The same as text: a head, a line for each interval, and at the end what was found."""
        intervals = []
        yield _head()
        for interval in self.run():
            intervals.append(interval)
            yield _line(interval)
        yield _verdict(self.stress, intervals)

    def close(self) -> None:
        """Close the sockets."""
        for task in self.tasks:
            task.socket.close()

    def _tally(self) -> Interval:
        tallied, self.tallied = self.tallied, Interval(self.sockets.cycle)
        tallied.end = self.tallied.start
        return tallied

    def _send(self, task: StressSocket, requests: bool) -> None:
        """Owed answers first, then requests to the other tasks in turn."""
        task.stuck = False
        while task.owed:
            receiver, number = task.owed[0]
            if not self._offer(task, _ACK, receiver, number, self.stress.ack):
                return
            task.owed.pop(0)
        for _ in range(self.stress.tasks):
            if not requests or len(task.unanswered) >= self.stress.depth:
                return
            task.turn = (task.turn + 1) % self.stress.tasks
            if task.turn == task.number:
                continue
            number = task.next.get((_REQUEST, task.turn), 0)
            if self._offer(task, _REQUEST, task.turn, number, self.stress.request):
                task.unanswered[task.turn, number] = self.sockets.cycle
            elif task.stuck:
                return

    def _offer(self, task: StressSocket, kind: int, receiver: int, number: int, length: int) -> bool:
        payload = content(self.stress.seed, kind, task.number, receiver, number, length)
        try:
            task.socket.sendto(payload, rds.MSG_DONTWAIT, self.tasks[receiver].address)
        except BlockingIOError:
            task.stuck = True
            return False
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            self.tallied.refused += 1
            return False
        task.next[kind, receiver] = number + 1
        return True

    def _receive(self, task: StressSocket) -> None:
        """Everything that waits for a task."""
        while True:
            try:
                message = task.socket.recvmsg(LONGEST)
            except BlockingIOError:
                return
            if message.address is None:
                # A notice: a port is congested no more.
                continue
            sender = self.by_address.get(message.address)
            again = any(kind == rds.RDS_CMSG_AGAIN for _, kind, _ in message.ancdata)
            self.tallied.again += again
            self.tallied.bytes += len(message.data)
            if sender is None:
                raise Wrong(f"{task.address}: a message from {message.address}, where nobody is")
            self._check(task, sender, message.data, again)

    def _check(self, task: StressSocket, sender: StressSocket, data: bytes, again: bool) -> None:
        where = f"{sender.address[0]}:{sender.address[1]} to {task.address[0]}:{task.address[1]}"
        if len(data) < HEADER.size:
            raise Wrong(f"{where}: {len(data)} bytes")
        kind, by, to, number = HEADER.unpack_from(data)
        length = {_REQUEST: self.stress.request, _ACK: self.stress.ack}.get(kind)
        good = (by, to) == (sender.number, task.number) and length == len(data)
        if not good or data != content(self.stress.seed, kind, by, to, number, len(data)):
            raise Wrong(f"{where}: {len(data)} bytes are not what was sent")
        expected = task.expected.get((kind, by), 0)
        if number < expected and again:
            return
        if number != expected:
            what = "twice" if number < expected else "one is lost"
            raise Wrong(f"{where}: message {number}, where {expected} is next: {what}")
        task.expected[kind, by] = number + 1
        self.moved = self.sockets.cycle
        if kind == _REQUEST:
            self.tallied.requests += 1
            task.owed.append((by, number))
        else:
            self.tallied.acks += 1
            task.answered += 1
            self.tallied.round_trips.append(self.sockets.cycle - task.unanswered.pop((by, number)))


_HEAD = ("cycles", "requests", "acks", "bytes/kcycle", "round trip", "most", "ENOBUFS", "again")


def _head() -> str:
    """The line above those of the intervals."""
    return "  ".join(name.rjust(_width(name)) for name in _HEAD)


def _line(interval: Interval) -> str:
    """An interval's line; rates are per 1,000 cycles, the round trip is the median."""
    trips = sorted(interval.round_trips)
    cells = (
        f"{interval.end:,}", f"{interval.requests:,}", f"{interval.acks:,}",
        f"{1000 * interval.bytes / max(1, interval.end - interval.start):,.0f}",
        f"{trips[len(trips) // 2]:,}" if trips else "-", f"{trips[-1]:,}" if trips else "-",
        f"{interval.refused:,}", f"{interval.again:,}",
    )  # fmt: skip
    return "  ".join(cell.rjust(_width(name)) for name, cell in zip(_HEAD, cells, strict=True))


def _verdict(stress: Stress, intervals: list[Interval]) -> str:
    """What is said at the end of a run that found nothing wrong."""
    requests, cycles = sum(i.requests for i in intervals), intervals[-1].end - intervals[0].start if intervals else 0
    acks = sum(interval.acks for interval in intervals)
    return (
        f"{requests:,} requests and {acks:,} acks of {stress.tasks} sockets in {cycles:,} cycles: "
        "every one whole, once and in order"
    )


def _width(name: str) -> int:
    return max(len(name), 9)

"""What `rds-info` shows: tables of counters, sockets, streams and queues, as text."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .node import RdsNode

__all__ = ["TABLES", "Information", "gather", "lines"]


@dataclass(frozen=True)
class SocketRow:
    """A bound socket.  ``queued`` and ``waiting`` are bytes that count to ``sndbuf`` and ``rcvbuf``."""

    node: int
    address: str
    port: int
    peer_address: str
    peer_port: int
    sndbuf: int
    queued: int
    rcvbuf: int
    waiting: int


@dataclass(frozen=True)
class StreamRow:
    """A stream: from a node to an index of another.  ``next_tx`` and ``next_rx`` are 64-bit numbers (RDS-24)."""

    node: int
    local: str
    remote: str
    index: int
    next_tx: int
    next_rx: int
    state: str


@dataclass(frozen=True)
class MessageRow:
    """A message in a queue; ``number`` is of its stream if it came, and among its socket's if it goes."""

    node: int
    local: str
    port: int
    remote: str
    remote_port: int
    number: int
    length: int


@dataclass(frozen=True)
class Information:
    """Of one node, or of several.

    Attributes
    ----------
    counters : sums over the nodes, by name
    send, unanswered : messages of which nothing, or something, is under way (`rds-info -s` and `-t`)
    """

    counters: dict[str, int]
    sockets: list[SocketRow]
    streams: list[StreamRow]
    receive: list[MessageRow]
    send: list[MessageRow]
    unanswered: list[MessageRow]

    @classmethod
    def plain(cls, tables: dict) -> "Information":
        """From what `dataclasses.asdict` makes of one."""
        rows = {name: [MessageRow(**row) for row in tables[name]] for name in ("receive", "send", "unanswered")}
        sockets = [SocketRow(**row) for row in tables["sockets"]]
        streams = [StreamRow(**row) for row in tables["streams"]]
        return cls(tables["counters"], sockets, streams, **rows)


def gather(nodes: Iterable["RdsNode"]) -> Information:
    """What the nodes know now."""
    counters: dict[str, int] = {}
    found = Information(counters, [], [], [], [], [])
    for node in nodes:
        for name, value in node.counters.rows().items():
            counters[name] = counters.get(name, 0) + value
        _sockets(node, found)
        _streams(node, found)
    return found


def _sockets(node: "RdsNode", found: Information) -> None:
    for endpoint in sorted(node.endpoints.values(), key=lambda endpoint: endpoint.port or 0):
        local, port = endpoint.address or "0.0.0.0", endpoint.port or 0
        peer = endpoint.peer or ("0.0.0.0", 0)
        found.sockets.append(
            SocketRow(
                node.number, local, port, *peer, endpoint.sndbuf, endpoint.queued, endpoint.rcvbuf, endpoint.waiting
            )
        )
        for waiting in endpoint.queue:
            message = waiting.message
            found.receive.append(
                MessageRow(node.number, local, port, *waiting.address, message.number, len(message.payload))
            )
    for message in node.outbox.messages():
        endpoint = message.endpoint
        rows = found.unanswered if message.under_way else found.send
        rows.append(
            MessageRow(
                node.number, endpoint.address or "0.0.0.0", endpoint.port or 0, *message.address, message.number,
                len(message.payload),
            )
        )  # fmt: skip


def _streams(node: "RdsNode", found: Information) -> None:
    outbox = node.outbox
    for peer, index in sorted({*outbox.lanes, *node.joiners}):
        lane, joiner = outbox.lanes.get((peer, index)), node.joiners.get((peer, index))
        if peer == node.number or peer in outbox.up:
            state = "UP"
        else:
            state = "CONNECTING" if lane is not None and lane.backlogs else "DOWN"
        found.streams.append(
            StreamRow(
                node.number, node.addresses.of(node.number), node.addresses.of(peer), index,
                lane.admitted if lane else 0, joiner.numbers.next if joiner else 0, state,
            )
        )  # fmt: skip


#: What `lines` can show, by the letter of `rds-info`.
TABLES = {
    "c": "Counters",
    "k": "Sockets",
    "n": "Connections",
    "r": "Receive queue",
    "s": "Send queue",
    "t": "Unanswered",
}


def lines(found: Information, tables: str = "".join(TABLES)) -> list[str]:
    """The tables whose letters are given, one after the other."""
    text: list[str] = []
    for letter in tables:
        head, rows = _table(found, letter)
        text += ["", f"{TABLES[letter]}:"] if text else [f"{TABLES[letter]}:"]
        text += _columns(head, rows)
    return text


def _table(found: Information, letter: str) -> tuple[list[str], list[list[str]]]:
    match letter:
        case "c":
            return ["Name", "Value"], [[name, f"{value:,}"] for name, value in found.counters.items()]
        case "k":
            head = ["Address", "Port", "Connected to", "Port", "SndBuf", "Queued", "RcvBuf", "Waiting"]
            return head, [[str(cell) for cell in astuple(row)[1:]] for row in found.sockets]
        case "n":
            head = ["Local", "Remote", "Index", "NextTX", "NextRX", "State"]
            return head, [[str(cell) for cell in astuple(row)[1:]] for row in found.streams]
    queue = {"r": found.receive, "s": found.send, "t": found.unanswered}[letter]
    head = ["Local", "Port", "Remote", "Port", "Seq", "Bytes"]
    return head, [[str(cell) for cell in astuple(row)[1:]] for row in queue]


def _columns(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]
    ]

"""A file as a workload: cut into datagrams that cross the network between all pairs, put together at the end.

Datagrams arrive in any order, so each begins with its number (4 bytes, little endian); the rest is the piece
of the file.  Node and offset rotate by seed, so that after nodes − 1 rounds every pair has carried one.
"""

import hashlib
import random
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lethe.spec.config import System

from .workload import Verdict, Workload

if TYPE_CHECKING:
    from lethe_sim.golden.script import Letters, Script

NUMBER_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One datagram of the file: ``payload`` is its number and its bytes."""

    source: int
    destination: int
    payload: bytes


@dataclass(frozen=True, kw_only=True)
class Received:
    """What came out at the other end.

    Attributes
    ----------
    data : the file as received; missing pieces are left out
    equal : whether it is the file that was sent, byte for byte
    sha256 : of ``data``
    missing, doubled, strange : pieces that did not arrive, arrived again, or are none of this file's
    """

    data: bytes
    equal: bool
    sha256: str
    missing: int
    doubled: int
    strange: int

    @property
    def good(self) -> bool:
        """The file, and nothing but the file."""
        return self.equal and not (self.doubled or self.strange)

    def text(self) -> str:
        if self.good:
            return f"file: {len(self.data):,} bytes received as sent, SHA-256 {self.sha256}"
        return (
            f"file: not received as sent: {self.missing:,} pieces missing, {self.doubled:,} more than once, "
            f"{self.strange:,} altered or at the wrong node"
        )


class FileWorkload(Workload):
    """The file that ``workload.path`` names."""

    def __init__(self, system: System):
        super().__init__(system)
        if system.host_mtu <= NUMBER_BYTES:
            raise self.fail("wire.mtu", f"a piece of a file needs more than {NUMBER_BYTES} bytes", "raise it")
        self.data = self.read()

    @property
    def expected(self) -> int:
        return max(1, -(-len(self.data) // (self.system.host_mtu - NUMBER_BYTES)))

    def phases(self) -> "Generator[Script, Letters, Verdict]":
        letters = yield self.script()
        found = zip(letters.node.tolist(), letters.source.tolist(), range(len(letters)), strict=True)
        deliveries = ((node, source, letters.payload(i)) for node, source, i in found)
        received = reassemble(self.system, self.data, deliveries)
        return Verdict(good=received.good, text=received.text(), data=received.data)

    def script(self) -> "Script":
        """What the hosts send."""
        from lethe_sim.golden.script import Item, Script

        load, tags = self.system.workload, 1 << self.system.wire.tag_bits
        items = (
            Item(
                node=piece.source, destination=piece.destination, payload=piece.payload,
                deadline=load.deadline, retry_limit=load.retry_limit, tag=number % tags,
            )
            for number, piece in enumerate(cut(self.system, self.data))
        )  # fmt: skip
        return Script.from_items(self.system, items)


def cut(system: System, data: bytes) -> Iterator[Piece]:
    """The datagrams of ``data``, in the order of the file; an empty file is one empty piece."""
    size = system.host_mtu - NUMBER_BYTES
    pairs = _pairs(system.nodes, system.run.seed)
    for number in range(max(1, -(-len(data) // size))):
        source, destination = next(pairs)
        payload = number.to_bytes(NUMBER_BYTES, "little") + data[number * size : (number + 1) * size]
        yield Piece(source=source, destination=destination, payload=payload)


def _pairs(nodes: int, seed: int) -> Iterator[tuple[int, int]]:
    """(source, destination) for ever: rounds in which every node sends once and receives once."""
    chance = random.Random(f"file {seed}")
    sources, offsets = list(range(nodes)), list(range(1, nodes))
    while True:
        chance.shuffle(offsets)
        for offset in offsets:
            chance.shuffle(sources)
            for source in sources:
                yield source, (source + offset) % nodes


def reassemble(system: System, data: bytes, deliveries: Iterable[tuple[int, int, bytes]]) -> Received:
    """Put the file together from (node, source, payload) of every delivery, and hold it against ``data``."""
    sent = list(cut(system, data))
    pieces: dict[int, bytes] = {}
    doubled = strange = 0
    for node, source, payload in deliveries:
        number = int.from_bytes(payload[:NUMBER_BYTES], "little")
        if number >= len(sent) or (sent[number].source, sent[number].destination) != (source, node):
            strange += 1
            continue
        strange += payload != sent[number].payload
        doubled += number in pieces
        pieces.setdefault(number, payload[NUMBER_BYTES:])
    received = b"".join(pieces[number] for number in sorted(pieces))
    return Received(
        data=received,
        equal=received == data and len(pieces) == len(sent),
        sha256=hashlib.sha256(received).hexdigest(),
        missing=len(sent) - len(pieces),
        doubled=doubled,
        strange=strange,
    )

"""A file as a workload: cut into datagrams that cross the network between all pairs, put together at the end.

Datagrams arrive in any order, so each begins with its number (4 bytes, little endian); the rest is the piece
of the file.  Node and offset rotate by seed, so that after nodes − 1 rounds every pair has carried one.
"""

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lethe.spec.config import System

if TYPE_CHECKING:
    from lethe_sim.golden.model import Script

NUMBER_BYTES = 4


class WorkloadError(ValueError):
    """A file that cannot be sent with this configuration.  The message is ``file: key: what; cure``."""


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


def file_path(system: System) -> Path:
    """Where the file is: ``workload.path``, relative to the configuration."""
    return Path(system.source).parent / system.workload.path


def read(system: System) -> bytes:
    """The file's bytes; raises `WorkloadError`."""
    where = f"{system.source}: workload.path"
    if system.wire.mtu <= NUMBER_BYTES:
        raise WorkloadError(
            f"{system.source}: wire.mtu: a piece of a file needs more than {NUMBER_BYTES} bytes; raise it"
        )
    path = file_path(system)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise WorkloadError(f"{where}: no such file {path}; the path is relative to the configuration") from None
    except IsADirectoryError:
        raise WorkloadError(f"{where}: {path} is a directory; name a file in it") from None
    except OSError as error:
        raise WorkloadError(f"{where}: {path} cannot be read: {error.strerror}; check its permissions") from None


def cut(system: System, data: bytes) -> Iterator[Piece]:
    """The datagrams of ``data``, in the order of the file; an empty file is one empty piece."""
    size = system.wire.mtu - NUMBER_BYTES
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


def script_for(system: System) -> "Script":
    """What the hosts send, for the golden model and for the RTL beside it."""
    from lethe_sim.golden.model import Item, Script

    load, tags = system.workload, 1 << system.wire.tag_bits
    items = [
        Item(
            node=piece.source, not_before=0, destination=piece.destination, payload=piece.payload,
            deadline=load.deadline, retry_limit=load.retry_limit, tag=number % tags,
        )
        for number, piece in enumerate(cut(system, read(system)))
    ]  # fmt: skip
    return Script.from_items(system, items)


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

"""What the hosts took from the RTL's deliver FIFOs, put together from its trace words."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import LANE_NAMES, LANE_TAKE


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One datagram as its host received it, its last beat in ``cycle``."""

    node: int
    source: int
    cycle: int
    payload: bytes


class _Places(NamedTuple):
    """Where a deliver FIFO of a node shows what is taken: index of a trace word, or of a bit in the word ``flags``."""

    node: int
    take: int
    flags: int
    valid: int
    beat: int


def _places(layout: trace.Layout) -> Iterator[_Places]:
    """Deliver FIFO 0 of every node, and the services that have a lane for what is taken."""
    for node in range(layout.graph.nodes):
        base, valid = node * layout.ni_words, trace.NI_FLAG_BITS.index("deliver_data.valid")
        yield _Places(node, base + trace.lane_word(LANE_TAKE), base + trace.NI_FLAGS, valid, base + trace.NI_BEAT)
        for level, service in enumerate(layout.services):
            base, take = layout.service_place(node, level), LANE_NAMES[LANE_TAKE]
            if take in service.lanes:
                (valid,) = (i for i, name in enumerate(service.flag_bits) if name.endswith("_data.valid"))
                flags = base + service.flags
                yield _Places(node, base + 2 * service.lanes.index(take), flags, valid, flags + 1)


class TakenPayloads:
    """Collects the datagrams of every node (scripted hosts take whatever is offered, unless stalled).

    They are those of deliver FIFO 0, and those of services.  `append` takes the RTL's words, chunk by chunk; `complete`
    grows as datagrams become whole.
    """

    def __init__(self, system: System):
        self.complete: list[Taken] = []
        self._system = system
        self._fifos = list(_places(system.layout))
        # Per FIFO: records taken and not yet filled, and the bytes of the first of them.
        self._open: list[list[tuple[int, int]]] = [[] for _ in self._fifos]
        self._bytes = [bytearray() for _ in self._fifos]

    def append(self, first: int, rows: np.ndarray) -> None:
        """Take the words uint64[n, words] of the cycles from ``first`` on."""
        step = self._system.format.flit_bytes
        for number, fifo in enumerate(self._fifos):
            taken = rows[:, fifo.take]
            beat = (rows[:, fifo.flags] >> np.uint64(fifo.valid) & np.uint64(1)).astype(bool)
            for i in np.flatnonzero((taken != 0) | beat).tolist():
                word = int(taken[i])
                if word:
                    self._open[number].append((trace.PEER.of(word), trace.LENGTH.of(word)))
                if beat[i] and not self._stalled(fifo.node, first + i):
                    data = int(rows[i, fifo.beat]) | int(rows[i, fifo.beat + 1]) << 64
                    self._bytes[number] += data.to_bytes(16, "little")[:step]
                self._close(number, first + i)

    def _close(self, number: int, cycle: int) -> None:
        waiting, held, node = self._open[number], self._bytes[number], self._fifos[number].node
        while waiting and len(held) >= waiting[0][1]:
            source, length = waiting.pop(0)
            self.complete.append(Taken(node=node, source=source, cycle=cycle, payload=bytes(held[:length])))
            del held[: self._system.format.payload_flits(length) * self._system.format.flit_bytes]

    def _stalled(self, node: int, cycle: int) -> bool:
        return any(f.node == node and f.start <= cycle < f.end for f in self._system.faults.stalls)

"""What the hosts took from the RTL's deliver FIFOs, put together from its trace words."""

from dataclasses import dataclass

import numpy as np

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import LANE_TAKE, Event


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One datagram as its host received it, its last beat in ``cycle``."""

    node: int
    source: int
    cycle: int
    payload: bytes


class TakenPayloads:
    """Collects the datagrams of deliver FIFO 0 of every node (scripted hosts take whatever is offered, unless stalled).

    `append` takes the RTL's words, chunk by chunk; `complete` grows as datagrams become whole.
    """

    def __init__(self, system: System):
        self.complete: list[Taken] = []
        self._system = system
        self._valid = trace.NI_FLAG_BITS.index("deliver_data.valid")
        # Per node: records taken and not yet filled, and the bytes of the first of them.
        self._open: list[list[tuple[int, int]]] = [[] for _ in range(system.nodes)]
        self._bytes = [bytearray() for _ in range(system.nodes)]

    def append(self, first: int, rows: np.ndarray) -> None:
        """Take the words uint64[n, words] of the cycles from ``first`` on."""
        step, ni_words = self._system.format.flit_bytes, self._system.layout.ni_words
        for node in range(self._system.nodes):
            words = rows[:, node * ni_words : (node + 1) * ni_words]
            taken = words[:, trace.lane_word(LANE_TAKE)]
            beat = (words[:, trace.NI_FLAGS] >> np.uint64(self._valid) & np.uint64(1)).astype(bool)
            for i in np.flatnonzero((taken != 0) | beat).tolist():
                word = int(taken[i])
                if trace.EVENT.of(word) == Event.TAKE:
                    self._open[node].append((trace.PEER.of(word), trace.LENGTH.of(word)))
                if beat[i] and not self._stalled(node, first + i):
                    data = int(words[i, trace.NI_BEAT]) | int(words[i, trace.NI_BEAT + 1]) << 64
                    self._bytes[node] += data.to_bytes(16, "little")[:step]
                self._close(node, first + i)

    def _close(self, node: int, cycle: int) -> None:
        waiting = self._open[node]
        while waiting and len(self._bytes[node]) >= waiting[0][1]:
            source, length = waiting.pop(0)
            self.complete.append(
                Taken(node=node, source=source, cycle=cycle, payload=bytes(self._bytes[node][:length]))
            )
            padded = self._system.format.payload_flits(length) * self._system.format.flit_bytes
            del self._bytes[node][:padded]

    def _stalled(self, node: int, cycle: int) -> bool:
        return any(f.node == node and f.start <= cycle < f.end for f in self._system.faults.stalls)

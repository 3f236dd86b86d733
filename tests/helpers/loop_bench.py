"""A system with loops whose hosts are driven by hand, a cycle a call."""

from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe_sim.golden.model import Golden
from lethe_sim.golden.state import Delivery, ShownPort
from tests.helpers.golden_steps import offer

#: Bits of the stimulus flags word.
RECORD, BEAT, CANCEL, QUIESCE, DELIVER_STALL, COMPLETION_STALL = 1, 2, 4, 8, 32, 64
CONTROL_RECORD, CONTROL_BEAT = 128, 256
SEND_READY, DATA_READY, COMPLETION, DELIVER, DELIVER_DATA, DELIVER_LAST, CANCEL_READY, IDLE = (1 << i for i in range(8))
SLOTS, NODE = 16, 3


class Seen(NamedTuple):
    """What a node's loop shows in a cycle: its flags, its beat, and of each lane (event, detail, length, tag, uid)."""

    flags: int
    beat: int
    lanes: tuple[tuple[Event, int, int, int, int] | None, ...]


class LoopBench:
    """Node `NODE` of a crossbar of five, from the cycle before its NI is Ready on; cycle 0 is the first with a step."""

    def __init__(self, *, slots: int = 2, flits: int = 0, **sections):
        sections.setdefault("ni", {"slots": SLOTS, "sets": 16})
        shape = {"topology": {"kind": "crossbar", "nodes": 5}, "loop": {"slots": slots, "flits": flits}}
        self.system = System.make(**shape | sections)
        self.golden = Golden(self.system, external=True, record=True)
        self._words = np.zeros((1, self.system.layout.words), np.uint64)
        self.begin = max(self.system.ni.slots, self.system.ni.sets)
        for _ in range(self.begin):
            self.step()

    def step(self, words: list[int] | None = None, *, flags: int = 0) -> Seen:
        """One cycle; ``words`` are the node's stimulus, and ``flags`` are added to their first."""
        layout = self.system.layout
        stimulus = np.zeros((1, self.system.nodes * layout.stimulus_words), np.uint64)
        given = words or []
        stimulus[0, NODE * layout.stimulus_words :][: len(given)] = given
        stimulus[0, NODE * layout.stimulus_words] |= np.uint64(flags)
        self.golden.run(1, words=self._words, stimulus=stimulus)
        row = [int(word) for word in self._words[0, layout.service_base + NODE * layout.service_words :]]
        return Seen(row[6], row[7] | row[8] << 64, tuple(_event(row[i], row[i + 1]) for i in range(0, 6, 2)))

    def steps(self, count: int, words: list[int] | None = None, *, flags: int = 0) -> list[Seen]:
        """Several cycles with the same stimulus."""
        return [self.step(words, flags=flags) for _ in range(count)]

    @property
    def shown(self) -> ShownPort:
        """What the node's host was shown in the cycle that was stepped last, but for the deliver streams."""
        k = self.golden.k
        streams = int(k.streams) * Delivery.size
        return ShownPort(self.golden._ni[NODE], int(k.at_top + k.port_width) - streams - ShownPort.size)

    @property
    def delivery(self) -> Delivery:
        """What the loop's deliver stream showed in that cycle."""
        k = self.golden.k
        return Delivery(self.golden._ni[NODE], int(k.at_top + k.port_width) - Delivery.size)

    def ni_word(self, word: int) -> int:
        """A trace word of the node's NI in the cycle that was stepped last."""
        return int(self._words[0, NODE * self.system.layout.ni_words + word])

    def record(self, length: int, **fields) -> list[int]:
        """Stimulus that offers a record for the own node."""
        return offer(NODE, length, **fields)

    @staticmethod
    def beat(data: int) -> list[int]:
        """Stimulus that offers a beat."""
        return [BEAT, 0, 0, data & (1 << 64) - 1, data >> 64, 0]

    @staticmethod
    def cancel(slot: int, generation: int = 0) -> list[int]:
        """Stimulus that offers a cancel."""
        return [CANCEL, 0, 0, 0, 0, slot | generation << 16]

    def send(self, length: int, *, flags: int = 0, **fields) -> list[Seen]:
        """Send to the own node, each record and beat in the cycle after the one before; returns the cycles."""
        seen = [self.step(self.record(length, **fields), flags=flags)]
        beats = self.system.format.payload_flits(length)
        return seen + [self.step(self.beat(0x1111_1111_1111_1111 * (i + 1)), flags=flags) for i in range(beats)]


def _event(word: int, uid: int) -> tuple[Event, int, int, int, int] | None:
    if not word:
        return None
    return Event(word & 0xFF), word >> 8 & 0xFF, word >> 32 & 0xFFFF, word >> 48, uid

"""A system with flow whose hosts are driven by hand, a cycle a call."""

from typing import NamedTuple

import numpy as np

from lethe.spec.events import Event
from lethe.spec.services import FLOW
from lethe.spec.trace import DETAIL, EVENT, EXTRA, LENGTH, PEER
from lethe_sim.golden.model import Golden
from lethe_sim.golden.services.flow.state import Flow
from lethe_sim.golden.state import Delivery, ShownPort
from tests.helpers.flow_oracle import flow_system

RECORD, BEAT, CANCEL, QUIESCE, DELIVER_STALL, COMPLETION_STALL = 1, 2, 4, 8, 32, 64
SEND_READY, DATA_READY, COMPLETION, DELIVER, DELIVER_DATA, DELIVER_LAST, CANCEL_READY, SET_READY, NOTICE, IDLE = (
    1 << i for i in range(len(FLOW.flag_bits))
)


class Shown(NamedTuple):
    """An event: its cycle (from the bench's first on), lane, and fields."""

    cycle: int
    event: Event
    detail: int
    peer: int
    length: int
    extra: int


class FlowBench:
    """The nodes of a system, from the cycle on in which flow is Ready; cycle 0 is the first with a step."""

    def __init__(self, nodes: int = 2, *, wait: int | None = None, **sections):
        self.system = flow_system(nodes, **sections)
        self.golden = Golden(self.system, external=True, record=True)
        self._words = np.zeros((1, self.system.layout.words), np.uint64)
        self.offers: dict[int, list[int]] = {}
        self.mask = {node: (1 << self.system.flow.ports) - 1 for node in range(nodes)}
        flow = self.system.flow
        ready = max(nodes * flow.ports, flow.cells * flow.ports, self.system.ni.slots)
        self.begin = 0
        self.steps(ready if wait is None else wait)
        self.begin = self.golden.cycle
        self.golden.take_events()

    def step(self, offers: dict[int, list[int]] | None = None, *, flags: int = 0) -> int:
        """One cycle in which nodes are offered these stimulus words; returns the flags of node 0."""
        layout = self.system.layout
        stimulus = np.zeros((self.system.nodes, layout.stimulus_words), np.uint64)
        for node in range(self.system.nodes):
            stimulus[node, layout.stimulus_ports] = self.mask[node] << 40
            given = (offers or {}).get(node, [])
            stimulus[node, : len(given)] |= np.array(given, np.uint64)
            stimulus[node, 0] |= np.uint64(flags)
        self.golden.run(1, words=self._words, stimulus=stimulus.reshape(1, -1))
        return self.flags(0)

    def steps(self, count: int, offers: dict[int, list[int]] | None = None, *, flags: int = 0) -> list[int]:
        """Several cycles."""
        return [self.step(offers, flags=flags) for _ in range(count)]

    def flags(self, node: int) -> int:
        """The word of flags of a node in the cycle that was stepped last."""
        return int(self._words[0, self.system.layout.service_place(node, 0) + FLOW.flags])

    def events(self, node: int = 0) -> list[Shown]:
        """What a node's flow has shown since the last call."""
        unit = self.system.layout.service_unit(node, 0)
        kept = [row for row in self.golden.take_events().tolist() if row[1] == unit]
        return [
            Shown(cycle - self.begin, Event(EVENT.of(w)), DETAIL.of(w), PEER.of(w), LENGTH.of(w), EXTRA.of(w))
            for cycle, _, _, w, _ in kept
        ]

    def flow(self, node: int = 0) -> Flow:
        """What a node's flow knows."""
        return Flow(self.golden._ni[node, int(self.golden.k.rooms[0].at) :])

    def shown(self, node: int = 0) -> ShownPort:
        """What a node's host was shown in the cycle that was stepped last, but for the deliver streams."""
        k = self.golden.k
        streams = int(k.port_streams) * Delivery.size
        return ShownPort(self.golden._ni[node], int(k.at_top + k.port_width) - streams - ShownPort.size)

    def delivery(self, node: int = 0) -> Delivery:
        """What its deliver stream showed."""
        k = self.golden.k
        return Delivery(self.golden._ni[node], int(k.at_top + k.port_width) - int(k.port_streams) * Delivery.size)

    def record(self, destination: int, length: int, *, sport=0, dport=0, flags=3, tag=0, mode=0, cls=0, deadline=0,
               retry_limit=0) -> list[int]:  # fmt: skip
        """Stimulus that offers a record."""
        words = [0] * self.system.layout.stimulus_words
        words[0] = RECORD
        words[1] = destination | cls << 16 | mode << 24 | length << 32 | tag << 48
        words[2] = deadline | retry_limit << 32
        words[self.system.layout.stimulus_ports] = sport | dport << 16 | flags << 32
        return words

    def beat(self, data: int) -> list[int]:
        """Stimulus that offers a beat."""
        return [BEAT, 0, 0, data & (1 << 64) - 1, data >> 64, 0]

    def set(self, code: int, index: int, value: int = 0) -> list[int]:
        """Stimulus that sets something."""
        words = [0] * self.system.layout.stimulus_words
        words[self.system.layout.stimulus_ports + 1] = 1 | code << 1 | index << 3 | value << 7
        return words

    def send(self, node: int, destination: int, length: int, **fields) -> None:
        """Offer a record until it is taken, then its beats."""
        words = self.record(destination, length, **fields)
        for _ in range(4000):
            self.step({node: words})
            if self.flags(node) & SEND_READY:
                break
        else:
            raise AssertionError("the record is not taken")
        for number in range(self.system.format.payload_flits(length)):
            while True:
                self.step({node: self.beat(0x1111_1111_1111_1111 * (number + 1))})
                if self.flags(node) & DATA_READY:
                    break

"""Good rows of loops without the golden model: own datagrams one after the other, taken when their hosts please."""

import random

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import LANE_RX, LOOP_ACCEPT, LOOP_DONE, LOOP_TAKEN, Cause, Event, Status
from lethe.spec.trace import EVENT
from lethe.spec.wire import pack_uid
from lethe_sim.trace import RAW_EVENT

Row = tuple[int, int, int, int, int]


def loop_events(system: System, datagrams: int = 40) -> np.ndarray:
    """The raw events of loops and of the resets of ``system``; in each epoch a node begins up to ``datagrams``."""
    rows: list[Row] = []
    for node in range(system.nodes):
        rows += _Node(system, node).rows(datagrams)
    return np.array(rows, RAW_EVENT)


class _Node:
    def __init__(self, system: System, node: int):
        self.system, self.node, self.unit = system, node, system.layout.service_unit(node, 0)
        self.chance = random.Random(100 * system.run.seed + node)
        self.resets = sorted((r for r in system.node_resets if r.node == node), key=lambda r: r.start)

    def rows(self, datagrams: int) -> list[Row]:
        found = [self.row(reset.start, self.node, LANE_RX, Event.RESET) for reset in self.resets]
        begin = 0
        for reset in (r for r in self.resets if r.scope == "node"):
            rows = [row for row in self.epoch(begin, datagrams) if row[0] < reset.start]
            events = [EVENT.of(row[3]) for row in rows]
            left = events.count(Event.LOOPED) - events.count(Event.LOOP_TAKE)
            found += [*rows, self.row(reset.start, self.unit, LOOP_ACCEPT, Event.LOOP_RESET, length=left)]
            begin = reset.start + reset.cycles
        return found if self.system.death(self.node) is not None else found + self.epoch(begin, datagrams)

    def epoch(self, begin: int, datagrams: int) -> list[Row]:
        """What would be shown from cycle ``begin`` on, without another reset of scope "node"."""
        rows: list[Row] = []
        ends, taken, cycle = [0], 0, begin + 5 + self.node
        for number in range(datagrams):
            slots = self.system.loop.slots
            length = self.chance.choice((0, 1, self.system.format.mtu, self.chance.randint(0, self.system.format.mtu)))
            # The slot is free when the datagram that had it before has been completed.
            at = max(cycle, ends[-slots] + 1 if len(ends) > slots else 0)
            flits = self.system.format.payload_flits(length)
            while (stored := self.awake(at + flits + 1)) != at + flits + 1:
                at = stored  # a reset of the NI forgot it
            slot, generation = self.system.ni.slots + number % slots, number // slots
            generation %= 1 << self.system.format.generation_bits
            tag, done = (
                self.chance.randrange(1000),
                self.awake(max(stored + 2, ends[-1] + 1) + self.chance.randint(0, 8)),
            )
            ends.append(done)
            cycle = self.awake(stored + 1 + self.chance.randint(0, 6))
            said = {"peer": self.node, "tag": tag}
            if self.chance.random() < 0.2:
                uid = pack_uid(self.node, self.incarnation(done), slot, generation)
                detail = Status.REJECTED << 4 | self.chance.choice((Cause.MODE, Cause.LENGTH))
                rows.append(self.row(done, self.unit, LOOP_DONE, Event.LOOP_COMPLETE, uid, detail=detail, **said))
                continue
            uid, shown = pack_uid(self.node, self.incarnation(stored), slot, generation), self.incarnation(stored)
            taken = self.awake(max(stored + 2, taken + 1) + self.chance.randint(0, 12))
            rows += [
                self.row(stored, self.unit, LOOP_ACCEPT, Event.LOOPED, uid, length=length, **said),
                self.row(done, self.unit, LOOP_DONE, Event.LOOP_COMPLETE, uid, **said),
                self.row(
                    taken, self.unit, LOOP_TAKEN, Event.LOOP_TAKE, peer=self.node, length=length,
                    detail=shown if self.system.ni.source_incarnation else 0,
                ),
            ]  # fmt: skip
        return rows

    def awake(self, cycle: int) -> int:
        """``cycle``, or the first after the reset of the NI alone that it lies in."""
        for reset in self.resets:
            if reset.scope == "ni" and reset.start <= cycle < reset.start + reset.cycles:
                return reset.start + reset.cycles
        return cycle

    def incarnation(self, cycle: int) -> int:
        return 1 + sum(reset.start <= cycle for reset in self.resets)

    @staticmethod
    def row(
        cycle: int, unit: int, lane: int, event: Event, uid: int = 0, *,
        peer: int = 0, length: int = 0, detail: int = 0, tag: int = 0,
    ) -> Row:  # fmt: skip
        return cycle, unit, lane, event | detail << 8 | peer << 16 | length << 32 | tag << 48, uid

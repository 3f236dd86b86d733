"""Good traces without the golden model: a small event-driven model of the protocol on an idle fabric.

Worms keep the fabric's latency and may be lost on their injection link; nothing else goes wrong, and nothing
contends.  Enough to hold the audit against, and quick to tamper with.
"""

import heapq
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lethe.spec.config import System
from lethe.spec.events import (
    LANE_ACCEPT,
    LANE_COMPLETE,
    LANE_RX,
    LANE_TAKE,
    LANE_TX,
    Event,
    Kind,
)
from lethe.spec.stages import ACTS, QUEUED, SHOWN
from lethe.spec.wire import pack_uid
from lethe_sim.trace import RAW_EVENT, SCHEMA, Meta, TraceWriter
from lethe_sim.trace.store import PART_EVENTS

#: A schema in which every cell may be null.
LENIENT = pa.schema([field.with_nullable(True) for field in SCHEMA])


def small_system(**sections) -> System:
    sections = {"topology": {"kind": "tree", "arity": 2, "levels": 2}, "run": {"seed": 5, "cycles": 50_000}} | sections
    return System.make("(test)", **sections)


class IdleFabric:
    """Runs ``datagrams`` of each node to their end; `events` are the raw events."""

    def __init__(self, system: System, datagrams: int = 20, loss: float = 0.2):
        self.system, self.wire, self.loss = system, system.format, loss
        self.chance = random.Random(system.run.seed)
        self.rows: list[tuple[int, int, int, int, int]] = []
        self.taken: set[tuple[int, int, int]] = set()
        self.queue: list = []
        self.order = itertools.count()
        self.link_free = dict.fromkeys(range(system.nodes), 0)
        self.remembered: set[int] = set()
        self.live: dict[int, tuple[int, int, int]] = {}
        self.generations: dict[tuple[int, int], int] = {}
        self.cycle = 0
        for node in range(system.nodes):
            for number in range(datagrams):
                self.at(10 + 40 * number + node, self.accept, node, number)
        while self.queue:
            self.cycle, _, action, arguments = heapq.heappop(self.queue)
            action(*arguments)
        self.cycles = self.cycle + 100

    @property
    def events(self) -> np.ndarray:
        return np.array(self.rows, RAW_EVENT)

    def at(self, cycle: int, action, *arguments) -> None:
        heapq.heappush(self.queue, (cycle, next(self.order), action, arguments))

    def show(self, node: int, lane: int, event: Event, uid: int, peer: int, length: int = 0, detail: int = 0) -> None:
        word = event | detail << 8 | peer << 16 | length << 32
        self.put(node, lane, word, uid)

    def put(self, unit: int, lane: int, word: int, uid: int = 0) -> None:
        assert self.free(unit, lane)
        self.taken.add((self.cycle, unit, lane))
        self.rows.append((self.cycle, unit, lane, word, uid))

    def free(self, unit: int, lane: int) -> bool:
        return (self.cycle, unit, lane) not in self.taken

    def show_soon(self, node: int, lane: int, *event) -> None:
        """`show`, as soon as the lane is free."""
        if self.free(node, lane):
            self.show(node, lane, *event)
        else:
            self.at(self.cycle + 1, self.show_soon, node, lane, *event)

    def accept(self, node: int, number: int) -> None:
        slot = number % self.system.ni.slots
        generation = self.generations.get((node, slot), 0)
        self.generations[node, slot] = (generation + 1) % (1 << self.wire.generation_bits)
        uid = pack_uid(node, 1, slot, generation)
        destination = self.chance.choice([n for n in range(self.system.nodes) if n != node])
        length = self.chance.randint(0, self.wire.mtu)
        self.live[uid] = node, destination, length
        self.show(node, LANE_ACCEPT, Event.ACCEPT, uid, destination, length, Kind.SEND)
        self.send(uid, 0)

    def send(self, uid: int, tries: int) -> None:
        if uid not in self.live:
            return
        node, destination, length = self.live[uid]
        if tries and not self.free(node, LANE_RX):
            self.at(self.cycle + 1, self.send, uid, tries)
            return
        if tries:
            self.show(node, LANE_RX, Event.REPEAT, uid, destination, detail=tries)
        self.launch(Kind.SEND, node, destination, uid, length, tries)
        self.at(self.cycle + 150, self.send, uid, tries + 1)

    def launch(self, kind: Kind, node: int, peer: int, uid: int, length: int = 0, tries: int = 0) -> None:
        start = max(self.cycle + QUEUED + SHOWN, self.link_free[node])
        flits = self.wire.send_flits(length) if kind == Kind.SEND else self.wire.control_flits
        latency = self.system.graph.hops(node, peer) * self.system.router.latency + flits - 1 + ACTS
        lost = self.chance.random() < self.loss
        # Only one worm at a time gets through to a node.
        while not lost and (start + latency, peer, LANE_RX) in self.taken:
            start += 1
        self.link_free[node] = start + flits
        self.at(start, self.show, node, LANE_TX, Event(int(kind)), uid, peer, length, tries)
        if lost:
            link = self.system.nodes + self.system.graph.routers + node
            self.at(start, self.put, link, 0, int(Event.LOST))
        else:
            self.taken.add((start + latency, peer, LANE_RX))
            self.at(start + latency, self.arrive, kind, peer, node, uid, length)

    def arrive(self, kind: Kind, node: int, peer: int, uid: int, length: int) -> None:
        self.taken.discard((self.cycle, node, LANE_RX))
        if kind == Kind.SEND:
            fresh = uid not in self.remembered
            self.show(node, LANE_RX, Event.DELIVER if fresh else Event.DUPLICATE, uid, peer, length)
            if fresh:
                self.remembered.add(uid)
                self.at(self.cycle + QUEUED + 1, self.show_soon, node, LANE_TAKE, Event.TAKE, 0, peer, length)
                self.at(self.cycle + 150, self.acknowledge_again, node, peer, uid)
            self.launch(Kind.ACK, node, peer, uid)
        elif kind == Kind.ACK:
            self.show(node, LANE_RX, Event.RELEASE if uid in self.live else Event.ACK_IGNORED, uid, peer)
            if self.live.pop(uid, None):
                self.at(self.cycle + QUEUED, self.show_soon, node, LANE_COMPLETE, Event.COMPLETE, uid, peer)
            self.launch(Kind.FORGET, node, peer, uid)
        else:
            known = uid in self.remembered
            self.remembered.discard(uid)
            self.show(node, LANE_RX, Event.FORGOTTEN if known else Event.FORGET_IGNORED, uid, peer)

    def acknowledge_again(self, node: int, peer: int, uid: int) -> None:
        if uid in self.remembered and not self.free(node, LANE_RX):
            self.at(self.cycle + 1, self.acknowledge_again, node, peer, uid)
        elif uid in self.remembered:
            self.show(node, LANE_RX, Event.ACK_REPEAT, uid, peer)
            self.launch(Kind.ACK, node, peer, uid)
            self.at(self.cycle + 150, self.acknowledge_again, node, peer, uid)


def write_trace(path: Path, system: System | None = None, *, side: str = "golden", drained: bool = True) -> Meta:
    """A good trace at ``path``."""
    system = system or small_system()
    idle = IdleFabric(system)
    with TraceWriter(path, system, side) as writer:
        writer.append(idle.events)
        return writer.finish(cycles=idle.cycles, drained=drained)


def tamper(path: Path, good: Path, change, **meta) -> None:
    """The trace ``good`` with its list of rows (dicts) given to ``change``, at ``path``, with their digest."""
    from lethe_sim.trace import open_trace

    trace = open_trace(good)
    rows = trace.table().to_pylist()
    change(rows)
    rows.sort(key=lambda row: tuple(-1 if row[name] is None else row[name] for name in ("cycle", "unit", "port")))
    part_events = meta.pop("part_events", PART_EVENTS)
    with TraceWriter(path, trace.meta.system, meta.pop("side", trace.meta.side), part_events=part_events) as writer:
        writer.append_table(pa.Table.from_pylist(rows, schema=LENIENT))
        keep = {"cycles": trace.meta.cycles, "drained": trace.meta.drained, "counters": trace.meta.counters}
        writer.finish(**(keep | meta))


def restate(path: Path, *, rows: pa.Table | None = None, seal: bool = True, **values) -> None:
    """Change metadata, and rows if they are given, of a trace in one file; ``seal`` says whether it fits them then."""
    from dataclasses import asdict

    from lethe_sim.trace import open_trace

    trace = open_trace(path)
    meta = replace(trace.meta, **values)
    rows = trace.table() if rows is None else rows
    text = json.dumps(asdict(meta.sealed() if seal else meta))
    pq.write_table(rows.replace_schema_metadata({"lethe.trace": text}), path, write_page_checksum=True)

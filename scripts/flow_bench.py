"""What users of flow get: latency, control, isolation, a dead peer, fairness, credits.  A section of `scripts/bench`.

Hosts are programs on the port above flow, under the golden model (`Traffic`).  Messages have 32 bytes, flits 64 bits.
"""

import math
import random
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import EVENTS, LAUNCHES, Event, Kind, Status
from lethe.spec.sections.flow import OF_NI
from lethe.spec.stages import ACTS
from lethe.spec.wire import UID_SLOT_SHIFT
from lethe_sim.golden.model import Golden, Item, Script
from lethe_sim.golden.services.flow.state import Flow, InStream, OutStream, SlotRow
from lethe_sim.rds import RdsNetwork, transport
from lethe_sim.rds.golden import GoldenFlow
from lethe_sim.rds.rtl import RtlFlow
from lethe_sim.rds.stress import Running, Stress
from lethe_sim.rds.transport import FIRST, LAST, NOWAIT, FlowRecord

BYTES, HEADER = 32, 8
#: An MTU for which messages of `BYTES` are short: they fill a port's cells before its bytes.
LONG = 264
#: Cycles until all peers are up, and in which is measured.
UP, MEASURED = 10_000, 40_000
#: Cycles in which sources begin that do not all begin at once.
BEGUN = 3000
#: Cycles after which a host offers again what was refused.
PAUSE = 64


class Measured(NamedTuple):
    """A row: what, its value and target in words, whether it is met (None: there is no target)."""

    quantity: str
    measured: str
    target: str = ""
    met: bool | None = None


def system_of(topology: dict, **more: dict) -> System:
    """A network with 16 ports."""
    base: dict = {
        "topology": topology, "wire": {"mtu": BYTES + HEADER, "generation_bits": 16}, "flow": {"ports": 16},
        "ni": OF_NI | {"slots": 16},
    }  # fmt: skip
    for name, values in more.items():
        base[name] = base.get(name, {}) | values
    return System.make(**base)


def bare_wire() -> System:
    """Two nodes without flow."""
    return System.make(topology={"kind": "wire"}, wire={"mtu": BYTES, "generation_bits": 16}, ni={"slots": 16})


@dataclass(eq=False)
class Source:
    """A socket that sends to a port: a message every ``period`` cycles from ``start`` on, or without a pause.

    Attributes
    ----------
    node, sport, destination, dport : from where to where
    period : 0: the next as soon as the last has its number
    count : how many; 0: no limit
    offered : the message that is offered was born in this cycle
    born : the cycles of those that wait behind it
    """

    node: int
    sport: int
    destination: int
    dport: int
    period: int = 0
    start: int = 0
    count: int = 0
    ready: int = 0
    begun: int = 0
    offered: int | None = None
    born: deque[int] = field(default_factory=deque)
    arrivals: list[tuple[int, int]] = field(default_factory=list)  # (cycle, latency from birth)

    @property
    def due(self) -> int | None:
        """When the next is born; None: none is."""
        if self.count and self.begun >= self.count:
            return None
        return self.start + self.begun * self.period if self.period else self.start


class Traffic:
    """Sources that offer with NOWAIT, so that none holds up another; ports that are read, but for ``unread``."""

    def __init__(self, system: System, sources: Sequence[Source], unread: Sequence[tuple[int, int]] = ()):
        self.flow, self.sources = GoldenFlow(system), list(sources)
        self._by_tag: dict[tuple[int, int], Source] = {}
        self._tags: Counter[int] = Counter()
        self._by_stream = {(s.node, s.sport, s.destination, s.dport): s for s in self.sources}
        self.ended: Counter[str] = Counter()
        for node in {node for node, _ in unread}:
            self.flow.receive(node, 0xFFFF & ~sum(1 << index for at, index in unread if at == node))

    def run(self, until: int) -> None:
        """Up to this cycle."""
        while self.flow.cycle < until:
            now, wakes = self.flow.cycle, [until]
            for source in self.sources:
                self._bear(source, now)
                if source.offered is None and source.born and source.ready <= now:
                    self._offer(source)
                elif source.offered is None:
                    due = source.ready if source.born else source.due
                    if due is not None:
                        wakes.append(max(due, now + 1))
            for event in self.flow.advance(max(1, min(wakes) - now)):
                self._follow(event)

    def waiting(self, node: int, destination: int, ports: Collection[int]) -> int:
        """Slots of a node with a message to one of these ports."""
        flow = Flow(self.flow.golden.numbers[node], int(self.flow.golden.k.rooms[0].at))
        rows = (SlotRow(flow, int(flow.at_rows), slot) for slot in range(int(flow.data_slots)))
        return sum(int(row.under_way) for row in rows if row.destination == destination and row.index in ports)

    def _bear(self, source: Source, now: int) -> None:
        if source.period:
            while (due := source.due) is not None and due <= now:
                source.born.append(due)
                source.begun += 1
        elif source.offered is None and not source.born and (due := source.due) is not None and due <= now:
            source.born.append(now)
            source.begun += 1

    def _offer(self, source: Source) -> None:
        tag = self._tags[source.node] = (self._tags[source.node] + 1) % self.flow.tags
        source.offered = source.born[0]
        self._by_tag[source.node, tag] = source
        payload = source.born[0].to_bytes(8, "little") + bytes(BYTES - 8)
        flags = FIRST | LAST | NOWAIT
        self.flow.send(
            source.node, FlowRecord(source.destination, source.sport, source.dport, flags, tag, payload)
        )  # fmt: skip

    def _follow(self, event: transport.Happening) -> None:
        match event:
            case transport.Accepted():
                self._admitted(self._by_tag[event.node, event.tag])
            case transport.DatagramEnd(status=Status.REJECTED):
                source = self._by_tag.pop((event.node, event.tag))
                source.offered, source.ready = None, event.cycle + PAUSE
                self.ended[event.cause.name] += 1
            case transport.DatagramEnd():
                source = self._by_tag.pop((event.node, event.tag))
                # What was refused for want of room may go now.
                source.ready = event.cycle
                self.ended[event.status.name] += 1
            case transport.Arrived():
                source = self._by_stream[event.source, event.sport, event.node, event.dport]
                source.arrivals.append((event.cycle, event.cycle - int.from_bytes(event.payload[:8], "little")))

    def _admitted(self, source: Source) -> None:
        source.offered = None
        source.born.popleft()


def arrivals(sources: Sequence[Source], start: int, end: int) -> list[int]:
    """Latencies of what came in these cycles."""
    return [latency for source in sources for cycle, latency in source.arrivals if start <= cycle < end]


def p99(latencies: Sequence[int]) -> int:
    """99 % are at most this."""
    return sorted(latencies)[math.ceil(0.99 * len(latencies)) - 1] if latencies else 0


def jain(shares: Sequence[float]) -> float:
    """Jain's index: 1 if all are equal."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares)) if any(shares) else 0.0


def figures(quick: bool) -> Iterator[Measured]:
    """All rows."""
    yield from latency(5 if quick else 40)
    yield from control(quick)
    yield flip()
    yield from isolation(quick)
    yield from unread(quick)
    yield dead_peer(quick)
    yield from fairness(quick)
    yield credits_kept(200 if quick else 2000)
    yield sockets(2_000 if quick else 20_000)


# Latency, on an idle wire


def latency(count: int) -> Iterator[Measured]:
    """Each of some messages alone on a wire, with flow and without."""
    bare, served = (_alone(system, count) for system in (bare_wire(), system_of({"kind": "wire"})))
    for name, place, most in (("record to first flit", 0, 8), ("last flit in to record taken", 1, 9)):
        without, beyond = [max(found[place]) for found in (bare, served)]
        beyond -= without
        yield Measured(
            f"{name}, {BYTES} bytes, both idle: cycles beyond the bare NI's {without}", f"{beyond}", f"≤ {most}",
            beyond <= most,
        )  # fmt: skip


def _alone(system: System, count: int) -> tuple[list[int], list[int]]:
    """(record to first flit, last flit in to record taken) of messages 500 cycles apart."""
    starts = [4000 + 500 * number for number in range(count + 1)]
    items = [
        Item(node=0, destination=1, payload=bytes(BYTES), tag=1 + number, not_before=start)
        for number, start in enumerate([0, *starts])
    ]
    golden = Golden(system, Script.from_items(system, items), record=True)
    golden.run(starts[-1] + 4000)
    events = golden.take_events()
    kind, slot = trace.EVENT.of(events["word"]), events["uid"] >> np.uint64(UID_SLOT_SHIFT) & np.uint64(0xFFFF)
    data = slot < system.ni.slots - system.ni.control_slots
    of = {
        event: events["cycle"][(kind == event) & (data | (event == Event.FLOW_TAKE)) & (events["unit"] % 2 == node)]
        for event, node in (
            (Event.SEND, 0), (Event.DELIVER, 1), (Event.FLOW_TAKE if system.flow.ports else Event.TAKE, 1)
        )
    }  # fmt: skip
    sent, came, taken = of.values()
    out, up = [], []
    for start in starts[1:]:
        out.append(int(sent[sent >= start][0]) - start)
        act = came[came >= start][0]
        # A message acts so many cycles after its last flit.
        up.append(int(taken[taken >= act][0] - act) + ACTS)
    return out, up


# Control


def control(quick: bool) -> Iterator[Measured]:
    """What part of the flits is control, on a saturated wire."""
    for name, nodes, most in (("both ways", (0, 1), 0.02), ("one way", (0,), 0.07)):
        system = system_of({"kind": "wire"})
        items = [
            Item(node=node, destination=1 - node, payload=bytes(BYTES), tag=number % 4096)
            for node in nodes
            for number in range(1000 if quick else 5000)
        ]
        golden = Golden(system, Script.from_items(system, items), record=True)
        golden.run(3000)
        golden.take_events()
        golden.run(4000 if quick else 20_000)
        flits = _launched(system, golden.take_events())
        share = flits[True] / (flits[True] + flits[False])
        yield Measured(
            f"control with traffic {name}, no loss, not congested: share of the flits", f"{share:.4f}", f"≤ {most}",
            share <= most,
        )  # fmt: skip


def _launched(system: System, events: np.ndarray) -> dict[bool, int]:
    """Flits that NIs launched, of control words and of all else."""
    kind = trace.EVENT.of(events["word"])
    slot = events["uid"] >> np.uint64(UID_SLOT_SHIFT) & np.uint64(0xFFFF)
    word = slot >= system.ni.slots - system.ni.control_slots
    flits = np.zeros(len(events), np.int64)
    for event in LAUNCHES:
        which = kind == event
        if EVENTS[event].worm == Kind.SEND:
            lengths = trace.LENGTH.of(events["word"][which]).tolist()
            flits[which] = [system.format.send_flits(length) for length in lengths]
        else:
            flits[which] = system.format.control_flits
    return {control: int(flits[word == control].sum()) for control in (True, False)}


def flip() -> Measured:
    """What it costs to tell all peers of a port that it is congested, or no more."""
    system = system_of({"kind": "crossbar", "nodes": 16})
    flow = GoldenFlow(system, record=True)
    # Each opens to node 0, which then tells it of its ports.
    for node in range(1, 16):
        flow.send(node, FlowRecord(0, 0, 0, FIRST | LAST, 1, bytes(BYTES)))
    _pass(flow, UP)
    flits = []
    for limit in (0, 1024):
        flow.golden.take_events()
        flow.set(0, transport.SettingCode.RECEIVE_LIMIT, 3, limit)
        _pass(flow, flow.cycle + 3000)
        flits.append(_launched(system, flow.golden.take_events())[True] / 15)
    return Measured(
        "a port becomes congested, or no more, 15 peers connected: flits for each peer",
        ", ".join(f"{each:.2f}" for each in flits), "≤ 5", max(flits) <= 5,
    )  # fmt: skip


def _pass(flow: GoldenFlow, until: int) -> None:
    while flow.cycle < until:
        flow.advance(until - flow.cycle)


# One port that is not read, one peer that is dead


def isolation(quick: bool) -> Iterator[Measured]:
    """Fifteen nodes send to four ports of a node, one of which is not read."""
    ports = range(4)
    for load, period in (("paced, a message from each to each port in 2,000 cycles", 2000), ("saturated", 0)):
        end = UP + (5000 if quick else MEASURED)
        runs = []
        for unread in ((), ((0, 0),)):
            sources = [
                Source(node, port, 0, port, period=period, start=(4 * node + port) * period // 60)
                for node in range(1, 16)
                for port in ports
            ]
            Traffic(system_of({"kind": "crossbar", "nodes": 16}), sources, unread).run(end)
            runs.append(arrivals([source for source in sources if source.dport], UP, end))
        had, has = runs
        share, slower = len(has) / max(1, len(had)), p99(has) / max(1, p99(had))
        what = f"one port of four never read, 15 senders to each, {load}: the other ports'"
        yield Measured(f"{what} goodput beside that with all read", f"{share:.3f}", "≥ 0.95", share >= 0.95)
        yield Measured(f"{what} p99 likewise", f"{slower:.2f}", "≤ 1.2", slower <= 1.2)


def unread(quick: bool) -> Iterator[Measured]:
    """Fifteen nodes send to two ports that are read and to some that are not; cells are full long before bytes are.

    Sources begin at random.  If all begin at once, hardly a message is under way when the first maps come.
    """
    system = system_of({"kind": "crossbar", "nodes": 16}, wire={"mtu": LONG})
    end = UP + (5000 if quick else MEASURED)
    for count in (4, 8):
        runs, stuck = [], 0
        for closed in ((), tuple((0, port) for port in range(count))):
            chance = random.Random(count)
            sources = [
                Source(node, port, 0, port, start=chance.randrange(1, BEGUN))
                for node in range(1, 16)
                for port in range(count + 2)
            ]
            traffic = Traffic(system, sources, closed)
            traffic.run(end)
            runs.append(len(arrivals([source for source in sources if source.dport >= count], UP, end)))
            stuck = max(traffic.waiting(node, 0, range(count)) for node in range(1, 16))
        share, slots = runs[1] / max(1, runs[0]), system.ni.slots - system.ni.control_slots
        what = f"{count} of {count + 2} ports never read, 15 senders to each, saturated, messages far below the MTU:"
        yield Measured(
            f"{what} the other ports' goodput beside that with all read", f"{share:.2f}", "≥ 0.95", share >= 0.95
        )
        yield Measured(f"{what} slots for data of a node that wait for these ports", f"at most {stuck} of {slots}")


def dead_peer(quick: bool) -> Measured:
    """A node sends to three peers, one of which dies: what the two others get from then on."""
    end, found = UP + (5000 if quick else MEASURED), []
    # An absence to the end: what is told to a dead node would otherwise need limits of repeats.
    for away in ([], [{"node": 1, "start": UP, "end": 2 * end}]):
        sources = [Source(0, node, node, 5) for node in (1, 2, 3)]
        Traffic(system_of({"kind": "crossbar", "nodes": 4}, faults={"absences": away}), sources).run(end)
        found.append(min(len(arrivals([source], UP, end)) for source in sources[1:]))
    share = found[1] / max(1, found[0])
    return Measured(
        "one of three peers dies, its socket's quota full: what the two others get, beside that while all live",
        f"{share:.2f}", "≥ 0.95", share >= 0.95,
    )  # fmt: skip


# Fairness and credits


def fairness(quick: bool) -> Iterator[Measured]:
    """Jain's index over streams that all have always something to send."""
    cases = (
        (
            "8 streams of a node to 8 ports of another", {"kind": "wire"},
            [Source(0, port, 1, port) for port in range(8)], 0.95,
        ),
        (
            "an incast, 15 nodes to one port", {"kind": "crossbar", "nodes": 16},
            [Source(node, 0, 0, 0) for node in range(1, 16)], 0.9,
        ),
        (
            "an incast of messages far below the MTU", {"kind": "crossbar", "nodes": 16},
            [Source(node, 0, 0, 0) for node in range(1, 16)], 0.9, {"mtu": LONG},
        ),
    )  # fmt: skip
    for name, topology, sources, least, *wire in cases:
        end = UP + (5000 if quick else MEASURED)
        Traffic(system_of(topology, wire=wire[0] if wire else {}), sources).run(end)
        index = jain([len(arrivals([source], UP, end)) for source in sources])
        yield Measured(f"{name}: Jain's index", f"{index:.3f}", f"≥ {least}", index >= least)


def credits_kept(count: int) -> Measured:
    """One stream with 16 credits, links that lose a fifth: all comes, and then both ends know the same limit."""
    system = system_of({"kind": "wire"}, flow={"ports": 16, "cells": 28}, faults={"loss": 0.2})
    items = [Item(node=0, destination=1, payload=bytes(BYTES), tag=16 * at % 4096 + 1) for at in range(count)]
    golden = Golden(system, Script.from_items(system, items), record=True)
    golden.run(400 * count, until_drained=True)
    events = golden.take_events()
    taken = events["cycle"][trace.EVENT.of(events["word"]) == Event.FLOW_TAKE]
    at = int(golden.k.rooms[0].at)
    ends = [Flow(golden.numbers[node], at) for node in (0, 1)]
    # Node 0's stream to index 1 of node 1.
    out = OutStream(golden.numbers[0], at + int(ends[0].at_outs) + (1 * 16 + 1) * OutStream.size)
    source = InStream(golden.numbers[1], at + int(ends[1].at_ins) + (0 * 16 + 1) * InStream.size)
    limits = int(out.limit), int(source.told)
    whole = len(taken) == count and golden.drained and limits[0] == limits[1]
    gap = int(np.diff(taken).max()) if len(taken) > 1 else 0
    return Measured(
        f"{count:,} messages of a stream with 16 credits, loss 0.2: taken; limits at both ends; longest gap in cycles",
        f"{len(taken):,}; {limits[0]} and {limits[1]}; {gap:,}", "all; equal", whole,
    )  # fmt: skip


# Sockets


def sockets(cycles: int) -> Measured:
    """A stress of four sockets on a wire over both transports, from its first request to its last answer."""
    system, found = system_of({"kind": "wire"}), []
    for made in (GoldenFlow, RtlFlow):
        with RdsNetwork(made(system)) as network:
            asked = Stress(tasks=4, request=40, ack=20, depth=2, cycles=cycles)
            running = Running(network, [network.addresses.of(node) for node in range(2)], asked)
            began, first = time.perf_counter(), network.cycle
            for _ in running.run():
                pass
            found.append((network.cycle - first, time.perf_counter() - began))
            running.close()
    golden, rtl = (ran / seconds for ran, seconds in found)
    same = found[0][0] == found[1][0]
    return Measured(
        "a stress of 4 sockets on a wire: cycles in a second over the golden model; over RTL beside it; cycles of both",
        f"{golden:,.0f}; {rtl:,.0f}; {found[0][0]:,} and {found[1][0]:,}", "equal cycles", same,
    )  # fmt: skip


if __name__ == "__main__":
    for row in figures(quick=False):
        print(*row, sep=" | ", flush=True)

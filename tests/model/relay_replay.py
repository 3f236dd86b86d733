"""Runs of the golden model with relay, replayed step by step in the model of relay.

Every job of a relay that does something is one step of `relay_rules`: it must be possible in the state that the
earlier ones have led to, and its events must be those of the rule.  Where the trace is silent (which data came, when a
cell or a buffer became free) the run has facts beside it, read in the golden model.
"""

import random
from collections import Counter, defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import Event, Status
from lethe.spec.overlay import NOWHERE
from lethe.spec.sections.faults import death
from lethe.spec.services.relay import RecordState, Type
from lethe_sim.golden.model import Golden
from lethe_sim.golden.script import Item, Script
from lethe_sim.golden.services.relay.state import (
    FromRow,
    HopRecord,
    Moving,
    Phase,
    PostCell,
    RelayJob,
    RelaySlot,
    ToRow,
)
from lethe_sim.golden.services.relay.state import Relay as Relays
from lethe_sim.golden.state import NONE as NO_NUMBER
from tests.helpers.relay_systems import Seen, deaths, relay_system
from tests.helpers.relay_systems import events as events_of
from tests.model import relay_rules as model
from tests.model.relay_network import Relay as Network
from tests.model.relay_rules import (
    ACKED,
    HELD,
    LINKED,
    NOTHING,
    OWED,
    PULL,
    REQUESTED,
    SENT,
    Broken,
    Hop,
    Rules,
    Setting,
)

#: Messages of each node.
MESSAGES = 24
#: Cycles between two looks at all tables.
CHUNK = 61
#: What the model calls a type of a header.
KINDS = {
    Type.DATA: model.DATA, Type.ACKED: model.DONE, Type.REQUESTED: model.ASK, Type.LINK: model.LINK,
    Type.ACKACKED: model.RELEASE, Type.PULL: PULL,
}  # fmt: skip
STATES = {
    RecordState.SENT: SENT, RecordState.REQUESTED: REQUESTED, RecordState.OWED: OWED,
    RecordState.ACKED: ACKED, RecordState.LINKED: LINKED,
}  # fmt: skip
#: Events that a job does not bring about.
_APART = (Event.RELAY_TAKE, Event.RELAY_RESET, Event.RELAY_HOP)
#: Events that name the destination of their message.
_TO_TARGET = (
    Event.RELAY_SEND, Event.RELAY_END, Event.RELAY_OWED, Event.RELAY_UNTRACKED, Event.RELAY_EVICT, Event.RELAY_EXPIRE,
    Event.RELAY_FORGOT,
)  # fmt: skip
_NONE_TAG = 0xFFFF
#: Phases of data in whose step decides what an earlier step could not.
_DECIDE = (Phase.SEARCH, Phase.JUDGE)


class Mismatch(AssertionError):
    """The golden model took a step that the model of relay has not."""


class Heard(NamedTuple):
    """A header that came to a job."""

    kind: Type
    sender: int
    source: int
    target: int
    uid: int
    flag: bool
    depth: int


NOBODY = Heard(Type.PULL, 0, 0, 0, 0, False, 0)


class Step(NamedTuple):
    """A job of a relay, or what is no job: a cell that became free, a walk that began.

    Attributes
    ----------
    acts, over : first and last cycle in which it changes something
    order : jobs come before what is no job, in a cycle
    heard : of jobs that read a header
    about : CONTROL: (whether there is a record of the message now,); LOOK: (source, uid) of the data that their time
        took; DATA: of those that are evicted; OWED: of what is asked for; WALK: (whether it is for all, (source, uid)
        of the parked ones that end)
    gives : (next hop, source, uid) of the data that the transfer is given
    ended : (source, uid) of the records that end in a LOOK or a WALK
    recorded : DATA: whether there is a record of the message now
    """

    acts: int
    order: int
    node: int
    what: str
    over: int
    heard: Heard = NOBODY
    about: tuple = ()
    gives: tuple = ()
    ended: tuple = ()
    recorded: bool = False


class Table(NamedTuple):
    """What a relay knows between two jobs, in words of the model."""

    cycle: int
    node: int
    live: frozenset  # (destination, uid)
    posts: frozenset  # (source, mark, hungry) of those it knows
    parked: frozenset  # (source, uid)
    records: frozenset  # (source, uid, state)
    dead: frozenset
    used: int


@dataclass
class Run:
    """What a run of the golden model has left; from cycle ``until`` on jobs may not be over."""

    system: System
    seen: list[Seen]
    steps: list[Step]
    tables: list[Table]
    until: int


class _Watch:
    """Reads a golden model between its cycles."""

    def __init__(self, golden: Golden):
        self.golden, self.at = golden, int(golden.k.rooms[0].at)
        self.nodes = golden.system.nodes
        self.relays = [Relays(golden.numbers[node], self.at) for node in range(self.nodes)]
        self.steps: list[Step] = []
        self.tables: list[Table] = []
        self.open: dict[int, dict[str, Any]] = {}

    def table(self, node: int, record: type, at: int, count: int) -> np.ndarray:
        start = self.at + at
        return self.golden.numbers[node, start : start + count * record.size].reshape(count, record.size)

    def entries(self, node: int) -> np.ndarray:
        relay = self.relays[node]
        return self.table(node, HopRecord, relay.at_entries, relay.entries)

    def cells(self, node: int) -> np.ndarray:
        relay = self.relays[node]
        return self.table(node, PostCell, relay.at_cells, relay.cells)

    def run(self, cycles: int) -> list[Seen]:
        columns = [
            self.at + getattr(Relays, name) for name in ("job", "phase", "job_at", "show_cell", "walking", "moving")
        ]
        seen: list[Seen] = []
        for _ in range(cycles):
            cycle, before = self.golden.cycle, self.golden.numbers[:, columns].copy()
            for node in np.flatnonzero((before[:, 0] > 0) & (before[:, 1] == 0) & (cycle >= before[:, 2])).tolist():
                if node not in self.open:
                    self.open[node] = {
                        "entries": self.entries(node).copy(), "cells": self.cells(node).copy(),
                        "for_all": self.relays[node].for_all, "job": int(before[node, 0]), "acts": None,
                    }  # fmt: skip
            self.golden.run(1)
            after = self.golden.numbers[:, columns]
            for node in range(self.nodes):
                self._after(cycle, node, before[node].tolist(), after[node].tolist())
            if cycle % CHUNK == 0:
                seen += events_of(self.golden)
                for node in range(self.nodes):
                    if not after[node, 0] and self.relays[node].told:
                        self.tables.append(self._tables(cycle, node))
        return seen + events_of(self.golden)

    def _after(self, cycle: int, node: int, before: list[int], after: list[int]) -> None:
        job = self.open.get(node)
        if job is not None and job["acts"] is None:
            # A job that waits for the NI has not acted yet.
            if (after[0], after[1]) == (before[0], 0) and job["job"] == RelayJob.GIVEN:
                del self.open[node]
            elif self.golden.system.node_resets and self.relays[node].begun > cycle:
                del self.open[node]  # a reset has cut it
            else:
                job["acts"] = cycle
                if job["job"] in (RelayJob.CONTROL, RelayJob.DATA):
                    job["heard"] = self._heard(node)
        elif job is not None and job["job"] == RelayJob.DATA and before[1] in _DECIDE and after[1] != before[1]:
            job["acts"] = cycle  # only now it is decided what becomes of the message
        if job is not None and before[5] != after[5] == Moving.RECORD:
            head = self.relays[node].told_data[0]
            job["gives"] = int(head.hop), int(head.source), int(head.uid) & 0xFFFF
        if node in self.open and after[0] != before[0]:
            self._close(node, cycle)
        died = death(self.golden.system, node)
        if before[3] != NO_NUMBER and after[3] == NO_NUMBER and (died is None or cycle < died):
            self.steps.append(Step(cycle, 2, node, "FREE", cycle))
        if before[4] != after[4] and after[4]:
            self.steps.append(Step(cycle, 1, node, "WALKS", cycle))

    def _heard(self, node: int) -> Heard:
        head = self.relays[node].heard[0]
        kind = Type(head.type)
        flag = bool(head.thru if kind == Type.LINK else head.more if kind == Type.ACKED else 0)
        hop, source, target, uid, depth = map(int, (head.hop, head.source, head.target, head.uid, head.depth))
        return Heard(kind, hop, source, target, uid & 0xFFFF, flag, depth)

    def _close(self, node: int, cycle: int) -> None:
        job = self.open.pop(node)
        about: tuple = ()
        ended: tuple = ()
        if job["job"] in (RelayJob.LOOK, RelayJob.WALK):
            was, now = job["entries"], self.entries(node)
            gone = was[(was[:, HopRecord.valid] > 0) & (now[:, HopRecord.valid] == 0)]
            ended = tuple((int(row[HopRecord.source]), int(row[HopRecord.uid]) & 0xFFFF) for row in gone)
        if job["job"] in (RelayJob.LOOK, RelayJob.DATA):
            was, now = job["entries"], self.entries(node)
            gone = (was[:, HopRecord.buffer] != NO_NUMBER) & (now[:, HopRecord.buffer] == NO_NUMBER)
            gone &= (was[:, HopRecord.valid] > 0) & (now[:, HopRecord.valid] > 0)
            about = tuple((int(row[HopRecord.source]), int(row[HopRecord.uid]) & 0xFFFF) for row in was[gone])
        elif job["job"] == RelayJob.WALK:
            was, now = job["cells"], self.cells(node)
            gone = (was[:, PostCell.parked] > 0) & (now[:, PostCell.parked] == 0)
            sources = tuple((int(row[PostCell.source]), int(row[PostCell.uid]) & 0xFFFF) for row in was[gone])
            about = (bool(job["for_all"]), sources)
        elif job["job"] == RelayJob.OWED:
            asked = (job["entries"][:, HopRecord.state] == RecordState.OWED) & (
                self.entries(node)[:, HopRecord.state] == RecordState.REQUESTED
            )
            rows = self.entries(node)[asked]
            about = tuple((int(row[HopRecord.source]), int(row[HopRecord.uid]) & 0xFFFF) for row in rows)
        recorded = False
        if job["job"] in (RelayJob.CONTROL, RelayJob.DATA):
            head, now = job["heard"], self.entries(node)
            found = (now[:, HopRecord.valid] > 0) & (now[:, HopRecord.source] == head.source)
            recorded = bool((found & (now[:, HopRecord.uid] & 0xFFFF == head.uid)).any())
        if job["job"] == RelayJob.CONTROL:
            about = (recorded,)
        name = RelayJob(job["job"]).name
        self.steps.append(
            Step(
                job["acts"],
                0,
                node,
                name,
                cycle,
                job.get("heard", NOBODY),
                about,
                job.get("gives", ()),
                ended,
                recorded,
            )
        )

    def _tables(self, cycle: int, node: int) -> Table:
        relay, nodes = self.relays[node], self.nodes
        slots = self.table(node, RelaySlot, relay.at_slots, relay.slots)
        sources = self.table(node, FromRow, relay.at_from, nodes)
        dead = self.table(node, ToRow, relay.at_to, nodes)[:, ToRow.dead] > 0
        cells, entries = self.cells(node), self.entries(node)
        return Table(
            cycle, node,
            frozenset(
                (int(row[RelaySlot.target]), int(row[RelaySlot.uid]) & 0xFFFF)
                for row in slots[slots[:, RelaySlot.live] > 0]
            ),
            frozenset(
                (source, int(row[FromRow.mark]) & 0xFFFF, bool(row[FromRow.hungry]))
                for source, row in enumerate(sources)
                if row[FromRow.known] and not dead[source]
            ),
            frozenset(
                (int(row[PostCell.source]), int(row[PostCell.uid]) & 0xFFFF)
                for row in cells[cells[:, PostCell.parked] > 0]
            ),
            frozenset(
                (
                    int(row[HopRecord.source]), int(row[HopRecord.uid]) & 0xFFFF,
                    HELD if row[HopRecord.buffer] != NO_NUMBER else STATES[RecordState(int(row[HopRecord.state]))],
                )
                for row in entries[entries[:, HopRecord.valid] > 0]
            ),
            frozenset(np.flatnonzero(dead).tolist()),
            relay.cells - relay.free_cells[0].level,
        )  # fmt: skip


def seven(seed: int) -> System:
    """Seven nodes of radix 2: some die or are said to, links lose much, tables are too small, a host stalls."""
    chance = np.random.default_rng(seed)
    dying = chance.choice(7, 1 + seed % 2, replace=False).tolist()
    faults: dict = deaths(*((node, int(chance.integers(300, 1500))) for node in dying))
    faults["loss"] = float(chance.choice([0.0, 0.02, 0.1]))
    living = [node for node in range(7) if node not in dying]
    if seed % 3 == 0:
        suspected = int(chance.choice(living))
        faults["notices"] = [
            {"node": node, "died": suspected, "start": 1500 + int(chance.integers(0, 200))}
            for node in range(7)
            if node != suspected
        ]
    if seed % 4 == 0:
        faults["stalls"] = [{"node": busy(seed), "start": 100, "end": 1000}]
    return relay_system(
        topology={"kind": "crossbar", "nodes": 7},
        relay={
            "radix": 2, "slots": 16, "cells": int(chance.choice([2, 3, 8])), "buffers": int(chance.choice([1, 2, 8])),
            "records": int(chance.choice([4, 8, 64])), "control": int(chance.choice([4, 32])), "notice": 200,
            "spread": 100, "cache_cycles": 512, "entry_cycles": 1024, "watch_cycles": 1024, "hop_cycles": 1024,
        },
        workload={"count": MESSAGES}, faults=faults, run={"seed": seed},
    )  # fmt: skip


def busy(seed: int) -> int:
    """The node to which every second message goes."""
    return seed % 7


def golden_run(system: System, cycles: int) -> Run:
    """A run of the golden model, and the facts beside its trace."""
    chance, items = random.Random(system.run.seed), []
    for number in range(7 * MESSAGES):
        node = number % 7
        others = [other for other in range(7) if other != node]
        to = busy(system.run.seed) if chance.random() < 0.5 else chance.choice(others)
        if to == node:
            to = chance.choice(others)
        items.append(Item(node=node, destination=to, payload=bytes(chance.randint(0, 40))))
    watch = _Watch(Golden(system, Script.from_items(system, items), record=True))
    seen = watch.run(cycles)
    until = min([cycles, *(job["acts"] or cycles for job in watch.open.values())])
    return Run(system, seen, sorted(watch.steps, key=lambda step: step[:2]), watch.tables, until)


class _Rules(Rules):
    """The rules, with what is sent put aside, and three differences: those of the contract from the model."""

    def __init__(self, setting: Setting):
        super().__init__(setting)
        self.sent: list[Hop] = []

    def send(self, work: model.Work, hop: Hop) -> None:
        self.sent.append(hop)

    def acked(self, work: model.Work, origin: int, hop: Hop) -> None:
        """An unknown ACKED is answered only if nothing of its stream is live (M4)."""
        was = work.streams[hop.stream].freed
        super().acked(work, origin, hop)
        now = work.streams[hop.stream]
        if was == now.freed < now.given:
            self.sent = [sent for sent in self.sent if sent.kind != model.RELEASE]

    def done(self, work: model.Work, node: int, hop: Hop) -> None:
        """Where the message is ACKED already, those before it are not looked at (M19); with *more* it goes on."""
        if hop.flag and hop.index >= 0 and self.record(work, node, hop.stream, hop.index) == ACKED:
            self.up(work, node, model.DONE, hop.stream, hop.index, came=hop.sender, flag=hop.flag)
        else:
            super().done(work, node, hop)

    def leads_nowhere(self, work: model.Work, node: int, stream: int) -> bool:
        """A relay that holds one of the ends for dead takes a LINK, too: what goes nowhere is not told."""
        return False


def setting_of(system: System, without: tuple[str, ...] = ()) -> Setting:
    """The setting of a system, of the sizes of the run."""
    nodes = system.nodes
    return Setting(
        nodes=nodes, radix=system.relay.radix,
        streams=tuple((a, b) for a in range(nodes) for b in range(nodes) if a != b),
        messages=system.workload.count, window=system.relay_window, modulus=1 << 20, cells=system.relay.cells,
        walk=True, without=frozenset(without),
    )  # fmt: skip


@dataclass
class Replay:
    """The model of relay on the track of a run; ``steps`` says how many it has followed, by event."""

    run: Run
    without: tuple[str, ...] = ()
    steps: Counter = field(default_factory=Counter)

    def __post_init__(self):
        self.network = Network(setting_of(self.run.system, self.without))
        self.network.rules = self.rules = _Rules(self.network.setting)
        self.work = model.Work(*self.network.start()[:7])
        self.stream = {pair: number for number, pair in enumerate(self.network.setting.streams)}
        #: (origin, low bits of uid) → (stream, index), and back.
        self.message: dict[tuple[int, int], tuple[int, int]] = {}
        self.uid: dict[tuple[int, int], int] = {}
        self.net: Counter[Hop] = Counter()
        #: (node, stream, index) of data that wait to be sent.
        self.waits: set[tuple[int, int, int]] = set()
        self.posted: dict[int, deque] = defaultdict(deque)
        self.shown: Counter[int] = Counter()
        #: Data that were given to a transfer, and are not with the NI yet.
        self.moving: dict[int, Hop] = {}
        self.before: dict[int, int] = {}
        self.pulls: dict[int, set[int]] = defaultdict(set)
        self.asked: dict[int, set[int]] = defaultdict(set)

    def follow(self) -> "Replay":
        """Replay the whole run; raises `Mismatch` at the first step that cannot be."""
        of_node: dict[int, deque[Seen]] = defaultdict(deque)
        apart: list[tuple[int, int, Seen]] = []
        for seen in self.run.seen:
            if seen.event in _APART:
                apart.append((seen.cycle, 4 if seen.event == Event.RELAY_RESET else 1, seen))
            else:
                of_node[seen.node].append(seen)
        order = [(step.acts, step.order, step) for step in self.run.steps] + apart
        order += [(table.cycle, 3, table) for table in self.run.tables]
        for cycle, _, one in sorted(order, key=lambda item: item[:2]):
            if cycle >= self.run.until:
                break
            if isinstance(one, Table):
                self._compare(one)
            elif isinstance(one, Seen):
                self._apart(one)
            else:
                mine, queue = [], of_node[one.node]
                if one.order == 0:
                    if queue and queue[0].cycle < one.acts:
                        raise Mismatch(f"{queue[0]}: no job brings it about")
                    while queue and queue[0].cycle <= one.over:
                        mine.append(queue.popleft())
                self._step(one, mine)
        left = [seen for queue in of_node.values() for seen in queue if seen.cycle < self.run.until]
        if left:
            raise Mismatch(f"{left[0]}: no job brings it about")
        return self

    # Names.

    def _message(self, source: int, uid: int, about: object) -> tuple[int, int]:
        if (source, uid) not in self.message:
            raise Mismatch(f"{about}: no such message was given")
        return self.message[source, uid]

    def _hop(self, head: Heard, receiver: int, about: str) -> Hop:
        """The message of a hop that a header is."""
        if head.kind == Type.PULL:
            return Hop(PULL, head.sender, receiver)
        if head.kind == Type.ACKED and head.uid == _NONE_TAG:
            return Hop(model.DONE, head.sender, receiver, self.stream[head.source, head.target], -1, head.flag)
        stream, index = self._addressed(head, about)
        return Hop(KINDS[head.kind], head.sender, receiver, stream, index, head.flag, head.depth)

    def _addressed(self, head: Heard, about: object) -> tuple[int, int]:
        stream, index = self._message(head.source, head.uid, about)
        if stream != self.stream[head.source, head.target]:
            raise Mismatch(f"{about}: it was given for another destination")
        return stream, index

    def _told(self, seen: Seen) -> tuple:
        """Type, next hop, message and flag of an event of control: all but the depth."""
        kind, flags = Type(seen.detail >> 3), seen.detail & 7
        source = seen.uid >> 44
        name = None if kind == Type.PULL else seen.extra
        return kind, seen.peer, source if name is not None else 0, name or 0, bool(flags & 6)

    def _same(self, hop: Hop) -> tuple:
        """The same of a message of a hop."""
        kind = next(kind for kind, name in KINDS.items() if name == hop.kind)
        if kind == Type.PULL:
            return kind, hop.receiver, 0, 0, False
        source, _ = self.network.setting.streams[hop.stream]
        uid = _NONE_TAG if hop.index < 0 else self.uid[hop.stream, hop.index]
        return kind, hop.receiver, source, uid, hop.flag

    # Steps.

    def _step(self, step: Step, seen: list[Seen]) -> None:
        self.rules.sent.clear()
        records, streams = bytes(self.work.records), list(self.work.streams)
        about = f"cycle {step.acts}: node {step.node} {step.what} {step.heard} with {seen}"
        died = death(self.run.system, step.node)
        if died is not None and died <= step.over:
            self._cut(step, seen, about)
            return
        try:
            left = getattr(self, f"_{step.what.lower()}")(step, list(seen), about)
        except Broken as broken:
            raise Mismatch(f"{about}: {broken}") from None
        left = self._ends(step, left, records, streams, about)
        left = self._sent(step, left, about)
        self._gives(step, about)
        if left:
            raise Mismatch(f"{about}: the model has no {left[0].event.name}")
        for one in seen:
            if (
                one.event in _TO_TARGET
                and self.network.setting.streams[self._message(one.uid >> 44, one.extra, one)[0]][1] != one.peer
            ):
                raise Mismatch(f"{about}: its destination is another")
        self.steps.update(one.event for one in seen)

    def _cut(self, step: Step, seen: list[Seen], about: str) -> None:
        """A job is cut by the death of its node: nothing is left of it but what it told, or gave on, before."""
        with suppress(Broken, Mismatch):
            getattr(self, f"_{step.what.lower()}")(step, list(seen), about)
        for one in seen:
            if one.event == Event.RELAY_TOLD:
                self.net.update(hop for hop in self.rules.sent if self._same(hop) == self._told(one))
        self.waits |= {(hop.sender, hop.stream, hop.index) for hop in self.rules.sent if hop.kind == model.DATA}
        with suppress(Mismatch):
            if step.gives:  # whatever it did before
                _, source, uid = step.gives
                self.waits.add((step.node, *self._message(source, uid, about)))
            self._gives(step, about)

    def _sent(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        """What the rule sends is told, or dropped for want of room; data wait."""
        control = [hop for hop in self.rules.sent if hop.kind != model.DATA]
        self.waits |= {(hop.sender, hop.stream, hop.index) for hop in self.rules.sent if hop.kind == model.DATA}
        left = []
        for one in seen:
            if one.event not in (Event.RELAY_TOLD, Event.RELAY_DROPPED):
                left.append(one)
                continue
            found = next((hop for hop in control if self._same(hop) == self._told(one)), None)
            if found is None:
                raise Mismatch(f"{about}: the model does not tell it")
            control.remove(found)
            if one.event == Event.RELAY_TOLD:
                self.net[found] += 1
        if control:
            raise Mismatch(f"{about}: the model tells {control[0]}")
        return left

    def _gives(self, step: Step, about: str) -> None:
        """Data that go on: they waited, and go to the next hop of now."""
        if not step.gives:
            return
        hop, source, uid = step.gives
        stream, index = self._message(source, uid, about)
        if (step.node, stream, index) not in self.waits:
            raise Mismatch(f"{about}: nobody asked for these data")
        self.waits.remove((step.node, stream, index))
        self.rules.sent.clear()
        self.rules.down(self.work, step.node, model.DATA, stream, index)
        if [sent.receiver for sent in self.rules.sent] != [hop]:
            raise Mismatch(f"{about}: the model sends {self.rules.sent}")
        self.moving[step.node] = self.rules.sent[0]

    def _ends(self, step: Step, seen: list[Seen], records: bytes, streams: list, about: str) -> list[Seen]:
        """Messages and records that have ended are shown as such."""
        left, node = list(seen), step.node
        due = Counter()
        for stream, (was, now) in enumerate(zip(streams, self.work.streams, strict=True)):
            origin, _ = self.network.setting.streams[stream]
            if origin == node:
                due.update((Event.RELAY_END, origin, self.uid[stream, index]) for index in range(was.freed, now.freed))
        size = len(self.network.setting.streams) * self.rules.names
        for place in range(node * size, (node + 1) * size):
            if records[place] % model.STATES != NOTHING and self.work.records[place] % model.STATES == NOTHING:
                stream, index = divmod(place - node * size, self.rules.names)
                due[Event.RELAY_FORGOT, self.network.setting.streams[stream][0], self.uid[stream, index]] += 1
        for one in seen:
            if one.event in (Event.RELAY_END, Event.RELAY_FORGOT):
                name = one.event, one.uid >> 44, one.extra
                if not due[name]:
                    raise Mismatch(f"{about}: in the model it does not end")
                due[name] -= 1
                left.remove(one)
                self.waits.discard((node, *self.message[name[1:]]))
        if +due:
            raise Mismatch(f"{about}: in the model it ends: {+due}")
        return left

    def _take(self, hop: Hop, about: str) -> None:
        """A message of a hop arrives: once."""
        if not self.net[hop]:
            raise Mismatch(f"{about}: nobody has sent it")
        self.net[hop] -= 1

    def _control(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        node, head = step.node, step.heard
        hop = self._hop(head, node, about)
        self._take(hop, about)
        trees, view = self.rules.trees, self.work.views[node]
        fits = head.kind != Type.LINK or trees.fits(view, node, head.sender, head.depth) or not self.rules.keeps("M24")
        wanted = Event.RELAY_HEARD if fits else Event.RELAY_IGNORED
        found = [one for one in seen if one.event in (Event.RELAY_HEARD, Event.RELAY_IGNORED)]
        if [(one.event, one.peer) for one in found] != [(wanted, head.sender)]:
            raise Mismatch(f"{about}: it should be {wanted.name}")
        if fits and self._told(found[0]) != self._same(hop._replace(receiver=head.sender)):
            raise Mismatch(f"{about}: the trace shows another message")
        if head.kind == Type.PULL:
            if head.sender in trees.tree(view).neighbours(node):
                self.pulls[node].add(head.sender)
        else:
            self._acts(step, hop)
        return [one for one in seen if one not in found]

    def _acts(self, step: Step, hop: Hop) -> None:
        """Control acts.  A full set of records takes no other: in the model one that is forgotten at once."""
        node = step.node
        known = self.rules.record(self.work, node, hop.stream, hop.index) if hop.index >= 0 else NOTHING
        self.network._arrives(self.work, node, hop, buffer=True)
        if hop.kind in (model.LINK, model.ASK) and known == NOTHING and not step.about[0]:
            self.rules.remember(self.work, node, hop.stream, hop.index, NOTHING)
        self._reached(node)

    def _reached(self, node: int) -> None:
        """What is ACKED now is not sent any more."""
        for waiting in [one for one in self.waits if one[0] == node]:
            if self.rules.record(self.work, *waiting) == ACKED:
                self.waits.discard(waiting)

    def _data(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        node, head = step.node, step.heard
        stream, index = self._addressed(head, about)
        hop = Hop(model.DATA, head.sender, node, stream, index)
        self._take(hop, about)
        kinds = {one.event: one for one in seen}
        if node == head.target:
            return self._at_post(step, seen, hop, about)
        evicted = [one for one in seen if one.event == Event.RELAY_EVICT]
        if tuple((one.uid >> 44, one.extra) for one in evicted) != step.about:
            raise Mismatch(f"{about}: these were evicted: {step.about}")
        for source, uid in step.about:
            self._evict(node, source, uid, about)
        seen = [one for one in seen if one not in evicted]
        untracked = Event.RELAY_UNTRACKED in kinds
        was = self.rules.record(self.work, node, stream, index)
        up, down = self.rules._ways(self.work, node, stream)
        stale = NOWHERE in (up, down) or head.sender in ((down,) if up == head.sender else (down, head.sender))
        if (Event.RELAY_STALE in kinds) != stale:
            raise Mismatch(f"{about}: {'not ' * (not stale)}stale in the model")
        if not stale and untracked == step.recorded:
            raise Mismatch(f"{about}: {'a' if step.recorded else 'no'} record")
        owed = Event.RELAY_OWED in kinds
        if (owed or untracked) and (stale or was in (ACKED, HELD) or (untracked and was != NOTHING)):
            raise Mismatch(f"{about}: it needs neither a record nor a buffer")
        self.network._arrives(self.work, node, hop, buffer=not owed)
        if untracked:
            self.rules.remember(self.work, node, stream, index, NOTHING)
            if not step.gives:  # dropped
                self.rules.sent.clear()
        for event in (Event.RELAY_STALE, Event.RELAY_OWED, Event.RELAY_UNTRACKED):
            if event in kinds:
                self._named(kinds[event], event != Event.RELAY_STALE, head, about)
                seen.remove(kinds[event])
        return seen

    @staticmethod
    def _named(one: Seen, named: bool, head: Heard, about: str) -> None:
        """An event names the message that came, or only its sender."""
        if named and (one.uid >> 44, one.extra, one.peer) != (head.source, head.uid, head.target):
            raise Mismatch(f"{about}: the trace shows another message")
        if not named and one.peer != head.sender:
            raise Mismatch(f"{about}: it came from another node")

    def _at_post(self, step: Step, seen: list[Seen], hop: Hop, about: str) -> list[Seen]:
        node, source = step.node, step.heard.source
        was = self.work.streams[hop.stream]
        dead = bool(self.work.views[node] >> source & 1)
        self.network._arrives(self.work, node, hop, buffer=True)
        now = self.work.streams[hop.stream]
        due = [(Event.RELAY_POST, self.uid[hop.stream, index]) for index in range(was.expected, now.expected)]
        # Before it is compared: of a job that is cut the trace shows the first ones, and its host may take them.
        self.posted[node].extend((source, uid) for _, uid in due)
        due += [(Event.RELAY_PARK, step.heard.uid)] * (now.parked & ~was.parked > 0)
        moved = (was.expected, was.parked) != (now.expected, now.parked)
        refused = not dead and not moved and not self.rules.below(was, hop.index) and not was.parked >> hop.index & 1
        due += [(Event.RELAY_HUNGRY, step.heard.uid)] * refused
        here = (Event.RELAY_POST, Event.RELAY_PARK, Event.RELAY_HUNGRY)
        found = [(one.event, one.extra) for one in seen if one.event in here]
        if found != due or any(one.peer != source for one in seen if one.event in here):
            raise Mismatch(f"{about}: the model has {due}")
        stale = [one for one in seen if one.event == Event.RELAY_STALE]
        if [one.peer for one in stale] != [step.heard.sender] * dead:
            raise Mismatch(f"{about}: {'not ' * (not dead)}stale in the model")
        return [one for one in seen if one.event not in (*here, Event.RELAY_STALE)]

    def _evict(self, node: int, source: int, uid: int, about: str) -> None:
        stream, index = self._message(source, uid, about)
        if self.rules.record(self.work, node, stream, index) != HELD:
            raise Mismatch(f"{about}: it does not hold these data")
        self.rules.remember(self.work, node, stream, index, SENT)

    def _completion(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        return seen

    _launch = _tell = _cancel = _completion

    def _host(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        return [one for one in seen if one.event != Event.RELAY_REFUSED]

    def _given(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        sends = [one for one in seen if one.event == Event.RELAY_SEND]
        if len(sends) != 1:
            raise Mismatch(f"{about}: no message is given")
        one = sends[0]
        if (one.node, one.peer) not in self.stream:
            raise Mismatch(f"{about}: a message to its own origin")
        stream = self.stream[one.node, one.peer]
        dead = self.work.views[one.node] >> one.peer & 1
        if not dead and not self.rules.may_give(self.work, stream):
            raise Mismatch(f"{about}: no room in the window")
        index = self.work.streams[stream].given
        self.message[one.node, one.extra], self.uid[stream, index] = (stream, index), one.extra
        self.rules.give(self.work, stream)
        if dead:  # it ends at once
            self.work.streams[stream] = self.work.streams[stream]._replace(freed=index + 1)
        return [other for other in seen if other != one]

    def _feed(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        """The source is that of the ACKED that is told."""
        for one in seen:
            stream = self.stream[one.uid >> 44, step.node]
            if not self.work.streams[stream].hungry or not self.rules.room(self.work, step.node, 0):
                raise Mismatch(f"{about}: nobody is hungry, or there is no room")
            self.rules.feed(self.work, stream)
        return seen

    def _owed(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        for source, uid in step.about:
            stream, index = self._message(source, uid, about)
            if self.rules.record(self.work, step.node, stream, index) != OWED:
                raise Mismatch(f"{about}: it is not OWED")
            self.rules.ask(self.work, step.node, stream, index)
        return seen

    @staticmethod
    def _all_ended(step: Step, seen: list[Seen], event: Event, about: str) -> None:
        if tuple((one.uid >> 44, one.extra) for one in seen if one.event == event) != step.ended:
            raise Mismatch(f"{about}: these records have ended: {step.ended}")

    def _look(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        self._all_ended(step, seen, Event.RELAY_EXPIRE, about)
        left = []
        for one in seen:
            stream, index = self._message(one.uid >> 44, one.extra, about)
            if one.event == Event.RELAY_EXPIRE:
                if self.rules.record(self.work, step.node, stream, index) == NOTHING:
                    raise Mismatch(f"{about}: there is no record of it")
                self.rules.remember(self.work, step.node, stream, index, NOTHING)
                left.append(one._replace(event=Event.RELAY_FORGOT))
            else:
                if index not in self.rules.watched(self.work.streams[stream]):
                    raise Mismatch(f"{about}: it is not the oldest that is live")
                self.rules.watch(self.work, stream, index)
                left.append(one)
        for source, uid in step.about:
            self._evict(step.node, source, uid, about)
        return left

    def _walk(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        """One row of a walk: what the model does in one step is spread over many."""
        self._all_ended(step, seen, Event.RELAY_FORGOT, about)
        node, (for_all, ended) = step.node, step.about
        view = self.work.views[node]
        before = self.before.get(node, view)
        tree, was = self.rules.trees.tree(view), self.rules.trees.tree(before)
        left = []
        for source, uid in ended:  # M16
            stream, index = self._message(source, uid, about)
            now = self.work.streams[stream]
            if not view >> source & 1 or not now.parked >> index & 1:
                raise Mismatch(f"{about}: it is not parked, or its source lives")
            self.work.streams[stream] = now._replace(parked=now.parked & ~(1 << index))
        for one in seen:
            left.append(one)
            if one.event == Event.RELAY_END:  # M29
                stream, index = self._message(one.uid >> 44, one.extra, about)
                if not view >> one.peer & 1 or one.detail >> 4 != Status.UNKNOWN:
                    raise Mismatch(f"{about}: its destination lives")
                now = self.work.streams[stream]
                self.work.streams[stream] = now._replace(freed=index + 1, again=now.again and index + 1 < now.given)
            elif one.event == Event.RELAY_FORGOT:  # M28
                stream, index = self._message(one.uid >> 44, one.extra, about)
                up, down = self.rules._ways(self.work, node, stream)
                if up != down and NOWHERE not in (up, down):
                    raise Mismatch(f"{about}: it is on its path")
                self.rules.remember(self.work, node, stream, index, NOTHING)
            elif self._told(one)[0] == Type.PULL:  # M27
                if one.peer not in tree.neighbours(node) or (one.peer in was.neighbours(node) and not for_all):
                    raise Mismatch(f"{about}: no new neighbour")
                self.rules.send(self.work, Hop(PULL, node, one.peer))
            else:  # M26, M27
                stream, index = self._message(one.uid >> 44, one.extra, about)
                origin, target = self.network.setting.streams[stream]
                there = self.rules.trees.route(view, node, target) != self.rules.trees.route(before, node, target)
                # Who has asked is known by its place, which may be another's by now.
                if not (for_all or there or self.asked[node]):
                    raise Mismatch(f"{about}: it goes where it went, and nobody has asked")
                record = self.rules.record(self.work, node, stream, index)
                live = index in self.rules.live(self.work.streams[stream])
                if not live if node == origin else record in (NOTHING, ACKED):
                    raise Mismatch(f"{about}: there is nothing to tell of")
                self.rules.down(self.work, node, model.LINK, stream, index)
        return left

    def _walks(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        """A walk begins: who has asked until now is served."""
        self.asked[step.node] = self.pulls.pop(step.node, set())
        return seen

    def _tree(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        for one in seen:
            if one.peer == step.node:
                continue
            view = self.work.views[step.node]
            change = self.rules.trees.tree(view).change([one.peer])
            if view >> one.peer & 1 or bool(one.detail) != (step.node in change.promoted):
                raise Mismatch(f"{about}: known already, or promoted {change.promoted}")
            self.before[step.node] = view
            self.rules.commit(self.work, step.node, one.peer)
        return [one for one in seen if one.event != Event.RELAY_NOTICE]

    def _free(self, step: Step, seen: list[Seen], about: str) -> list[Seen]:
        """A cell is free: its message was taken before."""
        if not self.shown[step.node]:
            raise Mismatch(f"{about}: its host has taken nothing")
        self.shown[step.node] -= 1
        source, _ = self.posted[step.node].popleft()
        self.rules.take(self.work, self.stream[source, step.node])
        return seen

    def _apart(self, seen: Seen) -> None:
        if seen.event == Event.RELAY_RESET:
            self.network._die(self.work, seen.node)
            self.waits = {one for one in self.waits if one[0] != seen.node}
            self.posted[seen.node].clear()
            self.moving.pop(seen.node, None)
        elif seen.event == Event.RELAY_HOP:
            hop = self.moving.pop(seen.node, None)
            stream, index = self._message(seen.uid >> 44, seen.extra, seen)
            if hop is None or (hop.receiver, hop.stream, hop.index) != (seen.peer, stream, index):
                raise Mismatch(f"{seen}: the transfer has {hop}")
            self.net[hop] += 1
        else:
            behind = self.posted[seen.node]
            if len(behind) <= self.shown[seen.node] or behind[self.shown[seen.node]] != (seen.peer, seen.extra):
                raise Mismatch(f"{seen}: another message is the next")
            self.shown[seen.node] += 1
        self.steps[seen.event] += 1

    # Tables.

    def _compare(self, table: Table) -> None:
        """The tables of a relay are those of the model."""
        node, work, setting = table.node, self.work, self.network.setting
        live, posts, parked, used = set(), set(), set(), 0
        for stream, (origin, target) in enumerate(setting.streams):
            now = work.streams[stream]
            if origin == node:
                live |= {(target, self.uid[stream, index]) for index in self.rules.live(now)}
            if target == node:
                used += now.waiting + now.parked.bit_count()
                parked |= {(origin, self.uid[stream, index]) for index in range(now.given) if now.parked >> index & 1}
                mark = self.uid[stream, now.expected - 1] if now.expected else _NONE_TAG
                posts.add((origin, mark, now.hungry))
        records = set()
        for stream, (origin, _) in enumerate(setting.streams):
            for index in range(work.streams[stream].given):
                state = self.rules.record(work, node, stream, index)
                if state != NOTHING:
                    records.add((origin, self.uid[stream, index], state))
        dead = {other for other in range(setting.nodes) if work.views[node] >> other & 1}
        found = {
            "dead": (dead, table.dead),
            "live": (live, table.live),
            "parked": (parked, table.parked),
            "records": (records, table.records),
        }
        for name, (mine, there) in found.items():
            if mine != there:
                raise Mismatch(f"cycle {table.cycle}: node {node}: {name} {sorted(mine ^ there)} differ")
        if not table.posts <= posts or used != table.used:
            raise Mismatch(f"cycle {table.cycle}: node {node}: its Post differs: {sorted(table.posts - posts)}, {used}")

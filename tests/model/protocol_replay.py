"""Runs of the golden model, replayed step by step in the model of the protocol.

Every event of a network interface is one step of `protocol_rules`; it must be possible in the state that the earlier
events have led to, and do there what the event says.
"""

import random
from dataclasses import dataclass, field

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import LANE_ACCEPT, LANE_COMPLETE, LANE_RX, LANE_TX, Cause, Counter, Drop, Event, Kind, Status
from lethe.spec.stages import ACTS, CHOSEN, JUDGED, SHOWN
from lethe.spec.wire import unpack_uid
from lethe_sim.golden.model import Golden
from tests.model.protocol_network import Network, Violation
from tests.model.protocol_rules import (
    BEST_EFFORT,
    ENDED,
    LIVE,
    ONCE,
    REFUSED,
    RESTING,
    Message,
    Node,
    Setting,
    Step,
    Uid,
)

#: Events of a message that has arrived.
ARRIVALS = {
    Event.DELIVER, Event.DELIVER_BE, Event.DUPLICATE, Event.DROP, Event.RELEASE, Event.ACK_IGNORED, Event.FORGOTTEN,
    Event.FORGET_IGNORED, Event.REJECT_IGNORED,
}  # fmt: skip
#: Reasons to drop a message that was whole.
NO_ROOM = (Drop.DELIVER_FULL, Drop.TIMER_FULL)
BY_RULE = (Drop.INCARNATION, Drop.TABLE_FULL, *NO_ROOM)
#: Ends whose grants have no event.
WITHOUT_EVENT = (Cause.DESTINATION, Cause.LENGTH, Cause.MODE, Cause.SILENT)
CHUNK = 61


class Mismatch(AssertionError):
    """The golden model took a step that the model of the protocol has not."""


@dataclass
class Run:
    """What a run of the golden model has left.

    Attributes
    ----------
    system, stimulus : what was run
    events : all its events, in the order of their cycles
    facts : (cycle, entries of each node, busy slots of each node) now and then
    replies_dropped : by all nodes together
    drained : whether nothing was left at its end
    """

    system: System
    stimulus: np.ndarray
    events: np.ndarray
    facts: list[tuple[int, list[int], list[int]]]
    replies_dropped: int
    drained: bool


def small_system(seed: int) -> System:
    """Two nodes on a wire, or three around a router; whatever makes the protocol work hard."""
    rng = random.Random(seed)
    nodes, cycles = rng.choice((2, 2, 3)), 1200
    links = 2 * nodes if nodes > 2 else 2
    faults = {"loss": rng.choice((0.0, 0.1, 0.3)), "flip": rng.choice((0.0, 0.0, 3e-4))}
    if rng.random() < 0.5:
        starts = sorted(rng.sample(range(100, cycles, 50), 3))
        faults["resets"] = [{"node": rng.randrange(nodes), "start": at, "cycles": rng.randint(1, 9)} for at in starts]
    orphans = rng.random() < 0.3
    if orphans or rng.random() < 0.2:
        start = rng.randrange(cycles)
        faults["links"] = [{"link": rng.randrange(links), "start": start, "end": start + (1300 if orphans else 200)}]
    options = random.Random(f"options {seed}")
    return System.make(
        topology={"kind": "wire"} if nodes == 2 else {"kind": "crossbar", "nodes": nodes},
        wire={"generation_bits": rng.choice((3, 8, 10, 12)), "incarnation_bits": rng.choice((2, 3, 4)), "mtu": 16},
        ni={"slots": rng.randint(2, 3), "sets": 1, "ways": rng.randint(1, 3), "reply_depth": rng.choice((2, 16)),
            "reject": options.random() < 0.7},
        timers={
            "slack": rng.randint(0, 20), "jitter_bits": rng.randint(0, 3),
            "backoff_steps": 0 if orphans else rng.randint(0, 2),
            "wrap_guard": 0, "ack_limit": 24 if orphans else 0, "quarantine": 0 if orphans else rng.choice((0, 150)),
            "ceiling": 0 if orphans else rng.choice((0, 0, 400)),
            "silent_after": options.choice((0, 0, 0, 1, 3)), "silent_probe": options.choice((50, 1000)),
        },
        workload={"retry_limit": 3, "min_length": 4, "max_length": 4},
        faults=faults,
        run={"seed": seed, "cycles": 20_000},
    )  # fmt: skip


def small_stimulus(system: System, seed: int, busy: int = 1200, quiet: int = 6000) -> np.ndarray:
    """Hosts that send, cancel, stall and unplug the link for ``busy`` cycles, and then only take what comes."""
    rng = random.Random(seed + 1)
    words = np.zeros((busy + quiet, system.nodes, 6), np.uint64)
    words[:, :, 0] = 2  # payload beats are there whenever they are wanted
    for node in range(system.nodes):
        at = 0
        while at < busy:
            until = min(busy, at + rng.randint(1, 40))
            if rng.random() < 0.6:
                words[at:until, node, 0] |= np.uint64(1)
                others = [other for other in range(system.nodes) if other != node]
                destination = rng.choice(others) if rng.random() < 0.97 else node
                mode = rng.choices((0, 1, 2), (20, 3, 1))[0]
                record = destination | mode << 24 | rng.choice((0, 0, 5, 16, 17)) << 32
                # Orphans are reclaimed, so every datagram has a limit then.
                limit = rng.choice((1, 2, 3)) if system.timers.ack_limit else rng.choice((0, 0, 1, 3))
                limits = rng.choice((0, 0, 0, 90)) | limit << 32
                if limit:
                    limits |= rng.choice((0, 0, 1, 2)) << 40
                words[at:until, node, 1] = record
                words[at:until, node, 2] = limits
            if rng.random() < 0.1:
                words[at:until, node, 0] |= np.uint64(32)  # deliver_stall
            if rng.random() < 0.05 and not system.timers.ack_limit:
                words[at:until, node, 0] |= np.uint64(16)  # link_disable
            at = until
    cancels = np.random.default_rng(seed)
    chosen = cancels.random((busy, system.nodes)) < 0.2
    words[:busy, :, 0] |= np.where(chosen, 4, 0).astype(np.uint64)
    slots = cancels.integers(0, system.ni.slots, (busy, system.nodes))
    generations = cancels.integers(0, min(16, 1 << system.wire.generation_bits), (busy, system.nodes))
    words[:busy, :, 5] = (slots | generations << 16).astype(np.uint64)
    return words.reshape(busy + quiet, -1)


def golden_run(system: System, stimulus: np.ndarray) -> Run:
    """The golden model under external hosts, with facts every `CHUNK` cycles."""
    golden = Golden(system, external=True, record=True)
    events, facts = [], []
    for at in range(0, len(stimulus), CHUNK):
        golden.run(min(CHUNK, len(stimulus) - at), stimulus=stimulus[at : at + CHUNK])
        events.append(golden.take_events())
        facts.append((golden.cycle, golden.entries.tolist(), golden.busy.tolist()))
    dropped = int(golden.counters[:, Counter.REPLIES_DROPPED].sum())
    empty = not any(facts[-1][1]) and not any(facts[-1][2])
    return Run(system, stimulus, np.concatenate(events), facts, dropped, empty)


def setting_of(system: System, without: tuple[str, ...] = ()) -> Setting:
    """The setting of a system, with the queues that the replay empties itself."""
    nodes = system.nodes
    return Setting(
        nodes=nodes,
        paths=tuple((a, b) for a in range(nodes) for b in range(nodes) if a != b),
        slots=system.ni.slots,
        entries=system.ni.ways,
        generations=1 << system.wire.generation_bits,
        incarnations=(1 << system.wire.incarnation_bits) - 1,
        channel=1 << 20,
        reply_depth=1 << 20,
        quarantine=system.timers.quarantine > 0,
        reject=system.ni.reject,
        silent=system.timers.silent_after > 0,
        leaving=True,
        without=frozenset(without),
    )


@dataclass(frozen=True)
class Seen:
    """One event, decoded."""

    cycle: int
    node: int
    event: Event
    detail: int
    peer: int
    length: int
    uid: Uid

    def __str__(self) -> str:
        return f"cycle {self.cycle}: node {self.node} {self.event.name} {tuple(self.uid)} detail {self.detail}"


def _has_arrived(seen: Seen) -> bool:
    """Whether an event is what a message did that arrived."""
    return seen.event in ARRIVALS or (seen.event == Event.GIVE_UP and seen.detail == Cause.RESTARTED)


@dataclass
class Replay:
    """The model of the protocol on the track of a run.

    Attributes
    ----------
    steps : how many it has followed, by event
    owed : promises of the environment that the run has not kept (E1, E2, R25)
    broken : property that was violated in consequence
    stopped : where a UID that came again too soon did what the model has not
    """

    run: Run
    without: tuple[str, ...] = ()
    steps: dict[Event, int] = field(default_factory=dict)
    owed: set[str] = field(default_factory=set)
    broken: Violation | None = None
    stopped: str = ""

    def __post_init__(self):
        self.network = Network(setting_of(self.run.system, self.without))
        self.protocol = self.network.protocol
        self.state = self.network.start()
        self.replies_dropped = 0
        self._last_use: dict[Uid, int] = {}
        self._completed: dict[tuple[int, int], int] = {}

    def follow(self) -> "Replay":
        """Replay the whole run; raises `Mismatch` at the first event that cannot be."""
        self._arrivals, self._told = {}, []
        order = []
        for seen in self._decoded():
            if seen.event == Event.COMPLETE:
                self._told.append(seen)
            if _has_arrived(seen) and not (seen.event == Event.DROP and seen.detail not in BY_RULE):
                self._arrivals[seen.cycle, seen.node] = seen
            order.append(self._when(seen))
            if seen.event in (Event.SEND, Event.BE):
                order.append((seen.cycle - SHOWN + max(self._flits(seen), JUDGED + 1), 0, seen, True))
        order.sort(key=lambda item: item[:2])
        facts = iter(self.run.facts)
        fact = next(facts)
        for cycle, _, seen, left in order:
            while cycle >= fact[0]:
                self._compare(fact)
                fact = next(facts, (1 << 60, [], []))
            if not self._one(seen, left):
                return self
        self._compare(self.run.facts[-1])
        self._finish()
        return self

    def _decoded(self) -> list[Seen]:
        events = self.run.events
        events = events[(events["unit"] < self.run.system.nodes) & (events["lane"] <= LANE_COMPLETE)]
        return [
            Seen(
                cycle, node, Event(word & 0xFF), word >> 8 & 0xFF, word >> 16 & 0xFFFF, word >> 32 & 0xFFFF,
                Uid(*unpack_uid(uid)),
            )
            for cycle, node, lane, word, uid in events.tolist()
            if lane in (LANE_TX, LANE_RX, LANE_ACCEPT, LANE_COMPLETE)
        ]  # fmt: skip

    @staticmethod
    def _when(seen: Seen) -> tuple[int, int, Seen, bool]:
        """When a step happens: a reply is granted and a Send judged before the event, and first in their cycles."""
        if seen.event in (Event.ACK, Event.FORGET, Event.REJECT):
            return seen.cycle - SHOWN, 2, seen, False
        if seen.event in (Event.SEND, Event.BE, Event.KILLED):
            return seen.cycle - SHOWN + JUDGED, 2, seen, False
        if seen.event == Event.GIVE_UP and seen.detail in WITHOUT_EVENT:
            # Its grant, which has no event, was earlier; from its choice on the next may be granted.
            return seen.cycle - CHOSEN, 1, seen, False
        return seen.cycle, 4 if seen.event == Event.ACCEPT else 3, seen, False

    def _flits(self, seen: Seen) -> int:
        form = self.run.system.format
        return form.send_flits(seen.length) if seen.event in (Event.SEND, Event.BE) else form.control_flits

    def _one(self, seen: Seen, left: bool) -> bool:
        """Follow one event; returns whether to go on."""
        if left:
            if self._node(seen.node).leaving is None:
                return True  # a reset has cut it
            self._take(seen, self.protocol.left(self._node(seen.node)), "LEFT", fate=self._fate(seen))
        else:
            try:
                self._event(seen)
            except Mismatch as mismatch:
                # What a UID that has come again too soon may do is not modelled any further.
                if "E1" not in self.owed:
                    raise
                self.stopped = str(mismatch)
                return False
            self.steps[seen.event] = self.steps.get(seen.event, 0) + 1
        if self.broken and not self.owed:
            raise Mismatch(f"{seen}: {self.broken.text}")
        return not self.broken

    def _event(self, seen: Seen) -> None:
        node, protocol, slot = self._node(seen.node), self.protocol, seen.uid.slot
        match seen.event:
            case Event.ACCEPT:
                self._accept(seen)
            case Event.SEND | Event.BE:
                node = self._skip_ended(node, (slot, seen.uid.generation))
                grant = protocol.grant_repeat if seen.detail else protocol.grant_new
                self._take(seen, grant(node))
            case Event.KILLED:
                entry = (slot, seen.uid.generation)
                node = self._skip_ended(node, entry)
                grant = protocol.grant_repeat if node.repeats[:1] == (entry,) else protocol.grant_new
                self._take(seen, grant(node))
            case Event.ACK | Event.FORGET | Event.REJECT:
                self._skip_dropped(seen)
                self._take(seen, protocol.grant_reply(self._node(seen.node)), fate=self._fate(seen))
            case Event.REPEAT:
                self._take(seen, protocol.repeat(node, slot))
            case Event.GIVE_UP if _has_arrived(seen):
                self._arrive(seen)
            case Event.GIVE_UP:
                if self._was_passed_over(seen):
                    node = self._pass_over(seen)
                elif self._was_cut(seen):
                    self._take(seen, protocol.grant_new(node), "SEND")
                    node = self._node(seen.node)
                self._take(seen, self._ends(node, slot, Cause(seen.detail)), detail=Cause(seen.detail).name)
            case Event.COMPLETE:
                status, cause = Status(seen.detail >> 4).name, Cause(seen.detail & 15).name
                self._take(seen, protocol.complete(node, slot), detail=f"{status} {cause}")
                self._completed[seen.node, slot] = seen.cycle
            case Event.ACK_REPEAT:
                self._take(seen, protocol.ack_repeat(node, seen.uid) if seen.uid in node.table else None)
            case Event.ORPHAN:
                if self.network.repeats(self.state, seen.uid):
                    self.owed.add("R25")
                self._take(seen, protocol.orphan(node, seen.uid) if seen.uid in node.table else None)
            case Event.RESET:
                self._reset(seen)
            case _ if _has_arrived(seen):
                self._arrive(seen)

    def _was_cut(self, seen: Seen) -> bool:
        """Whether a datagram that is cancelled was granted, and a reset came before its first flit."""
        if seen.detail != Cause.CANCELLED or self._node(seen.node).slots[seen.uid.slot].launched == seen.uid.generation:
            return False
        events, first = self.run.events, np.uint64(seen.cycle)
        near = events[
            (events["unit"] == seen.node) & (events["cycle"] > first) & (events["cycle"] <= first + np.uint64(SHOWN))
        ]
        reset = np.any((near["word"] & np.uint64(0xFF)) == Event.RESET)
        return bool(reset) and any(
            end.uid == seen.uid and end.cycle > seen.cycle and end.detail >> 4 == Status.UNKNOWN for end in self._told
        )

    def _was_passed_over(self, seen: Seen) -> bool:
        """Whether the grant to a silent node that led to an end, or came before it, is still to be taken."""
        if not self.protocol.setting.silent:
            return False
        node, slot = self._node(seen.node), seen.uid.slot
        if seen.detail == Cause.SILENT:
            return True
        if seen.detail != Cause.CANCELLED or node.slots[slot].launched == seen.uid.generation:
            return False
        # A cancelled datagram is UNKNOWN if it was granted; if no Send shows it, its node was silent.
        told = next((end for end in self._told if end.uid == seen.uid and end.cycle > seen.cycle), None)
        return told is not None and told.detail >> 4 == Status.UNKNOWN

    def _pass_over(self, seen: Seen) -> Node:
        """A grant to a silent node; returns the node after it."""
        entry = seen.uid.slot, seen.uid.generation
        node = self._skip_ended(self._node(seen.node), entry)
        self._take(seen, self.protocol.pass_over(node, first=node.repeats[:1] != (entry,)), "PASS_OVER")
        return self._node(seen.node)

    def _skip_ended(self, node: Node, entry: tuple[int, int]) -> Node:
        """Grants to silent nodes of datagrams that ended before the finish register acted have no event."""
        if not self.protocol.setting.silent or entry in (*node.repeats[:1], *node.new[:1]):
            return node
        found = {}
        for name in ("repeats", "new"):
            queue = getattr(node, name)
            while queue and not self._is_live(node, queue[0]):
                queue = queue[1:]
            found[name] = queue
        self._put(node._replace(**found))
        return self._node(node.number)

    @staticmethod
    def _is_live(node: Node, entry: tuple[int, int]) -> bool:
        slot = node.slots[entry[0]]
        return slot.place == LIVE and slot.generation == entry[1]

    def _ends(self, node: Node, slot: int, cause: Cause) -> Step | None:
        if cause == Cause.CANCELLED:
            return self.protocol.cancel(node, slot)
        if cause in (Cause.RETRY_LIMIT, Cause.DEADLINE):
            return self.protocol.give_up(node, slot, cause.name)
        return self.protocol.finish(node, slot, cause.name)

    def _accept(self, seen: Seen) -> None:
        node, slot = self._node(seen.node), seen.uid.slot
        if node.slots[slot].place == RESTING:
            if seen.cycle < self._completed[seen.node, slot] + self.run.system.timers.quarantine:
                raise Mismatch(f"{seen}: the slot still rests")
            self._take(seen, self.protocol.rested(node, slot), "RESTED")
            node = self._node(seen.node)
        system = self.run.system
        if self.network.recurs(self.state, seen.uid) or self._timer_left(seen):
            self.owed.add("E1")
        # The record was taken before its payload.
        taken = seen.cycle - system.format.payload_flits(seen.length)
        record, limits = (int(word) for word in self.run.stimulus.reshape(-1, system.nodes, 6)[taken, seen.node, 1:3])
        mode = record >> 24 & 0xFF
        refused = seen.peer >= system.nodes or seen.peer == seen.node or mode > 1 or seen.length > system.wire.mtu
        kept = (REFUSED if refused else BEST_EFFORT if mode else ONCE, limits >> 40 & 0xFF)
        if (record & 0xFFFF, record >> 32 & 0xFFFF) != (seen.peer, seen.length):
            raise Mismatch(f"{seen}: its host offered another record")
        if (seen.detail == Kind.BE) != (kept[0] == BEST_EFFORT):
            raise Mismatch(f"{seen}: it travels as another kind")
        use = self.network.use_of(self.state, seen.uid)
        self._take(seen, self.protocol.accept(node, slot, seen.peer, kept[1], kept[0], use), detail=kept[0])

    def _timer_left(self, seen: Seen) -> bool:
        """Whether a time-out of the UID's last use may still be running."""
        system = self.run.system
        longest = system.longest_delays[-1] + (1 << system.timers.jitter_bits) + 100
        before = self._last_use.get(seen.uid, -(1 << 60))
        self._last_use[seen.uid] = seen.cycle
        return seen.cycle < before + longest + system.retry_time(system.workload.retry_limit)

    def _arrive(self, seen: Seen) -> None:
        """A message acts: the oldest of those that the network has not lost."""
        if seen.event == Event.DROP and seen.detail not in BY_RULE:
            return  # it was lost
        channel = self.network.channel_between(seen.peer, seen.node)
        waiting = self.state[self.network.setting.nodes + channel]
        if not waiting:
            raise Mismatch(f"{seen}: nothing was on its way")
        message = self.network.message(waiting[0])
        step = self.protocol.receive(self._node(seen.node), message)
        if seen.event == Event.DROP and seen.detail in NO_ROOM:
            if step.event not in ("DELIVER", "DELIVER_BE"):
                raise Mismatch(f"{seen}: it would have been a {step.event}")
            step = Step("DROP", message.uid, Drop(seen.detail).name, self._node(seen.node))
        detail = {Event.DROP: Drop, Event.GIVE_UP: Cause}.get(seen.event)
        detail = detail(seen.detail).name if detail else ""
        self._take(seen, step, detail=detail, heard=(channel, waiting[1:], message))

    def _skip_dropped(self, seen: Seen) -> None:
        """Replies that found their queue full never leave: those before the one that does."""
        node = self._node(seen.node)
        kind = seen.event.name.capitalize()
        leaving = [(m.kind, m.uid, m.receiver) == (kind, seen.uid, seen.peer) for m in node.replies]
        if True not in leaving:
            raise Mismatch(f"{seen}: no such reply was queued")
        first = leaving.index(True)
        self.replies_dropped += first
        if self.replies_dropped > self.run.replies_dropped:
            raise Mismatch(f"{seen}: it has overtaken another reply")
        self._put(node._replace(replies=node.replies[first:]))

    def _reset(self, seen: Seen) -> None:
        node = self._node(seen.node)
        incarnation = node.incarnation % self.network.setting.incarnations + 1
        if self.network.remembered(self.state, seen.node, incarnation):
            self.owed.add("E2")
        self.state = self.network.after_reset(self.state, seen.node)
        self._last_use = {uid: at for uid, at in self._last_use.items() if uid.source != seen.node}

    def _fate(self, seen: Seen) -> str:
        """Whether the message that leaves with this event arrives: it acts some cycles after its last flit."""
        system = self.run.system
        hops = 0 if system.nodes == 2 else system.router.latency
        arrival = self._arrivals.get((seen.cycle + self._flits(seen) - 1 + ACTS + hops, seen.peer))
        there = arrival is not None and arrival.peer == seen.node and arrival.uid == seen.uid
        return "sent" if there else "lost"

    def _take(
        self, seen: Seen, step: Step | None, event: str | None = None, *, detail: str = "", fate: str = "", heard=None
    ) -> None:
        """Take a step, if it is the one that was seen."""
        if step is None:
            raise Mismatch(f"{seen}: not possible here")
        if (step.event, step.about, step.detail) != (event or seen.event.name, seen.uid, detail):
            raise Mismatch(f"{seen}: the model has {step.event} {step.about} {step.detail}")
        found: list = []
        self.network.apply(self.state, seen.node, self.network.prepared(step), heard, found)
        for move, after in found:
            if move.fate in ("", fate) or isinstance(after, Violation):
                if isinstance(after, Violation):
                    self.broken = after
                else:
                    self.state = after
                return
        raise Mismatch(f"{seen}: a message of it can be neither sent nor lost")

    def _node(self, number: int) -> Node:
        return self.network.node(self.state, number)

    def _put(self, node: Node) -> None:
        new = list(self.state)
        new[node.number] = self.network.node_number(node)
        self.state = tuple(new)

    def _compare(self, fact: tuple[int, list[int], list[int]]) -> None:
        """Entries and busy slots are those of the golden model."""
        cycle, entries, busy = fact
        for number, (there, taken) in enumerate(zip(entries, busy, strict=True)):
            node = self._node(number)
            if len(node.table) != there:
                raise Mismatch(f"cycle {cycle}: node {number} has {there} entries, the model {len(node.table)}")
            mine = sum(slot.place in (LIVE, ENDED) for slot in node.slots)
            if taken - mine not in (0, 1):  # one may have given its record and not its payload
                raise Mismatch(f"cycle {cycle}: node {number} has {taken} slots in use, the model {mine}")

    def _finish(self) -> None:
        if not self.run.drained:
            return
        waiting = sum(len(self._node(n).replies) for n in range(self.run.system.nodes))
        left = self.run.replies_dropped - self.replies_dropped - waiting
        if left and not self.steps.get(Event.RESET):
            raise Mismatch(f"at the end: {left} more replies were dropped than the model knows of")


def replayed(seed: int) -> Replay:
    """A random small run, followed."""
    system = small_system(seed)
    return Replay(golden_run(system, small_stimulus(system, seed))).follow()


__all__ = ["Message", "Mismatch", "Replay", "Run", "golden_run", "replayed", "small_stimulus", "small_system"]

"""What relay promises in numbers: recovery, messages, replays, incast, a stalled destination, latency.

A section of `scripts/bench`.  All runs are the golden model's; messages have 32 bytes, flits 64 bits.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from flow_bench import Measured

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.overlay import Overlay
from lethe.spec.sections.relay import OF_NI
from lethe.spec.services.relay import Type, type_of
from lethe.spec.stages import ACTS
from lethe.spec.wire import UID_SOURCE_SHIFT
from lethe_sim.golden.model import Golden, Item, Script

BYTES, HEADER = 32, 16
RADIX = 2
#: The three that die: the root, and one in each of the two layers below it.
KILLED = (0, 2, 5)
#: Cycle in which they die: all messages are given by then, and few are posted.
KILL = 600
_AGAIN = ("by_relays", "by_origins", "hops")
#: A run that has not ended by then is told as such.
LIMIT = 400_000
#: Cycles that one message has for its way through an idle network.
QUIET = 3000


def system_of(levels: int = 3, **more: dict) -> System:
    """A tree of routers with 4^levels nodes, with relay of radix 2; most slots are for control, repeats come soon."""
    base: dict = {
        "topology": {"kind": "tree", "arity": 4, "levels": levels},
        "wire": {"mtu": BYTES + HEADER, "generation_bits": 16},
        "ni": OF_NI | {"slots": 16, "control_slots": 12}, "relay": {"slots": 64, "radix": RADIX},
        "timers": {"backoff_steps": 1, "jitter_bits": 5, "ack_limit": 200},
        "workload": {
            "mode": "relay", "min_length": BYTES, "max_length": BYTES, "count": 0, "load": 0.02, "retry_limit": 30,
        },
        "run": {"cycles": 1 << 24},
    }  # fmt: skip
    for name, values in more.items():
        base[name] = base.get(name, {}) | values
    return System.make(**base)


def without_relay(system: System) -> System:
    """The same network, with the same messages as datagrams of the NI."""
    return system.replace(relay={"slots": 0}, workload={"mode": "exactly_once"})


class RelayRows(NamedTuple):
    """Events of one kind of unit: node, cycle, event, detail, peer, length, uid, extra."""

    node: np.ndarray
    cycle: np.ndarray
    event: np.ndarray
    detail: np.ndarray
    peer: np.ndarray
    length: np.ndarray
    uid: np.ndarray
    extra: np.ndarray

    def of(self, *events: Event) -> "RelayRows":
        """Those of these events."""
        some = np.isin(self.event, events)
        return RelayRows(*(column[some] for column in self))


def rows(system: System, events: np.ndarray, *, relay: bool) -> RelayRows:
    """The events of relays, or of NIs."""
    first = system.layout.first_service
    mine = events[events["unit"] >= first] if relay else events[events["unit"] < system.nodes]
    word = mine["word"].astype(np.uint64)
    event, detail, peer, length, extra = (
        field.of(word).astype(np.int64) for field in (trace.EVENT, trace.DETAIL, trace.PEER, trace.LENGTH, trace.EXTRA)
    )
    node, cycle, uid = (mine[name].astype(np.int64) for name in ("unit", "cycle", "uid"))
    return RelayRows(node - (first if relay else 0), cycle, event, detail, peer, length, uid, extra)


# Recovery


class Recovered(NamedTuple):
    """Of a run in which three relays die: cycles from the last notice to the last post, and replays.

    Attributes
    ----------
    cycles : -1 if not all was posted
    posted, judged : messages between two that live
    under_way : of these not posted when the three died
    hops : of data that went out before
    by_relays, by_origins : those of them with which a node answered, and did not pass on what came
    """

    cycles: int
    posted: int
    judged: int
    under_way: int
    hops: int
    by_relays: int
    by_origins: int


class Answers:
    """Who sends data again: a relay that was asked since the data came to it last, or their origin."""

    def __init__(self):
        self.hops, self.by_relays, self.by_origins = 0, 0, 0
        self._asked: dict[tuple[int, int, int], bool] = {}

    def add(self, found: RelayRows) -> None:
        """More hops, and control that was heard, in the order of their cycles."""
        columns = (found.event, found.node, found.peer, found.detail, found.uid, found.extra)
        for event, node, peer, detail, uid, extra in zip(*(column.tolist() for column in columns), strict=True):
            if event == Event.RELAY_HEARD:
                if type_of(detail) == Type.REQUESTED:
                    self._asked[uid, extra, node] = True
                continue
            origin, asked = uid >> UID_SOURCE_SHIFT == node, self._asked.pop((uid, extra, node), False)
            self._asked[uid, extra, peer] = False
            if detail == 1:
                self.hops += 1
                self.by_origins += origin
                self.by_relays += asked and not origin


def recover(seed: int, loss: float) -> Recovered:
    """Each of 64 nodes sends one message at once; three relays die while these are under way."""
    chance = random.Random(seed)
    targets = list(range(64))
    while any(node == to for node, to in enumerate(targets)):
        chance.shuffle(targets)
    system = system_of(
        faults={"deaths": [{"node": node, "start": KILL} for node in KILLED], "loss": loss},
        relay={"notice": 1000, "spread": 200}, run={"cycles": LIMIT, "seed": seed},
    )  # fmt: skip
    items = [Item(node=node, destination=to, payload=bytes(BYTES)) for node, to in enumerate(targets)]
    golden = Golden(system, Script.from_items(system, items), record=True)
    judged = {(node, to) for node, to in enumerate(targets) if not {node, to} & {*KILLED}}
    posted: dict[tuple[int, int], int] = {}
    notice, answers = 0, Answers()
    while golden.cycle < LIMIT and not (judged <= posted.keys() and golden.cycle > notice + 500 and notice):
        golden.run(500)
        found = rows(system, golden.take_events(), relay=True)
        posts = found.of(Event.RELAY_POST)
        posted |= dict(
            zip(zip(posts.peer.tolist(), posts.node.tolist(), strict=True), posts.cycle.tolist(), strict=True)
        )
        told = found.of(Event.RELAY_NOTICE)
        notice = max([notice, *told.cycle[told.peer != told.node].tolist()])
        answers.add(found.of(Event.RELAY_HOP, Event.RELAY_HEARD))
    under_way = sum(posted.get(pair, LIMIT) > KILL for pair in judged)
    done = judged <= posted.keys()
    last = max(posted[pair] for pair in judged) if done else -1
    return Recovered(
        max(0, last - notice) if done else -1, len(judged & posted.keys()), len(judged), under_way,
        answers.hops, answers.by_relays, answers.by_origins,
    )  # fmt: skip


def recovery(quick: bool) -> Iterator[Measured]:
    """Three of 64 die at once while 64 messages are under way."""
    seeds = range(3 if quick else 20)
    about = (
        "64 nodes, radix 2, a message from each, relays 0, 2 and 5 die: cycles from the last notice until all is posted"
    )
    for loss, most in ((0.0, 3000), (0.01, 20_000)):
        runs = [recover(seed, loss) for seed in seeds]
        cycles = sorted(run.cycles for run in runs)
        good = cycles[0] >= 0 and cycles[-1] <= most
        lost = sum(run.judged - run.posted for run in runs)
        under_way, judged = (sum(run.under_way for run in runs), sum(run.judged for run in runs))
        yield Measured(
            f"{about}, loss {loss:.0%}",
            f"median {cycles[len(cycles) // 2]:,}, at most {cycles[-1]:,} ({len(runs)} runs; {under_way:,} "
            f"of {judged:,} messages between the living under way{f'; {lost} never posted' if lost else ''})",
            f"≤ {most:,}", good,
        )  # fmt: skip
        relays, origins, hops = (sum(r[at] for r in runs) for at in map(Recovered._fields.index, _AGAIN))
        deaths, answers = len(runs) * len(KILLED), relays + origins
        yield Measured(
            f"the same, loss {loss:.0%}: data sent again for each death, and their hops; share answered by relays",
            f"{answers / deaths:.1f}, {hops / deaths:.1f}; {relays / max(1, answers):.0%}",
        )


# Loss


def lossy(quick: bool) -> Iterator[Measured]:
    """What loss costs with timers as by default: over the tree, and direct."""
    for radix in (RADIX, 0):
        drained = []
        for loss in (0.1,) if quick else (0.1, 0.3):
            golden = Golden(
                System.make(
                    topology={"kind": "tree", "arity": 4, "levels": 2}, wire={"mtu": BYTES + HEADER}, ni=OF_NI,
                    relay={"slots": 16, "radix": radix}, faults={"loss": loss},
                    workload={"mode": "relay", "count": 12, "load": 0.3, "min_length": BYTES, "max_length": BYTES},
                    run={"cycles": 10 * LIMIT},
                )
            )  # fmt: skip
            golden.run(10 * LIMIT, until_drained=True)
            drained.append(f"{loss:.0%} {golden.cycle:,}{'' if golden.drained else ', and not over'}")
        yield Measured(
            f"16 nodes, radix {radix}, twelve messages from each, timers by default: cycles until all is over, by loss",
            "; ".join(drained),
        )


# Messages


def messages(quick: bool) -> Iterator[Measured]:
    """What one message costs in messages of the NI without loss, over all distances."""
    system = system_of()
    overlay = Overlay(nodes=64, radix=RADIX)
    pairs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for node in range(64):
        for to in range(64):
            if node != to:
                pairs[len(overlay.path(node, to)) - 1].append((node, to))
    chance = random.Random(1)
    chosen = [chance.choice(pairs[hops]) for hops in sorted(pairs)][:: 3 if quick else 1]
    items = [
        Item(node=node, destination=to, payload=bytes(BYTES), not_before=QUIET * number)
        for number, (node, to) in enumerate(chosen)
    ]
    golden = Golden(system, Script.from_items(system, items), record=True)
    golden.run(QUIET * len(items))
    events = golden.take_events()
    sent = len(rows(system, events, relay=False).of(Event.SEND, Event.ACK, Event.FORGET).cycle)
    relays = rows(system, events, relay=True)
    hops = sum(len(overlay.path(node, to)) - 1 for node, to in chosen)
    told = relays.of(Event.RELAY_TOLD)
    origin = (type_of(told.detail) == Type.ACKACKED) & (told.uid >> UID_SOURCE_SHIFT == told.node)
    drained = int(origin.sum())
    ended = len(relays.of(Event.RELAY_END).cycle)
    whole = ended == drained == len(items)
    bound = 9 * hops
    yield Measured(
        f"messages of the NI for a message, no loss, one at a time, 1 to {max(pairs)} hops, each stream drained",
        f"{sent:,} for {len(items)} messages of {hops} hops in all: {sent / hops:g} for a hop"
        + ("" if whole else f"; {ended} ended, {drained} drained"),
        "≤ 6h, and 3h for a drained stream", whole and sent <= bound,
    )  # fmt: skip


# Incast, and a destination that stalls


def goodput(golden: Golden, cycles: int, nodes: list[int], peers: set[int] | None = None) -> float:
    """Messages that these nodes take in so many cycles, of these sources."""
    golden.take_events()
    count = 0
    for _ in range(10):
        golden.run(cycles // 10)
        taken = rows(golden.system, golden.take_events(), relay=True).of(Event.RELAY_TAKE)
        some = np.isin(taken.node, nodes)
        if peers is not None:
            some &= np.isin(taken.peer, list(peers))
        count += int(some.sum())
    return count / cycles


def incast(quick: bool) -> Iterator[Measured]:
    """All nodes send to one leaf: over the tree and its root, and directly; with the default window, and a small."""
    levels, cycles = 2 if quick else 3, 20_000 if quick else 100_000
    nodes = 4**levels
    target = nodes - 1
    items = [
        Item(node=node, destination=target, payload=bytes(BYTES))
        for _ in range(cycles // 50)
        for node in range(nodes)
        if node != target
    ]
    for window in (0, 4):
        found = {}
        for radix in (0, RADIX):
            system = system_of(levels, relay={"radix": radix, "window": window}, workload={"count": cycles // 50})
            golden = Golden(system, Script.from_items(system, items), record=True)
            golden.run(5000)
            found[radix] = [1000 * goodput(golden, cycles // 5, [target]) for _ in range(5)]
        direct, tree = (sum(found[radix]) / 5 for radix in (0, RADIX))
        yield Measured(
            f"incast, {nodes - 1} nodes to node {target} through the root, {cycles:,} cycles, window "
            f"{system.relay_window}: messages in 1,000 cycles, beside direct sends (radix 0)",
            f"{tree:.2f}, {direct:.2f}: {tree / direct:.2f}", "≥ 0.7", tree >= 0.7 * direct,
        )  # fmt: skip
        each = found[RADIX]
        yield Measured(
            "the same over the tree, fifths of these cycles: no collapse",
            ", ".join(f"{value:.2f}" for value in each), "the last ≥ 0.9 of the first", each[-1] >= 0.9 * each[0],
        )  # fmt: skip


def stalled(quick: bool) -> Iterator[Measured]:
    """A host never takes anything; messages to it are refused for want of room in the window, and the others go on."""
    levels, cycles = 2, 20_000 if quick else 100_000
    nodes = 4**levels
    away, rates = nodes - 1, []
    others = [node for node in range(nodes) if node != away]
    for faults in ({}, {"stalls": [{"node": away, "start": 1000, "end": 1 << 30}]}):
        system = system_of(levels, workload={"load": 0.005, "deadline": 50_000}, faults=faults, relay={"slots": 64})
        golden = Golden(system, record=True)
        golden.run(20_000)
        rates.append(goodput(golden, cycles, others, set(others)))
    yield Measured(
        f"{nodes} nodes, uniform at load 0.005, the host of node {away} never takes: messages between the others, "
        "beside those when it does",
        f"{1000 * rates[1]:.2f} and {1000 * rates[0]:.2f} in 1,000 cycles: {rates[1] / rates[0]:.2f}", "≥ 0.9",
        rates[1] >= 0.9 * rates[0],
    )  # fmt: skip


# Latency


def latency() -> Measured:
    """One message over idle relays: from the last flit in to the first flit out, as section 8 of the contract says."""
    system = system_of()
    overlay = Overlay(nodes=64, radix=RADIX)
    way = overlay.path(63, 62)
    item = Item(node=way[0], destination=way[-1], payload=bytes(BYTES))
    golden = Golden(system, Script.from_items(system, [item]), record=True)
    golden.run(QUIET)
    ni = rows(system, golden.take_events(), relay=False)
    beats = -(-BYTES // system.format.flit_bytes)
    found = []
    for before, node, after in zip(way, way[1:], way[2:], strict=False):
        came = ni.of(Event.DELIVER)
        arrived = came.cycle[(came.node == node) & (came.peer == before)].min() - ACTS
        sends = ni.of(Event.SEND)
        left = sends.cycle[(sends.node == node) & (sends.peer == after)].min()
        found.append(int(left - arrived))
    least, most = min(found), max(found)
    target = 24 + beats
    return Measured(
        f"cycles from last flit in to first flit out, relay idle, data of {BYTES} bytes ({len(found)} relays)",
        f"{least}" if least == most else f"{least} to {most}", f"{target} (contract)", least == most == target,
    )  # fmt: skip


def figures(quick: bool) -> Iterator[Measured]:
    """All rows but speed."""
    yield from recovery(quick)
    yield from lossy(quick)
    yield from messages(quick)
    yield from incast(quick)
    yield from stalled(quick)
    yield latency()

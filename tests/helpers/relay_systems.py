"""Systems with relay, runs of them, and what their traces say."""

import random
from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.trace import DETAIL, EVENT, EXTRA, LENGTH, PEER
from lethe_sim.golden.model import Golden
from lethe_sim.golden.script import Item, Script
from lethe_sim.golden.services.relay.state import Relay


class Seen(NamedTuple):
    """An event of a relay."""

    cycle: int
    node: int
    event: Event
    detail: int
    peer: int
    length: int
    uid: int
    extra: int


def relay_system(nodes: int = 8, **changed: dict) -> System:
    """A tree of nodes (4, 8 or 16) whose generators send messages; ``changed`` as of `System.make`."""
    tables: dict[str, dict] = {
        "topology": {"kind": "tree", "arity": 2, "levels": nodes.bit_length() - 1},
        "wire": {"mtu": 64},
        "ni": {"control_classes": 2, "control_slots": 4},
        "timers": {"ack_limit": 40},
        "relay": {
            "slots": 16, "notice": 1500, "spread": 500, "cache_cycles": 4096, "entry_cycles": 16384,
            "watch_cycles": 4096, "hop_cycles": 4096,
        },
        "workload": {
            "mode": "relay", "count": 12, "load": 0.05, "min_length": 4, "max_length": 48, "retry_limit": 30,
        },
        "run": {"cycles": 400_000},
    }  # fmt: skip
    for name, table in changed.items():
        tables[name] = tables.get(name, {}) | table
    return System.make(**tables)


def relay_of(golden: Golden, node: int) -> Relay:
    """What the relay of a node knows."""
    k, ni, _ = golden.memory(node)
    return Relay(ni, int(k.rooms[0].at))


def deaths(*died: tuple[int, int]) -> dict:
    """[faults] in which nodes die: (node, cycle)."""
    return {"deaths": [{"node": node, "start": start} for node, start in died]}


def drawn(seed: int, *, died: int | None = None) -> System:
    """A system by seed: radix, deaths, a stall, losses, and tables that are large or too small."""
    chance = random.Random(f"relay {seed}")
    count = chance.choice((0, 1, 1, 2, 3)) if died is None else died
    faults: dict = deaths(*((node, chance.randrange(100, 3000)) for node in chance.sample(range(8), count)))
    faults["loss"] = chance.choice((0.0, 0.0, 0.01, 0.1))
    if chance.random() < 0.3:
        faults["stalls"] = [{"node": chance.randrange(8), "start": 500, "end": chance.randrange(1000, 5000)}]
    relay = {
        "radix": chance.choice((2, 2, 2, 0, 1, 3)), "cells": chance.choice((2, 3, 16)),
        "buffers": chance.choice((1, 2, 16)), "records": chance.choice((4, 8, 64)),
        "control": chance.choice((4, 32)), "slots": chance.choice((4, 16)),
    }  # fmt: skip
    return relay_system(relay=relay, faults=faults, run={"seed": seed})


def events(golden: Golden) -> list[Seen]:
    """The events of all relays since the last call."""
    return seen_in(golden.system, golden.take_events())


def seen_in(system: System, found: np.ndarray) -> list[Seen]:
    """The events of all relays among these."""
    first = system.layout.service_unit(0, 0)
    found = found[found["unit"] >= first]
    words = found["word"].astype(np.uint64)
    return [
        Seen(
            int(cycle), int(unit) - first, Event(EVENT.of(int(word))), DETAIL.of(int(word)), PEER.of(int(word)),
            LENGTH.of(int(word)), int(uid), EXTRA.of(int(word)),
        )
        for cycle, unit, word, uid in zip(found["cycle"], found["unit"], words, found["uid"], strict=True)
    ]  # fmt: skip


def streams(seen: list[Seen]) -> tuple[dict, dict]:
    """By (origin, destination) the messages given, and those posted: their slots and uids, in order."""
    given, posted = defaultdict(list), defaultdict(list)
    for one in seen:
        message = (one.uid >> 20 & 0xFFFF, one.extra, one.length)
        if one.event == Event.RELAY_SEND:
            given[one.node, one.peer].append(message)
        elif one.event == Event.RELAY_POST:
            posted[one.peer, one.node].append(message)
    return given, posted


def ended(seen: list[Seen]) -> dict[tuple[int, int], list[int]]:
    """By (origin, destination) the details with which messages ended."""
    found = defaultdict(list)
    for one in seen:
        if one.event == Event.RELAY_END:
            found[one.node, one.peer].append(one.detail)
    return found


def finished(golden: Golden, cycles: int, *, dead: tuple[int, ...] = ()) -> list[Seen]:
    """Run until all messages of the living have ended; what was seen.  Fails if ``cycles`` are not enough."""
    seen: list[Seen] = []
    count, alive = golden.system.workload.count, [node for node in range(golden.system.nodes) if node not in dead]
    taken, live = Counter(), 0
    while golden.cycle < cycles:
        golden.run(500, until_drained=True)
        new = [one for one in events(golden) if one.node in alive]
        seen += new
        taken.update(one.node for one in new if one.event in (Event.RELAY_SEND, Event.RELAY_REFUSED))
        live += sum((one.event == Event.RELAY_SEND) - (one.event == Event.RELAY_END) for one in new)
        if live == 0 and all(taken[node] == count for node in alive):
            return seen
    raise AssertionError(f"{live} messages have not ended after {cycles:,} cycles")


def scripted(system: System, *items: Item) -> Golden:
    """A golden model whose hosts send these."""
    return Golden(system, Script.from_items(system, items), record=True)

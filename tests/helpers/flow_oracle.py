"""What a run with flow must have done, by its messages: each has a number in its payload, and its tag names it."""

import random
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, Event, Status
from lethe.spec.sections.flow import OF_NI
from lethe.spec.trace import DETAIL, EVENT, EXTRA, PEER
from lethe_sim.golden.model import Golden, Item, Script

#: An NI under flow.
NI = OF_NI | {"slots": 16}
NUMBER_BYTES = 4
#: Cycles after which a run that has not drained never will.
LIMIT = 3_000_000


def flow_system(nodes: int = 3, **sections) -> System:
    """A crossbar with flow, small unless ``sections`` says otherwise."""
    topology = {"kind": "crossbar", "nodes": nodes} if nodes > 2 else {"kind": "wire"}
    base = {
        "topology": topology, "flow": {"ports": 2, "cells": 4, "in_order": 1}, "wire": {"mtu": 40},
        "timers": {"wrap_guard": 0}, "ni": NI,
    }  # fmt: skip
    for name, values in sections.items():
        base[name] = {**base.get(name, {}), **values}
    return System.make(**base)


def messages(system: System, count: int, *, seed: int = 1, until: int = 0, own: bool = True, **fields) -> list[Item]:
    """Messages of all lengths between random nodes, numbered from 1, offered in the first ``until`` cycles."""
    chance = random.Random(seed)
    found = []
    for number in range(1, count + 1):
        node = chance.randrange(system.nodes)
        others = [other for other in range(system.nodes) if own or other != node]
        length = chance.choice((0, 1, chance.randrange(system.flow_mtu - NUMBER_BYTES + 1)))
        payload = number.to_bytes(NUMBER_BYTES, "little") + chance.randbytes(length)
        found.append(
            Item(
                node=node, destination=chance.choice(others), payload=payload, tag=number,
                not_before=chance.randrange(until + 1), **fields,
            )
        )  # fmt: skip
    return sorted(found, key=lambda item: item.not_before)


class Watched(NamedTuple):
    """A run: its model, and of each message what happened to it (cycles and codes; None for what did not happen)."""

    golden: Golden
    sent: dict[int, int]  # the cycle of FLOW_SEND
    ended: dict[int, tuple[int, int]]  # status and cause of FLOW_END
    taken: dict[int, int]  # the cycle in which its record was taken


def play(system: System, items: list[Item], *, cycles: int = LIMIT, awake: bool = False) -> Watched:
    """Run a script to its end, and check what must hold of each message."""
    golden = Golden(system, Script.from_items(system, items), record=True, awake=awake)
    golden.run(cycles, until_drained=True)
    return watch(golden, items)


def watch(golden: Golden, items: list[Item]) -> Watched:
    """Check what must hold of each message, whatever the faults were; at the end of a run that has drained."""
    system = golden.system
    by_number = {int.from_bytes(item.payload[:NUMBER_BYTES], "little"): item for item in items}
    sent, ended, resets = _events(golden, by_number)
    taken = _takes(golden, by_number, system.flow.ports)
    assert golden.drained, "the run has not drained"
    for number, item in by_number.items():
        lost = [cycle for cycle in resets[item.node] if cycle >= sent.get(number, 0)]
        if number not in ended:
            assert lost, f"message {number} has not ended, and its sender was not reset"
            continue
        status, cause = ended[number]
        assert status != Status.ACCEPTED or number in sent, f"message {number} was accepted, and never sent"
        if status == Status.ACCEPTED and number not in taken:
            assert [c for c in resets[item.destination] if c >= sent[number]], f"message {number} was accepted and lost"
        if status in (Status.REJECTED, Status.NEVER_SENT):
            assert number not in taken, f"message {number} ended as {Status(status).name} {cause}, and was delivered"
    return Watched(golden, sent, ended, taken)


def _events(golden, by_number):
    """(cycle of each FLOW_SEND, end of each message, cycles of resets of each node)."""
    kept = golden.take_events()
    kept = kept[kept["unit"] >= golden.system.layout.first_service]
    sent, ended, resets = {}, {}, defaultdict(list)
    streams = defaultdict(lambda: None)
    for cycle, unit, _, word, _ in kept.tolist():
        node, event = unit - golden.system.layout.first_service, EVENT.of(word)
        number = EXTRA.of(word)
        if event == Event.FLOW_SEND:
            assert number not in sent, f"message {number} was sent twice"
            assert by_number[number].node == node
            sent[number] = cycle
            if PEER.of(word) != node:
                _follows(streams, node, PEER.of(word), number % golden.system.flow.ports, DETAIL.of(word))
        elif event == Event.FLOW_END:
            assert number not in ended, f"message {number} has ended twice"
            ended[number] = (DETAIL.of(word) >> CAUSE_BITS, DETAIL.of(word) & (1 << CAUSE_BITS) - 1)
        elif event == Event.FLOW_RESET:
            resets[node].append(cycle)
    return sent, ended, resets


def _follows(streams, node, peer, index, seq):
    """Numbers of a stream follow one another, or begin again."""
    before = streams[node, peer, index]
    assert before is None or seq in (0, before + 1 & 255), f"{node} to {peer} port {index}: {seq} after {before}"
    streams[node, peer, index] = seq


def _takes(golden, by_number, ports):
    """The cycle in which each message was taken: once, unaltered, and after those before it in its stream."""
    taken, latest = {}, {}
    order = {number: place for place, number in enumerate(by_number)}
    for letter in sorted(_whole(golden, by_number), key=lambda letter: letter.cycle):
        number = _number(letter)
        item = by_number[number]
        assert (letter.node, letter.source, letter.payload) == (item.destination, item.node, item.payload)
        assert number not in taken, f"message {number} was delivered twice"
        taken[number] = letter.cycle
        stream = (item.node, item.destination, number % ports)
        assert latest.get(stream, -1) < order[number], f"message {number} was delivered after a later one"
        latest[stream] = order[number]
    return taken


def _number(letter):
    return int.from_bytes(letter.payload[:NUMBER_BYTES], "little")


def _whole(golden, by_number):
    """The letters whose beats were all taken: of the latest before a reset of their node one may have been cut short,
    and those behind it have no beat.
    """
    resets = defaultdict(list)
    for reset in golden.system.node_resets:
        resets[reset.node].append(reset.start)
    lives, found = {}, []
    for letter in reversed(golden.taken):
        starts = resets[letter.node]
        life = sum(1 for start in starts if start <= letter.cycle)
        ends_in_reset = life < len(starts)
        may_be_cut = ends_in_reset and lives.get((letter.node, life), True)
        item = by_number.get(_number(letter))
        if may_be_cut and (item is None or item.payload != letter.payload):
            had = letter.payload.rstrip(b"\0")
            assert not had or (item and item.payload.startswith(had))
            lives[letter.node, life] = not had
            continue
        lives[letter.node, life] = False
        found.append(letter)
    return found


def delivered(watched: Watched) -> np.ndarray:
    """The numbers of the messages that were delivered."""
    return np.array(sorted(watched.taken))

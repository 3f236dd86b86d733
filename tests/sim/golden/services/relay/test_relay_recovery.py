"""Recoveries of relay that meet: notices in any order, walks that are cut off, suspicion, uids that come round.

Each run is judged as `scripts/kills` judges: every message between two nodes that live, and that nobody suspects, is
posted once and in order and ends ACCEPTED, and the ledger's rules of relay find nothing.
"""

import itertools
import random
from collections.abc import Iterator

import pytest

from lethe.spec.config import System
from lethe.spec.events import CAUSE_BITS, Cause, Event, Status
from lethe.spec.overlay import Overlay
from lethe.spec.services.relay import MODE, Type, type_of
from lethe_sim.golden.model import Golden
from lethe_sim.golden.script import Item
from tests.helpers.relay_systems import Seen, deaths, relay_of, relay_system, scripted, seen_in

SILENT = Status.UNKNOWN << CAUSE_BITS | Cause.SILENT
#: There is room for everything, nothing is lost, and the watch does not ask: what walks do not tell of is never posted.
#: (Of four messages of each node no set of records is full.)
BY_WALKS = {
    "relay": {"watch_cycles": 1 << 21, "control": 256, "records": 256, "buffers": 64},
    "workload": {"count": 4, "load": 0.02}, "run": {"cycles": 60_000},
}  # fmt: skip
#: What a node is told: (node, who died, cycle).
Told = tuple[int, int, int]


@pytest.fixture(scope="module")
def kills(script):
    return script("kills")


def system_of(nodes: int, radix: int, died=(), told: tuple[Told, ...] = (), **changed: dict) -> System:
    """A crossbar of nodes with relay: who dies when, and who is told when; all others as `[relay]` says."""
    rows = [{"node": node, "died": dead, "start": start} for node, dead, start in told]
    changed = {name: dict(table) for name, table in changed.items()}
    changed["topology"] = {"kind": "crossbar", "nodes": nodes, "levels": 0}
    changed["relay"] = {"radix": radix} | changed.get("relay", {})
    changed["faults"] = deaths(*died) | {"notices": rows} | changed.get("faults", {})
    return relay_system(**changed)


def all_told(nodes: int, dead: int, cycle: int) -> tuple[Told, ...]:
    """All others are told of a death in one cycle."""
    return tuple((node, dead, cycle) for node in range(nodes) if node != dead)


def good(kills, system: System) -> int:
    """Nothing is found in a run of it; how many hops came again."""
    found = kills.judge(system)
    assert not found.found, (system.faults, found.cases)
    assert found.posted == found.messages > 0
    return found.replays


def run_of(kills, system: System, more: int = 0) -> list[Seen]:
    """What is seen in a run of it, and for some cycles more, in which nothing is found."""
    golden = kills.ran(system)
    golden.run(more)
    events = golden.take_events()
    found = kills.judged(golden, events)
    assert not found.found, (system.faults, found.cases)
    return seen_in(system, events)


# Notices in any order


def in_another_order(seed: int) -> System:
    """Two to four nodes die; each node is told in an order of its own, most in that against the deaths."""
    chance = random.Random(f"order {seed}")
    nodes, radix = 7 + seed % 9, 2 + seed % 2
    dead, cycles = (chance.sample(some, 2 + seed % 3) for some in (range(nodes), range(100, 1500)))
    died = list(zip(dead, sorted(cycles), strict=True))
    told = []
    for node in range(nodes):
        order = [dead for dead, _ in reversed(died) if dead != node]
        if chance.random() < 0.3:
            chance.shuffle(order)
        cycle = died[-1][1] + chance.randrange(20, 400)
        for dead in order:
            told.append((node, dead, cycle))
            cycle += chance.choice((1, 20, 150, 600))
    return system_of(nodes, radix, died, tuple(told), **BY_WALKS).replace(run={"seed": seed + 1})


def test_the_orders_are_against_the_deaths():
    """The systems below are what they are for: most nodes hear of the last death first, and some in another order."""
    against = other = 0
    for seed in range(18):
        system = in_another_order(seed)
        died = [fault.node for fault in system.faults.deaths]
        for node, told in enumerate(system.relay_notices):
            order = [dead for _, dead in told]
            against += order == [dead for dead in reversed(died) if dead != node]
            other += order != [dead for dead in reversed(died) if dead != node]
    assert against > other > 10


@pytest.mark.parametrize("seed", range(18))
def test_notices_against_the_order_of_the_deaths(kills, seed):
    """RELM-27, RELM-32: 7 to 15 nodes, radix 2 and 3, and each node hears of the deaths in an order of its own."""
    good(kills, in_another_order(seed))


@pytest.mark.full
@pytest.mark.parametrize("part", range(4))
def test_more_notices_against_the_order_of_the_deaths(kills, part):
    for seed in range(100 + 200 * part, 300 + 200 * part):
        good(kills, in_another_order(seed))


@pytest.mark.parametrize(("nodes", "radix", "dead"), [(15, 2, (0, 1, 3)), (13, 3, (0, 1, 4))], ids=["2", "3"])
@pytest.mark.parametrize("gap", [0, 30, 700])
def test_every_order_of_three_notices(kills, nodes, radix, dead, gap):
    """Root, child and grandchild die; a half of the nodes hears of them in one order, the other half in another."""
    died = [(node, 300 + 250 * number) for number, node in enumerate(dead)]
    orders, again = list(itertools.permutations(dead)), 0
    for number, order in enumerate(orders):
        told = tuple(
            (node, one, 900 + gap * place)
            for node in range(nodes)
            for place, one in enumerate(order if node % 2 else orders[-1 - number])
            if node != one
        )
        again += good(kills, system_of(nodes, radix, died, told, **BY_WALKS))
    assert again > 30


# Walks that are cut off


def walk_of(system: System, node: int, notice: int) -> range:
    """The cycles of a node's walk for the notice of a cycle, with those in which its words are taken."""
    golden = Golden(system)
    golden.run(notice)
    while golden.cycle < notice + 4000:
        golden.run(1)
        if relay_of(golden, node).walking:
            break
    while relay_of(golden, node).walking:
        golden.run(1)
    return range(notice, golden.cycle + 2)


def cut_walks(
    nodes: int, radix: int, first: int
) -> Iterator[tuple[tuple[tuple[int, int], ...], tuple[Told, ...], int, range]]:
    """Who died and who was told before a node dies that was promoted for the last of them, and its walk for that.

    Once for a node that is promoted for the first, and once for one that is promoted for that one, which dies half way.
    """
    tree, died, told, dies, cycle = Overlay(nodes=nodes, radix=radix), (), (), first, 600
    for _ in range(2):
        died, told = (*died, (dies, cycle)), told + all_told(nodes, dies, cycle + 300)
        place, tree = tree.place[dies], tree.without(dies)
        dies = tree.holder[place]
        walk = walk_of(system_of(nodes, radix, died, told, **BY_WALKS), dies, cycle + 300)
        yield died, told, dies, walk
        cycle = walk[len(walk) // 2]


def sweep_walks(kills, nodes: int, radix: int, first: int, step: int) -> None:
    """The node dies in each cycle of its walk, or in one of so many; all are told 300 cycles later."""
    for died, told, node, walk in cut_walks(nodes, radix, first):
        assert len(walk) > 80
        again = 0
        for cycle in walk[::step]:
            told_of = told + all_told(nodes, node, cycle + 300)
            again += good(kills, system_of(nodes, radix, (*died, (node, cycle)), told_of, **BY_WALKS))
        assert again > 0


@pytest.mark.parametrize(("nodes", "radix", "first"), [(7, 2, 0), (7, 2, 1), (15, 2, 1), (13, 3, 0)])
def test_a_promoted_node_dies_in_its_walk(kills, nodes, radix, first):
    """RELM-32: the first half of the walk was all that the others got; then the next one that is promoted, too."""
    sweep_walks(kills, nodes, radix, first, 79)


@pytest.mark.full
@pytest.mark.parametrize(("nodes", "radix", "first"), [(7, 2, 0), (7, 2, 1), (15, 2, 1)])
def test_a_promoted_node_dies_in_each_cycle_of_its_walk(kills, nodes, radix, first):
    sweep_walks(kills, nodes, radix, first, 1)


# Two at once


def two_at_once(kills, pair: tuple[int, int], cycles: range) -> None:
    """Two ancestors of node 7 die in one cycle, and all are told of both in one cycle."""
    again = 0
    for cycle in cycles:
        died = [(node, cycle) for node in pair]
        told = all_told(15, pair[0], cycle + 400) + all_told(15, pair[1], cycle + 400)
        again += good(kills, system_of(15, 2, died, told, **BY_WALKS))
    assert again > len(cycles)


@pytest.mark.parametrize("pair", [(0, 1), (1, 3), (0, 3)], ids=str)
def test_two_ancestors_die_in_one_cycle(kills, pair):
    """The second notice comes in the walk for the first (7.12), at each sixtieth cycle of the messages' ways."""
    two_at_once(kills, pair, range(300, 1200, 60))


@pytest.mark.full
@pytest.mark.parametrize("pair", [(0, 1), (1, 3), (0, 3)], ids=str)
def test_two_ancestors_die_in_each_cycle(kills, pair):
    two_at_once(kills, pair, range(300, 1200))


def test_all_but_two_die_at_once(kills):
    """What is left is one hop."""
    for pair in ((3, 4), (0, 14), (7, 1)):
        died = [(node, 700) for node in range(15) if node not in pair]
        told = tuple((node, dead, 1100 + 3 * dead) for node in pair for dead, _ in died)
        good(kills, system_of(15, 2, died, told, workload={"count": 40}))


# uids that come round


@pytest.mark.parametrize("seed", range(3))
def test_uids_come_round_in_a_recovery(kills, seed):
    """RELM-09: the uid after 2^8 - 4 is 0, while messages on both sides of it are told of, asked for and sent again."""
    within = 0
    for uid in range(243, 253):
        relay = {"uid_bits": 8, "uid_first": uid, "wrap": True, "notice": 300, "spread": 200}
        system = system_of(9, 2, [(0, 300), (1, 400)], relay=relay, workload={"load": 0.02}, run={"seed": seed + 1})
        seen = run_of(kills, system)
        told = min(one.cycle for one in seen if one.event == Event.RELAY_NOTICE and one.peer != one.node)
        again = max(one.cycle for one in seen if one.event == Event.RELAY_HOP and one.detail)
        sends = [one.cycle for one in seen if one.event == Event.RELAY_SEND and one.extra == 0]
        within += sum(told < cycle < again for cycle in sends)
    assert within > 20


def test_a_quiet_pair_whose_uids_came_round(kills):
    """M14: half a turn later a message that a death takes away seems to be posted, and is asked for all the same."""
    asked = 0
    for cycle in range(10_000, 10_400, 20):
        system = system_of(
            9, 2, [(0, cycle)], workload={"count": 0},
            relay={"uid_bits": 8, "wrap": True, "cache_cycles": 1024, "entry_cycles": 1024, "hop_cycles": 1024},
        )  # fmt: skip
        far = {"node": 7, "destination": 4, "mode": MODE}
        near = [Item(node=7, destination=3, payload=bytes(4), mode=MODE, not_before=60 * n) for n in range(1, 131)]
        items = [Item(**far, payload=bytes(8)), *near, Item(**far, payload=bytes(9), not_before=10_000)]
        golden = scripted(system, *items)
        golden.run(20_000)
        events = golden.take_events()
        found = kills.judged(golden, events)
        assert not found.found and found.posted == 132, (cycle, found.cases)
        asked += any(
            one.event == Event.RELAY_TOLD and type_of(one.detail) == Type.REQUESTED and one.node == 4
            for one in seen_in(system, events)
        )
    assert asked


# Suspicion


def suspected(seed: int) -> tuple[System, list[int]]:
    """One or two nodes that live are said to be dead, and one or two die; who is told of which first is drawn."""
    chance = random.Random(f"suspected {seed}")
    nodes, radix = 7 + seed % 9, 2 + seed % 2
    wild = (0, 200, 2000, 15_000)[seed % 4]
    drawn = chance.sample(range(nodes), 2 + seed % 3)
    if seed % 3 == 0:  # the root
        drawn = [0, *(node for node in drawn if node)]
    wrongly, died = drawn[: 1 + seed % 2], [(node, chance.randrange(300, 1500)) for node in drawn[1 + seed % 2 :]]
    told = tuple(
        (node, dead, 600 + chance.randrange(400) + chance.randint(0, wild))
        for dead in drawn
        for node in range(nodes)
        if node != dead
    )
    return system_of(nodes, radix, died, told, workload={"count": 30}, run={"seed": seed + 1}), wrongly


def assert_alone(kills, seed: int) -> int:
    """A suspected node goes on, and nobody takes from it any more; all that was for it ends, and the others go on.

    How many messages it keeps asking for.
    """
    system, wrongly = suspected(seed)
    living = {*range(system.nodes)} - {fault.node for fault in system.faults.deaths}
    seen, kept = run_of(kills, system, more=9000), 0
    for node in wrongly:
        noticed = {
            one.node: one.cycle for one in seen if one.event == Event.RELAY_NOTICE and one.peer == node != one.node
        }
        assert living - {node} <= {*noticed}
        last = max(noticed.values())
        its = [one for one in seen if one.node == node]
        live = sum((one.event == Event.RELAY_SEND) - (one.event == Event.RELAY_END) for one in its)
        links = [one for one in its if one.event == Event.RELAY_TOLD and type_of(one.detail) == Type.LINK]
        assert bool(live) == any(one.cycle > last + 4096 for one in links)
        kept += live
        posts = [one for one in seen if one.event == Event.RELAY_POST and one.peer == node and one.node in living]
        assert all(one.cycle < noticed[one.node] + 64 for one in posts)
        mine = [one for one in seen if one.peer == node and one.node in living]
        given = sum(one.event == Event.RELAY_SEND for one in mine)
        ends = [one for one in mine if one.event == Event.RELAY_END]
        assert given == len(ends)
        assert all(one.cycle > noticed[one.node] for one in ends if one.detail == SILENT)
    return kept


@pytest.mark.parametrize("seed", range(16))
def test_a_suspected_node_lives_on(kills, seed):
    """RELM-28: all are told, at very different cycles, and hear of a true death before it or after it."""
    assert assert_alone(kills, seed) > 0


@pytest.mark.full
def test_more_suspected_nodes_live_on(kills):
    for seed in range(16, 400):
        assert_alone(kills, seed)


# A destination that takes nothing; much loss; everything at once


@pytest.mark.parametrize("radix", [0, 2, 3])
@pytest.mark.parametrize(("slots", "window"), [(4, 1), (8, 2), (16, 4)])
def test_the_others_go_on_beside_a_host_that_takes_nothing(radix, slots, window):
    """RELM-03: at least nine tenths of what they got; the window keeps the rest of the slots for them."""
    for away in (0, 1, 7):
        posted = []
        for stalls in ([], [{"node": away, "start": 1000, "end": 1 << 30}]):
            system = system_of(
                8, radix, relay={"slots": slots, "window": window, "cells": 2}, faults={"stalls": stalls},
                workload={"count": 0, "load": 0.02, "deadline": 50_000},
            )  # fmt: skip
            golden = Golden(system, record=True)
            golden.run(30_000)
            posts = [one for one in seen_in(system, golden.take_events()) if one.event == Event.RELAY_POST]
            posted.append(sum(away not in (one.node, one.peer) for one in posts if one.cycle > 5000))
            assert not stalls or sum(one.node == away for one in posts if one.cycle > 5000) <= 2
        assert posted[0] > 300 and posted[1] >= 0.9 * posted[0]


@pytest.mark.parametrize("seed", range(4))
def test_a_death_where_a_third_is_lost(kills, seed):
    """30 % of all that crosses a link: each hop is repeated, and control is dropped for want of room."""
    system = system_of(
        8, 2, [((0, 1, 3, 6)[seed], 900)], faults={"loss": 0.3}, workload={"count": 4},
        run={"seed": seed + 1, "cycles": 2_000_000},
    )  # fmt: skip
    good(kills, system)


def met_by_chance(seed: int) -> System:
    """Deaths, some at once, suspicions, notices that are late and early, small tables, losses, uids that come round."""
    chance = random.Random(f"met {seed}")
    nodes, radix, count = chance.randrange(7, 16), chance.choice((0, 2, 2, 2, 3, 3)), chance.choice((0, 1, 2, 2, 3, 4))
    drawn = chance.sample(range(nodes), min(count + chance.choice((0, 0, 1, 1, 2)), nodes - 3))
    once = chance.randrange(50, 2500) if chance.random() < 0.3 else None
    died = [(node, once or chance.randrange(50, 2500)) for node in drawn[:count]]
    since, wild = dict(died), chance.choice((1, 100, 600, 3000, 9000))
    told = tuple(
        (node, dead, since.get(dead, chance.randrange(50, 2500)) + chance.randrange(50) + chance.randrange(wild))
        for dead in drawn
        for node in range(nodes)
        if node != dead
    )
    relay: dict = {}
    if chance.random() < 0.5:
        relay |= {
            "cells": chance.choice((2, 3, 16)), "buffers": chance.choice((1, 2, 16)),
            "records": chance.choice((4, 8, 64)), "control": chance.choice((4, 32)), "slots": chance.choice((2, 4, 16)),
        }  # fmt: skip
    if chance.random() < 0.2:
        relay |= {"uid_bits": 8, "uid_first": chance.choice((240, 247, 252)), "wrap": True}
    return system_of(
        nodes, radix, died, told, relay=relay, faults={"loss": chance.choice((0.0, 0.0, 0.0, 0.02, 0.1))},
        workload={"load": chance.choice((0.02, 0.05, 0.3)), "count": chance.choice((12, 30))}, run={"seed": seed + 1},
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_recoveries_that_meet_by_chance(kills, seed):
    good(kills, met_by_chance(seed))


@pytest.mark.full
@pytest.mark.parametrize("part", range(4))
def test_more_recoveries_that_meet_by_chance(kills, part):
    for seed in range(100 + 400 * part, 500 + 400 * part):
        good(kills, met_by_chance(seed))

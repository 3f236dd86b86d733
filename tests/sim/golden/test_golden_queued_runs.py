"""Whole systems with input queues: every datagram once, order for each pair and slot, and nobody waits too long."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from lethe.spec.events import Event, RouterCounter
from lethe_sim.golden.fabric import fabric
from lethe_sim.golden.model import Golden
from lethe_sim.golden.state import InputQueue
from lethe_sim.trace.events import digest
from lethe_sim.trace.words import events_from_words
from tests.helpers.golden_steps import LIMIT, assert_once
from tests.helpers.golden_systems import TOPOLOGIES, make

QUEUED = [name for name in TOPOLOGIES if name != "wire"]
SENDS = (Event.SEND, Event.DELIVER, Event.DUPLICATE)
ACKS = (Event.ACK, Event.RELEASE, Event.ACK_IGNORED)
FORGETS = (Event.FORGET, Event.FORGOTTEN, Event.FORGET_IGNORED)


def by_row(events):
    """(cycle, unit, lane, event, detail or peer bits of the word, uid) of each event."""
    for row in events:
        word = int(row["word"])
        yield int(row["cycle"]), int(row["unit"]), int(row["lane"]), word & 0xFF, word >> 8, int(row["uid"])


def arrivals_in_order(events, nodes):
    """How many messages arrived; each must have a launch behind that of the one before it with the same key."""
    launched, arrived = defaultdict(list), defaultdict(list)
    for _, unit, lane, event, word, uid in by_row(events[events["unit"] < nodes]):
        kind = next((n for n, family in enumerate((SENDS, ACKS, FORGETS)) if event in family), None)
        if kind is None or lane > 1:
            continue
        peer, side = word >> 8 & 0xFFFF, launched if lane == 0 else arrived
        path = (unit, peer) if lane == 0 else (peer, unit)
        side[(*path, uid >> 20 & 0xFFFF, kind == 1)].append((uid, kind))
    for key, got in arrived.items():
        at = -1
        for message in got:
            at = launched[key].index(message, at + 1)  # raises if it is not there
    return sum(map(len, arrived.values()))


@pytest.mark.parametrize("queue", [1, 2, 4])
@pytest.mark.parametrize("name", [*TOPOLOGIES])
def test_every_datagram_once_at_saturation(name, queue):
    golden = Golden(make(name, router={"queue": queue}, workload={"load": 1.0, "count": 60}), record=True)
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    assert arrivals_in_order(golden.take_events(), golden.system.nodes) > 3 * 50 * golden.system.nodes
    counts = golden.router_counters.sum(axis=0)
    assert not counts[[RouterCounter.UP, RouterCounter.STRAY, RouterCounter.FRAGMENT, RouterCounter.OVERLONG]].any()


@pytest.mark.parametrize("queue", [1, 2, 4])
@pytest.mark.parametrize("name", [*TOPOLOGIES])
def test_order_and_once_under_all_faults(name, queue):
    links = make(name).graph.link_count
    dead = [{"link": n, "start": 100 + 7 * n, "end": 160 + 9 * n} for n in range(links)]
    golden = Golden(
        make(
            name,
            router={"queue": queue, "max_wait": 12, "latency": queue},
            wire={"flit_bits": 32},
            faults={"loss": 0.05, "flip": 0.004, "links": dead, "stalls": [{"node": 0, "start": 150, "end": 900}]},
            workload={"load": 1.0, "count": 40},
            run={"seed": queue},
        ),
        record=True,
    )
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    arrivals_in_order(golden.take_events(), golden.system.nodes)
    assert golden.link_counters.sum(axis=0).all()


def test_resets_with_queues():
    """What was in a queue when its sender was reset belongs to another incarnation, and does no harm."""
    resets = [{"node": n, "start": 200 + 90 * n, "cycles": 3} for n in range(8)]
    golden = Golden(make("tree", router={"queue": 4}, faults={"resets": resets}, workload={"load": 1.0}), record=True)
    golden.run(LIMIT, until_drained=True)
    assert golden.drained and not golden.entries.any() and not golden.busy.any()
    events = golden.take_events()
    delivered = (events["unit"] < 8) & (events["lane"] == 1) & (events["word"] & np.uint64(0xFF) == Event.DELIVER)
    uids = events["uid"][delivered]
    assert len(uids) > 100


@pytest.mark.parametrize(("queue", "max_wait"), [(1, 1), (1, 6), (2, 20), (4, 3)])
@pytest.mark.parametrize("name", QUEUED)
def test_no_worm_waits_longer_than_the_bound(name, queue, max_wait):
    """At each input heads are decided in the order in which they come; those that find room wait, but not for ever."""
    system = make(name, router={"queue": queue, "max_wait": max_wait}, workload={"load": 1.0, "count": 40})
    golden = Golden(system, record=True)
    golden.run(LIMIT, until_drained=True)
    graph, nodes = system.graph, system.nodes
    # (router, output port), or (-1, node), -> (router, input port)
    joined = {
        (-1 if link.source_is_node else link.source, link.source if link.source_is_node else link.source_port):
        (link.target, link.target_port)
        for link in graph.links if not link.target_is_node
    }  # fmt: skip
    came, went, refused = defaultdict(list), defaultdict(list), defaultdict(set)
    for cycle, unit, lane, event, word, _ in by_row(golden.take_events()):
        if unit < nodes:
            if lane == 0 and event in (Event.SEND, Event.ACK, Event.FORGET):
                came[joined[-1, unit]].append(cycle)
        elif lane < graph.ports(unit - nodes):
            went[unit - nodes, lane].append(cycle)
            if event == Event.FORWARD and (onward := joined.get((unit - nodes, word & 0xFF))):
                came[onward].append(cycle + system.router.latency)
        else:
            refused[unit - nodes, lane - graph.ports(unit - nodes)].add(cycle)
    waits = []
    for place, cycles in came.items():
        taken = [cycle for cycle in sorted(cycles) if cycle not in refused[place]]
        assert len(taken) == len(went[place]) == len(cycles) - len(refused[place])
        waits += [end - start for start, end in zip(taken, went[place], strict=True)]
    assert min(waits) == 0 and max(waits) >= max_wait
    assert max(waits) + system.format.max_flits <= system.longest_wait
    assert golden.router_counters[:, RouterCounter.FULL].sum() > 0


@pytest.mark.parametrize("name", ["tree", "mesh", "crossbar"])
def test_trace_words_show_the_backs(name):
    """The events of the words are those of the run; a lane of a back has the events that only backs have."""
    faults = {"loss": 0.02, "links": [{"link": 1, "start": 300, "end": 800}], "flip": 0.01}
    system = make(name, router={"queue": 1, "max_wait": 5}, faults=faults, workload={"load": 1.0, "count": 0})
    golden = Golden(system)
    words = np.zeros((3000, system.layout.words), np.uint64)
    golden.run(3000, words=words)
    events = events_from_words(words, system.layout)
    assert digest(events) == golden.digest
    first, last = system.nodes, system.nodes + system.graph.routers
    backs = {
        int(row["word"]) & 0xFF
        for row in events
        if first <= row["unit"] < last and row["lane"] >= system.graph.ports(int(row["unit"]) - first)
    }
    assert backs == {Event.DISCARD_FULL, Event.STRAY}


def test_a_run_is_not_drained_while_a_flit_is_in_a_queue():
    golden = Golden(make("crossbar", router={"queue": 1}, workload={"load": 0.05, "count": 0}))
    only_there = 0
    for _ in range(8000):
        golden.run(1)
        f, k = golden._fabric, golden.k
        flights = f.lists[fabric.list_at(k, 3) : fabric.buffered_at(k)].sum()
        queued = fabric.rows(f.queues, InputQueue)[:, InputQueue.level].sum()
        assert fabric.quiet(k, f) == (flights + queued == 0)
        assert f.lists[fabric.buffered_at(k)] == queued
        only_there += queued > 0 and flights == 0
    assert only_there > 0


def test_cycles_cut_anywhere():
    whole, cut = (Golden(make("tree", router={"queue": 2}, workload={"load": 1.0})) for _ in range(2))
    whole.run(3000)
    for first, last in pairwise((0, 1, 8, 1000, 1001, 3000)):
        cut.run(last - first)
    assert whole.digest == cut.digest

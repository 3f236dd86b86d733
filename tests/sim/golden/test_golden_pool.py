"""Whole systems with pools: every datagram once, order for each pair and slot, and every buffer in one place."""

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.events import ARRIVALS, LANE_RX, Counter, Event, Kind, LinkCounter, RouterCounter
from lethe.spec.sections import router as section
from lethe.spec.sections.faults import LinkDeath
from lethe.spec.topology import UP
from lethe_sim.golden.blocks import Flit
from lethe_sim.golden.blocks import Router as BlockRouter
from lethe_sim.golden.fabric import fabric, pool
from lethe_sim.golden.model import Golden
from lethe_sim.golden.state import Port, Router, Stored
from lethe_sim.ledger.audit import ONCE
from lethe_sim.ledger.here import audit
from lethe_sim.running import run
from lethe_sim.trace import TraceWriter, open_trace
from lethe_sim.trace.life import Life
from tests.helpers.golden_steps import LIMIT, assert_once
from tests.helpers.golden_systems import TOPOLOGIES, make
from tests.sim.golden.test_golden_queued_runs import arrivals_in_order


def assert_conserved(golden):
    """What the buffers are, the routers and outputs count, and no output belongs to two worms."""
    worms, tables = int(golden.k.pool), golden._fabric
    buffers = fabric.rows(tables.pool, Stored)
    ports, routers = fabric.rows(tables.ports, Port), fabric.rows(tables.routers, Router)
    for number, router in enumerate(routers):
        own = buffers[number * worms : (number + 1) * worms]
        used = own[own[:, Stored.mode] != pool.FREE]
        assert len(used) == router[Router.stored] <= worms
        leaving = used[used[:, Stored.mode] == pool.LEAVING][:, Stored.output].tolist()
        assert len(set(leaving)) == len(leaving)
        following = used[used[:, Stored.mode] == pool.NEXT][:, Stored.output].tolist()
        assert len(set(following)) == len(following)
        waiting = used[used[:, Stored.mode] == pool.WAITING][:, Stored.output].tolist() + following
        if golden.k.climbs_freely:  # until it begins to leave, what has an up-port climbs
            first_up = golden.system.topology.arity
            waiting = [UP if output >= first_up else output for output in waiting]
        assert router[Router.climbing] == waiting.count(UP)
        for output in range(router[Router.ports]):
            assert ports[router[Router.first_port] + output, Port.waiting] == waiting.count(output)
        assert (used[:, Stored.read] <= used[:, Stored.written]).all()
        assert len(set(used[:, Stored.order].tolist())) == len(used)
    return int(routers[:, Router.stored].max(initial=0))


@pytest.mark.parametrize("worms", [1, 3, 8])
@pytest.mark.parametrize("name", [*TOPOLOGIES])
def test_every_datagram_once_at_saturation(name, worms):
    golden = Golden(make(name, router={"pool": worms}, workload={"load": 1.0, "count": 60}), record=True)
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    assert arrivals_in_order(golden.take_events(), golden.system.nodes) > 3 * 50 * golden.system.nodes
    counts = golden.router_counters.sum(axis=0)
    C = RouterCounter
    assert not counts[[C.BUSY, C.CONTENTION, C.UP, C.STRAY, C.FRAGMENT, C.OVERLONG]].any()


@pytest.mark.parametrize("worms", [1, 4])
@pytest.mark.parametrize("name", [*TOPOLOGIES])
def test_order_and_once_under_all_faults(name, worms):
    links = make(name).graph.link_count
    dead = [{"link": n, "start": 100 + 7 * n, "end": 160 + 9 * n} for n in range(links)]
    golden = Golden(
        make(
            name,
            router={"pool": worms, "latency": worms},
            wire={"flit_bits": 32},
            faults={"loss": 0.05, "flip": 0.004, "links": dead, "stalls": [{"node": 0, "start": 150, "end": 900}]},
            workload={"load": 1.0, "count": 40},
            run={"seed": worms},
        ),
        record=True,
    )
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    arrivals_in_order(golden.take_events(), golden.system.nodes)
    assert golden.link_counters.sum(axis=0).all()


@pytest.mark.parametrize("name", ["tree", "mesh"])
def test_no_buffer_is_lost_and_none_is_in_two_places(name):
    """In every cycle, also when worms are torn; in the end all are free."""
    faults = {"loss": 0.02, "flip": 0.01, "links": [{"link": 2, "start": 100, "end": 160}]}
    golden = Golden(make(name, router={"pool": 3}, faults=faults, workload={"load": 1.0}, wire={"flit_bits": 32}))
    fullest = 0
    for _ in range(1500):
        golden.run(1)
        fullest = max(fullest, assert_conserved(golden))
    assert fullest == 3
    golden.run(LIMIT, until_drained=True)
    assert assert_conserved(golden) == 0


def test_a_head_is_discarded_only_if_no_buffer_is_free():
    """The larger the pool, the less is discarded; with one buffer for every worm that can be under way, nothing is."""
    discarded = []
    for worms in (1, 4, 64):
        golden = Golden(make("tree4", router={"pool": worms}, workload={"load": 1.0, "count": 60}, ni={"slots": 2}))
        golden.run(LIMIT, until_drained=True)
        discarded.append(int(golden.router_counters.sum(axis=0)[RouterCounter.FULL]))
    assert discarded[0] > discarded[1] > discarded[2] == 0


def test_a_run_repeats_itself():
    digests = set()
    for _ in range(2):
        golden = Golden(make("tree", router={"pool": 2}, workload={"load": 1.0}))
        golden.run(3000)
        digests.add(golden.digest)
    assert len(digests) == 1


@pytest.mark.parametrize("latency", [1, 4])
@pytest.mark.parametrize("order", [{}, {"pool_path": "any", "control_first": 16}], ids=["pinned", "any"])
def test_the_trace_tells_the_fate_of_every_worm(tmp_path, latency, order):
    """A worm that was stored is followed to the output by which it left."""
    settings = {"router": {"pool": 2, "latency": latency, **order}, "ni": {"linger": -1 if order else 0}}
    system = make("tree", **settings, faults={"loss": 0.02}, workload={"load": 1.0})
    golden = Golden(system, record=True)
    golden.run(LIMIT, until_drained=True)
    events = golden.take_events()
    path = tmp_path / "pool.parquet"
    with TraceWriter(path, system) as writer:
        writer.append(events)
        writer.finish(cycles=golden.cycle, drained=True)
    trace, arrived, fates = open_trace(path), 0, set()
    event, uids = events["word"] & 0xFF, events["uid"]
    for uid in np.unique(uids[event == Event.ACCEPT])[:40].tolist():
        worms = Life(trace, uid).worms
        at_nodes = (events["unit"] < system.nodes) & (events["lane"] == LANE_RX) & (uids == uid)
        assert sum(worm.arrived is not None for worm in worms) == np.isin(event[at_nodes], ARRIVALS).sum()
        arrived += sum(worm.arrived is not None for worm in worms)
        fates |= {worm.fate.partition(": ")[2] or worm.fate.partition(" ")[0] for worm in worms}
    assert arrived >= 120
    assert not {"vanished", "damaged", "dropped by"} & fates and {"pool full", "lost"} <= fates


# Any up-port, and control first: messages overtake each other, and slots linger.

ORDERS = {
    "any": {"pool_path": "any"},
    "control": {"control_first": 20},
    "both": {"pool_path": "any", "control_first": 255},
}


@pytest.mark.parametrize("worms", [1, 6])
@pytest.mark.parametrize(("name", "order"), [("tree", "any"), ("tree4", "both"), ("mesh", "control"), ("tree", "both")])
def test_every_datagram_once_in_another_order(name, order, worms):
    """At saturation and with losses; buffers are conserved in every cycle."""
    golden = Golden(
        make(
            name,
            router={"pool": worms, **ORDERS[order]},
            ni={"linger": -1},
            faults={"loss": 0.03},
            workload={"load": 1.0, "count": 40},
        ),
        record=True,
    )
    fullest = 0
    golden.run(golden.system.initial)
    for _ in range(800):
        golden.run(1)
        fullest = max(fullest, assert_conserved(golden))
    assert fullest == worms
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    assert assert_conserved(golden) == 0


def test_any_up_port_is_used_and_fewer_worms_are_discarded():
    """Pinned heads are refused while another up-port is free; those that climb freely are not."""
    discarded = []
    for order in ({}, ORDERS["any"]):
        system = make("tree4", router={"pool": 4, **order}, ni={"linger": -1}, workload={"load": 1.0, "count": 200})
        golden = Golden(system)
        golden.run(LIMIT, until_drained=True)
        discarded.append(int(golden.router_counters[:, RouterCounter.FULL].sum()))
    assert discarded[1] < 0.9 * discarded[0]


def test_control_passes_for_so_many_cycles():
    """The example of section 3.2, with W = 3 and an output that is held in cycles 0 to 9; the first worm is next."""
    system = make("crossbar", router={"pool": 4, "control_first": 3}, ni={"linger": -1}, wire={"mtu": 96})
    router, form = BlockRouter(system, 0), system.format

    def head(kind: Kind, slot: int, last: bool) -> Flit:
        fields = {"kind": kind, "destination": 4, "source": 1, "slot": slot}
        return Flit(1, 1, int(last), sum(fields[f.name] << f.offset for f in form.common if f.name in fields))

    body, left = Flit(1, 0, 0, 0), []
    comes = {
        0: {0: head(Kind.SEND, 0, False)}, 1: {1: head(Kind.BE, 1, True)}, 2: {1: head(Kind.SEND, 1, True)},
        4: {2: head(Kind.ACK, 2, True)}, 5: {3: head(Kind.FORGET, 3, True)},
    }  # fmt: skip
    for cycle in range(18):
        flits = [Flit() for _ in range(5)]
        if 0 < cycle < 10:
            flits[0] = body._replace(last=int(cycle == 9))
        for port, flit in comes.get(cycle, {}).items():
            flits[port] = flit
        words = router.step(flits)[1]
        if word := words[5 + 4]:
            assert word & 0xFF == Event.FORWARD
            left.append((cycle, word >> 16 & 7))
    assert left == [(10, Kind.BE), (11, Kind.ACK), (12, Kind.SEND), (13, Kind.FORGET)]


@pytest.mark.parametrize(("name", "order"), [("tree4", "any"), ("mesh", "control")])
def test_the_audit_knows_that_no_order_holds(name, order, tmp_path, monkeypatch):
    """What overtakes is no finding; a system that is said to keep its order is found out."""
    path = tmp_path / "run.parquet"
    system = make(name, router={"pool": 8, **ORDERS[order]}, ni={"linger": -1}, workload={"load": 1.0, "count": 120})
    run(system, path)
    result = audit(path)
    assert result.verdict == ONCE, result.text()
    monkeypatch.setattr(System, "overtakes", False)
    assert audit(path).verdict != ONCE


def test_any_up_port_goes_round_a_dead_link():
    """A link up is dead for ever, and all is delivered; pinned, such a system is refused (`test_queue_config`)."""
    system = make("tree4", router={"pool": 4, **ORDERS["any"]}, ni={"linger": -1})
    up = next(
        n
        for n, end in enumerate(system.graph.links)
        if not end.source_is_node and not end.target_is_node and end.source < end.target
    )
    for_ever = (LinkDeath(link=up, start=10, end=1 << 41),)
    golden = Golden(system.replace(faults={"links": for_ever}), record=True)
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    assert golden.link_counters[up, LinkCounter.DEAD] > 0


@pytest.mark.parametrize("lingers", [True, False])
def test_only_slots_that_linger_bear_any_up_port(lingers, monkeypatch):
    """Worms of one slot overtake each other in long queues.  Without linger, which is refused, some come twice."""
    if not lingers:
        checked = section._pool
        monkeypatch.setattr(
            section, "_pool",
            lambda system, fail: checked(system, lambda key, *said: key == "ni.linger" or fail(key, *said)),
        )  # fmt: skip
    system = make(
        "tree4",
        router={"pool": 16, **ORDERS["both"]},
        ni={"linger": -1 if lingers else 0, "slots": 4},
        timers={"jitter_bits": 0, "slack": 0, "backoff_steps": 0, "ceiling": 0},
        workload={"load": 1.0, "count": 400},
    )
    golden = Golden(system)
    golden.run(LIMIT, until_drained=True)
    twice = golden.counters[:, Counter.DELIVERED].sum() - 400 * system.nodes
    assert (twice > 0) == (not lingers)

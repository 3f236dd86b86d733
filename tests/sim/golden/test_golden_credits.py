"""The reference with credits: nothing is lost or overtaken, and its figures are those of credit-based networks."""

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.events import Counter, Event, RouterCounter
from lethe_sim.golden.fabric import fabric
from lethe_sim.golden.model import Golden, GoldenError, Item, Script
from lethe_sim.golden.state import SOURCE_FLITS, Buffer
from lethe_sim.golden.study import credits
from lethe_sim.golden.study.plain import plain_packets
from lethe_sim.running import run
from lethe_sim.trace.life import Life
from lethe_sim.trace.store import open_trace
from tests.helpers.golden_events import message
from tests.helpers.golden_steps import LIMIT, assert_once
from tests.helpers.golden_systems import TOPOLOGIES, make

ROUTED = [name for name in TOPOLOGIES if name != "wire"]


def credited(name, flits, *, latency=1, delay=1, **sections) -> System:
    router = {"flow": "credits", "credit_flits": flits, "latency": latency, "credit_delay": delay}
    return make(name, router=router, **sections)


@pytest.mark.parametrize("name", ROUTED)
@pytest.mark.parametrize(("flits", "latency", "delay"), [(1, 1, 1), (4, 1, 1), (3, 4, 8), (40, 2, 3)])
def test_every_datagram_once_and_nothing_discarded(name, flits, latency, delay):
    """Heads pass exactly the routers between their nodes, however few flits a buffer holds: no deadlock, no loss."""
    system = credited(name, flits, latency=latency, delay=delay, workload={"load": 1.0})
    golden = Golden(system, record=True)
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    events = golden.take_events()
    kinds = events["word"] & np.uint64(0xFF)
    sent = (events["unit"] < system.nodes) & (events["lane"] == 0) & (kinds != Event.KILLED)
    peers = (events["word"] >> np.uint64(16) & np.uint64(0xFFFF))[sent]
    ways = zip(events["unit"][sent].tolist(), peers.tolist(), strict=True)
    hops = sum(system.graph.hops(source, target) for source, target in ways)
    counted = golden.router_counters.sum(axis=0)
    assert counted[RouterCounter.FORWARDED] == np.count_nonzero(kinds == Event.FORWARD) == hops
    assert counted.sum() == hops and golden.link_counters.sum() == 0
    assert golden.counters[:, Counter.FRAGMENTS].sum() == 0


@pytest.mark.parametrize("name", ["crossbar", "fly3", "tree", "tree4", "mesh"])
def test_order_between_two_nodes_on_one_slot(name):
    """What one node sends to another about one datagram's slot acts there in that order, and all of it does."""
    workload = {"load": 1.0, "count": 60}
    ni = {"slots": 8, "ways": 8, "sets": 64, "deliver_records": 4096, "deliver_flits": 1 << 14, "reply_depth": 4096}
    golden = Golden(credited(name, 4, workload=workload, ni=ni), record=True)
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    events = golden.take_events()
    kinds = events["word"] & np.uint64(0xFF)
    peers = events["word"] >> np.uint64(16) & np.uint64(0xFFFF)
    sends = (events["lane"] == 0) & np.isin(kinds, (Event.SEND, Event.ACK, Event.FORGET))
    acts = (Event.DELIVER, Event.DUPLICATE, Event.RELEASE, Event.ACK_IGNORED, Event.FORGOTTEN, Event.FORGET_IGNORED)
    acted = (events["lane"] == 1) & np.isin(kinds, acts)
    ni_events = events["unit"] < golden.system.nodes
    assert golden.counters[:, Counter.DUPLICATES].sum() > 0  # so there are messages that could be overtaken
    assert not (ni_events & (kinds == Event.DROP)).any()

    def told(chosen, source, target):
        """Per (who uses the slot, slot): the messages in their order."""
        ways = {}
        rows = zip(source.tolist(), target.tolist(), events["uid"].tolist(), kinds.tolist(), chosen, strict=True)
        for a, b, uid, kind, wanted in rows:
            if wanted:
                ways.setdefault((a, b, uid >> 20), []).append((uid, message(np.array([kind]))[0]))
        return ways

    sent, got = (
        told(ni_events & sends, events["unit"], peers),
        told(ni_events & acted, peers, events["unit"]),
    )
    assert sum(len(way) for way in sent.values()) > 3 * 60 * golden.system.nodes
    assert sent == got


@pytest.mark.parametrize("name", ROUTED)
@pytest.mark.parametrize("latency", [1, 3])
def test_without_contention_it_is_the_network_that_discards(name, latency):
    """Cycle by cycle and event by event: input queues that are never needed pin the same paths."""
    workload, seeds = {"load": 0.002, "count": 3}, range(1, 20)
    for seed in seeds:
        plain = Golden(make(name, router={"queue": 1, "latency": latency}, workload=workload, run={"seed": seed}))
        plain.run(LIMIT, until_drained=True)
        counted = plain.router_counters.sum(axis=0)
        golden = Golden(credited(name, 16, latency=latency, workload=workload, run={"seed": seed}))
        golden.run(LIMIT, until_drained=True)
        if golden.digest == plain.digest:
            assert golden.cycle == plain.cycle and counted[RouterCounter.FORWARDED] == counted.sum() > 0
            return
    pytest.fail(f"no seed of {seeds} gave a run without contention")


def held(golden) -> tuple[np.ndarray, np.ndarray]:
    """Per input that gets flits: flits in its buffer, and credits that its upstream has or will get back."""
    k, f = golden.k, golden._fabric
    rows = fabric.rows(f.buffers, Buffer)
    coming = np.zeros(len(rows), np.int64)
    lists = f.returning[1:].reshape(int(k.return_phases), -1)
    for credits_back in lists:
        np.add.at(coming, credits_back[1 : credits_back[0] + 1], 1)
    inputs = np.flatnonzero(rows[: int(k.port_count), Buffer.upstream] >= 0)
    upstream = rows[inputs, Buffer.upstream]
    return rows[inputs, Buffer.level], rows[upstream, Buffer.credits] + coming[upstream]


@pytest.mark.parametrize("name", ROUTED)
def test_credits_are_never_lost_and_buffers_never_overflow(name):
    """Flits in a buffer, credits, and flits on the one link between them are together as many as the buffer holds."""
    flits, latency = 3, 2
    golden = Golden(credited(name, flits, latency=latency, delay=3, workload={"load": 1.0}))
    fullest = 0
    while not golden.drained:
        golden.run(1)
        level, free = held(golden)
        assert (free >= 0).all() and (level <= flits).all()
        on_links = flits - level - free
        assert (on_links >= 0).all() and (on_links <= latency).all()
        fullest = max(fullest, int(level.max()))
    level, free = held(golden)
    assert fullest == flits and not level.any() and (free == flits).all()
    assert_once(golden)


def test_source_queues_grow_and_are_counted():
    system = credited("tree4", 1, workload={"load": 1.0})
    whole, cut = Golden(system), Golden(system)
    whole.run(LIMIT, until_drained=True)
    while not cut.drained:
        cut.run(7)
    assert whole.source_depths.max() > SOURCE_FLITS and whole.k.source_ring >= whole.source_depths.max()
    assert whole.digest == cut.digest and (whole.source_depths == cut.source_depths).all()
    assert len(whole.source_depths) == whole.k.nodes


def test_a_source_queue_beyond_reason(monkeypatch):
    monkeypatch.setattr(credits, "MOST_SOURCE_FLITS", 2 * SOURCE_FLITS)
    golden = Golden(credited("tree4", 1, workload={"load": 1.0}))
    with pytest.raises(GoldenError, match=r"a source queue holds 128 flits, .*; raise timers\.slack"):
        golden.run(LIMIT, until_drained=True)


def test_an_output_goes_round_its_inputs():
    """Four inputs that want one output all the time take turns; without turns the lowest would have it for itself."""
    system = credited("crossbar", 9, ni={"slots": 4, "deliver_records": 64}, workload={"kind": "pattern"})
    senders = [0, 1, 2, 4]
    lot = [Item(node=node, destination=3, payload=bytes(32), mode=1) for node in senders for _ in range(10)]
    golden = Golden(system, Script.from_items(system, lot), record=True)
    golden.run(LIMIT, until_drained=True)
    events = golden.take_events()
    passed = events[(events["word"] & np.uint64(0xFFFF)) == (Event.FORWARD | 3 << 8)]
    assert passed["lane"].tolist() == senders * 10


def pair(flits, latency=1, delay=1) -> System:
    """Two nodes on one router, so that nothing contends."""
    router = {"flow": "credits", "credit_flits": flits, "latency": latency, "credit_delay": delay}
    return System.make(topology={"kind": "crossbar", "nodes": 2}, router=router, timers={"wrap_guard": 0})


@pytest.mark.parametrize(
    ("flits", "latency", "delay"), [(1, 1, 1), (1, 3, 2), (4, 3, 2), (4, 4, 8), (5, 3, 2), (9, 4, 4)]
)
def test_a_worm_waits_for_the_round_trip_of_credits(flits, latency, delay):
    found = plain_packets(pair(flits, latency, delay), 1000.0, 1000, 20_000)
    assert found.accepted == pytest.approx(min(1, flits / (latency + delay)), abs=2e-3)


@pytest.mark.parametrize(("size", "route", "grant"), [(1, 0, 0), (1, 1, 1), (4, 1, 1), (8, 2, 0), (8, 0, 3)])
def test_every_head_waits_in_its_router(size, route, grant):
    found = plain_packets(pair(64), 1.0 * size, size, 20_000, route_delay=route, grant_delay=grant)
    assert found.accepted == pytest.approx(size / (size + route + grant), abs=2e-3)


#: Measured with BookSim 2 (topology fattree k = 4, n = 3, routing nca, one virtual channel, injection rate 1): flits in
#: a buffer, flits in a packet, `routing_delay`, `credit_delay`, accepted flits per node and cycle.
BOOKSIM = [
    (4, 4, 1, 0, 0.243), (16, 4, 1, 0, 0.397), (64, 4, 1, 0, 0.468), (4, 4, 1, 1, 0.214), (16, 4, 1, 1, 0.390),
    (4, 4, 0, 0, 0.277), (16, 4, 0, 0, 0.427), (4, 4, 0, 2, 0.206), (16, 4, 0, 2, 0.414), (4, 8, 1, 0, 0.222),
    (16, 8, 1, 0, 0.404),
]  # fmt: skip


@pytest.mark.parametrize(("flits", "size", "routing", "delay", "expected"), BOOKSIM)
def test_saturation_as_booksim(flits, size, routing, delay, expected):
    """A hop of switch allocation, traversal and link; a credit takes two cycles and its delay."""
    router = {"flow": "credits", "credit_flits": flits, "latency": 3, "credit_delay": 2 + delay}
    system = System.make(topology={"kind": "tree", "arity": 4, "levels": 3}, router=router, timers={"wrap_guard": 0})
    found = plain_packets(system, 1.0, size, 5000, warm_up=3000, route_delay=routing, grant_delay=1)
    assert found.accepted == pytest.approx(expected, rel=0.05)  # 4.0 % at most was seen


def test_a_crossbar_reaches_the_limit_of_input_queues():
    """2 − √2 flits per input and cycle, for many ports (Karol, Hluchyj and Morgan 1987); 64 of them come to 0.588."""
    router = {"flow": "credits", "credit_flits": 8}
    system = System.make(topology={"kind": "crossbar", "nodes": 64}, router=router, timers={"wrap_guard": 0})
    found = plain_packets(system, 1.0, 1, 10_000, warm_up=2000)
    assert found.accepted == pytest.approx(2 - 2**0.5, rel=0.02)


@pytest.mark.parametrize("name", ["tree4", "mesh"])
def test_every_worm_of_a_life_arrives(name, tmp_path):
    """Ladders follow worms that wait and pause: each that was sent acts, and no two in one event."""
    run(credited(name, 2, workload={"load": 1.0}), tmp_path / "run.parquet")
    trace = open_trace(tmp_path / "run.parquet")
    uids = set(trace.table(columns=["uid"])["uid"].to_pylist()) - {None}
    for uid in sorted(uids)[:40]:
        worms = Life(trace, uid).worms
        assert len(worms) >= 3
        places = {(worm.arrived, worm.from_sender) for worm in worms}
        assert len(places) == len(worms) and all(arrived is not None for arrived, _ in places)


def test_latency_of_a_packet_that_meets_nobody():
    """The injection link, the route, the choice, the hop, and three flits more."""
    found = plain_packets(pair(64, latency=3), 0.001, 4, 200_000, route_delay=1, grant_delay=1)
    assert found.accepted == pytest.approx(0.001, rel=0.2)
    assert found.latency == pytest.approx(3 + 1 + 1 + 3 + 3, abs=0.1)

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
from lethe_sim.ledger.audit import ONCE
from lethe_sim.ledger.here import audit
from lethe_sim.running import run
from lethe_sim.trace.life import Life
from lethe_sim.trace.store import open_trace
from tests.helpers.golden_events import message
from tests.helpers.golden_steps import LIMIT, assert_once
from tests.helpers.golden_systems import TOPOLOGIES, make
from tests.helpers.tiers import but

ROUTED = [name for name in TOPOLOGIES if name != "wire"]


def credited(name, flits, *, latency=1, delay=1, channels=1, path="pinned", **sections) -> System:
    router = {
        "flow": "credits", "credit_flits": flits, "latency": latency, "credit_delay": delay,
        "credit_channels": channels, "credit_path": path,
    }  # fmt: skip
    return make(name, router=router, **sections)


@pytest.mark.parametrize("name", ROUTED)
@pytest.mark.parametrize(
    ("flits", "latency", "delay", "channels"),
    [(1, 1, 1, 1), (4, 1, 1, 1), (3, 4, 8, 1), (40, 2, 3, 1), (1, 1, 1, 2), (4, 1, 1, 4), (3, 4, 8, 4)],
)
def test_every_datagram_once_and_nothing_discarded(name, flits, latency, delay, channels):
    """Heads pass exactly the routers between their nodes, however few flits a buffer holds: no deadlock, no loss."""
    system = credited(name, flits, latency=latency, delay=delay, channels=channels, workload={"load": 1.0})
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


@pytest.mark.parametrize(
    ("name", "channels"),
    [*((name, 1) for name in ("crossbar", "fly3", "tree", "tree4", "mesh")), ("fly3", 2), ("tree4", 4), ("mesh", 4)],
)
def test_order_between_two_nodes_on_one_slot(name, channels):
    """What one node sends to another about one datagram's slot acts there in that order, and all of it does."""
    sent, got = ways(name, channels=channels)
    assert sum(len(way) for way in sent.values()) > 3 * 60 * make(name).nodes
    assert sent == got


def test_adaptive_paths_do_not_keep_the_order():
    """So a Forget can come before an early repeat of its Send, which is then delivered again."""
    sent, got = ways("tree4", channels=4, path="adaptive")
    assert sent.keys() == got.keys() and sent != got
    assert all(sorted(way) == sorted(got[name]) for name, way in sent.items())


def ways(name, **router) -> tuple[dict, dict]:
    """What was sent, and what acted, by sender, receiver and slot: the messages in their order."""
    workload = {"load": 1.0, "count": 60}
    ni = {"slots": 8, "ways": 8, "sets": 64, "deliver_records": 4096, "deliver_flits": 1 << 14, "reply_depth": 4096}
    golden = Golden(credited(name, 4, workload=workload, ni=ni, **router), record=True)
    golden.run(LIMIT, until_drained=True)
    if router.get("path") != "adaptive":
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

    return told(ni_events & sends, events["unit"], peers), told(ni_events & acted, peers, events["unit"])


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
    """Per channel that gets flits: flits in its buffer, and credits that its upstream has or will get back."""
    k, f = golden.k, golden._fabric
    rows = fabric.rows(f.buffers, Buffer)
    coming = np.zeros(len(rows), np.int64)
    lists = f.returning[1:].reshape(int(k.return_phases), -1)
    for credits_back in lists:
        np.add.at(coming, credits_back[1 : credits_back[0] + 1], 1)
    sinks = int(k.nodes) if k.channels > 1 else 0
    inputs = np.flatnonzero(rows[: (int(k.port_count) + sinks) * int(k.channels), Buffer.upstream] >= 0)
    upstream = rows[inputs, Buffer.upstream]
    return rows[inputs, Buffer.level], rows[upstream, Buffer.credits] + coming[upstream]


@pytest.mark.parametrize(
    ("channels", "path"),
    but([(1, "pinned"), (4, "adaptive")], [(1, "pinned"), (2, "pinned"), (4, "adaptive")]),
)
@pytest.mark.parametrize("name", ROUTED)
def test_credits_are_never_lost_and_buffers_never_overflow(name, channels, path):
    """Flits in a buffer, credits, and flits on the one link between them are together as many as the buffer holds."""
    flits, latency = 3, 2
    system = credited(name, flits, latency=latency, delay=3, channels=channels, path=path, workload={"load": 1.0})
    golden = Golden(system)
    fullest = 0
    while not golden.drained:
        golden.run(1)
        level, free = held(golden)
        assert (free >= 0).all() and (level <= flits).all()
        on_links = flits - level - free
        assert (on_links >= 0).all() and (on_links.reshape(-1, channels).sum(axis=1) <= latency).all()
        fullest = max(fullest, int(level.max()))
    level, free = held(golden)
    assert fullest == flits and not level.any() and (free == flits).all()
    if path == "pinned":
        assert_once(golden)


#: Digests of 3,000 cycles at full load with one channel: topology, flits, latency, credit delay.
DIGESTS = {
    ("crossbar", 1, 1, 1): 0xB9B1E614C5EE4EBA,
    ("crossbar", 4, 1, 1): 0xB9B1E614C5EE4EBA,
    ("crossbar", 16, 3, 2): 0x6CE4109A5DDD1038,
    ("fly", 1, 1, 1): 0x62179847A827C596,
    ("fly", 4, 1, 1): 0x83DEC85A3B3BF331,
    ("fly", 16, 3, 2): 0x218288FBB311201,
    ("fly3", 1, 1, 1): 0x27EEE9586A075E4B,
    ("fly3", 4, 1, 1): 0x4C31AFDA2CEF43F2,
    ("fly3", 16, 3, 2): 0xD569CEA61D66CFC5,
    ("tree", 1, 1, 1): 0xCC19553D27D24C68,
    ("tree", 4, 1, 1): 0xDD308A97F0160459,
    ("tree", 16, 3, 2): 0x3CB16FA03B89E52A,
    ("tree4", 1, 1, 1): 0x5267D6ED70FFA39A,
    ("tree4", 4, 1, 1): 0x761EEFCA616465F3,
    ("tree4", 16, 3, 2): 0x4042CAC89EA40C0A,
    ("mesh", 1, 1, 1): 0xFEE14EBEDEDC6960,
    ("mesh", 4, 1, 1): 0x5164C9EBCE585FB1,
    ("mesh", 16, 3, 2): 0x1CD483B12DA9CB4,
}


@pytest.mark.parametrize("of", DIGESTS)
def test_one_channel_is_what_it_was(of):
    name, flits, latency, delay = of
    golden = Golden(credited(name, flits, latency=latency, delay=delay, workload={"load": 1.0}))
    golden.run(3000)
    assert golden.digest == DIGESTS[of]


#: Every choice of channels and paths, with buffers of one flit and of a worm.
CHOICES = [(channels, path, flits) for channels in (1, 2, 4) for path in ("pinned", "adaptive") for flits in (1, 6)]


def never_stands_still(name, channels, path, flits, cycles):
    """At saturation flits go on in every 500 cycles: no worms wait for each other in a circle."""
    system = credited(name, flits, channels=channels, path=path, workload={"load": 1.0, "count": 0})
    golden = Golden(system.replace(timers={"slack": -80}))
    before = 0
    for _ in range(cycles // 500):
        golden.run(500)
        passed = int(golden.router_counters[:, RouterCounter.FORWARDED].sum())
        assert passed - before > 10 * system.nodes
        before = passed
    assert golden.cycle == cycles


def can_choose(name, channels, path) -> bool:
    return path == "pinned" or channels > 1 or name.startswith("tree")


@pytest.mark.parametrize("name", ROUTED)
def test_no_deadlock(name):
    for channels, path, flits in CHOICES:
        if can_choose(name, channels, path):
            never_stands_still(name, channels, path, flits, 3000)


@pytest.mark.full
@pytest.mark.parametrize("name", ROUTED)
def test_no_deadlock_at_length(name):
    for channels, path, flits in CHOICES:
        if can_choose(name, channels, path):
            never_stands_still(name, channels, path, flits, 100_000)


@pytest.mark.parametrize("path", ["pinned", "adaptive"])
def test_every_channel_is_used(path):
    """Flits come in the buffers of all channels, of routers and sinks, and heads leave by all up-ports."""
    system = credited("tree4", 2, channels=4, path=path, workload={"load": 1.0, "count": 0})
    golden = Golden(system.replace(timers={"slack": -80}), record=True)
    used = np.zeros(0)
    for _ in range(1000):
        golden.run(1)
        level = held(golden)[0]
        used = level if len(used) == 0 else np.maximum(used, level)
    assert used.reshape(-1, 4).any(axis=0).all() and used[-4 * system.nodes :].reshape(-1, 4).any(axis=0).all()
    words = golden.take_events()["word"]
    ups = {int(word) >> 8 & 0xFF for word in words if word & np.uint64(0xFF) == Event.FORWARD}
    assert ups == set(range(8))


@pytest.mark.parametrize(
    ("name", "channels", "path", "slack"),
    [("mesh", 4, "pinned", 0), ("tree4", 4, "pinned", 0), ("mesh", 4, "adaptive", -80), ("tree4", 4, "adaptive", -80)],
)
def test_the_audit_knows_which_order_holds(name, channels, path, slack, tmp_path):
    """Of a pair and slot on pinned channels; adaptive paths keep none, and with late time-outs all comes once."""
    system = credited(name, 6, channels=channels, path=path, workload={"load": 1.0, "count": 60})
    run(system.replace(timers={"slack": slack}), tmp_path / "run.parquet")
    result = audit(tmp_path / "run.parquet")
    assert result.verdict == ONCE, result.text()


def test_a_capture_needs_one_channel():
    with pytest.raises(GoldenError, match=r"router\.credit_channels: worms of several channels mix on a link"):
        Golden(credited("tree4", 4, channels=2), tapped=[0])


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


#: The same by `scripts/booksim.py`, with `hold_switch_for_packet`: flits in a channel's buffer, channels, path, load,
#: accepted flits per node and cycle at a load of 1, mean latency below.  Up-ports are drawn, or the better one of two
#: that are drawn; here an adaptive head takes the best of all, which carries more.
CHANNELS = [
    (4, 2, "pinned", 1.0, 0.497), (16, 2, "pinned", 1.0, 0.635), (4, 4, "pinned", 1.0, 0.681),
    (16, 4, "pinned", 1.0, 0.785), (4, 2, "adaptive", 1.0, 0.530), (16, 2, "adaptive", 1.0, 0.655),
    (4, 4, "adaptive", 1.0, 0.708), (16, 4, "adaptive", 1.0, 0.782), (16, 4, "pinned", 0.1, 27.9),
    (16, 4, "pinned", 0.3, 31.3), (16, 4, "pinned", 0.5, 39.5), (16, 4, "pinned", 0.6, 48.8),
]  # fmt: skip


@pytest.mark.parametrize(("flits", "channels", "path", "load", "expected"), CHANNELS)
def test_channels_as_booksim(flits, channels, path, load, expected):
    router = {
        "flow": "credits", "credit_flits": flits, "latency": 3, "credit_delay": 2, "credit_channels": channels,
        "credit_path": path,
    }  # fmt: skip
    system = System.make(topology={"kind": "tree", "arity": 4, "levels": 3}, router=router, timers={"wrap_guard": 0})
    found = plain_packets(system, load, 4, 4000, warm_up=2000, route_delay=1, grant_delay=1)
    assert (found.accepted if load == 1 else found.latency) == pytest.approx(expected, rel=0.1)


def test_a_crossbar_reaches_the_limit_of_input_queues():
    """2 − √2 flits per input and cycle, for many ports (Karol, Hluchyj and Morgan 1987); 64 of them come to 0.588."""
    router = {"flow": "credits", "credit_flits": 8}
    system = System.make(topology={"kind": "crossbar", "nodes": 64}, router=router, timers={"wrap_guard": 0})
    found = plain_packets(system, 1.0, 1, 10_000, warm_up=2000)
    assert found.accepted == pytest.approx(2 - 2**0.5, rel=0.02)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("name", ["tree4", "mesh"])
def test_every_worm_of_a_life_arrives(name, channels, tmp_path):
    """Ladders follow worms that wait and pause: each that was sent acts, and no two in one event."""
    run(credited(name, 2, channels=channels, workload={"load": 1.0}), tmp_path / "run.parquet")
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

"""Whole systems: every datagram once, whatever the fabric does to worms, and nothing is left behind."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.spec.config import ConfigError
from lethe.spec.events import Counter, Event, RouterCounter
from lethe.spec.trace import event_hash
from lethe_sim.golden.model import Golden
from tests.helpers.golden_events import message
from tests.helpers.golden_steps import LIMIT, assert_once
from tests.helpers.golden_systems import TOPOLOGIES, make


@pytest.mark.parametrize("flit_bits", [16, 32, 64, 128])
def test_lossless_pair_sends_three_messages(flit_bits):
    """Without loss and contention a datagram is a Send, an Ack and a Forget, and nothing is repeated."""
    golden = Golden(make("wire", wire={"flit_bits": flit_bits}, workload={"load": 0.02}))
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    counters = golden.counters.sum(axis=0)
    assert counters[[Counter.SENDS, Counter.ACKS, Counter.FORGETS]].tolist() == [40, 40, 40]
    assert counters[Counter.REPEATS] == counters[Counter.ACK_REPEATS] == 0


@pytest.mark.parametrize("name", [*TOPOLOGIES])
@pytest.mark.parametrize(("loss", "flip"), [(0.0, 0.0), (0.3, 0.0), (0.05, 0.004)])
def test_every_datagram_once(name, loss, flip):
    system = make(name, faults={"loss": loss, "flip": flip}, wire={"flit_bits": 32})
    golden = Golden(system)
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    if loss:
        assert golden.link_counters[:, 0].sum() > 0
    if flip:
        assert golden.counters[:, Counter.DROP_CRC].sum() > 0


@pytest.mark.parametrize("name", ["wire", "crossbar", "tree4"])
def test_half_of_all_worms_lost_on_every_link(name):
    golden = Golden(make(name, faults={"loss": 0.5}, workload={"count": 5}))
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)


@pytest.mark.parametrize("name", [*TOPOLOGIES])
def test_links_die_and_ports_stall(name):
    """Links that die in mid-worm leave fragments, which every router and NI gets over."""
    links = len(make(name).graph.links)
    dead = [{"link": n, "start": 100 + 7 * n, "end": 160 + 9 * n} for n in range(links)]
    stalls = [{"node": n, "start": 150, "end": 900} for n in (0, 1)]
    golden = Golden(make(name, faults={"links": dead, "stalls": stalls}, workload={"load": 1.0, "count": 100}))
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)
    assert golden.link_counters[:, 1].sum() > 0
    assert golden.counters[:, Counter.DROP_DELIVER_FULL].sum() > 0
    assert golden.counters[:, Counter.FRAGMENTS].sum() + golden.router_counters[:, RouterCounter.FRAGMENT].sum() > 0


@pytest.mark.parametrize("name", [*TOPOLOGIES])
def test_resets_drain(name):
    """After node resets nothing is doubled within an incarnation or left in a table, though some is lost."""
    resets = [{"node": n, "start": 100 + 40 * n, "cycles": 5 + n} for n in (0, 1)]
    golden = Golden(make(name, faults={"resets": resets, "loss": 0.05}, workload={"load": 1.0}), record=True)
    golden.run(LIMIT, until_drained=True)
    assert golden.drained and not golden.entries.any() and not golden.busy.any()
    assert golden.sums["wrong"].sum() == 0
    events = golden.take_events()
    kinds = events["word"] & np.uint64(0xFF)
    on_rx = (events["unit"] < golden.system.nodes) & (events["lane"] == 1)
    assert np.count_nonzero(on_rx & (kinds == Event.RESET)) == 2
    delivered = events["uid"][on_rx & (kinds == Event.DELIVER)]
    nodes = events["unit"][on_rx & (kinds == Event.DELIVER)]
    untouched = delivered[nodes > 1]
    assert len(np.unique(untouched)) == len(untouched)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.data())
def test_any_small_system_delivers_once(data):
    """Tiny tables and FIFOs, all widths, odd time-outs, loss and flips."""
    draw = lambda *choices: data.draw(st.sampled_from(choices))  # noqa: E731
    flips = draw(0.0, 0.0, 0.001)
    try:
        system = make(
            draw(*TOPOLOGIES),
            wire={"flit_bits": draw(16, 32, 64, 128), "mtu": draw(4, 9, 64), "generation_bits": 16},
            router={"latency": draw(1, 2, 3, 4)},
            ni={"slots": draw(2, 3, 16), "sets": draw(1, 2, 8), "ways": draw(1, 3), "reply_depth": draw(2, 8),
                "deliver_records": draw(2, 8)},
            timers={"backoff_steps": draw(0, 2, 6), "jitter_bits": draw(4, 6), "timer_depth": draw(0, 8)},
            faults={"loss": draw(0.0, 0.1, 0.2), "flip": flips},
            workload={"count": 10, "load": draw(0.1, 1.0), "min_length": 4, "max_length": draw(4, 4, 9)},
            run={"seed": data.draw(st.integers(0, (1 << 32) - 1))},
        )  # fmt: skip
    except ConfigError:
        return
    golden = Golden(system)
    golden.run(LIMIT, until_drained=True)
    assert_once(golden)


def test_worms_keep_their_order_and_datagrams_do_not():
    """Of one pair, messages act in the order in which they were sent; datagrams overtake when some are lost."""
    system = make("tree", faults={"loss": 0.1}, workload={"load": 1.0, "count": 60})
    golden = Golden(system, record=True)
    golden.run(LIMIT, until_drained=True)
    events = golden.take_events()
    kinds, peers = events["word"] & np.uint64(0xFF), events["word"] >> np.uint64(16) & np.uint64(0xFFFF)
    reordered = 0
    for source in range(system.nodes):
        for target in set(range(system.nodes)) - {source}:
            launched = (events["unit"] == source) & (events["lane"] == 0) & (peers == target)
            launched &= np.isin(kinds, (Event.SEND, Event.ACK, Event.FORGET))
            arrived = (events["unit"] == target) & (events["lane"] == 1) & (peers == source)
            arrived &= np.isin(kinds, (Event.DELIVER, Event.DUPLICATE, Event.RELEASE, Event.ACK_IGNORED,
                                       Event.FORGOTTEN, Event.FORGET_IGNORED))  # fmt: skip
            sent = list(zip(events["uid"][launched].tolist(), message(kinds[launched]), strict=True))
            got = list(zip(events["uid"][arrived].tolist(), message(kinds[arrived]), strict=True))
            at = -1
            for one in got:
                at = sent.index(one, at + 1)  # raises if it is not there
            accepted = (events["unit"] == source) & (kinds == Event.ACCEPT) & (peers == target)
            delivered = arrived & (kinds == Event.DELIVER)
            reordered += events["uid"][accepted].tolist() != events["uid"][delivered].tolist()
    assert reordered > 0


def test_digest_is_the_sum_over_the_events():
    golden = Golden(make("tree", faults={"loss": 0.1}, workload={"count": 5}), record=True)
    golden.run(LIMIT, until_drained=True)
    events = golden.take_events()
    total = sum(event_hash(*map(int, event)) for event in events)
    assert golden.digest == total % (1 << 64)
    assert (np.diff(events["cycle"]) >= 0).all()
    assert golden.counters.sum() + golden.router_counters.sum() + golden.link_counters.sum() > len(events) // 2


def test_runs_do_not_depend_on_how_they_are_cut():
    whole, cut = (Golden(make("mesh", faults={"loss": 0.1}), record=True) for _ in range(2))
    whole.run(5000)
    parts = []
    for cycles in (1, 7, 992, 4000):
        cut.run(cycles)
        parts.append(cut.take_events())
    assert whole.digest == cut.digest
    assert np.array_equal(whole.take_events(), np.concatenate(parts))


def test_4096_nodes():
    """The largest tree of arity 4 below 65,536 nodes runs in seconds."""
    system = make("tree", workload={"count": 1})
    system = system.replace(topology={"arity": 4, "levels": 6})
    golden = Golden(system)
    golden.run(20_000, until_drained=True)
    assert_once(golden)


@pytest.mark.parametrize(("loss", "load", "latency"), [(0.0, 1.0, 1), (0.1, 0.2, 4)])
@pytest.mark.parametrize("name", [*TOPOLOGIES])
def test_worms_may_travel_whole(name, loss, load, latency):
    """Where nothing can break a worm its head stands for it; with a reset to come, though never, every flit travels."""
    found = []
    for resets in ([], [{"node": 1, "start": 10**8, "cycles": 1}]):
        system = make(name, router={"latency": latency}, faults={"loss": loss, "resets": resets},
                      workload={"load": load})  # fmt: skip
        golden = Golden(system, record=True)
        assert golden.k.whole == (not resets)
        words = np.zeros((1500, system.layout.words), np.uint64)
        golden.run(1500, words=words)
        golden.run(LIMIT, until_drained=True)
        assert_once(golden)
        counted = [golden.counters.tolist(), golden.router_counters.tolist(), golden.link_counters.tolist()]
        # Within a cycle events have no order.
        events = np.sort(golden.take_events(), order=["cycle", "unit", "lane"])
        found.append((golden.cycle, golden.digest, counted, events.tobytes(), words.tobytes()))
    assert found[0] == found[1]

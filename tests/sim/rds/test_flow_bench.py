"""`scripts/flow_bench.py`: what it counts is what happened, and each figure can be missed."""

import pytest

from lethe.spec.events import Event
from lethe.spec.trace import EVENT
from lethe_sim.golden.model import Golden, Item, Script


@pytest.fixture(scope="module")
def bench(script):
    return script("flow_bench")


def test_an_index_of_fairness_and_a_percentile(bench):
    assert bench.jain([3, 3, 3, 3]) == 1 and bench.jain([4, 0, 0, 0]) == 0.25 and bench.jain([0, 0]) == 0
    assert bench.p99([]) == 0 and bench.p99(range(1, 101)) == 99 and bench.p99([5]) == 5


def test_every_message_of_the_traffic_arrives_once_and_in_order(bench):
    sources = [bench.Source(node, 3, 1 - node, 5, period=50, start=7, count=40) for node in (0, 1)]
    sources.append(bench.Source(0, 4, 1, 6, count=30))
    system = bench.system_of({"kind": "wire"}, faults={"loss": 0.1})
    traffic = bench.Traffic(system, sources)
    traffic.run(12_000)
    for source, count in zip(sources, (40, 40, 30), strict=True):
        cycles = [cycle for cycle, _ in source.arrivals]
        births = [cycle - latency for cycle, latency in source.arrivals]
        assert len(cycles) == source.begun == count and not source.born
        assert births == sorted(births) and all(latency > 10 for _, latency in source.arrivals)
        assert not source.period or births == [7 + 50 * at for at in range(count)]
    assert traffic.ended["ACCEPTED"] == 110
    assert bench.arrivals(sources, 0, 12_000) == [late for s in sources for _, late in s.arrivals]
    assert bench.arrivals(sources, 3000, 3001) == [late for s in sources for at, late in s.arrivals if at == 3000]


def test_what_nobody_reads_does_not_arrive(bench):
    sources = [bench.Source(0, port, 1, port) for port in (0, 1)]
    traffic = bench.Traffic(bench.system_of({"kind": "wire"}), sources, [(1, 0)])
    traffic.run(4000)
    assert not sources[0].arrivals and len(sources[1].arrivals) > 100 and traffic.ended["CONGESTED"] > 5


def test_flits_are_those_on_the_links(bench):
    """All flits that NIs launched, by their events, against those that crossed the wire."""
    system = bench.system_of({"kind": "wire"}, faults={"loss": 0.1})
    items = [Item(node=0, destination=1, payload=bytes(at % 32), tag=at) for at in range(100)]
    golden = Golden(system, Script.from_items(system, items), record=True, tapped=[0, 1])
    golden.run(60_000, until_drained=True)
    events = golden.take_events()
    flits = bench._launched(system, events)
    assert golden.drained and flits[True] + flits[False] == len(golden.take_flits())
    words = (EVENT.of(events["word"]) == Event.FLOW_TOLD).sum()
    assert flits[True] >= 5 * words > 20


def test_latencies_and_credits(bench):
    to_flit, to_host = bench.latency(3)
    assert to_flit.met and to_host.met and int(to_flit.measured) > 0 and int(to_host.measured) > 0
    credits = bench.credits_kept(60)
    assert credits.met and credits.measured.startswith("60; ")


def test_a_flip_costs_a_word_for_each_peer(bench):
    found = bench.flip()
    assert found.met and found.measured.split(", ")[0] == "5.00"


def test_a_miss_is_told(bench, monkeypatch):
    monkeypatch.setattr(bench, "jain", lambda shares: 0.5)
    monkeypatch.setattr(bench, "UP", 2500)
    monkeypatch.setattr(bench, "Traffic", Silent)
    rows = [*bench.fairness(True), bench.dead_peer(True), *bench.isolation(True), *bench.unread(True)]
    assert len(rows) == 12
    assert [row.met for row in rows if row.target and "p99" not in row.quantity] == [False] * 8


class Silent:
    """Traffic of which nothing arrives."""

    def __init__(self, *_):
        pass

    def run(self, _):
        pass

    def waiting(self, *_):
        return 0

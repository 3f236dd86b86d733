"""`scripts/bench --only relay` counts the posts, messages and cycles that there are, and tells a miss."""

from itertools import pairwise

import numpy as np
import pytest

from lethe.spec.events import Event
from lethe.spec.overlay import Overlay
from lethe.spec.services.relay import Type
from lethe_sim.golden.model import Golden, Item, Script
from tests.helpers import ROOT


@pytest.fixture(scope="module")
def relay_bench(script):
    """The file takes the form of its rows from that of flow, beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return script("relay_bench")


def test_a_relay_takes_as_many_cycles_as_its_contract_says(relay_bench):
    row = relay_bench.latency()
    assert row.measured == "28" and row.met


def test_a_message_costs_nine_for_each_hop_of_a_drained_stream(relay_bench):
    (row,) = relay_bench.messages(quick=True)
    assert row.met and row.measured.endswith(": 9 for a hop")


@pytest.fixture(scope="module")
def recovered(relay_bench):
    return relay_bench.recover(2, 0.0)


def test_what_is_judged_is_between_the_living(relay_bench, recovered):
    """64 messages, each to another node: at most six of them have a dead end."""
    assert 64 - 2 * len(relay_bench.KILLED) <= recovered.judged == recovered.posted <= 64 - len(relay_bench.KILLED)
    assert 0 < recovered.under_way <= recovered.judged and recovered.cycles > 0
    assert recovered.by_relays > 0


@pytest.mark.parametrize("cycles, met", [(10, True), (3000, True), (3001, False), (-1, False)])
def test_a_recovery_that_is_late_or_never_ends_is_a_miss(relay_bench, monkeypatch, cycles, met):
    run = relay_bench.Recovered(cycles, 57 if cycles < 0 else 58, 58, 58, 90, 30, 10)
    monkeypatch.setattr(relay_bench, "recover", lambda seed, loss: run)
    rows = list(relay_bench.recovery(quick=True))
    assert [row.met for row in rows] == [met, None, cycles >= 0, None]
    assert ("3 never posted" in rows[0].measured) == (cycles < 0)
    assert rows[1].measured == "13.3, 30.0; 75%"


def test_an_answer_is_of_a_node_that_was_asked(relay_bench):
    """Node 1 sends to 3 over 2 and 0; node 0 is asked and answers, then the origin is; the others pass on."""
    message, asked = 1 << 44, Type.REQUESTED << 3
    seen = [
        (1, 10, Event.RELAY_HOP, 0, 2), (2, 20, Event.RELAY_HOP, 0, 0), (0, 30, Event.RELAY_HOP, 0, 3),
        (0, 40, Event.RELAY_HEARD, asked, 3), (0, 41, Event.RELAY_HOP, 1, 3),
        (0, 50, Event.RELAY_HEARD, asked, 3), (2, 51, Event.RELAY_HEARD, asked, 0),
        (1, 52, Event.RELAY_HEARD, asked, 2),
        (1, 53, Event.RELAY_HOP, 1, 2), (2, 54, Event.RELAY_HOP, 1, 0), (0, 55, Event.RELAY_HOP, 1, 3),
    ]  # fmt: skip
    node, cycle, event, detail, peer = (np.array(column) for column in zip(*seen, strict=True))
    zero = np.zeros(len(seen), np.int64)
    answers = relay_bench.Answers()
    answers.add(relay_bench.RelayRows(node, cycle, event, detail, peer, zero, zero + message, zero))
    assert (answers.hops, answers.by_relays, answers.by_origins) == (4, 1, 1)


def test_goodput_counts_what_hosts_take(relay_bench):
    system = relay_bench.system_of(1)
    items = [Item(node=node, destination=3, payload=bytes(32)) for node in (0, 1, 2) for _ in range(4)]
    counts = {}
    for name, nodes, peers in (("all", [3], None), ("some", [3], {1, 2}), ("none", [0, 1, 2], None)):
        golden = Golden(system, Script.from_items(system, items), record=True)
        counts[name] = relay_bench.goodput(golden, 20_000, nodes, peers) * 20_000
    assert counts == {"all": pytest.approx(12), "some": pytest.approx(8), "none": 0}


@pytest.mark.parametrize(
    "tree, met",
    [([9.0, 9.0, 9.0, 9.0, 9.0], (True, True)), ([9.0, 9.0, 9.0, 9.0, 1.0], (True, False)), ([1.0] * 5, (False, True))],
)
def test_incast_tells_a_miss_and_a_collapse(relay_bench, monkeypatch, tree, met):
    values = iter(2 * ([10.0] * 5 + tree))
    monkeypatch.setattr(relay_bench, "goodput", lambda *_: next(values))
    assert tuple(row.met for row in relay_bench.incast(quick=True)) == 2 * met


def test_a_stall_that_others_notice_is_a_miss(relay_bench, monkeypatch):
    for after, met in ((9.0, True), (8.9, False)):
        values = iter((10.0, after))
        monkeypatch.setattr(relay_bench, "goodput", lambda *_, values=values: next(values))
        (row,) = relay_bench.stalled(quick=True)
        assert row.met == met


def test_rows_are_those_of_relays_or_of_nis(relay_bench):
    system = relay_bench.system_of(1)
    way = Overlay(nodes=4, radix=2).path(1, 2)
    golden = Golden(system, Script.from_items(system, [Item(node=1, destination=2, payload=bytes(32))]), record=True)
    golden.run(1000)
    events = golden.take_events()
    hops = relay_bench.rows(system, events, relay=True).of(Event.RELAY_HOP)
    assert [*zip(hops.node.tolist(), hops.peer.tolist(), strict=True)] == [*pairwise(way)]
    sends = relay_bench.rows(system, events, relay=False).of(Event.SEND)
    assert np.isin(sends.node, range(4)).all() and len(sends.node) == 3 * (len(way) - 1)

"""Whole runs with flow: whatever happens, messages come once and in order, and every run ends."""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from lethe.spec.events import Cause, Event, FlowCounter, Status
from lethe.spec.services import FLOW
from lethe.spec.services.flow import Code
from lethe_sim.golden.compile import jit
from lethe_sim.golden.model import Golden, Item, Script
from lethe_sim.golden.services import MODELS, flow
from lethe_sim.golden.services.flow.state import Flow, InStream, Out
from lethe_sim.trace import events_from_words
from tests.helpers.flow_bench import DELIVER_DATA
from tests.helpers.flow_oracle import flow_system, messages, play

ACCEPTED = (Status.ACCEPTED, Cause.NONE)


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("shape", [{}, {"cells": 2}, {"ports": 16, "cells": 24, "in_order": 8}])
def test_all_come_once_and_in_order(loss, shape):
    system = flow_system(4, flow=shape, faults={"loss": loss})
    items = messages(system, 400, until=6000)
    watched = play(system, items)
    assert len(watched.taken) == len(items) and {*watched.ended.values()} == {ACCEPTED}
    counters = watched.golden.service_counters["flow"].sum(axis=0)
    assert counters[FlowCounter.SENT] == counters[FlowCounter.PLACED] == counters[FlowCounter.TAKEN] == len(items)


def test_peers_are_up_soon():
    """A PONG ends the pause that its PING began, so 15 peers do not wait for 15 pauses of 1,024 cycles."""
    system = flow_system(16)
    golden = Golden(system, record=True)
    golden.run(8000)
    words = golden.take_events()["word"]
    up = (words & np.uint64(0xFF) == Event.FLOW_PEER) & (words >> np.uint64(8) & np.uint64(0xFF) == Out.UP)
    assert up.sum() > 0.9 * 16 * 15


def test_no_peer_is_always_told_first_of_a_port():
    """Each walk over the peers begins with another node, so none hears first each time that a port has room again."""
    stalls = [{"node": 0, "start": start, "end": start + 700} for start in range(6000, 30_000, 2000)]
    load = {"load": 0.5, "count": 0}
    system = flow_system(5, workload=load, faults={"stalls": stalls}, flow={"cells": 6})
    golden = Golden(system, record=True)
    golden.run(30_000)
    events = golden.take_events()
    word = events["word"].astype(np.int64)
    told = (word & 0xFFFF == Event.FLOW_TOLD | Code.MAP << 8) & (events["unit"] == system.layout.first_service)
    peers, cycles = (word[told] >> 16 & 0xFFFF).tolist(), events["cycle"][told].tolist()
    walks = [
        at
        for at in range(len(peers) - 3)
        if {*peers[at : at + 4]} == {1, 2, 3, 4} and cycles[at + 3] < cycles[at] + 150
    ]
    first = np.bincount([peers[at] for at in walks], minlength=5)
    assert first.sum() > 40 and first.max() < first.sum() / 2


@pytest.mark.parametrize("flit_bits", [16, 32, 64, 128])
def test_all_widths(flit_bits):
    system = flow_system(wire={"flit_bits": flit_bits, "mtu": 61}, faults={"loss": 0.05})
    watched = play(system, messages(system, 150, until=3000))
    assert len(watched.taken) == 150


@pytest.mark.parametrize("flit_bits", [32, 128])
def test_trace_words_say_what_the_events_say(flit_bits):
    """Of every lane, and of the beats: what is delivered stands in the words of its cycles."""
    system = flow_system(wire={"flit_bits": flit_bits, "mtu": 40}, faults={"loss": 0.1}, flow={"receive_limit": 32})
    items = messages(system, 60, until=500)
    golden = Golden(system, Script.from_items(system, items), record=True)
    words = np.zeros((30_000, system.layout.words), np.uint64)
    ran = golden.run(len(words), words=words, until_drained=True)
    events = golden.take_events()
    events = events[np.lexsort((events["lane"], events["unit"], events["cycle"]))]
    assert golden.drained and events_from_words(words[:ran], system.layout).tolist() == events.tolist()
    services = events[events["unit"] >= system.layout.first_service]
    assert {*services["lane"].tolist()} == set(range(8))
    for node in range(system.nodes):
        place = system.layout.service_place(node, 0) + FLOW.flags
        beats = words[:ran][(words[:ran, place] & np.uint64(DELIVER_DATA)) > 0, place + 1 : place + 3]
        found = [beat.tobytes()[: system.format.flit_bytes] for beat in beats]
        taken = [letter.payload for letter in golden.taken if letter.node == node]
        assert b"".join(found) == b"".join(_padded(payload, system.format.flit_bytes) for payload in taken)


def _padded(payload, size):
    return payload + bytes(-len(payload) % size)


def test_more_control_classes():
    system = flow_system(ni={"control_classes": 3}, faults={"loss": 0.05})
    items = messages(system, 100, until=2000)
    assert len(play(system, items).taken) == 100


@pytest.mark.parametrize("seed", range(4))
def test_thirty_resets_of_a_node(seed):
    """Of both scopes; what was accepted is lost only with the node that had it."""
    chance = random.Random(seed)
    resets = [
        {"node": 1, "start": 400 + 150 * i + chance.randrange(90), "cycles": chance.randrange(1, 9),
         "scope": chance.choice(("ni", "node"))}
        for i in range(30)
    ]  # fmt: skip
    system = flow_system(faults={"resets": resets, "loss": 0.03})
    watched = play(system, messages(system, 300, until=6000, seed=seed))
    assert 150 < len(watched.taken) < 300
    others = [n for n in watched.sent if n not in watched.ended]
    assert len(others) < 60


@pytest.mark.parametrize("seed", range(3))
def test_resets_everywhere(seed):
    chance = random.Random(seed)
    resets = [
        {"node": chance.randrange(4), "start": 300 + 97 * i + chance.randrange(90), "cycles": chance.randrange(1, 9)}
        for i in range(40)
    ]
    system = flow_system(4, faults={"resets": resets, "loss": 0.1})
    play(system, messages(system, 400, until=6000, seed=seed, retry_limit=10))


@pytest.mark.parametrize("seed", range(3))
def test_messages_that_are_given_up(seed):
    """One try each: what ends otherwise is passed over, and those behind it come."""
    system = flow_system(faults={"loss": 0.25})
    items = messages(system, 400, until=5000, seed=seed, retry_limit=1)
    watched = play(system, items)
    given_up = [number for number, end in watched.ended.items() if end != ACCEPTED]
    assert len(given_up) > 20
    assert {watched.ended[number][1] for number in given_up} == {Cause.RETRY_LIMIT}


def one_way(seed):
    """Many messages one way, few the other: limits are told by these, whose Acks are lost, or by WINDOWs."""
    chance = random.Random(seed)
    shape = {"cells": chance.choice((4, 8, 24))}
    system = flow_system(2, flow=shape, faults={"loss": chance.choice((0.2, 0.3, 0.4))}, run={"seed": seed})
    starts = [(0, i * chance.choice((5, 20, 20))) for i in range(120)]
    starts += [(1, chance.randrange(300, 1500)) for _ in range(chance.randrange(1, 6))]
    items = [
        Item(node=node, destination=1 - node, payload=tag.to_bytes(4, "little"), tag=tag, not_before=start)
        for tag, (node, start) in zip(range(2, 1000, 2), starts, strict=False)
    ]
    items.sort(key=lambda item: item.not_before)
    assert len(play(system, items, cycles=300_000).taken) == len(items)


@pytest.mark.parametrize("seed", [0, 1, 2, 83, 178, 288])
def test_limits_that_are_told_by_copies(seed):
    one_way(seed)


@pytest.mark.full
def test_limits_that_are_told_by_copies_often():
    for seed in range(1000):
        one_way(seed)


def anything(seed):
    """A random system with random faults, from which nothing is to follow but what holds always."""
    chance = random.Random(seed)
    nodes = chance.choice((2, 3, 4, 6))
    flow = {
        "ports": chance.choice((2, 4, 16)), "cells": chance.choice((2, 3, 4, 24)), "in_order": 1,
        "watch": chance.choice((64, 300, 4096)), "tries": chance.choice((2, 6)), "quota": chance.choice((0, 1, 8)),
    }  # fmt: skip
    faults: dict = {"loss": chance.choice((0, 0.02, 0.1, 0.3))}
    if chance.random() < 0.6:
        faults["resets"] = [
            {"node": chance.randrange(nodes), "start": 200 + 61 * i + chance.randrange(60),
             "cycles": chance.randrange(1, 50), "scope": chance.choice(("ni", "node"))}
            for i in range(chance.randrange(1, 60))
        ]  # fmt: skip
    if chance.random() < 0.3:
        faults["stalls"] = [{"node": chance.randrange(nodes), "start": 500, "end": chance.randrange(600, 6000)}]
    if chance.random() < 0.3:
        start = chance.randrange(300, 1500)
        faults["absences"] = [{"node": chance.randrange(nodes), "start": start, "end": chance.randrange(1600, 6000)}]
    if chance.random() < 0.3:
        faults["flip"] = 0.001
    wire = {"mtu": chance.choice((24, 40, 61)), "flit_bits": chance.choice((16, 32, 64, 128))}
    system = flow_system(nodes, flow=flow, faults=faults, wire=wire, run={"seed": seed})
    fields: dict = {"retry_limit": chance.choice((0, 1, 3)), "deadline": chance.choice((0, 0, 1500))}
    items = messages(system, chance.choice((60, 300)), seed=seed, until=chance.choice((10, 3000)), **fields)
    found = play(system, items, cycles=600_000)
    if chance.random() < 0.3:
        awake = play(system, items, cycles=600_000, awake=True)
        assert awake.golden.digest == found.golden.digest


# With 468 a credit acts just before a node sleeps through attempts; with 1022 a source opens again while old limits
# are told; with 15206 a source is reset, and leaves a hole for ever.
@pytest.mark.parametrize("seed", [*range(8), 468, 1022, 15206])
def test_anything(seed):
    anything(seed)


@pytest.mark.full
def test_anything_often():
    for seed in range(3000):
        anything(seed)


def test_a_death():
    """Those who send to the dead node end at their deadlines; the others go on."""
    system = flow_system(
        4, faults={"deaths": [{"node": 2, "start": 1500}], "loss": 0.03}, timers={"ack_limit": 12},
        workload={"retry_limit": 6},
    )  # fmt: skip
    items = messages(system, 300, until=4000, retry_limit=6, deadline=2500)
    watched = play(system, items)
    ends = [watched.ended[item.tag] for item in items if 2 not in (item.node, item.destination)]
    # A socket that has its quota under way to the dead node has others wait, to their deadlines.
    assert {*ends} <= {ACCEPTED, (Status.REJECTED, Cause.DEADLINE)}
    assert ends.count(ACCEPTED) > 0.95 * len(ends)


def test_an_absence():
    system = flow_system(4, faults={"absences": [{"node": 1, "start": 900, "end": 4000}], "loss": 0.03})
    assert len(play(system, messages(system, 300, until=4000)).taken) == 300


def test_a_stall():
    """A node that takes nothing: its ports become congested, and nothing is lost."""
    system = flow_system(
        4, faults={"stalls": [{"node": 1, "start": 500, "end": 9000}], "loss": 0.03}, flow={"receive_limit": 32}
    )
    watched = play(system, messages(system, 300, until=2500))
    assert len(watched.taken) == 300
    assert watched.golden.service_counters["flow"][1, FlowCounter.CONGESTIONS] > 0


@pytest.mark.parametrize("seed", range(3))
def test_nodes_that_sleep_do_the_same(seed):
    chance = random.Random(seed)
    resets = [{"node": chance.randrange(3), "start": 500 + 400 * i, "cycles": 3} for i in range(6)]
    system = flow_system(faults={"resets": resets, "loss": 0.1}, flow={"watch": 300})
    items = messages(system, 120, until=2500, seed=seed, retry_limit=4)
    asleep, awake = (play(system, items, awake=awake).golden for awake in (False, True))
    assert (asleep.cycle, asleep.digest) == (awake.cycle, awake.digest)


def test_streams_of_a_source_that_was_reset_begin_with_a_gap():
    """Those that are not used again, too: nothing is parked in them, so the golden model does not step their flush."""
    system = flow_system(flow={"ports": 4}, faults={"resets": [{"node": 0, "start": 6000, "cycles": 3}]})
    items = [
        Item(node=0, destination=1, payload=bytes([tag, 0, 0, 0]), tag=tag, not_before=8000 if tag > 4 else 0)
        for tag in range(1, 6)
    ]
    golden = Golden(system, Script.from_items(system, items), record=True)

    def gaps():
        here = Flow(golden._ni[1, int(golden.k.rooms[0].at) :])
        return [int(InStream(here, int(here.at_ins), index).gap) for index in range(4)]

    golden.run(5000)
    assert gaps() == [0, 0, 0, 0]
    golden.run(100_000, until_drained=True)
    assert golden.drained and gaps() == [1, 0, 1, 1]


def test_a_trace_changes_nothing():
    """With trace words the ports of nodes that sleep are looked at, too."""
    system = flow_system(workload={"load": 0.5, "max_length": 32}, flow={"watch": 128})
    plain, traced = Golden(system), Golden(system)
    plain.run(1500)
    traced.run(1500, words=np.zeros((1500, system.layout.words), np.uint64))
    assert traced.digest == plain.digest


@jit
def _never_rests(s):
    return False


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_a_flow_that_never_rests_does_the_same(seed, monkeypatch):
    """Flow steps in every cycle: what it leaves out while it sleeps (walks, attempts, hosts that wait) is nothing."""
    chance = random.Random(seed)
    resets = [{"node": chance.randrange(3), "start": chance.randrange(1200, 4000), "cycles": 5} for _ in range(seed)]
    system = flow_system(
        faults={"resets": resets, "loss": 0.02 * seed}, flow={"watch": chance.choice((64, 128, 300))},
        workload={"load": chance.choice((0.1, 0.5)), "max_length": 32},
    )  # fmt: skip
    asleep = Golden(system)
    with monkeypatch.context() as patch:
        patch.setitem(MODELS, "flow", SimpleNamespace(**vars(flow) | {"rests": _never_rests}))
        restless = Golden(system, awake=True)
    asleep.run(6000)
    restless.run(6000)
    assert asleep.digest == restless.digest


def test_generators():
    """Their sums agree; sockets and ports are those of their tags."""
    system = flow_system(5, workload={"count": 60, "load": 0.4, "max_length": 32}, faults={"loss": 0.1})
    golden = Golden(system)
    golden.run(3_000_000, until_drained=True)
    sums = {name: column.sum() for name, column in golden.sums.items()}
    assert golden.drained and sums["wrong"] == 0
    assert sums["sent"] == sums["received"] == 300 and sums["sent_sum"] == sums["received_sum"]


def in_bulk(count):
    system = flow_system(8, flow={"ports": 4, "cells": 8}, faults={"loss": 0.01})
    watched = play(system, messages(system, count, until=10 * count))
    assert len(watched.taken) == count


def test_many_messages_short():
    in_bulk(2000)


@pytest.mark.full
def test_many_messages():
    in_bulk(50_000)

"""Stacks of services: what passes, what is asleep, and a throwaway service that the project does not know."""

import dataclasses
import random
from itertools import pairwise

import numpy as np
import pytest

from lethe.spec import services, trace
from lethe.spec.events import Event
from lethe.spec.sections.faults import RESET_SCOPES
from lethe_sim.golden.model import Golden, Item, Script
from lethe_sim.golden.services import MODELS
from lethe_sim.golden.state import Delivery, Registers, ShownPort
from tests.helpers.flow_oracle import flow_system
from tests.helpers.golden_systems import make
from tests.helpers.plain_python import printed
from tests.helpers.relay_systems import deaths, relay_system
from tests.sim.golden import test_golden_sleep as sleep
from tests.sim.golden.services.ordering import MODEL, ORDER

SEEDS = (*range(20), *range(sleep.SEEDS, sleep.SEEDS + 10))  # the latter have options
PLAIN = """
from tests.sim.golden.services import test_golden_stack
print(test_golden_stack.fingerprint())
"""
OF_SERVICES = """
from tests.sim.golden.services import test_golden_stack
print(test_golden_stack.of_services())
"""
RESTLESS = """
from types import SimpleNamespace
from lethe_sim.golden.services import MODELS, loop
MODELS["loop"] = SimpleNamespace(**{name: has for name, has in vars(loop).items() if name != "rests"})
"""


def drawn(seed, most_slots=5):
    """A system of `test_golden_sleep` with loops, and resets of both scopes."""
    system, chance = sleep.drawn(seed), random.Random(f"stack {seed}")
    resets = tuple(dataclasses.replace(fault, scope=chance.choice(RESET_SCOPES)) for fault in system.faults.resets)
    flits = chance.choice((0, system.slot_flits))
    return system.replace(loop={"slots": chance.randrange(2, most_slots), "flits": flits}, faults={"resets": resets})


def looping(system, seed):
    """A script in which half of the datagrams go to the own node."""
    chance = random.Random(f"loops {seed}")
    for item in sleep.items(system, seed):
        yield item
        if chance.random() < 0.9:
            payload = chance.randbytes(chance.choice((0, 1, system.wire.mtu, system.wire.mtu + 1)))
            yield Item(
                node=item.node, destination=item.node, payload=payload, not_before=item.not_before,
                mode=chance.choice((0, 0, 0, 1, 2)), expect=chance.choice((0, 0, 1, 2)), tag=item.tag,
            )  # fmt: skip


def test_sleeping_changes_nothing():
    """Every event in its cycle, on systems with loops and scripts drawn by seed."""
    seen = set()
    for seed in SEEDS:
        system = drawn(seed)
        sleep.assert_same(seed, system, None)
        golden, shown = sleep.assert_same(seed, system, Script.from_items(system, looping(system, seed)))
        seen |= {(word & 0xFF) for _, _, _, word, _ in shown["events"]}
        assert golden.service_counters["loop"].sum() > 0 or seed not in range(3)
    assert {Event.LOOPED, Event.LOOP_COMPLETE, Event.LOOP_TAKE, Event.LOOP_RESET} <= seen


def test_a_node_with_an_idle_loop_sleeps():
    """Else the comparison says nothing."""
    system = make("wire", loop={"slots": 2}, workload={"kind": "pattern"})
    golden = Golden(system, Script.from_items(system, [Item(node=0, destination=0, payload=b"own", not_before=99)]))
    golden.run(60)
    assert (golden._plant.look > 90).all()
    golden.run(60)
    assert len(golden.taken) == 1 and golden._plant.look.min() > 1 << 60


@pytest.mark.parametrize("load", [0.05, 1.0])
def test_an_idle_loop_wakes_no_node(load):
    """A node is stepped when it is without a loop, and once more where a record waits for a slot."""
    workload = {"kind": "generator", "load": load, "count": 0}
    models = [Golden(make("tree", ni={"slots": 2}, loop={"slots": slots}, workload=workload)) for slots in (0, 2)]
    stepped = [0, 0]
    for cycle in range(1000):
        for i, golden in enumerate(models):
            stepped[i] += int((golden._plant.look <= cycle).sum())
            golden.run(1)
    plain, stacked = models
    assert plain.digest == stacked.digest
    assert stepped[0] <= stepped[1] <= stepped[0] + plain.sums["sent"].sum() + plain.busy.sum()
    assert stepped[0] < 1000 * plain.system.nodes


@pytest.mark.parametrize("seed", range(8))
def test_a_loop_that_nobody_uses_changes_nothing(seed):
    """Generators send to others only: all events are those of the system without loops."""
    system = sleep.drawn(seed)
    plain, stacked = Golden(system, record=True), Golden(system.replace(loop={"slots": 2}), record=True)
    for golden in (plain, stacked):
        golden.run(sleep.CYCLES)
    units = system.layout.first_service
    kept = [golden.take_events() for golden in (plain, stacked)]
    # A reset of a loop is told.
    assert kept[0].tolist() == kept[1][kept[1]["unit"] < units].tolist()
    assert {int(word) & 0xFF for word in kept[1]["word"][kept[1]["unit"] >= units]} <= {Event.LOOP_RESET}
    assert {name: found.tolist() for name, found in plain.sums.items()} == {
        name: found.tolist() for name, found in stacked.sums.items()
    }


def test_external_stimulus_repeats_a_script():
    """The stimulus of a script run with loops, given from outside, makes the same words in every cycle."""
    for seed in (1, 3, 4):
        system = drawn(seed).replace(ni={"control_classes": 2, "control_slots": 1, "slots": 4})
        script = Script.from_items(system, looping(system, seed))
        words = [np.zeros((1500, system.layout.words), np.uint64) for _ in range(2)]
        stimulus = np.zeros((1500, system.layout.stimulus_words * system.nodes), np.uint64)
        scripted, outside = Golden(system, script), Golden(system, external=True)
        scripted.run(1500, words=words[0], stimulus=stimulus)
        outside.run(1500, words=words[1], stimulus=stimulus)
        assert np.array_equal(words[0], words[1]) and scripted.digest == outside.digest
        unseen = Golden(system, script)
        unseen.run(1500)
        assert unseen.digest == scripted.digest and scripted.service_counters["loop"].sum() > 0


def fingerprint():
    """Digest, counters and a sum over all trace words of eventful runs with loops."""
    found = []
    for seed in (0, 2, 5):
        system = drawn(seed)
        golden = Golden(system, Script.from_items(system, looping(system, seed)))
        words = np.zeros((300, system.layout.words), np.uint64)
        golden.run(300, words=words)
        weights = np.arange(words.size, dtype=np.uint64).reshape(words.shape) * np.uint64(2654435761) | np.uint64(1)
        found.append((hex(golden.digest), int((words * weights).sum()), golden.service_counters["loop"].tolist()))
        found.append([tuple(letter) for letter in golden.taken])
    return found


@pytest.mark.push
@pytest.mark.parametrize("before", ["", RESTLESS], ids=["rests", "never rests"])
def test_compiler_off_gives_the_same(before):
    """Also with loops that never rest."""
    assert printed(before + PLAIN) == str(fingerprint())


def of_services():
    """Digests and counters of relay, of whose nodes one dies, and of flow, of whose nodes one is reset."""
    relayed = relay_system(
        4, faults=deaths((3, 400)) | {"loss": 0.02}, relay={"notice": 300, "spread": 100},
        workload={"load": 0.2, "count": 6},
    )  # fmt: skip
    flowing = flow_system(
        faults={"loss": 0.1, "resets": [{"node": 1, "start": 500, "cycles": 3}]}, workload={"load": 0.5, "count": 0}
    )
    found = []
    for name, system in (("relay", relayed), ("flow", flowing)):
        golden = Golden(system)
        golden.run(1000)
        found.append((golden.digest, golden.service_counters[name].sum(axis=0).tolist()))
    return found


@pytest.mark.push
def test_relay_and_flow_in_plain_python():
    assert printed(OF_SERVICES) == str(of_services())


@pytest.fixture
def ordered(monkeypatch):
    """A throwaway service, registered above the loop."""
    monkeypatch.setattr(services, "SERVICES", (*services.SERVICES, ORDER))
    monkeypatch.setitem(MODELS, "order", MODEL)


def arrivals(**sections):
    """The numbers of datagrams from node 0 to node 1 over lossy links, as they come to node 1."""
    system = make("tree", faults={"loss": 0.3}, run={"seed": 5}, **sections)
    own = [Item(node=0, destination=0, payload=bytes([number])) for number in range(20 if system.loop.slots else 0)]
    others = [Item(node=0, destination=1, payload=bytes([number])) for number in range(60)]
    golden = Golden(system, Script.from_items(system, [*others[:30], *own, *others[30:]]))
    golden.run(200_000, until_drained=True)
    assert golden.drained and len(golden.taken) == len(others) + len(own)
    assert [d.payload for d in golden.taken if d.node == 0] == [item.payload for item in own]
    return [d.payload[0] for d in golden.taken if d.node == 1]


@pytest.mark.push
def test_a_throwaway_service_keeps_the_order(ordered):
    found = arrivals(loop={"slots": 2})
    assert found == sorted(found)


def test_without_it_datagrams_overtake():
    for sections in ({}, {"loop": {"slots": 2}}):
        assert any(a > b for a, b in pairwise(arrivals(**sections)))


@pytest.mark.push
def test_a_throwaway_service_sleeps(ordered):
    for seed in range(6):
        system = drawn(seed)
        assert [service.name for service in system.services] == ["loop", "order"]
        sleep.assert_same(seed, system, Script.from_items(system, looping(system, seed)))


@pytest.mark.push
def test_idle_is_that_of_the_start_of_a_cycle(ordered):
    """Ports are worked out when a node is stepped, after flits have arrived: what is shown knows nothing of them."""
    began = 0
    for seed in range(4):
        system = drawn(seed)
        golden = Golden(system, Script.from_items(system, looping(system, seed)), awake=True)
        words = np.zeros((1, system.layout.words), np.uint64)
        flags = np.arange(system.nodes) * system.layout.ni_words + trace.NI_FLAGS
        shown = golden.k.at_port + golden.k.port_width - golden.k.streams * Delivery.size - ShownPort.size
        for cycle in range(1500):
            golden.run(1, words=words)
            idle = words[0, flags] >> np.uint64(trace.NI_FLAG_BITS.index("idle")) & np.uint64(1) == 1
            living = golden._ni[:, Registers.in_reset] == 0
            assert (golden._ni[living, shown + ShownPort.idle] == idle[living]).all()
            began += int((golden._ni[idle, Registers.under_way] == cycle + 1).sum())
    assert began > 0

"""A service that keeps merge port, acceptance port and sweep to itself: RTL and golden model, in lockstep."""

# pyright: reportAttributeAccessIssue=false

import numpy as np
import pytest
from amaranth.sim import Simulator

from lethe.host import host_signature
from lethe.services import stack
from lethe.spec import services
from lethe.spec.config import System
from lethe.spec.events import Drop, Event
from lethe.spec.ports import ni_ports
from lethe.spec.services.loop import LOOP
from lethe.system import SystemTop
from lethe_sim.golden.model import Golden
from lethe_sim.golden.services import MODELS
from tests.helpers.gate import BITS, GATE, MODEL, RESTING, Gate

CYCLES = 700
LOOPS = (0, pytest.param(2, marks=pytest.mark.full))
KEPT = ("merge_valid", "merge_word", "arrival_valid", "refusal", "delivered", "sweep_valid")


def system_of(loop: int) -> System:
    return System.make(
        topology={"kind": "wire"},
        wire={"mtu": 8},
        ni={
            "slots": 4, "sets": 2, "ways": 2, "merge_bits": BITS, "acceptance": True, "sweep": True,
            "statistics": False,
        },
        timers={"slack": 0, "jitter_bits": 1},
        faults={"loss": 0.1, "resets": [{"node": 1, "start": 400, "cycles": 3}]},
        workload={"load": 0.6, "min_length": 4, "max_length": 8, "count": 0},
        loop={"slots": loop},
    )  # fmt: skip


@pytest.fixture
def gated(monkeypatch):
    """The service is in the tables, below the loop."""
    monkeypatch.setattr(services, "SERVICES", (GATE, LOOP))
    monkeypatch.setitem(stack.UNITS, "gate", Gate)
    monkeypatch.setitem(MODELS, "gate", MODEL)
    return monkeypatch


def golden_words(system: System) -> tuple[np.ndarray, Golden]:
    golden = Golden(system, record=True)
    words = np.zeros((CYCLES, system.layout.words), np.uint64)
    golden.run(CYCLES, words=words)
    return words, golden


@pytest.mark.parametrize("loop", LOOPS)
def test_rtl_and_golden_model_agree(gated, loop):
    system = system_of(loop)
    words, golden = golden_words(system)
    top = SystemTop(system)
    assert not any(KEPT[0] in name or "arrival" in name for name in top.signature.members)
    expected = [sum(int(word) << 64 * i for i, word in enumerate(row)) for row in words]

    async def process(ctx):
        for cycle, row in enumerate(expected):
            assert ctx.get(top.watch) == row, cycle
            await ctx.tick()

    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
    found = golden.take_events()
    events = [(int(word) & 0xFF, int(word) >> 8 & 0xFF) for word in found["word"]]
    assert events.count((Event.DROP, Drop.EARLY)) > 3
    assert sum(event == Event.SWEPT for event, _ in events) > 3
    # What comes after an early one: its repeat.
    assert sum(event == Event.REPEAT for event, _ in events) > 3


@pytest.mark.parametrize("loop", LOOPS)
def test_rests_and_sleep_change_nothing(gated, loop):
    """Whether the services rest, and whether NIs sleep: all events are the same."""
    system = system_of(loop)
    words, golden = golden_words(system)
    gated.setitem(MODELS, "gate", RESTING)
    resting, twin = golden_words(system)
    assert np.array_equal(words, resting) and golden.digest == twin.digest
    for awake in (False, True):
        other = Golden(system, awake=awake)
        other.run(CYCLES)
        assert other.digest == golden.digest


def test_the_port_above_lacks_what_is_kept(gated):
    """Neither its ports nor its stimulus words are there, and the NI's own are."""
    system = system_of(0)
    assert system.layout.stimulus_words == 6
    assert not set(ni_ports(system)) & {*KEPT}
    assert not {"merge", "arrival", "refusal", "sweep"} & set(host_signature(system, system.top_port).members)
    gated.setattr(services, "SERVICES", (LOOP,))
    plain = system_of(2)
    assert plain.layout.stimulus_words == 10 and set(ni_ports(plain)) >= {*KEPT}
    assert {"merge", "arrival", "refusal", "sweep"} <= set(host_signature(plain, plain.top_port).members)

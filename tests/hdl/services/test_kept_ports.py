"""A service that keeps merge port, acceptance port and sweep to itself: RTL and golden model, in lockstep."""

import json
from types import SimpleNamespace

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
from tests.helpers.once import once
from tests.helpers.plain_python import printed

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
    register(monkeypatch)
    return monkeypatch


def register(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(services, "SERVICES", (GATE, LOOP))
    patch.setitem(stack.UNITS, "gate", Gate)
    patch.setitem(MODELS, "gate", MODEL)


def run(system: System, model: SimpleNamespace = MODEL, awake: bool = False) -> tuple[list[list[int]], Golden]:
    """The watch words of every cycle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODELS, "gate", model)
        golden = Golden(system, record=True, awake=awake)
    words = np.zeros((CYCLES, system.layout.words), np.uint64)
    golden.run(CYCLES, words=words)
    return words.tolist(), golden


def runs(loop: int) -> dict:
    """The golden model's watch words and events, and whether services that rest and NIs that are awake change any."""
    with pytest.MonkeyPatch.context() as patch:
        register(patch)
        words, golden = run(system_of(loop))
        others = [run(system_of(loop), RESTING)]
        others += [run(system_of(loop), model, awake=True) for model in (MODEL, RESTING)]
    events = [(int(word) & 0xFF, int(word) >> 8 & 0xFF) for word in golden.take_events()["word"]]
    same = [[words == found, golden.digest == other.digest] for found, other in others]
    return {"words": words, "events": events, "same": same}


@pytest.fixture
def told(loop, tmp_path_factory) -> dict:
    """`runs` without the compiler, which would take longer than all of them."""
    code = f"import json; from {__name__} import runs; print(json.dumps(runs({loop})))"
    return once(tmp_path_factory, f"kept ports {loop}", lambda: json.loads(printed(code)))


@pytest.mark.push
@pytest.mark.parametrize("loop", LOOPS)
def test_rtl_and_golden_model_agree(gated, loop, told):
    top = SystemTop(system_of(loop))
    assert not any(KEPT[0] in name or "arrival" in name for name in top.signature.members)
    expected = [sum(word << 64 * i for i, word in enumerate(row)) for row in told["words"]]
    assert len(expected) == CYCLES

    async def process(ctx):
        for cycle, row in enumerate(expected):
            assert ctx.get(top.watch) == row, cycle
            await ctx.tick()

    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
    assert told["events"].count([Event.DROP, Drop.EARLY]) > 3
    assert sum(event == Event.SWEPT for event, _ in told["events"]) > 3
    # What comes after an early one: its repeat.
    assert sum(event == Event.REPEAT for event, _ in told["events"]) > 3


@pytest.mark.push
@pytest.mark.parametrize("loop", LOOPS)
def test_rests_and_sleep_change_nothing(told):
    """Whether the services rest, and whether NIs sleep: all trace words and events are the same."""
    assert told["same"] == [[True, True]] * 3


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

"""The same results with the compiler off, and the fabric against an outside truth."""

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.sections.flow import OF_NI as FLOW_NI
from lethe.spec.sections.relay import OF_NI as RELAY_NI
from lethe_sim.golden.compile import JIT
from lethe_sim.golden.model import Golden
from lethe_sim.golden.services.stack import stack_of
from lethe_sim.golden.study.acceptance import stage_acceptance
from tests.helpers.golden_systems import make
from tests.helpers.plain_python import printed

CYCLES = 400
SCRIPT = """
from tests.sim.golden import test_golden_compile
print(test_golden_compile.fingerprint())
"""


def fingerprint():
    """Digest, counters and a sum over all trace words of a few eventful runs."""
    found = []
    for name, flit_bits, queue in (
        ("tree", 64, 0), ("mesh", 16, 0), ("crossbar", 128, 0), ("wire", 32, 0), ("tree", 32, 1), ("mesh", 128, 4),
    ):  # fmt: skip
        faults = {
            "loss": 0.1, "flip": 0.005, "links": [{"link": 1, "start": 90, "end": 130}],
            "resets": [{"node": 1, "start": 250, "cycles": 3}], "stalls": [{"node": 0, "start": 100, "end": 300}],
        }  # fmt: skip
        workload, router = {"load": 1.0, "count": 0}, {"queue": queue, "max_wait": 9}
        golden = Golden(make(name, wire={"flit_bits": flit_bits}, faults=faults, workload=workload, router=router))
        system = golden.system
        words = np.zeros((CYCLES, system.layout.words), np.uint64)
        golden.run(CYCLES, words=words)
        weights = np.arange(words.size, dtype=np.uint64).reshape(words.shape) * np.uint64(2654435761) | np.uint64(1)
        found.append((hex(golden.digest), int((words * weights).sum()), golden.counters.sum(axis=0).tolist()))
        found.append({name: values.tolist() for name, values in golden.sums.items()})
        found.append(golden.router_counters.tolist() + golden.link_counters.tolist())
    return found


@pytest.mark.push
def test_compiler_off_gives_the_same():
    """Digest, counters, sums and every trace word agree between compiled and plain Python."""
    assert printed(SCRIPT) == str(fingerprint())


@pytest.mark.parametrize(("arity", "levels", "load"), [(2, 4, 1.0), (4, 3, 0.6), (2, 6, 0.5), (8, 2, 0.9)])
def test_butterfly_accepts_what_patel_says(arity, levels, load):
    """One-flit worms without repeats: p(i+1) = 1 − (1 − p(i)/k)^k, within half a percent."""
    system = System.make(topology={"kind": "fly", "arity": arity, "levels": levels})
    cycles = 1_000_000 // system.nodes
    heads, passed = stage_acceptance(system, load, cycles)
    expected = load
    for stage in range(levels):
        assert heads[stage] / (system.nodes * cycles) == pytest.approx(expected, rel=0.005)
        expected = 1 - (1 - expected / arity) ** arity
        assert passed[stage] / (system.nodes * cycles) == pytest.approx(expected, rel=0.005)


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_what_is_made_for_one_service_has_no_name_of_another():
    """Compiled code from disk is linked by name: of two services that two processes compiled, one would be both."""
    made = ("ports", "arrange", "step", "reset", "idle", "next_look", "outputs")
    systems = [System.make(flow={"ports": 4}, ni=FLOW_NI), System.make(relay={"slots": 16}, ni=RELAY_NI)]
    names = [getattr(stack_of(system.services), name).py_func.__qualname__ for system in systems for name in made]
    assert len(set(names)) == len(names)

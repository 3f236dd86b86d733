"""Whole systems drawn by seed, RTL and golden model in lockstep: every topology, width and fault."""

import pytest

from lethe.spec.check import QUEUES
from lethe.spec.config import System
from lethe_sim.golden.model import Golden
from lethe_sim.lockstep import cosim
from lethe_sim.lockstep.matrix import KINDS, draw
from lethe_sim.lockstep.simulators import has_icarus

CYCLES = 20_000


def test_system(seed):
    """Twenty thousand cycles of traffic and faults, then the counters: with five seeds, 100,000 cycles in all."""
    system = draw(seed, cycles=CYCLES)
    again = f"pytest cocotb_tests/test_matrix.py -k 'test_system[{seed}]' --seeds {seed + 1}"
    result = cosim(system, cycles=CYCLES, until_drained=False, reproduce=again)
    assert result.equal, result.report
    assert result.cycles >= CYCLES
    assert result.digest == result.golden_digest
    if system.ni.statistics:
        assert result.counters > 0


def test_every_topology_takes_its_turn():
    """Ten seeds give every topology twice; the five of CI once, 20,000 cycles each."""
    kinds = [draw(seed).topology.kind for seed in range(10)]
    assert {kind: kinds.count(kind) for kind in KINDS} == dict.fromkeys(KINDS, 2)


def test_every_topology_has_every_queue():
    """Within twenty seeds; within ten each has some."""
    drawn = [draw(seed) for seed in range(20)]
    assert {(s.topology.kind, s.router.queue) for s in drawn} == {(kind, queue) for kind in KINDS for queue in QUEUES}
    assert {s.topology.kind for s in drawn[:10] if s.router.queue} == {*KINDS}


def test_time_outs_are_measured_in_some_and_fixed_in_others():
    """Within twenty seeds with every topology; within the five of CI with queues and without."""
    drawn = [draw(seed) for seed in range(20)]
    assert {(s.topology.kind, s.measured) for s in drawn} == {(kind, m) for kind in KINDS for m in (False, True)}
    assert len({(s.measured, s.router.queue > 0) for s in drawn[:5]}) == 4


@pytest.mark.skipif(not has_icarus(), reason="Icarus Verilog is not installed")
def test_second_simulator():
    """The same lockstep under Icarus: four-valued logic, another scheduler."""
    system = draw(0, cycles=1000)
    result = cosim(system, cycles=1000, until_drained=False, simulator="icarus")
    assert result.equal, result.report


@pytest.mark.full
@pytest.mark.parametrize("load", (0.05, 1.0))
def test_sixty_four_nodes(load):
    """The benchmark's 4-ary 3-tree, from the first record until it has drained; building it takes minutes."""
    system = System.make(
        source=f"64 nodes, load {load:g}",
        topology={"kind": "tree", "arity": 4, "levels": 3},
        workload={"load": load, "min_length": 32, "max_length": 32, "count": 3},
    )
    result = cosim(system, cycles=20_000)
    assert result.equal, result.report
    assert result.drained
    golden = Golden(system)
    golden.run(20_000, until_drained=True)
    assert result.digest == golden.digest
    assert result.cycles == golden.cycle

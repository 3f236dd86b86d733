"""Whole systems of the third implementation beside the golden model: words, digest, sums of the checkers."""

from typing import NamedTuple

import derived
import fabric
import numpy as np
import pytest
import traffic
from beside import drawn
from network import Network

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.toml import dump
from lethe_sim.golden.model import Golden
from lethe_sim.lockstep import matrix

SUMS = ("sent", "sent_sum", "received", "received_sum", "wrong")


class Run(NamedTuple):
    """What the golden model made of a system."""

    text: str
    what: str
    rows: list[list[int]]
    digest: int
    sums: list[tuple[int, ...]]


def run(system: System, cycles: int) -> Run:
    golden = Golden(system)
    rows = np.zeros((cycles, trace.Layout(system.graph, system.ni.control_classes).words), np.uint64)
    golden.run(cycles, words=rows)
    sums = golden.sums
    of_nodes = [tuple(int(sums[name][node]) for name in SUMS) for node in range(system.nodes)]
    return Run(dump(system), system.source, rows.tolist(), int(golden.digest), of_nodes)


def difference(golden: Run) -> str:
    """Where the third system first differs, for a reader; empty if nowhere."""
    network = Network(golden.text)
    for cycle, row in enumerate(golden.rows):
        words = network.step()
        if words != row:
            lines = [f"{golden.what}, cycle {cycle}"]
            lines += [
                f"  {name}: model {theirs:#x}, third {mine:#x}"
                for name, theirs, mine in zip(network.word_names(), row, words, strict=True)
                if theirs != mine
            ]
            return "\n".join([*lines, "configuration:", golden.text])
    if (network.digest, network.sums) != (golden.digest, golden.sums):
        return f"{golden.what}: model {golden.digest:#x}, {golden.sums}; third {network.digest:#x}, {network.sums}"
    return ""


def agrees(system: System, cycles: int) -> Run:
    golden = run(system, cycles)
    told = difference(golden)
    assert not told, told
    return golden


@pytest.mark.parametrize("seed", range(20))
def test_systems_of_the_matrix(seed):
    """All topologies and sizes of queues; losses, flips, dead links, stalls and resets within the cycles."""
    agrees(matrix.draw(seed, cycles=200), 200)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(40))
def test_systems_of_the_matrix_at_length(seed):
    agrees(matrix.draw(seed, cycles=2000), 2500)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
def test_drawn_systems(seed):
    faults = {"loss": 0.1, "flip": 0.001} if seed % 2 else {}
    agrees(drawn(seed).replace(workload={"load": 0.3, "count": 0}, faults=faults), 1500)


def test_a_generator_stops_in_the_cycle_it_should():
    """Each phase of the generator meets the last cycle once; three datagrams are three."""
    wire = System.make(topology={"kind": "wire"}, workload={"load": 1.0, "count": 0})
    sent = [agrees(wire.replace(workload={"stop": stop}), 150).sums[0][0] for stop in range(60, 68)]
    assert len(set(sent)) > 1
    assert agrees(wire.replace(workload={"count": 3}), 150).sums[0][0] == 3


@pytest.mark.parametrize("length", [511, 512, 513, 1100])
def test_payloads_beyond_a_count_of_bytes(length):
    """The words of a payload are counted modulo 256."""
    system = System.make(
        topology={"kind": "wire"},
        wire={"mtu": 1100, "flit_bits": 128, "generation_bits": 16},
        workload={"load": 1.0, "min_length": length, "max_length": length, "count": 2},
    )
    assert all(sums[2] == 2 and sums[4] == 0 for sums in agrees(system, 700).sums)


@pytest.mark.parametrize(
    ("where", "name", "instead"),
    [
        (fabric.Link, "swallowing", property(lambda link: False, lambda link, to: None)),
        (traffic, "MASK32", 0),
        (derived, "event_hash", lambda cycle, unit, lane, word, uid: word),
    ],
    ids=["a lost worm is only its head", "a payload is not complemented", "the digest is a sum of words"],
)
def test_a_planted_error_is_seen(where, name, instead, monkeypatch):
    crossbar = {"kind": "crossbar", "nodes": 3}
    golden = run(System.make(topology=crossbar, faults={"loss": 0.3}, workload={"load": 1.0}), 200)
    assert difference(golden) == ""
    monkeypatch.setattr(where, name, instead, raising=False)
    assert difference(golden)

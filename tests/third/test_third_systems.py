"""Whole systems of the third implementation beside the golden model: words, digest, sums of the checkers."""

import random
from itertools import chain
from typing import NamedTuple

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.toml import dump
from lethe_sim.golden.model import Golden
from lethe_sim.golden.script import Item, Script
from lethe_sim.lockstep import matrix
from tests.third import derived, fabric, traffic
from tests.third.beside import drawn
from tests.third.network import Network
from tests.third.ni import Record
from tests.third.traffic import Datagram

SUMS = ("sent", "sent_sum", "received", "received_sum", "wrong")


class Run(NamedTuple):
    """What the golden model made of a system."""

    text: str
    what: str
    rows: list[list[int]]
    digest: int
    sums: list[tuple[int, ...]]
    scripts: list[list[Datagram]] | None
    stimulus: list[list[int]]


def run(system: System, cycles: int, items: list[list[Item]] | None = None) -> Run:
    """A run with the generators, or with the items of each node's host."""
    script = Script.from_items(system, chain.from_iterable(items)) if items else None
    golden = Golden(system, script)
    stimulus = np.zeros((cycles, system.nodes * system.layout.stimulus_words), np.uint64) if items else None
    rows = np.zeros((cycles, system.layout.words), np.uint64)
    golden.run(cycles, words=rows, stimulus=stimulus)
    sums = golden.sums
    of_nodes = [tuple(int(sums[name][node]) for name in SUMS) for node in range(system.nodes)]
    scripts = None
    if items:
        scripts = [[_datagram(system, item) for item in of_node] for of_node in items]
        of_nodes = []
    offered = [] if stimulus is None else stimulus.tolist()
    return Run(dump(system), system.source, rows.tolist(), int(golden.digest), of_nodes, scripts, offered)


def _datagram(system: System, item: Item) -> Datagram:
    size = system.wire.flit_bits // 8
    beats = [int.from_bytes(item.payload[at : at + size], "little") for at in range(0, len(item.payload), size)]
    record = Record(
        destination=item.destination,
        cls=item.cls,
        mode=item.mode,
        length=len(item.payload),
        tag=item.tag,
        deadline=item.deadline,
        retry_limit=item.retry_limit,
        expect=item.expect,
    )
    return Datagram(record, beats, item.not_before)


def difference(golden: Run) -> str:
    """Where the third system first differs, for a reader; empty if nowhere."""
    network = Network(golden.text, golden.scripts)
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
        if golden.scripts and network.stimulus != golden.stimulus[cycle]:
            return f"{golden.what}, cycle {cycle}: stimulus model {golden.stimulus[cycle]}, third {network.stimulus}"
    if (network.digest, network.sums) != (golden.digest, golden.sums):
        return f"{golden.what}: model {golden.digest:#x}, {golden.sums}; third {network.digest:#x}, {network.sums}"
    return ""


def agrees(system: System, cycles: int, items: list[list[Item]] | None = None) -> Run:
    golden = run(system, cycles, items)
    told = difference(golden)
    assert not told, told
    return golden


@pytest.mark.parametrize("seed", range(20))
def test_systems_of_the_matrix(seed):
    """All topologies and sizes of queues; losses, flips, dead links, stalls and resets within the cycles."""
    agrees(matrix.draw(seed, cycles=200, options=seed >= 10), 200)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(40))
def test_systems_of_the_matrix_at_length(seed):
    agrees(matrix.draw(seed, cycles=2000, options=seed % 2 == 1), 2500)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
def test_drawn_systems(seed):
    faults = {"loss": 0.1, "flip": 0.001} if seed % 2 else {}
    agrees(drawn(seed).replace(workload={"load": 0.3, "count": 0}, faults=faults), 1500)


#: Systems of which nodes die, or are away for a while.
FAILING = (
    {"topology": {"kind": "wire"}},
    {"topology": {"kind": "crossbar", "nodes": 3}, "ni": {"reject": True}},
    {"topology": {"kind": "mesh", "columns": 2, "rows": 2}, "router": {"queue": 1}},
)


@pytest.mark.parametrize("seed", range(6))
def test_nodes_that_die_or_are_away(seed):
    """One dies, one is reset in its absence; whoever is left may call them silent."""
    chance, cycles, kind = random.Random(f"third {seed}"), 300, FAILING[seed % len(FAILING)]
    nodes = {"wire": 2, "crossbar": 3, "mesh": 4}[kind["topology"]["kind"]]
    dead, away = chance.randrange(nodes), chance.randrange(nodes)
    start, left = chance.randrange(40, cycles), chance.randrange(cycles)
    system = System.make(
        f"third seed {seed}",
        **kind,
        faults={
            "deaths": [{"node": dead, "start": start}],
            "absences": [{"node": away, "start": left, "end": left + chance.choice((1, 30, cycles))}],
            "resets": [{"node": away, "start": left + 10, "cycles": 20}],
            "loss": chance.choice((0.0, 0.1)),
        },
        timers={
            "silent_after": chance.choice((0, 1, 3)), "silent_probe": 50, "backoff_steps": 0, "ack_limit": 60,
            "slack": 0, "ceiling": 0,
        },
        workload={"retry_limit": 2, "load": 0.6, "count": 0},
    )  # fmt: skip
    agrees(system, cycles + 50)


def test_a_generator_stops_in_the_cycle_it_should():
    """Each phase of the generator meets the last cycle once; three datagrams are three."""
    wire = System.make(topology={"kind": "wire"}, workload={"load": 1.0, "count": 0})
    sent = [agrees(wire.replace(workload={"stop": stop}), 150).sums[0][0] for stop in range(60, 68)]
    assert len(set(sent)) > 1
    assert agrees(wire.replace(workload={"count": 3}), 150).sums[0][0] == 3


@pytest.mark.parametrize("seed", range(10))
def test_script_hosts(seed):
    """Every class and mode, lengths from 0, cycles before which nothing is offered, under the faults of the matrix."""
    system = matrix.draw(seed, cycles=300, options=seed % 2 == 1)
    agrees(system, 300, _items(system, seed, 12))


def _items(system: System, seed: int, count: int) -> list[list[Item]]:
    """Datagrams of each node: in bursts, and some of them late."""
    chance, found = random.Random(f"third {seed}"), []
    for node in range(system.nodes):
        others, items, cycle = [n for n in range(system.nodes) if n != node], [], 0
        for _ in range(count):
            cycle += chance.choice((0, 0, 0, 1, 7, 40))
            items.append(
                Item(
                    node=node,
                    destination=chance.choice(others),
                    payload=chance.randbytes(chance.choice((0, 1, chance.randrange(system.wire.mtu), system.wire.mtu))),
                    not_before=cycle,
                    cls=chance.getrandbits(system.wire.class_bits),
                    mode=chance.choice((0, 0, 1)),
                    deadline=chance.choice((0, 0, 100)),
                    retry_limit=chance.choice((0, 2)),
                    tag=chance.getrandbits(system.wire.tag_bits),
                    expect=chance.choice((0, 0, 0, 1)),
                )
            )
        found.append(items)
    return found


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

"""Kernels: columns in groups, the fabric's distances, the order of worms in queues, and worms without a launch."""

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.stages import ACTS
from lethe.spec.wire import pack_uid
from lethe_sim.ledger import columns
from lethe_sim.ledger.columns import NULL, most_before, runs, starts_of
from lethe_sim.ledger.datagrams import ledger_of
from lethe_sim.ledger.group import COLUMNS, Group, Run
from lethe_sim.ledger.worms import hops, overtaking, passages, unmatched

SYSTEMS = [
    {"kind": "wire"},
    {"kind": "crossbar", "nodes": 5},
    {"kind": "fly", "arity": 2, "levels": 3},
    {"kind": "tree", "arity": 2, "levels": 4},
    {"kind": "tree", "arity": 4, "levels": 2},
    {"kind": "mesh", "columns": 3, "rows": 4},
]


@pytest.mark.parametrize("topology", SYSTEMS, ids=lambda t: t["kind"])
def test_hops(topology):
    graph = System.make(topology=topology).graph
    pairs = [(a, b) for a in range(graph.nodes) for b in range(graph.nodes) if a != b]
    assert hops(graph, *np.array(pairs).T).tolist() == [graph.hops(a, b) for a, b in pairs]


@pytest.mark.parametrize("factor", ["the hashes'", 0])
def test_equal_rows_stand_together_whatever_their_hashes(monkeypatch, factor):
    if factor == 0:
        # Then all hashes are the same.
        monkeypatch.setattr(columns, "_HASH", np.uint64(0))
    chance = np.random.default_rng(3)
    rows = [chance.integers(-2, 3, 400) for _ in range(3)]
    order, starts = runs(*rows)
    told = [{tuple(int(row[place]) for row in rows) for place in part} for part in np.split(order, starts[1:])]
    assert all(len(kinds) == 1 for kinds in told)
    assert len(told) == len(set.union(*told)) and sorted(order) == list(range(400))


def test_the_most_before_is_of_the_own_run():
    chance = np.random.default_rng(4)
    key, values = np.sort(chance.integers(0, 9, 200)), chance.integers(NULL, 50, 200)
    found = most_before(starts_of(key), values)
    for place in range(200):
        before = [int(v) for k, v in zip(key[:place], values[:place], strict=True) if k == key[place]]
        assert found[place] == max(before, default=NULL)


SEND, ACK, FORGET, DUPLICATE, RELEASE, FORGOTTEN = (
    Event.SEND, Event.ACK, Event.FORGET, Event.DUPLICATE, Event.RELEASE, Event.FORGOTTEN,
)  # fmt: skip
# (cycle, node, event, peer, slot, generation) of datagrams of node 0; its messages act 16 cycles later at the latest.
LAUNCHES = [(100, 0, SEND, 7, 3, 0), (150, 0, FORGET, 7, 3, 0), (160, 0, SEND, 7, 3, 1), (170, 0, SEND, 7, 4, 0)]


def group_of(system: System, events: list[tuple]) -> Group:
    rows = [
        (cycle, unit, int(event), pack_uid(0, 1, slot, generation), peer, NULL, 0)
        for cycle, unit, event, peer, slot, generation in events
    ]
    table = {
        name: np.array(values, kind)
        for (name, kind), values in zip(COLUMNS.items(), zip(*rows, strict=True), strict=True)
    }
    return Group(Run(name="run", system=system, cycles=9999, drained=True), table)


@pytest.mark.parametrize(
    ("arrivals", "tree", "mesh"),
    [
        # A message waits, and nobody passes it.
        ([(210, 7, DUPLICATE, 0, 3, 0), (220, 7, FORGOTTEN, 0, 3, 0), (230, 7, DUPLICATE, 0, 3, 1)], [], []),
        # The first Send comes behind the Forget that was launched after it.
        ([(220, 7, FORGOTTEN, 0, 3, 0), (230, 7, DUPLICATE, 0, 3, 0)], [230], [230]),
        # One slot's messages pass another's, which a tree with pinned paths lets them do.
        ([(220, 7, DUPLICATE, 0, 4, 0), (230, 7, DUPLICATE, 0, 3, 1)], [], [230]),
        # None was launched for it, or too long ago.
        ([(165, 7, DUPLICATE, 0, 3, 1)], [165], [165]),
        ([(5000, 7, DUPLICATE, 0, 3, 1)], [5000], [5000]),
        # The other direction is another path.
        ([(180, 7, ACK, 0, 3, 1), (200, 0, RELEASE, 7, 3, 1), (210, 7, DUPLICATE, 0, 3, 1)], [], []),
    ],
)
def test_overtaking_worms(arrivals, tree, mesh):
    for topology, wanted in (
        ({"kind": "tree", "arity": 2, "levels": 3}, tree), ({"kind": "mesh", "columns": 8, "rows": 1}, mesh),
    ):  # fmt: skip
        system = System.make(topology=topology, router={"queue": 1, "max_wait": 20})
        group = group_of(system, [*LAUNCHES, *arrivals])
        rows = passages(group)
        assert rows is not None
        found = [case for table in overtaking(group.run, rows) for case in table["cycle"].to_pylist()]
        assert sorted(found) == wanted


def test_an_arrival_has_its_own_launch():
    """Without queues there is one cycle in which a worm can have been launched; one launch is one arrival's."""
    system = System.make(topology={"kind": "wire"})
    flight = system.format.control_flits - 1 + ACTS
    sends = [(100, 0, FORGET, 1, 0, 0), (200, 0, FORGET, 1, 0, 0)]

    def found(*cycles: int) -> list[tuple]:
        group = group_of(system, sends + [(cycle + flight, 1, FORGOTTEN, 0, 0, 0) for cycle in cycles])
        return [
            (row["cycle"] - flight, row["note"])
            for table in unmatched(group, ledger_of(group))
            for row in table.to_pylist()
        ]

    assert found() == found(100) == found(100, 200) == []
    assert found(101) == [(101, "1 arrived of 0 launched")]
    assert found(100, 100, 200) == [(100, "2 arrived of 1 launched")]

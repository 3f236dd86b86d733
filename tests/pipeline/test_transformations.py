"""Expressions agree with the specification, and wrong frames are refused."""

import pytest
from pyspark.sql import functions as F

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.wire import pack_uid
from lethe_sim.pipeline import transformations as T
from lethe_sim.pipeline.schema import EVENTS, check_events
from lethe_sim.pipeline.session import PipelineError

SYSTEMS = [
    {"kind": "wire"},
    {"kind": "crossbar", "nodes": 5},
    {"kind": "fly", "arity": 2, "levels": 3},
    {"kind": "tree", "arity": 2, "levels": 4},
    {"kind": "tree", "arity": 4, "levels": 2},
    {"kind": "mesh", "columns": 3, "rows": 4},
]


@pytest.mark.parametrize("topology", SYSTEMS, ids=lambda t: t["kind"])
def test_hops(spark, topology):
    graph = System.make(topology=topology).graph
    pairs = [(a, b) for a in range(graph.nodes) for b in range(graph.nodes) if a != b]
    frame = spark.createDataFrame(pairs, "a int, b int").withColumn("hops", T.hops(graph, F.col("a"), F.col("b")))
    assert [row["hops"] for row in frame.collect()] == [graph.hops(a, b) for a, b in pairs]


def test_schema_is_checked(spark):
    good = spark.createDataFrame([], EVENTS)
    assert check_events(good) is good
    with pytest.raises(PipelineError, match="column uid: is missing"):
        check_events(good.drop("uid"))
    with pytest.raises(PipelineError, match="column cycle: is int, not bigint"):
        check_events(good.withColumn("cycle", F.col("cycle").cast("int")))


SEND, ACK, FORGET, DUPLICATE, RELEASE, FORGOTTEN = (
    Event.SEND, Event.ACK, Event.FORGET, Event.DUPLICATE, Event.RELEASE, Event.FORGOTTEN,
)  # fmt: skip
# (cycle, node, event, peer, slot, generation) of datagrams of node 0; its messages act 12 cycles later at the earliest.
LAUNCHES = [(100, 0, SEND, 7, 3, 0), (150, 0, FORGET, 7, 3, 0), (160, 0, SEND, 7, 3, 1), (170, 0, SEND, 7, 4, 0)]


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
        ([(190, 7, ACK, 0, 3, 1), (200, 0, RELEASE, 7, 3, 1), (210, 7, DUPLICATE, 0, 3, 1)], [], []),
    ],
)
def test_overtaking_worms(spark, arrivals, tree, mesh):
    for topology, wanted in (
        ({"kind": "tree", "arity": 2, "levels": 3}, tree), ({"kind": "mesh", "columns": 8, "rows": 1}, mesh),
    ):  # fmt: skip
        system = System.make(topology=topology, router={"queue": 1, "max_wait": 20})
        rows = [
            ("run", cycle, unit, 0, int(event), pack_uid(0, 1, slot, generation), peer, None, 0, None, None)
            for cycle, unit, event, peer, slot, generation in [*LAUNCHES, *arrivals]
        ]
        found = T.overtaking_worms(spark.createDataFrame(rows, EVENTS), system)
        assert [row["cycle"] for row in found.orderBy("cycle").collect()] == wanted

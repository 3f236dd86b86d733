"""Expressions agree with the specification, and wrong frames are refused."""

import pytest
from pyspark.sql import functions as F

from lethe.spec.config import System
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

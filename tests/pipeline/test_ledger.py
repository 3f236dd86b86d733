"""The sums clear what is sound, and nothing else: whatever they clear, the rules clear too."""

import pytest
from golden_trace import write_golden
from make_trace import Account, small_system
from pyspark.sql import functions as F

from lethe.spec.config import System
from lethe_sim.pipeline import transformations as T
from lethe_sim.pipeline.jobs import read_events
from lethe_sim.pipeline.ledger import judged, ledger, wrapping
from lethe_sim.pipeline.metrics import measured
from lethe_sim.trace import TraceWriter, open_trace


def book_of(spark, trace):
    events, system = read_events(spark, *trace.files), trace.meta.system
    with wrapping(spark):
        book = judged(ledger(events, system, eras=False), system, drained=trace.meta.drained).cache()
    return events, system, book


def test_a_lossless_run_has_no_suspects(spark, tmp_path):
    account = Account(small_system(), loss=0.0)
    with TraceWriter(tmp_path / "t.parquet", account.system) as writer:
        writer.append(account.events)
        writer.finish(cycles=account.cycles, drained=True)
    _, _, book = book_of(spark, open_trace(tmp_path / "t.parquet"))
    assert (book.count(), book.where("suspect or open").count()) == (80, 0)


def test_worms_are_told_apart_by_power_sums(spark, good):
    """Up to two lost worms of a kind are no reason for suspicion; three are, unless none of the kind arrived."""
    events, system, book = book_of(spark, open_trace(good))
    found = T.worm(system)
    lost = (
        events.where((F.col("unit") < system.nodes) & F.col("uid").isNotNull() & found.family.isNotNull())
        .groupBy("uid", found.family.alias("family"))
        .agg(F.sum(F.when(found.launch, 1).otherwise(-1)).alias("lost"), F.count_if(~found.launch).alias("arrived"))
        .groupBy("uid")
        .agg(F.max(F.when(F.col("arrived") > 0, F.col("lost")).otherwise(0)).alias("most"))
    )
    most = {row["uid"]: row["most"] for row in lost.collect()}
    assert {1, 2, 3} <= set(most.values())
    assert {row["uid"] for row in book.where("suspect").collect()} == {uid for uid, n in most.items() if n > 2}


@pytest.mark.parametrize("mode", ["drained", "cut short"])
def test_sums_and_rows_measure_the_same(spark, tmp_path, mode):
    """What the sums say of a datagram is what its rows say: the columns of all metrics."""
    cycles = 60_000 if mode == "drained" else 400
    system = System.make(
        topology={"kind": "tree", "arity": 2, "levels": 3},
        faults={"loss": 0.1},
        workload={"load": 0.4, "count": 40, "min_length": 4, "max_length": 30, "retry_limit": 2},
        run={"seed": 3, "cycles": cycles},
    )
    write_golden(tmp_path / "t.parquet", system)
    trace = open_trace(tmp_path / "t.parquet")
    assert trace.meta.drained == (mode == "drained")
    events, system, book = book_of(spark, trace)
    rows = measured(
        T.touched_by_reset(T.datagrams(T.about_datagrams(events, system, wraps=False)), system, cycles), system
    )
    sums = {row["uid"]: row.asDict() for row in book.where("not suspect").drop("suspect", "open").collect()}
    assert len(sums) > 50
    assert sums == {row["uid"]: row.asDict() for row in rows.collect() if row["uid"] in sums}

"""`scripts/bench --only pipeline`: DuckDB answers as the audit does, for traces good and bad."""

from pathlib import Path

import pytest

from lethe.spec.events import Event
from lethe_sim.ledger.here import audit
from lethe_sim.pipeline.jobs import compare_traces
from tests.helpers.golden_trace import write_golden
from tests.helpers.make_trace import tamper


@pytest.fixture(scope="module")
def bench(script):
    return script("pipeline_bench")


@pytest.fixture(scope="module")
def trace(bench, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "t.parquet"
    write_golden(path, bench.large_system(20_000))
    return path


def lose_and_double(rows):
    delivered = [row for row in rows if row["event"] == Event.DELIVER]
    rows.remove(delivered[3])
    rows.append(dict(delivered[50]))


@pytest.mark.parametrize("change", [None, lose_and_double])
def test_both_audits_agree(bench, trace, tmp_path, change):
    path = trace
    if change is not None:
        path = tmp_path / "bad.parquet"
        tamper(path, trace, change, counters={})
    ours, theirs = audit(path), bench.duckdb_audit(path)
    # DuckDB is asked about datagrams, not about the order of rows.
    counts = {finding.name: finding.count for finding in ours.findings if finding.name != "misplaced"}
    assert counts == theirs["findings"]
    assert bool(ours.findings) == (change is not None)
    m = ours.metrics
    names = ("datagrams", "delivered", "once", "repeated", "overtaken")
    assert [getattr(m, name) for name in names] == [theirs[name] for name in names]
    assert (m.latency["median"], m.latency["greatest"]) == (theirs["median"], theirs["greatest"])


def test_both_comparisons_agree(spark, bench, trace, tmp_path):
    cycle = bench.alter(trace, tmp_path / "other.parquet")
    ours, theirs = (
        compare_traces(trace, tmp_path / "other.parquet", spark=spark),
        bench.duckdb_compare(trace, tmp_path / "other.parquet"),
    )
    assert ours.cycle == theirs["cycle"] == cycle and theirs["left"] == theirs["right"] == 1

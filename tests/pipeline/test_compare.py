"""Comparing traces finds the first event at which they part."""

import pytest
from make_trace import small_system, tamper, write_trace

from lethe.spec.events import Event
from lethe_sim.pipeline.jobs import compare_traces


def test_equal_by_digest_needs_no_spark(good, tmp_path):
    other = tmp_path / "rtl.parquet"
    write_trace(other, side="rtl")
    result = compare_traces(good, other, spark=None)
    assert result.equal and result.exit_code == 0 and "equal: " in result.text()


def test_equal_row_by_row(spark, good, tmp_path):
    other = tmp_path / "rtl.parquet"
    write_trace(other, side="rtl")
    assert compare_traces(good, other, rows=True, spark=spark).equal


def altered(rows):
    row = rows[400]
    row["detail"] += 1


def removed(rows):
    del rows[400]


def doubled(rows):
    rows.append(dict(rows[400]))


@pytest.mark.parametrize("change", [altered, removed, doubled])
def test_first_divergence(spark, good, tmp_path, change):
    seen = {}

    def both(rows):
        seen.update(rows[400])
        change(rows)
        rows[-1] = rows[-1] | {"peer": 0}

    other = tmp_path / "rtl.parquet"
    tamper(other, good, both, side="rtl")
    result = compare_traces(good, other, spark=spark)
    assert not result.equal and result.exit_code == 1
    assert (result.cycle, result.unit) == (seen["cycle"], seen["unit"])
    side = result.right_rows if change is doubled else result.left_rows
    assert [(row.event, row.detail) for row in side] == [(seen["event"], seen["detail"])]
    text = result.text()
    assert f"from cycle {seen['cycle']} on" in text and Event(seen["event"]).name in text
    assert result.left_around and result.right_around


def test_only_the_digest_differs(spark, good, tmp_path):
    other = tmp_path / "rtl.parquet"
    tamper(other, good, lambda rows: None, side="rtl")
    result = compare_traces(good, other, spark=spark)
    assert not result.equal and result.cycle is None and "no column holds" in result.text()


def test_other_configuration_is_noted(spark, good, tmp_path):
    other = tmp_path / "seed.parquet"
    write_trace(other, small_system(run={"seed": 6, "cycles": 50_000}))
    result = compare_traces(good, other, spark=spark)
    assert not result.equal and "different configurations" in result.text()

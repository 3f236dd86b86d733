"""Comparing traces finds the first event at which they part."""

import json

import numpy as np
import pyarrow as pa
import pytest

from lethe.spec.events import Event
from lethe_sim.pipeline.jobs import audit_trace, compare_traces
from lethe_sim.trace import TraceError, TraceWriter, open_trace
from tests.helpers.make_trace import LENIENT, IdleFabric, restate, small_system, tamper, write_trace


def test_equal_traces_need_no_spark(good, tmp_path):
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
    left = open_trace(good).table().to_pylist()
    here = [r for r in left if r["unit"] == seen["unit"] and abs(r["cycle"] - seen["cycle"]) <= 64]
    assert sum(row.unit == seen["unit"] for row in result.left_around) == min(24, len(here)) > 1
    assert result.right_around


def test_only_the_digest_differs(spark, good, tmp_path):
    other = tmp_path / "rtl.parquet"
    tamper(other, good, lambda rows: None, side="rtl")
    restate(other, digest=5)
    result = compare_traces(good, other, spark=spark)
    assert not result.equal and result.cycle is None and "one of the digests is not that of its rows" in result.text()


def test_digests_are_not_believed(spark, good, tmp_path):
    """The rows differ, the digests in the metadata do not."""
    other = tmp_path / "rtl.parquet"
    tamper(other, good, altered, side="rtl")
    restate(other, digest=open_trace(good).meta.digest)
    result = compare_traces(good, other, spark=spark)
    assert not result.equal and result.cycle == open_trace(good).table()["cycle"][400].as_py()
    assert "so one of the traces was changed" in result.text()


@pytest.mark.parametrize(
    "column, value", [("cycle", None), ("cycle", 1 << 62), ("unit", None), ("event", -1), ("tag", 7)]
)
def test_whatever_stands_in_a_row_it_is_compared(spark, good, tmp_path, column, value):
    table = open_trace(good).table()
    cells = table[column].to_pylist()
    cells[400] = value
    field = LENIENT.field(column)
    changed = table.set_column(table.schema.get_field_index(column), field, pa.array(cells, field.type))
    other = tmp_path / "rtl.parquet"
    tamper(other, good, lambda rows: None, side="rtl")
    restate(other, rows=changed)
    result = compare_traces(good, other, spark=spark)
    assert not result.equal and result.exit_code == 1 and len(result.left_rows) + len(result.right_rows) > 0
    assert result.text()


def test_other_configuration_is_noted(spark, good, tmp_path):
    other = tmp_path / "seed.parquet"
    write_trace(other, small_system(run={"seed": 6, "cycles": 50_000}))
    result = compare_traces(good, other, spark=spark)
    assert not result.equal and "different configurations" in result.text()


# Traces in parts.


def write_parts(path, side: str = "golden", change=None, late: int = 0):
    """The good trace's events in parts of 300, those after the first ``late`` given to ``change``."""
    idle = IdleFabric(small_system())
    events = idle.events
    events = events[np.lexsort((events["lane"], events["unit"], events["cycle"]))]
    if change is not None:
        change(events[late:])
    with TraceWriter(path, idle.system, side, part_events=300) as writer:
        writer.append(events)
        writer.finish(cycles=idle.cycles, drained=True)
    return open_trace(path)


def one_more_detail(events):
    events["word"][0] += 1 << 8


def test_a_trace_in_parts_equals_the_same_in_one_file(spark, good, tmp_path):
    trace = write_parts(tmp_path / "parts.parquet")
    assert len(trace.parts) > 3
    assert compare_traces(good, trace.path, rows=True, spark=spark).equal


def test_equal_parts_are_not_read(spark, tmp_path):
    """What the first parts hold is not looked at, so damage there does no harm; the difference is found behind them."""
    left, right = write_parts(tmp_path / "left"), write_parts(tmp_path / "right", "rtl", one_more_detail, 700)
    assert [a.digest == b.digest for a, b in zip(left.parts, right.parts, strict=True)][:4] == [True, True, False, True]
    for side in (left, right):
        file = side.files[0]
        rotten = bytearray(file.read_bytes())
        rotten[4:200] = bytes(196)
        file.write_bytes(rotten)
    result = compare_traces(left.path, right.path, spark=spark)
    assert not result.equal
    assert (result.left_rows[0].detail + 1, result.cycle) == (result.right_rows[0].detail, result.left_rows[0].cycle)


def test_a_difference_is_found_whatever_the_parts(spark, good, tmp_path):
    other = write_parts(tmp_path / "parts.parquet", "rtl", one_more_detail, 700)
    whole = compare_traces(good, other.path, spark=spark)
    parts = compare_traces(write_parts(tmp_path / "left").path, other.path, spark=spark)
    assert not whole.equal and (whole.cycle, whole.unit, whole.left_rows) == (parts.cycle, parts.unit, parts.left_rows)


def test_parts_that_only_look_different_are_followed_by_the_rest(spark, tmp_path):
    """A digest in the manifest of the first part is wrong, a row of the third is another."""

    left = write_parts(tmp_path / "left")
    right = write_parts(tmp_path / "right", "rtl", one_more_detail, 700)
    manifest = json.loads((right.path / "_trace.json").read_text())
    manifest["parts"][0]["digest"] ^= 1
    (right.path / "_trace.json").write_text(json.dumps(manifest))
    result = compare_traces(left.path, right.path, spark=spark)
    assert not result.equal and result.cycle is not None and result.cycle >= left.parts[2].first


def test_a_rotten_part_is_an_error_with_its_name(spark, tmp_path):
    left, right = write_parts(tmp_path / "left"), write_parts(tmp_path / "right", "rtl", one_more_detail, 700)
    file = right.files[2]
    rotten = bytearray(file.read_bytes())
    rotten[4:400] = bytes(396)
    file.write_bytes(rotten)
    with pytest.raises(TraceError, match=f"{file.name}: cannot be read to its end .*write the trace again"):
        compare_traces(left.path, right.path, spark=spark)
    with pytest.raises(TraceError, match=f"{file.name}: cannot be read to its end"):
        audit_trace(right.path, spark=spark)

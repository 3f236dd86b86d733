"""Trace files: what is written is read, all or nothing, and whatever is wrong is named with its cure."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lethe.spec.config import System
from lethe.spec.events import LANE_TX, Counter, Event
from lethe_sim.trace import RAW_EVENT, SCHEMA, TraceError, TraceWriter, digest, open_trace, summed_counters

SYSTEM = System.make(topology={"kind": "wire"}, faults={"resets": [{"node": 1, "start": 9}]}, run={"name": "a run"})


def events(start: int, count: int = 5) -> np.ndarray:
    rows = [(start + i, 0, LANE_TX, Event.SEND | 1 << 16, 1 << 36 | i) for i in range(count)]
    return np.array(rows, RAW_EVENT)


def write(path, **finish):
    with TraceWriter(path, SYSTEM, "rtl") as writer:
        writer.append(events(0))
        writer.append(events(5))
        return writer.finish(**({"cycles": 10, "drained": True} | finish))


def test_round_trip(tmp_path):
    path = tmp_path / "deep" / "t.parquet"
    counters = {"ni": {"SENDS": 10}}
    written = write(path, counters=counters, digest=digest(np.concatenate([events(0), events(5)])))
    trace = open_trace(path)
    assert trace.meta == written
    assert (trace.meta.run, trace.meta.side, trace.meta.cycles, trace.meta.events) == ("a run", "rtl", 10, 10)
    assert trace.meta.drained and trace.meta.counters == counters
    assert trace.meta.system.faults == SYSTEM.faults and trace.meta.system.topology == SYSTEM.topology
    assert trace.table().schema.equals(SCHEMA)
    assert trace.table(columns=["cycle"], filters=[("cycle", ">=", 8)])["cycle"].to_pylist() == [8, 9]
    assert sum(len(batch) for batch in trace.batches()) == 10
    assert [p.name for p in path.parent.iterdir()] == ["t.parquet"]


def test_lost_events_are_noticed(tmp_path):
    with pytest.raises(TraceError, match="events were lost on the way"):
        write(tmp_path / "t.parquet", digest=5)
    assert list(tmp_path.iterdir()) == []


def test_unfinished_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), TraceWriter(tmp_path / "t.parquet", SYSTEM) as writer:
        writer.append(events(0))
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_replaces_the_old_only_when_complete(tmp_path):
    path = tmp_path / "t.parquet"
    write(path)
    with TraceWriter(path, SYSTEM) as writer:
        writer.append(events(0, 3))
        assert open_trace(path).meta.events == 10
        writer.finish(cycles=3, drained=False)
    assert open_trace(path).meta.events == 3


def test_summed_counters():
    ni = np.zeros((2, 32), np.uint64)
    ni[:, Counter.ACKS] = 2, 3
    totals = summed_counters(ni, np.ones((4, 8), np.uint64), np.ones((5, 3)), {"sent": np.array([1, 2])})
    assert totals["ni"]["ACKS"] == 5 and totals["routers"]["UP"] == 4 and totals["links"]["DEAD"] == 5
    assert totals["sums"] == {"sent": 3} and json.dumps(totals)


def meta_of(path) -> dict:
    return json.loads(pq.ParquetFile(path).metadata.metadata[b"lethe.trace"])


def rewritten(path, table: pa.Table, **meta) -> None:
    text = json.dumps(meta_of(path) | meta)
    pq.write_table(table.replace_schema_metadata({"lethe.trace": text}), path)


def broken(path, how: str) -> None:
    table = open_trace(path).table()
    match how:
        case "missing":
            path.unlink()
        case "directory":
            path.unlink()
            path.mkdir()
        case "text":
            path.write_text("cycle,unit\n")
        case "empty":
            path.write_bytes(b"")
        case "truncated":
            path.write_bytes(path.read_bytes()[:-200])
        case "foreign":
            pq.write_table(table, path)
        case "column":
            rewritten(path, table.drop_columns(["uid"]))
        case "type":
            rewritten(path, table.set_column(1, "cycle", table["cycle"].cast(pa.int32())))
        case "extra":
            rewritten(path, table.append_column("colour", table["unit"]))
        case "version":
            rewritten(path, table, version="0")
        case "rows":
            rewritten(path, table.slice(1))
        case "metadata":
            rewritten(path, table, config="[topology]\nkind = 7")


@pytest.mark.parametrize(
    "how, told",
    [
        ("missing", "no such file; `lethe run` writes a trace"),
        ("directory", "is a directory; name a trace file in it"),
        ("text", "is not Parquet .*; write the trace again"),
        ("empty", "is not Parquet .*; write the trace again"),
        ("truncated", "is cut off .*; write the trace again"),
        ("foreign", "not a trace of Lethe; name a file"),
        ("column", "column uid: is missing; write the trace again"),
        ("type", "column cycle: is int32, not int64; write"),
        ("extra", "column colour: is not of this schema; write"),
        ("version", "has trace schema 0, not 1; write it again"),
        ("rows", "has 9 rows, but was written with 10; rows were removed"),
        ("metadata", "metadata is damaged .*topology.kind"),
    ],
)
def test_errors(tmp_path, how, told):
    path = tmp_path / "t.parquet"
    write(path)
    broken(path, how)
    with pytest.raises(TraceError, match=f"t.parquet: .*{told}"):
        open_trace(path)


def test_damaged_inside(tmp_path):
    path = tmp_path / "t.parquet"
    write(path)
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(data)
    with pytest.raises(TraceError, match="cannot be read to its end"):
        open_trace(path).table()


def test_wrong_side():
    with pytest.raises(ValueError, match="side must be one of golden, rtl, not 'left'"):
        TraceWriter("t.parquet", SYSTEM, "left")


def test_unwritable(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match="cannot be written"):
        TraceWriter(tmp_path / "file" / "t.parquet", SYSTEM)

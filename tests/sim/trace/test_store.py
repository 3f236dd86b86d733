"""Trace files: what is written is read, all or nothing, and whatever is wrong is named with its cure."""

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lethe.spec.config import System
from lethe.spec.events import LANE_TX, Counter, Event
from lethe_sim.trace import (
    RAW_EVENT,
    SCHEMA,
    Meta,
    TraceError,
    TraceWriteError,
    TraceWriter,
    digest,
    open_trace,
    summed_counters,
)
from tests.helpers import ROOT

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
    assert totals["sums"] == {"sent": 3} and json.dumps(totals) and "loop" not in totals
    services = {"loop": np.array([[5, 4, 3], [1, 1, 1]], np.uint64)}
    assert summed_counters(services=services) == {"loop": {"LOOPED": 6, "COMPLETED": 5, "TAKEN": 4}}


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
        ("directory", "is a directory without _trace.json; name a trace in it"),
        ("text", "is not Parquet .*; write the trace again"),
        ("empty", "is not Parquet .*; write the trace again"),
        ("truncated", "is cut off .*; write the trace again"),
        ("foreign", "not a trace of Lethe; name a file"),
        ("column", "column uid: is missing; write the trace again"),
        ("type", "column cycle: is int32, not int64; write"),
        ("extra", "column colour: is not of this schema; write"),
        ("version", "has trace schema 0, not 2; write it again"),
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


# Traces in parts.


def write_parts(path, chunk: int = 7, **arguments):
    """30 events, one in each cycle but for two of three; parts of at least eight, of which the second ends in one."""
    rows = events(0, 30)
    rows["cycle"][10:13] = 10
    rows["cycle"][15:18] = 15
    with TraceWriter(path, SYSTEM, "rtl", part_events=8, **arguments) as writer:
        for start in (0, 13, 20) if chunk == 7 else (0,):
            end = {0: 13, 13: 20, 20: 30}[start] if chunk == 7 else 30
            writer.append(rows[start:end])
        meta = writer.finish(cycles=30, drained=True, digest=digest(rows))
    return rows, meta


def test_a_large_trace_is_a_directory_of_parts(tmp_path):
    path = tmp_path / "t.parquet"
    rows, meta = write_parts(path)
    trace = open_trace(path)
    assert trace.meta == meta and meta.events == 30 and meta.digest == digest(rows)
    assert sorted(p.name for p in path.iterdir()) == ["_trace.json", *(part.name for part in trace.parts)]
    assert [(part.first, part.last, part.events) for part in trace.parts] == [
        (0, 7, 8),
        (8, 15, 10),
        (18, 25, 8),
        (26, 29, 4),
    ]
    assert sum(part.digest or 0 for part in trace.parts) % 2**64 == meta.digest
    assert trace.table()["cycle"].to_pylist() == rows["cycle"].tolist()
    assert trace.table(columns=["cycle"], filters=[("cycle", ">=", 23)])["cycle"].to_pylist() == [*range(23, 30)]
    assert sum(len(batch) for batch in trace.batches()) == 30
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_parts_end_with_a_cycle(tmp_path):
    rows = events(0, 20)
    rows["cycle"] = [0] * 3 + [5] * 9 + [6] * 8
    with TraceWriter(tmp_path / "t", SYSTEM, part_events=4) as writer:
        writer.append(rows[::-1])
        writer.finish(cycles=9, drained=True)
    assert [(p.first, p.last, p.events) for p in open_trace(tmp_path / "t").parts] == [(0, 5, 12), (6, 6, 8)]


def test_parts_do_not_depend_on_how_events_came(tmp_path):
    write_parts(tmp_path / "a", chunk=7)
    write_parts(tmp_path / "b", chunk=30)
    assert open_trace(tmp_path / "a").parts == open_trace(tmp_path / "b").parts


def test_a_part_that_is_full_takes_the_rest_of_its_cycle(tmp_path):
    write_parts(tmp_path / "a")
    rows = open_trace(tmp_path / "a").table()
    with TraceWriter(tmp_path / "b", SYSTEM, "rtl", part_events=8) as writer:
        for row in range(len(rows)):
            writer.append_table(rows.slice(row, 1))
        writer.finish(cycles=30, drained=True, digest=open_trace(tmp_path / "a").meta.digest)
    parts = [[(p.first, p.last, p.events, p.digest) for p in open_trace(tmp_path / name).parts] for name in "ab"]
    assert parts[0] == parts[1] and open_trace(tmp_path / "b").table() == rows


def test_cycles_come_in_order(tmp_path):
    with (
        pytest.raises(TraceError, match="cycle 3 came after cycle 7 was complete; append every event"),
        TraceWriter(tmp_path / "t", SYSTEM, part_events=8) as writer,
    ):
        writer.append(events(0, 9))
        writer.append(events(3, 1))
    with (
        pytest.raises(TraceError, match="rows are not ordered by cycle"),
        TraceWriter(tmp_path / "t", SYSTEM, part_events=2) as writer,
    ):
        writer.append_table(pa.concat_tables([open_rows(tmp_path).slice(4), open_rows(tmp_path).slice(0, 4)]))
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


def open_rows(tmp_path) -> pa.Table:
    path = tmp_path / "rows.parquet"
    if not path.exists():
        write(path)
    return open_trace(path).table()


@pytest.mark.parametrize("before, after", [("file", "parts"), ("parts", "file"), ("parts", "parts")])
def test_a_trace_replaces_another(tmp_path, before, after):
    path = tmp_path / "t.parquet"
    for kind in (before, after):
        write_parts(path, chunk=30) if kind == "parts" else write(path)
    assert open_trace(path).meta.events == (30 if after == "parts" else 10)
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_a_directory_of_something_else_is_kept(tmp_path):
    (tmp_path / "thesis").mkdir()
    with pytest.raises(TraceError, match="is a directory that holds something else than a trace; choose"):
        TraceWriter(tmp_path / "thesis", SYSTEM)
    assert (tmp_path / "thesis").is_dir()


def spoil(path, how: str) -> str:
    """Damage a trace in parts; returns the name of the file that the error has to name."""
    part = open_trace(path).parts[1]
    file = path / part.name
    match how:
        case "missing":
            file.unlink()
        case "truncated":
            file.write_bytes(file.read_bytes()[:-30])
        case "rows":
            data = pq.read_table(file)
            pq.write_table(data.slice(1), file)
        case "swapped":
            shutil.copy(path / open_trace(path).parts[0].name, file)
        case "other run":
            write_parts(path.with_name("other"), run="another run")
            shutil.copy(path.with_name("other") / part.name, file)
        case "added":
            shutil.copy(file, path / "cycles=7.parquet")
            return "cycles=7.parquet"
        case "manifest":
            (path / "_trace.json").write_text("{")
            return "_trace.json"
    return part.name


@pytest.mark.parametrize(
    "how, told",
    [
        ("missing", "this part of the trace is missing; put it back, or write the trace again"),
        ("truncated", "is not what was written there; put it back, or write the trace again"),
        ("rows", "is not what was written there; put it back"),
        ("swapped", "is not what was written there; put it back"),
        ("other run", "is not what was written there; put it back"),
        ("added", "is no part of this trace; take it away"),
        ("manifest", "is damaged .*; write the trace again"),
    ],
)
def test_part_errors(tmp_path, how, told):
    path = tmp_path / "t.parquet"
    write_parts(path)
    name = spoil(path, how)
    with pytest.raises(TraceError, match=f"{name}: .*{told}"):
        open_trace(path)


def test_a_rotten_part_is_named_or_does_no_harm(tmp_path):
    path = tmp_path / "t.parquet"
    write_parts(path)
    trace, rows = open_trace(path), open_trace(path).table()
    written, named = trace.files[2].read_bytes(), 0
    for place in range(4, len(written), 23):
        trace.files[2].write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
        try:
            assert open_trace(path).table() == rows
        except TraceError as error:
            named += 1
            assert str(error).startswith(str(trace.files[2])) and "again" in str(error)
    assert named > 50


def test_a_part_alone_is_no_trace(tmp_path):
    write_parts(tmp_path / "t.parquet")
    trace = open_trace(tmp_path / "t.parquet")
    with pytest.raises(TraceError, match=r"is one part of a trace; name its directory, .*t.parquet"):
        open_trace(trace.files[0])


class FullDisk:
    """Stands in for a file of Parquet on a disk with room for ``room`` tables."""

    def __init__(self, room: int, writer):
        self.room, self.writer = room, writer

    def write_table(self, *arguments, **named):
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= 1
        self.writer.write_table(*arguments, **named)

    def __getattr__(self, name):
        return getattr(self.writer, name)


@pytest.mark.parametrize("room", [0, 2])
def test_a_full_disk_leaves_the_old_trace(tmp_path, monkeypatch, room):
    path = tmp_path / "t.parquet"
    write(path)
    real, disk = pq.ParquetWriter, []

    def opened(*arguments, **named):
        disk.append(FullDisk(disk[-1].room if disk else room, real(*arguments, **named)))
        return disk[-1]

    monkeypatch.setattr(pq, "ParquetWriter", opened)
    with pytest.raises(
        TraceWriteError, match=r"t.parquet: cannot be written to its end: No space left on device; .*make"
    ):
        write_parts(path)
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"] and open_trace(path).meta.events == 10


_LIMITED = """
import resource, sys
from tests.sim.trace import test_store as t
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    t.write({target!r})
except t.TraceWriteError as error:
    print(error)
"""


def script(text: str, target) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", text.format(target=str(target))]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_a_real_disk_that_refuses_is_told_of(tmp_path):
    """A limit on the size of files: the error comes from Arrow as that of a full disk does."""
    told = script(_LIMITED, tmp_path / "t.parquet")
    assert "t.parquet: cannot be written to its end: File too large; nothing is left of it" in told.stdout, told.stderr
    assert list(tmp_path.iterdir()) == []


_KILLED = """
import os, signal, sys
from tests.sim.trace import test_store as t
with t.TraceWriter({target!r}, t.SYSTEM, part_events=8) as writer:
    writer.append(t.events(0, 20))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_writer_left_looks_like_no_trace_and_goes(tmp_path):
    path = tmp_path / "t.parquet"
    killed = script(_KILLED, path)
    assert killed.returncode == -9, killed.stderr
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".t.parquet.") and left.suffix == ".part"
    with pytest.raises(TraceError, match=r"is a directory without _trace.json"):
        open_trace(left)
    write(path)
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


DEEP = "[" * 20_000 + "]" * 20_000


@pytest.mark.parametrize(
    "text",
    ["[]", "7", "null", '"x"', DEEP, '{"a":' * 20_000 + "1" + "}" * 20_000, '{"version": 2}', "{}", "{", "NaN"],
    ids=["list", "number", "null", "text", "deep list", "deep table", "version", "empty", "cut", "nan"],
)
@pytest.mark.parametrize("place", ["footer", "manifest"])
def test_metadata_of_any_kind(tmp_path, place, text):
    path = tmp_path / "t.parquet"
    if place == "footer":
        write(path)
        pq.write_table(open_trace(path).table().replace_schema_metadata({"lethe.trace": text}), path)
    else:
        write_parts(path)
        (path / "_trace.json").write_text(text)
    with pytest.raises(
        TraceError, match=r"(its metadata is damaged|has trace schema) .*; write (the trace|it) again"
    ) as told:
        open_trace(path)
    assert "\n" not in str(told.value) and len(str(told.value)) < 500


@pytest.mark.parametrize("value", [None, True, -1, 1.5, "x", "a\nb", "\ud800", [], {}, {"a": 1}, 10**30])
@pytest.mark.parametrize("key", [field.name for field in fields(Meta)])
def test_no_value_of_metadata_is_taken_on_trust(tmp_path, key, value):
    right = {"config": str, "run": str, "lethe": str}.get(key)
    path = tmp_path / "t.parquet"
    write(path)
    table = open_trace(path).table()
    values = meta_of(path) | {key: value}
    pq.write_table(table.replace_schema_metadata({"lethe.trace": json.dumps(values)}), path)
    try:
        trace = open_trace(path)
    except TraceError as error:
        assert "\n" not in str(error) and str(error).startswith(f"{path}: ") and str(error).isprintable()
    else:
        assert right is str or (value in (True, {}) and key in ("drained", "counters"))
        assert not trace.meta.genuine or value == values[key]


@pytest.mark.parametrize(
    "key, value",
    [
        ("name", 7),
        ("name", None),
        ("name", "../x"),
        ("name", "a\x00b"),
        ("name", "\ud800"),
        ("first", "1"),
        ("digest", -1),
    ],
)
def test_no_value_of_a_part_is_taken_on_trust(tmp_path, key, value):
    path = tmp_path / "t.parquet"
    write_parts(path)
    manifest = json.loads((path / "_trace.json").read_text())
    manifest["parts"][1][key] = value
    (path / "_trace.json").write_text(json.dumps(manifest))
    with pytest.raises(TraceError, match=rf"_trace.json: its metadata is damaged \(parts\[1\].{key} must be"):
        open_trace(path)
    manifest["parts"][1] = value
    (path / "_trace.json").write_text(json.dumps(manifest))
    with pytest.raises(TraceError, match=r"parts\[1\] must be a table"):
        open_trace(path)


def test_a_flipped_byte_is_named_or_does_no_harm(tmp_path):
    """Anywhere in a trace of one file, the footer included, which has no checksum."""
    path = tmp_path / "t.parquet"
    write(path)
    rows, written, named = open_trace(path).table(), path.read_bytes(), 0
    for place in range(0, len(written), 5):
        for bit in (1, 128):
            path.write_bytes(written[:place] + bytes([written[place] ^ bit]) + written[place + 1 :])
            try:
                trace = open_trace(path, judged=True)
                trace.groups()
                _ = trace.table() == rows
            except TraceError as error:
                named += 1
                assert str(error).startswith(str(path)) and "\n" not in str(error)
    assert named > 50

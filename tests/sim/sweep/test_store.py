"""A sweep's directory: whole files only, damage seen, one sweep at a time."""

import errno
import os

import pytest

from lethe.spec.config import System
from lethe_sim.metrics import Metric
from lethe_sim.sweep import store as storing
from lethe_sim.sweep import work
from lethe_sim.sweep.plan import Measure
from lethe_sim.sweep.store import Result, Store, StoreError, scan
from lethe_sim.trace import open_trace

RESULT = Result(
    run="abc", config="[run]\nname = 'abc'\n", cycles=5, drained=True, digest=2**64 - 1, events=7, seconds=0.25,
    slowest=({"uid": 1, "accepted_at": 2, "latency": 3, "sends": 4},),
    metrics=(Metric("goodput", 0.1, "flits/node/cycle"), Metric("discards", 3.0, "messages")),
)  # fmt: skip


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store(tmp_path / "sweep")
    with store.locked():
        yield store


@pytest.fixture
def task(store) -> work.Task:
    system = System.make(topology={"kind": "wire"}, workload={"count": 3}, run={"name": "abc"})
    return work.task("abc", system, store.root, Measure(), True)


def test_a_run_comes_back_as_it_was(store):
    store.write_run(RESULT)
    assert store.read_run("abc") == RESULT
    assert [path.name for path in (store.root / "runs").iterdir()] == ["abc.parquet"]
    with pytest.raises(FileNotFoundError):
        store.read_run("other")


def test_a_damaged_file_is_noted_and_done_again(store):
    store.write_run(RESULT)
    path = store.run_file("abc")
    whole = path.read_bytes()
    pieces = {"cut": whole[:-20], "empty": b"", "text": b"not Parquet at all"}
    for name, bytes_ in pieces.items():
        path.write_bytes(bytes_)
        with pytest.raises(StoreError, match=r"abc.parquet: is damaged .*; delete it, and `lethe sweep` runs it again"):
            store.read_run("abc")
        notes = []
        assert scan(store, ["abc"], events=False, note=notes.append) == {}
        assert not path.exists() and "is done again" in notes[0], name


def test_no_flipped_byte_passes_for_another_result(store):
    """A byte that is wrong is either seen or of no consequence (a statistic, the name of the writer)."""
    store.write_run(RESULT)
    path = store.run_file("abc")
    whole = path.read_bytes()
    seen = 0
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        try:
            assert store.read_run("abc") == RESULT, place
        except StoreError:
            seen += 1
    assert seen > 0


def test_a_file_of_another_run_is_refused(store):
    store.write_run(RESULT)
    store.run_file("abc").rename(store.run_file("def"))
    with pytest.raises(StoreError, match="of another run"):
        store.read_run("def")


def test_one_sweep_at_a_time_and_no_leavings(store):
    with pytest.raises(StoreError, match="another `lethe sweep` is at work here"), Store(store.root).locked():
        pass
    left = store.root / "runs" / ".abc.parquet.123.part"
    left.write_text("half")
    again = Store(store.root.parent / "other")
    with again.locked():
        pass
    (again.root / "runs" / left.name).write_text("half")
    with again.locked():
        assert not (again.root / "runs" / left.name).exists()
        (again.root / "runs" / left.name).write_text("half")
    assert not (again.root / "runs" / left.name).exists()
    assert left.exists()


def test_a_file_in_the_place_of_the_directory(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises((StoreError, NotADirectoryError)), Store(tmp_path / "taken").locked():
        pass


def test_a_run_leaves_metrics_and_trace(store, task):
    assert work.attempt(task) == (work.DONE, "")
    result, trace = store.read_run("abc"), open_trace(store.events_file("abc"))
    assert result.drained and (result.digest, result.events) == (trace.meta.digest, trace.meta.events)
    assert {row.metric: row.value for row in result.metrics}["delivered"] == 6
    stamp = store.run_file("abc").stat().st_mtime_ns
    assert work.attempt(task)[0] == work.DONE and store.run_file("abc").stat().st_mtime_ns == stamp


def test_a_trace_that_is_gone_or_damaged_is_made_again(store, task):
    work.attempt(task)
    notes = []
    assert set(scan(store, ["abc"], events=True, note=notes.append)) == {"abc"}
    store.events_file("abc").write_bytes(b"PAR1")
    assert scan(store, ["abc"], events=True, note=notes.append) == {} and len(notes) == 1
    assert work.attempt(task)[0] == work.DONE
    assert set(scan(store, ["abc"], events=True, note=notes.append)) == {"abc"}
    store.events_file("abc").unlink()
    assert scan(store, ["abc"], events=True, note=notes.append) == {} and len(notes) == 1
    assert set(scan(store, ["abc"], events=False, note=notes.append)) == {"abc"}


def test_a_full_disk_is_told_and_leaves_nothing(store, task, monkeypatch):
    def full(*arguments, **keywords):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storing.pq, "write_table", full)
    kind, error = work.attempt(task)
    assert kind == work.FULL and "No space left on device" in error
    assert list((store.root / "runs").iterdir()) == []


def test_nothing_is_begun_on_a_disk_that_is_full(store, task, monkeypatch):
    monkeypatch.setattr(work, "LEAST_ROOM", 1 << 80)
    monkeypatch.setattr(work, "perform", lambda *_: pytest.fail("it was begun"))
    assert work.attempt(task)[0] == work.FULL


def test_a_run_that_cannot_be_done_says_why(store):
    system = System.make(workload={"kind": "file", "path": "nowhere"}, source=str(store.root / "a.toml"))
    kind, error = work.attempt(work.task("abc", system, store.root, Measure(), False))
    assert kind == work.FAILED and "workload.path: no such file" in error


def test_a_window_ends_a_run_without_end(store):
    system = System.make(workload={"count": 0, "load": 0.1}, run={"name": "abc"})
    kind = work.attempt(work.task("abc", system, store.root, Measure(warmup=1000, window=4000), False))[0]
    result = store.read_run("abc")
    value = {row.metric: row.value for row in result.metrics}
    assert kind == work.DONE and not result.drained and value["measured"] == 4000 and value["unfinished"] == 0
    assert 5000 <= result.cycles < 5000 + 3 * work.chunk_cycles(16)
    assert 0.07 < value["goodput"] < 0.1

"""A sweep's runs as tasks."""

from contextlib import nullcontext
from itertools import pairwise

import pyarrow as pa
import pytest

from lethe_sim.sweep import jobs, work
from lethe_sim.sweep.jobs import task_starts
from lethe_sim.sweep.plan import Measure, load
from lethe_sim.sweep.store import Store


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("costs", [[1.0], [5.0, 1.0, 1.0], [1.0] * 160, [9.0] * 20 + [1.0] * 40, [0.3, 0.1, 1e-20]])
def test_tasks_are_few_and_the_last_are_short(costs, workers):
    starts = task_starts(costs, workers)
    assert starts[0] == 0 and starts[-1] == len(costs) and starts == sorted(set(starts))
    shares = [sum(costs[a:b]) / sum(costs) for a, b in pairwise(starts)]
    # No worker begins with more than half of its share, but for a single run, and the last have one run each.
    assert shares[0] <= 0.5 / workers + max(costs) / sum(costs)
    assert len(costs) < 4 * workers or starts[-1] - starts[-2] == 1
    assert len(shares) <= 2 * workers * 8


def test_what_takes_long_is_begun_first(tmp_path, monkeypatch):
    """Whatever the order of the axes; what is finished is not begun again."""
    begun = []

    def done(tasks, runs, *_, **__):
        begun.append([run.system.workload.count for run in runs])
        assert [task.run for task in tasks] == [run.name for run in runs]
        assert all(work.attempt(task) == (work.DONE, "") for task in tasks)
        return 0

    monkeypatch.setattr(jobs, "_spark", done)
    text = "[base.topology]\nkind = 'wire'\n[axes]\nworkload.count = [{}]\n"
    for counts in ("2, 9, 4", "2, 20, 9, 4, 30"):
        (tmp_path / "sweep.toml").write_text(text.format(counts))
        jobs.sweep(tmp_path / "sweep.toml", tmp_path / "kept")
    assert begun == [[9, 4, 2], [30, 20]]


def test_every_run_is_done_by_one_task(monkeypatch):
    monkeypatch.setattr(work, "attempt", lambda run: (work.DONE, run))
    runs, starts = list("abcdef"), [0, 2, 3, 6]
    batches = [pa.RecordBatch.from_pydict({"id": [task]}) for task in range(3)]
    told = [row for batch in work.tasks(iter(batches), runs, starts, 0) for row in batch.to_pylist()]
    assert [(row["number"], row["error"]) for row in told] == list(enumerate(runs))


def test_a_finished_run_is_done_again_if_its_events_are_wanted(tmp_path):
    (tmp_path / "sweep.toml").write_text("[base.topology]\nkind = 'wire'\n[base.workload]\ncount = 2\n")
    (run,) = load(tmp_path / "sweep.toml").runs
    store = Store(tmp_path / "kept")
    with store.locked():
        for events in (False, True):
            task = work.task(run.name, run.system, store.root, Measure(), events)
            assert work.attempt(task) == (work.DONE, "")
            assert store.events_file(run.name).exists() == events


def test_of_several_failures_the_full_disk_is_told(tmp_path, monkeypatch):
    """It is what all others may have come of."""

    class Over:
        error = None
        outcomes = ((0, work.DONE, "", 0), (1, work.FAILED, "something else", 0), (2, work.FULL, "no room left", 0))

        def __init__(self, *_):
            pass

        def wait(self, seconds):
            return True

    monkeypatch.setattr(jobs, "_Job", Over)
    monkeypatch.setattr(jobs, "session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(jobs, "compile_model", lambda: None)
    (tmp_path / "sweep.toml").write_text("[base.topology]\nkind = 'wire'\n[axes]\nworkload.count = [1, 2, 3]\n")
    with pytest.raises(jobs.SweepFailed, match=r"^2 runs could not be done; .*: no room left; make room on the disk"):
        jobs.sweep(tmp_path / "sweep.toml", tmp_path / "kept")

"""A sweep on Spark: what is not finished is run, what is finished is put into tables."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.spec.config import System
from lethe_sim.pipeline.session import session, usable_java

from .plan import Choice, Measure, Run, Sweep, configuration, load, told
from .store import Result, Store, scan
from .summary import broken, summary
from .work import DONE, FULL, Task, task, tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark gives a task up after it has killed so many workers.
TRIES = 4
_LOOK_SECONDS = 0.25

#: Called with a phase, its state in words, how much is done, and of how much.
Say = Callable[[str, str, int, int], None]


class SweepFailed(RuntimeError):
    """Some runs could not be done; what was finished is kept.  The message says which, why, and how to go on."""


@dataclass(frozen=True, kw_only=True)
class Swept:
    """A finished sweep.

    Attributes
    ----------
    sweep, store : what it was and where it is kept
    runs, points : how many
    before : runs that were finished before
    seconds : time for the others
    again : tasks that were repeated because their worker died
    broken : runs in which a datagram was lost, doubled or altered
    unfinished : runs that left measured datagrams under way
    """

    sweep: Sweep
    store: Store
    runs: int
    points: int
    before: int
    seconds: float
    again: int
    broken: tuple[str, ...]
    unfinished: tuple[str, ...]


def sweep(
    path: str | Path,
    output: str | Path | None = None,
    *,
    master: str | None = None,
    workers: int | None = None,
    check: Callable[[Sweep], None] | None = None,
    say: Say | None = None,
    note: Callable[[str], None] | None = None,
) -> Swept:
    """Do what is left of the sweep at ``path``, and write its tables.

    Parameters
    ----------
    output : its directory; by default named like the file, in this directory
    master : Spark master URL; None is inside this machine
    workers : runs at a time; None is one for each core
    check : called with the sweep before anything is written
    say, note : told of progress, and of what is worth knowing

    Raises `SweepError` for a sweep that cannot be run as written, `StoreError` for a directory that cannot be used,
    `PipelineError` where Spark cannot run, `SweepFailed` if runs failed.
    """
    say, note = say or (lambda phase, what, done, total: None), note or (lambda text: None)
    plan = load(path)
    runs = plan.planned(lambda runs: say("checking every point", _count(runs, "run") if runs else "", 0, 0))
    if check is not None:
        check(plan)
    store = Store(output or Path(path).with_suffix("").name)
    with store.locked():
        store.write_text("sweep.toml", plan.text)
        say("looking for what is finished", "", 0, 0)
        kept = scan(store, (run.name for run in runs), events=plan.events, note=note)
        # Costs are guesses; by their names, which are digests, runs of one guess are well mixed.
        left = sorted(
            (run for run in runs if run.name not in kept), key=lambda run: (-run.cost(plan.measure), run.name)
        )
        began, again = time.monotonic(), 0
        if left:
            work = [task(run.name, run.system, store.root, plan.measure, plan.events) for run in left]
            try:
                again = _spark(work, left, store, plan.measure, master=master, workers=workers, say=say)
            except KeyboardInterrupt:
                note(f"{_count(_finished(store, runs), 'run')} of {len(runs):,} finished and kept; {_ON}")
                raise
        seconds = time.monotonic() - began
        say("writing the tables", "", 0, 0)
        results = {run.name: kept.get(run.name) or store.read_run(run.name) for run in runs}
        write_tables(store, runs, results)
    value = {name: {row.metric: row.value for row in result.metrics} for name, result in results.items()}
    return Swept(
        sweep=plan,
        store=store,
        runs=len(runs),
        points=len({run.point for run in runs}),
        before=len(kept),
        seconds=seconds,
        again=again,
        broken=tuple(run.name for run in runs if broken(run.system, value[run.name])),
        unfinished=tuple(run.name for run in runs if value[run.name]["unfinished"]),
    )


_ON = "the same command goes on from there"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _finished(store: Store, runs: Sequence[Run]) -> int:
    return sum(store.run_file(run.name).exists() for run in runs)


def _spark(
    work: list[Task],
    runs: list[Run],
    store: Store,
    measure: Measure,
    *,
    master: str | None,
    workers: int | None,
    say: Say,
) -> int:
    """Do the work; returns how many tasks were repeated because a worker died."""
    # Before the model is compiled, which may take long.
    usable_java()
    say("compiling the model (once)", "", 0, 0)
    compile_model()
    local = master is None
    cores = workers or (os.cpu_count() or 1)
    chosen = f"local[{min(cores, len(work))},{TRIES}]" if local else master
    options = {} if local or workers is None else {"spark.cores.max": str(workers)}
    say("starting Spark", "", 0, 0)
    try:
        with session(chosen, "lethe sweep", memory="1g", brief=True, options=options) as spark:
            parallel = min(cores, len(work)) if local else spark.sparkContext.defaultParallelism
            starts = task_starts([run.cost(measure) for run in runs], max(1, min(parallel, workers or parallel)))
            job = _Job(spark, work, starts)
            try:
                while not job.wait(_LOOK_SECONDS):
                    done = _finished(store, runs)
                    say("running", f"{done:,} of {_count(len(work), 'run')}", done, len(work))
            except BaseException:
                with contextlib.suppress(Exception):
                    spark.sparkContext.cancelAllJobs()
                raise
            if job.error is not None:
                raise SweepFailed(_died(job.error, store, runs)) from None
    except (ConnectionError, EOFError):
        # Spark itself is gone, and with it the way to stop it.
        raise SweepFailed(_gone(store, runs)) from None
    _told(job.outcomes, runs, store)
    # By the first run of each task.
    return sum(before for number, _, _, before in job.outcomes if number in starts)


def task_starts(costs: Sequence[float], workers: int) -> list[int]:
    """Where each task begins in a list of runs, and its end: each has a share of half of what is left, or one run.

    A task costs Spark some 100 ms beside busy workers, so there are few; but the last ones are short, so that no worker
    waits long for another.
    """
    starts, left, taken = [0], sum(costs), 0.0
    for number, cost in enumerate(costs, 1):
        taken += cost
        if taken >= left / (2 * workers):
            starts.append(number)
            left, taken = left - taken, 0.0
    return starts if starts[-1] == len(costs) else [*starts, len(costs)]


class _Job:
    """The job in a thread of its own, so that this one can show progress and be interrupted."""

    def __init__(self, spark: "SparkSession", work: list[Task], starts: list[int]):
        self.error: BaseException | None = None
        self.outcomes: list[tuple] = []
        count = len(starts) - 1
        self._frame = spark.range(0, count, 1, count).mapInArrow(
            partial(_tasks, runs=spark.sparkContext.broadcast(work), starts=starts),
            "number long, kind string, error string, before long",
        )
        self._thread = threading.Thread(target=self._run, name="lethe sweep", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.outcomes = [tuple(row) for row in self._frame.collect()]
        except BaseException as error:
            self.error = error

    def wait(self, seconds: float) -> bool:
        """Whether it is over."""
        self._thread.join(seconds)
        return not self._thread.is_alive()


def _tasks(batches, runs, starts):
    from pyspark import TaskContext

    context = TaskContext.get()
    return tasks(batches, runs.value, starts, context.attemptNumber() if context else 0)


def compile_model() -> None:
    """Compile the model and the ledger, or find them compiled, so that workers need not do it each."""
    from lethe_sim import running
    from lethe_sim.metrics import RunLedger

    system = System.make(topology={"kind": "wire"}, workload={"count": 1})
    golden, play = running.begin(system)
    running.advance(golden, play, 64)
    RunLedger(system).append(golden.take_events())


def _told(outcomes: list[tuple[int, str, str, int]], runs: list[Run], store: Store) -> None:
    """Raise `SweepFailed` if a run could not be done."""
    bad = sorted((number, kind, error) for number, kind, error, _ in outcomes if kind != DONE)
    if not bad:
        return
    number, kind, error = next((row for row in bad if row[1] == FULL), bad[0])
    cure = f"make room on the disk, then {_ON}" if kind == FULL else f"mend that; {_ON}"
    what = f"{runs[number].name} ({label(runs[number])}): {error}"
    raise SweepFailed(f"{_count(len(bad), 'run')} could not be done; {_kept(store, runs)}; first {what}; {cure}")


def label(run: Run) -> str:
    """A run by its axes and its seed."""
    axes = [f"{key} = {told(value)}" for key, value in run.settings.items()]
    return ", ".join([*axes, f"seed {run.system.run.seed}"])


def _died(error: BaseException, store: Store, runs: list[Run]) -> str:
    """What to say when Spark gave up: a worker died too often, or a bug of ours."""
    words = f"{type(error).__name__} {error}"
    for sign in ("worker exited unexpectedly", "ExecutorLostFailure", "Python worker failed", "EOFException"):
        if sign in words:
            return (
                f"workers died {TRIES} times over the same work, perhaps for want of memory; {_kept(store, runs)}; "
                f"use fewer --workers, then {_ON}"
            )
    for sign in ("cancelled", "SparkContext was shut down", "Master removed", "Py4JNetworkError", "Connection"):
        if sign in words:
            return _gone(store, runs)
    raise error


def _gone(store: Store, runs: Sequence[Run]) -> str:
    return f"Spark stopped before the sweep was over; {_kept(store, runs)}; {_ON}"


def _kept(store: Store, runs: Sequence[Run]) -> str:
    return f"{_count(_finished(store, runs), 'run')} finished and kept"


def write_tables(store: Store, runs: Sequence[Run], results: Mapping[str, Result]) -> None:
    """Write every table of `store.TABLES`; the same runs give the same files, whatever did them."""
    ordered = sorted(runs, key=lambda run: (run.point, run.replica))
    store.write_table("metrics", ((run.name, *row) for run in ordered for row in results[run.name].metrics))
    store.write_table(
        "configuration",
        ((run.name, key, text(value)) for run in ordered for key, value in configuration(run.system).items()),
    )
    store.write_table(
        "runs",
        (
            (run.name, run.point, run.replica, run.system.run.seed, r.cycles, r.drained, r.events, f"{r.digest:016x}")
            for run in ordered
            if (r := results[run.name])
        ),
    )
    settings = {run.point: run.settings for run in ordered}
    store.write_table(
        "points",
        ((point, axis, told(value), number(value)) for point, axes in settings.items() for axis, value in axes.items()),
    )
    rows = ((run.point, row.metric, row.value, row.unit) for run in ordered for row in results[run.name].metrics)
    store.write_table("summary", sorted(summary(rows), key=lambda row: row[0]))


def text(value: Any) -> str:
    """A value of a configuration in a table."""
    return value if isinstance(value, str) else json.dumps(value)


def number(value: Any) -> float | None:
    """A value of an axis as a number; a table of one number, or with one that varies, is none."""
    if isinstance(value, Choice):
        return value.number
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

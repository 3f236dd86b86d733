"""One run of a sweep, wherever it happens: the golden model in pieces, its events counted and, if wanted, kept.

This is what a Spark task executes; it needs neither Amaranth nor a session.
"""

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lethe.spec.config import System, parse
from lethe.spec.toml import dump
from lethe_sim.cli import exit_code, told
from lethe_sim.trace import TraceWriter

from .plan import Measure
from .store import Result, Store, StoreError

#: What a task tells of a run: its number in the list, what kept it from finishing ("" if nothing did), and how often
#: the task had been begun before, by a worker that died.
OUTCOME = pa.schema([("number", pa.int64()), ("kind", pa.string()), ("error", pa.string()), ("before", pa.int64())])
DONE, FAILED, FULL = "done", "failed", "full"
#: Room on the disk below which no run is begun.
LEAST_ROOM = 4 << 20
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a worker needs to know of a run."""

    run: str
    config: str
    source: str
    root: str
    measure: Measure
    events: bool

    @property
    def system(self) -> System:
        return parse(self.config, self.source)


def task(run: str, system: System, root: Path, measure: Measure, events: bool) -> Task:
    """The task of a run whose results go to the directory ``root``."""
    return Task(run=run, config=dump(system), source=system.source, root=str(root), measure=measure, events=events)


def tasks(
    batches: Iterator[pa.RecordBatch], runs: Sequence[Task], starts: Sequence[int], before: int
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: numbers of tasks (column ``id``) in, `OUTCOME` out, run by run.

    Task i does the ``runs`` from ``starts[i]`` on, up to the next one's first.
    """
    for batch in batches:
        for number in (n for i in batch["id"].to_pylist() for n in range(starts[i], starts[i + 1])):
            row = (number, *attempt(runs[number]), before)
            yield pa.RecordBatch.from_arrays(
                [pa.array([value], field.type) for value, field in zip(row, OUTCOME, strict=True)], schema=OUTCOME
            )


def attempt(of: Task) -> tuple[str, str]:
    """(kind, error) of doing a run and keeping its results; one that is kept already is not done again."""
    kind, error = DONE, ""
    store = Store(of.root)
    try:
        if not _kept(store, of):
            if shutil.disk_usage(of.root).free < LEAST_ROOM:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), of.root)
            store.write_run(perform(of, store))
    except MemoryError:
        kind, error = FAILED, "not enough memory; use fewer --workers or smaller systems"
    except Exception as wrong:
        if exit_code(wrong) is None:
            raise
        error = told(wrong)
        kind = FULL if getattr(wrong, "errno", None) in _NO_ROOM or "No space left" in error else FAILED
    return kind, error


def _kept(store: Store, of: Task) -> bool:
    """Whether the run is finished: so it is if a worker died between its last act and its answer."""
    try:
        store.read_run(of.run)
    except (FileNotFoundError, StoreError):
        return False
    return not of.events or store.events_file(of.run).exists()


def perform(of: Task, store: Store) -> Result:
    """Run the golden model; what it leaves, with its trace kept if the sweep wants that."""
    from lethe_sim import running
    from lethe_sim.metrics import RunLedger
    from lethe_sim.metrics.table import table

    system = of.system
    began = time.monotonic()
    ledger = RunLedger(system, warmup=of.measure.warmup, window=of.measure.window)
    golden, play = running.begin(system)
    limit, chunk, events = system.run.cycles, chunk_cycles(system.nodes), 0
    trace = store.events_file(of.run)
    # The directory is the sweep's own: a damaged trace goes.
    with TraceWriter(trace, system, force=True) if of.events else contextlib.nullcontext() as writer:
        while not play.over and golden.cycle < limit and not ledger.settled(golden.cycle):
            running.advance(golden, play, min(chunk, limit - golden.cycle))
            taken = golden.take_events()
            events += len(taken)
            ledger.append(taken)
            if writer is not None:
                writer.append(taken)
        if writer is not None:
            running.finish(writer, golden, play)
    cycles, drained, verdict = golden.cycle, golden.drained, play.verdict(golden)
    # The generators' checkers look at every payload; other workloads judge what they received, if all of it was.
    wrong = int(golden.sums["wrong"].sum()) if verdict is None else None
    right = verdict.good if verdict is not None and drained else None
    metrics = tuple(table(ledger, cycles=cycles, drained=drained, wrong=wrong, right=right))
    return Result(
        run=of.run,
        config=of.config,
        cycles=cycles,
        drained=drained,
        digest=golden.digest,
        events=events,
        seconds=time.monotonic() - began,
        slowest=tuple(ledger.slowest),
        unlucky=tuple(ledger.unlucky),
        metrics=metrics,
    )


def chunk_cycles(nodes: int) -> int:
    """Cycles between two looks at the events: the same everywhere, since a measured run ends at one of them."""
    return max(16, min(8192, (1 << 20) // nodes))

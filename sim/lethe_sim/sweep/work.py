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
from typing import TYPE_CHECKING

import pyarrow as pa

from lethe.spec.config import System, parse
from lethe.spec.toml import dump
from lethe_sim.cli import exit_code, told
from lethe_sim.trace import TraceWriter, summed_counters

from .plan import Measure
from .store import Result, Store, StoreError

if TYPE_CHECKING:
    from lethe_sim.golden.model import Golden

#: What a task tells of a run: its number in the list, and what kept it from finishing ("" if nothing did).
OUTCOME = pa.schema([("number", pa.int64()), ("seconds", pa.float64()), ("kind", pa.string()), ("error", pa.string())])
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


def tasks(batches: Iterator[pa.RecordBatch], runs: Sequence[Task]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: numbers (column ``id``) of ``runs`` in, `OUTCOME` out, run by run."""
    for batch in batches:
        for number in batch["id"].to_pylist():
            row = (number, *attempt(runs[number]))
            yield pa.RecordBatch.from_arrays(
                [pa.array([value], field.type) for value, field in zip(row, OUTCOME, strict=True)], schema=OUTCOME
            )


def attempt(of: Task) -> tuple[float, str, str]:
    """(seconds, kind, error) of doing a run and keeping its results; one that is kept already is not done again."""
    began = time.monotonic()
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
    return time.monotonic() - began, kind, error


def _kept(store: Store, of: Task) -> bool:
    """Whether the run is finished: so it is if a worker died between its last act and its answer."""
    try:
        store.read_run(of.run)
    except (FileNotFoundError, StoreError):
        return False
    return not of.events or store.events_file(of.run).exists()


def perform(of: Task, store: Store) -> Result:
    """Run the golden model; what it leaves, with its trace kept if the sweep wants that."""
    from lethe_sim.metrics import Account
    from lethe_sim.metrics.table import table

    system = of.system
    began = time.monotonic()
    account = Account(system, warmup=of.measure.warmup, window=of.measure.window)
    golden, wrong_counted = model(system)
    limit, chunk, events = system.run.cycles, chunk_cycles(system.nodes), 0
    trace = store.events_file(of.run)
    with TraceWriter(trace, system) if of.events else contextlib.nullcontext() as writer:
        while golden.cycle < limit and not golden.drained and not account.settled(golden.cycle):
            golden.run(min(chunk, limit - golden.cycle), until_drained=True)
            taken = golden.take_events()
            events += len(taken)
            account.append(taken)
            if writer is not None:
                writer.append(taken)
        cycles, drained, sums = golden.cycle, golden.drained, golden.sums
        if writer is not None:
            counters = summed_counters(
                golden.counters, golden.router_counters, golden.link_counters, sums=sums if wrong_counted else None
            )
            writer.finish(cycles=cycles, drained=drained, digest=golden.digest, counters=counters)
    wrong = int(sums["wrong"].sum()) if wrong_counted else None
    return Result(
        run=of.run,
        config=of.config,
        cycles=cycles,
        drained=drained,
        digest=golden.digest,
        events=events,
        seconds=time.monotonic() - began,
        slowest=tuple(account.slowest),
        unlucky=tuple(account.unlucky),
        metrics=tuple(table(account, cycles=cycles, drained=drained, wrong=wrong)),
    )


def chunk_cycles(nodes: int) -> int:
    """Cycles between two looks at the events: the same everywhere, since a measured run ends at one of them."""
    return max(16, min(8192, (1 << 20) // nodes))


def model(system: System) -> "tuple[Golden, bool]":
    """The model of a system with its hosts, and whether checkers look at its payloads."""
    from lethe_sim.golden.model import Golden
    from lethe_sim.workloads import file

    if system.workload.kind == "generator":
        return Golden(system, record=True), True
    return Golden(system, file.script_for(system), record=True), False

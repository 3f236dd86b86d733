"""A whole trace held against itself, row by row (`trace.check`): its findings, before anything is judged."""

import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lethe.spec.config import System
from lethe_sim.trace import SCHEMA, Meta, Part, TraceReader
from lethe_sim.trace.check import BATCH, RESET, Oddity, RowCheck, Seen, scheduled_resets
from lethe_sim.trace.store import PART_EVENTS, reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Finding: rows or metadata that are not what was written.
CHANGED = "changed"
#: Rows of the largest trace that is held against itself in this process: Spark's own would take longer to start.
FEW = PART_EVENTS

#: A row group: the number of its file, and its own.
Group = tuple[int, int]


def seen(trace: TraceReader, groups: list[Group], spark: "SparkSession | None" = None) -> Seen:
    """What the rows of a trace come to, with what its parts and metadata say otherwise; on ``spark``, or here."""
    if spark is None:
        pieces = [_seen(trace.files, trace.meta, group) for group in groups]
    else:
        pieces = _on_spark(trace, groups, spark)
    whole = Seen()
    for number, part in enumerate(trace.parts):
        rows = Seen()
        for (file, _), piece in zip(groups, pieces, strict=True):
            if file == number:
                rows.follow(piece)
        _hold_part(whole, rows, part)
    for piece in pieces:
        whole.follow(piece)
    _hold_run(whole, trace.meta)
    return whole


def sound_system(found: Seen, meta: Meta) -> System:
    """The run's configuration with only those resets that have their event; the others are findings."""
    system = meta.system
    due = scheduled_resets(system, meta.cycles)
    resets = [reset for place, theirs in due.items() if place in found.resets for reset in theirs]
    if len(resets) == len(system.faults.resets):
        return system
    return system.replace(faults={"resets": tuple(resets)})


def _seen(files: tuple[Path, ...], meta: Meta, group: Group) -> Seen:
    path, check, found = files[group[0]], RowCheck(meta.system, meta.run, meta.cycles), Seen()
    with reading(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        for batch in file.iter_batches(BATCH, row_groups=[group[1]], columns=SCHEMA.names):
            found.follow(check.seen(batch))
    return found


def _on_spark(trace: TraceReader, groups: list[Group], spark: "SparkSession") -> list[Seen]:
    """`_seen` of each row group, as tasks that read their part of a file themselves."""
    work = partial(_task, tuple(file.resolve() for file in trace.files), trace.meta, groups)
    tasks = min(len(groups), 4 * spark.sparkContext.defaultParallelism)
    frame = spark.range(0, len(groups), 1, tasks).mapInArrow(work, "place long, seen binary")
    return [pickle.loads(row["seen"]) for row in sorted(frame.collect(), key=lambda row: row["place"])]


def _task(
    files: tuple[Path, ...], meta: Meta, groups: list[Group], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        places = batch.column(0).to_pylist()
        found = [pickle.dumps(_seen(files, meta, groups[place])) for place in places]
        yield pa.RecordBatch.from_arrays(
            [pa.array(places, pa.int64()), pa.array(found, pa.binary())], ["place", "seen"]
        )


def _hold_part(whole: Seen, rows: Seen, part: Part) -> None:
    where = f"part {part.name}, cycles {part.first} to {part.last}"
    if rows.digest != part.digest:
        note = f"{where}: its rows have digest {rows.digest:016x}, not {part.digest:016x}"
    elif (rows.rows, rows.least, rows.most) != (part.events, part.first, part.last):
        note = f"{where}: has {rows.rows} rows of cycles {rows.least} to {rows.most}, not {part.events}"
    else:
        return
    whole.found(CHANGED, [Oddity(part.first, None, None, note)], 1)


def _hold_run(whole: Seen, meta: Meta) -> None:
    if whole.digest != meta.digest:
        note = f"the rows have digest {whole.digest:016x}, the run had {meta.digest:016x}"
        whole.found(CHANGED, [Oddity(whole.least, None, None, note)], 1)
    if whole.rows != meta.events:
        whole.found(CHANGED, [Oddity(None, None, None, f"{whole.rows} rows, the run had {meta.events} events")], 1)
    if not meta.genuine:
        note = "the metadata were changed, such as the configuration, cycles or counters: their seal is another"
        whole.found(CHANGED, [Oddity(None, None, None, note)], 1)
    for node, cycle in sorted(scheduled_resets(meta.system, meta.cycles).keys() - whole.resets):
        whole.found(RESET, [Oddity(cycle, node, None, "a reset was scheduled, but did not happen")], 1)

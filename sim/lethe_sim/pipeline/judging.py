"""A trace judged on Spark: the three steps of `lethe_sim.ledger.judge`, each called through `mapInArrow`.

Tasks read row groups of the files themselves.  What goes from step to step are parcels: the columns of some rows, with
the group that they belong to.  So the JVM moves few large rows, and each row of a trace is read once.
"""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lethe_sim.ledger.group import Run
from lethe_sim.ledger.here import GROUP_EVENTS, row_group
from lethe_sim.ledger.judge import Pieces, Reader, Summary, judge_pairs, judge_slots
from lethe_sim.trace import Meta, TraceReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A parcel: its group, the name of its content (a table, the resets, or a summary), and the content.
_PARCEL = pa.schema([("group", pa.int32()), ("name", pa.string()), ("content", pa.binary())])
_SPARK_PARCEL = "group int, name string, content binary"
_PIECE, _RESETS, _SUMMARY = "piece", "resets", "summary"

Parcel = tuple[int, str, Any]
Batches = Iterator[pa.RecordBatch]


def judged(trace: TraceReader, spark: "SparkSession", *, groups: int = 0, whole: bool = False) -> Summary:
    """What a trace comes to, in ``groups`` groups (0: by its size); ``whole`` keeps all findings and the ledger."""
    places, rows = trace.groups()
    cores = spark.sparkContext.defaultParallelism
    groups = groups or max(cores, -(-rows // GROUP_EVENTS))
    files, meta = tuple(file.resolve() for file in trace.files), trace.meta
    frame = spark.range(0, len(places), 1, max(1, min(len(places), 4 * cores)))
    frame = frame.mapInArrow(partial(_read, files, meta, places, groups), _SPARK_PARCEL)
    for step in (partial(_slots, meta, groups, whole), partial(_pairs, meta, whole)):
        frame = frame.repartitionById(groups, "group").mapInArrow(partial(_by_group, step), _SPARK_PARCEL)
    found = Summary()
    for row in frame.collect():
        found.add(pickle.loads(row["content"]))
    return found


def _read(files: tuple[Path, ...], meta: Meta, places: list[tuple[int, int]], groups: int, batches: Batches) -> Batches:
    """Step 1, of the row groups whose numbers come in."""
    reader = Reader(meta, groups)
    for batch in batches:
        for place in batch.column(0).to_pylist():
            file, number = places[place]
            summary, pieces = reader.read(row_group(files[file], number), place)
            yield _sent([(place % groups, _SUMMARY, summary), *_pieces(pieces)])
            # A reset excuses what it touched in any group.
            if resets := summary.seen[place].resets:
                yield _sent([(group, _RESETS, resets) for group in range(groups)])


def _slots(meta: Meta, groups: int, whole: bool, parcels: list[Parcel]) -> Iterator[Parcel]:
    """Step 2, of one group."""
    pieces = [content for _, name, content in parcels if name == _PIECE]
    summary, after = judge_slots(_run(meta, parcels), pieces, groups, whole=whole)
    yield from (parcel for parcel in parcels if parcel[1] != _PIECE)
    yield parcels[0][0], _SUMMARY, summary
    yield from _pieces(after)


def _pairs(meta: Meta, whole: bool, parcels: list[Parcel]) -> Iterator[Parcel]:
    """Step 3, of one group, with all summaries that came along."""
    pieces = [content for _, name, content in parcels if name == _PIECE]
    found = judge_pairs(_run(meta, parcels), pieces, whole=whole)
    for _, name, content in parcels:
        if name == _SUMMARY:
            found.add(content)
    yield parcels[0][0], _SUMMARY, found


def _run(meta: Meta, parcels: list[Parcel]) -> Run:
    return Run.of(meta, {reset for _, name, content in parcels if name == _RESETS for reset in content})


def _pieces(pieces: Pieces) -> list[Parcel]:
    return [(group, _PIECE, piece) for group, piece in pieces.items()]


def _by_group(step: Callable[[list[Parcel]], Iterator[Parcel]], batches: Batches) -> Batches:
    """A step for each group whose parcels come in."""
    waiting: dict[int, list[Parcel]] = defaultdict(list)
    for batch in batches:
        rows = zip(*(batch.column(name).to_pylist() for name in _PARCEL.names), strict=True)
        for group, name, content in rows:
            waiting[group].append((group, name, pickle.loads(content)))
    for group in sorted(waiting):
        yield _sent(list(step(waiting.pop(group))))


def _sent(parcels: list[Parcel]) -> pa.RecordBatch:
    groups, names, contents = zip(*parcels, strict=True)
    packed = [pickle.dumps(content, protocol=5) for content in contents]
    return pa.RecordBatch.from_arrays(
        [pa.array(groups, pa.int32()), pa.array(names, pa.string()), pa.array(packed, pa.binary())], schema=_PARCEL
    )

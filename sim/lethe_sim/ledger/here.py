"""The audit of a trace in this process, without Spark."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lethe_sim.trace import SCHEMA, TraceReader, open_trace
from lethe_sim.trace.check import BATCH
from lethe_sim.trace.store import PART_EVENTS, reading

from .audit import AuditResult
from .columns import Columns
from .conclude import conclude
from .group import Run
from .judge import Pieces, Reader, Summary, judge_pairs, judge_slots

#: Events of the largest trace that is judged here: on Spark they would take longer.
FEW = PART_EVENTS
#: Events of a group, about.
GROUP_EVENTS = 1 << 20


def audit(path: str | Path) -> AuditResult:
    """Audit the trace at ``path``, whatever its size, in this process.

    Raises `TraceError` for a trace that cannot be read.
    """
    trace = open_trace(path, judged=True)
    return conclude(trace, trace.groups()[0], judged(trace))


def judged(trace: TraceReader, *, groups: int = 0, whole: bool = False) -> Summary:
    """What a trace comes to, in ``groups`` groups (0: by its size); ``whole`` keeps all findings and the ledger."""
    places, rows = trace.groups()
    groups = groups or -(-rows // GROUP_EVENTS) or 1
    reader, found = Reader(trace.meta, groups), Summary()
    waiting: dict[int, list[dict[str, Columns]]] = defaultdict(list)
    for place, (file, number) in enumerate(places):
        summary, pieces = reader.read(row_group(trace.files[file], number), place)
        found.add(summary)
        _put(waiting, pieces)
    run = Run.of(trace.meta, {reset for seen in found.seen.values() for reset in seen.resets})
    pairs: dict[int, list[dict[str, Columns]]] = defaultdict(list)
    for number in sorted(waiting):
        summary, pieces = judge_slots(run, waiting.pop(number), groups, whole=whole)
        found.add(summary)
        _put(pairs, pieces)
    for number in sorted(pairs):
        found.add(judge_pairs(run, pairs.pop(number), whole=whole))
    return found


def _put(waiting: dict[int, list[dict[str, Columns]]], pieces: Pieces) -> None:
    for number, piece in pieces.items():
        waiting[number].append(piece)


def row_group(path: Path, number: int) -> Iterator[pa.RecordBatch]:
    """A row group of a file in batches."""
    with reading(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        yield from file.iter_batches(BATCH, row_groups=[number], columns=SCHEMA.names)

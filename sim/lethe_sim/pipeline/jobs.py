"""What reads, collects and writes: the audit of a trace and the comparison of two."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lethe_sim.ledger.audit import AuditResult
from lethe_sim.ledger.conclude import conclude
from lethe_sim.trace import Meta, TraceReader, open_trace

from . import compare as comparing
from .compare import CompareResult, Row
from .judging import judged
from .schema import EVENTS, check_events
from .session import PipelineError, at_once, first_line, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Fewer events than this are compared before optimised code would pay.  The JVM has little to do in an audit.
BRIEF = 10_000_000
_DIGEST_RANGES = 512
_ROWS_AROUND = 24


def read_events(spark: "SparkSession", *files: Path) -> DataFrame:
    """The events of files of a trace, which `open_trace` has checked; none without files."""
    if not files:
        return spark.createDataFrame([], EVENTS)
    reader = spark.read.schema(EVENTS).option("parquet.page.verify-checksum.enabled", "true")
    return check_events(reader.parquet(*(str(file.resolve()) for file in files)))


def audit_trace(path: str | Path, *, master: str | None = None, spark: "SparkSession | None" = None) -> AuditResult:
    """Audit the trace at ``path`` on Spark: was every datagram delivered exactly once?

    ``spark`` is used if given, else a session on ``master`` is made for this call.  Raises `TraceError` for a trace
    that cannot be read, `PipelineError` where Spark cannot run.
    """
    trace = open_trace(path, judged=True)
    places, _ = trace.groups()
    with _spark(spark, master, "lethe audit", 0) as live, _told(trace):
        return conclude(trace, places, judged(trace, live))


def _spark(spark: "SparkSession | None", master: str | None, name: str, events: int):
    return nullcontext(spark) if spark is not None else session(master, name, brief=events < BRIEF)


@contextmanager
def _told(*traces: TraceReader) -> Iterator[None]:
    """What fails in Spark because of a file or the machine is told as `TraceError` or `PipelineError`."""
    try:
        yield
    except Py4JJavaError as error:
        raise _in_words(str(error.java_exception), traces) from None
    except PySparkException as error:
        raise _in_words(str(error), traces) from None


def _in_words(reason: str, traces: tuple[TraceReader, ...]) -> Exception:
    if "No space left on device" in reason:
        return PipelineError(
            "no room left on the disk for what Spark puts down meanwhile; make room, or set SPARK_LOCAL_DIRS to a "
            "directory on a larger disk"
        )
    if "OutOfMemoryError" in reason:
        return PipelineError("not enough memory for this trace; free some, or use a cluster with --master")
    # Some file cannot be read: which one, and why, is told best by reading it here.
    for trace in traces:
        for batch in trace.batches():
            del batch
    return PipelineError(f"Spark failed: {first_line(reason)}; try again, and report it if it fails again")


def compare_traces(
    left: str | Path,
    right: str | Path,
    *,
    rows: bool = False,
    master: str | None = None,
    spark: "SparkSession | None" = None,
) -> CompareResult:
    """Where the traces part, if they do.

    Traces whose digests agree are equal if their rows are the same in the files, which takes no Spark.  In other traces
    leading parts whose digests agree are passed over without being read, unless ``rows``.  Raises `TraceError` and
    `PipelineError` as `audit_trace`.
    """
    sides = open_trace(left), open_trace(right)
    metas = sides[0].meta, sides[1].meta
    notes = _notes(*metas)
    alike = metas[0].digest == metas[1].digest and metas[0].events == metas[1].events
    if alike and not rows:
        if comparing.same_rows(*sides):
            return CompareResult(equal=True, left=metas[0], right=metas[1], notes=notes)
        rows = True
    steps = list(comparing.steps(*sides, rows=rows))
    size = sum(step.events for step in steps)
    with _spark(spark, master, "lethe compare", size) as live, _told(*sides):
        for step in steps:
            frames = [read_events(live, *files).where(step.cycles()) for files in step.files]
            result = compare_events(frames[0], frames[1], *metas, first=step.first, notes=notes)
            if result.left_rows or result.right_rows:
                return result
    return _no_row_differs(*metas, notes)


def _notes(left: Meta, right: Meta) -> tuple[str, ...]:
    notes = []
    if left.config != right.config:
        notes.append("the traces were made with different configurations")
    for what in ("cycles", "drained"):
        if getattr(left, what) != getattr(right, what):
            notes.append(f"{what} is {getattr(left, what)} on the left, {getattr(right, what)} on the right")
    return tuple(notes)


def compare_events(
    left: DataFrame,
    right: DataFrame,
    left_meta: Meta,
    right_meta: Meta,
    *,
    first: int = 0,
    notes: tuple[str, ...] = (),
) -> CompareResult:
    """Compare the events of two runs; none is before cycle ``first``."""
    width = max(1, -(-(max(left_meta.cycles, right_meta.cycles) - first) // _DIGEST_RANGES))
    block = comparing.differing_ranges(left, right, width).agg(F.min("block")).collect()[0][0]
    if block is None:
        return _no_row_differs(left_meta, right_meta, notes)
    within = comparing.within(block, width)
    rows = comparing.differing_rows(left.where(within), right.where(within)).limit(200).collect()
    if left_meta.digest == right_meta.digest:
        notes = (*notes, "the digests agree, so one of the traces was changed; `lethe report` tells which")
    cycle, unit = rows[0]["cycle"], rows[0]["unit"]
    here = [row for row in rows if (row["cycle"], row["unit"]) == (cycle, unit)]
    around = at_once(left.sparkSession, *(partial(_around, frame, cycle, unit) for frame in (left, right)))
    return CompareResult(
        equal=False,
        left=left_meta,
        right=right_meta,
        cycle=cycle,
        unit=unit,
        left_rows=tuple(_row(row) for row in here if row["left"] > row["right"]),
        right_rows=tuple(_row(row) for row in here if row["right"] > row["left"]),
        left_around=around[0],
        right_around=around[1],
        notes=notes,
    )


def _no_row_differs(left: Meta, right: Meta, notes: tuple[str, ...]) -> CompareResult:
    same = left.digest == right.digest
    if not same:
        notes = (*notes, "every row agrees, so one of the digests is not that of its rows; `lethe report` tells which")
    return CompareResult(equal=same, left=left, right=right, notes=notes)


def _around(events: DataFrame, cycle: int | None, unit: int | None) -> tuple[Row, ...]:
    """What happened at the unit in the 64 cycles about the divergence, and anywhere within 2; nearest first kept."""
    if cycle is None:
        return ()
    distance = F.abs(F.col("cycle") - cycle)
    # In so many words, Parquet leaves out what is far off.
    near = events.where(F.col("cycle").between(cycle - 64, cycle + 64))
    there = F.col("unit") == F.lit(unit)
    near = near.where((distance <= 2) | there)
    kept = near.orderBy(F.when(there, 0).otherwise(1), distance).limit(_ROWS_AROUND).collect()
    return tuple(sorted((_row(row) for row in kept), key=_place))


def _place(row: Row) -> tuple[int, ...]:
    return tuple(-1 if value is None else value for value in (row.cycle, row.unit, row.port))


def _row(row) -> Row:
    return Row(**{name: row[name] for name in comparing.COMPARED})

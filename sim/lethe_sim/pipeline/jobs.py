"""What reads, collects and writes: the audit of a trace and the comparison of two."""

from collections import Counter as Multiset
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.wire import UID_BITS
from lethe_sim.trace import Meta, TraceReader, open_trace
from lethe_sim.trace.check import MOST_CYCLES, Seen

from . import compare as comparing
from . import metrics as measuring
from . import rows
from . import transformations as T
from .accounts import miscounted
from .audit import BROKEN, ONCE, UNFINISHED, AuditResult, Example, Finding, Metrics
from .compare import CompareResult, Row
from .findings import FINDINGS
from .judging import Judge, Kept
from .schema import EVENTS, check_events
from .session import PipelineError, at_once, first_line, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Cases of a finding that are shown.
EXAMPLES = 20
#: Units of the largest network whose tallies are kept apart by unit.
MOST_UNITS = 20_000
#: Fewer events than this are audited before optimised code would pay: of 5 million, the audit takes 26 s of CPU time
#: without it, 41 s with it.
BRIEF = 10_000_000
_GOODPUT_BINS = 120
_DIGEST_RANGES = 512
_ROWS_AROUND = 24


def read_events(spark: "SparkSession", *files: Path) -> DataFrame:
    """The events of files of a trace, which `open_trace` has checked; none without files."""
    if not files:
        return spark.createDataFrame([], EVENTS)
    reader = spark.read.schema(EVENTS).option("parquet.page.verify-checksum.enabled", "true")
    return check_events(reader.parquet(*(str(file.resolve()) for file in files)))


def audit_trace(path: str | Path, *, master: str | None = None, spark: "SparkSession | None" = None) -> AuditResult:
    """Audit the trace at ``path``: was every datagram delivered exactly once?

    ``spark`` is used if given, else a session on ``master`` is made for this call.  Raises `TraceError` for a trace
    that cannot be read, `PipelineError` where Spark cannot run.
    """
    trace = open_trace(path, judged=True)
    groups, count = trace.groups()
    few = count <= rows.FEW
    seen = rows.seen(trace, groups) if few else None
    with _spark(spark, master, "lethe audit", count) as live, _told(trace):
        return audit_events(read_events(live, *trace.files), trace.meta, seen or rows.seen(trace, groups, live))


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


def audit_events(events: DataFrame, meta: Meta, seen: Seen) -> AuditResult:
    """Audit the events of one run, as ``meta`` describes it; ``seen`` is what `rows.seen` found in them."""
    system = rows.sound_system(seen, meta)
    if seen.unusable:
        events = events.where(_usable(system, meta.cycles))
    # The one run's name, where every row has it: to group by it then costs nothing.
    events = events.withColumn("run", F.lit(meta.run))
    spark = events.sparkSession
    with Kept() as keep:
        tally = keep(T.tallies(events, system))
        judge = Judge(events, tally, system, meta.cycles, drained=meta.drained, keep=keep)
        told, (suspects, entries) = at_once(spark, lambda: _tally(tally, meta, system), judge.doubts)
        tallies, run_findings, accepted = told
        judged = judge.judgement(suspects, entries=entries, wraps=_may_wrap(accepted, system))
        found, frame = judged.found, judged.datagrams
        frequency, metrics = at_once(
            spark,
            lambda: found.groupBy("finding").count().collect(),
            lambda: _measure(frame, meta, tallies),
        )
        counts = {row["finding"]: row["count"] for row in frequency}
        examples = _examples(found) if counts else {}
        touched = frame.where("by_reset").limit(EXAMPLES).collect() if system.faults.resets else []
        by_reset = frame.where("by_reset").count() if touched else 0
    for finding, cases in run_findings.items():
        counts[finding] = counts.get(finding, 0) + len(cases)
        examples.setdefault(finding, [])[:0] = cases
    for finding, oddities in seen.odd.items():
        counts[finding] = counts.get(finding, 0) + seen.counts[finding]
        examples.setdefault(finding, [])[:0] = [
            Example(run=meta.run, uid=odd.uid, cycle=odd.cycle, unit=odd.unit, peer=None, note=odd.note)
            for odd in oddities
        ]
    listed = tuple(
        Finding(name=name, about=about, count=counts[name], examples=tuple(examples[name][:EXAMPLES]))
        for name, about in FINDINGS.items()
        if counts.get(name)
    )
    return AuditResult(
        verdict=BROKEN if listed else ONCE if meta.drained else UNFINISHED,
        run=meta.run,
        side=meta.side,
        cycles=meta.cycles,
        graph=system.graph,
        findings=listed,
        by_reset=by_reset,
        by_reset_examples=tuple(
            Example(
                run=row["run"],
                uid=row["uid"],
                cycle=row["accepted_at"],
                unit=row["source"],
                peer=row["destination"],
                note="delivered" if row["delivered_at"] is not None else "not delivered",
            )
            for row in touched
        ),
        metrics=metrics,
    )


def _usable(system: System, cycles: int) -> Column:
    """Whether a row can be judged: nothing that must be there is null, and it lies within the run."""
    c = F.col
    within = c("cycle").between(0, min(cycles, MOST_CYCLES) - 1) & c("unit").between(0, system.graph.units - 1)
    fields = (("port", 8), ("event", 8), ("detail", 8))
    within = reduce(Column.__and__, (c(name).between(0, (1 << bits) - 1) for name, bits in fields), within)
    fields = (("uid", UID_BITS), ("peer", 16), ("length", 16))
    return reduce(
        Column.__and__, (c(name).isNull() | c(name).between(0, (1 << bits) - 1) for name, bits in fields), within
    )


def _may_wrap(accepted: int, system: System) -> bool:
    """Whether a UID may have come twice: a slot's generations, or a node's incarnations, have gone round."""
    wire = system.format
    resets = Multiset(reset.node for reset in system.faults.resets)
    return accepted > 1 << wire.generation_bits or max(resets.values(), default=0) >= (1 << wire.incarnation_bits) - 1


def _examples(found: DataFrame) -> dict[str, list[Example]]:
    """The earliest few of each finding."""
    order = Window.partitionBy("finding").orderBy("cycle", "unit", "uid")
    first = found.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= EXAMPLES)
    cases: dict[str, list[Example]] = {}
    for row in first.orderBy("finding", "rank").collect():
        case = Example(
            run=row["run"], uid=row["uid"], cycle=row["cycle"], unit=row["unit"], peer=row["peer"], note=row["note"]
        )
        cases.setdefault(row["finding"], []).append(case)
    return cases


def _tally(
    tally: DataFrame, meta: Meta, system: System
) -> tuple[list[tuple[int, int, int, int]], dict[str, list[Example]], int]:
    """(unit, event, detail, count) of all events, the findings that follow from them alone, and datagrams of a slot.

    So many, or more, than any one slot has accepted.
    """
    graph = system.graph
    frame = tally if graph.units <= MOST_UNITS else tally.withColumn("unit", F.lit(-1))
    rows = (
        frame.groupBy("unit", "event", "detail")
        .agg(
            F.sum("count").alias("count"),
            F.max("count").alias("most"),
        )
        .collect()
    )
    cases: dict[str, list[Example]] = {}

    counted = Multiset()
    for row in rows:
        counted[row["event"], row["detail"]] += row["count"]
        counted[row["event"]] += row["count"]
    for finding, note in miscounted(meta, system, counted):
        case = Example(run=meta.run, uid=None, cycle=None, unit=None, peer=None, note=note)
        cases.setdefault(finding, []).append(case)
    # Of each mode, the slot that accepted most of it.
    accepted = Multiset()
    for row in rows:
        if row["event"] == Event.ACCEPT:
            accepted[row["unit"]] += row["most"]
    tallies = [(row["unit"], row["event"], row["detail"], row["count"]) for row in rows]
    return tallies, cases, max(accepted.values(), default=0)


def _measure(frame: DataFrame, meta: Meta, tallies: list[tuple[int, int, int, int]]) -> Metrics:
    cycles, nodes = max(meta.cycles, 1), meta.system.nodes
    width = -(-cycles // _GOODPUT_BINS)
    totals, histograms, overtaken = at_once(
        frame.sparkSession,
        measuring.totals(frame).collect,
        measuring.histograms(frame, width).collect,
        measuring.overtaken(frame).count,
    )
    total = totals[0].asDict()
    bars: dict[str, list[tuple[int, int]]] = {"latency": [], "messages": [], "goodput": []}
    latencies: list[tuple[int, int]] = []
    for row in histograms:
        bars[row["series"]].append((row["bin"], row["value"]))
        if row["series"] == "latency":
            latencies.append((row["of"], row["value"]))
    flits = dict(bars["goodput"])
    octave = measuring.BINS_PER_OCTAVE
    latency, long = {}, Multiset()
    for bar, count in bars["latency"]:
        long[bar] += count
    if latencies:
        names = ("median", "p90", "p99", "p99.9")
        latency = {"least": total["latency_least"], "mean": total["latency_mean"]}
        latency |= dict(zip(names, measuring.percentiles(latencies), strict=True))
        latency["greatest"] = total["latency_greatest"]
    counts = {
        name: total[name]
        for name in (
            "datagrams", "delivered", "once", "best_effort", "accepted", "unknown", "rejected", "never_sent",
            "flits", "bytes", "messages", "repeated", "most_sends", "unlucky",
        )
    }  # fmt: skip
    return Metrics(
        **counts,
        repeats=sum(count for unit, event, _, count in tallies if event == Event.REPEAT),
        goodput=total["flits"] / (nodes * cycles),
        messages_per_datagram=total["messages"] / max(total["delivered"], 1),
        overtaken=overtaken,
        latency=latency,
        latency_bars=tuple(
            (round(2 ** (b / octave)), round(2 ** ((b + 1) / octave)), n) for b, n in sorted(long.items())
        ),
        goodput_bars=tuple(
            (b * width, flits.get(b, 0) / (nodes * min(width, cycles - b * width))) for b in range(-(-cycles // width))
        ),
        message_bars=tuple(sorted(bars["messages"])),
        tallies=tuple(sorted(tallies)),
    )


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
    near = near.where((distance <= 2) | (F.col("unit") == unit))
    kept = near.orderBy(F.when(F.col("unit") == unit, 0).otherwise(1), distance).limit(_ROWS_AROUND).collect()
    return tuple(sorted((_row(row) for row in kept), key=_place))


def _place(row: Row) -> tuple[int, ...]:
    return tuple(-1 if value is None else value for value in (row.cycle, row.unit, row.port))


def _row(row) -> Row:
    return Row(**{name: row[name] for name in comparing.COMPARED})

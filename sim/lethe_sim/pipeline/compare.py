"""Where two traces part: digests of their parts first, then of ranges of cycles, then only the rows of one range."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.spec.events import TRACE_COLUMNS, Event
from lethe.spec.trace import Layout
from lethe_sim.ledger.audit import uid_text, unit_text
from lethe_sim.trace import SCHEMA, Meta, Part, TraceReader
from lethe_sim.trace.check import MOST_CYCLES

#: Everything but the name of the run, which may differ.
COMPARED = tuple(name for name, *_ in TRACE_COLUMNS if name != "run")
#: Rows that are held against each other at a time.
_PIECE = 1 << 16


def differing_ranges(left: DataFrame, right: DataFrame, width: int) -> DataFrame:
    """Ranges of ``width`` cycles (``block``: which) whose rows are not the same on both sides.

    A side's digest of a range is the number of its rows and the sums of both halves of a 64-bit hash of each row.
    """
    # The hash of a null is none, so the hash alone does not tell in which of two columns a value stands.
    digest, sign = F.xxhash64(*COMPARED, *(F.col(name).isNull() for name in COMPARED)), F.col("sign")
    sides = [
        frame.select(
            _block(width).alias("block"),
            F.lit(sign).alias("sign"),
            digest.bitwiseAND(F.lit(0xFFFF_FFFF)).alias("low"),
            F.shiftrightunsigned(digest, 32).alias("high"),
        )
        for frame, sign in ((left, 1), (right, -1))
    ]
    excess = (
        F.sum(sign).alias("rows"),
        F.sum(sign * F.col("low")).alias("low"),
        F.sum(sign * F.col("high")).alias("high"),
    )
    return sides[0].unionAll(sides[1]).groupBy("block").agg(*excess).where("rows != 0 or low != 0 or high != 0")


def _block(width: int) -> Column:
    """The number of the range of ``width`` cycles that a row lies in; a row without a cycle comes before all."""
    return F.floor(F.coalesce("cycle", F.lit(-1)) / width)


def within(block: int, width: int) -> Column:
    """Whether a row lies in a range of cycles."""
    inside = _block(width) == block
    if not 0 <= block * width < MOST_CYCLES:
        return inside
    # In so many words, Parquet leaves out what is far off.
    return inside & F.col("cycle").between(block * width, (block + 1) * width - 1)


def differing_rows(left: DataFrame, right: DataFrame) -> DataFrame:
    """Rows with how often each side has them (``left``, ``right``), where that is not the same, in trace order."""
    sides = left.select(*COMPARED, F.lit(1).alias("side")).unionAll(right.select(*COMPARED, F.lit(0).alias("side")))
    counted = sides.groupBy(*COMPARED).agg(F.sum("side").alias("left"), F.sum(1 - F.col("side")).alias("right"))
    return counted.where(F.col("left") != F.col("right")).orderBy("cycle", "unit", "port", F.col("left").desc())


@dataclass(frozen=True, kw_only=True)
class Step:
    """A range of cycles to compare: from ``first`` on, up to and with ``last`` (None: to the end).

    ``files`` are those of each side that have events there, ``events`` the rows of the larger side's.
    """

    first: int
    last: int | None
    files: tuple[tuple[Path, ...], tuple[Path, ...]]
    events: int

    def cycles(self) -> Column:
        late = F.col("cycle") >= self.first if self.first else F.lit(True)
        return late if self.last is None else late & (F.coalesce("cycle", F.lit(-1)) <= self.last)


def same_rows(left: TraceReader, right: TraceReader) -> bool:
    """Whether both traces have the same rows in the same order, but for the name of the run, as Arrow holds them."""
    pairs = zip_longest(_pieces(left), _pieces(right))
    return all(ours is not None and theirs is not None and ours.equals(theirs) for ours, theirs in pairs)


def _pieces(trace: TraceReader) -> Iterator[pa.Table]:
    """All rows in pieces of `_PIECE`, whatever the files and row groups, and the rest."""
    # Whatever the files say of nulls.
    schema = pa.schema([SCHEMA.field(name).with_nullable(True) for name in COMPARED])
    waiting = schema.empty_table()
    for batch in trace.batches(list(COMPARED)):
        table = pa.Table.from_batches([batch]).select(COMPARED).cast(schema)
        waiting = pa.concat_tables([waiting, table])
        while len(waiting) >= _PIECE:
            yield waiting.slice(0, _PIECE)
            waiting = waiting.slice(_PIECE)
    yield waiting


def steps(left: TraceReader, right: TraceReader, *, rows: bool) -> Iterator[Step]:
    """What to compare, in order, until a difference is found: equal leading parts are left out unless ``rows``.

    Parts with the same cycles, number of events and digest are equal.  The first that differs from its counterpart is
    a step, for the difference is in it; whatever follows is another, for parts that only look different.
    """
    sides = left.parts, right.parts
    first, end = 0, None
    if not rows:
        for a, b in zip(*sides, strict=False):
            if replace(a, footer=0) != replace(b, footer=0):
                end = max(a.last, b.last)
                break
            first = a.last + 1
    for last in [None] if end is None else [end, None]:
        chosen = [[part for part in parts if _overlaps(part, first, last)] for parts in sides]
        files = [
            tuple(side.path / part.name for part in parts) if side.parts else side.files
            for side, parts in zip((left, right), chosen, strict=True)
        ]
        events = [
            sum(part.events for part in parts) if side.parts else side.meta.events
            for side, parts in zip((left, right), chosen, strict=True)
        ]
        yield Step(first=first, last=last, files=(files[0], files[1]), events=max(events))
        first = (last or 0) + 1


def _overlaps(part: Part, first: int, last: int | None) -> bool:
    return part.last >= first and (last is None or part.first <= last)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One event of a trace, as it stands in a row; None is null."""

    cycle: int | None
    unit: int | None
    port: int | None
    event: int | None
    uid: int | None
    peer: int | None
    length: int | None
    detail: int | None
    tag: int | None = None
    head: int | None = None

    def text(self, layout: Layout) -> str:
        name = Event(self.event).name if self.event in Event._value2member_map_ else f"event {self.event}"
        parts = [f"{_told(self.cycle):>9}", f"{unit_text(layout, self.unit)}.{_told(self.port)}", name]
        if self.detail:
            parts.append(f"detail {self.detail}")
        if self.uid is not None:
            parts.append(f"uid {uid_text(self.uid)}")
        if self.peer is not None:
            parts.append(f"peer {self.peer}")
        if self.length is not None:
            parts.append(f"length {self.length}")
        if self.tag:
            parts.append(f"tag {self.tag}")
        if self.head:
            parts.append(f"head {self.head:012x}")
        return "  ".join(parts)


@dataclass(frozen=True, kw_only=True)
class CompareResult:
    """Whether two traces are equal, and if not, where they part.

    ``left_rows`` and ``right_rows`` are what only that side has in the first differing cycle and unit;
    ``left_around`` and ``right_around`` what happened there and about then.
    """

    equal: bool
    left: Meta
    right: Meta
    cycle: int | None = None
    unit: int | None = None
    left_rows: tuple[Row, ...] = ()
    right_rows: tuple[Row, ...] = ()
    left_around: tuple[Row, ...] = ()
    right_around: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 equal, 1 different."""
        return 0 if self.equal else 1

    def text(self) -> str:
        layout = self.left.system.layout
        names = (f"left ({self.left.side})", f"right ({self.right.side})")
        lines = []
        if self.equal:
            lines.append(
                f"equal: {self.left.events:,} events in {self.left.cycles:,} cycles, digest {self.left.digest:016x}"
            )
        elif self.cycle is None and not self.left_rows + self.right_rows:
            lines.append("different, but not in what a row shows")
        else:
            lines.append(f"different from cycle {self.cycle} on, first at {unit_text(layout, self.unit)}")
            rows = (self.left_rows, self.right_rows)
            around = (self.left_around, self.right_around)
            for name, only, near in zip(names, rows, around, strict=True):
                lines.append(f"{name} alone has:")
                lines += [f"  {row.text(layout)}" for row in only] or ["  nothing"]
                lines.append("  and around it:")
                lines += [f"{'  >' if row in only else '   '} {row.text(layout)}" for row in near] or ["    nothing"]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def _told(value: int | None) -> str:
    return "null" if value is None else str(value)

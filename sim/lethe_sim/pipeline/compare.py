"""Where two traces part: digests of their parts first, then of ranges of cycles, then only the rows of one range."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.spec.events import TRACE_COLUMNS, Event
from lethe.spec.topology import Topology
from lethe_sim.trace import Meta, Part, TraceReader

from .audit import uid_text

#: Everything but the name of the run, which may differ.
COMPARED = tuple(name for name, *_ in TRACE_COLUMNS if name != "run")


def differing_ranges(left: DataFrame, right: DataFrame, width: int) -> DataFrame:
    """Ranges of ``width`` cycles (``block``: which) whose rows are not the same on both sides.

    A side's digest of a range is the number of its rows and the sums of both halves of a 64-bit hash of each row.
    """
    digest, sign = F.xxhash64(*COMPARED), F.col("sign")
    sides = [
        frame.select(
            F.floor(F.col("cycle") / width).alias("block"),
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
        within = F.col("cycle") >= self.first
        return within if self.last is None else within & (F.col("cycle") <= self.last)


def steps(left: TraceReader, right: TraceReader, *, rows: bool) -> Iterator[Step]:
    """What to compare, in order, until a difference is found: equal leading parts are left out unless ``rows``.

    Parts with the same cycles, number of events and digest are equal.  The first that differs from its counterpart is
    a step, for the difference is in it; whatever follows is another, for parts that only look different.
    """
    sides = left.parts, right.parts
    first, end = 0, None
    if not rows:
        for a, b in zip(*sides, strict=False):
            if a.digest is None or replace(a, footer=0) != replace(b, footer=0):
                if a.digest is not None and b.digest is not None:
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
    """One event of a trace."""

    cycle: int
    unit: int
    port: int
    event: int
    uid: int | None
    peer: int | None
    length: int | None
    detail: int

    def text(self, graph: Topology) -> str:
        name = Event(self.event).name if self.event in Event._value2member_map_ else f"event {self.event}"
        parts = [f"{self.cycle:>9}", f"{graph.unit_name(self.unit)}.{self.port}", name]
        if self.detail:
            parts.append(f"detail {self.detail}")
        if self.uid is not None:
            parts.append(f"uid {uid_text(self.uid)}")
        if self.peer is not None:
            parts.append(f"peer {self.peer}")
        if self.length is not None:
            parts.append(f"length {self.length}")
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
        graph = self.left.system.graph
        names = (f"left ({self.left.side})", f"right ({self.right.side})")
        lines = []
        if self.equal:
            lines.append(
                f"equal: {self.left.events:,} events in {self.left.cycles:,} cycles, digest {self.left.digest:016x}"
            )
        elif self.cycle is None:
            lines.append("different, but not in what a row shows")
        else:
            assert self.unit is not None
            lines.append(f"different from cycle {self.cycle} on, first at {graph.unit_name(self.unit)}")
            rows = (self.left_rows, self.right_rows)
            around = (self.left_around, self.right_around)
            for name, only, near in zip(names, rows, around, strict=True):
                lines.append(f"{name} alone has:")
                lines += [f"  {row.text(graph)}" for row in only] or ["  nothing"]
                lines.append("  and around it:")
                lines += [f"{'  >' if row in only else '   '} {row.text(graph)}" for row in near] or ["    nothing"]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

"""Traces on disk: Parquet with the event schema, and who wrote it.

A trace holds one run of one side.  A small one is a file, with `Meta` in its footer; a large one a directory of
files, one for each range of cycles, with `Meta` and their digests in `MANIFEST`.  Either appears under its name only
when it is complete (written beside it, then renamed), so a reader never sees half a trace.
"""

import contextlib
import errno
import json
import os
import shutil
import zlib
from collections import Counter as Counts
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lethe.spec.config import System
from lethe.spec.events import Counter, LinkCounter, RouterCounter
from lethe.spec.services import SERVICES
from lethe.spec.toml import dump
from lethe_sim import files
from lethe_sim.files import MANIFEST

from .check import GARBLED, OUTSIDE, RowCheck, Seen
from .events import SCHEMA, decode, digest, encode
from .meta import (
    SIDES,
    Meta,
    Part,
    TraceError,
    check_version,
    damaged,
    one_line,
    read_meta,
    read_part,
    read_values,
)  # fmt: skip

#: Events of a part of a large trace, and of the largest trace that is one file.
PART_EVENTS = 1 << 22
_KEY, _PART_KEY = files.TRACE_KEY, b"lethe.part"
_UNNAMED = "open.parquet"
_ROW_GROUP = 1 << 18
_FEW_VALUES = ["run", "unit", "port", "event", "detail"]


class TraceWriteError(OSError):
    """A trace that cannot be written to its end, for want of room, say.  The message is like the other's."""


def summed_counters(ni=None, routers=None, links=None, sums: dict | None = None, services: dict | None = None) -> dict:
    """Totals by name from the arrays a run leaves: NI [nodes, 32], routers [routers, 9], links [links, 3].

    ``services`` has those of services by name, [nodes, counters].
    """
    services = services or {}
    named = {
        "ni": (ni, [c.name for c in Counter]),
        "routers": (routers, [c.name for c in RouterCounter]),
        "links": (links, [c.name for c in LinkCounter]),
        **{s.name: (services.get(s.name), [c.name for c in s.counters]) for s in SERVICES},
    }
    totals = {}
    for group, (array, names) in named.items():
        if array is not None and len(array):
            columns = np.asarray(array).sum(axis=0, dtype=np.uint64).tolist()
            totals[group] = dict(zip(names, columns, strict=False))
    if sums:
        totals["sums"] = {name: int(np.sum(value, dtype=np.uint64)) for name, value in sums.items()}
    return totals


class TraceWriter:
    """Writes one trace; use it as a context manager and `finish` it, or nothing is left behind.

    A trace of at most ``part_events`` events is one file.  A larger one is a directory of that name: a part for each
    range of cycles, cut at the first end of a cycle at which it has ``part_events``, and `MANIFEST`.

    Parameters
    ----------
    path : file or directory to write; the one it lies in is made
    system : the run's configuration
    side : ``golden`` or ``rtl``
    run : name of the run; by default the configuration's
    part_events : events of a part, at least 1
    force : replace a file that is no trace, too

    Raises `TraceError` if ``path`` cannot be a trace or is something else, and `TraceWriteError` if the disk is full
    or fails.
    """

    def __init__(
        self,
        path: str | Path,
        system: System,
        side: str = "golden",
        run: str | None = None,
        *,
        part_events: int = PART_EVENTS,
        force: bool = False,
    ):
        if side not in SIDES:
            raise ValueError(f"side must be one of {', '.join(SIDES)}, not {side!r}")
        if part_events < 1:
            raise ValueError(f"part_events must be at least 1, not {part_events!r}")
        self.path, self.system, self.side, self.part_events = Path(path), system, side, part_events
        self.run = run or system.run.name
        self.digest, self.events = 0, 0
        self.parts: list[Part] = []
        self._waiting: list[pa.Table] = []
        self._file: pq.ParquetWriter | None = None
        self._open = True
        if files.is_stream(path):
            raise TraceError(f"{path}: is a device or a pipe, which cannot hold a trace; name a file")
        self._target = files.place(path)
        if self._target.exists() and not files.TRACE.fits(self._target):
            if self._target.is_dir():
                raise TraceError(f"{path}: is a directory that holds something else than a trace; choose another name")
            if not force:
                raise TraceError(f"{path}: exists and is no trace; choose another name")
        self._work = files.part_path(self._target)
        try:
            self._work.mkdir(parents=True, exist_ok=True)
            files.sweep_parts(self._target)
            self._start_part()
        except OSError as error:
            self._discard()
            reason = os.strerror(error.errno) if error.errno else error
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise TraceWriteError(
                    f"{path}: cannot be written: {reason}; make room or choose another disk"
                ) from None
            raise TraceError(f"{path}: cannot be written: {reason}; choose another directory") from None

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(self, *_) -> None:
        self._discard()

    def _discard(self) -> None:
        """Leave nothing of what is not finished."""
        self._open = False
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
        shutil.rmtree(self._work, ignore_errors=True)

    def append(self, events: np.ndarray) -> None:
        """Add raw events, whole cycles at a time."""
        room = self._room()
        if len(events) > room:
            events = events[np.argsort(events["cycle"], kind="stable")]
        for piece in self._pieces(events["cycle"]):
            self._append(decode(events[piece], self.system, self.run), digest(events[piece]))

    def append_table(self, table: pa.Table) -> None:
        """Add rows, ordered by cycle, as they are."""
        table = table.cast(SCHEMA)
        for piece in self._pieces(table["cycle"].to_numpy()):
            rows = table.slice(piece.start, piece.stop - piece.start)
            self._append(rows, digest(encode(rows, self.system)))

    def _room(self) -> int:
        return self.part_events - self._part_events

    def _pieces(self, cycles: np.ndarray) -> Iterator[slice]:
        """Where to cut rows so that each piece lies in one part; parts are closed on the way."""
        assert self._open, "the trace is finished"
        start = 0
        while start < len(cycles):
            rest = cycles[start:]
            size = len(rest)
            if size > self._room():
                if np.any(rest[1:] < rest[:-1]):
                    raise TraceError(f"{self.path}: rows are not ordered by cycle; append them in their order")
                # A full part still takes what its last cycle lacks.
                end = rest[self._room() - 1] if self._room() > 0 else self._last
                size = int(np.searchsorted(rest, end, side="right"))
            if size == 0:
                with self._writing():
                    self._close_part()
                    self._start_part()
                continue
            first = int(rest[:size].min())
            if self.parts and first <= self.parts[-1].last:
                raise TraceError(
                    f"{self.path}: cycle {first} came after cycle {self.parts[-1].last} was complete; "
                    "append every event, whole cycles at a time"
                )
            self._first, self._last = min(self._first, first), max(self._last, int(rest[:size].max()))
            yield slice(start, start + size)
            start += size

    def _append(self, table: pa.Table, piece_digest: int) -> None:
        self._part_digest = (self._part_digest + piece_digest) % 2**64
        self.digest = (self.digest + piece_digest) % 2**64
        self._waiting.append(table)
        self._part_events += len(table)
        self.events += len(table)
        if sum(map(len, self._waiting)) >= _ROW_GROUP:
            with self._writing():
                self._flush()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
            raise TraceWriteError(
                f"{self.path}: cannot be written to its end: {reason}; nothing is left of it, make room or choose "
                "another disk, and run again"
            ) from None

    def _start_part(self) -> None:
        self._part_events, self._part_digest = 0, 0
        self._first, self._last = 1 << 62, -1
        self._file = pq.ParquetWriter(
            self._work / _UNNAMED,
            SCHEMA,
            compression="zstd",
            use_dictionary=_FEW_VALUES,
            # A part that has rotted is noticed by whoever reads it.
            write_page_checksum=True,
        )

    def _flush(self) -> None:
        """Write what has been collected: small pieces would make small row groups, which are slow to read."""
        assert self._file is not None
        table = pa.concat_tables(self._waiting) if self._waiting else SCHEMA.empty_table()
        self._waiting.clear()
        if len(table):
            self._file.write_table(table, row_group_size=_ROW_GROUP)

    def _close_part(self) -> None:
        part = Part(
            name=f"cycles={self._first:012d}-{self._last:012d}.parquet",
            first=self._first, last=self._last, events=self._part_events, digest=self._part_digest,
        )  # fmt: skip
        self._close(_PART_KEY, {"run": self.run, "side": self.side} | asdict(part))
        os.replace(self._work / _UNNAMED, self._work / part.name)
        self.parts.append(replace(part, footer=_footer_crc(self._work / part.name)))

    def _close(self, key: bytes, metadata: dict) -> None:
        self._flush()
        assert self._file is not None
        self._file.add_key_value_metadata({key.decode(): json.dumps(metadata)})
        # A writer whose closing fails would try it again when it is collected.
        file, self._file = self._file, None
        file.close()

    def finish(self, *, cycles: int, drained: bool, digest: int | None = None, counters: dict | None = None) -> Meta:
        """Complete the trace and give it its name.

        Raises `TraceError` if ``digest``, the run's own, is not that of the events appended: some were lost
        between run and file.
        """
        assert self._open, "the trace is finished"
        if digest is not None and digest != self.digest:
            raise TraceError(
                f"{self.path}: events were lost on the way (digest {self.digest:016x}, the run's is {digest:016x}); "
                "append every event, whole cycles at a time"
            )
        meta = Meta(
            run=self.run, side=self.side, config=dump(self.system), cycles=cycles, drained=drained,
            digest=self.digest, events=self.events, counters=counters or {},
        ).sealed()  # fmt: skip
        with self._writing():
            if self.parts:
                self._close_part()
                parts = [asdict(part) for part in self.parts]
                text = json.dumps({"trace": asdict(meta), "parts": parts}, indent=1)
                (self._work / MANIFEST).write_text(text + "\n", encoding="utf-8")
                files.move(self._work, self._target)
            else:
                self._close(_KEY, asdict(meta))
                files.keep_permissions(self._target, self._work / _UNNAMED)
                files.move(self._work / _UNNAMED, self._target)
        self._discard()
        return meta


@dataclass(frozen=True, kw_only=True)
class TraceReader:
    """An open, validated trace: its `meta`, its files, and its rows in pieces or at once.

    ``parts`` has one entry for each of ``files`` of a large trace; it is empty if the trace is one file.
    """

    path: Path
    meta: Meta
    files: tuple[Path, ...]
    parts: tuple[Part, ...] = ()

    def table(self, *, columns: list[str] | None = None, filters=None) -> pa.Table:
        """Rows that pass ``filters`` (as `pyarrow.parquet.read_table` takes them), in trace order."""
        tables = []
        for file in self.files:
            with reading(file):
                # A directory named like ``seed=3`` is no column.
                table = pq.read_table(
                    file,
                    columns=columns,
                    filters=filters,
                    partitioning=None,
                    page_checksum_verification=True,
                )
            tables.append(table)
        return pa.concat_tables(tables) if tables else SCHEMA.empty_table().select(columns or SCHEMA.names)

    def sound(self, *, filters=None) -> pa.Table:
        """`table`, all columns, of rows that can be used; raises `TraceError` for the first that cannot."""
        table = self.table(filters=filters)
        self._refuse(RowCheck(self.meta.system, self.meta.run, self.meta.cycles).seen(table))
        return table

    def sound_batches(self) -> Iterator[pa.RecordBatch]:
        """`batches`, all columns, of rows that can be used; raises `TraceError` for the first that cannot."""
        check = RowCheck(self.meta.system, self.meta.run, self.meta.cycles)
        for batch in self.batches(SCHEMA.names):
            self._refuse(check.seen(batch))
            yield batch

    def _refuse(self, seen: Seen) -> None:
        for finding in (GARBLED, OUTSIDE):
            for odd in seen.odd.get(finding, ()):
                raise TraceError(
                    f"{self.path}: a row of cycle {odd.cycle}, unit {odd.unit}: {odd.note}; audit the trace with "
                    "`lethe report`, or write it again"
                )

    def groups(self) -> tuple[list[tuple[int, int]], int]:
        """(number of the file, number of the row group in it) of all pieces in order, and the number of rows."""
        found, rows = [], 0
        for number, file in enumerate(self.files):
            footer = _footer(file)[1]
            found += [(number, group) for group in range(footer.num_row_groups)]
            rows += footer.num_rows
        return found, rows

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, a bounded piece at a time."""
        for path in self.files:
            with reading(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
                yield from file.iter_batches(columns=columns)


#: What Arrow raises over a damaged file: its own errors, and those of what it trusted.
_UNREADABLE = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError, RecursionError)


@contextlib.contextmanager
def reading(path: Path):
    """Whatever goes wrong when a file of a trace is read is told as `TraceError`."""
    try:
        yield
    except TraceError:
        raise
    except _UNREADABLE as error:
        raise TraceError(f"{path}: cannot be read to its end ({one_line(error)}); write the trace again") from None


def open_trace(path: str | Path, *, judged: bool = False) -> TraceReader:
    """The trace at ``path``, a file or a directory of parts, its schema and metadata checked; raises `TraceError`.

    No row is read: what lies inside the pages of a file has checksums, which are looked at when they are read.  An
    audit judges numbers of rows and names of runs itself: with ``judged`` they are not looked at here.
    """
    path = Path(path)
    if not path.exists():
        raise TraceError(f"{path}: no such file; `lethe run` writes a trace")
    if path.is_dir():
        return _open_parts(path, judged=judged)
    if not path.is_file():
        raise TraceError(f"{path}: is a device or a pipe, and a trace is read in pieces; name a file")
    schema, footer, metadata = _footer(path)
    if _PART_KEY in metadata:
        raise TraceError(f"{path}: is one part of a trace; name its directory, {path.parent}")
    if _KEY not in metadata:
        raise TraceError(f"{path}: is Parquet, but not a trace of Lethe; name a file that `lethe run` wrote")
    values = read_values(path, metadata[_KEY])
    check_version(path, values)
    _check_schema(path, schema)
    meta = read_meta(path, values)
    if not judged:
        _check_rows(path, footer.num_rows, meta.events)
        _check_run(path, _runs(footer), meta.run)
    return TraceReader(path=path, meta=meta, files=(path,))


def _open_parts(path: Path, *, judged: bool) -> TraceReader:
    manifest = path / MANIFEST
    try:
        text = manifest.read_bytes()
    except FileNotFoundError:
        raise TraceError(f"{path}: is a directory without {MANIFEST}; name a trace in it") from None
    except OSError as error:
        raise TraceError(f"{manifest}: cannot be read: {error.strerror or error}; check the file") from None
    values = read_values(manifest, text)
    trace, entries = values.get("trace"), values.get("parts")
    if not isinstance(trace, dict) or not isinstance(entries, list):
        raise damaged(manifest, "it must hold trace, a table, and parts, a list")
    check_version(manifest, trace)
    meta = read_meta(manifest, trace)
    parts = tuple(read_part(manifest, number, entry) for number, entry in enumerate(entries))
    names = Counts(part.name for part in parts)
    if names and names.most_common(1)[0][1] > 1:
        raise damaged(manifest, f"parts has {names.most_common(1)[0][0]} twice")
    cure = "put it back, or write the trace again with `lethe run`"
    for part in parts:
        file = path / part.name
        if not file.exists():
            raise TraceError(f"{file}: this part of the trace is missing; {cure}")
        try:
            found = _footer_crc(file)
        except OSError as error:
            raise TraceError(f"{file}: cannot be read: {error.strerror or error}; {cure}") from None
        if found != part.footer:
            raise TraceError(f"{file}: is not what was written there; {cure}")
        _check_schema(file, _footer(file)[0])
    for file in sorted(path.glob("*.parquet")):
        if file.name not in names:
            raise TraceError(f"{file}: is no part of this trace; take it away")
    if not judged:
        _check_rows(manifest, sum(part.events for part in parts), meta.events)
    return TraceReader(path=path, meta=meta, files=tuple(path / part.name for part in parts), parts=parts)


def _footer_crc(path: Path) -> int:
    """CRC-32 of a file of Parquet from its footer on, whose length stands before its last four bytes."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(size - 8 - length, 0))
        return zlib.crc32(file.read())


def _footer(path: Path) -> tuple[pa.Schema, pq.FileMetaData, dict[bytes, bytes]]:
    """(schema, metadata of Parquet, ours) of a file."""
    try:
        with pq.ParquetFile(path) as file:
            return file.schema_arrow, file.metadata, file.metadata.metadata or {}
    except OSError as error:
        if isinstance(error, pa.ArrowException) or error.errno is None:
            raise _no_parquet(path, error) from None
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}; check the file") from None
    except _UNREADABLE as error:
        raise _no_parquet(path, error) from None


def _no_parquet(path: Path, error: BaseException) -> TraceError:
    what = "is cut off" if _starts_like_parquet(path) else "is not Parquet"
    return TraceError(f"{path}: {what} ({one_line(error)}); write the trace again with `lethe run`")


def _runs(footer: pq.FileMetaData) -> set[str]:
    """Names of runs that the statistics of a file tell."""
    runs: set[str] = set()
    with contextlib.suppress(*_UNREADABLE):
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(0).statistics
            if statistics is not None and statistics.has_min_max:
                runs |= {str(statistics.min), str(statistics.max)}
    return runs


def _starts_like_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _check_schema(path: Path, schema: pa.Schema) -> None:
    cure = "write the trace again with this version of Lethe"
    for wanted in SCHEMA:
        index = schema.get_field_index(wanted.name)
        if index < 0:
            raise TraceError(f"{path}: column {wanted.name}: is missing; {cure}")
        if schema.field(index).type != wanted.type:
            raise TraceError(f"{path}: column {wanted.name}: is {schema.field(index).type}, not {wanted.type}; {cure}")
    for name in schema.names:
        if name not in SCHEMA.names:
            raise TraceError(f"{path}: column {name}: is not of this schema; {cure}")


def _check_rows(path: Path, rows: int, written: int) -> None:
    if rows != written:
        raise TraceError(
            f"{path}: has {rows} rows, but was written with {written}; rows were removed or added, write it again"
        )


def _check_run(path: Path, runs: set[str], run: str) -> None:
    for other in sorted(runs - {run}):
        raise TraceError(f"{path}: has rows of run {other!r} in the trace of run {run!r}; write it again")

"""Trace files: Parquet with the event schema, and who wrote it in the file's metadata.

A file holds one run of one side.  It appears under its name only when it is complete (written beside it, then
renamed), so a reader never sees half a trace.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lethe
from lethe.spec.config import ConfigError, System, parse
from lethe.spec.events import Counter, RouterCounter
from lethe.spec.toml import dump

from .events import SCHEMA, decode, digest

#: Version of the trace schema; a reader refuses another.
VERSION = "1"
_KEY = b"lethe.trace"
_ROW_GROUP = 1 << 18
_FEW_VALUES = ["run", "unit", "port", "event", "detail"]
SIDES = ("golden", "rtl")


class TraceError(ValueError):
    """A trace that cannot be used.  The message is ``file: what is wrong; cure``."""


@dataclass(frozen=True, kw_only=True)
class Meta:
    """What a trace says of its run.

    Attributes
    ----------
    run, side : name of the run; ``golden`` or ``rtl``
    config : the TOML text the run followed
    cycles : how many cycles ran; events lie in 0 … cycles − 1
    drained : whether everything had come to rest at the end
    digest : of the raw events, mod 2^64
    events : rows of the trace
    counters : totals by name, in the groups ``ni``, ``routers``, ``links`` and ``sums`` (any may be missing)
    lethe : version that wrote it
    """

    run: str
    side: str
    config: str
    cycles: int
    drained: bool
    digest: int
    events: int
    counters: dict = field(default_factory=dict)
    lethe: str = lethe.__version__
    version: str = VERSION

    @cached_property
    def system(self) -> System:
        return parse(self.config, f"trace of run {self.run}")


def summed_counters(ni=None, routers=None, links=None, sums: dict | None = None) -> dict:
    """Totals by name from the arrays a run leaves: NI [nodes, 32], routers [routers, 8], links [links, 3]."""
    named = {
        "ni": (ni, [c.name for c in Counter]),
        "routers": (routers, [c.name for c in RouterCounter]),
        "links": (links, ["LOST", "DEAD", "FLIPS"]),
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

    Parameters
    ----------
    path : file to write; its directory is made
    system : the run's configuration
    side : ``golden`` or ``rtl``
    run : name of the run; by default the configuration's
    """

    def __init__(self, path: str | Path, system: System, side: str = "golden", run: str | None = None):
        if side not in SIDES:
            raise ValueError(f"side must be one of {', '.join(SIDES)}, not {side!r}")
        self.path, self.system, self.side = Path(path), system, side
        self.run = run or system.run.name
        self.digest, self.events = 0, 0
        self._waiting: list[pa.Table] = []
        self._part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = pq.ParquetWriter(
                self._part,
                SCHEMA,
                compression="zstd",
                use_dictionary=_FEW_VALUES,  # pyright: ignore[reportArgumentType]
            )
        except OSError as error:
            raise TraceError(
                f"{path}: cannot be written: {error.strerror or error}; choose another directory"
            ) from None

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(self, *_) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            with contextlib.suppress(FileNotFoundError):
                self._part.unlink()

    def append(self, events: np.ndarray) -> None:
        """Add raw events of whole cycles, later than all before (any order among themselves)."""
        self.digest = (self.digest + digest(events)) % 2**64
        self.append_table(decode(events, self.system, self.run))

    def append_table(self, table: pa.Table) -> None:
        """Add rows as they are; the digest then has to be given to `finish`."""
        assert self._file is not None, "the trace is finished"
        self._waiting.append(table.cast(SCHEMA))
        self.events += len(table)
        if sum(map(len, self._waiting)) >= _ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        """Write what has been collected: small pieces would make small row groups, which are slow to read."""
        assert self._file is not None
        table = pa.concat_tables(self._waiting) if self._waiting else SCHEMA.empty_table()
        self._waiting.clear()
        if len(table):
            self._file.write_table(table, row_group_size=_ROW_GROUP)

    def finish(self, *, cycles: int, drained: bool, digest: int | None = None, counters: dict | None = None) -> Meta:
        """Complete the file and give it its name.

        Raises `TraceError` if ``digest``, the run's own, is not that of the events appended: some were lost
        between run and file.
        """
        assert self._file is not None, "the trace is finished"
        if digest is not None and self.digest and digest != self.digest:
            raise TraceError(
                f"{self.path}: events were lost on the way (digest {self.digest:016x}, the run's is {digest:016x}); "
                "append every event, whole cycles at a time"
            )
        meta = Meta(
            run=self.run, side=self.side, config=dump(self.system), cycles=cycles, drained=drained,
            digest=self.digest if digest is None else digest, events=self.events, counters=counters or {},
        )  # fmt: skip
        self._flush()
        self._file.add_key_value_metadata({_KEY.decode(): json.dumps(asdict(meta))})
        self._file.close()
        self._file = None
        os.replace(self._part, self.path)
        return meta


@dataclass(frozen=True, kw_only=True)
class TraceReader:
    """An open, validated trace: its `meta`, and its rows in pieces or at once."""

    path: Path
    meta: Meta

    def table(self, *, columns: list[str] | None = None, filters=None) -> pa.Table:
        """Rows that pass ``filters`` (as `pyarrow.parquet.read_table` takes them), in trace order."""
        with _reading(self.path):
            # A directory named like ``seed=3`` is no column.
            return pq.read_table(
                self.path,
                columns=columns,
                filters=filters,
                partitioning=None,  # pyright: ignore[reportArgumentType]
            )

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows, a bounded piece at a time."""
        with _reading(self.path), pq.ParquetFile(self.path) as file:
            yield from file.iter_batches(columns=columns)


@contextlib.contextmanager
def _reading(path: Path):
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise TraceError(f"{path}: cannot be read to its end ({reason}); write the trace again") from None


def open_trace(path: str | Path) -> TraceReader:
    """The trace at ``path``, its schema and metadata checked; raises `TraceError`."""
    path = Path(path)
    if not path.exists():
        raise TraceError(f"{path}: no such file; `lethe run` writes a trace")
    if path.is_dir():
        raise TraceError(f"{path}: is a directory; name a trace file in it")
    try:
        with pq.ParquetFile(path) as file:
            schema, metadata, rows = file.schema_arrow, file.metadata.metadata or {}, file.metadata.num_rows
    except pa.ArrowInvalid as error:
        what = "is cut off" if _starts_like_parquet(path) else "is not Parquet"
        reason = str(error).splitlines()[0]
        raise TraceError(f"{path}: {what} ({reason}); write the trace again with `lethe run`") from None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}; check the file") from None
    if _KEY not in metadata:
        raise TraceError(f"{path}: is Parquet, but not a trace of Lethe; name a file that `lethe run` wrote")
    _check_schema(path, schema)
    return TraceReader(path=path, meta=_meta(path, metadata[_KEY], rows))


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


def _meta(path: Path, text: bytes, rows: int) -> Meta:
    try:
        values = json.loads(text)
        if values.get("version") != VERSION:
            raise TraceError(
                f"{path}: has trace schema {values.get('version')}, not {VERSION}; write it again with this version"
            )
        meta = Meta(**values)
        _ = meta.system
    except (ValueError, TypeError, ConfigError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{path}: its metadata is damaged ({error}); write the trace again") from None
    if meta.events != rows:
        raise TraceError(
            f"{path}: has {rows} rows, but was written with {meta.events}; rows were removed or added, write it again"
        )
    return meta

"""A sweep's directory: one file for each finished run, and the tables they add up to.

::

    runs/NAME.parquet       metrics of a run: run, metric, value, unit; the rest in the file's metadata
    events/NAME.parquet     its trace, if the sweep keeps events
    metrics.parquet         the metrics of all runs
    configuration.parquet, runs.parquet, points.parquet, summary.parquet
    report.html             the page

A file appears under its name when it is complete, and never changes after that.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lethe_sim import files
from lethe_sim.metrics import Metric

VERSION = "1"
_KEY = b"lethe.run"

#: The tables of a sweep: columns with their Arrow types and meanings.
TABLES: dict[str, tuple[tuple[str, pa.DataType, str], ...]] = {
    "metrics": (
        ("run", pa.string(), "name of the run"),
        ("metric", pa.string(), "name of the metric"),
        ("value", pa.float64(), "its value"),
        ("unit", pa.string(), "its unit"),
    ),
    "configuration": (
        ("run", pa.string(), "name of the run"),
        ("key", pa.string(), "section.key"),
        ("value", pa.string(), "as a text; a list as JSON"),
    ),
    "runs": (
        (
            "run",
            pa.string(),
            "name of the run: a digest of its configuration and of all else that its results depend on",
        ),
        ("point", pa.int64(), "number of its point"),
        ("replica", pa.int64(), "0 … replicas − 1"),
        ("seed", pa.int64(), "run.seed"),
        ("cycles", pa.int64(), "length of the run in cycles"),
        ("drained", pa.bool_(), "whether the run had drained"),
        ("events", pa.int64(), "events of the run"),
        ("digest", pa.string(), "digest of its events, 16 hexadecimal digits"),
    ),
    "points": (
        ("point", pa.int64(), "number of the point"),
        ("axis", pa.string(), "name of the axis, for example ni.slots"),
        ("value", pa.string(), "its value here, as a text"),
        ("number", pa.float64(), "its value here, if it is a number"),
    ),
    "summary": (
        ("point", pa.int64(), "number of the point"),
        ("metric", pa.string(), "name of the metric"),
        ("unit", pa.string(), "its unit"),
        ("runs", pa.int64(), "replicas that have the metric"),
        ("mean", pa.float64(), "mean over these replicas"),
        ("deviation", pa.float64(), "standard deviation; null for one replica"),
        ("low", pa.float64(), "lower end of the 95 % confidence interval of the mean; null for one replica"),
        ("high", pa.float64(), "upper end of that interval; null for one replica"),
    ),
}
_NULLABLE = {"number", "deviation", "low", "high"}
SCHEMAS = {
    name: pa.schema([pa.field(column, kind, nullable=column in _NULLABLE) for column, kind, _ in columns])
    for name, columns in TABLES.items()
}


class StoreError(ValueError):
    """A file of a sweep that cannot be used.  The message is ``file: what is wrong; cure``."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one run left.

    Attributes
    ----------
    run, config : its name, and its configuration as TOML
    cycles, drained, digest, events : as of a trace
    seconds : what it took; no table holds it, since it is not the same twice
    slowest, unlucky : the worst datagrams: uid, accepted_at, latency, sends
    metrics : its rows
    """

    run: str
    config: str
    cycles: int
    drained: bool
    digest: int
    events: int
    seconds: float
    slowest: tuple[dict[str, int], ...] = ()
    unlucky: tuple[dict[str, int], ...] = ()
    metrics: tuple[Metric, ...] = ()


class Store:
    """The directory of a sweep."""

    def __init__(self, root: str | Path):
        self.root = Path(root).resolve()

    def run_file(self, run: str) -> Path:
        return self.root / "runs" / f"{run}.parquet"

    def events_file(self, run: str) -> Path:
        return self.root / "events" / f"{run}.parquet"

    def table_file(self, table: str) -> Path:
        return self.root / f"{table}.parquet"

    def write_run(self, result: Result) -> None:
        """Keep a finished run; raises OSError, and then leaves nothing."""
        meta = asdict(result) | {"version": VERSION}
        meta.pop("metrics")
        rows = [(result.run, *row) for row in result.metrics]
        _write(self.run_file(result.run), "metrics", rows, {_KEY: json.dumps(meta | {"check": _check(meta, rows)})})

    def read_run(self, run: str) -> Result:
        """A finished run; raises FileNotFoundError, or `StoreError` for a file that is damaged."""
        path = self.run_file(run)
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        table = _read(path, "metrics")
        try:
            meta = json.loads((table.schema.metadata or {})[_KEY])
            columns = [table[name].to_pylist() for name in ("run", "metric", "value", "unit")]
            # Parquet's checksums are of its pages; this one is of all that is read.
            if meta.pop("check") != _check(meta, list(zip(*columns, strict=True))):
                raise ValueError("its check sum is wrong")
            if meta.pop("version") != VERSION or meta["run"] != run:
                raise ValueError("it is of another run or version")
            meta["slowest"], meta["unlucky"] = tuple(meta["slowest"]), tuple(meta["unlucky"])
            return Result(**meta, metrics=tuple(map(Metric, *columns[1:])))
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path}: is damaged ({error}); {_CURE}") from None

    def write_table(self, table: str, rows: Iterable[tuple]) -> None:
        _write(self.table_file(table), table, list(rows), {})

    def read_table(self, table: str) -> pa.Table:
        """One of `TABLES`; raises `StoreError`."""
        path = self.table_file(table)
        if not path.exists():
            raise StoreError(f"{path}: no such file; finish the sweep first, `lethe sweep` goes on where it stopped")
        return _read(path, table)

    def write_text(self, name: str, text: str) -> None:
        with _appearing(self.root / name) as part:
            part.write_text(text, encoding="utf-8")

    def differs(self, table: str) -> StoreError:
        """The error of a table that does not say what the runs say."""
        return StoreError(f"{self.table_file(table)}: does not say what the runs say; `lethe sweep` writes it again")

    def sweep_text(self) -> str | None:
        """The TOML that the sweep was made from, if this is the directory of one."""
        path = self.root / "sweep.toml"
        try:
            return path.read_text(encoding="utf-8") if path.is_file() else None
        except UnicodeDecodeError as error:
            raise StoreError(f"{path}: is not UTF-8 text (byte {error.start}); `lethe sweep` writes it again") from None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Made, and for one sweep at a time; what a killed one left half written is taken away."""
        try:
            for folder in ("runs", "events"):
                (self.root / folder).mkdir(parents=True, exist_ok=True)
            lock = open(self.root / ".lock", "a")  # noqa: SIM115
        except FileExistsError as error:
            raise StoreError(f"{error.filename}: is a file; name a directory with -o") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(
                    f"{self.root}: another `lethe sweep` is at work here; wait for it, or use -o"
                ) from None
            self._tidy()
            try:
                yield
            finally:
                self._tidy()

    def _tidy(self) -> None:
        for folder in (self.root, self.root / "runs", self.root / "events"):
            for left in folder.glob(f".*{files.PART}"):
                files.remove(left)


def _check(meta: Mapping[str, Any], rows: list[tuple]) -> str:
    return hashlib.sha256((json.dumps(meta, sort_keys=True) + repr(rows)).encode()).hexdigest()


_CURE = "delete it, and `lethe sweep` runs it again"


def scan(store: Store, runs: Iterable[str], *, events: bool, note: Callable[[str], None]) -> Mapping[str, Result]:
    """The runs that are finished; a damaged file is noted, removed and so done again."""
    found: dict[str, Result] = {}
    for run in runs:
        try:
            result = store.read_run(run)
            if events:
                _check_events(store.events_file(run), result)
            found[run] = result
        except FileNotFoundError:
            continue
        except StoreError as error:
            note(f"{str(error).rpartition(';')[0]}; the run is done again")
            with contextlib.suppress(FileNotFoundError):
                store.run_file(run).unlink()
    return found


def _check_events(path: Path, result: Result) -> None:
    from lethe_sim.trace import TraceError, open_trace

    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    try:
        meta = open_trace(path).meta
    except TraceError as error:
        raise StoreError(str(error)) from None
    if (meta.digest, meta.events) != (result.digest, result.events):
        raise StoreError(f"{path}: is the trace of another run; {_CURE}")


def _write(path: Path, table: str, rows: list[tuple], metadata: Mapping[bytes, str]) -> None:
    schema = SCHEMAS[table]
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in schema]
    filled = pa.table(columns, schema=schema.with_metadata(dict(metadata)))
    with _appearing(path) as part:
        # Checksums, so that a damaged page is seen for what it is.
        pq.write_table(filled, part, compression="zstd", write_page_checksum=True)


def _read(path: Path, table: str) -> pa.Table:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            found = file.read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or ["unreadable"])[0]
        raise StoreError(f"{path}: is damaged ({reason}); {_CURE}") from None
    if not found.schema.equals(SCHEMAS[table]):
        raise StoreError(f"{path}: has other columns than this version writes; {_CURE}")
    for field in found.schema:
        if not field.nullable and found[field.name].null_count:
            raise StoreError(f"{path}: is damaged (nothing in a row of {field.name}); {_CURE}")
    return found


@contextlib.contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """A file to write beside ``path``, which takes its place when it is complete; nothing is left if it is not."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise

"""A traffic trace as a workload: Parquet or CSV with the columns cycle, source, destination and length."""

from collections.abc import Generator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from lethe.spec.config import System
from lethe_sim.golden.script import Letters, Script

from .traffic import payloads, sent_and_compared, slot_words
from .workload import Verdict, Workload

COLUMNS = ("cycle", "source", "destination", "length")
_MAGIC = b"PAR1"
#: Cycles beyond it are no time that a run reaches.
LAST_CYCLE = 1 << 40


class TraceWorkload(Workload):
    """The datagrams of a trace, each offered from its cycle on; at once, if ``timing`` is compressed.

    Rows may be in any order; those of one node and cycle are sent in the order of their rows.
    """

    def __init__(self, system: System):
        super().__init__(system)
        data = self.read()
        self._csv = not data.startswith(_MAGIC)
        table = self._read_csv(data) if self._csv else self._read_parquet(data)
        self.cycle, self.source, self.destination, self.length = (self._whole(table, name) for name in COLUMNS)
        self._check()

    @property
    def expected(self) -> int:
        return len(self.cycle)

    def phases(self) -> Generator[Script, Letters, Verdict]:
        return sent_and_compared("trace", self.script(), self.system)

    def script(self) -> Script:
        """What the hosts send."""
        system, load = self.system, self.system.workload
        order = np.lexsort((self.cycle, self.source))
        source, length = self.source[order], self.length[order]
        # Of each node's datagrams, the how-manieth.
        number = np.arange(len(order)) - np.searchsorted(source, source)
        data, at = payloads(source, number, length, slot_words(system))
        return Script.from_columns(
            system, node=source, destination=self.destination[order], length=length, data=data, at=at,
            not_before=self.cycle[order] if load.timing == "kept" else 0,
            deadline=load.deadline, retry_limit=load.retry_limit, tag=number % (1 << system.wire.tag_bits),
        )  # fmt: skip

    def _read_parquet(self, data: bytes) -> pa.Table:
        try:
            file = pq.ParquetFile(pa.BufferReader(data))
            self._require(file.schema_arrow.names)
            # A thread of Arrow that lets go of Python's bytes while the interpreter ends aborts the process.
            return file.read(columns=list(COLUMNS), use_threads=False)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self.broken(f"is no whole Parquet file: {_line(error)}", "copy it again") from None

    def _read_csv(self, data: bytes) -> pa.Table:
        head = data.split(b"\n", 1)[0].strip()
        try:
            names = [name.strip().strip('"') for name in head.decode("utf-8-sig").split(",")]
        except UnicodeDecodeError:
            raise self.broken("is neither Parquet nor text", "give a Parquet or CSV file") from None
        self._require(names)
        data = data.rstrip()
        if b"\n" not in data:
            return pa.table({name: pa.array([], pa.string()) for name in COLUMNS})
        try:
            # As text, so that a value that is no number can be named with its row.
            return csv.read_csv(
                pa.BufferReader(data),
                parse_options=csv.ParseOptions(ignore_empty_lines=False),  # so that lines can be counted
                read_options=csv.ReadOptions(use_threads=False, skip_rows=1, column_names=names),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(COLUMNS, pa.string()), include_columns=list(COLUMNS)
                ),
            )
        except pa.ArrowException as error:
            raise self.broken(f"is not CSV: {_line(error)}", "mend that row") from None

    def _require(self, names: list[str]) -> None:
        missing = [name for name in COLUMNS if names.count(name) != 1]
        if missing:
            raise self.broken(
                f"needs one column {missing[0]}, and has {', '.join(names) or 'none'}",
                f"name the columns {', '.join(COLUMNS)}",
            )

    def _whole(self, table: pa.Table, name: str) -> np.ndarray:
        """A column as int64."""
        column = table[name].combine_chunks()
        if pa.types.is_string(column.type):
            column = pc.call_function("utf8_trim_whitespace", [column])
            number = pc.call_function("match_substring_regex", [column], pc.MatchSubstringOptions(r"^-?\d{1,18}$"))
            self._refuse(name, column, number)
        elif not pa.types.is_integer(column.type):
            raise self.broken(f"column {name} is {column.type}", "make it a column of whole numbers")
        self._refuse(name, column, column.is_valid())
        try:
            return column.cast(pa.int64()).to_numpy()
        except pa.ArrowException as error:
            raise self.broken(f"column {name}: {_line(error)}", "give smaller numbers") from None

    def _refuse(self, name: str, column: pa.Array, good: pa.Array) -> None:
        bad = np.flatnonzero(~pc.fill_null(good, False).to_numpy(zero_copy_only=False))
        if len(bad):
            value = column[int(bad[0])].as_py()
            shown = "empty" if value in (None, "") else repr(value)
            raise self._at(int(bad[0]), f"{name} is {shown}", "give a whole number", len(bad))

    def _check(self) -> None:
        nodes, mtu = self.system.nodes, self.system.host_mtu
        kept, cycles = self.system.workload.timing == "kept", self.system.run.cycles
        for name, column, most, cure in (
            ("cycle", self.cycle, cycles - 1 if kept else LAST_CYCLE, "raise run.cycles, or compress workload.timing"),
            ("source", self.source, nodes - 1, "number the nodes from 0, or choose a larger topology"),
            ("destination", self.destination, nodes - 1, "number the nodes from 0, or choose a larger topology"),
            ("length", self.length, mtu, "cut it up, or raise wire.mtu"),
        ):
            bad = np.flatnonzero((column < 0) | (column > most))
            if len(bad):
                raise self._at(int(bad[0]), f"{name} must be 0 to {most:,}, not {column[bad[0]]:,}", cure, len(bad))
        bad = np.flatnonzero(self.source == self.destination)
        if len(bad) and not self.to_itself:
            what = f"node {self.source[bad[0]]} sends to itself"
            raise self._at(int(bad[0]), what, "leave such rows out, or set loop.slots", len(bad))

    def _at(self, row: int, what: str, cure: str, many: int):
        """The error of a row (and of ``many`` in all), counted from 1; of a CSV file also its line."""
        line = f" (line {row + 2})" if self._csv else ""
        rest = f" ({many - 1:,} more rows like it)" if many > 1 else ""
        return self.broken(f"row {row + 1}{line}: {what}{rest}", cure)


def _line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")

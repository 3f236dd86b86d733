"""What services do over the cycles of a run: counts in columns, read from a trace, and charts of them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from lethe.spec.config import System
from lethe.spec.services import Service
from lethe_sim.ledger.columns import NULL
from lethe_sim.trace import TraceReader
from lethe_sim.trace.events import filled

from .html import csv_uri
from .timeline import Steps, steps

__all__ = ["MOST_COLUMNS", "Course", "Levels", "Picture", "service_rows"]

#: Columns of a run, over its cycles, at most.
MOST_COLUMNS = 120


class Picture(NamedTuple):
    """A chart of a page with its words, and its numbers as the address of a download; a wide one has a row alone."""

    name: str
    title: str
    about: str
    drawn: Markup
    csv: Markup
    wide: bool = False


class Course:
    """The cycles of a run of ``system``, in ``columns`` of ``width`` cycles."""

    def __init__(self, system: System, cycles: int):
        self.system, self.cycles = system, cycles
        self.width = max(1, -(-cycles // MOST_COLUMNS))
        self.columns = max(1, -(-cycles // self.width))

    @property
    def marks(self) -> list[int]:
        """The first cycle of each column."""
        return [column * self.width for column in range(self.columns)]

    @property
    def zeros(self) -> np.ndarray:
        """A count for each column."""
        return np.zeros(self.columns, np.int64)

    def each(self, what: str) -> str:
        """The unit of a count of these."""
        return f"{what} in {self.width:,} cycles" if self.width > 1 else f"{what} in each cycle"

    def lines(self, name: str, title: str, about: str, unit: str, lines: dict[str, np.ndarray], **more) -> Picture:
        """A chart of numbers in each column; ``more`` as of `steps`."""
        points: dict[str, Steps] = {
            line: list(zip(self.marks, values.tolist(), strict=True)) for line, values in lines.items()
        }
        rows = [(line, *point) for line, some in points.items() for point in some]
        return Picture(
            name, title, about, steps(points, self.cycles, title=unit, label=title, **more),
            csv_uri(("line", "cycle_from", name), rows),
        )  # fmt: skip


class Levels:
    """A number for each node that goes up and down, and their sum at the end of each column."""

    def __init__(self, nodes: int, columns: int):
        self._now, self._changes = np.zeros(nodes, np.int64), np.zeros(columns, np.int64)

    def add(self, node: np.ndarray, column: np.ndarray, change: np.ndarray | int) -> None:
        """Changes at nodes."""
        np.add.at(self._now, node, change)
        np.add.at(self._changes, column, change)

    def clear(self, node: int, column: int) -> None:
        """A node's number is 0 again."""
        self._changes[column] -= self._now[node]
        self._now[node] = 0

    def sums(self) -> np.ndarray:
        return np.cumsum(self._changes)


def service_rows(trace: TraceReader, service: Service, names: tuple[str, ...]) -> Iterator[dict[str, np.ndarray]]:
    """The rows of a service in a trace, in pieces: ``node``, and these columns but the unit.

    Its rows must be sound (`TraceReader.sound_batches`); a number that is not there is `NULL`.
    """
    system = trace.meta.system
    layout, level = system.layout, system.services.index(service)
    first, stride = layout.service_unit(0, level), len(layout.services)
    for batch in trace.batches(["unit", *names]):
        columns = {name: filled(batch[name], NULL)[0] for name in ("unit", *names)}
        unit = columns.pop("unit").astype(np.int64) - first
        rows = np.flatnonzero((unit >= 0) & (unit % stride == 0))
        yield {"node": unit[rows] // stride, **{name: values[rows] for name, values in columns.items()}}

"""What a rule of a service is given, and what it gives."""

from collections import Counter as Multiset
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from lethe.spec.events import RESETS
from lethe_sim.ledger import group
from lethe_sim.ledger.audit import Number
from lethe_sim.ledger.columns import Columns, starts_of
from lethe_sim.ledger.findings import found
from lethe_sim.ledger.group import Run
from lethe_sim.trace.check import MOST_CYCLES, scheduled_resets

#: Columns of the events of services: `NULL` stands for null.
COLUMNS = group.COLUMNS | {"tag": np.int32}

Made = TypeVar("Made")


class ServiceRows:
    """All rows of one service of some nodes.

    Parameters
    ----------
    run : the run that they are of
    level : the service's place in the stack
    columns : `COLUMNS`, in any order

    Attributes
    ----------
    cycle, unit, event, uid, peer, length, detail, tag : arrays, ordered by unit and cycle, a reset first
    node : of each row
    epoch : of each row the number of its epoch: what a unit shows from one of its resets to the next
    """

    def __init__(self, run: Run, level: int, columns: Columns):
        self.run, self.system, layout = run, run.system, run.system.layout
        reset = np.isin(columns["event"], RESETS)
        order = np.lexsort((~reset, columns["cycle"], columns["unit"]))
        self.cycle, self.unit, self.event, self.uid, self.peer, self.length, self.detail, self.tag = (
            columns[name][order] for name in COLUMNS
        )
        self.node = (self.unit.astype(np.int64) - layout.service_unit(0, level)) // len(layout.services)
        begins = reset[order]
        begins[starts_of(self.unit)] = True
        self.epoch = np.cumsum(begins) - 1
        self._made: dict[Callable, Any] = {}

    def once(self, make: Callable[["ServiceRows"], Made]) -> Made:
        """``make`` of these rows, made once for all rules that ask."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]

    def of(self, event: int) -> np.ndarray:
        """The places of an event's rows."""
        return np.flatnonzero(self.event == event)

    @cached_property
    def epochs(self) -> np.ndarray:
        """The place of each epoch's first row."""
        return starts_of(self.epoch)

    @cached_property
    def last(self) -> np.ndarray:
        """Of each epoch whether its unit has no later one."""
        unit = self.unit[self.epochs]
        return np.append(unit[1:] != unit[:-1], True) if len(unit) else np.zeros(0, bool)

    def incarnation(self, places: np.ndarray) -> np.ndarray:
        """The incarnation that the nodes of some rows have in their cycles."""
        due = (reset for reset in scheduled_resets(self.system, self.run.cycles) if reset[0] < self.system.nodes)
        resets = np.sort(np.array([node * MOST_CYCLES + cycle for node, cycle in due], np.int64))
        node = self.node[places] * MOST_CYCLES
        before = np.searchsorted(resets, node + self.cycle[places], "right") - np.searchsorted(resets, node)
        return 1 + before % ((1 << self.system.format.incarnation_bits) - 1)

    def found(self, name: str, places: np.ndarray, note: pa.Array | str, uid: np.ndarray | None = None) -> pa.Table:
        """Findings about some rows; ``uid`` where they are about other datagrams than the rows name."""
        return found(
            self.run.name, name, uid=self.uid[places] if uid is None else uid, cycle=self.cycle[places],
            unit=self.unit[places], peer=self.peer[places], note=note,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Audited:
    """How a service is judged.

    Attributes
    ----------
    findings : what breaks its rules, as tables with the columns `findings.FOUND`
    sums : what rows come to; sums of pieces add up to the run's
    numbers : what the sums of a run say of it
    facts : what its nodes had with each other, by name, for its rules about that
    """

    findings: Callable[[ServiceRows], Iterator[pa.Table]]
    sums: Callable[[ServiceRows], Multiset]
    numbers: Callable[[Multiset], tuple[Number, ...]]
    facts: Callable[[ServiceRows], dict[str, Columns]] = lambda rows: {}

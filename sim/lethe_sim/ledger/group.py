"""What a kernel is given: the run, and all events of some of its datagrams."""

from collections import Counter as Multiset
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.wire import UID_BITS, UID_GENERATION_SHIFT, UID_INCARNATION_SHIFT, UID_SLOT_SHIFT, UID_SOURCE_SHIFT
from lethe_sim.trace import Meta
from lethe_sim.trace.check import MOST_CYCLES, scheduled_resets
from lethe_sim.trace.events import filled

from .columns import NULL, Columns, starts_of

#: Columns of events: `NULL` stands for null.
COLUMNS = {
    "cycle": np.int64, "unit": np.int32, "event": np.uint8, "uid": np.int64, "peer": np.int32, "length": np.int32,
    "detail": np.uint8,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is judged: a run of ``system`` that lasted ``cycles``, under its ``name``.

    The resets and deaths of ``system`` are those that have their event: only they excuse what they touched.
    """

    name: str
    system: System
    cycles: int
    drained: bool

    @classmethod
    def of(cls, meta: Meta, resets: Iterable[tuple[int, int]]) -> "Run":
        """The run of a trace in which the resets and deaths of ``resets``, (unit, cycle), have their event."""
        system, due, seen = meta.system, scheduled_resets(meta.system, meta.cycles), set(resets)
        held = [reset for place, theirs in due.items() if place in seen and place[0] < system.nodes for reset in theirs]
        if len(held) != len(system.node_resets):
            when = {(reset.node, reset.start) for reset in held}
            faults = {
                name: tuple(fault for fault in getattr(system.faults, name) if (fault.node, fault.start) in when)
                for name in ("resets", "deaths")
            }
            system = system.replace(faults=faults)
        return cls(name=meta.run, system=system, cycles=meta.cycles, drained=meta.drained)


def usable(rows, system: System, cycles: int) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """The columns `COLUMNS` of those rows of a trace that can be judged; which they are (None: all).

    Nothing that must be there is null, and a row lies within the run.
    """
    limits = {"cycle": min(cycles, MOST_CYCLES), "unit": system.layout.units}
    limits |= dict.fromkeys(("port", "event", "detail"), 1 << 8)
    columns, which = {}, np.ones(len(rows), bool)
    for name, limit in limits.items():
        columns[name] = filled(rows[name], NULL)[0]
        which &= (columns[name] >= 0) & (columns[name] < limit)
    for name, bits in (("uid", UID_BITS), ("peer", 16), ("length", 16)):
        columns[name], null = filled(rows[name], NULL)
        which &= columns[name] < 1 << bits
        which &= columns[name] >= 0 if null is None else (columns[name] >= 0) | null
    whole = bool(which.all())
    found = {name: (columns[name] if whole else columns[name][which]).astype(kind) for name, kind in COLUMNS.items()}
    return found, None if whole else which


def source_of(uid: np.ndarray) -> np.ndarray:
    return uid >> UID_SOURCE_SHIFT & 0xFFFF


def slot_of(uid: np.ndarray) -> np.ndarray:
    return uid >> UID_SLOT_SHIFT & 0xFFFF


def incarnation_of(uid: np.ndarray) -> np.ndarray:
    return uid >> UID_INCARNATION_SHIFT & 0xFF


def generation_of(uid: np.ndarray) -> np.ndarray:
    return uid >> UID_GENERATION_SHIFT & 0xF_FFFF


class Group:
    """All events at network interfaces of all datagrams of some send slots.

    Parameters
    ----------
    run : the run that they are of
    columns : `COLUMNS`, in any order

    Attributes
    ----------
    cycle, unit, event, uid, peer, length, detail : arrays, ordered by datagram
    owner : of each event the number of its datagram
    datagrams : how many there are
    """

    def __init__(self, run: Run, columns: Columns):
        self.run, self.system = run, run.system
        uid = columns["uid"]
        wrapping = self._wrapping(columns)
        order = np.lexsort((columns["cycle"], uid)) if wrapping.any() else np.argsort(uid)
        self.cycle, self.unit, self.event, self.uid, self.peer, self.length, self.detail = (
            columns[name][order] for name in COLUMNS
        )
        first = np.zeros(len(uid), np.int64)
        starts = starts_of(self.uid)
        first[starts] = 1
        self.owner = np.cumsum(first) - 1
        if wrapping.any():
            starts = self._lives(wrapping[order], starts)
        self.starts, self.datagrams = starts, len(starts)
        if len(starts):
            first[:] = 0
            first[starts] = 1
            self.owner = np.cumsum(first) - 1

    def _wrapping(self, columns: Columns) -> np.ndarray:
        """Which events are of a slot whose generations, or whose node's incarnations, have come round."""
        wire = self.system.format
        accepted = np.flatnonzero(columns["event"] == Event.ACCEPT)
        slots = columns["uid"] >> UID_SLOT_SHIFT & 0xFFFF | source_of(columns["uid"]) << 16
        seen, counts = np.unique(slots[accepted], return_counts=True)
        wrapping = np.isin(slots, seen[counts > 1 << wire.generation_bits])
        for node, resets in Multiset(reset.node for reset in self.system.node_resets).items():
            if resets >= (1 << wire.incarnation_bits) - 1:
                wrapping |= source_of(columns["uid"]) == node
        return wrapping

    def _lives(self, wrapping: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Where datagrams start, when a UID comes again with each acceptance: what precedes one is of the last."""
        accepts = np.cumsum((self.event == Event.ACCEPT) & wrapping)
        before = accepts[starts] - ((self.event[starts] == Event.ACCEPT) & wrapping[starts])
        life = accepts - before[self.owner]
        # The events of a cycle have no order, so all of them come after the acceptances of that cycle.
        cycles = starts_of(self.uid, self.cycle)
        ends = np.append(cycles[1:], len(life)) - 1
        life = np.repeat(life[ends], np.diff(np.append(cycles, len(life))))
        return starts_of(self.uid, life)

    @cached_property
    def source(self) -> np.ndarray:
        """Of each event the node that its UID names."""
        return source_of(self.uid)

    def of(self, *events: Event) -> "Chosen":
        """The events of some kinds."""
        wanted = np.zeros(256, bool)
        wanted[list(events)] = True
        return Chosen(self, np.flatnonzero(wanted[self.event]))


class Chosen:
    """Some events of a group, and sums over them for each datagram."""

    def __init__(self, group: Group, rows: np.ndarray):
        self._group, self.rows, self._owner = group, rows, group.owner[rows]

    def with_detail(self, *details: int) -> "Chosen":
        """Those of them with one of these details."""
        return Chosen(self._group, self.rows[np.isin(self._group.detail[self.rows], details)])

    def before(self, cycle: np.ndarray) -> "Chosen":
        """Those of them before a cycle of their datagrams."""
        return Chosen(self._group, self.rows[self._group.cycle[self.rows] < cycle[self._owner]])

    @cached_property
    def times(self) -> np.ndarray:
        """How many there are of each datagram."""
        return np.bincount(self._owner, minlength=self._group.datagrams)

    def least(self, name: str) -> np.ndarray:
        """The least of a column for each datagram, `NULL` where there is none."""
        return self._fold(np.minimum, name)

    def most(self, name: str) -> np.ndarray:
        """The greatest of a column for each datagram, `NULL` where there is none."""
        return self._fold(np.maximum, name)

    def _fold(self, fold: np.ufunc, name: str) -> np.ndarray:
        values, owner = getattr(self._group, name)[self.rows], self._owner
        there = values != NULL
        if not there.all():
            values, owner = values[there], owner[there]
        found = np.full(self._group.datagrams, NULL, np.int64)
        if len(values):
            starts = starts_of(owner)
            found[owner[starts]] = fold.reduceat(values, starts)
        return found

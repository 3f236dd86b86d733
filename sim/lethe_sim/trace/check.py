"""Rows of a trace held against themselves: what they must be, whatever happened in the run.

A row says everything twice or in words of a fixed form (`events.encode`), lies within the run, and comes after the
row before it.  Together rows have a digest, which the run took of its raw events while it wrote them.
"""

from collections import Counter as Multiset
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.events import ARRIVALS, EVENTS, LANE_FRAGMENT, LANE_TAKE, LANE_TX, RESETS, Event, Unit
from lethe.spec.trace import EVENT

from .events import SCHEMA, cells, digest, encode, filled

#: Rows that are held against themselves at a time: few enough to stay in the processor's cache.
BATCH = 1 << 16
#: Rows of a finding that are shown.
SHOWN = 20
#: Cycles of the longest run that can be judged; the pipeline packs cycles into numbers with other things.
MOST_CYCLES = 1 << 43

#: Findings about rows.
GARBLED, OUTSIDE, MISPLACED, RESET, DEAD = "garbled", "outside", "misplaced", "reset", "dead"

#: By event code: a bit for each sort of unit (`spec.events.Unit`) that shows it; the lane that does, or `_ANY`.
_WHERE, _ANY = np.zeros(1 << EVENT.bits, np.int32), -1
_LANE = np.full(1 << EVENT.bits, _ANY, np.int16)
for _event, _facts in EVENTS.items():
    _WHERE[_event] = sum(1 << unit for unit in _facts.units)
    _LANE[_event] = _ANY if _facts.lane is None else _facts.lane


# Whether an event, by its code, is that of a reset.
_RESETS = np.isin(np.arange(1 << EVENT.bits), RESETS)
# What a message does that arrives; `stages.ACTS` cycles after its last flit.
_HEARD = (*ARRIVALS, Event.DROP)


@dataclass(frozen=True)
class Oddity:
    """A row that breaks a rule; None where the row does not say."""

    cycle: int | None
    unit: int | None
    uid: int | None
    note: str


@dataclass(kw_only=True)
class Seen:
    """What rows, in their order, come to.

    Attributes
    ----------
    rows, digest : how many; that of the raw events they stand for, mod 2^64
    least, most : first and last cycle, None without rows
    odd : by finding, the first `SHOWN` rows; counts : by finding, all of them
    resets : (unit, cycle) of those scheduled resets that have their event; the unit of an NI is its node
    start, end : (cycle, unit, port) of the first and the last sound row
    """

    rows: int = 0
    digest: int = 0
    least: int | None = None
    most: int | None = None
    odd: dict[str, list[Oddity]] = field(default_factory=dict)
    counts: Multiset = field(default_factory=Multiset)
    resets: set[tuple[int, int]] = field(default_factory=set)
    start: tuple[int, int, int] | None = None
    end: tuple[int, int, int] | None = None

    def found(self, finding: str, oddities: Iterable[Oddity], count: int) -> None:
        shown = self.odd.setdefault(finding, [])
        shown += list(oddities)[: SHOWN - len(shown)]
        self.counts[finding] += count

    def follow(self, other: "Seen") -> None:
        """Add what comes after."""
        if self.end is not None and other.start is not None and other.start <= self.end:
            cycle, unit, port = other.start
            self.found(MISPLACED, [Oddity(cycle, unit, None, _misplaced(port))], 1)
        for name in ("least", "most"):
            known = [value for value in (getattr(self, name), getattr(other, name)) if value is not None]
            setattr(self, name, {"least": min, "most": max}[name](known, default=None))
        self.rows += other.rows
        self.digest = (self.digest + other.digest) % 2**64
        for finding, oddities in other.odd.items():
            self.found(finding, oddities, other.counts[finding])
        self.resets |= other.resets
        self.start = self.start or other.start
        self.end = other.end or self.end


def scheduled_resets(system: System, cycles: int) -> dict[tuple[int, int], list]:
    """(unit, cycle) of each event of `RESETS` that a run of ``cycles`` must show → those of `System.node_resets` it is.

    Resets that touch or overlap are one reset; a death is one that does not end.  Not every service has a part in
    resets of scope "ni".
    """
    all_of_them, layout = _joined(system.node_resets, cycles), system.layout
    whole = _joined([reset for reset in system.node_resets if reset.scope == "node"], cycles)
    due = dict(all_of_them)
    for level, service in enumerate(system.services):
        if _tells_resets(service.unit):
            its = all_of_them if service.reset_with_ni else whole
            due |= {(layout.service_unit(node, level), cycle): resets for (node, cycle), resets in its.items()}
    return due


def _tells_resets(unit: Unit) -> bool:
    return any(unit in EVENTS[event].units for event in RESETS)


def _joined(resets: Iterable, cycles: int) -> dict[tuple[int, int], list]:
    """(node, cycle) in which a node begins to be reset → its resets from there on."""
    due: dict[tuple[int, int], list] = {}
    latest: dict[int, tuple[int, int]] = {}
    for reset in sorted(resets, key=lambda reset: (reset.node, reset.start)):
        first, end = latest.get(reset.node, (0, -1))
        if reset.start > end:
            first = reset.start
            if first < cycles:
                due[reset.node, first] = []
        latest[reset.node] = first, max(end, reset.start + reset.cycles)
        if first < cycles:
            due[reset.node, first].append(reset)
    return due


class RowCheck:
    """Holds rows of a run of ``cycles`` against themselves; ``run`` is its name."""

    def __init__(self, system: System, run: str, cycles: int):
        self.system, self.run, self.cycles = system, run, min(cycles, MOST_CYCLES)
        self.due = scheduled_resets(system, self.cycles)
        graph, layout = system.graph, system.layout
        self._units = layout.units
        self._lanes = np.ones(self._units, np.int64)
        self._lanes[: graph.first_router] = len(layout.lanes)
        self._lanes[graph.first_router : graph.first_link] = [graph.lanes(r) for r in range(graph.routers)]
        self._lanes[layout.first_service :] = [len(service.lanes) for service in system.services] * system.nodes

    def seen(self, rows: pa.Table | pa.RecordBatch) -> Seen:
        """What ``rows`` come to, all columns of `SCHEMA`, in any number."""
        whole = Seen()
        for start in range(0, len(rows), BATCH):
            whole.follow(self._seen(rows.slice(start, BATCH)))
        return whole

    def _seen(self, rows: pa.Table | pa.RecordBatch) -> Seen:
        with np.errstate(over="ignore"):
            events = encode(rows, self.system)
        seen = Seen(rows=len(rows), digest=digest(events))
        cycle, unit, port, event = events["cycle"], events["unit"], events["lane"], events["word"].astype(np.uint8)
        within = self._within(events)
        wrong = self._garbled(rows, events)
        sound = within & ~wrong
        if not sound.all():
            self._tell(seen, GARBLED, rows, wrong, self._how_garbled)
            self._tell(seen, OUTSIDE, rows, ~within & ~wrong, self._how_outside)
            cycle, unit, port, event, rows = (
                cycle[sound], unit[sound], port[sound], event[sound], rows.filter(pa.array(sound)),
            )  # fmt: skip
        if len(cycle) == 0:
            return seen
        seen.least, seen.most = int(cycle.min()), int(cycle.max())
        place = unit.astype(np.int64) << 16 | port
        later = (cycle[1:] > cycle[:-1]) | ((cycle[1:] == cycle[:-1]) & (place[1:] > place[:-1]))
        if not later.all():
            self._tell(seen, MISPLACED, rows, np.append(False, ~later), lambda row: _misplaced(row["port"]))
        seen.start, seen.end = ((int(cycle[at]), int(unit[at]), int(port[at])) for at in (0, -1))
        gone = self._gone(cycle, unit, port, event)
        if gone.any():
            self._tell(seen, DEAD, rows, gone, lambda row: f"{_name(row['event'])}, but it {self._why_gone(row)}")
        resets = np.flatnonzero(_RESETS[event])
        if len(resets):
            self._resets(seen, rows, resets, list(zip(unit[resets].tolist(), cycle[resets].tolist(), strict=True)))
        return seen

    def _within(self, events: np.ndarray) -> np.ndarray:
        """Which rows lie within the run: its cycles and units, and the port that shows such an event."""
        cycle, unit, port = events["cycle"], events["unit"], events["lane"]
        within = (cycle >= 0) & (cycle < self.cycles) & (unit >= 0) & (unit < self._units) & (port >= 0)
        within &= port < self._lanes[np.where(within, unit, 0)]
        lane = _LANE[events["word"].astype(np.uint8)]
        rows = np.flatnonzero((lane != port) & (lane != _ANY))
        # Routers show a FRAGMENT on any port, NIs a TAKE on the lanes of their control FIFOs, too.
        sort = self._sort(unit[rows])
        take = (sort == Unit.NI) & (lane[rows] == LANE_TAKE) & (port[rows] > LANE_FRAGMENT)
        within[rows] &= take | (sort == Unit.ROUTER)
        return within

    def _garbled(self, rows, events: np.ndarray) -> np.ndarray:
        """Which rows are not what their own raw events say, of no event that their unit has, or of another run."""
        wrong = _WHERE[events["word"].astype(np.uint8)] >> self._sort(events["unit"]) & 1 == 0
        mine = pc.index_in(rows["run"], value_set=pa.array([self.run]))
        if mine.null_count:
            wrong |= filled(mine)[1]
        for name, (values, null) in cells(events, self.system).items():
            held, missing = filled(rows[name])
            wrong |= held != values
            if missing is not None or null is not None:
                wrong |= (False if missing is None else missing) != (False if null is None else null)
        return wrong

    def _sort(self, unit: np.ndarray) -> np.ndarray:
        """The sort of each unit, as of `spec.events.Unit`."""
        graph, first_service = self.system.graph, self.system.layout.first_service
        sort = (unit >= graph.first_router).astype(np.int8) + (unit >= graph.first_link)
        if services := self.system.services:
            sorts = np.array([service.unit for service in services], np.int8)
            sort = np.where(unit >= first_service, sorts[(unit - first_service) % len(services)], sort)
        return sort

    def _gone(self, cycle: np.ndarray, unit: np.ndarray, port: np.ndarray, event: np.ndarray) -> np.ndarray:
        """Which events a node shows after its death, and which messages it grants or hears while it is away.

        A grant, and the last flit of what is heard, come some cycles before their events.
        """
        gone = np.zeros(len(cycle), bool)
        for death in self.system.faults.deaths:
            late = (cycle > death.start) | ((cycle == death.start) & ~_RESETS[event])
            gone |= self._at(unit, death.node) & late
        for absence in self.system.faults.absences:
            worm = (port == LANE_TX) | np.isin(event, _HEARD)
            began = cycle - np.where(port == LANE_TX, stages.SHOWN, stages.ACTS)
            gone |= (unit == absence.node) & worm & (began >= absence.start) & (began < absence.end)
        return gone

    def _at(self, unit: np.ndarray, node: int) -> np.ndarray:
        """Which units are a node's: its NI and its services."""
        first, stack = self.system.layout.service_unit(node, 0), len(self.system.services)
        return (unit == node) | ((unit >= first) & (unit < first + stack))

    def _why_gone(self, row: dict) -> str:
        died = self.system.death(self.system.layout.node_of(row["unit"]))
        return "was away" if died is None or row["cycle"] < died else f"died in cycle {died}"

    def _resets(self, seen: Seen, rows, places: np.ndarray, resets: list[tuple[int, int]]) -> None:
        seen.resets |= self.due.keys() & set(resets)
        stray = np.zeros(len(rows), bool)
        stray[places] = [reset not in self.due for reset in resets]
        self._tell(
            seen, RESET, rows, stray, lambda row: "was reset, but no reset or death was scheduled for this cycle"
        )

    @staticmethod
    def _tell(seen: Seen, finding: str, rows, which: np.ndarray, note) -> None:
        places = np.flatnonzero(which)
        if len(places):
            shown = rows.take(pa.array(places[:SHOWN])).to_pylist()
            oddities = [Oddity(row["cycle"], row["unit"], _possible(row["uid"]), note(row)) for row in shown]
            seen.found(finding, oddities, len(places))

    def _how_garbled(self, row: dict) -> str:
        """What is wrong with a row, in words."""
        if row["run"] != self.run:
            return f"its run is {row['run']!r}, not {self.run!r}"
        for name in ("cycle", "unit", "port", "event", "detail"):
            if row[name] is None:
                return f"its {name} is null"
        one = pa.Table.from_pylist([row], schema=SCHEMA)
        events = encode(one, self.system)
        for name, (values, null) in cells(events, self.system).items():
            said = None if null is not None and null[0] else int(values[0])
            if row[name] != said:
                return f"its {name} is {_word(row[name])}, but by its other columns it is {_word(said)}"
        return f"event {_name(row['event'])} does not happen there"

    def _how_outside(self, row: dict) -> str:
        what = _name(row["event"])
        if not 0 <= row["unit"] < self._units:
            return f"{what} at unit {row['unit']}, but there are {self._units}"
        if not 0 <= row["cycle"] < self.cycles:
            return f"{what}, but the run has {self.cycles} cycles"
        if not 0 <= row["port"] < self._lanes[row["unit"]]:
            return f"{what} at port {row['port']}, but there are {self._lanes[row['unit']]}"
        return f"{what} at port {row['port']}, which does not show it"


def _name(event: int) -> str:
    return Event(event).name if event in Event._value2member_map_ else str(event)


def _word(value: int | None) -> str:
    return "null" if value is None else str(value)


def _possible(uid: int | None) -> int | None:
    return uid if uid is not None and uid >= 0 else None


def _misplaced(port: int) -> str:
    return f"port {port}: does not come after the row before it, so rows are doubled or not in order"

"""The judgement of a trace in three steps, each a function of pieces of it, wherever that runs.

1. `read`: rows of a trace are held against themselves, and go to the group of their send slot.
2. `judge_slots`: `SLOT_KERNELS` look at all events of some send slots, so at whole datagrams, and `services.AUDITED`
   at all rows of the services of some nodes; what concerns the order between nodes goes to the group of its pair of
   nodes.
3. `judge_pairs`: `PAIR_KERNELS` look at all that some pairs of nodes had with each other.

What a step found out goes into a `Summary`; summaries add up to the run's.
"""

from collections import Counter as Multiset
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lethe.spec.events import OF_DATAGRAM
from lethe.spec.wire import UID_SLOT_SHIFT
from lethe_sim.trace import Meta
from lethe_sim.trace.check import RowCheck, Seen
from lethe_sim.trace.events import filled

from .columns import NULL, Columns, joined, split
from .datagrams import Ledger, achieved, ledger_of, table_of
from .findings import about_datagrams, remembered
from .group import COLUMNS, Group, Run, source_of, usable
from .pairs import FACTS, JOURNEYS, Pairs, handed, overtaken, untaken
from .services import AUDITED, ServiceRows, followed, posted, replayed
from .services import COLUMNS as SERVICE_COLUMNS
from .services import FACTS as OF_SERVICES
from .silence import attempts, unsilent
from .sums import Sums, bin_width
from .worms import overtaking, passages, unmatched

#: Rules about the datagrams and receive-table entries of some send slots; each finds what breaks it (`FOUND`).
SLOT_KERNELS: tuple[Callable[[Group, Ledger], Iterator[pa.Table]], ...] = (about_datagrams, unmatched, remembered)
#: Rules about pairs of nodes.
PAIR_KERNELS: tuple[Callable[[Pairs], Iterator[pa.Table]], ...] = (
    untaken,
    lambda pairs: overtaking(pairs.run, pairs.passages),
    lambda pairs: unsilent(pairs.run, pairs.attempts),
    lambda pairs: followed(pairs.run, pairs.streams),
    lambda pairs: posted(pairs.run, pairs.posts),
    lambda pairs: replayed(pairs.run, pairs.hops),
)
#: Cases of a finding that are shown.
EXAMPLES = 20
#: Units of the largest network whose events are kept apart by unit.
MOST_UNITS = 20_000
# By event code: whether its UID is a datagram's.
_NAMING = np.isin(np.arange(256), OF_DATAGRAM)

#: Pieces of columns, by the group that they belong to and by name: ``events``, ``services``, or one of `FACTS`.
Pieces = dict[int, dict[str, Columns]]


@dataclass(kw_only=True)
class Summary:
    """What is known of a part of a run.

    Attributes
    ----------
    seen : what rows came to, by the place of their piece in the trace
    events : events by (unit, event, detail); units are −1 in networks of more than `MOST_UNITS`
    found : by finding, its first `EXAMPLES` cases, as rows of `FOUND`; counts : by finding, all of them
    sums : over datagrams; overtaken : datagrams; services : the sums of each service, by its name
    by_reset : the first datagrams that a reset touched, as rows of `datagrams.ACHIEVED`
    rows : with ``whole``, all findings and the row of each datagram, as tables
    """

    seen: dict[int, Seen] = field(default_factory=dict)
    events: Multiset = field(default_factory=Multiset)
    found: dict[str, list[dict]] = field(default_factory=dict)
    counts: Multiset = field(default_factory=Multiset)
    sums: Sums = field(default_factory=Sums)
    overtaken: int = 0
    services: dict[str, Multiset] = field(default_factory=dict)
    by_reset: list[dict] = field(default_factory=list)
    rows: dict[str, list[pa.Table]] = field(default_factory=lambda: {"findings": [], "datagrams": []})

    def add(self, other: "Summary") -> None:
        self.seen |= other.seen
        self.events.update(other.events)
        self.counts.update(other.counts)
        for name, cases in other.found.items():
            self.found[name] = sorted(self.found.get(name, []) + cases, key=_place)[:EXAMPLES]
        self.sums.add(other.sums)
        self.overtaken += other.overtaken
        for name, sums in other.services.items():
            self.services.setdefault(name, Multiset()).update(sums)
        self.by_reset = sorted(self.by_reset + other.by_reset, key=_acceptance)[:EXAMPLES]
        for name, tables in other.rows.items():
            self.rows[name] += tables

    def put(self, findings: pa.Table, *, whole: bool) -> None:
        """Add what a kernel found."""
        for name in findings["finding"].unique().to_pylist():
            cases = findings.filter(pc.equal(findings["finding"], name))
            self.counts[name] += len(cases)
            first = cases.sort_by([("cycle", "ascending"), ("unit", "ascending"), ("uid", "ascending")])
            self.add(Summary(found={name: first.slice(0, EXAMPLES).to_pylist()}))
        if whole:
            self.rows["findings"].append(findings)


def _place(case: dict) -> tuple[int, ...]:
    return tuple(NULL if case[name] is None else case[name] for name in ("cycle", "unit", "uid"))


def _acceptance(row: dict) -> tuple[int, int]:
    return NULL if row["accepted_at"] is None else row["accepted_at"], row["uid"]


class Reader:
    """Step 1, for a piece of a trace; ``groups`` is how many groups there are."""

    def __init__(self, meta: Meta, groups: int):
        self._meta, self._system, self._groups = meta, meta.system, groups
        self._check = RowCheck(meta.system, meta.run, meta.cycles)

    def read(self, batches: Iterable[pa.RecordBatch], place: int) -> tuple[Summary, Pieces]:
        """What a piece of a trace, the one at ``place``, comes to."""
        seen, parts, events, served = Seen(), [], [], []
        for batch in batches:
            seen.follow(self._check.seen(batch))
            columns, which = usable(batch, self._system, self._meta.cycles)
            parts.append(columns)
            events.append(self._counted(columns))
            if self._system.services:
                served.append(self._served(batch, columns, which))
        columns = joined(parts, COLUMNS)
        found = Summary(seen={place: seen})
        for counted in events:
            found.events.update(counted)
        at_ni = columns["unit"] < self._system.nodes
        pieces: Pieces = {group: {"events": rows} for group, rows in self._by_slot(columns, at_ni).items()}
        hosts = handed(columns, self._system)
        for group, rows in split(hosts, pair_group(hosts, self._groups)).items():
            pieces.setdefault(group, {})["handed"] = rows
        if served:
            services = joined(served, SERVICE_COLUMNS)
            for group, rows in split(services, self._node(services["unit"]) % self._groups).items():
                pieces.setdefault(group, {})["services"] = rows
        return found, pieces

    def _served(self, batch: pa.RecordBatch, columns: Columns, which: np.ndarray | None) -> dict[str, np.ndarray]:
        """The rows of services among ``columns``, which are those of ``batch``, or ``which`` of them."""
        tag = filled(batch["tag"], NULL)[0]
        columns = {**columns, "tag": tag if which is None else tag[which]}
        rows = np.flatnonzero(columns["unit"] >= self._system.layout.first_service)
        return {name: columns[name][rows].astype(kind) for name, kind in SERVICE_COLUMNS.items()}

    def _node(self, unit: np.ndarray) -> np.ndarray:
        """The nodes of services."""
        layout = self._system.layout
        return (unit.astype(np.int64) - layout.first_service) // len(layout.services)

    def _by_slot(self, columns: Columns, at_ni: np.ndarray) -> dict[int, dict[str, np.ndarray]]:
        named = np.flatnonzero(at_ni & (columns["uid"] != NULL) & _NAMING[columns["event"]])
        columns = {name: values[named] for name, values in columns.items()}
        uid = columns["uid"]
        slots = source_of(uid) * self._system.ni.slots + (uid >> UID_SLOT_SHIFT & 0xFFFF)
        return split(columns, slots % self._groups)

    def _counted(self, columns: Columns) -> dict[tuple[int, int, int], int]:
        units = columns["unit"].astype(np.int64)
        if self._system.layout.units > MOST_UNITS:
            units = np.full_like(units, NULL)
        keys, counts = np.unique(
            units << 16 | columns["event"].astype(np.int64) << 8 | columns["detail"], return_counts=True
        )
        rows = zip(
            (keys >> 16).tolist(), (keys >> 8 & 255).tolist(), (keys & 255).tolist(), counts.tolist(), strict=True
        )
        return {(unit, event, detail): count for unit, event, detail, count in rows}


def pair_group(rows: Columns, groups: int) -> np.ndarray:
    """The group of each pair of nodes."""
    return (rows["sender"].astype(np.int64) * 0x9E37 + rows["receiver"]) % groups


def judge_slots(run: Run, pieces: list[dict[str, Columns]], groups: int, *, whole: bool) -> tuple[Summary, Pieces]:
    """Step 2, for all pieces of a group; ``whole`` keeps all findings and the ledger."""
    group = Group(run, joined([piece["events"] for piece in pieces if "events" in piece], COLUMNS))
    ledger = ledger_of(group)
    found = Summary()
    for kernel in SLOT_KERNELS:
        for findings in kernel(group, ledger):
            found.put(findings, whole=whole)
    served = joined([piece["services"] for piece in pieces if "services" in piece], SERVICE_COLUMNS)
    services = _judge_services(run, served, found, whole=whole)
    rows = achieved(ledger, run.system.format.flit_bytes)
    found.sums = Sums.of(rows, bin_width(run.cycles))
    touched = np.flatnonzero(rows["by_reset"])
    if len(touched):
        first = touched[np.lexsort((rows["uid"][touched], rows["accepted_at"][touched]))][:EXAMPLES]
        found.by_reset = table_of({name: values[first] for name, values in rows.items()}).to_pylist()
    if whole:
        found.rows["datagrams"].append(table_of(rows))
    travelled = np.flatnonzero((rows["accepted_at"] != NULL) & (rows["delivered_at"] != NULL))
    names = {
        "sender": "source",
        "receiver": "destination",
        "accepted_at": "accepted_at",
        "delivered_at": "delivered_at",
    }
    facts: dict[str, Columns | None] = {
        "journeys": {name: rows[column][travelled].astype(JOURNEYS[name]) for name, column in names.items()},
        "passages": passages(group),
        "attempts": attempts(group, ledger),
        **services,
    }
    after: Pieces = {}
    for piece in pieces:
        if "handed" in piece:
            facts["handed"] = joined([p["handed"] for p in pieces if "handed" in p], FACTS["handed"])
            break
    for name, columns in facts.items():
        if columns is not None and len(columns["sender"]):
            for number, part in split(columns, pair_group(columns, groups)).items():
                after.setdefault(number, {})[name] = part
    return found, after


def _judge_services(run: Run, columns: Columns, found: Summary, *, whole: bool) -> dict[str, Columns]:
    """Judge the rows of all services of some nodes; what they had with each other, as `services.FACTS`."""
    layout, facts = run.system.layout, {name: [] for name in OF_SERVICES}
    for level, service in enumerate(layout.services):
        rows = np.flatnonzero((columns["unit"] - layout.first_service) % len(layout.services) == level)
        if len(rows) and (audited := AUDITED.get(service.unit)):
            mine = ServiceRows(run, level, {name: values[rows] for name, values in columns.items()})
            for findings in audited.findings(mine):
                found.put(findings, whole=whole)
            found.add(Summary(services={service.name: audited.sums(mine)}))
            for name, some in audited.facts(mine).items():
                facts[name].append(some)
    return {name: joined(some, OF_SERVICES[name]) for name, some in facts.items()}


def judge_pairs(run: Run, pieces: list[dict[str, Columns]], *, whole: bool) -> Summary:
    """Step 3, for all pieces of a group."""
    pairs = Pairs(
        run=run,
        **{name: joined([piece[name] for piece in pieces if name in piece], kinds) for name, kinds in FACTS.items()},
    )
    found = Summary(overtaken=overtaken(pairs))
    for kernel in PAIR_KERNELS:
        for findings in kernel(pairs):
            found.put(findings, whole=whole)
    return found

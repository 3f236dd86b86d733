"""The rows of the metrics table, their units and meanings."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lethe.spec.config import System
from lethe.spec.events import DISCARDS, EVENTS, LAUNCHES, Drop, Event, Status, Unit
from lethe_sim.trace import TraceReader, encode, open_trace

from . import ledger as A
from .ledger import RunLedger
from .places import NODES

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}

#: Every metric: unit, meaning.  ``*`` stands for a percentile, or for reason and place.
METRICS: dict[str, tuple[str, str]] = {
    "cycles": ("cycles", "length of the run"),
    "measured": ("cycles", "length of the measurement: the window"),
    "drained": ("1", "1 if the run had drained at its end"),
    "accepted": ("datagrams", "accepted from the hosts"),
    "delivered": ("datagrams", "delivered: committed to the deliver FIFOs of their receivers"),
    "unfinished": ("datagrams", "accepted, but not completed at the end of the run"),
    "by_reset": ("datagrams", "accepted by a node that was reset before they completed"),
    "unknown": ("datagrams", "completed UNKNOWN: given up, or best effort"),
    "rejected": ("datagrams", "completed REJECTED"),
    "never_sent": ("datagrams", "completed NEVER_SENT"),
    "late": ("datagrams", "delivered after their sender had given them up; their latency is not counted"),
    "lost": ("datagrams", "completed ACCEPTED without a delivery: 0 unless something is broken"),
    "doubled": ("datagrams", "delivered again while their sender waited: 0 unless a receiver was reset"),
    "wrong": ("datagrams", "with a wrong bit in the payload, in the whole run; only with checkers"),
    "right": ("1", "1 if the received data are right, else 0; only for a drained run whose workload has a verdict"),
    "offered": ("flits/node/cycle", "payload that the hardware generators are set to offer; absent without them"),
    "taken": ("flits/node/cycle", "payload accepted from the hosts"),
    "goodput": ("flits/node/cycle", "payload delivered, repeats not counted"),
    "throughput": ("bytes/node/cycle", "payload delivered, in bytes"),
    "latency_mean": ("cycles", "from acceptance to delivery, mean"),
    "latency_*": ("cycles", "from acceptance to delivery, percentiles p50, p90, p99, p99.9, and max"),
    "completion_mean": ("cycles", "from acceptance to the completion of an ACCEPTED datagram, mean"),
    "completion_*": (
        "cycles",
        "from acceptance to the completion of an ACCEPTED datagram, percentiles p50, p90, p99, p99.9, and max",
    ),
    "others_mean": (
        "cycles",
        "from acceptance to delivery at nodes that are not the hotspot, mean; only with a hotspot",
    ),
    "others_*": (
        "cycles",
        "from acceptance to delivery at nodes that are not the hotspot, percentiles p50, p90, p99, p99.9, and max",
    ),
    "messages": ("messages", "Sends, Acks, Forgets and BEs launched"),
    "messages_per_datagram": ("messages", "messages launched for each datagram delivered; the least is 3"),
    "repeats": ("messages", "Sends that were not the first of their datagram"),
    "repeats_per_datagram": ("messages", "repeats for each datagram delivered"),
    "most_sends": ("messages", "Sends of the datagram with the most Sends"),
    "duplicates": ("messages", "Sends that arrived after an earlier Send of the same datagram"),
    "discards": ("messages", "discarded by the fabric, lost by links, dropped or cut off at nodes"),
    "discards_per_message": ("1", "discards for each message launched"),
    "discards.*": (
        "messages",
        "discards by reason and place, for example discards.busy.level1, discards.lost.injection",
    ),
    "slots_mean": ("slots", "in use at a node (accepted, not completed), averaged over time and nodes"),
    "slots_max": ("slots", "most in use at one node, in the whole run"),
    "entries_mean": ("entries", "in a receive table (delivered, not forgotten), averaged over time and nodes"),
    "entries_max": ("entries", "most in one receive table, in the whole run"),
    "fairness": (
        "1",
        "Jain's index of the payload delivered from each node: 1 if all are equal, 1/nodes if only one node sends",
    ),
    "fairness_receivers": ("1", "Jain's index of the payload delivered to each node"),
}


class Metric(NamedTuple):
    """One row, but for the run."""

    metric: str
    value: float
    unit: str


def unit_of(metric: str) -> str:
    """The unit of a metric by its full name; raises KeyError for one that does not exist."""
    return _known(metric)[0]


def about_metric(metric: str) -> str:
    """What a metric means, by its full name."""
    return _known(metric)[1]


def _known(metric: str) -> tuple[str, str]:
    return METRICS[metric] if metric in METRICS else METRICS[_family(metric)]


def table(
    ledger: RunLedger, *, cycles: int, drained: bool, wrong: int | None = None, right: bool | None = None
) -> list[Metric]:
    """The rows of a run that lasted ``cycles``; ``wrong`` and ``right`` as checkers or workload found, if they did."""
    rows = dict(_rows(ledger, cycles))
    rows["drained"] = drained
    if wrong is not None:
        rows["wrong"] = wrong
    if right is not None:
        rows["right"] = right
    order = {name: place for place, name in enumerate(METRICS)}
    found = [Metric(name, float(value), unit_of(name)) for name, value in rows.items()]
    return sorted(found, key=lambda row: (order.get(row.metric, order.get(_family(row.metric), 0)), _rank(row.metric)))


def _family(metric: str) -> str:
    return metric.split(".", 1)[0] + ".*" if metric.startswith("discards.") else metric.split("_", 1)[0] + "_*"


def _rank(metric: str) -> tuple[int, str]:
    """Percentiles in their order, everything else by name."""
    return (list(PERCENTILES).index(name), "") if (name := metric.partition("_")[2]) in PERCENTILES else (0, metric)


def _rows(ledger: RunLedger, cycles: int) -> Iterator[tuple[str, float]]:
    system, totals = ledger.system, ledger.totals
    nodes, span = system.nodes, ledger.span(cycles)
    count = {e: int(ledger.fates[ledger.places.index(NODES), e]) for e in Event}
    delivered, messages = int(totals[A.DELIVERED]), sum(count[e] for e in LAUNCHES)
    yield "cycles", cycles
    yield "measured", span
    for name, total in (
        ("accepted", A.ACCEPTED), ("delivered", A.DELIVERED), ("unfinished", A.OPEN), ("by_reset", A.BY_RESET),
        ("late", A.LATE), ("lost", A.LOST), ("doubled", A.DOUBLED), ("most_sends", A.MOST_SENDS),
    ):  # fmt: skip
        yield name, int(totals[total])
    for status in (Status.UNKNOWN, Status.REJECTED, Status.NEVER_SENT):
        yield status.name.lower(), int(ledger.statuses[status])
    if (offered := _offered(system)) is not None:
        yield "offered", offered
    if span:
        yield "taken", int(totals[A.ACCEPTED_FLITS]) / (nodes * span)
        yield "goodput", int(totals[A.DELIVERED_FLITS]) / (nodes * span)
        yield "throughput", int(totals[A.DELIVERED_BYTES]) / (nodes * span)
        yield "slots_mean", ledger.level_time(A.SLOT_TIME, cycles) / (nodes * span)
        yield "entries_mean", ledger.level_time(A.ENTRY_TIME, cycles) / (nodes * span)
    yield "slots_max", ledger.most(A.SLOTS_NOW)
    yield "entries_max", ledger.most(A.ENTRIES_NOW)
    for which, (name, total) in enumerate((("latency", A.LATENCY), ("completion", A.COMPLETION), ("others", A.OTHERS))):
        if totals[total + 1]:
            yield f"{name}_mean", int(totals[total]) / int(totals[total + 1])
            for percentile, share in PERCENTILES.items():
                yield f"{name}_{percentile}", ledger.percentile(which, share)
    yield "messages", messages
    yield "repeats", ledger.repeats
    yield "duplicates", count[Event.DUPLICATE]
    if delivered:
        yield "messages_per_datagram", messages / delivered
        yield "repeats_per_datagram", ledger.repeats / delivered
    discards = dict(_discards(ledger))
    yield "discards", sum(discards.values())
    if messages:
        yield "discards_per_message", sum(discards.values()) / messages
    yield from discards.items()
    for name, column in (("fairness", A.SENT_FLITS), ("fairness_receivers", A.RECEIVED_FLITS)):
        shares = ledger.nodes[:, column].tolist()
        if squares := sum(x * x for x in shares):
            yield name, sum(shares) ** 2 / (len(shares) * squares)


def _offered(system: System) -> float | None:
    """What the hardware generators are set to; a load of 1 or more is as much as they can."""
    load = system.workload
    return load.load if load.kind == "generator" and load.load < 1 else None


def _discards(ledger: RunLedger) -> Iterator[tuple[str, int]]:
    """(``discards.reason.place``, count) of all that can happen: what did not counts as 0 in an average."""
    routers = {name for name in ledger.places if name.startswith(("level", "stage", "routers"))}
    for place, fates in zip(ledger.places, ledger.fates.tolist(), strict=True):
        if place == NODES:
            yield from ((f"discards.{drop.name.lower()}.{NODES}", int(ledger.drops[drop])) for drop in Drop if drop)
            yield f"discards.fragment.{NODES}", fates[Event.FRAGMENT]
            continue
        for event in DISCARDS:
            if (Unit.ROUTER in EVENTS[event].units) == (place in routers):
                yield f"discards.{event.name.removeprefix('DISCARD_').lower()}.{place}", fates[event]


def of_trace(path: str | Path, *, warmup: int = 0, window: int = 0) -> list[Metric]:
    """The rows of the run whose trace is at ``path``; raises `TraceError`."""
    trace = open_trace(path)
    ledger = read_ledger(trace, warmup=warmup, window=window)
    wrong = trace.meta.counters.get("sums", {}).get("wrong")
    return table(ledger, cycles=trace.meta.cycles, drained=trace.meta.drained, wrong=wrong)


def read_ledger(trace: TraceReader, *, warmup: int = 0, window: int = 0) -> RunLedger:
    """The ledger of a whole trace, read in pieces; raises `TraceError` for a row that cannot be used."""
    ledger = RunLedger(trace.meta.system, warmup=warmup, window=window)
    for batch in trace.sound_batches():
        ledger.append(encode(batch, trace.meta.system))
    return ledger

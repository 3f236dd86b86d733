"""Sums over the datagrams of a ledger, and what a run achieved: in pieces that add up."""

from collections import Counter as Multiset
from dataclasses import dataclass, field

import numpy as np

from lethe.spec.events import Event, Status
from lethe_sim.trace import Meta

from .audit import Metrics
from .columns import NULL, Columns

#: Bins of the latency histogram in each doubling.
BINS_PER_OCTAVE = 4
#: Messages of a datagram beyond which they share a bar.
MOST_MESSAGES = 64
PERCENTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
#: Leading bits of a latency that percentiles keep: they are exact up to 4,096 cycles, and within 0.05 % beyond.
LATENCY_BITS = 12
#: Bins of the goodput over the time of a run.
GOODPUT_BINS = 120


def bin_width(cycles: int) -> int:
    """Cycles of a bin of the goodput of a run."""
    return -(-max(cycles, 1) // GOODPUT_BINS)


@dataclass(kw_only=True)
class Sums:
    """Sums over datagrams (`datagrams.achieved`).

    Attributes
    ----------
    counts : by name, as in `Metrics`
    latencies : by latency, of a long one its `LATENCY_BITS` leading bits; latency_bars : by bin
    messages : by number of messages; flits : of payload, by bin of `bin_width` cycles
    least, greatest, total : of the latencies
    unlucky : (Sends, cycle of acceptance, UID) of the datagram that was sent most often, the first accepted of equals
    """

    counts: Multiset = field(default_factory=Multiset)
    latencies: Multiset = field(default_factory=Multiset)
    latency_bars: Multiset = field(default_factory=Multiset)
    messages: Multiset = field(default_factory=Multiset)
    flits: Multiset = field(default_factory=Multiset)
    least: int | None = None
    greatest: int | None = None
    total: int = 0
    unlucky: tuple[int, int, int] | None = None

    @classmethod
    def of(cls, rows: Columns, width: int) -> "Sums":
        """The sums of `datagrams.achieved`; ``width`` is that of a bin of the goodput."""
        sums = cls()
        came = rows["delivered_at"] != NULL
        sums.counts.update({
            "datagrams": int((rows["accepted_at"] != NULL).sum()),
            "delivered": int(came.sum()),
            "once": int((rows["once"] & ~rows["by_reset"]).sum()),
            "best_effort": int(rows["best_effort"].sum()),
            **{status.name.lower(): int((rows["status"] == status).sum()) for status in Status},
            **{name: int(rows[name].sum()) for name in ("by_reset", "flits", "bytes")},
            "messages": int(rows["messages"].sum()),
            "repeated": int((rows["sends"] > 1).sum()),
        })  # fmt: skip
        latency = rows["latency"][rows["latency"] != NULL]
        if len(latency):
            sums.least, sums.greatest, sums.total = int(latency.min()), int(latency.max()), int(latency.sum())
            sums.latencies = histogram(rounded(latency))
            sums.latency_bars = histogram(np.floor(np.log2(np.maximum(latency, 1)) * BINS_PER_OCTAVE).astype(np.int64))
        sums.messages = histogram(np.minimum(rows["messages"][came], MOST_MESSAGES))
        sums.flits = histogram(rows["delivered_at"][came] // width, rows["flits"][came])
        if len(rows["sends"]):
            most = np.flatnonzero(rows["sends"] == rows["sends"].max())
            first = most[np.lexsort((rows["uid"][most], rows["accepted_at"][most]))[0]]
            sums.unlucky = int(rows["sends"][first]), int(rows["accepted_at"][first]), int(rows["uid"][first])
        return sums

    def add(self, other: "Sums") -> None:
        for name in ("counts", "latencies", "latency_bars", "messages", "flits"):
            getattr(self, name).update(getattr(other, name))
        self.total += other.total
        for name, choose in (("least", min), ("greatest", max)):
            values = [value for value in (getattr(self, name), getattr(other, name)) if value is not None]
            setattr(self, name, choose(values, default=None))
        both = [worst for worst in (self.unlucky, other.unlucky) if worst is not None]
        self.unlucky = min(both, key=lambda worst: (-worst[0], worst[1:]), default=None)


def rounded(latency: np.ndarray) -> np.ndarray:
    """Latencies with their `LATENCY_BITS` leading bits alone."""
    length = np.frexp(latency.astype(np.float64))[1].astype(np.int64)
    spare = np.maximum(length - LATENCY_BITS, 0)
    return latency >> spare << spare


def histogram(values: np.ndarray, weights: np.ndarray | None = None) -> Multiset:
    """How often each value comes, or the sum of its weights."""
    if not len(values):
        return Multiset()
    found, places = np.unique(values, return_inverse=True)
    sums = np.bincount(places) if weights is None else np.bincount(places, weights).astype(np.int64)
    return Multiset(dict(zip(found.tolist(), sums.tolist(), strict=True)))


def metrics(sums: Sums, meta: Meta, events: dict[tuple[int, int, int], int], overtaken: int) -> Metrics:
    """What a run achieved; ``events`` are its events by (unit, event, detail)."""
    cycles, nodes, count = max(meta.cycles, 1), meta.system.nodes, sums.counts
    width, octave = bin_width(cycles), BINS_PER_OCTAVE
    latency: dict[str, float] = {}
    if sums.least is not None and sums.greatest is not None:
        latency = {"least": sums.least, "mean": sums.total / sums.latencies.total()}
        latency |= dict(zip(PERCENTILES, percentiles(sums.latencies), strict=True)) | {"greatest": sums.greatest}
    names = (
        "datagrams", "delivered", "once", "best_effort", "accepted", "unknown", "rejected", "never_sent",
        "flits", "bytes", "messages", "repeated",
    )  # fmt: skip
    return Metrics(
        **{name: count[name] for name in names},
        most_sends=sums.unlucky[0] if sums.unlucky else 0,
        unlucky=sums.unlucky[2] if sums.unlucky else None,
        repeats=sum(seen for (_, event, _), seen in events.items() if event == Event.REPEAT),
        goodput=count["flits"] / (nodes * cycles),
        messages_per_datagram=count["messages"] / max(count["delivered"], 1),
        overtaken=overtaken,
        latency=latency,
        latency_bars=tuple(
            (round(2 ** (b / octave)), round(2 ** ((b + 1) / octave)), n) for b, n in sorted(sums.latency_bars.items())
        ),
        goodput_bars=tuple(
            (b * width, sums.flits[b] / (nodes * min(width, cycles - b * width))) for b in range(-(-cycles // width))
        ),
        message_bars=tuple(sorted(sums.messages.items())),
        events=tuple(sorted((*what, seen) for what, seen in events.items())),
    )


def percentiles(latencies: Multiset) -> list[int]:
    """The latency at each of `PERCENTILES`: the least that so many do not exceed."""
    values, counts = zip(*sorted(latencies.items()), strict=True)
    passed = np.cumsum(counts)
    return [values[int(np.searchsorted(passed, share * passed[-1]))] for share in PERCENTILES.values()]

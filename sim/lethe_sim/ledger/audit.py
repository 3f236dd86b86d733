"""The result of an audit: a verdict, what was found, what the run achieved; and its text."""

from dataclasses import dataclass, field
from typing import NamedTuple

from lethe.spec.topology import Topology
from lethe.spec.trace import Layout
from lethe.spec.wire import unpack_uid

ONCE, BROKEN, UNFINISHED = "every datagram once", "broken", "unfinished"


@dataclass(frozen=True, kw_only=True)
class Example:
    """One case of a finding; None where it is about no single datagram, cycle or node."""

    run: str
    uid: int | None
    cycle: int | None
    unit: int | None
    peer: int | None
    note: str

    def text(self, layout: Layout) -> str:
        parts = [] if self.uid is None else [uid_text(self.uid)]
        if self.cycle is not None:
            parts.append(f"cycle {self.cycle}")
        if self.unit is not None:
            parts.append(unit_text(layout, self.unit))
        if self.peer is not None:
            parts.append(f"peer node {self.peer}")
        return f"{', '.join(parts)}: {self.note}" if parts else self.note


@dataclass(frozen=True, kw_only=True)
class Finding:
    name: str
    about: str
    count: int
    examples: tuple[Example, ...]


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What a run achieved.

    Attributes
    ----------
    datagrams, delivered, once, best_effort : how many were accepted; delivered at all; judged and delivered once
    accepted, unknown, rejected, never_sent : completed with the status of this name
    flits, bytes : of payload, delivered for the first time; goodput : flits per node and cycle
    messages, messages_per_datagram, repeats, repeated, most_sends : what it cost
    overtaken : datagrams that a later one of the same pair overtook
    unlucky : packed UID of the datagram sent most often
    latency : mean, least, and the percentiles 50, 90, 99, 99.9 and 100, in cycles from acceptance to delivery
    latency_bars : (first cycle of bin, first of the next, datagrams)
    goodput_bars : (first cycle of bin, flits per node and cycle)
    message_bars : (messages, datagrams)
    events : (unit, event, detail, count); units summed as −1 in networks too large to draw
    """

    datagrams: int = 0
    delivered: int = 0
    once: int = 0
    best_effort: int = 0
    accepted: int = 0
    unknown: int = 0
    rejected: int = 0
    never_sent: int = 0
    flits: int = 0
    bytes: int = 0
    goodput: float = 0.0
    messages: int = 0
    messages_per_datagram: float = 0.0
    repeats: int = 0
    repeated: int = 0
    most_sends: int = 0
    overtaken: int = 0
    unlucky: int | None = None
    latency: dict[str, float] = field(default_factory=dict)
    latency_bars: tuple[tuple[int, int, int], ...] = ()
    goodput_bars: tuple[tuple[int, float], ...] = ()
    message_bars: tuple[tuple[int, int], ...] = ()
    events: tuple[tuple[int, int, int, int], ...] = ()


class Number(NamedTuple):
    """A number about a run: ``value`` and ``name`` are said one after the other."""

    value: int
    name: str
    about: str


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """Whether every datagram was delivered exactly once, and the evidence.

    ``by_reset`` are datagrams that a scheduled reset or death touched: listed, not judged.  ``services`` has what is
    told of each service, by its name; ``metrics`` are of what went through the network.
    """

    verdict: str
    run: str
    side: str
    cycles: int
    layout: Layout
    findings: tuple[Finding, ...]
    by_reset: int
    by_reset_examples: tuple[Example, ...]
    metrics: Metrics
    services: tuple[tuple[str, tuple[Number, ...]], ...] = ()

    @property
    def graph(self) -> Topology:
        """The fabric."""
        return self.layout.graph

    @property
    def exit_code(self) -> int:
        """0 if every datagram came once; 1 if the run is broken or unfinished."""
        return 0 if self.verdict == ONCE else 1

    def text(self) -> str:
        m = self.metrics
        lines = [
            f"{self.verdict}: {m.delivered:,} of {m.datagrams:,} datagrams delivered in {self.cycles:,} cycles "
            f"on {self.graph.nodes:,} nodes"
        ]
        if self.verdict == UNFINISHED:
            lines.append("  the run had not drained; give it more run.cycles, or look for what holds it up")
        for finding in self.findings:
            lines.append(f"  {finding.name} {finding.count:,}: {finding.about}")
            lines += [f"    {example.text(self.layout)}" for example in finding.examples]
            if finding.count > len(finding.examples):
                lines.append(f"    and {finding.count - len(finding.examples):,} more")
        if self.by_reset:
            lines.append(f"  by_reset {self.by_reset:,}: a node was reset, or died, while they lived; not judged")
        ended = [
            f"{getattr(m, n):,} {n}" for n in ("unknown", "rejected", "never_sent", "best_effort") if getattr(m, n)
        ]
        if ended:
            lines.append(f"  for their senders, {', '.join(ended)}")
        for name, numbers in self.services:
            told = ", ".join(f"{number.value:,} {number.name}" for number in numbers if number.value)
            lines.append(f"  {name}: {told or 'nothing'}")
        if m.latency:
            shown = ", ".join(f"{name} {value:,.0f}" for name, value in m.latency.items())
            lines.append(f"  latency in cycles: {shown}")
        lines.append(
            f"  goodput {m.goodput:.4f} flits per node and cycle; {m.messages_per_datagram:.2f} messages a datagram; "
            f"{m.repeated:,} repeated, at most {max(m.most_sends - 1, 0)} times; {m.overtaken:,} overtaken"
        )
        return "\n".join(lines)


def uid_text(uid: int) -> str:
    """A packed UID as people write it: source:incarnation:slot:generation."""
    return ":".join(map(str, unpack_uid(uid))) if uid >= 0 else str(uid)


def unit_text(layout: Layout, unit: int | None) -> str:
    """The name of a unit, or what stands in place of one."""
    if unit is None or not 0 <= unit < layout.units:
        return f"unit {unit}"
    return layout.unit_name(unit)

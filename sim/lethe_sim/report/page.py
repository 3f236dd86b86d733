"""The page: words and numbers around the pictures, for somebody who has never seen the project."""

import contextlib
from collections import Counter as Multiset
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lethe.spec.config import System
from lethe.spec.events import DISCARDS, Drop, Event
from lethe_sim.ledger.audit import BROKEN, ONCE, AuditResult, uid_text
from lethe_sim.ledger.findings import FINDINGS
from lethe_sim.metrics import Metric
from lethe_sim.metrics.table import about_metric, read_ledger, table
from lethe_sim.pipeline.compare import CompareResult
from lethe_sim.trace import Meta, TraceError, open_trace
from lethe_sim.trace import ladder as ladders
from lethe_sim.trace.relay_ladder import RelayLadder, find_message

from . import charts, fabric
from . import flow as flow_pictures
from . import ladder as ladder_picture
from . import relay as relay_pictures
from .course import Picture
from .html import csv_uri, data_uri, environment

_REASONS = {
    Event.DISCARD_BUSY: ("its way out was busy with another message", "fabric"),
    Event.DISCARD_CONTENTION: ("lost the draw against one that came at the same time", "fabric"),
    Event.DISCARD_UP: ("every way up was busy", "fabric"),
    Event.DISCARD_ROUTE: ("had nowhere to go (damaged address)", "fabric"),
    Event.DISCARD_FULL: ("the queue it came to was full", "fabric"),
    Event.LOST: ("lost at random on a link (injected fault)", "fault"),
    Event.DEAD: ("ran into a dead link (injected fault)", "fault"),
}
_DROPS: dict[int, str] = {
    Drop.CRC: "arrived damaged (checksum)",
    Drop.KIND: "arrived with an unknown kind",
    Drop.LENGTH: "arrived with a wrong length",
    Drop.MISROUTED: "arrived at the wrong node",
    Drop.SOURCE: "arrived from an impossible node",
    Drop.SLOT: "arrived for an impossible slot",
    Drop.EXTENSION: "asked for an unknown extension",
    Drop.INCARNATION: "meant for the receiver before its reset",
    Drop.TABLE_FULL: "no room in the receiver's table",
    Drop.DELIVER_FULL: "no room for delivery (host too slow)",
    Drop.TIMER_FULL: "no room in the receiver's timers",
    Drop.RESETTING: "arrived during a reset",
    Drop.NOT_OPEN: "refused by a service: not open",
    Drop.PORT_FULL: "refused by a service: its port is full",
    Drop.EARLY: "refused by a service: others come first",
}
_TOPOLOGY = {
    "wire": "two nodes joined by a wire",
    "crossbar": "{nodes} nodes around one crossbar",
    "fly": "{nodes} nodes on a butterfly of {levels} stages of {arity}×{arity} routers",
    "tree": "{nodes} nodes on a fat tree of {levels} levels, {arity} children a router",
    "mesh": "{nodes} nodes on a mesh of {columns} × {rows}",
}


class KeyNumber(NamedTuple):
    """A headline number with its name and what to think of it."""

    value: str
    name: str
    about: str


def report(
    path: str | Path, *, against: str | Path | None = None, master: str | None = None, spark=None
) -> tuple[str, AuditResult]:
    """The page about the trace at ``path``, and its audit; ``against`` is the other side's trace of the same run.

    Raises `TraceError` and `PipelineError` as the audit does.
    """
    from lethe_sim.pipeline import jobs
    from lethe_sim.pipeline.session import session

    trace = open_trace(path, judged=True)
    if spark is None:
        with session(master, "lethe report", brief=trace.meta.events < jobs.BRIEF) as live:
            return report(path, against=against, spark=live)
    audit = jobs.audit_trace(path, spark=spark)
    compare = jobs.compare_traces(path, against, spark=spark) if against is not None else None
    unlucky = uid_text(audit.metrics.unlucky) if audit.metrics.unlucky is not None else None
    slow, rows, flow, relay, message = None, [], None, None, None
    # What the audit found broken may be past drawing, and past counting.
    with contextlib.suppress(TraceError):
        ledger = read_ledger(trace)
        slow = next((uid_text(worst["uid"]) for worst in ledger.slowest if uid_text(worst["uid"]) != unlucky), None)
        rows = table(
            ledger,
            cycles=trace.meta.cycles,
            drained=trace.meta.drained,
            wrong=trace.meta.counters.get("sums", {}).get("wrong"),
        )
        flow, relay = flow_pictures.course(trace), relay_pictures.course(trace)
        message = find_message(path) if relay else None
    page = render(
        audit,
        trace.meta,
        ladder=_ladder(path, unlucky),
        slowest=_ladder(path, slow),
        rows=rows,
        flow=flow,
        relay=relay,
        message=message,
        compare=compare,
        name=Path(path).name,
    )
    return page, audit


def _ladder(path: str | Path, uid: str | None) -> ladders.MessageLadder | None:
    """The ladder of a datagram, if there is one and it can be drawn."""
    with contextlib.suppress(TraceError):
        return ladders.find(path, uid) if uid is not None else None
    return None


def render(
    audit: AuditResult,
    meta: Meta,
    *,
    ladder: ladders.MessageLadder | None = None,
    slowest: ladders.MessageLadder | None = None,
    rows: Sequence[Metric] = (),
    flow: flow_pictures.FlowCourse | None = None,
    relay: relay_pictures.RelayCourse | None = None,
    message: RelayLadder | None = None,
    compare: CompareResult | None = None,
    name: str = "run.parquet",
) -> str:
    """One HTML page without any outside asset.

    Parameters
    ----------
    audit, meta : what was found in a trace, and what the trace says of itself
    ladder, slowest : the lives of the datagram sent most often, and of the slowest; shown if given
    rows : the metrics of the run; shown if given
    flow, relay : what the trace says of these services over time; shown if given
    message : the way of the message of relay with the most hops; shown with that
    compare : the comparison with the other side's trace; shown if given
    name : file name of the trace, for the commands that reproduce the page
    """
    system, metrics = meta.system, audit.metrics
    load = system.workload.load if system.workload.kind == "generator" and system.workload.load < 1 else None
    reasons = _reasons(audit)
    return (
        environment()
        .get_template("page.html")
        .render(
            audit=audit,
            meta=meta,
            system=system,
            metrics=metrics,
            state={ONCE: "good", BROKEN: "bad"}.get(audit.verdict, "open"),
            headline=_headline(audit),
            sentence=_sentence(audit, reasons),
            figures=_figures(audit, reasons),
            topology=_TOPOLOGY[system.topology.kind].format_map(vars(system.topology) | {"nodes": system.nodes}),
            network=fabric.network(metrics, audit.graph),
            fabric=fabric.Load(metrics, audit.graph),
            latency=charts.latency(metrics),
            goodput=charts.goodput(metrics, meta.cycles, load),
            messages=charts.messages(metrics),
            discards=charts.discards(reasons),
            reasons=reasons,
            ladder=ladder,
            lives=[
                (what, life, ladder_picture.draw(life), csv_uri(*_life(life)))
                for what, life in (("unluckiest", ladder), ("slowest", slowest))
                if life
            ],
            rows=[(row, about_metric(row.metric)) for row in rows],
            pictures=_pictures(flow, relay, message),
            streams=flow_pictures.streams(flow) if flow else [],
            rows_csv=csv_uri(("metric", "value", "unit"), rows),
            compare=compare,
            rules=[
                (rule, about, next((f for f in audit.findings if f.name == rule), None))
                for rule, about in FINDINGS.items()
            ],
            example=lambda case: case.text(audit.layout),
            faults=_faults(system),
            counters=meta.counters,
            data=_data(audit, reasons),
            toml=data_uri(meta.config, "application/toml"),
            name=name,
        )
    )


def _pictures(
    flow: flow_pictures.FlowCourse | None, relay: relay_pictures.RelayCourse | None, message: RelayLadder | None
) -> dict[str, list[Picture]]:
    """By service, the charts of what it did over time."""
    drawn = {"flow": flow_pictures.pictures(flow)} if flow else {}
    return drawn | ({"relay": relay_pictures.pictures(relay, message)} if relay else {})


def _undelivered(audit: AuditResult) -> int:
    """Judged datagrams that never arrived, because their senders gave them up or were refused."""
    return audit.metrics.datagrams - audit.by_reset - audit.metrics.once


def _discarded(reasons: list[tuple[str, str, int]]) -> int:
    return sum(count for *_, count in reasons)


def _headline(audit: AuditResult) -> str:
    if audit.verdict == ONCE and _undelivered(audit):
        return "No datagram twice, none lost in silence."
    if audit.verdict == ONCE:
        return "Every datagram, once." if not audit.by_reset else "Every datagram once, where no reset came between."
    if audit.verdict == BROKEN:
        return "The promise was broken."
    return "The run did not finish."


def _sentence(audit: AuditResult, reasons: list[tuple[str, str, int]]) -> str:
    m = audit.metrics
    discarded = _discarded(reasons)
    if audit.verdict == BROKEN:
        found = ", ".join(f"{finding.count:,} {finding.name}" for finding in audit.findings)
        return f"Of {m.datagrams:,} datagrams: {found}. The cases are listed below, each with its cycle and nodes."
    if audit.verdict != ONCE:
        return (
            f"{m.delivered:,} of {m.datagrams:,} datagrams had been delivered when the {audit.cycles:,} cycles were "
            "over. Nothing was wrong so far, but what was still under way cannot be judged. More cycles would tell."
        )
    if not m.datagrams:
        return "Nothing was sent in this run, and so nothing was lost or doubled."
    all_ = "All " if m.once == m.datagrams else f"{m.once:,} of "
    text = f"{all_}{m.datagrams:,} datagrams arrived exactly once"
    if discarded:
        text += f", although {discarded:,} of the messages that carried them were thrown away on the way."
    else:
        text += "; not one message had to be thrown away."
    if audit.by_reset:
        text += f" {audit.by_reset:,} met the reset of a node and are listed, not judged."
    if _undelivered(audit):
        text += f" The other {_undelivered(audit):,} were given up or refused, and their senders were told so."
    return text


def _figures(audit: AuditResult, reasons: list[tuple[str, str, int]]) -> list[KeyNumber]:
    m = audit.metrics
    accepted = f"of {m.datagrams:,} accepted from {audit.graph.nodes:,} nodes"
    figures = [
        KeyNumber(f"{m.delivered:,}", "datagrams delivered", accepted),
        KeyNumber(f"{_discarded(reasons):,}", "messages discarded", f"of {m.messages:,} sent; this network does that"),
        KeyNumber(f"{m.messages_per_datagram:.2f}", "messages per datagram", "3 is the least: Send, Ack, Forget"),
        KeyNumber(f"{m.goodput:.3f}", "goodput", "payload flits per node and cycle"),
    ]
    if m.latency:
        within = f"99 % within {m.latency['p99']:,.0f}"
        figures.append(KeyNumber(f"{m.latency['median']:,.0f}", "cycles, median latency", within))
    return figures


def _reasons(audit: AuditResult) -> list[tuple[str, str, int]]:
    """(reason, fabric, fault or node, count) of every way a message was thrown away, the most first."""
    counts: Multiset[tuple[str, str]] = Multiset()
    for unit, event, detail, count in audit.metrics.events:
        if event in DISCARDS:
            counts[_REASONS[Event(event)]] += count
        elif event == Event.DROP:
            counts[_DROPS.get(detail, f"dropped for reason {detail}"), "node"] += count
        elif event == Event.FRAGMENT and 0 <= unit < audit.graph.nodes:
            counts["arrived in part, cut by a fault", "node"] += count
    return [(*reason, count) for reason, count in counts.most_common()]


def _faults(system: System) -> list[str]:
    """What was done to the network on purpose, in words."""
    f = system.faults
    told = []
    if f.loss:
        told.append(f"every link lost {f.loss:.1%} of the messages that crossed it")
    if f.flip:
        told.append(f"every link flipped bits with probability {f.flip:g}")
    for scheduled, one, many in (
        (f.links, "link died", "links died"),
        (f.stalls, "host stalled", "hosts stalled"),
        (f.resets, "node was reset", "nodes were reset"),
        (f.deaths, "node died", "nodes died"),
        (f.absences, "node was away", "nodes were away"),
    ):
        if scheduled:
            told.append(f"{len(scheduled)} {one if len(scheduled) == 1 else many}")
    return told


def _life(life: ladders.MessageLadder) -> tuple[tuple[str, ...], list[tuple]]:
    """A ladder as a table: what was launched or noted, where, when, and what became of it."""
    rows: list[tuple] = [
        (n.cycle, life.sender if n.at_sender else life.receiver, n.text, None, None) for n in life.notes
    ]
    for worm in life.worms:
        rows.append(
            (worm.launched, life.sender if worm.from_sender else life.receiver, worm.name, worm.arrived, worm.fate)
        )
    return ("cycle", "node", "what", "arrived", "fate"), sorted(rows, key=lambda row: row[0])


def _data(audit: AuditResult, reasons: list[tuple[str, str, int]]) -> dict[str, str]:
    """Download addresses of the numbers behind each picture, as CSV."""
    m = audit.metrics
    names = {e.value: e.name for e in Event}
    tables = {
        "latency": (("cycles_from", "cycles_to", "datagrams"), m.latency_bars),
        "goodput": (("cycle_from", "flits_per_node_and_cycle"), m.goodput_bars),
        "messages": (("messages", "datagrams"), m.message_bars),
        "discards": (("reason", "where", "count"), reasons),
        "units": (
            ("unit", "event", "detail", "count"),
            [
                (audit.layout.unit_name(unit) if unit >= 0 else "all", names.get(event, event), detail, count)
                for unit, event, detail, count in m.events
                if (count and event >= Event.FORWARD) or event == Event.DROP
            ],
        ),
    }
    return {name: csv_uri(head, rows) for name, (head, rows) in tables.items()}

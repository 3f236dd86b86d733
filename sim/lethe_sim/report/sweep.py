"""The page of a sweep: curves with intervals, heat maps, the worst datagrams, and every number to take away."""

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from lethe.spec.config import parse
from lethe.spec.sections import SECTIONS
from lethe.spec.wire import unpack_uid
from lethe_sim.files import FIGURE_COLUMNS
from lethe_sim.metrics import METRICS
from lethe_sim.metrics.table import PERCENTILES
from lethe_sim.sweep.store import Result, Store
from lethe_sim.sweep.summary import broken, summary
from lethe_sim.trace import TraceError
from lethe_sim.trace import ladder as ladders

from . import ladder as ladder_picture
from .curves import MOST_LINES, Cell, Dot, Line, curves, heat_map
from .html import csv_text, csv_uri, data_uri, environment, standalone

#: Sets of charts, one for each value of the third axis and further, that a page holds.
MOST_FACETS = 12
#: Rows of the table that are shown; the download has all.
MOST_ROWS = 100
_WORST = 5


class Shown(NamedTuple):
    """A metric with a chart: its name, its title, what it says."""

    metric: str
    title: str
    about: str


CHARTS = (
    Shown(
        "goodput",
        "Goodput",
        "Payload that arrives, repeats and headers not counted. It follows what is offered until the network is full.",
    ),
    Shown("latency_p50", "Latency, typical", "Half of the datagrams are delivered in so many cycles, or fewer."),
    Shown(
        "latency_p99",
        "Latency, the slow ones",
        "99 of 100 datagrams are delivered in so many cycles, or fewer. The others waited longer for repeats.",
    ),
    Shown(
        "messages_per_datagram",
        "Messages per datagram",
        "What exactly-once costs: a Send, an Ack and a Forget at least, and more when some of them are lost.",
    ),
    Shown(
        "discards_per_message",
        "Messages thrown away",
        "The share of all messages that the network, an injected fault or a receiver discarded.",
    ),
    Shown("slots_mean", "Datagrams under way", "Accepted and not yet completed, at each node, averaged over time."),
    Shown("entries_mean", "Names remembered", "Delivered and not yet forgotten, at each node, averaged over time."),
    Shown("cycles", "Time to the end", "Cycles until everything had been delivered and forgotten."),
    Shown(
        "fairness",
        "Fairness",
        "1 if every node got the same payload through, 1/nodes if one node took all (Jain’s index).",
    ),
)
HEAT = ("goodput", "latency_p99", "messages_per_datagram")
_TABLE = (
    "goodput", "latency_p50", "latency_p99", "latency_max", "messages_per_datagram", "discards_per_message", "fairness",
)  # fmt: skip


class Value(NamedTuple):
    """A metric at a point."""

    runs: int
    mean: float
    deviation: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One picture with what it takes to read it and to take it away: ``name`` is a file name without its ending."""

    name: str
    title: str
    about: str
    picture: Markup
    head: tuple[str, ...]
    rows: tuple[tuple, ...]

    @property
    def csv(self) -> Markup:
        return csv_uri(self.head, self.rows)

    @property
    def svg(self) -> Markup:
        return data_uri(standalone(self.picture), "image/svg+xml")


@dataclass(frozen=True, kw_only=True)
class Facet:
    """The figures for one choice of the axes that they do not show; ``title`` is empty if there is no other."""

    title: str
    figures: tuple[Figure, ...]
    maps: tuple[Figure, ...]


@dataclass(frozen=True, kw_only=True)
class WorstDatagram:
    """One of the worst datagrams, and its ladder if its run's events were kept."""

    what: str
    run: str
    point: str
    uid: str
    latency: int
    sends: int
    picture: Markup | None = None
    ladder: Any = None


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The tables of a sweep, by point.

    Attributes
    ----------
    axes : what was varied, in the order of the sweep
    points : of each point, (text, number or None) of every axis
    values : of each metric, its `Value` at every point that has it
    units : of each metric
    runs : rows of the table ``runs``
    """

    store: Store
    axes: tuple[str, ...]
    points: dict[int, dict[str, tuple[str, float | None]]]
    values: dict[str, dict[int, Value]]
    units: dict[str, str]
    runs: list[dict[str, Any]]
    results: dict[str, Result] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: str | Path) -> "Kept":
        """The sweep in ``directory``; raises `StoreError`, also if its tables do not say what its runs say."""
        store = Store(directory)
        runs = store.read_table("runs").to_pylist()
        results = {run["run"]: store.read_run(run["run"]) for run in runs}
        if not runs or any(not _is_of(run, results[run["run"]]) for run in runs):
            raise store.differs("runs")
        points: dict[int, dict[str, tuple[str, float | None]]] = {run["point"]: {} for run in runs}
        for row in store.read_table("points").to_pylist():
            if row["point"] not in points or not math.isfinite(row["number"] or 0):
                raise store.differs("points")
            points[row["point"]][row["axis"]] = (row["value"], row["number"])
        axes = tuple(dict.fromkeys(axis for point in points.values() for axis in point))
        if any(set(point) != set(axes) for point in points.values()):
            raise store.differs("points")
        rows = [tuple(row.values()) for row in store.read_table("summary").to_pylist()]
        measured = (
            (run["point"], row.metric, row.value, row.unit) for run in runs for row in results[run["run"]].metrics
        )
        if sorted(map(repr, rows)) != sorted(map(repr, summary(measured))):
            raise store.differs("summary")
        values: dict[str, dict[int, Value]] = defaultdict(dict)
        units: dict[str, str] = {}
        for point, metric, unit, *value in rows:
            units[metric] = unit
            values[metric][point] = Value(*value)
        return cls(store=store, axes=axes, points=points, values=values, units=units, runs=runs, results=results)

    @cached_property
    def unfinished(self) -> set[int]:
        """Points with a run that ended before every datagram it measured."""
        return {point for point, value in self.values["unfinished"].items() if value.mean}

    def steps(self, axis: str) -> list[tuple[str, float | None]]:
        """The different values of an axis: numbers in their order, others as they come."""
        found = list(dict.fromkeys(point[axis] for point in self.points.values()))
        if all(number is not None for _, number in found):
            found.sort(key=lambda value: value[1] or 0.0)
        return found

    def label(self, point: int) -> str:
        return ", ".join(f"{axis} = {text}" for axis, (text, _) in self.points[point].items()) or "the only point"

    def dot(self, point: int, metric: str, x: float) -> Dot | None:
        value = self.values[metric].get(point)
        if value is None:
            return None
        return Dot(x, value.mean, value.low, value.high, value.runs, point not in self.unfinished)


def sweep_report(directory: str | Path) -> str:
    """The page about the sweep in ``directory``; raises `StoreError`."""
    kept = Kept.read(directory)
    drawn = list(facets(kept))
    lives = _lives(kept)
    text = kept.store.sweep_text() or ""
    system = parse(kept.results[kept.runs[0]["run"]].config, kept.runs[0]["run"])
    total = {
        name: sum(_each(kept, name))
        for name in ("delivered", "accepted", "messages", "discards", "lost", "doubled", "wrong")
    }
    return environment().get_template("sweep.html").render(
        kept=kept,
        name=kept.store.root.name,
        facets=drawn,
        hidden=max(0, _facet_count(kept) - MOST_FACETS),
        axes=[(axis, _about(axis), kept.steps(axis)) for axis in kept.axes],
        replicas=max(run["replica"] for run in kept.runs) + 1,
        total=total,
        broken=[run["run"] for run in kept.runs if _broken(kept.results[run["run"]])],
        lives=lives,
        table=_table(kept),
        summary=_summary_csv(kept),
        metrics=[(name, unit, about) for name, (unit, about) in METRICS.items()],
        system=system,
        toml=text,
        toml_uri=data_uri(text, "application/toml"),
    )  # fmt: skip


def figures(directory: str | Path) -> dict[str, str]:
    """Every picture of the page of the sweep in ``directory`` as SVG, and its numbers as CSV, by the file's name."""
    made = {}
    for facet in facets(Kept.read(directory)):
        for figure in (*facet.figures, *facet.maps):
            made[f"{figure.name}.svg"] = standalone(figure.picture)
            made[f"{figure.name}.csv"] = csv_text(figure.head, figure.rows)
    return made


def _is_of(run: dict[str, Any], result: Result) -> bool:
    """Whether a row of the table ``runs`` says what the run's own file says."""
    own = (result.cycles, result.drained, result.events, f"{result.digest:016x}")
    return (run["cycles"], run["drained"], run["events"], run["digest"]) == own


def _each(kept: Kept, metric: str) -> Iterator[float]:
    for result in kept.results.values():
        yield from (row.value for row in result.metrics if row.metric == metric)


def _broken(result: Result) -> bool:
    value = {row.metric: row.value for row in result.metrics}
    return broken(parse(result.config, result.run), value)


def _about(axis: str) -> str:
    """What an axis means, in the words of the configuration."""
    section, _, key = axis.partition(".")
    if section not in SECTIONS:
        return "choice of several keys that have a name here"
    known = {f.name: f.metadata["about"] for f in dataclasses.fields(SECTIONS[section])}
    return known.get(key, f"choice of keys in [{section}]")


# Which axis is drawn how.


def _drawn(kept: Kept) -> tuple[list[str], list[str]]:
    """(the axes of a chart, across and as lines; the others): the longest numeric axis runs across."""
    varied = [axis for axis in kept.axes if len(kept.steps(axis)) > 1]
    numeric = [axis for axis in varied if all(number is not None for _, number in kept.steps(axis))]
    across = max(numeric or varied, key=lambda axis: len(kept.steps(axis)), default=None)
    rest = sorted((axis for axis in varied if axis != across), key=lambda axis: -len(kept.steps(axis)))
    return ([across, *rest[:1]] if across else []), rest[1:]


def _scattered(kept: Kept) -> bool:
    """Whether points were drawn at random, so that no two share a value."""
    return len(kept.axes) > 1 and len(kept.points) < 0.5 * _cells(kept)


def _cells(kept: Kept) -> int:
    total = 1
    for axis in kept.axes:
        total *= len(kept.steps(axis))
    return total


def _facet_count(kept: Kept) -> int:
    if _scattered(kept):
        return 0
    _, others = _drawn(kept)
    count = 1
    for axis in others:
        count *= len(kept.steps(axis))
    return count


def facets(kept: Kept) -> Iterator[Facet]:
    """The charts and maps, one set for each choice of the axes that they do not show."""
    drawn, others = _drawn(kept)
    if not drawn:
        return
    if _scattered(kept):
        for axis in kept.axes:
            if len(kept.steps(axis)) > 1:
                made = [_scatter(kept, shown, axis) for shown in CHARTS if _has(kept, shown.metric, list(kept.points))]
                yield Facet(title=f"Over {axis}", figures=tuple(made), maps=())
        return
    choices = itertools.product(*(kept.steps(axis) for axis in others))
    for choice in itertools.islice(choices, MOST_FACETS):
        fixed = dict(zip(others, choice, strict=True))
        points = [point for point, at in kept.points.items() if all(at[axis] == value for axis, value in fixed.items())]
        suffix = "".join(f"-{_file(text)}" for text, _ in choice)
        title = ", ".join(f"{axis} = {text}" for axis, (text, _) in fixed.items())
        yield Facet(
            title=title,
            figures=tuple(
                _curves(kept, shown, drawn, points, suffix) for shown in CHARTS if _has(kept, shown.metric, points)
            ),
            maps=tuple(
                _heat(kept, shown, drawn, points, suffix)
                for shown in CHARTS
                if shown.metric in HEAT and len(drawn) == 2 and _has(kept, shown.metric, points)
            ),
        )


def _has(kept: Kept, metric: str, points: Sequence[int]) -> bool:
    """Whether there is something to draw; how long runs lasted says something if they came to their ends."""
    if metric == "cycles" and not all(kept.values["drained"][point].mean == 1 for point in points):
        return False
    return any(point in kept.values.get(metric, {}) for point in points)


def _file(text: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in text)


def _curves(kept: Kept, shown: Shown, drawn: Sequence[str], points: Sequence[int], suffix: str) -> Figure:
    across = drawn[0]
    steps = kept.steps(across)
    numbers = all(number is not None for _, number in steps)
    place = {step: step[1] if numbers else float(i) for i, step in enumerate(steps)}
    groups = _spread(kept.steps(drawn[1])) if len(drawn) > 1 else [None]
    lines = []
    for group in groups:
        mine = [p for p in points if group is None or kept.points[p][drawn[1]] == group]
        found = (kept.dot(p, shown.metric, place[kept.points[p][across]] or 0.0) for p in mine)
        dots = sorted((dot for dot in found if dot is not None), key=lambda dot: dot.x)
        if dots:
            lines.append(Line(label="" if group is None else _legend(drawn[1], group[0]), dots=tuple(dots)))
    picture = curves(
        lines,
        x_label=across,
        y_label=_unit(kept, shown),
        names=() if numbers else [text for text, _ in steps],
    )
    return _figure(kept, shown, points, f"{shown.metric}{suffix}", picture)


def _legend(axis: str, text: str) -> str:
    """What a line is called: a value that was named by the sweep says enough."""
    return f"{axis} {text}" if axis.partition(".")[0] in SECTIONS else text


def _spread(steps: list[tuple[str, float | None]]) -> list[tuple[str, float | None]]:
    """At most as many as can be told apart, the ends among them."""
    if len(steps) <= MOST_LINES:
        return steps
    return [steps[round(i * (len(steps) - 1) / (MOST_LINES - 1))] for i in range(MOST_LINES)]


def _scatter(kept: Kept, shown: Shown, axis: str) -> Figure:
    steps = kept.steps(axis)
    numbers = all(number is not None for _, number in steps)
    place = {step: step[1] if numbers else float(i) for i, step in enumerate(steps)}
    found = [kept.dot(point, shown.metric, place[at[axis]] or 0.0) for point, at in kept.points.items()]
    dots = tuple(sorted((dot for dot in found if dot is not None), key=lambda dot: dot.x))
    names = () if numbers else [text for text, _ in steps]
    picture = curves([Line(label="", dots=dots)], x_label=axis, y_label=_unit(kept, shown), names=names, joined=False)
    return _figure(kept, shown, list(kept.points), f"{shown.metric}-{_file(axis)}", picture)


def _heat(kept: Kept, shown: Shown, drawn: Sequence[str], points: Sequence[int], suffix: str) -> Figure:
    columns, rows = (kept.steps(axis) for axis in drawn)
    cells = [
        Cell(columns.index(at[drawn[0]]), rows.index(at[drawn[1]]), value.mean)
        for point in points
        if (value := kept.values[shown.metric].get(point)) is not None
        for at in [kept.points[point]]
    ]
    picture = heat_map(
        cells,
        [text for text, _ in columns],
        [text for text, _ in rows],
        x_label=drawn[0],
        y_label=drawn[1],
        unit=_unit(kept, shown),
    )
    return _figure(kept, shown, points, f"{shown.metric}-map{suffix}", picture)


def _unit(kept: Kept, shown: Shown) -> str:
    unit = kept.units[shown.metric]
    words = {"flits/node/cycle": "payload flits per node and cycle", "1": "", "messages": "messages per datagram"}
    return words.get(unit, unit) or {"fairness": "Jain’s index"}.get(shown.metric, "share of messages")


def _figure(kept: Kept, shown: Shown, points: Sequence[int], name: str, picture: Markup) -> Figure:
    head = (*kept.axes, *FIGURE_COLUMNS)
    rows = tuple(
        (*(text for text, _ in kept.points[point].values()), shown.metric, kept.units[shown.metric], *value)
        for point in points
        if (value := kept.values[shown.metric].get(point)) is not None
    )
    return Figure(name=name, title=shown.title, about=shown.about, picture=picture, head=head, rows=rows)


# The worst datagrams, the table.


def _lives(kept: Kept) -> list[WorstDatagram]:
    """The slowest and the unluckiest datagrams of all runs, the first of each with its ladder if there are events."""
    point = {run["run"]: run["point"] for run in kept.runs}
    found = []
    for what, key, get in (
        ("slowest", "latency", lambda result: result.slowest),
        ("unluckiest", "sends", lambda result: result.unlucky),
    ):
        worst = [(life[key], name, life) for name, result in kept.results.items() for life in get(result)]
        worst.sort(key=lambda row: (-row[0], row[1], row[2]["uid"]))
        # Those with a ladder first: without events there is nothing to draw.
        drawn = next((row for row in worst if kept.store.events_file(row[1]).exists()), None)
        for row in worst[:_WORST] if drawn is None else [drawn, *(r for r in worst if r is not drawn)][:_WORST]:
            _, name, life = row
            uid = ":".join(map(str, unpack_uid(life["uid"])))
            ladder = picture = None
            if row is drawn:
                try:
                    ladder = ladders.find(kept.store.events_file(name), uid)
                    picture = ladder_picture.draw(ladder)
                except TraceError:
                    ladder = picture = None
            found.append(
                WorstDatagram(
                    what=what,
                    run=name,
                    point=kept.label(point[name]),
                    uid=uid,
                    latency=life["latency"],
                    sends=life["sends"],
                    picture=picture,
                    ladder=ladder,
                )
            )
    return found


def _table(kept: Kept) -> dict[str, Any]:
    metrics = [metric for metric in _TABLE if kept.values.get(metric)]
    rows = [
        (
            [text for text, _ in at.values()],
            [_cell(kept.values[metric].get(point)) for metric in metrics],
            point in kept.unfinished,
        )
        for point, at in itertools.islice(kept.points.items(), MOST_ROWS)
    ]
    heads = [(metric.replace("_", " ").replace("latency p", "latency, p"), kept.units[metric]) for metric in metrics]
    return {"axes": kept.axes, "heads": heads, "rows": rows, "hidden": max(0, len(kept.points) - MOST_ROWS)}


def _cell(value: Value | None) -> tuple[str, str]:
    """(mean, half of the interval), written with as many digits as the interval supports."""
    if value is None:
        return "–", ""
    if value.low is None or value.high is None:
        return f"{value.mean:,.4g}" if abs(value.mean) < 10_000 else f"{value.mean:,.0f}", ""
    half = (value.high - value.low) / 2
    if not half:
        return f"{value.mean:,.6g}", "± 0"
    digits = max(0, min(6, 1 - _exponent(half)))
    return f"{value.mean:,.{digits}f}", f"± {half:,.{digits}f}"


def _exponent(value: float) -> int:
    return int(f"{value:e}".split("e")[1])


def _summary_csv(kept: Kept) -> Markup:
    head = (*kept.axes, *FIGURE_COLUMNS)
    order = {name: place for place, name in enumerate(PERCENTILES)}
    metrics = sorted(
        kept.values,
        key=lambda name: (
            name.rpartition("_")[0] if name.rpartition("_")[2] in order else name,
            order.get(name.rpartition("_")[2], 0),
        ),
    )
    return csv_uri(
        head,
        (
            (*(text for text, _ in at.values()), metric, kept.units[metric], *value)
            for point, at in kept.points.items()
            for metric in metrics
            if (value := kept.values[metric].get(point)) is not None
        ),
    )

"""The charts of a sweep: curves with confidence intervals, scattered points, heat maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from .chart import WIDTH, draw, layer, number, scale, words

_HEIGHT = 280
_ROW = 16  # of a legend
#: Lines that can be told apart in one chart.
MOST_LINES = 8
#: Width of a letter in pixels.  Names for which an axis has no room side by side are slanting, and so long at most.
_LETTER, _ROOM, _SLANT = 7, 370, 150
#: Columns of a heat map whose cells have room for their numbers.
_MOST_NUMBERS = 10


class Dot(NamedTuple):
    """A point of a chart: where, mean, the ends of its interval if it has one, runs, and whether all had finished."""

    x: float
    y: float
    low: float | None
    high: float | None
    runs: int
    finished: bool


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points that belong together, in the order of x."""

    label: str
    dots: tuple[Dot, ...]


def curves(
    lines: Sequence[Line], *, x_label: str, y_label: str, names: Sequence[str] = (), joined: bool = True
) -> Markup:
    """Lines over an axis, each point with its interval; an empty dot is a point where a run had not finished.

    ``names`` are the labels of x = 0, 1, 2, … if that axis is no number.
    """
    dots = [dot for line in lines for dot in line.dots]
    # An interval may reach below 0 where its metric cannot.
    floor = 0.0 if min(dot.y for dot in dots) >= 0 else min(dot.low or dot.y for dot in dots)
    ends = [max(end, floor) for dot in dots for end in (dot.low, dot.y, dot.high) if end is not None]
    rows = [
        {
            "line": line.label, "x": names[int(dot.x)] if names else dot.x, "y": dot.y,
            "low": None if dot.low is None else max(dot.low, floor), "high": dot.high,
            "finished": dot.finished, "told": f"{line.label + ': ' if line.label else ''}{_told(dot)}",
        }
        for line in lines
        for dot in line.dots
    ]  # fmt: skip
    labels = list(dict.fromkeys(line.label for line in lines))
    colours = {"domain": labels, "range": [f"var(--s{n % MOST_LINES})" for n in range(len(labels))]}
    fitting = max(1, int(WIDTH / (30 + _LETTER * max(map(len, labels)))))
    colour = words("line", scale=colours, legend={"title": None, "columns": fitting} if any(labels) else None)
    # An empty dot has the colour of its line around it.
    filled = {"test": "datum.finished", **words("line", scale=colours, legend=None)}
    height = _HEIGHT + _ROW * (len(labels) - 1) // fitting
    if names:
        slanting = _LETTER * sum(map(len, names)) > _ROOM
        height += slanting * min(_SLANT, _LETTER * max(map(len, names)))
        axis = {"title": x_label, "labelAngle": -60 if slanting else 0, "labelLimit": _SLANT}
        x = words("x", sort=None, axis=axis)
    else:
        x = number("x", x_label, scale=scale([dot.x for dot in dots], zero=False, nice=False, padding=8))
    y = number("y", scale=scale(ends, zero=True))
    interval = {"x": x, "y": y | {"field": "low"}, "y2": "high", "color": colour}
    measured = [row for row in rows if row["low"] is not None]
    layers = []
    if joined and not names:
        loose = {row["line"] for row in rows if row["low"] is None}
        band = [row for row in measured if row["line"] not in loose]
        layers = [
            layer("area", band, {"aria": False, "opacity": 0.16}, **interval),
            layer("line", rows, {"aria": False, "strokeWidth": 2}, x=x, y=y, color=colour),
        ]
    layers += [
        layer("rule", measured, {"aria": False, "strokeWidth": 1.4}, **interval),
        layer(
            "point",
            rows,
            {"size": 45, "opacity": 1},
            x=x,
            y=y,
            stroke=colour,
            fill={"condition": filled, "value": "var(--card)"},
        ),
    ]
    return draw(f"{y_label} over {x_label}", layers, title=y_label, height=height)


def _told(dot: Dot) -> str:
    value = f"{dot.y:.6g}"
    if dot.low is not None and dot.high is not None:
        value += f", 95 % confidence interval {dot.low:.4g} to {dot.high:.4g}"
    return f"{value} ({dot.runs} run{'' if dot.runs == 1 else 's'}{'' if dot.finished else ', not all finished'})"


class Cell(NamedTuple):
    """One cell of a heat map: column, row, value."""

    column: int
    row: int
    value: float


def heat_map(
    cells: Sequence[Cell], columns: Sequence[str], rows: Sequence[str], *, x_label: str, y_label: str, unit: str
) -> Markup:
    """Values over two axes, the darker the larger; row 0 is at the bottom."""
    shown = [
        {
            "x": columns[cell.column], "y": rows[cell.row], "value": cell.value, "brief": f"{cell.value:,.3g}",
            "told": f"{columns[cell.column]}, {rows[cell.row]}: {cell.value:.6g} {unit}",
        }
        for cell in cells
    ]  # fmt: skip
    x = words("x", sort=list(columns), axis={"title": x_label, "labelAngle": 0, "labelOverlap": True})
    y = words("y", sort=list(reversed(rows)), axis={"title": None, "grid": False, "labelLimit": 110})
    # Ink stays readable on the strongest colour.
    share = scale([cell.value for cell in cells], zero=False) | {"range": [0.06, 0.7]}
    strength = {"field": "value", "type": "quantitative", "scale": share, "legend": None}
    layers = [layer("rect", shown, {"color": "var(--water)", "cornerRadius": 3}, x=x, y=y, opacity=strength)]
    if len(columns) <= _MOST_NUMBERS:
        layers.append(layer("text", shown, {"aria": False, "stroke": None}, x=x, y=y, text=words("brief")))
    return draw(f"{unit} over {x_label} and {y_label}", layers, title=y_label, height=60 + 30 * len(rows))

"""The charts of a sweep: curves with confidence intervals, scattered points, heat maps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from .charts import round_between
from .svg import element, picture, rect, short, text, ticks, title

WIDTH, HEIGHT = 430, 280
_LEFT, _RIGHT, _BOTTOM = 52, 14, 44
_LEGEND_LINE = 17
#: Width of a letter.  Names that have no room side by side are written slanting; of each so many letters.
_LETTER, _SLANT_LETTERS = 6, 24
#: Lines that can be told apart in one chart.
MOST_LINES = 8
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


class Scale:
    """From data to the picture, linear from 0 or from the least, or logarithmic."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, zero: bool):
        self.start, self.end = start, end
        positive = [value for value in values if value > 0]
        # Three doublings and more, with nothing at 0, read better as doublings.
        self.logarithmic = len(positive) == len(values) and max(values) > 12 * min(values)
        if self.logarithmic:
            self.low, self.high = math.log(min(values)), math.log(max(values))
            self.ticks = [float(t) for t in _decades(min(values), max(values))]
            return
        self.low, self.high = (min(0.0, *values, 0.0) if zero else min(values)), max(values)
        if zero:
            self.ticks = ticks(self.high)
            self.high = max(self.high, self.ticks[-1])
        else:
            self.ticks = _between(self.low, self.high)
        if self.high <= self.low:
            self.low, self.high = self.low - 0.5, self.low + 0.5

    def __call__(self, value: float) -> float:
        if self.logarithmic:
            value = math.log(max(value, math.exp(self.low)))
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def _decades(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones, below 1 as well."""
    scale = 10.0 ** max(0, math.ceil(-math.log10(low)))
    return [value / scale for value in round_between(low * scale, high * scale)]


def _between(low: float, high: float, about: int = 6) -> list[float]:
    """Round numbers from ``low`` to ``high``."""
    if high <= low:
        return [low]
    step = next(s for s in ticks(high - low, about)[1:2])
    first = math.ceil(low / step - 1e-9)
    return [float(f"{step * i:.9g}") for i in range(first, math.floor(high / step + 1e-9) + 1)]


def curves(
    lines: Sequence[Line], *, x_label: str, y_label: str, names: Sequence[str] = (), joined: bool = True
) -> Markup:
    """Lines over an axis, each point with its interval; an empty dot is a point where a run had not finished.

    ``names`` are the labels of x = 0, 1, 2, … if that axis is no number.
    """
    dots = [dot for line in lines for dot in line.dots]
    legend = _legend(lines) if len(lines) > 1 or lines[0].label else []
    top = 24 + _LEGEND_LINE * len(legend)
    longest = max(map(len, names), default=0)
    slanting = longest * _LETTER * len(names) > WIDTH - _LEFT
    # At 60 degrees a letter rises by less than its width.
    below = slanting * (_LETTER - 1) * min(longest, _SLANT_LETTERS)
    foot = _BOTTOM + below
    height = HEIGHT + _LEGEND_LINE * max(0, len(legend) - 1) + below
    ends = [value for dot in dots for value in (dot.low, dot.y, dot.high) if value is not None]
    lowest = min(dot.y for dot in dots)
    # An interval may reach below 0 where its metric cannot.
    y = Scale([max(end, 0.0) if lowest >= 0 else end for end in ends], height - foot, top, zero=True)
    inset = (WIDTH - _LEFT - _RIGHT) / (2 * len(names)) if names else 8
    x = Scale([dot.x for dot in dots], _LEFT + inset, WIDTH - _RIGHT - inset, zero=False)
    if names:
        x.logarithmic, x.low, x.high = False, 0, max(len(names) - 1, 0)
    parts = [text(0, 12, y_label, class_="unit")]
    for row, entries in enumerate(legend):
        parts += [_entry(at, 24 + _LEGEND_LINE * row, number, label) for at, number, label in entries]
    for tick in y.ticks:
        at = y(tick)
        parts += [
            element("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=at, y2=at, class_="grid"),
            text(_LEFT - 6, at + 4, short(tick), class_="tick end"),
        ]
    base = height - foot
    labels = [(float(place), name) for place, name in enumerate(names)] or [(tick, short(tick)) for tick in x.ticks]
    for tick, label in labels:
        if slanting:
            at, cut = x(tick) + 4, label if len(label) <= _SLANT_LETTERS else label[: _SLANT_LETTERS - 1] + "…"
            turn = f"rotate(-60 {at:.1f} {base + 12})"
            parts.append(text(at, base + 12, cut, class_="tick end", transform=turn))
        else:
            parts.append(text(x(tick), base + 16, label, class_="tick middle"))
    parts.append(text(WIDTH - _RIGHT, height - 6, x_label, class_="unit end"))
    for number, line in enumerate(lines):
        parts += _line(line, number % MOST_LINES, x, y, joined and not names)
    told = f"{y_label} over {x_label}"
    return picture(WIDTH, height, parts, told)


def _line(line: Line, number: int, x: Scale, y: Scale, joined: bool) -> list[str]:
    colour, parts = f"s{number}", []
    places = [(x(dot.x), y(dot.y)) for dot in line.dots]
    if joined and len(places) > 1:
        if all(dot.low is not None for dot in line.dots):
            band = [(at, y(dot.high or 0)) for (at, _), dot in zip(places, line.dots, strict=True)]
            band += [(at, y(dot.low or 0)) for (at, _), dot in reversed(list(zip(places, line.dots, strict=True)))]
            parts.append(element("polygon", points=_points(band), class_=f"band {colour}"))
        parts.append(element("polyline", points=_points(places), class_=f"curve {colour}"))
    for (at, height), dot in zip(places, line.dots, strict=True):
        if dot.low is not None and dot.high is not None:
            ends = y(dot.low), y(dot.high)
            parts.append(element("line", x1=at, x2=at, y1=ends[0], y2=ends[1], class_=f"whisker {colour}"))
        told = f"{line.label + ': ' if line.label else ''}{_told(dot)}"
        state = "" if dot.finished else " open"
        parts.append(element("circle", title(told), cx=at, cy=height, r=3.4, class_=f"dot {colour}{state}"))
    return parts


def _told(dot: Dot) -> str:
    value = f"{dot.y:.6g}"
    if dot.low is not None and dot.high is not None:
        value += f", 95 % confidence interval {dot.low:.4g} to {dot.high:.4g}"
    return f"{value} ({dot.runs} run{'' if dot.runs == 1 else 's'}{'' if dot.finished else ', not all finished'})"


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _legend(lines: Sequence[Line]) -> list[list[tuple[float, int, str]]]:
    """Rows of (x, number, label), as many in a row as fit."""
    rows: list[list[tuple[float, int, str]]] = [[]]
    at = 0.0
    for number, line in enumerate(lines):
        width = 30 + 6.4 * len(line.label)
        if rows[-1] and at + width > WIDTH:
            rows.append([])
            at = 0.0
        rows[-1].append((at, number % MOST_LINES, line.label))
        at += width
    return rows


def _entry(x: float, y: float, number: int, label: str) -> str:
    return element("line", x1=x, x2=x + 14, y1=y, y2=y, class_=f"curve s{number}") + text(
        x + 19, y + 4, label, class_="tick"
    )


class Cell(NamedTuple):
    """One cell of a heat map: column, row, value."""

    column: int
    row: int
    value: float


def heat_map(
    cells: Sequence[Cell], columns: Sequence[str], rows: Sequence[str], *, x_label: str, y_label: str, unit: str
) -> Markup:
    """Values over two axes, the darker the larger; row 0 is at the bottom."""
    left = min(110.0, 14 + 6.4 * max(map(len, rows)))
    top, base = 20.0, 40.0
    pitch = max(22.0, min(36.0, 250 / len(rows)))
    wide, height = (WIDTH - left - 4) / len(columns), top + pitch * len(rows) + base
    least, most = min(cell.value for cell in cells), max(cell.value for cell in cells)
    logarithmic = least > 0 and most > 12 * least
    parts = [text(0, 12, y_label, class_="unit")]
    for row, name in enumerate(rows):
        parts.append(text(left - 6, top + pitch * (len(rows) - 1 - row) + pitch / 2 + 4, name, class_="tick end"))
    every = -(-len(columns) * max(map(len, columns)) * 7 // int(WIDTH - left))
    for column, name in enumerate(columns):
        if column % max(every, 1) == 0:
            parts.append(text(left + wide * (column + 0.5), height - base + 16, name, class_="tick middle"))
    for cell in cells:
        if logarithmic:
            share = math.log(cell.value / least) / math.log(most / least)
        else:
            share = (cell.value - least) / (most - least) if most > least else 0.0
        # Ink stays readable on the strongest colour.
        percent = round(70 * share)
        x, y = left + wide * cell.column, top + pitch * (len(rows) - 1 - cell.row)
        told = f"{columns[cell.column]}, {rows[cell.row]}: {cell.value:.6g} {unit}"
        parts.append(rect(x + 1, y + 1, wide - 2, pitch - 2, told, rx=3, class_="cell", style=f"--share:{percent}%"))
        if len(columns) <= _MOST_NUMBERS:
            parts.append(text(x + wide / 2, y + pitch / 2 + 4, _brief(cell.value), class_="value middle"))
    parts.append(text(WIDTH - 4, height - 6, x_label, class_="unit end"))
    return picture(WIDTH, height, parts, f"{unit} over {x_label} and {y_label}")


def _brief(value: float) -> str:
    """Three digits."""
    return short(round(value)) if abs(value) >= 100 else f"{value:.3g}"

"""Charts over the cycles of a run: lines in steps, bars from a first cycle to a last, spans behind them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from .chart import INK, WIDTH, draw, layer, number, words

_HEIGHT = 200
#: Of a legend, and of a bar with its name beside it.
_ROW, _BAR = 16, 22
#: Width of a letter in pixels, and of a legend's symbol.
_LETTER, _SYMBOL = 7, 48
#: Lines that can be told apart.
MOST_LINES = 8

#: Points (cycle, value), each of which holds up to the next.
Steps = Sequence[tuple[int, float]]


class Stretch(NamedTuple):
    """Cycles from ``start`` to before ``end``, in which something was so."""

    start: int
    end: int
    told: str


def _cycles(end: int):
    return number("x", "cycle", scale={"domain": [0, end], "nice": False})


def steps(
    lines: Mapping[str, Steps], end: int, *, title: str, label: str, spans: Sequence[Stretch] = (), colour: int = 0
) -> Markup:
    """Lines by name up to cycle ``end``, in steps; behind them spans, whose words a pointer over them shows.

    ``colour`` is that of the first line, from 0; the others follow it.
    """
    rows = [
        {"line": name, "x": cycle, "y": value}
        for name, points in lines.items()
        for cycle, value in (*points, (end, points[-1][1]))
    ]
    names = list(lines)
    scale = {"domain": names, "range": [f"var(--s{(colour + at) % MOST_LINES})" for at in range(len(names))]}
    fitting = max(1, int(WIDTH / (_SYMBOL + _LETTER * max(map(len, names)))))
    legend = {"title": None, "columns": fitting, "columnPadding": 18} if len(names) > 1 else None
    x, y = _cycles(end), number("y")
    behind = [{"x": span.start, "to": span.end, "told": span.told} for span in spans]
    layers = [
        layer("rect", behind, {"color": "var(--open)", "opacity": 0.16}, x=x, x2="to"),
        layer(
            "line", rows, {"interpolate": "step-after", "strokeWidth": 1.6, "strokeJoin": "round"},
            x=x, y=y, color=words("line", scale=scale, legend=legend, sort=None),
        ),
    ]  # fmt: skip
    height = _HEIGHT + _ROW * -(-len(names) // fitting) * (len(names) > 1)
    return draw(label, layers[not behind :], title=title, height=height)


def bars(rows: Mapping[str, Sequence[Stretch]], end: int, *, label: str) -> Markup:
    """A row for each name, with a bar for each of its spans."""
    shown = [
        {"row": name, "x": span.start, "to": max(span.end, span.start + 1), "told": f"{name}: {span.told}"}
        for name, spans in rows.items()
        for span in spans
    ]
    y = words("row", sort=list(rows), axis={"title": None, "grid": True, "gridColor": "var(--rule)"})
    style = {"height": 9, "color": "var(--heat)", "cornerRadius": 2, "stroke": INK, "strokeWidth": 0}
    return draw(label, [layer("bar", shown, style, x=_cycles(end), x2="to", y=y)], height=50 + _BAR * len(rows))

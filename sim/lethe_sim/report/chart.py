"""Charts: Vega-Lite specifications, drawn as SVG in the colours of the page's style sheet.

`vl_convert` runs Vega in this process, without a network.  The same specification gives the same bytes.
"""

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

Spec = dict[str, Any]

WIDTH = 430
#: Values differ widely if the largest is so many times the least.
_WIDE = 12
INK = "var(--ink)"
_SOFT = "var(--soft)"
_LABELS = {"labelColor": _SOFT, "titleColor": _SOFT, "labelFontSize": 11, "titleFontSize": 11}
_CONFIG = {
    "font": "Arial, sans-serif",
    "background": None,
    "padding": 2,
    "view": {"stroke": None},
    "title": {"anchor": "start", "frame": "bounds", "fontSize": 11, "fontWeight": "normal", "color": _SOFT},
    "axis": {
        **_LABELS, "titleFontWeight": "normal", "domain": False, "ticks": False, "grid": False, "labelPadding": 6,
    },
    "axisX": {"titleAnchor": "end"},
    "axisY": {"grid": True, "gridColor": "var(--rule)"},
    "legend": {
        **_LABELS, "orient": "top", "symbolType": "stroke", "symbolStrokeWidth": 2.5, "symbolOpacity": 1, "offset": 4,
    },
    "text": {"fontSize": 11, "fill": INK, "stroke": "var(--card)", "strokeWidth": 3},
}  # fmt: skip
#: How an axis writes a number: 1,500 and 25k.
_SHORT = "abs(datum.value) < 1e4 ? format(datum.value, ',~r') : format(datum.value, '.3~s')"


def draw(label: str, layers: Sequence[Spec], *, height: int, title: str = "") -> Markup:
    """Layers over the same axes as a picture; ``label`` stands for it where it cannot be seen."""
    import vl_convert

    fit = {"type": "fit", "contains": "padding"}
    spec = {"width": WIDTH, "height": height, "autosize": fit, "title": title, "layer": layers}
    root = ElementTree.fromstring(vl_convert.vegalite_to_svg(spec, vl_version="6.4", config=_CONFIG))
    for element in list(root.iter()):
        element.tag = element.tag.rpartition("}")[2]
        # What a screen reader says of a mark, a pointer over it shows.
        if element.tag == "path" and element.get("role") == "graphics-symbol":
            ElementTree.SubElement(element, "title").text = element.get("aria-label")
    root.attrib = {"class": "chart", "viewBox": root.attrib["viewBox"], "role": "figure", "aria-label": label}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def layer(
    mark: str, rows: Sequence[Mapping[str, Any]], style: Spec, /, *, x2: str = "", y2: str = "", **encoding: Spec
) -> Spec:
    """Marks for rows, one for each.  Of a row that has ``told``, a pointer and a screen reader are told so."""
    told = "aria" not in style and bool(rows and "told" in rows[0])
    if told:
        encoding["description"] = words("told")
    encoding |= {name: {"field": field} for name, field in (("x2", x2), ("y2", y2)) if field}
    return {"data": {"values": rows}, "mark": {"type": mark, "aria": told, **style}, "encoding": encoding}


def number(field: str, title: str | None = None, *, ticks: int = 5, scale: Spec | None = None, **more: Any) -> Spec:
    """A channel of numbers, with an axis."""
    axis: Spec = {"title": title, "labelExpr": _SHORT, "tickCount": ticks}
    if scale and scale.get("type") == "log":
        axis["values"] = _decades(*scale["domain"])
    return {"field": field, "type": "quantitative", "stack": None, "axis": axis, "scale": scale or {}, **more}


def scale(values: Sequence[float], *, log: bool = False, **linear: Any) -> Spec:
    """A logarithmic scale if that is asked for, or if all values are positive and differ widely; else a linear one."""
    least, most = min(values), max(values)
    return {"type": "log", "domain": [least, most], "nice": False} if log or 0 < _WIDE * least < most else linear


def _decades(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones, at most six or one in each decade."""
    for series in ((1, 2, 5), (1, 3), (1,)):
        exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [m * 10.0**e for e in exponents for m in series if low <= m * 10.0**e <= high]
        if len(found) <= 6:
            return found or [low, high]
    return found


def words(field: str, **more: Any) -> Spec:
    """A channel of names."""
    return {"field": field, "type": "nominal", **more}

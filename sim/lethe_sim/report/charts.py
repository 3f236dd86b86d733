"""The charts of a report: latency, goodput, messages, discards."""

from typing import Any

from markupsafe import Markup

from lethe_sim.ledger.audit import Metrics
from lethe_sim.ledger.sums import MOST_MESSAGES

from .chart import INK, draw, layer, number, scale, words

_HEIGHT = 230
_BAR = {"color": "var(--water)", "binSpacing": 1.5}
_COLOURS = {"fabric": "var(--heat)", "fault": "var(--open)", "node": "var(--ack)"}


def latency(metrics: Metrics) -> Markup | None:
    """How long datagrams took, on a logarithmic axis, with median and 99th percentile."""
    bars = metrics.latency_bars
    if not bars:
        return None
    low, high = bars[0][0], max(bars[-1][1], bars[0][0] * 2)
    rows: list[dict[str, Any]] = []
    for start, end, count in bars:
        span = f"{start:,} cycles" if end <= start + 1 else f"{start:,} to {end - 1:,} cycles"
        rows.append({"x": start, "to": max(end, start + 1), "y": count, "told": f"{span}: {count:,} datagrams"})
    x = number("x", "cycles from acceptance to delivery", scale=scale([low, high], log=True))
    layers = [
        layer(
            "bar",
            rows,
            _BAR,
            x=x | {"bin": "binned"},
            x2="to",
            y=number("y", ticks=min(5, max(row["y"] for row in rows))),
        )
    ]
    for name, label, row in (("median", "half", 8), ("p99", "99 %", 22)):
        at = min(max(metrics.latency[name], low), high)
        # A label on the right half stands to the left of its line, where it has room.
        side = {"align": "right", "dx": -4} if at * at > low * high else {"align": "left", "dx": 4}
        mark = [{"x": at, "text": f"{label} in {metrics.latency[name]:,.4g}"}]
        layers += [
            layer("rule", mark, {"color": INK}, x=x),
            layer("text", mark, {"fontWeight": "bold", "y": row, **side}, x=x, text=words("text")),
        ]
    return draw("Histogram of delivery latency", layers, title="datagrams", height=_HEIGHT)


def goodput(metrics: Metrics, cycles: int, offered: float | None) -> Markup:
    """Payload flits delivered per node and cycle, over the run; ``offered`` draws the load as a dashed line."""
    bars = metrics.goodput_bars or ((0, 0.0),)
    rows = [{"x": start, "y": value} for start, value in (*bars, (cycles, bars[-1][1]))]
    x = number("x", "cycle", scale={"domain": [0, cycles], "nice": False})
    step = {"interpolate": "step-after", "color": "var(--water)"}
    layers = [
        layer("area", rows, {**step, "opacity": 0.25}, x=x, y=number("y")),
        layer("line", rows, {**step, "strokeWidth": 1.6}, x=x, y=number("y")),
    ]
    if offered:
        mark = [{"y": offered, "text": f"offered {offered:g}"}]
        side = {"align": "right", "baseline": "bottom", "x": "width", "fontWeight": "bold"}
        layers += [
            layer("rule", mark, {"color": INK, "strokeDash": [4, 3]}, y=number("y")),
            layer("text", mark, side, y=number("y"), text=words("text")),
        ]
    return draw("Goodput over the run", layers, title="payload flits per node and cycle", height=_HEIGHT)


def messages(metrics: Metrics) -> Markup | None:
    """Messages spent on each delivered datagram: three is the least."""
    bars = metrics.message_bars
    if not bars:
        return None
    low, high = min(bars[0][0], 3), max(bars[-1][0], 8)
    rows: list[dict[str, Any]] = []
    for count, datagrams in bars:
        name = f"{count} or more" if count == MOST_MESSAGES else f"{count}"
        told = f"{name} messages: {datagrams:,} datagrams"
        rows.append({"x": count - 0.5, "to": count + 0.5, "y": datagrams, "told": told})
    x = number("x", "messages spent on a datagram", ticks=12, scale={"domain": [low - 0.5, high + 0.5], "nice": False})
    x["axis"]["labelExpr"] = f"datum.value < {MOST_MESSAGES} ? datum.value : '{MOST_MESSAGES}+'"
    bar = layer(
        "bar", rows, _BAR, x=x | {"bin": "binned"}, x2="to", y=number("y", ticks=min(5, max(row["y"] for row in rows)))
    )
    return draw("Messages per datagram", [bar], title="datagrams", height=_HEIGHT)


def discards(rows: list[tuple[str, str, int]]) -> Markup | None:
    """Horizontal bars of (reason, where, count), the most first."""
    if not rows:
        return None
    shown = [
        {"reason": reason, "where": where, "x": count, "count": f"{count:,}", "told": f"{reason}: {count:,}"}
        for reason, where, count in rows
    ]
    y = words("reason", sort=None, axis=None, scale={"padding": 0})
    bar = {"height": 6, "yOffset": 8, "cornerRadius": 3}
    colour = words("where", scale={"domain": list(_COLOURS), "range": list(_COLOURS.values())}, legend=None)
    label = {"yOffset": -5, "fontSize": 12, "baseline": "middle", "stroke": None}
    return draw(
        "Discards by reason",
        [
            layer("bar", [{"reason": row["reason"]} for row in shown], {**bar, "color": "var(--rule)"}, y=y),
            layer("bar", shown, bar, x=number("x", scale={"nice": False}, axis=None), y=y, color=colour),
            layer("text", shown, {**label, "align": "left", "x": 0}, y=y, text=words("reason")),
            layer("text", shown, {**label, "align": "right", "x": "width"}, y=y, text=words("count")),
        ],
        height=30 * len(rows),
    )

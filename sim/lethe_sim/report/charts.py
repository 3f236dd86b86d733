"""The charts of a report: latency, goodput, messages, discards."""

import math

from markupsafe import Markup

from lethe_sim.ledger.audit import Metrics
from lethe_sim.ledger.sums import MOST_MESSAGES

from .svg import element, picture, rect, short, text, ticks

WIDTH, HEIGHT = 420, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 22, 34


class _Frame:
    """Axes of a chart: ``x`` and ``y`` map data to the picture."""

    def __init__(self, low: float, high: float, most: float, y_label: str, x_label: str, whole: bool = False):
        self.low, self.high = low, max(high, low + 1e-9)
        self.ticks = ticks(most)
        if whole:
            self.ticks = [t for t in self.ticks if t == int(t)]
        self.most = max(self.ticks[-1], most)
        self.parts = [text(0, 11, y_label, class_="unit")]
        for tick in self.ticks:
            y = self.y(tick)
            self.parts += [
                element("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y, class_="grid"),
                text(_LEFT - 6, y + 4, short(tick), class_="tick end"),
            ]
        self.parts.append(text(WIDTH - _RIGHT, HEIGHT - 5, x_label, class_="unit end"))

    def x(self, value: float) -> float:
        return _LEFT + (value - self.low) / (self.high - self.low) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _TOP + (1 - value / self.most) * (HEIGHT - _TOP - _BOTTOM)

    def x_tick(self, value: float, label: str) -> None:
        self.parts.append(text(self.x(value), HEIGHT - _BOTTOM + 15, label, class_="tick middle"))

    def bar(self, left: float, right: float, value: float, told: str) -> None:
        x, end, y = self.x(left), self.x(right), self.y(value)
        gap = min(1.5, (end - x) / 8)
        height = max(self.y(0) - y, 1.0 if value else 0.0)
        round_by = min(2.0, (end - x) / 6)
        self.parts.append(
            rect(x + gap, self.y(0) - height, max(end - x - 2 * gap, 0.4), height, told, rx=round_by, class_="bar")
        )


def latency(metrics: Metrics) -> Markup | None:
    """How long datagrams took, on a logarithmic axis, with median and 99th percentile."""
    bars = metrics.latency_bars
    if not bars:
        return None
    low, high = math.log2(bars[0][0]), math.log2(max(bars[-1][1], bars[0][0] * 2))
    frame = _Frame(low, high, max(n for *_, n in bars), "datagrams", "cycles from acceptance to delivery", whole=True)
    for start, end, count in bars:
        span = f"{start:,} cycles" if end == start + 1 else f"{start:,} to {end - 1:,} cycles"
        frame.bar(math.log2(start), math.log2(max(end, start + 1)), count, f"{span}: {count:,} datagrams")
    for value in round_between(bars[0][0], max(bars[-1][1], bars[0][0] * 2)):
        frame.x_tick(math.log2(value), short(value))
    for name, label in (("median", "half"), ("p99", "99 %")):
        value = metrics.latency[name]
        x = frame.x(min(max(math.log2(max(value, 1)), low), high))
        # The label turns inwards where it would leave the picture.
        side, away = ("end", -4) if x > WIDTH - 90 else ("", 4)
        row = _TOP + (8 if name == "median" else 22)
        frame.parts += [
            element("line", x1=x, x2=x, y1=_TOP - 2, y2=frame.y(0), class_="mark"),
            text(x + away, row, f"{label} in {short(value)}", class_=f"mark {side}"),
        ]
    return picture(WIDTH, HEIGHT, frame.parts, "Histogram of delivery latency")


def round_between(low: float, high: float) -> list[int]:
    """Round numbers for a logarithmic axis, at most six."""
    for series in ((1, 2, 5), (1, 3), (1,)):
        found = [m * 10**e for e in range(13) for m in series if low <= m * 10**e <= high]
        if len(found) <= 6:
            return found or [round(low), round(high)]
    return found[:: -(-len(found) // 6)]


def goodput(metrics: Metrics, cycles: int, offered: float | None) -> Markup:
    """Payload flits delivered per node and cycle, over the run; ``offered`` draws the load as a dashed line."""
    bars = metrics.goodput_bars or ((0, 0.0),)
    most = max([value for _, value in bars] + ([offered] if offered else []))
    frame = _Frame(0, cycles, most, "payload flits per node and cycle", "cycle")
    ends = [start for start, _ in bars[1:]] + [cycles]
    points = []
    for (start, value), end in zip(bars, ends, strict=True):
        points += [f"{frame.x(start):.1f},{frame.y(value):.1f}", f"{frame.x(end):.1f},{frame.y(value):.1f}"]
    base = f"{frame.y(0):.1f}"
    frame.parts += [
        element(
            "path", d=f"M{frame.x(0):.1f},{base} L{' '.join(points)} L{frame.x(cycles):.1f},{base}Z", class_="area"
        ),
        element("polyline", points=" ".join(points), class_="line"),
    ]
    if offered:
        y = frame.y(offered)
        frame.parts += [
            element("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y, class_="mark dashed"),
            text(WIDTH - _RIGHT, y - 4, f"offered {offered:g}", class_="mark end"),
        ]
    step = ticks(cycles)
    for value in step:
        if value <= cycles:
            frame.x_tick(value, short(value))
    return picture(WIDTH, HEIGHT, frame.parts, "Goodput over the run")


def messages(metrics: Metrics) -> Markup | None:
    """Messages spent on each delivered datagram: three is the least."""
    bars = metrics.message_bars
    if not bars:
        return None
    low, high = min(bars[0][0], 3), max(bars[-1][0], 8)
    frame = _Frame(
        low - 0.5, high + 0.5, max(n for _, n in bars), "datagrams", "messages spent on a datagram", whole=True
    )
    for count, datagrams in bars:
        name = f"{count} or more" if count == MOST_MESSAGES else f"{count}"
        frame.bar(count - 0.5, count + 0.5, datagrams, f"{name} messages: {datagrams:,} datagrams")
    step = max(1, -(-(high - low) // 12))
    for value in range(low, high + 1, step):
        frame.x_tick(value, f"{value}+" if value == MOST_MESSAGES else str(value))
    return picture(WIDTH, HEIGHT, frame.parts, "Messages per datagram")


def discards(rows: list[tuple[str, str, int]]) -> Markup | None:
    """Horizontal bars of (reason, where, count), the most first."""
    if not rows:
        return None
    most, pitch, left = max(count for *_, count in rows), 30, 4
    parts = []
    for i, (reason, where, count) in enumerate(rows):
        y = i * pitch
        width = max((WIDTH - 2 * left) * count / most, 2.0)
        parts += [
            text(left, y + 12, reason, class_="label"),
            text(WIDTH - left, y + 12, f"{count:,}", class_="label end"),
            rect(left, y + 17, WIDTH - 2 * left, 6, rx=3, class_="track"),
            rect(left, y + 17, width, 6, f"{reason}: {count:,}", rx=3, class_=f"bar {where}"),
        ]
    return picture(WIDTH, len(rows) * pitch, parts, "Discards by reason")

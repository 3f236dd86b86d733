"""Message ladders as SVG: time runs down, a worm slopes from one line to the other or ends in a cross."""

from itertools import pairwise
from typing import TypeVar

from markupsafe import Markup

from lethe_sim.trace.ladder import MessageLadder, Note, Worm
from lethe_sim.trace.relay_ladder import DIES, RelayHop, RelayLadder, RelayMark

from .svg import element, picture, text, title

WIDTH = 420
_SENDER, _RECEIVER = 62, 358
#: A long life is cut in the middle.
MOST_ROWS = 46
_PITCH = 32
#: The same of a message of relay, whose rows are lower and whose lines are many.
MOST_HOPS = 160
_Row = TypeVar("_Row")
_MARGIN, _BETWEEN, _BESIDE, _LOW = 96.0, 78.0, 110.0, 19.0
#: Where the lines of nodes begin.
_HEAD = 34.0


def draw(ladder: MessageLadder) -> Markup:
    """The ladder; rows are evenly spaced, since cycles range over orders of magnitude."""
    rows: list[Note | Worm] = sorted(
        [*ladder.notes, *ladder.worms], key=lambda row: (row.cycle, 0) if isinstance(row, Note) else (row.launched, 1)
    )
    shown, hidden = _cut(rows, MOST_ROWS)
    height = 44 + _PITCH * len(shown) + 12
    parts = [
        text(_SENDER, 14, f"node {ladder.sender}", class_="head middle"),
        text(_SENDER, 28, "sender", class_="tick middle"),
        text(_RECEIVER, 14, f"node {ladder.receiver}", class_="head middle"),
        text(_RECEIVER, 28, "receiver", class_="tick middle"),
        *(element("line", x1=x, x2=x, y1=36, y2=height - 4, class_="life") for x in (_SENDER, _RECEIVER)),
    ]
    y = 44.0
    for row in shown:
        match row:
            case None:
                parts.append(_left_out(WIDTH / 2, y + 14, hidden))
            case Note():
                parts += _note(row, y)
            case Worm():
                parts += _worm(row, y)
        y += _PITCH
    return picture(WIDTH, height, parts, ladder.title, "ladder")


def _cut(rows: list[_Row], most: int) -> tuple[list[_Row | None], int]:
    """The first and the last rows with a None for those between, if they are too many; how many are left out."""
    if len(rows) <= most:
        return [*rows], 0
    half = most // 2
    return [*rows[:half], None, *rows[-half:]], len(rows) - 2 * half


def _left_out(x: float, y: float, hidden: int) -> str:
    return text(x, y, f"⋮  {hidden:,} more  ⋮", class_="tick middle")


def _cycle(y: float, cycle: int, sender: bool) -> str:
    return text(
        _SENDER - 10 if sender else _RECEIVER + 10, y + 4, f"{cycle:,}", class_="tick" + (" end" if sender else "")
    )


def _note(note: Note, y: float) -> list[str]:
    x = _SENDER if note.at_sender else _RECEIVER
    inwards = 10 if note.at_sender else -10
    return [
        _cycle(y + 14, note.cycle, note.at_sender),
        element("circle", cx=x, cy=y + 14, r=3.5, class_="event"),
        text(x + inwards, y + 18, note.text, class_="note" + ("" if note.at_sender else " end")),
    ]


def _worm(worm: Worm, y: float) -> list[str]:
    start, end = (_SENDER, _RECEIVER) if worm.from_sender else (_RECEIVER, _SENDER)
    kind = worm.name.split()[0].lower()
    top, bottom = y + 16, y + 26
    reach = 1.0 if worm.arrived is not None else min(max(worm.progress, 0.12), 0.94)
    x, stop = start + (end - start) * reach, top + (bottom - top) * reach
    parts = [
        *_arrow(start, top, x, stop, worm.arrived is not None, kind,
                f"{worm.name}, launched in cycle {worm.launched:,}: {worm.fate}"),
        _cycle(top, worm.launched, worm.from_sender),
    ]  # fmt: skip
    refused = "dead " if worm.fate.startswith("dropped") else ""
    if worm.arrived is not None:
        parts += [
            _cycle(stop, worm.arrived, not worm.from_sender),
            text(WIDTH / 2, top - 3, f"{worm.name}: {worm.fate}", class_=f"note {refused}middle"),
        ]
    else:
        parts.append(text(WIDTH / 2, top - 3, f"{worm.name}: {worm.fate}", class_="note dead middle"))
    return parts


def _arrow(x: float, y: float, to_x: float, to_y: float, arrives: bool, kind: str, told: str) -> list[str]:
    """A line with a tip, or with a cross where it is lost; a pointer over it shows ``told``."""
    back = -7 if to_x > x else 7
    end = (
        element("path", d=f"M{to_x:.1f},{to_y:.1f}l{back},-4.2l0,7.6z", class_=f"tip {kind}")
        if arrives
        else element("path", d=f"M{to_x - 4:.1f},{to_y - 4:.1f}l8,8m0,-8l-8,8", class_="cross")
    )
    return [element("line", title(told), x1=x, y1=y, x2=to_x, y2=to_y, class_=f"worm {kind}"), end]


# A message of relay


def draw_way(ladder: RelayLadder) -> Markup:
    """The ladder of a message of relay: a line for each node, which is broken after its death."""
    shown, hidden = _cut(ladder.rows, MOST_HOPS)
    at = {node: _MARGIN + _BETWEEN * place for place, node in enumerate(ladder.nodes)}
    width, height = _MARGIN + _BETWEEN * (len(at) - 1) + _BESIDE, 40 + _LOW * len(shown) + 12
    began = min(row.cycle if isinstance(row, RelayMark) else row.launched for row in ladder.rows)
    last = {node: _HEAD if ladder.gone.get(node, began) < began else float(height) for node in at}
    body: list[str] = []
    y = 40.0
    for row in shown:
        match row:
            case None:
                body.append(_left_out(width / 2, y + 12, hidden))
            case RelayMark():
                body += _mark(row, y, at, width)
                if row.text == DIES:
                    last[row.nodes[0]] = y + 12
            case RelayHop():
                body += _hop(row, y, at)
        y += _LOW
    parts = []
    for node, x in at.items():
        what = {ladder.nodes[0]: "origin", ladder.nodes[-1]: "destination"}.get(node, "")
        parts += [
            text(x, 14, f"node {node}", class_="head middle"), text(x, 28, what, class_="tick middle"),
            element("line", x1=x, x2=x, y1=_HEAD, y2=min(last[node], height - 4), class_="life"),
        ]  # fmt: skip
        if last[node] < height:
            gone = {"x1": x, "x2": x, "y1": last[node], "y2": height - 4}
            parts.append(element("line", **gone, class_="life", stroke_dasharray="2 6"))
    return picture(width, height, [*parts, *body], ladder.title, "ladder wide")


def _mark(mark: RelayMark, y: float, at: dict[int, float], width: float) -> list[str]:
    xs = sorted(at[node] for node in mark.nodes)
    if xs[-1] < width * 0.7:
        x, side = xs[-1] + 8, ""
    elif xs[0] > width * 0.3:
        x, side = xs[0] - 8, " end"
    else:  # in the widest gap between two of them
        x, side = max(pairwise(xs), key=lambda pair: pair[1] - pair[0])[0] + 8, ""
    told = mark.text if mark.until == mark.cycle else f"{mark.text} (to {mark.until:,})"
    dead = " dead" if mark.text == DIES else ""
    return [
        text(_MARGIN - 34, y + 16, f"{mark.cycle:,}", class_="tick end"),
        *(element("circle", cx=x, cy=y + 12, r=3.2, class_="event") for x in xs),
        text(x, y + 16, told, class_=f"note{dead}{side}"),
    ]


def _hop(hop: RelayHop, y: float, at: dict[int, float]) -> list[str]:
    start, end = at[hop.sender], at[hop.receiver]
    reach = 1.0 if hop.arrived is not None else 0.55
    x, top = start + (end - start) * reach, y + 9
    kind = {"DATA": "send", "ACKED": "ack", "ACKACKED": "forget"}.get(hop.name, "control")
    told = f"{hop.name}, cycle {hop.launched:,}: {hop.fate}"
    again = hop.name + (" again" if hop.fate.startswith("again") else "")
    return [
        text(_MARGIN - 34, y + 16, f"{hop.launched:,}", class_="tick end"),
        *_arrow(start, top, x, top + 7 * reach, hop.arrived is not None, kind, told),
        text(
            (start + end) / 2, top - 1, again, class_="note middle" + ("" if hop.arrived is not None else " dead"),
        ),
    ]  # fmt: skip

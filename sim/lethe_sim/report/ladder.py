"""A message ladder as SVG: time runs down, a worm slopes from one line to the other or ends in a cross."""

from markupsafe import Markup

from lethe_sim.trace.ladder import MessageLadder, Note, Worm

from .svg import element, picture, text, title

WIDTH = 420
_SENDER, _RECEIVER = 62, 358
#: A long life is cut in the middle.
MOST_ROWS = 46
_PITCH = 32


def draw(ladder: MessageLadder) -> Markup:
    """The ladder; rows are evenly spaced, since cycles range over orders of magnitude."""
    rows: list[Note | Worm] = sorted(
        [*ladder.notes, *ladder.worms], key=lambda row: (row.cycle, 0) if isinstance(row, Note) else (row.launched, 1)
    )
    hidden = max(0, len(rows) - MOST_ROWS)
    if hidden:
        half = MOST_ROWS // 2
        shown: list[Note | Worm | None] = [*rows[:half], None, *rows[-half:]]
        hidden = len(rows) - 2 * half
    else:
        shown = [*rows]
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
                parts.append(text(WIDTH / 2, y + 14, f"⋮  {hidden:,} more  ⋮", class_="tick middle"))
            case Note():
                parts += _note(row, y)
            case Worm():
                parts += _worm(row, y)
        y += _PITCH
    return picture(WIDTH, height, parts, ladder.title, "ladder")


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
        element(
            "line", title(f"{worm.name}, launched in cycle {worm.launched:,}: {worm.fate}"),
            x1=start, y1=top, x2=x, y2=stop, class_=f"worm {kind}",
        ),
        _cycle(top, worm.launched, worm.from_sender),
    ]  # fmt: skip
    refused = "dead " if worm.fate.startswith("dropped") else ""
    if worm.arrived is not None:
        back = -7 if worm.from_sender else 7
        parts += [
            element("path", d=f"M{x},{stop}l{back},-4.2l0,7.6z", class_=f"tip {kind}"),
            _cycle(stop, worm.arrived, not worm.from_sender),
            text(WIDTH / 2, top - 3, f"{worm.name}: {worm.fate}", class_=f"note {refused}middle"),
        ]
    else:
        parts += [
            element("path", d=f"M{x - 4:.1f},{stop - 4:.1f}l8,8m0,-8l-8,8", class_="cross"),
            text(WIDTH / 2, top - 3, f"{worm.name}: {worm.fate}", class_="note dead middle"),
        ]
    return parts

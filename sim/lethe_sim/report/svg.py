"""Just enough SVG: elements as text, colours left to the page's style sheet."""

from collections.abc import Iterable
from html import escape

from markupsafe import Markup


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """One element; ``class_`` is class, other underscores are hyphens; numbers are rounded to tenths."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def _number(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def text(x: float, y: float, content: str, **attributes: object) -> str:
    return element("text", escape(content), x=float(x), y=float(y), **attributes)


def rect(x: float, y: float, width: float, height: float, told: str = "", **attributes: object) -> str:
    """A rectangle; a pointer over it shows ``told``."""
    inside = title(told) if told else ""
    return element("rect", inside, x=float(x), y=float(y), width=float(width), height=float(height), **attributes)


def title(content: str) -> str:
    """What a pointer over the parent element shows."""
    return element("title", escape(content))


def picture(width: float, height: float, parts: Iterable[str], label: str, class_: str = "chart") -> Markup:
    """A whole picture with the text that stands for it where it cannot be seen."""
    head = f'<svg class="{class_}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
    return Markup(head + "".join(parts) + "</svg>")


def short(value: float) -> str:
    """A number for an axis: 1500 as 1.5k."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scale = {"G": 1e9, "M": 1e6, "k": 1e3}[unit]
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}" if isinstance(value, float) and value != int(value) else f"{int(value):,}"


def ticks(most: float, about: int = 4) -> list[float]:
    """Round numbers from 0 up to at least ``most``, some ``about`` of them."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / about
    power = 10.0 ** _floor_log10(rough)
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)
    count = int(-(-most // step))
    return [step * i for i in range(count + 1)]


def _floor_log10(value: float) -> int:
    return int(f"{value:e}".split("e")[1])

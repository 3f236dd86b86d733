"""Just enough SVG for networks and ladders: elements as text, colours left to the page's style sheet."""

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


def picture(width: float, height: float, parts: Iterable[str], label: str, class_: str) -> Markup:
    """A whole picture with the text that stands for it where it cannot be seen."""
    head = f'<svg class="{class_}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
    return Markup(head + "".join(parts) + "</svg>")

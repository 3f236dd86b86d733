"""What the pages share: their templates, downloads as data, pictures that stand alone."""

import csv
import io
import re
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path

import jinja2
from markupsafe import Markup

import lethe
from lethe_sim.files import MARK

_TEMPLATES = Path(__file__).with_name("templates")


def environment() -> jinja2.Environment:
    """Templates of the pages, which extend ``frame.html``; ``n`` writes whole numbers with commas."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.globals["lethe"] = lethe.__version__  # pyrefly: ignore[unsupported-operation]
    made.filters["n"] = lambda value: f"{value:,}"
    return made


def csv_text(head: Iterable[str], rows: Iterable[Iterable]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()


def csv_uri(head: Iterable[str], rows: Iterable[Iterable]) -> Markup:
    """A table as the address of a download."""
    return data_uri(csv_text(head, rows), "text/csv")


def data_uri(content: str, kind: str) -> Markup:
    """The address of a download that is in the page itself."""
    return Markup(f"data:{kind};charset=utf-8;base64,{b64encode(content.encode()).decode()}")


def standalone(picture: str) -> str:
    """A chart of a page as an SVG file, in the light colours, for a paper or a slide."""
    sheet = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--([\w-]+): ([^;]+);", sheet[: sheet.index("}")]))
    _, _, width, height = re.findall(r'viewBox="([^"]*)"', picture)[0].split()
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
    ground = f'><metadata>{MARK}</metadata><rect width="{width}" height="{height}" fill="#fff"/>'
    page = str(picture).replace("<svg ", head, 1).replace(">", ground, 1)
    return re.sub(r"var\(--([\w-]+)\)", lambda found: colours[found[1]], page)

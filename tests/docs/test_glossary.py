"""One word for one thing, as far as a machine can tell (`docs/glossary.md`)."""

import ast
import importlib
import re
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

from lethe.spec.events import EVENTS, Event, Kind, Role
from tests.helpers import ROOT

GLOSSARY = ROOT / "docs/glossary.md"
PAGES = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if path != GLOSSARY]
TERMS, UNUSED = (
    [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("| ")][2:]
    for part in GLOSSARY.read_text(encoding="utf-8").split("\n## ")
)
#: Classes of one name that are one thing, beside a noun's RTL and golden model.
SAME = {
    "Taken": "what a host has taken, of the golden model and of the RTL",
    "Completion": "how a datagram ended, as the golden model shows it and as the driver gives it",
    "Delivery": "a datagram that was delivered, as the golden model shows it and as the driver gives it",
    "Run": "a run: planned by a sweep, judged by the audit",
}
#: Pages that speak of others' switches.
OTHERS = ("studies/credits.md",)
#: Scripts with an option of such a name.
OPTIONS = ("queues.py",)
#: Pages on which a ladder is a time-out ladder, as the glossary says.
LADDER_ALONE = ("cycle-contract", "theory")
#: Pages of rules and of claims, which are not read aloud.
TABLES = ("cycle-contract", "testplan")
#: A longer sentence has to be read twice.
MOST_WORDS = 45
#: What of a Python file people read.
SPOKEN = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def test_the_glossary_is_whole_and_in_order():
    words = [row[0] for row in TERMS]
    assert words == sorted(words, key=str.casefold) and len(words) == len(set(words))
    assert all(len(row) == 4 and all(row) for row in TERMS)
    assert {"ladder", "accepted", "FORGOTTEN", "wire", "link fault", "delivery", "worm"} <= set(words)
    assert {"class", "topology", "format", "launch", "item"} <= set(words)


@pytest.mark.parametrize("term", [row[0] for row in TERMS])
def test_a_term_is_where_the_glossary_says(term):
    (place,) = (row[3].strip("`") for row in TERMS if row[0] == term)
    parts = place.split(".")
    modules = max(i for i in range(1, len(parts)) if _module(parts[:i]))
    found = _module(parts[:modules])
    for name in parts[modules:]:
        found = getattr(found, name)


def _module(parts: list[str]):
    try:
        return importlib.import_module(".".join(parts))
    except ModuleNotFoundError:
        return None


def test_no_class_name_means_two_things():
    where: dict[str, set[str]] = defaultdict(set)
    for side, folder in (("hdl", "hdl"), ("sim", "sim")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            golden = "golden" in path.relative_to(ROOT).parts
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    where[node.name].add("golden" if golden else f"{side}: {path.relative_to(ROOT)}")
    twice = {
        name: sorted(places)
        for name, places in where.items()
        if len(places - {"golden"}) > 1 or ("golden" in places and any(place.startswith("sim") for place in places))
    }
    assert twice.keys() == SAME.keys(), twice


def test_a_kind_and_an_event_of_one_name_are_one_message():
    assert all(Role.LAUNCH in EVENTS[Event[kind.name]].role for kind in Kind if kind.name in Event.__members__)


def _prose(path: Path) -> str:
    """A page without code and addresses."""
    return re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_do_not_use_the_words_that_are_not_used(page):
    words = "|".join(re.escape(word.strip()) for row in UNUSED for word in row[0].split(","))
    found = re.findall(rf"(?i)\b(?:{words})(?:e?s|ed|ting)?\b", _prose(page))
    if page.as_posix().endswith(OTHERS):
        found = [word for word in found if "switch" not in word]
    assert not found


def _spoken(path: Path) -> str:
    """The comments and texts of a Python file."""
    with tokenize.open(path) as file:
        tokens = tokenize.generate_tokens(file.readline)
        return "\n".join(token.string for token in tokens if token.type in SPOKEN)


@pytest.mark.parametrize("folder", ["hdl", "sim", "fpga", "scripts"])
def test_comments_and_messages_do_not_use_the_words_that_are_not_used(folder):
    words = "|".join(re.escape(word.strip()) for row in UNUSED for word in row[0].split(","))
    unused = re.compile(rf"(?i)\b(?:{words})(?:e?s|ed|ting)?\b")
    files = [path for path in sorted((ROOT / folder).rglob("*.py")) if path.name not in OPTIONS]
    assert files
    found = {path.name: unused.findall(_spoken(path)) for path in files}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize("page", [p for p in PAGES if p.stem not in LADDER_ALONE], ids=lambda path: path.stem)
def test_pages_say_which_ladder(page):
    assert not re.findall(r"(?i)(?<!message )(?<!time-out )(?<!Send )(?<!Ack )\bladders?\b", _prose(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_status_is_in_capitals(page):
    assert not re.findall(r"\b(?:complete[sd]|ends|ended) (?:as )?(?:accepted|unknown|rejected)\b", page.read_text())


def _sentences(page: str) -> list[str]:
    """The sentences of a page's prose: no code, tables or headings; an item of a list begins one."""
    text = re.sub(r"```.*?```|<!--.*?-->|^[|#][^\n]*$", ". ", page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\s*(?:-|\d+\.) ", ". ", re.sub(r"`[^`\n]*`|\]\([^)]*\)", "x", text), flags=re.MULTILINE)
    return re.split(r"[.:;?!](?=\s)|\n\n", text)


@pytest.mark.parametrize("page", [p for p in PAGES if p.stem not in TABLES], ids=lambda path: path.stem)
def test_sentences_are_short(page):
    sentences = _sentences(page.read_text(encoding="utf-8"))
    assert len(sentences) > 10
    assert [sentence for sentence in sentences if len(re.findall(r"[\w’'-]+", sentence)) > MOST_WORDS] == []

"""What any command must keep to, whatever it is given."""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from lethe_sim import cli

CODES = {cli.GOOD, cli.BAD, cli.MISTAKE, cli.ENVIRONMENT, cli.INTERRUPTED, cli.BROKEN_PIPE}
#: Nothing of this is for users.
FORBIDDEN = re.compile(
    r"Traceback|Exception in thread|Exception ignored|^\s+at [\w.$]+\(|^Caused by|Py4J|Warning|File \".*\", line|"
    r"<frozen|0x[0-9a-f]{9,}|object at|Segmentation|core dumped",
    re.MULTILINE,
)
#: Notes that may come before an error.
MOST_NOTES = 3
#: What must not happen, as it is counted; a fault begins with one of them.
TRACEBACK, HANG, LINES, ORPHAN, OTHER = SORTS = "traceback", "hang", "message of more than one line", "orphan", "other"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended: its exit code (None if it raised), and what it wrote."""

    code: int | None
    out: str
    err: str


def faults(ended: Ended, *, progress: bool = False, interrupted: bool = False) -> list[str]:
    """What is wrong with the end of a command; ``progress`` and ``interrupted`` say what may have been asked for."""
    found = []
    if ended.code is None or "Traceback" in ended.err:
        found.append(f"{HANG if 'Hung' in ended.err else TRACEBACK}: {ended.err.strip()[-1500:]}")
    elif ended.code not in CODES:
        found.append(f"{OTHER}: exit code {ended.code}")
    if ended.code == cli.INTERRUPTED and not interrupted:
        found.append(f"{HANG}: it was interrupted")
    for name, text in (("stdout", ended.out), ("stderr", ended.err)):
        if unwanted := FORBIDDEN.search(text):
            found.append(f"{TRACEBACK}: {name} has {unwanted[0]!r}")
    lines = ended.err.removesuffix("\n").split("\n") if ended.err else []
    messages = [line for line in lines if line.startswith("lethe: ")]
    if not progress and len(messages) < len(lines):
        more = next(line for line in lines if line not in messages)
        found.append(f"{LINES}: stderr has more than messages: {more!r}")
    if any(not line.isprintable() or len(line) > 2100 for line in messages):
        found.append(f"{LINES}: a message does not print, or is too long")
    failed = ended.code in (cli.MISTAKE, cli.ENVIRONMENT, cli.INTERRUPTED)
    if failed and not messages:
        found.append(f"{OTHER}: it failed without a message")
    if len(messages) > MOST_NOTES + failed:
        found.append(f"{LINES}: {len(messages)} messages")
    return found


def contents(directory: Path) -> dict[str, str]:
    """A digest of every file under a directory."""
    found = {}
    for root, _, files in os.walk(directory):
        for name in files:
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, directory)] = hashlib.sha256(file.read()).hexdigest()
    return found


def changed(before: dict[str, str], after: dict[str, str], outputs: set[str]) -> list[str]:
    """Inputs that are no longer what they were, and what is left half-written."""
    found = [
        f"{OTHER}: {name!r} was changed"
        for name, digest in before.items()
        if after.get(name) != digest and not any(name == output or name.startswith(f"{output}/") for output in outputs)
    ]
    return found + [
        f"{OTHER}: {name!r} is left over" for name in after if name not in before and name.endswith(".part")
    ]

"""What a trace says of its run and its parts, and the checks of what is read there: anything may stand in a file."""

import json
import zlib
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import lethe
from lethe.spec.config import ConfigError, System, parse

from .check import MOST_CYCLES

#: Version of the trace schema; a reader refuses another.
VERSION = "2"
SIDES = ("golden", "rtl")


class TraceError(ValueError):
    """A trace that cannot be used.  The message is ``file: what is wrong; cure``."""


@dataclass(frozen=True, kw_only=True)
class Meta:
    """What a trace says of its run.

    Attributes
    ----------
    run, side : name of the run; ``golden`` or ``rtl``
    config : the TOML text the run followed
    cycles : how many cycles ran; events lie in 0 … cycles − 1
    drained : whether everything had come to rest at the end
    digest : of the raw events, mod 2^64
    events : rows of the trace
    counters : totals by name, in the groups ``ni``, ``routers``, ``links``, ``sums`` and those of services, such as
        ``loop`` (any may be missing)
    lethe : version that wrote it
    seal : checksum of all the rest, so that a change is noticed
    """

    run: str
    side: str
    config: str
    cycles: int
    drained: bool
    digest: int
    events: int
    counters: dict = field(default_factory=dict)
    lethe: str = lethe.__version__
    version: str = VERSION
    seal: int = 0

    def sealed(self) -> "Meta":
        """These metadata with their seal."""
        values = {name: value for name, value in asdict(self).items() if name != "seal"}
        return replace(self, seal=zlib.crc32(json.dumps(values, sort_keys=True).encode()))

    @property
    def genuine(self) -> bool:
        """Whether they are as they were written."""
        return self == self.sealed()

    @cached_property
    def system(self) -> System:
        return parse(self.config, f"trace of run {self.run}")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One file of a large trace: the events of a range of cycles.

    Attributes
    ----------
    name : file in the trace's directory
    first, last : cycles of its first and last event; no other part has events in between
    events : rows
    digest : of its raw events, mod 2^64
    footer : CRC-32 of the file from the start of its footer on, since a reader trusts what it finds there
    """

    name: str
    first: int
    last: int
    events: int
    digest: int
    footer: int = 0


def one_line(error: BaseException) -> str:
    """What an error says, in one line that can be printed."""
    text = " ".join(str(error).split())[:200] or type(error).__name__
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def damaged(path: Path, reason: str) -> TraceError:
    return TraceError(f"{path}: its metadata is damaged ({reason}); write the trace again")


def read_values(path: Path, text: bytes) -> dict:
    """The metadata in ``text``, which must be a JSON object."""
    try:
        values = json.loads(text)
    except RecursionError:
        raise damaged(path, "nested too deep") from None
    except ValueError as error:
        raise damaged(path, one_line(error)) from None
    if not isinstance(values, dict):
        raise damaged(path, f"a table is wanted, not {type(values).__name__}")
    return values


def check_version(path: Path, values: dict) -> None:
    version = values.get("version")
    if version != VERSION:
        told = version if isinstance(version, str) and version.isprintable() else "of no version"
        raise TraceError(
            f"{path}: has trace schema {told[:20]}, not {VERSION}; write it again with this version of Lethe"
        )


def _natural(most: int):
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value < most


def _printable(value) -> bool:
    return isinstance(value, str) and value.isprintable()


def _totals(value) -> bool:
    """Whether these are counters: totals by name, in groups."""
    number = _natural(1 << 64)
    return isinstance(value, dict) and all(
        isinstance(group, dict) and all(map(_printable, group)) and all(map(number, group.values()))
        for group in value.values()
    )


_A_NAME = (lambda value: _printable(value) and 0 < len(value) <= 255, "a name")
_A_CYCLE, _A_COUNT = (_natural(MOST_CYCLES), f"0 to {MOST_CYCLES - 1}"), (_natural(1 << 62), "a number of rows")
_A_DIGEST, _A_CHECKSUM = (_natural(1 << 64), "below 2^64"), (_natural(1 << 32), "below 2^32")
#: Keys of metadata and of a part: what their values must be, and in words.
_META_KEYS = {
    "run": _A_NAME,
    "side": (lambda value: value in SIDES, " or ".join(SIDES)),
    "config": (lambda value: isinstance(value, str), "a TOML text"),
    "cycles": _A_CYCLE,
    "drained": (lambda value: isinstance(value, bool), "true or false"),
    "digest": _A_DIGEST,
    "events": _A_COUNT,
    "counters": (_totals, "totals by name, in groups"),
    "lethe": (_printable, "a version"),
    "version": (_printable, "a version"),
    "seal": _A_CHECKSUM,
}
_PART_KEYS = {
    "name": (
        lambda value: _printable(value) and value.isascii() and value == Path(value).name and len(value) <= 255,
        "the name of a file",
    ),
    "first": _A_CYCLE,
    "last": _A_CYCLE,
    "events": _A_COUNT,
    "digest": _A_DIGEST,
    "footer": _A_CHECKSUM,
}


def _check_keys(path: Path, values: dict, keys: dict, place: str) -> None:
    for key, (right, wanted) in keys.items():
        if key not in values:
            raise damaged(path, f"{place}{key} is missing")
        if not right(values[key]):
            raise damaged(path, f"{place}{key} must be {wanted}")
    for key in values.keys() - keys.keys():
        raise damaged(path, f"{place}{ascii(key)[:40]} is no key of it")


def read_meta(path: Path, values: dict) -> Meta:
    _check_keys(path, values, _META_KEYS, "")
    meta = Meta(**values)
    try:
        _ = meta.system
    except (ConfigError, ValueError, RecursionError) as error:
        raise damaged(path, one_line(error)) from None
    return meta


def read_part(path: Path, number: int, entry) -> Part:
    place = f"parts[{number}]"
    if not isinstance(entry, dict):
        raise damaged(path, f"{place} must be a table")
    _check_keys(path, entry, _PART_KEYS, f"{place}.")
    return Part(**entry)

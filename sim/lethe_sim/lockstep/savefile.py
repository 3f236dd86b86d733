"""A save file for the waveform of a lockstep: which signals GTKWave shows, in groups by node, with codes as names.

The names come from the waveform itself: a signal that is not in it is left out.
"""

import enum
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from vcd.gtkw import GTKWSave, make_translation_filter

from lethe.spec.events import Cause, Drop, Event, Kind, Status
from lethe_sim.files import MARK, whole, whole_directory

Codes = type[enum.IntEnum]


class WaveSignal(NamedTuple):
    """A signal within its scope: its name there, what it is called, and what its values mean."""

    name: str
    alias: str = ""
    codes: Codes | None = None


def _stream(name: str, *parts: WaveSignal) -> tuple[WaveSignal, ...]:
    return WaveSignal(f"{name}__valid"), WaveSignal(f"{name}__ready"), *parts


def _link(name: str) -> tuple[WaveSignal, ...]:
    return tuple(WaveSignal(f"{name}.{part}") for part in ("valid", "first", "last", "data"))


#: Of an NI, by part: what it shows of its host, of its links, and of what it does.
NI: dict[str, tuple[WaveSignal, ...]] = {
    "send": _stream(
        "host__send", *(WaveSignal(f"host__send__payload.{part}") for part in ("destination", "length", "cls", "tag"))
    ),
    "send_data": _stream("host__send_data", WaveSignal("host__send_data__payload")),
    "link_o": (
        *_link("link_o"),
        WaveSignal("core.transmitter.header_kind", "kind", Kind),
        WaveSignal("lanes__0", "sent", Event),
    ),
    "link_i": (
        *_link("link_i"),
        WaveSignal("core.receiver.arrival__complete", "complete"),
        WaveSignal("core.receiver.arrival__drop", "drop", Drop),
        WaveSignal("lanes__1", "acted", Event),
    ),
    "deliver": _stream(
        "host__deliver", *(WaveSignal(f"host__deliver__payload.{part}") for part in ("source", "length", "cls"))
    ),
    "deliver_data": _stream("host__deliver_data", WaveSignal("host__deliver_data__payload.data")),
    "completion": _stream(
        "host__completion",
        WaveSignal("host__completion__payload.slot"),
        WaveSignal("host__completion__payload.status", "status", Status),
        WaveSignal("host__completion__payload.cause", "cause", Cause),
    ),
    "state": tuple(WaveSignal(name) for name in ("node_reset", "incarnation", "ready", "host__idle", "time_base")),
}
_CLOCK = tuple(map(WaveSignal, ("clk", "rst", "idle", "done", "ok")))
_FAULT = (*_link("i"), *_link("o"), WaveSignal("dead"), WaveSignal("lost"))
_ROUTER = tuple(map(WaveSignal, ("head", "forwarding", "swallowing", "held")))
#: Scopes by their names; the number orders the groups.
_SCOPES: dict[re.Pattern[str], dict[str, tuple[WaveSignal, ...]]] = {
    re.compile(r"ni(\d+)"): NI,
    re.compile(r"router(\d+)"): {"": _ROUTER},
    re.compile(r"link(\d+)"): {"": _FAULT},
}


def variables(vcd: Path) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """(scopes, name with its range, bits) of every signal that a waveform declares."""
    scopes: list[str] = []
    with vcd.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            match line.split():
                case ["$scope", _, name, *_]:
                    scopes.append(name)
                case ["$upscope", *_]:
                    scopes.pop()
                case ["$var", _, bits, _, *name, "$end"]:
                    yield tuple(scopes), "".join(name), int(bits)
                case ["$enddefinitions", *_]:
                    return


class Found(NamedTuple):
    """A signal of the waveform: its full name, its bits, and what it is shown as."""

    signal: str
    bits: int
    shown: WaveSignal


def groups(vcd: Path) -> dict[str, dict[str, list[Found]]]:
    """The signals to show: group → part → signals in the order in which the parts have them."""
    bits: dict[str, tuple[str, int]] = {}
    units: dict[tuple[int, int, str], tuple[str, dict[str, tuple[WaveSignal, ...]]]] = {}
    top = ""
    for scopes, name, width in variables(vcd):
        if not scopes or scopes[0].startswith("$"):
            continue
        top = top or scopes[0]
        bits.setdefault(".".join((*scopes, name.split("[")[0])), (".".join((*scopes, name)), width))
        for rank, (pattern, parts) in enumerate(_SCOPES.items()):
            if found := pattern.fullmatch(scopes[-1]):
                units.setdefault((rank, int(found[1]), scopes[-1]), (".".join(scopes), parts))
    made = {"system": {"": _present(bits, top, _CLOCK)}}
    for (_, _, unit), (scope, parts) in sorted(units.items()):
        made[unit] = {part: _present(bits, scope, shown) for part, shown in parts.items()}
    return made


def _present(bits: dict[str, tuple[str, int]], scope: str, shown: tuple[WaveSignal, ...]) -> list[Found]:
    return [Found(*bits[name], one) for one in shown if (name := f"{scope}.{one.name}") in bits]


def write_save(vcd: Path, gtkw: Path, codes: Path) -> int:
    """Write a save file for ``vcd``, and a directory ``codes`` of the names of codes; returns how many signals it has.

    Raises `WriteError`.
    """
    found = groups(vcd)
    every = [one for parts in found.values() for signals in parts.values() for one in signals]
    used = {(one.shown.codes, one.bits) for one in every if one.shown.codes is not None}
    with whole_directory(codes) as directory:
        for kind, bits in used:
            named = [(code.value, code.name) for code in kind if code.value < 1 << bits]
            (directory / _file(kind, bits)).write_text(
                make_translation_filter(named, datafmt="hex", size=bits) + "\n", encoding="utf-8"
            )
    with whole(gtkw) as part, part.open("w", encoding="utf-8") as file:
        save = GTKWSave(file)
        save.comment(MARK)
        save.dumpfile(str(vcd.resolve()))
        save.dumpfile_mtime(datetime.fromtimestamp(vcd.stat().st_mtime, UTC))
        for name, parts in found.items():
            with save.group(name, closed=not name.startswith(("system", "ni"))):
                for part, signals in parts.items():
                    if part and signals:
                        save.blank(part)
                    for one in signals:
                        _trace(save, one, codes)
    return len(every)


def _file(kind: Codes, bits: int) -> str:
    return f"{kind.__name__.lower()}{bits}.txt"


def _trace(save: GTKWSave, one: Found, codes: Path) -> None:
    alias, kind = one.shown.alias or None, one.shown.codes
    filtered = None if kind is None else str((codes / _file(kind, one.bits)).resolve())
    save.trace(one.signal, alias=alias, datafmt="hex", translate_filter_file=filtered)

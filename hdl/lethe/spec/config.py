"""A system is one TOML file: its dataclasses, their defaults, and the checks.

Every error is a `ConfigError` that names the file, the key and the cure.  Sections are frozen
dataclasses; `System` holds them all and derives what both implementations compute from.
"""

import copy
import dataclasses
import difflib
import json
import math
import re
import tomllib
import types
import typing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import check
from .sections import (
    SECTIONS,
    FaultsSection,
    NiSection,
    RouterSection,
    RunSection,
    StudySection,
    TimersSection,
    TopologySection,
    WireSection,
    WorkloadSection,
)
from .topology import Topology
from .trace import Layout
from .wire import Wire


class ConfigError(ValueError):
    """A configuration that cannot be used.  The message is ``file: key: what is wrong; cure``."""


#: Bytes of the longest configuration that is read.
LONGEST_TOML = 4 << 20
# A key of so many parts that the parser would take the square of their number.
_DEEP = re.compile(r"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}""")
# Cycle numbers travel as 64-bit integers; nothing else comes near.
_LARGEST = (1 << 63) - 1
# Longer than any run.
_NO_BOUND = 1 << 42


@dataclass(frozen=True, kw_only=True)
class System:
    """A checked configuration; build it with `load`, `parse` or `System.make`."""

    run: RunSection = RunSection()
    topology: TopologySection = TopologySection()
    wire: WireSection = WireSection()
    router: RouterSection = RouterSection()
    ni: NiSection = NiSection()
    timers: TimersSection = TimersSection()
    faults: FaultsSection = FaultsSection()
    workload: WorkloadSection = WorkloadSection()
    study: StudySection = StudySection()
    source: str = "(configuration)"
    #: Whether it is built with the hosts of ``[workload]``; a NI or a network alone takes any MTU.
    hosted: bool = True

    def __post_init__(self):
        _check(self)

    @classmethod
    def make(cls, source: str = "(configuration)", *, hosted: bool = True, **sections: dict) -> "System":
        """A system from nested dicts, as `tomllib` would give them: ``System.make(ni={"slots": 4})``."""
        return _build(sections, source, hosted=hosted)

    def replace(self, **sections: dict) -> "System":
        """A variant: ``system.replace(ni={"slots": 4})`` changes single keys."""
        changed = {name: dataclasses.replace(getattr(self, name), **keys) for name, keys in sections.items()}
        return dataclasses.replace(self, **changed)

    def numbered(self, *, seed: int, name: str) -> "System":
        """The same with another ``run.seed`` and ``run.name``, which are not checked: no check depends on them."""
        twin = copy.copy(self)
        object.__setattr__(twin, "run", dataclasses.replace(self.run, seed=seed, name=name))
        return twin

    # What both implementations compute from.

    @cached_property
    def graph(self) -> Topology:
        t, queued = self.topology, self.queue > 0
        match t.kind:
            case "wire":
                return Topology(kind="wire", nodes=2, queued=queued)
            case "crossbar":
                return Topology(kind="crossbar", nodes=t.nodes, queued=queued)
            case "mesh":
                return Topology(kind="mesh", nodes=t.columns * t.rows, columns=t.columns, rows=t.rows, queued=queued)
            case _:
                return Topology(
                    kind=t.kind, nodes=t.arity**t.levels, arity=t.arity, levels=t.levels, queued=queued,
                    dilation=self.study.dilation,
                )  # fmt: skip

    @cached_property
    def layout(self) -> Layout:
        """Where the trace words lie."""
        return Layout(self.graph, self.ni.control_classes)

    @property
    def nodes(self) -> int:
        return self.graph.nodes

    @cached_property
    def format(self) -> Wire:
        """The wire format, widths of 0 filled in."""
        w = self.wire
        return Wire(
            flit_bits=w.flit_bits,
            node_bits=w.node_bits or max(1, (self.nodes - 1).bit_length()),
            slot_bits=w.slot_bits or max(1, (self.ni.slots - 1).bit_length()),
            generation_bits=w.generation_bits,
            incarnation_bits=w.incarnation_bits,
            try_bits=w.try_bits,
            class_bits=w.class_bits,
            mode_bits=w.mode_bits,
            ext_bits=w.ext_bits,
            mtu=w.mtu,
        )

    @property
    def credits(self) -> int:
        """Flits that a router input buffers under credits; 0: the network discards."""
        if self.router.flow != "credits":
            return 0
        return self.router.queue * self.format.max_flits or self.router.credit_flits

    @property
    def queue(self) -> int:
        """Worms that can wait at a router input of a network that discards."""
        return self.router.queue if self.router.flow != "credits" else 0

    @property
    def golden_only(self) -> tuple[str, str, str] | None:
        """The first key set to something that only the golden model knows: its name, value and default, as in a TOML.

        None if there is RTL of the system.
        """
        keys = [("router", "flow"), *(("study", f.name) for f in dataclasses.fields(StudySection))]
        for section, name in keys:
            value, default = getattr(getattr(self, section), name), getattr(SECTIONS[section](), name)
            if value != default:
                return f"{section}.{name}", literal(value), literal(default)
        return None

    @property
    def slot_flits(self) -> int:
        """Payload flits a slot stores."""
        return self.format.payload_flits(self.wire.mtu)

    @property
    def deliver_flits(self) -> int:
        return self.ni.deliver_flits or 4 * self.slot_flits

    @property
    def timer_depth(self) -> int:
        return self.timers.timer_depth or max(16, 2 * self.ni.slots, 2 * self.ni.sets * self.ni.ways)

    @property
    def rungs(self) -> int:
        """Rungs of each ladder: one per distance class, then one per back-off step."""
        return self.graph.distance_classes + self.timers.backoff_steps

    def rung(self, distance_class: int, tries: int) -> int:
        """The rung that try number ``tries`` (0 is the first) of a pair in this class waits on."""
        steps = self.timers.backoff_steps
        if tries == 0 or steps == 0:
            return distance_class
        return self.graph.distance_classes - 1 + min(tries, steps)

    def rung_after(self, rung: int) -> int:
        """The successor rung, whose room a head needs before it is popped."""
        if self.timers.backoff_steps == 0 or rung == self.rungs - 1:
            return rung
        return max(rung + 1, self.graph.distance_classes)

    @cached_property
    def delays(self) -> tuple[int, ...]:
        """Delay of each rung in cycles: round trip of the class and slack, then doublings of the last.

        With measured round trips the delays of a class are at least its own and those doublings of it.
        """
        form, hop = self.format, self.router.latency
        first = [
            2 * hop * self.graph.class_hops(c) + form.max_flits + form.control_flits + 10 + self.slack
            for c in range(self.graph.distance_classes)
        ]
        return (*first, *(first[-1] << r for r in range(1, self.timers.backoff_steps + 1)))

    @property
    def slack(self) -> int:
        """Cycles in a first time-out beyond the shortest round trip."""
        slack = self.timers.slack
        return slack if slack >= 0 else 8 - 2 * slack * self.format.max_flits

    @property
    def ceiling(self) -> int:
        """The longest time-out in cycles where they follow measured round trips, else 0."""
        if self.timers.ceiling < 0:
            return 64 * self.delays[self.graph.distance_classes - 1] if self.worms_wait else 0
        return self.timers.ceiling

    @property
    def measured(self) -> bool:
        """Whether time-outs follow measured round trips."""
        return self.ceiling > 0

    @cached_property
    def longest_delays(self) -> tuple[int, ...]:
        """The most that the delay of each rung can be."""
        return (self.ceiling,) * self.rungs if self.measured else self.delays

    def least_delay(self, tries: int) -> int:
        """The least cycles that the time-out after try number ``tries`` (0 is the first) of a pair can be."""
        if not self.measured:
            return self.delays[self.rung(0, tries)]
        first = self.delays[0]
        doubled = first << min(tries, self.timers.backoff_steps)
        return max(first, min(doubled, self.ceiling >> 1))  # doubled as long as the ceiling allows

    @property
    def time_bits(self) -> int:
        """Width of the NI's time base: every due time and deadline is compared within half its range."""
        longest = self.longest_delays[-1] + (1 << self.timers.jitter_bits) + self.timers.quarantine
        return max(longest.bit_length() + 2, self.ni.deadline_bits + 2, 16)

    @property
    def loss_threshold(self) -> int:
        """Of 65536."""
        return round(self.faults.loss * 65536)

    @property
    def flip_threshold(self) -> int:
        """Of 2^24."""
        return round(self.faults.flip * 2**24)

    @cached_property
    def gaps(self) -> tuple[int, ...]:
        """256 equally likely gaps in cycles: quantiles of the exponential whose mean gives the load."""
        w, form = self.workload, self.format
        lengths = range(w.min_length, w.max_length + 1)
        flits = sum(map(form.payload_flits, lengths)) / len(lengths)
        mean = flits / w.load - flits - 2
        if mean <= 0:
            return (0,) * 256
        return tuple(round(-math.log(1 - (i + 0.5) / 256) * mean) for i in range(256))

    @property
    def link_wait(self) -> int:
        """The most cycles that a repeat waits for the link while replies take no more than half of it.

        Before it go a full queue of replies and a worm of every other slot, and as much again of later replies.
        """
        form = self.format
        return 2 * (self.ni.slots * form.max_flits + self.ni.reply_depth * form.control_flits)

    def retry_time(self, retry_limit: int) -> int:
        """The longest time in cycles from the first Send to giving up after ``retry_limit`` repeats (`link_wait`)."""
        last = self.graph.distance_classes - 1
        more = (1 << self.timers.jitter_bits) + self.link_wait
        return sum(self.longest_delays[self.rung(last, r)] + more for r in range(retry_limit + 1))

    @property
    def orphan_time(self) -> int:
        """The shortest time in cycles from acceptance to reclaim; 0 if entries are never reclaimed."""
        limit = self.timers.ack_limit
        return sum(map(self.least_delay, range(limit + 1))) if limit else 0

    @property
    def reuse_time(self) -> int:
        """The shortest time in cycles between two acceptances on one slot that an Ack ends.

        An empty payload to the nearest node: 4 to the first flit, the Send, 2 to its action, 4 to the Ack's
        first flit, the Ack, 2 to the release, 2 to the completion, 2 to the free queue's output.
        """
        crossing = self.router.latency * self.graph.least_hops
        return 4 + self.format.send_flits(0) - 1 + 2 + 4 + self.format.control_flits - 1 + 2 + 2 + 2 + 2 * crossing

    @property
    def wrap_time(self) -> int:
        """The shortest time in cycles before the same generation of one slot is used again (T1)."""
        return self.reuse_time << self.wire.generation_bits

    @property
    def worms_wait(self) -> bool:
        """Whether a worm can wait in a router; a tree then has one path for a pair and slot."""
        return self.queue > 0 or self.credits > 0

    @property
    def longest_wait(self) -> int:
        """The most cycles a worm can spend in the queue of a router input; credits have no such bound."""
        if self.credits:
            return _NO_BOUND
        queue, flits = self.queue, self.format.max_flits
        return queue * (self.router.max_wait + flits + 3) + flits + 2 if queue else 0

    @property
    def packet_life(self) -> int:
        """The most cycles a worm can spend between its first flit and its action at the receiver."""
        longest = self.graph.class_hops(self.graph.distance_classes - 1)
        return longest * (self.router.latency + self.longest_wait) + self.format.max_flits + 2


def load(path: str | Path, *, hosted: bool = True) -> System:
    """The system a TOML file describes; raises `ConfigError` for whatever is wrong with it.

    ``hosted`` is False for what is built without the hosts of ``[workload]``, which then is not looked at.
    """
    return parse(text_of(path), str(Path(path)), hosted=hosted)


def toml_text(path: Path) -> str:
    """The text of a TOML file, or of a pipe, which can be read once only.

    Raises OSError, UnicodeDecodeError, and ValueError for what is longer than `LONGEST_TOML` or, as a device, endless.
    """
    with path.open("rb") as file:
        data = file.read(LONGEST_TOML + 1)
    if len(data) > LONGEST_TOML:
        raise ValueError(f"is longer than {LONGEST_TOML >> 20} MB")
    # Some editors begin a file with a byte order mark.
    return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def toml_tables(text: str) -> dict:
    """The tables of a TOML text; raises ValueError, and RecursionError for what is nested too deeply."""
    if _DEEP.search(text):
        raise RecursionError("keys of more than 32 parts")
    return tomllib.loads(text)


def text_of(path: str | Path) -> str:
    """The text of a configuration file, for `parse`; raises `ConfigError`."""
    path = Path(path)
    try:
        return toml_text(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; `lethe new {path}` writes one") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a directory; name a TOML file in it") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}; name a TOML file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; check its permissions") from None


def parse(text: str, source: str = "(configuration)", *, hosted: bool = True) -> System:
    """The system a TOML text describes."""
    try:
        tables = toml_tables(text)
    except ValueError as error:  # TOMLDecodeError, and whole numbers too long to convert
        raise ConfigError(f"{source}: is not TOML: {error}; mend that line") from None
    except RecursionError:
        raise ConfigError(f"{source}: is nested too deeply; no key of a system nests deeper than two levels") from None
    return _build(tables, source, hosted=hosted)


def _build(tables: dict, source: str, *, hosted: bool = True) -> System:
    sections = {}
    for name, table in tables.items():
        if name not in SECTIONS:
            raise ConfigError(f"{source}: {name}: no such section{_nearest(name, SECTIONS)}")
        sections[name] = _section(SECTIONS[name], table, name, source)
    return System(source=source, hosted=hosted, **sections | _fitted(tables, sections))


def _fitted(tables: dict, sections: dict) -> dict:
    """A workload whose lengths, if nobody gave them, are those of a small MTU."""
    load, mtu = sections.get("workload", WorkloadSection()), sections.get("wire", WireSection()).mtu
    given = tables.get("workload", {})
    lengths = {key: mtu for key in ("min_length", "max_length") if key not in given and getattr(load, key) > mtu}
    return {"workload": dataclasses.replace(load, **lengths)} if lengths else {}


def _nearest(name: str, known) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


def _section(cls, table, key: str, source: str):
    if not isinstance(table, dict):
        # The name without its number is the header of one table of a list.
        header = f"[[{key.partition('[')[0]}]]" if key.endswith("]") else f"[{key}]"
        raise ConfigError(f"{source}: {key}: must be a table, not {table!r}; write {header}")
    known = {f.name: f for f in dataclasses.fields(cls)}
    values = {}
    for name, value in table.items():
        where = f"{key}.{name}"
        if name not in known:
            raise ConfigError(f"{source}: {where}: no such key{_nearest(name, known)}")
        values[name] = _value(known[name].type, value, where, source)
    return cls(**values)


def _value(kind, value, where: str, source: str):
    if isinstance(kind, types.GenericAlias):
        (element, _) = typing.get_args(kind)
        if not isinstance(value, list):
            raise ConfigError(f"{source}: {where}: must be a list of tables; write [[{where}]]")
        return tuple(_section(element, v, f"{where}[{i}]", source) for i, v in enumerate(value))
    if type(value) is int and abs(value) > _LARGEST:
        raise ConfigError(f"{source}: {where}: is beyond 2^63; choose a smaller number")
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        names = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false"}
        raise ConfigError(f"{source}: {where}: must be {names[kind]}, not {value!r}; change the value")
    return value


def _check(system: System) -> None:
    def fail(key: str, what: str, cure: str):
        raise ConfigError(f"{system.source}: {key}: {what}; {cure}")

    check.ranges(system, fail)
    check.promises(system, fail)


def example(kind: str = "tree", workload: str = "generator") -> str:
    """A commented TOML with every key at its default: what `lethe new` writes."""
    lines = [
        "# A Lethe system: one file drives RTL, golden model, bitstream and pipeline.",
        "# Every key is here with its default; delete what you do not change.",
    ]
    for name, cls in SECTIONS.items():
        lines += ["", f"[{name}]"]
        for f in dataclasses.fields(cls):
            about = f.metadata["about"]
            if isinstance(f.type, types.GenericAlias):
                lines.append(f"# {about}, for example:")
                (element, _) = typing.get_args(f.type)
                lines.append(f"# [[{name}.{f.name}]]")
                for g in dataclasses.fields(element):
                    value = {"start": 1000, "end": 2000, "cycles": 10}.get(g.name, g.default)
                    lines.append(f"# {g.name} = {literal(value)}  # {g.metadata['about']}")
                continue
            value = {
                ("topology", "kind"): kind,
                ("workload", "kind"): workload,
                ("workload", "path"): _EXAMPLE_FILES.get(workload, ""),
            }.get((name, f.name), f.default)
            if (name, f.name, kind) == ("topology", "nodes", "crossbar"):
                value = 16
            lines.append(f"{f.name} = {literal(value)}  # {about}")
    return "\n".join(lines) + "\n"


_EXAMPLE_FILES = {"file": "file.bin", "capture": "capture.pcap", "trace": "trace.csv"}


def literal(value: typing.Any) -> str:
    """One TOML value: a bool, a whole number, a float or a text."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            # JSON's escapes are TOML's, and TOML wants one more.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _:
            return repr(value)

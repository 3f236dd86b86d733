"""A system is one TOML file: its dataclasses, their defaults, and the checks.

Every error is a `ConfigError` that names the file, the key and the cure.  Sections are frozen
dataclasses; `System` holds them all and derives what both implementations compute from.
"""

import copy
import dataclasses
import difflib
import json
import os
import re
import stat
import tomllib
import types
import typing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import sections, services
from .presets import PRESETS, over
from .sections import (
    SECTIONS,
    FaultsSection,
    FlowSection,
    LoopSection,
    NiSection,
    RelaySection,
    RouterSection,
    RunSection,
    StudySection,
    TimersSection,
    TopologySection,
    WireSection,
    WorkloadSection,
)
from .sections.flow import header_bytes_of
from .sections.relay import HEADER_BYTES
from .sections.workload import RELAYED
from .trace import Layout


class ConfigError(ValueError):
    """A configuration that cannot be used.  The message is ``file: key: what is wrong; cure``."""


#: Bytes of the longest configuration that is read.
LONGEST_TOML = 4 << 20
# A dotted key of more than 32 parts.  The parser's time grows with the square of the parts, so it never sees one.
_DEEP = re.compile(r"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}""")
# Cycle numbers travel as 64-bit integers; nothing else comes near.
_LARGEST = (1 << 63) - 1


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
    loop: LoopSection = LoopSection()
    relay: RelaySection = RelaySection()
    flow: FlowSection = FlowSection()
    study: StudySection = StudySection()
    source: str = "(configuration)"
    #: Whether it is built with the hosts of ``[workload]``; an NI or a network alone takes any MTU.
    hosted: bool = True

    def __post_init__(self):
        _check(self)

    @classmethod
    def make(
        cls, source: str = "(configuration)", *, hosted: bool = True, preset: str | None = None, **sections: dict
    ) -> "System":
        """A system from nested dicts, as `tomllib` would give them: ``System.make(ni={"slots": 4})``.

        ``preset`` is one of `PRESETS`, over which they are laid.
        """
        return _build(sections if preset is None else sections | {"preset": preset}, source, hosted=hosted)

    def replace(self, **sections: dict) -> "System":
        """A variant: ``system.replace(ni={"slots": 4})`` changes single keys."""
        changed = {name: dataclasses.replace(getattr(self, name), **keys) for name, keys in sections.items()}
        return dataclasses.replace(self, **changed)

    def numbered(self, *, seed: int, name: str) -> "System":
        """The same with another ``run.seed`` and ``run.name``, which are not checked: no check depends on them."""
        twin = copy.copy(self)
        object.__setattr__(twin, "run", dataclasses.replace(self.run, seed=seed, name=name))
        return twin

    # Derived numbers, which both implementations share.  Each is explained in the file of its section.

    graph = cached_property(sections.topology.graph)
    nodes = cached_property(sections.topology.nodes)

    format = cached_property(sections.wire.format)

    credits = cached_property(sections.router.credits)
    queue = cached_property(sections.router.queue)
    pool = cached_property(sections.router.pool)
    stores = cached_property(sections.router.stores)
    worms_wait = cached_property(sections.router.worms_wait)
    climbs_freely = cached_property(sections.router.climbs_freely)
    control_first = cached_property(sections.router.control_first)
    overtakes = cached_property(sections.router.overtakes)
    longest_wait = cached_property(sections.router.longest_wait)
    packet_life = cached_property(sections.router.packet_life)

    slot_flits = cached_property(sections.ni.slot_flits)
    deliver_flits = cached_property(sections.ni.deliver_flits)
    control_flits = cached_property(sections.ni.control_flits)
    control_records = cached_property(sections.ni.control_records)
    first_reserved = cached_property(sections.ni.first_reserved)
    counters = cached_property(sections.ni.counters)
    counter_addresses = cached_property(sections.ni.counter_addresses)
    counter_step = cached_property(sections.ni.counter_step)
    least_linger = cached_property(sections.ni.least_linger)
    linger = cached_property(sections.ni.linger)
    initial = cached_property(sections.ni.initial)
    link_wait = cached_property(sections.ni.link_wait)

    timer_depth = cached_property(sections.timers.timer_depth)
    rungs = cached_property(sections.timers.rungs)
    rung = sections.timers.rung
    rung_after = sections.timers.rung_after
    delays = cached_property(sections.timers.delays)
    slack = cached_property(sections.timers.slack)
    ceiling = cached_property(sections.timers.ceiling)
    measured = cached_property(sections.timers.measured)
    longest_delays = cached_property(sections.timers.longest_delays)
    least_delay = sections.timers.least_delay
    rest = cached_property(sections.timers.rest)
    time_bits = cached_property(sections.timers.time_bits)
    retry_time = sections.timers.retry_time
    orphan_time = cached_property(sections.timers.orphan_time)
    reuse_time = cached_property(sections.timers.reuse_time)
    wrap_time = cached_property(sections.timers.wrap_time)

    link_deaths = cached_property(sections.faults.link_deaths)
    node_resets = cached_property(sections.faults.node_resets)
    death = sections.faults.death
    loss_threshold = cached_property(sections.faults.loss_threshold)
    flip_threshold = cached_property(sections.faults.flip_threshold)

    gaps = cached_property(sections.workload.gaps)

    flow_header_beats = cached_property(sections.flow.header_beats)
    flow_header_bytes = cached_property(sections.flow.header_bytes)
    flow_mtu = cached_property(sections.flow.mtu)
    host_mtu = cached_property(sections.flow.host_mtu)
    flow_quota = cached_property(sections.flow.quota)
    flow_receive_limit = cached_property(sections.flow.receive_limit)
    flow_send_limit = cached_property(sections.flow.send_limit)
    flow_silence = cached_property(sections.flow.silence)

    relay_header_beats = cached_property(sections.relay.header_beats)
    relay_mtu = cached_property(sections.relay.mtu)
    relay_window = cached_property(sections.relay.window)
    relay_notices = cached_property(sections.relay.notices)
    relay_words = sections.relay.words

    loop_flits = cached_property(sections.loop.flits)

    top_port = cached_property(services.top_port)
    service_counter_step = cached_property(services.counter_step)
    services = cached_property(services.stack)

    @cached_property
    def layout(self) -> Layout:
        """Where the trace words lie."""
        return Layout(
            self.graph,
            self.ni.control_classes,
            port=self.top_port,
            services=self.services,
            lag=sections.router.trace_lag(self),
        )

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


def load(path: str | Path, *, hosted: bool = True) -> System:
    """The system a TOML file describes; raises `ConfigError` for whatever is wrong with it.

    ``hosted`` is False for what is built without the hosts of ``[workload]``, which then is not looked at.
    """
    return parse(text_of(path), str(Path(path)), hosted=hosted)


def toml_text(path: Path) -> str:
    """The text of a TOML file, or of a pipe, which can be read once only.

    Raises OSError, UnicodeDecodeError, and ValueError for what is longer than `LONGEST_TOML` or, as a device, endless,
    and for a pipe into which only this process writes.
    """
    with path.open("rb") as file:
        if _own_pipe(file.fileno()):
            raise ValueError("is the pipe into which this command writes")
        data = file.read(LONGEST_TOML + 1)
    if len(data) > LONGEST_TOML:
        raise ValueError(f"is longer than {LONGEST_TOML >> 20} MB")
    # Some editors begin a file with a byte order mark.
    return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def _own_pipe(number: int) -> bool:
    """Whether an open file is the pipe that standard output or standard error goes to."""
    ours = os.fstat(number)
    if not stat.S_ISFIFO(ours.st_mode):
        return False
    for output in (1, 2):
        try:
            if os.path.samestat(ours, os.fstat(output)):
                return True
        except OSError:  # closed
            continue
    return False


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
    tables = _over_preset(tables, source)
    sections = {}
    for name, table in tables.items():
        if name not in SECTIONS:
            raise ConfigError(f"{source}: {name}: no such section{_section_of(name, table)}")
        sections[name] = _section(SECTIONS[name], table, name, source)
    return System(source=source, hosted=hosted, **sections | _fitted(tables, sections))


def _over_preset(tables: dict, source: str) -> dict:
    """The tables of a configuration laid over those of the preset that it names, if any."""
    if "preset" not in tables:
        return tables
    given = dict(tables)
    name = given.pop("preset")
    if not isinstance(name, str):
        raise ConfigError(f"{source}: preset: must be a text in quotes, not {name!r}; name one of {', '.join(PRESETS)}")
    if name not in PRESETS:
        raise ConfigError(f"{source}: preset: no such preset {name!r}{_nearest(name, PRESETS)}")
    return over(name, given)


def _fitted(tables: dict, sections: dict) -> dict:
    """A workload whose lengths, if nobody gave them, are those of a small MTU."""
    load, wire = sections.get("workload", WorkloadSection()), sections.get("wire", WireSection())
    mtu = wire.mtu
    if sections.get("flow", FlowSection()).ports:
        mtu -= header_bytes_of(wire.flit_bits)
    elif load.mode == RELAYED:
        mtu -= HEADER_BYTES
    given = tables.get("workload", {})
    lengths = {key: mtu for key in ("min_length", "max_length") if key not in given and getattr(load, key) > mtu}
    return {"workload": dataclasses.replace(load, **lengths)} if lengths else {}


def _section_of(name: str, value) -> str:
    """The section that a key which stands before the first table is of; else that with the nearest name."""
    owners = [section for section, cls in SECTIONS.items() if name in {f.name for f in dataclasses.fields(cls)}]
    if owners and not isinstance(value, (dict, list)):
        return f"; did you mean {' or '.join(f'{owner}.{name}' for owner in owners)}? Put it under [{owners[0]}]"
    return _nearest(name, SECTIONS)


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
            if name == "preset":
                raise ConfigError(f"{source}: {where}: no such key; move preset before the first table")
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

    sections.ranges(system, fail)
    sections.promises(system, fail)


def example(kind: str = "tree", workload: str = "generator") -> str:
    """A commented TOML with every key at its default: what `lethe new` writes."""
    lines = [
        "# A Lethe system: one file drives RTL, golden model, bitstream and pipeline.",
        "# Every key is here with its default; delete what you do not change.",
    ]
    for name, cls in SECTIONS.items():
        lines += ["", f"[{name}]", f"# {cls.about}"]
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


def preset_example(preset: str) -> str:
    """A TOML that names a preset, with what that sets as comments: what `lethe new --preset` writes.

    Raises `KeyError` for an unknown preset.
    """
    chosen = PRESETS[preset]
    lines = [
        f"# A Lethe system: {chosen.about}.",
        "# One file drives RTL, golden model, bitstream and pipeline.",
        f"preset = {literal(preset)}",
        "",
        "# Below, write only what you change: any key that `lethe new` without --preset shows.",
    ]
    if chosen.tables:
        lines.append("# The preset sets these; take the # away to set one otherwise:")
    for name, table in chosen.tables.items():
        about = {f.name: f.metadata["about"] for f in dataclasses.fields(SECTIONS[name])}
        lines += ["", f"[{name}]", *(f"# {key} = {literal(value)}  # {about[key]}" for key, value in table.items())]
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

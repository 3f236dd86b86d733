"""A system is one TOML file: its dataclasses, their defaults, and the checks.

Every error is a `ConfigError` that names the file, the key and the cure.  Sections are frozen
dataclasses; `System` holds them all and derives what both implementations compute from.
"""

import dataclasses
import difflib
import math
import tomllib
import types
import typing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .topology import KINDS, Topology
from .wire import FLIT_WIDTHS, Wire


class ConfigError(ValueError):
    """A configuration that cannot be used.  The message is ``file: key: what is wrong; cure``."""


def _key(default, about: str):
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True, kw_only=True)
class TopologySection:
    kind: str = _key("tree", "wire, crossbar, fly (k-ary n-fly), tree (k-ary n-tree) or mesh")
    nodes: int = _key(0, "crossbar: number of nodes; elsewhere it follows from the other keys")
    arity: int = _key(4, "tree, fly: k")
    levels: int = _key(2, "tree, fly: n; nodes = k^n")
    columns: int = _key(4, "mesh: nodes along x")
    rows: int = _key(4, "mesh: nodes along y")


@dataclass(frozen=True, kw_only=True)
class WireSection:
    flit_bits: int = _key(64, "data bits of a flit: 16, 32, 64 or 128")
    node_bits: int = _key(0, "width of a node number; 0: just enough for the topology")
    slot_bits: int = _key(0, "width of a slot number; 0: just enough for ni.slots")
    generation_bits: int = _key(12, "width of a slot's generation, 1 to 20")
    incarnation_bits: int = _key(4, "width of an incarnation, 1 to 8")
    try_bits: int = _key(1, "width of the try echo, 1 to 8")
    class_bits: int = _key(3, "width of a datagram's class, 1 to 8")
    mode_bits: int = _key(2, "width of a datagram's mode, 1 to 4")
    ext_bits: int = _key(2, "width of the extension mask, 1 to 16")
    mtu: int = _key(32, "longest payload in bytes, 1 to 4096")
    tag_bits: int = _key(16, "width of the host's tag (not on the wire), 1 to 16")


@dataclass(frozen=True, kw_only=True)
class RouterSection:
    latency: int = _key(1, "cycles a flit spends in a router, 1 to 4")


@dataclass(frozen=True, kw_only=True)
class NiSection:
    slots: int = _key(16, "datagrams a node can have under way, 2 to 65536")
    sets: int = _key(16, "sets of the receive table, a power of two")
    ways: int = _key(4, "entries in a set, 1 to 8")
    reply_depth: int = _key(16, "replies that can wait for the link, at least 2")
    deliver_flits: int = _key(0, "flits in each deliver FIFO; 0: four of the longest payloads")
    deliver_records: int = _key(16, "datagrams in each deliver FIFO, at least 2")
    control_classes: int = _key(0, "classes, from the highest down, with a deliver FIFO of their own")
    reserved_slots: int = _key(0, "slots that only control classes may take")
    deadline_bits: int = _key(20, "width of a datagram's deadline in cycles, 8 to 32")
    statistics: bool = _key(True, "build the statistics block into the RTL")


@dataclass(frozen=True, kw_only=True)
class TimersSection:
    slack: int = _key(-1, "cycles added to the shortest round trip for the first time-out; -1: two worms and 8")
    backoff_steps: int = _key(6, "how often the time-out doubles; 0: fixed (the memo's interval, IMP-20)")
    jitter_bits: int = _key(4, "a repeat waits up to 2^jitter_bits - 1 cycles more; 0: none")
    timer_depth: int = _key(0, "tokens in each rung of a ladder; 0: twice the larger of slots and entries, at least 16")
    ack_limit: int = _key(0, "Acks repeated before an entry is reclaimed as an orphan; 0: never")
    quarantine: int = _key(0, "cycles a slot rests after an UNKNOWN end; 0: none")


@dataclass(frozen=True, kw_only=True)
class LinkFault:
    link: int = _key(0, "link number (see `lethe check --links`)")
    start: int = _key(0, "first dead cycle")
    end: int = _key(0, "first cycle in which it lives again")


@dataclass(frozen=True, kw_only=True)
class StallFault:
    node: int = _key(0, "node whose deliver ports stall")
    start: int = _key(0, "first stalled cycle")
    end: int = _key(0, "first cycle in which they take again")


@dataclass(frozen=True, kw_only=True)
class ResetFault:
    node: int = _key(0, "node that is reset")
    start: int = _key(0, "first cycle of reset")
    cycles: int = _key(1, "cycles the reset lasts, at least 1")


@dataclass(frozen=True, kw_only=True)
class FaultsSection:
    loss: float = _key(0.0, "probability that a worm is lost on a link it crosses (injection and ejection too)")
    flip: float = _key(0.0, "probability that a bit of a flit flips on a link it crosses")
    links: tuple[LinkFault, ...] = _key((), "[[faults.links]]: links that die and heal")
    stalls: tuple[StallFault, ...] = _key((), "[[faults.stalls]]: deliver ports that stall")
    resets: tuple[ResetFault, ...] = _key((), "[[faults.resets]]: nodes that are reset")


@dataclass(frozen=True, kw_only=True)
class WorkloadSection:
    kind: str = _key("generator", "generator (uniform random destinations) or file (ship a file around)")
    load: float = _key(0.05, "generator: payload flits offered per node per cycle; 1 or more saturates")
    min_length: int = _key(32, "generator: shortest payload in bytes, at least 4")
    max_length: int = _key(32, "generator: longest payload in bytes")
    count: int = _key(100, "generator: datagrams per node; 0: no limit")
    stop: int = _key(0, "generator: no new datagram from this cycle on; 0: no limit")
    path: str = _key("", "file: the file to carry, relative to this TOML")
    deadline: int = _key(0, "cycles after which a datagram is given up; 0: never")
    retry_limit: int = _key(0, "repeats after which a datagram is given up; 0: never, at most 255")


@dataclass(frozen=True, kw_only=True)
class RunSection:
    name: str = _key("run", "name of the run, the `run` column of its trace")
    seed: int = _key(1, "every draw follows from it")
    cycles: int = _key(200_000, "a run that has not drained by then is unfinished")


_SECTIONS = {
    "run": RunSection,
    "topology": TopologySection,
    "wire": WireSection,
    "router": RouterSection,
    "ni": NiSection,
    "timers": TimersSection,
    "faults": FaultsSection,
    "workload": WorkloadSection,
}


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
    source: str = "(configuration)"

    def __post_init__(self):
        _check(self)

    @classmethod
    def make(cls, source: str = "(configuration)", **sections: dict) -> "System":
        """A system from nested dicts, as `tomllib` would give them: ``System.make(ni={"slots": 4})``."""
        return _build(sections, source)

    def replace(self, **sections: dict) -> "System":
        """A variant: ``system.replace(ni={"slots": 4})`` changes single keys."""
        changed = {name: dataclasses.replace(getattr(self, name), **keys) for name, keys in sections.items()}
        return dataclasses.replace(self, **changed)

    # What both implementations compute from.

    @cached_property
    def graph(self) -> Topology:
        t = self.topology
        match t.kind:
            case "wire":
                return Topology(kind="wire", nodes=2)
            case "crossbar":
                return Topology(kind="crossbar", nodes=t.nodes)
            case "mesh":
                return Topology(kind="mesh", nodes=t.columns * t.rows, columns=t.columns, rows=t.rows)
            case _:
                return Topology(kind=t.kind, nodes=t.arity**t.levels, arity=t.arity, levels=t.levels)

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
        """Delay of each rung in cycles: round trip of the class and slack, then doublings of the last."""
        form, hop = self.format, self.router.latency
        slack = self.timers.slack if self.timers.slack >= 0 else 2 * form.max_flits + 8
        first = [
            2 * hop * self.graph.class_hops(c) + form.max_flits + form.control_flits + 10 + slack
            for c in range(self.graph.distance_classes)
        ]
        return (*first, *(first[-1] << r for r in range(1, self.timers.backoff_steps + 1)))

    @property
    def time_bits(self) -> int:
        """Width of the NI's time base: every due time and deadline is compared within half its range."""
        longest = self.delays[-1] + (1 << self.timers.jitter_bits) + self.timers.quarantine
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

    def retry_time(self, retry_limit: int) -> int:
        """The longest time in cycles from the first Send to giving up after ``retry_limit`` repeats."""
        last = self.graph.distance_classes - 1
        jitter = 1 << self.timers.jitter_bits
        return sum(self.delays[self.rung(last, r)] + jitter for r in range(retry_limit + 1))

    @property
    def orphan_time(self) -> int:
        """The shortest time in cycles from acceptance to reclaim; 0 if entries are never reclaimed."""
        limit = self.timers.ack_limit
        return sum(self.delays[self.rung(0, r)] for r in range(limit + 1)) if limit else 0

    @property
    def packet_life(self) -> int:
        """The most cycles a worm can spend between its first flit and its action at the receiver."""
        longest = self.graph.class_hops(self.graph.distance_classes - 1)
        return longest * self.router.latency + self.format.max_flits + 2


def load(path: str | Path) -> System:
    """The system a TOML file describes; raises `ConfigError` for whatever is wrong with it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; `lethe new {path}` writes one") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a directory; name a TOML file in it") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; check its permissions") from None
    return parse(text, str(path))


def parse(text: str, source: str = "(configuration)") -> System:
    """The system a TOML text describes."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: is not TOML: {error}; mend that line") from None
    return _build(tables, source)


def _build(tables: dict, source: str) -> System:
    sections = {}
    for name, table in tables.items():
        if name not in _SECTIONS:
            raise ConfigError(f"{source}: {name}: no such section{_nearest(name, _SECTIONS)}")
        sections[name] = _section(_SECTIONS[name], table, name, source)
    return System(source=source, **sections)


def _nearest(name: str, known) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


def _section(cls, table, key: str, source: str):
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {key}: must be a table, not {table!r}; write [{key}]")
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
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        names = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false"}
        raise ConfigError(f"{source}: {where}: must be {names[kind]}, not {value!r}; change the value")
    return value


def _check(system: System) -> None:
    """Whatever the types cannot say: ranges first, then combinations."""

    def fail(key: str, what: str, cure: str):
        raise ConfigError(f"{system.source}: {key}: {what}; {cure}")

    def within(key: str, low: float, high: float):
        section, name = key.split(".")
        value = getattr(getattr(system, section), name)
        if not low <= value <= high:  # also catches nan
            fail(key, f"must be {low} to {high}, not {value!r}", "choose a value in that range")

    t, w, n = system.topology, system.wire, system.ni
    if t.kind not in KINDS:
        fail("topology.kind", f"no such topology {t.kind!r}", f"choose one of {', '.join(KINDS)}")
    match t.kind:
        case "crossbar":
            within("topology.nodes", 2, 256)
        case "tree" | "fly":
            within("topology.arity", 2, 16)
            within("topology.levels", 1, 16)
            if t.arity**t.levels > 65536:
                fail("topology.levels", f"gives {t.arity**t.levels} nodes", "65536 are the most")
        case "mesh":
            within("topology.columns", 1, 256)
            within("topology.rows", 1, 256)
            if t.columns * t.rows < 2:
                fail("topology.columns", "a mesh needs at least 2 nodes", "raise columns or rows")
    if t.nodes and t.nodes != system.nodes:
        fail("topology.nodes", f"is {t.nodes}, but the topology has {system.nodes}", "leave it out")

    if w.flit_bits not in FLIT_WIDTHS:
        fail("wire.flit_bits", f"must be 16, 32, 64 or 128, not {w.flit_bits}", "choose one of these")
    within("wire.node_bits", 0, 16)
    within("wire.slot_bits", 0, 16)
    within("wire.generation_bits", 1, 20)
    within("wire.incarnation_bits", 1, 8)
    within("wire.try_bits", 1, 8)
    within("wire.class_bits", 1, 8)
    within("wire.mode_bits", 1, 4)
    within("wire.ext_bits", 1, 16)
    within("wire.mtu", 1, 4096)
    within("wire.tag_bits", 1, 16)
    within("router.latency", 1, 4)
    within("ni.slots", 2, 65536)
    within("ni.sets", 1, 65536)
    within("ni.ways", 1, 8)
    within("ni.reply_depth", 2, 65536)
    within("ni.deliver_records", 2, 65536)
    within("ni.deadline_bits", 8, 32)
    form = system.format
    if system.nodes > 1 << form.node_bits:
        fail("wire.node_bits", f"{form.node_bits} bits cannot number {system.nodes} nodes", "leave it at 0")
    if n.slots > 1 << form.slot_bits:
        fail("wire.slot_bits", f"{form.slot_bits} bits cannot number {n.slots} slots", "leave it at 0")
    if 3 + form.node_bits > form.flit_bits:
        fail("wire.node_bits", "kind and destination must fit the first flit", "widen wire.flit_bits")
    if n.sets & (n.sets - 1):
        fail("ni.sets", f"must be a power of two, not {n.sets}", f"take {1 << n.sets.bit_length()}")
    if n.deliver_flits and not system.slot_flits <= n.deliver_flits <= 1 << 20:
        fail("ni.deliver_flits", f"must hold one payload of {system.slot_flits} flits", "raise it, or leave it at 0")
    if not 0 <= n.control_classes < 1 << w.class_bits:
        fail("ni.control_classes", f"must be 0 to {(1 << w.class_bits) - 1}", "lower it or widen wire.class_bits")
    if not 0 <= n.reserved_slots < n.slots:
        fail("ni.reserved_slots", f"must be 0 to {n.slots - 1}", "leave a slot for data")
    if n.reserved_slots and not n.control_classes:
        fail("ni.reserved_slots", "nothing may use them", "set ni.control_classes, or leave it at 0")

    within("timers.slack", -1, 65536)
    within("timers.backoff_steps", 0, 16)
    within("timers.jitter_bits", 0, 12)
    within("timers.ack_limit", 0, 255)
    within("timers.quarantine", 0, 1 << 24)
    depth = system.timers.timer_depth
    if depth and not 4 <= depth <= 1 << 17:
        fail("timers.timer_depth", f"must be 4 to {1 << 17}, not {depth}", "raise it, or leave it at 0")

    within("faults.loss", 0.0, 0.99)
    within("faults.flip", 0.0, 0.5)
    for i, fault in enumerate(system.faults.links):
        if not 0 <= fault.link < len(system.graph.links):
            fail(
                f"faults.links[{i}].link",
                f"no link {fault.link}",
                f"the topology has 0 to {len(system.graph.links) - 1}",
            )
        if not 0 <= fault.start < fault.end:
            fail(f"faults.links[{i}].end", "must come after start", "give both, start first")
    for name, faults in (("stalls", system.faults.stalls), ("resets", system.faults.resets)):
        for i, fault in enumerate(faults):
            if not 0 <= fault.node < system.nodes:
                fail(f"faults.{name}[{i}].node", f"no node {fault.node}", f"the topology has 0 to {system.nodes - 1}")
    for i, stall in enumerate(system.faults.stalls):
        if not 0 <= stall.start < stall.end:
            fail(f"faults.stalls[{i}].end", "must come after start", "give both, start first")
    for i, reset in enumerate(system.faults.resets):
        if reset.cycles < 1 or reset.start < 0:
            fail(f"faults.resets[{i}].cycles", "must be at least 1, from a cycle ≥ 0", "raise it")

    load_ = system.workload
    if load_.kind not in ("generator", "file"):
        fail("workload.kind", f"no such workload {load_.kind!r}", "choose generator or file")
    within("workload.retry_limit", 0, 255)
    within("workload.deadline", 0, (1 << n.deadline_bits) - 1)
    if load_.kind == "file" and not load_.path:
        fail("workload.path", "a file workload needs a file", "name it")
    if load_.kind == "generator":
        if w.mtu < 4:
            fail("wire.mtu", "the generator needs payloads of at least 4 bytes", "raise it")
        within("workload.min_length", 4, w.mtu)
        within("workload.max_length", load_.min_length, w.mtu)
        within("workload.load", 1e-6, 1e6)
        within("workload.count", 0, 1 << 20)
        within("workload.stop", 0, 1 << 40)
    within("run.cycles", 1, 1 << 40)
    within("run.seed", 0, (1 << 32) - 1)
    if not system.run.name or len(system.run.name) > 200:
        fail("run.name", "must be a name of 1 to 200 characters", "shorten it")
    _check_promises(system, fail)


def _check_promises(system: System, fail) -> None:
    """What exactly-once rests on (T1, T12, and paths that exist)."""
    limit = system.workload.retry_limit
    if system.timers.ack_limit:
        if not limit:
            fail(
                "timers.ack_limit",
                "an entry would be reclaimed while its sender still repeats for ever (delivered twice)",
                "set workload.retry_limit, or ack_limit = 0",
            )
        needed = system.retry_time(limit) + system.packet_life
        if system.orphan_time <= needed:
            fail(
                "timers.ack_limit",
                f"entries are reclaimed after {system.orphan_time} cycles, but a sender may repeat for {needed}",
                "raise ack_limit or lower workload.retry_limit",
            )
        if 0 < system.timers.quarantine < system.orphan_time:
            fail(
                "timers.quarantine",
                f"is shorter than the orphan time of {system.orphan_time} cycles",
                "raise it to that, or leave it at 0",
            )
    for_ever = {fault.link for fault in system.faults.links if fault.end >= system.run.cycles}
    if for_ever and not limit and not system.workload.deadline:
        cut = _partitioned(system.graph, for_ever)
        if cut:
            fail(
                "faults.links",
                f"no path is left from node {cut[0]} to node {cut[1]}, which would repeat for ever",
                "let a link heal, or set workload.retry_limit",
            )


def _partitioned(graph: Topology, dead: set[int]) -> tuple[int, int] | None:
    """A (source, destination) pair that the links in ``dead`` cut off, if there is one."""
    onward = {}
    entry = {}
    for number, link in enumerate(graph.links):
        if number in dead:
            continue
        if link.source_is_node:
            entry[link.source] = link
        else:
            onward[link.source, link.source_port] = link

    def reaches(link, destination: int) -> bool:
        if link is None:
            return False
        if link.target_is_node:
            return link.target == destination
        router = link.target
        port = graph.route(router, link.target_port, destination)
        first_up = graph.ports(router) - graph.up_ports(router)
        ports = range(first_up, graph.ports(router)) if port == -1 else (port,)
        return any(reaches(onward.get((router, p)), destination) for p in ports)

    touched = range(graph.nodes)
    for source in touched:
        for destination in touched:
            if source != destination and not reaches(entry.get(source), destination):
                return source, destination
    return None


def example(kind: str = "tree") -> str:
    """A commented TOML with every key at its default: what `lethe new` writes."""
    lines = [
        "# A Lethe system: one file drives RTL, golden model, bitstream and pipeline.",
        "# Every key is here with its default; delete what you do not change.",
    ]
    for name, cls in _SECTIONS.items():
        lines += ["", f"[{name}]"]
        for f in dataclasses.fields(cls):
            about = f.metadata["about"]
            if isinstance(f.type, types.GenericAlias):
                lines.append(f"# {about}, for example:")
                (element, _) = typing.get_args(f.type)
                lines.append(f"# [[{name}.{f.name}]]")
                for g in dataclasses.fields(element):
                    lines.append(f"# {g.name} = {_toml(g.default)}  # {g.metadata['about']}")
                continue
            value = kind if (name, f.name) == ("topology", "kind") else f.default
            if (name, f.name, kind) == ("topology", "nodes", "crossbar"):
                value = 16
            lines.append(f"{f.name} = {_toml(value)}  # {about}")
    return "\n".join(lines) + "\n"


def _toml(value) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case _:
            return str(value)

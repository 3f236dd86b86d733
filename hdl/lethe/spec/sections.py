"""The tables of a configuration: every key with its default and what it means."""

import typing
from dataclasses import dataclass, field


def _key(default, about: str) -> typing.Any:
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
    queue: int = _key(0, "worms that can wait at a router input: 0 (none wait), 1, 2 or 4")
    flow: str = _key("discard", "discard, or credits: a reference with flow control (golden model only)")
    credit_flits: int = _key(4, "credits: flits that a router input buffers, 1 to 4096; with a queue: its worms")
    credit_delay: int = _key(1, "credits: cycles from a flit's leaving a buffer to the use of its place, 1 to 8")
    max_wait: int = _key(64, "queue: cycles a head waits for its output before it is discarded, 1 to 65535")


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
    slack: int = _key(-1, "cycles that the first time-out adds to the shortest round trip; -n: 2n worms and 8 cycles")
    ceiling: int = _key(
        -1, "longest time-out, by measured round trips (T15); 0: fixed; -1: 64 first ones if worms wait, else 0"
    )
    backoff_steps: int = _key(6, "how often the time-out doubles; 0: fixed (the memo's interval, IMP-20)")
    jitter_bits: int = _key(4, "a repeat waits up to 2^jitter_bits - 1 cycles more; 0: none")
    timer_depth: int = _key(0, "tokens in each rung of a ladder; 0: twice the larger of slots and entries, at least 16")
    wrap_guard: int = _key(16, "longest Ack intervals before a slot's generation may recur; 0: unchecked (T1)")
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


WORKLOADS = ("generator", "pattern", "file", "capture", "trace", "kernel")
PATTERNS = ("uniform", "hotspot", "transpose", "bit-reverse", "neighbour", "incast", "all-to-all")
ARRIVALS = ("bernoulli", "bursty")
TIMINGS = ("kept", "compressed")
HOSTS = ("wrap", "refuse")
KERNELS = ("sort", "fft", "halo", "reduce", "bfs")


@dataclass(frozen=True, kw_only=True)
class WorkloadSection:
    kind: str = _key("generator", "generator (in hardware), pattern, file, capture, trace or kernel")
    load: float = _key(
        0.05, "generator, pattern: payload flits offered per sending node and cycle; 1 or more saturates"
    )
    min_length: int = _key(
        32, "generator, pattern: shortest payload in bytes, at least 4; if not given, at most the MTU"
    )
    max_length: int = _key(32, "generator, pattern: longest payload in bytes; if not given, at most the MTU")
    count: int = _key(100, "generator, pattern: datagrams per node; 0: no limit")
    stop: int = _key(0, "generator, pattern: no new datagram from this cycle on; 0: no limit")
    pattern: str = _key("uniform", "pattern: uniform, hotspot, transpose, bit-reverse, neighbour, incast or all-to-all")
    node: int = _key(0, "hotspot, incast: the node that they send to")
    fraction: float = _key(0.2, "hotspot: share of the datagrams that go to that node; the rest is uniform")
    arrivals: str = _key("bernoulli", "pattern: bernoulli, or bursty (incast: all nodes burst at once)")
    burst: float = _key(8.0, "bursty: mean number of datagrams in a burst, which come at load 1")
    path: str = _key("", "file, capture (pcap, pcapng), trace (Parquet, CSV): the file, relative to this TOML")
    timing: str = _key("kept", "capture, trace: kept, or compressed (as fast as the network takes them)")
    cycle_ns: float = _key(1.0, "capture: nanoseconds in a cycle")
    hosts: str = _key("wrap", "capture with more hosts than nodes: wrap (host i on node i mod nodes) or refuse")
    kernel: str = _key("sort", "kernel: sort, fft, halo, reduce or bfs")
    size: int = _key(
        64, "sort: keys per node; fft, halo: rows and columns in all; reduce: numbers per node; bfs: vertices in all"
    )
    steps: int = _key(8, "halo: steps of the stencil")
    deadline: int = _key(0, "cycles after which a datagram is given up; 0: never")
    retry_limit: int = _key(0, "repeats after which a datagram is given up; 0: never, at most 255")


@dataclass(frozen=True, kw_only=True)
class RunSection:
    name: str = _key("run", "name of the run, the `run` column of its trace")
    seed: int = _key(1, "every draw follows from it")
    cycles: int = _key(200_000, "a run that has not drained by then is unfinished")


REPLIES = ("first", "last")
PATHS = ("free", "blind", "pinned")


@dataclass(frozen=True, kw_only=True)
class StudySection:
    """What single decisions are worth: for the golden model only."""

    per_destination: int = _key(0, "datagrams of a node under way to one destination; 0: no limit (T13)")
    replies: str = _key("first", "Acks and Forgets go first, before Sends, or last, when no Send can")
    path: str = _key("free", "tree: a head takes any free up-port (free), one drawn (blind) or its own (pinned)")
    dilation: int = _key(1, "tree, fly: parallel links for each channel between routers, 1 to 16")


#: Tables by name, in the order in which they are written.
SECTIONS = {
    "run": RunSection,
    "topology": TopologySection,
    "wire": WireSection,
    "router": RouterSection,
    "ni": NiSection,
    "timers": TimersSection,
    "faults": FaultsSection,
    "workload": WorkloadSection,
    "study": StudySection,
}

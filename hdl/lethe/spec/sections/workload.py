"""[workload]: what the hosts send, and when."""

import math
import typing
from dataclasses import dataclass

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


WORKLOADS = ("generator", "pattern", "file", "capture", "trace", "kernel")
PATTERNS = ("uniform", "hotspot", "transpose", "bit-reverse", "neighbour", "incast", "all-to-all")
ARRIVALS = ("bernoulli", "bursty")
TIMINGS = ("kept", "compressed")
HOSTS = ("wrap", "refuse")
MODES = ("exactly_once", "relay")
#: Messages of relay.
RELAYED = "relay"
KERNELS = ("sort", "fft", "halo", "reduce", "bfs")
#: The most datagrams of a script: that many take some gigabytes of memory.
MOST_DATAGRAMS = 1 << 25
#: Bytes of the longest datagram of a kernel: an index and a complex number.
KERNEL_MTU = 20


@dataclass(frozen=True, kw_only=True)
class WorkloadSection:
    about = "What the hosts send, and when."

    kind: str = key("generator", "generator (in hardware), pattern, file, capture, trace or kernel")
    mode: str = key("exactly_once", "exactly_once: datagrams of the NI; relay: messages of relay")
    load: float = key(
        0.05, "generator, pattern: payload flits offered by each sending node per cycle; 1 or more: without a pause"
    )
    min_length: int = key(
        32, "generator, pattern: shortest payload in bytes, at least 4; not given: 32 or the MTU, if less"
    )
    max_length: int = key(32, "generator, pattern: longest payload in bytes; not given: 32 or the MTU, if less")
    count: int = key(100, "generator, pattern: datagrams from each node; 0: no limit")
    stop: int = key(0, "generator, pattern: first cycle without new datagrams; 0: no limit")
    pattern: str = key("uniform", "pattern: uniform, hotspot, transpose, bit-reverse, neighbour, incast or all-to-all")
    node: int = key(0, "hotspot, incast: destination of the traffic")
    fraction: float = key(0.2, "hotspot: share of the datagrams that go to that node; the rest is uniform")
    arrivals: str = key("bernoulli", "pattern: bernoulli, or bursty (incast: all nodes burst at once)")
    burst: float = key(8.0, "bursty: mean number of datagrams in a burst; within a burst the load is 1")
    path: str = key("", "file, capture (pcap, pcapng), trace (Parquet, CSV): name of the file, relative to this TOML")
    timing: str = key("kept", "capture, trace: kept, or compressed (as fast as the network takes them)")
    cycle_ns: float = key(1.0, "capture: nanoseconds in a cycle")
    hosts: str = key("wrap", "capture with more hosts than nodes: wrap (host i on node i mod nodes) or refuse")
    kernel: str = key("sort", "kernel: sort, fft, halo, reduce or bfs")
    size: int = key(
        64, "sort: keys per node; fft, halo: rows and columns in all; reduce: numbers per node; bfs: vertices in all"
    )
    steps: int = key(8, "halo: steps of the stencil")
    deadline: int = key(0, "cycles after which a datagram is given up; 0: never")
    retry_limit: int = key(0, "repeats after which a datagram is given up, at most 255; 0: never")


def check(system: "System", fail: Fail, within: Within) -> None:
    """What the hosts do, where there are hosts; and what every one asks of its NI."""
    if system.hosted:
        _hosted(system, fail, within)
    if "\0" in system.workload.path:
        fail("workload.path", "holds a zero byte, which no file name does", "name a file")
    within("workload.retry_limit", 0, 255)
    within("workload.deadline", 0, (1 << system.ni.deadline_bits) - 1)


def _hosted(system: "System", fail: Fail, within: Within) -> None:
    load = system.workload

    def one_of(key: str, known: tuple[str, ...], what: str) -> None:
        value = getattr(load, key)
        if value not in known:
            fail(f"workload.{key}", f"no such {what} {value!r}", f"choose {', '.join(known[:-1])} or {known[-1]}")

    one_of("kind", WORKLOADS, "workload")
    one_of("pattern", PATTERNS, "pattern")
    one_of("arrivals", ARRIVALS, "arrivals")
    one_of("timing", TIMINGS, "timing")
    one_of("hosts", HOSTS, "rule")
    one_of("kernel", KERNELS, "kernel")
    one_of("mode", MODES, "mode")
    if load.mode == RELAYED and not system.relay.slots:
        fail("workload.mode", "there is no relay", "set relay.slots, or leave workload.mode out")
    if load.kind in ("file", "capture", "trace") and not load.path:
        fail("workload.path", f"a {load.kind} workload needs a file", "name it")
    if load.kind in ("generator", "pattern"):
        mtu = system.host_mtu
        if mtu < 4:
            fail("wire.mtu", f"the {load.kind} needs payloads of at least 4 bytes", "raise it")
        service = "flow" if system.flow.ports else "relay"
        less = f" without the {system.wire.mtu - mtu} of {service}'s header" if mtu < system.wire.mtu else ""
        for key, low in (("min_length", 4), ("max_length", load.min_length)):
            if not low <= getattr(load, key) <= mtu:
                fail(
                    f"workload.{key}",
                    f"must be {low} to {mtu} (wire.mtu{less}), not {getattr(load, key)}",
                    "choose a value in that range",
                )
        within("workload.load", 1e-6, 1e6)
        within("workload.count", 0, 1 << 20)
        within("workload.stop", 0, 1 << 40)
    match load.kind:
        case "pattern":
            _pattern(system, fail, within)
        case "capture":
            within("workload.cycle_ns", 1e-3, 1e9)
        case "kernel":
            _kernel(system, fail, within)


def _pattern(system: "System", fail: Fail, within: Within) -> None:
    load, nodes = system.workload, system.nodes
    within("workload.node", 0, nodes - 1)
    within("workload.fraction", 0.0, 1.0)
    within("workload.burst", 1.0, 1e6)
    if not load.count and (load.load >= 1 or not load.stop):
        fail("workload.count", "a pattern without an end", "set it, or workload.stop with a load below 1")
    most = nodes * (load.count or load.stop * load.load)
    if most > MOST_DATAGRAMS:
        fail("workload.count", f"comes to {most:,.0f} datagrams, more than {MOST_DATAGRAMS:,}", "lower it, or stop")
    if load.pattern == "transpose" and math.isqrt(nodes) ** 2 != nodes:
        fail("workload.pattern", f"transpose needs a square number of nodes, not {nodes}", "choose another")
    if load.pattern == "bit-reverse" and nodes & (nodes - 1):
        fail("workload.pattern", f"bit-reverse needs a power of two of nodes, not {nodes}", "choose another")


def _kernel(system: "System", fail: Fail, within: Within) -> None:
    load, nodes = system.workload, system.nodes
    if system.host_mtu < KERNEL_MTU:
        fail("wire.mtu", f"a kernel needs payloads of at least {KERNEL_MTU} bytes, not {system.host_mtu}", "raise it")
    least, most = {"sort": (1, 1 << 20), "reduce": (1, 1 << 20), "bfs": (2, 1 << 20)}.get(load.kernel, (nodes, 1 << 13))
    if not least <= load.size <= most:
        fail("workload.size", f"must be {least} to {most} for this kernel, not {load.size}", "change it")
    within("workload.steps", 1, 1 << 16)


def gaps(system: "System") -> tuple[int, ...]:
    """256 equally likely gaps in cycles: quantiles of the exponential whose mean gives the load."""
    w, form = system.workload, system.format
    lengths = range(w.min_length, w.max_length + 1)
    flits = sum(map(form.payload_flits, lengths)) / len(lengths)
    mean = flits / w.load - flits - 2
    if mean <= 0:
        return (0,) * 256
    return tuple(round(-math.log(1 - (i + 0.5) / 256) * mean) for i in range(256))

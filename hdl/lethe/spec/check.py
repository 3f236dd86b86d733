"""What the types of a configuration cannot say: ranges first, then what exactly-once rests on.

``fail(key, what, cure)`` never returns; `config` makes it a `ConfigError` that also names the file.
"""

import math

from .partition import cut_pair
from .sections import ARRIVALS, HOSTS, KERNELS, PATHS, PATTERNS, REPLIES, TIMINGS, WORKLOADS
from .topology import KINDS
from .wire import FLIT_WIDTHS

#: Cycles of schedules and runs are far below 2^63, and so are their sums.
LAST_CYCLE = 1 << 62
#: Worms that can wait at a router input.
QUEUES = (0, 1, 2, 4)
#: A trace numbers the ports of a router with 8 bits.
MOST_PORTS = 256
#: What happens to a worm that cannot go on.
FLOWS = ("discard", "credits")
#: A trace numbers the lanes of a router, two for each input, with 8 bits.
MOST_QUEUES = 128
#: The first fields of a header: kind, destination, source and slot.
FIELDS_OF_KEY = 4
#: A script of so many takes some gigabytes.
MOST_DATAGRAMS = 1 << 25
#: Room for a place and one complex number.
KERNEL_MTU = 20


def ranges(system, fail) -> None:
    """Every key alone, and against the sizes it depends on."""

    def within(key: str, low: float, high: float):
        section, name = key.split(".")
        value = getattr(getattr(system, section), name)
        if not low <= value <= high:  # also catches nan
            fail(key, f"must be {low} to {high}, not {value!r}", "choose a value in that range")

    _topology(system, fail, within)
    _wire(system, fail, within)
    _interface(system, fail, within)
    _study(system, fail, within)
    _faults(system, fail, within)
    if system.hosted:
        _workload(system, fail, within)
    _retries(system, fail, within)
    within("run.cycles", 1, 1 << 40)
    within("run.seed", 0, (1 << 32) - 1)
    name = system.run.name
    if not 1 <= len(name) <= 200:
        fail("run.name", "must be a name of 1 to 200 characters", "shorten it")
    if not name.isprintable():
        fail("run.name", f"must be printable, not {name!r}", "leave out line breaks and control characters")


def _topology(system, fail, within) -> None:
    t = system.topology
    if t.kind not in KINDS:
        fail("topology.kind", f"no such topology {t.kind!r}", f"choose one of {', '.join(KINDS)}")
    match t.kind:
        case "crossbar":
            within("topology.nodes", 2, 256)
        case "tree" | "fly":
            within("topology.arity", 2, 16)
            within("topology.levels", 1, 16)
            if t.arity**t.levels > 65536:
                fail("topology.levels", f"gives {t.arity**t.levels} nodes", "65536 are the most, so lower it")
        case "mesh":
            within("topology.columns", 1, 256)
            within("topology.rows", 1, 256)
            if t.columns * t.rows < 2:
                fail("topology.columns", "a mesh needs at least 2 nodes", "raise columns or rows")
    if t.nodes and t.nodes != system.nodes:
        fail("topology.nodes", f"is {t.nodes}, but the topology has {system.nodes}", "leave it out")


def _wire(system, fail, within) -> None:
    w = system.wire
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
    form = system.format
    if system.nodes > 1 << form.node_bits:
        fail("wire.node_bits", f"{form.node_bits} bits cannot number {system.nodes} nodes", "leave it at 0")
    if system.ni.slots > 1 << form.slot_bits:
        fail("wire.slot_bits", f"{form.slot_bits} bits cannot number {system.ni.slots} slots", "leave it at 0")
    if 3 + form.node_bits > form.flit_bits:
        fail("wire.node_bits", "kind and destination must fit the first flit", "widen wire.flit_bits")
    _queues(system, fail, within)


def _queues(system, fail, within) -> None:
    """What waits at router inputs: its sizes, and that a router can read the key of a pinned path from a first flit."""
    router, graph = system.router, system.graph
    if router.queue not in QUEUES:
        fail("router.queue", f"must be 0, 1, 2 or 4, not {router.queue}", "choose one of these")
    within("router.max_wait", 1, 65535)
    if router.flow not in FLOWS:
        fail("router.flow", f"no such flow control {router.flow!r}", f"choose {' or '.join(FLOWS)}")
    within("router.credit_flits", 1, 4096)
    within("router.credit_delay", 1, 8)
    if system.credits:
        _credits(system, fail)
    elif not system.queue:
        return
    if system.queue and graph.max_ports > MOST_QUEUES:
        fail("router.queue", f"needs routers of at most {MOST_QUEUES} ports, not {graph.max_ports}", "leave it at 0")
    _key_fits(system, "router.queue" if system.queue else "router.flow", fail)


def _key_fits(system, where: str, fail) -> None:
    """Where paths are pinned a router reads kind, destination, source and slot from a first flit."""
    form = system.format
    key = form.common[FIELDS_OF_KEY - 1]
    if system.graph.up_ports(0) and key.offset + key.width > form.flit_bits:
        wider = next((bits for bits in FLIT_WIDTHS if key.offset + key.width <= bits), None)
        fail(
            where,
            f"kind, destination, source and slot must fit the first flit, but take {key.offset + key.width} bits",
            f"set wire.flit_bits = {wider}",
        )


def _credits(system, fail) -> None:
    """A network with credits discards nothing, and so cannot do with what tears worms or takes credits away."""
    faults = system.faults
    if system.topology.kind == "wire":
        fail("router.flow", "a wire has no routers that could give credits", 'set flow = "discard"')
    torn = (
        ("faults.loss", faults.loss),
        ("faults.flip", faults.flip),
        ("faults.links", faults.links),
        ("faults.resets", faults.resets),
    )
    for key, given in torn:
        if given:
            fail(key, "credits that are lost with a flit never come back", "leave it out")
    if system.timers.ack_limit:
        fail("timers.ack_limit", "with credits nothing bounds how long a worm is under way", "leave it at 0")


def _interface(system, fail, within) -> None:
    n, w = system.ni, system.wire
    within("ni.sets", 1, 65536)
    within("ni.ways", 1, 8)
    within("ni.reply_depth", 2, 65536)
    within("ni.deliver_records", 2, 65536)
    within("ni.deadline_bits", 8, 32)
    if n.sets & (n.sets - 1):
        fail("ni.sets", f"must be a power of two, not {n.sets}", f"take {1 << n.sets.bit_length()}")
    if n.deliver_flits and not system.slot_flits <= n.deliver_flits <= 1 << 20:
        fail(
            "ni.deliver_flits",
            f"must hold one payload of {system.slot_flits} flits, and at most {1 << 20}, not {n.deliver_flits}",
            "choose a value between, or leave it at 0",
        )
    if not 0 <= n.control_classes < 1 << w.class_bits:
        fail(
            "ni.control_classes",
            f"must be 0 to {(1 << w.class_bits) - 1}, not {n.control_classes}",
            "lower it or widen wire.class_bits",
        )
    if not 0 <= n.reserved_slots < n.slots:
        fail("ni.reserved_slots", f"must be 0 to {n.slots - 1}, not {n.reserved_slots}", "leave a slot for data")
    if n.reserved_slots and not n.control_classes:
        fail("ni.reserved_slots", "nothing may use them", "set ni.control_classes, or leave it at 0")
    within("timers.slack", -1024, 65536)
    within("timers.ceiling", -1, 1 << 22)
    first = system.delays[system.graph.distance_classes - 1]
    if 0 < system.timers.ceiling < first:
        fail("timers.ceiling", f"is below the first time-out of {first} cycles", "raise it, or lower timers.slack")
    within("timers.backoff_steps", 0, 16)
    within("timers.jitter_bits", 0, 12)
    within("timers.wrap_guard", 0, 65536)
    within("timers.ack_limit", 0, 255)
    within("timers.quarantine", 0, 1 << 24)
    depth = system.timers.timer_depth
    if depth and not 5 <= depth <= 1 << 17:
        fail("timers.timer_depth", f"must be 5 to {1 << 17}, not {depth}", "choose one of these, or leave it at 0")


def _study(system, fail, within) -> None:
    """Single decisions turned: which can be, and that replies which go last do go."""
    study, graph = system.study, system.graph
    within("study.per_destination", 0, 65536)
    if study.replies not in REPLIES:
        fail("study.replies", f"no such order {study.replies!r}", f"choose {' or '.join(REPLIES)}")
    longest = system.least_delay(system.timers.backoff_steps)
    if study.replies == "last" and system.ni.slots * system.format.max_flits >= longest:
        fail(
            "study.replies",
            f"repeats of {system.ni.slots} slots can fill the link, {system.format.max_flits} flits each in {longest} "
            "cycles, and replies that go last would wait for ever",
            f"raise timers.backoff_steps or timers.{'ceiling' if system.measured else 'slack'}, or lower ni.slots",
        )
    if study.path not in PATHS:
        fail("study.path", f"no such choice {study.path!r}", f"choose {', '.join(PATHS[:-1])} or {PATHS[-1]}")
    if study.path != "free":
        if graph.kind != "tree":
            fail("study.path", f"a {graph.kind} has no up-ports to choose from", 'set path = "free"')
        if system.worms_wait:
            fail("study.path", "where worms wait, with router.queue or credits, paths are pinned", 'set path = "free"')
        if study.path == "pinned":
            _key_fits(system, "study.path", fail)
    within("study.dilation", 1, 16)
    if study.dilation > 1:
        if graph.kind not in ("tree", "fly"):
            fail("study.dilation", f"a {graph.kind} has no parallel links", "set dilation = 1, or choose a tree or fly")
        if system.worms_wait:
            fail("study.dilation", "routers in which worms wait have single links", "set dilation = 1")
        if graph.ports(0) > MOST_PORTS:
            fail(
                "study.dilation", f"needs routers of {graph.ports(0)} ports, but {MOST_PORTS} are the most", "lower it"
            )


def _faults(system, fail, within) -> None:
    faults, links = system.faults, system.graph.link_count
    within("faults.loss", 0.0, 0.99)
    within("faults.flip", 0.0, 0.5)
    for i, fault in enumerate(faults.links):
        if not 0 <= fault.link < links:
            fail(f"faults.links[{i}].link", f"no link {fault.link}", f"the topology has 0 to {links - 1}")
    for name, scheduled in (("stalls", faults.stalls), ("resets", faults.resets)):
        for i, fault in enumerate(scheduled):
            if not 0 <= fault.node < system.nodes:
                fail(f"faults.{name}[{i}].node", f"no node {fault.node}", f"the topology has 0 to {system.nodes - 1}")
    for name, scheduled in (("links", faults.links), ("stalls", faults.stalls)):
        for i, fault in enumerate(scheduled):
            if not 0 <= fault.start < fault.end:
                fail(f"faults.{name}[{i}].end", "must come after start", "give both, start first, from cycle 0 on")
    for i, reset in enumerate(faults.resets):
        if not (1 <= reset.cycles <= LAST_CYCLE and 0 <= reset.start <= LAST_CYCLE):
            fail(f"faults.resets[{i}].cycles", "must be at least 1, from a cycle ≥ 0 and up to 2^62", "mend both")


def _workload(system, fail, within) -> None:
    load, w = system.workload, system.wire

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
    if load.kind in ("file", "capture", "trace") and not load.path:
        fail("workload.path", f"a {load.kind} workload needs a file", "name it")
    if load.kind in ("generator", "pattern"):
        if w.mtu < 4:
            fail("wire.mtu", f"the {load.kind} needs payloads of at least 4 bytes", "raise it")
        for key, low in (("min_length", 4), ("max_length", load.min_length)):
            if not low <= getattr(load, key) <= w.mtu:
                fail(
                    f"workload.{key}",
                    f"must be {low} to {w.mtu} (wire.mtu), not {getattr(load, key)}",
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


def _retries(system, fail, within) -> None:
    """What a host asks of its NI, on which exactly-once rests, and where it reads it."""
    if "\0" in system.workload.path:
        fail("workload.path", "holds a zero byte, which no file name does", "name a file")
    within("workload.retry_limit", 0, 255)
    within("workload.deadline", 0, (1 << system.ni.deadline_bits) - 1)


def _pattern(system, fail, within) -> None:
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


def _kernel(system, fail, within) -> None:
    load, nodes = system.workload, system.nodes
    if system.wire.mtu < KERNEL_MTU:
        fail("wire.mtu", f"a kernel needs payloads of at least {KERNEL_MTU} bytes, not {system.wire.mtu}", "raise it")
    least, most = {"sort": (1, 1 << 20), "reduce": (1, 1 << 20), "bfs": (2, 1 << 20)}.get(load.kernel, (nodes, 1 << 13))
    if not least <= load.size <= most:
        fail("workload.size", f"must be {least} to {most} for this kernel, not {load.size}", "change it")
    within("workload.steps", 1, 1 << 16)


def promises(system, fail) -> None:
    """What exactly-once rests on: generations that do not recur too soon (T1), orphans that outlive
    their senders (T12), and paths that exist."""
    _generations(system, fail)
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
        _pinned(system, for_ever, fail)
        cut = cut_pair(system.graph, for_ever)
        if cut:
            fail(
                "faults.links",
                f"no path is left from node {cut[0]} to node {cut[1]}, which would repeat for ever",
                "let a link heal, or set workload.retry_limit",
            )


def _pinned(system, dead: set[int], fail) -> None:
    """A tree with pinned paths has one for a pair and slot, so each link between routers is the only way of some.

    Of parallel links up there is but one on each path, of those down any that is left.
    """
    graph = system.graph
    pinned = "study.path" if system.study.path == "pinned" else "router.queue" if graph.queued else None
    if graph.kind != "tree" or not pinned:
        return
    between = [
        link
        for link in sorted(dead)
        if link >= 2 * graph.nodes
        and (graph.link(link).source < graph.link(link).target or dead.issuperset(graph.bundle(link)))
    ]
    if between:
        fail(
            "faults.links",
            f"with {pinned} paths are pinned, and those over link {between[0]} ({graph.link_name(between[0])}) "
            "would repeat for ever",
            "let the link heal, or set workload.retry_limit",
        )


def _generations(system, fail) -> None:
    """T1: an entry must be forgotten long before the same generation of its slot can come again.

    An entry whose Forget was lost is cleared by the answer to its next Ack, so `wrap_guard` longest Ack
    intervals are as many more chances.  It makes the mistake improbable; it does not exclude it.
    """
    needed = system.timers.wrap_guard * system.longest_delays[-1]
    if system.wrap_time >= needed:
        return
    bits = next((b for b in range(system.wire.generation_bits, 21) if system.reuse_time << b >= needed), None)
    wider = f"set wire.generation_bits = {bits}" if bits else "lower timers.backoff_steps"
    fail(
        "wire.generation_bits",
        f"a slot's generation can come again after {system.wrap_time} cycles, "
        f"but {system.timers.wrap_guard} of the longest Ack intervals are {needed}",
        f"{wider}" + (", or lower timers.backoff_steps" if bits else ", or timers.wrap_guard"),
    )

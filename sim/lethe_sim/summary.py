"""What a configuration comes to, in words and numbers: `lethe check`."""

from collections.abc import Iterator
from dataclasses import fields

from lethe.spec.config import System
from lethe.spec.ports import STATUS_BITS, cause_bits
from lethe.spec.services import SERVICES


def summary(system: System) -> Iterator[str]:
    """The lines of `lethe check`."""
    yield f"{system.source}: good" + ("" if system.hosted else ", but for its workload")
    for title, lines in (
        ("nodes", _nodes(system)),
        ("wire", _wire(system)),
        ("time-outs", _timers(system)),
        ("tables", _tables(system)),
        ("services", _services(system)),
        ("memory", _memory(system)),
        ("promises", _promises(system)),
        ("faults", _faults(system)),
        ("workload", _workload(system)),
    ):
        for line in lines:
            yield f"{title:<11}{line}"
            title = ""


def link_lines(system: System) -> Iterator[str]:
    """``number  name`` of every link, the numbers that ``[[faults.links]]`` takes."""
    graph = system.graph
    for number in range(graph.link_count):
        yield f"{number:>6}  {graph.link_name(number)}"


def topology_name(system: System) -> str:
    t = system.topology
    match t.kind:
        case "wire":
            return "two nodes on a wire"
        case "crossbar":
            return "crossbar"
        case "mesh":
            return f"{t.columns} × {t.rows} mesh"
        case _:
            return f"{t.arity}-ary {t.levels}-{t.kind}"


def state_bits(system: System) -> dict[str, int]:
    """Bits that one NI must hold, by table.  RTL replicates a field per reader and rounds up to block RAMs."""
    form, ni, wire = system.format, system.ni, system.wire
    generation, incarnation = form.generation_bits, form.incarnation_bits
    uid = form.slot_bits + generation
    record = form.node_bits + form.class_bits + form.mode_bits + form.length_bits
    send = record + ni.deadline_bits + 8 + wire.tag_bits + incarnation + generation + 8 + 3
    entry = form.node_bits + form.slot_bits + generation + incarnation + 1
    way = (ni.ways - 1).bit_length()
    depth, time, silent = system.timer_depth, system.time_bits, system.timers.silent_after > 0
    completion = uid + wire.tag_bits + STATUS_BITS + cause_bits(system) + incarnation
    flits = system.deliver_flits + ni.control_classes * system.control_flits
    records = ni.deliver_records + ni.control_classes * system.control_records
    delivered = form.node_bits + form.class_bits + form.length_bits + (incarnation if ni.source_incarnation else 0)
    # A stamp for each slot; eight means, four mean deviations and a time-out for each distance class.
    measured = [8 * system.ceiling + 7, 4 * system.ceiling + 3, system.ceiling]
    numbers = system.graph.distance_classes * sum(map(int.bit_length, measured))
    trips = ni.slots * (time + form.try_bits) + numbers
    return {
        "payload": ni.slots * system.slot_flits * form.flit_bits,
        "send table": ni.slots * send,
        "receive table": ni.sets * ni.ways * entry,
        "Send ladder": system.rungs * depth * (uid + 8 + time),
        "Ack ladder": system.rungs * depth * (entry - 1 + way + form.try_bits + 8 + time),
        "deliver FIFOs": flits * (form.flit_bits + 1) + records * delivered,
        "queues": ni.slots * (uid + form.slot_bits + uid + completion) + ni.reply_depth * form.common_bits,
        **({"silent nodes": system.nodes * (system.timers.silent_after.bit_length() + 1)} if silent else {}),
        **({"round trips": trips} if system.measured else {}),
    }


def _nodes(system: System) -> Iterator[str]:
    graph = system.graph
    hops = sorted({graph.class_hops(c) for c in range(graph.distance_classes)})
    path = f"{hops[0]}" if len(hops) == 1 else f"up to {hops[-1]}"
    yield (
        f"{system.nodes:,}: {topology_name(system)}, {graph.routers:,} routers, {graph.link_count:,} links; "
        f"{path} router{'' if hops[-1] == 1 else 's'} on a path, {_cycles(system.router.latency)} each"
    )
    if system.queue:
        count = "one worm" if system.queue == 1 else f"{system.queue} worms"
        yield f"each router input has room for {count}, for {system.longest_wait:,} cycles at most"
    if system.pool:
        count = "one worm" if system.pool == 1 else f"{system.pool} worms"
        yield f"each router has room for {count} of all inputs, for {system.longest_wait:,} cycles at most"
    if system.climbs_freely:
        yield "a worm takes any up-port that is free"
    if system.control_first:
        yield f"Acks and Forgets pass what came into the pool up to {_cycles(system.control_first)} before them"
    if system.golden_only:
        key, value, _ = system.golden_only
        yield f"golden model only: {key} = {value}"


def _wire(system: System) -> Iterator[str]:
    form = system.format
    control, longest = form.control_flits, form.send_flits(system.wire.mtu)
    if form.one_flit_control:
        yield (
            f"Ack, Forget: 1 flit of {form.flit_bits} bits: {form.common_bits} header bits and CRC-16, "
            f"Hamming distance {form.distance(1)}"
        )
    else:
        yield (
            f"Ack, Forget: {control} flits of {form.flit_bits} bits: {form.common_bits} header bits and CRC-32, "
            f"Hamming distance {form.distance(control)}"
        )
    yield (
        f"Send of {system.wire.mtu:,} bytes (MTU): {longest:,} flits: {form.header_flits} header "
        f"({form.send_bits} bits), {form.payload_flits(system.wire.mtu):,} payload, {form.crc_flits} CRC-32, "
        f"Hamming distance {form.distance(longest)}"
    )


def _timers(system: System) -> Iterator[str]:
    classes = system.graph.distance_classes
    for c in range(classes):
        hops = system.graph.class_hops(c)
        yield f"{_cycles(system.delays[c])} at first for a path of up to {hops} router{'' if hops == 1 else 's'}"
    if system.measured:
        yield f"then by the round trips that are measured, up to {_cycles(system.ceiling)}"
    steps, jitter = system.timers.backoff_steps, (1 << system.timers.jitter_bits) - 1
    backoff = f"doubled up to {steps} times, to {system.longest_delays[-1]:,} at most" if steps else "never doubled"
    yield f"{backoff}; Sends wait up to {jitter:,} more (jitter)"


def _tables(system: System) -> Iterator[str]:
    ni = system.ni
    yield (
        f"{ni.slots:,} send slots; {ni.sets * ni.ways:,} receive entries ({ni.sets:,} sets of {ni.ways}); "
        f"{system.rungs} rungs of {system.timer_depth:,} tokens in each of two ladders"
    )


def _services(system: System) -> Iterator[str]:
    """A line for each service, and for each that is left out although the file sets other keys of it."""
    for service in system.services:
        yield f"{service.name}: {service.size(system)}"
    for name in (service.name for service in SERVICES if service not in system.services):
        section = getattr(system, name)
        switch, *others = fields(section)
        said = [f"{name}.{other.name}" for other in others if getattr(section, other.name) != other.default]
        if said:
            have = "has" if len(said) == 1 else "have"
            yield f"no {name}: {name}.{switch.name} is 0, so {', '.join(said)} {have} no effect"


def _memory(system: System) -> Iterator[str]:
    bits = state_bits(system)
    yield f"{sum(bits.values()):,} bits of tables in each NI, before a field is replicated for a second reader:"
    yield ", ".join(f"{name} {value:,}" for name, value in bits.items())


def _promises(system: System) -> Iterator[str]:
    longest = system.longest_delays[-1]
    yield (
        f"the same generation of a slot comes again after {system.wrap_time:,} cycles at the earliest, "
        f"{system.wrap_time / longest:.1f} of the longest Ack intervals"
        + ("" if system.timers.wrap_guard else " (unchecked: timers.wrap_guard = 0)")
    )
    limit = system.workload.retry_limit
    if limit:
        yield f"a sender gives up after {limit} repeats, {system.retry_time(limit):,} cycles at most"
    else:
        yield "a sender repeats until it has an Ack" + (
            f" or {system.workload.deadline:,} cycles have passed" if system.workload.deadline else ""
        )
    if after := system.timers.silent_after:
        yield (
            f"a node is given up after {after} repeats to it without an Ack; "
            f"one new datagram in {system.timers.silent_probe:,} cycles asks whether it answers again"
        )
    if system.timers.ack_limit:
        yield f"an entry whose sender is silent is reclaimed after {system.orphan_time:,} cycles at the earliest"
    else:
        yield "an entry is kept until its Forget arrives"


def _faults(system: System) -> Iterator[str]:
    faults = system.faults
    parts = []
    if faults.loss:
        parts.append(f"{faults.loss:.3g} of the worms lost on each link")
    if faults.flip:
        parts.append(f"a bit of {faults.flip:.3g} of the flits flipped on each link")
    scheduled = (
        (faults.links, "link death"),
        (faults.stalls, "stall"),
        (faults.resets, "node reset"),
        (faults.deaths, "node death"),
        (faults.absences, "absence"),
    )
    for found, what in scheduled:
        if found:
            parts.append(f"{len(found)} {what}{'s' if len(found) > 1 else ''}")
    yield ", ".join(parts) or "none"


def _workload(system: System) -> Iterator[str]:
    if not system.hosted:
        yield "none that could run; an NI or a network alone can be built (`lethe verilog --block ni`)"
        return
    load = system.workload
    size = f"{load.min_length}" if load.min_length == load.max_length else f"{load.min_length} to {load.max_length}"
    many = f"{load.count:,} datagrams" if load.count else "datagrams without end"
    until = f", none from cycle {load.stop:,} on" if load.stop else ""
    traffic = f"{many} of {size} bytes from each node, load {load.load:g}{until}; seed {system.run.seed}"
    timing = "at their times" if load.timing == "kept" else "as fast as the network takes them"
    match load.kind:
        case "file":
            yield f"the file {load.path}"
        case "pattern":
            yield f"{load.pattern}, {load.arrivals}: {traffic}"
        case "capture":
            yield f"the packets of {load.path}, {timing}; a cycle is {load.cycle_ns:g} ns"
        case "trace":
            yield f"the datagrams of {load.path}, {timing}"
        case "kernel":
            yield f"kernel {load.kernel}, size {load.size:,}; seed {system.run.seed}"
        case _:
            yield traffic


def _cycles(count: int) -> str:
    return f"{count:,} cycle{'' if count == 1 else 's'}"

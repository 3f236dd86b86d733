"""Routers with credits (docs/studies/credits.md): wormhole switching on virtual channels, and nothing is discarded.

Every channel of an input has a buffer of ``k.credit_flits`` flits, every channel of an output as many credits for the
buffer it leads to, and every node a source queue without end between its NI and the network.  A `Buffer` belongs to a
channel of an input and to that of the output with its number, ``port · k.channels`` and on; after them are those of the
sinks and of the sources.  A sink is where a node keeps the flits of several channels apart; one channel needs none.  A
flit on its way has its channel beside its flags.
"""

import numpy as np

from lethe.spec.events import Event
from lethe.spec.topology import UP
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import fate
from lethe_sim.golden.fabric.fabric import Fabric, buffered_at, fly, let_out, rows
from lethe_sim.golden.fabric.pin import pinned, pinned_channel
from lethe_sim.golden.fabric.router import lane_event
from lethe_sim.golden.fabric.topology import route
from lethe_sim.golden.lib.bits import mask
from lethe_sim.golden.lib.random import advance, scale
from lethe_sim.golden.script import GoldenError
from lethe_sim.golden.state import FIRST, LAST, MOST_SOURCE_FLITS, NEVER, NONE, VALID, Buffer, Link, Parameters, Port

#: Where the channel of a flit is, above its flags.
CHANNEL, FLAGS = 3, VALID | FIRST | LAST
#: What a head asks for that takes any up-port.
ANY = -2


def empty(k: Parameters, fabric: Fabric) -> np.ndarray:
    """The buffers of a fabric as `rows`, all empty, with all their credits, and nobody to give them back to."""
    buffers = rows(fabric.buffers, Buffer)
    for column in (Buffer.upstream, Buffer.asks, Buffer.only, Buffer.holds, Buffer.holder, Buffer.best, Buffer.passed):
        buffers[:, column] = NONE
    buffers[:, Buffer.credits] = int(k.credit_flits)
    return buffers


def start(k: Parameters, fabric: Fabric) -> None:
    """Enter in the empty tables of a wired fabric who gives credits to whom, and how many."""
    ports, nodes, channels = int(k.port_count), int(k.nodes), int(k.channels)
    table, targets = rows(fabric.ports, Port), rows(fabric.links, Link)[:, Link.target]
    buffers = empty(k, fabric)
    of_unit = buffers.reshape(-1, channels, Buffer.size)
    mine = np.arange(channels)
    for node in range(nodes):
        of_unit[targets[node], :, Buffer.upstream] = source_of(k, node) + mine
    for output in range(ports):
        link = table[output, Port.out_link]
        if link == NONE:
            continue
        target = targets[link]
        unit = target if target >= 0 else ports - 1 - target
        of_unit[unit, :, Buffer.upstream] = output * channels + mine
        if target < 0 and channels == 1:
            of_unit[output, :, Buffer.credits] = NEVER


def deepest(k: Parameters, fabric: Fabric) -> np.ndarray:
    """int64[nodes]: the most flits that have waited in each source queue."""
    first, channels = int(source_of(k, 0)), int(k.channels)
    return rows(fabric.buffers, Buffer)[first::channels, Buffer.deepest].copy()


def crowded(k: Parameters, fabric: Fabric) -> bool:
    """Whether a source queue needs more memory before the next cycle."""
    return bool(full(k, fabric))


def grow(k: Parameters, fabric: Fabric) -> Fabric:
    """The fabric with twice the memory for its source queues; raises `GoldenError` if that is beyond all reason."""
    old, nodes = int(k.source_ring), int(k.nodes)
    if 2 * old > MOST_SOURCE_FLITS:
        raise GoldenError(
            f"router.flow: a source queue holds {old:,} flits, so the NIs repeat faster than the network carries; "
            "raise timers.slack or timers.backoff_steps"
        )
    first = int(source_of(k, 0)) * int(k.credit_flits)
    flags = np.zeros(first + nodes * 2 * old, np.int64)
    flits = np.zeros(2 * len(flags), np.uint64)
    flags[:first] = fabric.buffer_flags[:first]
    flits[: 2 * first] = fabric.buffer_flits[: 2 * first]
    for node in range(nodes):
        held = Buffer(fabric.buffers, 0, int(source_of(k, node)))
        places = first + node * old + (held.head + np.arange(held.level)) % old
        to = first + node * 2 * old
        flags[to : to + len(places)] = fabric.buffer_flags[places]
        flits.reshape(-1, 2)[to : to + len(places)] = fabric.buffer_flits.reshape(-1, 2)[places]
        held.head = 0
    k.source_ring = 2 * old
    return fabric._replace(buffer_flags=flags, buffer_flits=flits)


@jit
def full(k, f):
    """Whether the memory of a source queue might not do for another cycle."""
    return f.returning[0] >= k.source_ring


@jit
def source_of(k, node):
    """The first channel of a node's source queue."""
    return (k.port_count + k.nodes + node) * k.channels


@jit
def sink_of(k, node):
    """The first channel of a node's sink."""
    return (k.port_count + node) * k.channels


@jit
def ring_of(k, buffer):
    """Where the flits of a buffer are, and how many there can be."""
    sources = source_of(k, 0)
    if buffer < sources:
        return buffer * k.credit_flits, k.credit_flits
    return sources * k.credit_flits + (buffer - sources) // k.channels * k.source_ring, k.source_ring


@jit
def push(k, f, buffer, flags, low, high):
    """Store a flit."""
    held = f.buffers[buffer]
    first, size = ring_of(k, buffer)
    place = held.head + held.level
    place = first + (place - size if place >= size else place)
    held.level += 1
    f.buffer_flags[place] = flags
    f.buffer_flits[2 * place] = low
    f.buffer_flits[2 * place + 1] = high
    f.lists[buffered_at(k)] += 1


@jit
def front(k, f, buffer):
    """Place of the oldest flit."""
    return ring_of(k, buffer)[0] + f.buffers[buffer].head


@jit
def pop(k, f, buffer):
    """Take the oldest flit."""
    held = f.buffers[buffer]
    head = held.head + 1
    held.head = 0 if head == ring_of(k, buffer)[1] else head
    held.level -= 1
    f.lists[buffered_at(k)] -= 1


@jit
def credits_of(k, cycle):
    """Where the credits that can be used from ``cycle`` on are listed."""
    return 1 + (cycle & (k.return_phases - 1)) * (k.port_count + k.nodes + 1)


@jit
def give_back(k, f, cycle, to):
    """A credit that can be used from ``cycle`` on."""
    at = credits_of(k, cycle)
    f.returning[at] += 1
    f.returning[at + f.returning[at]] = to


@apart
def take_back(k, f, cycle):
    """The credits that can be used from ``cycle`` on are used no earlier."""
    at = credits_of(k, cycle)
    for i in range(at + 1, at + f.returning[at] + 1):
        f.buffers[f.returning[i]].credits += 1
    f.returning[at] = 0


@jit
def enqueue(k, f, node, flags, low, high):
    """A flit that an NI shows goes to its source queue."""
    source = source_of(k, node)
    held = f.buffers[source]
    push(k, f, source, flags & FLAGS, low, high)
    level = held.level
    if level > held.deepest:
        held.deepest = level
        f.returning[0] = max(f.returning[0], level)


@apart
def feed(k, f, cycle):
    """Every source queue sends a flit, if it has one and a credit."""
    for node in range(k.nodes):
        source = source_of(k, node)
        if f.buffers[source].level > 0:
            place = front(k, f, source)
            low = f.buffer_flits[2 * place]
            channel = source_channel(k, f, node, low)
            if channel != NONE:
                launch(k, f, cycle, node, channel, f.buffer_flags[place], low, f.buffer_flits[2 * place + 1])
                pop(k, f, source)


@jit
def source_channel(k, f, node, low):
    """The channel with a credit on which the next flit of a source leaves, ``low`` if it is a head; or `NONE`."""
    first = source_of(k, node)
    channel = f.buffers[first].holds
    if channel == NONE:
        only = 0 if k.channels == 1 else pinned_channel(k, low) if k.pinned else NONE
        channel = free_channel(k, f, 0, first, only)
    return channel if f.buffers[channel].credits > 0 else NONE


@jit
def launch(k, f, cycle, node, channel, flags, low, high):
    """A flit of a source is on the injection link in ``cycle``; its worm stays on the channel."""
    first = source_of(k, node)
    f.buffers[channel].credits -= 1
    f.buffers[first].holds = NONE if flags & LAST else channel
    fly(k, f, cycle, node, flags | channel - first << CHANNEL, low, high)


@jit
def free_channel(k, f, cycle, first, only):
    """Of the channels from ``first`` on the free one with most credits, or ``only`` that if it is free, or `NONE`."""
    if only != NONE:
        return first + only if f.buffers[first + only].free_from <= cycle else NONE
    found, most = NONE, -1
    for channel in range(first, first + k.channels):
        out = f.buffers[channel]
        if out.free_from <= cycle and out.credits > most:
            found, most = channel, out.credits
    return found


@jit
def arrive(k, f, cycle, port, flags, low, high):
    """A flit is on input ``port``, or that of a sink, in ``cycle``: its channel's buffer has it, it had a credit."""
    channel = port * k.channels + (flags >> CHANNEL)
    held = f.buffers[channel]
    if held.level == 0 and held.holds == NONE:
        held.switch_from = cycle + k.route_delay
    push(k, f, channel, flags & FLAGS, low, high)


@jit
def drain(k, f, cycle, node):
    """The place of the flit that a node hears from its sink in ``cycle``, a worm after the other; or `NONE`."""
    sink = sink_of(k, node)
    first = f.buffers[sink]
    for i in range(k.channels):
        number = first.next + i
        number = number - k.channels if number >= k.channels else number
        if f.buffers[sink + number].level > 0:
            place = front(k, f, sink + number)
            pop(k, f, sink + number)
            give_back(k, f, cycle + k.credit_delay, f.buffers[sink + number].upstream)
            last = f.buffer_flags[place] & LAST != 0
            first.holds = NONE if last else sink + number
            first.next = following(k, number) if last else number
            return place
        if first.holds != NONE:  # its worm pauses
            return NONE
    return NONE


@jit
def following(k, number):
    """The channel after channel ``number``."""
    return 0 if number + 1 == k.channels else number + 1


@apart
def step(k, f, ev, cycle):
    """Every router: heads ask, outputs choose, flits pass."""
    for number in range(k.router_count):
        router = f.routers[number]
        first, ports = router.first_port, router.ports
        offset = cycle % ports if k.adaptive else 0  # the first input that asks
        busy, asked = False, False
        for i in range(ports):
            port = first + (i + offset - ports if i + offset >= ports else i + offset)
            for channel in range(port * k.channels, (port + 1) * k.channels):
                held = f.buffers[channel]
                if held.level > 0:
                    busy = True
                    if held.holds == NONE and held.switch_from <= cycle:
                        asked = ask(k, f, cycle, router, port, channel) or asked
        if asked:
            for output in range(first, first + ports):
                choose(k, f, cycle, output)
        if busy:
            send(k, f, ev, cycle, router)


@jit
def send(k, f, ev, cycle, router):
    """Flits pass, one from each input and one to each output."""
    first, ports = router.first_port, router.ports
    if k.channels == 1:  # each worm has an input and an output of its own
        for port in range(first, first + ports):
            output = f.buffers[port].holds
            if output != NONE and ready(k, f, cycle, output):
                forward(k, f, ev, cycle, router, output, 0)
        return
    offset = cycle % ports  # the first output that chooses
    for i in range(ports):
        send_to(k, f, ev, cycle, router, first + (i + offset - ports if i + offset >= ports else i + offset))


@jit
def ask(k, f, cycle, router, port, channel):
    """A head in front asks for an output with a free channel; the output notes the best that asks."""
    held = f.buffers[channel]
    if held.asks == NONE:
        wanted(k, f, router, port, channel)
    output = held.asks
    if output == ANY:
        output = freest(k, f, cycle, router)
        if output == NONE:
            return False
    if free_channel(k, f, cycle, output * k.channels, held.only) == NONE:
        return False
    chosen = f.buffers[output * k.channels]
    size, at = router.ports * k.channels, router.first_port * k.channels + chosen.turn
    if chosen.best == NONE or (channel - at) % size < (chosen.best - at) % size:
        chosen.best = channel
    return True


@jit
def wanted(k, f, router, port, channel):
    """Enter which output the head in front of an input channel asks for, perhaps `ANY` up-port, and which channel."""
    held = f.buffers[channel]
    low = f.buffer_flits[2 * front(k, f, channel)]
    destination = np.int64(low >> np.uint64(k.node_offset) & mask(k.node_bits))
    number = route(k, router, port - router.first_port, destination)
    if number == UP and not k.adaptive:
        ups = router.ports - k.arity
        if k.pinned:
            number = k.arity + pinned(k, low, router.number // k.width, ups)
        else:
            router.path_draw = advance(router.path_draw)
            number = k.arity + scale(router.path_draw & 0xFFFF, 16, ups)
    held.asks = ANY if number == UP else router.first_port + number
    held.only = NONE
    if k.channels == 1:
        held.only = 0
    elif k.pinned:
        held.only = pinned_channel(k, low)


@jit
def freest(k, f, cycle, router):
    """Of the up-ports with a free channel that nobody asks for yet, the one with most credits, or `NONE`.

    Equals take turns by draw.
    """
    first, ups = router.first_port + k.arity, router.ports - k.arity
    router.path_draw = advance(router.path_draw)
    start = scale(router.path_draw & 0xFFFF, 16, ups)
    found, most = NONE, -1
    for i in range(ups):
        output = first + (start + i - ups if start + i >= ups else start + i)
        channels = output * k.channels
        if f.buffers[channels].best != NONE or free_channel(k, f, cycle, channels, NONE) == NONE:
            continue
        credits = 0
        for channel in range(channels, channels + k.channels):
            credits += f.buffers[channel].credits
        if credits > most:
            found, most = output, credits
    return found


@jit
def choose(k, f, cycle, output):
    """A free channel belongs to the worm that its output found best, which may pass after the delay of the choice."""
    chosen = f.buffers[output * k.channels]
    best = chosen.best
    if best == NONE:
        return
    chosen.best = NONE
    held = f.buffers[best]
    channel = free_channel(k, f, cycle, output * k.channels, held.only)
    out = f.buffers[channel]
    out.free_from, out.holder = NEVER, best
    held.holds, held.switch_from = channel, cycle + k.grant_delay
    router = f.routers[f.ports[output].router]
    turn = best - router.first_port * k.channels + 1
    chosen.turn = 0 if turn == router.ports * k.channels else turn


@jit
def ready(k, f, cycle, channel):
    """Whether a flit can pass to an output channel: one is in front, with a credit, and its input lets no other out."""
    out = f.buffers[channel]
    if out.holder == NONE or out.credits == 0:
        return False
    held = f.buffers[out.holder]
    if held.level == 0 or held.switch_from > cycle:
        return False
    return f.buffers[out.holder // k.channels * k.channels].passed != cycle


@jit
def send_to(k, f, ev, cycle, router, output):
    """A flit passes to an output: that of the first channel for which one can.

    It is the first until its worm ends or pauses, so that worms pass whole if they can.
    """
    first = output * k.channels
    for i in range(k.channels):
        number = f.buffers[first].next + i
        number = number - k.channels if number >= k.channels else number
        if ready(k, f, cycle, first + number):
            last = forward(k, f, ev, cycle, router, output, number)
            f.buffers[first].next = following(k, number) if last else number
            return


@jit
def forward(k, f, ev, cycle, router, output, number):
    """The flit in front of the input channel that holds a channel of an output passes; whether it is the last."""
    out = f.buffers[output * k.channels + number]
    at = out.holder
    held, port = f.buffers[at], at // k.channels
    f.buffers[port * k.channels].passed = cycle
    place = front(k, f, at)
    flags, low, high = f.buffer_flags[place], f.buffer_flits[2 * place], f.buffer_flits[2 * place + 1]
    pop(k, f, at)
    out.credits -= 1
    give_back(k, f, cycle + k.credit_delay, held.upstream)
    if flags & FIRST:
        lane_event(k, f, ev, cycle, port, fate(Event.FORWARD | output - router.first_port << 8, low))
    let_out(k, f, cycle, output, flags | number << CHANNEL, low, high)
    if flags & LAST:
        out.free_from, out.holder = cycle + 1, NONE
        held.holds, held.asks = NONE, NONE
        held.switch_from = cycle + 1 + k.route_delay
    return flags & LAST != 0

"""Routers with credits (docs/studies/credits.md): wormhole switching on one virtual channel, and nothing is discarded.

Every input has a buffer of ``k.credit_flits`` flits, every output as many credits for the buffer it leads to, and every
node a source queue without end between its NI and the network.  A `Buffer` belongs to an input and to the
output with its number; after them, one to each source.
"""

import numpy as np

from lethe.spec.events import Event
from lethe.spec.topology import UP
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import extend
from lethe_sim.golden.fabric.fabric import Fabric, buffered_at, fly, let_out, rows
from lethe_sim.golden.fabric.pin import pinned
from lethe_sim.golden.fabric.router import HEAD_BITS, lane_event
from lethe_sim.golden.fabric.topology import route
from lethe_sim.golden.lib.bits import mask
from lethe_sim.golden.lib.random import advance, scale
from lethe_sim.golden.script import GoldenError
from lethe_sim.golden.state import FIRST, LAST, MOST_SOURCE_FLITS, NEVER, NONE, Buffer, Link, Parameters, Port


def start(k: Parameters, fabric: Fabric) -> None:
    """Enter in the empty tables of a wired fabric who gives credits to whom, and how many."""
    ports, nodes, n = int(k.port_count), int(k.nodes), int(k.credit_flits)
    buffers, table = rows(fabric.buffers, Buffer), rows(fabric.ports, Port)
    targets = rows(fabric.links, Link)[:, Link.target]
    table[:, Port.input_out] = NONE
    buffers[:, Buffer.upstream] = NONE
    buffers[:, Buffer.best] = NONE
    buffers[:, Buffer.credits] = n
    buffers[targets[:nodes], Buffer.upstream] = ports + np.arange(nodes)
    for output in range(ports):
        link = table[output, Port.out_link]
        if link == NONE:
            continue
        target = targets[link]
        if target >= 0:
            buffers[target, Buffer.upstream] = output
        else:
            buffers[output, Buffer.credits] = NEVER


def deepest(k: Parameters, fabric: Fabric) -> np.ndarray:
    """int64[nodes]: the most flits that have waited in each source queue."""
    return rows(fabric.buffers, Buffer)[int(k.port_count) :, Buffer.deepest].copy()


def crowded(k: Parameters, fabric: Fabric) -> bool:
    """Whether a source queue needs more memory before the next cycle."""
    return bool(full(k, fabric))


def grow(k: Parameters, fabric: Fabric) -> Fabric:
    """The fabric with twice the memory for its source queues; raises `GoldenError` if that is beyond all reason."""
    old, ports, nodes = int(k.source_ring), int(k.port_count), int(k.nodes)
    if 2 * old > MOST_SOURCE_FLITS:
        raise GoldenError(
            f"router.flow: a source queue holds {old:,} flits, so the NIs repeat faster than the network carries; "
            "raise timers.slack or timers.backoff_steps"
        )
    first = ports * int(k.credit_flits)
    flags = np.zeros(first + nodes * 2 * old, np.int64)
    flits = np.zeros(2 * len(flags), np.uint64)
    flags[:first] = fabric.buffer_flags[:first]
    flits[: 2 * first] = fabric.buffer_flits[: 2 * first]
    for node in range(nodes):
        held = Buffer(fabric.buffers, 0, ports + node)
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
def ring_of(k, buffer):
    """Where the flits of a buffer are, and how many there can be."""
    if buffer < k.port_count:
        return buffer * k.credit_flits, k.credit_flits
    return k.port_count * k.credit_flits + (buffer - k.port_count) * k.source_ring, k.source_ring


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
    return 1 + (cycle & (k.return_phases - 1)) * (k.port_count + 1)


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
    """A flit that a NI shows goes to its source queue."""
    source = k.port_count + node
    held = f.buffers[source]
    push(k, f, source, flags, low, high)
    level = held.level
    if level > held.deepest:
        held.deepest = level
        f.returning[0] = max(f.returning[0], level)


@apart
def feed(k, f, cycle):
    """Every source queue sends a flit, if it has one and a credit."""
    for node in range(k.nodes):
        source = k.port_count + node
        held = f.buffers[source]
        if held.level > 0 and held.credits > 0:
            place = front(k, f, source)
            held.credits -= 1
            fly(k, f, cycle, node, f.buffer_flags[place], f.buffer_flits[2 * place], f.buffer_flits[2 * place + 1])
            pop(k, f, source)


@jit
def arrive(k, f, cycle, port, flags, low, high):
    """A flit is on input ``port`` in ``cycle``: it is in the buffer, for which it had a credit."""
    held = f.buffers[port]
    if held.level == 0 and f.ports[port].input_out == NONE:
        held.switch_from = cycle + k.route_delay
    push(k, f, port, flags, low, high)


@apart
def step(k, f, ev, cycle):
    """Every router: heads ask, outputs choose, flits pass."""
    for number in range(k.router_count):
        router = f.routers[number]
        first = router.first_port
        end = first + router.ports
        asked = False
        for port in range(first, end):
            if f.buffers[port].level > 0:
                asked = ask(k, f, cycle, router, port) or asked
        if asked:
            for output in range(first, end):
                choose(k, f, cycle, output)
        for port in range(first, end):
            if f.buffers[port].level > 0:
                send(k, f, ev, cycle, port)


@jit
def holds(f, port):
    """Whether the worm in front of an input has its output."""
    output = f.ports[port].input_out
    return output != NONE and f.buffers[output].best == port


@jit
def ask(k, f, cycle, router, port):
    """The head in front of an input, if it has no output yet, asks for one; the output notes the best that asks."""
    if f.buffers[port].switch_from > cycle:
        return False
    output = f.ports[port].input_out
    first = router.first_port
    if output == NONE:
        output = first + wanted(k, f, router, port)
        f.ports[port].input_out = output
    if f.ports[output].free_from > cycle:
        return False
    held = f.buffers[output]
    size, turn, best = router.ports, held.turn, held.best
    if best == NONE or (port - first - turn) % size < (best - first - turn) % size:
        held.best = port
    return True


@jit
def wanted(k, f, router, port):
    """Number of the output that the head in front of an input takes."""
    low = f.buffer_flits[2 * front(k, f, port)]
    destination = np.int64(low >> np.uint64(k.node_offset) & mask(k.node_bits))
    number = route(k, router, port - router.first_port, destination)
    if number != UP:
        return number
    ups = router.ports - k.arity
    if k.pinned:
        return k.arity + pinned(k, low, router.number // k.width, ups)
    router.path_draw = advance(router.path_draw)
    return k.arity + scale(router.path_draw & 0xFFFF, 16, ups)


@jit
def choose(k, f, cycle, output):
    """A free output belongs to the worm that it found best, which may pass after the delay of the choice."""
    held = f.buffers[output]
    port = held.best
    if port == NONE or f.ports[output].free_from > cycle:
        return
    f.ports[output].free_from = NEVER
    f.buffers[port].switch_from = cycle + k.grant_delay
    router = f.routers[f.ports[port].router]
    turn = port - router.first_port + 1
    held.turn = 0 if turn == router.ports else turn


@jit
def send(k, f, ev, cycle, port):
    """The flit in front of an input passes, if its worm has its output and that a credit."""
    held = f.buffers[port]
    if held.switch_from > cycle or not holds(f, port):
        return
    output = f.ports[port].input_out
    out = f.buffers[output]
    if out.credits == 0:
        return
    place = front(k, f, port)
    flags, low, high = f.buffer_flags[place], f.buffer_flits[2 * place], f.buffer_flits[2 * place + 1]
    pop(k, f, port)
    out.credits -= 1
    give_back(k, f, cycle + k.credit_delay, held.upstream)
    if flags & FIRST:
        first = f.routers[f.ports[port].router].first_port
        lane_event(k, f, ev, cycle, port, Event.FORWARD | output - first << 8)
        extend(ev, (low & HEAD_BITS) << np.uint64(16))
    let_out(k, f, cycle, output, flags, low, high)
    if flags & LAST:
        f.ports[output].free_from = cycle + 1
        out.best = NONE
        f.ports[port].input_out = NONE
        held.switch_from = cycle + 1 + k.route_delay

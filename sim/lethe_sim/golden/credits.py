"""Routers with credits (docs/studies/credits.md): wormhole switching on one virtual channel, which discards nothing.

Every input has a buffer of `CREDIT_FLITS` flits, every output as many credits for the buffer it leads to, and every
node a source queue without end between its NI and the network.  A row of ``buffers`` belongs to an input and to the
output with its number; after them, one to each source.
"""

import numpy as np

from lethe.spec.topology import UP

from .bits import mask
from .compile import jit
from .events import FORWARD, extend
from .fabric import Fabric, buffered_at, fly, let_out
from .pin import pinned
from .random import advance, scale
from .router import HEAD_BITS, lane_event
from .script import GoldenError
from .state import (
    ARITY,
    BEST,
    BUFFER_COLUMNS,
    BUFFER_HEAD,
    BUFFER_LEVEL,
    CREDIT_DELAY,
    CREDIT_FLITS,
    CREDITS,
    DEEPEST,
    DRAWS,
    FIRST,
    FIRST_PORT,
    FREE_FROM,
    GRANT_DELAY,
    INPUT_OUT,
    LAST,
    LINK_COLUMNS,
    MOST_SOURCE_FLITS,
    NEVER,
    NODE_BITS,
    NODE_OFFSET,
    NODES,
    NONE,
    OUT_LINK,
    PINNED,
    PORT_COLUMNS,
    PORT_COUNT,
    PORTS,
    RETURN_PHASES,
    ROUTE_DELAY,
    ROUTER,
    ROUTER_COLUMNS,
    ROUTER_COUNT,
    ROUTER_NUMBER,
    SOURCE_RING,
    SWITCH_FROM,
    TARGET,
    TURN,
    UPSTREAM,
    WIDTH,
)  # fmt: skip  # isort: skip
from .topology import route


def start(k: np.ndarray, fabric: Fabric) -> None:
    """Enter in the empty tables of a wired fabric who gives credits to whom, and how many."""
    ports, nodes, n = int(k[PORT_COUNT]), int(k[NODES]), int(k[CREDIT_FLITS])
    buffers = fabric.buffers.reshape(-1, BUFFER_COLUMNS)
    table = fabric.ports.reshape(-1, PORT_COLUMNS)
    targets = fabric.links.reshape(-1, LINK_COLUMNS)[:, TARGET]
    table[:, INPUT_OUT] = NONE
    buffers[:, UPSTREAM] = NONE
    buffers[:, BEST] = NONE
    buffers[:, CREDITS] = n
    buffers[targets[:nodes], UPSTREAM] = ports + np.arange(nodes)
    for output in range(ports):
        link = table[output, OUT_LINK]
        if link == NONE:
            continue
        target = targets[link]
        if target >= 0:
            buffers[target, UPSTREAM] = output
        else:
            buffers[output, CREDITS] = NEVER


def deepest(k: np.ndarray, fabric: Fabric) -> np.ndarray:
    """int64[nodes]: the most flits that have waited in each source queue."""
    return fabric.buffers.reshape(-1, BUFFER_COLUMNS)[int(k[PORT_COUNT]) :, DEEPEST].copy()


def crowded(k: np.ndarray, fabric: Fabric) -> bool:
    """Whether a source queue needs more memory before the next cycle."""
    return bool(full(k, fabric))


def grow(k: np.ndarray, fabric: Fabric) -> Fabric:
    """The fabric with twice the memory for its source queues; raises `GoldenError` if that is beyond all reason."""
    old, ports, nodes = int(k[SOURCE_RING]), int(k[PORT_COUNT]), int(k[NODES])
    if 2 * old > MOST_SOURCE_FLITS:
        raise GoldenError(
            f"router.flow: a source queue holds {old:,} flits, so the NIs repeat faster than the network carries; "
            "raise timers.slack or timers.backoff_steps"
        )
    first = ports * int(k[CREDIT_FLITS])
    flags = np.zeros(first + nodes * 2 * old, np.int64)
    flits = np.zeros(2 * len(flags), np.uint64)
    flags[:first] = fabric.buffer_flags[:first]
    flits[: 2 * first] = fabric.buffer_flits[: 2 * first]
    rows = fabric.buffers.reshape(-1, BUFFER_COLUMNS)
    for node in range(nodes):
        row = rows[ports + node]
        places = first + node * old + (row[BUFFER_HEAD] + np.arange(row[BUFFER_LEVEL])) % old
        to = first + node * 2 * old
        flags[to : to + len(places)] = fabric.buffer_flags[places]
        flits.reshape(-1, 2)[to : to + len(places)] = fabric.buffer_flits.reshape(-1, 2)[places]
        row[BUFFER_HEAD] = 0
    k[SOURCE_RING] = 2 * old
    return fabric._replace(buffer_flags=flags, buffer_flits=flits)


@jit
def full(k, f):
    """Whether the memory of a source queue might not do for another cycle."""
    return f.returning[0] >= k[SOURCE_RING]


@jit
def ring_of(k, buffer):
    """Where the flits of a buffer are, and how many there can be."""
    if buffer < k[PORT_COUNT]:
        return buffer * k[CREDIT_FLITS], k[CREDIT_FLITS]
    return k[PORT_COUNT] * k[CREDIT_FLITS] + (buffer - k[PORT_COUNT]) * k[SOURCE_RING], k[SOURCE_RING]


@jit
def push(k, f, buffer, flags, low, high):
    """Store a flit."""
    at = buffer * BUFFER_COLUMNS
    first, size = ring_of(k, buffer)
    place = f.buffers[at + BUFFER_HEAD] + f.buffers[at + BUFFER_LEVEL]
    place = first + (place - size if place >= size else place)
    f.buffers[at + BUFFER_LEVEL] += 1
    f.buffer_flags[place] = flags
    f.buffer_flits[2 * place] = low
    f.buffer_flits[2 * place + 1] = high
    f.lists[buffered_at(k)] += 1


@jit
def front(k, f, buffer):
    """Place of the oldest flit."""
    return ring_of(k, buffer)[0] + f.buffers[buffer * BUFFER_COLUMNS + BUFFER_HEAD]


@jit
def pop(k, f, buffer):
    """Take the oldest flit."""
    at = buffer * BUFFER_COLUMNS
    head = f.buffers[at + BUFFER_HEAD] + 1
    f.buffers[at + BUFFER_HEAD] = 0 if head == ring_of(k, buffer)[1] else head
    f.buffers[at + BUFFER_LEVEL] -= 1
    f.lists[buffered_at(k)] -= 1


@jit
def credits_of(k, cycle):
    """Where the credits that can be used from ``cycle`` on are listed."""
    return 1 + (cycle & (k[RETURN_PHASES] - 1)) * (k[PORT_COUNT] + 1)


@jit
def give_back(k, f, cycle, to):
    """A credit that can be used from ``cycle`` on."""
    at = credits_of(k, cycle)
    f.returning[at] += 1
    f.returning[at + f.returning[at]] = to


@jit
def take_back(k, f, cycle):
    """The credits that can be used from ``cycle`` on are used no earlier."""
    at = credits_of(k, cycle)
    for i in range(at + 1, at + f.returning[at] + 1):
        f.buffers[f.returning[i] * BUFFER_COLUMNS + CREDITS] += 1
    f.returning[at] = 0


@jit
def enqueue(k, f, node, flags, low, high):
    """A flit that a NI shows goes to its source queue."""
    source = k[PORT_COUNT] + node
    at = source * BUFFER_COLUMNS
    push(k, f, source, flags, low, high)
    level = f.buffers[at + BUFFER_LEVEL]
    if level > f.buffers[at + DEEPEST]:
        f.buffers[at + DEEPEST] = level
        f.returning[0] = max(f.returning[0], level)


@jit
def feed(k, f, cycle):
    """Every source queue sends a flit, if it has one and a credit."""
    for node in range(k[NODES]):
        source = k[PORT_COUNT] + node
        at = source * BUFFER_COLUMNS
        if f.buffers[at + BUFFER_LEVEL] > 0 and f.buffers[at + CREDITS] > 0:
            place = front(k, f, source)
            f.buffers[at + CREDITS] -= 1
            fly(k, f, cycle, node, f.buffer_flags[place], f.buffer_flits[2 * place], f.buffer_flits[2 * place + 1])
            pop(k, f, source)


@jit
def arrive(k, f, cycle, port, flags, low, high):
    """A flit is on input ``port`` in ``cycle``: it is in the buffer, for which it had a credit."""
    at = port * BUFFER_COLUMNS
    if f.buffers[at + BUFFER_LEVEL] == 0 and f.ports[port * PORT_COLUMNS + INPUT_OUT] == NONE:
        f.buffers[at + SWITCH_FROM] = cycle + k[ROUTE_DELAY]
    push(k, f, port, flags, low, high)


@jit
def step(k, f, ev, cycle):
    """Every router: heads ask, outputs choose, flits pass."""
    for router in range(k[ROUTER_COUNT]):
        row = router * ROUTER_COLUMNS
        first = f.routers[row + FIRST_PORT]
        end = first + f.routers[row + PORTS]
        asked = False
        for port in range(first, end):
            if f.buffers[port * BUFFER_COLUMNS + BUFFER_LEVEL] > 0:
                asked = ask(k, f, cycle, row, port) or asked
        if asked:
            for output in range(first, end):
                choose(k, f, cycle, output)
        for port in range(first, end):
            if f.buffers[port * BUFFER_COLUMNS + BUFFER_LEVEL] > 0:
                send(k, f, ev, cycle, router, port)


@jit
def holds(f, port):
    """Whether the worm in front of an input has its output."""
    output = f.ports[port * PORT_COLUMNS + INPUT_OUT]
    return output != NONE and f.buffers[output * BUFFER_COLUMNS + BEST] == port


@jit
def ask(k, f, cycle, row, port):
    """The head in front of an input, if it has no output yet, asks for one; the output notes the best that asks."""
    if f.buffers[port * BUFFER_COLUMNS + SWITCH_FROM] > cycle:
        return False
    output = f.ports[port * PORT_COLUMNS + INPUT_OUT]
    first = f.routers[row + FIRST_PORT]
    if output == NONE:
        output = first + wanted(k, f, row, port)
        f.ports[port * PORT_COLUMNS + INPUT_OUT] = output
    if f.ports[output * PORT_COLUMNS + FREE_FROM] > cycle:
        return False
    at = output * BUFFER_COLUMNS
    size, turn, best = f.routers[row + PORTS], f.buffers[at + TURN], f.buffers[at + BEST]
    if best == NONE or (port - first - turn) % size < (best - first - turn) % size:
        f.buffers[at + BEST] = port
    return True


@jit
def wanted(k, f, row, port):
    """Number of the output that the head in front of an input takes; the router's row is at ``row``."""
    low = f.buffer_flits[2 * front(k, f, port)]
    destination = np.int64(low >> np.uint64(k[NODE_OFFSET]) & mask(k[NODE_BITS]))
    number = route(k, f.routers, row, port - f.routers[row + FIRST_PORT], destination)
    if number != UP:
        return number
    ups = f.routers[row + PORTS] - k[ARITY]
    if k[PINNED]:
        return k[ARITY] + pinned(k, low, f.routers[row + ROUTER_NUMBER] // k[WIDTH], ups)
    f.routers[row + DRAWS] = advance(f.routers[row + DRAWS])
    return k[ARITY] + scale(f.routers[row + DRAWS] & 0xFFFF, 16, ups)


@jit
def choose(k, f, cycle, output):
    """A free output belongs to the worm that it found best, which may pass after the delay of the choice."""
    at = output * BUFFER_COLUMNS
    port = f.buffers[at + BEST]
    if port == NONE or f.ports[output * PORT_COLUMNS + FREE_FROM] > cycle:
        return
    f.ports[output * PORT_COLUMNS + FREE_FROM] = NEVER
    f.buffers[port * BUFFER_COLUMNS + SWITCH_FROM] = cycle + k[GRANT_DELAY]
    router = f.ports[port * PORT_COLUMNS + ROUTER] * ROUTER_COLUMNS
    turn = port - f.routers[router + FIRST_PORT] + 1
    f.buffers[at + TURN] = 0 if turn == f.routers[router + PORTS] else turn


@jit
def send(k, f, ev, cycle, router, port):
    """The flit in front of an input passes, if its worm has its output and that a credit."""
    at = port * BUFFER_COLUMNS
    if f.buffers[at + SWITCH_FROM] > cycle or not holds(f, port):
        return
    output = f.ports[port * PORT_COLUMNS + INPUT_OUT]
    out = output * BUFFER_COLUMNS
    if f.buffers[out + CREDITS] == 0:
        return
    place = front(k, f, port)
    flags, low, high = f.buffer_flags[place], f.buffer_flits[2 * place], f.buffer_flits[2 * place + 1]
    pop(k, f, port)
    f.buffers[out + CREDITS] -= 1
    give_back(k, f, cycle + k[CREDIT_DELAY], f.buffers[at + UPSTREAM])
    if flags & FIRST:
        first = f.routers[router * ROUTER_COLUMNS + FIRST_PORT]
        lane_event(k, f, ev, cycle, port, FORWARD | output - first << 8)
        extend(ev, (low & HEAD_BITS) << np.uint64(16))
    let_out(k, f, cycle, output, flags, low, high)
    if flags & LAST:
        f.ports[output * PORT_COLUMNS + FREE_FROM] = cycle + 1
        f.buffers[out + BEST] = NONE
        f.ports[port * PORT_COLUMNS + INPUT_OUT] = NONE
        f.buffers[at + SWITCH_FROM] = cycle + 1 + k[ROUTE_DELAY]

"""The router (section 3): discarding whole worms by their heads, at once or, with input queues, when they are full.

Inputs with a flit are handled as they come; heads wait until all of them are known, then each router that
has any decides.  Outputs remember from when they are free, so the order within a cycle does not matter.
"""

import numpy as np

from lethe.spec.events import Event
from lethe.spec.topology import NOWHERE, UP

from . import input_queue
from .bits import mask
from .compile import jit
from .events import emit, extend
from .fabric import let_out, list_at
from .pin import pinned
from .random import advance, scale
from .state import (
    ARITY,
    ASKS,
    BLIND,
    DILATION,
    DRAWS,
    EXTRA_FRAGMENTS,
    FIRST,
    FIRST_PORT,
    FREE_FROM,
    FREE_PATH,
    INPUT_COUNT,
    INPUT_FLAGS,
    INPUT_HEARD,
    INPUT_MODE,
    INPUT_OUT,
    INPUT_WORMS,
    LAST,
    MAX_FLITS,
    NEVER,
    NODE_BITS,
    NODE_OFFSET,
    NODES,
    PATH,
    PATIENCE,
    PLACE,
    PORT_COLUMNS,
    PORTS,
    QUEUE_COLUMNS,
    ROUTER,
    ROUTER_COLUMNS,
    ROUTER_NUMBER,
    TAG_FLITS,
    TAG_FLITS_MASK,
    WANTED,
    WHOLE,
    WIDTH,
)  # fmt: skip  # isort: skip
from .topology import route

_FORWARD, _BUSY, _CONTENTION = int(Event.FORWARD), int(Event.DISCARD_BUSY), int(Event.DISCARD_CONTENTION)
_UP, _ROUTE = int(Event.DISCARD_UP), int(Event.DISCARD_ROUTE)
_STRAY, _FRAGMENT, _OVERLONG = int(Event.STRAY), int(Event.FRAGMENT), int(Event.OVERLONG)
# Modes of an input.
IDLE, FORWARDING, SWALLOW = range(3)
HEAD_BITS = np.uint64((1 << 48) - 1)


@jit
def lane_event(k, f, ev, cycle, port, event):
    """Show an event of an input."""
    router = f.ports[port * PORT_COLUMNS + ROUTER]
    emit(ev, cycle, k[NODES] + router, port - f.routers[router * ROUTER_COLUMNS + FIRST_PORT], event, 0)


@jit
def release(f, cycle, at):
    """Free the output that the input whose row is at ``at`` holds, from the next cycle on."""
    f.ports[f.ports[at + INPUT_OUT] * PORT_COLUMNS + FREE_FROM] = cycle + 1


@jit
def arrive_head(k, f, port, flags, low, high):
    """A head is on input ``port``; it waits until all are known."""
    f.ports[port * PORT_COLUMNS + INPUT_FLAGS] = flags
    f.port_flit[2 * port] = low
    f.port_flit[2 * port + 1] = high
    add_head(k, f, f.ports[port * PORT_COLUMNS + ROUTER], port)


@jit
def arrive(k, f, ev, cycle, port, flags, low, high):
    """A flit is on input ``port`` in ``cycle``."""
    if k[WHOLE]:
        arrive_head(k, f, port, flags, low, high)
    elif k[INPUT_WORMS] == 0 or input_queue.lets_by(k, f, ev, cycle, port, flags, low, high):
        present(k, f, ev, cycle, port, flags, low, high)


@jit
def enlist(k, f, cycle, port):
    """Have a look at an input in the next cycle."""
    heard = list_at(k, cycle & 1)
    f.lists[heard] += 1
    f.lists[heard + f.lists[heard]] = port


@jit
def present(k, f, ev, cycle, port, flags, low, high):
    """A flit is presented to the front of input ``port`` (without queues: has arrived there) in ``cycle``."""
    ports, at = f.ports, port * PORT_COLUMNS
    enlist(k, f, cycle, port)
    ports[at + INPUT_HEARD] = cycle
    mode = ports[at + INPUT_MODE]
    if flags & FIRST:
        if mode == FORWARDING:
            release(f, cycle, at)
            f.routers[ports[at + ROUTER] * ROUTER_COLUMNS + EXTRA_FRAGMENTS] += 1
            ports[at + INPUT_MODE] = IDLE
        arrive_head(k, f, port, flags, low, high)
    elif mode == FORWARDING:
        let_out(k, f, cycle, ports[at + INPUT_OUT], flags, low, high)
        ports[at + INPUT_COUNT] += 1
        if flags & LAST:
            release(f, cycle, at)
            ports[at + INPUT_MODE] = IDLE
        elif ports[at + INPUT_COUNT] == k[MAX_FLITS]:
            lane_event(k, f, ev, cycle, port, _OVERLONG)
            release(f, cycle, at)
            ports[at + INPUT_MODE] = SWALLOW
    elif mode == SWALLOW:
        if flags & LAST:
            ports[at + INPUT_MODE] = IDLE
    else:
        lane_event(k, f, ev, cycle, port, _STRAY)


@jit
def heads_at(f, router):
    """Where a router's heads are listed."""
    return f.routers[router * ROUTER_COLUMNS + FIRST_PORT] + router


@jit
def add_head(k, f, router, port):
    """Note a head of a router, in input order."""
    at = heads_at(f, router)
    n = f.heads[at]
    if n == 0:
        routers = list_at(k, 2)
        f.lists[routers] += 1
        f.lists[routers + f.lists[routers]] = router
    place = at + n + 1
    while place > at + 1 and f.heads[place - 1] > port:
        f.heads[place] = f.heads[place - 1]
        place -= 1
    f.heads[place] = port
    f.heads[at] = n + 1


@jit
def gaps(k, f, ev, cycle):
    """Inputs that had a flit in the cycle before: what their queues show now; without a flit their worms have ended."""
    before = list_at(k, cycle & 1 ^ 1)
    ports = f.ports
    for i in range(before + 1, before + f.lists[before] + 1):
        port = f.lists[i]
        at = port * PORT_COLUMNS
        if k[INPUT_WORMS] and not input_queue.empty(f, port):
            if input_queue.shows(f, cycle, port):
                present_oldest(k, f, ev, cycle, port)
                continue
            enlist(k, f, cycle, port)
        if ports[at + INPUT_MODE] != IDLE and ports[at + INPUT_HEARD] != cycle:
            if ports[at + INPUT_MODE] == FORWARDING:
                release(f, cycle, at)
                lane_event(k, f, ev, cycle, port, _FRAGMENT)
            ports[at + INPUT_MODE] = IDLE
    f.lists[before] = 0


@jit
def present_oldest(k, f, ev, cycle, port):
    """The flit in the output register of an input's queue is presented; a head stays there until it is decided."""
    place = input_queue.oldest(k, f, port)
    flags, low, high = f.queue_flags[place], f.queue_flits[2 * place], f.queue_flits[2 * place + 1]
    if flags & FIRST == 0:
        input_queue.pop(k, f, cycle, port)
    present(k, f, ev, cycle, port, flags, low, high)


@jit
def decide_all(k, f, ev, cycle):
    """Every router with a head decides."""
    routers = list_at(k, 2)
    for i in range(routers + 1, routers + f.lists[routers] + 1):
        router = f.lists[i]
        decide(k, f, ev, cycle, router)
        f.heads[heads_at(f, router)] = 0
    f.lists[routers] = 0


@jit
def decide(k, f, ev, cycle, router):
    """What becomes of the heads of one router."""
    row = router * ROUTER_COLUMNS
    first = f.routers[row + FIRST_PORT]
    at = heads_at(f, router)
    count = f.heads[at]
    wanted = False
    climbing = False
    for i in range(at + 1, at + count + 1):
        port = f.heads[i]
        ask = asks_for(k, f, row, port)
        f.ports[port * PORT_COLUMNS + ASKS] = ask
        wanted = wanted or ask != NOWHERE
        climbing = climbing or ask == UP
    if wanted:
        f.routers[row + DRAWS] = advance(f.routers[row + DRAWS])
    draw = f.routers[row + DRAWS]
    if climbing and k[PATH] != FREE_PATH:
        choose_paths(k, f, router)
    elif climbing:
        up = k[ARITY] * k[DILATION]
        spread(k, f, ev, cycle, router, draw, UP, up, f.routers[row + PORTS] - up)
    for i in range(at + 1, at + count + 1):
        port = f.heads[i]
        ask = f.ports[port * PORT_COLUMNS + ASKS]
        if ask == NOWHERE:
            discard(k, f, ev, cycle, port, _ROUTE)
        elif ask >= 0:
            if k[DILATION] > 1 and is_bundle(k, f, row, ask):
                spread(k, f, ev, cycle, router, draw, ask, ask, k[DILATION])
            elif f.ports[(first + ask) * PORT_COLUMNS + FREE_FROM] > cycle:
                refuse(k, f, ev, cycle, port, _BUSY)
            else:
                contend(k, f, ev, cycle, first, ask, i, at + count + 1, draw)


@jit
def asks_for(k, f, row, port):
    """The output that a head asks for, `UP` or `NOWHERE`; the router's row is at ``row``."""
    if k[INPUT_WORMS] and f.queues[port * QUEUE_COLUMNS + PATIENCE] > 0:
        return f.queues[port * QUEUE_COLUMNS + WANTED]
    low = f.port_flit[2 * port]
    destination = np.int64(low >> np.uint64(k[NODE_OFFSET]) & mask(k[NODE_BITS]))
    ask = route(k, f.routers, row, port - f.routers[row + FIRST_PORT], destination)
    if k[INPUT_WORMS]:
        if ask == UP:
            ask = pinned_port(k, f, row, low)
        f.queues[port * QUEUE_COLUMNS + WANTED] = ask
    return ask


@jit
def pinned_port(k, f, row, low):
    """The up-port that is pinned to the key in the low bits of a head."""
    first = k[ARITY] * k[DILATION]
    level = f.routers[row + ROUTER_NUMBER] // k[WIDTH]
    return first + pinned(k, low, level, f.routers[row + PORTS] - first)


@jit
def choose_paths(k, f, router):
    """Each head that asks for "up" asks for one up-port, drawn or pinned, whether it is free or not."""
    row, at = router * ROUTER_COLUMNS, heads_at(f, router)
    first = k[ARITY] * k[DILATION]
    for i in range(at + 1, at + f.heads[at] + 1):
        port = f.heads[i]
        if f.ports[port * PORT_COLUMNS + ASKS] != UP:
            continue
        if k[PATH] == BLIND:
            f.routers[row + DRAWS] = advance(f.routers[row + DRAWS])
            chosen = first + scale(f.routers[row + DRAWS] & 0xFFFF, 16, f.routers[row + PORTS] - first)
        else:
            chosen = pinned_port(k, f, row, f.port_flit[2 * port])
        f.ports[port * PORT_COLUMNS + ASKS] = chosen


@jit
def is_bundle(k, f, row, ask):
    """Whether a route, with dilation, is a direction of parallel links: it leads to a router, and is no up-port."""
    return ask < k[ARITY] * k[DILATION] and f.routers[row + PLACE] > 1


@jit
def contend(k, f, ev, cycle, first, ask, begin, end, draw):
    """Decide for all heads that ask for a free output; the first of them is at ``begin`` of the list."""
    contenders = 0
    for i in range(begin, end):
        contenders += f.ports[f.heads[i] * PORT_COLUMNS + ASKS] == ask
    winner = scale(draw & 0xFF, 8, contenders)
    n = 0
    for i in range(begin, end):
        port = f.heads[i]
        if f.ports[port * PORT_COLUMNS + ASKS] == ask:
            f.ports[port * PORT_COLUMNS + ASKS] = UP  # settled
            if n == winner:
                forward(k, f, ev, cycle, port, first + ask, ask)
            else:
                refuse(k, f, ev, cycle, port, _CONTENTION)
            n += 1


@jit
def spread(k, f, ev, cycle, router, draw, ask, base, links):
    """Heads that may leave on any of some outputs: the rotated j-th head takes the rotated j-th that is free.

    The outputs are ``links`` from number ``base`` on, for the heads that ask for ``ask``.
    """
    first, ports = f.routers[router * ROUTER_COLUMNS + FIRST_PORT], f.routers[router * ROUTER_COLUMNS + PORTS]
    at = heads_at(f, router)
    count = f.heads[at]
    start = first + scale(draw >> 8 & 0xFF, 8, ports)
    turn = scale(draw >> 16 & 0xFF, 8, links)
    begin = 1
    while begin <= count and f.heads[at + begin] < start:
        begin += 1
    tried, refused = 0, _UP if ask == UP else _BUSY
    for i in range(begin, begin + count):
        port = f.heads[at + (i - count if i > count else i)]
        if f.ports[port * PORT_COLUMNS + ASKS] != ask:
            continue
        f.ports[port * PORT_COLUMNS + ASKS] = UP  # settled
        output = -1
        while tried < links and output < 0:
            one = turn + tried
            one = first + base + (one - links if one >= links else one)
            if f.ports[one * PORT_COLUMNS + FREE_FROM] <= cycle:
                output = one
            tried += 1
        if output < 0:
            discard(k, f, ev, cycle, port, refused)
        else:
            forward(k, f, ev, cycle, port, output, output - first)
            refused = _UP if ask == UP else _CONTENTION


@jit
def head_event(k, f, ev, cycle, port, event):
    """Show the fate of a head, with its low data bits."""
    lane_event(k, f, ev, cycle, port, event)
    extend(ev, (f.port_flit[2 * port] & HEAD_BITS) << np.uint64(16))


@jit
def refuse(k, f, ev, cycle, port, event):
    """A head does not get its output: it stays if it has a queue and patience, else it is discarded."""
    if k[INPUT_WORMS] and input_queue.patient(k, f, port):
        low, high = f.port_flit[2 * port], f.port_flit[2 * port + 1]
        input_queue.keep(k, f, cycle, port, f.ports[port * PORT_COLUMNS + INPUT_FLAGS], low, high)
    else:
        discard(k, f, ev, cycle, port, event)


@jit
def take(k, f, cycle, port):
    """A head is decided on and leaves its queue, if it was there."""
    if k[INPUT_WORMS] and not input_queue.empty(f, port):
        input_queue.pop(k, f, cycle, port)


@jit
def discard(k, f, ev, cycle, port, event):
    """A head, and with it its worm, vanishes."""
    head_event(k, f, ev, cycle, port, event)
    take(k, f, cycle, port)
    at = port * PORT_COLUMNS
    f.ports[at + INPUT_MODE] = IDLE if f.ports[at + INPUT_FLAGS] & LAST else SWALLOW


@jit
def forward(k, f, ev, cycle, port, output, number):
    """A head passes output ``number`` of its router."""
    head_event(k, f, ev, cycle, port, _FORWARD | number << 8)
    take(k, f, cycle, port)
    ports, at = f.ports, port * PORT_COLUMNS
    flags = ports[at + INPUT_FLAGS]
    let_out(k, f, cycle, output, flags, f.port_flit[2 * port], f.port_flit[2 * port + 1])
    if k[WHOLE]:
        ports[output * PORT_COLUMNS + FREE_FROM] = cycle + (flags >> TAG_FLITS & TAG_FLITS_MASK)
    elif flags & LAST:
        ports[at + INPUT_MODE] = IDLE
        ports[output * PORT_COLUMNS + FREE_FROM] = cycle + 1
    else:
        ports[at + INPUT_MODE] = FORWARDING
        ports[at + INPUT_COUNT] = 1
        ports[at + INPUT_OUT] = output
        ports[output * PORT_COLUMNS + FREE_FROM] = NEVER

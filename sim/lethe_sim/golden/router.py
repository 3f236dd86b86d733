"""The router (section 3): bufferless, discarding whole worms by their heads.

Inputs with a flit are handled as they come; heads wait until all of them are known, then each router that
has any decides.  Outputs remember from when they are free, so the order within a cycle does not matter.
"""

import numpy as np
from lethe.spec.events import Event
from lethe.spec.topology import NOWHERE, UP

from .bits import mask
from .compile import jit
from .events import emit, extend
from .fabric import (
    FORWARDING, FREE_FROM, HEARD, IDLE, INPUT_COUNT, INPUT_FLAGS, INPUT_HEARD, INPUT_MODE, INPUT_OUT, ROUTERS, SWALLOW,
    let_out,
)  # fmt: skip
from .random import advance, scale
from .state import ARITY, FIRST, LAST, MAX_FLITS, NEVER, NODE_BITS, NODE_OFFSET, NODES, TOPOLOGY, TREE
from .topology import route

_FORWARD, _BUSY, _CONTENTION = int(Event.FORWARD), int(Event.DISCARD_BUSY), int(Event.DISCARD_CONTENTION)
_UP, _ROUTE = int(Event.DISCARD_UP), int(Event.DISCARD_ROUTE)
_STRAY, _FRAGMENT, _OVERLONG = int(Event.STRAY), int(Event.FRAGMENT), int(Event.OVERLONG)
HEAD_BITS = np.uint64((1 << 48) - 1)


@jit
def lane_event(k, f, ev, cycle, port, event):
    """Show an event of an input."""
    router = f.port_router[port]
    emit(ev, cycle, k[NODES] + router, port - f.router_first[router], event, 0)


@jit
def release(f, cycle, port):
    """Free the output that an input holds, from the next cycle on."""
    f.state[f.state[port, INPUT_OUT], FREE_FROM] = cycle + 1


@jit
def arrive(k, f, ev, cycle, port, flags, low, high):
    """A flit is on input ``port`` in ``cycle``."""
    state = f.state
    heard = f.lists[HEARD + (cycle & 1)]
    heard[0] += 1
    heard[heard[0]] = port
    state[port, INPUT_HEARD] = cycle
    mode = state[port, INPUT_MODE]
    if flags & FIRST:
        router = f.port_router[port]
        if mode == FORWARDING:
            release(f, cycle, port)
            f.extra_fragments[router] += 1
        state[port, INPUT_FLAGS] = flags
        f.port_flit[port, 0], f.port_flit[port, 1] = low, high
        add_head(f, router, port)
    elif mode == FORWARDING:
        let_out(k, f, cycle, state[port, INPUT_OUT], flags, low, high)
        state[port, INPUT_COUNT] += 1
        if flags & LAST:
            release(f, cycle, port)
            state[port, INPUT_MODE] = IDLE
        elif state[port, INPUT_COUNT] == k[MAX_FLITS]:
            lane_event(k, f, ev, cycle, port, _OVERLONG)
            release(f, cycle, port)
            state[port, INPUT_MODE] = SWALLOW
    elif mode == SWALLOW:
        if flags & LAST:
            state[port, INPUT_MODE] = IDLE
    else:
        lane_event(k, f, ev, cycle, port, _STRAY)


@jit
def add_head(f, router, port):
    """Note a head of a router, in input order."""
    at = f.router_first[router] + router
    n = f.heads[at]
    if n == 0:
        routers = f.lists[ROUTERS]
        routers[0] += 1
        routers[routers[0]] = router
    place = at + n + 1
    while place > at + 1 and f.heads[place - 1] > port:
        f.heads[place] = f.heads[place - 1]
        place -= 1
    f.heads[place] = port
    f.heads[at] = n + 1


@jit
def gaps(k, f, ev, cycle):
    """Inputs that had a flit in the cycle before and have none now: their worms have ended."""
    before = f.lists[HEARD + (cycle & 1 ^ 1)]
    state = f.state
    for i in range(1, before[0] + 1):
        port = before[i]
        if state[port, INPUT_HEARD] != cycle and state[port, INPUT_MODE] != IDLE:
            if state[port, INPUT_MODE] == FORWARDING:
                release(f, cycle, port)
                lane_event(k, f, ev, cycle, port, _FRAGMENT)
            state[port, INPUT_MODE] = IDLE
    before[0] = 0


@jit
def decide_all(k, f, ev, cycle):
    """Every router with a head decides."""
    routers = f.lists[ROUTERS]
    for i in range(1, routers[0] + 1):
        router = routers[i]
        decide(k, f, ev, cycle, router)
        f.heads[f.router_first[router] + router] = 0
    routers[0] = 0


@jit
def decide(k, f, ev, cycle, router):
    """What becomes of the heads of one router."""
    first = f.router_first[router]
    at = first + router
    count = f.heads[at]
    number = f.router_number[router]
    wanted = False
    climbing = False
    for i in range(1, count + 1):
        port = f.heads[at + i]
        destination = np.int64(f.port_flit[port, 0] >> np.uint64(k[NODE_OFFSET]) & mask(k[NODE_BITS]))
        ask = route(k, number, port - first, destination)
        f.asks[port] = ask
        wanted = wanted or ask != NOWHERE
        climbing = climbing or ask == UP
    if not wanted:
        for i in range(1, count + 1):
            discard(k, f, ev, cycle, f.heads[at + i], _ROUTE)
        return
    draw = advance(f.random[router])
    f.random[router] = draw
    if climbing:
        climb(k, f, ev, cycle, router, draw)
    for i in range(1, count + 1):
        port = f.heads[at + i]
        ask = f.asks[port]
        if ask == NOWHERE:
            discard(k, f, ev, cycle, port, _ROUTE)
        elif ask >= 0:
            if f.state[first + ask, FREE_FROM] > cycle:
                discard(k, f, ev, cycle, port, _BUSY)
            else:
                contend(k, f, ev, cycle, at, i, count, draw)


@jit
def contend(k, f, ev, cycle, at, i, count, draw):
    """The first of the heads that ask for a free output: decide for all of them."""
    ask = f.asks[f.heads[at + i]]
    contenders = 1
    for j in range(i + 1, count + 1):
        contenders += f.asks[f.heads[at + j]] == ask
    winner = scale(draw & 0xFF, 8, contenders)
    output = f.router_first[f.port_router[f.heads[at + i]]] + ask
    n = 0
    for j in range(i, count + 1):
        port = f.heads[at + j]
        if f.asks[port] == ask:
            if n == winner:
                forward(k, f, ev, cycle, port, output, ask)
            else:
                discard(k, f, ev, cycle, port, _CONTENTION)
            f.asks[port] = UP  # settled
            n += 1


@jit
def climb(k, f, ev, cycle, router, draw):
    """Heads that may leave on any up-port: the rotated j-th takes the rotated j-th free port."""
    first, past = f.router_first[router], f.router_first[router + 1]
    at = first + router
    count, ports = f.heads[at], past - first
    ups = ports - k[ARITY] if k[TOPOLOGY] == TREE else 0
    start = first + scale(draw >> 8 & 0xFF, 8, ports)
    turn = scale(draw >> 16 & 0xFF, 8, ups)
    tried = 0
    begin = 1
    while begin <= count and f.heads[at + begin] < start:
        begin += 1
    for i in range(count):
        place = begin + i
        if place > count:
            place -= count
        port = f.heads[at + place]
        if f.asks[port] != UP:
            continue
        output = -1
        while tried < ups and output < 0:
            up = turn + tried
            if up >= ups:
                up -= ups
            if f.state[first + k[ARITY] + up, FREE_FROM] <= cycle:
                output = first + k[ARITY] + up
            tried += 1
        if output < 0:
            discard(k, f, ev, cycle, port, _UP)
        else:
            forward(k, f, ev, cycle, port, output, output - first)


@jit
def head_event(k, f, ev, cycle, port, event):
    """Show the fate of a head, with its low data bits."""
    lane_event(k, f, ev, cycle, port, event)
    extend(ev, (f.port_flit[port, 0] & HEAD_BITS) << np.uint64(16))


@jit
def discard(k, f, ev, cycle, port, event):
    """A head, and with it its worm, vanishes."""
    head_event(k, f, ev, cycle, port, event)
    f.state[port, INPUT_MODE] = IDLE if f.state[port, INPUT_FLAGS] & LAST else SWALLOW


@jit
def forward(k, f, ev, cycle, port, output, number):
    """A head passes output ``number`` of its router."""
    head_event(k, f, ev, cycle, port, _FORWARD | number << 8)
    state = f.state
    flags = state[port, INPUT_FLAGS]
    let_out(k, f, cycle, output, flags, f.port_flit[port, 0], f.port_flit[port, 1])
    if flags & LAST:
        state[port, INPUT_MODE] = IDLE
        state[output, FREE_FROM] = cycle + 1
    else:
        state[port, INPUT_MODE] = FORWARDING
        state[port, INPUT_COUNT] = 1
        state[port, INPUT_OUT] = output
        state[output, FREE_FROM] = NEVER

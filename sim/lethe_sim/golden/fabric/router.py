"""The router (section 3): discarding whole worms by their heads, at once, or when queues or the pool are full.

Inputs with a flit are handled as they come; heads wait until all of them are known, then each router that
has any decides.  Outputs remember from when they are free, so the order within a cycle does not matter.
"""

import numpy as np

from lethe.spec.events import Event
from lethe.spec.topology import NOWHERE, UP
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, fate
from lethe_sim.golden.fabric import input_queue, pool
from lethe_sim.golden.fabric.fabric import draw_of, heads_at, let_out, list_at
from lethe_sim.golden.fabric.pin import pinned_port
from lethe_sim.golden.fabric.topology import route
from lethe_sim.golden.lib.bits import mask
from lethe_sim.golden.lib.random import all_bits
from lethe_sim.golden.state import FIRST, FREE_PATH, LAST, NEVER, TAG_FLITS, TAG_FLITS_MASK
from lethe_sim.golden.study import paths

# Modes of an input.
IDLE, FORWARDING, SWALLOW, STORE = range(4)
#: What a head asks for that is to enter the pool.
REFUSED = min(NOWHERE, UP) - 1


@jit
def lane_event(k, f, ev, cycle, port, event):
    """Show an event of an input."""
    number = f.ports[port].router
    emit(ev, cycle, k.nodes + number, port - f.routers[number].first_port, event, 0)


@jit
def release(f, cycle, front):
    """Free the output that an input holds, from the next cycle on."""
    f.ports[front.input_out].free_from = cycle + 1


@jit
def arrive_head(k, f, port, flags, low, high):
    """A head is on input ``port``; it waits until all are known."""
    f.ports[port].input_flags = flags
    f.port_flit[2 * port] = low
    f.port_flit[2 * port + 1] = high
    add_head(k, f, f.ports[port].router, port)


@jit
def arrive(k, f, ev, cycle, port, flags, low, high):
    """A flit is on input ``port`` in ``cycle``."""
    if k.whole:
        arrive_head(k, f, port, flags, low, high)
    elif k.input_worms == 0 or input_queue.lets_by(k, f, ev, cycle, port, flags, low, high):
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
    front = f.ports[port]
    enlist(k, f, cycle, port)
    front.input_heard = cycle
    mode = front.input_mode
    if flags & FIRST:
        if mode == FORWARDING:
            release(f, cycle, front)
            f.routers[front.router].extra_fragments += 1
            front.input_mode = IDLE
        arrive_head(k, f, port, flags, low, high)
    elif mode == FORWARDING:
        let_out(k, f, cycle, front.input_out, flags, low, high)
        front.input_count += 1
        if flags & LAST:
            release(f, cycle, front)
            front.input_mode = IDLE
        elif front.input_count == k.max_flits:
            lane_event(k, f, ev, cycle, port, Event.OVERLONG)
            release(f, cycle, front)
            front.input_mode = SWALLOW
    elif mode == STORE:
        written = pool.write(k, f, front.input_out, flags, low, high)
        if flags & LAST:
            front.input_mode = IDLE
        elif written == k.max_flits:
            front.input_mode = SWALLOW
    elif mode == SWALLOW:
        if flags & LAST:
            front.input_mode = IDLE
    else:
        lane_event(k, f, ev, cycle, port, Event.STRAY)


@jit
def add_head(k, f, number, port):
    """Note a head of router ``number``, in input order."""
    at = heads_at(f, number)
    n = f.heads[at]
    if n == 0:
        routers = list_at(k, 2)
        f.lists[routers] += 1
        f.lists[routers + f.lists[routers]] = number
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
    for i in range(before + 1, before + f.lists[before] + 1):
        port = f.lists[i]
        front = f.ports[port]
        if k.input_worms and not input_queue.empty(f, port):
            if input_queue.shows(f, cycle, port):
                present_oldest(k, f, ev, cycle, port)
                continue
            enlist(k, f, cycle, port)
        if front.input_mode != IDLE and front.input_heard != cycle:
            if front.input_mode == FORWARDING:
                release(f, cycle, front)
                lane_event(k, f, ev, cycle, port, Event.FRAGMENT)
            front.input_mode = IDLE
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
    """Worms leave the pools, and every router with a head decides."""
    if k.pool:
        pool.leave_all(k, f, ev, cycle)
    routers = list_at(k, 2)
    for i in range(routers + 1, routers + f.lists[routers] + 1):
        number = f.lists[i]
        decide(k, f, ev, cycle, number)
        f.heads[heads_at(f, number)] = 0
    f.lists[routers] = 0


@jit
def decide(k, f, ev, cycle, number):
    """What becomes of the heads of one router."""
    router = f.routers[number]
    first = router.first_port
    at = heads_at(f, number)
    count = f.heads[at]
    climbing = 0
    for i in range(at + 1, at + count + 1):
        port = f.heads[i]
        ask = asks_for(k, f, router, port)
        f.ports[port].asks = ask
        climbing += ask == UP
    if climbing and k.path != FREE_PATH:
        paths.choose(k, f, number)
    elif climbing:  # of heads that ask for one up-port each there are none
        up = k.arity * k.dilation
        spread(k, f, ev, cycle, number, climbing, UP, up, router.ports - up)
    for i in range(at + 1, at + count + 1):
        port = f.heads[i]
        ask = f.ports[port].asks
        if ask == NOWHERE:
            discard(k, f, ev, cycle, port, Event.DISCARD_ROUTE)
        elif ask >= 0:
            if k.dilation > 1 and paths.is_bundle(k, router, ask):
                spread(k, f, ev, cycle, number, asking(f, at, ask), ask, ask, k.dilation)
            elif f.ports[first + ask].free_from > cycle or (k.pool and pool.is_taken(k, f, cycle, number, ask)):
                refuse(k, f, ev, cycle, port, Event.DISCARD_BUSY)
            else:
                contend(k, f, ev, cycle, router, ask, i, at + count + 1)
    if k.pool:
        store(k, f, ev, cycle, number)


@jit
def store(k, f, ev, cycle, number):
    """The heads that did not get their outputs enter the pool, in a drawn order, or are discarded if it is full."""
    router = f.routers[number]
    first, at = router.first_port, heads_at(f, number)
    port, turn = next_head(f, at, first, REFUSED, 0, -1), 0
    if port >= 0:
        turn = draw_of(f, router, cycle) & 0xFF & all_bits(router.ports)
        port = next_head(f, at, first, REFUSED, turn, -1)
    while port >= 0:
        buffer, front = pool.find_free(k, f, cycle, number), f.ports[port]
        if front.wanted != UP:
            pool.refuse(cycle, front, front.wanted)
        if buffer < 0:
            discard(k, f, ev, cycle, port, Event.DISCARD_FULL)
        else:
            flags, low, high = front.input_flags, f.port_flit[2 * port], f.port_flit[2 * port + 1]
            pool.enter(k, f, cycle, number, buffer, front.wanted, flags, low, high)
            front.input_mode = IDLE if flags & LAST else STORE
            front.input_out = buffer
        port = next_head(f, at, first, REFUSED, turn, (port - first) ^ turn)


@jit
def asks_for(k, f, router, port):
    """The output that a head asks for, `UP` or `NOWHERE`."""
    if k.input_worms and f.queues[port].patience > 0:
        return f.queues[port].wanted
    low = f.port_flit[2 * port]
    destination = np.int64(low >> np.uint64(k.node_offset) & mask(k.node_bits))
    ask = route(k, router, port - router.first_port, destination)
    if k.input_worms:
        if ask == UP:
            ask = pinned_port(k, router, low)
        f.queues[port].wanted = ask
    elif ask == UP and ((k.pool and not k.climbs_freely) or k.path_bits > 0):
        ask = pinned_port(k, router, low)
    if k.pool:
        f.ports[port].wanted = ask
    return ask


@jit
def contend(k, f, ev, cycle, router, ask, begin, end):
    """Decide for all heads that ask for a free output; the first of them is at ``begin`` of the list."""
    first = router.first_port
    winner = f.heads[begin]
    alone = True
    for i in range(begin + 1, end):
        alone = alone and f.ports[f.heads[i]].asks != ask
    if not alone:
        turn = draw_of(f, router, cycle) & 0xFF & all_bits(router.ports)
        for i in range(begin + 1, end):
            port = f.heads[i]
            if f.ports[port].asks == ask and (port - first) ^ turn < (winner - first) ^ turn:
                winner = port
    for i in range(begin, end):
        port = f.heads[i]
        if f.ports[port].asks == ask:
            f.ports[port].asks = UP  # settled
            if port == winner and (k.pool == 0 or not pool.is_behind(cycle, f.ports[port], ask)):
                forward(k, f, ev, cycle, port, first + ask, ask)
            else:
                refuse(k, f, ev, cycle, port, Event.DISCARD_CONTENTION)


@jit
def asking(f, at, ask):
    """How many heads ask for ``ask``."""
    found = 0
    for i in range(at + 1, at + f.heads[at] + 1):
        found += f.ports[f.heads[i]].asks == ask
    return found


@jit
def spread(k, f, ev, cycle, number, heads, ask, base, links):
    """Heads that may leave on any of some outputs: the j-th head in a drawn order takes the j-th that is free.

    The outputs are ``links`` from number ``base`` on, for the ``heads`` heads that ask for ``ask``.
    """
    router = f.routers[number]
    first, at, draw = router.first_port, heads_at(f, number), draw_of(f, router, cycle)
    head_turn = draw >> 8 & 0xFF & all_bits(router.ports)
    link_turn = draw >> 16 & 0xFF & all_bits(links)
    places = all_bits(links) + 1
    waited = k.pool > 0 and pool.is_taken(k, f, cycle, number, UP)
    tried, refused = 0, Event.DISCARD_UP if ask == UP else Event.DISCARD_BUSY
    settled = -1
    for _ in range(heads):
        port = next_head(f, at, first, ask, head_turn, settled)
        settled = (port - first) ^ head_turn
        f.ports[port].asks = UP  # settled
        output = -1
        while tried < places and output < 0:
            one = tried ^ link_turn
            if one < links and f.ports[first + base + one].free_from <= cycle and not waited:
                output = first + base + one
            tried += 1
        if output < 0:
            refuse(k, f, ev, cycle, port, refused)
        else:
            forward(k, f, ev, cycle, port, output, output - first)
            refused = Event.DISCARD_UP if ask == UP else Event.DISCARD_CONTENTION


@jit
def next_head(f, at, first, ask, turn, settled):
    """Of the heads that ask for ``ask`` the next in the order of input ^ ``turn``, behind ``settled``; −1: none."""
    found = -1
    for i in range(at + 1, at + f.heads[at] + 1):
        port = f.heads[i]
        place = (port - first) ^ turn
        if f.ports[port].asks == ask and place > settled and (found < 0 or place < (found - first) ^ turn):
            found = port
    return found


@jit
def refuse(k, f, ev, cycle, port, event):
    """A head does not get its output: it may enter the pool, stays in its queue if it has patience, or is discarded."""
    if k.pool:
        f.ports[port].asks = REFUSED
        return
    if k.input_worms and input_queue.patient(k, f, port):
        low, high = f.port_flit[2 * port], f.port_flit[2 * port + 1]
        input_queue.keep(k, f, cycle, port, f.ports[port].input_flags, low, high)
    else:
        discard(k, f, ev, cycle, port, event)


@jit
def take(k, f, cycle, port):
    """A head is decided on and leaves its queue, if it was there."""
    if k.input_worms and not input_queue.empty(f, port):
        input_queue.pop(k, f, cycle, port)


@jit
def discard(k, f, ev, cycle, port, event):
    """A head, and with it its worm, vanishes."""
    lane_event(k, f, ev, cycle, port, fate(event, f.port_flit[2 * port]))
    take(k, f, cycle, port)
    front = f.ports[port]
    front.input_mode = IDLE if front.input_flags & LAST else SWALLOW


@jit
def forward(k, f, ev, cycle, port, output, number):
    """A head passes output ``number`` of its router."""
    lane_event(k, f, ev, cycle, port, fate(Event.FORWARD | number << 8, f.port_flit[2 * port]))
    take(k, f, cycle, port)
    front, passed = f.ports[port], f.ports[output]
    flags = front.input_flags
    let_out(k, f, cycle, output, flags, f.port_flit[2 * port], f.port_flit[2 * port + 1])
    if k.whole:
        passed.free_from = cycle + (flags >> TAG_FLITS & TAG_FLITS_MASK)
    elif flags & LAST:
        front.input_mode = IDLE
        passed.free_from = cycle + 1
    else:
        front.input_mode = FORWARDING
        front.input_count = 1
        front.input_out = output
        passed.free_from = NEVER

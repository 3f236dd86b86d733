"""The pool of a router (section 3.2): buffers for whole worms that found their output taken.

The flits of a worm come and leave without gaps, and its head leaves more than `ASKS` cycles after it came.  So a flit
that leaves came earlier, and one that is not there never comes.
"""

import numpy as np

from lethe.spec.events import Event, Kind
from lethe.spec.topology import UP
from lethe.spec.wire import KIND_BITS
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, fate
from lethe_sim.golden.fabric.fabric import buffered_at, draw_of, let_out
from lethe_sim.golden.lib.bits import mask
from lethe_sim.golden.lib.random import all_bits
from lethe_sim.golden.state import LAST, NEVER

# Modes of a buffer.
FREE, WAITING, NEXT, LEAVING = range(4)
#: Cycles from the entry of a worm to the first in which it can be an output's next one.
ASKS = 5
#: A head is behind another of its input that was refused so many cycles before, or fewer.
BEHIND = 5
#: Bits of an output in the list of those that were refused.
PLACE = 8


@jit
def write(k, f, buffer, flags, low, high):
    """Store a flit behind those of its worm; returns how many there are now."""
    held = f.pool[buffer]
    place = buffer * k.max_flits + held.written
    f.pool_flags[place] = flags
    f.pool_flits[2 * place] = low
    f.pool_flits[2 * place + 1] = high
    held.written += 1
    return held.written


@jit
def find_free(k, f, cycle, number):
    """The first free buffer of router ``number``; −1: none."""
    for buffer in range(number * k.pool, (number + 1) * k.pool):
        if f.pool[buffer].mode == FREE and f.pool[buffer].free_from <= cycle:
            return buffer
    return -1


@jit
def is_taken(k, f, cycle, number, output):
    """Whether heads that arrive for ``output`` of the router are refused because of what waits for it."""
    router = f.routers[number]
    if output != UP:
        port = f.ports[router.first_port + output]
        return port.has_next > 0 and port.next_from <= cycle
    if router.climbed == cycle:
        return True
    for buffer in range(number * k.pool, (number + 1) * k.pool):
        held = f.pool[buffer]
        if (held.output == UP and asks(cycle, held)) or (held.mode == NEXT and held.output >= k.arity * k.dilation):
            return True
    return False


@jit
def refused_before(cycle, front):
    """The outputs for which heads of an input were refused in the cycles before, one more each, the latest lowest."""
    cycles = cycle - front.refused_from
    return 0 if cycles >= BEHIND else front.refused << PLACE * cycles & (1 << PLACE * BEHIND) - 1


@jit
def is_behind(cycle, front, output):
    """Whether a head that asks for ``output`` would overtake one of its input."""
    before = refused_before(cycle, front)
    while before > 0:
        if before & (1 << PLACE) - 1 == output + 1:
            return True
        before >>= PLACE
    return False


@jit
def refuse(cycle, front, output):
    """A head is refused that asks for ``output``."""
    front.refused = (refused_before(cycle, front) << PLACE | output + 1) & (1 << PLACE * BEHIND) - 1
    front.refused_from = cycle + 1


@jit
def enter(k, f, cycle, number, buffer, output, flags, low, high):
    """The head of a worm that is to leave by ``output`` of the router enters a free buffer."""
    router, held = f.routers[number], f.pool[buffer]
    held.mode, held.entered, held.output = WAITING, cycle, output
    held.order = order_of(k, cycle, low) * k.pool + buffer - number * k.pool
    held.written, held.read = 0, 0
    router.stored += 1
    if output == UP:
        router.climbing += 1
    else:
        f.ports[router.first_port + output].waiting += 1
    f.lists[buffered_at(k)] += 1
    write(k, f, buffer, flags, low, high)


@jit
def order_of(k, cycle, low):
    """The place of a worm that comes in ``cycle``, among those of one output: control goes as if it had come before."""
    kind = np.int64(low & mask(KIND_BITS))
    if k.control_first > 0 and (kind == Kind.ACK or kind == Kind.FORGET or kind == Kind.REJECT):
        return 2 * (cycle - k.control_first) + 1
    return 2 * cycle


@jit
def leave_all(k, f, ev, cycle):
    """What leaves the pools of all routers."""
    if f.lists[buffered_at(k)] == 0:
        return
    for number in range(k.router_count):
        if f.routers[number].stored > 0:
            leave(k, f, ev, cycle, number)


@jit
def leave(k, f, ev, cycle, number):
    """What leaves the pool of a router: worms go on, and the first that waits for a free output begins."""
    first = f.routers[number].first_port
    for buffer in range(number * k.pool, (number + 1) * k.pool):
        held = f.pool[buffer]
        if held.mode == LEAVING:
            next_flit(k, f, ev, cycle, number, buffer)
        elif held.mode == NEXT and f.ports[first + held.output].free_from <= cycle:
            begin(k, f, ev, cycle, number, buffer)
    for buffer in range(number * k.pool, (number + 1) * k.pool):
        held = f.pool[buffer]
        if held.output == UP or not asks(cycle, held) or f.ports[first + held.output].has_next:
            continue
        if goes_first(k, f, cycle, number, buffer):
            held.mode = NEXT
            f.ports[first + held.output].has_next = 1
            f.ports[first + held.output].next_from = cycle + 1
    if f.routers[number].climbing > 0 and cycle & 1:  # up-ports are given in odd cycles
        climb(k, f, ev, cycle, number)


@jit
def asks(cycle, held):
    """Whether a stored worm waits to be the next one, and is known to those that choose."""
    return held.mode == WAITING and cycle >= held.entered + ASKS


@jit
def climb(k, f, ev, cycle, number):
    """The first worm that asks for any up-port is given the first that is free, the second the second, and so on.

    What was given a port begins to leave in the next cycle.
    """
    router, first_up = f.routers[number], k.arity * k.dilation
    ups = router.ports - first_up
    turn, behind = draw_of(f, router, cycle) >> 16 & 0xFF & all_bits(ups), -NEVER
    buffer = next_climber(k, f, cycle, number, behind)
    for place in range(all_bits(ups) + 1):
        up = place ^ turn
        if buffer < 0:
            return
        if up < ups and f.ports[router.first_port + first_up + up].free_from <= cycle:
            held = f.pool[buffer]
            behind = held.order
            held.mode, held.output = NEXT, first_up + up
            buffer = next_climber(k, f, cycle, number, behind)


@jit
def next_climber(k, f, cycle, number, behind):
    """The buffer of the first worm in the order behind this one that asks for any up-port; −1: none."""
    found = -1
    for buffer in range(number * k.pool, (number + 1) * k.pool):
        held = f.pool[buffer]
        wanted = held.output == UP and asks(cycle, held) and held.order > behind
        if wanted and (found < 0 or held.order < f.pool[found].order):
            found = buffer
    return found


@jit
def goes_first(k, f, cycle, number, buffer):
    """Whether no other worm that asks for the same output goes before."""
    held = f.pool[buffer]
    for at in range(number * k.pool, (number + 1) * k.pool):
        other = f.pool[at]
        if other.output == held.output and other.order < held.order and asks(cycle, other):
            return False
    return True


@jit
def begin(k, f, ev, cycle, number, buffer):
    """The head of a stored worm passes its output."""
    held, router = f.pool[buffer], f.routers[number]
    output = router.first_port + held.output
    low = f.pool_flits[2 * buffer * k.max_flits]
    show(k, f, ev, cycle, number, held, fate(Event.FORWARD | held.output << 8, low))
    if k.climbs_freely and held.output >= k.arity * k.dilation:
        router.climbing -= 1
        router.climbed = cycle
    else:
        f.ports[output].waiting -= 1
        f.ports[output].has_next = 0
    f.ports[output].free_from = NEVER
    held.mode = LEAVING
    pass_flit(k, f, cycle, number, buffer)


@jit
def next_flit(k, f, ev, cycle, number, buffer):
    """The next flit of a worm that has begun to leave, or the end of what is left of it."""
    held = f.pool[buffer]
    if held.read == held.written:
        show(k, f, ev, cycle, number, held, Event.FRAGMENT)
        end(k, f, cycle, number, held)
        return
    flags = pass_flit(k, f, cycle, number, buffer)
    if held.read == k.max_flits and flags & LAST == 0:
        show(k, f, ev, cycle, number, held, Event.OVERLONG)
        end(k, f, cycle, number, held)


@jit
def pass_flit(k, f, cycle, number, buffer):
    """The oldest flit leaves; with ``last`` the buffer and its output are free from the next cycle on."""
    held = f.pool[buffer]
    place = buffer * k.max_flits + held.read
    flags = f.pool_flags[place]
    let_out(
        k, f, cycle, f.routers[number].first_port + held.output, flags, f.pool_flits[2 * place],
        f.pool_flits[2 * place + 1],
    )  # fmt: skip
    held.read += 1
    if flags & LAST:
        end(k, f, cycle, number, held)
    return flags


@jit
def end(k, f, cycle, number, held):
    """A worm has left: its buffer and its output are free."""
    router = f.routers[number]
    f.ports[router.first_port + held.output].free_from = cycle + 1
    held.mode, held.free_from = FREE, cycle + 1
    router.stored -= 1
    f.lists[buffered_at(k)] -= 1


@jit
def show(k, f, ev, cycle, number, held, event):
    """Show an event of what leaves by an output."""
    emit(ev, cycle, k.nodes + number, f.routers[number].ports + held.output, event, 0)

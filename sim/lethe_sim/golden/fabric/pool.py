"""The pool of a router (section 3.2): buffers for whole worms that found their output taken.

The flits of a worm come and leave without gaps, and its head leaves at least `READY` cycles after it came.  So a flit
that leaves came earlier, and one that is not there never comes.
"""

import numpy as np

from lethe.spec.events import Event, Kind
from lethe.spec.topology import UP
from lethe.spec.wire import KIND_BITS
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, extend
from lethe_sim.golden.fabric.fabric import buffered_at, draw_of, let_out
from lethe_sim.golden.lib.bits import mask
from lethe_sim.golden.lib.random import all_bits
from lethe_sim.golden.state import LAST, NEVER

# Modes of a buffer.
FREE, WAITING, LEAVING = range(3)
#: Cycles from the entry of a worm to the first in which it asks for its output.
READY = 2


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
            continue
        ready = held.mode == WAITING and held.output != UP and cycle >= held.entered + READY
        if ready and f.ports[first + held.output].free_from <= cycle and goes_first(k, f, cycle, number, buffer):
            begin(k, f, ev, cycle, number, buffer)
    if f.routers[number].climbing > 0:
        climb(k, f, ev, cycle, number)


@jit
def climb(k, f, ev, cycle, number):
    """The first worm that asks for any up-port gets the first that is free, the second the second, and so on."""
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
            held.output = first_up + up
            router.climbing -= 1
            router.climbed = cycle
            f.ports[router.first_port + held.output].waiting += 1
            begin(k, f, ev, cycle, number, buffer)
            buffer = next_climber(k, f, cycle, number, behind)


@jit
def next_climber(k, f, cycle, number, behind):
    """The buffer of the first worm in the order behind this one that asks for any up-port; −1: none."""
    found = -1
    for buffer in range(number * k.pool, (number + 1) * k.pool):
        held = f.pool[buffer]
        asks = held.mode == WAITING and held.output == UP and cycle >= held.entered + READY
        if asks and held.order > behind and (found < 0 or held.order < f.pool[found].order):
            found = buffer
    return found


@jit
def goes_first(k, f, cycle, number, buffer):
    """Whether no other worm that asks for the same output goes before."""
    held = f.pool[buffer]
    for at in range(number * k.pool, (number + 1) * k.pool):
        other = f.pool[at]
        asks = other.mode == WAITING and other.output == held.output and cycle >= other.entered + READY
        if asks and other.order < held.order:
            return False
    return True


@jit
def begin(k, f, ev, cycle, number, buffer):
    """The head of a stored worm passes its output."""
    held, router = f.pool[buffer], f.routers[number]
    output = router.first_port + held.output
    show(k, f, ev, cycle, number, held, Event.FORWARD | held.output << 8)
    extend(ev, (f.pool_flits[2 * buffer * k.max_flits] & np.uint64((1 << 48) - 1)) << np.uint64(16))
    f.ports[output].waiting -= 1
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

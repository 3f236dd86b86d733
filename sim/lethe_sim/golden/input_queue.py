"""The queue of a router's input (section 3.1): its back, and the flits that wait for the front.

A row of ``queues`` begins with the header of a `queue`.  Flits that arrive are pushed before the front pops, so
`pop` looks whether the flit that is now the oldest came in the same cycle.
"""

import numpy as np

from lethe.spec.events import Event

from . import queue
from .compile import jit
from .events import emit, extend
from .fabric import buffered_at
from .state import (
    BACK,
    BACK_COUNT,
    BACK_HEARD,
    FIRST,
    FIRST_PORT,
    HEAD,
    INPUT_RING,
    INPUT_WORMS,
    LAST,
    LEVEL,
    MAX_FLITS,
    MAX_WAIT,
    NODES,
    PATIENCE,
    PORT_COLUMNS,
    PORTS,
    PUSHED,
    QUEUE_COLUMNS,
    ROUTER,
    ROUTER_COLUMNS,
    VISIBLE,
    WAITING,
)  # fmt: skip  # isort: skip

_FULL, _STRAY = int(Event.DISCARD_FULL), int(Event.STRAY)
# States of a back.
NOTHING, DIRECT, STORE, SWALLOW = range(4)


@jit
def empty(f, port):
    """Whether an input's queue is empty; before the heads are decided, as at the start of the cycle."""
    return f.queues[port * QUEUE_COLUMNS + LEVEL] == 0


@jit
def shows(f, cycle, port):
    """Whether the output register of an input's queue, which is not empty, holds a flit in ``cycle``."""
    return f.queues[port * QUEUE_COLUMNS + VISIBLE] <= cycle


@jit
def oldest(k, f, port):
    """Place in the ring of the oldest flit."""
    return port * k[INPUT_RING] + f.queues[port * QUEUE_COLUMNS + HEAD]


@jit
def push(k, f, cycle, port, flags, low, high):
    """Store a flit that has arrived in ``cycle``."""
    at = port * QUEUE_COLUMNS
    place = f.queues[at + HEAD] + f.queues[at + LEVEL]
    if place >= k[INPUT_RING]:
        place -= k[INPUT_RING]
    place += port * k[INPUT_RING]
    f.queue_flags[place] = flags
    f.queue_flits[2 * place] = low
    f.queue_flits[2 * place + 1] = high
    queue.added(f.queues, at, 1, cycle)
    f.queues[at + PUSHED] = cycle
    f.queues[at + WAITING] += flags & FIRST > 0
    f.lists[buffered_at(k)] += 1


@jit
def pop(k, f, cycle, port):
    """Take the flit from the output register."""
    at = port * QUEUE_COLUMNS
    f.queues[at + WAITING] -= f.queue_flags[oldest(k, f, port)] & FIRST > 0
    f.queues[at + PATIENCE] = 0
    queue.removed(f.queues, at, k[INPUT_RING], cycle)
    if f.queues[at + LEVEL] == 1 and f.queues[at + PUSHED] == cycle:
        f.queues[at + VISIBLE] = cycle + 2
    f.lists[buffered_at(k)] -= 1


@jit
def lets_by(k, f, ev, cycle, port, flags, low, high):
    """The back: whether a flit that arrives is presented to the front at once.  Else it is stored, or vanishes."""
    queues, at = f.queues, port * QUEUE_COLUMNS
    back = queues[at + BACK] if queues[at + BACK_HEARD] == cycle - 1 else NOTHING
    queues[at + BACK_HEARD] = cycle
    if flags & FIRST:
        if queues[at + LEVEL] == 0:
            back = DIRECT
        elif queues[at + WAITING] < k[INPUT_WORMS]:
            push(k, f, cycle, port, flags, low, high)
            queues[at + BACK_COUNT] = 1
            back = STORE
        else:
            back_event(k, f, ev, cycle, port, _FULL)
            extend(ev, low << np.uint64(16))
            back = SWALLOW
    elif back == STORE:
        push(k, f, cycle, port, flags, low, high)
        queues[at + BACK_COUNT] += 1
        if queues[at + BACK_COUNT] == k[MAX_FLITS]:
            back = SWALLOW
    elif back == NOTHING:
        back_event(k, f, ev, cycle, port, _STRAY)
    queues[at + BACK] = NOTHING if flags & LAST else back
    return back == DIRECT


@jit
def back_event(k, f, ev, cycle, port, event):
    """Show an event of an input's back."""
    router = f.ports[port * PORT_COLUMNS + ROUTER]
    row = router * ROUTER_COLUMNS
    lane = f.routers[row + PORTS] + port - f.routers[row + FIRST_PORT]
    emit(ev, cycle, k[NODES] + router, lane, event, 0)


@jit
def keep(k, f, cycle, port, flags, low, high):
    """A presented head that did not get its output stays."""
    at = port * QUEUE_COLUMNS
    if f.queues[at + LEVEL] > 0:
        f.queues[at + PATIENCE] += 1
        return
    push(k, f, cycle, port, flags, low, high)
    f.queues[at + BACK] = NOTHING if flags & LAST else STORE
    f.queues[at + BACK_COUNT] = 1


@jit
def patient(k, f, port):
    """Whether a presented head may stay for another cycle."""
    return empty(f, port) or f.queues[port * QUEUE_COLUMNS + PATIENCE] < k[MAX_WAIT]

"""The queue of a router's input (section 3.1): its back, and the flits that wait for the front.

It begins as a `Queue`.  Flits that arrive are pushed before the front pops, so
`pop` looks whether the flit that is now the oldest came in the same cycle.
"""

from lethe.spec.events import Event
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, fate
from lethe_sim.golden.fabric.fabric import buffered_at
from lethe_sim.golden.lib import queue
from lethe_sim.golden.state import FIRST, LAST, Queue

# States of a back.
NOTHING, DIRECT, STORE, SWALLOW = range(4)


@jit
def empty(f, port):
    """Whether an input's queue is empty; before the heads are decided, as at the start of the cycle."""
    return f.queues[port].level == 0


@jit
def shows(f, cycle, port):
    """Whether the output register of an input's queue, which is not empty, holds a flit in ``cycle``."""
    return f.queues[port].visible <= cycle


@jit
def oldest(k, f, port):
    """Place in the ring of the oldest flit."""
    return port * k.input_ring + f.queues[port].head


@jit
def push(k, f, cycle, port, flags, low, high):
    """Store a flit that has arrived in ``cycle``."""
    held = f.queues[port]
    place = held.head + held.level
    if place >= k.input_ring:
        place -= k.input_ring
    place += port * k.input_ring
    f.queue_flags[place] = flags
    f.queue_flits[2 * place] = low
    f.queue_flits[2 * place + 1] = high
    queue.added(Queue(held), 1, cycle)
    held.pushed = cycle
    held.waiting += flags & FIRST > 0
    f.lists[buffered_at(k)] += 1


@jit
def pop(k, f, cycle, port):
    """Take the flit from the output register."""
    held = f.queues[port]
    held.waiting -= f.queue_flags[oldest(k, f, port)] & FIRST > 0
    held.patience = 0
    queue.removed(Queue(held), k.input_ring, cycle)
    if held.level == 1 and held.pushed == cycle:
        held.visible = cycle + 2
    f.lists[buffered_at(k)] -= 1


@jit
def lets_by(k, f, ev, cycle, port, flags, low, high):
    """The back: whether a flit that arrives is presented to the front at once.  Else it is stored, or vanishes."""
    held = f.queues[port]
    back = held.back if held.back_heard == cycle - 1 else NOTHING
    held.back_heard = cycle
    if flags & FIRST:
        if held.level == 0:
            back = DIRECT
        elif held.waiting < k.input_worms:
            push(k, f, cycle, port, flags, low, high)
            held.back_count = 1
            back = STORE
        else:
            back_event(k, f, ev, cycle, port, fate(Event.DISCARD_FULL, low))
            back = SWALLOW
    elif back == STORE:
        push(k, f, cycle, port, flags, low, high)
        held.back_count += 1
        if held.back_count == k.max_flits:
            back = SWALLOW
    elif back == NOTHING:
        back_event(k, f, ev, cycle, port, Event.STRAY)
    held.back = NOTHING if flags & LAST else back
    return back == DIRECT


@jit
def back_event(k, f, ev, cycle, port, event):
    """Show an event of an input's back."""
    router = f.ports[port].router
    row = f.routers[router]
    lane = row.ports + port - row.first_port
    emit(ev, cycle, k.nodes + router, lane, event, 0)


@jit
def keep(k, f, cycle, port, flags, low, high):
    """A presented head that did not get its output stays."""
    held = f.queues[port]
    if held.level > 0:
        held.patience += 1
        return
    push(k, f, cycle, port, flags, low, high)
    held.back = NOTHING if flags & LAST else STORE
    held.back_count = 1


@jit
def patient(k, f, port):
    """Whether a presented head may stay for another cycle."""
    return empty(f, port) or f.queues[port].patience < k.max_wait

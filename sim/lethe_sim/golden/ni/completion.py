"""Completions and free slots (section 4.9)."""

from lethe.spec.events import LANE_COMPLETE, Event
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, ending, event_word, extend, extra
from lethe_sim.golden.lib import queue
from lethe_sim.golden.state import LEFT_COMPLETIONS, NEVER, Queues
from lethe_sim.golden.study import limit

from . import layouts, linger, send_table
from .accept import free_queue_of


@jit
def step(k, ni, ev, port, cycle):
    """The completion that is offered, if the host is ready, ends the life of its slot."""
    time = cycle - ni.time_zero
    taken = port.completion_ready and not ni.left & LEFT_COMPLETIONS
    if not (taken and queue.present(k, ni, Queues.COMPLETION, cycle)):
        release(k, ni, cycle, time)
        return
    entry = queue.oldest(k, ni, Queues.COMPLETION)
    slot, generation = layouts.unpack_life(entry.a)
    _, status, cause = layouts.unpack_result(entry.b)
    queue.pop(k, ni, Queues.COMPLETION, cycle)
    datagram = send_table.slot_of(k, ni, slot)
    word = event_word(Event.COMPLETE, ending(status, cause), datagram.destination, 0)
    emit(ev, cycle, ni.number, LANE_COMPLETE, word, layouts.pack_uid(ni.number, ni.incarnation_now, slot, generation))
    extend(ev, extra(datagram.tag))
    ni.busy -= 1
    limit.ended(k, ni, slot)
    again = layouts.pack_life(slot, generation + 1 & k.generation_mask)
    if linger.rests(k, datagram, status, cause):
        release(k, ni, cycle, time)
        queue.push(k, ni, Queues.QUARANTINED, again, time + k.rest, cycle)
    else:
        queue.push(k, ni, free_queue_of(k, slot), again, 0, cycle)


@jit
def release(k, ni, cycle, time):
    """The slot that has rested longest returns to the free queue, if its time has come."""
    if next_release(k, ni) <= time:
        life = queue.oldest(k, ni, Queues.QUARANTINED).a
        queue.pop(k, ni, Queues.QUARANTINED, cycle)
        slot, _ = layouts.unpack_life(life)
        linger.over(k, ni, cycle, slot)
        queue.push(k, ni, free_queue_of(k, slot), life, 0, cycle)


@jit
def next_release(k, ni):
    """At which time the slot that has rested longest may return; `NEVER` without one."""
    if k.rest == 0 or queue.count(k, ni, Queues.QUARANTINED) == 0:
        return NEVER
    return queue.oldest(k, ni, Queues.QUARANTINED).b

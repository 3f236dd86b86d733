"""`Queue` of the contract (section 1), without a step per cycle.

A queue is a ring and three numbers: ``head``, ``level`` (here: all entries, the output register's too)
and ``visible``, the cycle from which the oldest entry is at the output.  In one cycle, take before you push:
then the entry behind one that is taken was pushed earlier, and is visible from the next cycle on.
"""

from lethe_sim.golden.compile import jit
from lethe_sim.golden.state import NEVER, Entry, Queue


@jit
def shows(queue, cycle):
    """Whether the output register holds an entry in ``cycle``."""
    return queue.level > 0 and queue.visible <= cycle


@jit
def memory_level(queue, cycle):
    """The contract's level: entries in memory at the start of ``cycle``."""
    return queue.level - 1 if shows(queue, cycle) else queue.level


@jit
def shows_from(queue):
    """From which cycle on there is something at the output; `NEVER` if the queue is empty."""
    return queue.visible if queue.level > 0 else NEVER


@jit
def added(queue, count, cycle):
    """Account for ``count`` entries pushed in ``cycle``."""
    if queue.level == 0:
        queue.visible = cycle + 2
    queue.level += count


@jit
def removed(queue, places, cycle):
    """Account for the oldest entry, taken in ``cycle``."""
    head = queue.head + 1
    queue.head = 0 if head == places else head
    queue.level -= 1
    queue.visible = cycle + 1


@jit
def place_in(queue, places, behind):
    """The place of a ring that is ``behind`` the oldest entry of its queue."""
    place = queue.head + behind
    return place - places if place >= places else place


@jit
def queue_of(k, ni, number):
    """One of the `Queues` of an NI."""
    return Queue(ni, k.at_queues, number)


@jit
def present(k, ni, number, cycle):
    """Whether a queue's output register holds an entry in ``cycle``."""
    return shows(queue_of(k, ni, number), cycle)


@jit
def level(k, ni, number, cycle):
    """The contract's level, before this cycle's push."""
    return memory_level(queue_of(k, ni, number), cycle)


@jit
def count(k, ni, number):
    """All entries, the output register's too."""
    return queue_of(k, ni, number).level


@jit
def oldest(k, ni, number):
    """The oldest entry."""
    return Entry(ni, k.queues[number].at, queue_of(k, ni, number).head)


@jit
def push(k, ni, number, a, b, cycle):
    """Push an entry; the caller knows that there is room."""
    queue, places = queue_of(k, ni, number), k.queues[number].places
    place = queue.head + queue.level
    entry = Entry(ni, k.queues[number].at, place - places if place >= places else place)
    entry.a = a
    entry.b = b
    added(queue, 1, cycle)


@jit
def pop(k, ni, number, cycle):
    """Take the oldest entry from the output; read it first with `oldest`."""
    removed(queue_of(k, ni, number), k.queues[number].places, cycle)

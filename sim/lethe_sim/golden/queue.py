"""`Queue` of the contract (section 1), without a step per cycle.

A queue is a ring and three numbers: ``HEAD``, ``LEVEL`` (here: all entries, the output register's too)
and ``VISIBLE``, the cycle from which the oldest entry is at the output.  In one cycle, take before you push:
then the entry behind one that is taken was pushed earlier, and is visible from the next cycle on.
"""

from .compile import jit
from .state import AT_QUEUES, HEAD, LEVEL, QUEUE, VISIBLE


@jit
def present(k, ni, queue, cycle):
    """Whether the output register holds an entry in ``cycle``."""
    at = k[AT_QUEUES] + 3 * queue
    return ni[at + LEVEL] > 0 and ni[at + VISIBLE] <= cycle


@jit
def memory_level(ni, at, cycle):
    """The contract's level: entries in memory at the start of ``cycle``; ``at`` is the queue's header."""
    level = ni[at + LEVEL]
    if level > 0 and ni[at + VISIBLE] <= cycle:
        return level - 1
    return level


@jit
def level(k, ni, queue, cycle):
    """The contract's level, before this cycle's push."""
    return memory_level(ni, k[AT_QUEUES] + 3 * queue, cycle)


@jit
def count(k, ni, queue):
    """All entries, the output register's too."""
    return ni[k[AT_QUEUES] + 3 * queue + LEVEL]


@jit
def oldest(k, ni, queue):
    """Column of the oldest entry, which has two numbers."""
    return k[QUEUE + 2 * queue] + 2 * ni[k[AT_QUEUES] + 3 * queue + HEAD]


@jit
def added(ni, at, count, cycle):
    """Account for ``count`` entries pushed in ``cycle``."""
    if ni[at + LEVEL] == 0:
        ni[at + VISIBLE] = cycle + 2
    ni[at + LEVEL] += count


@jit
def removed(ni, at, size, cycle):
    """Account for the oldest entry, taken in ``cycle``."""
    head = ni[at + HEAD] + 1
    ni[at + HEAD] = 0 if head == size else head
    ni[at + LEVEL] -= 1
    ni[at + VISIBLE] = cycle + 1


@jit
def push(k, ni, queue, a, b, cycle):
    """Push an entry; the caller knows that there is room."""
    at = k[AT_QUEUES] + 3 * queue
    size = k[QUEUE + 2 * queue + 1]
    place = ni[at + HEAD] + ni[at + LEVEL]
    if place >= size:
        place -= size
    column = k[QUEUE + 2 * queue] + 2 * place
    ni[column] = a
    ni[column + 1] = b
    added(ni, at, 1, cycle)


@jit
def pop(k, ni, queue, cycle):
    """Take the oldest entry from the output; read it first with `oldest`."""
    removed(ni, k[AT_QUEUES] + 3 * queue, k[QUEUE + 2 * queue + 1], cycle)

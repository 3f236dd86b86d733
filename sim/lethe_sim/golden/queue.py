"""`Queue` of the contract (section 1), without a step per cycle.

A queue is a ring and three numbers: ``HEAD``, ``LEVEL`` (here: all entries, the output register's too)
and ``VISIBLE``, the cycle from which the oldest entry is at the output.  In one cycle, take before you push:
then the entry behind one that is taken was pushed earlier, and is visible from the next cycle on.
"""

from .compile import jit
from .state import AT_QUEUES, HEAD, LEVEL, QUEUE, VISIBLE


@jit
def present(k, ni, node, queue, cycle):
    """Whether the output register holds an entry in ``cycle``."""
    at = k[AT_QUEUES] + 3 * queue
    return ni[node, at + LEVEL] > 0 and ni[node, at + VISIBLE] <= cycle


@jit
def memory_level(ni, node, at, cycle):
    """The contract's level: entries in memory at the start of ``cycle``; ``at`` is the queue's header."""
    level = ni[node, at + LEVEL]
    if level > 0 and ni[node, at + VISIBLE] <= cycle:
        return level - 1
    return level


@jit
def level(k, ni, node, queue, cycle):
    """The contract's level, before this cycle's push."""
    return memory_level(ni, node, k[AT_QUEUES] + 3 * queue, cycle)


@jit
def count(k, ni, node, queue):
    """All entries, the output register's too."""
    return ni[node, k[AT_QUEUES] + 3 * queue + LEVEL]


@jit
def oldest(k, ni, node, queue):
    """Column of the oldest entry, which has two numbers."""
    return k[QUEUE + 2 * queue] + 2 * ni[node, k[AT_QUEUES] + 3 * queue + HEAD]


@jit
def added(ni, node, at, count, cycle):
    """Account for ``count`` entries pushed in ``cycle``."""
    if ni[node, at + LEVEL] == 0:
        ni[node, at + VISIBLE] = cycle + 2
    ni[node, at + LEVEL] += count


@jit
def removed(ni, node, at, size, cycle):
    """Account for the oldest entry, taken in ``cycle``."""
    head = ni[node, at + HEAD] + 1
    ni[node, at + HEAD] = 0 if head == size else head
    ni[node, at + LEVEL] -= 1
    ni[node, at + VISIBLE] = cycle + 1


@jit
def push(k, ni, node, queue, a, b, cycle):
    """Push an entry; the caller knows that there is room."""
    at = k[AT_QUEUES] + 3 * queue
    size = k[QUEUE + 2 * queue + 1]
    place = ni[node, at + HEAD] + ni[node, at + LEVEL]
    if place >= size:
        place -= size
    column = k[QUEUE + 2 * queue] + 2 * place
    ni[node, column] = a
    ni[node, column + 1] = b
    added(ni, node, at, 1, cycle)


@jit
def pop(k, ni, node, queue, cycle):
    """Take the oldest entry from the output; read it first with `oldest`."""
    removed(ni, node, k[AT_QUEUES] + 3 * queue, k[QUEUE + 2 * queue + 1], cycle)

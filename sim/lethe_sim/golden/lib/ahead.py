"""Beats that are read ahead into a queue: two cycles after a beat is read it is pushed.

What is on its way is a number: bit 0 a beat that was read in the cycle before, bit 1 one in that before it.
"""

from lethe_sim.golden.compile import at, jit

from . import queue


@jit
def held(output, way):
    """Beats in a queue and on their way there."""
    return output.level + (way & 1) + (way >> 1)


@jit
def step(output, places, way, taken, cycle):
    """The oldest beat may be taken; one that comes is pushed.  Returns what is still on its way."""
    if taken:
        queue.removed(output, places, cycle)
    if way & 2:
        queue.added(output, 1, cycle)
    return way << 1 & 2


@jit
def read(words, output, places, way, ring, source):
    """A beat is read from one place of ``words`` into a ring of them; returns the place in the ring."""
    place = queue.place_in(output, places, output.level + (way >> 1))
    into, of = at(words, ring + 2 * place), at(words, source)
    into[0], into[1] = of[0], of[1]
    return place

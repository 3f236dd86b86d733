"""Misses, and answers, that count some cycles after they happen (sections 4.14 and 4.20)."""

from lethe.spec.stages import HEARD
from lethe_sim.golden.compile import jit
from lethe_sim.golden.state import MOST_MISSES


@jit
def note(ring, cycle, index, missed):
    """Something misses or answers in ``cycle``; one does at most, and what was known before has been taken."""
    new = ring.ring[(ring.oldest + ring.count) % MOST_MISSES]
    ring.count += 1
    new.cycle, new.index, new.missed = cycle, index, missed


@jit
def is_known(ring, cycle):
    """Whether the oldest is known in ``cycle``."""
    return ring.count > 0 and ring.ring[ring.oldest].cycle + HEARD <= cycle


@jit
def taken(ring):
    """The oldest counts from now on."""
    ring.oldest = (ring.oldest + 1) % MOST_MISSES
    ring.count -= 1

"""The fault element of a link (section 2)."""

import numpy as np

from lethe.spec.events import Event
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit
from lethe_sim.golden.lib.random import advance, scale
from lethe_sim.golden.state import FIRST, LAST


@jit
def survives(k, f, ev, cycle, unit, link, flags):
    """Whether a flit gets past death and loss."""
    element = f.links[link]
    if element.dead_count > 0:
        if flags & FIRST:
            emit(ev, cycle, unit, 0, Event.DEAD, 0)
        return False
    if k.loss == 0:
        return True
    if flags & FIRST == 0:
        return element.swallowing == 0
    element.loss_random = advance(element.loss_random)
    lost = element.loss_random & 0xFFFF < k.loss
    element.swallowing = lost
    if lost:
        emit(ev, cycle, unit, 0, Event.LOST, 0)
    return not lost


@jit
def flip(k, f, ev, cycle, unit, link, flags, low, high):
    """The flit, perhaps with a bit flipped."""
    element = f.links[link]
    draw = advance(element.flip_random)
    element.flip_random = draw
    if draw & 0xFFFFFF < k.flip:
        position = scale(draw >> 24, 8, k.flit_bits + 2)
        emit(ev, cycle, unit, 0, Event.FLIP, 0)
        if position == k.flit_bits:
            flags ^= FIRST
        elif position > k.flit_bits:
            flags ^= LAST
        elif position < 64:
            low ^= np.uint64(1) << np.uint64(position)
        else:
            high ^= np.uint64(1) << np.uint64(position - 64)
    return flags, low, high

"""The fault element of a link (section 2)."""

import numpy as np
from lethe.spec.events import Event

from .compile import jit
from .events import emit
from .fabric import DEAD_COUNT, FLIP_RANDOM, LOSS_RANDOM, SWALLOWING
from .random import advance, scale
from .state import FIRST, FLIP, FLIT_BITS, LAST, LOSS

_DEAD, _LOST, _FLIP = int(Event.DEAD), int(Event.LOST), int(Event.FLIP)


@jit
def survives(k, f, ev, cycle, unit, link, flags):
    """Whether a flit gets past death and loss."""
    state = f.link_state
    if state[link, DEAD_COUNT] > 0:
        if flags & FIRST:
            emit(ev, cycle, unit, 0, _DEAD, 0)
        return False
    if k[LOSS] == 0:
        return True
    if flags & FIRST == 0:
        return state[link, SWALLOWING] == 0
    draw = advance(state[link, LOSS_RANDOM])
    state[link, LOSS_RANDOM] = draw
    lost = draw & 0xFFFF < k[LOSS]
    state[link, SWALLOWING] = lost
    if lost:
        emit(ev, cycle, unit, 0, _LOST, 0)
    return not lost


@jit
def flip(k, f, ev, cycle, unit, link, flags, low, high):
    """The flit, perhaps with a bit flipped."""
    draw = advance(f.link_state[link, FLIP_RANDOM])
    f.link_state[link, FLIP_RANDOM] = draw
    if draw & 0xFFFFFF < k[FLIP]:
        position = scale(draw >> 24, 8, k[FLIT_BITS] + 2)
        emit(ev, cycle, unit, 0, _FLIP | position << 8, 0)
        if position == k[FLIT_BITS]:
            flags ^= FIRST
        elif position > k[FLIT_BITS]:
            flags ^= LAST
        elif position < 64:
            low ^= np.uint64(1) << np.uint64(position)
        else:
            high ^= np.uint64(1) << np.uint64(position - 64)
    return flags, low, high

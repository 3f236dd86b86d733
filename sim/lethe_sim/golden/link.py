"""The fault element of a link (section 2)."""

import numpy as np

from lethe.spec.events import Event

from .compile import jit
from .events import emit
from .random import advance, scale
from .state import (
    DEAD_COUNT,
    FIRST,
    FLIP,
    FLIP_RANDOM,
    FLIT_BITS,
    LAST,
    LINK_COLUMNS,
    LOSS,
    LOSS_RANDOM,
    SWALLOWING,
)  # fmt: skip  # isort: skip

_DEAD, _LOST, _FLIP = int(Event.DEAD), int(Event.LOST), int(Event.FLIP)


@jit
def survives(k, f, ev, cycle, unit, link, flags):
    """Whether a flit gets past death and loss."""
    links, at = f.links, link * LINK_COLUMNS
    if links[at + DEAD_COUNT] > 0:
        if flags & FIRST:
            emit(ev, cycle, unit, 0, _DEAD, 0)
        return False
    if k[LOSS] == 0:
        return True
    if flags & FIRST == 0:
        return links[at + SWALLOWING] == 0
    draw = advance(links[at + LOSS_RANDOM])
    links[at + LOSS_RANDOM] = draw
    lost = draw & 0xFFFF < k[LOSS]
    links[at + SWALLOWING] = lost
    if lost:
        emit(ev, cycle, unit, 0, _LOST, 0)
    return not lost


@jit
def flip(k, f, ev, cycle, unit, link, flags, low, high):
    """The flit, perhaps with a bit flipped."""
    at = link * LINK_COLUMNS + FLIP_RANDOM
    draw = advance(f.links[at])
    f.links[at] = draw
    if draw & 0xFFFFFF < k[FLIP]:
        position = scale(draw >> 24, 8, k[FLIT_BITS] + 2)
        emit(ev, cycle, unit, 0, _FLIP, 0)
        if position == k[FLIT_BITS]:
            flags ^= FIRST
        elif position > k[FLIT_BITS]:
            flags ^= LAST
        elif position < 64:
            low ^= np.uint64(1) << np.uint64(position)
        else:
            high ^= np.uint64(1) << np.uint64(position - 64)
    return flags, low, high

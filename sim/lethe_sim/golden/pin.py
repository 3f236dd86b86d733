"""Pinned up-ports: which one a message takes through a fat tree whose inputs have queues (section 3.1)."""

import numpy as np

from lethe.spec.events import Kind

from .bits import mask
from .compile import jit
from .crc import update16_bits
from .random import scale
from .state import DESTINATION, FIELD_OFFSET, FIELD_WIDTH, KIND, NODE_BITS, SALT, SLOT, SLOT_BITS, SOURCE

_ACK = int(Kind.ACK)


@jit
def header_field(k, low, field):
    """A header field from the lower word of a first flit."""
    return np.int64(low >> np.uint64(k[FIELD_OFFSET + field]) & mask(k[FIELD_WIDTH + field]))


@jit
def key_hash(k, low):
    """16 bits that all messages between two nodes on one slot have in common."""
    source, destination = header_field(k, low, SOURCE), header_field(k, low, DESTINATION)
    if header_field(k, low, KIND) == _ACK:
        source, destination = destination, source
    bits = k[NODE_BITS]
    key = source | destination << bits | header_field(k, low, SLOT) << 2 * bits
    return update16_bits(k[SALT], key, 2 * bits + k[SLOT_BITS])


@jit
def pinned(k, low, level, ups):
    """Which of ``ups`` up-ports a head takes at a level of the tree."""
    turn = 5 * level % 16
    hashed = key_hash(k, low)
    return scale((hashed >> turn | hashed << 16 - turn) & 0xFF, 8, ups)

"""Pinned up-ports: which one a message takes through a fat tree whose inputs have queues (section 3.1)."""

import numpy as np

from lethe.spec.events import Kind
from lethe_sim.golden.compile import jit
from lethe_sim.golden.lib.bits import mask
from lethe_sim.golden.lib.random import scale
from lethe_sim.golden.link.crc import update16_bits
from lethe_sim.golden.state import Field


@jit
def header_field(k, low, field):
    """A header field from the lower word of a first flit."""
    return np.int64(low >> np.uint64(k.fields[field].offset) & mask(k.fields[field].width))


@jit
def key_hash(k, low):
    """16 bits that all messages between two nodes on one slot have in common."""
    source, destination = header_field(k, low, Field.SOURCE), header_field(k, low, Field.DESTINATION)
    if header_field(k, low, Field.KIND) == Kind.ACK:
        source, destination = destination, source
    bits = k.node_bits
    key = source | destination << bits | header_field(k, low, Field.SLOT) << 2 * bits
    return update16_bits(k.salt, key, 2 * bits + k.slot_bits)


@jit
def pinned(k, low, level, ups):
    """Which of ``ups`` up-ports a head takes at a level of the tree."""
    turn = 5 * level % 16
    hashed = key_hash(k, low)
    return scale((hashed >> turn | hashed << 16 - turn) & 0xFF, 8, ups)


@jit
def pinned_port(k, router, low):
    """The up-port that is pinned to the key in the low bits of a head."""
    first = k.arity * k.dilation
    level = router.number // k.width
    return first + pinned(k, low, level, router.ports - first)

"""Which up-port of a fat tree a message takes, pinned (section 3.1) or by its path (section 3.3); pinned channels."""

import numpy as np

from lethe.spec.events import Kind
from lethe_sim.golden.compile import jit
from lethe_sim.golden.lib.bits import mask
from lethe_sim.golden.lib.random import scale
from lethe_sim.golden.link.crc import update16_bits
from lethe_sim.golden.state import Field

#: The channel is from bits that no up-port of the first three levels is from.
CHANNEL_TURN = 3


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
def turned(hashed, turn):
    """The low 8 of 16 bits that are rotated right."""
    return (hashed >> turn | hashed << 16 - turn) & 0xFF


@jit
def pinned(k, low, level, ups):
    """Which of ``ups`` up-ports a head takes at a level of the tree."""
    return scale(turned(key_hash(k, low), 5 * level % 16), 8, ups)


@jit
def by_path(k, low, level, ups):
    """Which of ``ups`` up-ports a head takes at a level of the tree, by its path."""
    path = header_field(k, low, Field.PATH)
    bits = 1
    while 1 << bits < ups:
        bits += 1
    turn = bits * level % k.path_bits
    return ((path >> turn | path << k.path_bits - turn) & (1 << min(bits, k.path_bits)) - 1) % ups


@jit
def pinned_channel(k, low):
    """Which virtual channel the messages between two nodes on one slot have all the way."""
    return scale(turned(key_hash(k, low), CHANNEL_TURN), 8, k.channels)


@jit
def pinned_port(k, router, low):
    """The up-port that the low bits of a head ask for: by its path, or pinned to its key."""
    first = k.arity * k.dilation
    level = router.number // k.width
    if k.path_bits > 0:
        return first + by_path(k, low, level, router.ports - first)
    return first + pinned(k, low, level, router.ports - first)

"""Generated payloads (section 5), and the checker's view of them."""

import numpy as np

from lethe_sim.golden.compile import jit
from lethe_sim.golden.lib.bits import U0, mask

MASK32 = 0xFFFF_FFFF


@jit
def key_of(number, node):
    """The 32 bits that fix a generated payload."""
    return (number & 0xFFFFF) << 12 | node & 0xFFF


@jit
def word32(key, i):
    """32-bit word ``i`` of a generated payload."""
    word = key ^ (i & 0xFF) * 0x0101_0101
    return np.uint64(word ^ MASK32 if i & 1 else word)


@jit
def beat_low(k, key, j, length):
    """The lower word of beat ``j`` of a generated payload; bytes beyond the length are 0."""
    flit_bits = k.flit_bits
    if flit_bits == 16:
        low = word32(key, j >> 1) >> np.uint64(16 * (j & 1)) & np.uint64(0xFFFF)
    elif flit_bits == 32:
        low = word32(key, j)
    else:
        i = j * (flit_bits >> 5)
        low = word32(key, i) | word32(key, i + 1) << np.uint64(32)
    return low & mask(min(64, 8 * length - j * flit_bits))


@jit
def beat_high(k, key, j, length):
    """The upper word."""
    if k.flit_bits < 128:
        return U0
    high = word32(key, 4 * j + 2) | word32(key, 4 * j + 3) << np.uint64(32)
    return high & mask(max(0, min(64, 8 * length - j * 128 - 64)))

"""Bit strings: messages and payloads as rows of 64-bit words, bit 0 of word 0 first.

Flit ``j`` of a string is its bits j·flit_bits …; a flit travels as two words, ``low`` and ``high`` (0 unless
flits have 128 bits).
"""

import numpy as np

from lethe_sim.golden.compile import jit

U0 = np.uint64(0)
ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@jit
def mask(width):
    """The lowest ``width`` (0 to 64) bits."""
    if width >= 64:
        return ALL
    return (np.uint64(1) << np.uint64(width)) - np.uint64(1)


@jit
def get(data, base, offset, width):
    """The field of ``width`` (up to 32) bits at ``offset`` of the string at ``data[base:]``."""
    word, shift = base + (offset >> 6), offset & 63
    value = data[word] >> np.uint64(shift)
    if shift + width > 64:
        value |= data[word + 1] << np.uint64(64 - shift)
    return np.int64(value & mask(width))


@jit
def put(data, base, offset, width, value):
    """Add a field to a string whose bits there are 0."""
    word, shift = base + (offset >> 6), offset & 63
    bits = np.uint64(value) & mask(width)
    data[word] |= bits << np.uint64(shift)
    if shift + width > 64:
        data[word + 1] |= bits >> np.uint64(64 - shift)


@jit
def flit_low(data, base, flit_bits, j):
    """The lower word of flit ``j``."""
    if flit_bits == 64:
        return data[base + j]
    offset = j * flit_bits
    return data[base + (offset >> 6)] >> np.uint64(offset & 63) & mask(flit_bits)


@jit
def flit_high(data, base, flit_bits, j):
    """The upper word of flit ``j``."""
    if flit_bits == 128:
        return data[base + 2 * j + 1]
    return U0


@jit
def cut(flit_bits, low, high, left):
    """A beat as two words, without what is beyond the flit and beyond the ``left`` bits of the payload."""
    if left < flit_bits:
        low &= mask(left)
        high &= mask(max(0, left - 64))
    if flit_bits < 64:
        low &= mask(flit_bits)
    if flit_bits < 128:
        high = U0
    return low, high


@jit
def put_flit(data, base, flit_bits, j, low, high):
    """Store flit ``j``, whatever was there."""
    if flit_bits == 64:
        data[base + j] = low
    elif flit_bits == 128:
        data[base + 2 * j] = low
        data[base + 2 * j + 1] = high
    else:
        offset = j * flit_bits
        word, shift = base + (offset >> 6), np.uint64(offset & 63)
        data[word] = data[word] & ~(mask(flit_bits) << shift) | low << shift

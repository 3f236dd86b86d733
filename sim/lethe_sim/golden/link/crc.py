"""The CRCs, a byte a look-up, several bytes of one word at once.

``TABLE[n][b]`` is the effect of byte ``b`` followed by ``n`` zero bytes, so the bytes of a word can be
looked up independently.  Held against `lethe.spec.wire.Crc` by the tests.
"""

import numpy as np

from lethe.spec.wire import CRC8, CRC16, CRC32
from lethe_sim.golden.compile import jit

ONES8, ONES16, ONES32 = CRC8.ones, CRC16.ones, CRC32.ones
POLYNOMIAL16 = CRC16.polynomial


def _tables(crc) -> np.ndarray:
    table = np.zeros((8, 256), np.int64)
    table[0] = [crc.update(0, b, 8) for b in range(256)]
    for zeros in range(1, 8):
        before = table[zeros - 1]
        table[zeros] = before >> 8 ^ table[0][before & 0xFF]
    return table


TABLE8, TABLE16, TABLE32 = _tables(CRC8)[0], _tables(CRC16), _tables(CRC32)


@jit
def update8(state, word, count):
    """The CRC-8 register after the ``count`` lowest bytes of ``word``."""
    for i in range(count):
        state = TABLE8[state ^ np.int64(word >> np.uint64(8 * i) & np.uint64(0xFF))]
    return state


@jit
def crc8_flit(low, high, flit_bits):
    """The CRC-8 of one flit."""
    state = update8(ONES8, low, min(8, flit_bits >> 3))
    return (update8(state, high, 8) if flit_bits == 128 else state) ^ ONES8


@jit
def update16(state, word, count):
    """The CRC-16 register after the ``count`` lowest bytes (2 to 8) of ``word``."""
    result = np.int64(0)
    for i in range(count):
        byte = np.int64(word >> np.uint64(8 * i) & np.uint64(0xFF))
        if i < 2:
            byte ^= state >> 8 * i & 0xFF
        result ^= TABLE16[count - 1 - i, byte]
    return result


@jit
def update16_bits(state, value, bits):
    """The CRC-16 register after the ``bits`` lowest bits of ``value``."""
    while bits >= 8:
        state = state >> 8 ^ TABLE16[0, (state ^ value) & 0xFF]
        value >>= 8
        bits -= 8
    for i in range(bits):
        feedback = (state ^ value >> i) & 1
        state = state >> 1 ^ (POLYNOMIAL16 if feedback else 0)
    return state


@jit
def update32(state, word, count):
    """The CRC-32 register after the ``count`` lowest bytes (2, 4 or 8) of ``word``."""
    result = state >> 8 * count if count < 4 else np.int64(0)
    for i in range(count):
        byte = np.int64(word >> np.uint64(8 * i) & np.uint64(0xFF))
        if i < 4:
            byte ^= state >> 8 * i & 0xFF
        result ^= TABLE32[count - 1 - i, byte]
    return result


@jit
def crc32_flit(state, low, high, flit_bits):
    """The CRC-32 register after one flit."""
    if flit_bits == 128:
        return update32(update32(state, low, 8), high, 8)
    return update32(state, low, flit_bits >> 3)


@jit
def crc16_body(low, high, flit_bits):
    """The CRC-16 of a one-flit message's body: all but its top 16 bits."""
    if flit_bits == 128:
        state = update16(update16(ONES16, low, 8), high, 6)
    else:
        state = update16(ONES16, low, (flit_bits >> 3) - 2)
    return state ^ ONES16

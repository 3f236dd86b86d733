"""Chance: the xorshift32 of `lethe.spec.random`, in whole numbers of 64 bits.

A step is linear over GF(2).  So a generator that steps in every cycle costs nothing until its draw is looked at.
"""

import numpy as np

from lethe.spec import random
from lethe.spec.random import MASK32
from lethe_sim.golden.compile import jit

NIBBLE_BITS, NIBBLES = 4, 8
STRIDES = 1 << NIBBLE_BITS  # values of a nibble
NEAR_BITS = 4  # less than 2^4 steps are done one by one


@jit
def advance(state):
    """The next state, which is also the draw."""
    state ^= (state << 13) & MASK32
    state ^= state >> 17
    state ^= (state << 5) & MASK32
    return state


def leaps() -> np.ndarray:
    """What `leap` looks up: for 2^4, 2^5, … 2^31 steps what each value of each nibble of the state becomes; int64."""
    columns = [1 << bit for bit in range(32)]
    for _ in range(1 << NEAR_BITS):
        columns = [random.advance(column) for column in columns]
    tables = np.zeros((32 - NEAR_BITS, NIBBLES, STRIDES), np.int64)
    for table in tables:
        for bit, column in enumerate(columns):
            nibble, weight = divmod(bit, NIBBLE_BITS)
            table[nibble, np.arange(STRIDES) >> weight & 1 > 0] ^= column
        columns = [
            int(np.bitwise_xor.reduce([table[n, column >> NIBBLE_BITS * n & STRIDES - 1] for n in range(NIBBLES)]))
            for column in columns
        ]
    return tables.reshape(-1)


@jit
def leap(tables, state, steps):
    """The state after so many steps, at least 0; ``tables`` are those of `leaps`."""
    if steps > MASK32:
        steps %= MASK32  # the period
    for _ in range(steps & (1 << NEAR_BITS) - 1):
        state = advance(state)
    steps >>= NEAR_BITS
    at = 0
    while steps > 0:
        if steps & 1:
            after = 0
            for nibble in range(at, at + NIBBLES * STRIDES, STRIDES):
                after ^= tables[nibble + (state & STRIDES - 1)]
                state >>= NIBBLE_BITS
            state = after
        at += NIBBLES * STRIDES
        steps >>= 1
    return state


@jit
def scale(draw, bits, count):
    """A draw of ``bits`` bits mapped to 0 … count−1."""
    return (draw * count) >> bits


@jit
def all_bits(count):
    """A mask of as many bits as ``count`` − 1 has, ``count`` at least 1 and at most 2^16."""
    mask = count - 1
    mask |= mask >> 1
    mask |= mask >> 2
    mask |= mask >> 4
    return mask | mask >> 8

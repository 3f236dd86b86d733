"""Chance: the xorshift32 of `lethe.spec.random`, in whole numbers of 64 bits."""

from lethe.spec.random import MASK32
from lethe_sim.golden.compile import jit


@jit
def advance(state):
    """The next state, which is also the draw."""
    state ^= (state << 13) & MASK32
    state ^= state >> 17
    state ^= (state << 5) & MASK32
    return state


@jit
def scale(draw, bits, count):
    """A draw of ``bits`` bits mapped to 0 … count−1."""
    return (draw * count) >> bits

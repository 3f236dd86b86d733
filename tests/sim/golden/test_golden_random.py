"""Generators that step in every cycle: how far they are is worked out when somebody looks."""

import pytest

from lethe.spec import random
from lethe_sim.golden.compile import JIT, jit, pointer
from lethe_sim.golden.lib.random import all_bits, leap, leaps

PERIOD = (1 << 32) - 1
TABLES = leaps()


@jit
def _leap(tables, state, steps):
    return leap(pointer(tables), state, steps)


@pytest.mark.parametrize("state", [1, 0x8000_0000, 0x1234_5678, 0xFFFF_FFFF])
def test_a_leap_is_as_many_steps(state):
    now = state
    for steps in range(3000 if JIT else 300):
        assert _leap(TABLES, state, steps) == now
        now = random.advance(now)


@pytest.mark.parametrize("steps", [12_345, 1 << 31, PERIOD - 1, PERIOD + 5, 1 << 40])
def test_leaps_add_up(steps):
    there = _leap(TABLES, 1, steps)
    assert random.advance(there) == _leap(TABLES, 1, steps + 1)
    assert _leap(TABLES, there, 10 * PERIOD - steps % PERIOD) == 1


def test_as_many_bits_as_the_highest_number_has():
    for count in [*range(1, 600), 1 << 16]:
        assert all_bits(count) == (1 << (count - 1).bit_length()) - 1

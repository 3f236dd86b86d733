"""Numbers that another clock reads: one bit changes at a time."""

import itertools
from random import Random

import pytest
from amaranth.sim import Simulator

from lethe.bus.crossing import GrayCounter


@pytest.mark.parametrize("bits", [3, 5])
def test_one_bit_changes_with_a_step(bits):
    """Through two rounds, with pauses: numbers in Gray code, in order."""
    counter, chance, shown, places = GrayCounter(bits, "sync"), Random(bits), [], []
    rounds, codes = 2 << bits, [number ^ number >> 1 for number in range(1 << bits)]

    async def bench(ctx):
        steps = 0
        while steps < rounds:
            shown.append(ctx.get(counter.gray))
            assert shown[-1] == codes[steps % len(codes)]
            assert ctx.get(counter.following) == codes[(steps + 1) % len(codes)]
            places.append(ctx.get(counter.place))
            stepping = chance.random() < 0.7
            ctx.set(counter.step, stepping)
            await ctx.tick()
            steps += stepping

    simulator = Simulator(counter)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert all((a ^ b).bit_count() <= 1 for a, b in itertools.pairwise(shown))
    # In any half of the numbers that come one after the other each has a place of its own.
    one_each = [place for place, _ in itertools.groupby(places)]
    half = len(codes) // 2
    assert all(len({*one_each[at : at + half]}) == half for at in range(rounds - half))

"""Counters are exact at every read, whatever pulses and whenever it is read."""

import random

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from lethe.statistics import Statistics


@pytest.mark.parametrize(("counters", "most"), [(1, 1), (2, 1), (3, 1), (8, 1), (32, 1), (8, 8), (5, 3)])
def test_counts_are_exact_from_the_first_cycle_on_and_after_reset(counters, most):
    rng = random.Random(counters * 10 + most)
    bits = most.bit_length()
    dut = Statistics(16, counters, most)
    reset = Signal()

    async def testbench(ctx):
        counts, expected = [0] * counters, None
        for cycle in range(500):
            rested = cycle in (211, 212, 330)
            heavy = cycle % 100 < 50
            pulses = [most if heavy else rng.randrange(most + 1) for _ in range(counters)]
            address = rng.randrange(counters)
            ctx.set(reset, rested)
            ctx.set(dut.pulse, sum(pulse << bits * i for i, pulse in enumerate(pulses)))
            ctx.set(dut.address, address)
            if expected is not None:
                assert ctx.get(dut.data) == expected, f"cycle {cycle}"
            expected = None if rested else counts[address]
            counts = [0] * counters if rested else [a + b for a, b in zip(counts, pulses, strict=True)]
            await ctx.tick()

    simulator = Simulator(ResetInserter(reset)(dut))
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def test_counts_wrap():
    dut = Statistics(2, 1)

    async def testbench(ctx):
        ctx.set(dut.pulse, 1)
        for cycle in range(40):
            await ctx.tick()
            assert ctx.get(dut.data) == cycle % 4

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize(("arguments", "word"), [((32, 0), "counters"), ((32, 1, 0), "most")])
def test_bad_sizes_are_refused(arguments, word):
    with pytest.raises(ValueError, match=f"{word} must be at least 1"):
        Statistics(*arguments)

"""The generators in hardware draw what `lethe.spec.random` draws (cycle contract, section 1)."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from lethe.lib import random as chance
from lethe.spec import random as spec
from tests.helpers.fabric_bench import run


def test_draws_follow_the_seed_and_wait_for_take():
    dut = chance.Draws()
    seed = spec.seed_for(7, spec.UNIT_NI, 3)

    async def testbench(ctx):
        ctx.set(dut.seed, seed)
        await ctx.tick()
        state = seed
        for cycle in range(200):
            state_after = spec.advance(state)
            assert ctx.get(dut.draw) == state_after
            take = cycle % 3 != 1
            ctx.set(dut.take, take)
            await ctx.tick()
            if take:
                state = state_after

    clocked(dut, testbench)


@pytest.mark.parametrize("late", [0, 1])
def test_steady_draws_follow_the_seed_from_the_first_cycle_on(late):
    dut = chance.SteadyDraws(late)
    seed = spec.seed_for(7, spec.UNIT_ROUTER, 3)

    async def testbench(ctx):
        ctx.set(dut.seed, seed)
        state = seed
        for _ in range(late):
            await ctx.tick()
        for _ in range(200):
            state = spec.advance(state)
            assert ctx.get(dut.draw) == state
            await ctx.tick()

    clocked(dut, testbench)


def clocked(dut, testbench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def test_draws_are_not_shown_later():
    with pytest.raises(ValueError, match="late must be 0 or 1, not 2"):
        chance.SteadyDraws(2)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 15, 66, 255])
def test_scale_is_the_specified_one(count):
    m = Module()
    draw, scaled = Signal(8), Signal(8)
    m.d.comb += scaled.eq(chance.scale(draw, count))
    m.d.sync += Signal().eq(0)

    async def testbench(ctx):
        for value in range(256):
            ctx.set(draw, value)
            assert ctx.get(scaled) == spec.scale(value, 8, count)

    run(m, testbench)

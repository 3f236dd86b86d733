"""The generators in hardware draw what `lethe.spec.random` draws (cycle contract, section 1)."""

# A component's members come from its signature when it is made, where no type checker sees them.
# pyright: reportAttributeAccessIssue=false

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from lethe.lib import random as chance
from lethe.spec import random as spec
from tests.helpers.fabric_bench import run


@pytest.mark.parametrize("ahead", [1, 2])
def test_draws_follow_the_seed_and_wait_for_take(ahead):
    dut = chance.Draws(ahead)
    seed = spec.seed_for(7, spec.UNIT_ROUTER, 3)

    async def testbench(ctx):
        ctx.set(dut.seed, seed)
        for _ in range(ahead):
            await ctx.tick()
        state = seed
        for cycle in range(200):
            state_after = spec.advance(state)
            assert ctx.get(dut.draw) == state_after
            assert ctx.get(dut.following) == spec.advance(state_after)
            take = cycle % 3 != 1
            ctx.set(dut.take, take)
            await ctx.tick()
            if take:
                state = state_after

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


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

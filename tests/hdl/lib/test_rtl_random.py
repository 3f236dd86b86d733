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


def test_a_unit_has_the_seed_that_the_specification_gives_it():
    """Of a run's seed that is a signal, and of one that is a number."""
    m, run_seed = Module(), Signal(32)
    units = [(spec.UNIT_NI, 0), (spec.UNIT_ROUTER, 3), (spec.UNIT_LINK_LOSS, 1023), (spec.UNIT_GENERATOR, 254)]
    found = [chance.seed_of(m, run_seed, *unit) for unit in units]

    async def testbench(ctx):
        for seed in (0, 1, 8, 0x8000_0000, 0xFFFF_FFFF, 0x1234_5678):
            ctx.set(run_seed, seed)
            for unit, value in zip(units, found, strict=True):
                assert ctx.get(value) == spec.seed_for(seed, *unit) == chance.seed_of(m, seed, *unit)

    simulator = Simulator(m)
    simulator.add_testbench(testbench)
    simulator.run()


def test_no_unit_has_the_seed_0():
    """A generator would stay at 0: where the mixing gives that, the seed is 1."""
    inverse = pow(spec.SEED_FACTORS[0], -1, 1 << 32)
    seed = -(spec.UNIT_NI * spec.SEED_FACTORS[1] + spec.SEED_OFFSET) * inverse % (1 << 32)
    assert spec.seed_for(seed, spec.UNIT_NI, 0) == 1
    m, run_seed = Module(), Signal(32, init=seed)
    found = chance.seed_of(m, run_seed, spec.UNIT_NI, 0)

    async def testbench(ctx):
        assert ctx.get(found) == 1

    simulator = Simulator(m)
    simulator.add_testbench(testbench)
    simulator.run()


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

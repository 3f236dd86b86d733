"""Link faults, case by case (cycle contract, section 2)."""

import random

import pytest
from amaranth.sim import Simulator

from lethe.fabric.fault import LinkFault
from lethe.fabric.schedule import Schedule, merged
from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.random import advance, scale, seed_for
from tests.helpers.fabric_bench import flit, run, system

WIRE = system().format


async def step(ctx, dut, given: int, dead: bool = False) -> tuple[int, int]:
    ctx.set(dut.i.as_value(), given)
    ctx.set(dut.dead, dead)
    seen = ctx.get(dut.o.as_value()), ctx.get(dut.watch)
    await ctx.tick()
    return seen


def test_a_dead_link_swallows_and_reports_heads_only():
    dut = LinkFault(WIRE, mortal=True)

    async def testbench(ctx):
        worm = [flit(5, first=True), flit(6), flit(7, last=True)]
        assert await step(ctx, dut, worm[0]) == (worm[0], 0)
        assert await step(ctx, dut, worm[1], dead=True) == (0, 0)
        assert await step(ctx, dut, worm[2]) == (worm[2], 0)
        assert await step(ctx, dut, worm[0], dead=True) == (0, Event.DEAD)
        assert await step(ctx, dut, worm[1]) == (worm[1], 0)
        assert await step(ctx, dut, 0, dead=True) == (0, 0)

    run(dut, testbench)


@pytest.mark.parametrize(("loss", "flip", "mortal"), [(20000, 0, False), (30000, 1 << 22, True), (0, 1 << 23, True)])
def test_random_traffic_suffers_as_drawn(loss, flip, mortal):
    dut = LinkFault(WIRE, loss, flip, mortal)
    loss_seed, flip_seed = seed_for(1, 3, 9), seed_for(1, 4, 9)
    rng = random.Random(loss + flip)
    seen = set()

    async def testbench(ctx):
        loss_state, flip_state, swallowing = loss_seed, flip_seed, False
        for _ in range(1500):
            given = 0
            if rng.random() < 0.9:
                given = flit(rng.getrandbits(64), first=rng.random() < 0.4, last=rng.random() < 0.4)
            dead = mortal and rng.random() < 0.1
            event, expected = 0, given
            if dead:
                event, expected = (Event.DEAD if given & 2 else 0), 0
            elif loss and given:
                if given & 2:
                    loss_state = advance(loss_state)
                    swallowing = loss_state & 0xFFFF < loss
                    event = Event.LOST if swallowing else 0
                if swallowing:
                    expected = 0
            if flip and expected:
                flip_state = advance(flip_state)
                if flip_state & 0xFFFFFF < flip:
                    event = Event.FLIP
                    position = scale(flip_state >> 24, 8, WIRE.flit_bits + 2)
                    place = {WIRE.flit_bits: 1, WIRE.flit_bits + 1: 2}.get(position, position + 3)
                    expected ^= 1 << place
            seen.add(event)
            assert await step(ctx, dut, given, dead) == (expected, event)

    async def seeded(ctx):
        ctx.set(dut.loss_seed, loss_seed)
        ctx.set(dut.flip_seed, flip_seed)
        await ctx.tick()
        await testbench(ctx)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(seeded)
    simulator.run()
    wanted = {0} | ({Event.LOST} if loss else set()) | ({Event.FLIP} if flip else set())
    assert seen == wanted | ({Event.DEAD} if mortal else set())


def test_intervals_merge():
    assert merged([(5, 9), (0, 2), (8, 11), (2, 3), (20, 21)]) == [(0, 3), (5, 11), (20, 21)]


def test_schedule_by_cycle():
    configured = System.make(
        topology={"kind": "wire"},
        wire={"incarnation_bits": 2},
        workload={"stop": 13},
        timers={"wrap_guard": 0},
        faults={
            "links": [{"link": 1, "start": 0, "end": 4}, {"link": 1, "start": 3, "end": 6}],
            "stalls": [{"node": 0, "start": 2, "end": 3}, {"node": 0, "start": 9, "end": 12}],
            "resets": [{"node": 1, "start": start, "cycles": 2} for start in (0, 4, 8, 12)],
        },
    )
    dut = Schedule(configured)
    incarnations = [2, 2, 2, 2, 3, 3, 3, 3, 1, 1, 1, 1, 2]

    async def testbench(ctx):
        for cycle in range(30):
            assert ctx.get(dut.dead) == (2 if cycle < 6 else 0)
            assert ctx.get(dut.stalled) == int(cycle == 2 or 9 <= cycle < 12)
            assert ctx.get(dut.reset) == (2 if cycle in (0, 1, 4, 5, 8, 9, 12, 13) else 0)
            assert ctx.get(dut.incarnation) == 1 | incarnations[min(cycle, 12)] << 2
            assert ctx.get(dut.stopped) == (cycle >= 13)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()

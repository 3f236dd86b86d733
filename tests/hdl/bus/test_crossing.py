"""From one clock to another: numbers of which one bit changes at a time, and a beat in each cycle."""

import itertools
from random import Random

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.sim import Simulator

from lethe.bus.crossing import HOST, Crossing, GrayCounter
from lethe.bus.signature import axi_stream


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


@pytest.mark.parametrize("period", [0.31, 0.73, 1.0, 1.37, 3.2])
@pytest.mark.parametrize("domains", [("sync", HOST), (HOST, "sync")])
def test_a_beat_crosses_in_each_cycle_of_the_slower_clock(domains, period):
    """``period`` is the host's, of the NI's; beats come in order."""
    crossing, wanted, taken = Crossing(axi_stream(8, keep=False), domains), 200, []
    cycles, slower = dict.fromkeys(domains, 0), HOST if period > 1 else "sync"

    async def offer(ctx):
        number = 0
        ctx.set(crossing.i.tvalid, 1)
        while True:
            ctx.set(crossing.i.tdata, number % 256)
            _, _, ready = await ctx.tick(domains[0]).sample(crossing.i.tready)
            cycles[domains[0]] += 1
            number += ready

    async def take(ctx):
        ctx.set(crossing.o.tready, 1)
        while len(taken) < wanted:
            _, _, valid, beat = await ctx.tick(domains[1]).sample(crossing.o.tvalid, crossing.o.tdata)
            cycles[domains[1]] += 1
            if valid:
                taken.append((cycles[slower], beat))

    simulator = Simulator(crossing)
    simulator.add_clock(1e-6, domain="sync")
    simulator.add_clock(period * 1e-6, phase=1e-7, domain=HOST)
    simulator.add_testbench(offer, background=True)
    simulator.add_testbench(take)
    simulator.run()
    assert [beat for _, beat in taken] == [number % 256 for number in range(wanted)]
    (begun, _), (ended, _) = taken[20], taken[-1]
    assert ended - begun <= wanted - 20


@pytest.mark.parametrize("domains", [("sync", HOST), (HOST, "sync")])
@pytest.mark.parametrize("last", ["sync", HOST])
def test_a_reset_of_both_sides_leaves_nothing(domains, last):
    """Whichever side comes out of it first."""
    resets, taken = {name: Signal(name=f"reset_{name}") for name in domains}, []
    crossing = Crossing(axi_stream(8, keep=False), domains)
    dut = Module()
    dut.submodules.crossing = ResetInserter(resets)(crossing)

    async def take(ctx):
        while True:
            _, _, moves, beat = await ctx.tick(domains[1]).sample(
                crossing.o.tvalid & crossing.o.tready, crossing.o.tdata
            )
            if moves and not ctx.get(resets[domains[1]]):
                taken.append(beat)

    async def send(ctx, beats):
        ctx.set(crossing.i.tvalid, 1)
        for beat in beats:
            ctx.set(crossing.i.tdata, beat)
            await ctx.tick(domains[0]).until(crossing.i.tready)
        ctx.set(crossing.i.tvalid, 0)

    async def bench(ctx):
        await send(ctx, range(11))  # nobody takes them
        for reset in resets.values():
            ctx.set(reset, 1)
        for _ in range(8):
            await ctx.tick(HOST)  # the slower one
        for name in (next(name for name in domains if name != last), last):
            ctx.set(resets[name], 0)
            for _ in range(5):
                await ctx.tick(HOST)
        ctx.set(crossing.o.tready, 1)
        await send(ctx, range(100, 120))
        for _ in range(20):
            await ctx.tick(HOST)
        assert taken == [*range(100, 120)] and not ctx.get(crossing.waiting)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6, domain="sync")
    simulator.add_clock(1.37e-6, phase=1e-7, domain=HOST)
    simulator.add_testbench(take, background=True)
    simulator.add_testbench(bench)
    simulator.run()

"""Counters are exact at every read, whatever pulses and whenever it is read."""

import random
from collections import deque

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from lethe.statistics import LATENCY, QUIET, Statistics


@pytest.mark.parametrize(
    ("counters", "most", "lanes"),
    [
        (1, 1, ()), (2, 1, ()), (3, 1, ()), (8, 1, ()), (32, 1, ()), (8, 8, ()), (5, 3, ()),
        (32, 1, [range(5), range(5, 28)]), (20, 2, [range(3, 17)]), (4, 1, [range(4)]),
    ],
)  # fmt: skip
def test_counts_are_exact_from_the_first_cycle_on_and_after_reset(counters, most, lanes):
    """A read is of all cycles up to two before it; lanes are quiet at first."""
    rng = random.Random(counters * 10 + most)
    bits, coded = most.bit_length(), [i for lane in lanes for i in lane]
    dut = Statistics(16, counters, most, lanes)
    reset = Signal()

    async def testbench(ctx):
        counts = [deque([0] * 2, maxlen=2) for _ in range(counters)]  # of two cycles ago, of one cycle ago
        expected: deque[int | None] = deque([None] * LATENCY)
        favourite, age = 0, 0
        for cycle in range(2500):
            rested = cycle in (211, 212, 330, 333, 1400)
            if cycle % 100 == 0:
                favourite = rng.randrange(counters)
            heavy = cycle % 100 < 50
            pulses = [most if heavy else rng.randrange(most + 1) for _ in range(counters)]
            address = favourite if heavy else rng.randrange(counters)
            ctx.set(reset, rested)
            ctx.set(dut.pulse, sum(pulse << bits * i for i, pulse in enumerate(pulses)))
            ctx.set(dut.address, address)
            for i in coded:
                pulses[i] = 0
            for i, lane in enumerate(lanes):
                counter = favourite if heavy and favourite in lane else rng.choice(lane)
                valid = age >= QUIET and (heavy or rng.random() < 0.5)
                ctx.set(dut.lanes[i], {"valid": valid, "counter": counter})
                pulses[counter] = int(valid)
            if (wanted := expected.popleft()) is not None:
                assert ctx.get(dut.data) == wanted, f"cycle {cycle}"
            expected.append(counts[address][0] & 0xFFFF)
            for count, pulse in zip(counts, pulses, strict=True):
                count.append(count[-1] + pulse)
            age += 1
            if rested:
                counts, age = [deque([0] * 2, maxlen=2) for _ in range(counters)], 0
                expected = deque([None] * LATENCY)
            await ctx.tick()

    simulator = Simulator(ResetInserter(reset)(dut))
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def test_counts_wrap():
    dut = Statistics(2, 1)

    async def testbench(ctx):
        ctx.set(dut.pulse, 1)
        for _ in range(LATENCY + 1):
            await ctx.tick()
        for cycle in range(40):
            assert ctx.get(dut.data) == cycle % 4
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize(
    ("counters", "most", "lanes"),
    [(3, 1, ()), (5, 3, ()), (32, 1, [range(5), range(5, 28)]), (20, 2, [range(3, 17)])],
)
def test_counters_are_read_as_of_one_cycle(counters, most, lanes):
    """Pulses in every cycle; what was counted since the walk began is told, whichever counter is read when."""
    rng = random.Random(counters)
    bits, coded = most.bit_length(), [i for lane in lanes for i in lane]
    dut = Statistics(16, counters, most, lanes, since=8)

    async def testbench(ctx):
        counts = [deque([0] * 2, maxlen=2) for _ in range(counters)]
        expected: deque = deque([None] * LATENCY)
        cycle, at_first = 0, []

        async def one(address: int, walk: int) -> None:
            nonlocal cycle
            pulses = [rng.randrange(most + 1) for _ in range(counters)]
            ctx.set(dut.pulse, sum(pulse << bits * i for i, pulse in enumerate(pulses)))
            ctx.set(dut.address, address)
            ctx.set(dut.walk, walk)
            for i in coded:
                pulses[i] = 0
            for i, lane in enumerate(lanes):
                counter = rng.choice([lane[-1], *lane])
                valid = cycle >= QUIET and rng.random() < 0.9
                ctx.set(dut.lanes[i], {"valid": valid, "counter": counter})
                pulses[counter] = int(valid)
            if walk and not at_first:
                at_first.extend(count[0] for count in counts)
            if (wanted := expected.popleft()) is not None:
                assert (ctx.get(dut.data) - ctx.get(dut.since)) & 0xFFFF == wanted, f"cycle {cycle}"
            expected.append(at_first[address] if walk else None)
            for count, pulse in zip(counts, pulses, strict=True):
                count.append(count[-1] + pulse)
            cycle += 1
            await ctx.tick()

        for _ in range(6):
            for _ in range(rng.randrange(40)):
                await one(rng.randrange(counters), 0)
            at_first.clear()
            for walk in (0, 1):
                for address in range(counters):
                    await one(address, walk)
        for _ in range(LATENCY):
            await one(0, 0)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize(("arguments", "word"), [((32, 0), "counters"), ((32, 1, 0), "most")])
def test_bad_sizes_are_refused(arguments, word):
    with pytest.raises(ValueError, match=f"{word} must be at least 1"):
        Statistics(*arguments)


@pytest.mark.parametrize("lanes", [[[0, 1], [1]], [[0, 4]]])
def test_bad_lanes_are_refused(lanes):
    with pytest.raises(ValueError, match="lanes must have different counters below 4"):
        Statistics(32, 4, lanes=lanes)

"""Who is first by a drawn order, and counts, for all that can be asked and drawn."""

import pytest
from amaranth.hdl import Cat, Module, Signal

from lethe.fabric.order import count, ranks, winners
from tests.helpers.fabric_bench import run


@pytest.mark.parametrize("numbers", [(0, 1, 2, 3, 4), (1, 2, 3, 4, 5, 6, 7), (0, 2, 3), (5,), ()], ids=str)
def test_the_least_by_the_drawn_order_wins_and_the_others_follow(numbers):
    m = Module()
    m.d.sync += Signal().eq(0)
    asking, turn = Signal(max(1, len(numbers))), Signal(3)
    asks = {i: asking[n] for n, i in enumerate(numbers)}
    won, placed = Signal(max(1, len(numbers))), [Signal(3, name=f"rank{i}") for i in numbers]
    m.d.comb += won.eq(Cat(winners(asks, turn).values()))
    m.d.comb += [signal.eq(rank) for signal, rank in zip(placed, ranks(asks, turn).values(), strict=True)]

    async def testbench(ctx):
        for drawn in range(8):
            ctx.set(turn, drawn)
            for bits in range(1 << len(numbers)):
                ctx.set(asking, bits)
                order = sorted((i for n, i in enumerate(numbers) if bits >> n & 1), key=lambda i: i ^ drawn)
                assert ctx.get(won) == sum(1 << numbers.index(i) for i in order[:1])
                for i, signal in zip(numbers, placed, strict=True):
                    assert ctx.get(signal) == sum(j ^ drawn < i ^ drawn for j in order)

    run(m, testbench)


@pytest.mark.parametrize("width", range(10))
def test_ones_are_counted(width):
    m = Module()
    m.d.sync += Signal().eq(0)
    bits, ones = Signal(max(1, width)), Signal(8)
    m.d.comb += ones.eq(count(list(bits)[:width]))

    async def testbench(ctx):
        for value in range(1 << width):
            ctx.set(bits, value)
            assert ctx.get(ones) == value.bit_count()

    run(m, testbench)

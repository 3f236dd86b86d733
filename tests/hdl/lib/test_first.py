"""The first of some bits."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from lethe.lib.first import first_of, lowest_of, turn_of


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 12, 16, 19])
def test_the_lowest(width):
    """Whether there is a 1, and its number: of each bit alone, and below all others."""
    m, bits, some, number = Module(), Signal(width), Signal(), Signal(max(1, (width - 1).bit_length()))
    found = lowest_of(bits)
    m.d.comb += [some.eq(found[0]), number.eq(found[1])]

    async def test(ctx):
        assert not ctx.get(some) and len(found[1]) == (width - 1).bit_length()
        for lowest in range(width):
            for higher in (0, -1, 0b1010 << lowest):
                ctx.set(bits, (1 << lowest | higher << (lowest + 1)) & ((1 << width) - 1))
                assert (ctx.get(some), ctx.get(number)) == (1, lowest)

    simulator = Simulator(m)
    simulator.add_testbench(test)
    simulator.run()


@pytest.mark.parametrize("last", range(8))
def test_the_first_behind_the_last_one_cyclically(last):
    """As a number, and as a 1 at its place."""
    m, bits, found, turn = Module(), Signal(8), Signal(3), Signal(8)
    later = Signal(8, init=0xFE << last & 0xFF)
    m.d.comb += [found.eq(first_of(bits, later)), turn.eq(turn_of(bits, later))]

    async def test(ctx):
        for value in range(256):
            ctx.set(bits, value)
            wanted = next(((last + k) % 8 for k in range(1, 9) if value >> (last + k) % 8 & 1), None)
            assert ctx.get(turn) == (0 if wanted is None else 1 << wanted)
            assert wanted is None or ctx.get(found) == wanted

    simulator = Simulator(m)
    simulator.add_testbench(test)
    simulator.run()

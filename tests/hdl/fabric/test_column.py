"""A crossbar column passes the selected source, or nothing; how many bits name it."""

import random

import pytest
from amaranth.hdl import Module, Signal

from lethe.fabric.column import chosen, code, passed
from tests.helpers.fabric_bench import run

WIDTH = 5


@pytest.mark.parametrize("coded", [True, False])
@pytest.mark.parametrize("sources", [*range(1, 10), 14, 15, 16])
def test_what_is_selected_passes(sources, coded):
    m = Module()
    m.d.sync += Signal().eq(0)
    select, out = Signal(sources), Signal(WIDTH)
    flits = [Signal(WIDTH, name=f"flit{n}") for n in range(sources)]
    bits = list(select)
    m.d.comb += out.eq(passed(code(bits), flits) if coded else chosen(bits, flits))
    chance = random.Random(sources)

    async def testbench(ctx):
        for n in [*range(sources), None]:
            ctx.set(select, 0 if n is None else 1 << n)
            for _ in range(20):
                values = [chance.choice((0, chance.getrandbits(WIDTH), (1 << WIDTH) - 1)) for _ in flits]
                for flit, value in zip(flits, values, strict=True):
                    ctx.set(flit, value)
                assert ctx.get(out) == (0 if n is None else values[n])

    run(m, testbench)


def test_some_sources_have_no_bit_of_their_own():
    bits = {sources: len(code(list(Signal(sources)))) for sources in (1, 2, 3, 4, 5, 6, 7, 8, 14)}
    assert bits == {1: 1, 2: 2, 3: 3, 4: 3, 5: 5, 6: 6, 7: 6, 8: 7, 14: 12}

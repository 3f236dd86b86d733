"""What flow's blocks ask of numbers of few bits."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from lethe.services.flow.layouts import at_most


@pytest.mark.parametrize("most", [0, 1, 7, 8, 12, 14, 15, 16, 99])
def test_a_value_is_at_most_that(most):
    m, value, found = Module(), Signal(4), Signal()
    m.d.comb += found.eq(at_most(value, most))

    async def test(ctx):
        for number in range(16):
            ctx.set(value, number)
            assert ctx.get(found) == (number <= most)

    simulator = Simulator(m)
    simulator.add_testbench(test)
    simulator.run()

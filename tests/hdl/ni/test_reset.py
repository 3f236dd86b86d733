"""A node reset of one cycle within a worm: between worms a flit is 0 (docs/reference/cycle-contract.md, 2)."""

# A component's members come from its signature when it is made, where no type checker sees them.
# pyright: reportAttributeAccessIssue=false

import pytest
from amaranth.sim import Simulator

from lethe.ni.ni import Ni
from lethe.spec.config import System

CYCLES = 60


@pytest.mark.parametrize("place", range(3))
def test_nothing_is_left_on_the_link(place):
    """Registers of data have no reset: what they hold in the cycle behind one must not be seen."""
    ni = Ni(System.make(preset="tiny"), watch=False, dump=False)
    shown: list[tuple[int, int, int]] = []

    async def host(ctx):
        ctx.set(ni.incarnation, 1)
        ctx.set(ni.link_enable, 1)
        ctx.set(ni.host.send.payload.destination, 1)
        ctx.set(ni.host.send.payload.length, 8)
        ctx.set(ni.host.send.valid, 1)
        ctx.set(ni.host.send_data.payload, (1 << len(ni.host.send_data.payload)) - 1)
        ctx.set(ni.host.send_data.valid, 1)
        flits = 0
        for _ in range(CYCLES):
            flit = ctx.get(ni.link_o)
            flits += flit.valid
            ctx.set(ni.node_reset, flits == place + 1 and flit.valid)
            flit, resets = ctx.get(ni.link_o), ctx.get(ni.node_reset)
            shown.append((flit.valid, flit.data, resets))
            await ctx.tick()

    simulator = Simulator(ni)
    simulator.add_clock(1e-6)
    simulator.add_testbench(host)
    simulator.run()
    assert sum(resets for *_, resets in shown) == 1
    assert sum(valid for valid, *_ in shown) > place
    assert not [data for valid, data, _ in shown if data and not valid]

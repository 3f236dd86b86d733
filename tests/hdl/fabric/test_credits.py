"""The router with credits, beyond what holds it against the reference (``cocotb_tests/test_blocks.py``)."""

import pytest
from amaranth.hdl import Cat
from amaranth.sim import Simulator

from lethe.fabric.credits import CreditRouter
from lethe.fabric.routes import Rule
from lethe.spec.config import System
from lethe.spec.wire import KIND_BITS

SYSTEM = System.make(topology={"kind": "crossbar", "nodes": 3}, wire={"mtu": 24})
RULE = Rule.of(SYSTEM.graph, 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"flits": 0}, "flits must be at least 1, not 0"),
        ({"flits": 4, "latency": 0}, "latency must be at least 1, not 0"),
        ({"flits": 4, "credit_delay": 0}, "credit_delay must be at least 1, not 0"),
        ({"flits": 4, "route_delay": 2}, "route_delay must be 0 or 1, not 2"),
        ({"flits": 4, "grant_delay": -1}, "grant_delay must be 0 or 1, not -1"),
    ],
)
def test_what_cannot_be_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        CreditRouter(SYSTEM.format, RULE, **wrong)


@pytest.mark.parametrize(("flits", "loop", "latency"), [(4, 6, 2), (3, 8, 1), (4, 4, 1), (8, 4, 3)])
def test_so_many_flits_in_the_time_of_a_credit(flits, loop, latency):
    """A worm moves ``flits`` flits in each ``loop`` cycles, but no more than one in each; without credits it stands."""
    router = CreditRouter(SYSTEM.format, RULE, flits, latency)
    passed: list[int] = []

    async def bench(ctx):
        source, sent, waiting = router.i[0], 0, flits
        head = 2 << KIND_BITS
        for cycle in range(20 * loop):
            ctx.set(Cat(source.valid, source.first, source.last), int(waiting > 0) * (1 | int(sent == 0) << 1))
            ctx.set(source.data, head if sent == 0 else sent)
            ctx.set(router.credits, int(cycle - loop + 1 in passed) << 2)
            taken, waiting = int(waiting > 0), waiting - (waiting > 0)
            if ctx.get(router.back[0]):
                passed.append(cycle)
                waiting += 1
            sent += taken
            await ctx.tick()

    simulator = Simulator(router)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert passed[:flits] == list(range(flits))
    pace = max(1, loop / flits)
    assert [passed[n] for n in range(0, len(passed), flits)] == [round(pace * n) for n in range(0, len(passed), flits)]
    assert len(passed) >= 19 * loop / pace

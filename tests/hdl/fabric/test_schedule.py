"""What is scheduled, cycle by cycle: resets that touch are one, whatever their scopes."""

from amaranth.sim import Simulator

from lethe.fabric.schedule import Schedule
from lethe.spec.config import System

CYCLES = 40
#: (start, cycles, scope) of the resets of node 1.
RESETS = ((0, 2, "ni"), (5, 3, "ni"), (8, 4, "node"), (10, 6, "ni"), (20, 1, "node"), (22, 1, "ni"), (30, 1, "node"))


def test_resets_have_a_scope_and_those_that_touch_count_once():
    system = System.make(
        topology={"kind": "wire"},
        wire={"incarnation_bits": 2},
        loop={"slots": 2},
        faults={"resets": [{"node": 1, "start": s, "cycles": n, "scope": scope} for s, n, scope in RESETS]},
    )
    schedule, seen = Schedule(system), []

    async def process(ctx):
        for _ in range(CYCLES):
            values = (schedule.reset, schedule.service_reset, schedule.incarnation)
            seen.append([ctx.get(value) for value in values])
            await ctx.tick()

    simulator = Simulator(schedule)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
    for cycle, (reset, whole, incarnation) in enumerate(seen):
        during = [scope for start, cycles, scope in RESETS if start <= cycle < start + cycles]
        assert (reset, whole) == (2 * bool(during), 2 * ("node" in during)), cycle
        past = sum(start <= cycle for start in (0, 5, 20, 22, 30))
        assert incarnation == 1 | (past % 3 + 1) << 2, cycle

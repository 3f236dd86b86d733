"""Blocks beside their models in Amaranth's own simulator: nothing to build, but slow in every cycle.

For one block and some thousand cycles; `block_groups.hold` is for whole groups.
"""

import itertools

from amaranth.sim import Simulator

from .blocks import Block, BlockGroup


def first_difference(block: Block, seed: int, cycles: int) -> int | None:
    """The first of ``cycles`` cycles of ``seed`` in which RTL and model differ, or None if they agree."""
    dut, found = BlockGroup({"block": block}), []

    async def bench(ctx):
        for cycle, (given, expected) in enumerate(itertools.islice(block.play(seed), cycles)):
            ctx.set(dut.i, given)
            if ctx.get(dut.o) != expected:
                found.append(cycle)
                return
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found[0] if found else None

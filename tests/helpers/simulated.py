"""A simulator around one block, and the walk that clears its tables."""

from amaranth.sim import Simulator


def simulated(block, test) -> None:
    """Runs ``await test(ctx)`` on one block."""
    simulator = Simulator(block)
    simulator.add_clock(1e-6)
    simulator.add_testbench(test)
    simulator.run()


async def walked(ctx, block, words: int) -> None:
    """The walk after a reset."""
    for address in range(words):
        ctx.set(block.clear, 1)
        ctx.set(block.clear_addr, address)
        await ctx.tick()
    ctx.set(block.clear, 0)

"""A simulator around one block, and the walk that clears its tables."""

from amaranth.sim import Simulator


class Simulated:
    """A block in a simulator that is made once, for simulating is the smaller part; each run begins with a reset."""

    def __init__(self, block):
        self.block = block
        self._simulator: Simulator | None = None

    def run(self, test) -> None:
        """Runs ``await test(ctx)``."""
        simulator, self._test = self._simulator, test
        # Nothing is kept of a run that failed.
        self._simulator = None
        if simulator is None:
            simulator = Simulator(self.block)
            simulator.add_clock(1e-6)
            simulator.add_testbench(self._testbench)
        else:
            simulator.reset()
        simulator.run()
        self._simulator = simulator

    async def _testbench(self, ctx) -> None:
        await self._test(ctx)


def simulated(block, test) -> None:
    """Runs ``await test(ctx)`` on one block."""
    Simulated(block).run(test)


async def walked(ctx, block, words: int) -> None:
    """The walk after a reset, and those over ports and nodes, of those that the block knows of."""
    walks = [walk for walk in ("clear", "ports_clear", "nodes_clear") if hasattr(block, walk)]
    for address in range(words):
        for walk in walks:
            at = getattr(block, f"{walk}_addr")
            ctx.set(getattr(block, walk), int(walk == "clear" or address < 1 << len(at)))
            ctx.set(at, address % (1 << len(at)))
        await ctx.tick()
    for walk in walks:
        ctx.set(getattr(block, walk), 0)

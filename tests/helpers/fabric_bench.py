"""What the tests of the fabric share: flits as integers, and a clock around a component."""

from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from lethe.spec.config import System
from lethe.spec.wire import KIND_BITS


def flit(data: int = 0, *, first: bool = False, last: bool = False, to: int | None = None) -> int:
    """A flit on a link: valid, first, last, data; ``to`` puts a destination into a head's data."""
    if to is not None:
        data = data | to << KIND_BITS
    return 1 | first << 1 | last << 2 | data << 3


def head(to: int, data: int = 0, *, last: bool = False) -> int:
    return flit(data, first=True, last=last, to=to)


def run(component, testbench) -> None:
    """Runs an async testbench, started in the second cycle after reset, when generators have their seeds."""

    async def wait_for_seeds(ctx):
        await ctx.tick()
        await testbench(ctx)

    m = Module()
    m.submodules.dut = component
    m.d.sync += Signal().eq(0)  # a clock, even if the component has none
    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(wait_for_seeds)
    simulator.run()


def system(kind: str = "tree", **topology) -> System:
    sizes = {"tree": {"arity": 2, "levels": 2}, "crossbar": {"nodes": 4}, "mesh": {"columns": 3, "rows": 2}}
    return System.make(topology={"kind": kind, **sizes.get(kind, {}), **topology})

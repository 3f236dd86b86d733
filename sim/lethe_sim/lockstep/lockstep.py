"""The comparison itself, inside the simulator."""

from collections.abc import Callable

import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Counter, RouterCounter
from lethe_sim.golden.model import Golden, Script

from .divergence import report

_CLOCKED: list = []


class Lockstep:
    """Steps the golden model beside a `SystemTop` and stops at the first cycle where anything differs.

    The golden side sees only ``system`` and ``script``: it runs ahead in chunks, and what its hosts offered is
    driven into the RTL.

    Parameters
    ----------
    dut : cocotb handle of a `SystemTop` (ports clk, rst, watch; stimulus if the hosts are scripted)
    system : the configuration both sides were made from
    script : datagrams of the scripted hosts; None if the RTL has its own generators
    reproduce : the command that repeats this run, for the report
    record : called with (first cycle, RTL rows uint64[n, words]) for each chunk that agreed
    progress : called with (cycle, golden model) after each chunk
    """

    def __init__(
        self,
        dut,
        system: System,
        *,
        script: Script | None = None,
        reproduce: str = "",
        chunk: int = 256,
        record: Callable[[int, np.ndarray], None] | None = None,
        progress: Callable[[int, Golden], None] | None = None,
    ):
        self.dut = dut
        self.system = system
        self.golden = Golden(system, script)
        self.reproduce = reproduce
        self.words = trace.trace_words(system.graph)
        self._scripted = script is not None
        self._record = record
        self._progress = progress
        self._rows = np.zeros((chunk, self.words), np.uint64)
        self._seen = np.zeros((chunk, self.words), np.uint64)
        self._stimulus = np.zeros((chunk, system.nodes * trace.STIMULUS_WORDS), np.uint64) if self._scripted else None
        self._history: list[tuple[int, np.ndarray]] = []

    async def start(self) -> None:
        """Start the clock and release the reset; returns at the beginning of cycle 0."""
        if self._scripted:
            self.dut.stimulus.value = 0
        self.dut.rst.value = 1
        if self.dut not in _CLOCKED:  # a bench may start several runs on one design
            Clock(self.dut.clk, 10, unit="ns", impl="gpi").start()
            _CLOCKED.append(self.dut)
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0

    async def run(self, cycles: int, *, until_drained: bool = False) -> int:
        """Compare ``cycles`` cycles, fewer if everything drains first; returns how many.

        Raises `DivergenceError` at the first cycle that differs.
        """
        first = self.golden.cycle
        while (done := self.golden.cycle - first) < cycles:
            size = min(len(self._rows), cycles - done)
            ran = await self._chunk(size, until_drained)
            if self._progress:
                self._progress(self.golden.cycle, self.golden)
            if ran < size or (until_drained and self.golden.drained):
                break
        return self.golden.cycle - first

    async def _chunk(self, size: int, until_drained: bool) -> int:
        start = self.golden.cycle
        rows, seen = self._rows, self._seen
        stimulus = None if self._stimulus is None else self._stimulus[:size]
        ran = self.golden.run(size, words=rows[:size], stimulus=stimulus, until_drained=until_drained)
        watch, clk = self.dut.watch, self.dut.clk
        width = self.words * 8
        for i in range(ran):
            if stimulus is not None:
                self.dut.stimulus.value = int.from_bytes(stimulus[i].tobytes(), "little")
            await FallingEdge(clk)
            value = watch.value
            expected = rows[i].tobytes()
            actual = value.to_unsigned().to_bytes(width, "little") if value.is_resolvable else None
            if actual != expected:
                if actual is None:
                    raise AssertionError(f"the RTL shows X or Z on watch in cycle {start + i}")
                history = [*self._history, (start, rows[:i])]
                raise report(self.system, start + i, rows[i], np.frombuffer(actual, np.uint64), history, self.reproduce)
            if self._record:
                seen[i] = np.frombuffer(actual, np.uint64)
            if stimulus is not None:
                await RisingEdge(clk)
        if self._record:
            self._record(start, seen[:ran])
        self._history = [*self._history[-7:], (start, rows[:ran].copy())]
        return ran

    async def compare_counters(self) -> int:
        """Read every counter of every NI and router out of the RTL; returns how many agreed.

        Call it when the run is over: reading takes cycles that the golden model does not see.
        """
        golden = [
            (f"ni{node}", Counter(c).name, int(self.golden.counters[node, c]))
            for node in range(self.system.nodes)
            for c in range(len(Counter))
        ]
        golden += [
            (f"router{router}", RouterCounter(c).name, int(self.golden.router_counters[router, c]))
            for router in range(self.system.graph.routers)
            for c in range(len(RouterCounter))
        ]
        for address, (unit, name, expected) in enumerate(golden):
            node = address // len(Counter) if address < self.system.nodes * len(Counter) else None
            await self._address(node, address)
            actual = self.dut.counter_data.value.to_unsigned()
            if actual != expected:
                raise AssertionError(
                    f"{unit} counter {name}: golden {expected}, rtl {actual}\nreproduce: {self.reproduce}"
                )
        return len(golden)

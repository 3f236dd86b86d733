"""The comparison itself, inside the simulator."""

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import ROUTER_COUNTER_STEP, RouterCounter
from lethe.spec.sections.router import SUMMED
from lethe.statistics import LATENCY
from lethe_sim.golden.model import Golden, Script

from .divergence import Difference, DivergenceError, report

_CLOCKED: list = []


class Lockstep:
    """Steps the golden model beside a `SystemTop` and stops at the first cycle where anything differs.

    The golden side sees only ``system`` and ``script``: it runs ahead in chunks, and what its hosts offered is
    driven into the RTL.

    Where the RTL shows its words late (`Layout.lag`), they are held against the row of their own cycle, and so the last
    ones only with what comes after them (`settle`).

    Parameters
    ----------
    dut : cocotb handle of a `SystemTop` (ports clk, rst, watch; stimulus if the hosts are scripted)
    system : the configuration both sides were made from
    script : datagrams of the scripted hosts; None if the RTL has its own generators
    reproduce : the command that repeats this run, for the report
    record : called with (first cycle, RTL rows uint64[n, words]) for each chunk that agreed
    progress : called with (cycle, golden model) after each chunk
    record_golden : let the golden model keep its events for `Golden.take_events`
    tapped : links whose flits the golden model keeps for `Golden.take_flits`
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
        record_golden: bool = False,
        tapped: Sequence[int] = (),
    ):
        self.dut = dut
        self.system = system
        self.golden = Golden(system, script, record=record_golden, tapped=tapped)
        self.reproduce = reproduce
        self.words = system.layout.words
        self._watch = [(getattr(dut, name), 8 * trace.PORT_WORDS) for name in system.layout.watch_ports]
        self._watch[-1] = (self._watch[-1][0], 8 * (self.words - trace.PORT_WORDS * (len(self._watch) - 1)))
        self._scripted = script is not None
        self._record = record
        self._progress = progress
        self._rows = np.zeros((chunk, self.words), np.uint64)
        self._seen = np.zeros((chunk, self.words), np.uint64)
        self._lag = system.layout.lag
        self._due: deque[tuple[int, np.ndarray]] = deque()  # (cycle, row) that the RTL has not shown yet
        self._shown = 0  # rows that it has shown in this chunk
        width = system.nodes * system.layout.stimulus_words
        self._stimulus = np.zeros((chunk, width), np.uint64) if self._scripted else None
        self._history: list[tuple[int, np.ndarray]] = []
        self._remembered = max(7, 256 // chunk)
        self._looked = False
        self._offered = b""

    async def start(self) -> None:
        """Start the clock and release the reset; returns at the beginning of cycle 0."""
        if self._scripted:
            self.dut.stimulus.value = 0
            self._offered = b""
        if hasattr(self.dut, "seed"):  # of `emit`; what has sockets has its seed in it
            self.dut.seed.value = self.system.run.seed
        self.dut.rst.value = 1
        if self.dut not in _CLOCKED:  # a bench may start several runs on one design
            Clock(self.dut.clk, 10, unit="ns", impl="gpi").start()
            _CLOCKED.append(self.dut)
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        self._looked = False
        self._due.clear()

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

    async def settle(self) -> None:
        """Compare what the RTL still has to show of the cycles run, while both sides go on for as long."""
        for _ in range(self._lag):
            await self._chunk(1, False)

    async def _chunk(self, size: int, until_drained: bool) -> int:
        start = self.golden.cycle
        rows = self._rows
        self._shown = 0
        stimulus = None if self._stimulus is None else self._stimulus[:size]
        ran = self.golden.run(size, words=rows[:size], stimulus=stimulus, until_drained=until_drained)
        for i in range(ran):
            if stimulus is not None and (offered := stimulus[i].tobytes()) != self._offered:
                await self._begin_cycle()
                self.dut.stimulus.value = int.from_bytes(offered, "little")
                self._offered = offered
            await self._look(start, i)
        if self._record and self._shown:
            self._record(start + ran - len(self._due) - self._shown, self._seen[: self._shown])
        self._history = [*self._history[-self._remembered :], (start, rows[:ran].copy())]
        return ran

    async def _begin_cycle(self) -> None:
        """Be at the rising edge that begins the next cycle (which after `start` is already there)."""
        if self._looked:
            await RisingEdge(self.dut.clk)
            self._looked = False

    async def _look(self, start: int, i: int) -> None:
        """In the middle of the cycle of row ``i``: hold the RTL's words against the golden row of their own cycle."""
        await FallingEdge(self.dut.clk)
        self._looked = True
        self._due.append((start + i, self._rows[i].copy() if self._lag else self._rows[i]))
        if len(self._due) <= self._lag:
            return
        cycle, expected = self._due.popleft()
        try:
            actual = b"".join(port.value.to_unsigned().to_bytes(size, "little") for port, size in self._watch)
        except ValueError:
            raise AssertionError(
                f"the RTL shows X or Z on watch in cycle {cycle}\nreproduce: {self.reproduce}"
            ) from None
        words = np.frombuffer(actual, np.uint64)
        if actual != expected.tobytes():
            history = [(first, rows[: max(0, cycle - first)]) for first, rows in [*self._history, (start, self._rows)]]
            raise report(self.system, cycle, expected, words, history, self.reproduce)
        if self._record:
            self._seen[self._shown] = words
        self._shown += 1

    async def compare_counters(self) -> int:
        """Read every counter out of the RTL, one a cycle, while both sides go on (unrecorded).

        Returns how many agreed (0 if the configuration has no statistics); raises `DivergenceError`.
        """
        if not self.system.ni.statistics:
            return 0
        self._record = None
        places = self._counter_places()
        names, first = list(places), self.golden.counters.size
        routers = range(first, first + self.golden.router_counters.size)
        expected: list[int] = []
        latency = LATENCY + 1  # cycles from counter_address to counter_data
        # A unit counts an event two cycles after it shows it, so its counters are those of two cycles ago; routers may
        # show it late, and count it later still.
        past: deque[np.ndarray] = deque(maxlen=2 + self._lag + SUMMED)
        await self._begin_cycle()
        while len(past) < 2 + self._lag + SUMMED:
            past.append(self._counters())
            await self._chunk(1, False)
        for i in range(len(names) + latency):
            await self._begin_cycle()
            if i < len(names):
                address, index = places[names[i]]
                expected.append(int(past[0 if index in routers else -2][index]) & 0xFFFF_FFFF)
                self.dut.counter_address.value = address
            past.append(self._counters())
            await self._chunk(1, False)
            if i >= latency:
                actual = self.dut.counter_data.value.to_unsigned()
                if actual != expected[i - latency]:
                    cycle = self.golden.cycle - 1 - latency
                    raise DivergenceError(
                        cycle,
                        [Difference(unit=names[i - latency], what="counter", golden=expected[i - latency], rtl=actual)],
                        f"counters part in cycle {cycle}: {names[i - latency]} golden {expected[i - latency]}, "
                        f"rtl {actual}\nreproduce: {self.reproduce}",
                    )
        return len(names)

    def _counter_places(self) -> dict[str, tuple[int, int]]:
        """Name of each counter → its address in the RTL, its place in `_counters`."""
        graph = self.system.graph
        counters, step = self.system.counters, self.system.counter_step
        addresses = self.system.counter_addresses
        nis, routers = graph.nodes * addresses, graph.nodes * step
        places = {f"ni{n} {c.name}": (step * n + c, addresses * n + c) for n in range(graph.nodes) for c in counters}
        for r in range(graph.routers):
            for c in RouterCounter:
                if graph.queued or c is not RouterCounter.FULL:
                    address = routers + ROUTER_COUNTER_STEP * r + c
                    places[f"router{r} {c.name}"] = address, nis + len(RouterCounter) * r + c
        address, index = routers + ROUTER_COUNTER_STEP * graph.routers, nis + len(RouterCounter) * graph.routers
        for level, service in enumerate(self.system.services):
            for node in range(graph.nodes):
                first = (len(self.system.services) * node + level) * self.system.service_counter_step
                for c in service.counters:
                    places[f"{service.name}{node} {c.name}"] = address + first + c, index + c
                index += len(service.counters)
        return places

    def _counters(self) -> np.ndarray:
        golden = self.golden
        services = [counters.ravel() for counters in golden.service_counters.values()]
        return np.concatenate([golden.counters.ravel(), golden.router_counters.ravel(), *services])

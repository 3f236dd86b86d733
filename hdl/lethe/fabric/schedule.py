"""What the configuration says must happen in which cycle (cycle contract, section 6)."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from lethe.spec.config import System
from lethe.spec.sections.faults import LAST_CYCLE

__all__ = ["BOOT_BITS", "Schedule", "merged"]

#: Bits of the number of a node's resets.
BOOT_BITS = 32


def merged(intervals) -> list[tuple[int, int]]:
    """The same cycles as these (first, after last) intervals, in order and without overlap."""
    union: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


class Schedule(wiring.Component):
    """Scheduled deaths, absences, stalls, resets, and the end of new traffic.

    What is not scheduled is constant, without logic.

    Parameters
    ----------
    system : faults and ``workload.stop``

    Members
    -------
    dead : Out(links)
        The link is dead in this cycle.
    stalled, reset : Out(nodes)
        The node's deliver ports are stalled, the node is in reset, in this cycle.
    service_reset : Out(nodes), with services
        The node's services are in reset, too, in this cycle.
    absent, died : Out(nodes)
        The node is away in this cycle; it is dead.
    incarnation : Out(nodes · incarnation_bits)
        1 and one more from the first cycle of each of the node's resets on, those that touch being one; 0 is skipped
        when it wraps.
    boot : Out(nodes · 32), with flow
        The number of those resets, which never wraps.
    stopped : Out(1)
        Generators begin no new datagram.
    """

    def __init__(self, system: System):
        self._system = system
        self._bits = system.format.incarnation_bits
        super().__init__(
            {
                "dead": Out(len(system.graph.links)),
                "stalled": Out(system.nodes),
                "reset": Out(system.nodes),
                "absent": Out(system.nodes),
                "died": Out(system.nodes),
                "incarnation": Out(system.nodes * self._bits),
                "stopped": Out(1),
                **({"service_reset": Out(system.nodes)} if system.services else {}),
                **({"boot": Out(system.nodes * BOOT_BITS)} if system.flow.ports else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system, faults, stop = self._system, self._system.faults, self._system.workload.stop
        nodes = range(system.nodes)
        dead = [[(f.start, f.end) for f in system.link_deaths if f.link == link] for link in range(len(self.dead))]
        stalls = [[(f.start, f.end) for f in faults.stalls if f.node == node] for node in nodes]
        resets = [[(f.start, f.start + f.cycles) for f in system.node_resets if f.node == node] for node in nodes]
        absences = [[(f.start, f.end) for f in faults.absences if f.node == node] for node in nodes]
        deaths = [[(f.start, LAST_CYCLE) for f in faults.deaths if f.node == node] for node in nodes]

        scheduled = [pair for groups in (dead, stalls, resets, absences, deaths) for group in groups for pair in group]
        last = max([*(cycle for pair in scheduled for cycle in pair if cycle < LAST_CYCLE), stop])
        cycle = Signal(range(last + 1))
        if last:
            with m.If(cycle != last):
                m.d.sync += cycle.eq(cycle + 1)

        def during(intervals, name: str):
            """A register that is 1 in the cycles of the intervals."""
            if not intervals:
                return Const(0, 1)
            level = Signal(name=name, init=any(start == 0 for start, _ in intervals))
            for start, end in merged(intervals):
                if start:
                    with m.If(cycle == start - 1):
                        m.d.sync += level.eq(1)
                if end < LAST_CYCLE:
                    with m.If(cycle == end - 1):
                        m.d.sync += level.eq(0)
            return level

        m.d.comb += [
            self.dead.eq(Cat(during(group, f"dead{i}") for i, group in enumerate(dead))),
            self.stalled.eq(Cat(during(group, f"stalled{i}") for i, group in enumerate(stalls))),
            self.reset.eq(Cat(during(group, f"reset{i}") for i, group in enumerate(resets))),
            self.absent.eq(Cat(during(group, f"absent{i}") for i, group in enumerate(absences))),
            self.died.eq(Cat(during(group, f"died{i}") for i, group in enumerate(deaths))),
        ]

        if system.services:
            of_all = [f for f in system.node_resets if f.scope == "node"]
            whole = [[(f.start, f.start + f.cycles) for f in of_all if f.node == node] for node in nodes]
            m.d.comb += self.service_reset.eq(Cat(during(group, f"service_reset{i}") for i, group in enumerate(whole)))

        lives = (1 << self._bits) - 1
        for node in nodes:
            starts = [start for start, _ in merged(resets[node])]
            incarnation = Const(1, self._bits)
            if starts:
                incarnation = Signal(self._bits, name=f"incarnation{node}", init=(0 in starts) % lives + 1)
                for number, start in enumerate(starts, 1):
                    if start:
                        with m.If(cycle == start - 1):
                            m.d.sync += incarnation.eq(number % lives + 1)
            m.d.comb += self.incarnation.word_select(node, self._bits).eq(incarnation)
            if system.flow.ports:
                boot = Const(0, BOOT_BITS)
                if starts:
                    boot = Signal(range(len(starts) + 1), name=f"boot{node}", init=0 in starts)
                    for number, start in enumerate(starts, 1):
                        if start:
                            with m.If(cycle == start - 1):
                                m.d.sync += boot.eq(number)
                m.d.comb += self.boot.word_select(node, BOOT_BITS).eq(boot)

        if stop:
            stopped = Signal()
            with m.If(cycle == stop - 1):
                m.d.sync += stopped.eq(1)
            m.d.comb += self.stopped.eq(stopped)
        return m

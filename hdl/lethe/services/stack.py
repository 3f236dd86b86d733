"""The stack: the services of a node, folded between its NI and its host (cycle contract, section 10)."""

from functools import partial
from itertools import pairwise

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_signature
from lethe.ni.ni import Ni
from lethe.spec.config import System
from lethe.spec.events import ROUTER_COUNTER_STEP
from lethe.spec.ports import HostPort, counter_bits, since_bits
from lethe.spec.trace import WORD_BITS
from lethe.statistics import LATENCY, Statistics
from lethe.verilog import shared

from .flow import Flow
from .loop import Loop
from .relay import Relay
from .service import ServiceUnit

__all__ = ["UNITS", "Node", "booted", "service_counters", "stacked"]

#: The component of each service of `lethe.spec.services.SERVICES`, by its name.
UNITS: dict[str, type[ServiceUnit]] = {unit.service.name: unit for unit in (Loop, Relay, Flow)}


def booted(units: list) -> list:
    """Those of these services that have ``boot``."""
    return [unit for unit in units if "boot" in unit.signature.members]


def stacked(m: Module, platform, system: System, ni, *, number: str = "", watch: bool = True) -> list:
    """The services on top of ``ni``, from there upwards; ``number`` ends the names of the submodules.

    The port at the top is ``above`` of the last, or ``ni.host`` if there is none.  ``service_reset`` and
    ``boot`` are the caller's.
    """
    units, below, port = [], ni.host, HostPort.of_ni(system)
    for service in system.services:
        make = partial(UNITS[service.name], watch=watch)
        unit, m.submodules[f"{service.name}{number}"] = shared(platform, service.name, make, system, port)
        wiring.connect(m, below, unit.below)
        m.d.comb += [
            unit.node.eq(ni.node),
            unit.incarnation.eq(ni.incarnation),
            unit.node_reset.eq(ni.node_reset),
        ]
        units.append(unit)
        below, port = unit.above, service.above(system, port)
    return units


def service_counters(
    m: Module, platform, system: System, units: list, address, first: int, *, number: str = "", since: int = 0
) -> list:
    """The `Statistics` of a node's services, by `ROUTER_COUNTER_STEP` addresses from ``first`` on.

    They have ``since`` bits of theirs.
    """
    found: list = []
    for service, unit in zip(system.services, units, strict=True):
        statistics, m.submodules[f"statistics_{service.name}{number}"] = shared(
            platform, f"statistics_{service.name}", partial(Statistics, since=since), 32, len(service.counted(system))
        )
        start = (first + len(found) * ROUTER_COUNTER_STEP) % (1 << len(statistics.address))
        m.d.comb += [
            statistics.pulse.eq(unit.counts),
            statistics.address.eq(address - start if start else address),
        ]
        found += [statistics] * (system.service_counter_step // ROUTER_COUNTER_STEP)
    return found


class Node(wiring.Component):
    """A network interface and its services, for a host and a link that are elsewhere.

    Parameters
    ----------
    system, watch, dump, snapshot : as of `Ni`; the system names at least one service

    Members
    -------
    Those of `Ni`, but:

    host : Out(`host_signature`)
        The port at the top.
    service_reset : In(1)
        The services are reset, too; only with ``node_reset``.
    boot : In(32), if a service has it
        Number of resets of the node so far, which never wraps.
    counter_address, counter_data : In, Out(32), with ``ni.statistics``
        The NI's counters are at their addresses; those of the service at level l, from the NI upwards, from
        `System.counter_step` + l · `System.service_counter_step` on.
    watch : Out
        The NI's trace words, then those of the services.
    """

    def __init__(self, system: System, *, watch: bool = True, dump: bool = True, snapshot: bool = False):
        self._system, self._watch = system, watch
        self._snapshot = snapshot and system.ni.statistics
        self._ni = Ni(system, watch=watch, dump=dump, snapshot=snapshot)
        members = dict(self._ni.signature.members.items())
        members |= {"host": Out(host_signature(system, system.top_port)), "service_reset": In(1)}
        if any(UNITS[service.name].booted for service in system.services):
            members["boot"] = In(32)
        if watch:
            members["watch"] = Out(WORD_BITS * (system.layout.ni_words + system.layout.service_words))
        if system.ni.statistics:
            members["counter_address"] = In(counter_bits(system))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        system = self._system
        m.submodules.ni = ni = self._ni
        for name, member in ni.signature.members.items():
            if name in ("host", "watch", "counter_address", "counter_data", "counter_walk", "counter_since"):
                continue
            inner, outer = getattr(ni, name), getattr(self, name)
            if member.is_signature:
                wiring.connect(m, inner, wiring.flipped(outer))
            else:
                m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
        units = stacked(m, None, system, ni, watch=self._watch)
        m.d.comb += [unit.service_reset.eq(self.service_reset) for unit in units]
        m.d.comb += [unit.boot.eq(self.boot) for unit in booted(units)]
        wiring.connect(m, units[-1].above, wiring.flipped(self.host))
        if self._watch:
            m.d.comb += self.watch.eq(Cat(ni.watch, *(unit.watch for unit in units)))
        if system.ni.statistics:
            address = self.counter_address
            own = system.counter_step // ROUTER_COUNTER_STEP
            since = since_bits(system) if self._snapshot else 0
            others = service_counters(m, None, system, units, address, system.counter_step, since=since)
            banks = [ni.counter_data] * own + [statistics.data for statistics in others]
            bank = [Signal(range(len(banks)), name=f"bank{cycles}") for cycles in range(LATENCY)]
            m.d.comb += [ni.counter_address.eq(address), self.counter_data.eq(Array(banks)[bank[-1]])]
            m.d.sync += [
                bank[0].eq(address[ROUTER_COUNTER_STEP.bit_length() - 1 :]),
                *(after.eq(before) for before, after in pairwise(bank)),
            ]
            if self._snapshot:
                sinces = [ni.counter_since] * own + [statistics.since for statistics in others]
                m.d.comb += [
                    *(unit.walk.eq(self.counter_walk) for unit in {id(unit): unit for unit in others}.values()),
                    ni.counter_walk.eq(self.counter_walk),
                    self.counter_since.eq(Array(sinces)[bank[-1]]),
                ]
        return m

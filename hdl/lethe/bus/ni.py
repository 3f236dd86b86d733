"""A network interface and its services on AXI, in the place of its host port."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from lethe.ni.ni import Ni
from lethe.services.stack import Node
from lethe.spec.axi import axi_streams
from lethe.spec.config import System
from lethe.spec.registers import ADDRESS_BITS

from .crossing import HOST, Crossing, LiteCrossing
from .registers import Registers
from .signature import axi_lite, signature_of
from .streams import Streams

__all__ = ["AxiNi", "StreamNi"]


class StreamNi(wiring.Component):
    """A network interface and its services, whose host is on AXI4-Streams; what is no stream is as of `Ni`.

    Parameters
    ----------
    system : the configuration
    store : whether a datagram is stored whole before the NI sees it (`Streams`)
    host_clock : whether the streams are in the clock domain ``host`` (`Crossing`)
    watch, dump, snapshot : as of `Ni`

    Members
    -------
    s_axis_send, … m_axis_deliver, … m_axis_completion : In or Out(`signature_of`)
        As `lethe.spec.axi.axi_streams` lists them; what a node reset does to each is said in `lethe.bus.streams`.
    malformed : Out(1)
        A datagram on ``s_axis_send`` or ``s_axis_send_control`` was not as it must be; one cycle of the NI's clock.
    deliver_waiting, completion_waiting : Out(1)
        A datagram, or a completion, is shown to the host or on its way there.
    host : Out
        What of `lethe.host.host_signature` is no stream of datagrams or completions: ``quiesce``, ``idle``, ``ready``,
        ``accepted``, ``cancel``, and the ports for services.  What waits for the host is not idle.
    others : as of `Ni`, or `Node` if there are services
    """

    def __init__(
        self,
        system: System,
        *,
        store: bool = False,
        host_clock: bool = False,
        watch: bool = True,
        dump: bool = True,
        snapshot: bool = False,
    ):
        self._system, self._host_clock = system, host_clock
        #: The clock domains beside ``sync``.
        self.clocks = (HOST,) if host_clock else ()
        self._ni = (Node if system.services else Ni)(system, watch=watch, dump=dump, snapshot=snapshot)
        self._streams = Streams(system, store=store)
        self._axes = axi_streams(system, store=store)
        members = dict(self._ni.signature.members.items())
        host = members.pop("host").signature.members
        plain = {name: member for name, member in host.items() if name not in self._streams.signature.members}
        super().__init__(
            {
                **members,
                "host": Out(wiring.Signature(plain)),
                **{axis.name: (In if axis.to_ni else Out)(signature_of(axis)) for axis in self._axes},
                "malformed": Out(1),
                "deliver_waiting": Out(1),
                "completion_waiting": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.ni = ni = self._ni
        m.submodules.streams = streams = self._streams
        for name, member in self.signature.members.items():
            if name in ni.signature.members and name != "host":
                _connect(m, member, getattr(ni, name), getattr(self, name))
        if self._system.services:
            m.d.comb += streams.service_reset.eq(self.service_reset)
        for name, member in self.host.signature.members.items():
            if name != "idle":
                _connect(m, member, getattr(ni.host, name), getattr(self.host, name))
        for name in ni.host.signature.members:
            if name in streams.signature.members:
                wiring.connect(m, getattr(ni.host, name), getattr(streams, name))
        m.d.comb += [
            streams.node_reset.eq(self.node_reset),
            streams.incarnation.eq(self.incarnation),
            self.malformed.eq(streams.malformed),
        ]
        waiting = {axis.port: [getattr(streams, axis.name).tvalid] for axis in self._axes if not axis.to_ni}
        for axis in self._axes:
            inner, outer = getattr(streams, axis.name), wiring.flipped(getattr(self, axis.name))
            if not self._host_clock:
                wiring.connect(m, inner, outer)
                continue
            domains = (HOST, "sync") if axis.to_ni else ("sync", HOST)
            m.submodules[f"crossing_{axis.port}"] = crossing = Crossing(signature_of(axis), domains)
            wiring.connect(m, *((outer, crossing.i) if axis.to_ni else (crossing.o, outer)))
            wiring.connect(m, *((crossing.o, inner) if axis.to_ni else (inner, crossing.i)))
            if not axis.to_ni:
                waiting[axis.port].append(crossing.waiting)
        ended = waiting.pop("completion")
        m.d.comb += [
            self.completion_waiting.eq(Cat(ended).any()),
            self.deliver_waiting.eq(Cat(waiting.values()).any()),
            self.host.idle.eq(ni.host.idle & ~self.completion_waiting & ~self.deliver_waiting),
        ]
        return m


class AxiNi(wiring.Component):
    """A network interface and its services on AXI: streams for datagrams and completions, registers for all else.

    Parameters
    ----------
    system : the configuration
    store : whether a datagram is stored whole before the NI sees it (`Streams`)
    host_clock : whether streams, registers and ``irq`` are in the clock domain ``host`` (`Crossing`)
    watch, dump : as of `Ni`; a dump is read from registers

    Members
    -------
    node, seed : In
        As of `Ni`.
    link_i, link_o : In, Out(flit)
    s_axil : In(`axi_lite`)
        The registers (`Registers`).
    irq : Out(1)
        An interrupt is pending and enabled.
    s_axis_send, … malformed : as of `StreamNi`
    host : Out
        What of `lethe.host.host_signature` is for a service: merge port, acceptance port, ``sweep``.
    watch : Out

    Raises `lethe.spec.config.ConfigError` for more slots than registers can name.
    """

    def __init__(
        self,
        system: System,
        *,
        store: bool = False,
        host_clock: bool = False,
        watch: bool = True,
        dump: bool = True,
    ):
        self._system, self._host_clock = system, host_clock
        self._ni = StreamNi(system, store=store, host_clock=host_clock, watch=watch, dump=dump, snapshot=True)
        #: The clock domains beside ``sync``.
        self.clocks = self._ni.clocks
        self._registers = Registers(system, dump=dump)
        members = dict(self._ni.signature.members.items())
        host = members.pop("host").signature.members
        kept = ("merge", "merge_word", "merge_mask", "arrival", "refusal", "delivered", "sweep")
        services = {name: member for name, member in host.items() if name in kept}
        hidden = ("deliver_waiting", "completion_waiting")
        super().__init__(
            {
                **{
                    name: member
                    for name, member in members.items()
                    if name not in self._registers.signature.members or name in ("node", "malformed")
                    if name not in hidden
                },
                **({"host": Out(wiring.Signature(services))} if services else {}),
                "s_axil": In(axi_lite(ADDRESS_BITS)),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.ni = ni = self._ni
        m.submodules.registers = registers = self._registers
        for name, member in self.signature.members.items():
            if name in ni.signature.members and name != "host":
                _connect(m, member, getattr(ni, name), getattr(self, name))
        m.d.comb += registers.node.eq(self.node)
        services = self.signature.members["host"].signature.members if "host" in self.signature.members else {}
        for name, member in services.items():
            _connect(m, member, getattr(ni.host, name), getattr(self.host, name))
        for name, member in registers.signature.members.items():
            if name in ("bus", "irq", "node"):
                continue
            other = getattr(ni, name) if name in ni.signature.members else getattr(ni.host, name)
            if member.is_signature:
                wiring.connect(m, getattr(registers, name), other)
            else:
                mine = getattr(registers, name)
                m.d.comb += mine.eq(other) if member.flow == In else other.eq(mine)
        bus, irq = wiring.flipped(self.s_axil), self.irq
        if self._host_clock:
            m.submodules.crossing_lite = crossing = LiteCrossing(axi_lite(ADDRESS_BITS), (HOST, "sync"))
            wiring.connect(m, bus, crossing.i)
            wiring.connect(m, crossing.o, registers.bus)
            m.submodules.irq_cdc = FFSynchronizer(registers.irq, irq, o_domain=HOST)
        else:
            wiring.connect(m, bus, registers.bus)
            m.d.comb += irq.eq(registers.irq)
        return m


def _connect(m: Module, member: wiring.Member, inner, outer) -> None:
    """A member of a component inside is one of the component around it."""
    if member.is_signature:
        wiring.connect(m, inner, wiring.flipped(outer))
    else:
        m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)

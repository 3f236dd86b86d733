"""A network interface and its services with AXI4-Streams instead of its host port."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.ni.ni import Ni
from lethe.services.stack import Node
from lethe.spec.axi import axi_streams
from lethe.spec.config import System

from .crossing import HOST, Crossing
from .signature import signature_of
from .streams import Streams

__all__ = ["StreamNi"]


class StreamNi(wiring.Component):
    """A network interface and its services, whose host is on AXI4-Streams; what is no stream is as of `Ni`.

    Parameters
    ----------
    system : the configuration
    store : whether a datagram is stored whole before the NI sees it (`Streams`)
    host_clock : whether the streams are in the clock domain ``host`` (`Crossing`)
    watch, dump : as of `Ni`

    Members
    -------
    s_axis_send, … m_axis_deliver, … m_axis_completion : In or Out(`signature_of`)
        As `lethe.spec.axi.axi_streams` lists them; what a node reset does to each is said in `lethe.bus.streams`.
    malformed : Out(1)
        A datagram on ``s_axis_send`` or ``s_axis_send_control`` was not as it must be; one cycle of the NI's clock.
    host : Out
        What of `lethe.host.host_signature` is no stream of datagrams or completions: ``quiesce``, ``idle``, ``ready``,
        ``accepted``, ``cancel``, ``merge``, ``merge_word``, ``merge_mask``.
    others : as of `Ni`
        The services are reset with the NI.
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
        self._ni = (Node if system.services else Ni)(system, watch=watch, dump=dump)
        self._streams = Streams(system, store=store)
        self._axes = axi_streams(system, store=store)
        members = dict(self._ni.signature.members.items())
        members.pop("service_reset", None)
        host = members.pop("host").signature.members
        plain = {name: member for name, member in host.items() if name not in self._streams.signature.members}
        super().__init__(
            {
                **members,
                "host": Out(wiring.Signature(plain)),
                **{axis.name: (In if axis.to_ni else Out)(signature_of(axis)) for axis in self._axes},
                "malformed": Out(1),
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
            m.d.comb += ni.service_reset.eq(self.node_reset)
        for name, member in self.host.signature.members.items():
            _connect(m, member, getattr(ni.host, name), getattr(self.host, name))
        for name in ni.host.signature.members:
            if name in streams.signature.members:
                wiring.connect(m, getattr(ni.host, name), getattr(streams, name))
        m.d.comb += [
            streams.node_reset.eq(self.node_reset),
            streams.incarnation.eq(self.incarnation),
            self.malformed.eq(streams.malformed),
        ]
        for axis in self._axes:
            inner, outer = getattr(streams, axis.name), wiring.flipped(getattr(self, axis.name))
            if not self._host_clock:
                wiring.connect(m, inner, outer)
                continue
            domains = (HOST, "sync") if axis.to_ni else ("sync", HOST)
            m.submodules[f"crossing_{axis.port}"] = crossing = Crossing(signature_of(axis), domains)
            wiring.connect(m, *((outer, crossing.i) if axis.to_ni else (crossing.o, outer)))
            wiring.connect(m, *((crossing.o, inner) if axis.to_ni else (inner, crossing.i)))
        return m


def _connect(m: Module, member: wiring.Member, inner, outer) -> None:
    """A member of a component inside is one of the component around it."""
    if member.is_signature:
        wiring.connect(m, inner, wiring.flipped(outer))
    else:
        m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)

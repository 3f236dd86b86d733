"""One node alone: an NI, its router, and mirrors in the place of the rest of the network.

A mirror returns every message as if the node that it was for had sent it: destination and source change places, and the
CRC follows.  The NI so talks to itself: its Sends come back as another node's, and so do its own Acks and Forgets.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.fabric.fault import LinkFault
from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.layouts import flit_layout
from lethe.link.crc import crc_update
from lethe.ni.ni import Ni
from lethe.spec.config import System
from lethe.spec.random import UNIT_GENERATOR, UNIT_LINK_FLIP, UNIT_LINK_LOSS, UNIT_NI, UNIT_ROUTER, seed_for
from lethe.spec.topology import LOCAL
from lethe.spec.wire import CRC16, CRC32, KIND_BITS, Wire
from lethe.traffic.host import Traffic

__all__ = ["Mirror", "MirrorError", "MirroredNode"]

#: The node of a `MirroredNode`.
NODE = 0


class MirrorError(ValueError):
    """A system of which no node can be mirrored; the message is ``file: key: what is wrong; cure``."""


class Mirror(wiring.Component):
    """Returns every worm with destination and source exchanged, two cycles later.

    A CRC is linear: that of what is changed is added to it, whatever the message says.  So a wrong one stays wrong.

    Parameters
    ----------
    wire : format of the flits, whose first has destination and source

    Members
    -------
    i, o : In(flit), Out(flit)
    """

    def __init__(self, wire: Wire):
        if KIND_BITS + 2 * wire.node_bits > wire.flit_bits:
            raise ValueError(f"destination and source must fit the first flit of {wire.flit_bits} bits")
        self._wire = wire
        flit = flit_layout(wire)
        super().__init__({"i": In(flit), "o": Out(flit)})

    def elaborate(self, platform):
        m = Module()
        wire, bits = self._wire, self._wire.node_bits
        held = Signal.like(self.i)
        m.d.sync += held.eq(self.i)

        # What the first flit is changed by.
        change = Signal(wire.flit_bits)
        differ = held.data[KIND_BITS:][:bits] ^ held.data[KIND_BITS + bits :][:bits]
        with m.If(held.first):
            m.d.comb += change.eq(Cat(differ, differ) << KIND_BITS)

        # The CRC-32 of the changes so far, and of those with this flit.
        so_far, before, after = Signal(32), Signal(32), Signal(32)
        m.d.comb += [before.eq(Mux(held.first, 0, so_far)), after.eq(crc_update(CRC32, before, change))]
        m.d.sync += so_far.eq(after)
        shown = Signal(wire.flit_bits)
        m.d.comb += shown.eq(held.data ^ change)
        if wire.crc_flits > 1:
            # With flits of 16 bits the CRC is in the last two, and the flit that comes in says which these are.
            rest = Signal(32 - wire.flit_bits)
            m.d.sync += rest.eq(so_far[wire.flit_bits :])
            with m.If(held.last):
                m.d.comb += shown.eq(held.data ^ rest)
            with m.Elif(self.i.last & ~self.i.first):
                m.d.comb += shown.eq(held.data ^ so_far[: wire.flit_bits])
        else:
            with m.If(held.last & ~held.first):
                m.d.comb += shown.eq(held.data ^ so_far)
        if wire.one_flit_control:
            body = wire.flit_bits - 16
            changed = Signal(body)
            m.d.comb += changed.eq(change)
            with m.If(held.last & held.first):
                m.d.comb += shown.eq(held.data ^ Cat(changed, crc_update(CRC16, Signal(16), changed)))
        m.d.sync += self.o.eq(held)
        with m.If(held.valid):
            m.d.sync += self.o.data.eq(shown)
        return m


def check(system: System) -> None:
    """Raise `MirrorError` if ``system`` has no node that could be built with mirrors."""
    faults = system.faults
    if system.graph.kind != "mesh":
        raise MirrorError(
            f"{system.source}: topology.kind: a mirror is beside a router of a mesh, not of a {system.graph.kind}; "
            'set it to "mesh", or build the whole system'
        )
    for name in ("links", "stalls", "resets", "deaths", "absences"):
        if getattr(faults, name):
            raise MirrorError(f"{system.source}: faults.{name}: a node with mirrors has none; leave it out")
    if system.services:
        raise MirrorError(f"{system.source}: {system.services[0].name}: a node with mirrors has none; leave it out")
    if KIND_BITS + 2 * system.format.node_bits > system.wire.flit_bits:
        raise MirrorError(f"{system.source}: wire.flit_bits: destination and source must fit the first flit; widen it")


class MirroredNode(wiring.Component):
    """Node 0 of a mesh: generator, checker, NI and router; a mirror on every link to another router.

    What comes to the NI passes the faults of one link, `faults.loss` and `faults.flip`.

    Parameters
    ----------
    system : a mesh whose hosts are generators, as `check` wants it

    Members
    -------
    done, idle : Out(1)
        The generator has offered all its datagrams; the NI is idle.
    ok : Out(1)
        Done, idle, and every datagram has come back once.
    """

    def __init__(self, system: System):
        check(system)
        self._system = system
        super().__init__({"done": Out(1), "idle": Out(1), "ok": Out(1)})

    def elaborate(self, platform):
        m = Module()
        system, graph, seed = self._system, self._system.graph, self._system.run.seed
        rule = Rule.of(graph, NODE)
        m.submodules.ni = ni = Ni(system, watch=False, dump=False)
        m.submodules.host = host = Traffic(system)
        m.submodules.router = router = Router(system.format, rule, *Router.settings(system), watch=False)
        m.submodules.link = fault = LinkFault(system.format, system.loss_threshold, system.flip_threshold)
        wiring.connect(m, ni.host, host.host)
        m.d.comb += [
            *(unit.node.eq(NODE) for unit in (ni, host)),
            ni.seed.eq(seed_for(seed, UNIT_NI, NODE)),
            host.seed.eq(seed_for(seed, UNIT_GENERATOR, NODE)),
            ni.incarnation.eq(1),
            ni.link_enable.eq(1),
            router.position.eq(rule.position(NODE)),
            router.seed.eq(seed_for(seed, UNIT_ROUTER, NODE)),
            fault.loss_seed.eq(seed_for(seed, UNIT_LINK_LOSS, NODE)),
            fault.flip_seed.eq(seed_for(seed, UNIT_LINK_FLIP, NODE)),
            router.i[LOCAL].eq(ni.link_o),
            fault.i.eq(router.o[LOCAL]),
            ni.link_i.eq(fault.o),
        ]
        for link in graph.links:
            if not (link.source_is_node or link.target_is_node) and link.source == NODE:
                m.submodules[f"mirror{link.source_port}"] = mirror = Mirror(system.format)
                m.d.comb += [mirror.i.eq(router.o[link.source_port]), router.i[link.source_port].eq(mirror.o)]
        m.d.comb += [self.done.eq(host.done), self.idle.eq(ni.host.idle)]
        m.d.sync += self.ok.eq(
            self.done
            & self.idle
            & (host.sent == host.received)
            & (host.sent_sum == host.received_sum)
            & (host.wrong == 0)
        )
        return m

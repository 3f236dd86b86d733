"""The header that a step tells or sends, and its hop (contract of relay, 7)."""

import typing

from amaranth.hdl import Mux, Signal

from lethe.spec.services.relay import RelayJob, Type

from .steps import About, To

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_told"]


def add_told(u: "JobUnit") -> None:
    """The header that a step tells, and where it goes."""
    m, of, heard, slot, entry = u.m, u.of, u.heard, u.slot, u.message
    u.out, u.out_hop, u.tells = Signal(of.header), Signal(of.node_bits), Signal()
    out, row = u.out, u.from_
    with m.Switch(u.about):
        with m.Case(About.HEARD):
            m.d.comb += out.eq(heard)
        with m.Case(About.SLOT):
            m.d.comb += [
                *(out[name].eq(slot[name]) for name in ("cls", "target", "prev", "uid")), out.source.eq(u.node),
                out.incarnation.eq(u.incarnation), out.slot.eq(u.slot_row),
            ]  # fmt: skip
        with m.Case(About.RECORD):
            names = ("cls", "source", "target", "incarnation", "slot", "prev", "uid")
            m.d.comb += [out[name].eq(entry[name]) for name in names]
        with m.Case(About.POSTED):
            m.d.comb += [
                out.source.eq(u.from_node), out.target.eq(u.node), out.incarnation.eq(row.incarnation),
                out.slot.eq(row.slot), out.uid.eq(row.mark),
            ]  # fmt: skip
    with m.If(~u.as_it_came):
        m.d.comb += [
            out.type.eq(u.kind), out.replay.eq(u.replay), out.more.eq(u.more), out.thru.eq(u.thru),
            out.depth.eq(0),
        ]  # fmt: skip
    with m.If(u.own_depth):
        m.d.comb += out.depth.eq(u.depth)
    with m.If(u.bare):
        m.d.comb += [out.cls.eq(0), out.prev.eq(0)]
    drained, pull = u.kind == Type.ACKACKED, u.kind == Type.PULL
    with m.If(~u.as_it_came & (drained | pull)):
        m.d.comb += out.slot.eq(0)
    with m.If(~u.as_it_came & pull):
        m.d.comb += [
            out.cls.eq(0), out.prev.eq(0), out.uid.eq(0), out.incarnation.eq(0), out.source.eq(u.node),
            out.target.eq(u.node),
        ]  # fmt: skip
    hop = u.out_hop
    with m.Switch(u.way):
        with m.Case(To.UP):
            m.d.comb += hop.eq(u.up)
        with m.Case(To.DOWN):
            m.d.comb += hop.eq(u.down.hop)
        with m.Case(To.NEIGHBOUR):
            m.d.comb += hop.eq(u.walk_row)
    facts, goes = u.facts, Signal()
    with m.Switch(u.way):
        with m.Case(To.UP):
            m.d.comb += goes.eq(~facts.up_nobody & ~(u.passes & facts.up_back))
        with m.Case(To.DOWN):
            m.d.comb += goes.eq(~facts.down_nobody & ~(u.passes & facts.down_back))
        with m.Case(To.NEIGHBOUR):
            m.d.comb += goes.eq(1)
    m.d.comb += u.tells.eq(u.told & goes)
    # At once if nothing waits; else behind what does.
    control, telling, queued = u.control, u.telling, Signal()
    at_once = control.idle & telling.empty
    m.d.comb += [
        queued.eq(u.at(RelayJob.TELL)),
        control.gives.eq((u.tells & at_once) | (queued & ~u.dead)),
        telling.i.valid.eq(u.tells & ~at_once),
        telling.i.payload.hop.eq(hop),
        telling.i.payload.header.eq(out),
        control.given.eq(Mux(queued, u.waited, telling.i.payload)),
        u.dropped.eq(u.tells & ~at_once & ~telling.i.ready),
        u.links.eq(u.tells & ~u.dropped & (out.type == Type.LINK)),
    ]
    with m.If(u.notices | u.pulls.any()):
        m.d.sync += u.tide.eq(u.tide + 1)

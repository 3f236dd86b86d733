"""Control in: what a hop tells (contract of relay, 7.1)."""

from amaranth.hdl import Mux, Signal, Value

from lethe.spec.services.relay import RecordState, RelayJob

from .steps import RelayPhase
from .unit import JobUnit

__all__ = ["add_control"]


def add_control(u: JobUnit) -> None:
    """Steps of control in."""
    m = u.m
    first, does, facts = u.at(RelayJob.CONTROL), Signal(u.of.kinds), u.facts
    m.d.sync += Value.cast(does).eq(Mux(u.next_control, u.kinds, 0))  # what the first step is about
    m.d.comb += u.frees.eq((does.acked_own & facts.frees) | u.at(RelayJob.CONTROL, RelayPhase.FREE))
    m.d.comb += [u.hears.eq(does.sound & (~does.link | facts.fits)), u.ignores.eq(first & ~u.hears)]
    with m.If(does.acked_else & ~(facts.acked & ~u.heard.more)):
        m.d.comb += u.passes_up.eq(1)
    with m.If(does.acked_else | u.at(RelayJob.CONTROL, RelayPhase.ACK)), m.If(u.found & ~facts.acked):
        m.d.comb += [*u.change(RecordState.ACKED), u.drops.eq(1), *u.control_goes_on(RelayPhase.ACK)]
    with m.If(does.drained_else):
        m.d.comb += u.passes_down.eq(1)
    with m.If(does.drained_else | u.at(RelayJob.CONTROL, RelayPhase.FORGET)), m.If(u.found):
        m.d.comb += [*u.end(), *u.control_goes_on(RelayPhase.FORGET)]
    _acked(u, does.acked_own & facts.concludes)
    with m.If(does.requested_own & facts.frees):
        m.d.comb += u.slot_waits.eq(1)
    with m.If(does.requested_else):
        _requested(u)
    with m.If(does.link_here & facts.fits & facts.tells_post):
        m.d.comb += u.tells_up.eq(1)
    with m.If(does.link_here & facts.fits & facts.searches_post):
        m.d.comb += u.control_goes_on(RelayPhase.SEARCH)
    with m.If(u.at(RelayJob.CONTROL, RelayPhase.SEARCH) & ~u.parked_found):
        m.d.comb += u.tells_up.eq(1)
    with m.If(does.link_else & facts.fits):
        _link(u)
    with m.If(does.pull & facts.relation.any()):
        m.d.comb += [u.pulls.eq(1 << facts.relation), u.is_pulled.eq(1)]
    # The record of the message before is looked for in further steps.
    with m.If(u.step & u.under[RelayJob.CONTROL]):
        m.d.sync += [
            u.chained.eq(u.entry.prev), u.chaining.eq(u.then[RelayPhase.ACK] | u.then[RelayPhase.FORGET]),
        ]  # fmt: skip


def _acked(u: JobUnit, concludes: Value) -> None:
    """The first message of the stream is posted; after the one that was named the stream goes on, or is drained.

    ``concludes``: nothing is freed.
    """
    m, facts, more = u.m, u.facts, u.heard.more
    ends = u.frees & facts.first
    with m.If(u.frees):
        m.d.comb += u.frees_head.eq(1)
        with m.If(~facts.first):
            m.d.comb += u.control_goes_on(RelayPhase.FREE)
    m.d.comb += u.decides_again.eq(ends | concludes)
    again = facts.again | more
    m.d.comb += u.again.eq(again & Mux(u.frees, ~facts.last, facts.some))
    with m.If((ends & ~facts.last & again) | (concludes & facts.some & more)):
        m.d.comb += u.slot_waits.eq(1)
    with m.If((ends & facts.last_drained) | (concludes & facts.none_drained)):
        m.d.comb += u.tells_down.eq(1)


def _requested(u: JobUnit) -> None:
    m, facts = u.m, u.facts
    with m.If(u.has_data):
        m.d.comb += u.sends_held.eq(1)
    with m.Elif(~facts.acked & ~facts.requested):
        m.d.comb += u.passes_up.eq(1)
        with m.If(u.found):
            m.d.comb += u.change(RecordState.REQUESTED)
        with m.Elif(u.has_way):
            m.d.comb += u.make(RecordState.REQUESTED)


def _link(u: JobUnit) -> None:
    m, facts = u.m, u.facts
    stops = (u.has_data | facts.linked) & ~u.heard.thru
    with m.If(facts.acked | facts.requested):
        m.d.comb += u.tells_up.eq(1)
    with m.Elif(~stops):
        m.d.comb += u.passes_down.eq(1)
        with m.If(~u.found & u.has_way):
            m.d.comb += u.make(RecordState.LINKED)
        with m.If(u.found):
            m.d.comb += u.changes.eq(1)
            with m.If(~u.has_data & facts.sent):
                m.d.comb += u.states[RecordState.LINKED].eq(1)
            with m.Else():
                m.d.comb += u.stays.eq(1)

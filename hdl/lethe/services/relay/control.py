"""Control in: what a hop tells (contract of relay, 7.1)."""

from amaranth.hdl import Mux, Signal

from lethe.spec.events import Cause, Status
from lethe.spec.services.relay import RecordState, RelayJob, Type

from .steps import About, RelayPhase, To
from .unit import JobUnit

__all__ = ["add_control", "answer", "answer_acked", "send_held"]


def answer(u: JobUnit, *flags: Signal) -> list:
    """ACKED is told for a source: what is posted."""
    return u.tell(Type.ACKED, About.POSTED, To.UP, *flags)


def ask(u: JobUnit) -> list:
    """The data of the message that was heard of are asked for."""
    return u.tell(Type.REQUESTED, About.HEARD, To.UP)


def answer_acked(u: JobUnit) -> list:
    """ACKED is told for a message that a record says is ACKED."""
    return u.tell(Type.ACKED, About.HEARD, To.UP, u.bare)


def send_held(u: JobUnit) -> None:
    """Data that are held are sent once more; others are in any case."""
    with u.m.If(u.data_held):
        u.m.d.comb += [
            u.buffer.eq(u.status_now.buffer), u.leaves.eq(1), u.buffer_waits.eq(1), *u.change(RecordState.SENT),
        ]  # fmt: skip


def _pass(u: JobUnit, way: To, *flags: Signal) -> list:
    """What was heard goes on as it came."""
    return [
        u.told.eq(1),
        u.about.eq(About.HEARD),
        u.as_it_came.eq(1),
        u.passes.eq(1),
        u.way.eq(way),
        *(flag.eq(1) for flag in flags),
    ]


def add_control(u: JobUnit) -> None:
    """Steps of control in."""
    m = u.m
    state, found = u.status_now.state, u.found
    with m.If(u.at(RelayJob.CONTROL)), m.Switch(u.phase):
        with m.Case(RelayPhase.FIRST):
            _first(u)
        with m.Case(RelayPhase.FREE):
            _free_next(u)
        with m.Case(RelayPhase.ACK), m.If(found & (state != RecordState.ACKED)):
            _ack(u)
        with m.Case(RelayPhase.FORGET), m.If(found):
            _forget(u)
        with m.Case(RelayPhase.SEARCH), m.If(~u.parked_found):
            m.d.comb += ask(u)
    # The record of the message before is looked for in further steps.
    with m.If(u.at(RelayJob.CONTROL)):
        m.d.sync += [
            u.chained.eq(u.entry.prev),
            u.chaining.eq((u.then == RelayPhase.ACK) | (u.then == RelayPhase.FORGET)),
        ]


def _ack(u: JobUnit) -> None:
    u.m.d.comb += [*u.change(RecordState.ACKED), u.drops.eq(1), *u.goes_on(RelayPhase.ACK)]


def _forget(u: JobUnit) -> None:
    u.m.d.comb += [*u.end(), *u.goes_on(RelayPhase.FORGET)]


def _first(u: JobUnit) -> None:
    m, h, facts = u.m, u.heard, u.facts
    with m.If(~u.sound_control | ((h.type == Type.LINK) & ~facts.fits)):
        m.d.comb += u.ignores.eq(1)
    with m.Else():
        m.d.comb += u.hears.eq(1)
        with m.Switch(h.type):
            with m.Case(Type.ACKED):
                with m.If(~u.own):
                    acked = u.found & (u.status_now.state == RecordState.ACKED)
                    with m.If(~acked | h.more):
                        m.d.comb += _pass(u, To.UP)
                    with m.If(u.found & ~acked):
                        _ack(u)
                with m.Elif(facts.alive & facts.meant):
                    _free_next(u)
                with m.Elif(facts.alive):
                    _conclude(u, freed=False)
            with m.Case(Type.ACKACKED), m.If(~u.own & ~u.here):
                m.d.comb += _pass(u, To.DOWN)
                with m.If(u.found):
                    _forget(u)
            with m.Case(Type.REQUESTED):
                with m.If(u.own), m.If(facts.alive & facts.meant):
                    m.d.comb += [u.slot_waits.eq(1), u.waiting_slot.eq(h.slot)]
                with m.Elif(~u.here):
                    _requested(u)
            with m.Case(Type.LINK):
                with m.If(u.here):
                    _link_here(u)
                with m.Elif(~u.own):
                    _link(u)
            with m.Case(Type.PULL), m.If(facts.relation.any()):
                m.d.comb += u.pulls.eq(1 << facts.relation)


def _free_next(u: JobUnit) -> None:
    """The first message of the stream is posted; after the one that was named, what follows."""
    m = u.m
    m.d.comb += u.free_head(Status.ACCEPTED, Cause.NONE)
    with m.If(u.facts.first):
        _conclude(u, freed=True)
    with m.Else():
        m.d.comb += u.goes_on(RelayPhase.FREE)


def _conclude(u: JobUnit, *, freed: bool) -> None:
    """The stream goes on, or is drained."""
    m, h, facts = u.m, u.heard, u.facts
    again, left = facts.again | h.more, ~facts.last if freed else facts.some
    m.d.comb += u.decides_again.eq(1)
    with m.If(left):
        m.d.comb += [
            u.again.eq(again), u.slot_waits.eq(again & (1 if freed else h.more)),
            u.waiting_slot.eq(u.next_head if freed else u.to.head),
        ]  # fmt: skip
    with m.Elif(facts.drained):
        m.d.comb += u.tell(Type.ACKACKED, About.HEARD, To.DOWN, u.bare)


def _requested(u: JobUnit) -> None:
    m = u.m
    state = u.status_now.state
    known = u.found & ((state == RecordState.ACKED) | (state == RecordState.REQUESTED))
    with m.If(u.found & u.has_data):
        send_held(u)
    with m.Elif(~known):
        m.d.comb += _pass(u, To.UP)
        with m.If(u.found):
            m.d.comb += u.change(RecordState.REQUESTED)
        with m.Elif(u.has_way):
            m.d.comb += u.make(RecordState.REQUESTED)


def _link_here(u: JobUnit) -> None:
    m, facts = u.m, u.facts
    with m.If(~facts.stale):
        with m.If(facts.renews):
            m.d.comb += ask(u)
        with m.Elif(facts.next), m.If(~facts.hungry):
            m.d.comb += ask(u)
        with m.Elif(facts.below):
            m.d.comb += answer(u)
        with m.Elif(~facts.hungry):
            with m.If(u.parked.any()):
                m.d.comb += u.goes_on(RelayPhase.SEARCH)
            with m.Else():
                m.d.comb += ask(u)


def _link(u: JobUnit) -> None:
    m, state = u.m, u.status_now.state
    stops = u.found & (u.has_data | (state == RecordState.LINKED)) & ~u.heard.thru
    with m.If(u.found & (state == RecordState.ACKED)):
        m.d.comb += answer_acked(u)
    with m.Elif(u.found & (state == RecordState.REQUESTED)):
        m.d.comb += ask(u)
    with m.Elif(~stops):
        m.d.comb += _pass(u, To.DOWN, u.own_depth)
        with m.If(~u.found & u.has_way):
            m.d.comb += u.make(RecordState.LINKED)
        with m.If(u.found):
            sent = ~u.has_data & (state == RecordState.SENT)
            m.d.comb += u.change(Mux(sent, RecordState.LINKED, state))

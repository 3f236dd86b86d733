"""Control in: what a hop tells (contract of relay, 7.1)."""

from amaranth.hdl import Mux, Signal, Value

from lethe.spec.services.relay import RecordState, RelayJob

from .steps import RelayPhase
from .unit import JobUnit

__all__ = ["add_control"]


def add_control(u: JobUnit) -> None:
    """Steps of control in."""
    m = u.m
    first, does, facts, kinds = u.at(RelayJob.CONTROL), Signal(u.of.kinds), u.facts, u.kinds
    # What the first step is about; no LINK of a sender that is not where it says.
    m.d.sync += Value.cast(does).eq(Mux(u.next_control, kinds, 0))
    with m.If(~u.fits):
        m.d.sync += [
            does.link_here.eq(0),
            does.link_else.eq(0),
            does.sound.eq(u.next_control & kinds.sound & ~kinds.link),
        ]
    m.d.comb += u.hears.eq(does.sound)
    u.wants(first & ~does.sound, u.ignores)
    # In the cycle before the step it is known which LINK may pass, whether a search is answered, what records become.
    makes, found, searched, onward, through = Signal(), u.found, Signal(), Signal(), Signal()
    m.d.sync += [
        onward.eq(u.next_control & kinds.link_else & u.fits & ~u.heard.thru),
        through.eq(u.next_control & kinds.link_else & u.fits & u.heard.thru),
        searched.eq(u.nexts[RelayJob.CONTROL, RelayPhase.SEARCH] & ~u.up_nobody),
        u.acks.eq((u.next_control & kinds.acked_else) | u.nexts[RelayJob.CONTROL, RelayPhase.ACK]),
        u.forgets.eq((u.next_control & kinds.drained_else) | u.nexts[RelayJob.CONTROL, RelayPhase.FORGET]),
        makes.eq(u.next_control & (kinds.requested_else | (kinds.link_else & u.fits))),
    ]
    # The record that was found, if there is one, has one of these states, or has data.
    answered = facts.acked | facts.requested
    stops = (u.has_data | facts.linked) & ~u.heard.thru
    # Where no record was found `facts` shows no state, and `has_data` is 0.
    m.d.comb += u.passes_link.eq((through | (onward & ~facts.linked & ~u.has_data)) & ~answered & u.down_passes)
    # LINK at its destination: ACKED or REQUESTED is told, at once or after a search.
    for passes in (
        does.acked_else & ~(facts.acked & ~u.heard.more) & u.up_passes,
        does.requested_else & ~u.has_data & ~answered & u.up_passes,
        does.drained_else & u.down_passes, u.passes_link, does.link_else & answered & ~facts.up_nobody,
        does.link_here & u.tells_post & ~facts.up_nobody, searched & ~u.parked_found,
    ):  # fmt: skip
        u.wants(passes, u.tells)
    acked, ended = u.acks & found & ~facts.acked, u.forgets & found
    u.changes_to(acked, RecordState.ACKED)
    u.control_goes_on(acked, RelayPhase.ACK)
    u.wants(ended, u.changes, u.ends)
    u.control_goes_on(ended, RelayPhase.FORGET)
    u.wants(does.requested_else, u.resends)
    u.changes_to(does.requested_else & found & ~u.has_data & ~answered, RecordState.REQUESTED)
    linked = does.link_else & found & ~answered & ~stops
    u.wants(linked, u.changes)
    u.wants(linked & ~u.has_data & facts.sent, u.states[RecordState.LINKED])
    u.wants(linked & ~(~u.has_data & facts.sent), u.stays)
    # A record is made, if there is none.
    u.makes_named = makes & ~found & u.has_way
    u.wants(does.requested_else & ~found, u.states[RecordState.REQUESTED])
    u.wants(does.link_else & ~found, u.states[RecordState.LINKED])
    _acked(u)
    u.control_goes_on(does.link_here & u.searches_post, RelayPhase.SEARCH)
    with m.If(does.pull & facts.kin):
        m.d.comb += [u.pulls.eq(1 << facts.relation), u.is_pulled.eq(1)]
    # The record of the message before is looked for in further steps.
    with m.If(u.step & u.under[RelayJob.CONTROL]):
        m.d.sync += [u.chained.eq(u.entry.prev), u.chaining.eq(acked | ended)]


def _acked(u: JobUnit) -> None:
    """The first message of the stream is posted; after the one that was named the stream goes on, or is drained."""
    facts, more = u.facts, u.heard.more
    # One is freed, the last of them; or none.
    heard, further = Signal(), u.at(RelayJob.CONTROL, RelayPhase.FREE)
    u.m.d.sync += heard.eq(u.next_control & u.kinds.acked_own & u.alive)
    frees, concludes = (heard & facts.meant) | further, heard & ~facts.meant
    u.wants(frees, u.frees_head)
    u.control_goes_on(frees & ~facts.first, RelayPhase.FREE)
    ends = frees & facts.first
    u.m.d.comb += u.decides_again.eq(ends | concludes)
    again = facts.again | more
    u.m.d.comb += u.again.eq(again & Mux(frees, ~facts.last, facts.some))
    # The first that is left is sent once more, if it does not wait already.
    u.wants(frees & facts.repeats, u.slot_waits)
    u.wants(concludes & facts.resumes & more, u.slot_waits)
    asked = Signal()
    u.m.d.sync += asked.eq(u.next_control & u.kinds.requested_own & u.alive & ~u.waiting.named)
    u.wants(asked & facts.meant, u.slot_waits)
    told = (ends & facts.last_drained) | (concludes & facts.none_drained)
    u.wants(told & ~facts.down_nobody, u.tells)

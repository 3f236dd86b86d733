"""Jobs 7.4 to 7.11: what is launched and told, the host's messages, and what time asks for."""

from amaranth.hdl import Mux, Signal, Value

from lethe.lib.queue import step
from lethe.spec.events import Cause, Status
from lethe.spec.services.relay import RecordState, RelayJob

from .layouts import Of
from .steps import RelayPhase, exceeds
from .unit import JobUnit

__all__ = ["add_work", "end_dead"]


def end_dead(u: JobUnit) -> None:
    """The first message to the dead ends; the others in further steps."""
    u.m.d.comb += u.frees_head.eq(1)
    with u.m.If(~u.facts.last):
        u.m.d.comb += u.other_goes_on(RelayPhase.FREE)


def add_work(u: JobUnit) -> None:
    """Steps of these jobs."""
    m = u.m
    _launch(u)
    with m.If(u.at(RelayJob.FEED)):
        m.d.comb += u.feeds.eq(1)
        with m.If(~u.facts.dead):
            m.d.comb += u.tells_up.eq(1)
    with m.If(u.at(RelayJob.OWED)):
        m.d.sync += u.owed_row.eq(u.owed_row + 1)
        with m.If(u.status_now.valid & u.facts.owed):
            m.d.comb += [*u.change(RecordState.REQUESTED), u.tells_up.eq(1)]
    _host(u)
    _given(u)
    _cancel(u)
    _look(u)


def _launch(u: JobUnit) -> None:
    """Data of a slot or buffer go to the next hop; or those that come go through."""
    m, sent, owner, through = u.m, u.sent, u.owners.launched, u.under[RelayJob.DATA]
    goes, launches, buffered = ~u.facts.down_nobody, u.at(RelayJob.LAUNCH), u.launched.buffered
    m.d.comb += [
        u.sends.eq(u.sends_through | (launches & Mux(buffered, owner.valid, u.facts.live) & goes)),
        u.gives_launched.eq(launches & buffered & ~owner.valid),
        u.holds.eq(launches & buffered & owner.valid & ~goes),
        sent.of.eq(Mux(through, Of.THROUGH, Mux(buffered, Of.BUFFER, Of.SLOT))),
        sent.length.eq(Mux(through, u.message_length, Mux(buffered, u.message.length, u.slot.length))),
        sent.number.eq(Mux(through, u.free_buffers.oldest, u.launched.number)),
        sent.stored.eq(~through | u.sent_stored),
    ]


def _host(u: JobUnit) -> None:
    """The host's record is taken; it is refused, or has a slot."""
    m, of, offered = u.m, u.of, u.above.send.payload
    waits, still = Signal(), Signal()
    u.host_cause = cause = Signal(Cause)
    # That of the cycle in which the job began, or it is not taken.
    bad, named = Signal(), u.host_target
    m.d.sync += bad.eq((named == u.node) | (named >= of.nodes if of.nodes < 1 << 16 else 0))
    full, never, refused = Signal(), Signal(), Signal()
    for why, stops in (
        (Cause.BUFFER, ~u.free_slots.some), (Cause.WINDOW, u.to.live >= u.system.relay_window), (Cause.SILENT, u.dead),
        (Cause.LENGTH, exceeds(offered.length, of.mtu)),
        (Cause.DESTINATION, bad), (Cause.CLASS, offered.cls >= of.data_class),
    ):  # fmt: skip
        with m.If(stops):
            m.d.comb += [cause.eq(why), (full if why in (Cause.BUFFER, Cause.WINDOW) else never).eq(1)]
    ended = u.completions.ended
    m.d.comb += [
        refused.eq(full | never),
        waits.eq((offered.deadline == 0) & full & ~never),
        still.eq(u.host.offers & (offered.destination == u.host_target)),
        u.host.takes.eq(u.at(RelayJob.HOST) & still & ~waits),
        u.host.refused.eq(refused),
        u.host.slot.eq(u.free_slots.oldest),
        u.completions.takes.eq(u.host.takes),
        u.free_slots.takes.eq(u.host.takes & ~refused),
        u.refuses.eq(u.host.takes & refused),
    ]
    # It is judged again only when there may be room, or it is not to be taken any more.
    with m.If(u.at(RelayJob.HOST)):
        m.d.sync += u.host_waits.eq(still & waits)
    with m.If(~u.host.offers | u.frees_head | u.notices | u.hop.ends):
        m.d.sync += u.host_waits.eq(0)
    with m.If(u.refuses):
        m.d.comb += u.completions.ends.eq(1)
        m.d.sync += u.refused_generation.eq(u.refused_generation + 1)
    with m.If(u.under[RelayJob.HOST]):
        m.d.comb += [
            ended.slot.eq(of.ni_slots + of.slots), ended.generation.eq(u.refused_generation),
            ended.destination.eq(offered.destination), ended.tag.eq(offered.tag), ended.status.eq(Status.REJECTED),
            ended.cause.eq(Value.cast(cause)),
        ]  # fmt: skip


def _given(u: JobUnit) -> None:
    """A message is whole: it is live, and waits to be sent; if its destination died meanwhile it ends."""
    m = u.m
    with m.If(u.given):
        m.d.comb += [u.host.given.eq(1), u.slot_waits.eq(1)]
        with m.If(u.dead):
            m.d.comb += u.other_goes_on(RelayPhase.FREE)
        m.d.sync += u.next_uid.eq(Mux(u.next_uid >= u.of.none - 3, 0, u.next_uid + 1))
    with m.If(u.at(RelayJob.GIVEN, RelayPhase.FREE)):
        end_dead(u)


def _cancel(u: JobUnit) -> None:
    """What goes to the dead is cancelled."""
    m, life = u.m, u.life.cancelled
    with m.If(u.cancelling & u.below.cancel.ready):
        m.d.sync += u.cancelling.eq(0)
    with m.If(u.at(RelayJob.CANCEL)):
        with m.If(u.row_mine & u.facts.up_nobody):
            m.d.sync += [
                u.cancelling.eq(1), u.cancel_name.eq(u.cancel_row), u.cancel_generation.eq(life.generation),
            ]  # fmt: skip
        m.d.sync += u.cancel_row.eq(u.cancel_row + 1)
        with m.If(u.cancel_row == u.of.ni_slots - 1):
            m.d.sync += [u.cancel_walk.eq(0), u.cancel_row.eq(0)]


def _look(u: JobUnit) -> None:
    """A slot and a record are looked at; in a further step what is held too long goes, if no record has ended."""
    m, of = u.m, u.of
    some = u.live_some | u.known_some | u.held.some
    # Nobody asks while a job is under way: as of its first cycle it is not wanted any more.
    with m.If(u.ready & (u.clock[:6] == 0) & some):
        m.d.sync += u.look_wanted.eq(1)
    with m.Elif(u.begun & u.under[RelayJob.LOOK]):
        m.d.sync += u.look_wanted.eq(0)
    with m.If(u.at(RelayJob.LOOK)):
        m.d.sync += u.look.eq(step(u.look, max(of.slots, of.records)))
        with m.If(u.facts.watched):
            m.d.comb += [u.stamps_slot.eq(1), u.tells_down.eq(1)]
        moves = u.has_data & ~u.data_held
        old = u.status_now.valid & u.facts.old
        with m.If((u.look < of.records) & old & ~moves):
            m.d.comb += [u.expires.eq(1), *u.end()]
        with m.Elif(u.facts.due):
            m.d.comb += u.other_goes_on(RelayPhase.DUE)
    with m.If(u.at(RelayJob.LOOK, RelayPhase.DUE)):
        m.d.comb += u.lets_go.eq(1)  # it is the oldest still

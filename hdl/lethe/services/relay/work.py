"""Jobs 7.4 to 7.11: what is launched and told, the host's messages, and what time asks for."""

from amaranth.hdl import Mux, Signal, Value

from lethe.spec.events import Cause, Status
from lethe.spec.services.relay import RecordState, RelayJob, Type

from .control import answer
from .layouts import Of
from .steps import About, RelayPhase, To
from .unit import JobUnit

__all__ = ["add_work", "end_dead"]


def end_dead(u: JobUnit) -> None:
    """The first message to the dead ends; the others in further steps."""
    u.m.d.comb += u.free_head(Status.UNKNOWN, Cause.SILENT)
    with u.m.If(~u.facts.last):
        u.m.d.comb += u.goes_on(RelayPhase.FREE)


def add_work(u: JobUnit) -> None:
    """Steps of these jobs."""
    m = u.m
    status = u.status_now
    with m.If(u.at(RelayJob.LAUNCH)):
        _launch(u)
    with m.If(u.at(RelayJob.FEED)):
        m.d.comb += u.feeds.eq(1)
        with m.If(~u.facts.dead):
            m.d.comb += answer(u, u.more)
    with m.If(u.at(RelayJob.OWED)):
        m.d.sync += u.owed_row.eq(u.owed_row + 1)
        with m.If(status.valid & (status.state == RecordState.OWED)):
            m.d.comb += [*u.change(RecordState.REQUESTED), *u.tell(Type.REQUESTED, About.RECORD, To.UP)]
    _host(u)
    _given(u)
    _cancel(u)
    _look(u)


def _launch(u: JobUnit) -> None:
    """Data of a slot or buffer go to the next hop."""
    m, sent, owner = u.m, u.sent, u.owners.launched
    goes = ~u.facts.down_nobody
    with m.If(~u.launched.buffered):
        m.d.comb += [
            u.sends.eq(u.facts.live & goes), *u.header(Type.DATA, About.SLOT), u.replay.eq(u.was_sent.row),
            sent.of.eq(Of.SLOT), sent.length.eq(u.slot.length),
        ]  # fmt: skip
    with m.Else():
        m.d.comb += [
            *u.header(Type.DATA, About.RECORD), u.replay.eq(u.kept.launched), sent.of.eq(Of.BUFFER),
            sent.length.eq(u.message.length), u.buffer.eq(u.launched.number),
        ]  # fmt: skip
        with m.If(~owner.valid):
            m.d.comb += u.gives_buffer.eq(1)
        with m.Elif(goes):
            m.d.comb += u.sends.eq(1)
        with m.Else():
            m.d.comb += u.holds.eq(1)
    m.d.comb += [sent.number.eq(u.launched.number), sent.stored.eq(1)]


def _host(u: JobUnit) -> None:
    """The host's record is taken; it is refused, or has a slot."""
    m, of, offered = u.m, u.of, u.above.send.payload
    waits, still = Signal(), Signal()
    u.host_cause = cause = Signal(Cause)
    bad = offered.destination == u.node
    if of.nodes < 1 << 16:
        bad = bad | (offered.destination >= of.nodes)
    window = u.system.relay_window
    for refused, why in (
        (u.free_slots.count == 0, Cause.BUFFER), (u.to.live >= window, Cause.WINDOW), (u.dead, Cause.SILENT),
        (offered.length > of.mtu, Cause.LENGTH), (bad, Cause.DESTINATION), (offered.cls >= of.data_class, Cause.CLASS),
    ):  # fmt: skip
        with m.If(refused):
            m.d.comb += cause.eq(why)
    ended = u.completions.ended
    m.d.comb += [
        waits.eq((offered.deadline == 0) & ((cause == Cause.WINDOW) | (cause == Cause.BUFFER))),
        still.eq(u.host.offers & (offered.destination == u.host_target)),
        u.host.takes.eq(u.at(RelayJob.HOST) & still & ~waits),
        u.host.refused.eq(cause != Cause.NONE),
        u.host.slot.eq(u.free_slots.oldest),
        u.completions.takes.eq(u.host.takes),
        u.free_slots.takes.eq(u.host.takes & ~u.host.refused),
        u.refuses.eq(u.host.takes & u.host.refused),
    ]
    # It is judged again only when there may be room, or it is not to be taken any more.
    with m.If(u.at(RelayJob.HOST)):
        m.d.sync += u.host_waits.eq(still & waits)
    with m.If(~u.host.offers | u.frees_head | u.notices | u.hop.ends):
        m.d.sync += u.host_waits.eq(0)
    with m.If(u.refuses):
        m.d.comb += [
            u.completions.ends.eq(1), ended.slot.eq(of.ni_slots + of.slots), ended.generation.eq(u.refused_generation),
            ended.destination.eq(offered.destination), ended.tag.eq(offered.tag), ended.status.eq(Status.REJECTED),
            ended.cause.eq(Value.cast(cause)),
        ]  # fmt: skip
        m.d.sync += u.refused_generation.eq(u.refused_generation + 1)


def _given(u: JobUnit) -> None:
    """A message is whole: it is live, and waits to be sent; if its destination died meanwhile it ends."""
    m = u.m
    with m.If(u.given):
        m.d.comb += [u.host.given.eq(1), u.slot_waits.eq(1), u.waiting_slot.eq(u.host.kept_slot)]
        with m.If(u.dead):
            m.d.comb += u.goes_on(RelayPhase.FREE)
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
    some = u.live.any() | u.known.any() | u.held.some
    with m.If(u.ready & (u.clock[:6] == 0) & some):
        m.d.sync += u.look_wanted.eq(1)
    with m.If(u.starts(RelayJob.LOOK)):
        m.d.sync += u.look_wanted.eq(0)
    with m.If(u.at(RelayJob.LOOK, RelayPhase.FIRST)):
        m.d.sync += u.look.eq(Mux(u.look == max(of.slots, of.records) - 1, 0, u.look + 1))
        with m.If(u.facts.watched):
            m.d.comb += [u.stamps_slot.eq(1), *u.tell(Type.LINK, About.SLOT, To.DOWN, u.thru, u.own_depth)]
        moves = u.has_data & ~u.data_held
        old = u.status_now.valid & u.facts.old
        with m.If((u.look < of.records) & old & ~moves):
            m.d.comb += [u.expires.eq(1), *u.end()]
        with m.Elif(u.facts.due):
            m.d.comb += u.goes_on(RelayPhase.DUE)
    with m.If(u.at(RelayJob.LOOK, RelayPhase.DUE)):
        m.d.comb += u.lets_go.eq(1)  # it is the oldest still

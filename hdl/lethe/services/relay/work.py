"""Jobs 7.4 to 7.11: what is launched and told, the host's messages, and what time asks for."""

from amaranth.hdl import Const, Mux, Signal, Value

from lethe.lib.queue import step
from lethe.spec.events import Cause, Status
from lethe.spec.services.relay import RecordState, RelayJob

from .layouts import Of
from .steps import RelayPhase, exceeds
from .unit import JobUnit

__all__ = ["add_work", "end_dead"]


def end_dead(u: JobUnit, condition) -> None:
    """The first message to the dead ends; the others in further steps."""
    u.wants(condition, u.frees_head)
    u.other_goes_on(condition & ~u.facts.last, RelayPhase.FREE)


def add_work(u: JobUnit) -> None:
    """Steps of these jobs."""
    m, asks = u.m, Signal()
    _launch(u)
    # Both know what they tell before the step.
    owed = u.nexts[RelayJob.OWED, RelayPhase.FIRST] & u.status_now.valid & u.facts.owed
    fed = u.nexts[RelayJob.FEED, RelayPhase.FIRST] & ~u.dead
    m.d.sync += asks.eq(owed)
    m.d.comb += u.feeds.eq(u.at(RelayJob.FEED))
    with m.If(u.at(RelayJob.OWED)):
        m.d.sync += u.owed_row.eq(u.owed_row + 1)
    u.changes_to(asks, RecordState.REQUESTED)
    u.wants((owed | fed) & ~u.up_nobody, u.tells_next)
    _host(u)
    _given(u)
    _cancel(u)
    _look(u)


def _launch(u: JobUnit) -> None:
    """Data of a slot or buffer go to the next hop; or those that come go through."""
    m, sent, owner, through = u.m, u.sent, u.owners.launched, u.under[RelayJob.DATA]
    buffered, next_ = u.launched.buffered, u.nexts[RelayJob.LAUNCH, RelayPhase.FIRST]
    # Where it goes is known before the step: to the next hop, or a buffer is free, or held.
    launches = u.sends_launched
    length = Signal(u.of.length_bits)
    m.d.sync += [
        length.eq(Mux(through, u.message_length, Mux(buffered, u.message.length, u.slot.length))),
        launches.eq(next_ & Mux(buffered, owner.valid, u.lives.row) & ~u.down_nobody),
        u.gives_launched.eq(next_ & buffered & ~owner.valid),
        u.holds.eq(next_ & buffered & owner.valid & u.down_nobody),
    ]
    m.d.comb += [
        u.sends.eq(u.sends_through | launches),
        sent.of.eq(Mux(through, Of.THROUGH, Mux(buffered, Of.BUFFER, Of.SLOT))),
        sent.length.eq(length),
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
    reasons = (
        (Cause.BUFFER, ~u.free_slots.some), (Cause.WINDOW, u.to.full), (Cause.SILENT, u.dead),
        (Cause.LENGTH, exceeds(offered.length, of.mtu)),
        (Cause.DESTINATION, bad), (Cause.CLASS, offered.cls >= of.data_class),
    )  # fmt: skip
    # The last of these.
    found = Const(Cause.BUFFER.value, len(Value.cast(cause)))
    for why, stops in reasons[1:]:
        found = Mux(stops, Const(why.value, len(found)), found)
    m.d.comb += Value.cast(cause).eq(found)
    stops = dict(reasons)
    full, long = stops[Cause.BUFFER] | stops[Cause.WINDOW], stops[Cause.LENGTH]
    known = stops[Cause.SILENT] | stops[Cause.DESTINATION] | stops[Cause.CLASS]
    ended, judged, patient = u.completions.ended, u.at(RelayJob.HOST), offered.deadline == 0
    m.d.comb += [
        waits.eq(patient & full & ~known & ~long),
        still.eq(u.host.offers & (offered.destination == u.host_target)),
        u.host.judged.eq(judged),
        u.host.takes.eq((judged & still) & ((known | ~full) | (long | ~patient))),
        u.host.keeps.eq((judged & ~full & ~known) & (still & ~long)),
        u.host.drops.eq(u.refuses),
        u.host.slot.eq(u.free_slots.oldest),
        u.completions.takes.eq(u.host.takes),
        u.refuses.eq((judged & still) & ((known | long) | (full & ~patient))),
    ]
    m.d.sync += u.free_slots.takes.eq(u.host.keeps)  # no step takes a slot in the cycle behind this one
    # It is judged again only when there may be room, or it is not to be taken any more.
    with m.If(u.at(RelayJob.HOST)):
        m.d.sync += u.host_waits.eq(still & waits)
    with m.If(~u.host.offers | u.frees_head | u.notices | u.hop.ends):
        m.d.sync += u.host_waits.eq(0)
    u.wants(u.refuses, u.completions.ends)
    # The next refusal is long after this one.
    refused_late = Signal()
    m.d.sync += refused_late.eq(u.refuses)
    with m.If(refused_late):
        m.d.sync += u.refused_generation.eq(u.refused_generation + 1)
    with m.If(judged):
        m.d.comb += [
            ended.slot.eq(of.ni_slots + of.slots), ended.generation.eq(u.refused_generation),
            ended.destination.eq(offered.destination), ended.tag.eq(offered.tag), ended.status.eq(Status.REJECTED),
            ended.cause.eq(Value.cast(cause)),
        ]  # fmt: skip


def _given(u: JobUnit) -> None:
    """A message is whole: it is live, and waits to be sent; if its destination died meanwhile it ends."""
    m = u.m
    with m.If(u.given):
        m.d.comb += u.host.given.eq(1)
        m.d.sync += u.next_uid.eq(Mux(u.next_uid >= u.of.none - 3, 0, u.next_uid + 1))
    # A step that is put off neither ends the job nor changes its phase.
    u.other_goes_on(u.steps[RelayJob.GIVEN, RelayPhase.FIRST] & u.dead, RelayPhase.FREE)
    end_dead(u, u.at(RelayJob.GIVEN, RelayPhase.FREE))


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
    # What is old, and whether one is told of, is known before the step; a record whose data move stays.
    next_, watches = u.nexts[RelayJob.LOOK, RelayPhase.FIRST], u.at(RelayJob.LOOK) & u.facts.watched
    old = u.status_now.valid & u.aged(u.stamp, u.system.relay.entry_cycles)
    m.d.sync += u.expiring.eq(next_ & (u.look < of.records) & old)
    m.d.comb += [u.expires.eq(u.expiring & ~(u.has_data & ~u.data_held)), u.stamps_slot.eq(watches)]
    with m.If(u.at(RelayJob.LOOK)):
        m.d.sync += u.look.eq(step(u.look, max(of.slots, of.records)))
    u.wants(watches & ~u.facts.down_nobody, u.tells)
    u.wants(u.expires, u.changes, u.ends)
    u.other_goes_on(u.at(RelayJob.LOOK) & ~u.expires & u.facts.due, RelayPhase.DUE)
    u.wants(u.at(RelayJob.LOOK, RelayPhase.DUE), u.lets_go)  # it is the oldest still

"""Which job begins, when it acts, and when its further steps are made (contract of relay, 7)."""

import typing

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from lethe.lib.first import first_of
from lethe.spec.services.relay import RelayJob

from .steps import LONG, SEARCH, SHORT, STEP, RelayPhase

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_choice"]


#: Jobs that act late.
_LONG = (
    RelayJob.LAUNCH, RelayJob.FEED, RelayJob.CANCEL, RelayJob.OWED, RelayJob.LOOK, RelayJob.WALK,
)  # fmt: skip


def add_choice(u: "JobUnit") -> None:
    """Which job begins, and when it makes a step."""
    m, of, below, above = u.m, u.of, u.below, u.above
    u.acts, u.step = Signal(), Signal()
    u.room, u.mine = Signal(), Signal(of.ni_slots)
    u.used, launch = Signal(), u.sending.o
    m.d.comb += u.room.eq(u.telling.level <= of.system.relay.control // 2)
    completion = below.completion
    u.ended_mine = u.mine.bit_select(completion.payload.slot, 1)
    # A hop that has ended is taken at once.
    ends = Signal()
    m.d.comb += ends.eq(completion.valid & u.ended_mine)
    noticed = u.noticed
    asks = Cat(
        noticed & u.control_in.full,
        noticed & u.data_in.full,
        Const(0, 1),
        noticed & launch.valid & u.hop.idle & ~u.host.holds_send,
        noticed & u.telling.o.valid & u.control.idle,
        noticed & u.host.offers & ~u.host_waits & ~above.quiesce & ~u.completions.owes,
        noticed & u.host.stored,
        noticed & u.free_cells.count.any() & u.hungry.o.valid & u.room,
        noticed & u.cancel_walk & ~u.cancelling,
        noticed & u.owing.any() & (u.free_buffers.count.any() | u.held.some) & u.room,
        noticed & u.look_wanted & u.room,
        u.walking & u.used & u.room & ~above.tree.valid,
        above.tree.valid,
        Const(0, 3),
    )
    begun, first, last = Signal(16), Signal(4), Signal(4)
    m.d.comb += [begun.eq(asks), last.eq(Value.cast(u.last) - 1)]
    chosen, statements = first_of(begun, last)
    m.d.comb += [*statements, first.eq(chosen)]
    u.begins, u.chosen = Signal(), Signal(RelayJob)
    m.d.comb += [
        u.begins.eq(u.ready & ~u.busy & begun.any()),
        Value.cast(u.chosen).eq(first + 1),
        u.completions.takes_below.eq(ends),
        # What a queue shows stays until the job acts: nothing looks at it in between.
        u.telling.o.ready.eq(u.at(RelayJob.TELL)),
        launch.ready.eq(u.at(RelayJob.LAUNCH)),
        u.hungry.o.ready.eq(u.at(RelayJob.FEED)),
        above.tree.ready.eq(u.starts(RelayJob.TREE)),
    ]

    # What a job is about, as of b.
    u.launched, u.fed, u.waited = launch.payload, u.hungry.o.payload, u.telling.o.payload
    u.tree_word = Signal.like(above.tree.payload)
    u.host_target, u.row_mine = Signal(16), Signal()
    with m.If(~u.busy):
        m.d.sync += [
            u.job.eq(u.chosen), u.phase.eq(RelayPhase.FIRST),
            u.tree_word.eq(above.tree.payload), u.host_target.eq(above.send.payload.destination),
            u.row_mine.eq(u.mine.bit_select(u.cancel_row, 1)),
        ]  # fmt: skip
    with m.If(ends & (completion.payload.slot == u.cancel_row)):
        m.d.sync += u.row_mine.eq(0)
    long = Cat(u.chosen == job for job in _LONG).any()
    accepts = (u.job == RelayJob.GIVEN) & (u.phase == RelayPhase.FIRST) & below.accepted.valid
    m.d.comb += [
        u.step.eq(u.busy & (u.phase != RelayPhase.STREAM) & (u.count == 0)),
        u.acts.eq(u.step & ~accepts),
    ]
    with m.If(u.begins):
        m.d.sync += [u.busy.eq(1), u.last.eq(u.chosen), u.count.eq(Mux(long, LONG, SHORT) - 1)]
    with m.Elif(u.count.any()):
        m.d.sync += u.count.eq(u.count - 1)
    u.over = Signal()  # the job is
    u.searches = Signal()  # the next step is that of a search
    with m.If(u.acts | u.further):
        m.d.sync += [
            u.phase.eq(u.then), u.count.eq(Mux(u.searches, of.cells + SEARCH, STEP) - 1),
            u.busy.eq(u.further),
        ]  # fmt: skip
    m.d.comb += u.searches.eq((u.then == RelayPhase.SEARCH) | (u.then == RelayPhase.RELEASE))
    u.ends_job = Signal()  # with the last beat
    with m.If(u.ends_job):
        m.d.sync += u.busy.eq(0)
    m.d.comb += [
        u.over.eq((u.acts & ~u.further) | u.ends_job),
        u.control_in.done.eq(u.over & (u.job == RelayJob.CONTROL)),
        u.data_in.done.eq(u.over & (u.job == RelayJob.DATA)),
    ]

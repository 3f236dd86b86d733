"""Which job begins, when it acts, and when its further steps are made (contract of relay, 7)."""

import typing

from amaranth.hdl import Cat, Const, Mux, Signal

from lethe.spec.services.relay import RelayJob

from .steps import LONG, SEARCH, SHORT, STEP, RelayPhase

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["PHASES", "add_choice"]


#: Jobs that act late.
_LONG = (
    RelayJob.LAUNCH, RelayJob.FEED, RelayJob.CANCEL, RelayJob.OWED, RelayJob.LOOK, RelayJob.WALK,
)  # fmt: skip
#: Steps of jobs that have more than one kind.
PHASES = {
    RelayJob.CONTROL: (
        RelayPhase.FIRST, RelayPhase.FREE, RelayPhase.ACK, RelayPhase.FORGET, RelayPhase.SEARCH,
    ),
    RelayJob.DATA: (
        RelayPhase.FIRST, RelayPhase.CLEAR, RelayPhase.JUDGE, RelayPhase.SEARCH, RelayPhase.STORE, RelayPhase.RELEASE,
        RelayPhase.ANSWER,
    ),
    RelayJob.GIVEN: (RelayPhase.FIRST, RelayPhase.FREE),
    RelayJob.LOOK: (RelayPhase.FIRST, RelayPhase.DUE),
    RelayJob.WALK: (RelayPhase.FIRST, RelayPhase.FREE),
}  # fmt: skip


def add_choice(u: "JobUnit") -> None:
    """Which job begins, and when it makes a step."""
    m, of, below, above = u.m, u.of, u.below, u.above
    u.acts, u.may_begin = Signal(), Signal()
    u.room = Signal()
    u.used, launch = Signal(), u.sending.o
    # Whether half of the queue of control is left: it changes with a push at that level, or a pop right above it.
    room, half = Signal(init=1), of.system.relay.control // 2
    m.d.comb += u.room.eq(room)
    fills, empties = Signal(), Signal()
    m.d.comb += [fills.eq(u.telling.level == half), empties.eq(u.telling.level == half + 1)]
    m.d.sync += room.eq(~(u.telling.i.valid & fills) & ((u.at(RelayJob.TELL) & empties) | room))
    completion = below.completion
    # A row is mine if what was accepted there and what has ended there differ: each is written by one alone.
    u.accepts = u.words("accepts", 1, of.ni_slots, "ended", "cancelled")
    u.ended = u.words("ended", 1, of.ni_slots, "ended", "cancelled", "accepted")
    m.d.comb += [
        u.accepts.ended_addr.eq(completion.payload.slot), u.ended.ended_addr.eq(completion.payload.slot),
        u.accepts.cancelled_addr.eq(u.cancel_row), u.ended.cancelled_addr.eq(u.cancel_row),
    ]  # fmt: skip
    u.ended_mine = u.accepts.ended ^ u.ended.ended
    # A hop that has ended is taken at once.
    ends = Signal()
    m.d.comb += ends.eq(completion.valid & u.ended_mine)
    asks = {
        RelayJob.CONTROL: u.control_in.asks,
        RelayJob.DATA: u.data_in.asks,
        RelayJob.LAUNCH: launch.valid & ~u.hop.moves & ~u.host.holds_send,
        RelayJob.TELL: u.telling.o.valid & ~u.control.moves,
        RelayJob.HOST: u.host.offers & ~u.host_waits & ~above.quiesce & ~u.completions.owes,
        RelayJob.GIVEN: u.host.stored,
        RelayJob.FEED: u.free_cells.some & u.hungry.o.valid & u.room,
        RelayJob.CANCEL: u.cancel_walk & ~u.cancelling,
        RelayJob.OWED: u.owes_some & (u.free_buffers.some | u.held.some) & u.room,
        RelayJob.LOOK: u.look_wanted,
        RelayJob.WALK: u.walking & u.room & ~above.tree.valid & u.used,
        RelayJob.TREE: above.tree.valid,
    }  # fmt: skip
    # Those behind the job that began last come first.  For each job it is kept which of the others are before it: so
    # much is known of them while a job is under way.
    jobs = list(asks)
    asked, later, first = Signal(len(jobs)), Signal(len(jobs)), []
    m.d.comb += asked.eq(Cat(asks.values()))
    with m.If(u.busy):
        job = Cat(u.under.values())
        m.d.sync += later.eq(Cat(Const(0, 1), *(job[:i].any() for i in range(1, len(jobs)))))
        m.d.sync += u.after_control.eq(u.under[RelayJob.CONTROL])
    # Before the first notice only the job TREE, which may bring it, can begin; and that only if the service is ready.
    tree, noticed = above.tree.valid, u.noticed & ~u.halted
    # Nothing is chosen in the cycle of a step: what is written then says that the job is not under way any more.
    step_other, may_choose = Signal(), Signal()
    m.d.comb += may_choose.eq(noticed & ~step_other)
    for place, job in enumerate(jobs):
        front = Signal(len(jobs), name=f"before_{job.name.lower()}")
        others = range(len(jobs))
        m.d.sync += front.eq(
            Cat(
                later[i] | ~later[place] if i < place else later[i] & ~later[place] if i > place else Const(0, 1)
                for i in others
            )
        )
        first.append(may_choose & asked[place] & ~(asked & front).any())
    u.chosen = dict(zip(jobs, first, strict=True))
    u.chosen[RelayJob.TREE] = first[-1] | (u.may_begin & ~u.noticed & ~step_other & tree)
    m.d.comb += [
        u.may_begin.eq(u.ready),
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
            *(phase.eq(name == RelayPhase.FIRST) for name, phase in u.phases.items()),
            u.tree_word.eq(above.tree.payload), u.host_target.eq(above.send.payload.destination),
            u.row_mine.eq(u.accepts.cancelled ^ u.ended.cancelled),
        ]  # fmt: skip
    with m.If(ends & (completion.payload.slot == u.cancel_row)):
        m.d.sync += u.row_mine.eq(0)
    # A step is known in the cycle before; one that is put off is made again.
    steps, put_off, near, stream = Signal(), Signal(), Signal(), u.phases[RelayPhase.STREAM]
    u.begun = begun = Signal()
    given = u.steps[RelayJob.GIVEN, RelayPhase.FIRST]
    m.d.comb += [
        put_off.eq(given & below.accepted.valid),
        steps.eq(~u.rests & ~stream & near),
        u.acts.eq(u.step & ~put_off),
    ]
    m.d.comb += [
        u.next_control.eq(steps & u.under[RelayJob.CONTROL] & u.phases[RelayPhase.FIRST]),
        u.next_data.eq(steps & u.under[RelayJob.DATA] & u.phases[RelayPhase.FIRST]),
    ]
    m.d.sync += u.step.eq(steps | put_off)
    u.nexts = {}  # it is made in the next cycle
    for (job, phase), step in u.steps.items():
        u.nexts[job, phase] = steps & u.under[job] & (u.phases[phase] if job in PHASES else 1)
        m.d.sync += step.eq(u.nexts[job, phase])
    with m.If(put_off):
        m.d.sync += given.eq(1)
    # The count to the next step begins with a step, and with each beat, which may be the last.
    u.over = Signal()  # the job is
    u.searches = Signal()  # the next step is that of a search
    # That there is a next step is known late.  Whether it would be that of a search is known before.
    long, released, facts = Signal(), u.phases[RelayPhase.RELEASE], u.facts
    judges = stream | (facts.known & u.kinds.data_here & ~u.phases[RelayPhase.CLEAR])
    m.d.comb += long.eq(
        (u.under[RelayJob.DATA] & Mux(released, ~facts.parked_one, facts.parked & judges))
        | (u.under[RelayJob.CONTROL] & u.kinds.link_here)
    )
    with m.If(u.step | stream | ~u.count.any()):
        m.d.sync += [u.count.eq(Mux(long, of.cells + SEARCH, STEP) - 1), near.eq(0)]
    with m.Else():
        m.d.sync += [u.count.eq(u.count - 1), near.eq(u.count == 2)]
    # The first cycle of a job tells which job it is; a job that acts late begins its count in the second.
    acts_late, counts_late = begun & u.doing(*_LONG), Signal()
    m.d.sync += [begun.eq(~u.busy), counts_late.eq(acts_late)]
    with m.If(~u.busy):
        m.d.sync += [u.count.eq(SHORT - 1), near.eq(0)]
    with m.Elif(counts_late):
        m.d.sync += u.count.eq(LONG - 3)
    with m.If(acts_late):
        m.d.sync += near.eq(0)
    busy = Signal()
    some = [u.rests & noticed & asked[place : place + 4].any() for place in range(0, len(jobs), 4)]
    m.d.comb += busy.eq(Cat(~u.rests & ~u.over, u.rests & u.may_begin & ~u.noticed & tree, *some).any())
    m.d.sync += [u.busy.eq(busy), u.rests.eq(~busy)]
    with m.If(u.acts):
        m.d.sync += [phase.eq(u.then[name]) for name, phase in u.phases.items()]
    # Behind the last beat of what is posted.
    with m.If(u.stream_goes_on):
        m.d.sync += [
            stream.eq(0), u.phases[RelayPhase.RELEASE].eq(facts.parked),
            u.phases[RelayPhase.ANSWER].eq(~facts.parked),
        ]  # fmt: skip
    m.d.comb += u.searches.eq(u.then[RelayPhase.SEARCH] | u.then[RelayPhase.RELEASE])
    control, data_in = (u.under[job] for job in (RelayJob.CONTROL, RelayJob.DATA))
    step_control = Signal()
    m.d.sync += [
        step_control.eq(steps & control), step_other.eq((steps & ~data_in & ~control) | put_off),
    ]  # fmt: skip
    other = step_other & ~put_off & ~u.further_other
    m.d.comb += u.control_in.done.eq(step_control & ~u.further_control)
    u.wants(u.control_in.done, u.over)
    u.wants(other, u.over)
    # Whether data in and control in are over is known late; which job it was they tell for a cycle more.
    for job, under in u.under.items():
        with m.If(~u.busy if job in (RelayJob.CONTROL, RelayJob.DATA) else ~u.busy | other):
            m.d.sync += under.eq(u.chosen[job])

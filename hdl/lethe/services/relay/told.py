"""The header that a step tells or sends, and its hop (contract of relay, 7)."""

import typing
from functools import reduce
from operator import or_

from amaranth.hdl import Mux, Signal, Value

from lethe.spec.services.relay import RelayJob, Type

from .steps import RelayPhase, WalkRows

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_told"]


def _any(*choices: tuple) -> Value:
    """The word whose condition is met, or 0."""
    return reduce(or_, (Mux(condition, word, 0) for condition, word in choices))


def add_told(u: "JobUnit") -> None:
    """The header that a step tells, and where it goes."""
    m, of, heard, slot, entry, row = u.m, u.of, u.heard, u.slot, u.message, u.from_
    u.out, u.out_hop = Signal(of.header), Signal(of.node_bits)
    out, facts, kinds = u.out, u.facts, u.kinds
    launch, look, walk = u.under[RelayJob.LAUNCH], u.under[RelayJob.LOOK], u.under[RelayJob.WALK]
    control, data, feed, owed = (
        u.under[job] for job in (RelayJob.CONTROL, RelayJob.DATA, RelayJob.FEED, RelayJob.OWED)
    )
    # What it is about is known a cycle before: the message of a slot or a record, what is posted, a neighbour.
    of_slot, of_record, of_heard, posted, pull = Signal(), Signal(), Signal(), Signal(), Signal()
    links, feeds, launches, asks, drains, came = (Signal() for _ in range(6))
    kind_before, stored = Signal(len(out.type)), u.phases[RelayPhase.STORE]
    link, elsewhere, link_here = Signal(), Signal(), Signal()
    always_posted, perhaps_heard = Signal(), Signal()
    walks = {row: walk & u.in_rows[row] for row in WalkRows}
    posts, linked = feed | (data & kinds.data_here), look | walks[WalkRows.SLOTS] | walks[WalkRows.RECORDS]
    slots = (launch & ~u.launched.buffered) | look | walks[WalkRows.SLOTS]
    records = (launch & u.launched.buffered) | owed | walks[WalkRows.RECORDS]
    m.d.sync += [
        of_slot.eq(slots),
        of_record.eq(records),
        always_posted.eq(posts),
        link_here.eq(control & kinds.link_here),
        pull.eq(walks[WalkRows.NODES]),
        perhaps_heard.eq(~slots & ~records & ~posts & ~walks[WalkRows.NODES]),
        links.eq(linked),
        feeds.eq(feed),
        launches.eq(launch),
        kind_before.eq(
            _any(
                (launch, Type.DATA),
                (linked, Type.LINK),
                (control & kinds.acked_own, Type.ACKACKED),
                (walks[WalkRows.NODES], Type.PULL),
                (owed, Type.REQUESTED),
                (posts, Type.ACKED),
            )
        ),
        drains.eq(control & kinds.acked_own),
        came.eq(
            (control & (kinds.acked_else | kinds.drained_else | kinds.requested_else))
            | (data & kinds.data_else & stored)
        ),
        link.eq(control & kinds.link_else),
        elsewhere.eq(data & kinds.data_else),
    ]
    # But for a LINK at its destination, of which it is known with the step.
    answers = u.answers_post
    m.d.comb += [
        posted.eq(always_posted | answers), of_heard.eq(perhaps_heard & ~answers),
        asks.eq(link_here & ~answers),
    ]  # fmt: skip
    as_it_came, bare, passes_link = Signal(), Signal(), Signal()
    m.d.comb += [
        passes_link.eq(link & ~facts.acked & ~facts.requested),
        as_it_came.eq(came | passes_link | (elsewhere & ~facts.acked)),
        bare.eq(~of_heard | drains | ((link | elsewhere) & facts.acked & ~stored)),
    ]
    kind = (
        kind_before
        | Mux(asks | (link & facts.requested), Type.REQUESTED, 0)
        | Mux(answers | ((link | elsewhere) & facts.acked), Type.ACKED, 0)
    )
    named, told = ("cls", "prev"), of_heard & ~bare
    m.d.comb += [
        out.type.eq(Mux(as_it_came, heard.type, kind)),
        out.replay.eq(
            Mux(as_it_came, heard.replay, launches & Mux(u.launched.buffered, u.kept.launched, u.was_sent.row))
        ),
        out.more.eq(Mux(as_it_came, heard.more, feeds)),
        out.thru.eq(Mux(as_it_came, heard.thru, u.under[RelayJob.LOOK])),
        out.depth.eq(_any((as_it_came & ~link, heard.depth), (passes_link | links, u.depth))),
        *(
            out[name].eq(_any((told, heard[name]), (of_slot, slot[name]), (of_record, entry[name])))
            for name in named
        ),
        out.uid.eq(_any((of_heard, heard.uid), (of_slot, slot.uid), (of_record, entry.uid), (posted, row.mark))),
        out.source.eq(
            _any(
                (perhaps_heard | always_posted, Mux(feeds, u.fed, heard.source)), (of_slot | pull, u.node),
                (of_record, entry.source),
            )
        ),
        out.target.eq(
            _any(
                (perhaps_heard, heard.target), (of_slot, slot.target), (of_record, entry.target),
                (always_posted | pull, u.node),
            )
        ),
        out.incarnation.eq(
            _any(
                (of_heard, heard.incarnation), (of_slot, u.incarnation), (of_record, entry.incarnation),
                (posted, row.incarnation),
            )
        ),
        out.slot.eq(
            _any(
                (of_heard & ~drains, heard.slot), (of_slot, u.near_row), (of_record, entry.slot), (posted, row.slot),
            )
        ),
    ]  # fmt: skip
    hop, down, early, walked, of_walk, away = u.out_hop, Signal(), Signal(), Signal(of.node_bits), Signal(), Signal()
    m.d.sync += [
        early.eq(u.tells_next), walked.eq(Mux(u.in_rows[WalkRows.NODES], u.walk_row, u.kept_hop)),
        of_walk.eq(walk), away.eq(look | (control & (kinds.acked_own | kinds.drained_else))),
    ]  # fmt: skip
    u.wants(early, u.tells)
    m.d.comb += [
        down.eq(away | (link & ~facts.acked & ~facts.requested)),
        hop.eq(Mux(of_walk, walked, Mux(down, u.down.hop, u.up))),
    ]
    # At once if nothing waits; else behind what does.
    control, telling, queued = u.control, u.telling, u.at(RelayJob.TELL)
    at_once = ~control.moves & telling.empty
    told_late, queued_late = Signal(of.header, reset_less=True), Signal()
    m.d.sync += [told_late.eq(out), queued_late.eq(u.under[RelayJob.TELL])]
    m.d.comb += [
        control.gives.eq((u.tells & at_once) | (queued & ~u.dead)),
        telling.i.valid.eq(u.tells & ~at_once),
        telling.i.payload.hop.eq(hop),
        telling.i.payload.header.eq(out),
        control.hop.eq(Mux(u.under[RelayJob.TELL], u.waited.hop, hop)),
        control.header.eq(Mux(queued_late, u.waited.header, told_late)),
        u.dropped.eq(u.tells & ~at_once & ~telling.i.ready),
        u.links.eq((u.tells_link | u.passes_link) & (at_once | telling.i.ready)),
    ]
    with m.If(u.notices | u.is_pulled):
        m.d.sync += u.tide.eq(u.tide + 1)

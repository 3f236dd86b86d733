"""What is known of the tables in the cycle before a step, a bit each (contract of relay, 7)."""

import typing

from amaranth.hdl import Mux, Signal

from .steps import is_below, is_newer

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_facts"]


def add_facts(u: "JobUnit") -> None:
    """What decides a step, from what the tables show; of records in `records`."""
    m, of, h = u.m, u.of, u.heard
    facts, to, row, slot = u.facts, u.to, u.from_, u.slot
    slots, relay = of.slots, u.system.relay
    named = (h.slot < slots) if slots < 1 << len(h.slot) else 1
    relation, depth = u.relation, u.depth
    fits = (relation >= 2) & (h.depth == depth + 1)
    fits = Mux(relation == 1, h.depth == (depth - 1)[: len(depth) + 1], fits) if u.system.relay.radix else 1
    alive, meant = Signal(), Signal()
    stale, renews, next_, below, turn = Signal(), Signal(), Signal(), Signal(), Signal()
    u.answers_post = Signal()  # of a LINK at its destination, a cycle before the step
    up_nobody, up_back, down_nobody, down_back = Signal(), Signal(), Signal(), Signal()
    some = u.parked.any()
    m.d.comb += [
        meant.eq(u.lives.row & named & (slot.uid == h.uid) & (slot.target == h.target)),
        stale.eq(u.dead | (row.known & is_newer(row.incarnation, h.incarnation))),
        renews.eq(~row.known | is_newer(h.incarnation, row.incarnation)),
        next_.eq(h.prev == row.mark),
        below.eq((row.mark != of.none) & is_below(h.uid, row.mark)),
        turn.eq(Mux(renews, h.prev == of.none, next_)),
        u.answers_post.eq(~stale & ~renews & ~next_ & below),
        up_nobody.eq(u.up == u.node),
        up_back.eq(u.up == u.sender),
        down_nobody.eq(u.down.hop == u.node),
        down_back.eq(u.down.hop == u.sender),
    ]
    m.d.sync += [
        alive.eq(h.incarnation == u.incarnation),
        facts.live.eq(u.lives.row),
        # Only steps change the room, and those of a look before this one do not.
        facts.watched.eq(
            u.room & (u.look < slots) & u.lives.row & (to.head == u.look) & u.aged(u.slot_stamp, relay.watch_cycles)
        ),
        facts.old.eq(u.aged(u.stamp, relay.entry_cycles)),
        facts.due.eq(u.held.some & u.aged(u.oldest_stamp, relay.cache_cycles)),
        facts.frees.eq(alive & meant),
        facts.concludes.eq(alive & ~meant),
        facts.first.eq(to.head == h.slot),
        facts.last.eq(to.live == 1),
        facts.some.eq(to.live.any()),
        facts.again.eq(to.again),
        facts.stale.eq(stale),
        facts.renews.eq(~stale & renews),
        facts.renewed.eq(renews & some),
        facts.dead.eq(u.dead),
        # A source that is renewed has no mark.
        facts.judges.eq(~stale & ~(renews & some)),
        facts.turn.eq(turn),
        facts.below.eq(~turn & ~renews & below),
        facts.ahead.eq(~turn & (renews | ~below)),
        # LINK at its destination: ACKED or REQUESTED is told, at once or after a search.
        facts.tells_post.eq(u.answers_post | ~(stale | (row.hungry & ~renews) | (~renews & ~next_ & some))),
        facts.searches_post.eq(~stale & ~renews & ~next_ & ~below & ~row.hungry & some),
        facts.last_drained.eq((to.live == 1) & (h.uid != of.none)),
        facts.none_drained.eq(~to.live.any() & (h.uid != of.none)),
        facts.parked.eq(some),
        facts.parked_one.eq(u.parked == 1),
        facts.up_nobody.eq(up_nobody),
        facts.up_passes.eq(~up_nobody & ~up_back),
        facts.down_nobody.eq(down_nobody),
        facts.down_passes.eq(~down_nobody & ~down_back),
        facts.astray.eq(~up_back | down_nobody | down_back),
        facts.turns.eq(u.up == u.down.hop),
        facts.moves.eq(u.down.hop != u.before.hop),
        facts.asked.eq(u.asking.bit_select(u.down.way, 1)),
        facts.relation.eq(relation),
        facts.fits.eq(fits),
    ]

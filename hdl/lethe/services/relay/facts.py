"""What is known of the tables in the cycle before a step, a bit each (contract of relay, 7)."""

import typing

from amaranth.hdl import Mux, Signal

from .steps import WalkRows, is_below, is_newer, is_same

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
    # The depths of a parent and of a child; the own one changes long before it is asked for.
    parent, child = Signal(len(depth) + 1), Signal(len(depth) + 1)
    m.d.sync += [parent.eq(depth - 1), child.eq(depth + 1)]
    u.fits = Signal()  # of a LINK: its sender is where it says, a cycle before the step
    fits = Mux(relation == 1, h.depth == parent, (relation >= 2) & (h.depth == child))
    m.d.comb += u.fits.eq(fits if u.system.relay.radix else 1)
    alive, meant = Signal(), Signal()
    stale, renews, next_, below, turn = Signal(), Signal(), Signal(), Signal(), Signal()
    up_nobody, up_back, down_nobody, down_back = Signal(), Signal(), Signal(), Signal()
    some = u.parked.any()
    # Of what was heard, a cycle before the others are known.
    first_, unnamed = Signal(), Signal()
    m.d.sync += [first_.eq(h.prev == of.none), unnamed.eq(h.uid == of.none)]
    m.d.comb += [
        meant.eq(u.lives.row & named & is_same(slot.uid, h.uid) & (slot.target == h.target)),
        stale.eq(u.dead | (row.known & is_newer(row.incarnation, h.incarnation))),
        renews.eq(~row.known | is_newer(h.incarnation, row.incarnation)),
        next_.eq(is_same(h.prev, row.mark)),
        below.eq((row.mark != of.none) & is_below(h.uid, row.mark)),
        turn.eq(Mux(renews, first_, next_)),
        up_nobody.eq(u.up == u.node),
        up_back.eq(u.up == u.sender),
        down_nobody.eq(u.down.hop == u.node),
        down_back.eq(u.down.hop == u.sender),
    ]
    u.up_passes, u.down_passes = ~up_nobody & ~up_back, ~down_nobody & ~down_back
    m.d.sync += [
        alive.eq(h.incarnation == u.incarnation),
        facts.live.eq(u.lives.row),
        facts.watched.eq(
            (u.look < slots) & u.lives.row & (to.head == u.look) & u.aged(u.slot_stamp, relay.watch_cycles)
        ),
        facts.old.eq(
            u.status_now.valid & u.aged(u.stamp, relay.entry_cycles)
        ),  # of a record that was found long before
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
        facts.below.eq(~next_ & ~renews & below),
        facts.ahead.eq(Mux(renews, ~first_, ~next_ & ~below)),
        # LINK at its destination: ACKED or REQUESTED is told, at once or after a search.
        facts.answers_post.eq(~stale & ~renews & ~next_ & below),
        facts.tells_post.eq(~stale & Mux(renews, 1, Mux(next_, ~u.hungry_now, below | ~(u.hungry_now | some)))),
        facts.searches_post.eq(~stale & ~renews & ~next_ & ~below & (some & ~u.hungry_now)),
        facts.last_drained.eq((to.live == 1) & ~unnamed),
        facts.none_drained.eq(~to.live.any() & ~unnamed),
        facts.parked.eq(some),
        facts.parked_one.eq(u.parked == 1),
        facts.up_nobody.eq(up_nobody),
        facts.down_nobody.eq(down_nobody),
        facts.astray.eq(~up_back | down_nobody | down_back),
        facts.moved.eq(
            u.asking.bit_select(u.down.way, 1) | (u.for_notice & (u.for_all | (u.down.hop != u.before.hop)))
        ),
        facts.past.eq(u.in_rows[WalkRows.RECORDS] & u.for_notice & (down_nobody | up_nobody | (u.up == u.down.hop))),
        facts.relation.eq(relation),
        facts.kin.eq(relation.any()),
    ]

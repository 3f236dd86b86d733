"""What is known of the tables in the cycle before a step, a bit each (contract of relay, 7)."""

import typing

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from lethe.spec.services.relay import RelayJob

from .steps import is_below, is_newer, is_same

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
    of_parent, of_child = Signal(), Signal()  # what was heard was said there
    m.d.sync += [of_parent.eq(h.depth == parent), of_child.eq(h.depth == child)]
    u.fits = Signal()  # of a LINK: its sender is where it says, a cycle before the step
    fits = Mux(relation == 1, of_parent, (relation >= 2) & of_child)
    m.d.comb += u.fits.eq(fits if u.system.relay.radix else 1)
    meant, stale, renews, next_, below = (Signal() for _ in range(5))
    up_nobody, up_back, down_nobody, down_back = Signal(), Signal(), Signal(), Signal()
    some, some_held = u.parked.any(), Signal()
    m.d.sync += some_held.eq(u.held.some)  # the first that comes is not old
    # Of what was heard, a cycle before the others are known.
    first_ = Signal()
    m.d.sync += [
        first_.eq(h.prev == of.none), u.unnamed.eq(h.uid == of.none), u.alive.eq(h.incarnation == u.incarnation),
    ]  # fmt: skip
    m.d.comb += [
        meant.eq(
            is_same(
                Cat(slot.uid, slot.target, u.lives.row, Value.cast(named)),
                Cat(h.uid, h.target, Const(3, 2)),
            )
        ),
        stale.eq(u.dead | (row.known & is_newer(row.incarnation, h.incarnation))),
        renews.eq(~row.known | is_newer(h.incarnation, row.incarnation)),
        next_.eq(is_same(h.prev, row.mark)),
        below.eq(is_below(h.uid, row.mark)),
        up_nobody.eq(is_same(u.up, u.node)),
        up_back.eq(is_same(u.up, u.sender)),
        down_nobody.eq(is_same(u.down.hop, u.node)),  # but for walks
        down_back.eq(is_same(u.down.hop, u.sender)),
    ]
    u.up_nobody, u.down_nobody = up_nobody, down_nobody
    u.up_passes, u.down_passes = ~facts.up_nobody & ~facts.up_back, ~facts.down_nobody & ~facts.down_back
    u.astray = ~up_back | down_nobody | down_back
    follows, posted = facts.follows, facts.posted
    m.d.comb += [
        u.is_renewed.eq(~facts.stale & facts.is_new),
        # None of these if it is stale.  A source that is renewed has no mark, and its parked cells are cleared before.
        u.turn.eq(~facts.stale & Mux(facts.is_new, facts.begins & ~facts.parked, follows)),
        u.was_posted.eq(~facts.stale & ~facts.is_new & ~follows & posted),
        u.comes_early.eq(~facts.stale & Mux(facts.is_new, ~facts.begins, ~follows & ~posted)),
        u.answers_post.eq(u.known_link & ~follows & posted),
        u.tells_post.eq(~facts.stale & (facts.is_new | Mux(follows, ~facts.hungry, facts.quiet | posted))),
        u.searches_post.eq(facts.known & ~follows & ~posted & facts.searches),
    ]
    m.d.sync += [
        # Only steps change the room, and those of a look before this one do not.
        facts.watched.eq(
            u.room & (u.look < slots) & u.lives.row & (to.head == u.look) & u.aged(u.slot_stamp, relay.watch_cycles)
        ),
        facts.due.eq(some_held & u.aged(u.oldest_stamp, relay.cache_cycles)),
        facts.meant.eq(meant),
        facts.first.eq(to.head == h.slot),
        facts.last.eq(to.live == 1),
        facts.some.eq(to.some),
        facts.again.eq(to.again),
        facts.repeats.eq((to.head == h.slot) & (to.live != 1) & (to.again | h.more) & ~u.waiting.next),
        facts.resumes.eq(to.some & ~u.waiting.first),
        facts.stale.eq(stale),
        facts.follows.eq(next_),
        facts.posted.eq(row.marked & below),
        facts.begins.eq(first_),
        facts.is_new.eq(renews),
        facts.known.eq(~stale & ~renews),
        u.known_link.eq(u.under[RelayJob.CONTROL] & u.kinds.link_here & ~stale & ~renews),
        facts.hungry.eq(u.hungry_now),
        facts.quiet.eq(~u.hungry_now & ~some),
        facts.searches.eq(~u.hungry_now & some),
        facts.last_drained.eq((to.live == 1) & ~u.unnamed),
        facts.none_drained.eq(~to.some & ~u.unnamed),
        facts.parked.eq(some),
        facts.parked_one.eq(u.parked == 1),
        facts.up_nobody.eq(up_nobody),
        facts.up_back.eq(up_back),
        facts.down_nobody.eq(down_nobody),
        facts.down_back.eq(down_back),
        facts.astray.eq(u.astray),
        facts.relation.eq(relation),
        facts.kin.eq(relation.any()),
    ]

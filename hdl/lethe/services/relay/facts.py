"""What is known of the tables in the cycle before a step, a bit each (contract of relay, 7)."""

import typing

from amaranth.hdl import Mux, Signal

from .steps import is_below, is_newer

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_facts"]


def add_facts(u: "JobUnit") -> None:
    """What decides a step, from what the tables show."""
    m, of, h = u.m, u.of, u.heard
    u.facts = facts = Signal(of.facts)
    to, row, slot = u.to, u.from_, u.slot
    slots, relay = of.slots, u.system.relay
    named = (h.slot < slots) if slots < 1 << len(h.slot) else 1
    relation, depth = u.relation, u.depth
    fits = (relation >= 2) & (h.depth == depth + 1)
    fits = Mux(relation == 1, h.depth == (depth - 1)[: len(depth) + 1], fits) if u.system.relay.radix else 1
    m.d.sync += [
        facts.alive.eq(h.incarnation == u.incarnation),
        facts.live.eq(u.lives.row),
        facts.watched.eq((u.look < slots) & u.lives.row & (to.head == u.look) & u.aged(slot.stamp, relay.watch_cycles)),
        facts.old.eq(u.aged(u.stamp, relay.entry_cycles)),
        facts.due.eq(u.held.some & u.aged(u.oldest_stamp, relay.cache_cycles)),
        facts.meant.eq(u.lives.row & named & (slot.uid == h.uid) & (slot.target == h.target)),
        facts.first.eq(to.head == h.slot),
        facts.last.eq(to.live == 1),
        facts.some.eq(to.live.any()),
        facts.again.eq(to.again),
        facts.stale.eq(u.dead | (row.known & is_newer(row.incarnation, h.incarnation))),
        facts.renews.eq(~row.known | is_newer(h.incarnation, row.incarnation)),
        facts.dead.eq(u.dead),
        facts.hungry.eq(row.hungry),
        facts.next.eq(h.prev == row.mark),
        facts.begins.eq(h.prev == of.none),
        facts.below.eq((row.mark != of.none) & is_below(h.uid, row.mark)),
        facts.drained.eq(h.uid != of.none),
        facts.up_nobody.eq(u.up == u.node),
        facts.up_back.eq(u.up == u.sender),
        facts.down_nobody.eq(u.down.hop == u.node),
        facts.down_back.eq(u.down.hop == u.sender),
        facts.turns.eq(u.up == u.down.hop),
        facts.moves.eq(u.down.hop != u.before.hop),
        facts.asked.eq(u.asking.bit_select(u.down.way, 1)),
        facts.relation.eq(relation),
        facts.fits.eq(fits),
    ]

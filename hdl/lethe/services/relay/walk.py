"""Walks (7.12) and the tree (7.13): what a notice of a death, or a neighbour's PULL, has to be done for."""

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from lethe.spec.services.relay import RelayJob

from .steps import RelayPhase, WalkRows
from .unit import JobUnit
from .work import end_dead

__all__ = ["add_walk"]


def add_walk(u: JobUnit) -> None:
    """When a walk is under way, its steps, and those of the tree."""
    m = u.m
    pulled = Signal()  # some way is
    wanted = u.notice_wanted | pulled
    begins, passes, frees, goes_on = Signal(), Signal(), Signal(), u.walk_goes_on
    m.d.comb += [
        begins.eq(wanted & ~u.walking & ~u.doing(RelayJob.TREE) & ~u.above.tree.valid),
        passes.eq(u.walking & ~u.doing(RelayJob.WALK) & ~u.used),
        goes_on.eq(passes | (u.step & u.under[RelayJob.WALK] & ~frees)),
        u.walks.eq(wanted | u.walking),
    ]
    m.d.sync += [u.pulled.eq(Mux(begins, 0, u.pulled) | u.pulls), pulled.eq(u.is_pulled | (pulled & ~begins))]
    with m.If(begins):
        m.d.sync += [
            u.walking.eq(1), u.for_notice.eq(u.notice_wanted), u.notice_wanted.eq(0), u.asking.eq(u.pulled),
        ]  # fmt: skip
    # The order of these counts.  A word of the tree makes the walk of a notice one ``for_all``, unless the walk is over
    # in this cycle; a death does even then.
    acts, other = Signal(), Signal()
    known = (u.walking & u.for_notice) | u.notice_wanted
    with m.If(acts & known):
        m.d.sync += u.for_all.eq(1)
    _next_row(u, begins, goes_on)
    with m.If(acts & u.tree_word.code & other & known):
        m.d.sync += u.for_all.eq(1)
    _row(u, frees)
    _tree(u, acts, other)


def _next_row(u: JobUnit, begins: Signal, goes_on: Signal) -> None:
    """The next row, or the end; and whether the row is used."""
    m, of = u.m, u.of
    sizes = {WalkRows.NODES: of.nodes, WalkRows.SLOTS: of.slots, WalkRows.RECORDS: of.records, WalkRows.CELLS: of.cells}
    # ``ahead`` is the row behind this one.  From it follow the row behind that, and whether ``ahead`` is the last one.
    after, bits, last, final, ends = Signal(len(WalkRows)), Value.cast(u.ahead), Signal(), Signal(), Signal()
    ahead = {rows: bits[place] for place, rows in enumerate(WalkRows)}
    m.d.comb += [
        last.eq(Cat(ahead[rows] & (u.ahead_row == size - 1) for rows, size in sizes.items()).any()),
        final.eq(last & (ahead[WalkRows.CELLS] | (ahead[WalkRows.RECORDS] & ~u.for_notice))),
        after.eq(Mux(last, Cat(bits[-1], bits[:-1]), bits)),
    ]
    with m.If(goes_on):
        m.d.sync += [
            u.walk.eq(u.ahead), u.walk_row.eq(u.ahead_row), ends.eq(final),
            Value.cast(u.ahead).eq(after), u.ahead_row.eq(Mux(last, 0, u.ahead_row + 1)),
        ]  # fmt: skip
        with m.If(ends):
            m.d.sync += u.walking.eq(0)
            with m.If(u.for_notice):
                m.d.sync += u.for_all.eq(0)
    # Where a walk begins: without relays, or for a PULL, with the slots.
    at_nodes, one = u.notice_wanted if u.system.relay.radix else Const(0, 1), of.slots == 1
    with m.If(begins):
        m.d.sync += [
            u.walk.eq(Mux(at_nodes, WalkRows.NODES, WalkRows.SLOTS)), u.walk_row.eq(0), ends.eq(0),
            u.ahead.eq(Mux(at_nodes, WalkRows.NODES, WalkRows.RECORDS if one else WalkRows.SLOTS)),
            u.ahead_row.eq(Mux(at_nodes, 1, 0 if one else 1)),
        ]  # fmt: skip

    # Whether the next row is used, as of this cycle.  For a step, whether this one still is: known long before.
    # (Nodes are many, so that they are known late: apart from the others.)
    went, used, there = Signal(), [], []
    nodes, others = (WalkRows.NODES,), tuple(rows for rows in WalkRows if rows != WalkRows.NODES)
    for kinds, begin in ((nodes, {WalkRows.NODES: at_nodes}), (others, {WalkRows.SLOTS: ~at_nodes})):
        here, after_here, after_behind = Signal(), Signal(), Signal()
        walk = {rows: _at(u, rows, "walk") for rows in kinds}
        m.d.sync += [
            here.eq(Cat(u.in_rows[rows] & is_used for rows, is_used in walk.items()).any()),
            after_here.eq(
                Cat(Mux(begins, begin.get(rows, 0), u.in_rows[rows]) & is_used for rows, is_used in walk.items()).any()
            ),
            after_behind.eq(Cat(ahead[rows] & _at(u, rows, "ahead") for rows in kinds).any()),
        ]
        there.append(here)
        used.append(Mux(went, after_behind, after_here))
    m.d.sync += [went.eq(goes_on), u.facts.there.eq(Cat(there).any())]
    m.d.comb += u.used.eq(Cat(used).any())


def _at(u: JobUnit, rows: WalkRows, reader: str) -> Value:
    """Whether the row of a walk, or the one ``ahead``, would be used among these."""
    if rows == WalkRows.NODES:
        return Mux(u.bank, *(getattr(related, reader) for related in reversed(u.related)))
    table = {WalkRows.SLOTS: u.lives, WalkRows.RECORDS: u.valid, WalkRows.CELLS: u.is_parked}[rows]
    return getattr(table, reader)


def _row(u: JobUnit, frees: Signal) -> None:
    """A row is looked at; ``frees``: a message to the dead has ended, and there is another."""
    m, facts, rows = u.m, u.facts, u.in_rows
    first, next_ = u.at(RelayJob.WALK), u.nexts[RelayJob.WALK, RelayPhase.FIRST]
    # Before the step: whether what goes to a node goes another way, or was asked for; whether a record ends.
    moved = u.asked | (u.for_notice & (u.for_all | (u.kept_hop != u.down.hop)))
    past = u.for_notice & u.turns
    untold = rows[WalkRows.RECORDS] & ~past & ~facts.acked & ~u.is_told
    dead, cells, told, there = Signal(), Signal(), Signal(), facts.there  # long before
    m.d.sync += [
        cells.eq(rows[WalkRows.CELLS]),
        u.past.eq(next_ & rows[WalkRows.RECORDS] & there & past),
        u.tells_link.eq(next_ & there & moved & ~u.ends_here & (rows[WalkRows.SLOTS] | untold)),
        told.eq(rows[WalkRows.RECORDS]),
    ]
    m.d.sync += dead.eq((next_ & rows[WalkRows.SLOTS] & there & u.ends_here) | u.nexts[RelayJob.WALK, RelayPhase.FREE])
    m.d.comb += frees.eq(dead & ~facts.last)
    end_dead(u, dead)
    u.wants(next_ & rows[WalkRows.NODES] & there & (u.for_all | ~u.relation.any()), u.tells_next)
    u.wants(u.tells_link, u.tells)
    u.wants(u.tells_link & told, u.changes, u.stays)
    u.wants(u.past, u.changes, u.ends)
    m.d.comb += u.walk_unparks.eq(first & cells & facts.there & facts.up_nobody)


def _tree(u: JobUnit, acts: Signal, other: Signal) -> None:
    """A route is written, or a death told of: ``acts``, of another node: ``other``."""
    m, word = u.m, u.tree_word
    sound = Signal()  # both known before the step
    m.d.sync += [sound.eq(word.target < u.of.nodes), other.eq(word.target != u.node)]
    m.d.comb += acts.eq(u.at(RelayJob.TREE) & sound)
    with m.If(acts):
        with m.If(~word.code):
            m.d.comb += u.routes.eq(1)
        with m.Else():
            m.d.comb += u.notices.eq(1)
            m.d.sync += [u.bank.eq(~u.bank), u.noticed.eq(1), u.depth.eq(word.depth)]
            with m.If(other):
                m.d.comb += u.kills.eq(1)
                with m.If(word.promoted):
                    m.d.sync += u.for_all.eq(1)
                with m.If(u.for_notice):
                    m.d.sync += [u.walking.eq(0), u.walk_row.eq(0)]  # where the next begins
                m.d.sync += [u.notice_wanted.eq(1), u.cancel_walk.eq(1), u.cancel_row.eq(0)]

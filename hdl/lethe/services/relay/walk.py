"""Walks (7.12) and the tree (7.13): what a notice of a death, or a neighbour's PULL, has to be done for."""

from amaranth.hdl import Cat, Mux, Signal

from lethe.spec.services.relay import RelayJob

from .steps import RelayPhase, WalkRows
from .unit import JobUnit
from .work import end_dead

__all__ = ["add_walk"]


def add_walk(u: JobUnit) -> None:
    """When a walk is under way, its steps, and those of the tree."""
    m = u.m
    wanted = u.notice_wanted | u.pulled.any()
    begins, passes, stopped, goes_on = Signal(), Signal(), Signal(), u.walk_goes_on
    first = WalkRows.NODES if u.system.relay.radix else WalkRows.SLOTS
    m.d.comb += [
        begins.eq(wanted & ~u.walking & ~u.doing(RelayJob.TREE) & ~u.above.tree.valid),
        passes.eq(u.walking & ~u.doing(RelayJob.WALK) & ~u.used),
        goes_on.eq((passes & ~stopped) | (u.step & u.under[RelayJob.WALK] & ~u.then[RelayPhase.FREE])),
        u.walks.eq(wanted | u.walking),
    ]
    m.d.sync += u.pulled.eq(Mux(begins, 0, u.pulled) | u.pulls)
    with m.If(begins):
        m.d.sync += [
            u.walking.eq(1), u.for_notice.eq(u.notice_wanted), u.notice_wanted.eq(0), u.asking.eq(u.pulled),
            u.walk.eq(Mux(u.notice_wanted, first, WalkRows.SLOTS)),
        ]  # fmt: skip
    _tree(u, stopped)
    _next_row(u, goes_on)
    _row(u)


def _next_row(u: JobUnit, goes_on) -> None:
    """The next row, or the end."""
    m, of = u.m, u.of
    last = {WalkRows.RECORDS: ~u.for_notice, WalkRows.CELLS: 1}
    sizes = {WalkRows.NODES: of.nodes, WalkRows.SLOTS: of.slots, WalkRows.RECORDS: of.records, WalkRows.CELLS: of.cells}
    with m.If(goes_on):
        m.d.sync += u.walk_row.eq(u.walk_row + 1)
        with m.Switch(u.walk):
            for rows, size in sizes.items():
                with m.Case(rows), m.If(u.walk_row == size - 1):
                    m.d.sync += u.walk_row.eq(0)
                    with m.If(last.get(rows, 0)):
                        m.d.sync += u.walking.eq(0)
                        with m.If(u.for_notice):
                            m.d.sync += u.for_all.eq(0)
                    if rows != WalkRows.CELLS:
                        m.d.sync += u.walk.eq(WalkRows(rows.value + 1))


def _row(u: JobUnit) -> None:
    """A row is looked at."""
    m, facts, rows = u.m, u.facts, Signal(len(WalkRows))
    first, nobody, moved, ends = u.at(RelayJob.WALK), facts.down_nobody, Signal(), Signal()
    slots, records, cells, nodes = (
        first & rows[i.value] for i in (WalkRows.SLOTS, WalkRows.RECORDS, WalkRows.CELLS, WalkRows.NODES)
    )
    m.d.sync += rows.eq(Cat(u.walk == row for row in WalkRows))  # long before the step
    m.d.comb += [
        moved.eq(facts.asked | (u.for_notice & (u.for_all | facts.moves))),
        ends.eq(u.for_notice & (nobody | facts.up_nobody | facts.turns)),
    ]
    with m.If((slots & nobody) | u.at(RelayJob.WALK, RelayPhase.FREE)):
        end_dead(u)
    with m.If(slots & moved):
        m.d.comb += u.tells_down.eq(1)  # not to nobody
    with m.If(records & ends):
        m.d.comb += u.end()
    with m.If(records & ~ends & moved & ~facts.acked & ~u.is_told):
        m.d.comb += [u.tells_down.eq(1), u.changes.eq(1), u.stays.eq(1)]
    m.d.comb += u.walk_unparks.eq(cells & facts.up_nobody)
    with m.If(nodes & (u.for_all | ~facts.relation.any())):
        m.d.comb += u.tells_neighbour.eq(1)


def _tree(u: JobUnit, stopped) -> None:
    """A route is written, or a death told of."""
    m, word = u.m, u.tree_word
    sound, other = Signal(), Signal()  # known before the step
    m.d.sync += [sound.eq(word.target < u.of.nodes), other.eq(word.target != u.node)]
    with m.If(u.at(RelayJob.TREE) & sound):
        with m.If((u.walking & u.for_notice) | u.notice_wanted):
            m.d.sync += u.for_all.eq(1)
        with m.If(~word.code):
            m.d.comb += u.routes.eq(1)
        with m.Else():
            m.d.comb += u.notices.eq(1)
            m.d.sync += [u.bank.eq(~u.bank), u.noticed.eq(1), u.depth.eq(word.depth)]
            with m.If(other):
                m.d.comb += [u.kills.eq(1), stopped.eq(u.walking & u.for_notice)]
                with m.If(word.promoted):
                    m.d.sync += u.for_all.eq(1)
                with m.If(u.for_notice):
                    m.d.sync += [u.walking.eq(0), u.walk_row.eq(0)]  # where the next begins
                m.d.sync += [u.notice_wanted.eq(1), u.cancel_walk.eq(1), u.cancel_row.eq(0)]

"""Walks (7.12) and the tree (7.13): what a notice of a death, or a neighbour's PULL, has to be done for."""

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.utils import exact_log2

from lethe.spec.services.relay import RelayJob

from .steps import RelayPhase, WalkRows
from .unit import JobUnit
from .work import end_dead

__all__ = ["add_walk"]


def add_walk(u: JobUnit) -> None:
    """When a walk is under way, its steps, and those of the tree."""
    m = u.m
    wanted = u.notice_wanted | u.pulled.any()
    begins, passes, frees, goes_on = Signal(), Signal(), Signal(), u.walk_goes_on
    first = WalkRows.NODES if u.system.relay.radix else WalkRows.SLOTS
    m.d.comb += [
        begins.eq(wanted & ~u.walking & ~u.doing(RelayJob.TREE) & ~u.above.tree.valid),
        passes.eq(u.walking & ~u.doing(RelayJob.WALK) & ~u.used_other),
        goes_on.eq((passes & ~u.used_record) | (u.step & u.under[RelayJob.WALK] & ~frees)),
        u.walks.eq(wanted | u.walking),
    ]
    m.d.sync += u.pulled.eq(Mux(begins, 0, u.pulled) | u.pulls)
    with m.If(begins):
        m.d.sync += [
            u.walking.eq(1), u.for_notice.eq(u.notice_wanted), u.notice_wanted.eq(0), u.asking.eq(u.pulled),
            u.walk.eq(Mux(u.notice_wanted, first, WalkRows.SLOTS)), u.walk_parts.eq(0),
        ]  # fmt: skip
    # Whatever row a walk goes on to, a death ends it; but it is over with its last row, whatever else the tree says.
    acts, other = Signal(), Signal()
    known = (u.walking & u.for_notice) | u.notice_wanted
    with m.If(acts & known):
        m.d.sync += u.for_all.eq(1)
    _next_row(u, goes_on)
    with m.If(acts & u.tree_word.code & other & known):
        m.d.sync += u.for_all.eq(1)
    _row(u, frees)
    _tree(u, acts, other)


def _next_row(u: JobUnit, goes_on) -> None:
    """The next row, or the end."""
    m, of = u.m, u.of
    sizes = {WalkRows.NODES: of.nodes, WalkRows.SLOTS: of.slots, WalkRows.RECORDS: of.records, WalkRows.CELLS: of.cells}
    last, ends, bits = Signal(), Signal(), Value.cast(u.walk)
    m.d.comb += [
        last.eq(Cat(u.in_rows[rows] & (u.walk_row == size - 1) for rows, size in sizes.items()).any()),
        ends.eq(last & (u.in_rows[WalkRows.CELLS] | (u.in_rows[WalkRows.RECORDS] & ~u.for_notice))),
    ]
    with m.If(goes_on):
        m.d.sync += u.walk_row.eq(Mux(last, 0, u.walk_row + 1))
        with m.If(last):
            m.d.sync += u.walk.eq(Cat(bits[-1], bits[:-1]))
        # Which part of the records it is: the first behind the slots, the next behind the last row of one.
        part = u.walk_row[: exact_log2(of.records // len(u.walk_parts))].all()
        with m.If(part | last):
            m.d.sync += u.walk_parts.eq(Cat(u.in_rows[WalkRows.SLOTS] & last, u.walk_parts[:-1]))
        with m.If(ends):
            m.d.sync += u.walking.eq(0)
            with m.If(u.for_notice):
                m.d.sync += u.for_all.eq(0)


def _row(u: JobUnit, frees: Signal) -> None:
    """A row is looked at; ``frees``: a message to the dead has ended, and there is another."""
    m, facts, rows = u.m, u.facts, Signal(len(WalkRows))
    first, nobody, moved, ends = u.at(RelayJob.WALK), facts.down_nobody, facts.moved, facts.past
    slots, records, cells, nodes = (
        first & rows[exact_log2(i.value)] for i in (WalkRows.SLOTS, WalkRows.RECORDS, WalkRows.CELLS, WalkRows.NODES)
    )
    m.d.sync += rows.eq(Value.cast(u.walk))  # long before the step
    dead = (slots & nobody) | u.at(RelayJob.WALK, RelayPhase.FREE)
    m.d.comb += frees.eq(dead & ~facts.last)
    with m.If(dead):
        end_dead(u)
    with m.If(slots & moved):
        m.d.comb += u.tells_down.eq(1)  # not to nobody
    with m.If(first & ends):
        m.d.comb += u.end()
    with m.If(records & ~ends & moved & ~facts.acked & ~u.is_told):
        m.d.comb += [u.tells_down.eq(1), u.changes.eq(1), u.stays.eq(1)]
    m.d.comb += u.walk_unparks.eq(cells & facts.up_nobody)
    with m.If(nodes & (u.for_all | ~facts.kin)):
        m.d.comb += u.tells_neighbour.eq(1)


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

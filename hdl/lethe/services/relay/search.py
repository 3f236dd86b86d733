"""The search among parked cells (contract of relay, 7)."""

import typing

from amaranth.hdl import Cat, Mux, Signal

from lethe.spec.services.relay import RelayJob

from .steps import RelayPhase

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_search"]


def add_search(u: "JobUnit") -> None:
    """Which parked cell is meant, in so many cycles as there are cells."""
    m, of = u.m, u.of
    searching, row = Signal(), Signal(of.cell_bits)
    near, rows = Signal(2), Signal(of.cell_bits)
    u.search_begins = u.further & u.searches
    before = [Signal(of.cell_bits, name=f"row{cycles}") for cycles in range(2)]
    m.d.comb += u.cell_row.eq(Mux(searching, row, Mux(u.doing(RelayJob.WALK), u.walk_row, u.clear_row)))
    hit, same = Signal(), Signal()
    m.d.comb += [
        rows.eq(before[1]),
        u.is_parked.search_addr.eq(rows),
        same.eq(Mux(u.phases[RelayPhase.RELEASE], u.cell.prev == u.from_.mark, u.cell.uid == u.heard.uid)),
        hit.eq(near[1] & u.is_parked.search & (u.cell.source == u.heard.source) & same),
    ]
    m.d.sync += [near.eq(Cat(searching, near)), before[0].eq(row), before[1].eq(before[0])]
    with m.If(searching):
        m.d.sync += row.eq(row + 1)
        with m.If(row == of.cells - 1):
            m.d.sync += [searching.eq(0), row.eq(0)]
        with m.If(~near[0]):
            m.d.sync += u.parked_found.eq(0)
    with m.If(hit & ~u.parked_found):
        m.d.sync += [
            u.parked_found.eq(1), u.parked_at.eq(rows),
            *(u.parked_cell[name].eq(u.cell[name]) for name in of.parked.members),
        ]  # fmt: skip
    with m.If(u.search_begins):
        m.d.sync += searching.eq(1)

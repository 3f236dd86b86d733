"""The search among parked cells (contract of relay, 7)."""

import typing

from amaranth.hdl import Cat, Mux, Signal

from lethe.spec.services.relay import RelayJob

from .steps import RelayPhase, same_pairs

if typing.TYPE_CHECKING:
    from .unit import JobUnit

__all__ = ["add_search"]


def add_search(u: "JobUnit") -> None:
    """Which parked cell is meant, in so many cycles as there are cells."""
    m, of = u.m, u.of
    searching, row = Signal(), Signal(of.cell_bits)
    near, rows = Signal(2), Signal(of.cell_bits)
    u.search_begins = (u.further & u.searches) | (u.stream_goes_on & u.facts.parked)
    before = [Signal(of.cell_bits, name=f"row{cycles}") for cycles in range(2)]
    m.d.comb += u.cell_row.eq(Mux(searching, row, Mux(u.doing(RelayJob.WALK), u.walk_row, u.clear_row)))
    # Where the memory of cells shows a word early these are registers: of each two bits of the uid of the cell that is
    # compared whether they are those that are looked for, and whether the cell is parked and of the source.
    cell, released, meant = u.early_cell, u.phases[RelayPhase.RELEASE], Signal(of.uid_bits)
    of_source, pairs, compared = Signal(), Signal((of.uid_bits + 1) // 2), Signal()
    late, compares = (m.d.comb, near[1]) if cell is u.cell else (m.d.sync, near[0])
    late += [
        pairs.eq(same_pairs(Mux(released, cell.prev, cell.uid), meant)),
        of_source.eq(u.is_parked.search & (cell.source == u.heard.source)),
        compared.eq(compares),
    ]
    m.d.comb += u.is_parked.search_addr.eq(rows if cell is u.cell else before[0])
    # The uid that is looked for: of the message that came.  After a message was posted, a cell is looked for that names
    # it as the one before: the parked message that the search before found, or else the one that came.
    hit = Signal()
    m.d.comb += [rows.eq(before[1]), hit.eq(of_source & compared & pairs.all())]
    with m.If(~searching & ~near.any()):
        m.d.sync += meant.eq(Mux(released & u.parked_found, u.parked_cell.uid, u.heard.uid))
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

"""Bits that several write, in the memories of LUTs: a multiplexer of as many bits in gates costs far more."""

from functools import reduce
from operator import or_, xor

from amaranth.hdl import Const, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from lethe.lib.table import Words

__all__ = ["SharedBits"]


class SharedBits(wiring.Component):
    """A bit for each of few numbers.  It is 1 if an odd number of its writers keep a 1 of it.

    So each writer has a memory of its own, and turns what it keeps if the bit is to be another.  Two may write bits of
    different numbers in one cycle; of one number the first of them does.

    Parameters
    ----------
    depth : numbers
    writers, readers : their names

    Members
    -------
    NAME_en, NAME_addr, NAME : In
        Of each writer; seen from the next cycle on.
    NAME_addr, NAME : In, Out
        Of each reader: the bit as of the start of this cycle.
    clear, clear_addr : In
        A bit becomes 0, and nothing is written.
    """

    def __init__(self, depth: int, writers, readers):
        self._depth, self._writers, self._readers = depth, tuple(writers), tuple(readers)
        address = ceil_log2(max(2, depth))
        members = {"clear": In(1), "clear_addr": In(address)}
        for name in self._writers:
            members |= {f"{name}_en": In(1), f"{name}_addr": In(address), name: In(1)}
        for name in self._readers:
            members |= {f"{name}_addr": In(address), name: Out(1)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        tables = {}
        for writer in self._writers:
            others = [name for name in self._writers if name != writer]
            m.submodules[writer] = tables[writer] = table = Words(1, self._depth, (*others, *self._readers))
            m.d.comb += [
                table.clear.eq(self.clear),
                table.clear_addr.eq(self.clear_addr),
                *(getattr(table, f"{name}_addr").eq(self._of(name, "_addr")) for name in (*others, *self._readers)),
            ]
        for i, writer in enumerate(self._writers):
            address, table = self._of(writer, "_addr"), tables[writer]
            taken: list[Value] = [
                self._of(first, "_en") & (self._of(first, "_addr") == address) for first in self._writers[:i]
            ]
            kept = [getattr(other, writer) for name, other in tables.items() if name != writer]
            m.d.comb += [
                table.write_en.eq(self._of(writer, "_en") & ~reduce(or_, taken, Const(0, 1))),
                table.write_addr.eq(address),
                table.write.eq(reduce(xor, kept, self._of(writer))),
            ]
        for reader in self._readers:
            found = [getattr(table, reader) for table in tables.values()]
            m.d.comb += self._of(reader).eq(reduce(xor, found))
        return m

    def _of(self, name: str, what: str = "") -> Value:
        return getattr(self, f"{name}{what}")

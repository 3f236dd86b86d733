"""The receive table: who delivered here and is not yet forgotten (cycle contract, section 4.7)."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.spec.config import System

from .layouts import Records

__all__ = ["ReceiveTable", "set_of"]


def set_of(system: System, source: Value, slot: Value) -> Value:
    """The set of (source, slot), combinational: a fold of key ⊕ key>>3 ⊕ key>>7."""
    bits = exact_log2(system.ni.sets)
    key = Cat(slot, source)
    mixed = key ^ key[3:] ^ key[7:]
    pieces = [mixed[i : i + bits] for i in range(0, len(mixed), bits)] if bits else []
    result = pieces[0] if pieces else Cat()
    for piece in pieces[1:]:
        result = result ^ piece
    return result


class ReceiveTable(wiring.Component):
    """``sets`` × ``ways`` entries in one memory per way.

    A set given at ``look`` in *c* is at ``entries`` in *c+1*, with all writes up to *c*.  A write in *c+1* goes to
    the set looked at in *c*: every change follows a look, so two actions on one set in successive cycles see each
    other.

    Members
    -------
    clear, index : In
        Empty set ``index``.
    look : In(range(sets)), entries : Out(array of entries)
        The read.
    write : In(ways), entry : In(entry)
        The ways that take ``entry``.
    none : Out(1)
        No entry is valid.
    joins, leaves : In(1)
        The write adds an entry where none was; takes one away.
    """

    def __init__(self, system: System):
        self._system = system
        records = Records(system)
        self._entry = records.entry
        ways = system.ni.ways
        super().__init__(
            {
                "clear": In(1),
                "index": In(records.set),
                "look": In(records.set),
                "entries": Out(records.entries),
                "write": In(ways),
                "entry": In(self._entry),
                "joins": In(1),
                "leaves": In(1),
                "none": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sets, ways = self._system.ni.sets, self._system.ni.ways
        looked = Signal.like(self.look)
        m.d.sync += looked.eq(self.look)
        for way in range(ways):
            m.submodules[f"way{way}"] = memory = Memory(shape=self._entry, depth=max(2, sets), init=[])
            write = memory.write_port()
            read = memory.read_port(transparent_for=(write,))
            m.d.comb += [
                read.addr.eq(self.look),
                self.entries[way].eq(read.data),
                write.addr.eq(looked),
                write.data.eq(self.entry),
                write.en.eq(self.write[way]),
            ]
            with m.If(self.clear):
                m.d.comb += [write.addr.eq(self.index), write.data.as_value().eq(0), write.en.eq(1)]
        count = Signal(range(sets * ways + 1))
        with m.If(self.joins):
            m.d.sync += count.eq(count + 1)
        with m.Elif(self.leaves):
            m.d.sync += count.eq(count - 1)
        m.d.comb += self.none.eq(count == 0)
        return m

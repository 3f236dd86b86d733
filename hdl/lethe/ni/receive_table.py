"""The receive table: who delivered here and is not yet forgotten (cycle contract, section 4.7)."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.spec.config import System

from .layouts import Records
from .walk import clear_signature

__all__ = ["ReceiveTable", "look_signature", "set_of", "update_signature"]


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


def look_signature(records: Records) -> wiring.Signature:
    """Seen from the action: the entries of a ``set`` given in *c−1* are here in *c*, with all writes up to *c−1*."""
    return wiring.Signature({"set": Out(records.set), "entries": In(records.entries)})


def update_signature(records: Records) -> wiring.Signature:
    """Seen from the action: the ``ways`` that take ``entry``, in the set looked at in the cycle before.

    ``joins``, ``leaves``: the write adds an entry where none was; takes one away.
    """
    ways = Out(records.entries.length)
    return wiring.Signature({"ways": ways, "entry": Out(records.entry), "joins": Out(1), "leaves": Out(1)})


class ReceiveTable(wiring.Component):
    """``sets`` × ``ways`` entries in one memory per way.

    Every change follows a look, so two actions on one set in successive cycles see each other.

    Members
    -------
    clear : In(`clear_signature`)
        Empty a set.
    look : In(`look_signature`)
    update : In(`update_signature`)
    none : Out(1)
        No entry is valid.
    """

    def __init__(self, system: System):
        self._system = system
        records = Records(system)
        self._entry = records.entry
        super().__init__(
            {
                "clear": In(clear_signature(records.set)),
                "look": In(look_signature(records)),
                "update": In(update_signature(records)),
                "none": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sets, ways = self._system.ni.sets, self._system.ni.ways
        update = self.update
        looked = Signal.like(self.look.set)
        m.d.sync += looked.eq(self.look.set)
        for way in range(ways):
            m.submodules[f"way{way}"] = memory = Memory(shape=self._entry, depth=max(2, sets), init=[])
            write = memory.write_port()
            read = memory.read_port(transparent_for=(write,))
            m.d.comb += [
                read.addr.eq(self.look.set),
                self.look.entries[way].eq(read.data),
                write.addr.eq(looked),
                write.data.eq(update.entry),
                write.en.eq(update.ways[way]),
            ]
            with m.If(self.clear.valid):
                m.d.comb += [write.addr.eq(self.clear.index), write.data.as_value().eq(0), write.en.eq(1)]
        count = Signal(range(sets * ways + 1))
        with m.If(update.joins):
            m.d.sync += count.eq(count + 1)
        with m.Elif(update.leaves):
            m.d.sync += count.eq(count - 1)
        m.d.comb += self.none.eq(count == 0)
        return m

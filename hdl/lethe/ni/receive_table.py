"""The receive table: who delivered here and is not yet forgotten (cycle contract, section 4.7)."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.lib.memory import Ram
from lethe.spec.config import System

from .layouts import Records
from .walk import clear_signature

__all__ = ["ReceiveTable", "look_signature", "same_key", "set_of", "update_signature"]


def _fold(key, width: int, sets: int):
    """The set of a key of ``width`` bits, which is a number or a value: a fold of key ⊕ key>>3 ⊕ key>>7."""
    mixed = key ^ (key >> 3) ^ (key >> 7)
    folded = mixed
    for low in range(exact_log2(sets), width, exact_log2(sets) or width):
        folded = folded ^ (mixed >> low)
    return folded & (sets - 1)


def set_of(system: System, source: Value, slot: Value) -> Value:
    """The set of (source, slot), combinational."""
    key, sets = Cat(slot, source), system.ni.sets
    return _fold(key, len(key), sets)[: exact_log2(sets)]


def _untold(system: System) -> list[int]:
    """The bits of a slot that neither its source nor its set tells.

    The fold is linear: each bit of a slot changes the set by its own pattern.  As long as the patterns are independent,
    a set and a source belong to one choice of these bits only; a bit whose pattern depends on others is not told.
    """
    width = system.format.node_bits + system.format.slot_bits
    independent: list[int] = []
    untold = []
    for bit in range(system.format.slot_bits):
        pattern = _fold(1 << bit, width, system.ni.sets)
        for other in independent:
            pattern = min(pattern, pattern ^ other)
        if pattern:
            independent.append(pattern)
        else:
            untold.append(bit)
    return untold


def same_key(system: System, a, b) -> Value:
    """Whether two records of one set have the same ``source`` and ``slot``, combinational."""
    untold = _untold(system)
    own, other = (Cat(record.source, *(record.slot[bit] for bit in untold)) for record in (a, b))
    return own == other


def look_signature(records: Records) -> wiring.Signature:
    """Seen from the action: the entries of a ``set`` given in *c−4* are here in *c−2*, with all writes up to *c−5*.

    An entry that is written in *c−4* may be anything.
    """
    return wiring.Signature({"set": Out(records.set), "entries": In(records.entries)})


def update_signature(records: Records) -> wiring.Signature:
    """Seen from the action: the ``ways`` of ``set`` that take ``entry``.

    The entry is valid only where a message may be delivered, so never while the NI is not ready.  ``joins``,
    ``leaves``: the write adds an entry where none was; takes one away.
    """
    members = {"set": Out(records.set), "ways": Out(records.entries.length), "entry": Out(records.entry)}
    return wiring.Signature({**members, "joins": Out(1), "leaves": Out(1)})


class ReceiveTable(wiring.Component):
    """``sets`` × ``ways`` entries in one memory per way.

    While the walk clears them the entry of ``update`` is not valid.

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
        update, clear = self.update, self.clear
        for way in range(ways):
            m.submodules[f"way{way}"] = memory = Ram(self._entry, sets)
            m.d.comb += [
                memory.read_addr.eq(self.look.set),
                self.look.entries[way].eq(memory.read_data),
                memory.write_addr.eq(Mux(clear.valid, clear.index, update.set)),
                memory.write_data.eq(update.entry),
                memory.write_en.eq(clear.valid | update.ways[way]),
            ]
        # A change is counted one cycle later.
        count, joined, left = Signal(range(sets * ways + 1)), Signal(), Signal()
        m.d.sync += [joined.eq(update.joins), left.eq(update.leaves)]
        with m.If(joined):
            m.d.sync += count.eq(count + 1)
        with m.Elif(left):
            m.d.sync += count.eq(count - 1)
        m.d.comb += self.none.eq(~joined & (count == left))
        return m

"""The payloads of the datagrams under way: one memory, indexed by slot and beat."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from lethe.spec.config import System

__all__ = ["PayloadStore"]


class PayloadStore(wiring.Component):
    """``slots`` payloads of ``slot_flits`` flits; written by accept, read by the transmitter.

    Members
    -------
    write, write_slot, write_beat, flit : In
        Store a flit.
    slot, beat : In
        Address of a read; its flit is at ``data`` one cycle later, unless this slot was written in the same cycle.
    """

    write: Signal
    data: Signal

    def __init__(self, system: System):
        self._system = system
        beat = max(1, ceil_log2(system.slot_flits))
        slot = range(system.ni.slots)
        super().__init__(
            {
                "write": In(1),
                "write_slot": In(slot),
                "write_beat": In(beat),
                "flit": In(system.format.flit_bits),
                "slot": In(slot),
                "beat": In(beat),
                "data": Out(system.format.flit_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        beat_bits = ceil_log2(self._system.slot_flits)
        depth = self._system.ni.slots << beat_bits
        m.submodules.memory = memory = Memory(shape=len(self.data), depth=depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(Cat(self.write_beat[:beat_bits], self.write_slot)),
            write.data.eq(self.flit),
            read.addr.eq(Cat(self.beat[:beat_bits], self.slot)),
            # A slot that is being written holds no datagram yet: what is read of it goes nowhere.
            read.en.eq(~(self.write & (self.write_slot == self.slot))),
            self.data.eq(read.data),
        ]
        return m

"""The payloads of the datagrams under way: one memory, indexed by slot and beat."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from lethe.spec.config import System

__all__ = ["PayloadStore", "read_signature", "write_signature"]


def _place(system: System) -> dict:
    return {"slot": Out(range(system.ni.slots)), "beat": Out(range(max(2, system.slot_flits)))}


def write_signature(system: System) -> wiring.Signature:
    """Seen from accept: stores ``flit`` as ``beat`` of ``slot``."""
    return wiring.Signature({"valid": Out(1), **_place(system), "flit": Out(system.format.flit_bits)})


def read_signature(system: System) -> wiring.Signature:
    """Seen from the transmitter: the ``flit`` of ``slot`` and ``beat``, one cycle later.

    It means nothing if this slot was written in the same cycle.
    """
    return wiring.Signature({**_place(system), "flit": In(system.format.flit_bits)})


class PayloadStore(wiring.Component):
    """``slots`` payloads of ``slot_flits`` flits; written by accept, read by the transmitter.

    Members
    -------
    write : In(`write_signature`)
    read : In(`read_signature`)
    """

    def __init__(self, system: System):
        self._system = system
        super().__init__({"write": In(write_signature(system)), "read": In(read_signature(system))})

    def elaborate(self, platform):
        m = Module()
        beat_bits = ceil_log2(self._system.slot_flits)
        depth = self._system.ni.slots << beat_bits
        m.submodules.memory = memory = Memory(shape=self._system.format.flit_bits, depth=depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.en.eq(self.write.valid),
            write.addr.eq(Cat(self.write.beat[:beat_bits], self.write.slot)),
            write.data.eq(self.write.flit),
            read.addr.eq(Cat(self.read.beat[:beat_bits], self.read.slot)),
            # A slot that is being written holds no datagram yet: what is read of it goes nowhere.
            read.en.eq(~(self.write.valid & (self.write.slot == self.read.slot))),
            self.read.flit.eq(read.data),
        ]
        return m

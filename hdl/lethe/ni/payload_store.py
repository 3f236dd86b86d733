"""The payloads of the datagrams under way: one memory, indexed by slot and beat."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from lethe.lib.memory import Ram
from lethe.spec.config import System

__all__ = ["PayloadStore", "read_signature", "write_signature"]


def _place(system: System) -> dict:
    return {"slot": Out(range(system.ni.slots)), "beat": Out(range(max(2, system.slot_flits)))}


def write_signature(system: System) -> wiring.Signature:
    """Seen from accept: stores ``flit`` as ``beat`` of ``slot``."""
    return wiring.Signature({"valid": Out(1), **_place(system), "flit": Out(system.format.flit_bits)})


def read_signature(system: System) -> wiring.Signature:
    """Seen from the transmitter: the ``flit`` of ``slot`` and ``beat``, two cycles later.

    It means nothing if it was written in the same cycle or the one before: its slot then holds no datagram yet, or
    none that the transmitter knows.
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
        m.submodules.memory = memory = Ram(self._system.format.flit_bits, depth)
        # A write comes late in its cycle.  What it is of is not read before the next cycle but one.
        m.d.sync += [
            memory.write_en.eq(self.write.valid),
            memory.write_addr.eq(Cat(self.write.beat[:beat_bits], self.write.slot)),
            memory.write_data.eq(self.write.flit),
        ]
        m.d.comb += [
            memory.read_addr.eq(Cat(self.read.beat[:beat_bits], self.read.slot)),
            self.read.flit.eq(memory.read_data),
        ]
        return m

"""The device's side of AXI4-Lite: one transfer at a time, for registers behind it."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .signature import OKAY, SLVERR, axi_lite

__all__ = ["Lite"]


class Lite(wiring.Component):
    """Takes reads and writes from an AXI4-Lite bus one after the other, and answers each once.

    Where a read and a write wait, they take turns.  A transfer is taken in the cycle after it is offered, so that no
    output of the bus depends on an input of the same cycle.  Address and data of a write are taken in one cycle, *c*,
    as is the address of a read.  In *c+2* ``act`` is 1, and in *c+3* ``good`` and ``data`` are looked at for the
    answer, which is on the bus from *c+4* on and holds until taken.  If ``later`` is 1 in *c+2*, they are looked at one
    cycle after ``done`` instead.

    The two lowest address bits and ``awprot`` and ``arprot`` are not looked at.  Reset drops a transfer.

    Parameters
    ----------
    address_bits : bits of an address in bytes

    Members
    -------
    bus : In(`axi_lite`)
    transfer : Out {write, index, data, strobe}
        From *c+1* until the next is taken: whether it is a write, the word that it is for, what is written, and a bit
        for each byte of it that counts.
    act, writes : Out(1)
        ``writes``: ``act``, for a write.  Both come from registers.
    later, done : In(1)
    good, data : In(1), In(32)
        Whether the answer is OKAY, not SLVERR; what was read.
    """

    def __init__(self, address_bits: int):
        transfer = data.StructLayout({"write": 1, "index": address_bits - 2, "data": 32, "strobe": 4})
        super().__init__(
            {
                "bus": In(axi_lite(address_bits)),
                "transfer": Out(transfer),
                "act": Out(1),
                "writes": Out(1),
                "later": In(1),
                "done": In(1),
                "good": In(1),
                "data": In(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus, transfer = self.bus, self.transfer
        offered, answered = Signal(), Signal()  # a write is offered; the answer is taken
        m.d.comb += [
            offered.eq(bus.awvalid & bus.wvalid),
            answered.eq(Mux(transfer.write, bus.bready, bus.rready)),
        ]
        m.d.sync += [self.act.eq(0), self.writes.eq(0)]
        with m.FSM() as fsm:  # noqa: F841, for proofs
            with m.State("Rest"), m.If(offered | bus.arvalid):
                m.d.sync += transfer.write.eq(offered & ~(transfer.write & bus.arvalid))
                m.next = "Take"
            with m.State("Take"):
                m.d.comb += [
                    bus.awready.eq(transfer.write),
                    bus.wready.eq(transfer.write),
                    bus.arready.eq(~transfer.write),
                ]
                m.d.sync += [
                    transfer.index.eq(Mux(transfer.write, bus.awaddr[2:], bus.araddr[2:])),
                    transfer.data.eq(bus.wdata),
                    transfer.strobe.eq(bus.wstrb),
                ]
                m.next = "Choose"  # what was offered still is, by AXI
            with m.State("Choose"):
                m.d.sync += [self.act.eq(1), self.writes.eq(transfer.write)]
                m.next = "Act"
            with m.State("Act"):
                m.next = "Look"
                with m.If(self.later):
                    m.next = "Wait"
            with m.State("Wait"), m.If(self.done):
                m.next = "Look"
            with m.State("Look"):
                answer = Mux(self.good, OKAY, SLVERR)
                m.d.sync += [bus.rdata.eq(self.data), bus.rresp.eq(answer), bus.bresp.eq(answer)]
                m.d.sync += [bus.bvalid.eq(transfer.write), bus.rvalid.eq(~transfer.write)]
                m.next = "Answer"
            with m.State("Answer"), m.If(answered):
                m.d.sync += [bus.bvalid.eq(0), bus.rvalid.eq(0)]
                m.next = "Rest"
        return m

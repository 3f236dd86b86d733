"""Headers of what comes: of control all of it, of data what stands before the message (contract of relay, 7)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records

from .layouts import HEADER_BITS, RelayLayouts

__all__ = ["HeaderRegister"]


class HeaderRegister(wiring.Component):
    """Takes the record of a datagram and its first beats.

    Parameters
    ----------
    layouts : of the configuration
    whole : all further beats are taken, too, before it is full; else they stay

    Members
    -------
    deliver, deliver_data : In(stream)
        Of the NI.
    rest : In(1)
        A beat behind the header is taken in this cycle, if there is one; for a register that is full.
    job : In(1)
        A job is about it: it may be done in this cycle.
    asks : Out(1)
        It is full; while no job is under way.
    soon : Out(1)
        It is full in this cycle, or in the next.  In the cycle behind a job about it this is still 1.
    bits : Out(128)
        The header; of a datagram that has not as many bits it means nothing.
    source, cls, length : Out
        What the record said.
    done : In(1)
        It is empty from the next cycle on.
    empty : Out(1)
    """

    def __init__(self, layouts: RelayLayouts, *, whole: bool):
        self._layouts, self._whole = layouts, whole
        of, records = layouts, host_records(layouts.system, layouts.below)
        super().__init__(
            {
                "deliver": In(stream.Signature(records["deliver"])),
                "deliver_data": In(stream.Signature(records["beat"])),
                "rest": In(1), "job": In(1), "asks": Out(1), "soon": Out(1), "empty": Out(1),
                "done": In(1), "bits": Out(HEADER_BITS),
                "source": Out(of.node_bits), "cls": Out(of.class_bits), "length": Out(of.length_bits),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of, form = self._layouts, self._layouts.system.format
        empty, full, beat = Signal(init=1), Signal(), Signal(range(of.header_beats + 1))
        record, begins, some, takes = self.deliver.payload, Signal(), Signal(), Signal()
        # What is done with is known late: in the next cycle the registers still say that it is full.
        over, number, filled = Signal(), Signal.like(beat), Signal()
        m.d.sync += over.eq(self.done)
        m.d.comb += [
            filled.eq(full & ~over),
            self.empty.eq(empty | over),
            number.eq(Mux(over, 0, beat)),
            self.deliver.ready.eq(self.empty),
            begins.eq(self.deliver.valid & self.empty),
            some.eq(record.length.any()),
            self.deliver_data.ready.eq((~empty & ~full) | (begins & some) | (filled & self.rest)),
            takes.eq(self.deliver_data.valid & ((~empty & ~full) | (begins & some))),  # and it is not full
        ]
        # What is offered may be taken before it is known that it is.
        with m.If(self.empty):
            m.d.sync += [self.source.eq(record.source), self.cls.eq(record.cls), self.length.eq(record.length)]
        for i in range(of.header_beats):
            with m.If(((beat == i) & ~full) | over if i == 0 else (beat == i) & ~full):
                m.d.sync += self.bits.word_select(i, form.flit_bits).eq(self.deliver_data.payload.data)
        last = self.deliver_data.payload.last
        ends = last if self._whole else last | (beat == of.header_beats - 1)
        beat_comes, one = self.deliver_data.valid, last if self._whole or of.header_beats > 1 else 1
        at_once, later = ~some | (beat_comes & one), ~empty & ~full & beat_comes & ends
        fills = (begins & at_once) | later
        # Of a job only its end matters to the next one: then it is not full.  (In the cycle of `over` `full` is 1: the
        # register `empty` is enough here.)
        m.d.comb += self.soon.eq(full | (self.deliver.valid & empty & at_once) | later)
        m.d.sync += [
            self.asks.eq((filled & ~self.job) | fills),
            empty.eq(self.empty & ~begins),
            full.eq(filled | fills),
            beat.eq(number + (takes & (number != of.header_beats))),
        ]
        return m

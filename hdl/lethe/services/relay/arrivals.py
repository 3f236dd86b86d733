"""Headers of what comes: of control all of it, of data what stands before the message (contract of relay, 7)."""

from amaranth.hdl import Module, Signal
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
    full : Out(1)
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
                "rest": In(1), "full": Out(1), "empty": Out(1), "done": In(1), "bits": Out(HEADER_BITS),
                "source": Out(of.node_bits), "cls": Out(of.class_bits), "length": Out(of.length_bits),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of, form = self._layouts, self._layouts.system.format
        empty, full, beat = Signal(init=1), Signal(), Signal(range(of.header_beats + 1))
        record, begins, some = self.deliver.payload, Signal(), Signal()
        m.d.comb += [
            self.deliver.ready.eq(empty),
            begins.eq(self.deliver.valid & self.deliver.ready),
            some.eq(record.length.any()),
            self.deliver_data.ready.eq((~empty & ~full) | (begins & some) | (full & self.rest)),
            self.full.eq(full),
            self.empty.eq(empty),
        ]
        with m.If(begins):
            m.d.sync += [
                beat.eq(0), self.source.eq(record.source), self.cls.eq(record.cls),
                self.length.eq(record.length), empty.eq(0), full.eq(~some),
            ]  # fmt: skip
        number = Signal.like(beat)
        with m.If(~begins):
            m.d.comb += number.eq(beat)
        last = self.deliver_data.payload.last
        with m.If(self.deliver_data.valid & ((~empty & ~full) | (begins & some))):  # it is taken, and not full
            for i in range(of.header_beats):
                with m.If(number == i):
                    m.d.sync += self.bits.word_select(i, form.flit_bits).eq(self.deliver_data.payload.data)
            with m.If(number != of.header_beats):
                m.d.sync += beat.eq(number + 1)
            ends = last if self._whole else last | (number == of.header_beats - 1)
            with m.If(ends):
                m.d.sync += full.eq(1)
        with m.If(self.done):
            m.d.sync += [empty.eq(1), full.eq(0)]
        return m

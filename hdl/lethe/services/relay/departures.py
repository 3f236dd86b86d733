"""What goes to the next hop: control, and messages (contract of relay, 6)."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.lib.queue import Queue

from .layouts import HEADER_BITS, Of, RelayLayouts

__all__ = ["HopControl", "HopData"]

#: Beats of a message that are read ahead.
AHEAD = 4


class Moving(enum.Enum, shape=2):
    """States of a transfer."""

    IDLE = 0
    RECORD = 1
    HEADER = 2
    BODY = 3


class HopControl(wiring.Component):
    """Sends headers on their own.

    Members
    -------
    gives, hop, header : In
        A header for a hop, while idle; the header is given a cycle later.
    moves : Out(1)
        Not idle: one is on its way.
    destination : Out
        The hop of the header that is on its way.
    send, send_data : Out(stream)
    """

    def __init__(self, layouts: RelayLayouts):
        self._layouts = layouts
        of, records = layouts, host_records(layouts.system, layouts.below)
        super().__init__(
            {
                "gives": In(1), "hop": In(of.node_bits), "header": In(of.header), "moves": Out(1),
                "destination": Out(of.node_bits),
                "send": Out(stream.Signature(records["send"])),
                "send_data": Out(stream.Signature(of.system.format.flit_bits)),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of, form = self._layouts, self._layouts.system.format
        # `idle` drives many.
        idle, given, state, beat = Signal(init=1), Signal(), Signal(Moving), Signal(range(max(2, of.header_beats)))
        hop, header = Signal(of.node_bits), Signal(of.header)
        bits, record = Signal(HEADER_BITS), self.send.payload
        m.d.comb += [
            bits.eq(of.wire_bits(header)),
            self.destination.eq(hop),
            self.send.valid.eq(state == Moving.RECORD),
            record.destination.eq(hop),
            record.cls.eq(of.control_class),
            record.length.eq(HEADER_BITS // 8),
            record.deadline.eq(of.system.relay.hop_cycles),
            self.send_data.valid.eq(state == Moving.BODY),
            self.send_data.payload.eq(bits.word_select(beat, form.flit_bits)),
        ]
        with m.If(self.gives):
            m.d.sync += [state.eq(Moving.RECORD), idle.eq(0), self.moves.eq(1)]
        m.d.sync += given.eq(self.gives)
        with m.If(idle):
            m.d.sync += [hop.eq(self.hop), beat.eq(0)]
        with m.If(given):
            m.d.sync += header.eq(self.header)
        with m.If(self.send.valid & self.send.ready):
            m.d.sync += state.eq(Moving.BODY)
        with m.If(self.send_data.valid & self.send_data.ready):
            m.d.sync += beat.eq(beat + 1)
            with m.If(beat == of.header_beats - 1):
                m.d.sync += [state.eq(Moving.IDLE), idle.eq(1), self.moves.eq(0)]
        return m


class HopData(wiring.Component):
    """Sends messages, one after the other: header, then the beats that come in, or those of a slot or a buffer.

    Members
    -------
    gives, given : In
        A message, while idle.
    idle : Out(1)
    moves : Out(1)
        Not idle; a register of its own, since that of ``idle`` drives many.
    now : Out
        The message that is on its way.
    begins, ends : Out(1)
        In this cycle its record is taken; its last beat.
    ends_through : Out(1)
        The same, if its beats come in.
    buffered : Out(1)
        It has a buffer; from its header on.
    keeps : Out(1)
        The same, and it is on its way behind its record.
    slotted : Out(1)
        It has a slot; from its header on.
    send, send_data : Out(stream)
    through : In(stream)
        The beats that come in.
    read_at, read : Out, In
        The number of a beat within its slot or buffer; its data two cycles later, with their CRC.
    halted, wrong : In(1), Out(1), with ``relay.crc``
        No beat is read, nor comes; the one that comes is wrong.
    """

    def __init__(self, layouts: RelayLayouts):
        self._layouts = layouts
        of, records = layouts, host_records(layouts.system, layouts.below)
        flit = of.system.format.flit_bits
        checks = {"halted": In(1), "wrong": Out(1)} if of.checks else {}
        super().__init__(
            {
                "gives": In(1), "given": In(of.hop), "idle": Out(1), "moves": Out(1), "now": Out(of.hop),
                "begins": Out(1), "ends": Out(1), "ends_through": Out(1), "buffered": Out(1), "keeps": Out(1),
                "slotted": Out(1),
                "send": Out(stream.Signature(records["send"])), "send_data": Out(stream.Signature(flit)),
                "through": In(stream.Signature(flit)), "read_at": Out(of.beat_bits), "read": In(of.stored_bits),
                **checks,
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of, form = self._layouts, self._layouts.system.format
        idle, beat = Signal(init=1), Signal(range(max(2, of.header_beats)))
        # What is offered: the record, the header; beats that come, or that were read.
        record_shown, header_shown, coming_shown, read_shown = Signal(), Signal(), Signal(), Signal()
        left, unread = Signal(range(of.beats + 1)), Signal(range(of.beats + 1))
        now, bits, record = self.now, Signal(HEADER_BITS), self.send.payload
        m.submodules.output = output = Queue(form.flit_bits, AHEAD)
        there, coming, reads, takes, through = Signal(range(AHEAD + 1)), Signal(2), Signal(), Signal(), Signal()
        # The next beat is the last: of the header, one that comes, one that was read.
        final_header, final_coming, final_read, last_header = Signal(), Signal(), Signal(), of.header_beats - 1
        m.d.comb += [
            bits.eq(of.wire_bits(now.header)),
            self.idle.eq(idle),
            self.keeps.eq((header_shown | coming_shown | read_shown) & self.buffered),
            self.send.valid.eq(record_shown),
            record.destination.eq(now.hop),
            record.cls.eq(of.data_class),
            record.length.eq(now.length + HEADER_BITS // 8),
            record.deadline.eq(of.system.relay.hop_cycles),
            self.begins.eq(self.send.valid & self.send.ready),
            takes.eq(self.send_data.valid & self.send_data.ready),
            reads.eq(self.moves & unread.any() & (there != AHEAD)),
            output.i.valid.eq(coming[1]),
            output.i.payload.eq(of.beat_of(self.read)),
        ]
        m.d.comb += [
            self.ends.eq(
                self.send_data.ready
                & (final_header | (final_coming & self.through.valid) | (final_read & output.o.valid))
            ),
            self.ends_through.eq(self.send_data.ready & (final_header | (final_coming & self.through.valid))),
        ]
        if of.checks:
            m.d.comb += self.wrong.eq(coming[1] & ~self.halted & of.is_wrong(self.read))
            with m.If(self.halted):
                m.d.comb += reads.eq(0)
            with m.If(self.halted | self.wrong):
                m.d.comb += output.i.valid.eq(0)
        with m.If(header_shown):
            m.d.comb += [
                self.send_data.valid.eq(1),
                self.send_data.payload.eq(bits.word_select(beat, form.flit_bits)),
            ]
        with m.If(coming_shown):
            m.d.comb += [
                self.send_data.valid.eq(self.through.valid),
                self.send_data.payload.eq(self.through.payload),
                self.through.ready.eq(self.send_data.ready),
            ]
        with m.If(read_shown):
            m.d.comb += [
                self.send_data.valid.eq(output.o.valid),
                self.send_data.payload.eq(output.o.payload),
                output.o.ready.eq(self.send_data.ready),
            ]
        with m.If(self.begins):
            m.d.sync += [record_shown.eq(0), header_shown.eq(1)]
            m.d.sync += final_header.eq(~left.any() if last_header == 0 else 0)
        with m.If(self.send_data.ready & header_shown):
            m.d.sync += beat.eq(beat + 1)
            m.d.sync += final_header.eq((beat == last_header - 1) & ~left.any() if last_header else 0)
            with m.If(beat == last_header):
                m.d.sync += [header_shown.eq(0), coming_shown.eq(through), read_shown.eq(~through)]
                m.d.sync += [final_coming.eq(through & (left == 1)), final_read.eq(~through & (left == 1))]
        with m.If(takes & ~header_shown):
            m.d.sync += [left.eq(left - 1)]
            m.d.sync += [final_coming.eq(coming_shown & (left == 2)), final_read.eq(read_shown & (left == 2))]
        with m.If(self.ends):
            m.d.sync += [header_shown.eq(0), coming_shown.eq(0), read_shown.eq(0), idle.eq(1), self.moves.eq(0)]
            m.d.sync += [final_header.eq(0), final_coming.eq(0), final_read.eq(0)]
        m.d.sync += [
            # Since before the header.
            through.eq(now.of == Of.THROUGH),
            self.buffered.eq((now.of != Of.SLOT) & now.stored),
            self.slotted.eq(now.of == Of.SLOT),
            coming.eq(Cat(reads, coming)),
            there.eq(there + reads - (output.o.valid & output.o.ready)),
        ]
        with m.If(reads):
            m.d.sync += [self.read_at.eq(self.read_at + 1), unread.eq(unread - 1)]
        beats = Signal.like(left)
        m.d.comb += beats.eq(of.payload_flits(self.given.length))
        with m.If(self.gives):
            m.d.sync += [record_shown.eq(1), idle.eq(0), self.moves.eq(1)]
        # What is offered may be taken before it is known that it is given.
        with m.If(idle):
            m.d.sync += [
                now.eq(self.given), beat.eq(0), left.eq(beats), self.read_at.eq(0),
                unread.eq(Mux(self.given.of == Of.THROUGH, 0, beats)),
            ]  # fmt: skip
        return m

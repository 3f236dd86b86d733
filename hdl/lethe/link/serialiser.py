"""Worms onto the link: header, payload and CRC as a gapless run of flits (cycle contract, section 4.3)."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.spec.config import System
from lethe.spec.wire import CRC16, CRC32

from .crc import crc_of, crc_update

__all__ = ["Serialiser"]


class Serialiser(wiring.Component):
    """Emits one worm for each `start`, its first flit on ``link_o`` one cycle later.

    Members
    -------
    start : In(1)
        A worm begins.  Legal if neither `active`, or in the cycle of `last`.
    control : In(1)
        It is an Ack or Forget.
    header : In
        All header bits, unused ones 0; needed in the cycle of `start` only.
    flits : In
        Payload flits; needed in the cycle of `start` only.
    upcoming : Out
        The payload flit needed at ``payload`` one cycle later.
    payload : In(flit_bits)
        The payload flit that was upcoming in the previous cycle.
    active, last : Out(1)
        Flits of the worm still follow; this cycle prepares the last of them.
    link_o : Out(flit)
        A register; all 0 between worms.
    """

    def __init__(self, system: System):
        self._system = system
        form = system.format
        super().__init__(
            {
                "start": In(1),
                "control": In(1),
                "header": In(form.send_bits),
                "flits": In(range(system.slot_flits + 1)),
                "upcoming": Out(range(max(2, system.slot_flits))),
                "payload": In(form.flit_bits),
                "active": Out(1),
                "last": Out(1),
                "link_o": Out(flit_layout(form)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        form = self._system.format
        flit_bits = form.flit_bits
        send_headers = form.header_flits
        control_headers = form.control_flits - (0 if form.one_flit_control else form.crc_flits)
        most = max(send_headers, control_headers)
        link = self.link_o

        left = Signal(range(form.max_flits + 1))
        in_header = Signal()
        headers_left = Signal(range(most + 1))
        kept = Signal(max(1, (most - 1) * flit_bits))
        beat = Signal.like(self.upcoming)

        # The CRC so far covers what was shown; `running` adds the flit that is shown now.
        crc, base, running, rest = Signal(32), Signal(32), Signal(32), Signal(32)
        m.d.comb += [
            base.eq(Mux(link.first, CRC32.ones, crc)),
            running.eq(crc_update(CRC32, base, link.data)),
        ]
        m.d.sync += crc.eq(running)

        def show(value, *, first=0, last=0):
            return [link.valid.eq(1), link.first.eq(first), link.last.eq(last), link.data.eq(value)]

        in_crc, in_payload = Signal(), Signal()
        m.d.comb += [
            self.active.eq(left != 0),
            self.last.eq(left == 1),
            in_crc.eq(left <= form.crc_flits),
            in_payload.eq(self.active & ~in_header & ~in_crc),
            self.upcoming.eq(Mux(in_payload, beat, 0)),
        ]
        m.d.sync += beat.eq(Mux(in_payload, beat + 1, 1))

        m.d.sync += link.eq(0)
        with m.If(self.active):
            m.d.sync += left.eq(left - 1)
            if form.crc_flits > 1:
                first_crc = left == form.crc_flits
                shown_crc = Mux(first_crc, running ^ CRC32.ones, rest)
                m.d.sync += rest.eq((shown_crc >> flit_bits)[:32])
            else:
                shown_crc = running ^ CRC32.ones
            with m.If(in_header):
                m.d.sync += [
                    *show(kept[:flit_bits]),
                    kept.eq(kept >> flit_bits),
                    headers_left.eq(headers_left - 1),
                    in_header.eq(headers_left != 1),
                ]
            with m.Elif(in_crc):
                m.d.sync += show(shown_crc[:flit_bits], last=self.last)
            with m.Else():
                m.d.sync += show(self.payload)
        with m.If(self.start):
            head = self.header[:flit_bits]
            single = 0
            if form.one_flit_control:
                body = Signal(flit_bits - 16)
                m.d.comb += body.eq(self.header[: form.common_bits])
                head = Mux(self.control, Cat(body, crc_of(CRC16, body)), head)
                single = self.control
            m.d.sync += show(head, first=1, last=single)
            control_left = form.control_flits - 1
            send_left = form.header_flits + form.crc_flits - 1
            m.d.sync += left.eq(Mux(self.control, control_left, send_left + self.flits))
            if most > 1:
                m.d.sync += [
                    kept.eq(self.header[flit_bits:]),
                    headers_left.eq(Mux(self.control, control_headers - 1, send_headers - 1)),
                    in_header.eq(Mux(self.control, control_headers > 1, send_headers > 1)),
                ]
        return m

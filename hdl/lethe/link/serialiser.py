"""Worms onto the link: header, payload and CRC as a gapless run of flits (cycle contract, section 4.3)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.spec.config import System
from lethe.spec.wire import CRC16, CRC32

from .crc import crc_advance, crc_data, crc_of

__all__ = ["Serialiser"]


class Serialiser(wiring.Component):
    """Emits one worm for each `start` that is `sent`, its first flit on ``link_o`` four cycles later.

    A flit goes through four registers.  The first holds it without CRCs, the second with what is merged into a payload;
    the third with the CRC-16 of a control message of one flit.  The CRC-32 takes a flit when it leaves the third, so
    that it is complete when the CRC's own flits come to the fourth, ``link_o``.

    Members
    -------
    start, sent : In(1)
        A worm may begin; it does, if it is sent.  Legal if the last flit of the one before was prepared in an earlier
        cycle; one that is not sent may be cut off.
    control : In(1)
        It is a control message.
    header : In
        All header bits, unused ones 0 (but for those where a CRC-16 will be); needed in the cycle of `start` only.
    flits : In
        Payload flits; needed in the cycle of `start` only.
    payload : In(flit_bits)
        The i-th payload flit, i cycles after all header flits: of H header flits, *H + i* cycles after `start`.
    word, mask : In(merge_bits), with ``ni.merge_bits``
        Bits that replace those of the first payload flit, and which of them do: from two cycles after `start` on.
    busy : Out(1)
        A flit is in one of the registers.
    link_o : Out(flit)
        A register; all 0 between worms.
    """

    def __init__(self, system: System):
        self._system = system
        form = system.format
        bits = system.ni.merge_bits
        super().__init__(
            {
                "start": In(1),
                "sent": In(1),
                "control": In(1),
                "header": In(form.send_bits),
                "flits": In(range(system.slot_flits + 1)),
                "payload": In(form.flit_bits),
                **({"word": In(bits), "mask": In(bits)} if bits else {}),
                "busy": Out(1),
                "link_o": Out(flit_layout(form)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        form = self._system.format
        flit_bits, crc_flits = form.flit_bits, form.crc_flits
        # What a flit is on its way: it begins or ends a worm, is one of its CRC-32 (the first), a whole control message
        # or the first of a payload.
        marks = dict.fromkeys(("valid", "first", "last", "crc", "crc_first", "alone", "opens"), 1)
        layout = data.StructLayout({**marks, "data": flit_bits})
        early, middle, late = (Signal(layout, name=name) for name in ("early", "middle", "late"))
        covered = Signal()

        self._worm(m, early)

        # What is merged, and the CRC of a control message.
        m.d.sync += middle.eq(early)
        if bits := self._system.ni.merge_bits:
            own = early.data[:bits]
            merged = (own & ~self.mask) | (self.word & self.mask)
            m.d.sync += middle.data[:bits].eq(Mux(early.opens, merged, own))
        m.d.sync += [late.eq(middle), covered.eq(middle.valid & ~middle.crc & ~middle.alone)]
        if form.one_flit_control:
            single = Signal(16)
            m.d.sync += single.eq(crc_of(CRC16, early.data[: flit_bits - 16]))
            with m.If(middle.alone):
                m.d.sync += late.data[-16:].eq(single)

        # The CRC-32: of the bits behind its first 32 a flit's share is worked out before.
        crc, mixed, share = Signal(32, init=CRC32.ones), Signal(32), Signal(32)
        m.d.comb += mixed.eq(crc ^ late.data[:32])
        if flit_bits > 32:
            # Of what no merge changes, one cycle earlier.
            ahead = []
            for at in range(64, flit_bits, 32):
                part = Signal(32, name=f"share{at}")
                behind = Const(0, flit_bits - at - 32)
                m.d.sync += part.eq(crc_data(CRC32, Cat(early.data[at : at + 32], behind)))
                ahead.append(part)
            near = crc_data(CRC32, Cat(middle.data[32:64], Const(0, flit_bits - 64)))
            for part in ahead:
                near = near ^ part
            m.d.sync += share.eq(near)
        m.d.sync += crc.eq(CRC32.ones)
        with m.If(covered):
            m.d.sync += crc.eq(crc_advance(CRC32, mixed, flit_bits) ^ share)

        shown = ~crc
        if crc_flits > 1:
            rest = Signal(32)
            shown = Mux(late.crc_first, ~crc, rest)
            m.d.sync += rest.eq(shown >> flit_bits)
        link = self.link_o
        m.d.sync += [
            link.valid.eq(late.valid),
            link.first.eq(late.valid & late.first),
            link.last.eq(late.valid & late.last),
            link.data.eq(0),
        ]
        low = min(32, flit_bits)
        with m.If(late.valid):
            m.d.sync += link.data[:low].eq(Mux(late.crc, shown, late.data))
        with m.If(late.valid & ~late.crc):
            m.d.sync += link.data[low:].eq(late.data[low:])
        m.d.comb += self.busy.eq(early.valid | middle.valid | late.valid | link.valid)
        return m

    def _worm(self, m, early):
        """The flits one by one, with nothing in the place of CRCs."""
        form = self._system.format
        flit_bits, crc_flits = form.flit_bits, form.crc_flits
        send_headers = form.header_flits
        control_headers = form.control_flits - (0 if form.one_flit_control else crc_flits)
        most = max(send_headers, control_headers)

        # Flits of the worm that are still to come, and what the next is.
        left = Signal(range(form.max_flits + 1))
        in_header, in_payload, begun, void = Signal(), Signal(), Signal(), Signal()
        headers_left = Signal(range(most + 1))
        kept = Signal(max(1, (most - 1) * flit_bits))
        single = self.control if form.one_flit_control else 0
        active, payload_follows = Signal(), Signal()
        m.d.comb += [active.eq(left != 0), payload_follows.eq(left != crc_flits + 1)]
        in_crc = active & ~in_header & ~in_payload
        m.d.sync += [
            early.valid.eq(Mux(self.start, self.sent, active & ~void)),
            early.first.eq(self.start),
            early.last.eq(Mux(self.start, single, left == 1)),
            early.alone.eq(self.start & single),
            early.crc.eq(~self.start & in_crc),
            early.crc_first.eq(left == crc_flits),
            early.opens.eq(~self.start & in_payload & ~begun),
            early.data.eq(Mux(self.start, self.header, Mux(in_header, kept, self.payload))[:flit_bits]),
            left.eq(left - active),
            begun.eq(~self.start & in_payload),
            in_payload.eq(in_payload & payload_follows),
        ]
        with m.If(in_header):
            m.d.sync += [
                kept.eq(kept >> flit_bits),
                headers_left.eq(headers_left - 1),
                in_header.eq(headers_left != 1),
                in_payload.eq((headers_left == 1) & payload_follows),
            ]
        with m.If(self.start):
            send_left = form.header_flits + crc_flits - 1
            m.d.sync += [
                void.eq(~self.sent),
                left.eq(Mux(self.control, form.control_flits - 1, send_left + self.flits)),
                in_header.eq(Mux(self.control, control_headers > 1, send_headers > 1)),
                headers_left.eq(Mux(self.control, control_headers - 1, send_headers - 1)),
                kept.eq(self.header[flit_bits:]),
                in_payload.eq(~self.control & (self.flits != 0) if send_headers == 1 else 0),
            ]

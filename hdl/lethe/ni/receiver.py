"""The receiver: checks what arrives before anything acts on it (cycle contract, section 4.4; T4)."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import field_of, flit_layout
from lethe.link.assembler import Assembler
from lethe.link.crc import crc_of, crc_update
from lethe.spec.config import System
from lethe.spec.events import Drop, Kind
from lethe.spec.wire import CRC16, CRC32

from .deliver import fill_signature
from .layouts import Records

__all__ = ["CHECKS", "Receiver", "arrival_signature", "fifo_of"]

#: What can be wrong with a message by itself, in the order of the checks.
CHECKS = (
    Drop.CRC, Drop.KIND, Drop.LENGTH, Drop.MISROUTED, Drop.SOURCE, Drop.SLOT, Drop.EXTENSION, Drop.INCARNATION,
)  # fmt: skip


def fifo_of(system: System, cls):
    """Number of the deliver FIFO of a class (cycle contract, section 4.8)."""
    controls = system.ni.control_classes
    if not controls:
        return 0
    classes = 1 << system.format.class_bits
    return Array(classes - c if c >= classes - controls else 0 for c in range(classes))[cls]


def arrival_signature(system: System) -> wiring.Signature:
    """Seen from the receiver: a message is ``complete``, with this header (the fields that its kind has).

    ``wrong`` : the `CHECKS` that failed.
    """
    members = {"complete": Out(1), "header": Out(Records(system).header), "wrong": Out(len(CHECKS))}
    return wiring.Signature(members)


class Receiver(wiring.Component):
    """One message or flit per cycle, never stalled.

    A flit on ``link_i`` in *t* is judged in *t+1*; what it offers is registered and acts in *t+2*.

    Members
    -------
    link_i : In(flit)
    node, incarnation : In
    arrival : Out(`arrival_signature`)
        In *t+1*: a message ended in *t*.
    fill : array of Out(`fill_signature`), one for each deliver FIFO
        In *t+2*: a payload flit, whether or not its message turns out to be good.
    fragment : Out(1)
        In *t+2*: the flit or gap in *t* broke a message off.
    busy : Out(1)
        In *t+1*: a message is under way.
    """

    def __init__(self, system: System):
        self._system = system
        form = system.format
        super().__init__(
            {
                "link_i": In(flit_layout(form)),
                "node": In(form.node_bits),
                "incarnation": In(form.incarnation_bits),
                "arrival": Out(arrival_signature(system)),
                "fill": Out(fill_signature(Records(system))).array(system.ni.control_classes + 1),
                "fragment": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system, form = self._system, self._system.format
        bits = form.flit_bits
        m.submodules.assembler = assembler = Assembler(form)
        flit, index = assembler.flit, assembler.index
        m.d.comb += [
            assembler.link_i.eq(self.link_i),
            self.arrival.complete.eq(assembler.complete),
            self.busy.eq(assembler.busy),
        ]
        m.d.sync += self.fragment.eq(assembler.fragment)

        # The header flits so far.  A message of one flit is read from the flit itself.
        stored = Signal(form.header_flits * bits)
        for i in range(form.header_flits):
            with m.If(assembler.belongs & (index == i)):
                m.d.sync += stored.word_select(i, bits).eq(flit.data)
        header, single = self.arrival.header, flit.first
        for field in form.send:
            value = field_of(field, stored)
            if form.one_flit_control and field.offset < form.common_bits:
                value = Mux(single, field_of(field, flit.data), value)
            m.d.comb += header[field.name].eq(value)

        # Length in flits, from the stored header: a message that ends before its header does is too short anyway.
        length = field_of(next(f for f in form.send if f.name == "length"), stored)
        payload_flits = (length + (form.flit_bytes - 1)) >> (form.flit_bytes - 1).bit_length()
        kind = header.kind
        stored_kind = stored[:3]
        carries = (stored_kind == Kind.SEND) | (stored_kind == Kind.BE)
        first_payload = form.header_flits

        offered = assembler.belongs & ~flit.first & carries & (index >= first_payload)
        payload, beat = Signal(), Signal(self.fill[0].beat.shape())
        fifo = Signal(range(len(self.fill)))
        m.d.sync += [
            payload.eq(offered & (index < first_payload + payload_flits)),
            beat.data.eq(flit.data),
            beat.last.eq(index == (first_payload - 1) + payload_flits),
            fifo.eq(fifo_of(system, field_of(next(f for f in form.send if f.name == "class"), stored))),
        ]
        for i, fill in enumerate(self.fill):
            m.d.comb += [fill.valid.eq(payload & (fifo == i)), fill.beat.eq(beat), fill.drop.eq(self.fragment)]

        # CRCs.  `crc` covers the message's flits before this one.
        crc, so_far = Signal(32), Signal(32)
        m.d.comb += so_far.eq(Mux(flit.first, CRC32.ones, crc))
        m.d.sync += crc.eq(crc_update(CRC32, so_far, flit.data))
        expected = Signal(32)
        m.d.comb += expected.eq(~crc)
        if form.crc_flits == 1:
            long_good = flit.data == expected
        else:
            low_good, high = Signal(), Signal(32 - bits)
            m.d.sync += [low_good.eq(~flit.first & (flit.data == expected[:bits])), high.eq(expected[bits:])]
            long_good = low_good & (flit.data == high)
        crc_good = ~single & long_good
        if form.one_flit_control:
            body = bits - 16
            short_good = crc_of(CRC16, flit.data[:body]) == flit.data[body:]
            crc_good = Mux(single, short_good, long_good)

        is_send, is_be = kind == Kind.SEND, kind == Kind.BE
        is_ack, is_forget = kind == Kind.ACK, kind == Kind.FORGET
        is_data = is_send | is_be
        # What names a slot of this node.
        is_answer = is_ack | (kind == Kind.REJECT) if system.ni.reject else is_ack
        # A last flit with index i ends a message of i+1 flits.
        data_last = form.header_flits + form.crc_flits - 1 + payload_flits
        wrong = {
            Drop.CRC: ~crc_good,
            Drop.KIND: ~(is_answer | is_forget | is_data) | (single & is_data),
            Drop.LENGTH: Mux(
                is_data,
                (index != data_last) | (header.length > system.wire.mtu),
                index != form.control_flits - 1,
            ),
            Drop.MISROUTED: header.destination != self.node,
            Drop.SOURCE: (header.source >= system.nodes) | (header.source == self.node),
            Drop.SLOT: is_answer & (header.slot >= system.ni.slots),
            Drop.EXTENSION: is_data & ((header.mode != is_be) | (header.extension != 0)),
            Drop.INCARNATION: is_data & (header.peer_incarnation != 0) & (header.peer_incarnation != self.incarnation),
        }
        m.d.comb += self.arrival.wrong.eq(Cat(wrong[check] for check in CHECKS))
        return m

"""The receiver: checks what arrives before anything acts on it (cycle contract, section 4.4; T4)."""

from functools import reduce
from operator import xor

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import field_of, flit_layout
from lethe.link.assembler import Assembler
from lethe.link.crc import crc_advance, crc_of
from lethe.spec.config import System
from lethe.spec.events import Drop, Kind
from lethe.spec.stages import ACTS
from lethe.spec.wire import CRC16, CRC32, Wire

from .deliver import fill_signature
from .layouts import Records

__all__ = ["Receiver", "arrival_signature", "fifo_of"]

#: What can be wrong with a message by itself, in the order of the checks; before them all comes its CRC.
CHECKS = (Drop.KIND, Drop.LENGTH, Drop.MISROUTED, Drop.SOURCE, Drop.SLOT, Drop.EXTENSION, Drop.INCARNATION)
#: What is wrong with a message that names nobody, because it was not understood.
NAMELESS = (Drop.KIND, Drop.LENGTH)


def fifo_of(system: System, cls):
    """Number of the deliver FIFO of a class (cycle contract, section 4.8)."""
    controls = system.ni.control_classes
    if not controls:
        return 0
    classes = 1 << system.format.class_bits
    return Array(classes - c if c >= classes - controls else 0 for c in range(classes))[cls]


def arrival_signature(system: System) -> wiring.Signature:
    """Seen from the receiver: a message that acts in *c*.

    In *c−4*: it is ``complete``, with this header (the fields that its kind has); ``slot`` is that of the header, and
    0 if none is complete.  In *c−1*, whether or not there is one: ``sound``, or what is wrong with it (``drop``), and
    whether it then names nobody (``nameless``); ``stale``, with ``ni.reject``: a Send that is sound but for the
    incarnation it expects.
    """
    stale = {"stale": Out(1)} if system.ni.reject else {}
    header = Records(system).header
    return wiring.Signature(
        {
            "complete": Out(1),
            "header": Out(header),
            "slot": Out(header["slot"].shape),
            "sound": Out(1),
            "drop": Out(Drop),
            "nameless": Out(1),
            **stale,
        }
    )


class _LongCrc(wiring.Component):
    """Whether a message of more than one flit ends in its CRC-32.

    The register y is not the CRC's own, which is A·y, with A a step of one word (32 bits, or a flit if that is less).
    So the last word of a flit is added as it is, and only those before it go through a matrix.  The CRC at the end of a
    message is added like the rest of it: a good one leaves the same y behind every message.

    Members
    -------
    flit : In(flit)
        In *c*.
    good : Out(1)
        In *c+2*: what ends with it is good, but for the bits beyond its CRC.
    """

    def __init__(self, form: Wire):
        self._form = form
        super().__init__({"flit": In(flit_layout(form)), "good": Out(1)})

    def elaborate(self, platform):
        m = Module()
        bits, crc = self._form.flit_bits, CRC32
        word = min(bits, crc.width)
        words = [self.flit.data[i : i + word] for i in range(0, bits, word)]
        moved = [
            crc_advance(crc, value, bits - word * (i + 1)) if i < len(words) - 1 else value
            for i, value in enumerate(words)
        ]
        added, first, state = Signal(crc.width), Signal(), Signal(crc.width)
        begins = crc.update(crc.ones, 0, bits - word)
        ends = crc.update(crc.ones, 0, self._form.crc_flits * bits - word)
        m.d.sync += [
            added.eq(reduce(xor, moved)),
            first.eq(self.flit.first),
            state.eq(Mux(first, Const(begins, crc.width), crc_advance(crc, state, bits)) ^ added),
        ]
        m.d.comb += self.good.eq(state == ends)
        return m


class Receiver(wiring.Component):
    """One message or flit per cycle, never stalled.

    A flit on ``link_i`` in *t* is in a register in *t+1*, and its message's header in *t+2*.  There the fields are
    compared, one by one; in *t+3* the length in flits and the CRC; in *t+4* what is wrong comes together.

    Members
    -------
    link_i : In(flit)
    node, incarnation : In
    arrival : Out(`arrival_signature`)
        A message that ended in *t* = *c−6*; all registers.
    fill : array of Out(`fill_signature`), one for each deliver FIFO
        In *t+6*: a payload flit, whether or not its message turns out to be good.
    fragment : Out(1)
        In *t+6*: the flit or gap in *t* broke a message off.
    busy : Out(1)
        In *t+1*: with the flit of *t* a message is under way or ended, or one ended in *t−1*.
    announced : Out, with ``ni.acceptance``
        In *t+1*: a data message has ended; all 0 otherwise.
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
                **({"announced": Out(Records(system).arrival)} if system.ni.acceptance else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        system, form = self._system, self._system.format
        bits = form.flit_bits
        m.submodules.assembler = assembler = Assembler(form)
        m.submodules.crc = crc = _LongCrc(form)
        arrival, header = self.arrival, self.arrival.header

        def later(value, cycles: int, name: str) -> Value:
            """``value``, so many cycles later."""
            for i in range(cycles):
                delayed = Signal.like(Value.cast(value), name=f"{name}{i}")
                m.d.sync += delayed.eq(value)
                value = delayed
            return value

        # t+1: the flit.
        flit = assembler.flit
        m.d.comb += [
            assembler.link_i.eq(self.link_i),
            crc.flit.eq(flit),
            self.busy.eq(assembler.belongs | arrival.complete),
            self.fragment.eq(later(assembler.fragment, ACTS - 1, "fragment")),
        ]
        slot = next(field for field in form.send if field.name == "slot")
        stored, storing = Signal(form.header_flits * bits), Signal(form.header_flits * bits)
        m.d.comb += storing.eq(stored)
        for i in range(form.header_flits):
            with m.If(assembler.belongs & (assembler.index == i)):
                m.d.comb += storing.word_select(i, bits).eq(flit.data)
        m.d.sync += stored.eq(storing)
        index, single, data = Signal.like(assembler.index), Signal(), Signal(bits)
        m.d.sync += [
            arrival.complete.eq(assembler.complete),
            arrival.slot.eq(Mux(assembler.complete, field_of(slot, storing), 0)),
            index.eq(assembler.index),
            single.eq(flit.first),
            data.eq(flit.data),
        ]

        if system.ni.acceptance:
            self._announce(m, assembler, stored)

        # t+2: the header.  That of a message of one flit is in its place, too.
        m.d.comb += [header[field.name].eq(field_of(field, stored)) for field in form.send]
        kind = header.kind
        is_send, is_be = kind == Kind.SEND, kind == Kind.BE
        is_ack, is_forget = kind == Kind.ACK, kind == Kind.FORGET
        is_data = is_send | is_be
        # What names a slot of this node.
        is_answer = is_ack | (kind == Kind.REJECT) if system.ni.reject else is_ack
        fits = {
            Drop.KIND: Mux(single, is_answer | is_forget, is_answer | is_forget | is_data),
            Drop.LENGTH: Mux(is_data, header.length <= system.wire.mtu, index == form.control_flits - 1),
            Drop.MISROUTED: header.destination == self.node,
            Drop.SOURCE: (header.source < system.nodes) & (header.source != self.node),
            Drop.SLOT: ~is_answer | (header.slot < system.ni.slots),
            Drop.EXTENSION: ~is_data | ((header.mode == is_be) & (header.extension == 0)),
            Drop.INCARNATION: (
                ~is_data | (header.peer_incarnation == 0) | (header.peer_incarnation == self.incarnation)
            ),
        }
        wrong = {check: Signal(name=f"wrong_{check.name.lower()}") for check in CHECKS}
        m.d.sync += [wrong[check].eq(~fits[check]) for check in CHECKS]
        # Index of the first flit behind the payload, and of the last.
        payload_flits = (header.length + (form.flit_bytes - 1)) >> (form.flit_bytes - 1).bit_length()
        reach = Signal(range(form.header_flits + form.payload_flits((1 << form.length_bits) - 1) + 1))
        end = Signal(range(form.header_flits + form.payload_flits((1 << form.length_bits) - 1) + form.crc_flits))
        placed, ahead = Signal.like(index), Signal.like(index)
        offered, carries, sends = Signal(), Signal(), Signal()
        m.d.sync += [
            reach.eq(payload_flits + form.header_flits),
            end.eq(payload_flits + (form.header_flits + form.crc_flits - 1)),
            placed.eq(index),
            ahead.eq(index + 1),
            carries.eq(is_data),
            sends.eq(is_send),
            offered.eq(later(assembler.belongs & ~flit.first, 1, "inside") & is_data & (index >= form.header_flits)),
        ]
        # A message is too short for its CRC, or there is something beside it.
        odd = single if form.crc_flits == 1 else index < form.crc_flits
        spare = form.crc_flits * bits - CRC32.width
        if spare:
            odd = odd | data[bits - spare :].any()
        odd = later(odd, 1, "odd")

        # t+3: what is wrong, but for the CRC and the number of flits.
        drop, sound, nameless = Signal(Drop), Signal(), Signal()
        miscounted, unknown = Signal(), Signal()
        m.d.sync += [
            drop.eq(Drop.NONE),
            sound.eq(~Cat(wrong.values()).any()),
            nameless.eq(Cat(wrong[check] for check in NAMELESS).any()),
            miscounted.eq(carries & (placed != end)),
            unknown.eq(wrong[Drop.KIND]),
        ]
        for check in reversed(CHECKS):
            with m.If(wrong[check]):
                m.d.sync += drop.eq(check)
        intact = Signal()
        good = crc.good & ~odd
        if form.one_flit_control:
            body = bits - 16
            syndrome = Signal(16)
            m.d.sync += syndrome.eq(crc_of(CRC16, flit.data[:body]) ^ flit.data[body:])
            good = Mux(later(single, 1, "alone"), later(syndrome == 0, 1, "short_good"), good)
        m.d.sync += intact.eq(good)

        # t+4: all of it.
        m.d.sync += [
            arrival.sound.eq(sound & intact & ~miscounted),
            # Before the length comes the kind only.
            arrival.drop.eq(Mux(intact, Mux(miscounted & ~unknown, Drop.LENGTH, drop), Drop.CRC)),
            arrival.nameless.eq(nameless | ~intact | miscounted),
        ]
        if system.ni.reject:
            stale = Signal()
            m.d.sync += [
                stale.eq(sends & (Cat(wrong[check] for check in CHECKS) == 1 << CHECKS.index(Drop.INCARNATION))),
                arrival.stale.eq(stale & intact & ~miscounted),
            ]

        # The payload.
        payload, last = Signal(), Signal()
        m.d.sync += [payload.eq(offered & (placed < reach)), last.eq(ahead == reach)]
        payload, last = later(payload, ACTS - 4, "payload"), later(last, ACTS - 4, "last")
        data = later(data, ACTS - 2, "data")
        several = len(self.fill) > 1
        fifo = later(fifo_of(system, header["class"]), ACTS - 2, "fifo") if several else Const(0)
        for i, fill in enumerate(self.fill):
            here = payload & (fifo == i) if several else payload
            m.d.comb += [
                fill.valid.eq(here),
                fill.beat.data.eq(data),
                fill.beat.last.eq(last),
                fill.drop.eq(self.fragment),
            ]
        return m

    def _announce(self, m, assembler, stored):
        """Tells of a data message in *t+1*: its header is whole since then, and its last flit is no payload."""
        form, flit, told = self._system.format, assembler.flit, self.announced
        headers, bits = form.header_flits, form.flit_bits
        fields = {field.name: field_of(field, stored) for field in form.send}
        word = Signal(told.word.shape())
        for i, low in enumerate(range(0, len(word), bits)):
            with m.If(assembler.belongs & (assembler.index == headers + i)):
                m.d.sync += word[low : low + bits].eq(flit.data)
        with m.If(flit.first):
            m.d.sync += word.eq(0)
        is_data = Cat(fields["kind"] == kind for kind in (Kind.SEND, Kind.BE)).any()
        ends = assembler.complete & (assembler.index >= headers)
        own = fifo_of(self._system, fields["class"]) == 0 if len(self.fill) > 1 else 1
        with m.If(ends & is_data & own):
            m.d.comb += [
                told.valid.eq(1),
                *(told[name].eq(fields[name]) for name in ("source", "incarnation", "length", "try")),
                told.cls.eq(fields["class"]),
                told.best_effort.eq(fields["kind"] == Kind.BE),
                told.word.eq(word & Cat((fields["length"] > byte).replicate(8) for byte in range(len(word) // 8))),
            ]

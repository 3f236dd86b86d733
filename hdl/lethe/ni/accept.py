"""Accept: datagrams come in from the host (cycle contract, section 4.2)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.spec.config import System
from lethe.spec.events import Cause, Mode

from .distance import distance_class
from .layouts import Records

__all__ = ["Accept"]


_SHOWN = data.StructLayout({"destination": 16, "length": 16, "best_effort": 1})


class Accept(wiring.Component):
    """Takes a record, gives it a slot, takes its payload, and hands the slot on.

    ``send.ready`` depends on the record's class only if slots are reserved for control classes.  A refused record
    is taken in full like any other and completes as REJECTED.

    Members
    -------
    node, time_base, open : In
        Own number, the time base, and whether records are taken at all (ready, not quiesced, new queue not full).
    send, send_data : In(stream)
        From the host.
    free : In(stream)
        Free slots.
    flying, flying_slot : In
        The slot whose payload is being read for a worm.
    busy : In
        Slots taken.
    store, slot, fields; accept, accepted_slot, phase, deadline : Out
        To the send table.
    write, beat, flit : Out
        To the payload store (``accepted_slot``).
    launch : Out(stream)
        To the new queue; it has room.
    accepted, begun : Out
        The accept event, and its record's destination, length and kind; ``begun``: a slot was taken.
    """

    def __init__(self, system: System, *, watch: bool = True):
        self._system, self._watch = system, watch
        records = Records(system)
        self._record = records.send
        slot = range(system.ni.slots)
        super().__init__(
            {
                "node": In(system.format.node_bits),
                "time_base": In(system.time_bits),
                "open": In(1),
                "send": In(stream.Signature(records.send)),
                "send_data": In(stream.Signature(system.format.flit_bits)),
                "free": In(stream.Signature(records.free)),
                "flying": In(1),
                "flying_slot": In(slot),
                "busy": In(range(system.ni.slots + 1)),
                "begun": Out(1),
                "store": Out(1),
                "slot": Out(slot),
                "fields": Out(records.fields),
                "accept": Out(1),
                "accepted_slot": Out(slot),
                "phase": Out(1),
                "deadline": Out(records.deadline),
                "write": Out(1),
                "beat": Out(range(max(2, system.slot_flits))),
                "flit": Out(system.format.flit_bits),
                "launch": Out(stream.Signature(records.launch)),
                "accepted": Out(records.accepted),
            }
            | ({"shown": Out(_SHOWN)} if watch else {})
        )

    def elaborate(self, platform):
        m = Module()
        system, form = self._system, self._system.format
        byte_bits = exact_log2(form.flit_bytes)
        record = self.send.payload
        life = self.free.payload

        reserved = Signal()
        if system.ni.reserved_slots:
            lowest_control = (1 << form.class_bits) - system.ni.control_classes
            scarce = system.ni.slots - self.busy <= system.ni.reserved_slots
            m.d.comb += reserved.eq(scarce & (record.cls < lowest_control))

        # What is kept from the handshake to the last beat.
        in_payload = Signal()
        held = Signal(self._record)
        held_life = Signal(self.free.payload.shape())
        held_best = Signal()
        left = Signal(16 - byte_bits + 1)
        beat, fits = Signal.like(self.beat), Signal()

        cause = Signal(Cause)
        with m.If((record.destination >= system.nodes) | (record.destination == self.node)):
            m.d.comb += cause.eq(Cause.DESTINATION)
        with m.Elif(record.mode > max(Mode)):
            m.d.comb += cause.eq(Cause.MODE)
        with m.Elif(record.length > system.wire.mtu):
            m.d.comb += cause.eq(Cause.LENGTH)
        refused = cause != Cause.NONE
        best_effort = Signal()
        m.d.comb += best_effort.eq(record.mode[0] & ~refused)

        begun, empty, last = Signal(), Signal(), Signal()
        m.d.comb += [
            self.send.ready.eq(
                ~in_payload & self.open & self.free.valid & ~reserved & ~(self.flying & (life.slot == self.flying_slot))
            ),
            begun.eq(self.send.valid & self.send.ready),
            self.begun.eq(begun),
            self.free.ready.eq(begun),
            empty.eq(record.length == 0),
            self.send_data.ready.eq(in_payload),
            last.eq(left == 1),
            self.store.eq(begun),
            self.slot.eq(life.slot),
            self.fields.generation.eq(life.generation),
            self.fields.destination.eq(record.destination),
            self.fields.distance.eq(distance_class(m, system.graph, self.node, record.destination[: form.node_bits])),
            self.fields.cls.eq(record.cls),
            self.fields.best_effort.eq(best_effort),
            self.fields.refused.eq(refused),
            self.fields.cause.eq(cause),
            self.fields.length.eq(record.length),
            self.fields.expect.eq(record.expect),
            self.fields.retry_limit.eq(record.retry_limit),
            self.fields.tag.eq(record.tag),
        ]
        with m.If(begun):
            m.d.sync += [
                held.eq(record),
                held_life.eq(life),
                held_best.eq(best_effort),
                in_payload.eq(~empty),
                beat.eq(0),
                fits.eq(1),
                left.eq((record.length + (form.flit_bytes - 1)) >> byte_bits),
            ]

        taken = Signal()
        m.d.comb += taken.eq(in_payload & self.send_data.valid)
        with m.If(taken):
            m.d.sync += [left.eq(left - 1), beat.eq(beat + 1), fits.eq(fits & (beat != system.slot_flits - 1))]
            with m.If(last):
                m.d.sync += in_payload.eq(0)

        # Bytes beyond the length are stored as 0.
        over = Signal(byte_bits)
        m.d.comb += [
            over.eq(held.length[:byte_bits]),
            self.write.eq(taken & fits),
            self.beat.eq(beat),
        ]
        for byte in range(form.flit_bytes):
            void = last & (over != 0) & (over <= byte)
            m.d.comb += self.flit.word_select(byte, 8).eq(Mux(void, 0, self.send_data.payload.word_select(byte, 8)))

        current = Signal(self._record)
        current_life = Signal(self.free.payload.shape())
        m.d.comb += [
            current.eq(Mux(in_payload, held, record)),
            current_life.eq(Mux(in_payload, held_life, life)),
            self.accept.eq(Mux(in_payload, taken & last, begun & empty)),
            self.accepted_slot.eq(current_life.slot),
            # Generations of a slot count by one, from 0, over cleared phases: their lowest bit alternates.
            self.phase.eq(~current_life.generation[0]),
            self.deadline.given.eq(current.deadline != 0),
            self.deadline.time.eq(self.time_base + current.deadline),
            self.launch.valid.eq(self.accept),
            self.launch.payload.eq(current_life),
            self.accepted.valid.eq(self.accept),
            self.accepted.slot.eq(current_life.slot),
            self.accepted.generation.eq(current_life.generation),
            self.accepted.tag.eq(current.tag),
        ]
        if self._watch:
            m.d.comb += [
                self.shown.destination.eq(current.destination),
                self.shown.length.eq(current.length),
                self.shown.best_effort.eq(Mux(in_payload, held_best, best_effort)),
            ]
        return m

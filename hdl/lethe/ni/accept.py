"""Accept: datagrams come in from the host (cycle contract, section 4.2)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.spec.config import System
from lethe.spec.events import Cause, Mode
from lethe.spec.ports import cause_bits

from .distance import distance_class
from .layouts import Records
from .payload_store import write_signature
from .send_table import begin_signature, store_signature
from .transmitter import flying_signature

__all__ = ["Accept"]


_SHOWN = data.StructLayout({"destination": 16, "length": 16, "best_effort": 1})


class Accept(wiring.Component):
    """Takes a record, gives it a slot, takes its payload, and hands the slot on.

    ``send.ready`` depends on the record's class only if slots are reserved for some classes.  A refused record
    is taken in full like any other and completes as REJECTED.

    With ``ni.control_slots`` there are two, one of them for control, which comes first: where both would act, the other
    `yields`.  So their outputs can be joined.

    Parameters
    ----------
    system : the configuration
    control : whether it takes control classes only, with slots of their own
    watch : whether there is ``shown``

    Members
    -------
    node, time_base, open : In
        Own number, the time base, and whether records are taken at all (ready, not quiesced, new queue not full); for
        control only whether it is not quiesced.
    opens : In(2), for control
        Whether records are taken in the next cycle if it is not quiesced: bit 0 if nothing is launched in this one, bit
        1 if something is.
    send, send_data : In(stream)
        From the host.
    free, ahead, waiting : In(stream), In, In
        A free slot, what comes next if that is another one in the next cycle, and how many more wait behind it.
    flying : In(`flying_signature`)
        The slot whose payload is being read for a worm.
    store, begin : Out(`store_signature`), Out(`begin_signature`)
        To the send table.
    write : Out(`write_signature`)
        To the payload store.
    launch : Out(stream)
        To the new queue, or the control queue; it has room.
    accepted, shown : Out
        The accept event, and its record's destination, length and kind.
    begun, acts : Out(1)
        A slot was taken; a record or a beat was taken.
    writes : Out(1), for control
        A beat was taken.
    yields : In(1)
        Nothing is taken in this cycle.
    """

    def __init__(self, system: System, *, control: bool = False, watch: bool = True):
        self._system, self._control, self._watch = system, control, watch
        self._yields = system.ni.control_slots > 0 and not control
        records = Records(system)
        self._record = records.send
        super().__init__(
            {
                "node": In(system.format.node_bits),
                "time_base": In(system.time_bits),
                "open": In(1),
                "send": In(stream.Signature(records.send)),
                "send_data": In(stream.Signature(system.format.flit_bits)),
                "free": In(stream.Signature(records.free)),
                "ahead": In(records.free),
                "waiting": In(range(system.ni.slots + 1)),
                "flying": In(flying_signature(system)),
                "begun": Out(1),
                "acts": Out(1),
                **({"yields": In(1)} if self._yields else {}),
                **({"opens": In(2), "writes": Out(1)} if control else {}),
                "store": Out(store_signature(records)),
                "begin": Out(begin_signature(records)),
                "write": Out(write_signature(system)),
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
        if system.ni.reserved_slots and not self._control:
            scarce = self.waiting < system.ni.reserved_slots
            m.d.comb += reserved.eq(scarce & (record.cls < system.first_reserved))

        # What is kept from the handshake to the last beat.
        in_payload = Signal()
        held = Signal(self._record)
        held_life = Signal(self.free.payload.shape())
        held_best = Signal()
        flits, left = Signal(16 - byte_bits + 1), Signal(16 - byte_bits + 1)
        beat, fits = Signal.like(self.write.beat), Signal()

        cause = Signal(cause_bits(system))
        with m.If((record.destination >= system.nodes) | (record.destination == self.node)):
            m.d.comb += cause.eq(Cause.DESTINATION)
        with m.Elif(record.mode > max(Mode)):
            m.d.comb += cause.eq(Cause.MODE)
        with m.Elif(record.length > system.wire.mtu):
            m.d.comb += cause.eq(Cause.LENGTH)
        if self._control:
            with m.Elif(record.cls < (1 << form.class_bits) - system.ni.control_classes):
                m.d.comb += cause.eq(Cause.CLASS)
        refused = cause != Cause.NONE
        best_effort, fields = Signal(), self.store.fields
        m.d.comb += best_effort.eq(record.mode[0] & ~refused)

        begun, empty, last, taken, same = Signal(), Signal(), Signal(), Signal(), Signal()
        whole, partial = record.length[byte_bits:], record.length[:byte_bits].any()
        may = ~self.yields if self._yields else 1
        if self._control:
            # The other accept waits for this.  So all but what comes from outside is known since the cycle before.
            armed, blocked = Signal(), Signal()
            able = armed & self.open & self.free.valid & ~blocked
        else:
            able = may & ~in_payload & self.open & self.free.valid & ~reserved & ~(self.flying.valid & same)
        m.d.comb += [
            self.send.ready.eq(able),
            begun.eq(self.send.valid & self.send.ready),
            self.begun.eq(begun),
            self.free.ready.eq(begun),
            empty.eq(record.length == 0),
            self.send_data.ready.eq(in_payload & may),
            taken.eq(self.send_data.valid & self.send_data.ready),
            self.acts.eq(begun | taken),
            flits.eq(whole + partial),
            self.store.valid.eq(begun),
            self.store.slot.eq(life.slot),
            fields.generation.eq(life.generation),
            fields.destination.eq(record.destination),
            fields.distance.eq(distance_class(m, system.graph, self.node, record.destination[: form.node_bits])),
            fields.cls.eq(record.cls),
            fields.best_effort.eq(best_effort),
            fields.refused.eq(refused),
            fields.cause.eq(cause),
            fields.length.eq(record.length),
            fields.expect.eq(record.expect),
            fields.retry_limit.eq(record.retry_limit),
            fields.tag.eq(record.tag),
            *([fields.path.eq(record.path)] if form.path_bits else []),
        ]
        # Whether the slot that is free in the next cycle is the one that will be flying, if one is.
        moves_on = begun | ~self.free.valid
        if self._control:
            m.d.comb += self.writes.eq(taken)
            in_payload_next = Mux(in_payload, ~(taken & last), begun & ~empty)
            slot = Mux(moves_on, self.ahead.slot, life.slot)
            m.d.sync += [
                armed.eq(~in_payload_next & Mux(self.launch.valid, self.opens[1], self.opens[0])),
                blocked.eq(self.flying.next_valid & (slot == self.flying.slot)),
            ]
        else:
            with m.If(moves_on):
                m.d.sync += same.eq(self.ahead.slot == self.flying.slot)
            with m.Else():
                m.d.sync += same.eq(life.slot == self.flying.slot)
        # Kept is what is offered, until something is taken.
        with m.If(~in_payload):
            m.d.sync += [
                held.eq(record),
                held_life.eq(life),
                held_best.eq(best_effort),
                in_payload.eq(begun & ~empty),
                beat.eq(0),
                fits.eq(1),
                left.eq(flits),
                # Of one flit, seen without the sum.
                last.eq(Mux(partial, whole == 0, whole == 1)),
            ]

        with m.If(taken):
            m.d.sync += [
                left.eq(left - 1),
                last.eq(left == 2),
                beat.eq(beat + 1),
                fits.eq(fits & (beat != system.slot_flits - 1)),
            ]
            with m.If(last):
                m.d.sync += in_payload.eq(0)

        # Bytes beyond the length are stored as 0.
        current, current_life = Signal(self._record), Signal(self.free.payload.shape())
        over = Signal(byte_bits)
        m.d.comb += [
            over.eq(held.length[:byte_bits]),
            self.write.valid.eq(taken & fits),
            self.write.slot.eq(current_life.slot),
            self.write.beat.eq(beat),
        ]
        for byte in range(form.flit_bytes):
            void = last & (over != 0) & (over <= byte)
            sent = self.send_data.payload.word_select(byte, 8)
            m.d.comb += self.write.flit.word_select(byte, 8).eq(Mux(void, 0, sent))

        m.d.comb += [
            current.eq(Mux(in_payload, held, record)),
            current_life.eq(Mux(in_payload, held_life, life)),
            self.begin.valid.eq(Mux(in_payload, taken & last, begun & empty)),
            self.begin.slot.eq(current_life.slot),
            # Generations of a slot count by one, from 0, over cleared phases: their lowest bit alternates.
            self.begin.phase.eq(~current_life.generation[0]),
            self.begin.deadline.given.eq(current.deadline != 0),
            self.begin.deadline.time.eq(self.time_base + current.deadline),
            self.launch.valid.eq(self.begin.valid),
            self.launch.payload.eq(current_life),
            self.accepted.valid.eq(self.begin.valid),
            self.accepted.slot.eq(current_life.slot),
            self.accepted.generation.eq(current_life.generation),
            self.accepted.tag.eq(current.tag),
        ]
        if system.ni.control_slots:
            m.d.comb += self.accepted.control.eq(self._control)
        if self._watch:
            m.d.comb += [
                self.shown.destination.eq(current.destination),
                self.shown.length.eq(current.length),
                self.shown.best_effort.eq(Mux(in_payload, held_best, best_effort)),
            ]
        return m

"""The loop: what a node sends to itself (cycle contract, section 10.1)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum
from amaranth.utils import exact_log2

from lethe.lib.queue import Queue
from lethe.ni.deliver import DeliverFifo
from lethe.ni.watch import event_word, padded, uid_word, when
from lethe.spec.events import CAUSE_BITS, Cause, Event, Mode, Status
from lethe.spec.ports import cause_bits
from lethe.spec.services.loop import LOOP
from lethe.spec.trace import WORD_BITS
from lethe.traffic.payload import clipped

from .service import ServiceTrace, ServiceUnit

__all__ = ["Loop"]


class State(enum.Enum, shape=2):
    """What is due: a record, beats of a record that went to the NI, those of an own one, or its acceptance."""

    IDLE = 0
    BELOW = 1
    BEATS = 2
    DONE = 3


class Loop(ServiceUnit):
    """Datagrams to the own node go from the host to the host, on slots and through a deliver FIFO of their own.

    They come one after the other.  `next` and `live` count one from its acceptance on, so that a reset of the NI under
    it leaves nothing to undo.
    """

    service = LOOP

    def serve(self, m: Module) -> ServiceTrace:
        system, form, slots = self.system, self.system.format, self.system.loop.slots
        below, above = self.below, self.above
        byte_bits = exact_log2(form.flit_bytes)
        life = {name: above.cancel.payload.shape()[name].shape for name in ("slot", "generation")}
        tag, cause_width = system.wire.tag_bits, cause_bits(system)
        ending = data.StructLayout(
            {**life, "tag": tag, "cause": cause_width, "peer_incarnation": form.incarnation_bits}
        )
        m.submodules.fifo = fifo = DeliverFifo(system, flits=system.loop_flits, records=slots)
        m.submodules.endings = endings = Queue(ending, slots)

        state, left = Signal(State), Signal(16 - byte_bits + 1)
        next_ = Signal(data.StructLayout(life), init={"slot": self.port.slots})  # pyrefly: ignore[bad-argument-type]
        live = Signal(range(slots + 1))
        held = Signal(data.StructLayout({"cls": form.class_bits, "length": 16, "tag": tag, "cause": cause_width}))

        # What is offered.
        record = above.send.payload
        own, cause, beats = Signal(), Signal(cause_width), Signal.like(left)
        m.d.comb += [
            own.eq(above.send.valid & (record.destination == self.node)),
            beats.eq((record.length + (form.flit_bytes - 1)) >> byte_bits),
        ]
        with m.If(record.mode > max(Mode)):
            m.d.comb += cause.eq(Cause.MODE)
        with m.Elif(record.length > system.wire.mtu):
            m.d.comb += cause.eq(Cause.LENGTH)
        with m.Elif((record.expect != 0) & (record.expect != self.incarnation)):
            m.d.comb += cause.eq(Cause.RESTARTED)

        # Records and beats.
        begun, taken, last, looped = Signal(), Signal(), Signal(), Signal()
        refused = held.cause != Cause.NONE
        fits = (cause != Cause.NONE) | (fifo.used + beats <= system.loop_flits)
        m.d.comb += [
            begun.eq(above.send.valid & above.send.ready),
            taken.eq(above.send_data.valid & above.send_data.ready),
            last.eq(left == 1),
        ]
        with m.If(own | (state != State.IDLE)):
            m.d.comb += [
                below.send.valid.eq(0),
                Value.cast(below.send.payload).eq(0),
                above.send.ready.eq(
                    (state == State.IDLE) & below.ready & ~above.quiesce & (live != slots) & fifo.verdict.room & fits
                ),
            ]
        with m.If(state != State.BELOW):
            m.d.comb += [below.send_data.valid.eq(0), above.send_data.ready.eq(state == State.BEATS)]
        with m.Switch(state):
            with m.Case(State.IDLE):
                m.d.sync += [
                    *(held[name].eq(record[name]) for name in ("cls", "length", "tag")),
                    held.cause.eq(cause),
                    left.eq(beats),
                ]
                with m.If(begun & own):
                    m.d.sync += state.eq(Mux(beats == 0, State.DONE, State.BEATS))
                with m.Elif(begun & (beats != 0)):
                    m.d.sync += state.eq(State.BELOW)
            with m.Case(State.BELOW, State.BEATS), m.If(taken):
                m.d.sync += left.eq(left - 1)
                with m.If(last):
                    m.d.sync += state.eq(Mux(state == State.BELOW, State.IDLE, State.DONE))
            with m.Case(State.DONE):
                m.d.comb += looped.eq(~below.accepted.valid & ~self.node_reset)
                with m.If(looped):
                    m.d.sync += state.eq(State.IDLE)
        with m.If(self.node_reset):
            m.d.sync += state.eq(State.IDLE)

        # The end of DONE: the datagram is accepted, delivered and complete.
        beat, delivered, ended = fifo.fill.beat, fifo.verdict.record, endings.i.payload
        whole = above.send_data.payload
        m.d.comb += [
            fifo.fill.valid.eq(taken & (state == State.BEATS) & ~refused),
            fifo.fill.drop.eq(self.node_reset),
            beat.data.eq(Mux(last, clipped(whole, held.length, form.flit_bytes), whole)),
            beat.last.eq(last),
            fifo.verdict.commit.eq(looped & ~refused),
            delivered.source.eq(self.node),
            *(delivered[name].eq(held[name]) for name in ("cls", "length")),
            endings.i.valid.eq(looped),
            *(ended[name].eq(next_[name]) for name in life),
            *(ended[name].eq(held[name]) for name in ("tag", "cause")),
            ended.peer_incarnation.eq(Mux(refused, 0, self.incarnation)),
        ]
        if system.ni.source_incarnation:
            m.d.comb += delivered.incarnation.eq(self.incarnation)
        with m.If(looped):
            m.d.comb += [
                Value.cast(above.accepted).eq(0),
                above.accepted.valid.eq(1),
                *(above.accepted[name].eq(next_[name]) for name in life),
                above.accepted.tag.eq(held.tag),
            ]
            m.d.sync += next_.slot.eq(next_.slot + 1)
            with m.If(next_.slot == self.port.slots + slots - 1):
                m.d.sync += [next_.slot.eq(self.port.slots), next_.generation.eq(next_.generation + 1)]

        # Completions: the NI's first, but what is once offered stays.
        shown, stays, completed = Signal(), Signal(), Signal()
        entry, completion = endings.o.payload, above.completion.payload
        status = Mux(entry.cause == Cause.NONE, Status.ACCEPTED, Status.REJECTED)
        m.d.comb += [
            shown.eq(endings.o.valid & (~below.completion.valid | stays)),
            completed.eq(shown & above.completion.valid & above.completion.ready),
            endings.o.ready.eq(completed),
        ]
        m.d.sync += [stays.eq(shown & above.completion.valid & ~completed), live.eq(live + looped - completed)]
        with m.If(shown):
            m.d.comb += [
                above.completion.valid.eq(1),
                completion.destination.eq(self.node),
                completion.status.eq(status),
                *(completion[name].eq(entry[name]) for name in ending.members),
                below.completion.ready.eq(0),
            ]

        with m.If(above.cancel.payload.slot >= self.port.slots):
            m.d.comb += [below.cancel.valid.eq(0), above.cancel.ready.eq(1)]

        # What is delivered.
        streams = ((fifo.deliver, above.deliver_loop), (fifo.deliver_data, above.deliver_loop_data))
        for source, port in streams:
            m.d.comb += [
                port.valid.eq(source.valid),
                port.payload.eq(source.payload),
                source.ready.eq(port.valid & port.ready),
            ]
        m.d.comb += above.idle.eq(below.idle & (state == State.IDLE) & (live == 0) & fifo.empty)

        took, got = above.deliver_loop.valid & above.deliver_loop.ready, above.deliver_loop.payload
        accepts = looped & ~refused
        incarnation = Mux(entry.cause == Cause.NONE, entry.peer_incarnation, self.incarnation)
        lanes = (
            (
                event_word(Const(Event.LOOPED, 8), peer=self.node, length=held.length, extra=held.tag),
                uid_word(self.node, self.incarnation, next_.slot, next_.generation),
                accepts,
            ),
            (
                event_word(
                    Const(Event.LOOP_COMPLETE, 8),
                    detail=Cat(padded(entry.cause, CAUSE_BITS), status),
                    peer=self.node,
                    extra=entry.tag,
                ),
                uid_word(self.node, incarnation, entry.slot, entry.generation),
                completed,
            ),
            (
                event_word(
                    Const(Event.LOOP_TAKE, 8),
                    detail=got.incarnation if system.ni.source_incarnation else 0,
                    peer=self.node,
                    length=got.length,
                ),
                Const(0, WORD_BITS),
                took,
            ),
        )
        delivers = above.deliver_loop_data
        return ServiceTrace(
            lanes=[(when(happens, word), when(happens, uid)) for word, uid, happens in lanes],
            flags=(
                above.send.ready, above.send_data.ready, above.completion.valid, above.deliver_loop.valid,
                delivers.valid, delivers.valid & delivers.payload.last, above.cancel.ready, above.idle,
            ),
            beat=delivers,
            pulses=[happens for _, _, happens in lanes],
            reset=Event.LOOP_RESET,
            lost=fifo.waiting,
        )  # fmt: skip

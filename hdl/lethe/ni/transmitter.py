"""The transmitter: who gets the link, and what it says (cycle contract, section 4.3)."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.link.serialiser import Serialiser
from lethe.spec.config import System
from lethe.spec.events import Cause, Event, Kind, Status
from lethe.spec.wire import KIND_BITS

from .ladder import push_signature
from .layouts import TRIES_BITS, Records
from .payload_store import read_signature
from .round_trip import stamp_signature, step_of, wait_signature
from .send_table import launch_signature, peek_signature
from .silence import judge_signature

__all__ = ["Transmitter", "flying_signature", "header_bits"]


def flying_signature(system: System) -> wiring.Signature:
    """Seen from the transmitter: the payload of ``slot`` is being read for a worm.

    From *g+2* on: in *g+1* nobody can hold the slot.
    """
    return wiring.Signature({"valid": Out(1), "slot": Out(range(system.ni.slots))})


def header_bits(fields, values: dict):
    """The header of ``fields`` with ``values``; a field that is not named is 0."""
    parts = []
    for field in fields:
        part = Signal(field.width, name=f"header_{field.name}")
        parts.append((part, values.get(field.name, 0)))
    return Cat(part for part, _ in parts), [part.eq(value) for part, value in parts]


class Transmitter(wiring.Component):
    """Grants the link in *g*, judges in *g+1* by the send table at the start of *g*, shows the first flit in *g+2*.

    Order: replies, control (with ``ni.control_slots``), repeats, new datagrams; all but replies only while
    ``push.room``, control and new ones only while the finish register is empty (it ends best-effort and refused
    datagrams).  With ``timers.silent_after`` it ends those to silent nodes too, and repeats also wait until it is
    empty.

    Members
    -------
    open : In(1)
        Ready and link_enable.
    node, incarnation : In
        Own number and incarnation.
    replies, repeats, news, controls : In(stream)
        The queues; the last with ``ni.control_slots``.
    peek : Out(`peek_signature`)
        The send table's copy.
    payload : Out(`read_signature`)
        The payload store.
    launch : Out(`launch_signature`)
        In *g*: this entry of ``news`` or ``controls`` is granted.
    time_base, jitter : In
        The time base, and the draw of a Send in *g+1*.
    push : Out(`push_signature`)
        In *g+1*: a Send was launched; its token goes to the Send ladder.
    wait, stamp : Out(`wait_signature`), Out(`stamp_signature`)
        With measured round trips, of that Send: its step in *g*; all else in *g+1*.
    merge : Out, merge_word, merge_mask : In(merge_bits), with ``ni.merge_bits``
        In *g+1*: whose payload begins with what the other two say in *g+2*; all 0 otherwise.
    judge : Out(`judge_signature`), with ``timers.silent_after``
        In *g+1*: of the destination of a Send or BE.
    finish : Out(stream)
        The finish register.
    flying : Out(`flying_signature`)
    resting : Out(1)
        No grant under way, no flit shown.
    shown : Out
        The event of the tx lane, in *g+2*.
    link_o : Out(flit)
    """

    def __init__(self, system: System):
        self._system = system
        form = system.format
        records = Records(system)
        members = {}
        if system.measured:
            members = {"wait": Out(wait_signature(system)), "stamp": Out(stamp_signature(system))}
        if system.ni.control_slots:
            members["controls"] = In(stream.Signature(records.launch))
        if bits := system.ni.merge_bits:
            members |= {"merge": Out(records.merge), "merge_word": In(bits), "merge_mask": In(bits)}
        if system.timers.silent_after:
            members["judge"] = Out(judge_signature(system))
        super().__init__(
            {
                "open": In(1),
                "node": In(form.node_bits),
                "incarnation": In(form.incarnation_bits),
                "replies": In(stream.Signature(records.reply)),
                "repeats": In(stream.Signature(records.repeat)),
                "news": In(stream.Signature(records.launch)),
                "peek": Out(peek_signature(records)),
                "payload": Out(read_signature(system)),
                "launch": Out(launch_signature(records)),
                "time_base": In(system.time_bits),
                "jitter": In(max(1, system.timers.jitter_bits)),
                "push": Out(push_signature(system, records.token)),
                "finish": Out(stream.Signature(records.finish)),
                "flying": Out(flying_signature(system)),
                "resting": Out(1),
                "shown": Out(
                    data.StructLayout(
                        {
                            "event": Event,
                            "tries": TRIES_BITS,
                            "source": form.node_bits,
                            "incarnation": form.incarnation_bits,
                            "slot": form.slot_bits,
                            "generation": form.generation_bits,
                            "peer": 16,
                            "length": form.length_bits,
                        }
                    )
                ),
                "link_o": Out(flit_layout(form)),
                **members,
            }
        )

    def elaborate(self, platform):
        m = Module()
        form = self._system.format
        m.submodules.serialiser = serialiser = Serialiser(self._system)

        watches = self._system.timers.silent_after > 0

        # g: the arbiter.
        may_grant = Signal()
        reply, repeat, new = Signal(), Signal(), Signal()
        sends, repeats_first = Signal(), Signal()
        fresh = self.news
        m.d.comb += repeats_first.eq(self.repeats.valid)
        if self._system.ni.control_slots:
            # What is granted from the new queue or the control queue: control goes before repeats too, if it can go.
            fresh, control = stream.Signature(self.news.payload.shape()).create(path=("fresh",)), Signal()
            m.d.comb += [
                control.eq(self.controls.valid & ~self.finish.valid),
                repeats_first.eq(self.repeats.valid & ~control),
                fresh.valid.eq(self.news.valid | control),
                fresh.payload.eq(Mux(control, self.controls.payload, self.news.payload)),
                self.news.ready.eq(fresh.ready & ~control),
                self.controls.ready.eq(fresh.ready & control),
            ]
        m.d.comb += [
            sends.eq(may_grant & self.push.room & ~self.replies.valid),
            reply.eq(may_grant & self.replies.valid),
            repeat.eq(sends & repeats_first & (~self.finish.valid if watches else 1)),
            new.eq(sends & ~repeats_first & fresh.valid & ~self.finish.valid),
            self.replies.ready.eq(may_grant),
            self.repeats.ready.eq(repeat),
            fresh.ready.eq(new),
            self.launch.valid.eq(new),
            self.launch.slot.eq(fresh.payload.slot),
            self.launch.generation.eq(fresh.payload.generation),
            self.peek.slot.eq(Mux(repeats_first, self.repeats.payload.slot, fresh.payload.slot)),
        ]

        # g+1: judge and start.
        is_reply, is_repeat, is_new = Signal(), Signal(), Signal()
        queued = Signal(self.replies.payload.shape())
        token = Signal(self.repeats.payload.shape())
        m.d.sync += [is_reply.eq(reply), is_repeat.eq(repeat), is_new.eq(new), queued.eq(self.replies.payload)]
        with m.If(repeats_first):
            m.d.sync += token.eq(self.repeats.payload)
        with m.Else():
            m.d.sync += [
                token.slot.eq(fresh.payload.slot),
                token.generation.eq(fresh.payload.generation),
                token.tries.eq(0),
            ]
        record, push = self.peek.row, self.push
        judging, alive, sent, killed = Signal(), Signal(), Signal(), Signal()
        finishes = record.refused | record.best_effort
        payload = self._merged(m, token, sent, serialiser) if self._system.ni.merge_bits else self.payload.flit
        # To a silent node goes one new datagram in each period, and nothing else.
        muted = Signal() if watches else Const(0)
        if watches:
            judge, probes = self.judge, is_new & ~record.best_effort
            m.d.comb += [
                judge.node.eq(record.destination),
                judge.probe.eq(sent & judge.silent),
                muted.eq(~record.refused & judge.silent & ~(probes & ~judge.probed)),
            ]
        m.d.comb += [
            judging.eq(is_repeat | is_new),
            # A repeat whose slot ends by itself belongs to an earlier life, so early did its generation recur.
            alive.eq(record.live & (record.generation == token.generation) & ~(is_repeat & finishes)),
            sent.eq(judging & alive & ~record.refused & ~muted),
            killed.eq(judging & ~alive),
            push.valid.eq(sent & ~record.best_effort),
            push.token.slot.eq(token.slot),
            push.token.generation.eq(token.generation),
            push.token.tries.eq(token.tries),
            serialiser.start.eq(is_reply | sent),
            serialiser.control.eq(is_reply),
            serialiser.flits.eq((record.length + (form.flit_bytes - 1)) >> (form.flit_bytes - 1).bit_length()),
            serialiser.payload.eq(payload),
            self.link_o.eq(serialiser.link_o),
        ]
        # Due one cycle after the eve: the delay is counted from the worm's first flit.
        m.d.comb += push.rung.eq(Mux(is_new, record.distance, token.rung))
        if self._system.measured:
            m.d.comb += [
                self.stamp.valid.eq(push.valid),
                self.stamp.slot.eq(token.slot),
                self.stamp.try_.eq(token.tries),
                self.wait.distance.eq(record.distance),
                self.wait.step.eq(Mux(repeats_first, step_of(self._system, self.repeats.payload.rung), 0)),
                # a − ~b is a + b + 1, in one adder.
                push.eve.eq((self.time_base + self.jitter) - ~self.wait.delay),
            ]
        else:
            delay = Array(Const(d, max(self._system.delays).bit_length()) for d in self._system.delays)[push.rung]
            m.d.comb += push.eve.eq((self.time_base + self.jitter) + delay)
        # A reply of one flit lets the next grant follow at once; everything else is two flits or two cycles.
        waits = judging if form.control_flits == 1 else judging | is_reply
        m.d.comb += may_grant.eq(self.open & ~waits & (~serialiser.active | serialiser.last))

        with m.If(self.finish.ready):
            m.d.sync += self.finish.valid.eq(0)
        with m.If(judging & alive & (finishes | muted)):
            m.d.sync += [
                self.finish.valid.eq(1),
                self.finish.payload.slot.eq(token.slot),
                self.finish.payload.generation.eq(token.generation),
                self.finish.payload.status.eq(Mux(record.refused, Status.REJECTED, Status.UNKNOWN)),
                self.finish.payload.cause.eq(Mux(record.refused, record.cause, Cause.BEST_EFFORT)),
            ]
            if watches:
                with m.If(muted):
                    m.d.sync += [
                        self.finish.payload.status.eq(Mux(is_new, Status.NEVER_SENT, Status.UNKNOWN)),
                        self.finish.payload.cause.eq(Cause.SILENT),
                    ]

        reply_kind, reply_event = Kind.ACK, Event.ACK
        if self._system.ni.reject:
            reply_kind = Mux(queued.reject, Kind.REJECT, reply_kind)
            reply_event = Mux(queued.reject, Event.REJECT, reply_event)
        kind = Signal(KIND_BITS)
        with m.If(is_reply):
            m.d.comb += kind.eq(Mux(queued.forget, Kind.FORGET, reply_kind))
        with m.Else():
            m.d.comb += kind.eq(Mux(record.best_effort, Kind.BE, Kind.SEND))

        def either(queued_value, sent_value):
            return Mux(is_reply, queued_value, sent_value)

        bits, drivers = header_bits(
            form.send,
            {
                "kind": kind,
                "destination": either(queued.destination, record.destination[: form.node_bits]),
                "source": self.node,
                "slot": either(queued.slot, token.slot),
                "generation": either(queued.generation, token.generation),
                "incarnation": either(queued.incarnation, self.incarnation),
                "peer_incarnation": either(queued.peer_incarnation, record.expect),
                "try": either(getattr(queued, "try"), token.tries[: form.try_bits]),
                "length": either(0, record.length),
                "class": either(0, record.cls),
                "mode": either(0, record.best_effort),
            },
        )
        m.d.comb += [*drivers, serialiser.header.eq(bits)]

        # g+2 and on: the worm; its payload is read one cycle ahead.
        carries = Signal()
        with m.If(serialiser.start):
            m.d.sync += carries.eq(sent)
        with m.If(judging):
            m.d.sync += self.flying.slot.eq(token.slot)
        m.d.comb += [
            self.payload.slot.eq(Mux(judging, token.slot, self.flying.slot)),
            self.payload.beat.eq(serialiser.upcoming),
            self.flying.valid.eq(serialiser.active & carries),
            self.resting.eq(~is_reply & ~judging & ~serialiser.active & ~serialiser.link_o.valid),
        ]

        shown = self.shown
        m.d.sync += shown.eq(0)
        with m.If(is_reply):
            m.d.sync += [
                shown.event.eq(Mux(queued.forget, Event.FORGET, reply_event)),
                shown.source.eq(Mux(queued.forget, self.node, queued.destination)),
                shown.incarnation.eq(queued.incarnation),
                shown.slot.eq(queued.slot),
                shown.generation.eq(queued.generation),
                shown.peer.eq(queued.destination),
            ]
        with m.Elif(sent | killed):
            m.d.sync += [
                shown.event.eq(Mux(record.best_effort, Event.BE, Event.SEND)),
                shown.tries.eq(token.tries),
                shown.source.eq(self.node),
                shown.incarnation.eq(self.incarnation),
                shown.slot.eq(token.slot),
                shown.generation.eq(token.generation),
                shown.peer.eq(record.destination),
                shown.length.eq(record.length),
            ]
            with m.If(killed):
                m.d.sync += [shown.event.eq(Event.KILLED), shown.tries.eq(0), shown.length.eq(0)]
        return m

    def _merged(self, m, token, sent, serialiser):
        """The payload flit, with what is merged into the first of a worm; ``serialiser.start`` is *g+1*."""
        bits, flit = self._system.ni.merge_bits, Value.cast(self.payload.flit)
        length = self.peek.row.length
        # In g+2 word and mask come; with a header of several flits they are needed later.
        fresh, first, held_word, held_mask = Signal(), Signal(), Signal(bits), Signal(bits)
        word, mask, within = Signal(bits), Signal(bits), Signal(-(-bits // 8))
        with m.If(sent & (length != 0)):
            m.d.comb += [
                self.merge.valid.eq(1),
                *(self.merge[name].eq(token[name]) for name in ("slot", "generation", "tries")),
            ]
        with m.If(serialiser.start):
            m.d.sync += within.eq(Cat(length > byte for byte in range(len(within))))
        m.d.comb += [
            word.eq(Mux(fresh, self.merge_word, held_word)),
            mask.eq(Mux(fresh, self.merge_mask & Cat(bit.replicate(8) for bit in within)[:bits], held_mask)),
        ]
        # The first payload flit is asked for until the payload begins.
        m.d.sync += [
            fresh.eq(serialiser.start),
            first.eq(serialiser.upcoming == 0),
            held_word.eq(word),
            held_mask.eq(mask),
        ]
        low = Mux(first, (flit[:bits] & ~mask) | (word & mask), flit[:bits])
        return Cat(low, flit[bits:])

"""The transmitter: who gets the link, and what it says (cycle contract, section 4.3)."""

from itertools import pairwise

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.link.serialiser import Serialiser
from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.events import Cause, Event, Kind, Status
from lethe.spec.wire import CRC16, KIND_BITS

from .ladder import push_signature
from .layouts import TRIES_BITS, Records
from .paths import route_signature
from .payload_store import read_signature
from .round_trip import stamp_signature, step_of, wait_signature
from .send_table import judged_signature, peek_signature
from .silence import judge_signature

__all__ = ["Transmitter", "flying_signature", "header_bits"]


def flying_signature(system: System) -> wiring.Signature:
    """Seen from the transmitter: ``slot`` is in transmission, to *g+n*.

    From *g+3* on: before, nobody can hold the slot.  ``slot`` is the same in the cycle before too.  With
    ``ni.control_slots`` there is ``next_valid``: ``valid`` of the next cycle.
    """
    members = {"valid": Out(1), "slot": Out(range(system.ni.slots))}
    if system.ni.control_slots:
        members["next_valid"] = Out(1)
    return wiring.Signature(members)


def header_bits(fields, values: dict):
    """The header of ``fields`` with ``values``; a field that is not named is 0."""
    parts = []
    for field in fields:
        part = Signal(field.width, name=f"header_{field.name}")
        parts.append((part, values.get(field.name, 0)))
    return Cat(part for part, _ in parts), [part.eq(value) for part, value in parts]


class Transmitter(wiring.Component):
    """Grants the link in *g*, judges in *g+2*, shows the first flit in *g+6*.

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
        The send table's copy: slot in *g*, row in *g+2*.
    payload : Out(`read_signature`)
        The payload store.
    judged : Out(`judged_signature`)
        In *g+2*: of an entry of ``news`` or ``controls``.
    time_base, jitter : In
        The time base, and the draw of a Send in *g+3*, which must be there in *g+2* too.
    push : Out(`push_signature`)
        In *g+3*: a Send was launched; its token goes to the Send ladder.
    wait, stamp : Out(`wait_signature`), Out(`stamp_signature`)
        With measured round trips, of that Send: class and step in *g+2*; delay, less one, and stamp in *g+3*.
    merge : Out, merge_word, merge_mask : In(merge_bits), with ``ni.merge_bits``
        In *g+1*: who was granted; its payload, if it is sent, begins with what the other two say in *g+4*.
    judge : Out(`judge_signature`), with ``timers.silent_after``
        In *g+2*: of the destination of a Send or BE.
    route : Out(`route_signature`), with ``timers.path_after``
        In *g+2*: the path of a Send or BE.
    finish : Out(stream)
        The finish register; what is judged shows in *g+3*.
    flying : Out(`flying_signature`)
    resting : Out(1)
        No grant under way, no flit shown.
    shown : Out
        The event of the tx lane, in *g+6*.
    link_o : Out(flit)
    """

    def __init__(self, system: System):
        self._system = system
        form = system.format
        records = Records(system)
        self._event = data.StructLayout(
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
        members = {}
        if system.measured:
            members = {"wait": Out(wait_signature(system)), "stamp": Out(stamp_signature(system))}
        if system.ni.control_slots:
            members["controls"] = In(stream.Signature(records.launch))
        if bits := system.ni.merge_bits:
            members |= {"merge": Out(records.merge), "merge_word": In(bits), "merge_mask": In(bits)}
        if system.timers.silent_after:
            members["judge"] = Out(judge_signature(system))
        if system.timers.path_after:
            members["route"] = Out(route_signature(system))
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
                "judged": Out(judged_signature(records)),
                "time_base": In(system.time_bits),
                "jitter": In(max(1, system.timers.jitter_bits)),
                "push": Out(push_signature(system, records.token)),
                "finish": Out(stream.Signature(records.finish)),
                "flying": Out(flying_signature(system)),
                "resting": Out(1),
                "shown": Out(self._event),
                "link_o": Out(flit_layout(form)),
                **members,
            }
        )

    def elaborate(self, platform):
        m = Module()
        system = self._system
        form, bits = system.format, system.ni.merge_bits
        m.submodules.serialiser = serialiser = Serialiser(system)
        watches = system.timers.silent_after > 0

        # g: the arbiter.  `gap` counts the cycles until `free`, which is 0 while a Send waits for its judgement, too.
        free, gap = Signal(init=1), Signal(range(form.max_flits + 1))
        reply, repeat, new, granted_send = Signal(), Signal(), Signal(), Signal()
        sends, repeats_first = Signal(), Signal()
        fresh = self.news
        m.d.comb += repeats_first.eq(self.repeats.valid)
        if system.ni.control_slots:
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
        may_grant = self.open & free
        m.d.comb += [
            sends.eq(may_grant & self.push.room & ~self.replies.valid),
            reply.eq(may_grant & self.replies.valid),
            repeat.eq(sends & repeats_first & (~self.finish.valid if watches else 1)),
            new.eq(sends & ~repeats_first & fresh.valid & ~self.finish.valid),
            granted_send.eq(repeat | new),
            self.replies.ready.eq(may_grant),
            self.repeats.ready.eq(repeat),
            fresh.ready.eq(new),
            self.peek.slot.eq(Mux(repeats_first, self.repeats.payload.slot, fresh.payload.slot)),
        ]

        # g+1: what was granted, kept until the next grant; its payload is asked for from here on, flit by flit.
        granted = Signal(data.StructLayout({"reply": 1, "repeat": 1, "new": 1}))
        queued, sending = Signal(self.replies.payload.shape()), Signal(self.repeats.payload.shape())
        beat, headers = Signal.like(self.payload.beat), Signal(range(form.header_flits))
        m.d.sync += [granted.reply.eq(reply), granted.repeat.eq(repeat), granted.new.eq(new)]
        with m.If(free):
            m.d.sync += [queued.eq(self.replies.payload), beat.eq(0), headers.eq(form.header_flits - 1)]
            with m.If(repeats_first):
                m.d.sync += sending.eq(self.repeats.payload)
            with m.Else():
                m.d.sync += [
                    sending.slot.eq(fresh.payload.slot),
                    sending.generation.eq(fresh.payload.generation),
                    sending.tries.eq(0),
                ]
        with m.Elif(headers != 0):
            m.d.sync += headers.eq(headers - 1)
        with m.Else():
            m.d.sync += beat.eq(beat + 1)
        m.d.comb += [self.payload.slot.eq(sending.slot), self.payload.beat.eq(beat)]

        # g+2: judge and start.
        is_reply, is_repeat, is_new = Signal(), Signal(), Signal()
        own, token, answer = Signal.like(granted), Signal.like(sending), Signal.like(queued)
        begins, judging = Signal(), Signal()
        m.d.sync += [
            own.eq(granted),
            token.eq(sending),
            answer.eq(queued),
            begins.eq(Value.cast(granted).any()),
            judging.eq(granted.repeat | granted.new),
        ]
        m.d.comb += [is_reply.eq(own.reply), is_repeat.eq(own.repeat), is_new.eq(own.new)]
        record, push = self.peek.row, self.push
        matches, stray, sent, killed, ends = Signal(), Signal(), Signal(), Signal(), Signal()
        finishes = record.refused | record.best_effort
        # To a silent node goes one new datagram in each period, and nothing else.
        muted = Signal() if watches else Const(0)
        if watches:
            judge, probes = self.judge, is_new & ~record.best_effort
            m.d.comb += [
                judge.node.eq(record.destination),
                judge.probe.eq(sent & judge.silent),
                muted.eq(~record.refused & judge.silent & ~(probes & ~judge.probed)),
            ]
        flits = Signal(range(system.slot_flits + 1))
        m.d.comb += [
            matches.eq(record.live & (record.generation == token.generation)),
            # A repeat whose slot ends by itself belongs to an earlier life, so early did its generation recur.
            stray.eq(is_repeat & finishes),
            sent.eq(matches & (judging & ~stray & ~record.refused) & ~muted),
            killed.eq(judging & (~matches | stray)),
            ends.eq(matches & ((is_new & finishes) | (judging & ~stray & muted))),
            self.judged.valid.eq(is_new & record.live),
            self.judged.any.eq(is_new),
            self.judged.slot.eq(token.slot),
            self.judged.phase.eq(record.phase),
            self.judged.ahead.eq(sending.slot),
            flits.eq((record.length + (form.flit_bytes - 1)) >> (form.flit_bytes - 1).bit_length()),
            serialiser.start.eq(begins),
            serialiser.sent.eq(is_reply | sent),
            serialiser.control.eq(is_reply),
            serialiser.flits.eq(flits),
            serialiser.payload.eq(self.payload.flit),
            self.link_o.eq(serialiser.link_o),
        ]

        # When the next grant can be: n cycles after this one, three if there are no flits.
        others = form.header_flits + form.crc_flits
        taken, short = (
            granted_send | (reply if form.control_flits > 1 else 0),
            flits <= 3 - others if others <= 3 else 0,
        )
        # While a Send is judged it is not free, and the gap is 0.
        m.d.sync += free.eq((free & ~taken) | (judging & (~sent | short)) | (~free & (gap == 1)))
        with m.If(free):
            m.d.sync += gap.eq(Mux(self.replies.valid, form.control_flits - 1, 0))
        with m.Elif(judging):
            m.d.sync += gap.eq(flits + (others - 3))
        with m.Elif(gap != 0):
            m.d.sync += gap.eq(gap - 1)

        # g+3: the token.  Due three cycles later plus the delay, which is counted from the worm's first flit.  Without
        # steps of backoff a repeat waits as a first Send does, by the distance of its destination: the time-out may be
        # that of an earlier datagram of the same generation, to another node.
        at_distance = is_new if system.timers.backoff_steps else Const(1)
        m.d.sync += [
            push.valid.eq(sent & ~record.best_effort),
            push.token.slot.eq(token.slot),
            push.token.generation.eq(token.generation),
            push.token.tries.eq(token.tries),
            push.rung.eq(Mux(at_distance, record.distance, token.rung)),
        ]
        if system.measured:
            # While there are Sends, `open` is whether time goes on.
            start, step = Signal(system.time_bits), Signal.like(self.wait.step)
            m.d.sync += [
                start.eq((self.time_base + self.open) + (self.jitter + stages.PUSHED)),
                step.eq(Mux(granted.new, 0, step_of(system, sending.rung))),
            ]
            m.d.comb += [
                self.wait.distance.eq(record.distance),
                self.wait.step.eq(step),
                push.eve.eq(start + self.wait.delay),
                self.stamp.valid.eq(push.valid),
                self.stamp.slot.eq(push.token.slot),
                self.stamp.try_.eq(push.token.tries),
            ]
        else:
            delays = [delay + stages.PUSHED - 1 for delay in system.delays]
            most = max(delays) + (1 << system.timers.jitter_bits) - 1
            wait = Signal(range(most + 1))
            # That of a repeat is looked up a cycle earlier; a first Send waits on a rung of the first doubling.
            numbers = [Const(delay, max(delays).bit_length()) for delay in delays]
            again = Signal.like(numbers[0])
            m.d.sync += again.eq(Array(numbers)[sending.rung])
            first = Array(numbers[: 1 << len(record.distance)])[record.distance]
            m.d.sync += wait.eq(Mux(at_distance, first, again) + self.jitter)
            m.d.comb += push.eve.eq(self.time_base + wait)
        if bits:
            self._merge(m, granted, sending, sent, serialiser)

        # The slot is in transmission until the cycle of the next possible grant.
        with m.If(judging):
            m.d.sync += self.flying.valid.eq(sent)
        with m.Elif(free):
            m.d.sync += self.flying.valid.eq(0)
        if self._system.ni.control_slots:
            m.d.comb += self.flying.next_valid.eq(Mux(judging, sent, self.flying.valid & ~free))
        # What was granted stays until then.
        m.d.comb += self.flying.slot.eq(sending.slot)
        under_way = Value.cast(granted).any() | begins | serialiser.busy
        m.d.comb += self.resting.eq(free & ~under_way)

        m.d.sync += self.finish.valid.eq((self.finish.valid & ~self.finish.ready) | ends)
        # What can finish was granted while the register was empty, and is judged alone.
        with m.If(~self.finish.valid):
            m.d.sync += [
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
        self._header(m, serialiser, is_reply, answer, token)
        self._show(m, is_reply, sent, killed, answer, token)
        return m

    def _header(self, m, serialiser, is_reply, queued, token):
        """All header bits, in *g+2*."""
        form, record = self._system.format, self.peek.row
        reply_kind = Kind.ACK
        if self._system.ni.reject:
            reply_kind = Mux(queued.reject, Kind.REJECT, reply_kind)
        kind = Signal(KIND_BITS)
        with m.If(is_reply):
            m.d.comb += kind.eq(Mux(queued.forget, Kind.FORGET, reply_kind))
        with m.Else():
            m.d.comb += kind.eq(Mux(record.best_effort, Kind.BE, Kind.SEND))

        def either(queued_value, sent_value):
            return Mux(is_reply, queued_value, sent_value)

        # The rest of a flit with a control message is its CRC.
        full = form.one_flit_control and form.common_bits + CRC16.width == form.flit_bits

        def own(sent_value):
            return sent_value if full else either(0, sent_value)

        path = {}
        if form.path_bits:
            own_path = (record.path + (token.tries >> 1))[: form.path_bits]
            if self._system.timers.path_after:
                m.d.comb += [self.route.node.eq(record.destination), self.route.wanted.eq(own_path)]
                m.d.sync += self.push.token.path.eq(self.route.taken)
                own_path = self.route.taken
            path["path"] = either(queued.path, own_path)
        bits, drivers = header_bits(
            form.send,
            {
                **path,
                "kind": kind,
                "destination": either(queued.destination, record.destination),
                "source": self.node,
                "slot": either(queued.slot, token.slot),
                "generation": either(queued.generation, token.generation),
                "incarnation": either(queued.incarnation, self.incarnation),
                "peer_incarnation": either(queued.peer_incarnation, record.expect),
                "try": either(getattr(queued, "try"), token.tries[: form.try_bits]),
                "length": own(record.length),
                "class": own(record.cls),
                "mode": own(record.best_effort),
            },
        )
        m.d.comb += [*drivers, serialiser.header.eq(bits)]

    def _show(self, m, is_reply, sent, killed, queued, token):
        """The event: known in *g+3*, shown in *g+6*."""
        record = self.peek.row
        reply_event = Event.ACK
        if self._system.ni.reject:
            reply_event = Mux(queued.reject, Event.REJECT, reply_event)
        shown, *later = (Signal(self._event, name=f"shown{i}") for i in range(stages.PUSHED, stages.SHOWN))
        with m.If(is_reply):
            m.d.sync += [
                shown.source.eq(Mux(queued.forget, self.node, queued.destination)),
                shown.incarnation.eq(queued.incarnation),
                shown.slot.eq(queued.slot),
                shown.generation.eq(queued.generation),
                shown.peer.eq(queued.destination),
            ]
        with m.Else():
            m.d.sync += [
                shown.source.eq(self.node),
                shown.incarnation.eq(self.incarnation),
                shown.slot.eq(token.slot),
                shown.generation.eq(token.generation),
                shown.peer.eq(record.destination),
            ]
        m.d.sync += [shown.tries.eq(token.tries), shown.length.eq(record.length)]
        # What of it is said is known a cycle later: what is sent and what is killed come late.
        replied, left, lost = (Signal(name=name) for name in ("replied", "left", "lost"))
        answer, worm, said = Signal(Event), Signal(Event), later[0]
        m.d.sync += [
            replied.eq(is_reply),
            left.eq(sent),
            lost.eq(killed),
            answer.eq(Mux(queued.forget, Event.FORGET, reply_event)),
            worm.eq(Mux(record.best_effort, Event.BE, Event.SEND)),
            said.eq(0),
        ]
        with m.If(replied | left | lost):
            m.d.sync += [said[name].eq(shown[name]) for name in ("source", "incarnation", "slot", "generation")]
        with m.If(replied | left):
            m.d.sync += said.peer.eq(shown.peer)
        with m.If(left):
            m.d.sync += [said.tries.eq(shown.tries), said.length.eq(shown.length)]
        with m.If(replied):
            m.d.sync += said.event.eq(answer)
        with m.Elif(lost):
            m.d.sync += said.event.eq(Event.KILLED)
        with m.Elif(left):
            m.d.sync += said.event.eq(worm)
        for before, after in pairwise([*later, self.shown]):
            m.d.sync += after.eq(before)

    def _merge(self, m, granted, sending, sent, serialiser):
        """Who asks for what is merged into the first payload flit, and what comes for it."""
        bits, length, merge = self._system.ni.merge_bits, self.peek.row.length, self.merge
        left, fresh, held_word, held_mask = Signal(), Signal(), Signal(bits), Signal(bits)
        within = Signal(-(-bits // 8))
        m.d.comb += merge.valid.eq(granted.repeat | granted.new)
        with m.If(merge.valid):
            m.d.comb += [merge[name].eq(sending[name]) for name in ("slot", "generation", "tries")]
        m.d.sync += [left.eq(sent), fresh.eq(left)]
        with m.If(sent):
            m.d.sync += within.eq(Cat(length > byte for byte in range(len(within))))
        # Word and mask come in g+4; with a header of several flits they are needed later.
        m.d.comb += [
            serialiser.word.eq(Mux(fresh, self.merge_word, held_word)),
            serialiser.mask.eq(Mux(fresh, self.merge_mask & Cat(bit.replicate(8) for bit in within)[:bits], held_mask)),
        ]
        m.d.sync += [held_word.eq(serialiser.word), held_mask.eq(serialiser.mask)]

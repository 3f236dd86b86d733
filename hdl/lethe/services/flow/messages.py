"""Messages out: taking them, attempts, the transfer to the NI, and completions (contract of flow, section 5)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.host import host_records
from lethe.lib.queue import Queue
from lethe.lib.table import Words
from lethe.ni.watch import padded
from lethe.spec.events import Cause, Status
from lethe.spec.ports import HostPort
from lethe.spec.sections.flow import WINDOW
from lethe.spec.services.flow import Flag

from .drainer import SHOWN_FLAGS
from .layouts import EntryKind, Layouts, PeerState, at_most
from .ports import UNIT

__all__ = ["MessagesOut"]

#: A stream whose limit is so near asks for another.
NEAR = 8
#: Cycles from a record's first to its first attempt, and from one attempt to the next.
FIRST, AGAIN = 2, 4


class Transfer(enum.Enum, shape=3):
    """What is under way to the NI, to the drainer, or to nobody."""

    IDLE = 0
    RECORD = 1
    HEADER = 2
    BODY = 3
    DROP = 4
    OWN = 5


class MessagesOut(wiring.Component):
    """Takes the records of the host, one after the other, and refuses, sends or keeps them.

    Parameters
    ----------
    layouts : of the configuration
    above : the port above

    Members
    -------
    node, incarnation, open, silent_soon : In
        The own; records may be taken; the node is silent in the next cycle.
    send, send_data, completion : In, In, Out(stream)
        Of the port above.
    send_below, send_data_below : Out(stream)
        Of the port below.
    attempt_stream, attempt_numbers : Out, In
        The out stream of the record that waits; two cycles later its numbers, as of the start of the cycle before.
    attempt_peer, attempt_out : Out, In
        The peer of it, and in that cycle what it is.
    sent_port, sent_number, sent_bound, own_port, own_number, own_bound, own_full, own_congested : Out, In
        What the ports are bound to, if they are, that it comes from and, to the own node, goes to; this has no free
        cell; it is congested.
    turns, turned_index : In
        A port turns, and is congested, or no more, in the next cycle.
    job_next, job_acts, job_steps, credit_next, credit_acts, accept_soon, mark_soon, journal_high : In(1)
        What no attempt may meet; ``job_next`` and ``credit_next`` are of the next cycle, the last three of the cycle
        before the attempt.
    attempt_writes, attempt_word, attempt_connects, attempt_blocked, attempt_lives : Out
        An attempt changes the numbers; the peer is wanted, or blocked; a datagram more to it.
    own_takes, own_enters, own_entry : Out
        A message to the own node: a cell is promised, and an entry for the journal.
    own_accepted, own_life : Out
        Its acceptance.
    own_cls, own_length, own_header, own_beat, own_pops, own_ends : Out, Out, Out, Out, In, In
        For the drainer.
    job_completes, job_completion, job_leaves, job_q, job_length : In
        A completion; a datagram of a socket has ended, which had so many bytes.
    send_limits, set_index, set_value : In
        The host sets a socket's limit, in units of 16 bytes.
    transfer_row : Out
        What is known of the datagram that the NI accepts next.
    admitted, refused, carried_dport, record_shown, cause_shown, seq_shown : Out
        For the trace.
    messages_idle : Out(1)
    ports_clear, ports_clear_addr : In
        The walk over ports after a reset.
    """

    def __init__(self, layouts: Layouts, above: HostPort):
        self._layouts, self._above = layouts, above
        of, form = layouts, layouts.system.format
        self._records = records = host_records(of.system, above)
        below = host_records(of.system, of.below)
        self._life = data.StructLayout({n: records["accepted"][n].shape for n in ("slot", "generation", "tag")})
        given = dict(records["send"].members)
        self._record = data.StructLayout(
            {
                name: given[name]
                for name in (
                    "destination", "cls", "mode", "length", "deadline", "retry_limit", "tag", "sport", "dport", "flags",
                )
            }
        )  # fmt: skip
        super().__init__(
            {
                "node": In(of.node_bits), "incarnation": In(form.incarnation_bits), "open": In(1), "silent_soon": In(1),
                "send": In(stream.Signature(records["send"])),
                "send_data": In(stream.Signature(form.flit_bits)),
                "completion": Out(stream.Signature(records["completion"])),
                "send_below": Out(stream.Signature(below["send"])),
                "send_data_below": Out(stream.Signature(form.flit_bits)),
                "attempt_stream": Out(of.stream_bits), "attempt_numbers": In(of.numbers),
                "attempt_peer": Out(of.node_bits), "attempt_out": In(of.sought),
                "sent_port": Out(of.port_bits), "sent_number": In(16),
                "own_port": Out(of.port_bits), "own_number": In(16),
                "sent_bound": In(1), "own_bound": In(1), "own_full": In(1), "own_congested": In(1), "turns": In(1),
                "turned_index": In(of.port_bits),
                "job_next": In(1), "job_acts": In(1), "job_steps": In(1), "credit_next": In(1), "credit_acts": In(1),
                "accept_soon": In(1), "mark_soon": In(1),
                "attempt_writes": Out(1), "attempt_word": Out(of.numbers),
                "attempt_connects": Out(1), "attempt_blocked": Out(1),
                "attempt_lives": Out(1), "journal_high": In(1),
                "own_takes": Out(1), "own_enters": Out(1), "own_entry": Out(of.journal),
                "own_accepted": Out(1), "own_life": Out(self._life),
                "own_cls": Out(form.class_bits), "own_length": Out(of.length_bits), "own_header": Out(of.header),
                "own_beat": Out(form.flit_bits), "own_pops": In(1), "own_ends": In(1),
                "job_completes": In(1), "job_completion": In(records["completion"]),
                "job_leaves": In(1), "job_q": In(of.port_bits), "job_length": In(of.length_bits),
                "send_limits": In(1), "set_index": In(of.port_bits), "set_value": In(16),
                "transfer_row": Out(of.row), "carried_dport": Out(16), "carried_destination": Out(16),
                "admitted": Out(1), "refused": Out(1), "record_shown": Out(self._record),
                "cause_shown": Out(of.cause_bits), "seq_shown": Out(8),
                "messages_idle": Out(1),
                "ports_clear": In(1), "ports_clear_addr": In(of.port_bits),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of, system = self._layouts, self._layouts.system
        form, most = system.format, of.data_slots + 4
        depth = max(of.beats, 4)
        m.submodules.records = records = Queue(self._record, 1)
        m.submodules.beats = beats = Queue(form.flit_bits, depth)
        m.submodules.completions = completions = Queue(self._records["completion"], most)
        wiring.connect(m, completions.o, wiring.flipped(self.completion))
        completed = self.completion.valid & self.completion.ready

        # Taking.  `due` beats are to come, `there` of them are here.
        due, there, owed = Signal(16 - of.byte_bits + 3), Signal(range(depth + 2)), Signal(range(most + 1))
        taken, came, went = Signal(), Signal(), Signal()
        m.d.comb += [
            self.send.ready.eq(self.open & (records.level == 0)),
            taken.eq(self.send.valid & self.send.ready),
            records.i.valid.eq(taken),
            *(records.i.payload[name].eq(self.send.payload[name]) for name in self._record.members),
            self.send_data.ready.eq(due.any() & beats.i.ready),
            came.eq(self.send_data.valid & self.send_data.ready),
            beats.i.valid.eq(came),
            beats.i.payload.eq(self.send_data.payload),
            went.eq(beats.o.valid & beats.o.ready),
        ]
        # It is known late whether a record is taken.  The bytes of a last flit that is not full count as one flit: the
        # carry of the addition.
        rest, whole = self.send.payload.length[: of.byte_bits], self.send.payload.length[of.byte_bits :]
        more = (Cat(1, due) + Cat(rest.any(), whole))[1:]
        m.d.sync += [due.eq(Mux(taken, more - came, due - came)), there.eq(there + came - went)]

        # The record that waits.  What no other unit can change is known one cycle after it is there.
        state = Signal(Transfer)
        record, wait = records.o.payload, Signal(range(AGAIN), init=FIRST)
        fixed, own, long, flits = Signal(Cause), Signal(), Signal(), Signal(16 - of.byte_bits + 1)
        is_own = record.destination == self.node
        with m.If(record.mode != 0):
            m.d.sync += fixed.eq(Cause.MODE)
        with m.Elif(record.cls >= (1 << form.class_bits) - system.ni.control_classes):
            m.d.sync += fixed.eq(Cause.CLASS)
        with m.Elif(record.destination >= of.nodes):
            m.d.sync += fixed.eq(Cause.DESTINATION)
        with m.Else():
            m.d.sync += fixed.eq(Cause.NONE)
        m.d.sync += [own.eq(is_own), long.eq(record.length > of.mtu), flits.eq(of.payload_flits(record.length))]

        # e−1: what an attempt asks of what only jobs, credits and attempts change, of which none acts in e−1 or e.  No
        # job acts in e−2 either: in that cycle the numbers of the record's stream are asked for, and a job asks first.
        m.submodules.sockets = sockets = Words(of.socket, of.ports, ("now", "attempt"))
        limit_init = system.flow_send_limit // UNIT
        m.submodules.limits = limits = Words(16, of.ports, ("now",), init=limit_init)
        q, i = record.sport[: of.port_bits], record.dport[: of.port_bits]
        peer, numbers, socket = self.attempt_out, self.attempt_numbers, sockets.now
        # ``room``: bytes that the socket may have under way beside the record, as of the start of the cycle.
        # ``beyond``: the record alone is longer than the limit.
        limit, room, beyond = Signal(16), Signal(16 + exact_log2(UNIT)), Signal()
        refusal, fatal, to_bound = Signal(Cause), Signal(), Signal()
        # ``shut``: the peer is not UP, or the node is silent; ``unconnected``: it is not UP; ``crowded``: its port is
        # congested; ``filled``: the socket is full; ``barred``: shut, crowded or fatal.
        shut, unconnected, crowded, filled, barred, alien = (Signal() for _ in range(6))
        m.d.comb += [
            limit.eq(Mux(self.send_limits & (self.set_index == q), self.set_value, limits.now)),
            alien.eq(~self.sent_bound | (self.sent_number[len(q) :] != record.sport[len(q) :])),
        ]
        m.d.sync += Cat(room, beyond).eq(Cat(Const(0, exact_log2(UNIT)), limit) - record.length)
        refused, turned = long | beyond, self.turns & (self.turned_index == i)
        hopeless = (fixed != Cause.NONE) | refused | alien
        early = (
            (shut, ~own & (self.silent_soon | ~PeerState.UP.of(peer.state))),
            (crowded, Mux(own, self.own_congested ^ turned, peer.map.bit_select(i, 1))),
            (fatal, hopeless),
        )
        m.d.sync += [
            *(found.eq(holds) for found, holds in early),
            barred.eq(Cat(holds for _, holds in early).any()),
            filled.eq(beyond | (sockets.attempt.bytes > room) | ~at_most(sockets.attempt.slots, system.flow_quota - 1)),
            unconnected.eq(~own & ~PeerState.UP.of(peer.state)),
            to_bound.eq(own & self.own_bound & (self.own_number[len(i) :] == record.dport[len(i) :])),
            refusal.eq(Mux(fixed != Cause.NONE, fixed, Mux(refused, Cause.LENGTH, Cause.NOT_BOUND))),
        ]

        # e: an attempt.
        may, cause, nowait, over_soon = Signal(), Signal(Cause), record.flags[Flag.NOWAIT], Signal()
        refuses, admits = Signal(), Signal()
        full, stuck = to_bound & self.own_full, ~own & numbers.stuck
        # One is made in the next cycle if it is time for one, a completion has room, the transfer will be IDLE, and
        # nothing is met; to the own node, if nothing is accepted in two cycles either, the journal has room, and all
        # beats are here.  (What an attempt changes of these is seen late, as is the next attempt.)
        may_other, may_own, soon, met, job_acted = (Signal() for _ in range(5))
        enough = long | Mux(went, there > flits, there >= flits)
        m.d.comb += [
            met.eq(job_acted | self.job_acts | self.job_next | self.credit_acts | self.credit_next),
            soon.eq(
                records.o.valid
                & ~may
                & (wait <= 1)
                & ((owed != most) | completed)
                & ((state == Transfer.IDLE) | over_soon)
                & ~met
            ),
        ]
        m.d.sync += [
            job_acted.eq(self.job_acts),
            may_other.eq(soon & ~own),
            may_own.eq(soon & own & ~self.accept_soon & ~self.mark_soon & ~self.journal_high & enough),
        ]
        m.d.comb += [
            self.attempt_stream.eq(of.stream(record.destination, record.dport)),
            self.attempt_peer.eq(record.destination),
            self.sent_port.eq(q),
            self.own_port.eq(i),
            sockets.now_addr.eq(Mux(self.job_steps, self.job_q, q)),
            sockets.attempt_addr.eq(q),
            limits.now_addr.eq(q),
            may.eq(may_other | may_own),
        ]
        # What stands against it, the first of which is the cause.
        against = {
            Cause.NOT_CONNECTED: shut,
            Cause.CONGESTED: crowded,
            Cause.BUFFER: filled | full,
            Cause.WINDOW: stuck,
        }
        finds = {found: Signal(name=f"finds_{found.name.lower()}") for found in against}
        m.d.comb += [finds[found].eq(holds) for found, holds in against.items()]
        stopped_other, stopped_own = barred | filled | numbers.stuck, barred | filled | full
        stopped = Mux(own, stopped_own, stopped_other)
        with m.If(fatal):
            m.d.comb += cause.eq(refusal)
        for found in against:
            with m.Elif(finds[found]):
                m.d.comb += cause.eq(found)
        # Cycles in which it has been at the output; in the next cycle it will be one more.
        asks, late, waited = Signal(), Signal(), Signal(len(record.deadline))
        final = Signal()  # it waits no longer
        goes_out, goes_own = may_other & ~stopped_other, may_own & ~stopped_own
        m.d.comb += [
            refuses.eq(final & ((may_other & stopped_other) | (may_own & stopped_own))),
            admits.eq(goes_out | goes_own),
            records.o.ready.eq((may_other & (final | ~stopped_other)) | (may_own & (final | ~stopped_own))),
            asks.eq(at_most(numbers.left, NEAR) & ~numbers.asked),
            self.attempt_connects.eq(may_other & (unconnected & ~fatal)),
            self.attempt_blocked.eq(may_other & ((crowded | (stuck & ~filled)) & ~fatal & ~shut)),
            self.attempt_writes.eq(goes_out),
            self.attempt_lives.eq(goes_out),
            self.attempt_word.eq(numbers),
            self.attempt_word.next.eq(numbers.next + 1),
            self.attempt_word.left.eq(numbers.left - 1),
            self.attempt_word.open.eq(numbers.open + 1),
            self.attempt_word.stuck.eq((numbers.left == 1) | (numbers.open == WINDOW - 1)),
            self.attempt_word.asked.eq(numbers.asked | asks),
            self.admitted.eq(admits),
            self.refused.eq(refuses),
            self.record_shown.eq(record),
            self.cause_shown.eq(Mux(late & ~fatal & ~nowait, Cause.DEADLINE, cause)),
            self.seq_shown.eq(Mux(own, 0, numbers.next)),
        ]
        longer = (waited + 1)[: len(waited)]
        elapsed = record.deadline.any() & (longer >= record.deadline)
        m.d.sync += [late.eq(elapsed), final.eq(hopeless | nowait | elapsed)]
        with m.If(~longer.all()):
            m.d.sync += waited.eq(longer)
        with m.If(~records.o.valid | records.o.ready):
            m.d.sync += [wait.eq(FIRST), waited.eq(0)]
        with m.Elif(may):
            m.d.sync += wait.eq(AGAIN - 1)
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)

        # What a socket has under way.
        less = ~padded(self.job_length, len(socket.bytes))
        m.d.comb += [
            *(table.clear.eq(self.ports_clear) for table in (sockets, limits)),
            *(table.clear_addr.eq(self.ports_clear_addr) for table in (sockets, limits)),
            limits.write_en.eq(self.send_limits),
            limits.write_addr.eq(self.set_index),
            limits.write.eq(self.set_value),
            sockets.write_en.eq(self.job_leaves | goes_out),
            sockets.write_addr.eq(sockets.now_addr),
            # Less a length, or plus one, by one adder: a bit below the lowest makes the carry that a difference needs.
            sockets.write.bytes.eq(
                (Cat(1, socket.bytes) + Cat(self.job_leaves, Mux(self.job_leaves, less, record.length)))[1:]
            ),
            sockets.write.slots.eq(Mux(self.job_leaves, socket.slots - 1, socket.slots + 1)),
        ]

        # Completions, and the slot of refused messages and of those to the own node.
        generation = Signal(form.generation_bits)
        ending, answers = completions.i.payload, Signal()
        m.d.comb += [
            answers.eq((final & may_other & stopped_other) | (may_own & (final | ~stopped_own))),
            completions.i.valid.eq(self.job_completes | answers),
            ending.eq(self.job_completion),
        ]
        with m.If(~self.job_completes):
            m.d.comb += [
                ending.slot.eq(of.slots),
                ending.generation.eq(generation),
                ending.destination.eq(record.destination),
                ending.tag.eq(record.tag),
                ending.status.eq(Mux(stopped, Status.REJECTED, Status.ACCEPTED)),
                ending.cause.eq(Mux(stopped, self.cause_shown, Cause.NONE)),
                ending.peer_incarnation.eq(Mux(stopped, 0, self.incarnation)),
            ]
        m.d.comb += [
            self.own_accepted.eq(goes_own),
            self.own_life.slot.eq(of.slots),
            self.own_life.generation.eq(generation),
            self.own_life.tag.eq(record.tag),
            self.own_takes.eq(goes_own & to_bound),
            self.own_enters.eq(goes_own),
            self.own_entry.kind.eq(EntryKind.OWN),
            self.own_entry.index.eq(i),
            self.own_entry.source.eq(self.node),
            self.own_entry.count.eq(to_bound),
        ]
        with m.If(answers):
            m.d.sync += generation.eq(generation + 1)
        with m.If(records.o.ready ^ completed):
            m.d.sync += owed.eq(owed + Mux(completed, -1, 1))

        self._transfer(m, state, admits, refuses, own, asks, beats, flits, over_soon)
        m.d.comb += self.messages_idle.eq(
            records.empty & beats.empty & (state == Transfer.IDLE) & (owed == 0) & completions.empty
        )
        return m

    def _transfer(self, m, state, admits, refuses, own, asks, beats, flits, ends):
        of, form = self._layouts, self._layouts.system.format
        record, numbers = self.record_shown, self.attempt_numbers
        left, header_at = Signal(16 - of.byte_bits + 1), Signal(range(max(2, of.header_beats)))
        held, header, row = Signal(self._record), Signal(of.header), Signal(of.row)
        whole = Signal(self.send_below.payload.length.shape())  # with the header
        expect, path = Signal(form.incarnation_bits), Signal(of.paths_bits)
        send = self.send_below.payload
        wide = padded(header, max(64, form.flit_bits))
        with m.If(admits | refuses):
            m.d.sync += [
                left.eq(flits),
                header_at.eq(0),
                held.eq(record),
                whole.eq(record.length + of.header_bytes),
                expect.eq(self.attempt_out.incarnation),
                *(
                    [path.eq(of.path(record.destination, record.dport, self.attempt_out.paths))]
                    if of.paths_bits
                    else []
                ),
                header.seq.eq(self.seq_shown),
                header.flags.eq((record.flags & SHOWN_FLAGS) | (Mux(own, 0, asks) << Flag.ASK)),
                header.sport.eq(record.sport),
                header.dport.eq(record.dport),
                row.node.eq(record.destination),
                row.index.eq(record.dport),
                row.q.eq(record.sport),
                row.seq.eq(numbers.next),
                row.length.eq(record.length),
            ]
        header_goes = self.send_data_below.valid & self.send_data_below.ready
        part = wide if of.header_beats == 1 else wide.word_select(header_at, form.flit_bits)
        m.d.comb += [
            self.send_below.valid.eq(state == Transfer.RECORD),
            send.destination.eq(held.destination),
            # The reserve of the NI looks at the class of what is offered, valid or not.
            send.cls.eq(Mux(state == Transfer.RECORD, held.cls, 0)),
            send.length.eq(whole),
            send.deadline.eq(held.deadline),
            send.retry_limit.eq(held.retry_limit),
            send.tag.eq(held.tag),
            send.expect.eq(expect),
            *([send.path.eq(path)] if of.has_paths else []),
            self.transfer_row.eq(row),
            self.carried_dport.eq(held.dport),
            self.carried_destination.eq(held.destination),
            self.own_cls.eq(held.cls),
            self.own_length.eq(held.length),
            self.own_header.eq(header),
            self.own_beat.eq(self.send_data_below.payload),
            self.send_data_below.payload.eq(Mux((state == Transfer.BODY) | self.own_pops, beats.o.payload, part)),
        ]
        with m.Switch(state):
            with m.Case(Transfer.IDLE):
                with m.If(refuses & flits.any()):
                    m.d.sync += state.eq(Transfer.DROP)
                with m.Elif(admits):
                    m.d.sync += state.eq(Mux(own, Transfer.OWN, Transfer.RECORD))
            with m.Case(Transfer.RECORD), m.If(self.send_below.ready):
                m.d.sync += state.eq(Transfer.HEADER)
            with m.Case(Transfer.HEADER):
                m.d.comb += self.send_data_below.valid.eq(1)
                with m.If(header_goes):
                    m.d.sync += header_at.eq(header_at + 1)
                    with m.If(header_at == of.header_beats - 1):
                        m.d.sync += state.eq(Mux(left.any(), Transfer.BODY, Transfer.IDLE))
                        m.d.comb += ends.eq(~left.any())
            with m.Case(Transfer.BODY):
                m.d.comb += [
                    self.send_data_below.valid.eq(beats.o.valid),
                    beats.o.ready.eq(self.send_data_below.ready),
                ]
                with m.If(header_goes):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 1):
                        m.d.sync += state.eq(Transfer.IDLE)
                        m.d.comb += ends.eq(1)
            with m.Case(Transfer.DROP):
                m.d.comb += beats.o.ready.eq(1)
                with m.If(beats.o.valid):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 1):
                        m.d.sync += state.eq(Transfer.IDLE)
                        m.d.comb += ends.eq(1)
            with m.Case(Transfer.OWN):
                m.d.comb += beats.o.ready.eq(self.own_pops)
                with m.If(self.own_ends):
                    m.d.sync += state.eq(Transfer.IDLE)
                    m.d.comb += ends.eq(1)

"""Flow: messages to ports, in order, with credits and congestion (contract of flow)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import Out

from lethe.lib.table import Table
from lethe.ni.watch import event_word, padded, uid_word, when
from lethe.services.service import ServiceTrace, ServiceUnit
from lethe.spec.events import CAUSE_BITS, Event
from lethe.spec.services.flow import FLOW
from lethe.spec.trace import WORD_BITS

from .acceptance import Acceptance
from .control import ControlIn, ControlOut, Notices
from .drainer import Drainer
from .jobs import Jobs
from .layouts import NUMBER_BITS, Layouts
from .limits import Limits
from .messages import MessagesOut
from .peers import Peers
from .ports import Ports
from .reader import PortReader
from .rows import Rows

__all__ = ["Flow"]


class Flow(ServiceUnit):
    """Ports, order, credits and congestion.

    Its blocks are joined by name: a member of one is driven by the one of the same name that another shows.  All tables
    of streams are here; whoever writes one never does so in the cycle of another.
    """

    service = FLOW
    booted = True
    resets_with_ni = True
    made = (
        "idle", "ready", "send", "send_data", "completion", "accepted", "deliver", "deliver_data", "cancel",
    )  # fmt: skip

    def serve(self, m: Module) -> ServiceTrace:
        system, below, above = self.system, self.below, self.above
        port = self.service.above(system, self.port)
        of = Layouts(system, self.port)
        m.submodules.messages = messages = MessagesOut(of, port)
        m.submodules.acceptance = acceptance = Acceptance(of)
        m.submodules.drainer = drainer = Drainer(of)
        m.submodules.reader = reader = PortReader(of, port)
        m.submodules.ports = ports = Ports(of)
        m.submodules.peers = peers = Peers(of, port)
        m.submodules.limits = limits = Limits(of)
        m.submodules.rows = rows = Rows(of)
        m.submodules.notices = notices = Notices(of)
        m.submodules.told = told = ControlOut(of)
        m.submodules.heard = heard = ControlIn(of)
        m.submodules.jobs = jobs = Jobs(of, port)

        # The walk after a reset, and the silence.
        walk, walked = Signal(range(of.initial)), Signal()
        # Registers clear the tables, a cycle later than the walk counts: the last word in the first cycle in which flow
        # is ready.  Nothing is written or needed in that cycle.
        clear, clear_addr = Signal(init=1), Signal(range(of.initial))
        m.d.sync += [clear.eq(~walked), clear_addr.eq(walk)]
        silence, quiet, ready = Signal(range(system.flow_silence)), Signal(), Signal()
        # Tables of ports and of nodes are cleared by walks of their own: the wires of one walk for all were too long.
        cleared = {
            **self._cleared(m, "ports", of.ports), **self._cleared(m, "nodes", of.nodes),
            "clear": clear, "clear_addr": clear_addr,
        }  # fmt: skip
        m.d.comb += ready.eq(walked & below.ready)
        with m.If(~walked):
            m.d.sync += [walk.eq(walk + 1), walked.eq(walk == of.initial - 1)]
        with m.If(ready & ~quiet):
            m.d.sync += [silence.eq(silence + 1), quiet.eq(silence == system.flow_silence - 1)]

        wires: dict[str, Value] = {
            "node": self.node, "incarnation": self.incarnation, "boot": self.boot, "ready": ready, "silent": ~quiet,
            "silent_soon": ~quiet & ~(ready & (silence == system.flow_silence - 1)),
            "open": ready & ~above.quiesce, **cleared,
            "receive_mask": above.receive_mask,
            "arrival": below.arrival, "delivered": below.delivered, "accepted": below.accepted, "merge": below.merge,
            "control_open": below.send_control.ready,
            "enters": acceptance.accept_enters | messages.own_enters | jobs.run_enters,
            # Whose turn it is, is known before it is known whether there is one.
            "entry": Mux(
                acceptance.accept_now,
                acceptance.accept_entry,
                Mux(jobs.job_acts, jobs.run_entry, messages.own_entry),
            ),
            **self._tables(m, of, acceptance, drainer, limits, messages, rows, jobs, clear, clear_addr),
        }  # fmt: skip
        self._join(
            m, (messages, acceptance, drainer, limits, reader, ports, peers, rows, notices, told, heard, jobs), wires
        )  # fmt: skip

        # The ports above and below.
        for source, sink in (
            (above.send, messages.send),
            (above.send_data, messages.send_data),
            (messages.completion, above.completion),
            (messages.send_below, below.send),
            (messages.send_data_below, below.send_data),
            (told.send_control, below.send_control),
            (told.send_control_data, below.send_control_data),
            (below.deliver, drainer.deliver),
            (below.deliver_data, drainer.deliver_data),
            (below.deliver_control1, heard.deliver),
            (below.deliver_control1_data, heard.deliver_data),
            (reader.deliver, above.deliver),
            (reader.deliver_data, above.deliver_data),
            (below.completion, jobs.completion),
            (above.set, jobs.set),
            (jobs.sweep, below.sweep),
            (peers.notice, above.notice),
        ):
            m.d.comb += [sink.valid.eq(source.valid), sink.payload.eq(source.payload), source.ready.eq(sink.ready)]
        # A ready above is that of a handshake only while the port is not silenced, and so is a valid.
        m.d.comb += [
            below.refusal.eq(acceptance.refusal),
            below.merge_word.eq(rows.merge_word),
            below.merge_mask.eq(rows.merge_mask),
            above.ready.eq(ready),
            above.answer.eq(jobs.answer),
            above.readable.eq(reader.readable),
            above.congested.eq(ports.congested),
            above.idle.eq(
                below.idle
                & ready
                & messages.messages_idle
                & drainer.journal_empty
                & drainer.drainer_idle
                & reader.reader_idle
                & ports.nothing_used
                & told.control_idle
                & notices.nothing_to_tell
                & peers.no_notices
                & jobs.jobs_idle
                & ~heard.heard
                & ~jobs.cancel.valid
            ),
        ]
        own, accepted = messages.own_accepted, below.accepted
        m.d.comb += [
            above.accepted.valid.eq(own | (accepted.valid & ~accepted.control)),
            *(
                above.accepted[name].eq(Mux(own, messages.own_life[name], accepted[name]))
                for name in ("slot", "generation", "tag")
            ),
        ]
        with m.If(jobs.cancel.valid):
            m.d.comb += [
                below.cancel.valid.eq(1),
                below.cancel.payload.eq(jobs.cancel.payload),
                jobs.cancel.ready.eq(below.cancel.ready),
            ]
        with m.Elif(above.cancel.payload.slot >= of.data_slots):
            m.d.comb += above.cancel.ready.eq(1)
        with m.Else():
            m.d.comb += [
                below.cancel.valid.eq(above.cancel.valid),
                *(below.cancel.payload[name].eq(above.cancel.payload[name]) for name in ("slot", "generation")),
                above.cancel.ready.eq(below.cancel.ready),
            ]
        return self._trace(acceptance, drainer, limits, reader, ports, messages, peers, jobs)

    def _tables(self, m, of, acceptance, drainer, limits, messages, rows, jobs, clear, clear_addr) -> dict[str, Value]:
        """What is kept of every stream, and what of it each block sees."""
        # The ends are those of jobs, which ask for them when nothing has been written for long.
        m.submodules.numbers = numbers = Table(of.numbers, of.streams, ("now",), late=True, init=of.new_numbers)
        m.submodules.ends = ends = Table(of.ends, of.streams, ("late",), carries=False)
        m.submodules.receiving = receiving = Table(of.receiving, of.streams, ("now",), late=True, init=of.new_receiving)
        m.submodules.expected = expected = Table(NUMBER_BITS, of.streams, ("merge",), late=True)
        now, word = Signal(of.stream_bits), Signal(of.receiving)
        for table in (numbers, ends, receiving, expected):
            m.d.comb += [table.clear.eq(clear & (clear_addr < of.streams)), table.clear_addr.eq(clear_addr)]
        m.d.comb += [
            # What acts in two cycles asks now: a credit, or a job, beside which no attempt is made; or else an attempt.
            numbers.now_addr.eq(
                Mux(
                    drainer.credit_soon,
                    drainer.credit_stream,
                    Mux(jobs.job_asks, jobs.job_stream, messages.attempt_stream),
                )
            ),
            ends.late_addr.eq(jobs.job_ends_at),
            # A credit is written whether it raises the limit or not: that is known late.
            numbers.write_en.eq(messages.attempt_writes | drainer.credit_acts | jobs.job_numbers_writes),
            ends.write_en.eq(jobs.job_ends_writes),
            ends.write_addr.eq(jobs.job_at),
            ends.write.eq(jobs.job_ends_word),
            # Whose message is judged in two cycles, or else a job that acts then.
            now.eq(Mux(acceptance.accept_reads, acceptance.accept_stream, jobs.job_in_stream)),
            receiving.now_addr.eq(now),
            receiving.write_en.eq(acceptance.accept_writes | jobs.job_in_writes),
            # Whose turn it is, is known before it is known whether it writes.
            receiving.write_addr.eq(Mux(acceptance.accept_now, acceptance.accept_at, jobs.job_in_at)),
            word.eq(Mux(acceptance.accept_now, acceptance.accept_word, jobs.job_in_word)),
            receiving.write.eq(word),
            expected.merge_addr.eq(rows.merge_stream),
            expected.write_en.eq(receiving.write_en),
            expected.write_addr.eq(receiving.write_addr),
            expected.write.eq(word.expected),
        ]
        with m.If(drainer.credit_acts):
            m.d.comb += [numbers.write_addr.eq(drainer.credit_at), numbers.write.eq(numbers.now)]
        with m.Elif(jobs.job_steps):
            m.d.comb += [numbers.write_addr.eq(jobs.job_at), numbers.write.eq(jobs.job_numbers)]
        with m.Else():
            m.d.comb += [numbers.write_addr.eq(messages.attempt_stream), numbers.write.eq(messages.attempt_word)]
        with m.If(limits.raises):
            m.d.comb += [
                numbers.write.left.eq(limits.raised_left), numbers.write.limit.eq(limits.raised_limit),
                numbers.write.asked.eq(0), numbers.write.stuck.eq(limits.raised_stuck),
            ]  # fmt: skip
        return {
            "attempt_numbers": numbers.now_before, "numbers": numbers.now, "ends": ends.late,
            "accept_in": receiving.now, "merge_expected": expected.merge_before,
        }  # fmt: skip

    def _cleared(self, m, name: str, size: int) -> dict[str, Value]:
        """The first ``size`` cycles after a reset, and which of them it is."""
        clears, at = Signal(init=1, name=f"{name}_clear"), Signal(range(size), name=f"{name}_clear_addr")
        with m.If(clears):
            m.d.sync += [at.eq(at + 1), clears.eq(at != size - 1)]
        return {f"{name}_clear": clears, f"{name}_clear_addr": at}

    def _join(self, m, blocks, wires):
        """Drives every input of the blocks that is no stream from the wire, or the output, of its name."""
        for block in blocks:
            for name, member in block.signature.members.items():
                if member.is_port and member.flow == Out:
                    assert name not in wires, f"{name} is driven twice"
                    wires[name] = getattr(block, name)
        for block in blocks:
            for name, member in block.signature.members.items():
                if member.is_port and member.flow != Out:
                    m.d.comb += getattr(block, name).eq(wires[name])

    def _trace(self, acceptance, drainer, limits, reader, ports, messages, peers, jobs) -> ServiceTrace:
        above, of_carry = self.above, messages.transfer_row
        record, accepted = messages.record_shown, self.below.accepted
        got, gone, ended = above.deliver.payload, reader.flushed_word, above.completion.payload
        took = above.deliver.valid & above.deliver.ready
        completed = above.completion.valid & above.completion.ready
        carried = accepted.valid & ~accepted.control
        committed = acceptance.shown_commit | acceptance.shown_ignored
        spoken = jobs.shown_told | jobs.shown_heard
        left = {name: Mux(took, got[name], gone[name]) for name in ("source", "length", "dport", "seq")}

        def either(condition, one: Event, other: Event):
            return Mux(condition, Const(one, 8), Const(other, 8))

        lanes = (
            (
                event_word(
                    either(messages.refused, Event.FLOW_REFUSED, Event.FLOW_SEND),
                    detail=Mux(messages.refused, messages.cause_shown, messages.seq_shown),
                    peer=record.destination,
                    length=record.length,
                    extra=record.tag,
                ),
                messages.admitted | messages.refused,
            ),
            (
                event_word(
                    Const(Event.FLOW_CARRY, 8),
                    detail=of_carry.seq,
                    peer=messages.carried_destination,
                    length=of_carry.length,
                    extra=messages.carried_dport,
                ),
                carried,
            ),
            (
                event_word(
                    either(acceptance.shown_commit, Event.FLOW_COMMIT, Event.FLOW_IGNORED),
                    detail=acceptance.shown_seq,
                    peer=acceptance.shown_source,
                    length=acceptance.shown_length,
                    extra=acceptance.shown_dport,
                ),
                committed,
            ),
            (
                event_word(
                    Const(Event.FLOW_PLACE, 8),
                    detail=drainer.append_seq,
                    peer=drainer.append_source,
                    extra=drainer.append_port,
                ),
                drainer.appends,
            ),
            (
                event_word(
                    either(took, Event.FLOW_TAKE, Event.FLOW_FLUSHED),
                    detail=left["seq"],
                    peer=left["source"],
                    length=left["length"],
                    extra=left["dport"],
                ),
                took | reader.flushed,
            ),
            (
                event_word(
                    Const(Event.FLOW_END, 8),
                    detail=Cat(padded(ended.cause, CAUSE_BITS), ended.status),
                    peer=ended.destination,
                    extra=ended.tag,
                ),
                completed,
            ),
            (
                event_word(
                    either(jobs.shown_told, Event.FLOW_TOLD, Event.FLOW_HEARD),
                    detail=jobs.control_shown,
                    peer=jobs.job_peer,
                    extra=jobs.extra_shown,
                ),
                spoken,
            ),
            (
                event_word(
                    either(peers.changes, Event.FLOW_PEER, Event.FLOW_CONGESTED),
                    detail=Mux(peers.changes, peers.changed_state, ports.turned),
                    peer=Mux(peers.changes, peers.changed, 0),
                    extra=Mux(peers.changes, 0, ports.turned_index),
                ),
                peers.changes | ports.turns,
            ),
        )
        uid = uid_word(self.node, self.incarnation, accepted.slot, accepted.generation)
        beats = above.deliver_data
        bits = (
            above.send.ready, above.send_data.ready, above.completion.valid, above.deliver.valid, beats.valid,
            beats.valid & beats.payload.last, above.cancel.ready, above.set.ready, above.notice.valid, above.idle,
        )  # fmt: skip
        return ServiceTrace(
            lanes=[
                (when(happens, word), when(carried, uid) if lane == 1 else Const(0, WORD_BITS))
                for lane, (word, happens) in enumerate(lanes)
            ],
            flags=(*bits, Const(0, 16 - len(bits)), padded(above.readable, 16), padded(above.congested, 16)),
            beat=beats,
            pulses=(
                messages.admitted, messages.refused, carried, acceptance.shown_commit, acceptance.shown_ignored,
                drainer.appends, took, reader.flushed, completed, jobs.shown_told, jobs.shown_heard, ports.turns,
                peers.changes, jobs.control_ignored, limits.raises & drainer.credit_acts,
            ),
            reset=Event.FLOW_RESET,
            lost=ports.all_used,
        )  # fmt: skip

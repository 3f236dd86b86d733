"""Jobs: everything that is done one after the other (contract of flow, section 9)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.ni.watch import padded
from lethe.spec.events import Cause, Status
from lethe.spec.ports import HostPort
from lethe.spec.sections.flow import WINDOW
from lethe.spec.services.flow import CODE_BITS, CONTROL_WORDS, Code
from lethe.spec.services.flow import In as Source
from lethe.spec.services.flow import Out as Peer
from lethe.spec.trace import WORD_BITS

from .acceptance import passed
from .layouts import COUNT_BITS, NUMBER_BITS, EntryKind, Layouts, Operation, ahead, control_fields
from .ports import MOST_ROOM
from .reader import first_of
from .rows import LEAST_CREDIT

__all__ = ["Jobs"]

#: Ways that there are to a peer.
PATHS = 1
#: A mute source that was asked so often is closed.
MOST_AGE = 7
#: A peer with numbers that are not finished when it is connected to again is probed so often.
MOST_WANTED = 7
#: Cycles in which a job that has begun asks no table, and cycles behind a data message in which no VOID acts.
REST, QUIET = 2, 2
#: Cycles after a first failed probe, halved, and how often they double.
PAUSE, DOUBLINGS = 64, 4


class Job(enum.Enum, shape=3):
    """The jobs, in the order in which they are asked."""

    COMPLETION = 0
    CONTROL = 1
    SET = 2
    TICK = 3
    SEND = 4
    PROBE = 5
    CANCEL = 6
    TASK = 7


class Phase(enum.Enum, shape=3):
    NONE = 0
    FLUSH = 1
    ROWS = 2
    SWEEP = 3
    LAST = 4


class Aim(enum.Enum, shape=2):
    OPEN = 0
    UP = 1
    CLOSE = 2


def _turned(m: Module, bits, places) -> Value:
    """Bits turned to the left by so many places: those that leave at the top come in at the bottom."""
    for stage, by in enumerate(places):
        turned = Signal(len(bits), name=f"turned{stage}")
        m.d.comb += turned.eq(Mux(by, Value.cast(bits).rotate_left(1 << stage), bits))
        bits = turned
    return bits


def length_of(bits):
    """The number of the highest 1, counted from 1; 0 if there is none."""
    found = Const(0, COUNT_BITS)
    for i, bit in enumerate(bits):
        found = Mux(bit, i + 1, found)
    return found


class Jobs(wiring.Component):
    """Begins one job after the other, and does each in the first cycle in which it may act.

    A step is *issued* two cycles before it acts: then it asks the tables.

    Parameters
    ----------
    layouts : of the configuration
    above : the port above

    Members
    -------
    node, boot : In
    ready, silent : In(1)
    accept_reads, mark_soon, accept_now, credit_soon : In(1)
        A data message acts in three cycles, in two, in this; a credit in two.
    job_acts : Out(1)
        A job makes a step in this cycle.
    completion, set, answer, cancel, sweep : In, In, Out, Out, Out
        Of the ports below and above.

    All others are those of the other blocks, by their names.
    """

    def __init__(self, layouts: Layouts, above: HostPort):
        self._layouts = layouts
        of, form = layouts, layouts.system.format
        below, up = host_records(of.system, of.below), host_records(of.system, above)
        self._shapes = (below, up)
        super().__init__(
            {
                "node": In(of.node_bits), "boot": In(32), "ready": In(1), "silent": In(1),
                "accept_reads": In(1), "mark_soon": In(1), "accept_now": In(1), "credit_soon": In(1),
                "job_acts": Out(1),
                "completion": In(stream.Signature(below["completion"])),
                "set": In(stream.Signature(up["set"])), "answer": Out(up["answer"]),
                "cancel": Out(stream.Signature(below["cancel"])),
                "sweep": Out(stream.Signature(below["sweep"])),
                # Rows.
                "ended_slot": Out(of.slot_bits), "ended_row": In(of.row), "ended_control": In(of.control_row),
                "ended_carried": In(1), "ended_credit": In(NUMBER_BITS),
                "looked_slot": Out(of.slot_bits), "looked_node": In(of.node_bits), "looked_lives": In(1),
                "looked_life": In(below["cancel"]), "row_ends": Out(1), "row_forgets": Out(1),
                "told_forgets": Out(1),
                # Streams.
                "job_stream": Out(of.stream_bits), "numbers": In(of.numbers), "ends": In(of.ends),
                "job_numbers_writes": Out(1), "job_ends_writes": Out(1), "job_at": Out(of.stream_bits),
                "job_numbers": Out(of.numbers), "job_ends_word": Out(of.ends),
                "job_in_stream": Out(of.stream_bits), "accept_in": In(of.receiving),
                "job_in_writes": Out(1), "job_in_at": Out(of.stream_bits), "job_in_word": Out(of.receiving),
                # Peers.
                "job_peer": Out(of.node_bits), "peer_out": In(of.out), "peer_in": In(of.in_), "peer_life": In(of.life),
                "peer_lives": In(1), "out_writes": Out(1), "out_word": Out(of.out), "in_writes": Out(1),
                "in_word": Out(of.in_), "life_writes": Out(1), "life_word": Out(of.life), "lives_more": Out(1),
                "lives_less": Out(1), "notices": Out(1), "seeks": In(of.nodes), "mute": In(of.nodes),
                "fled": In(1), "looked_leaves": In(1), "troubled": In(1),
                # Notices and control.
                "notice_stream": Out(of.stream_bits), "operation": Out(Operation), "notice_code": Out(3),
                "notice_index": Out(of.port_bits), "tell_valid": In(1), "tell": In(of.notice), "tell_pops": Out(1),
                "control_idle": In(1), "control_open": In(1), "tells": Out(1), "told_word": Out(WORD_BITS),
                "told_row": Out(of.control_row), "told_expect": Out(form.incarnation_bits),
                "heard": In(1), "word": In(WORD_BITS), "heard_source": In(of.node_bits),
                "heard_incarnation": In(form.incarnation_bits), "heard_whole": In(1), "heard_done": Out(1),
                # MessagesOut.
                "job_completes": Out(1), "job_completion": Out(up["completion"]), "job_leaves": Out(1),
                "job_q": Out(of.port_bits), "job_length": Out(of.length_bits), "send_limits": Out(1),
                # Ports.
                "binds": Out(1), "unbinds": Out(1), "limits": Out(1), "set_index": Out(of.port_bits),
                "set_value": Out(16), "bound": In(of.ports), "readable": In(of.ports), "congested": In(of.ports),
                "turns": In(1), "nothing_used": In(1), "used_moves": In(1), "job_port": Out(of.port_bits),
                "job_room": In(range(MOST_ROOM + 1)),
                # Acceptance.
                "job_bits": Out(2 * WINDOW), "job_passes": Out(COUNT_BITS), "shifted": In(2 * WINDOW),
                # Drainer.
                "run_enters": Out(1), "run_entry": Out(of.journal), "journal_high": In(1),
                # What is seen.
                "jobs_idle": Out(1), "shown_told": Out(1), "shown_heard": Out(1), "control_shown": Out(3),
                "extra_shown": Out(16), "control_ignored": Out(1), "window_raises": Out(1),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        self._choose(m)
        self._steps(m)
        self._walks(m)
        self._finishing(m)
        self._defaults(m)
        self._words(m)
        with m.If(self._act), m.Switch(self._job):
            with m.Case(Job.COMPLETION):
                self._completion(m)
            with m.Case(Job.CONTROL):
                self._control(m)
            with m.Case(Job.SET):
                self._set(m)
            with m.Case(Job.TICK):
                self._tick(m)
            with m.Case(Job.SEND):
                self._send(m)
            with m.Case(Job.PROBE):
                self._probe(m)
            with m.Case(Job.CANCEL):
                self._cancel(m)
            with m.Case(Job.TASK):
                self._task_job(m)
        self._changes(m)
        return m

    # b: the choice.

    def _choose(self, m):
        of = self._layouts
        self._busy, self._job, last = Signal(), Signal(Job), Signal(3, init=7)
        self._peer, self._index, self._q = Signal(of.node_bits), Signal(of.port_bits), Signal(of.port_bits)
        self._code, self._seq, self._carried = Signal(3), Signal(NUMBER_BITS), Signal()
        self._map, self._length, self._credit = Signal(16), Signal(of.length_bits), Signal(NUMBER_BITS)
        self._probed, self._of_control = Signal(), Signal()
        self._ending = Signal(self._shapes[1]["completion"])
        # Tick: the walk.  Probe: what is under way.  Cancel: the pointer.  Task.
        self._walking, self._walk_node = Signal(), Signal(of.node_bits)
        self._asked = Signal(3)  # ages, watches, map
        self._probing, self._probe_node = Signal(), Signal(of.node_bits)
        self._last_probed = Signal(of.node_bits, init=of.nodes - 1)
        longest = max(of.system.flow_silence, PAUSE << DOUBLINGS)
        self._pause, self._failures = Signal(range(longest + 1)), Signal(range(DOUBLINGS + 1))
        self._pointer = Signal(of.slot_bits)
        self._phase, self._flushed = Signal(Phase), Signal(of.port_bits)
        task = data.StructLayout(
            {
                "aim": Aim, "node": of.node_bits, "boot": 32, "round": 8,
                "incarnation": of.system.format.incarnation_bits, "sweep": 1,
            }
        )  # fmt: skip
        self._task = Signal(task)
        self._has_task = self._phase != Phase.NONE

        sends = ~self.silent & self.control_idle & self.control_open
        sought, statements = first_of(self.seeks | self.mute, self._last_probed)
        m.d.comb += statements
        ask = Signal(8)
        m.d.comb += ask.eq(
            Cat(
                self.completion.valid,
                self.heard,
                self.set.valid,
                self._walking | self._asked.any(),
                sends & self.tell_valid,
                sends & ~self._probing & ~self._pause.any() & (self.seeks | self.mute).any(),
                ~self.cancel.valid & self.fled,
                (self._phase == Phase.FLUSH) | (self._phase == Phase.ROWS) | (self._phase == Phase.LAST),
            )
        )
        first, statements = first_of(ask, last)
        begins, chosen = Signal(), Signal(3)
        m.d.comb += [*statements, chosen.eq(first), begins.eq(self.ready & ~self._busy & ask.any())]
        completion, tell, row, control = self.completion.payload, self.tell, self.ended_row, self.ended_control
        self._begins, self._chosen = begins, chosen
        m.d.comb += [
            self.ended_slot.eq(completion.slot),
            self.completion.ready.eq(begins & (chosen == Job.COMPLETION.value)),
            self.row_ends.eq(self.completion.ready),
            self.tell_pops.eq(begins & (chosen == Job.SEND.value)),
        ]
        peer, index = Signal(of.node_bits), Signal(of.port_bits)
        of_control = completion.slot >= of.data_slots
        with m.Switch(chosen):
            with m.Case(Job.COMPLETION):
                m.d.comb += [
                    peer.eq(Mux(of_control, control.node, row.node)),
                    index.eq(Mux(of_control, control.index, row.index)),
                ]
            with m.Case(Job.CONTROL):
                m.d.comb += [peer.eq(self.heard_source), index.eq(self.word[CODE_BITS:])]
            with m.Case(Job.SET):
                m.d.comb += index.eq(self.set.payload.index)
            with m.Case(Job.TICK):
                m.d.comb += peer.eq(self._walk_node)
            with m.Case(Job.SEND):
                m.d.comb += [peer.eq(tell.node), index.eq(tell.index)]
            with m.Case(Job.PROBE):
                m.d.comb += peer.eq(sought)
            with m.Case(Job.TASK):
                m.d.comb += [peer.eq(self._task.node), index.eq(self._flushed)]
        with m.If(begins):
            m.d.sync += [
                self._busy.eq(1),
                self._job.eq(chosen),
                last.eq(chosen),
                self._peer.eq(peer),
                self._index.eq(index),
                self._q.eq(Mux((chosen == Job.COMPLETION.value) & ~of_control, row.q, index)),
                self._code.eq(Mux(chosen == Job.COMPLETION.value, control.code, tell.code)),
                self._of_control.eq(of_control),
                self._seq.eq(Mux(of_control, control.base, row.seq)),
                self._map.eq(control.map),
                self._length.eq(row.length),
                self._credit.eq(Mux(of_control, control.credit, self.ended_credit)),
                self._carried.eq(self.ended_carried),
                self._probed.eq(control.probe),
                *(self._ending[name].eq(completion[name]) for name in completion.shape().members),
            ]
            with m.If(chosen == Job.PROBE.value):
                m.d.sync += self._last_probed.eq(sought)

    # Steps.

    def _steps(self, m):
        of = self._layouts
        most = max(of.ports + 2, of.slots)
        issued = Signal(range(most + 4))
        coming, now = Signal(), Signal()
        coming_step, step = Signal.like(issued), Signal.like(issued)
        rests = Signal(REST)  # cycles between the choice and the first issue
        after = Signal(QUIET)  # cycles after a data message
        self._act, self._last, self._step = Signal(), Signal(), step
        self._steps_left = Signal(range(most + 1))  # those after the first, as the first has found
        self._resets_left, self._marks_map = Signal(range(of.ports + 1)), Signal()
        code = self.word[:CODE_BITS]
        is_void = (self._job == Job.CONTROL) & self.heard_whole & (code == Code.VOID)
        is_flush = (self._job == Job.TASK) & (self._phase == Phase.FLUSH)
        goes = Signal()
        m.d.comb += [
            self._act.eq(now & ~((is_void | is_flush) & self.journal_high) & ~(is_void & after.any())),
            self.job_acts.eq(self._act),
            goes.eq(self._busy & rests[-1] & ~self.accept_reads & ~self.mark_soon & ~self.credit_soon),
            self.heard_done.eq((self._job == Job.CONTROL) & self._act & self._last),
        ]
        m.d.sync += [
            coming.eq(goes), now.eq(coming), coming_step.eq(issued), step.eq(coming_step),
            rests.eq(Cat(self._busy, rests)), after.eq(Cat(self.accept_now, after)),
        ]  # fmt: skip
        with m.If(goes & ~is_void & ~is_flush):
            m.d.sync += issued.eq(issued + 1)
        with m.If(self._act & self._last):
            m.d.sync += [self._busy.eq(0), coming.eq(0), now.eq(0), issued.eq(0), rests.eq(0)]

        # What is asked for when a step is issued.
        revived = Signal(of.port_bits)
        m.d.comb += [
            revived.eq(issued - Mux(self._job == Job.CONTROL, 2, 1)),
            self.job_stream.eq(of.stream(self._peer, Mux(self._job == Job.TICK, issued - 1, self._index))),
            self.job_in_stream.eq(of.stream(self._peer, self._q)),
            self.notice_stream.eq(of.stream(self._peer, Mux(issued.any(), revived, self._index))),
            self.job_peer.eq(self._peer),
            self.job_port.eq(self._index),
            self.looked_slot.eq(Mux(self._job == Job.TASK, step, self._pointer)),
        ]

    def _walks(self, m):
        """The counters that ask for walks, the pause of the probe, and the phases without jobs."""
        flow = self._layouts.system.flow
        ages, watches = Signal(range(self._layouts.system.flow_silence)), Signal(range(flow.watch))
        aged, watched = ages == self._layouts.system.flow_silence - 1, watches == flow.watch - 1
        wraps, moved, held = Signal(3), Signal(), Signal()
        self._walk_for = Signal(3)
        # What is held while nothing moves may be behind a hole that nobody knows of: its source is asked by a MAP.
        m.d.comb += [
            held.eq(self.ready & watched & ~self.nothing_used & ~moved),
            wraps.eq(Cat(self.ready & aged & self.troubled, self.ready & watched, self.turns | held)),
        ]
        m.d.sync += moved.eq(self.used_moves | (moved & ~(self.ready & watched)))
        with m.If(self.ready):
            m.d.sync += [ages.eq(Mux(aged, 0, ages + 1)), watches.eq(Mux(watched, 0, watches + 1))]
        m.d.sync += self._asked.eq(self._asked | wraps)
        begins_walk = self._begins & ~self._walking & (self._chosen == Job.TICK.value)
        with m.If(begins_walk):
            m.d.sync += [self._walking.eq(1), self._walk_for.eq(self._asked), self._asked.eq(wraps)]
        with m.If(self._pause.any()):
            m.d.sync += self._pause.eq(self._pause - 1)

        task = self._task
        with m.Switch(self._phase), m.Case(Phase.SWEEP):
            m.d.comb += [self.sweep.valid.eq(1), self.sweep.payload.source.eq(task.node)]
            with m.If(self.sweep.ready):
                m.d.sync += self._phase.eq(Phase.LAST)
        with m.If(self.cancel.valid & self.cancel.ready):
            m.d.sync += self.cancel.valid.eq(0)

    # x: what several jobs do.

    def _finishing(self, m):
        """Numbers of an out stream that are finished or void, or of an in stream that will not come, and what passes.

        ``here`` are those that a job names, counted from what is the lowest number of the stream.
        """
        of = self._layouts
        heard = self._job == Job.CONTROL
        single = ~heard & ~self._of_control
        void = control_fields(Code.VOID, self.word)
        lowest, named, bits = Signal(NUMBER_BITS), Signal(NUMBER_BITS), Signal(16)
        apart, below, here = Signal(NUMBER_BITS), Signal(WINDOW), Signal(WINDOW)
        first, second = Signal(WINDOW), Signal(WINDOW)
        self._within, behind = Signal(), Signal()
        shifted = self.shifted.word_select(0, WINDOW), self.shifted.word_select(1, WINDOW)
        m.d.comb += [
            lowest.eq(Mux(heard, self.accept_in.expected, self.numbers.base)),
            named.eq(Mux(heard, void["base"], self._seq)),
            bits.eq(Mux(single, 1, Mux(heard, void["map"], self._map))),
            apart.eq(named - lowest),
            # Ahead of the lowest they move up by so many places, behind it down: turned, what is cut off differs.
            self._within.eq(apart < WINDOW),
            behind.eq(apart[4:].all() & apart[:4].any() & ~single),
            below.eq((1 << apart[:4]) - 1),
            here.eq(_turned(m, bits, apart[:4]) & Mux(self._within, ~below, Mux(behind, below, 0))),
            first.eq(Mux(heard, self.accept_in.present, self.ends.done) | here),
            second.eq(Mux(heard, self.accept_in.filled, self.ends.void & ~here)),
        ]
        self._passed, self._lowest, self._whole = Signal(COUNT_BITS), Signal(NUMBER_BITS), first[0]
        m.d.comb += [
            self._passed.eq(passed(m, first)),
            self._lowest.eq(lowest + self._passed),
            self.job_bits.eq(Cat(first, second)),
            self.job_passes.eq(self._passed),
        ]
        self._finishes, self._voids, self._passes = Signal(), Signal(), Signal()
        m.d.comb += [
            self.job_at.eq(of.stream(self._peer, self._index)),
            self.job_numbers.eq(self.numbers),
            Cat(self.job_ends_word.done, self.job_ends_word.void).eq(Cat(*shifted)),
            self.job_in_at.eq(of.stream(self._peer, self._q)),
            self.job_in_word.eq(self.accept_in),
        ]
        with m.If(self._finishes):
            m.d.comb += [
                self.job_numbers_writes.eq(1),
                self.job_ends_writes.eq(1),
                self.job_numbers.base.eq(self._lowest),
            ]
        with m.Elif(self._voids):
            m.d.comb += [
                self.job_ends_writes.eq(self._within),
                self.job_ends_word.done.eq(self.ends.done),
                self.job_ends_word.void.eq(self.ends.void | here),
            ]
        with m.Elif(self._passes):
            m.d.comb += [
                self.job_in_writes.eq(1),
                self.job_in_word.expected.eq(self._lowest),
                self.job_in_word.present.eq(shifted[0]),
                self.job_in_word.filled.eq(shifted[1]),
            ]

    def _defaults(self, m):
        """What stays as it is, unless a job says otherwise."""
        m.d.comb += [
            self.out_word.eq(self.peer_out),
            self.in_word.eq(self.peer_in),
            self.life_word.eq(self.peer_life),
            self.notice_index.eq(self._index),
            self.notice_code.eq(self._code),
            self._last.eq(1),
            self.job_q.eq(self._q),
            self.job_length.eq(self._length),
            self.set_index.eq(self.set.payload.index),
            self.set_value.eq(self.set.payload.value),
            self.run_entry.kind.eq(EntryKind.RUN),
            self.run_entry.source.eq(self._peer),
            self.run_entry.index.eq(self._index),
            self.told_row.node.eq(self._peer),
            self.told_row.index.eq(self._index),
            self.told_row.code.eq(self._code),
            # A tick is no work, but for a map that is dirty.
            self.jobs_idle.eq(
                (~self._busy | (self._job == Job.TICK))
                & ~self._asked[2]
                & ~(self._walking & self._walk_for[2])
                & ~self._has_task
                & ~self._probing
            ),
        ]
        # Intents: what several jobs have in common is done once, by `_changes`.
        for name in ("up", "leaves", "tells_credit"):
            setattr(self, f"_{name}", Signal(name=name))
        self._begins_task, self._new_task = Signal(), Signal(self._task.shape())
        self._ends_probe, self._probe_good = Signal(), Signal()

    def _mark(self, m, code, operation: ValueLike = Operation.MARK, index=None):
        m.d.comb += [self.operation.eq(operation), self.notice_code.eq(code)]
        if index is not None:
            m.d.comb += self.notice_index.eq(index)

    def _revives(self, m, first: int):
        """The steps of a source that is mute no more, from number ``first`` on: MAP, then WINDOW of each port."""
        with m.If(self._step == first):
            self._mark(m, Code.MAP)
        with m.Elif(self._step > first):
            self._mark(m, Code.WINDOW, Operation.REVIVE, self._step - (first + 1))

    def _open_in(self, m, state):
        m.d.comb += [self.in_writes.eq(1), self.in_word.state.eq(state)]

    def _aims(self, m, aim: Aim, sweep=0):
        """A task for this peer begins."""
        task = self._new_task
        m.d.comb += [self._begins_task.eq(1), task.aim.eq(aim), task.sweep.eq(sweep)]

    def _changes(self, m):
        """What intents do."""
        out = self.out_word
        with m.If(self._up):
            m.d.comb += [
                self.out_writes.eq(1), out.state.eq(Peer.UP), out.heard.eq(1), out.wanted.eq(0),
                self.notices.eq(1),
            ]  # fmt: skip
        with m.If(self._leaves):
            m.d.comb += [
                self.out_writes.eq(1), out.state.eq(Peer.LEAVING), out.map.eq(0), out.age.eq(0), self.notices.eq(1),
            ]  # fmt: skip
        # A source that is closed was told of a stream that is no more.
        told, closed = self._credit, self.peer_in.state == Source.CLOSED
        with m.If(self._tells_credit & ~closed & ahead(told, self.accept_in.told)):
            m.d.comb += [self.job_in_writes.eq(1), self.job_in_word.told.eq(told)]
        m.d.comb += self._new_task.node.eq(self._peer)
        with m.If(self._begins_task):
            flushes = self._new_task.aim != Aim.UP
            m.d.sync += [
                self._task.eq(self._new_task),
                self._flushed.eq(0),
                self._phase.eq(Mux(flushes, Phase.FLUSH, Mux(self._new_task.sweep, Phase.SWEEP, Phase.LAST))),
            ]
        with m.If(self._ends_probe):
            m.d.sync += self._probing.eq(0)
            good = self._up | self._probe_good
            failures = Mux(self._failures == DOUBLINGS, DOUBLINGS, self._failures + 1)
            silence = self._layouts.system.flow_silence
            waits = Signal(len(self._pause))
            m.d.comb += waits.eq(PAUSE << failures)
            m.d.sync += [
                self._failures.eq(Mux(good, 0, failures)),
                self._pause.eq(Mux(good, 0, Mux(waits > silence, waits, silence))),
            ]

    # x: the jobs.

    def _completion(self, m):
        ending, out, in_ = self._ending, self.peer_out, self.peer_in
        accepted = ending.status == Status.ACCEPTED
        first = self._step == 0
        is_up = out.state == Peer.UP
        is_map, is_ping = self._code == Code.MAP, self._code == Code.PING
        watched = is_ping | (self._code == Code.VOID)  # what counts in live
        mute = in_.state == Source.MUTE
        m.d.comb += self.job_completion.eq(ending)
        with m.If(~self._of_control):
            m.d.comb += [
                self.lives_less.eq(1), self.job_leaves.eq(1), self.job_completes.eq(1),
            ]  # fmt: skip
            with m.If(accepted):
                m.d.comb += [
                    self._finishes.eq(1),
                    self.out_writes.eq(1),
                    self.out_word.heard.eq(1),
                    self._tells_credit.eq(self._carried),
                ]
            with m.Elif(is_up):
                m.d.comb += [self._voids.eq(1), self._leaves.eq(ending.cause == Cause.RESTARTED)]
                with m.If(self._within):
                    self._mark(m, Code.VOID)
        with m.Elif(first):
            m.d.comb += self.lives_less.eq(watched)
            with m.If(accepted):
                m.d.comb += [
                    self._finishes.eq(self._code == Code.VOID),
                    self._tells_credit.eq((self._code == Code.WINDOW) & self._carried),
                ]
                with m.If(watched):
                    m.d.comb += [self.out_writes.eq(1), self.out_word.heard.eq(1)]
            with m.Elif(ending.cause != Cause.CANCELLED):
                m.d.comb += self._leaves.eq(watched & is_up)
                with m.If(~watched & (self._code != Code.PONG) & (in_.state == Source.OPEN)):
                    self._open_in(m, Source.MUTE)
                    m.d.comb += self.in_word.age.eq(0)
            with m.If(~self._probed):
                again = ~accepted & (is_map | (self._code == Code.WINDOW))
                self._mark(m, self._code, Mux(again, Operation.REPEAT, Operation.ARRIVED))
            with m.Elif(is_ping):
                m.d.comb += [
                    self._ends_probe.eq(1),
                    self._up.eq(out.pong & (out.state == Peer.CONNECTING)),
                ]
            with m.Elif(is_map):
                m.d.comb += [self._ends_probe.eq(1), self._probe_good.eq(accepted)]
                with m.If(mute & accepted):
                    self._open_in(m, Source.OPEN)
                    self._revives(m, 0)
                    m.d.comb += self._last.eq(0)
                with m.Elif(mute & (ending.cause == Cause.RESTARTED) & ~self._has_task):
                    self._open_in(m, Source.CLOSED)
                    self._aims(m, Aim.CLOSE)
        with m.Else():
            self._revives(m, 0)
            m.d.comb += self._last.eq(self._step == self._layouts.ports)

    def _control(self, m):
        of = self._layouts
        out, in_, life = self.peer_out, self.peer_in, self.peer_life
        code, first = self.word[:CODE_BITS], self._step == 0
        fields = {kind: control_fields(kind, self.word) for kind in CONTROL_WORDS}
        is_up, connecting = out.state == Peer.UP, out.state == Peer.CONNECTING
        hears = is_up | connecting
        ours = (fields[Code.PONG]["boot"] == self.boot) & (fields[Code.PONG]["round"] == out.round)
        index = fields[Code.WINDOW]["index"]
        here = index < of.ports
        good = self.heard_whole & (code >= min(Code)) & (code <= max(Code))
        m.d.comb += [
            self.shown_heard.eq(first),
            self.control_shown.eq(Mux(good, code, 0)),
            self.control_ignored.eq(first & ~good),
            self._new_task.incarnation.eq(self.heard_incarnation),
        ]
        with m.Switch(Mux(good, code, 0)):
            with m.Case(Code.PING):
                boot, round_ = fields[Code.PING]["boot"], fields[Code.PING]["round"]
                same = in_.boot == boot
                newer = ~in_.known | (boot > in_.boot) | (same & ahead(round_, in_.round))
                with m.If(~first):
                    self._revives(m, 1)
                    m.d.comb += self._last.eq(self._step == of.ports + 1)
                with m.Elif(newer), m.If(~self._has_task):
                    self._aims(m, Aim.OPEN, life.known & (life.boot != boot[:15]))
                    m.d.comb += [self._new_task.boot.eq(boot), self._new_task.round.eq(round_)]
                    self._open_in(m, Source.CLOSED)
                with m.Elif(same & (round_ == in_.round)):
                    self._mark(m, Code.PONG)
                    with m.If(in_.state == Source.MUTE):
                        self._open_in(m, Source.OPEN)
                        m.d.comb += self._last.eq(0)
            with m.Case(Code.PONG), m.If(ours):
                theirs = fields[Code.PONG]["own"]
                other = life.known & (life.boot != theirs)
                with m.If(connecting & ~out.pong):
                    with m.If(~other):
                        self._ponged(m, self.heard_incarnation, theirs)
                    with m.Elif(~self._has_task):
                        self._aims(m, Aim.UP, 1)
                        m.d.comb += self._new_task.boot.eq(theirs)
                with m.Elif(is_up):
                    m.d.comb += [
                        self.out_writes.eq(1), self.out_word.heard.eq(1), self._leaves.eq(life.boot != theirs),
                    ]  # fmt: skip
            with m.Case(Code.GONE):
                m.d.comb += self._leaves.eq(ours & hears)
            with m.Case(Code.MAP), m.If(hears):
                bits = fields[Code.MAP]["map"][: of.ports]
                m.d.comb += [
                    self.out_writes.eq(1), self.out_word.map.eq(bits), self.notices.eq(bits != out.map),
                ]  # fmt: skip
            with m.Case(Code.WINDOW), m.If(hears & here):
                credit, numbers = fields[Code.WINDOW]["credit"], self.numbers
                step, beyond = Signal(NUMBER_BITS), Signal(NUMBER_BITS)
                m.d.comb += [
                    step.eq(credit - numbers.limit),
                    beyond.eq(credit - numbers.next),
                    self.window_raises.eq((step != 0) & (step <= WINDOW) & (beyond <= WINDOW)),
                    self.job_numbers_writes.eq(self.window_raises),
                    self.job_numbers.limit.eq(credit),
                    self.job_numbers.asked.eq(0),
                ]
            with m.Case(Code.VOID), m.If((in_.state != Source.CLOSED) & here):
                self._void(m)

    def _ponged(self, m, incarnation, life):
        """A PONG counts: the peer is UP, unless its PING is still under way."""
        m.d.comb += [
            self.out_writes.eq(1),
            self.out_word.incarnation.eq(incarnation),
            self.out_word.pong.eq(1),
            self.life_writes.eq(1),
            self.life_word.known.eq(1),
            self.life_word.boot.eq(life),
            self._up.eq(~(self._probing & (self._probe_node == self._peer))),
        ]

    def _void(self, m):
        """Numbers that will not come."""
        stream_, after = self.accept_in, Signal(NUMBER_BITS)
        m.d.comb += [
            self._passes.eq(1),
            self.run_enters.eq(self._whole),
            self.run_entry.seq.eq(stream_.expected),
            self.run_entry.count.eq(self._passed),
            self.run_entry.mask.eq(stream_.filled),
            after.eq(stream_.told - self._lowest),
        ]
        with m.If((after < LEAST_CREDIT) | after[-1]):
            self._mark(m, Code.WINDOW)

    def _set(self, m):
        given, of = self.set.payload, self._layouts
        here = (given.index < of.ports) if of.ports < WINDOW else Const(1)
        index = given.index[: of.port_bits]
        bound = self.bound.bit_select(index, 1)
        m.d.comb += [self.set.ready.eq(1), self.answer.valid.eq(1)]
        with m.If(~here):
            m.d.comb += self.answer.error.eq(3)
        with m.Else(), m.Switch(given.code):
            with m.Case(0):
                m.d.comb += self.unbinds.eq(1)
            with m.Case(1):
                with m.If(bound):
                    m.d.comb += self.answer.error.eq(1)
                with m.Elif(self.readable.bit_select(index, 1)):
                    m.d.comb += self.answer.error.eq(2)
                with m.Elif(given.value[: of.port_bits] != index):
                    m.d.comb += self.answer.error.eq(3)
                with m.Else():
                    m.d.comb += self.binds.eq(1)
            with m.Case(2):
                m.d.comb += self.limits.eq(1)
            with m.Case(3):
                m.d.comb += self.send_limits.eq(1)

    def _tick(self, m):
        of = self._layouts
        out, in_, first, last = self.peer_out, self.peer_in, self._step == 0, Signal()
        ages, watches, maps = self._walk_for
        other = self._peer != self.node
        map_due, pings, resets = Signal(), Signal(), Signal()
        mute = in_.state == Source.MUTE
        m.d.comb += [
            map_due.eq(maps & (in_.state != Source.CLOSED)),
            pings.eq(watches & (out.state == Peer.UP) & (self.peer_lives | out.blocked) & ~out.heard),
            resets.eq(ages & (out.state == Peer.ERROR) & out.age),
        ]
        left = Mux(resets, of.ports, 0) + (map_due & (resets | pings))
        with m.If(other & first):
            with m.If(ages):
                with m.If((out.state == Peer.LEAVING) & ~self.peer_lives):
                    m.d.comb += [self.out_writes.eq(1), self.out_word.state.eq(Peer.ERROR), self.out_word.age.eq(0)]
                with m.If((out.state == Peer.ERROR) & ~out.age):
                    m.d.comb += [self.out_writes.eq(1), self.out_word.age.eq(1)]
                with m.If(resets):
                    m.d.comb += [
                        self.out_writes.eq(1),
                        self.out_word.state.eq(Peer.CONNECTING),
                        self.out_word.round.eq(out.round + 1),
                        self.out_word.pong.eq(0),
                    ]
            with m.If(watches):
                m.d.comb += [self.out_writes.eq(1), self.out_word.heard.eq(0), self.out_word.blocked.eq(0)]
                with m.If(pings):
                    self._mark(m, Code.PING)
                with m.If(mute):
                    with m.If(in_.age != MOST_AGE):
                        m.d.comb += [self.in_writes.eq(1), self.in_word.age.eq(in_.age + 1)]
                    with m.Elif(~self._has_task):
                        self._open_in(m, Source.CLOSED)
                        self._aims(m, Aim.CLOSE)
            m.d.sync += [
                self._steps_left.eq(left),
                self._resets_left.eq(Mux(resets, of.ports, 0)),
                self._marks_map.eq(map_due),
            ]
            m.d.comb += last.eq(left == 0)
            with m.If(last & map_due):
                self._mark(m, Code.MAP)
        with m.Elif(other):
            m.d.comb += last.eq(self._step == self._steps_left)
            with m.If(self._step <= self._resets_left):
                # Its out streams are as after a reset.
                m.d.comb += [
                    self.job_at.eq(of.stream(self._peer, self._step - 1)),
                    self.job_numbers_writes.eq(1),
                    self.job_numbers.eq(of.new_numbers),
                    self.job_ends_writes.eq(1),
                    self.job_ends_word.eq(0),
                ]
                with m.If(self.numbers.next != self.numbers.base):
                    m.d.comb += [self.out_writes.eq(1), self.out_word.wanted.eq(MOST_WANTED)]
            with m.If(last & self._marks_map):
                self._mark(m, Code.MAP)
        with m.Else():
            m.d.comb += last.eq(1)
        m.d.comb += self._last.eq(last)
        with m.If(last):
            m.d.sync += self._walk_node.eq(self._walk_node + 1)
            with m.If(self._walk_node == of.nodes - 1):
                m.d.sync += [self._walk_node.eq(0), self._walking.eq(0)]

    def _tell(self, m, code):
        """A word is sent."""
        m.d.comb += [self.tells.eq(1), self.control_shown.eq(code)]

    def _tell_ping(self, m):
        self._tell(m, Code.PING)
        m.d.comb += self.lives_more.eq(1)

    def _words(self, m):
        """The word of the code that is told, as of all that is known; it counts where one is sent."""
        out, in_, code = self.peer_out, self.peer_in, self.control_shown
        pings, window, void = code == Code.PING, Signal(NUMBER_BITS), self.ends.void
        m.d.comb += window.eq(self.accept_in.expected + LEAST_CREDIT + self.job_room)
        self._offer = window
        life = {"round": Mux(pings, out.round, in_.round), "boot": Mux(pings, self.boot, in_.boot), "paths": PATHS}
        fields = {
            Code.PING: life,
            Code.PONG: life | {"own": self.boot[:15]},
            Code.GONE: life,
            Code.MAP: {"map": self.congested},
            Code.WINDOW: {"index": self._index, "credit": window, "ack": self.accept_in.expected},
            Code.VOID: {"index": self._index, "base": self.numbers.base, "map": void},
        }
        with m.Switch(code):
            for kind, given in fields.items():
                with m.Case(kind):
                    parts = [padded(given[name], bits) for name, bits in CONTROL_WORDS[kind]]
                    m.d.comb += self.told_word.eq(Cat(Const(kind, CODE_BITS), *parts))
        m.d.comb += [
            self.shown_told.eq(self.tells),
            self.extra_shown.eq(
                Mux(self.tells, self.told_word[CODE_BITS:], Mux(self.control_ignored, 0, self.word[CODE_BITS:]))
            ),
        ]
        with m.Switch(code):
            with m.Case(Code.MAP, Code.WINDOW):
                m.d.comb += self.told_expect.eq(in_.incarnation)
            with m.Case(Code.VOID):
                m.d.comb += self.told_expect.eq(out.incarnation)

    def _send(self, m):
        out, in_, stream_ = self.peer_out, self.peer_in, self.accept_in
        is_open, mute = in_.state == Source.OPEN, in_.state == Source.MUTE
        offer, sends, waits = self._offer, Signal(), Signal()
        m.d.comb += [
            self.told_row.base.eq(self.numbers.base),
            self.told_row.map.eq(self.ends.void),
            self.told_row.credit.eq(offer),
            self.operation.eq(Mux(sends, Operation.FLY, Mux(waits, Operation.WAIT, Operation.CLEAN))),
        ]
        with m.Switch(self._code):
            with m.Case(Code.VOID):
                m.d.comb += sends.eq((out.state == Peer.UP) & self.ends.void.any())
                with m.If(sends):
                    self._tell(m, Code.VOID)
                    m.d.comb += self.lives_more.eq(1)
            with m.Case(Code.WINDOW):
                m.d.comb += [sends.eq(is_open & ahead(offer, stream_.told)), waits.eq(mute)]
                with m.If(sends):
                    self._tell(m, Code.WINDOW)
            with m.Case(Code.MAP):
                m.d.comb += [sends.eq(is_open), waits.eq(mute)]
                with m.If(sends):
                    self._tell(m, Code.MAP)
            with m.Case(Code.PONG):
                m.d.comb += sends.eq(in_.known)
                with m.If(in_.known & (is_open | mute)):
                    self._tell(m, Code.PONG)
                with m.Elif(in_.known):
                    self._tell(m, Code.GONE)
            with m.Case(Code.PING):
                m.d.comb += sends.eq(out.state == Peer.UP)
                with m.If(sends):
                    self._tell_ping(m)

    def _probe(self, m):
        out, in_ = self.peer_out, self.peer_in
        m.d.comb += self.told_row.probe.eq(1)
        with m.If((out.state == Peer.CONNECTING) & out.wanted.any() & ~out.pong):
            self._tell_ping(m)
            m.d.comb += [
                self.told_row.code.eq(Code.PING), self.out_writes.eq(1), self.out_word.wanted.eq(out.wanted - 1),
            ]  # fmt: skip
        with m.Elif(in_.state == Source.MUTE):
            self._tell(m, Code.MAP)
            m.d.comb += self.told_row.code.eq(Code.MAP)
        with m.If(self.tells):
            m.d.sync += [self._probing.eq(1), self._probe_node.eq(self._peer)]

    def _cancel(self, m):
        m.d.sync += self._pointer.eq(Mux(self._pointer == self._layouts.slots - 1, 0, self._pointer + 1))
        with m.If(self.looked_lives & self.looked_leaves):
            m.d.sync += [self.cancel.valid.eq(1), self.cancel.payload.eq(self.looked_life)]

    def _task_job(self, m):
        of, task, stream_ = self._layouts, self._task, self.accept_in
        with m.Switch(self._phase):
            with m.Case(Phase.FLUSH):
                m.d.comb += [
                    self.job_in_writes.eq(1),
                    self.job_in_word.eq(of.new_receiving),
                    # What is parked, and one number more that is void.
                    self.run_enters.eq(1),
                    self.run_entry.seq.eq(stream_.expected),
                    self.run_entry.count.eq(1 + length_of(stream_.filled)),
                    self.run_entry.mask.eq(stream_.filled),
                ]
                m.d.sync += self._flushed.eq(self._flushed + 1)
                with m.If(self._flushed == of.ports - 1):
                    m.d.sync += self._phase.eq(Phase.ROWS)
            with m.Case(Phase.ROWS):
                m.d.comb += [
                    self.row_forgets.eq(self.looked_node == task.node),
                    self.told_forgets.eq(self._step == 0),
                    self._last.eq(self._step == of.slots - 1),
                ]
                with m.If(self._last):
                    m.d.sync += self._phase.eq(Mux(task.sweep, Phase.SWEEP, Phase.LAST))
            with m.Case(Phase.LAST):
                with m.If((task.aim == Aim.OPEN) & (self._step == 0)):
                    self._open_in(m, Source.OPEN)
                    self._mark(m, Code.PONG)
                    m.d.comb += [
                        self.in_word.known.eq(1),
                        *(self.in_word[name].eq(task[name]) for name in ("boot", "round", "incarnation")),
                        self.life_writes.eq(1),
                        self.life_word.known.eq(1),
                        self.life_word.boot.eq(task.boot),
                        self._last.eq(0),
                    ]
                with m.Elif(task.aim == Aim.OPEN):
                    self._mark(m, Code.MAP)
                with m.Elif(task.aim == Aim.UP):
                    m.d.comb += [
                        self.life_writes.eq(1),
                        self.life_word.known.eq(1),
                        self.life_word.boot.eq(task.boot),
                    ]
                    with m.If(self.peer_out.state == Peer.CONNECTING):
                        self._ponged(m, task.incarnation, task.boot)
                with m.If(self._last):
                    m.d.sync += self._phase.eq(Phase.NONE)

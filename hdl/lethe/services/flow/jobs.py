"""Jobs: everything that is done one after the other (contract of flow, section 9)."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.lib.first import before, lowest_of, turn_of
from lethe.lib.queue import step
from lethe.ni.watch import padded
from lethe.spec.events import Cause, Status
from lethe.spec.ports import HostPort
from lethe.spec.sections.flow import WINDOW
from lethe.spec.services.flow import CODE_BITS, CONTROL_WORDS, Code
from lethe.spec.services.flow import In as Source
from lethe.spec.trace import WORD_BITS

from .acceptance import behind, one_added, passing
from .layouts import (
    COUNT_BITS,
    LEAST_CREDIT,
    NUMBER_BITS,
    PLACE_BITS,
    STATE_BITS,
    EntryKind,
    Layouts,
    Operation,
    PeerState,
    ahead,
    at_most,
    control_fields,
    either,
)  # fmt: skip
from .ports import MOST_ROOM, less_two

__all__ = ["Jobs"]

#: Ways that there are to a peer.
#: A mute source that was asked so often is closed.
MOST_AGE = 7
#: A peer with numbers that are not finished when it is connected to again is probed so often.
MOST_WANTED = 7
#: Cycles in which a job that has begun asks no table, and cycles behind a data message in which no VOID acts.
REST, QUIET = 2, 2
#: Cycles after a first failed probe, halved, and how often they double.
PAUSE, DOUBLINGS = 64, 4


def _compared(a: Value, b: Value) -> tuple[Value, Value]:
    """Whether ``a`` is above ``b``, and whether they are equal; both have as many bits.  In gates, by halves."""
    if len(a) == 1:
        return a & ~b, ~(a ^ b)
    half = len(a) // 2
    (low, low_same), (high, high_same) = _compared(a[:half], b[:half]), _compared(a[half:], b[half:])
    return high | (high_same & low), high_same & low_same


def _is_less(gap: Value, room: Value) -> Value:
    """Whether ``room`` less ``gap`` is 1 … 127, modulo 256; ``room`` has fewer bits than ``gap``, which has eight."""
    few = len(room)
    (above, same), high = _compared(gap[:few], room), gap[few:-1].any()
    return Mux(gap[-1], high | above, ~high & ~above & ~same)


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


class Jobs(wiring.Component):
    """Begins one job after the other, and does each in the first cycle in which it may act.

    In *b* a job is chosen, and what it may be about is kept; in *b+1* it is known of which peer and stream, and their
    tables are asked.  A step that acts in *x* is *issued* in *x−2*.  In *x−1* it is *planned*, by what none but jobs
    change (`_intents`); in *x* the plan is in registers, and is done as far as attempts, messages and credits, of which
    some may act in *x−1*, let it (`_acts`).  A VOID and a FLUSH, which may have to wait, are not planned.  The bits of
    numbers take three cycles (`_finishing`).

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
    job_next, job_acts, job_steps : Out(1)
        A job makes a step in the next cycle; in this; so, one that may change peers, sockets and numbers.
    job_asks, job_stream, numbers : Out, Out, In
        A step that may change peers, sockets and numbers acts in two cycles, unless a credit does; of which out stream;
        its numbers, then.
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
                "job_next": Out(1), "job_acts": Out(1), "job_steps": Out(1),
                "completion": In(stream.Signature(below["completion"])),
                "set": In(stream.Signature(up["set"])), "answer": Out(up["answer"]),
                "cancel": Out(stream.Signature(below["cancel"])),
                "sweep": Out(stream.Signature(below["sweep"])),
                # Rows.
                "ended_slot": Out(of.slot_bits), "ended_row": In(of.row), "ended_control": In(of.control_row),
                "ended_carried": In(1), "ended_credit": In(NUMBER_BITS),
                "looked_slot": Out(of.slot_bits), "looked_node": In(of.node_bits), "looked_lives": In(1),
                "looked_life": In(below["cancel"]), "renewed": In(1), "control_row": In(of.control_row),
                "row_ends": Out(1), "gone_slot": Out(of.slot_bits), "row_forgets": Out(1),
                "forgotten_slot": Out(of.slot_bits), "told_forgets": Out(1),
                # Streams.
                "job_asks": Out(1), "job_stream": Out(of.stream_bits), "numbers": In(of.numbers),
                "job_ends_at": Out(of.stream_bits), "ends": In(of.ends),
                "job_numbers_writes": Out(1), "job_ends_writes": Out(1), "job_at": Out(of.stream_bits),
                "job_numbers": Out(of.numbers), "job_ends_word": Out(of.ends),
                "job_in_stream": Out(of.stream_bits), "accept_in": In(of.receiving),
                "accept_writes": In(1), "accept_at": In(of.stream_bits), "accept_gap": In(NUMBER_BITS),
                "job_in_writes": Out(1), "job_in_at": Out(of.stream_bits), "job_in_word": Out(of.receiving),
                # Peers.
                "job_peer": Out(of.node_bits), "peer_out": In(of.out), "peer_in": In(of.in_), "peer_life": In(of.life),
                "peer_lives": In(1), "was_sought": In(1), "was_moved": In(1),
                "state_writes": Out(1), "state_word": Out(STATE_BITS), "wanted_writes": Out(1),
                "wanted_word": Out(3), "wanted_some": Out(1), "kept_writes": Out(1), "kept_word": Out(of.kept),
                "map_writes": Out(1),
                "map_word": Out(of.ports), "learns": Out(1), "learnt": Out(sum(of.learnt.values())), "unblocks": Out(1),
                "leaves": Out(1), "resets": Out(1), "source_writes": Out(1), "source_word": Out(of.source),
                "source_knows": Out(1), "source_known": Out(of.known),
                "life_writes": Out(1), "life_word": Out(of.life), "lives_more": Out(1),
                "lives_less": Out(1), "notices": Out(1), "candidates": In(of.nodes),
                "fled": In(1), "looked_leaves": In(1), "renewed_leaves": In(1), "troubled": In(1),
                # Notices and control.
                "notice_stream": Out(of.stream_bits), "operation": Out(Operation), "notice_code": Out(3),
                "notice_index": Out(of.port_bits), "void_acts": Out(1), "void_marks": Out(1),
                "tell_valid": In(1), "tell": In(of.notice), "tell_pops": Out(1),
                "control_idle": In(1), "control_open": In(1), "tells": Out(1), "told_word": Out(WORD_BITS),
                "told_row": Out(of.control_row), "told_expect": Out(form.incarnation_bits),
                "heard": In(1), "word": In(WORD_BITS), "heard_source": In(of.node_bits),
                "heard_incarnation": In(form.incarnation_bits), "heard_whole": In(1), "heard_done": Out(1),
                # MessagesOut.
                "job_completes": Out(1), "job_completion": Out(up["completion"]), "job_leaves": Out(1),
                "job_q": Out(of.port_bits), "job_length": Out(of.length_bits), "send_limits": Out(1),
                # Ports.
                "names": Out(1), "binds": Out(1), "binds_if_last": Out(1), "unbinds": Out(1), "limits": Out(1),
                "set_index": Out(of.port_bits),
                "set_value": Out(16), "set_bound": In(1), "listed": In(of.ports), "fetches": In(1),
                "fetches_last": In(1),
                "fetched_port": In(of.port_bits), "congested": In(of.ports),
                "turns": In(1), "nothing_used": In(1), "used_moves": In(1), "watch_wraps": Out(1),
                "stuck": In(1), "job_port": Out(of.port_bits),
                "job_room": In(range(MOST_ROOM + 1)),
                # Drainer.
                "run_enters": Out(1), "run_entry": Out(of.journal), "journal_high": In(1),
                # What is seen.
                "jobs_idle": Out(1), "shown_told": Out(1), "shown_heard": Out(1), "control_shown": Out(3),
                "extra_shown": Out(16), "control_ignored": Out(1), "job_raises": Out(1), "job_credit": Out(NUMBER_BITS),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        self._choose(m)
        self._steps(m)
        self._walks(m)
        self._finishing(m)
        self._compares(m)
        self._intents(m)
        self._words(m)
        for job, plans in (
            (Job.COMPLETION, self._completion), (Job.CONTROL, self._control), (Job.TICK, self._tick),
            (Job.SEND, self._send), (Job.PROBE, self._probe), (Job.TASK, self._task_job),
        ):  # fmt: skip
            self._soon = self._plans_of[job]
            plans(m)
        self._plans_meet(m)
        self._acts(m)
        self._set(m)
        return m

    # b: the choice.

    def _choose(self, m):
        of = self._layouts
        # Of the jobs the one that is under way; those behind the one that began last.
        self._busy, self._on, later = Signal(), Signal(len(Job)), Signal(len(Job))
        self._peer, self._index, self._q = Signal(of.node_bits), Signal(of.port_bits), Signal(of.port_bits)
        self._code, self._seq, self._carried = Signal(3), Signal(NUMBER_BITS), Signal()
        self._map, self._length, self._credit = Signal(16), Signal(of.length_bits), Signal(NUMBER_BITS)
        self._probed, self._of_control = Signal(), Signal()
        self._hears_void = Signal()
        self._ending = Signal(self._shapes[1]["completion"])
        # Tick: the walk.  Probe: what is under way.  Cancel: the pointer.  Task.
        self._walking, self._walk_node = Signal(), Signal(of.node_bits)
        self._walk_last = Signal(of.node_bits, init=of.nodes - 1)
        self._asked = Signal(3)  # ages, watches, map
        self._probing, self._probe_node = Signal(), Signal(of.node_bits)
        self._last_probed = Signal(of.node_bits, init=of.nodes - 1)
        longest = max(of.system.flow_silence, PAUSE << DOUBLINGS)
        self._pause, self._paused = Signal(range(longest + 1)), Signal()
        self._failures = Signal(range(DOUBLINGS + 1))
        self._pointer = Signal(of.slot_bits)
        self._phase, self._flushed = Signal(Phase), Signal(of.port_bits)
        task = data.StructLayout(
            {
                "opens": 1, "comes_up": 1, "node": of.node_bits, "boot": 32, "round": 8, **of.learnt, "sweep": 1,
            }
        )  # fmt: skip
        self._task = Signal(task)
        self._has_task = self._phase != Phase.NONE

        # b.  What a job may be about is kept as of this cycle.
        sends = ~self.silent & self.control_idle & self.control_open
        candidates, some = self.candidates, Signal()  # ``some``: a node was to be probed in the cycle before
        m.d.sync += some.eq(candidates.any())
        ask, turn, begins = Signal(len(Job)), Signal(len(Job)), Signal()
        m.d.comb += ask.eq(
            Cat(
                self.completion.valid,
                self.heard,
                self.set.valid,
                self._walking | self._asked.any(),
                sends & self.tell_valid,
                sends & ~self._probing & ~self._paused & some,
                ~self.cancel.valid & self.fled,
                (self._phase == Phase.FLUSH) | (self._phase == Phase.ROWS) | (self._phase == Phase.LAST),
            )
        )
        m.d.comb += [turn.eq(turn_of(ask, later)), begins.eq(self.ready & ~self._busy & ask.any())]
        completion = self.completion.payload
        may_begin = self.ready & ~self._busy
        m.d.comb += [
            self.ended_slot.eq(completion.slot),
            self.completion.ready.eq(may_begin & turn[Job.COMPLETION.value]),
            self.tell_pops.eq(may_begin & turn[Job.SEND.value]),
        ]
        row, control, tell = (Signal.like(member) for member in (self.ended_row, self.ended_control, self.tell))
        sought, asked_for = Signal(of.nodes), Signal(NUMBER_BITS)
        self._given = Signal.like(self.set.payload)  # the host's setting
        self._was_asked = Signal(3)
        with m.If(~self._busy):
            m.d.sync += [
                self._on.eq(turn),
                row.eq(self.ended_row),
                control.eq(self.ended_control),
                tell.eq(self.tell),
                asked_for.eq(self.ended_credit),
                self._carried.eq(self.ended_carried),
                *(self._ending[name].eq(completion[name]) for name in completion.shape().members),
                sought.eq(candidates),
                self._given.eq(self.set.payload),
                self._was_asked.eq(self._asked),
            ]
        with m.If(begins):
            m.d.sync += self._busy.eq(1)

        # b+1: of whom and what it is; from then on the tables of streams are asked for it.
        chooses, probes, peer = Signal(), Signal(), Signal(of.node_bits)
        self._chooses = chooses
        self._peer_now, self._index_now, self._q_now = peer, Signal(of.port_bits), Signal(of.port_bits)
        of_control = self._ending.slot >= of.data_slots
        ended, heard, told = (self._is(job) for job in (Job.COMPLETION, Job.CONTROL, Job.SEND))
        m.d.comb += [
            self.row_ends.eq(chooses & ended),
            self.gone_slot.eq(self._ending.slot),
            self._q_now.eq(Mux(ended & ~of_control, row.q, self._index_now)),
            peer.eq(
                either(
                    (ended & of_control, control.node), (ended & ~of_control, row.node), (heard, self.heard_source),
                    (self._is(Job.TICK), self._walk_node), (told, tell.node), (self._is(Job.TASK), self._task.node),
                )
            ),
            self._index_now.eq(
                either(
                    (ended & of_control, control.index), (ended & ~of_control, row.index),
                    (heard, self.word[CODE_BITS : CODE_BITS + of.port_bits]),
                    (self._is(Job.SET), self._given.index), (told, tell.index),
                    (self._is(Job.TASK), self._flushed),
                )
            ),
        ]  # fmt: skip
        m.d.sync += [chooses.eq(begins), probes.eq(chooses & (self._is(Job.PROBE)))]
        code = Mux(ended, control.code, tell.code)
        self._of_code = {kind: Signal(name=f"of_{kind.name.lower()}") for kind in Code}
        with m.If(chooses):
            m.d.sync += [
                later.eq(Cat(before(self._on, i) for i in range(len(Job)))),
                self._peer.eq(peer),
                self._index.eq(self._index_now),
                self._q.eq(self._q_now),
                self._code.eq(code),
                *(self._of_code[kind].eq(code == kind) for kind in self._of_code),
                self._of_control.eq(of_control),
                self._seq.eq(Mux(of_control, control.base, row.seq)),
                self._map.eq(Mux(of_control, control.map, 1 << row.seq[:PLACE_BITS])),
                self._length.eq(row.length),
                self._credit.eq(Mux(of_control, control.credit, asked_for)),
                self._probed.eq(control.probe),
            ]

        # b+2, of a probe.
        behind_last, among, later, found = Signal(of.nodes), Signal(of.nodes), Signal(of.nodes), Signal()
        m.d.comb += later.eq(sought & behind_last)
        m.d.sync += [
            behind_last.eq(Cat(self._last_probed < i for i in range(of.nodes))),
            among.eq(Mux(later.any(), later, sought)),
            found.eq(sought.any()),
        ]
        probed = lowest_of(among)[1]
        with m.If(probes & found):
            m.d.sync += [self._peer.eq(probed), self._last_probed.eq(probed)]

    def _is(self, job: Job) -> Value:
        """It is this job that is under way."""
        return self._on[job.value]

    # Steps.

    def _steps(self, m):
        of = self._layouts
        most = max(of.ports + 2, of.slots)
        issued = Signal(range(most + 4))
        coming = Signal()
        coming_step, step = Signal.like(issued), Signal.like(issued)
        rests = Signal(REST)  # cycles between the choice and the first issue
        after = Signal(QUIET - 1)  # cycles after a data message
        steps = Signal()
        self._act, self._last, self._step, self._plans = Signal(), Signal(), coming_step, Signal()
        code = self.word[:CODE_BITS]
        is_void, is_flush, ends = Signal(), Signal(), Signal()
        self._voiding, self._flushing = is_void, is_flush
        m.d.sync += [
            is_void.eq((self._is(Job.CONTROL)) & self.heard_whole & (code == Code.VOID)),
            is_flush.eq((self._is(Job.TASK)) & (self._phase == Phase.FLUSH)),
        ]
        may, goes = Signal(), Signal()
        m.d.comb += [
            self.job_acts.eq(self._act),
            self.job_steps.eq(steps),
            may.eq(self._busy & rests[-1] & ~self.accept_reads & ~self.mark_soon),
            goes.eq(may & ~self.credit_soon),
            ends.eq(self._act & self._last),
            self.job_next.eq(
                coming
                & ~ends
                & ~((is_void | is_flush) & self.journal_high)
                & ~(is_void & (self.accept_now | after.any()))
            ),
            self.heard_done.eq((self._is(Job.CONTROL)) & ends),
            self._plans.eq(coming & ~is_void & ~is_flush),
            self.job_asks.eq(may & ~is_void & ~is_flush),
        ]
        m.d.sync += [
            coming.eq(goes), coming_step.eq(issued), step.eq(coming_step),
            rests.eq(Cat(self._busy, rests)), after.eq(Cat(self.accept_now, after)),
            self._act.eq(self.job_next),
            steps.eq(coming & ~is_void & ~is_flush),
        ]  # fmt: skip
        with m.If(goes & ~is_void & ~is_flush):
            m.d.sync += issued.eq(issued + 1)
        with m.If(ends):
            m.d.sync += [self._busy.eq(0), coming.eq(0), steps.eq(0), issued.eq(0), rests.eq(0)]

        # What is asked for when a step is issued; of the step that is planned, which it is.
        revived, self._revived = Signal(of.port_bits), Signal(of.port_bits)
        self._first, self._second, self._within_ports, self._is_ports, self._behind_ports, self._is_slots = (
            Signal(name=name) for name in ("first", "second", "within_ports", "is_ports", "behind_ports", "is_slots")
        )
        m.d.comb += [
            revived.eq(issued - Mux(self._is(Job.CONTROL), 2, 1)),
            self.job_ends_at.eq(of.stream(self._peer_now, self._index_now)),
            self.job_stream.eq(of.stream(self._peer, Mux(self._is(Job.TICK), issued - 1, self._index))),
            self.job_in_stream.eq(of.stream(self._peer_now, self._q_now)),
            self.notice_stream.eq(of.stream(self._peer, Mux(self._first, self._index, self._revived))),
            self.job_peer.eq(self._peer),
            self.job_port.eq(self._index),
            self.looked_slot.eq(Mux(self._is(Job.TASK), coming_step, self._pointer)),
            self.forgotten_slot.eq(step),
        ]
        m.d.sync += [
            self._revived.eq(revived), self._first.eq(issued == 0), self._second.eq(issued == 1),
            self._within_ports.eq(at_most(issued, of.ports)), self._is_ports.eq(issued == of.ports),
            self._behind_ports.eq(issued == of.ports + 1), self._is_slots.eq(issued == of.slots - 1),
        ]  # fmt: skip

    def _walks(self, m):
        """The counters that ask for walks, the pause of the probe, and the phases without jobs."""
        flow = self._layouts.system.flow
        ages, watches = Signal(range(self._layouts.system.flow_silence)), Signal(range(flow.watch))
        aged, watched, silence = Signal(), Signal(), self._layouts.system.flow_silence
        wraps, moved, held = Signal(3), Signal(), Signal()
        self._walk_for = Signal(3)
        # What is held while nothing moves, in any port or in one that is congested, may be behind a hole that nobody
        # knows of: its source is asked by a MAP.
        m.d.comb += [
            self.watch_wraps.eq(self.ready & watched),
            held.eq(self.watch_wraps & ~self.nothing_used & (~moved | self.stuck)),
            wraps.eq(Cat(self.ready & aged & self.troubled, self.ready & watched, self.turns | held)),
        ]
        m.d.sync += moved.eq(self.used_moves | (moved & ~(self.ready & watched)))
        with m.If(self.ready):
            m.d.sync += [
                ages.eq(Mux(aged, 0, ages + 1)), aged.eq(ages == silence - 2),
                watches.eq(Mux(watched, 0, watches + 1)), watched.eq(watches == flow.watch - 2),
            ]  # fmt: skip
        # A walk that begins in b is noted in b+1; it is for what was asked for in b.
        was_wraps = Signal.like(wraps)
        m.d.sync += [was_wraps.eq(wraps), self._asked.eq(self._asked | wraps)]
        with m.If(self._chooses & self._is(Job.TICK) & ~self._walking):
            m.d.sync += [
                self._walking.eq(1), self._walk_for.eq(self._was_asked), self._asked.eq(was_wraps | wraps),
            ]  # fmt: skip
        with m.If(self._paused):
            m.d.sync += [self._pause.eq(self._pause - 1), self._paused.eq(self._pause != 1)]

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

        All of this changes by jobs only, but for an in stream, to which nothing comes in the cycles before a VOID acts.
        """
        self._heard = heard = self._is(Job.CONTROL)
        void = control_fields(Code.VOID, self.word)

        # x−3: bits of what is named, each at its number mod 16.
        bits = Signal(WINDOW)
        m.d.sync += bits.eq(Mux(heard, void["map"], self._map))

        # x−2: of the numbers that a VOID names those within the window.  They begin at the later of its base and the
        # expected number, and end a window behind the other one.  Numbers that end are all within the window of their
        # stream: what is not finished holds it up.
        expected, void_base, apart = self.accept_in.expected, void["base"], Signal(NUMBER_BITS)
        from_base, from_expected, between, here = (Signal(WINDOW) for _ in range(4))
        ahead_, behind_, above = Signal(), Signal(), Signal(NUMBER_BITS - PLACE_BITS)
        low, start = expected[:PLACE_BITS], void_base[:PLACE_BITS]
        m.d.comb += [
            apart.eq(void_base - expected),
            # The base is within the window of the expected number; or it is before that, and its own reaches it.
            ahead_.eq(~heard | ~apart[PLACE_BITS:].any()),
            behind_.eq(~heard | apart[PLACE_BITS:].all()),
            from_base.eq((0xFFFF << start)[:WINDOW]),
            from_expected.eq((0xFFFF << low)[:WINDOW]),
        ]
        # The places from the base up to the expected number, cyclically; all of them, if both have the same place.
        m.d.comb += between.eq(Mux(start < low, from_base & ~from_expected, from_base | ~from_expected))
        names, first, second, floor = Signal(WINDOW), Signal(WINDOW), Signal(WINDOW), Signal(NUMBER_BITS)
        m.d.comb += here.eq(bits & Cat(Mux(place, ahead_, behind_) for place in between))
        m.d.sync += [
            names.eq(here),
            # The high bits of a number less the place of the base: those of the base, if it is within the window.
            above.eq((self._seq - self.ends.place)[PLACE_BITS:]),
            floor.eq(Mux(heard, expected, self.ends.place)),
            first.eq(Mux(heard, self.accept_in.present, self.ends.done)),
            second.eq(Mux(heard, self.accept_in.filled, self.ends.void)),
        ]

        # x−1: what passes.
        done = Signal(WINDOW)
        m.d.comb += done.eq(first | names)
        start_of = (1 << floor[:PLACE_BITS])[:WINDOW]
        run, stops, goes_beyond = passing(m, "finished", done, start_of, one_added(done, floor))
        self._lowest, self._within, self._minus_base = Signal(NUMBER_BITS), Signal(), Signal(COUNT_BITS)
        after, rest, base, these = Signal(WINDOW), Signal(WINDOW), Signal(NUMBER_BITS), Signal(WINDOW)
        stop, beyond, above_now = Signal(WINDOW), Signal(), Signal.like(above)
        m.d.sync += [
            after.eq(done & ~run),
            rest.eq(second & ~run & ~Mux(heard, 0, names)),
            these.eq(names),
            above_now.eq(above),
            stop.eq(stops),
            beyond.eq(goes_beyond),
            base.eq(floor),
            self._minus_base.eq(-floor),
        ]

        self._after, self._rest, self._these, self._passes, self._beyond = after, rest, these, Signal(), beyond
        m.d.sync += self._passes.eq((done & start_of).any())
        m.d.comb += [
            self._lowest.eq(behind(base, stop, beyond)),
            self._within.eq(self.numbers.above == above_now),
        ]

    def _compares(self, m):
        """What the word register says beside what is known of its peer, which only jobs change: in x−1."""
        out, in_, life, word = self.peer_out, self.peer_in, self.peer_life, self.word
        # The source of a FLUSH is CLOSED: nothing comes to its streams, and two cycles may go by here.
        filled, low = self.accept_in.filled, self.accept_in.expected[:PLACE_BITS]
        held, self._reached = Signal(WINDOW), Signal(COUNT_BITS)  # from the expected number on
        some, beyond = lowest_of(held[::-1])
        # One number more than those up to the last that is held.
        m.d.sync += [held.eq(Cat(filled, filled) >> low), self._reached.eq(Mux(some, ~beyond + 2, 1))]
        fields = {kind: control_fields(kind, word) for kind in CONTROL_WORDS}
        ping, pong = fields[Code.PING], fields[Code.PONG]
        code, ending = word[:CODE_BITS], self._ending
        # Not compared with ==: synthesis would take that from the carry of <, which is late.
        is_boot, is_own = ~(in_.boot ^ ping["boot"]).any(), life.boot == pong["own"]
        named = {
            "good": self.heard_whole & (code >= min(Code)) & (code <= max(Code)),
            **{f"says_{kind.name.lower()}": self.heard_whole & (code == kind) for kind in Code},
            "unknown": ~in_.known,
            "later_boot": in_.boot < ping["boot"],
            "same_boot": is_boot,
            "later_round": ahead(ping["round"], in_.round),
            "same_round": ping["round"] == in_.round,
            "reborn": life.known & (life.boot != ping["boot"][:15]),
            "ours": (pong["boot"] == self.boot) & (pong["round"] == out.round),
            "differs": ~is_own,
            "stays": ~life.known | is_own,
            "probes": self._probing & (self._probe_node == self._peer),
            "some_void": self.ends.void.any(),
            "maps": fields[Code.MAP]["map"][: self._layouts.ports] != out.map,
            "accepted": ending.status == Status.ACCEPTED,
            "restarted": ending.cause == Cause.RESTARTED,
            "cancelled": ending.cause == Cause.CANCELLED,
            "own": self._peer == self.node,
            "aged": in_.age == MOST_AGE,
            "has_index": fields[Code.WINDOW]["index"] < self._layouts.ports,
        }
        for name, value in named.items():
            setattr(self, f"_{name}", register := Signal(name=name))
            m.d.sync += register.eq(value)
        self._newer = self._unknown | self._later_boot | (self._same_boot & self._later_round)
        self._repeats = self._same_boot & self._same_round

    # x−1: what a job is to do, of what none but jobs change.  It is in registers in x.

    def _intents(self, m):
        shapes = {
            # What the peer becomes, what is learnt of it; its source likewise; and what is kept of both.
            "comes_up": 1, "connects": 1, "leaves": 1, "errs": 1, "wanted_word": 3, "wanted_some": 1, "map_writes": 1,
            "learns": 1,
            "unblocks": 1, "kept_writes": 1, "hears": 1, "unhears": 1, "asks": 1, "unasks": 1, "pongs": 1,
            "unpongs": 1, "ages": 1, "unages": 1,
            "opens": 1, "mutes": 1, "closes": 1, "wears": 1, "source_knows": 1, "life_writes": 1, "lives_more": 1,
            "lives_less": 1, "notices": 1,
            # Members of this block.
            "job_completes": 1, "told_forgets": 1, "tells": 1, "control_ignored": 1, "shown_heard": 1,
            # What is done in x.
            "operation": Operation, "notice_code": 3, "revives": 1, "last": 1, "code": 3,
            "finishes": 1, "voids": 1, "tells_credit": 1, "raises": 1, "clears": 1,
            "aims_open": 1, "aims_up": 1, "aims_close": 1, "ends_task": 1, "ends_rows": 1,
            "ends_probe": 1, "probe_good": 1,
            # What depends on what attempts and messages may change meanwhile.
            "if_connecting": 1, "if_within": 1, "if_ahead": 1, "if_probed": 1, "surely": 1, "if_moved": 1,
            "marks_map": 1, "ticks": 1, "sets": 1, "cancels": 1, "forgets": 1, "walked": 1,
        }  # fmt: skip
        self._shapes_of_plans = shapes
        self._plans_of: dict[Job, dict[str, Any]] = {
            job: {name: Signal(shape, name=f"{name}_of_{job.name.lower()}") for name, shape in shapes.items()}
            for job in Job
        }
        self._planned: dict[str, Any] = {name: Signal(shape, name=f"{name}_planned") for name, shape in shapes.items()}
        state = self.peer_out.state
        self._is_up, self._connecting, self._down, self._leaving, self._error = (
            peer.of(state)
            for peer in (PeerState.UP, PeerState.CONNECTING, PeerState.DOWN, PeerState.LEAVING, PeerState.ERROR)
        )
        self._is_open, self._mute = (self.peer_in.state[kind - 1] for kind in (Source.OPEN, Source.MUTE))
        for job, plans in self._plans_of.items():
            m.d.comb += plans["last"].eq(1)
            if job in (Job.COMPLETION, Job.SEND):
                m.d.comb += plans["notice_code"].eq(self._code)
        m.d.comb += [self._plans_of[Job.SET]["sets"].eq(1), self._plans_of[Job.CANCEL]["cancels"].eq(1)]

    def _plans_meet(self, m):
        """What is planned is what the job that is under way plans; what is issued behind the last step does nothing."""
        for name in self._shapes_of_plans:
            cases = ((self._is(job), Value.cast(plans[name])) for job, plans in self._plans_of.items())
            m.d.sync += self._planned[name].eq(either(*cases))
        # A VOID and a FLUSH plan nothing.
        planned = self._planned
        goes_on = planned["ticks"] & planned["marks_map"] & (planned["surely"] | self.was_moved)
        with m.If(~self._plans | (self._act & planned["last"] & ~goes_on)):
            m.d.sync += [word.eq(0) for word in self._planned.values()]

    def _plan(self, m, **words):
        """In x, unless a later plan says otherwise."""
        m.d.comb += [self._soon[name].eq(word) for name, word in words.items()]

    def _keeps(self, m, **words):
        self._plan(m, kept_writes=1, **words)

    def _mark(self, m, code, operation: ValueLike = Operation.MARK):
        self._plan(m, operation=operation, notice_code=code)

    def _revives(self, m, maps, windows):
        """The steps of a source that is mute no more: MAP, then WINDOW of each port."""
        with m.If(maps):
            self._mark(m, Code.MAP)
        with m.If(windows):
            self._mark(m, Code.WINDOW, Operation.REVIVE)
            self._plan(m, revives=1)

    def _completion(self, m):
        first = self._first
        accepted, restarted, codes = self._accepted, self._restarted, self._of_code
        is_map, is_ping, is_void, is_window = (codes[code] for code in (Code.MAP, Code.PING, Code.VOID, Code.WINDOW))
        watched = is_ping | is_void  # what counts in live
        carried = self._carried & (self._is_open | self._mute)  # else it was told of a stream that is no more
        with m.If(~self._of_control):
            self._plan(m, lives_less=1, job_completes=1)
            with m.If(accepted):
                self._plan(m, finishes=1, tells_credit=carried)
                self._keeps(m, hears=1)
            with m.Elif(self._is_up):
                self._plan(m, voids=1, if_within=1, leaves=restarted)
                self._mark(m, Code.VOID)
        with m.Elif(first):
            heard = self.peer_out.heard
            self._plan(m, lives_less=watched)
            with m.If(watched):
                self._keeps(m, hears=accepted, unasks=is_ping & ~self._probed)
            with m.If(accepted):
                self._plan(m, finishes=is_void, tells_credit=is_window & carried)
            with m.Elif(~self._cancelled):
                self._plan(
                    m, leaves=watched & self._is_up & (restarted | ~heard), mutes=(is_map | is_window) & self._is_open
                )
            with m.If(~self._probed):
                repeats = ~accepted & (is_map | is_window | (is_void & heard))
                self._mark(m, self._code, Mux(repeats, Operation.REPEAT, Operation.ARRIVED))
            with m.Elif(is_ping):
                # A peer that is DOWN has sent no PONG.
                comes_up = self.peer_out.pong & self._connecting
                self._plan(m, comes_up=comes_up, ends_probe=1, probe_good=comes_up)
            with m.Elif(is_map):
                self._plan(m, ends_probe=1, probe_good=accepted)
                with m.If(self._mute & accepted):
                    self._plan(m, opens=1, last=0)
                    self._mark(m, Code.MAP)
                with m.Elif(self._mute & restarted & ~self._has_task):
                    self._plan(m, closes=1, aims_close=1)
        with m.Else():
            self._revives(m, Const(0, 1), Const(1, 1))
            self._plan(m, last=self._is_ports)

    def _control(self, m):
        first = self._first
        # One that is DOWN may be so no more in x.
        down = self._down
        connecting = self._connecting | down
        hears = self._is_up | connecting
        self._plan(m, shown_heard=first, code=Mux(self._good, self.word[:3], 0), control_ignored=first & ~self._good)
        with m.If(self._says_ping):
            with m.If(~first):
                self._revives(m, self._second, ~self._second)
                self._plan(m, last=self._behind_ports)
            with m.Elif(self._newer):
                self._plan(m, aims_open=~self._has_task, closes=~self._has_task)
            with m.Elif(self._repeats):
                self._mark(m, Code.PONG)
                self._plan(m, opens=self._mute, last=~self._mute)
        with m.If(self._says_pong):
            self._plan(m, if_connecting=down)
            counts = self._ours & connecting & ~self.peer_out.pong
            with m.If(counts & self._stays):
                self._ponged(m)
            with m.If(counts & ~self._stays & ~self._has_task):
                self._plan(m, aims_up=1)
            with m.If(self._ours & self._is_up):
                self._keeps(m, hears=1)
                self._plan(m, leaves=self._differs)
        with m.If(self._says_gone):
            self._plan(m, if_connecting=down, leaves=self._ours & hears)
        with m.If(self._says_map):
            self._plan(m, if_connecting=down, map_writes=hears, notices=hears & self._maps)
        with m.If(self._says_window):
            self._plan(m, if_connecting=down, raises=hears & self._has_index)

    def _ponged(self, m):
        """A PONG counts: the peer is UP, unless its PING is still under way."""
        self._plan(m, learns=1, life_writes=1, comes_up=~self._probes)
        self._keeps(m, pongs=1)

    def _tick(self, m):
        out, first = self.peer_out, self._first
        ages, watches, maps = self._walk_for
        map_due, resets = Signal(), Signal()
        kept_map, kept_resets = Signal(), Signal()  # of the first step, for the others
        m.d.comb += [
            map_due.eq(Mux(first, maps & (self._is_open | self._mute), kept_map)),
            resets.eq(Mux(first, ages & self._error & out.age, kept_resets)),
        ]
        with m.If(self._plans & self._is(Job.TICK)):
            m.d.sync += [kept_map.eq(map_due), kept_resets.eq(resets)]
        with m.If(self._own):
            pass
        with m.Elif(first):
            with m.If(ages):
                with m.If(self._leaving & ~self.peer_lives):
                    self._plan(m, errs=1)
                    self._keeps(m, unages=1)
                with m.If(self._error & ~out.age):
                    self._keeps(m, ages=1)
                with m.If(self._error & out.age):
                    self._plan(m, connects=1)
                    self._keeps(m, unpongs=1)
            with m.If(watches):
                self._plan(
                    m, unblocks=1, ticks=self._is_up & ~out.heard & ~out.asked, surely=self.peer_lives | out.blocked,
                    wears=self._mute & ~self._aged,
                )  # fmt: skip
                self._keeps(m, unhears=~out.asked)
                with m.If(self._mute & self._aged & ~self._has_task):
                    self._plan(m, closes=1, aims_close=1)
            with m.If(resets):
                self._plan(m, last=0)
            with m.Elif(map_due):
                self._plan(m, marks_map=1)
                self._mark(m, Code.MAP)
        with m.Else():
            # A map beside a PING, or out streams that are as after a reset, and behind them a map.
            with m.If(kept_resets & self._within_ports):
                self._plan(m, clears=1, wanted_word=MOST_WANTED, last=~kept_map & self._is_ports)
            with m.Else():
                self._mark(m, Code.MAP)
        self._plan(m, walked=1)

    def _send(self, m):
        is_open, mute, codes = self._is_open, self._mute, self._of_code
        sends, waits, either_of = Signal(), Signal(), codes[Code.WINDOW] | codes[Code.MAP]
        m.d.comb += [
            sends.eq(
                (codes[Code.VOID] & self._is_up & self._some_void)
                | (either_of & is_open)
                | (codes[Code.PONG] & self.peer_in.known)
                | (codes[Code.PING] & self._is_up)
            ),
            waits.eq(either_of & mute),
        ]
        self._plan(
            m, operation=Mux(sends, Operation.FLY, Mux(waits, Operation.WAIT, Operation.CLEAN)), tells=sends,
            code=Mux(codes[Code.PONG] & ~is_open & ~mute, Code.GONE, self._code),
            lives_more=(codes[Code.VOID] & self._is_up & self._some_void) | (codes[Code.PING] & self._is_up),
            if_ahead=codes[Code.WINDOW] & is_open,
        )  # fmt: skip
        with m.If(codes[Code.PING] & self._is_up):
            self._keeps(m, asks=1)

    def _probe(self, m):
        out = self.peer_out
        wanted = out.wanted.any()
        self._plan(
            m, if_probed=1, tells=self._mute, code=Code.MAP,
            surely=self._connecting & wanted & ~out.pong,
            # An attempt may make it wanted, or CONNECTING, meanwhile.
            if_moved=~out.pong & (self._down | (self._connecting & ~wanted)),
            wanted_word=Mux(wanted, out.wanted - 1, 0), wanted_some=out.wanted[1:].any(),
        )  # fmt: skip

    def _task_job(self, m):
        task, first, last = self._task, self._first, self._is_slots
        with m.If(self._phase == Phase.ROWS):
            self._plan(m, forgets=1, told_forgets=first, last=last, ends_rows=last)
        with m.Else():
            with m.If(task.opens & first):
                self._mark(m, Code.PONG)
                self._plan(m, opens=1, source_knows=1, life_writes=1, last=0, leaves=task.sweep & self._is_up)
                with m.If(task.sweep & self._connecting):
                    self._keeps(m, unpongs=1)
            with m.Elif(task.opens):
                self._mark(m, Code.MAP)
                self._plan(m, ends_task=1)
            with m.Else():
                self._plan(m, life_writes=task.comes_up, ends_task=1)
                with m.If(task.comes_up & self._connecting):
                    self._ponged(m)

    def _words(self, m):
        """What would be told, whether it is or not; the word itself is there in x+1."""
        in_, planned = self.peer_in, self._planned
        stays, window, map_ = Signal(3), Signal(NUMBER_BITS), Signal(self._layouts.ports)
        credit, ack, base, code = Signal(NUMBER_BITS), Signal(NUMBER_BITS), Signal(NUMBER_BITS), Signal(3)
        self._pings = Signal()  # of a probe: a PING
        m.d.comb += [
            window.eq(self.accept_in.expected + (LEAST_CREDIT + self.job_room)),
            self._pings.eq(planned["if_probed"] & (planned["surely"] | (planned["if_moved"] & self.was_sought))),
            code.eq(Mux(self._pings, Code.PING, planned["code"])),
        ]
        m.d.sync += [
            stays.eq(code), credit.eq(window), ack.eq(self.accept_in.expected), map_.eq(self.congested),
            base.eq(self.told_row.base),
        ]  # fmt: skip
        m.d.comb += [
            self._word(m, self.told_word, stays, credit, ack, map_, base),
            self.told_row.node.eq(self._peer),
            self.told_row.index.eq(self._index),
            self.told_row.code.eq(Mux(planned["if_probed"], code, self._code)),
            self.told_row.base.eq(Cat(self.ends.place, self.numbers.above)),
            self.told_row.map.eq(self.ends.void),
            self.told_row.credit.eq(window),
            self.told_row.probe.eq(planned["if_probed"]),
        ]
        with m.Switch(code):
            with m.Case(Code.MAP, Code.WINDOW):
                m.d.comb += self.told_expect.eq(in_.incarnation)
            with m.Case(Code.VOID):
                m.d.comb += self.told_expect.eq(self.peer_out.incarnation)

        # For the trace, in x.
        shown, heard = Signal(WORD_BITS), Mux(planned["control_ignored"], 0, self.word[CODE_BITS:])
        m.d.comb += [
            self._word(m, shown, code, window, self.accept_in.expected, self.congested, self.told_row.base),
            self.shown_told.eq(self.tells),
            self.shown_heard.eq(planned["shown_heard"] | self._hears_void),
            self.control_shown.eq(Mux(self._hears_void, Code.VOID, code)),
            self.control_ignored.eq(planned["control_ignored"]),
            self.extra_shown.eq(Mux(self.tells, shown[CODE_BITS:], heard)),
        ]

    def _word(self, m, word, code, credit, ack, map_, base):
        """The word of a code."""
        out, in_, pings = self.peer_out, self.peer_in, code == Code.PING
        life = {
            "round": Mux(pings, out.round, in_.round),
            "boot": Mux(pings, self.boot, in_.boot),
            "paths": self._layouts.system.flow.paths,
        }
        fields = {
            Code.PING: life,
            Code.PONG: life | {"own": self.boot[:15]},
            Code.GONE: life,
            Code.MAP: {"map": map_},
            Code.WINDOW: {"index": self._index, "credit": credit, "ack": ack},
            Code.VOID: {"index": self._index, "base": base, "map": self.ends.void},
        }
        found = Signal(WORD_BITS)
        with m.Switch(code):
            for kind, given in fields.items():
                with m.Case(kind):
                    parts = [padded(given[name], bits) for name, bits in CONTROL_WORDS[kind]]
                    m.d.comb += found.eq(Cat(Const(kind, CODE_BITS), *parts))
        return word.eq(found)

    # x: it is done, as far as what attempts and messages have changed meanwhile lets it.

    def _acts(self, m):
        of, planned = self._layouts, self._planned
        self._peers_change(m)
        self._streams_change(m)
        ticks = planned["ticks"] & (planned["surely"] | self.was_moved)  # a PING
        void_acts, is_ahead, is_news = self.void_acts, Signal(), Signal()
        told, after = self.accept_in.told, Signal(NUMBER_BITS)
        was_gap, was_written, was_told = Signal(NUMBER_BITS), Signal(), Signal(NUMBER_BITS)
        known, looked_at, revived = Signal(), Signal(), Signal.like(self._revived)
        # Both in the cycle before: whether the credit that ended is ahead of the one that is told, which only jobs
        # change; and the told one less the least offer, for which a message may have acted in that cycle.
        m.d.sync += [
            is_news.eq(ahead(self._credit, told)),
            was_gap.eq(told - self.accept_in.expected - LEAST_CREDIT),
            was_written.eq(self.accept_writes & (self.accept_at == self.job_in_stream)),
            # For a VOID: no message acts in the cycle before one.
            was_told.eq(told),
            self.void_marks.eq(void_acts & (at_most(after, LEAST_CREDIT - 1) | after[-1])),
        ]
        # It is known late in a cycle whether the NI accepts control in the slot that is looked at.
        looked_here, renewed_here = (node == self._task.node for node in (self.looked_node, self.control_row.node))
        m.d.sync += [looked_at.eq(Mux(self.renewed, renewed_here, looked_here)), revived.eq(self._revived)]
        m.d.sync += known.eq((self._is_open | self._mute) & self._has_index)
        flush_acts = self._flushing & self._act
        m.d.comb += [
            self._hears_void.eq(self._voiding & self._act),
            void_acts.eq(self._hears_void & known),
            self._last.eq(Mux(ticks & planned["marks_map"], 0, planned["last"]) | self._voiding | self._flushing),
            after.eq(was_told - self._lowest),
            # Notices.
            self.operation.eq(planned["operation"]),
            self.notice_code.eq(planned["notice_code"]),
            self.notice_index.eq(Mux(planned["revives"], revived, self._index)),
            # A word that is sent.
            is_ahead.eq(Mux(was_written, _is_less(self.accept_gap, self.job_room), _is_less(was_gap, self.job_room))),
            self.tells.eq((planned["tells"] & (~planned["if_ahead"] | is_ahead)) | self._pings),
            self.told_forgets.eq(planned["told_forgets"]),
            # A number that comes no more, and what is parked of a source that begins again.
            self.job_in_at.eq(of.stream(self._peer, self._q)),
            self.job_in_word.eq(self.accept_in),
            self.run_enters.eq(flush_acts | (void_acts & self._passes)),
            self.run_entry.kind.eq(Mux(self._flushing, EntryKind.FLUSH, EntryKind.RUN)),
            self.run_entry.source.eq(self._peer),
            self.run_entry.index.eq(self._index),
            self.run_entry.seq.eq(self.accept_in.expected),
            self.run_entry.mask.eq(self.accept_in.filled),
            self.run_entry.count.eq(Mux(self._flushing, self._reached, Cat(self._lowest[:PLACE_BITS], 1))),
        ]
        with m.If(ticks):
            m.d.comb += [self.operation.eq(Operation.MARK), self.notice_code.eq(Code.PING)]
        with m.If(planned["if_within"] & ~self._within):
            m.d.comb += self.operation.eq(Operation.NOTHING)
        with m.If(planned["if_ahead"] & ~is_ahead):
            m.d.comb += self.operation.eq(Operation.CLEAN)
        with m.If(self._voiding):
            m.d.comb += [
                self.notice_code.eq(Code.WINDOW),
                self.job_in_writes.eq(void_acts),
                self.job_in_word.expected.eq(self._lowest),
                self.job_in_word.present.eq(self._after),
                self.job_in_word.filled.eq(self._rest),
            ]
            # It marks only if ``void_marks`` is 1 in the next cycle.
            with m.If(void_acts):
                m.d.comb += self.operation.eq(Operation.MARK)
        with m.Elif(self._flushing):
            m.d.comb += [self.job_in_writes.eq(flush_acts), self.job_in_word.eq(of.new_receiving)]
        with m.Else():
            m.d.comb += [
                # If it is not ahead, what is written is what was there.
                self.job_in_writes.eq(planned["tells_credit"]),
                self.job_in_word.told.eq(Mux(is_news, self._credit, told)),
            ]

        self._tasks_change(m, flush_acts)
        with m.If(planned["walked"] & self._last):
            following = Signal(of.node_bits)
            m.d.comb += following.eq(step(self._walk_node, of.nodes))
            m.d.sync += self._walk_node.eq(following)
            with m.If(self._walk_node == self._walk_last):
                # The next walk begins with the node after that with which this one began.
                m.d.sync += [
                    self._walk_node.eq(step(following, of.nodes)), self._walk_last.eq(following), self._walking.eq(0),
                ]  # fmt: skip
        with m.If(planned["cancels"]):
            m.d.sync += [
                self._pointer.eq(Mux(self._pointer == of.slots - 1, 0, self._pointer + 1)),
                self.cancel.payload.eq(self.looked_life),
            ]
            with m.If(self.looked_lives & Mux(self.renewed, self.renewed_leaves, self.looked_leaves)):
                m.d.sync += self.cancel.valid.eq(1)
        m.d.comb += [
            self.row_forgets.eq(planned["forgets"] & looked_at),
            self.job_completes.eq(planned["job_completes"]),
            self.job_leaves.eq(planned["job_completes"]),
            self.job_completion.eq(self._ending),
            self.job_q.eq(self._q),
            self.job_length.eq(self._length),
            # A tick is no work, but for a map that is dirty.
            self.jobs_idle.eq(
                (~self._busy | (self._is(Job.TICK)))
                & ~self._asked[2]
                & ~(self._walking & self._walk_for[2])
                & ~self._has_task
                & ~self._probing
            ),
        ]

    def _peers_change(self, m):
        planned, task = self._planned, self._task
        out, in_ = self.peer_out, self.peer_in
        comes_up, leaves, connects, errs = (planned[name] for name in ("comes_up", "leaves", "connects", "errs"))
        opens, mutes, closes, wears = (planned[name] for name in ("opens", "mutes", "closes", "wears"))
        goes = Signal()
        self._goes = goes
        m.d.comb += [
            goes.eq(~planned["if_connecting"] | self.was_sought),
            *(
                getattr(self, name).eq(planned[name] & goes)
                for name in ("learns", "unblocks", "leaves", "source_knows", "life_writes", "lives_less")
            ),
            self.resets.eq(connects),
            self.state_writes.eq((comes_up | leaves | connects | errs) & goes),
            self.state_word.eq(Cat(connects, comes_up, leaves, errs)),
            # Whether something of a stream is not finished is known late: what is written may be what was there.
            self.wanted_writes.eq((comes_up & goes) | self._pings | planned["clears"]),
            self.wanted_word.eq(
                Mux(planned["clears"] & ~self.numbers.open.any(), out.wanted, planned["wanted_word"])
            ),
            self.wanted_some.eq(
                Mux(planned["clears"], self.numbers.open.any() | out.wanted.any(), planned["wanted_some"])
            ),
            self.notices.eq((planned["notices"] | comes_up | leaves) & goes),
            self.map_writes.eq((planned["map_writes"] | leaves) & goes),
            self.map_word.eq(Mux(leaves, 0, control_fields(Code.MAP, self.word)["map"])),
            self.kept_writes.eq((planned["kept_writes"] | comes_up | leaves) & goes),
            self.kept_word.round.eq(out.round + connects),
            self.kept_word.pong.eq((out.pong & ~planned["unpongs"]) | planned["pongs"]),
            self.kept_word.age.eq(((out.age & ~planned["unages"]) | planned["ages"]) & ~leaves),
            self.kept_word.heard.eq((out.heard & ~planned["unhears"]) | planned["hears"] | comes_up),
            self.kept_word.asked.eq((out.asked & ~planned["unasks"]) | planned["asks"]),
            self.source_writes.eq(opens | mutes | closes | wears),
            self.source_word.state.eq(Cat(opens, mutes | wears)),
            self.source_word.age.eq(Mux(mutes, 0, in_.age + wears)),
            self.lives_more.eq(planned["lives_more"] | self._pings),
            *(self.source_known[name].eq(task[name]) for name in ("boot", "round", "incarnation")),
            self.source_known.known.eq(1),
            self.life_word.known.eq(1),
            self.life_word.boot.eq(Mux(self._heard, control_fields(Code.PONG, self.word)["own"], task.boot)),
            self.learnt.eq(Mux(self._heard, Cat(self._told_of()), Cat(task[name] for name in self._layouts.learnt))),
        ]  # fmt: skip

    def _told_of(self) -> list[Value]:
        """What a PONG tells of a peer, as `Layouts.learnt` has it."""
        of = self._layouts
        paths = of.agreed(control_fields(Code.PONG, self.word)["paths"])
        return [self.heard_incarnation, *([paths] if of.paths_bits else [])]

    def _streams_change(self, m):
        of, planned, numbers = self._layouts, self._planned, self.numbers
        at = Signal(of.stream_bits)
        m.d.sync += at.eq(of.stream(self._peer, Mux(self._is(Job.TICK), self._step - 1, self._index)))
        m.d.comb += [
            self.job_raises.eq(planned["raises"] & self._goes),
            self.job_credit.eq(control_fields(Code.WINDOW, self.word)["credit"]),
            self.job_at.eq(at),
            self.job_numbers_writes.eq(planned["finishes"] | planned["clears"] | self.job_raises),
            self.job_numbers.eq(numbers),
            self.job_ends_writes.eq(planned["finishes"] | planned["clears"] | (planned["voids"] & self._within)),
            self.job_ends_word.done.eq(self._after),
            self.job_ends_word.void.eq(self._rest),
            self.job_ends_word.place.eq(self._lowest),
        ]
        with m.If(planned["clears"]):
            m.d.comb += [self.job_numbers.eq(of.new_numbers), self.job_ends_word.eq(0)]
        with m.Elif(planned["finishes"]):
            m.d.comb += [
                # Less as many as pass: the lowest number less that before.
                self.job_numbers.open.eq(less_two(numbers.open, self._lowest[:COUNT_BITS], self._minus_base)),
                self.job_numbers.above.eq(numbers.above + self._beyond),
                self.job_numbers.stuck.eq((numbers.left == 0) | (numbers.open[-1] & ~self._passes)),
            ]
        with m.If(planned["voids"]):
            m.d.comb += [self.job_ends_word.eq(self.ends), self.job_ends_word.void.eq(self.ends.void | self._these)]

    def _tasks_change(self, m, flush_acts):
        of, planned = self._layouts, self._planned
        opens, comes_up, closes = (planned[name] for name in ("aims_open", "aims_up", "aims_close"))
        ping, pong = (control_fields(code, self.word) for code in (Code.PING, Code.PONG))
        with m.If(opens | closes | (comes_up & self._goes)):
            m.d.sync += [
                self._task.opens.eq(opens),
                self._task.comes_up.eq(comes_up),
                self._task.node.eq(self._peer),
                self._task.boot.eq(Mux(comes_up, pong["own"], ping["boot"])),
                self._task.round.eq(ping["round"]),
                *(self._task[n].eq(told) for n, told in zip(of.learnt, self._told_of(), strict=True)),
                self._task.sweep.eq(comes_up | (opens & self._reborn)),
                self._flushed.eq(0),
                self._phase.eq(Mux(comes_up, Phase.SWEEP, Phase.FLUSH)),
            ]
        with m.If(flush_acts):
            m.d.sync += self._flushed.eq(self._flushed + 1)
            with m.If(self._flushed == of.ports - 1):
                m.d.sync += self._phase.eq(Phase.ROWS)
        with m.If(planned["ends_rows"]):
            m.d.sync += self._phase.eq(Mux(self._task.sweep, Phase.SWEEP, Phase.LAST))
        with m.If(planned["ends_task"]):
            m.d.sync += self._phase.eq(Phase.NONE)
        with m.If(self._pings | (planned["if_probed"] & planned["tells"])):
            m.d.sync += [self._probing.eq(1), self._probe_node.eq(self._peer)]
        with m.If(planned["ends_probe"]):
            failures = Mux(self._failures == DOUBLINGS, DOUBLINGS, self._failures + 1)
            silence, good = of.system.flow_silence, planned["probe_good"]
            waits = Signal(len(self._pause))
            m.d.comb += waits.eq(PAUSE << failures)
            m.d.sync += [
                self._probing.eq(0),
                self._failures.eq(Mux(good, 0, failures)),
                self._pause.eq(Mux(good, 0, Mux(waits > silence, waits, silence))),
                self._paused.eq(~good),
            ]
        # A PONG that comes after the end of its PING: that one has not failed.
        with m.If(planned["comes_up"] & self._goes):
            m.d.sync += [self._failures.eq(0), self._pause.eq(0), self._paused.eq(0)]

    def _set(self, m):
        given, of = self._given, self._layouts
        index = given.index[: of.port_bits]
        sets, codes, whose = self._planned["sets"], Signal(4), Signal(of.ports)
        here, may_bind, taken, other = (Signal(name=name) for name in ("here", "may_bind", "taken", "other"))
        # Read in the cycle before the step: none of this changes until the step, but the lists may.
        m.d.sync += [
            here.eq(given.index < of.ports if of.ports < WINDOW else 1),
            taken.eq(self.set_bound),
            other.eq(given.value[: of.port_bits] != index),
            codes.eq(1 << given.code),
            whose.eq(1 << index),
        ]
        m.d.comb += [
            self.set.ready.eq(sets),
            self.answer.valid.eq(sets),
            self.set_index.eq(given.index),
            self.set_value.eq(given.value),
        ]
        # Whether its list becomes empty is known late.
        listed, leaves = (self.listed & whose).any(), self.fetches & (self.fetched_port == index)
        unbinds, binds, limits, send_limits = (sets & here & code for code in codes)
        free = ~listed | (leaves & self.fetches_last)
        m.d.comb += [
            may_bind.eq(binds & ~taken & ~other),
            self.unbinds.eq(unbinds),
            self.limits.eq(limits),
            self.send_limits.eq(send_limits),
            self.names.eq(binds & ~taken),
            self.binds.eq(may_bind & ~listed),
            self.binds_if_last.eq(may_bind & leaves),
            self.answer.error.eq(Mux(sets & ~here, 3, Mux(binds, Mux(taken, 1, Mux(free, Mux(other, 3, 0), 2)), 0))),
        ]

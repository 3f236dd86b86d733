"""Control: words to peers, words from them, and the notices of what is to be told (contract of flow, section 9)."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.lib.queue import Queue
from lethe.lib.table import Table, Words
from lethe.spec.services.flow import Code
from lethe.spec.trace import WORD_BITS

from .layouts import Layouts, Operation, either

__all__ = ["ControlIn", "ControlOut", "Notices"]

#: Bytes of a control datagram.
WORD_BYTES = WORD_BITS // 8


class Told(enum.Enum, shape=2):
    IDLE = 0
    RECORD = 1
    BEATS = 2


class ControlOut(wiring.Component):
    """The way of a control word to the NI.

    Parameters
    ----------
    layouts : of the configuration

    Members
    -------
    tells, told_row, told_expect, told_word : In
        A word is sent; what the row of its slot becomes; the incarnation that it expects; in the next cycle the word.
    send_control, send_control_data : Out(stream)
        Of the port below.
    told_forgets, job_peer : In
        What is under way to this node carries nothing any more.
    control_row, control_carries : Out
        What is known of the datagram that the NI accepts next, and whether it is a WINDOW whose credit counts.
    control_idle : Out(1)
    """

    def __init__(self, layouts: Layouts):
        self._layouts = layouts
        of, form = layouts, layouts.system.format
        below = host_records(of.system, of.below)
        super().__init__(
            {
                "tells": In(1), "told_word": In(WORD_BITS), "told_row": In(of.control_row),
                "told_expect": In(form.incarnation_bits),
                "send_control": Out(stream.Signature(below["send"])),
                "send_control_data": Out(stream.Signature(form.flit_bits)),
                "told_forgets": In(1), "job_peer": In(of.node_bits),
                "control_row": Out(of.control_row), "control_carries": Out(1), "control_idle": Out(1),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of, form = self._layouts, self._layouts.system.format
        state, word, row = Signal(Told), Signal(WORD_BITS), Signal(of.control_row)
        fresh, busy = Signal(), Signal()  # not IDLE
        expect, beat, carries = Signal(form.incarnation_bits), Signal(range(max(2, of.word_beats))), Signal()
        record, beats = self.send_control.payload, self.send_control_data
        m.d.comb += [
            self.control_idle.eq(~busy),
            self.control_row.eq(row),
            self.control_carries.eq(carries & ~(self.told_forgets & (row.node == self.job_peer))),
            self.send_control.valid.eq(state == Told.RECORD),
            record.destination.eq(row.node),
            record.cls.eq((1 << form.class_bits) - 1),
            record.length.eq(WORD_BYTES),
            record.retry_limit.eq(of.system.flow.tries),
            record.expect.eq(expect),
            *([record.path.eq(row.node[: of.paths_bits])] if of.has_paths else []),
            beats.valid.eq(state == Told.BEATS),
            beats.payload.eq(word if of.word_beats == 1 else word.word_select(beat, form.flit_bits)),
        ]
        m.d.sync += [carries.eq(self.control_carries), fresh.eq(self.tells)]
        with m.If(fresh):
            m.d.sync += word.eq(self.told_word)
        with m.Switch(state):
            with m.Case(Told.IDLE):
                # The NI has accepted the last datagram with its last beat.
                m.d.sync += [
                    row.eq(self.told_row), carries.eq(self.told_row.code == Code.WINDOW), expect.eq(self.told_expect),
                    beat.eq(0),
                ]  # fmt: skip
                with m.If(self.tells):
                    m.d.sync += [state.eq(Told.RECORD), busy.eq(1)]
            with m.Case(Told.RECORD), m.If(self.send_control.ready):
                m.d.sync += state.eq(Told.BEATS)
            with m.Case(Told.BEATS), m.If(beats.ready):
                m.d.sync += beat.eq(beat + 1)
                with m.If(beat == of.word_beats - 1):
                    m.d.sync += [state.eq(Told.IDLE), busy.eq(0)]
        return m


class ControlIn(wiring.Component):
    """Takes control datagrams, one at a time.

    Parameters
    ----------
    layouts : of the configuration

    Members
    -------
    deliver, deliver_data : In(stream)
        FIFO 1 of the NI.
    heard, word, heard_source, heard_incarnation, heard_whole : Out
        The word register is full; what it holds, from whom, and whether it has the length and the class of a word.
    heard_done : In(1)
        The job that it is for makes its last step.
    """

    def __init__(self, layouts: Layouts):
        self._layouts = layouts
        of, form = layouts, layouts.system.format
        below = host_records(of.system, of.below)
        super().__init__(
            {
                "deliver": In(stream.Signature(below["deliver"])),
                "deliver_data": In(stream.Signature(below["beat"])),
                "heard": Out(1), "word": Out(WORD_BITS), "heard_source": Out(of.node_bits),
                "heard_incarnation": Out(form.incarnation_bits), "heard_whole": Out(1), "heard_done": In(1),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of, form = self._layouts, self._layouts.system.format
        full, beats, record = Signal(), Signal(), self.deliver.payload
        count, word = Signal(range(of.word_beats + 1)), Signal(of.word_beats * form.flit_bits)
        m.d.comb += [
            self.heard.eq(full),
            self.word.eq(word),
            self.deliver.ready.eq(~full & ~beats),
            self.deliver_data.ready.eq(beats),
        ]
        with m.If(self.deliver.valid & self.deliver.ready):
            m.d.sync += [
                self.heard_source.eq(record.source),
                self.heard_incarnation.eq(record.incarnation),
                self.heard_whole.eq((record.length == WORD_BYTES) & record.cls.all()),
                count.eq(0),
                beats.eq(record.length != 0),
                full.eq(record.length == 0),
            ]
        with m.If(beats & self.deliver_data.valid):
            with m.If(count != of.word_beats):
                m.d.sync += [
                    count.eq(count + 1),
                    word.word_select(count[: max(1, (of.word_beats - 1).bit_length())], form.flit_bits).eq(
                        self.deliver_data.payload.data
                    ),
                ]
            with m.If(self.deliver_data.payload.last):
                m.d.sync += [beats.eq(0), full.eq(1)]
        with m.If(self.heard_done):
            m.d.sync += full.eq(0)
        return m


class Notices(wiring.Component):
    """What is to be told to whom, and the queue of what waits.

    Parameters
    ----------
    layouts : of the configuration

    Members
    -------
    accept_soon, mark_stream : In
        In the cycle before ``accept_now``: of which in stream.
    accept_now, accept_at : In
        A message acts: of which in stream.
    accept_marks : In
        In the cycle after ``accept_now``: WINDOW of the stream is marked.
    notice_stream : In
        In the cycle before a job acts: the stream of the notice.
    operation, notice_code, job_peer, notice_index : In
        What a job does to a notice; never in a cycle with ``accept_now``.
    void_acts, void_marks : In
        The job is a VOID, and acts; in the next cycle: it marks WINDOW of its stream.
    tell_valid, tell, tell_pops : Out, Out, In
        What waits longest; it is popped, and no longer there in the cycle after the next.
    nothing_to_tell : Out(1)
    clear, clear_addr, nodes_clear, nodes_clear_addr : In
        The walk after a reset, and that over nodes.
    """

    def __init__(self, layouts: Layouts):
        self._layouts = layouts
        of = layouts
        super().__init__(
            {
                "accept_soon": In(1), "mark_stream": In(of.stream_bits), "accept_now": In(1), "accept_marks": In(1),
                "accept_at": In(of.stream_bits), "notice_stream": In(of.stream_bits),
                "operation": In(Operation), "notice_code": In(3), "job_peer": In(of.node_bits),
                "notice_index": In(of.port_bits), "void_acts": In(1), "void_marks": In(1),
                "tell_valid": Out(1), "tell": Out(of.notice), "tell_pops": In(1), "nothing_to_tell": Out(1),
                "clear": In(1), "clear_addr": In(range(of.initial)),
                "nodes_clear": In(1), "nodes_clear_addr": In(of.node_bits),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of = self._layouts
        state = data.StructLayout(dict.fromkeys(("queued", "flying", "again", "waiting"), 1))  # or clean
        by_stream = data.StructLayout({"window": state, "void": state})
        by_node = data.StructLayout({"ping": state, "pong": state, "map": state})
        m.submodules.streams = streams = Table(by_stream, of.streams, ("now",))
        m.submodules.nodes = nodes = Words(by_node, of.nodes, ("now",))
        m.submodules.waiting = waiting = Queue(of.notice, of.nodes * (2 * of.ports + 3))

        # All is done in the cycle after it is asked for; only then is it known whether a message, or a VOID, marks.
        depends, operation, code = Signal(), Signal(Operation), Signal(3)
        given = Mux(self.accept_now, Code.WINDOW, self.notice_code)
        at = Signal(of.stream_bits)
        m.d.sync += [
            depends.eq(self.accept_now | self.void_acts),
            operation.eq(Mux(self.accept_now, Operation.MARK, self.operation)),
            code.eq(given),
            at.eq(Mux(self.accept_now, self.accept_at, of.stream(self.job_peer, self.notice_index))),
        ]
        acts, of_stream, pushes = Signal(), Signal(), Signal()
        codes = (Code.WINDOW, Code.VOID, Code.PING, Code.PONG, Code.MAP)
        is_ = {number: Signal(name=f"is_{number.name.lower()}") for number in codes}
        m.d.sync += [is_[number].eq(given == number) for number in codes]
        m.d.comb += [
            streams.now_addr.eq(Mux(self.accept_soon, self.mark_stream, self.notice_stream)),
            nodes.now_addr.eq(self.job_peer),
            acts.eq((operation != Operation.NOTHING) & (~depends | self.accept_marks | self.void_marks)),
            of_stream.eq(is_[Code.WINDOW] | is_[Code.VOID]),
        ]
        # The notices of the job's node, which is the same in all its steps.
        of_node = Signal(by_node)
        m.d.sync += of_node.eq(Mux(nodes.write_en, nodes.write, nodes.now))
        found = []
        walk = self.clear & (self.clear_addr < of.streams), self.clear_addr
        walk_of_nodes = self.nodes_clear, self.nodes_clear_addr
        for table, now, where, (clear, clear_addr), fields in (
            (streams, streams.now, at, walk, {Code.WINDOW: "window", Code.VOID: "void"}),
            (nodes, of_node, self.job_peer, walk_of_nodes, {Code.PING: "ping", Code.PONG: "pong", Code.MAP: "map"}),
        ):
            old = data.View(state, either(*((is_[number], Value.cast(now[name])) for number, name in fields.items())))
            new, asks = self._after(operation, old)
            found.append(asks)
            m.d.comb += [
                table.clear.eq(clear),
                table.clear_addr.eq(clear_addr),
                table.write_addr.eq(where),
                table.write_en.eq(acts & (of_stream if table is streams else ~of_stream)),
                *(
                    Value.cast(table.write[name]).eq(Mux(is_[number], new, Value.cast(now[name])))
                    for number, name in fields.items()
                ),
            ]
        m.d.comb += pushes.eq(acts & Mux(of_stream, *found))
        # What waits longest is kept before the queue: what finds it empty is there in the next cycle.
        first, some, offered = Signal(of.notice), Signal(), Signal(of.notice)
        window, takes, passes, popped = Cat(offered.index, offered.node), Signal(), Signal(), Signal()
        pending, late = Signal(of.notice), Signal()  # for the queue
        m.d.comb += [
            offered.code.eq(code),
            window.eq(at),
            takes.eq(~some | popped),
            passes.eq(takes & waiting.empty & ~late),
            waiting.i.payload.eq(pending),
            waiting.i.valid.eq(late),
            waiting.o.ready.eq(takes),
            self.tell_valid.eq(some),
            self.tell.eq(first),
            self.nothing_to_tell.eq(waiting.empty & ~some & ~late & ~pushes),
        ]
        m.d.sync += [popped.eq(self.tell_pops), pending.eq(offered), late.eq(pushes & ~passes)]
        with m.If(takes):
            m.d.sync += [
                some.eq(waiting.o.valid | (pushes & waiting.empty & ~late)),
                first.eq(Mux(waiting.o.valid, waiting.o.payload, offered)),
            ]
        return m

    def _after(self, operation, old) -> tuple[Value, Value]:
        """What a notice is after an operation, and whether it comes to the queue."""
        mark, revive, fly, wait, arrived, repeat = (
            operation == kind
            for kind in (
                Operation.MARK, Operation.REVIVE, Operation.FLY, Operation.WAIT, Operation.ARRIVED, Operation.REPEAT,
            )
        )  # fmt: skip
        told = old.flying | old.again
        new = Cat(
            (mark & ~told) | (revive & (old.queued | old.waiting)) | (arrived & old.again) | repeat,
            fly | (revive & old.flying),
            (mark & told) | (revive & old.again),
            wait,
        )
        return new, (mark & ~told & ~old.queued) | (revive & old.waiting) | (arrived & old.again) | repeat

"""Drainer and placer: what was accepted goes to its cell and to the list of its port (contract of flow, section 6)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.host import host_records
from lethe.lib.memory import Ram
from lethe.lib.queue import Queue
from lethe.lib.table import Words
from lethe.spec.services.flow import WINDOW, Flag

from .layouts import NUMBER_BITS, PLACE_BITS, EntryKind, Layouts, at_most

__all__ = ["MOST_WAITING", "SHOWN_FLAGS", "Drainer"]

#: With so many entries in the journal runs and messages to the own node wait.
MOST_WAITING = 2
#: Gaps of streams that are in one word: as many bits as a small memory of LUTs has.
TOGETHER = 4
#: The bits of a message's flags that its receiver sees.
SHOWN_FLAGS = 0xFF & ~(1 << Flag.ASK) & ~(1 << Flag.NOWAIT)


class DrainState(enum.Enum, shape=2):
    IDLE = 0
    HEADER = 1
    BODY = 2


class Drainer(wiring.Component):
    """Takes entries of the journal and, for those of messages, what the NI delivers.

    Parameters
    ----------
    layouts : of the configuration

    Members
    -------
    enters, entry : In
        For the journal.
    journal_empty, journal_high, drainer_idle : Out(1)
        Neither memory nor output holds an entry; its level is so high that runs wait; drainer and placer are IDLE.
    deliver, deliver_data : In(stream)
        The data messages of the NI.
    own_*, own_pops, own_ends : In, Out
        The message to the own node: what is known of it, and a beat, which is its next one if that is popped, else its
        header, or the last of that; it is popped; it is the last.
    free_port, free_cell, free_takes : Out, In, Out
        The oldest free cell of a port, two cycles later; it is taken.
    cell_writes, cell_at, cell_word : Out
        What stands before a message.
    store_writes, store_at, store_beat, store_data : Out
        A beat.
    appends, append_port, append_list, append_word : Out
        To the list of a port; ``append_list`` has a bit for each port, and a 1 for this one.
    append_seq, append_source : Out
        The message, for the trace.
    fills, fill_port, fill_length : Out
        Bytes more in a port.
    credit_soon, credit_stream : Out
        Two cycles before a credit acts: of which out stream.
    credit_next, credit_coming : Out
        A credit acts in the next cycle, and what it is.
    credit_acts, credit_at : Out
        A credit acts: of which out stream.
    clear, clear_addr : In
        The walk after a reset.
    """

    def __init__(self, layouts: Layouts):
        self._layouts = layouts
        of = layouts
        records = host_records(of.system, of.below)
        super().__init__(
            {
                "enters": In(1),
                "entry": In(of.journal),
                "journal_empty": Out(1),
                "journal_high": Out(1),
                "drainer_idle": Out(1),
                "deliver": In(stream.Signature(records["deliver"])),
                "deliver_data": In(stream.Signature(records["beat"])),
                "own_cls": In(of.system.format.class_bits),
                "own_length": In(of.length_bits),
                "own_header": In(of.header),
                "own_beat": In(of.system.format.flit_bits),
                "own_pops": Out(1),
                "own_ends": Out(1),
                "free_port": Out(of.port_bits),
                "free_cell": In(of.cell_bits),
                "free_takes": Out(1),
                "cell_writes": Out(1),
                "cell_at": Out(of.port_bits + of.cell_bits),
                "cell_word": Out(of.cell),
                "store_writes": Out(1),
                "store_at": Out(of.port_bits + of.cell_bits + of.beat_bits),
                "store_data": Out(of.system.format.flit_bits),
                "appends": Out(1),
                "append_port": Out(of.port_bits),
                "append_list": Out(of.ports),
                "append_word": Out(of.placed),
                "append_seq": Out(NUMBER_BITS),
                "append_source": Out(of.node_bits),
                "fills": Out(1),
                "fill_port": Out(of.port_bits),
                "fill_length": Out(of.length_bits),
                "credit_soon": Out(1),
                "credit_stream": Out(of.stream_bits),
                "credit_next": Out(1),
                "credit_coming": Out(NUMBER_BITS),
                "credit_acts": Out(1),
                "credit_at": Out(of.stream_bits),
                "clear": In(1),
                "clear_addr": In(range(of.initial)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        of = self._layouts
        form, header_beats = of.system.format, of.header_beats
        records = of.system.ni.deliver_records
        m.submodules.journal = journal = Queue(of.journal, records + 4)
        m.submodules.parked = parked = Ram(of.cell_bits, of.streams * WINDOW)

        state = Signal(DrainState)
        entry, length = Signal(of.journal), Signal(of.length_bits)
        cell, kept_cell, comes, come = Signal(of.cell_bits), Signal(of.cell_bits), Signal(), Signal()
        cls, long = Signal(form.class_bits), Signal()
        header = Signal(of.header)
        beats_left, headers_left, beat = (
            Signal(range(of.beats + header_beats + 1)),
            Signal(range(header_beats + 1)),
            Signal(max(1, of.beat_bits)),
        )
        settles, credits_, places = Signal(), Signal(), Signal()  # of a message of the NI
        busy = Signal()  # the placer
        # Entries in the memory of the journal, and whether they are so many that runs wait; one goes to its output.
        entries, high, refills = Signal(range(records + 5)), Signal(), Signal()
        head, offered = journal.o.payload, self.deliver.payload

        # r: an entry is popped.
        pops, is_run, is_flush, is_own, is_place = Signal(), Signal(), Signal(), Signal(), Signal()
        whole, beats, is_long = Signal(of.length_bits), Signal.like(beats_left), Signal()
        m.d.comb += [
            journal.i.valid.eq(self.enters),
            journal.i.payload.eq(self.entry),
            self.journal_empty.eq(journal.empty),
            self.journal_high.eq(high),
            refills.eq(entries.any() & (~journal.o.valid | pops)),
            self.drainer_idle.eq((state == DrainState.IDLE) & ~busy),
            is_flush.eq(EntryKind.FLUSH.of(head.kind)),
            is_run.eq(EntryKind.RUN.of(head.kind)),
            is_own.eq(EntryKind.OWN.of(head.kind)),
            is_place.eq(EntryKind.PLACE.of(head.kind)),
            pops.eq(self.drainer_idle & ~settles & journal.o.valid & (is_run | is_own | self.deliver.valid)),
            journal.o.ready.eq(pops),
            self.deliver.ready.eq(pops & ~is_run & ~is_own),
            whole.eq(Mux(is_own, self.own_length, offered.length)),
            beats.eq(of.payload_flits(whole)),
            is_long.eq(~at_most(offered.length, of.header_bytes - 1)),
            # That of a message to the own node is needed a cycle sooner, and its port is known long before.
            self.free_port.eq(Mux(journal.o.valid & is_place, head.index, self.own_header.dport)),
            self.free_takes.eq(pops & (is_place | (is_own & head.count.any()))),
        ]
        takes = Signal()  # a beat of the NI
        m.d.comb += takes.eq(self.deliver_data.valid & self.deliver_data.ready)
        # The cell that was taken comes two cycles later, to the own node one.
        m.d.comb += cell.eq(Mux(come, self.free_cell, kept_cell))
        m.d.sync += [
            kept_cell.eq(cell),
            comes.eq(self.free_takes & ~is_own),
            come.eq(comes | (self.free_takes & is_own)),
        ]
        m.d.sync += [settles.eq(0), credits_.eq(self.credit_next)]
        with m.If(self.enters != refills):
            m.d.sync += [
                entries.eq(entries + Mux(refills, -1, 1)),
                high.eq(Mux(refills, entries > MOST_WAITING, entries >= MOST_WAITING - 1)),
            ]
        with m.Switch(state):
            with m.Case(DrainState.IDLE), m.If(pops & ~is_run):
                m.d.sync += [
                    cls.eq(Mux(is_own, self.own_cls, offered.cls)),
                    length.eq(Mux(is_own, whole, whole - of.header_bytes)),
                    long.eq(is_long),
                    beat.eq(0),
                ]
                with m.If(is_own):
                    m.d.sync += [settles.eq(1), beats_left.eq(beats)]
                    with m.If(whole.any()):
                        m.d.sync += state.eq(DrainState.BODY)
                with m.Elif(whole.any()):
                    m.d.sync += [
                        state.eq(DrainState.HEADER),
                        headers_left.eq(Mux(is_long, header_beats, beats)),
                        beats_left.eq(Mux(is_long, beats - header_beats, 0)),
                    ]
            with m.Case(DrainState.HEADER):
                m.d.comb += self.deliver_data.ready.eq(1)
                with m.If(takes):
                    m.d.sync += headers_left.eq(headers_left - 1)
                    with m.If(headers_left == 1):
                        m.d.comb += self.credit_next.eq(long)
                        m.d.sync += [
                            settles.eq(long),
                            state.eq(Mux(beats_left.any(), DrainState.BODY, DrainState.IDLE)),
                        ]
            with m.Case(DrainState.BODY):
                own = EntryKind.OWN.of(entry.kind)
                m.d.comb += self.deliver_data.ready.eq(~own)
                with m.If(takes | own):
                    m.d.sync += [beat.eq(beat + 1), beats_left.eq(beats_left - 1)]
                    with m.If(beats_left == 1):
                        m.d.sync += state.eq(DrainState.IDLE)

        # None or 1 to 16 numbers pass: behind 16 of them is the place of the first.
        apart, passes = Signal(PLACE_BITS), Signal()
        m.d.comb += apart.eq(head.count - head.seq)
        with m.If(pops):
            m.d.sync += [
                entry.eq(head),
                self.append_list.eq(1 << head.index),
                places.eq(is_place | (is_own & head.count.any())),
                passes.eq(head.count.any()),
            ]
            with m.If(~is_flush & ~is_own):
                m.d.sync += [
                    entry.count.eq(Mux(head.count[PLACE_BITS], Cat(apart, ~apart.any()), 0)),
                    passes.eq(head.count[PLACE_BITS]),
                ]

        # A beat, of the own message or of the NI: of the header, or one to the cell.
        idle, own_body = state == DrainState.IDLE, (state == DrainState.BODY) & EntryKind.OWN.of(entry.kind)
        got, last, from_ni = Signal(form.flit_bits), beats_left == 1, self.deliver_data.payload.data
        # Bytes of an own beat that lie within the length.
        size = form.flit_bytes
        within = length[: of.byte_bits]
        kept = [idle | ~last | (within == 0) | (within > i) for i in range(size)]
        # The lowest part of a header comes first; of a wide beat there is only one.
        part = Cat(header, got)[min(64, form.flit_bits) :][:64]
        takes_own = pops & is_own
        with m.If(takes_own | ((state == DrainState.HEADER) & takes)):
            m.d.sync += header.eq(part if header_beats == 1 else Mux(takes_own, self.own_header, part))
        m.d.comb += [
            got.eq(
                Mux(
                    idle | EntryKind.OWN.of(entry.kind),
                    self.own_beat & Cat(*(byte.replicate(8) for byte in kept)),
                    from_ni,
                )
            ),
            self.own_pops.eq(own_body),
            self.own_ends.eq((own_body & last) | (pops & is_own & ~self.own_length.any())),
            self.store_writes.eq((state == DrainState.BODY) & places & (takes | own_body)),
            self.store_at.eq(Cat(cell, entry.index, beat[: of.beat_bits])),
            self.store_data.eq(got),
        ]

        # k+1, of an own message r+1: it settles.
        popped_own = is_own
        goes = Signal()  # the expected one: those behind it go with it
        is_own = EntryKind.OWN.of(entry.kind)
        m.d.comb += [
            goes.eq(settles & passes),
            self.cell_writes.eq(settles & places),
            self.cell_at.eq(Cat(cell, entry.index)),
            *(self.cell_word[name].eq(header[name]) for name in ("sport", "dport", "seq")),
            self.cell_word.source.eq(entry.source),
            self.cell_word.cls.eq(cls),
            self.cell_word.length.eq(length),
            self.cell_word.flags.eq((header.flags & SHOWN_FLAGS) | (header.retx << Flag.NOWAIT)),
            self.fills.eq(settles & places),
            self.fill_port.eq(entry.index),
            self.fill_length.eq(length),
            parked.write_en.eq(settles & EntryKind.PLACE.of(entry.kind) & ~passes),
            parked.write_addr.eq(Cat(entry.seq[:4], of.stream(entry.source, entry.index))),
            parked.write_data.eq(cell),
        ]

        # The placer: a run taken in x is placed from x+2 on.  What is left of it is the entry's: no other is popped.
        begins, warm, acts = Signal(), Signal(), Signal()
        asked, place, held = Signal(PLACE_BITS), Signal(PLACE_BITS), Signal()
        popped_run = pops & is_run
        follows = goes & ~is_own
        whose = Mux(busy | settles, of.stream(entry.source, entry.index), of.stream(head.source, head.index))
        m.d.comb += [
            begins.eq((popped_run & head.count.any()) | (follows & (entry.count != 1))),
            place.eq(Mux(busy, asked, Mux(settles, entry.seq + 1, head.seq))),
            acts.eq(busy & ~warm),
            parked.read_addr.eq(Cat(place, whose)),
        ]
        m.d.sync += [
            asked.eq(place + 1),
            # Whether that which acts next is held: of the number that was asked for in the cycle before.
            held.eq(entry.mask.rotate_left(1).bit_select(asked, 1)),
        ]
        with m.If(begins):
            m.d.sync += [busy.eq(1), warm.eq(1)]
        with m.Elif(busy):
            m.d.sync += warm.eq(0)
            with m.If(acts):
                m.d.sync += busy.eq(entry.count != 1)
        with m.If(follows | acts):
            m.d.sync += [entry.seq.eq(entry.seq + 1), entry.count.eq(entry.count - 1), passes.eq(entry.count != 1)]

        # To the list, with the gap of the stream.
        gap = Signal()
        m.d.comb += [
            self.appends.eq((goes & places) | (acts & held)),
            self.append_port.eq(entry.index),
            self.append_word.cell.eq(Mux(acts, parked.read_data, cell)),
            self.append_word.gap.eq(gap),
            self.append_seq.eq(Mux(acts, entry.seq, header.seq)),
            self.append_source.eq(entry.source),
        ]
        self._gaps(m, gap, entry.index, writes=acts | goes)

        # The credit of a message's header.
        if header_beats == 1:
            soon, whose = pops & ~is_run & ~popped_own & is_long, head
        else:
            soon, whose = (state == DrainState.HEADER) & takes & (headers_left == 2) & long, entry
        m.d.comb += [
            self.credit_soon.eq(soon),
            self.credit_stream.eq(of.stream(whose.source, whose.q)),
            self.credit_acts.eq(credits_),
            self.credit_at.eq(of.stream(entry.source, entry.q)),
            self.credit_coming.eq(data.View(of.header, part).credit),
        ]  # fmt: skip
        return m

    def _gaps(self, m, gap, index, writes):
        """The gaps of all streams, each word of a few: 0 behind what is placed, 1 behind what is void."""
        of = self._layouts
        few = min(TOGETHER, of.ports)
        inside = exact_log2(few)
        m.submodules.gaps = gaps = Words(few, of.streams // few, ("now",), init=Const(-1, few))
        here, where = Signal(few), Cat(index[inside:], self.append_source)
        m.d.comb += [
            here.eq(1 << index[:inside]),
            gaps.now_addr.eq(where),
            gap.eq((gaps.now & here).any()),
            gaps.clear.eq(self.clear & (self.clear_addr < of.streams // few)),
            gaps.clear_addr.eq(self.clear_addr),
            gaps.write_addr.eq(where),
            gaps.write_en.eq(writes),
            gaps.write.eq((gaps.now & ~here) | Mux(self.appends, 0, here)),
        ]

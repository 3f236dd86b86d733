"""Data in: a message is posted or parked at its destination, and goes on everywhere else (contract of relay, 7.2)."""

from amaranth.hdl import Cat, Mux, Signal, Value

from lethe.lib.memory import Ram
from lethe.spec.services.relay import RecordState, RelayJob
from lethe.traffic.payload import clipped

from .layouts import Of
from .steps import Fate, RelayPhase
from .unit import JobUnit

__all__ = ["add_data"]


class _Arrived:
    """The registers of data in: where the beats of the message go, and what an eviction must not forget."""

    def __init__(self, u: JobUnit):
        of = u.of
        self.fate, self.left, self.beat = (
            Signal(Fate),
            Signal(range(of.beats + of.header_beats + 1)),
            Signal(of.beat_bits),
        )
        self.cell, self.posts, self.buffer = Signal(of.cell_bits), Signal(), Signal(of.buffer_bits)
        self.stores = Signal()  # there is a buffer
        self.place, self.found, self.owing = Signal(of.record_bits), Signal(), Signal()
        #: What becomes of the beats is decided in this cycle: they come to a cell, a buffer, or go through.
        self.decides, self.to_cell, self.to_buffer, self.through = Signal(), Signal(), Signal(), Signal()
        self.posts_now, self.stores_now = Signal(), Signal()
        #: It is, and nothing is posted: without beats the job is over, or over if it does not go through.
        self.ends_bare, self.may_pass = Signal(), Signal()
        #: So many beats are behind the header; none.
        self.beats, self.bare = Signal.like(self.left), Signal()
        #: Some beats are left; one is.
        self.some_left, self.one_left = Signal(), Signal()
        #: A register: the header is none of data, or a search has ended.  The message goes nowhere, or to a cell.
        self.drops = Signal()
        #: A message is parked whose turn it is not.
        self.parks = Signal()


def add_data(u: JobUnit) -> None:
    """Steps of data in, and its beats."""
    m, of, facts, kinds = u.m, u.of, u.facts, u.kinds
    a = _Arrived(u)
    first, job = u.at(RelayJob.DATA), RelayJob.DATA
    here, elsewhere, unsound = Signal(), Signal(), Signal()
    m.d.sync += [
        here.eq(u.next_data & kinds.data_here),
        elsewhere.eq(u.next_data & kinds.data_else),
        unsound.eq(u.next_data & ~kinds.data),
    ]
    searched = u.at(job, RelayPhase.SEARCH)
    stored, released = u.at(job, RelayPhase.STORE), u.at(job, RelayPhase.RELEASE)
    with m.If(first):
        m.d.sync += u.clear_row.eq(0)
    # What is passed on, or told up: neither astray nor to nobody.
    passes, judging, answers, released_up = Signal(), Signal(), Signal(), Signal()
    passing = u.next_data & kinds.data_else & ~u.astray
    judges = (u.next_data & kinds.data_here) | u.nexts[job, RelayPhase.JUDGE]
    m.d.sync += [
        passes.eq(passing),
        judging.eq(judges),
        answers.eq(judges & ~u.up_nobody),
        released_up.eq(u.nexts[job, RelayPhase.RELEASE] & ~u.up_nobody),
    ]
    u.wants(unsound, u.ignores)
    u.wants((here & facts.stale) | (elsewhere & facts.astray), u.stale)
    u.wants(a.drops, a.decides)
    u.wants((here & facts.stale) | (elsewhere & facts.astray), a.decides)
    m.d.comb += u.renews.eq(here & u.is_renewed)
    u.goes_on(here & u.is_renewed & facts.parked, RelayPhase.CLEAR)
    clears = u.at(job, RelayPhase.CLEAR)
    m.d.comb += u.clears.eq(clears & u.clears_cell)
    u.goes_on(clears & (u.clear_row == of.cells - 1), RelayPhase.JUDGE)
    u.goes_on(clears & (u.clear_row != of.cells - 1), RelayPhase.CLEAR)
    with m.If(clears):
        m.d.sync += u.clear_row.eq(u.clear_row + 1)
    m.d.sync += a.drops.eq((u.next_data & ~kinds.data) | u.nexts[job, RelayPhase.SEARCH])
    bare = [a.drops, here & facts.stale, elsewhere & facts.astray]
    bare += _judge(u, a, judging, searched)
    bare += _pass_on(u, a, passes, stored)
    m.d.comb += a.ends_bare.eq(Cat(bare).any())
    # A parked message whose turn it is is posted.
    m.d.comb += u.releases.eq(released & u.parked_found)
    u.goes_on_posted(u.releases, ~facts.parked_one)
    u.wants(released_up & ~u.parked_found, u.tells)
    u.wants(u.nexts[job, RelayPhase.ANSWER] & ~u.up_nobody, u.tells_next)
    u.wants(answers & u.was_posted, u.tells)
    _beats(u, a)


def _judge(u: JobUnit, a: _Arrived, judging: Value, searched: Value) -> list[Value]:
    """Is it its turn?  If not it is parked, if a cell is left for another.  When it is judged, and not posted.

    ``judging``: unless it is stale, or parked cells are to be cleared before.
    """
    m, facts, cells = u.m, u.facts, u.free_cells
    turn, posted, early, searches = (Signal() for _ in range(4))
    m.d.comb += [
        turn.eq(judging & u.turn),
        posted.eq(judging & u.was_posted),
        early.eq(judging & u.comes_early & ~facts.parked),
        searches.eq(judging & u.comes_early & ~facts.is_new & facts.parked),
        a.parks.eq(early | (searched & ~u.parked_found)),
        a.posts_now.eq(turn),
        a.to_cell.eq((turn & cells.some) | (a.parks & cells.two)),
        u.takes_cell.eq(a.to_cell),
        u.starves.eq((turn & ~cells.some) | (a.parks & ~cells.two)),
        u.marks.eq(turn & cells.some),
    ]
    u.wants(turn, a.decides)
    u.wants(posted, a.decides)
    u.wants(early, a.decides)
    u.goes_on(searches, RelayPhase.SEARCH)
    return [posted, turn & ~cells.some, early]


def _pass_on(u: JobUnit, a: _Arrived, passes: Value, stored: Value) -> list[Value]:
    """Record and buffer; at once, or as its turn comes.  ``stored``: after the oldest held data have gone.

    When it does not go through, whatever the transfer does.
    """
    m, facts = u.m, u.facts
    free, held, needed, placed, takes = u.free_buffers.some, u.held.some, Signal(), Signal(), Signal()
    m.d.comb += [
        needed.eq(passes & ~facts.acked & ~u.has_data),
        placed.eq(passes & ~facts.acked & ~u.has_data & facts.place),
        takes.eq(free & (stored | placed)),  # behind an eviction a buffer is free
        u.evicts.eq(stored),
        u.place_filled.eq(Mux(stored, a.place, u.place)),
        u.was_owing.eq(Mux(stored, a.owing, facts.owed)),
        u.takes_buffer.eq(takes),
        u.owes.eq(placed & ~free & ~held),
        u.untracked.eq(needed & ~facts.place),
        u.sent_stored.eq(facts.place | stored),
        a.stores_now.eq((facts.place | stored) & free),
        a.through.eq(u.at_once & (takes | u.untracked)),
        a.to_buffer.eq(takes & ~u.at_once),
    ]
    u.wants(takes, u.fills, u.states[RecordState.SENT])
    u.wants(u.owes, u.fills, u.states[RecordState.OWED])
    u.wants(u.makes_named, u.fills, u.makes)
    u.wants(free & stored & ~a.found, u.makes)
    u.wants(placed & ~u.found & (free | ~held), u.makes)
    u.wants(passes & facts.acked & ~facts.up_nobody, u.tells)
    u.wants(passes, u.resends)
    evicts = placed & ~free & held
    u.wants(evicts, u.lets_go)
    u.goes_on(evicts, RelayPhase.STORE)
    with m.If(u.at(RelayJob.DATA)):
        m.d.sync += [
            u.evicted.eq(u.oldest_owner.record), a.place.eq(u.place), a.found.eq(u.found), a.owing.eq(facts.owed),
        ]  # fmt: skip
    known, stores = passes & (facts.acked | u.has_data), stored | (needed & (~facts.place | free | ~held))
    u.wants(known, a.decides)
    u.wants(stores, a.decides)
    # Without beats, if it could go through: it does, or waits.
    u.wants(passes & (~facts.place | free), a.may_pass)
    u.wants(stored, a.may_pass)
    return [passes & (facts.acked | u.has_data | (facts.place & ~free & ~held)), stored & ~free]


def _beats(u: JobUnit, a: _Arrived) -> None:
    m, of = u.m, u.of
    streams, takes, last, kept = Signal(), Signal(), Signal(), Signal(of.system.format.flit_bits)
    deliver, form = u.below.deliver_control2_data, of.system.format
    stored = Signal(of.stored_bits) if of.checks else kept
    through = a.fate == Fate.THROUGH
    length = u.data_in.length
    flits = of.payload_flits(length)
    beats = Signal.like(a.beats)
    m.d.comb += beats.eq(Mux(flits > of.header_beats, flits - of.header_beats, 0))
    m.d.sync += [a.beats.eq(beats), a.bare.eq(beats == 0)]  # for a step, three cycles after the datagram is there
    m.d.comb += [
        streams.eq(~u.rests & u.phases[RelayPhase.STREAM]),  # which are those of data in
        u.data_in.rest.eq(streams & a.some_left & (~through | u.hop.through.ready)),
        takes.eq(u.data_in.rest & deliver.valid),
        # In the cycle behind the job the phase is still STREAM, but `one_left` is 0.
        last.eq(u.phases[RelayPhase.STREAM] & deliver.valid & a.one_left & ~through),
        kept.eq(
            Mux(
                a.one_left,
                clipped(deliver.payload.data, u.message_length, form.flit_bytes),
                deliver.payload.data,
            )
        ),
        u.hop.through.valid.eq(deliver.valid),
        u.hop.through.payload.eq(deliver.payload.data),
    ]
    if of.checks:
        m.d.comb += stored.eq(of.stored(kept))
    m.d.comb += [
        u.post.store_writes.eq(takes & (a.fate == Fate.CELL)), u.post.store_at.eq(Cat(a.beat, a.cell)),
        u.post.store_data.eq(stored),
    ]  # fmt: skip
    with m.If(takes):
        m.d.sync += [
            a.left.eq(a.left - 1), a.beat.eq(a.beat + 1), a.some_left.eq(~a.one_left), a.one_left.eq(a.left == 2),
        ]  # fmt: skip
    cell = Signal(of.cell_bits)
    m.d.comb += cell.eq(Mux(u.phases[RelayPhase.STREAM], a.cell, u.free_cells.oldest))
    with m.If(~streams):
        m.d.sync += [
            a.left.eq(a.beats), a.some_left.eq(~a.bare), a.one_left.eq(a.beats == 1), a.beat.eq(0),
            a.cell.eq(u.free_cells.oldest), a.posts.eq(a.posts_now),
            a.buffer.eq(u.free_buffers.oldest), a.stores.eq(a.stores_now),
            a.fate.eq(Cat(a.to_cell | a.through, a.to_buffer | a.through)),
        ]  # fmt: skip
    u.goes_on(a.decides & (~a.bare | a.through), RelayPhase.STREAM)
    # With its last beat, or in the step if it has none.
    celled, posts = last & (a.fate == Fate.CELL), Signal()
    m.d.comb += [u.stream_goes_on.eq(celled & a.posts), posts.eq((celled & a.posts) | (u.marks & a.bare))]
    u.goes_on_posted(u.marks & a.bare, u.facts.parked)
    m.d.comb += [
        u.posts.eq(posts | u.releases),
        u.posted.eq(Mux(u.phases[RelayPhase.RELEASE], u.parked_at, cell)),
        u.parks.eq((celled & ~a.posts) | (a.parks & u.free_cells.two & a.bare)),
        u.data_waits.eq((last & (a.fate == Fate.BUFFER)) | (a.to_buffer & a.bare)),
        u.data_buffer.eq(Mux(u.phases[RelayPhase.STREAM], a.buffer, u.free_buffers.oldest)),
        u.streams_to.eq(a.cell),
        u.sends_through.eq(a.through),
    ]
    # Over with the last beat, with a step that finds no message, or, a cycle later, with one that comes without beats
    # and is neither posted nor goes through.
    over = Signal()
    m.d.sync += over.eq(a.bare & (a.ends_bare | (a.may_pass & ~u.at_once)))
    answers = u.at(RelayJob.DATA, RelayPhase.ANSWER) | (u.at(RelayJob.DATA, RelayPhase.RELEASE) & ~u.parked_found)
    to_post = (a.fate == Fate.CELL) & a.posts  # of beats: behind them are further steps
    m.d.comb += u.reads_data.eq(~over & ~answers & ~(u.phases[RelayPhase.STREAM] & ~to_post))
    for ends in (
        last & ~to_post, u.hop.ends_through & u.phases[RelayPhase.STREAM] & through, answers, over,
    ):  # fmt: skip
        u.wants(ends, u.data_in.done, u.over)

    # Beats of slots and buffers; they are written a cycle later (as in `Post`), and read long after that.
    m.submodules.slot_store = slots = Ram(of.stored_bits, of.slots << of.beat_bits)
    m.submodules.buffer_store = buffers = Ram(of.stored_bits, of.buffers << of.beat_bits)
    now = u.hop.now
    m.d.sync += [
        slots.write_en.eq(u.host.store_writes), slots.write_addr.eq(u.host.store_at),
        slots.write_data.eq(of.stored(u.host.store_data)),
        buffers.write_en.eq(takes & a.stores & (a.fate != Fate.DROP) & (a.fate != Fate.CELL)),
        buffers.write_addr.eq(Cat(a.beat, a.buffer)), buffers.write_data.eq(stored),
    ]  # fmt: skip
    m.d.comb += [
        slots.read_addr.eq(Cat(u.hop.read_at, now.number[: of.slot_bits])),
        buffers.read_addr.eq(Cat(u.hop.read_at, now.number[: of.buffer_bits])),
        u.hop.read.eq(Mux(now.of == Of.SLOT, slots.read_data, buffers.read_data)),
    ]  # fmt: skip

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
        #: So many beats are behind the header; none.
        self.beats, self.bare = Signal.like(self.left), Signal()
        #: Some beats are left; one is.
        self.some_left, self.one_left = Signal(), Signal()
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
    judged, searched = u.at(job, RelayPhase.JUDGE), u.at(job, RelayPhase.SEARCH)
    stored, released = u.at(job, RelayPhase.STORE), u.at(job, RelayPhase.RELEASE)
    with m.If(first):
        m.d.sync += u.clear_row.eq(0)
    with m.If(unsound):
        m.d.comb += [u.ignores.eq(1), a.decides.eq(1)]
    with m.If((here & facts.stale) | (elsewhere & facts.astray)):
        m.d.comb += [u.stale.eq(1), a.decides.eq(1)]
    m.d.comb += u.renews.eq(here & facts.renews)
    with m.If(here & ~facts.stale & facts.renewed):
        m.d.comb += u.goes_on(RelayPhase.CLEAR)
    with m.If(u.at(job, RelayPhase.CLEAR)):
        m.d.comb += [u.further.eq(1), u.clears.eq(u.is_parked.row & (u.cell.source == u.heard.source))]
        with m.If(u.clear_row == of.cells - 1):
            m.d.comb += u.then[RelayPhase.JUDGE].eq(1)
        with m.Else():
            m.d.comb += u.then[RelayPhase.CLEAR].eq(1)
        m.d.sync += u.clear_row.eq(u.clear_row + 1)
    _judge(u, a, (here & facts.judges) | judged, searched)
    _pass_on(u, a, elsewhere & ~facts.astray, stored)
    with m.If(released & u.parked_found):
        # A parked message whose turn it is is posted.
        m.d.comb += [u.releases.eq(1), u.further.eq(1)]
        with m.If(facts.parked_one):
            m.d.comb += u.then[RelayPhase.ANSWER].eq(1)
        with m.Else():
            m.d.comb += u.then[RelayPhase.RELEASE].eq(1)
    with m.If((released & ~u.parked_found) | u.at(job, RelayPhase.ANSWER)):
        m.d.comb += u.tells_up.eq(1)
    _beats(u, a)


def _judge(u: JobUnit, a: _Arrived, judges: Value, searched: Value) -> None:
    """Is it its turn?  If not it is parked, if a cell is left for another."""
    m, facts = u.m, u.facts
    parks = a.parks
    m.d.comb += [
        parks.eq((judges & facts.ahead & ~facts.parked) | (searched & ~u.parked_found)),
        a.posts_now.eq(facts.turn & ~searched),
        a.to_cell.eq((judges & facts.turn & u.free_cells.some) | (parks & u.free_cells.two)),
        u.takes_cell.eq(a.to_cell),
        u.starves.eq((judges & facts.turn & ~u.free_cells.some) | (parks & ~u.free_cells.two)),
        u.marks.eq(judges & facts.turn & u.free_cells.some),
    ]
    with m.If((judges & ~(facts.ahead & facts.parked)) | searched):
        m.d.comb += a.decides.eq(1)
    with m.If(judges & facts.below):
        m.d.comb += u.tells_up.eq(1)
    with m.If(judges & facts.ahead & facts.parked):
        m.d.comb += u.goes_on(RelayPhase.SEARCH)


def _pass_on(u: JobUnit, a: _Arrived, passes: Value, stored: Value) -> None:
    """Record and buffer; at once, or as its turn comes.  ``stored``: after the oldest held data have gone."""
    m, facts = u.m, u.facts
    free, needed, evicts, stores = u.free_buffers.some, Signal(), Signal(), Signal()
    some, known, owing, through, takes = Signal(), Signal(), Signal(), Signal(), Signal()
    m.d.comb += [
        needed.eq(passes & ~facts.acked & ~u.has_data),
        evicts.eq(needed & facts.place & ~free & u.held.some),
        stores.eq((needed & (~facts.place | free | ~u.held.some)) | stored),
        some.eq(facts.place | stored),  # behind an eviction a buffer is free
        takes.eq(free & (stored | (needed & facts.place))),
        known.eq(Mux(stored, a.found, u.found)),
        owing.eq(Mux(stored, a.owing, facts.owed)),
        through.eq(u.at_once & (free | ~some)),
        u.evicts.eq(stored),
        u.place_filled.eq(Mux(stored, a.place, u.place)),
        u.was_owing.eq(owing),
        u.takes_buffer.eq(takes),
        u.owes.eq(needed & facts.place & ~free & ~u.held.some),
        u.untracked.eq(needed & ~facts.place),
        u.sent_stored.eq(some),
        a.stores_now.eq(some & free),
        a.through.eq(stores & through),
        a.to_buffer.eq(takes & ~u.at_once),
    ]
    with m.If(takes | u.owes):
        m.d.comb += [u.fills.eq(1), u.makes.eq(~known)]
    with m.If(takes):
        m.d.comb += u.states[RecordState.SENT].eq(1)
    with m.If(u.owes):
        m.d.comb += u.states[RecordState.OWED].eq(1)
    with m.If(passes & facts.acked):
        m.d.comb += u.tells_up.eq(1)
    with m.If(passes & ~facts.acked & u.has_data):
        m.d.comb += u.sends_held.eq(1)
    with m.If(evicts):
        m.d.comb += [u.lets_go.eq(1), *u.goes_on(RelayPhase.STORE)]
    with m.If(u.at(RelayJob.DATA)):
        m.d.sync += [
            u.evicted.eq(u.oldest_owner.record), a.place.eq(u.place), a.found.eq(u.found), a.owing.eq(facts.owed),
        ]  # fmt: skip
    with m.If((passes & (facts.acked | u.has_data)) | stores):
        m.d.comb += a.decides.eq(1)


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
        last.eq(streams & deliver.valid & a.one_left & ~through),
        kept.eq(
            Mux(
                a.one_left,
                clipped(deliver.payload.data, u.message_length, form.flit_bytes),
                deliver.payload.data,
            )
        ),
        u.hop.through.valid.eq(deliver.valid),
        u.hop.through.payload.eq(deliver.payload.data),
        u.post.store_writes.eq(takes & (a.fate == Fate.CELL)),
        u.post.store_at.eq(Cat(a.beat, a.cell)),
        u.post.store_data.eq(stored),
    ]
    if of.checks:
        m.d.comb += stored.eq(of.stored(kept))
    with m.If(takes):
        m.d.sync += [
            a.left.eq(a.left - 1), a.beat.eq(a.beat + 1), a.some_left.eq(~a.one_left), a.one_left.eq(a.left == 2),
        ]  # fmt: skip
    cell = Signal(of.cell_bits)
    m.d.comb += cell.eq(Mux(streams, a.cell, u.free_cells.oldest))
    with m.If(~streams):
        m.d.sync += [
            a.left.eq(a.beats), a.some_left.eq(~a.bare), a.one_left.eq(a.beats == 1), a.beat.eq(0),
            a.cell.eq(u.free_cells.oldest), a.posts.eq(a.posts_now),
            a.buffer.eq(u.free_buffers.oldest), a.stores.eq(a.stores_now),
            a.fate.eq(Cat(a.to_cell | a.through, a.to_buffer | a.through)),
        ]  # fmt: skip
    with m.If(a.decides & (~a.bare | a.through)):
        m.d.comb += u.goes_on(RelayPhase.STREAM)
    # With its last beat, or in the step if it has none.
    celled, posts = last & (a.fate == Fate.CELL), Signal()
    m.d.comb += [u.stream_goes_on.eq(celled & a.posts), posts.eq((celled & a.posts) | (u.marks & a.bare))]
    with m.If(posts):
        m.d.comb += u.further.eq(1)
        with m.If(u.facts.parked):
            m.d.comb += u.then[RelayPhase.RELEASE].eq(1)
        with m.Else():
            m.d.comb += u.then[RelayPhase.ANSWER].eq(1)
    m.d.comb += [
        u.posts.eq(posts | u.releases),
        u.posted.eq(Mux(u.phases[RelayPhase.RELEASE], u.parked_at, cell)),
        u.parks.eq((celled & ~a.posts) | (a.parks & u.free_cells.two & a.bare)),
        u.data_waits.eq((last & (a.fate == Fate.BUFFER)) | (a.to_buffer & a.bare)),
        u.data_buffer.eq(Mux(streams, a.buffer, u.free_buffers.oldest)),
        u.came_cell.eq(cell),
        u.sends_through.eq(a.through),
    ]
    # Over with the last beat, with a step that finds no message, or one that comes without beats and is not posted.
    answers = u.at(RelayJob.DATA, RelayPhase.ANSWER) | (u.at(RelayJob.DATA, RelayPhase.RELEASE) & ~u.parked_found)
    m.d.comb += u.ends_data.eq(
        (last & ~u.stream_goes_on)
        | (u.hop.ends & streams & through)
        | answers
        | (a.decides & a.bare & ~a.through & ~u.marks)
    )

    # Beats of slots and buffers.
    m.submodules.slot_store = slots = Ram(of.stored_bits, of.slots << of.beat_bits)
    m.submodules.buffer_store = buffers = Ram(of.stored_bits, of.buffers << of.beat_bits)
    now = u.hop.now
    m.d.comb += [
        slots.write_en.eq(u.host.store_writes), slots.write_addr.eq(u.host.store_at),
        slots.write_data.eq(of.stored(u.host.store_data)),
        slots.read_addr.eq(Cat(u.hop.read_at, now.number[: of.slot_bits])),
        buffers.write_en.eq(takes & a.stores & (a.fate != Fate.DROP) & (a.fate != Fate.CELL)),
        buffers.write_addr.eq(Cat(a.beat, a.buffer)), buffers.write_data.eq(stored),
        buffers.read_addr.eq(Cat(u.hop.read_at, now.number[: of.buffer_bits])),
        u.hop.read.eq(Mux(now.of == Of.SLOT, slots.read_data, buffers.read_data)),
    ]  # fmt: skip

"""Data in: a message is posted or parked at its destination, and goes on everywhere else (contract of relay, 7.2)."""

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from lethe.lib.memory import Ram
from lethe.spec.services.relay import RecordState, RelayJob
from lethe.traffic.payload import clipped

from .control import answer, answer_acked, send_held
from .layouts import Of
from .steps import About, Fate, RelayPhase
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
        self.cell_now, self.posts_now, self.buffer_now, self.stores_now = (
            Signal.like(signal) for signal in (self.cell, self.posts, self.buffer, self.stores)
        )  # as it is decided
        self.place, self.found, self.owing = Signal(of.record_bits), Signal(), Signal()
        #: What becomes of the beats is decided in this cycle.
        self.decides, self.decided, self.beats = Signal(), Signal(Fate), Signal.like(self.left)
        #: The last beat, or there is none.
        self.whole = Signal()

    def becomes(self, fate: Fate) -> list:
        """This becomes of the beats."""
        return [self.decides.eq(1), self.decided.eq(fate)]


def add_data(u: JobUnit) -> None:
    """Steps of data in, and its beats."""
    m, of = u.m, u.of
    a = _Arrived(u)
    with m.If(u.at(RelayJob.DATA)), m.Switch(u.phase):
        with m.Case(RelayPhase.FIRST):
            _first(u, a)
        with m.Case(RelayPhase.CLEAR):
            with m.If(u.is_parked.row & (u.cell.source == u.heard.source)):
                m.d.comb += [u.unparks.eq(1), u.gives_cell.eq(1), u.given_cell.eq(u.clear_row)]
            m.d.comb += [
                u.further.eq(1),
                u.then.eq(Mux(u.clear_row == of.cells - 1, RelayPhase.JUDGE, RelayPhase.CLEAR)),
            ]
            m.d.sync += u.clear_row.eq(u.clear_row + 1)
        with m.Case(RelayPhase.JUDGE):
            _judge(u, a, Const(0, 1))
        with m.Case(RelayPhase.SEARCH):
            with m.If(u.parked_found):
                m.d.comb += a.becomes(Fate.DROP)
            with m.Else():
                _park(u, a)
        with m.Case(RelayPhase.STORE):
            m.d.comb += u.evicts.eq(1)
            _store(u, a, Const(1, 1), a.place, a.found, a.owing)
        with m.Case(RelayPhase.RELEASE):
            with m.If(u.parked_found):
                _release(u)
            with m.Else():
                m.d.comb += answer(u)
        with m.Case(RelayPhase.ANSWER):
            m.d.comb += answer(u)
    _beats(u, a)


def _first(u: JobUnit, a: _Arrived) -> None:
    m, facts = u.m, u.facts
    m.d.sync += u.clear_row.eq(0)
    with m.If(~u.sound_data | u.own):
        m.d.comb += [u.ignores.eq(1), *a.becomes(Fate.DROP)]
    with m.Elif(~u.here):
        _pass_on(u, a)
    with m.Elif(facts.stale):
        m.d.comb += [u.stale.eq(1), *a.becomes(Fate.DROP)]
    with m.Else():
        m.d.comb += u.renews.eq(facts.renews)
        with m.If(facts.renews & u.parked.any()):
            m.d.comb += u.goes_on(RelayPhase.CLEAR)
        with m.Else():
            _judge(u, a, facts.renews)


def _judge(u: JobUnit, a: _Arrived, renews) -> None:
    """Is it its turn?"""
    m, facts = u.m, u.facts
    with m.If(Mux(renews, facts.begins, facts.next)):
        with m.If(u.free_cells.count.any()):
            _take_cell(u, a, posts=1)
            m.d.comb += u.marks.eq(1)
        with m.Else():
            _hunger(u, a)
    with m.Elif(facts.below & ~renews):
        m.d.comb += [*answer(u), *a.becomes(Fate.DROP)]
    with m.Elif(u.parked.any()):
        m.d.comb += u.goes_on(RelayPhase.SEARCH)
    with m.Else():
        _park(u, a)


def _park(u: JobUnit, a: _Arrived) -> None:
    """A message before its turn is parked, if a cell is left for another."""
    with u.m.If(u.free_cells.count >= 2):
        _take_cell(u, a, posts=0)
    with u.m.Else():
        _hunger(u, a)


def _take_cell(u: JobUnit, a: _Arrived, posts: int) -> None:
    u.m.d.comb += [
        u.takes_cell.eq(1), a.cell_now.eq(u.free_cells.oldest), a.posts_now.eq(posts), *a.becomes(Fate.CELL),
    ]  # fmt: skip


def _hunger(u: JobUnit, a: _Arrived) -> None:
    """There is no cell."""
    u.m.d.comb += [u.starves.eq(1), *a.becomes(Fate.DROP)]


def _release(u: JobUnit) -> None:
    """A parked message whose turn it is is posted."""
    u.m.d.comb += [
        u.unparks.eq(1), u.given_cell.eq(u.parked_at), u.posts.eq(1), u.posted.eq(u.parked_at), u.releases.eq(1),
        u.further.eq(1), u.then.eq(Mux(u.parked == 1, RelayPhase.ANSWER, RelayPhase.RELEASE)),
    ]  # fmt: skip


def _pass_on(u: JobUnit, a: _Arrived) -> None:
    m = u.m
    place, known = Signal(), Signal()
    m.d.comb += [place.eq(u.found | u.has_way), known.eq(u.found)]
    with m.If(~u.facts.up_back | u.facts.down_nobody | u.facts.down_back):
        m.d.comb += [u.stale.eq(1), *a.becomes(Fate.DROP)]
    with m.Elif(known & (u.status_now.state == RecordState.ACKED)):
        m.d.comb += [*answer_acked(u), *a.becomes(Fate.DROP)]
    with m.Elif(known & u.has_data):
        send_held(u)
        m.d.comb += a.becomes(Fate.DROP)
    with m.Elif(place & ~u.free_buffers.count.any() & u.held.some):
        # The oldest held data go.
        m.d.comb += [u.lets_go.eq(1), *u.goes_on(RelayPhase.STORE)]
        m.d.sync += [
            u.evicted.eq(u.oldest_owner.record), a.place.eq(u.place), a.found.eq(known),
            a.owing.eq(known & (u.status_now.state == RecordState.OWED)),
        ]  # fmt: skip
    with m.Else():
        owing = known & (u.status_now.state == RecordState.OWED)
        _store(u, a, place, u.place, known, owing)


def _store(u: JobUnit, a: _Arrived, some, place, known, owing) -> None:
    """Record and buffer; at once, or as its turn comes."""
    m, sent = u.m, u.sent
    free = u.free_buffers.count.any()
    with m.If(some):
        m.d.comb += [
            u.fills.eq(1), u.makes.eq(~known), u.place_filled.eq(place), u.filled_length.eq(u.message_length),
            u.takes_buffer.eq(free), u.owes.eq(~free),
            u.state.eq(Mux(free, RecordState.SENT, RecordState.OWED)), u.was_owing.eq(owing),
        ]  # fmt: skip
    with m.Else():
        m.d.comb += u.untracked.eq(1)
    with m.If(u.at_once & (free | ~some)):
        m.d.comb += [
            u.sends.eq(1), u.about.eq(About.HEARD), u.as_it_came.eq(1), sent.of.eq(Of.THROUGH),
            sent.length.eq(u.message_length), sent.number.eq(u.free_buffers.oldest), sent.stored.eq(some),
            *a.becomes(Fate.THROUGH),
        ]  # fmt: skip
    with m.Else():
        m.d.comb += a.becomes(Fate.DROP)
        with m.If(some & free):
            m.d.comb += a.decided.eq(Fate.BUFFER)
    m.d.comb += [a.buffer_now.eq(u.free_buffers.oldest), a.stores_now.eq(some & free)]


def _beats(u: JobUnit, a: _Arrived) -> None:
    m, of = u.m, u.of
    streams, takes, last, kept = Signal(), Signal(), Signal(), Signal(of.system.format.flit_bits)
    deliver, form = u.below.deliver_control2_data, of.system.format
    stored = Signal(of.stored_bits) if of.checks else kept
    through = a.fate == Fate.THROUGH
    length = u.data_in.length
    flits = of.payload_flits(length)
    m.d.comb += [
        a.beats.eq(Mux(flits > of.header_beats, flits - of.header_beats, 0)),
        streams.eq(u.doing(RelayJob.DATA) & (u.phase == RelayPhase.STREAM)),
        u.data_in.rest.eq(streams & a.left.any() & (~through | u.hop.through.ready)),
        takes.eq(u.data_in.rest & deliver.valid),
        last.eq(takes & (a.left == 1) & ~through),
        kept.eq(
            Mux(
                a.left == 1,
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
        m.d.sync += [a.left.eq(a.left - 1), a.beat.eq(a.beat + 1)]
    ends_now = a.decides & ~a.beats.any() & (a.decided != Fate.THROUGH)
    fate, cell, posts, buffer = (
        Mux(a.decides, new, old)
        for new, old in (
            (Value.cast(a.decided), Value.cast(a.fate)), (a.cell_now, a.cell), (a.posts_now, a.posts),
            (a.buffer_now, a.buffer),
        )
    )  # fmt: skip
    with m.If(a.decides):
        m.d.sync += [
            a.fate.eq(a.decided), a.left.eq(a.beats), a.beat.eq(0), a.cell.eq(a.cell_now), a.posts.eq(a.posts_now),
            a.buffer.eq(a.buffer_now), a.stores.eq(a.stores_now),
        ]  # fmt: skip
        with m.If(~ends_now):
            m.d.comb += u.goes_on(RelayPhase.STREAM)
    m.d.comb += a.whole.eq(last | ends_now)
    with m.If(a.whole), m.Switch(fate):
        with m.Case(Fate.CELL):
            with m.If(posts):
                m.d.comb += [
                    u.posts.eq(1), u.posted.eq(cell), u.further.eq(1),
                    u.then.eq(Mux(u.parked.any(), RelayPhase.RELEASE, RelayPhase.ANSWER)),
                ]  # fmt: skip
            with m.Else():
                m.d.comb += [u.parks.eq(1), u.given_cell.eq(cell)]
        with m.Case(Fate.BUFFER):
            m.d.comb += [u.buffer_waits.eq(1), u.buffer.eq(buffer)]
    m.d.comb += u.ends_job.eq((last & ~u.further) | (u.hop.ends & streams & through))

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

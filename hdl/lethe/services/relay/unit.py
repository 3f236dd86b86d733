"""The job unit: its tables, when a job begins and acts, and what its steps ask of the rest (contract of relay, 7)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import enum
from amaranth.utils import ceil_log2, exact_log2

from lethe.lib.first import first_of, lowest_of
from lethe.lib.memory import Ram
from lethe.lib.queue import Queue
from lethe.lib.table import Words
from lethe.spec.events import Cause, Status
from lethe.spec.sections.relay import HEADER_BYTES
from lethe.spec.services.relay import RecordState, RelayJob, Type

from .arrivals import HeaderRegister
from .departures import HopControl, HopData
from .host import HostMessages, OwnCompletions
from .layouts import STAMP_BITS, STAMP_SHIFT, TIDE_BITS, WAYS, Of, RelayLayouts
from .lists import FreeList, HeldList
from .post import Post

__all__ = ["About", "Fate", "JobUnit", "RelayPhase", "To", "WalkRows"]

#: Cycles from its beginning until a job acts, short and long; from a step to the next; of a search, beside its cells.
SHORT, LONG, STEP, SEARCH = 3, 8, 4, 3


#: Jobs that act late.
_LONG = (
    RelayJob.LAUNCH, RelayJob.FEED, RelayJob.CANCEL, RelayJob.OWED, RelayJob.LOOK, RelayJob.WALK,
)  # fmt: skip
#: Jobs about a record by its number.
_NUMBERED = (RelayJob.LAUNCH, RelayJob.OWED, RelayJob.LOOK, RelayJob.WALK)


class RelayPhase(enum.Enum, shape=4):
    """What the next step of a job is for."""

    FIRST = 0
    FREE = 1  # slots of a stream, up to one, or all of a dead destination
    ACK = 2  # records before one that is ACKED
    FORGET = 3  # records before one that has ended
    SEARCH = 4  # whether the message is parked
    CLEAR = 5  # parked cells of an older incarnation
    JUDGE = 6
    STORE = 7  # after an eviction
    RELEASE = 8  # a parked message whose turn it is
    ANSWER = 9
    DUE = 10  # the oldest held buffer
    STREAM = 11  # only beats are left


class Fate(enum.Enum, shape=2):
    """What becomes of the beats of data in."""

    DROP = 0
    CELL = 1
    BUFFER = 2
    THROUGH = 3


def is_below(uid, mark) -> Value:
    """Whether a uid is at or below another."""
    return ~(mark - uid)[: len(mark)][-1]


def is_newer(incarnation, known) -> Value:
    """Whether an incarnation is newer than another."""
    ahead = (incarnation - known)[: len(known)]
    return ahead.any() & ~ahead[-1] if len(known) > 1 else Const(0, 1)


class About(enum.Enum, shape=2):
    """What a header is about: what was heard of, the message of the slot or record looked at, what is posted."""

    HEARD = 0
    SLOT = 1
    RECORD = 2
    POSTED = 3


class To(enum.Enum, shape=2):
    """Where a header goes."""

    UP = 0
    DOWN = 1
    NEIGHBOUR = 2


class WalkRows(enum.Enum, shape=2):
    """The rows of a walk."""

    NODES = 0
    SLOTS = 1
    RECORDS = 2
    CELLS = 3


class JobUnit:
    """What all jobs share.

    Steps, which are in other files, set *intents* in their cycle: signals that are 0 unless a step sets them.  This
    class says what becomes of them.  All tables are written here, by one step at a time.

    Parameters
    ----------
    m : module of the service
    of : layouts
    service : `ServiceUnit`
    """

    def __init__(self, m: Module, of: RelayLayouts, service):
        self.m, self.of, self.system = m, of, of.system
        self.below, self.above = service.below, service.above
        self.node, self.incarnation = service.node, service.incarnation
        self.clear, self.clear_addr = Signal(), Signal(range(of.initial))
        self.ready = Signal()
        port = service.service.above(of.system, of.below)
        m.submodules.heard = self.control_in = HeaderRegister(of, whole=True)
        m.submodules.came = self.data_in = HeaderRegister(of, whole=False)
        m.submodules.control = self.control = HopControl(of)
        m.submodules.hop = self.hop = HopData(of)
        m.submodules.host = self.host = HostMessages(of, port)
        m.submodules.completions = self.completions = OwnCompletions(of, port)
        m.submodules.post = self.post = Post(of, port)
        m.submodules.free_slots = self.free_slots = FreeList(of.slots)
        m.submodules.free_cells = self.free_cells = FreeList(of.cells)
        m.submodules.free_buffers = self.free_buffers = FreeList(of.buffers)
        m.submodules.held = self.held = HeldList(of.buffers)
        m.submodules.sending = self.sending = Queue(of.sending, of.slots + of.buffers)
        m.submodules.telling = self.telling = Queue(of.told, of.system.relay.control)
        m.submodules.hungry = self.hungry = Queue(of.node_bits, of.nodes)
        for units in (self.free_slots, self.free_cells, self.free_buffers):
            m.d.comb += [
                units.clear.eq(self.clear & (self.clear_addr < units.depth)),
                units.clear_addr.eq(self.clear_addr),
            ]
        self._state()
        self._intents()
        self._headers()
        self._choice()
        self._tables()
        self._records()
        self._routes()
        self._rows()
        self._search()
        self._facts()
        self._told()
        self._halt()

    # What is known beside the tables.

    def _state(self):
        of = self.of
        self.busy, self.job, self.last = Signal(), Signal(RelayJob), Signal(RelayJob, init=RelayJob.TREE)
        self.phase, self.count = Signal(RelayPhase), Signal(range(max(LONG, of.cells + SEARCH)))
        self.live, self.known = Signal(range(of.slots + 1)), Signal(range(of.records + 1))
        self.owing, self.parked = Signal(range(of.records + 1)), Signal(range(of.cells + 1))
        self.bank, self.noticed, self.depth = Signal(), Signal(), Signal(6)
        self.next_uid = Signal(of.uid_bits, init=of.system.relay.uid_first)
        self.refused_generation = Signal(of.system.format.generation_bits)
        self.clock = Signal(STAMP_SHIFT + STAMP_BITS)
        self.now = self.clock[STAMP_SHIFT:]
        self.look_wanted, self.look = Signal(), Signal(range(max(2, of.slots, of.records)))
        self.owed_row, self.host_waits = Signal(of.record_bits), Signal()
        self.pulled, self.asking = Signal(16), Signal(16)
        self.tide, self.is_told, self.links = Signal(TIDE_BITS), Signal(), Signal()
        self.walking, self.for_notice, self.for_all, self.notice_wanted = Signal(), Signal(), Signal(), Signal()
        self.walk, self.walk_row = Signal(WalkRows), Signal(range(max(2, of.slots, of.records, of.cells, of.nodes)))
        self.cancel_walk, self.cancel_row = Signal(), Signal(of.row_bits)
        self.cancelling, self.cancel_name = Signal(), Signal(of.row_bits)
        self.cancel_generation = Signal(of.system.format.generation_bits)
        self.next_clock = Signal.like(self.clock, init=1)
        with self.m.If(self.ready):
            self.m.d.sync += [self.clock.eq(self.next_clock), self.next_clock.eq(self.next_clock + 1)]

    def aged(self, stamp, cycles: int) -> Value:
        """Whether a stamp is at least so old in the next cycle."""
        return (self.next_clock[STAMP_SHIFT:] - stamp)[:STAMP_BITS] >= cycles >> STAMP_SHIFT

    # What a step asks for.

    def _intents(self):
        of = self.of
        #: The job goes on, with this phase.
        self.further, self.then = Signal(), Signal(RelayPhase)
        #: A header goes to a hop, unless that is nobody, or, if it ``passes``, the node it came from.
        self.told, self.passes, self.way = Signal(), Signal(), Signal(To)
        #: What it is about; its type, or as it came; with these flags, with the own depth, without class and prev.
        self.about, self.kind, self.as_it_came = Signal(About), Signal(3), Signal()
        self.replay, self.more, self.thru, self.own_depth, self.bare = (
            Signal(), Signal(), Signal(), Signal(), Signal(),
        )  # fmt: skip
        #: Row `to`: the first message to ``to_node`` ends with this; `again` is written.
        self.frees_head, self.status, self.cause = Signal(), Signal(2), Signal(of.completion["cause"].shape)
        self.decides_again, self.again = Signal(), Signal()
        #: Row `from`: a new life, its mark is that of the message that came or of one that was parked, it is hungry.
        self.renews, self.marks, self.releases, self.starves, self.feeds = (
            Signal(), Signal(), Signal(), Signal(), Signal(),
        )  # fmt: skip
        #: The stamp of the slot that is looked at is new.
        self.stamps_slot = Signal()
        #: A record changes: that which was found, to this state, without its data, or to none at all.
        self.changes, self.state, self.drops, self.ends = Signal(), Signal(3), Signal(), Signal()
        #: A record has what was heard; it is made; with this length, and data or not.
        self.fills, self.makes, self.place_filled = Signal(), Signal(), Signal(of.record_bits)
        self.filled_length, self.takes_buffer = Signal(of.length_bits), Signal()
        self.was_owing = Signal()
        #: A buffer has no record any more; it leaves the held list, comes to it, is free.
        self.disowns, self.leaves, self.holds, self.gives_buffer = Signal(), Signal(), Signal(), Signal()
        #: The buffer that is held longest is free, and its record has no data any more.
        self.lets_go = Signal()
        self.buffer = Signal(of.buffer_bits)
        #: A slot or buffer waits.
        self.slot_waits, self.waiting_slot = Signal(), Signal(of.slot_bits)
        self.buffer_waits = Signal()
        #: A cell is taken, free; it is parked, or no more; it is posted.
        self.takes_cell, self.gives_cell, self.given_cell = Signal(), Signal(), Signal(of.cell_bits)
        self.parks, self.unparks = Signal(), Signal()
        self.posts, self.posted = Signal(), Signal(of.cell_bits)
        #: A message goes to the next hop, with the header that is not told.
        self.sends, self.sent = Signal(), Signal(of.hop)
        #: Events that are shown and counted, and nothing else.
        self.hears, self.ignores, self.stale = Signal(), Signal(), Signal()
        self.dropped, self.refuses = Signal(), Signal()
        self.owes, self.untracked, self.evicts = Signal(), Signal(), Signal()
        self.expires, self.notices = Signal(), Signal()
        #: Ways that are asked for.
        self.pulls = Signal(16)
        #: A message can go on as it comes.
        self.at_once = Signal()
        #: A walk is under way, or wanted.
        self.walks = Signal()

    def tell(self, kind: Type, about: About, way: To, *flags: Signal) -> list:
        """A header of this type, about that, goes up, down, or to a neighbour, with these flags."""
        return [self.told.eq(1), *self.header(kind, about), self.way.eq(way), *(flag.eq(1) for flag in flags)]

    def header(self, kind: Type, about: About) -> list:
        """A header of this type."""
        return [self.kind.eq(kind), self.about.eq(about)]

    def goes_on(self, phase: RelayPhase) -> list:
        """The job has a further step."""
        return [self.further.eq(1), self.then.eq(phase)]

    def change(self, state) -> list:
        """The record that was found has this state."""
        return [self.changes.eq(1), self.state.eq(state)]

    def end(self) -> list:
        """The record that was found ends."""
        return [self.changes.eq(1), self.ends.eq(1), self.drops.eq(1)]

    def make(self, state: RecordState) -> list:
        """A record of the message that was heard of is made, without data."""
        return [
            self.fills.eq(1), self.makes.eq(1), self.state.eq(state), self.place_filled.eq(self.place),
        ]  # fmt: skip

    def free_head(self, status: Status, cause: Cause) -> list:
        """The first message to ``to_node`` ends."""
        return [self.frees_head.eq(1), self.status.eq(status), self.cause.eq(cause)]

    # Headers.

    def _headers(self):
        """What was heard: of control, or of data if that is the next.  ``coming`` is a cycle earlier, for tables."""
        m, of = self.m, self.of
        of_data, self.coming, self.heard = Signal(), Signal(of.header), Signal(of.header)
        self.sender, self.coming_sender = Signal(of.node_bits), Signal(of.node_bits)
        self.message_length = Signal(of.length_bits)
        m.d.comb += [
            of_data.eq(
                Mux(
                    self.busy,
                    self.job == RelayJob.DATA,
                    self.data_in.full & (~self.control_in.full | (self.last == RelayJob.CONTROL)),
                )
            ),
            self.coming_sender.eq(Mux(of_data, self.data_in.source, self.control_in.source)),
        ]
        bits = Mux(of_data, self.data_in.bits, self.control_in.bits)
        m.d.comb += [self.coming[n].eq(v) for n, v in of.wire_fields(bits).items() if n in of.header.members]
        m.d.sync += [
            self.heard.eq(self.coming), self.sender.eq(self.coming_sender),
            self.message_length.eq(self.data_in.length - HEADER_BYTES),
        ]  # fmt: skip

        def sound(register, kinds, length, cls):
            wire = of.wire_fields(register.bits)
            nodes = (wire["source"] < of.nodes) & (wire["target"] < of.nodes)
            if of.nodes < 1 << of.node_bits:
                nodes &= register.source < of.nodes
            to_itself = (wire["source"] == wire["target"]) & (wire["type"] != Type.PULL)
            return nodes & length & (register.cls == cls) & kinds(wire["type"]) & ~to_itself

        self.sound_control, self.sound_data = Signal(), Signal()
        self.own, self.here = Signal(), Signal()
        control, data_in = self.control_in, self.data_in
        m.d.sync += [
            self.sound_control.eq(
                sound(
                    control, lambda kind: (kind >= Type.ACKED) & (kind <= Type.PULL), control.length == HEADER_BYTES,
                    of.control_class,
                )
            ),
            self.sound_data.eq(
                sound(data_in, lambda kind: kind == Type.DATA, data_in.length >= HEADER_BYTES, of.data_class)
            ),
            self.own.eq(self.coming.source == self.node),
            self.here.eq(self.coming.target == self.node),
        ]  # fmt: skip

    # What is known of tables in the cycle before a step.

    def _facts(self):
        m, of, h = self.m, self.of, self.heard
        self.facts = facts = Signal(of.facts)
        to, row, slot = self.to, self.from_, self.slot
        slots, relay = of.slots, self.system.relay
        named = (h.slot < slots) if slots < 1 << len(h.slot) else 1
        relation, depth = self.relation, self.depth
        fits = (relation >= 2) & (h.depth == depth + 1)
        fits = Mux(relation == 1, h.depth == (depth - 1)[: len(depth) + 1], fits) if self.system.relay.radix else 1
        m.d.sync += [
            facts.alive.eq(h.incarnation == self.incarnation),
            facts.live.eq(self.lives.row),
            facts.watched.eq(
                (self.look < slots)
                & self.lives.row
                & (to.head == self.look)
                & self.aged(slot.stamp, relay.watch_cycles)
            ),
            facts.old.eq(self.aged(self.stamp, relay.entry_cycles)),
            facts.due.eq(self.held.some & self.aged(self.oldest_stamp, relay.cache_cycles)),
            facts.meant.eq(self.lives.row & named & (slot.uid == h.uid) & (slot.target == h.target)),
            facts.first.eq(to.head == h.slot),
            facts.last.eq(to.live == 1),
            facts.some.eq(to.live.any()),
            facts.again.eq(to.again),
            facts.stale.eq(self.dead | (row.known & is_newer(row.incarnation, h.incarnation))),
            facts.renews.eq(~row.known | is_newer(h.incarnation, row.incarnation)),
            facts.dead.eq(self.dead),
            facts.hungry.eq(row.hungry),
            facts.next.eq(h.prev == row.mark),
            facts.begins.eq(h.prev == of.none),
            facts.below.eq((row.mark != of.none) & is_below(h.uid, row.mark)),
            facts.drained.eq(h.uid != of.none),
            facts.up_nobody.eq(self.up == self.node),
            facts.up_back.eq(self.up == self.sender),
            facts.down_nobody.eq(self.down.hop == self.node),
            facts.down_back.eq(self.down.hop == self.sender),
            facts.turns.eq(self.up == self.down.hop),
            facts.moves.eq(self.down.hop != self.before.hop),
            facts.asked.eq(self.asking.bit_select(self.down.way, 1)),
            facts.relation.eq(relation),
            facts.fits.eq(fits),
        ]

    # b: the choice, and when steps are.

    def _choice(self):
        m, of, below, above = self.m, self.of, self.below, self.above
        self.acts, self.step = Signal(), Signal()
        self.room, self.mine = Signal(), Signal(of.ni_slots)
        self.used, launch = Signal(), self.sending.o
        m.d.comb += self.room.eq(self.telling.level <= of.system.relay.control // 2)
        completion = below.completion
        self.ended_mine = self.mine.bit_select(completion.payload.slot, 1)
        # A hop that has ended is taken at once.
        ends = Signal()
        m.d.comb += ends.eq(completion.valid & self.ended_mine)
        noticed = self.noticed
        asks = Cat(
            noticed & self.control_in.full,
            noticed & self.data_in.full,
            Const(0, 1),
            noticed & launch.valid & self.hop.idle & ~self.host.holds_send,
            noticed & self.telling.o.valid & self.control.idle,
            noticed & self.host.offers & ~self.host_waits & ~above.quiesce & ~self.completions.owes,
            noticed & self.host.stored,
            noticed & self.free_cells.count.any() & self.hungry.o.valid & self.room,
            noticed & self.cancel_walk & ~self.cancelling,
            noticed & self.owing.any() & (self.free_buffers.count.any() | self.held.some) & self.room,
            noticed & self.look_wanted & self.room,
            self.walking & self.used & self.room & ~above.tree.valid,
            above.tree.valid,
            Const(0, 3),
        )
        begun, first, last = Signal(16), Signal(4), Signal(4)
        m.d.comb += [begun.eq(asks), last.eq(Value.cast(self.last) - 1)]
        chosen, statements = first_of(begun, last)
        m.d.comb += [*statements, first.eq(chosen)]
        self.begins, self.chosen = Signal(), Signal(RelayJob)
        m.d.comb += [
            self.begins.eq(self.ready & ~self.busy & begun.any()),
            Value.cast(self.chosen).eq(first + 1),
            self.completions.takes_below.eq(ends),
            # What a queue shows stays until the job acts: nothing looks at it in between.
            self.telling.o.ready.eq(self.at(RelayJob.TELL)),
            launch.ready.eq(self.at(RelayJob.LAUNCH)),
            self.hungry.o.ready.eq(self.at(RelayJob.FEED)),
            above.tree.ready.eq(self.starts(RelayJob.TREE)),
        ]

        # What a job is about, as of b.
        self.launched, self.fed, self.waited = launch.payload, self.hungry.o.payload, self.telling.o.payload
        self.tree_word = Signal.like(above.tree.payload)
        self.host_target, self.row_mine = Signal(16), Signal()
        with m.If(~self.busy):
            m.d.sync += [
                self.job.eq(self.chosen), self.phase.eq(RelayPhase.FIRST),
                self.tree_word.eq(above.tree.payload), self.host_target.eq(above.send.payload.destination),
                self.row_mine.eq(self.mine.bit_select(self.cancel_row, 1)),
            ]  # fmt: skip
        with m.If(ends & (completion.payload.slot == self.cancel_row)):
            m.d.sync += self.row_mine.eq(0)
        long = Cat(self.chosen == job for job in _LONG).any()
        accepts = (self.job == RelayJob.GIVEN) & (self.phase == RelayPhase.FIRST) & below.accepted.valid
        m.d.comb += [
            self.step.eq(self.busy & (self.phase != RelayPhase.STREAM) & (self.count == 0)),
            self.acts.eq(self.step & ~accepts),
        ]
        with m.If(self.begins):
            m.d.sync += [self.busy.eq(1), self.last.eq(self.chosen), self.count.eq(Mux(long, LONG, SHORT) - 1)]
        with m.Elif(self.count.any()):
            m.d.sync += self.count.eq(self.count - 1)
        self.over = Signal()  # the job is
        self.searches = Signal()  # the next step is that of a search
        with m.If(self.acts | self.further):
            m.d.sync += [
                self.phase.eq(self.then), self.count.eq(Mux(self.searches, of.cells + SEARCH, STEP) - 1),
                self.busy.eq(self.further),
            ]  # fmt: skip
        m.d.comb += self.searches.eq((self.then == RelayPhase.SEARCH) | (self.then == RelayPhase.RELEASE))
        self.ends_job = Signal()  # with the last beat
        with m.If(self.ends_job):
            m.d.sync += self.busy.eq(0)
        m.d.comb += [
            self.over.eq((self.acts & ~self.further) | self.ends_job),
            self.control_in.done.eq(self.over & (self.job == RelayJob.CONTROL)),
            self.data_in.done.eq(self.over & (self.job == RelayJob.DATA)),
        ]

    def starts(self, job: RelayJob) -> Value:
        """The job begins in this cycle."""
        return self.begins & (self.chosen == job)

    def at(self, job: RelayJob, phase: RelayPhase | None = None) -> Value:
        """A step of this job is made."""
        here = self.acts & (self.job == job)
        return here if phase is None else here & (self.phase == phase)

    def doing(self, *jobs: RelayJob) -> Value:
        """One of these is under way."""
        return self.busy & Cat(self.job == job for job in jobs).any()

    # Tables by node, by slot, by cell.

    def _words(self, name: str, shape, depth: int, *readers: str):
        """A table that is cleared after a reset."""
        words = Words(shape, depth, readers)
        self.m.submodules[name] = words
        self.m.d.comb += [words.clear.eq(self.clear & (self.clear_addr < depth)), words.clear_addr.eq(self.clear_addr)]
        return words

    def _cleared(self, ram: Ram, depth: int, init, enable, address, word) -> None:
        """What writes a memory: the walk after a reset, then steps."""
        given = Signal.like(ram.write_data)
        self.m.d.comb += [
            given.eq(word),
            ram.write_en.eq(enable | (self.clear & (self.clear_addr < depth))),
            ram.write_addr.eq(Mux(self.clear, self.clear_addr, address)),
            ram.write_data.eq(given),
        ]
        with self.m.If(self.clear):
            self.m.d.comb += given.eq(init)

    def _tables(self):
        m, of = self.m, self.of
        nodes = of.nodes
        self.next_head, self.parked_cell = Signal(of.slot_bits), Signal(of.parked)
        self.given = Signal()  # a message has its uid
        m.d.comb += self.given.eq(self.at(RelayJob.GIVEN, RelayPhase.FIRST))
        # By node: whom a job is about.
        self.to_node, self.from_node, dead_node = Signal(of.node_bits), Signal(of.node_bits), Signal(of.node_bits)
        slot_node = Signal(of.node_bits)  # of the slot that is looked at
        m.d.comb += [self.to_node.eq(self.coming.target), self.from_node.eq(self.coming.source)]
        with m.If(self.doing(RelayJob.HOST)):
            m.d.comb += self.to_node.eq(self.host_target)
        with m.If(self.doing(RelayJob.GIVEN)):
            m.d.comb += self.to_node.eq(self.host.kept.target)
        with m.If(self.doing(RelayJob.LOOK, RelayJob.WALK)):
            m.d.comb += self.to_node.eq(slot_node)
        with m.If(self.doing(RelayJob.FEED)):
            m.d.comb += self.from_node.eq(self.fed)
        m.d.comb += dead_node.eq(Mux(self.doing(RelayJob.HOST, RelayJob.GIVEN), self.to_node, self.from_node))
        with m.If(self.doing(RelayJob.TELL)):
            m.d.comb += dead_node.eq(self.waited.hop)
        new_to, new_from = Signal(of.to), Signal(of.from_)
        m.d.comb += [new_to.last.eq(of.none), new_from.mark.eq(of.none)]
        m.submodules.to = to = Ram(of.to, nodes)
        m.submodules.from_ = from_ = Ram(of.from_, nodes)
        m.submodules.dead = dead = Ram(1, nodes)
        given, to_word, from_word = self.given, Signal(of.to), Signal(of.from_)
        self._cleared(to, nodes, new_to, given | self.frees_head | self.decides_again, self.to_node, to_word)
        writes = self.renews | self.marks | self.releases | self.starves | self.feeds
        self._cleared(from_, nodes, new_from, writes, self.from_node, from_word)
        self.kills = Signal()
        self._cleared(dead, nodes, 0, self.kills, self.tree_word.target, 1)
        m.d.comb += [
            to.read_addr.eq(self.to_node), from_.read_addr.eq(self.from_node), dead.read_addr.eq(dead_node),
        ]  # fmt: skip
        self.to, self.from_, self.dead = to.read_data, from_.read_data, dead.read_data
        row, mine, kept_slot = self.to, self.from_, self.host.kept_slot
        m.d.comb += [
            to_word.last.eq(Mux(given, self.next_uid, row.last)),
            to_word.head.eq(Mux(self.frees_head, self.next_head, Mux(given & ~row.live.any(), kept_slot, row.head))),
            to_word.tail.eq(Mux(given, kept_slot, row.tail)),
            to_word.live.eq(row.live + given - self.frees_head),
            to_word.again.eq(Mux(self.decides_again, self.again, row.again)),
            from_word.known.eq(1),  # of a source that is hungry, too
            from_word.incarnation.eq(Mux(self.renews, self.heard.incarnation, mine.incarnation)),
            from_word.mark.eq(Mux(self.renews, of.none, mine.mark)),
            from_word.slot.eq(Mux(self.renews, 0, mine.slot)),
            from_word.hungry.eq((mine.hungry | self.starves) & ~self.feeds),
        ]
        with m.If(self.marks):
            m.d.comb += [from_word.mark.eq(self.heard.uid), from_word.slot.eq(self.heard.slot)]
        with m.If(self.releases):
            m.d.comb += [from_word.mark.eq(self.parked_cell.uid), from_word.slot.eq(self.parked_cell.slot)]

        # By slot.
        m.submodules.slots = slots = Ram(of.slot, of.slots)
        self.slot_row, self.slot = Signal(of.slot_bits), slots.read_data
        m.d.comb += [
            self.slot_row.eq(self.coming.slot),
            slot_node.eq(self.slot.target),
            slots.write_en.eq(given | self.stamps_slot),
            slots.write_addr.eq(Mux(given, kept_slot, self.slot_row)),
            slots.write_data.eq(self.slot),
            slots.write_data.stamp.eq(self.now),
            slots.read_addr.eq(self.slot_row),
        ]
        with m.If(given):
            m.d.comb += [
                *(slots.write_data[name].eq(self.host.kept[name]) for name in self.host.kept.shape().members),
                slots.write_data.uid.eq(self.next_uid), slots.write_data.prev.eq(row.last),
            ]  # fmt: skip
        with m.If(self.doing(RelayJob.LAUNCH)):
            m.d.comb += self.slot_row.eq(self.launched.number)
        with m.If(self.doing(RelayJob.LOOK)):
            m.d.comb += self.slot_row.eq(self.look)
        with m.If(self.doing(RelayJob.WALK)):
            m.d.comb += self.slot_row.eq(self.walk_row)
        self.lives = self._words("lives", 1, of.slots, "walk", "row", "moving")
        self.waiting = self._words("waiting", 1, of.slots, "slot")
        self.was_sent = self._words("was_sent", 1, of.slots, "row")
        generations = self._words("generations", of.system.format.generation_bits, of.slots, "head", "host")
        followers = self._words("followers", of.slot_bits, of.slots, "head")
        endings = self._words("endings", of.ending, of.slots, "head")
        head, moving = self.to.head, self.hop.now
        m.d.comb += [
            self.lives.walk_addr.eq(self.walk_row),
            self.lives.row_addr.eq(self.slot_row),
            self.lives.moving_addr.eq(moving.number),
            self.lives.write_en.eq(given | self.frees_head),
            self.lives.write_addr.eq(Mux(given, self.host.kept_slot, head)),
            self.lives.write.eq(given),
            self.waiting.slot_addr.eq(self.waiting_slot),
            self.was_sent.row_addr.eq(self.slot_row),
            generations.head_addr.eq(head),
            generations.host_addr.eq(self.host.kept_slot),
            generations.write_en.eq(self.frees_head),
            generations.write_addr.eq(head),
            generations.write.eq(generations.head + 1),
            followers.head_addr.eq(head),
            followers.write_en.eq(given & self.to.live.any()),
            followers.write_addr.eq(self.to.tail),
            followers.write.eq(self.host.kept_slot),
            endings.head_addr.eq(head),
            endings.write_en.eq(given),
            endings.write_addr.eq(self.host.kept_slot),
            endings.write.tag.eq(self.host.kept_tag),
            endings.write.uid.eq(self.next_uid),
        ]
        m.d.comb += self.next_head.eq(followers.head)
        self.ending, self.host_generation = endings.head, generations.host

        # A slot waits; one that is launched does no more.
        launches = self.at(RelayJob.LAUNCH) & ~self.launched.buffered
        pushes = self.slot_waits & ~self.waiting.slot
        m.d.comb += [
            self.waiting.write_en.eq(pushes | launches),
            self.waiting.write_addr.eq(Mux(launches, self.slot_row, self.waiting_slot)),
            self.waiting.write.eq(~launches),
            self.was_sent.write_en.eq(given | (launches & self.sends)),
            self.was_sent.write_addr.eq(Mux(given, self.host.kept_slot, self.slot_row)),
            self.was_sent.write.eq(~given),
            self.sending.i.valid.eq(pushes | self.buffer_waits),
            self.sending.i.payload.buffered.eq(self.buffer_waits),
            self.sending.i.payload.number.eq(Mux(self.buffer_waits, self.buffer, self.waiting_slot)),
        ]
        # A message ends, and its slot is free unless the transfer reads it.
        reads = ~self.hop.idle & (moving.of == Of.SLOT)
        ended = self.completions.ended
        freed = self.frees_head & (head == moving.number)
        m.d.comb += [
            self.free_slots.gives.eq(self.frees_head & ~(reads & (head == moving.number))),
            self.free_slots.given.eq(head),
            self.free_slots.ends.eq(self.hop.ends & (moving.of == Of.SLOT) & (~self.lives.moving | freed)),
            self.free_slots.ended.eq(moving.number),
        ]
        with m.If(self.frees_head):
            m.d.comb += [
                self.completions.ends.eq(1), ended.slot.eq(of.ni_slots + head), ended.generation.eq(generations.head),
                ended.destination.eq(self.to_node), ended.tag.eq(self.ending.tag), ended.status.eq(self.status),
                ended.cause.eq(self.cause),
            ]  # fmt: skip
        m.d.sync += self.live.eq(self.live + given - self.frees_head)

        # By cell: what is written is what came, to the oldest that is free.
        m.submodules.cells = cells = Ram(of.cell, of.cells)
        self.cell, self.cell_row = cells.read_data, Signal(of.cell_bits)
        self.is_parked = self._words("is_parked", 1, of.cells, "walk", "search", "row")
        m.d.comb += [
            cells.write_en.eq(self.takes_cell),
            cells.write_addr.eq(self.free_cells.oldest),
            *(cells.write_data[name].eq(self.heard[name]) for name in of.cell.members if name != "length"),
            cells.write_data.length.eq(self.message_length),
            cells.read_addr.eq(self.cell_row),
            self.post.writes.eq(self.takes_cell),
            self.post.at.eq(self.free_cells.oldest),
            self.post.word.eq(cells.write_data),
            self.post.posts.eq(self.posts),
            self.post.posted.eq(self.posted),
            self.is_parked.walk_addr.eq(self.walk_row),
            self.is_parked.row_addr.eq(self.cell_row),
            self.is_parked.write_en.eq(self.parks | self.unparks),
            self.is_parked.write_addr.eq(self.given_cell),
            self.is_parked.write.eq(self.parks),
            self.free_cells.takes.eq(self.takes_cell),
            self.free_cells.gives.eq(self.gives_cell),
            self.free_cells.given.eq(self.given_cell),
            self.free_cells.ends.eq(self.post.frees),
            self.free_cells.ended.eq(self.post.freed),
            self.hungry.i.valid.eq(self.starves & ~mine.hungry),
            self.hungry.i.payload.eq(self.from_node),
        ]
        m.d.sync += self.parked.eq(self.parked + self.parks - self.unparks)

    # Records and buffers.

    def _records(self):
        m, of = self.m, self.of
        sets = of.records // WAYS
        chained = Signal(of.uid_bits)  # of the message before
        self.chained, self.chaining = chained, Signal()
        self.evicted, self.direct, number = Signal(of.record_bits), Signal(), Signal(of.record_bits)
        owners = self._words("owners", of.owner, of.buffers, "launched", "oldest", "moving")
        self.owners = owners
        m.d.comb += [
            self.direct.eq(self.doing(*_NUMBERED) | (self.phase == RelayPhase.STORE)),
            number.eq(self.evicted),
        ]
        with m.Switch(self.job):
            for job, row in (
                (RelayJob.LAUNCH, owners.launched.record), (RelayJob.OWED, self.owed_row),
                (RelayJob.LOOK, self.look), (RelayJob.WALK, self.walk_row),
            ):  # fmt: skip
                with m.Case(job):
                    m.d.comb += number.eq(row)
        way_bits = exact_log2(WAYS)
        uid, at = Signal(of.uid_bits), Signal(max(1, of.record_bits - way_bits))
        m.d.comb += [
            uid.eq(Mux(self.chaining, chained, self.coming.uid)),
            at.eq(Mux(self.direct, number[way_bits:], of.set_of(self.coming.source, uid))),
        ]
        # By ways, for a search: what was heard of the message, and its status.  By their number, for jobs that have
        # time: what was heard, and the stamp.
        self.entry_at, self.place = Signal(of.record_bits), Signal(of.record_bits)
        m.submodules.messages = messages = Ram(of.record, of.records)
        m.submodules.ages = ages = Ram(STAMP_BITS, of.records)
        heard, status, write_at, fills = Signal(of.record), Signal(of.status), Signal(of.record_bits), self.fills
        writes = self.changes | fills
        m.d.comb += [
            *(heard[name].eq(self.heard[name]) for name in of.record.members if name != "length"),
            heard.length.eq(self.filled_length),
            write_at.eq(Mux(fills, self.place_filled, self.entry_at)),
        ]
        for ram, enable, word in ((messages, fills, heard), (ages, self.makes, self.now)):
            m.d.comb += [
                ram.write_en.eq(enable), ram.write_addr.eq(self.place_filled), ram.write_data.eq(word),
                ram.read_addr.eq(number),
            ]  # fmt: skip
        self.message, self.stamp = messages.read_data, ages.read_data
        words, data = [], []
        self.has_data, self.data_held, self.hop_holds = Signal(), Signal(), Signal()
        for way in range(WAYS):
            m.submodules[f"records{way}"] = ram = Ram(of.record, sets)
            m.submodules[f"status{way}"] = states = Ram(of.status, sets)
            here = write_at[:way_bits] == way
            m.d.comb += [
                ram.write_en.eq(fills & here), ram.write_addr.eq(write_at[way_bits:]), ram.write_data.eq(heard),
                ram.read_addr.eq(at), states.read_addr.eq(at),
            ]  # fmt: skip
            self._cleared(states, sets, 0, writes & here, write_at[way_bits:], status)
            words.append((ram.read_data, states.read_data))
            # Whether it has data: those of another record may be dropped in the step of this.
            has = self._words(f"has{way}", 1, sets, "now")
            lets = self.lets_go & (owners.oldest.record[:way_bits] == way)
            m.d.comb += [
                has.now_addr.eq(at),
                has.write_en.eq(((fills | self.drops) & here) | lets),
                has.write_addr.eq(Mux(self.lets_go, owners.oldest.record[way_bits:], write_at[way_bits:])),
                has.write.eq(self.takes_buffer),
            ]
            data.append(has.now)
        self.valid = self._words("valid", 1, of.records, "walk")
        m.d.comb += [
            self.valid.write_en.eq(writes), self.valid.write_addr.eq(write_at),
            self.valid.write.eq(~self.ends), self.valid.walk_addr.eq(self.walk_row),
        ]  # fmt: skip

        # Three cycles after it was asked for: the record, whether it is there, and whether there is a way for it.
        hits, ways, key = Signal(WAYS), Signal(WAYS), Signal.like(uid)
        m.d.sync += key.eq(uid)
        m.d.comb += hits.eq(
            Cat(
                state.valid
                & (word.uid == key)
                & (word.source == self.heard.source)
                & (word.incarnation == self.heard.incarnation)
                for word, state in words
            )
        )
        for way in range(WAYS):
            m.d.comb += ways[way].eq(Mux(self.direct, number[:way_bits] == way, hits[way]))
        self.entry, self.status_now, self.found = Signal(of.record), Signal(of.status), Signal()
        self.has_way, free_way, free, way = Signal(), Signal(way_bits), Signal(WAYS), Signal(way_bits)
        m.d.comb += free.eq(~Cat(state.valid for _, state in words))
        chosen = Const(0, 1)
        for (word, state), this in zip(words, ways, strict=True):
            chosen = chosen | Mux(this, Cat(word, state), 0)
        shown, has_now = Signal(of.buffer_bits), Signal()
        m.d.comb += [
            shown.eq(Cat(chosen)[-of.buffer_bits :]),
            has_now.eq((Cat(data) & ways).any()),
        ]
        m.d.sync += [
            self.has_data.eq(has_now),
            self.is_told.eq(Cat(chosen)[-of.buffer_bits - TIDE_BITS : -of.buffer_bits] == self.tide),
            # In the cycle before a step only a transfer can end.
            self.data_held.eq(
                has_now
                & (self.held.bits.bit_select(shown, 1) | (self.hop_holds & (self.hop.now.number == shown)))
            ),
            Cat(self.entry, self.status_now).eq(chosen), self.found.eq(hits.any()), way.eq(lowest_of(ways)[1]),
            self.has_way.eq(free.any()), free_way.eq(lowest_of(free)[1]),
        ]  # fmt: skip
        # The record, or the one that is to be made.
        m.d.comb += [
            self.entry_at.eq(Cat(way, at)),
            self.place.eq(Cat(Mux(self.found, way, free_way), at)),
        ]
        now, owing = self.status_now, Signal()
        m.d.comb += [
            status.valid.eq(~self.ends),
            status.state.eq(self.state),
            status.buffer.eq(Mux(fills, self.free_buffers.oldest, now.buffer)),
            status.tide.eq(Mux(self.links, self.tide, Mux(fills, self.tide - 1, now.tide))),
            owing.eq(Mux(fills, self.was_owing, now.state == RecordState.OWED)),
        ]
        more = writes & ~self.ends & (self.state == RecordState.OWED)
        m.d.sync += [
            self.known.eq(self.known + self.makes - self.ends),
            self.owing.eq(self.owing + more - (writes & owing)),
        ]

        # Its buffer.
        moving = self.hop.now
        m.d.comb += [
            owners.launched_addr.eq(self.launched.number),
            owners.oldest_addr.eq(self.held.oldest),
            owners.moving_addr.eq(moving.number),
            owners.write_en.eq(self.disowns | self.takes_buffer),
            owners.write_addr.eq(Mux(self.takes_buffer, self.free_buffers.oldest, self.buffer)),
            owners.write.valid.eq(self.takes_buffer),
            owners.write.record.eq(self.place_filled),
            self.free_buffers.takes.eq(self.takes_buffer),
            self.free_buffers.gives.eq(self.gives_buffer),
            self.free_buffers.given.eq(self.buffer),
            self.held.leaves.eq(self.leaves),
            self.held.left.eq(self.buffer),
        ]
        with m.If(self.lets_go):
            m.d.comb += [
                self.buffer.eq(self.held.oldest), self.disowns.eq(1), self.leaves.eq(1), self.gives_buffer.eq(1),
            ]  # fmt: skip
        with m.If(self.drops & self.has_data):
            m.d.comb += [
                self.buffer.eq(self.status_now.buffer), self.disowns.eq(1), self.leaves.eq(self.data_held),
                self.gives_buffer.eq(self.data_held),
            ]  # fmt: skip
        # What has been sent is held, unless it has no record any more.
        ends = self.hop.ends & (moving.of != Of.SLOT) & moving.stored
        stays, holds = Signal(), Signal()
        m.d.comb += [
            self.hop_holds.eq(ends & owners.moving.valid),
            stays.eq(owners.moving.valid & ~(self.disowns & (self.buffer == moving.number))),
            holds.eq(ends & stays),
            self.held.holds.eq(holds | self.holds),
            self.held.held.eq(Mux(holds, moving.number, self.buffer)),
            self.free_buffers.ends.eq(ends & ~stays),
            self.free_buffers.ended.eq(moving.number),
        ]
        # Since when it is held; whether it has been held since it came.
        stamps = self._words("stamps", STAMP_BITS, of.buffers, "oldest")
        self.kept, self.oldest_stamp = self._words("kept", 1, of.buffers, "launched"), stamps.oldest
        self.oldest_owner = owners.oldest
        m.d.comb += [
            stamps.write_en.eq(self.held.holds), stamps.write_addr.eq(self.held.held), stamps.write.eq(self.now),
            stamps.oldest_addr.eq(self.held.oldest),
            self.kept.launched_addr.eq(self.launched.number),
        ]  # fmt: skip
        # A buffer that is taken has not been held; in the cycle of an end it is written later.
        fresh, taken = Signal(), Signal(of.buffer_bits)
        writes = self.held.holds
        m.d.comb += [
            self.kept.write_en.eq(writes | fresh),
            self.kept.write_addr.eq(Mux(writes, self.held.held, taken)),
            self.kept.write.eq(writes),
        ]
        with m.If(self.takes_buffer):
            m.d.sync += [fresh.eq(1), taken.eq(self.free_buffers.oldest)]
        with m.Elif(~writes):
            m.d.sync += fresh.eq(0)

    # Routes.

    def _routes(self):
        m, of = self.m, self.of
        bits = ceil_log2(max(2, of.nodes))
        deep = 2 << bits
        m.submodules.ups = ups = Ram(of.node_bits, deep)
        m.submodules.downs = downs = Ram(of.down, deep)
        m.submodules.relations = relations = Ram(of.down["way"].shape, deep)
        m.submodules.related = related = Words(1, deep, ("walk",))
        self.routes = Signal()  # a route is written, in the other bank
        word, good, hop, way = self.tree_word, Signal(), Signal(of.node_bits), Signal(4)
        at = Cat(word.target[:bits], ~self.bank)
        relation = Signal(4)
        m.d.comb += [
            good.eq(word.hop < of.nodes),
            hop.eq(Mux(good, word.hop, self.node)),
            way.eq(Mux(good, word.way, 0)),
            relation.eq(Mux(hop == word.target, way, 0)),
        ]
        for ram, value in ((ups, hop), (downs, Cat(hop, way)), (relations, relation)):
            m.d.comb += [
                ram.write_en.eq(self.routes), ram.write_addr.eq(at), Value.cast(ram.write_data).eq(value),
            ]  # fmt: skip
        m.d.comb += [
            related.write_en.eq(self.routes), related.write_addr.eq(at), related.write.eq(relation.any()),
            related.walk_addr.eq(Cat(self.walk_row[:bits], self.bank)),
        ]  # fmt: skip

        # Up and down: those of what was heard, but for long jobs.
        up_node, down_node, down_bank = Signal(of.node_bits), Signal(of.node_bits), Signal()
        m.d.comb += [up_node.eq(self.coming.source), down_node.eq(self.coming.target), down_bank.eq(self.bank)]
        self.life = Words(of.life, of.ni_slots, ("cancelled",))
        m.submodules.life = self.life
        m.d.comb += self.life.cancelled_addr.eq(self.cancel_row)
        with m.If(self.doing(RelayJob.FEED)):
            m.d.comb += up_node.eq(self.fed)
        with m.If(self.doing(RelayJob.CANCEL)):
            m.d.comb += up_node.eq(self.life.cancelled.destination)
        with m.If(self.doing(RelayJob.OWED, RelayJob.WALK)):
            m.d.comb += up_node.eq(self.message.source)
            with m.If(self.doing(RelayJob.WALK) & (self.walk == WalkRows.CELLS)):
                m.d.comb += up_node.eq(self.cell.source)
        with m.If(self.doing(RelayJob.LAUNCH, RelayJob.LOOK, RelayJob.WALK)):
            m.d.comb += down_node.eq(self.slot.target)
            recorded = Mux(self.job == RelayJob.LAUNCH, self.launched.buffered, self.walk == WalkRows.RECORDS)
            with m.If((self.job != RelayJob.LOOK) & recorded):
                m.d.comb += down_node.eq(self.message.target)
        # In a walk the route of the other bank is asked for a cycle later.
        with m.If(self.doing(RelayJob.WALK) & (self.count == 4)):
            m.d.comb += down_bank.eq(~self.bank)
        relation_bank = Signal()
        relation_node = Signal(of.node_bits)
        m.d.comb += [
            relation_bank.eq(Mux(self.doing(RelayJob.WALK), ~self.bank, self.bank)),
            relation_node.eq(Mux(self.doing(RelayJob.WALK), self.walk_row, self.coming_sender)),
            ups.read_addr.eq(Cat(up_node[:bits], self.bank)),
            downs.read_addr.eq(Cat(down_node[:bits], down_bank)),
            relations.read_addr.eq(Cat(relation_node[:bits], relation_bank)),
        ]
        now, before = Signal(of.down), Signal(of.down)
        with m.If(self.count == 3):
            m.d.sync += now.eq(downs.read_data)
        with m.If(self.count == 2):
            m.d.sync += before.eq(downs.read_data)
        self.up, self.relation, self.before = ups.read_data, relations.read_data, before
        self.down = Signal(of.down)
        m.d.comb += self.down.eq(Mux(self.doing(RelayJob.WALK), now, downs.read_data))
        with m.Switch(self.walk):
            for rows, used in (
                (WalkRows.SLOTS, self.lives.walk), (WalkRows.RECORDS, self.valid.walk),
                (WalkRows.CELLS, self.is_parked.walk), (WalkRows.NODES, related.walk),
            ):  # fmt: skip
                with m.Case(rows):
                    m.d.comb += self.used.eq(used)

    # Rows of the slots of the NI.

    def _rows(self):
        m, accepted = self.m, self.below.accepted
        moving, control = self.hop.now, accepted.control
        takes = accepted.valid & (control | ~self.hop.idle)
        m.d.comb += [
            self.life.write_en.eq(takes),
            self.life.write_addr.eq(accepted.slot),
            self.life.write.generation.eq(accepted.generation),
            self.life.write.destination.eq(Mux(control, self.control.destination, moving.hop)),
        ]
        ended = self.below.completion.payload.slot
        m.d.sync += self.mine.eq(
            (self.mine | Mux(takes, 1 << accepted.slot, 0)) & ~Mux(self.completions.takes_below, 1 << ended, 0)
        )

    # The search among the cells.

    def _search(self):
        m, of = self.m, self.of
        searching, row = Signal(), Signal(of.cell_bits)
        near, rows = Signal(2), Signal(of.cell_bits)
        self.search_begins = self.further & self.searches
        release = Signal()
        self.parked_found, self.parked_at = Signal(), Signal(of.cell_bits)
        before = [Signal(of.cell_bits, name=f"row{cycles}") for cycles in range(2)]
        self.clear_row = Signal(of.cell_bits)
        m.d.comb += self.cell_row.eq(Mux(searching, row, Mux(self.doing(RelayJob.WALK), self.walk_row, self.clear_row)))
        hit, same = Signal(), Signal()
        m.d.comb += [
            rows.eq(before[1]),
            self.is_parked.search_addr.eq(rows),
            same.eq(Mux(release, self.cell.prev == self.from_.mark, self.cell.uid == self.heard.uid)),
            hit.eq(near[1] & self.is_parked.search & (self.cell.source == self.heard.source) & same),
        ]
        m.d.sync += [near.eq(Cat(searching, near)), before[0].eq(row), before[1].eq(before[0])]
        with m.If(searching):
            m.d.sync += row.eq(row + 1)
            with m.If(row == of.cells - 1):
                m.d.sync += searching.eq(0)
        with m.If(hit & ~self.parked_found):
            m.d.sync += [
                self.parked_found.eq(1), self.parked_at.eq(rows),
                *(self.parked_cell[name].eq(self.cell[name]) for name in of.parked.members),
            ]  # fmt: skip
        with m.If(self.search_begins):
            m.d.sync += [
                searching.eq(1), row.eq(0), release.eq(self.then == RelayPhase.RELEASE), self.parked_found.eq(0),
            ]  # fmt: skip

    # A wrong beat.

    def _halt(self):
        """A beat that is read is wrong: no job begins any more, and no beat of a memory is read."""
        m = self.m
        if not self.of.checks:
            return
        self.halted, self.halts, self.wrong = Signal(), Signal(), Signal(3)
        m.d.comb += [self.hop.halted.eq(self.halted), self.post.halted.eq(self.halted)]
        slot, told = self.hop.now.of == Of.SLOT, Signal()
        with m.If(self.hop.wrong | self.post.wrong):
            m.d.sync += [
                self.halted.eq(1), self.wrong.eq(Cat(self.hop.wrong & slot, self.hop.wrong & ~slot, self.post.wrong)),
            ]  # fmt: skip
        m.d.comb += self.halts.eq(self.halted & ~told & ~self.busy)
        with m.If(self.halts):
            m.d.sync += told.eq(1)
        with m.If(self.halted):
            m.d.comb += self.begins.eq(0)

    # What is told.

    def _told(self):
        m, of, heard, slot, entry = self.m, self.of, self.heard, self.slot, self.message
        self.out, self.out_hop, self.tells = Signal(of.header), Signal(of.node_bits), Signal()
        out, row = self.out, self.from_
        with m.Switch(self.about):
            with m.Case(About.HEARD):
                m.d.comb += out.eq(heard)
            with m.Case(About.SLOT):
                m.d.comb += [
                    *(out[name].eq(slot[name]) for name in ("cls", "target", "prev", "uid")), out.source.eq(self.node),
                    out.incarnation.eq(self.incarnation), out.slot.eq(self.slot_row),
                ]  # fmt: skip
            with m.Case(About.RECORD):
                names = ("cls", "source", "target", "incarnation", "slot", "prev", "uid")
                m.d.comb += [out[name].eq(entry[name]) for name in names]
            with m.Case(About.POSTED):
                m.d.comb += [
                    out.source.eq(self.from_node), out.target.eq(self.node), out.incarnation.eq(row.incarnation),
                    out.slot.eq(row.slot), out.uid.eq(row.mark),
                ]  # fmt: skip
        with m.If(~self.as_it_came):
            m.d.comb += [
                out.type.eq(self.kind), out.replay.eq(self.replay), out.more.eq(self.more), out.thru.eq(self.thru),
                out.depth.eq(0),
            ]  # fmt: skip
        with m.If(self.own_depth):
            m.d.comb += out.depth.eq(self.depth)
        with m.If(self.bare):
            m.d.comb += [out.cls.eq(0), out.prev.eq(0)]
        drained, pull = self.kind == Type.ACKACKED, self.kind == Type.PULL
        with m.If(~self.as_it_came & (drained | pull)):
            m.d.comb += out.slot.eq(0)
        with m.If(~self.as_it_came & pull):
            m.d.comb += [
                out.cls.eq(0), out.prev.eq(0), out.uid.eq(0), out.incarnation.eq(0), out.source.eq(self.node),
                out.target.eq(self.node),
            ]  # fmt: skip
        hop = self.out_hop
        with m.Switch(self.way):
            with m.Case(To.UP):
                m.d.comb += hop.eq(self.up)
            with m.Case(To.DOWN):
                m.d.comb += hop.eq(self.down.hop)
            with m.Case(To.NEIGHBOUR):
                m.d.comb += hop.eq(self.walk_row)
        facts, goes = self.facts, Signal()
        with m.Switch(self.way):
            with m.Case(To.UP):
                m.d.comb += goes.eq(~facts.up_nobody & ~(self.passes & facts.up_back))
            with m.Case(To.DOWN):
                m.d.comb += goes.eq(~facts.down_nobody & ~(self.passes & facts.down_back))
            with m.Case(To.NEIGHBOUR):
                m.d.comb += goes.eq(1)
        m.d.comb += self.tells.eq(self.told & goes)
        # At once if nothing waits; else behind what does.
        control, telling, queued = self.control, self.telling, Signal()
        at_once = control.idle & telling.empty
        m.d.comb += [
            queued.eq(self.at(RelayJob.TELL)),
            control.gives.eq((self.tells & at_once) | (queued & ~self.dead)),
            telling.i.valid.eq(self.tells & ~at_once),
            telling.i.payload.hop.eq(hop),
            telling.i.payload.header.eq(out),
            control.given.eq(Mux(queued, self.waited, telling.i.payload)),
            self.dropped.eq(self.tells & ~at_once & ~telling.i.ready),
            self.links.eq(self.tells & ~self.dropped & (out.type == Type.LINK)),
        ]
        with m.If(self.notices | self.pulls.any()):
            m.d.sync += self.tide.eq(self.tide + 1)

"""The job unit: its tables, when a job begins and acts, and what its steps ask of the rest (contract of relay, 7)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import enum
from amaranth.utils import ceil_log2, exact_log2

from lethe.lib.first import first_of, lowest_of
from lethe.lib.memory import Ram
from lethe.lib.queue import Queue
from lethe.lib.table import Words

from .arrivals import HeaderRegister
from .departures import HopControl, HopData
from .host import HostMessages, OwnCompletions
from .layouts import STAMP_BITS, STAMP_SHIFT, WAYS, Of, RelayLayouts
from .lists import FreeList, HeldList
from .post import Post

__all__ = ["Fate", "Job", "Phase", "Unit", "Walk"]

#: Cycles from its beginning until a job acts, short and long; from a step to the next; of a search, beside its cells.
SHORT, LONG, STEP, SEARCH = 3, 8, 4, 3


class Job(enum.Enum, shape=4):
    """The jobs, in the order in which they are asked."""

    NONE = 0
    CONTROL = 1
    DATA = 2
    COMPLETION = 3
    LAUNCH = 4
    TELL = 5
    HOST = 6
    GIVEN = 7
    FEED = 8
    CANCEL = 9
    OWED = 10
    LOOK = 11
    WALK = 12
    TREE = 13


_LONG = (Job.COMPLETION, Job.LAUNCH, Job.FEED, Job.CANCEL, Job.OWED, Job.LOOK, Job.WALK)


class Phase(enum.Enum, shape=4):
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


class Walk(enum.Enum, shape=2):
    """The rows of a walk."""

    SLOTS = 0
    RECORDS = 1
    CELLS = 2
    NODES = 3


class Unit:
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

    # What is known beside the tables.

    def _state(self):
        of = self.of
        self.busy, self.job, self.last = Signal(), Signal(Job), Signal(Job, init=Job.TREE)
        self.phase, self.count = Signal(Phase), Signal(range(max(LONG, of.cells + SEARCH)))
        self.live, self.known = Signal(range(of.slots + 1)), Signal(range(of.records + 1))
        self.owing, self.parked = Signal(range(of.records + 1)), Signal(range(of.cells + 1))
        self.bank, self.noticed, self.depth = Signal(), Signal(), Signal(6)
        self.next_uid = Signal(of.uid_bits, init=of.system.relay.uid_first)
        self.refused_generation = Signal(of.system.format.generation_bits)
        self.clock = Signal(STAMP_SHIFT + STAMP_BITS)
        self.now = self.clock[STAMP_SHIFT:]
        self.look_wanted, self.look = Signal(), Signal(range(max(2, of.slots, of.records)))
        self.owed_row = Signal(of.record_bits)
        self.pulled, self.asking = Signal(16), Signal(16)
        self.walking, self.for_notice, self.for_all, self.notice_wanted = Signal(), Signal(), Signal(), Signal()
        self.walk, self.walk_row = Signal(Walk), Signal(range(max(2, of.slots, of.records, of.cells, of.nodes)))
        self.cancel_walk, self.cancel_row = Signal(), Signal(of.row_bits)
        self.cancelling, self.cancel_name = Signal(), Signal(of.row_bits)
        self.cancel_generation = Signal(of.system.format.generation_bits)
        with self.m.If(self.ready):
            self.m.d.sync += self.clock.eq(self.clock + 1)

    def aged(self, stamp, cycles: int) -> Value:
        """Whether a stamp is at least so old."""
        return (self.now - stamp)[:STAMP_BITS] >= cycles >> STAMP_SHIFT

    # What a step asks for.

    def _intents(self):
        of = self.of
        #: The job goes on, with this phase.
        self.further, self.then = Signal(), Signal(Phase)
        #: Control is told: this header to this hop.
        self.tells, self.out, self.out_hop = Signal(), Signal(of.header), Signal(of.node_bits)
        #: Tables are written.
        self.to_writes, self.to_word = Signal(), Signal(of.to)
        self.from_writes, self.from_word = Signal(), Signal(of.from_)
        self.slot_writes, self.slot_at, self.slot_word = Signal(), Signal(of.slot_bits), Signal(of.slot)
        self.cell_writes, self.cell_at, self.cell_word = Signal(), Signal(of.cell_bits), Signal(of.cell)
        self.record_writes, self.record_at, self.record_word = Signal(), Signal(of.record_bits), Signal(of.record)
        #: A record is made; it ends; it becomes OWED, or was.
        self.makes, self.ends, self.more_owing, self.less_owing = Signal(), Signal(), Signal(), Signal()
        #: A buffer has no record any more; it leaves the held list, comes to it, is free; it is a record's.
        self.disowns, self.leaves, self.holds, self.gives_buffer = Signal(), Signal(), Signal(), Signal()
        self.buffer = Signal(of.buffer_bits)
        self.takes_buffer, self.taker = Signal(), Signal(of.record_bits)
        #: A slot or buffer waits.
        self.slot_waits, self.waiting_slot = Signal(), Signal(of.slot_bits)
        self.buffer_waits = Signal()
        #: The first message to ``to_node`` ends; with this.
        self.frees_head, self.status, self.cause = Signal(), Signal(2), Signal(of.completion["cause"].shape)
        #: A cell is taken, free; it is parked, or no more.
        self.takes_cell, self.gives_cell, self.given_cell = Signal(), Signal(), Signal(of.cell_bits)
        self.parks, self.unparks = Signal(), Signal()
        self.posts, self.posted = Signal(), Signal(of.cell_bits)
        self.hungers, self.hungry_node = Signal(), Signal(of.node_bits)
        #: A message goes to the next hop.
        self.sends, self.sent = Signal(), Signal(of.hop)
        #: Events that are shown and counted, and nothing else.
        self.hears, self.ignores, self.stale = Signal(), Signal(), Signal()
        self.starves, self.releases, self.dropped, self.refuses = Signal(), Signal(), Signal(), Signal()
        self.owes, self.untracked, self.evicts = Signal(), Signal(), Signal()
        self.expires, self.notices = Signal(), Signal()
        #: Ways that are asked for.
        self.pulls = Signal(16)
        #: The slot that a header names has the message that it means; a message can go on as it comes.
        self.meant, self.at_once = Signal(), Signal()
        #: A walk is under way, or wanted.
        self.walks = Signal()

    def tell(self, hop, *, back=None, header=None, **named) -> list:
        """A header goes to a hop, unless that is nobody, or ``back``: where it came from."""
        goes = hop != self.node
        if back is not None:
            goes = goes & (hop != back)
        told = [self.out.eq(header)] if header is not None else []
        return [self.tells.eq(goes), self.out_hop.eq(hop), *told, *(self.out[n].eq(v) for n, v in named.items())]

    def goes_on(self, phase: Phase) -> list:
        """The job has a further step."""
        return [self.further.eq(1), self.then.eq(phase)]

    # Headers.

    def _headers(self):
        """What was heard: of control, or of data if that is the next."""
        m, of = self.m, self.of
        self.of_data, self.heard = Signal(), Signal(of.header)
        self.sender, self.message_length = Signal(of.node_bits), Signal(of.length_bits)
        m.d.comb += [
            self.of_data.eq(
                Mux(
                    self.busy,
                    self.job == Job.DATA,
                    self.data_in.full & (~self.control_in.full | (self.last == Job.CONTROL)),
                )
            ),
            self.sender.eq(Mux(self.of_data, self.data_in.source, self.control_in.source)),
            self.message_length.eq(self.data_in.length - 16),
        ]
        bits = Mux(self.of_data, self.data_in.bits, self.control_in.bits)
        m.d.comb += [self.heard[n].eq(v) for n, v in of.wire_fields(bits).items() if n in of.header.members]

        def sound(register, kinds, length, cls):
            wire = of.wire_fields(register.bits)
            nodes = (wire["source"] < of.nodes) & (wire["target"] < of.nodes)
            if of.nodes < 1 << of.node_bits:
                nodes &= register.source < of.nodes
            return nodes & length & (register.cls == cls) & kinds(wire["type"]), wire["source"] == wire["target"]

        self.sound_control, self.to_itself = Signal(), Signal()
        self.sound_data = Signal()
        good, same = sound(
            self.control_in, lambda kind: (kind >= 2) & (kind <= 6), self.control_in.length == 16, of.control_class
        )
        m.d.comb += [self.sound_control.eq(good), self.to_itself.eq(same)]
        good, same = sound(self.data_in, lambda kind: kind == 1, self.data_in.length >= 16, of.data_class)
        m.d.comb += self.sound_data.eq(good & ~same)
        self.own, self.here = Signal(), Signal()
        m.d.comb += [self.own.eq(self.heard.source == self.node), self.here.eq(self.heard.target == self.node)]

    # b: the choice, and when steps are.

    def _choice(self):
        m, of, below, above = self.m, self.of, self.below, self.above
        self.room, self.mine = Signal(), Signal(of.ni_slots)
        self.used, launch = Signal(), self.sending.o
        m.d.comb += self.room.eq(self.telling.level <= of.system.relay.control // 2)
        completion = below.completion
        self.ended_mine = self.mine.bit_select(completion.payload.slot, 1)
        noticed = self.noticed
        asks = Cat(
            noticed & self.control_in.full,
            noticed & self.data_in.full,
            noticed & completion.valid & self.ended_mine,
            noticed & launch.valid & self.hop.idle & ~self.host.holds_send,
            noticed & self.telling.o.valid & self.control.idle,
            noticed & self.host.offers & ~above.quiesce & ~self.completions.owes,
            noticed & self.host.stored,
            noticed & self.free_cells.count.any() & self.hungry.o.valid & self.room,
            noticed & self.cancel_walk & ~self.cancelling,
            noticed & self.owing.any() & (self.free_buffers.count.any() | self.held.some) & self.room,
            noticed & self.look_wanted & self.room,
            self.walking & self.used & self.room,
            above.tree.valid,
            Const(0, 3),
        )
        begun, first, last = Signal(16), Signal(4), Signal(4)
        m.d.comb += [begun.eq(asks), last.eq(Value.cast(self.last) - 1)]
        chosen, statements = first_of(begun, last)
        m.d.comb += [*statements, first.eq(chosen)]
        self.begins, self.chosen = Signal(), Signal(Job)
        m.d.comb += [
            self.begins.eq(self.ready & ~self.busy & begun.any()),
            Value.cast(self.chosen).eq(first + 1),
            self.completions.takes_below.eq(self.starts(Job.COMPLETION)),
            self.telling.o.ready.eq(self.starts(Job.TELL)),
            launch.ready.eq(self.starts(Job.LAUNCH)),
            self.hungry.o.ready.eq(self.starts(Job.FEED)),
            above.tree.ready.eq(self.starts(Job.TREE)),
        ]

        # What a job is about, as of b.
        self.launched, self.fed = Signal(of.sending), Signal(of.node_bits)
        self.tell_word, self.tree_word = Signal(of.told), Signal.like(above.tree.payload)
        self.host_target, self.row_mine = Signal(16), Signal()
        self.ended, carried = Signal(of.carried), Words(of.carried, of.ni_slots, ("ended",))
        m.submodules.carried = self.carried = carried
        m.d.comb += carried.ended_addr.eq(completion.payload.slot)
        with m.If(~self.busy):
            m.d.sync += [
                self.job.eq(self.chosen), self.phase.eq(Phase.FIRST), self.launched.eq(launch.payload),
                self.fed.eq(self.hungry.o.payload), self.tell_word.eq(self.telling.o.payload),
                self.tree_word.eq(above.tree.payload), self.host_target.eq(above.send.payload.destination),
                self.ended.eq(carried.ended), self.row_mine.eq(self.mine.bit_select(self.cancel_row, 1)),
            ]  # fmt: skip
        long = Cat(self.chosen == job for job in _LONG).any()
        self.acts, self.step = Signal(), Signal()
        accepts = (self.job == Job.GIVEN) & (self.phase == Phase.FIRST) & below.accepted.valid
        m.d.comb += [
            self.step.eq(self.busy & (self.phase != Phase.STREAM) & (self.count == 0)),
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
        m.d.comb += self.searches.eq((self.then == Phase.SEARCH) | (self.then == Phase.RELEASE))
        self.ends_job = Signal()  # with the last beat
        with m.If(self.ends_job):
            m.d.sync += self.busy.eq(0)
        m.d.comb += [
            self.over.eq((self.acts & ~self.further) | self.ends_job),
            self.control_in.done.eq(self.over & (self.job == Job.CONTROL)),
            self.data_in.done.eq(self.over & (self.job == Job.DATA)),
        ]

    def starts(self, job: Job) -> Value:
        """The job begins in this cycle."""
        return self.begins & (self.chosen == job)

    def at(self, job: Job, phase: Phase | None = None) -> Value:
        """A step of this job is made."""
        here = self.acts & (self.job == job)
        return here if phase is None else here & (self.phase == phase)

    def doing(self, *jobs: Job) -> Value:
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
        # By node: whom a job is about.
        self.to_node, self.from_node, dead_node = Signal(of.node_bits), Signal(of.node_bits), Signal(of.node_bits)
        slot_node = Signal(of.node_bits)  # of the slot that is looked at
        m.d.comb += [self.to_node.eq(self.heard.target), self.from_node.eq(self.heard.source)]
        with m.If(self.doing(Job.HOST)):
            m.d.comb += self.to_node.eq(self.host_target)
        with m.If(self.doing(Job.GIVEN)):
            m.d.comb += self.to_node.eq(self.host.kept.target)
        with m.If(self.doing(Job.WALK)):
            m.d.comb += self.to_node.eq(slot_node)
        with m.If(self.doing(Job.FEED)):
            m.d.comb += self.from_node.eq(self.fed)
        m.d.comb += dead_node.eq(Mux(self.doing(Job.HOST, Job.GIVEN), self.to_node, self.from_node))
        with m.If(self.doing(Job.TELL)):
            m.d.comb += dead_node.eq(self.tell_word.hop)
        new_to, new_from = Signal(of.to), Signal(of.from_)
        m.d.comb += [new_to.last.eq(of.none), new_from.mark.eq(of.none)]
        m.submodules.to = to = Ram(of.to, nodes)
        m.submodules.from_ = from_ = Ram(of.from_, nodes)
        m.submodules.dead = dead = Ram(1, nodes)
        self._cleared(to, nodes, new_to, self.to_writes, self.to_node, self.to_word)
        self._cleared(from_, nodes, new_from, self.from_writes, self.from_node, self.from_word)
        self.kills = Signal()
        self._cleared(dead, nodes, 0, self.kills, self.tree_word.target, 1)
        m.d.comb += [
            to.read_addr.eq(self.to_node), from_.read_addr.eq(self.from_node), dead.read_addr.eq(dead_node),
        ]  # fmt: skip
        self.to, self.from_, self.dead = to.read_data, from_.read_data, dead.read_data

        # By slot.
        m.submodules.slots = slots = Ram(of.slot, of.slots)
        self.slot_row, self.slot = Signal(of.slot_bits), slots.read_data
        m.d.comb += [
            self.slot_row.eq(self.heard.slot),
            slot_node.eq(self.slot.target),
            slots.write_en.eq(self.slot_writes),
            slots.write_addr.eq(self.slot_at),
            slots.write_data.eq(self.slot_word),
            slots.read_addr.eq(self.slot_row),
        ]
        with m.If(self.doing(Job.LAUNCH)):
            m.d.comb += self.slot_row.eq(self.launched.number)
        with m.If(self.doing(Job.LOOK)):
            m.d.comb += self.slot_row.eq(self.look)
        with m.If(self.doing(Job.WALK)):
            m.d.comb += self.slot_row.eq(self.walk_row)
        self.lives = self._words("lives", 1, of.slots, "walk", "row", "moving")
        self.waiting = self._words("waiting", 1, of.slots, "slot")
        self.was_sent = self._words("was_sent", 1, of.slots, "row")
        generations = self._words("generations", of.system.format.generation_bits, of.slots, "head", "host")
        followers = self._words("followers", of.slot_bits, of.slots, "head")
        endings = self._words("endings", of.ending, of.slots, "head")
        head, given, moving = self.to.head, Signal(), self.hop.now
        m.d.comb += [
            given.eq(self.at(Job.GIVEN, Phase.FIRST)),
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
        self.next_head, self.ending, self.host_generation = followers.head, endings.head, generations.host

        # A slot waits; one that is launched does no more.
        launches = self.at(Job.LAUNCH) & ~self.launched.buffered
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

        # By cell.
        m.submodules.cells = cells = Ram(of.cell, of.cells)
        self.cell, self.cell_row = cells.read_data, Signal(of.cell_bits)
        self.is_parked = self._words("is_parked", 1, of.cells, "walk", "search", "row")
        m.d.comb += [
            cells.write_en.eq(self.cell_writes),
            cells.write_addr.eq(self.cell_at),
            cells.write_data.eq(self.cell_word),
            cells.read_addr.eq(self.cell_row),
            self.post.writes.eq(self.cell_writes),
            self.post.at.eq(self.cell_at),
            self.post.word.eq(self.cell_word),
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
            self.hungry.i.valid.eq(self.hungers),
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
        owners = self._words("owners", of.owner, of.buffers, "entry", "launched", "oldest", "moving")
        self.owners = owners
        m.d.comb += [
            self.direct.eq(
                self.doing(Job.COMPLETION, Job.LAUNCH, Job.OWED, Job.LOOK, Job.WALK) | (self.phase == Phase.STORE)
            ),
            number.eq(self.evicted),
        ]
        with m.Switch(self.job):
            for job, row in (
                (Job.COMPLETION, self.ended.record), (Job.LAUNCH, owners.launched.record),
                (Job.OWED, self.owed_row), (Job.LOOK, self.look), (Job.WALK, self.walk_row),
            ):  # fmt: skip
                with m.Case(job):
                    m.d.comb += number.eq(row)
        way_bits = exact_log2(WAYS)
        uid, at = Signal(of.uid_bits), Signal(max(1, of.record_bits - way_bits))
        m.d.comb += [
            uid.eq(Mux(self.chaining, chained, self.heard.uid)),
            at.eq(Mux(self.direct, number[way_bits:], of.set_of(self.heard.source, uid))),
        ]
        words = []
        for way in range(WAYS):
            m.submodules[f"records{way}"] = ram = Ram(of.record, sets)
            enable = self.record_writes & (self.record_at[:way_bits] == way)
            self._cleared(ram, sets, 0, enable, self.record_at[way_bits:], self.record_word)
            m.d.comb += ram.read_addr.eq(at)
            words.append(ram.read_data)
        self.valid = self._words("valid", 1, of.records, "walk")
        m.d.comb += [
            self.valid.write_en.eq(self.record_writes), self.valid.write_addr.eq(self.record_at),
            self.valid.write.eq(self.record_word.valid), self.valid.walk_addr.eq(self.walk_row),
        ]  # fmt: skip

        # Three cycles after it was asked for: the record, whether it is there, and whether there is a way for it.
        hits, ways = Signal(WAYS), Signal(WAYS)
        m.d.comb += hits.eq(
            Cat(
                word.valid
                & (word.uid == uid)
                & (word.source == self.heard.source)
                & (word.incarnation == self.heard.incarnation)
                for word in words
            )
        )
        for way in range(WAYS):
            m.d.comb += ways[way].eq(Mux(self.direct, number[:way_bits] == way, hits[way]))
        self.entry, self.found, way = Signal(of.record), Signal(), Signal(way_bits)
        self.has_way, free_way, free = Signal(), Signal(way_bits), Signal(WAYS)
        m.d.comb += free.eq(~Cat(word.valid for word in words))
        chosen = Const(0, 1)
        for word, this in zip(words, ways, strict=True):
            chosen = chosen | Mux(this, Value.cast(word), 0)
        m.d.sync += [
            Value.cast(self.entry).eq(chosen), self.found.eq(hits.any()), way.eq(lowest_of(ways)[1]),
            self.has_way.eq(free.any()), free_way.eq(lowest_of(free)[1]),
        ]  # fmt: skip
        # The record, or the one that is to be made.
        self.entry_at, self.place, sets_at = Signal(of.record_bits), Signal(of.record_bits), at
        m.d.comb += [
            self.entry_at.eq(Cat(way, sets_at)),
            self.place.eq(Cat(Mux(self.found, way, free_way), sets_at)),
        ]
        m.d.sync += [
            self.known.eq(self.known + self.makes - self.ends),
            self.owing.eq(self.owing + self.more_owing - self.less_owing),
        ]

        # Its buffer.
        self.has_data, self.data_held, self.drops = Signal(), Signal(), Signal()
        owner = owners.entry
        moving = self.hop.now
        m.d.comb += [
            owners.entry_addr.eq(self.entry.buffer),
            owners.launched_addr.eq(self.launched.number),
            owners.oldest_addr.eq(self.held.oldest),
            owners.moving_addr.eq(moving.number),
            self.has_data.eq(self.entry.has & owner.valid & (owner.record == self.entry_at)),
            self.data_held.eq(self.has_data & self.held.bits.bit_select(self.entry.buffer, 1)),
            owners.write_en.eq(self.disowns | self.takes_buffer),
            owners.write_addr.eq(Mux(self.takes_buffer, self.free_buffers.oldest, self.buffer)),
            owners.write.valid.eq(self.takes_buffer),
            owners.write.record.eq(self.taker),
            self.free_buffers.takes.eq(self.takes_buffer),
            self.free_buffers.gives.eq(self.gives_buffer),
            self.free_buffers.given.eq(self.buffer),
            self.held.leaves.eq(self.leaves),
            self.held.left.eq(self.buffer),
        ]
        with m.If(self.drops & self.has_data):
            m.d.comb += [
                self.buffer.eq(self.entry.buffer), self.disowns.eq(1), self.leaves.eq(self.data_held),
                self.gives_buffer.eq(self.data_held),
            ]  # fmt: skip
        # What has been sent is held, unless it has no record any more.
        ends = self.hop.ends & (moving.of != Of.SLOT) & moving.stored
        stays, holds = Signal(), Signal()
        m.d.comb += [
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
        m.d.comb += [up_node.eq(self.heard.source), down_node.eq(self.heard.target), down_bank.eq(self.bank)]
        self.life = Words(of.life, of.ni_slots, ("cancelled",))
        m.submodules.life = self.life
        m.d.comb += self.life.cancelled_addr.eq(self.cancel_row)
        with m.If(self.doing(Job.FEED)):
            m.d.comb += up_node.eq(self.fed)
        with m.If(self.doing(Job.CANCEL)):
            m.d.comb += up_node.eq(self.life.cancelled.destination)
        with m.If(self.doing(Job.OWED, Job.WALK)):
            m.d.comb += up_node.eq(self.entry.source)
            with m.If(self.doing(Job.WALK) & (self.walk == Walk.CELLS)):
                m.d.comb += up_node.eq(self.cell.source)
        with m.If(self.doing(Job.LAUNCH, Job.LOOK, Job.WALK)):
            m.d.comb += down_node.eq(self.slot.target)
            recorded = Mux(self.job == Job.LAUNCH, self.launched.buffered, self.walk == Walk.RECORDS)
            with m.If((self.job != Job.LOOK) & recorded):
                m.d.comb += down_node.eq(self.entry.target)
        # In a walk the route of the other bank is asked for a cycle later.
        with m.If(self.doing(Job.WALK) & (self.count == 3)):
            m.d.comb += down_bank.eq(~self.bank)
        relation_bank = Signal()
        relation_node = Signal(of.node_bits)
        m.d.comb += [
            relation_bank.eq(Mux(self.doing(Job.WALK), ~self.bank, self.bank)),
            relation_node.eq(Mux(self.doing(Job.WALK), self.walk_row, self.sender)),
            ups.read_addr.eq(Cat(up_node[:bits], self.bank)),
            downs.read_addr.eq(Cat(down_node[:bits], down_bank)),
            relations.read_addr.eq(Cat(relation_node[:bits], relation_bank)),
        ]
        now, before = Signal(of.down), Signal(of.down)
        with m.If(self.count == 2):
            m.d.sync += now.eq(downs.read_data)
        with m.If(self.count == 1):
            m.d.sync += before.eq(downs.read_data)
        self.up, self.relation, self.before = ups.read_data, relations.read_data, before
        self.down = Signal(of.down)
        m.d.comb += self.down.eq(Mux(self.doing(Job.WALK), now, downs.read_data))
        with m.Switch(self.walk):
            for rows, used in (
                (Walk.SLOTS, self.lives.walk), (Walk.RECORDS, self.valid.walk), (Walk.CELLS, self.is_parked.walk),
                (Walk.NODES, related.walk),
            ):  # fmt: skip
                with m.Case(rows):
                    m.d.comb += self.used.eq(used)

    # Rows of the slots of the NI.

    def _rows(self):
        m, accepted = self.m, self.below.accepted
        moving, control = self.hop.now, accepted.control
        takes = accepted.valid & (control | ~self.hop.idle)
        m.d.comb += [
            self.carried.write_en.eq(takes),
            self.carried.write_addr.eq(accepted.slot),
            self.carried.write.eq(moving.carried),
            self.life.write_en.eq(takes),
            self.life.write_addr.eq(accepted.slot),
            self.life.write.generation.eq(accepted.generation),
            self.life.write.destination.eq(Mux(control, self.control.destination, moving.hop)),
        ]
        with m.If(control):
            m.d.comb += self.carried.write.valid.eq(0)
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
        self.parked_found, self.parked_cell, self.parked_at = Signal(), Signal(of.cell), Signal(of.cell_bits)
        before = [Signal(of.cell_bits, name=f"row{cycles}") for cycles in range(2)]
        self.clear_row = Signal(of.cell_bits)
        m.d.comb += self.cell_row.eq(Mux(searching, row, Mux(self.doing(Job.WALK), self.walk_row, self.clear_row)))
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
            m.d.sync += [self.parked_found.eq(1), self.parked_cell.eq(self.cell), self.parked_at.eq(rows)]
        with m.If(self.search_begins):
            m.d.sync += [
                searching.eq(1), row.eq(0), release.eq(self.then == Phase.RELEASE), self.parked_found.eq(0),
            ]  # fmt: skip

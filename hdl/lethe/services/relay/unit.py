"""The job unit: its state, and what all jobs share (contract of relay, 7)."""

import typing

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from lethe.lib.memory import Ram
from lethe.lib.queue import Queue
from lethe.lib.table import Words
from lethe.spec.services.relay import RelayJob

from .arrivals import HeaderRegister
from .choice import PHASES, add_choice
from .departures import HopControl, HopData
from .facts import add_facts
from .headers import add_headers
from .host import HostMessages, OwnCompletions
from .intents import Intents
from .layouts import STAMP_BITS, STAMP_SHIFT, TIDE_BITS, WAYS, Of, RelayLayouts
from .lists import FreeList, HeldList
from .post import Post
from .records import add_records
from .routes import add_routes, add_rows
from .search import add_search
from .steps import LONG, SEARCH, RelayPhase, WalkRows
from .tables import add_tables
from .told import add_told

__all__ = ["JobUnit"]


class JobUnit(Intents):
    """What all jobs share.

    Steps set *intents* in their cycle (`Intents`).  What becomes of these is in `tables`, `records`, `routes` and
    `told`; tables are written there alone, by one step at a time.

    Parameters
    ----------
    m : module of the service
    of : layouts
    service : `ServiceUnit`
    """

    if typing.TYPE_CHECKING:
        # Most members are made by the functions below, in other modules.
        def __getattr__(self, name: str) -> typing.Any: ...
        def __setattr__(self, name: str, value: typing.Any) -> None: ...

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
        m.submodules.held = self.held = HeldList(of.buffers, WAYS)
        m.submodules.sending = self.sending = Queue(of.sending, of.slots + of.buffers, apart=True)
        m.submodules.telling = self.telling = Queue(
            of.told, of.system.relay.control, counts=True, apart=True, late=True
        )
        m.submodules.hungry = self.hungry = Queue(of.node_bits, of.nodes, apart=True)
        # The walk after a reset clears rows a cycle late: the first step is later than that.
        self._clears, self.cleared_row = {}, Signal.like(self.clear_addr)
        m.d.sync += self.cleared_row.eq(self.clear_addr)
        for units in (self.free_slots, self.free_cells, self.free_buffers, self.held):
            m.d.comb += [units.clear.eq(self.wipes(units.depth)), units.clear_addr.eq(self.cleared_row)]
        self._state()
        self._intents()
        add_headers(self)
        add_choice(self)
        add_tables(self)
        add_records(self)
        add_routes(self)
        add_rows(self)
        add_search(self)
        add_facts(self)
        add_told(self)
        self._halt()

    def _state(self):
        of = self.of
        #: A job is under way, and which; what its next step is for, and the count of cycles before.
        self.busy, self.rests = Signal(), Signal(init=1)  # none is: `busy` drives many
        self.count = Signal(range(max(LONG, of.cells + SEARCH)))
        self.under = {job: Signal(name=f"under_{job.name.lower()}") for job in RelayJob if job}
        self.phases = {phase: Signal(name=f"phase_{phase.name.lower()}") for phase in RelayPhase}
        #: A step is made in this cycle, if nothing puts it off; that of this job, for this.
        self.step, self.after_control = Signal(), Signal()
        self.steps = {
            (job, phase): Signal(name=f"step_{job.name.lower()}_{phase.name.lower()}")
            for job in self.under
            for phase in PHASES.get(job, (RelayPhase.FIRST,))
        }
        #: In the next cycle the first step of these is made.
        self.next_control, self.next_data = Signal(), Signal()
        self.facts = Signal(of.facts)
        self.live, self.known = Signal(range(of.slots + 1)), Signal(range(of.records + 1))
        self.owing, self.parked = Signal(range(of.records + 1)), Signal(range(of.cells + 1))
        self.parked_found, self.parked_at, self.clear_row = Signal(), Signal(of.cell_bits), Signal(of.cell_bits)
        self.bank, self.noticed, self.depth = Signal(), Signal(), Signal(6)
        self.next_uid = Signal(of.uid_bits, init=of.system.relay.uid_first)
        self.refused_generation = Signal(of.system.format.generation_bits)
        self.clock = Signal(STAMP_SHIFT + STAMP_BITS)
        self.now = self.clock[STAMP_SHIFT:]
        #: Whether these counts are not 0; the counts know a cycle later, in time for the next step.
        self.live_some, self.known_some, self.owes_some = Signal(), Signal(), Signal()
        self.look_wanted, self.look = Signal(), Signal(range(max(2, of.slots, of.records)))
        self.owed_row, self.host_waits = Signal(of.record_bits), Signal()
        self.pulled, self.asking = Signal(16), Signal(16)
        #: Data in has further steps, or may have them, so that tables are still read with its header.
        self.reads_data = Signal()
        self.is_renewed = Signal()  # a source is new, or lives anew
        self.halted = Signal()  # with `relay.crc`
        #: Of a message that came: it is its turn, it was posted, it comes before its turn.
        self.turn, self.was_posted, self.comes_early = Signal(), Signal(), Signal()
        #: LINK at its destination: of a source that is known; the mark answers it; something is told, at once, or after
        #: a search.
        self.known_link, self.answers_post, self.tells_post, self.searches_post = Signal(), Signal(), Signal(), Signal()
        #: What was heard has no uid; is of this life of the node.
        self.unnamed, self.alive = Signal(), Signal()
        #: The record that was found, and whether one was.
        self.entry, self.status_now, self.found = Signal(of.record), Signal(of.status), Signal()
        #: It has data, and these are held; the transfer is over, and holds those that it moved.
        self.has_data, self.data_held, self.hop_holds = Signal(), Signal(), Signal()
        self.tide, self.is_told, self.links = Signal(TIDE_BITS), Signal(), Signal()
        self.walking, self.for_notice, self.for_all, self.notice_wanted = Signal(), Signal(), Signal(), Signal()
        self.walk_goes_on = Signal()  # to the next row
        #: The row of a walk, and the one behind it.
        self.walk, self.ahead = Signal(WalkRows, init=WalkRows.NODES), Signal(WalkRows, init=WalkRows.NODES)
        self.in_rows = {rows: Value.cast(self.walk)[bit] for bit, rows in enumerate(WalkRows)}
        self.walk_row = Signal(range(max(2, of.slots, of.records, of.cells, of.nodes)))
        self.ahead_row = Signal.like(self.walk_row)
        self.cancel_walk, self.cancel_row = Signal(), Signal(of.row_bits)
        self.cancelling, self.cancel_name = Signal(), Signal(of.row_bits)
        self.cancel_generation = Signal(of.system.format.generation_bits)
        self.next_clock, self.later_clock = Signal.like(self.clock, init=1), Signal.like(self.clock, init=2)
        with self.m.If(self.ready):
            self.m.d.sync += [
                self.clock.eq(self.next_clock), self.next_clock.eq(self.later_clock),
                self.later_clock.eq(self.later_clock + 1),
            ]  # fmt: skip

    def aged(self, stamp, cycles: int) -> Value:
        """Whether a stamp is at least so old in the next cycle; it must have been shown in the cycle before."""
        age = Signal(STAMP_BITS)
        self.m.d.sync += age.eq(self.later_clock[STAMP_SHIFT:] - stamp)
        return age >= cycles >> STAMP_SHIFT

    def starts(self, job: RelayJob) -> Value:
        """The job begins in this cycle."""
        return self.rests & self.chosen[job]

    def at(self, job: RelayJob, phase: RelayPhase = RelayPhase.FIRST) -> Value:
        """A step of this job, for this, is made."""
        step = self.steps[job, phase]
        return step & ~self.below.accepted.valid if (job, phase) == (RelayJob.GIVEN, RelayPhase.FIRST) else step

    def doing(self, *jobs: RelayJob) -> Value:
        """One of these is under way; with data in or control in, or it was until the cycle before."""
        return Cat(self.under[job] for job in jobs).any()

    def wipes(self, depth: int) -> Signal:
        """A row below ``depth`` is cleared after a reset."""
        if depth not in self._clears:
            self._clears[depth] = clears = Signal(name=f"clears_{depth}")
            self.m.d.sync += clears.eq(self.clear & (self.clear_addr < depth))
        return self._clears[depth]

    def words(self, name: str, shape, depth: int, *readers: str, late: bool = False):
        """A table of few words, cleared after a reset; ``late`` as in `Words`."""
        words = Words(shape, depth, readers, late=late)
        self.m.submodules[name] = words
        self.m.d.comb += [words.clear.eq(self.wipes(depth)), words.clear_addr.eq(self.cleared_row)]
        return words

    def cleared(self, ram: Ram, depth: int, init, enable, address, word) -> None:
        """What writes a memory: the walk after a reset, then steps."""
        given, clears = Signal.like(ram.write_data), self.wipes(depth)
        self.m.d.comb += [
            given.eq(word),
            ram.write_en.eq(enable | clears),
            ram.write_addr.eq(Mux(clears, self.cleared_row, address)),
            ram.write_data.eq(given),
        ]
        with self.m.If(clears):
            self.m.d.comb += given.eq(init)

    def _halt(self):
        """A beat that is read is wrong: no job begins any more, and no beat of a memory is read."""
        m = self.m
        if not self.of.checks:
            return
        self.halts, self.wrong = Signal(), Signal(3)
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
            m.d.comb += self.may_begin.eq(0)

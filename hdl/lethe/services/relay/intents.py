"""What a step asks for: signals that are 0 unless a step sets them (contract of relay, 7)."""

from amaranth.hdl import Cat, Module, Signal

from lethe.spec.services.relay import RecordState

from .layouts import RelayLayouts
from .steps import RelayPhase

__all__ = ["Intents"]


class Intents:
    """The intents of steps; `JobUnit` sees to what becomes of them."""

    m: Module
    of: RelayLayouts

    def _intents(self):
        of = self.of
        self._wanted: dict[int, tuple[Signal, list]] = {}
        #: The job goes on, with this phase; control in does; a job of which nothing came does; data in does after
        #: its beats, or is over.
        self.further, self.further_control, self.further_other = Signal(), Signal(), Signal()
        self.stream_goes_on = Signal()
        self.then = {phase: Signal(name=f"then_{phase.name.lower()}") for phase in RelayPhase}
        #: A header goes to a hop: not to nobody, nor, if it passes, to the node it came from.  What it is, and where it
        #: goes, is known before (`told`), but for what is heard of a LINK elsewhere.
        self.tells, self.tells_next = Signal(), Signal()  # and this is known in the cycle before
        #: A LINK passes; one is told of a record, or in a walk.
        self.passes_link, self.tells_link = Signal(), Signal()
        #: Row `to`: the first message to ``to_node`` ends; `again` is written.
        self.frees_head, self.decides_again, self.again = Signal(), Signal(), Signal()
        #: Row `from`: a new life, its mark is that of the message that came or of one that was parked, it is hungry.
        self.renews, self.marks, self.releases, self.starves, self.feeds = (
            Signal(), Signal(), Signal(), Signal(), Signal(),
        )  # fmt: skip
        #: The stamp of the slot that is looked at is new.
        self.stamps_slot = Signal()
        #: A record changes: that which was found, to this state, or to none at all.
        self.changes, self.ends = Signal(), Signal()
        #: With the first three the record that was found loses its data, if it has any; with the fourth they are sent
        #: once more; with the last the record ends, unless its data move.  All but the fourth are registers.
        self.acks, self.forgets, self.past, self.resends, self.expiring = (
            Signal(), Signal(), Signal(), Signal(), Signal(),
        )  # fmt: skip
        self.states = {state: Signal(name=f"becomes_{state.name.lower()}") for state in RecordState}
        self.stays = Signal()
        #: A record has what was heard; it is made; in this place, and with data or not.
        self.fills, self.makes, self.place_filled = Signal(), Signal(), Signal(of.record_bits)
        self.takes_buffer, self.was_owing = Signal(), Signal()
        #: A buffer has no record any more; it leaves the held list, is free.  That of a launch comes to it, is free.
        self.disowns, self.leaves, self.gives_buffer = Signal(), Signal(), Signal()
        self.holds, self.gives_launched = Signal(), Signal()
        #: The buffer that is held longest is free, and its record has no data any more.
        self.lets_go = Signal()
        self.buffer = Signal(of.buffer_bits)
        #: A slot or buffer waits.
        self.slot_waits, self.waiting_slot = Signal(), Signal(of.slot_bits)
        self.buffer_waits = Signal()
        #: A cell is taken, free; it is parked, or no more; it is posted.
        self.takes_cell, self.gives_cell, self.given_cell = Signal(), Signal(), Signal(of.cell_bits)
        self.parks, self.unparks, self.clears, self.walk_unparks = Signal(), Signal(), Signal(), Signal()
        self.posts, self.posted = Signal(), Signal(of.cell_bits)
        #: Data in: its cell; its buffer, which waits; it goes through, with a record or not.
        self.streams_to, self.data_buffer, self.data_waits = Signal(of.cell_bits), Signal(of.buffer_bits), Signal()
        self.sends_through, self.sends_launched, self.sent_stored = Signal(), Signal(), Signal()
        #: A message goes to the next hop, with the header that is not told.
        self.sends, self.sent = Signal(), Signal(of.hop)
        #: Events that are shown and counted, and nothing else.
        self.hears, self.ignores, self.stale = Signal(), Signal(), Signal()
        self.dropped, self.refuses = Signal(), Signal()
        self.owes, self.untracked, self.evicts = Signal(), Signal(), Signal()
        self.expires, self.notices = Signal(), Signal()
        #: Ways that are asked for.
        self.pulls, self.is_pulled = Signal(16), Signal()
        #: A message can go on as it comes.
        self.at_once = Signal()
        #: A walk is under way, or wanted.
        self.walks = Signal()

    def wants(self, condition, *intents: Signal) -> None:
        """Each of these intents is 1 if this condition is met, or another one; `settle` drives it."""
        for intent in intents:
            self._wanted.setdefault(id(intent), (intent, []))[1].append(condition)

    def settle(self) -> None:
        """Drives the intents, when all their conditions were given."""
        for intent, conditions in self._wanted.values():
            self.m.d.comb += intent.eq(Cat(conditions).any())

    def goes_on(self, condition, phase: RelayPhase) -> None:
        """The job has a further step."""
        self.wants(condition, self.further, self.then[phase])

    def goes_on_posted(self, condition, parked) -> None:
        """A message was posted: if others are ``parked``, the one behind it is looked for."""
        self.goes_on(condition & parked, RelayPhase.RELEASE)
        self.goes_on(condition & ~parked, RelayPhase.ANSWER)

    def control_goes_on(self, condition, phase: RelayPhase) -> None:
        """The same of control in."""
        self.wants(condition, self.further_control, self.further, self.then[phase])

    def other_goes_on(self, condition, phase: RelayPhase) -> None:
        """The same of a job of which nothing came."""
        self.wants(condition, self.further_other, self.further, self.then[phase])

    def changes_to(self, condition, state: RecordState) -> None:
        """The record that was found has this state."""
        self.wants(condition, self.changes, self.states[state])

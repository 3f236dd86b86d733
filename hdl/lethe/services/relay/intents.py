"""What a step asks for: signals that are 0 unless a step sets them (contract of relay, 7)."""

from amaranth.hdl import Signal

from lethe.spec.services.relay import RecordState

from .layouts import RelayLayouts
from .steps import RelayPhase

__all__ = ["Intents"]


class Intents:
    """The intents of steps; `JobUnit` sees to what becomes of them."""

    of: RelayLayouts

    def _intents(self):
        of = self.of
        #: The job goes on, with this phase; control in does; a job of which nothing came does; data in does after
        #: its beats, or is over.
        self.further, self.further_control, self.further_other = Signal(), Signal(), Signal()
        self.stream_goes_on, self.ends_data = Signal(), Signal()
        self.then = {phase: Signal(name=f"then_{phase.name.lower()}") for phase in RelayPhase}
        #: A header goes to a hop, unless that is nobody, or, if it passes, the node it came from.  What it is, and
        #: where it goes, is known before (`told`), but for what is heard of a LINK elsewhere.
        self.tells_up, self.tells_down, self.tells_neighbour = Signal(), Signal(), Signal()
        self.passes_up, self.passes_down = Signal(), Signal()
        #: Row `to`: the first message to ``to_node`` ends; `again` is written.
        self.frees_head, self.decides_again, self.again = Signal(), Signal(), Signal()
        #: And it was ACKED by what was heard.
        self.frees = Signal()
        #: Row `from`: a new life, its mark is that of the message that came or of one that was parked, it is hungry.
        self.renews, self.marks, self.releases, self.starves, self.feeds = (
            Signal(), Signal(), Signal(), Signal(), Signal(),
        )  # fmt: skip
        #: The stamp of the slot that is looked at is new.
        self.stamps_slot = Signal()
        #: A record changes: that which was found, to this state, without its data, or to none at all.
        self.changes, self.drops, self.ends = Signal(), Signal(), Signal()
        self.states = {state: Signal(name=f"becomes_{state.name.lower()}") for state in RecordState}
        self.stays = Signal()
        #: A record has what was heard; it is made; in this place, and with data or not.
        self.fills, self.makes, self.place_filled = Signal(), Signal(), Signal(of.record_bits)
        self.takes_buffer, self.was_owing = Signal(), Signal()
        #: A buffer has no record any more; it leaves the held list, is free.  That of a launch comes to it, is free.
        self.disowns, self.leaves, self.gives_buffer = Signal(), Signal(), Signal()
        self.holds, self.gives_launched = Signal(), Signal()
        #: Data that are held are sent once more; others are in any case.
        self.sends_held, self.resent = Signal(), Signal(of.buffer_bits)
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
        self.came_cell, self.data_buffer, self.data_waits = Signal(of.cell_bits), Signal(of.buffer_bits), Signal()
        self.sends_through, self.sent_stored = Signal(), Signal()
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

    def goes_on(self, phase: RelayPhase) -> list:
        """The job has a further step."""
        return [self.further.eq(1), self.then[phase].eq(1)]

    def control_goes_on(self, phase: RelayPhase) -> list:
        """The same of control in."""
        return [self.further_control.eq(1), *self.goes_on(phase)]

    def other_goes_on(self, phase: RelayPhase) -> list:
        """The same of a job of which nothing came."""
        return [self.further_other.eq(1), *self.goes_on(phase)]

    def change(self, state: RecordState) -> list:
        """The record that was found has this state."""
        return [self.changes.eq(1), self.states[state].eq(1)]

    def end(self) -> list:
        """The record that was found ends."""
        return [self.changes.eq(1), self.ends.eq(1), self.drops.eq(1)]

    def make(self, state: RecordState) -> list:
        """A record of the message that was heard of is made, without data."""
        return [self.fills.eq(1), self.makes.eq(1), self.states[state].eq(1)]

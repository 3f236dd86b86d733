"""What a step asks for: signals that are 0 unless a step sets them (contract of relay, 7)."""

from amaranth.hdl import Signal

from lethe.spec.events import Cause, Status
from lethe.spec.services.relay import RecordState, Type

from .layouts import RelayLayouts
from .steps import About, RelayPhase, To

__all__ = ["Intents"]


class Intents:
    """The intents of steps; `JobUnit` sees to what becomes of them."""

    of: RelayLayouts

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

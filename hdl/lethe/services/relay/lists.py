"""Lists of numbers: of what is free, in the order in which it became so, and of buffers that are held."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from lethe.lib.first import before
from lethe.lib.queue import step
from lethe.lib.table import Words

__all__ = ["FreeList", "HeldList"]


class FreeList(wiring.Component):
    """The numbers below ``depth`` that are free, the oldest first; at first all, in their order.

    No two transfers end in neighbouring cycles, and steps are four cycles apart: one place is enough for what waits to
    be written.

    Parameters
    ----------
    depth : numbers, at least 1

    Members
    -------
    ends, ended : In
        The number becomes free in this cycle; for transfers.
    gives, given : In
        So does this, behind it; for steps.
    takes, oldest : In, Out
        The oldest is free no more.
    count, some, two : Out
        So many are free; one or more; for a step, two or more.
    clear, clear_addr : In
        The walk after a reset.
    """

    def __init__(self, depth: int):
        self.depth = depth
        number = ceil_log2(max(2, depth))
        super().__init__(
            {
                "ends": In(1), "ended": In(number), "gives": In(1), "given": In(number),
                "takes": In(1), "oldest": Out(number), "count": Out(range(depth + 1)), "some": Out(1), "two": Out(1),
                "clear": In(1), "clear_addr": In(number),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        depth, number = self.depth, len(self.oldest)
        m.submodules.numbers = numbers = Words(number, depth, ("oldest",))
        head, tail = Signal(number), Signal(number)
        # The number that a step gives is written in the next cycle; one whose transfer ends in that cycle, a cycle
        # later: no step gives another one so soon.
        waits, waiting, writes = Signal(), Signal(number), Signal()
        # The count as of the cycle before, and what happened there.
        count, now = Signal(range(depth + 1), init=depth), Signal(range(depth + 1))
        took, ended, given = Signal(), Signal(), Signal()
        m.d.sync += [took.eq(self.takes), ended.eq(self.ends), given.eq(self.gives), count.eq(now)]
        m.d.comb += [
            now.eq(count + Mux(took, Mux(ended, 0, -1), ended + given)),
            writes.eq(self.ends | waits),
            # The place behind the last one may hold anything, so it is always written; if all are free there is none.
            numbers.write_en.eq(waits | self.clear | ((count != depth) & ~ended)),
            numbers.write_addr.eq(Mux(self.clear, self.clear_addr, tail)),
            numbers.write.eq(Mux(self.clear, self.clear_addr, Mux(waits, waiting, self.ended))),
            numbers.oldest_addr.eq(head),
            self.oldest.eq(numbers.oldest),
            self.count.eq(now),
        ]
        m.d.sync += [waits.eq(self.gives | (waits & self.ends)), waiting.eq(Mux(waits, self.ended, self.given))]
        some, two = Signal(init=1), Signal(init=int(depth > 1))
        # In the cycle before a step there is no other.
        m.d.comb += [self.some.eq(some), self.two.eq(two)]
        m.d.sync += [
            some.eq(self.ends | self.gives | Mux(self.takes, two, some)), two.eq((now >= 2) | ((now == 1) & self.ends)),
        ]  # fmt: skip
        with m.If(writes):
            m.d.sync += tail.eq(step(tail, depth))
        with m.If(self.takes):
            m.d.sync += head.eq(step(head, depth))
        return m


class HeldList(wiring.Component):
    """The buffers that are held, the oldest first.

    Parameters
    ----------
    depth : buffers, at least 1
    readers : how many ask whether one is held

    Members
    -------
    holds, held : In
        The buffer is held from the next cycle on.
    leaves, left : In
        This one is not.
    some : Out(1)
        There is one.
    oldest : Out
        The oldest.  A buffer that leaves is gone from it two cycles later: one finds its place, one moves the others.
    asked, is_held : In, Out
        Whether a buffer is held, for each reader; of what is held and what leaves this knows a cycle later.  Nothing
        leaves in the two cycles behind one that does, nor is that one held again.
    clear, clear_addr : In
        The walk after a reset.
    """

    def __init__(self, depth: int, readers: int):
        self.depth, self._readers = depth, readers
        number = ceil_log2(max(2, depth))
        super().__init__(
            {
                "holds": In(1), "held": In(number), "leaves": In(1), "left": In(number),
                "oldest": Out(number), "some": Out(1), "asked": In(number).array(readers),
                "is_held": Out(1).array(readers), "clear": In(1), "clear_addr": In(number),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        depth, names = self.depth, [f"asked{i}" for i in range(self._readers)]
        # A buffer is held if what was written of it as it came and as it left differ: each is written by one alone.
        m.submodules.came = came = Words(1, depth, (*names, "left"))
        m.submodules.gone = gone = Words(1, depth, (*names, "held"))
        places = [Signal.like(self.oldest, name=f"place{i}") for i in range(depth)]
        used, some = Signal(depth), Signal()  # the lowest are
        # From the place on that leaves, all move down by one; what is held comes to all behind them, be it held or not.
        at, leaves, left = Signal(depth), Signal(), Signal.like(self.left)
        moving, after = Signal(), Signal(depth)
        holds, held = Signal(), Signal.like(self.held)
        m.d.sync += [leaves.eq(self.leaves), left.eq(self.left), moving.eq(leaves)]
        m.d.sync += [holds.eq(self.holds), held.eq(self.held)]
        m.d.sync += at.eq(Cat(leaves & used[i] & (places[i] == left) for i in range(depth)))
        moves = Cat(before(at, i + 1) for i in range(depth))
        fewer = leaves | moving
        padded = Cat(used, Const(0, 2))
        one, two = (Mux(fewer, padded[i + 1], padded[i]) for i in range(2))
        m.d.comb += [
            after.eq(Mux(moving, used >> 1, used)),
            self.oldest.eq(places[0]),
            self.some.eq(some),
            # One that comes and leaves at once was not held.
            came.write_en.eq(holds & ~(leaves & (held == left))), came.write_addr.eq(held),
            gone.held_addr.eq(held), came.write.eq(~gone.held),
            gone.write_en.eq(leaves), gone.write_addr.eq(left), came.left_addr.eq(left), gone.write.eq(came.left),
        ]  # fmt: skip
        for words in (came, gone):
            m.d.comb += [words.clear.eq(self.clear), words.clear_addr.eq(self.clear_addr)]
        for i, name in enumerate(names):
            m.d.comb += [
                getattr(came, f"{name}_addr").eq(self.asked[i]), getattr(gone, f"{name}_addr").eq(self.asked[i]),
                self.is_held[i].eq(getattr(came, name) ^ getattr(gone, name)),
            ]  # fmt: skip
        for i, place in enumerate(places):
            behind = places[i + 1] if i + 1 < depth else place
            m.d.sync += place.eq(Mux(after[i], Mux(moves[i], behind, place), self.held))
        m.d.sync += [
            used.eq(Mux(self.holds, Cat(1, after), after)),
            some.eq(Mux(self.leaves, Mux(self.holds, one, two), self.holds | one)),
        ]
        return m

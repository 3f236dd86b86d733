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

    No two transfers end in neighbouring cycles, so one place is enough for what a step gives in the cycle of an end.

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
        So many are free; one or more, two or more.
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
        head, tail, count = Signal(number), Signal(number), Signal(range(depth + 1), init=depth)
        # What a step gives in the cycle of an end is written in the next.
        late, later, lately = Signal(), Signal(), Signal(number)
        writes = Signal()
        m.d.comb += [
            late.eq(self.ends & self.gives),
            writes.eq(self.ends | self.gives | later),
            # Behind the last one anything may stand.
            numbers.write_en.eq((count != depth) | later | self.clear),
            numbers.write_addr.eq(Mux(self.clear, self.clear_addr, tail)),
            numbers.write.eq(
                Mux(self.clear, self.clear_addr, Mux(later, lately, Mux(self.ends, self.ended, self.given)))
            ),
            numbers.oldest_addr.eq(head),
            self.oldest.eq(numbers.oldest),
            self.count.eq(count),
        ]
        m.d.sync += [
            later.eq(late),
            lately.eq(self.given),
            count.eq(count + Mux(self.takes, Mux(self.ends, 0, -1), self.ends + self.gives)),
        ]
        some, two, more = Signal(init=1), Signal(init=int(depth > 1)), self.ends | self.gives
        m.d.comb += [self.some.eq(some), self.two.eq(two)]
        m.d.sync += [
            some.eq(more | Mux(self.takes, two, some)),
            two.eq(
                Mux(
                    self.takes,
                    (count >= 3) | (two & more) | (self.ends & self.gives),
                    two | (some & more) | (self.ends & self.gives),
                )
            ),
        ]
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

    Members
    -------
    holds, held : In
        The buffer is held from the next cycle on.
    leaves, left : In
        This one is not.
    some : Out(1)
        There is one.
    oldest, bits : Out
        The oldest; of each buffer whether it is held.  Of what leaves the oldest knows two cycles later, the bits one:
        so long the search and the move take.  Nothing leaves in the two cycles behind one that does, nor is that
        one held again.
    """

    def __init__(self, depth: int):
        self._depth = depth
        number = ceil_log2(max(2, depth))
        super().__init__(
            {
                "holds": In(1), "held": In(number), "leaves": In(1), "left": In(number),
                "oldest": Out(number), "some": Out(1), "bits": Out(depth),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        depth = self._depth
        places = [Signal.like(self.oldest, name=f"place{i}") for i in range(depth)]
        used, some = Signal(depth), Signal()  # the lowest are
        bits = Signal(depth)
        # From the place on that leaves, all move down by one; what is held comes to all behind them, be it held or not.
        at, leaves, left = Signal(depth), Signal(), Signal.like(self.left)
        moves, moving, after = Signal(depth), Signal(), Signal(depth)
        m.d.sync += [leaves.eq(self.leaves), left.eq(self.left), moving.eq(leaves)]
        m.d.comb += at.eq(Cat(used[i] & (places[i] == left) for i in range(depth)))
        m.d.sync += moves.eq(Cat(leaves & before(at, i + 1) for i in range(depth)))
        fewer = leaves | moving
        padded = Cat(used, Const(0, 2))
        one, two = (Mux(fewer, padded[i + 1], padded[i]) for i in range(2))
        m.d.comb += [
            after.eq(Mux(moving, used >> 1, used)),
            self.oldest.eq(places[0]),
            self.some.eq(some),
            self.bits.eq(bits),
        ]
        for i, place in enumerate(places):
            behind = places[i + 1] if i + 1 < depth else place
            m.d.sync += place.eq(Mux(after[i], Mux(moves[i], behind, place), self.held))
        m.d.sync += [
            used.eq(Mux(self.holds, Cat(1, after), after)),
            some.eq(Mux(self.leaves, Mux(self.holds, one, two), self.holds | one)),
            bits.eq((bits & ~Mux(leaves, 1 << left, 0)) | Mux(self.holds, 1 << self.held, 0)),
        ]
        return m

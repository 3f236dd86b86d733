"""The queue of the cycle contract: a memory whose read register is the output register."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from .memory import LUT_DEPTH, Ram, is_ecp5, style_of

__all__ = ["Queue", "step"]

#: What a large queue keeps beside its block RAM: its last entries, and the next ones, which it reads ahead.
_KEPT = 16
#: From this level on it takes the next one from those read ahead: long enough after its push that it is there, and few
#: enough that below it the next one is among the last.
_DEEP = 8


def step(pointer: Signal, depth: int):
    """The value after ``pointer`` in 0 … depth−1."""
    if depth == 1:
        return Const(0, len(pointer))
    if depth & (depth - 1) == 0:
        return (pointer + 1)[: len(pointer)]
    return Mux(pointer == depth - 1, 0, pointer + 1)


class Queue(wiring.Component):
    """``Queue(depth)`` of the cycle contract, section 1.

    An entry taken on ``i`` in cycle *c* is shown on ``o`` from *c+2* at the earliest; one entry can enter and
    one can leave each cycle.  `level` counts the memory only, never the output register.  Reset empties it.

    A memory of up to `LUT_DEPTH` entries is made of LUTs.  A larger one is a `Ram` with two small memories of LUTs: one
    has the last entries that were pushed, the other the next ones to leave, which are read ahead.  Of few entries the
    next one is among the last; of more, it was pushed long enough ago to be among those read ahead.

    Parameters
    ----------
    shape : shape of an entry
    depth : entries of the memory, at least 1
    ahead : whether the queue has the member ``ahead``
    counts : whether ``level`` of a small one is a register
    apart : no two entries are offered in neighbouring cycles: then the queue may count an entry a cycle after it
        took it.  ``i.ready`` and ``level`` are as much later; ``o`` and ``empty`` are as without this
    late : of one that is ``apart``: what is offered has a register before the memory, and ``o.payload`` is shown, and
        stays, a cycle later than ``o.valid`` says
    foresees : whether the queue has the member ``next_ready``

    Members
    -------
    i : In(stream)
        ``ready`` while level < depth; an entry offered without it is not taken.
    o : Out(stream)
        The output register; a payload holds until taken.
    level : Out(range(depth + 1))
        Entries in memory.
    empty : Out(1)
        Neither memory nor output register holds an entry.
    ahead : Out
        The entry behind the output register: the one that it shows in the next cycle, if its own leaves now.
    next_ready : Out(2)
        Whether ``i.ready`` is 1 in the next cycle: bit 0 if nothing is taken in this one, bit 1 if something is.
    """

    i: stream.Interface
    o: stream.Interface
    level: Signal
    empty: Signal

    def __init__(
        self, shape, depth: int, *, ahead: bool = False, counts: bool = False, apart: bool = False,
        late: bool = False, foresees: bool = False,
    ):  # fmt: skip
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth!r}")
        self._shape = shape
        self._depth = depth
        if late and (ahead or not apart):
            raise ValueError("a queue that is late is apart, and is not read ahead")
        if foresees and apart:
            raise ValueError("a queue that is apart does not foresee whether it is ready")
        self._ahead, self._counts, self._apart, self._late, self._foresees = ahead, counts, apart, late, foresees
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
                "empty": Out(1),
                **({"ahead": Out(shape)} if ahead else {}),
                **({"next_ready": Out(2)} if foresees else {}),
            }
        )

    def elaborate(self, platform):
        if self._depth > LUT_DEPTH:
            return self._large(platform)
        m = Module()
        # `ahead` is read without a register, and block RAM has one: of no bits, the memory is none.
        bits = 0 if self._ahead else Shape.cast(self._shape).width
        attributes = style_of(platform, self._depth, bits)
        m.submodules.memory = memory = Memory(shape=self._shape, depth=max(2, self._depth), init=[], attrs=attributes)
        write, read = memory.write_port(), memory.read_port(domain="comb" if self._ahead else "sync")
        head, tail = Signal(range(max(2, self._depth))), Signal(range(max(2, self._depth)))
        # Where the pointers are equal the memory is full or empty, so that nothing is ever read where it is written.
        # The enable of the read says it again for synthesis, but for LUTs, where it makes no difference.
        equal, full = Signal(), Signal()
        some, push, refill = Signal(), Signal(), Signal()
        taken, free, there, between = self.i.valid & ~full, ~full, some, full | ~equal
        if self._apart:
            # One was taken in the cycle before, and is not counted yet.
            late = Signal()
            m.d.sync += late.eq(taken)
            taken, free, there, between = late, ~full & ~late, some | late, between | late
        given, asks, asked = self.i.payload, refill, head
        if self._late:
            given, asks, asked = Signal(self._shape, reset_less=True), Signal(), Signal.like(head)
            m.d.sync += [given.eq(self.i.payload), asks.eq(refill), asked.eq(head)]
            free = taken

        m.d.comb += [
            equal.eq(head == tail),
            self.i.ready.eq(~full),
            push.eq(taken),
            # `some`: they are not empty.
            refill.eq(there & (~self.o.valid | self.o.ready)),
            # Behind the last entry anything may stand, so what is offered is written before it is known to be pushed.
            write.addr.eq(tail),
            write.data.eq(given),
            write.en.eq(free),
            read.addr.eq(asked),
            *(() if self._counts else (self.level.eq(tail - head + Mux(full | (tail < head), self._depth, 0)),)),
            self.empty.eq(~there & ~self.o.valid),
        ]
        if self._counts:
            with m.If(push ^ refill):
                m.d.sync += self.level.eq(self.level + Mux(push, 1, -1))
        if self._ahead:
            shown = Signal(self._shape, reset_less=True)
            m.d.comb += [self.ahead.eq(read.data), self.o.payload.eq(shown)]
            with m.If(refill):
                m.d.sync += shown.eq(read.data)
        else:
            m.d.comb += [
                read.en.eq(asks if is_ecp5(platform) or self._late else asks & between),
                self.o.payload.eq(read.data),
            ]
        after_head, after_tail = step(head, self._depth), step(tail, self._depth)
        if self._foresees:
            m.d.comb += self.next_ready.eq(Cat(refill | ~full, refill | (after_tail != head)))
        if self._apart:
            # What was taken may be shown at once.
            last = Signal.like(tail)
            with m.If(push):
                m.d.sync += [tail.eq(after_tail), last.eq(tail), some.eq(some | ~refill)]
            with m.Elif(refill):
                m.d.sync += some.eq(head != last)
        else:
            with m.If(push):
                m.d.sync += [tail.eq(after_tail), some.eq(1)]
            with m.Elif(refill):
                m.d.sync += some.eq(after_head != tail)
        with m.If(refill):
            m.d.sync += [head.eq(after_head), self.o.valid.eq(1), full.eq(0)]
        with m.Else():
            with m.If(self.o.ready):
                m.d.sync += self.o.valid.eq(0)
            with m.If(push):
                m.d.sync += full.eq(after_tail == head)
        return m

    def _large(self, platform):
        m = Module()
        # Places are numbered on beyond the depth, so that a number's low bits are its place in the small memories too.
        number = ceil_log2(self._depth)
        m.submodules.memory = memory = Ram(self._shape, 1 << number)
        head, tail, reading = Signal(number), Signal(number), Signal(number)

        attributes, place = style_of(platform, _KEPT, 0), exact_log2(_KEPT)
        last, next_ = (Memory(shape=self._shape, depth=_KEPT, init=[], attrs=attributes) for _ in range(2))
        m.submodules.last, m.submodules.next = last, next_
        keep, keep_next = last.write_port(), next_.write_port()
        near, far = last.read_port(domain="comb"), next_.read_port(domain="comb")
        some, full, push, refill = Signal(), Signal(), Signal(), Signal()
        # How many entries were read ahead, or are being read; and whether the next one is taken from there.
        lead, reads, deep = Signal(place), Signal(), Signal()
        taken, free, there, more = self.i.valid & ~full, ~full, some, lead != self.level
        if self._apart:
            late = Signal()
            m.d.sync += late.eq(taken)
            taken, free, there, more = late, ~full & ~late, some | late, more | late
        # The place for what was read one and two cycles before.
        coming, come = Signal(place), Signal(place)
        following, shown = Signal(self._shape), Signal(self._shape, reset_less=True)
        shown_late = Signal.like(shown)
        if self._late:
            m.d.sync += shown_late.eq(shown)
        m.d.comb += [
            self.i.ready.eq(~full),
            push.eq(taken),
            refill.eq(there & (~self.o.valid | self.o.ready)),
            reads.eq(more & ~lead.all()),
            # As in a small one what is offered is written before it is known to be pushed.
            memory.write_en.eq(free),
            memory.write_addr.eq(tail),
            memory.write_data.eq(self.i.payload),
            memory.read_addr.eq(reading),
            keep.en.eq(free),
            keep.addr.eq(tail[:place]),
            keep.data.eq(self.i.payload),
            # What is read before it is there is read again, into the same place.
            keep_next.en.eq(1),
            keep_next.addr.eq(come),
            keep_next.data.eq(memory.read_data),
            near.addr.eq(head[:place]),
            far.addr.eq(head[:place]),
            following.eq(Mux(deep, far.data, near.data)),
            self.o.payload.eq(shown_late if self._late else shown),
            self.empty.eq(~there & ~self.o.valid),
        ]
        if self._ahead:
            m.d.comb += self.ahead.eq(following)
        if self._foresees:
            m.d.comb += self.next_ready.eq(Cat(refill | ~full, refill | (self.level != self._depth - 1)))
        # A cycle late: the level was that of the cycle before.
        m.d.sync += [deep.eq(self.level >= _DEEP), coming.eq(reading[:place]), come.eq(coming)]
        with m.If(push):
            m.d.sync += tail.eq(tail + 1)
        with m.If(reads):
            m.d.sync += reading.eq(reading + 1)
        with m.If(reads ^ refill):
            m.d.sync += lead.eq(lead + Mux(reads, 1, -1))
        with m.If(refill):
            m.d.sync += [head.eq(head + 1), shown.eq(following), self.o.valid.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(push ^ refill):
            m.d.sync += self.level.eq(self.level + Mux(push, 1, -1))
        with m.If(push & ~refill):
            m.d.sync += [some.eq(1), full.eq(self.level == self._depth - 1)]
        with m.Elif(refill & ~push):
            m.d.sync += [some.eq(self.level != 1), full.eq(0)]
        return m

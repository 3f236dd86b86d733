"""The queue of the cycle contract: a memory whose read register is the output register."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .memory import LUT_DEPTH, Ram, is_ecp5, style_of

__all__ = ["Queue", "step"]

#: What a large queue keeps before its output: more than can leave while a word comes out of its block RAM.
_FRONT = 16


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

    A memory of up to `LUT_DEPTH` entries is made of LUTs.  A larger one is a `Ram` behind a small queue, which it fills
    ahead of what leaves; while the `Ram` is empty, entries go past it, right behind the last that comes out of it.

    Parameters
    ----------
    shape : shape of an entry
    depth : entries of the memory, at least 1
    ahead : whether the queue has the member ``ahead``

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
    """

    i: stream.Interface
    o: stream.Interface
    level: Signal
    empty: Signal

    def __init__(self, shape, depth: int, *, ahead: bool = False):
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth!r}")
        self._shape = shape
        self._depth = depth
        self._ahead = ahead
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
                "empty": Out(1),
                **({"ahead": Out(shape)} if ahead else {}),
            }
        )

    def elaborate(self, platform):
        if self._depth > LUT_DEPTH:
            return self._large()
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

        m.d.comb += [
            equal.eq(head == tail),
            self.i.ready.eq(~full),
            push.eq(self.i.valid & ~full),
            # `some`: they are not empty.
            refill.eq(some & (~self.o.valid | self.o.ready)),
            # Behind the last entry anything may stand, so what is offered is written before it is known to be pushed.
            write.addr.eq(tail),
            write.data.eq(self.i.payload),
            write.en.eq(~full),
            read.addr.eq(head),
            self.level.eq(tail - head + Mux(full | (tail < head), self._depth, 0)),
            self.empty.eq(~some & ~self.o.valid),
        ]
        if self._ahead:
            shown = Signal(self._shape, reset_less=True)
            m.d.comb += [self.ahead.eq(read.data), self.o.payload.eq(shown)]
            with m.If(refill):
                m.d.sync += shown.eq(read.data)
        else:
            m.d.comb += [
                read.en.eq(refill if is_ecp5(platform) else refill & (full | ~equal)),
                self.o.payload.eq(read.data),
            ]
        after_head, after_tail = step(head, self._depth), step(tail, self._depth)
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

    def _large(self):
        m = Module()
        m.submodules.front = front = Queue(self._shape, _FRONT, ahead=self._ahead)
        m.submodules.memory = memory = Ram(self._shape, self._depth)
        head, tail = Signal(range(self._depth)), Signal(range(self._depth))
        # Entries of the memory that were not read yet, places of the front that are promised to nobody, and how many
        # entries there are in all.  What was read in the last two cycles is on its way to the front.
        behind, places, total = (
            Signal(range(self._depth + 1)),
            Signal(range(_FRONT + 1), init=_FRONT),
            Signal(range(self._depth + 2)),
        )
        some, full, coming = Signal(), Signal(), Signal(2)
        push, passes, keeps, reads, taken = Signal(), Signal(), Signal(), Signal(), Signal()
        # Of what is on its way, what went past the memory: so a gap in what is pushed is made up for, and in the end
        # nothing is on its way.  Else slow pushes would find it on its way for ever, and the front would run dry.
        past = [(Signal(name=f"past{i}"), Signal(self._shape, name=f"aside{i}")) for i in range(2)]
        m.d.comb += [
            self.i.ready.eq(~full),
            push.eq(self.i.valid & ~full),
            taken.eq(self.o.valid & self.o.ready),
            reads.eq(some & places.any()),
            passes.eq(push & ~some & places.any()),
            keeps.eq(push & ~passes),
            # As in a small one what is offered is written before it is known to be pushed: not full, the memory has a
            # place behind its last entry, for one entry is in the output.
            memory.write_en.eq(~full),
            memory.write_addr.eq(tail),
            memory.write_data.eq(self.i.payload),
            memory.read_addr.eq(head),
            front.i.valid.eq(coming[1] | (passes & ~coming[0])),
            front.i.payload.eq(self.i.payload),
            self.level.eq(total - self.o.valid),
            self.empty.eq(~total.any()),
        ]
        with m.If(coming[1]):
            m.d.comb += front.i.payload.eq(Mux(past[1][0], past[1][1], memory.read_data))
        wiring.connect(m, front.o, wiring.flipped(self.o))
        if self._ahead:
            m.d.comb += self.ahead.eq(front.ahead)
        m.d.sync += [
            coming.eq(Cat(reads | (passes & coming[0]), coming[0] | (passes & coming[1]))),
            *(register.eq(new) for register, new in zip(past[0], (passes, self.i.payload), strict=True)),
        ]
        with m.If(coming[0]):
            m.d.sync += [register.eq(new) for register, new in zip(past[1], past[0], strict=True)]
        with m.Else():
            m.d.sync += [register.eq(new) for register, new in zip(past[1], (passes, self.i.payload), strict=True)]
        with m.If(keeps):
            m.d.sync += tail.eq(step(tail, self._depth))
        with m.If(reads):
            m.d.sync += head.eq(step(head, self._depth))
        with m.If(keeps & ~reads):
            m.d.sync += [behind.eq(behind + 1), some.eq(1)]
        with m.Elif(reads & ~keeps):
            m.d.sync += [behind.eq(behind - 1), some.eq(behind != 1)]
        with m.If((reads | passes) & ~taken):
            m.d.sync += places.eq(places - 1)
        with m.Elif(taken & ~(reads | passes)):
            m.d.sync += places.eq(places + 1)
        # With so many entries the output holds one.
        with m.If(push & ~taken):
            m.d.sync += [total.eq(total + 1), full.eq(total == self._depth)]
        with m.Elif(taken & ~push):
            m.d.sync += [total.eq(total - 1), full.eq(0)]
        return m

"""The queue of the cycle contract: a block RAM whose read register is the output register."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Queue", "step"]


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

    Parameters
    ----------
    shape : shape of an entry
    depth : entries of the memory, at least 1

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
    """

    i: stream.Interface
    o: stream.Interface
    level: Signal
    empty: Signal

    def __init__(self, shape, depth: int):
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth!r}")
        self._shape = shape
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._shape, depth=max(2, self._depth), init=[])
        write, read = memory.write_port(), memory.read_port()
        head, tail = Signal(range(max(2, self._depth))), Signal(range(max(2, self._depth)))
        # Where the pointers are equal the memory is full or empty, so that nothing is ever read where it is written,
        # and synthesis sees it in these lines.
        equal, full = Signal(), Signal()
        push, refill = Signal(), Signal()

        m.d.comb += [
            equal.eq(head == tail),
            self.i.ready.eq(~full),
            push.eq(self.i.valid & ~full),
            refill.eq((full | ~equal) & (~self.o.valid | self.o.ready)),
            write.addr.eq(tail),
            write.data.eq(self.i.payload),
            write.en.eq(push),
            read.addr.eq(head),
            read.en.eq(refill),
            self.o.payload.eq(read.data),
            self.level.eq(tail - head + Mux(full | (tail < head), self._depth, 0)),
            self.empty.eq(equal & ~full & ~self.o.valid),
        ]
        after_tail = step(tail, self._depth)
        with m.If(push):
            m.d.sync += tail.eq(after_tail)
        with m.If(refill):
            m.d.sync += [head.eq(step(head, self._depth)), self.o.valid.eq(1), full.eq(0)]
        with m.Else():
            with m.If(self.o.ready):
                m.d.sync += self.o.valid.eq(0)
            with m.If(push):
                m.d.sync += full.eq(after_tail == head)
        return m

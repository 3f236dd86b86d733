"""The queue at a router's input: room for whole worms, cut through when empty (cycle contract, section 3.1)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.ni.queue import step
from lethe.spec.wire import Wire

__all__ = ["InputQueue"]

#: Up to so many flits the memory is made of look-up tables.
SHALLOW = 64


class InputQueue(wiring.Component):
    """The back of an input, its queue, and the patience of the head that waits at the queue's output.

    While the queue is empty a worm passes in the cycle in which it comes.  A head that then is refused, and every
    worm that comes while there is something in the queue, is stored; what finds ``worms`` heads waiting is discarded,
    whole.  Flits of one worm are presented in cycles that follow each other.

    It is the ``Queue`` of section 1, written for what is late here, ``refused``.  Between the memory's entries and its
    depth there is always a place to spare, so it never is full, and a flit that may have to be stored is written in any
    case; ``refused`` only says whether the pointer moves on.  One write and one read port.

    Parameters
    ----------
    wire : format of the flits
    worms : how many worms can wait, at least 1
    max_wait : how often the head at the queue's output is refused before it is discarded

    Members
    -------
    i : In(flit)
        The link, after its fault element.
    o : Out(flit)
        The presented flit: ``stored`` if it is valid, else what comes on ``i`` if it passes the empty queue.  Its other
        bits mean nothing without ``valid``.
    stored : Out(flit)
        The output register.
    refused : In(1)
        The presented flit is a head that asks for an existing route and does not get it.
    stays : Out(1)
        It is refused and will be presented again.  A presented flit that does not stay has been consumed.
    full, stray : Out(1)
        `Event.DISCARD_FULL` of the head on ``i``, `Event.STRAY` of the flit there.

    Reset empties it.
    """

    def __init__(self, wire: Wire, worms: int, max_wait: int):
        if worms < 1:
            raise ValueError(f"worms must be at least 1, not {worms!r}")
        if max_wait < 0:
            raise ValueError(f"max_wait must be at least 0, not {max_wait!r}")
        self._worms, self._max_wait, self._max_flits = worms, max_wait, wire.max_flits
        self._flit_bits = wire.flit_bits
        #: A flit enters the memory, and one moves to the output register.
        self.push, self.refill = Signal(), Signal()
        super().__init__(
            {
                "i": In(flit_layout(wire)),
                "o": Out(flit_layout(wire)),
                "stored": Out(flit_layout(wire)),
                "refused": In(1),
                "stays": Out(1),
                "full": Out(1),
                "stray": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self._worms * self._max_flits
        entry = data.StructLayout({"first": 1, "last": 1, "data": self._flit_bits})
        # The register of a block RAM is slow.
        attributes = {"ram_style": "distributed"} if depth <= SHALLOW else {}
        m.submodules.memory = memory = Memory(shape=entry, depth=depth, init=[], attrs=attributes)
        write, read = memory.write_port(), memory.read_port()
        first, end = Signal(range(depth)), Signal(range(depth))  # the oldest entry, the next one
        some = Signal()  # in memory
        queued = Signal()  # in the output register

        # What becomes of the worm that is arriving; none of these between worms.
        direct, storing, swallowing = Signal(), Signal(), Signal()
        count = Signal(range(self._max_flits + 1))
        waiting = Signal(range(self._worms + 1))

        head, body, empty, room = Signal(), Signal(), Signal(), Signal()
        passes = Signal()
        refused_at_once, enters, discards = Signal(), Signal(), Signal()  # a head
        cut = Signal()
        m.d.comb += [
            head.eq(self.i.valid & self.i.first),
            body.eq(self.i.valid & ~self.i.first),
            empty.eq(~some & ~queued),
            room.eq(waiting != self._worms),
            passes.eq((head & empty) | (body & direct)),
            refused_at_once.eq(head & empty & self.refused),
            enters.eq(refused_at_once | (head & ~empty & room)),
            discards.eq(head & ~empty & ~room),
            cut.eq(count == self._max_flits - 1),
            self.full.eq(discards),
            self.stray.eq(body & ~(direct | storing | swallowing)),
        ]
        m.d.sync += [
            direct.eq(passes & ~refused_at_once & ~self.i.last),
            storing.eq((enters | (body & storing & ~cut)) & ~self.i.last),
            swallowing.eq((discards | (body & (swallowing | (storing & cut)))) & ~self.i.last),
            count.eq(Mux(head, 1, count + 1)),
        ]

        kept, leaves = Signal(), Signal()
        m.d.comb += [
            self.stays.eq(self.refused & ~(queued & self._patience(m, kept))),
            kept.eq(queued & self.stays),
            leaves.eq(queued & self.stored.first & ~self.stays),
            self.push.eq(enters | (body & storing)),
            self.refill.eq(some & ~kept),
            write.addr.eq(end),
            write.data.eq(Cat(self.i.first, self.i.last, self.i.data)),
            write.en.eq((head & (empty | room)) | (body & storing)),
            read.addr.eq(first),
            read.en.eq(self.refill),
            Value.cast(self.stored).eq(Cat(queued, read.data)),
            Value.cast(self.o).eq(Mux(queued, self.stored, self.i)),
            self.o.valid.eq(queued | passes),
        ]
        after_first = step(first, depth)
        m.d.sync += [
            queued.eq(self.refill | kept),
            some.eq(self.push | (some & ~(self.refill & (after_first == end)))),
        ]
        with m.If(self.push):
            m.d.sync += end.eq(step(end, depth))
        with m.If(self.refill):
            m.d.sync += first.eq(after_first)
        with m.If(enters & ~leaves):
            m.d.sync += waiting.eq(waiting + 1)
        with m.Elif(leaves & ~enters):
            m.d.sync += waiting.eq(waiting - 1)
        return m

    def _patience(self, m, kept):
        """Whether the head in the output register has been refused there ``max_wait`` times before."""
        if self._max_wait == 0:
            return Const(1, 1)
        patience = Signal(range(self._max_wait + 1))
        over = Signal()
        with m.If(kept):
            m.d.sync += [patience.eq(patience + 1), over.eq(patience == self._max_wait - 1)]
        with m.Else():
            m.d.sync += [patience.eq(0), over.eq(0)]
        return over

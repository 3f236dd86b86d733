"""The queue at a router's input: room for whole worms, cut through when empty (cycle contract, section 3.1)."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.lib.queue import step
from lethe.spec.wire import Wire

__all__ = ["InputQueue"]

#: Up to so many flits the memory is made of look-up tables.
SHALLOW = 64


class InputQueue(wiring.Component):
    """The back of an input, its queue, and the patience of the head that waits at the queue's output.

    While the queue is empty a worm passes in the cycle in which it comes.  A head that then is refused, and every
    worm that comes while there is something in the queue, is stored; what finds ``worms`` heads waiting is discarded,
    whole.  Flits of one worm are presented in cycles that follow each other.

    It is the ``Queue`` of section 1, written for what is late here, ``refused``.  Its memory is never full: a flit that
    may have to be stored is written in any case, and ``refused`` only says whether the pointer moves on.  The place
    that is always free is the output register of a shallow memory: what is registered is its address, not its data.
    What a head asks for is found out once, on arrival, and stored beside it.  One write and one read port.

    Parameters
    ----------
    wire : format of the flits
    routes : bits of a route
    worms : how many worms can wait, at least 1
    max_wait : how often the head at the queue's output is refused before it is discarded

    Members
    -------
    i : In(flit)
        The link, after its fault element.
    o : Out(flit)
        The presented flit: ``stored`` if it is valid, else what comes on ``i`` if it passes the empty queue.  Its other
        bits mean nothing without ``valid``.
    route, asks : In(routes), Out(routes)
        What the flit on ``i`` asks for if it is a head; what the presented flit asks for, 0 unless it is a head.
    queued : Out(1)
        The presented flit is that of the output register.
    refused : In(1)
        The presented flit is a head that asks for an existing route and does not get it.
    stays : Out(1)
        It is refused and will be presented again.  A presented flit that does not stay has been consumed.
    full, stray : Out(1)
        `Event.DISCARD_FULL` of the head on ``i``, `Event.STRAY` of the flit there.

    Reset empties it.
    """

    def __init__(self, wire: Wire, routes: int, worms: int, max_wait: int):
        if worms < 1:
            raise ValueError(f"worms must be at least 1, not {worms!r}")
        if max_wait < 0:
            raise ValueError(f"max_wait must be at least 0, not {max_wait!r}")
        self._worms, self._max_wait, self._max_flits = worms, max_wait, wire.max_flits
        self._flit_bits, self._routes = wire.flit_bits, routes
        #: A flit may have to enter the memory, enters it, and moves from it to the output register.
        self.write, self.push, self.refill = Signal(), Signal(), Signal()
        super().__init__(
            {
                "i": In(flit_layout(wire)),
                "o": Out(flit_layout(wire)),
                "route": In(routes),
                "asks": Out(routes),
                "queued": Out(1),
                "refused": In(1),
                "stays": Out(1),
                "full": Out(1),
                "stray": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self._worms * self._max_flits
        push, refill = self.push, self.refill
        first, end = Signal(range(depth)), Signal(range(depth))  # the oldest entry, the next one
        stored = self._memory(m, depth, first, end)
        some = Signal()  # in memory
        queued = self.queued

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
            leaves.eq(queued & stored.first & ~self.stays),
            push.eq(enters | (body & storing)),
            refill.eq(some & ~kept),
            self.write.eq((head & (empty | room)) | (body & storing)),
            self.o.valid.eq(queued | passes),
            self.o.first.eq(Mux(queued, stored.first, self.i.first)),
            self.o.last.eq(Mux(queued, stored.last, self.i.last)),
            self.o.data.eq(Mux(queued, stored.data, self.i.data)),
            self.asks.eq(Mux(queued, stored.route, self.route & (head & ~some).replicate(self._routes))),
        ]
        after_first = step(first, depth)
        m.d.sync += [
            queued.eq(refill | kept),
            some.eq(push | (some & ~(refill & (after_first == end)))),
        ]
        with m.If(push):
            m.d.sync += end.eq(step(end, depth))
        with m.If(refill):
            m.d.sync += first.eq(after_first)
        with m.If(enters & ~leaves):
            m.d.sync += waiting.eq(waiting + 1)
        with m.Elif(leaves & ~enters):
            m.d.sync += waiting.eq(waiting - 1)
        return m

    def _memory(self, m, depth: int, first: Signal, end: Signal):
        """The output register, of a memory that is written at ``end`` and read at ``first``."""
        shallow = depth <= SHALLOW
        fields = {"first": 1, "last": 1, "route": self._routes}
        incoming = {
            "first": self.i.first,
            "last": self.i.last,
            "route": self.route & self.i.first.replicate(self._routes),
            "data": self.i.data,
        }
        stored = Signal(data.StructLayout(fields | {"data": self._flit_bits}))
        shown = Signal(range(depth))
        with m.If(self.refill):
            m.d.sync += shown.eq(first)
        parts = {"flags": fields, "data": {"data": self._flit_bits}}
        for name, part in parts.items():
            # The flags are on the longest paths, so they have registers.  Those of a block RAM are slow.
            memory = Memory(
                shape=data.StructLayout(part),
                depth=depth,
                init=[],
                attrs={"ram_style": "distributed"} if shallow else {},
            )
            m.submodules[name] = memory
            write = memory.write_port()
            m.d.comb += [write.addr.eq(end), write.en.eq(self.write)]
            if shallow and name == "data":
                read = memory.read_port(domain="comb")
                m.d.comb += read.addr.eq(shown)
            else:
                read = memory.read_port()
                m.d.comb += [read.addr.eq(first), read.en.eq(self.refill)]
            for field in part:
                m.d.comb += [write.data[field].eq(incoming[field]), stored[field].eq(read.data[field])]
        return stored

    def _patience(self, m, kept):
        """Whether the head in the output register has been refused there ``max_wait`` times before."""
        if self._max_wait == 0:
            return Const(1, 1)
        again, over = Signal(), Signal()  # it has been refused before; without it the others mean nothing
        refusals = Signal(range(self._max_wait + 1))
        before = Mux(again, refusals, 0)
        m.d.sync += [again.eq(kept), refusals.eq(before + 1), over.eq(before == self._max_wait - 1)]
        return again & over

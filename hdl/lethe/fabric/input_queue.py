"""The queue at a router's input: room for whole worms, cut through when empty (cycle contract, section 3.1)."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.ni.queue import Queue
from lethe.spec.wire import Wire

__all__ = ["InputQueue"]


class InputQueue(wiring.Component):
    """The back of an input, its queue, and the patience of the head that waits at the queue's output.

    While the queue is empty a worm passes in the cycle in which it comes.  A head that then is refused, and every
    worm that comes while there is something in the queue, is stored; what finds ``worms`` heads waiting is discarded,
    whole.  Flits of one worm are presented in cycles that follow each other.  One flit can be stored and one can leave
    in each cycle: one write and one read port.

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
        The presented flit, in the cycle of ``i`` when nothing waits; its other bits mean nothing without ``valid``.
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
        self.flits = Queue(data.StructLayout({"first": 1, "last": 1, "data": wire.flit_bits}), worms * wire.max_flits)
        super().__init__(
            {
                "i": In(flit_layout(wire)),
                "o": Out(flit_layout(wire)),
                "refused": In(1),
                "stays": Out(1),
                "full": Out(1),
                "stray": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.flits = flits = self.flits

        # What becomes of the worm that is arriving; none of these between worms.
        direct, storing, swallowing = Signal(), Signal(), Signal()
        count = Signal(range(self._max_flits + 1))
        waiting = Signal(range(self._worms + 1))

        head, body = Signal(), Signal()
        passes = Signal()  # past the empty queue
        refused_at_once = Signal()
        enters, discards = Signal(), Signal()  # a head
        cut = Signal()
        m.d.comb += [
            head.eq(self.i.valid & self.i.first),
            body.eq(self.i.valid & ~self.i.first),
            passes.eq((head & flits.empty) | (body & direct)),
            refused_at_once.eq(head & flits.empty & self.refused),
            discards.eq(head & ~flits.empty & (waiting == self._worms)),
            enters.eq(refused_at_once | (head & ~flits.empty & (waiting != self._worms))),
            cut.eq(storing & (count == self._max_flits - 1)),
            flits.i.valid.eq(enters | (body & storing)),
            flits.i.payload.first.eq(self.i.first),
            flits.i.payload.last.eq(self.i.last),
            flits.i.payload.data.eq(self.i.data),
            self.full.eq(discards),
            self.stray.eq(body & ~(direct | storing | swallowing)),
        ]
        m.d.sync += [
            direct.eq(passes & ~refused_at_once & ~self.i.last),
            storing.eq((enters | (body & storing & ~cut)) & ~self.i.last),
            swallowing.eq((discards | (body & (swallowing | cut))) & ~self.i.last),
            count.eq(Mux(head, 1, count + 1)),
        ]

        queued = flits.o.valid
        over = self._patience(m, queued)
        leaves = Signal()  # a head
        m.d.comb += [
            self.o.valid.eq(queued | passes),
            self.o.first.eq(Mux(queued, flits.o.payload.first, self.i.first)),
            self.o.last.eq(Mux(queued, flits.o.payload.last, self.i.last)),
            self.o.data.eq(Mux(queued, flits.o.payload.data, self.i.data)),
            self.stays.eq(self.refused & ~(queued & over)),
            flits.o.ready.eq(~self.stays),
            leaves.eq(queued & flits.o.payload.first & ~self.stays),
        ]
        with m.If(enters & ~leaves):
            m.d.sync += waiting.eq(waiting + 1)
        with m.Elif(leaves & ~enters):
            m.d.sync += waiting.eq(waiting - 1)
        return m

    def _patience(self, m, queued):
        """Whether the head in the output register has been refused there ``max_wait`` times before."""
        if self._max_wait == 0:
            return Const(1, 1)
        patience = Signal(range(self._max_wait + 1))
        over = Signal()
        with m.If(queued & self.stays):
            m.d.sync += [patience.eq(patience + 1), over.eq(patience == self._max_wait - 1)]
        with m.Else():
            m.d.sync += [patience.eq(0), over.eq(0)]
        return over

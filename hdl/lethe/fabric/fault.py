"""A link's faults: death, loss and flipped bits (cycle contract, section 2)."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.lib.random import Draws, scale
from lethe.spec.events import Event
from lethe.spec.wire import Wire

__all__ = ["LinkFault"]


class LinkFault(wiring.Component):
    """What happens to a flit between two units, without latency.

    Each fault that is left out has no logic; with none of them the output is the input.

    Parameters
    ----------
    wire : format of the flits
    loss_threshold : of 65536, probability that a worm is lost
    flip_threshold : of 2^24, probability that a flit has one bit flipped
    mortal : whether the link ever dies

    Members
    -------
    i, o : In(flit), Out(flit)
        Same cycle.
    dead : In(1)
        The link is dead in this cycle.
    loss_seed, flip_seed : In(32)
        Constants: seeds of the two generators.
    watch : Out(8)
        The link's trace byte: DEAD, LOST, FLIP or 0.
    """

    def __init__(self, wire: Wire, loss_threshold: int = 0, flip_threshold: int = 0, mortal: bool = False):
        self._flit_bits = wire.flit_bits
        self._loss, self._flip, self._mortal = loss_threshold, flip_threshold, mortal
        flit = flit_layout(wire)
        super().__init__(
            {
                "i": In(flit),
                "o": Out(flit),
                "dead": In(1),
                "loss_seed": In(32),
                "flip_seed": In(32),
                "watch": Out(8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        flit = self.i

        if self._mortal:
            alive = Signal.like(flit)
            with m.If(~self.dead):
                m.d.comb += alive.eq(flit)
            with m.Elif(flit.first):
                m.d.comb += self.watch.eq(Event.DEAD)
            flit = alive

        if self._loss:
            m.submodules.loss = loss = Draws()
            m.d.comb += [loss.seed.eq(self.loss_seed), loss.take.eq(flit.first)]
            swallowing = Signal()
            lost = Signal()
            kept = Signal.like(flit)
            m.d.comb += lost.eq(flit.first & (loss.draw[:16] < self._loss))
            with m.If(flit.first):
                m.d.sync += swallowing.eq(lost)
            with m.If(lost):
                m.d.comb += self.watch.eq(Event.LOST)
            with m.Elif(flit.first | ~swallowing):
                m.d.comb += kept.eq(flit)
            flit = kept

        if self._flip:
            m.submodules.flip = flip = Draws()
            m.d.comb += [flip.seed.eq(self.flip_seed), flip.take.eq(flit.valid)]
            position = scale(flip.draw[24:], self._flit_bits + 2)
            flipped = Signal.like(flit)
            bits = Value.cast(flipped.data)
            m.d.comb += flipped.eq(flit)
            with m.If(flit.valid & (flip.draw[:24] < self._flip)):
                m.d.comb += self.watch.eq(Event.FLIP)
                with m.Switch(position):
                    for bit in range(self._flit_bits):
                        with m.Case(bit):
                            m.d.comb += bits[bit].eq(~flit.data[bit])
                    with m.Case(self._flit_bits):
                        m.d.comb += flipped.first.eq(~flit.first)
                    with m.Case(self._flit_bits + 1):
                        m.d.comb += flipped.last.eq(~flit.last)
            flit = flipped

        m.d.comb += self.o.eq(flit)
        return m

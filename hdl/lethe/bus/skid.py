"""A place for what comes in the cycle in which the way ahead is found blocked."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Skid"]


class Skid(wiring.Component):
    """A stream whose ``ready`` comes from a register, so that nothing ahead is in the paths of what is behind.

    It adds no cycle, and one can pass in each.  Reset empties it.

    Parameters
    ----------
    shape : of the payload

    Members
    -------
    i, o : In, Out(stream)
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, shape):
        self._shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        holds, kept = Signal(), Signal(self._shape, reset_less=True)
        m.d.comb += [
            self.i.ready.eq(~holds),
            self.o.valid.eq(holds | self.i.valid),
            self.o.payload.eq(Mux(holds, kept, self.i.payload)),
        ]
        m.d.sync += holds.eq(self.o.valid & ~self.o.ready)
        with m.If(~holds):
            m.d.sync += kept.eq(self.i.payload)
        return m

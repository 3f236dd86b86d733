"""Chance in hardware: the xorshift32 of `lethe.spec.random`, one step ahead of its use."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Draws", "advance", "scale"]


def advance(state: Value) -> Value:
    """The 32-bit state after ``state`` (32 bits), combinational: `lethe.spec.random.advance`."""
    state = state ^ Cat(Const(0, 13), state[:19])
    state = state ^ state[17:]
    return (state ^ Cat(Const(0, 5), state[:27]))[:32]


def scale(draw: Value, count: int) -> Value:
    """Map all bits of ``draw`` to 0 … count−1: ``draw · count >> len(draw)``, combinational."""
    bits = len(draw)
    if count & (count - 1) == 0:
        return draw[bits - (count.bit_length() - 1) :]
    return (draw * count)[bits : bits + (count - 1).bit_length()]


class Draws(wiring.Component):
    """The generator of one unit.

    ``draw`` is a register that already holds what the next draw gives, so a unit may use any slice of it in the
    cycle in which it draws; ``take`` says that it did, and the register moves on.  The first cycle after reset
    loads the seed: a draw is correct from the second cycle on (nothing can draw earlier: a NI needs two cycles
    or more to initialise).

    Parameters
    ----------
    ahead : 1, or 2 to have the draw after ``draw`` in a register too, for short paths; draws are then correct one cycle
        later, from the third on

    Members
    -------
    seed : In(32)
        A constant: `lethe.spec.random.seed_for` of the unit.
    take : In(1)
        This cycle draws.
    draw : Out(32)
        The state after the draw, valid throughout the cycle that draws.
    step : Out(1), following : Out(32)
        ``draw`` changes to ``following`` with the end of this cycle; for registers that are derived from it.
    """

    def __init__(self, ahead: int = 1):
        if ahead not in (1, 2):
            raise ValueError(f"ahead must be 1 or 2, not {ahead!r}")
        self._ahead = ahead
        super().__init__({"seed": In(32), "take": In(1), "draw": Out(32), "step": Out(1), "following": Out(32)})

    def elaborate(self, platform):
        m = Module()
        started = Signal()
        m.d.sync += started.eq(1)
        loaded, newest, after = started, self.draw, self.following
        if self._ahead == 2:
            loaded, newest, after = Signal(), self.following, Signal(32)
            m.d.sync += loaded.eq(started)
        m.d.comb += [
            self.step.eq(self.take | ~loaded),
            after.eq(advance(Mux(started, newest, self.seed))),
        ]
        with m.If(self.step):
            m.d.sync += self.draw.eq(self.following)
            if self._ahead == 2:
                m.d.sync += self.following.eq(after)
        return m

"""Chance in hardware: the xorshift32 of `lethe.spec.random`, one step ahead of its use."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.random import SEED_FACTORS, SEED_OFFSET, SEED_ROUNDS, seed_for

__all__ = ["Draws", "SteadyDraws", "advance", "scale", "seed_of"]


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


def seed_of(m: Module, seed: Value | int, unit: int, index: int) -> Value | int:
    """The seed of a unit (32 bits) from the run's: `lethe.spec.random.seed_for`, combinational if that is a signal."""
    if isinstance(seed, int):
        return seed_for(seed, unit, index)
    of_run, of_unit, of_index = SEED_FACTORS
    state = Signal(32)
    m.d.comb += state.eq(seed * of_run + Const(unit * of_unit + index * of_index + SEED_OFFSET, 32))
    for factor in SEED_ROUNDS:
        mixed, state = state ^ state[16:], Signal(32)
        m.d.comb += state.eq(mixed * factor)
    mixed, found = state ^ state[16:], Signal(32)
    m.d.comb += found.eq(Mux(mixed.any(), mixed, 1))
    return found


class Draws(wiring.Component):
    """The generator of one unit.

    ``draw`` is a register that already holds what the next draw gives, so a unit may use any slice of it in the
    cycle in which it draws; ``take`` says that it did, and the register moves on.  The first cycle after reset
    loads the seed: a draw is correct from the second cycle on (nothing can draw earlier: an NI needs two cycles
    or more to initialise).

    Members
    -------
    seed : In(32)
        A constant: `lethe.spec.random.seed_for` of the unit.
    take : In(1)
        This cycle draws.
    draw : Out(32)
        The state after the draw, valid throughout the cycle that draws.
    """

    def __init__(self):
        super().__init__({"seed": In(32), "take": In(1), "draw": Out(32)})

    def elaborate(self, platform):
        m = Module()
        started = Signal()
        m.d.sync += started.eq(1)
        with m.If(self.take | ~started):
            m.d.sync += self.draw.eq(advance(Mux(started, self.draw, self.seed)))
        return m


class SteadyDraws(wiring.Component):
    """The generator of a unit that draws in every cycle, from the first after reset on.

    Parameters
    ----------
    late : 0 or 1, cycles by which the draws are shown late; 1 makes them a register

    Members
    -------
    seed : In(32)
        A constant: `lethe.spec.random.seed_for` of the unit.
    draw : Out(32)
        In cycle c + ``late`` the draw of cycle c, the (c+1)-th from the seed; c is 0 in the first cycle after reset.
    """

    def __init__(self, late: int = 0):
        if late not in (0, 1):
            raise ValueError(f"late must be 0 or 1, not {late!r}")
        self._late = late
        super().__init__({"seed": In(32), "draw": Out(32)})

    def elaborate(self, platform):
        m = Module()
        started, state = Signal(), Signal(32)
        m.d.sync += started.eq(1)
        if self._late:
            m.d.comb += self.draw.eq(state)
            m.d.sync += state.eq(advance(Mux(started, state, self.seed)))
        else:
            m.d.comb += self.draw.eq(Mux(started, state, advance(self.seed)))
            m.d.sync += state.eq(advance(self.draw))
        return m

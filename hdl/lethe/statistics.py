"""Event counters: small accumulators in front of block RAM, exact at every read."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Statistics"]


class Statistics(wiring.Component):
    """Counts pulses of many kinds, modulo ``2**width``.

    Each pulse increments a small accumulator; one accumulator a cycle, in turn, is added to its word of a block
    RAM.  A read adds what is still in the accumulator, so it is exact whenever it happens.

    Reset zeroes all counts at once, as seen from outside: the walk that clears the RAM is the first turn of the
    accumulators, which overwrites instead of adding, and until it has passed a word that word reads as 0.

    Parameters
    ----------
    width : bits of a count
    counters : number of counters
    most : the most that can be added to one counter in a cycle

    Members
    -------
    pulse : In(counters · bits), bits = 1 for the usual ``most`` of 1
        Bit i set in a cycle adds 1 to counter i; with ``most`` > 1 the i-th group of bits is what is added.
    address : In(range(counters))
        Counter to read; any cycle, every cycle.
    data : Out(width)
        In the cycle after ``address``: what was added in all cycles before that of ``address``.

    The RAM has one writer and two readers (the turn, and the host), each on a copy of its own.
    """

    def __init__(self, width: int = 32, counters: int = 1, most: int = 1):
        if counters < 1:
            raise ValueError(f"counters must be at least 1, not {counters!r}")
        if most < 1:
            raise ValueError(f"most must be at least 1, not {most!r}")
        self._counters = counters
        self._most = most
        super().__init__(
            {
                "pulse": In(counters * most.bit_length()),
                "address": In(range(max(2, counters))),
                "data": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = len(self.data)
        # Two turns at least: a word is read again only after it was written.
        turns = max(2, self._counters)

        m.submodules.flushed = flushed = Memory(shape=width, depth=turns, init=[])
        m.submodules.copy = copy = Memory(shape=width, depth=turns, init=[])
        old, shown = flushed.read_port(), copy.read_port()

        accumulators = Array(Signal(range(turns * self._most + 1), name=f"accumulator{i}") for i in range(turns))
        turn = Signal(range(turns))
        flush = Signal(range(turns))
        flushing = Signal()
        cleared = Signal()  # the first turn is over

        m.d.sync += [turn.eq(turn + 1), flush.eq(turn), flushing.eq(1)]
        with m.If(turn == turns - 1):
            m.d.sync += turn.eq(0)
        with m.If(flushing & (flush == turns - 1)):
            m.d.sync += cleared.eq(1)

        total = Signal(width)
        m.d.comb += [old.addr.eq(turn), total.eq(accumulators[flush])]
        with m.If(cleared):
            m.d.comb += total.eq(old.data + accumulators[flush])
        for memory in (flushed, copy):
            port = memory.write_port()
            m.d.comb += [port.addr.eq(flush), port.data.eq(total), port.en.eq(flushing)]

        for i in range(self._counters):
            added = self.pulse.word_select(i, self._most.bit_length())
            with m.If(flushing & (flush == i)):
                m.d.sync += accumulators[i].eq(added)
            with m.Else():
                m.d.sync += accumulators[i].eq(accumulators[i] + added)

        pending = Signal(range(turns * self._most + 1))
        written = Signal()
        m.d.sync += [
            pending.eq(accumulators[self.address]),
            written.eq(cleared | (flushing & (self.address < flush))),
        ]
        m.d.comb += [shown.addr.eq(self.address), self.data.eq(pending)]
        with m.If(written):
            m.d.comb += self.data.eq(shown.data + pending)
        return m

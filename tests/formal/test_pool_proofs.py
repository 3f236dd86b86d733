"""What a pool promises, for all inputs, in small configurations and bounded time (cycle contract, section 3.2)."""

import pytest
from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import wiring

from lethe.fabric.order import count
from lethe.fabric.pool import Pool
from tests.helpers.proof import prove
from tests.helpers.proof_systems import MAX_FLITS, crossbar

CLOCK = 6  # bits of running numbers: more than the cycles of a proof
PORTS = 2


class PoolSpecification(wiring.Component):
    """Whatever arrives, and whichever heads are refused: no buffer is in two places, none is lost, and none stays.

    A flit carries the cycle in which it comes.  Outputs are held by what leaves the pool, and by others at will.

    Parameters
    ----------
    longest : cycles from the entry of a worm to the end of its leaving, if nobody else holds outputs
    capacity : worms that are kept at most, and that are kept before any is discarded
    """

    def __init__(self, worms, *, longest=None, capacity=None):
        self._worms = worms
        self._longest = worms * (MAX_FLITS + 1) + 3 if longest is None else longest
        self._capacity = worms if capacity is None else capacity
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        worms = range(self._worms)
        m.submodules.pool = pool = Pool(crossbar(2).format, PORTS, self._worms)
        now, used = Signal(CLOCK), pool.waiting | pool.leaving
        kept, held = Signal(range(self._worms + PORTS + 1)), Signal(PORTS)
        m.d.sync += now.eq(now + 1)
        for i in range(PORTS):
            valid, flit = AnySeq(1), pool.i[i]
            m.d.comb += [
                flit.valid.eq(valid),
                flit.first.eq(valid & AnySeq(1)),
                flit.last.eq(valid & AnySeq(1)),
                flit.data.eq(Mux(valid, now, 0)),
                pool.refused[i].eq(flit.valid & flit.first & AnySeq(1)),
            ]
            to = AnySeq(1)
            m.d.comb += pool.routes.word_select(i, PORTS).eq(Cat(~to, to))
        m.d.comb += [pool.turn.eq(AnySeq(1)), pool.held.eq(held)]

        leaves, entries = [], []
        for b in worms:
            head, body, out = pool.head[b], pool.body[b], pool.o[b]
            asks, entered = pool.asks.word_select(b, PORTS), Signal(CLOCK, name=f"entered{b}")
            begins = (asks & ~held).any()
            leaves.append(pool.leaving[b] & ~body | (begins | body) & (out.last | pool.longest[b]))
            came, next_came = out.data[:CLOCK], Signal(CLOCK, name=f"next_came{b}")
            m.d.sync += next_came.eq(came + 1)
            m.d.comb += [
                Assert(~(pool.waiting[b] & pool.leaving[b])),
                Assert(~(head & body)),
                Assert(~used[b] | (count(list(pool.routed.word_select(b, PORTS))) == 1)),
                Assert(~head | out.first),
                # What leaves without ``first`` is the next flit of the worm, and came in the cycle after it.
                Assert(~body | (~out.first & (came == next_came))),
                Assert(~used[b] | (now - entered <= self._longest)),
            ]
            entries.append(entered)
            with m.If(~used[b]):
                m.d.sync += entered.eq(now)
            for other in range(b):
                together = pool.leaving[b] & pool.leaving[other]
                same = (pool.routed.word_select(b, PORTS) & pool.routed.word_select(other, PORTS)).any()
                m.d.comb += Assert(~(together & same))
                # Of two that wait for one output only the one that came first asks.
                later = Signal(CLOCK, name=f"later{b}_{other}")
                waiting = pool.waiting[b] & pool.waiting[other] & same
                m.d.comb += later.eq(entered - entries[other])
                # In one cycle the one in the buffer with the lesser number is the first.
                m.d.comb += Assert(~(waiting & Mux(later[-1], pool.head[other], head)))
        entering = count(list(pool.refused)) - count(list(pool.full))
        m.d.sync += kept.eq(kept + entering - count(leaves))
        m.d.comb += [
            Assert(kept == count(list(used))),
            Assert(kept <= self._capacity),
            Assert(~pool.full.any() | (kept + entering == self._capacity)),
        ]
        for o in range(PORTS):
            mine = [pool.routed.word_select(b, PORTS)[o] for b in worms]
            goes_on = Cat(
                mine[b] & ~leaves[b] & (pool.body[b] | (pool.asks.word_select(b, PORTS) & ~held).any()) for b in worms
            ).any()
            m.d.sync += held[o].eq(goes_on)
        return m


@pytest.mark.parametrize("worms, cycles", [(1, 14), (2, 12), (3, 9)])
def test_no_buffer_is_lost_or_in_two_places(worms, cycles, tmp_path):
    prove(PoolSpecification(worms), tmp_path, cycles=cycles)


def test_false_claims_about_it_are_refuted(tmp_path):
    for number, false in enumerate(({"longest": 4}, {"capacity": 1})):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(AssertionError, match="Assert failed"):
            prove(PoolSpecification(2, **false), folder, cycles=12)

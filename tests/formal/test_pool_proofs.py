"""What a pool promises, for all inputs, in small configurations and bounded time (cycle contract, section 3.2)."""

import pytest
from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring

from lethe.fabric.order import count
from lethe.fabric.pool import Pool
from lethe.spec.events import CONTROL_KINDS
from lethe.spec.wire import KIND_BITS
from tests.helpers.proof import prove
from tests.helpers.proof_systems import MAX_FLITS, crossbar

CLOCK = 6  # bits of running numbers: more than the cycles of a proof
PORTS = 2


class PoolSpecification(wiring.Component):
    """Whatever arrives, and whichever heads are refused: no buffer is in two places, none is lost, and none stays.

    A flit carries a kind, and the cycle in which it comes.  Outputs are held by what leaves the pool.

    Parameters
    ----------
    longest : cycles from the entry of a worm to the end of its leaving, if nobody else holds outputs
    capacity : worms that are kept at most, and that are kept before any is discarded
    climbs : every worm takes any of the outputs
    first : cycles by which control passes others
    passes : cycles by which that is checked
    """

    def __init__(self, worms, *, longest=None, capacity=None, climbs=False, first=0, passes=None):
        self._worms, self._climbs, self._first = worms, climbs, first
        self._passes = first if passes is None else passes
        self._longest = first + worms * (MAX_FLITS + 1) + 3 if longest is None else longest
        self._capacity = worms if capacity is None else capacity
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        worms = range(self._worms)
        ups = PORTS if self._climbs else 0
        m.submodules.pool = pool = Pool(crossbar(2).format, PORTS, self._worms, ups, self._first)
        if self._climbs:
            m.d.comb += pool.turn_up.eq(AnySeq(1))
        now, used = Signal(CLOCK), pool.waiting | pool.leaving
        kept, held = Signal(range(self._worms + PORTS + 1)), Signal(PORTS)
        m.d.sync += now.eq(now + 1)
        for i in range(PORTS):
            valid, flit = AnySeq(1), pool.i[i]
            m.d.comb += [
                flit.valid.eq(valid),
                flit.first.eq(valid & AnySeq(1)),
                flit.last.eq(valid & AnySeq(1)),
                flit.data.eq(Mux(valid, Cat(AnySeq(KIND_BITS), now), 0)),
                pool.refused[i].eq(flit.valid & flit.first & AnySeq(1)),
            ]
            to = AnySeq(1)
            m.d.comb += pool.routes.word_select(i, PORTS).eq(Const(3, PORTS) if self._climbs else Cat(~to, to))
        m.d.comb += [pool.turn.eq(AnySeq(1)), pool.held.eq(held)]

        leaves, entries = [], []
        for b in worms:
            head, body, out = pool.head[b], pool.body[b], pool.o[b]
            asks, entered = pool.asks.word_select(b, PORTS), Signal(CLOCK, name=f"entered{b}")
            begins = (asks & ~held).any()
            leaves.append(pool.leaving[b] & ~body | (begins | body) & (out.last | pool.longest[b]))
            came, next_came = out.data[KIND_BITS:][:CLOCK], Signal(CLOCK, name=f"next_came{b}")
            control = Cat(out.data[:KIND_BITS] == kind for kind in CONTROL_KINDS).any() if self._passes else Const(0, 1)
            m.d.sync += next_came.eq(came + 1)
            m.d.comb += [
                Assert(~(pool.waiting[b] & pool.leaving[b])),
                Assert(~(head & body)),
                Assert(
                    ~used[b] | self._climbs & pool.waiting[b] | (count(list(pool.routed.word_select(b, PORTS))) == 1)
                ),
                Assert(~head | out.first),
                # What leaves without ``first`` is the next flit of the worm, and came in the cycle after it.
                Assert(~body | (~out.first & (came == next_came))),
                Assert(~used[b] | (now - entered <= self._longest)),
            ]
            entries.append((entered, control, begins))
            with m.If(~used[b]):
                m.d.sync += entered.eq(now)
            for other in range(b):
                together = pool.leaving[b] & pool.leaving[other]
                same = (pool.routed.word_select(b, PORTS) & pool.routed.word_select(other, PORTS)).any()
                m.d.comb += Assert(~(together & same))
                # Nothing is given out twice.
                theirs = pool.asks.word_select(other, PORTS)
                m.d.comb += Assert(~(asks & theirs & ~held).any())
                # Of two that wait for one output only the one that came first asks.  Control comes as if earlier.
                later, their = Signal(CLOCK, name=f"later{b}_{other}"), entries[other]
                waiting = pool.waiting[b] & pool.waiting[other] & same
                m.d.comb += later.eq(
                    entered - their[0] + Mux(their[1], self._passes, 0) - Mux(control, self._passes, 0)
                )
                # In one cycle the one that is no control, and of two alike that in the buffer with the lesser number.
                before = later[-1] | ((later == 0) & their[1] & ~control)
                ready = waiting & (now - entered >= 2) & (now - their[0] >= 2)
                if self._climbs:
                    # What goes behind begins only if what goes before it does.
                    m.d.comb += Assert(~(ready & Mux(before, their[2] & ~begins, begins & ~their[2])))
                else:
                    m.d.comb += Assert(~(ready & Mux(before, pool.head[other], head)))
                m.d.comb += Assert(~(begins & (now - entered < 2)))
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


@pytest.mark.parametrize(
    "worms, cycles, options",
    [
        (1, 14, {}), (2, 12, {}), (3, 10, {}),
        (2, 12, {"climbs": True}), (3, 10, {"climbs": True}),
        (3, 10, {"first": 3}), (3, 10, {"climbs": True, "first": 2}),
    ],
    ids=str,
)  # fmt: skip
def test_no_buffer_is_lost_or_in_two_places(worms, cycles, options, tmp_path):
    prove(PoolSpecification(worms, **options), tmp_path, cycles=cycles)


def test_false_claims_about_it_are_refuted(tmp_path):
    false = (
        (2, {"longest": 4}), (2, {"capacity": 1}), (3, {"first": 3, "passes": 0}), (3, {"first": 3, "passes": 2}),
        (2, {"climbs": True, "longest": 4}), (3, {"climbs": True, "first": 2, "passes": 0}),
    )  # fmt: skip
    for number, (worms, claim) in enumerate(false):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(AssertionError, match="Assert failed"):
            prove(PoolSpecification(worms, **claim), folder, cycles=11)

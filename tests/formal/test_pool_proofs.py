"""What a pool promises, for all inputs, in small configurations and bounded time (cycle contract, section 3.2)."""

import pytest
from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring

from lethe.fabric.order import count
from lethe.fabric.pool import Pool
from lethe.spec.events import CONTROL_KINDS
from lethe.spec.sections.router import BEHIND, PLACED
from lethe.spec.wire import KIND_BITS
from tests.helpers.proof import prove
from tests.helpers.proof_systems import MAX_FLITS, crossbar
from tests.helpers.tiers import but

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
    asks : cycles from the entry of a worm to the first in which it may begin to leave
    """

    def __init__(self, worms, *, longest=None, capacity=None, climbs=False, first=0, passes=None, asks=6):
        self._worms, self._climbs, self._first, self._asks = worms, climbs, first, asks
        self._passes = first if passes is None else passes
        self._longest = first + worms * (MAX_FLITS + 1) + 9 if longest is None else longest
        self._capacity = worms if capacity is None else capacity
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        worms, outputs = range(self._worms), range(PORTS)
        ups = PORTS if self._climbs else 0
        m.submodules.pool = pool = Pool(crossbar(2).format, PORTS, self._worms, ups, self._first)
        now, used = Signal(CLOCK), ~pool.free
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
        asked = [[pool.refused[i] & pool.routes.word_select(i, PORTS)[o] for i in range(PORTS)] for o in outputs]
        m.d.comb += [pool.turn.eq(AnySeq(1)), pool.held.eq(held)]
        if self._climbs:
            m.d.comb += pool.turn_up.eq(AnySeq(1))

        leaves, entries = [], []
        following = Signal(self._worms)  # it is the next worm of its output
        for b in worms:
            head, body, out, chosen = pool.head[b], pool.body[b], pool.o[b], pool.chosen[b]
            asks, entered = pool.asks.word_select(b, PORTS), Signal(CLOCK, name=f"entered{b}")
            leaves.append(pool.leaving[b] & ~body & ~head | (head | body) & (out.last | pool.longest[b]))
            came, next_came = out.data[KIND_BITS:][:CLOCK], Signal(CLOCK, name=f"next_came{b}")
            control = Signal(name=f"control{b}")  # of what it keeps
            age = Signal(CLOCK, name=f"age{b}")
            m.d.sync += next_came.eq(came + 1)
            outputs_of = count(list(pool.routed.word_select(b, PORTS)))
            m.d.comb += [
                age.eq(now - entered),
                control.eq(Cat(out.data[:KIND_BITS] == kind for kind in CONTROL_KINDS).any() if self._passes else 0),
                Assert(~(pool.waiting[b] & pool.leaving[b])),
                Assert(~((pool.waiting[b] | pool.leaving[b]) & ~used[b])),
                Assert(~(head & body)),
                Assert(~pool.leaving[b] | (outputs_of == 1)),
                Assert(~pool.waiting[b] | (outputs_of == (0 if self._climbs else 1))),
                # What begins to leave is the head that was refused then.
                Assert(~head | out.first & out.valid & (came == entered)),
                # What leaves without ``first`` is the next flit of the worm, and came in the cycle after it.
                Assert(~body | (~out.first & (came == next_came))),
                Assert(~used[b] | (age <= self._longest + PLACED)),
                # What is chosen is next in the next cycle, and nothing else begins to leave.
                Assert(~(chosen & (age < self._asks - 1))),
                Assert(~chosen | pool.waiting[b]),
                Assert(~head | following[b]),
                Assert(~following[b] | used[b] & ~pool.waiting[b] & (outputs_of == 1)),
            ]
            m.d.sync += following[b].eq((following[b] & ~head) | chosen)
            entries.append((entered, control, chosen, age))
            with m.If(~used[b]):
                m.d.sync += entered.eq(now - PLACED)
            for other in range(b):
                together = pool.leaving[b] & pool.leaving[other]
                same = (pool.routed.word_select(b, PORTS) & pool.routed.word_select(other, PORTS)).any()
                m.d.comb += Assert(~(together & same))
                m.d.comb += Assert(~(following[b] & following[other] & same))
                # Nothing is given out twice.
                theirs = pool.asks.word_select(other, PORTS)
                m.d.comb += Assert(~(asks & theirs).any())
                # Of two that wait for one output only the one that came first is chosen.  Control comes as if earlier.
                later, their = Signal(CLOCK, name=f"later{b}_{other}"), entries[other]
                waiting = pool.waiting[b] & pool.waiting[other] & (Const(1, 1) if self._climbs else same)
                m.d.comb += later.eq(
                    entered - their[0] + Mux(their[1], self._passes, 0) - Mux(control, self._passes, 0)
                )
                # In one cycle the one that is no control, and of two alike that in the buffer with the lesser number.
                before = later[-1] | ((later == 0) & their[1] & ~control)
                ready = waiting & (age >= 5) & (their[3] >= 5)
                if self._climbs:
                    # What goes behind is given a port only if what goes before it is.
                    m.d.comb += Assert(~(ready & Mux(before, their[2] & ~chosen, chosen & ~their[2])))
                else:
                    m.d.comb += Assert(~(ready & Mux(before, their[2], chosen)))
        entering, ended = Signal(range(PORTS + 1)), _late(m, Cat(leaves), PLACED, "ended")
        placed = _late(m, pool.refused, PLACED, "placed")
        m.d.comb += entering.eq(count(list(placed)) - count(list(pool.full)))
        m.d.sync += kept.eq(kept + entering - count(list(ended)))
        m.d.comb += [
            Assert(~(pool.full & ~placed).any()),
            Assert(kept == count(list(used))),
            Assert(kept <= self._capacity),
            Assert(~pool.full.any() | (kept + entering == self._capacity)),
        ]
        for o in outputs:
            mine = [pool.routed.word_select(b, PORTS)[o] for b in worms]
            m.d.sync += held[o].eq(Cat(mine[b] & pool.leaving[b] & ~leaves[b] for b in worms).any())
        # An output is taken from some cycles after that in which a head is refused that is kept, until its worm leaves.
        known = BEHIND - 1 if self._climbs else BEHIND
        for o in outputs[:1] if self._climbs else outputs:
            waits = Signal(range(self._worms + 1), name=f"waits{o}")
            mine = [pool.head[b] & (self._climbs | pool.routed.word_select(b, PORTS)[o]) for b in worms]
            entered = _late(m, Cat(asked[o]), PLACED, f"asked{o}") & ~pool.full
            entered = _late(m, entered, known - PLACED, f"known{o}")
            m.d.sync += waits.eq(waits + count(list(entered)) - count(mine))
            m.d.comb += Assert(~waits.any() | held[o] | pool.takes[o])
        return m


def _late(m, value, cycles, name):
    for n in range(cycles):
        register = Signal(len(value), name=f"{name}_{n}")
        m.d.sync += register.eq(value)
        value = register
    return value


WORMS = [
    (1, 16, {}), (2, 14, {}), (2, 14, {"climbs": True}),
    (3, 12, {}), (3, 13, {"climbs": True}), (3, 12, {"first": 3}), (3, 13, {"climbs": True, "first": 2}),
    (4, 11, {"first": 3}),
]  # fmt: skip


@pytest.mark.parametrize(
    "worms, cycles, options",
    but(WORMS[:3], WORMS, push=WORMS),
    ids=str,
)
def test_no_buffer_is_lost_or_in_two_places(worms, cycles, options, tmp_path):
    prove(PoolSpecification(worms, **options), tmp_path, cycles=cycles)


@pytest.mark.push
def test_false_claims_about_it_are_refuted(tmp_path):
    false = (
        (2, {"longest": 4}), (2, {"capacity": 1}), (3, {"first": 3, "passes": 0}), (4, {"first": 3, "passes": 2}),
        (2, {"climbs": True, "longest": 4}), (3, {"climbs": True, "first": 2, "passes": 0}), (1, {"asks": 7}),
    )  # fmt: skip
    for number, (worms, claim) in enumerate(false):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(AssertionError, match="Assert failed"):
            prove(PoolSpecification(worms, **claim), folder, cycles=14)

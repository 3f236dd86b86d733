"""What a router with input queues promises, for all inputs, in small configurations and bounded time."""

import pytest
from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import wiring

from lethe.fabric.input_queue import InputQueue
from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.spec.wire import KIND_BITS
from tests.helpers.proof import prove
from tests.helpers.proof_systems import MAX_FLITS, crossbar
from tests.helpers.tiers import but

COUNT = 6  # bits of running numbers: more than the cycles of a proof


def bound(worms, max_wait):
    """Cycles that a worm is in an input, at most (section 3.1)."""
    return worms * (max_wait + MAX_FLITS + 3) + MAX_FLITS + 2


class BackSpecification(wiring.Component):
    """Whatever arrives and whatever is refused, the queue never overflows, keeps its order, and does not keep flits.

    Flits carry the cycle in which they come.

    Parameters
    ----------
    spare : entries of the memory that are never used
    longest : cycles from a flit's arrival to its leaving, at most
    """

    def __init__(self, worms, max_wait, *, spare=1, longest=None):
        self._worms, self._max_wait, self._spare = worms, max_wait, spare
        self._longest = bound(worms, max_wait) if longest is None else longest
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = InputQueue(crossbar(2).format, 1, self._worms, self._max_wait)
        now, valid, refused = Signal(COUNT), Signal(), Signal()
        previous, presented = Signal(COUNT), Signal()
        m.d.sync += now.eq(now + 1)
        m.d.comb += [
            valid.eq(AnySeq(1)),
            queue.i.valid.eq(valid),
            queue.i.first.eq(valid & AnySeq(1)),
            queue.i.last.eq(valid & AnySeq(1)),
            queue.i.data.eq(Mux(valid, now, 0)),
            refused.eq(AnySeq(1)),
            queue.refused.eq(refused & queue.o.valid & queue.o.first),
        ]
        level, came = Signal(COUNT), queue.o.data[:COUNT]
        m.d.sync += level.eq(level + queue.push - queue.refill)
        m.d.comb += [
            Assert(level <= self._worms * MAX_FLITS - self._spare),
            Assert(queue.o.valid | ~queue.stays),
        ]
        with m.If(queue.o.valid):
            m.d.comb += [Assert(now - came <= self._longest), Assert(~presented | (came >= previous))]
            m.d.sync += [previous.eq(came + ~queue.stays), presented.eq(1)]
        # What passes an empty queue does not mix with what was in it.
        with m.If(queue.o.valid & ~queue.queued):
            m.d.comb += [Assert(level == 0), Assert(came == now)]
        return m


class StraySpecification(wiring.Component):
    """What a queue presents without ``first`` is the next flit of the worm that it presented a cycle before."""

    def __init__(self, worms, max_wait):
        self._worms, self._max_wait = worms, max_wait
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = InputQueue(crossbar(2).format, 1, self._worms, self._max_wait)
        valid, first, last, refused = (Signal(name=name) for name in ("valid", "first", "last", "refused"))
        number, place = Signal(COUNT), Signal(COUNT)  # of the worm on the link
        follows, next_number, next_place = Signal(), Signal(COUNT), Signal(COUNT)
        for signal in (valid, first, last, refused):
            m.d.comb += signal.eq(AnySeq(1))
        at = Mux(first, 0, place)
        arriving = number + first
        m.d.sync += [number.eq(arriving), place.eq(at + 1)]
        m.d.comb += [
            queue.i.valid.eq(valid),
            queue.i.first.eq(valid & first),
            queue.i.last.eq(valid & last),
            queue.i.data.eq(Mux(valid, Cat(arriving[:COUNT], at), 0)),
            queue.refused.eq(refused & queue.o.valid & queue.o.first),
        ]
        shown_number, shown_place = queue.o.data[:COUNT], queue.o.data[COUNT : 2 * COUNT]
        with m.If(queue.o.valid & ~queue.o.first):
            m.d.comb += [Assert(follows), Assert(shown_number == next_number), Assert(shown_place == next_place)]
        with m.If(queue.o.valid & queue.o.first):
            m.d.comb += Assert(shown_place == 0)
        m.d.sync += [
            follows.eq(queue.o.valid & ~queue.stays & ~queue.o.last),
            next_number.eq(shown_number),
            next_place.eq(shown_place + 1),
        ]
        return m


class WholeWorms(wiring.Component):
    """If whole worms come in, what goes out is whole worms: contention makes no fragments.

    Inputs 0 and 1 of a crossbar of three send worms of any legal length at any time to node 2, each flit with its
    worm's number, its input and its place.
    """

    def __init__(self, worms, max_wait):
        self._worms, self._max_wait = worms, max_wait
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        system = crossbar(3)
        rule, node_bits = Rule.of(system.graph, 0), system.format.node_bits
        m.submodules.router = router = Router(system.format, rule, 1, self._worms, self._max_wait)
        m.d.comb += router.seed.eq(AnyConst(32))
        tag = KIND_BITS + node_bits
        for i in range(2):
            left, number, place = Signal(2, name=f"left{i}"), Signal(3, name=f"number{i}"), Signal(2, name=f"place{i}")
            length, starts = Signal(2, name=f"length{i}"), Signal(name=f"starts{i}")
            m.d.comb += [
                length.eq(AnySeq(2)),
                starts.eq((left == 0) & (length != 0)),
                router.i[i].valid.eq(starts | (left != 0)),
                router.i[i].first.eq(starts),
                router.i[i].last.eq((starts & (length == 1)) | (left == 1)),
            ]
            with m.If(router.i[i].valid):
                fields = Cat(number, place, i == 1)
                m.d.comb += router.i[i].data.eq(Cat(Mux(starts, 2 << KIND_BITS, 0)[:tag], fields))
            with m.If(starts):
                m.d.sync += [left.eq(length - 1), place.eq(1)]
            with m.Elif(left != 0):
                m.d.sync += [left.eq(left - 1), place.eq(place + 1)]
            with m.If(router.i[i].last):
                m.d.sync += [number.eq(number + 1), place.eq(0)]

        out = router.o[2]
        told = out.data[tag : tag + 6]
        inside, expected = Signal(), Signal(6)
        with m.If(inside):
            m.d.comb += [Assert(out.valid & ~out.first), Assert(told == expected)]
        with m.Elif(out.valid):
            m.d.comb += [Assert(out.first), Assert(told[3:5] == 0)]
        m.d.sync += [inside.eq(out.valid & ~out.last), expected.eq(Cat(told[:3], (told[3:5] + 1)[:2], told[5]))]
        return m


@pytest.mark.parametrize(
    "worms, max_wait, cycles", but([(1, 0, 16), (1, 2, 16)], [(1, 0, 16), (1, 2, 16), (2, 1, 16)], push=[(2, 1, 16)])
)
def test_the_queue_never_overflows(worms, max_wait, cycles, tmp_path):
    prove(BackSpecification(worms, max_wait), tmp_path, cycles=cycles)


def test_false_claims_about_it_are_refuted(tmp_path):
    for number, false in enumerate(({"spare": 2}, {"longest": 3})):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(AssertionError, match="Assert failed"):
            prove(BackSpecification(1, 2, **false), folder, cycles=14)


@pytest.mark.parametrize("worms", [1, 2])
def test_no_flit_is_presented_without_its_worm(worms, tmp_path):
    prove(StraySpecification(worms, 2), tmp_path, cycles=14)


@pytest.mark.push
@pytest.mark.parametrize("worms, max_wait", [(1, 0), (1, 2), (2, 1)])
def test_contention_makes_no_fragments(worms, max_wait, tmp_path):
    prove(WholeWorms(worms, max_wait), tmp_path, cycles=12)

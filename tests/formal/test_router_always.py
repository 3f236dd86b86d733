"""What a router without queues promises for ever, for all inputs: by induction, in small configurations.

A specification asserts its promises, and then the invariants that carry them from one cycle to the next.
"""

import pytest
from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring

from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.trace import WORD_BITS
from lethe.spec.wire import KIND_BITS
from tests.helpers.proof import NotProved, changed, opened, prove_always
from tests.helpers.proof_systems import MAX_FLITS, crossbar


def tree():
    """A binary tree of two levels with the shortest worms there are; its router 0 has two up-ports."""
    narrow = dict.fromkeys(("generation_bits", "incarnation_bits", "class_bits", "mode_bits", "ext_bits"), 1)
    return System.make(
        topology={"kind": "tree", "arity": 2, "levels": 2},
        wire={"flit_bits": 32, "mtu": 4, **narrow},
        ni={"slots": 2},
        timers={"wrap_guard": 0},
        workload={"min_length": 4, "max_length": 4},
    )


def ones(bits):
    """How many of these are 1."""
    return sum(bits, Const(0, 1))


def sound(m, router: Router, ports: int):
    """Asserts of a router that its registers agree; returns its inner state, and the columns of its outputs.

    A held output has exactly one owner, and only outputs that somebody may go to are ever held.  An input in FORWARD
    holds exactly one output, any other none.
    """
    inner = opened(router)
    inner.count = inner._arrive[0].counts
    columns = {call.o: call for call in inner._select}
    holds: dict[int, list] = {i: [] for i in range(ports)}
    for o in range(ports):
        owners = [inner.held[o] & owner for owner in columns[o].owner] if o in columns else []
        m.d.comb += Assert(ones(owners) == inner.held[o])
        for i, owner in zip(columns[o].sources if o in columns else (), owners, strict=True):
            holds[i].append(owner)
    m.d.comb += [Assert(ones(holds[i]) == inner.forwarding[i]) for i in range(ports)]
    return inner, columns


class OwnerSpecification(wiring.Component):
    """Whatever arrives: inputs and outputs follow section 3 of the contract, and no output has two owners.

    The specification keeps the state of every input (IDLE, FORWARD to an output, SWALLOW; flits forwarded) by the words
    of the contract; only who wins is taken from the router's events.
    """

    def __init__(self, system, number, make=Router):
        self._system, self._number, self._make = system, number, make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        system = self._system
        form, rule = system.format, Rule.of(system.graph, self._number)
        ports = rule.ports
        m.submodules.router = router = self._make(form, rule)
        m.d.comb += [router.seed.eq(AnyConst(32)), router.position.eq(rule.position(self._number))]
        inner, columns = sound(m, router, ports)
        passing: dict[int, list] = {o: [] for o in range(ports)}  # per output: (whether, flit) of every input
        for i in range(ports):
            flit, word = router.i[i], router.watch.word_select(i, WORD_BITS)
            valid = Signal(name=f"valid{i}")
            m.d.comb += [valid.eq(AnySeq(1)), flit.valid.eq(valid)]
            m.d.comb += [part.eq(Mux(valid, AnySeq(len(part)), 0)) for part in (flit.first, flit.last, flit.data)]
            forward, swallow = Signal(name=f"forward{i}"), Signal(name=f"swallow{i}")
            out, count = Signal(range(ports), name=f"out{i}"), Signal(range(MAX_FLITS + 1), name=f"count{i}")
            head, body, won = Signal(name=f"head{i}"), Signal(name=f"body{i}"), Signal(name=f"won{i}")
            m.d.comb += [
                head.eq(valid & flit.first),
                body.eq(valid & ~flit.first),
                won.eq(head & (word[:8] == Event.FORWARD)),
            ]
            with m.If(~valid):
                m.d.sync += [forward.eq(0), swallow.eq(0)]
            with m.Elif(head):
                m.d.sync += [forward.eq(won & ~flit.last), swallow.eq(~won & ~flit.last), count.eq(1)]
                m.d.sync += out.eq(word[8:16])
            with m.Elif(forward):
                m.d.sync += [count.eq(count + 1), forward.eq(~flit.last & (count + 1 != MAX_FLITS))]
                m.d.sync += swallow.eq(~flit.last & (count + 1 == MAX_FLITS))
            with m.Elif(flit.last):
                m.d.sync += swallow.eq(0)
            m.d.comb += [
                Assert(inner.forwarding[i] == forward),
                Assert(inner.swallowing[i] == swallow),
                Assert(~(forward & swallow)),
                # A worm under way has passed one flit at least, and fewer than the longest has.
                Assert(~forward | ((inner.count[i] == count) & (count != 0) & (count < MAX_FLITS))),
            ]
            for o in range(ports):
                mine = forward & (out == o)
                passing[o].append(((won & (word[8:16] == o)) | (body & mine), flit))
                if o in columns and i in columns[o].sources:
                    # The owner of a held output is the input that forwards to it.
                    owner = columns[o].owner[columns[o].sources.index(i)]
                    m.d.comb += Assert(mine == (inner.held[o] & owner))
                else:
                    m.d.comb += Assert(~mine)
        for o in range(ports):
            # Nobody passes together with another; what passes is shown in the next cycle, and nothing else is.
            m.d.comb += Assert(ones([now for now, _ in passing[o]]) <= 1)
            shown = Signal.like(router.o[o], name=f"shown{o}")
            for now, flit in passing[o]:
                with m.If(now):
                    m.d.sync += shown.eq(flit)
            with m.If(~Cat(now for now, _ in passing[o]).any()):
                m.d.sync += shown.eq(0)
            m.d.comb += Assert(router.o[o] == shown)
        return m


class WholeWorms(wiring.Component):
    """If whole worms come in, whole worms go out: contention makes no fragments, for ever.

    Each input of a crossbar sends worms of any legal length at any time to any node, flits with their input and place.
    """

    def __init__(self, make=Router):
        self._make = make
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        system = crossbar(3)
        form, rule = system.format, Rule.of(system.graph, 0)
        m.submodules.router = router = self._make(form, rule)
        m.d.comb += router.seed.eq(AnyConst(32))
        inner, columns = sound(m, router, 3)
        tag = KIND_BITS + form.node_bits
        places = []
        for i in range(3):
            left, place = Signal(2, name=f"left{i}"), Signal(2, name=f"place{i}")
            length, starts, to = Signal(2, name=f"length{i}"), Signal(name=f"starts{i}"), Signal(form.node_bits)
            m.d.comb += [
                length.eq(AnySeq(2)),
                to.eq(AnySeq(len(to))),
                starts.eq((left == 0) & (length != 0)),
                router.i[i].valid.eq(starts | (left != 0)),
                router.i[i].first.eq(starts),
                router.i[i].last.eq((starts & (length == 1)) | (left == 1)),
            ]
            at = Mux(starts, 0, place)
            with m.If(router.i[i].valid):
                m.d.comb += router.i[i].data.eq(Cat(Const(0, KIND_BITS), Mux(starts, to, 0), at, Const(i, 2)))
            with m.If(router.i[i].valid):
                m.d.sync += [left.eq(Mux(starts, length, left) - 1), place.eq(at + 1)]
            places.append(place)
            # A worm under way has sent as many flits as its place says, and has no more to come than a longest one.
            m.d.comb += [
                Assert((left == 0) | ((place != 0) & (place + left <= MAX_FLITS))),
                # A worm that is forwarded is one under way; it has passed all its flits so far.
                Assert(~inner.forwarding[i] | ((left != 0) & (inner.count[i] == place))),
            ]
        for o in range(3):
            out = router.o[o]
            inside, expected = Signal(name=f"inside{o}"), Signal(4, name=f"expected{o}")
            told = out.data[tag : tag + 4]  # place, input
            with m.If(inside):
                m.d.comb += [Assert(out.valid & ~out.first), Assert(told == expected)]
            with m.Elif(out.valid):
                m.d.comb += [Assert(out.first), Assert(told[:2] == 0)]
            m.d.sync += [inside.eq(out.valid & ~out.last), expected.eq(Cat((told[:2] + 1)[:2], told[2:]))]
            # The output is held if and only if the flit that it shows has a successor; that is its owner's next one.
            m.d.comb += Assert(inner.held[o] == (out.valid & ~out.last))
            for n, i in enumerate(columns[o].sources):
                with m.If(inner.held[o] & columns[o].owner[n]):
                    m.d.comb += [Assert(told[2:] == i), Assert(told[:2] + 1 == places[i])]
        return m


ROUTERS = {"crossbar": (crossbar(3), 0), "leaves": (tree(), 0), "top": (tree(), 2)}


@pytest.mark.parametrize("which", ROUTERS)
def test_no_output_has_two_owners(which, tmp_path):
    prove_always(OwnerSpecification(*ROUTERS[which]), tmp_path, k=1)


def test_contention_makes_no_fragments(tmp_path):
    prove_always(WholeWorms(), tmp_path, k=1)


#: What the proofs have to refuse: the text of the router that is changed, and what by.
CHANGES = {
    "a held output is granted": (
        "Mux(held[o], goes_on, Cat(grants.values()))",
        "Mux(held[o], goes_on, 0) | Cat(grants.values())",
    ),
    "a longest worm does not free": ("holds[i].eq(~(flit.last | now.longest[i]))", "holds[i].eq(~flit.last)"),
    "a gap does not free": ("body[i].eq(flit.valid & ~flit.first)", "body[i].eq(~flit.first)"),
    "two may win": ("grants[i, o].eq(win)", "grants[i, o].eq(now.asks[i, o])"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_wrong_router_is_refused(change, tmp_path):
    with pytest.raises(NotProved, match="Assert failed") as refused:
        prove_always(OwnerSpecification(crossbar(3), 0, changed(Router, CHANGES[change])), tmp_path, k=5)
    assert refused.value.by == "base"  # it does go wrong, within so many cycles

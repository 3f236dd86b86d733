"""What the ladder of time-outs promises for ever, for all inputs: by induction, in small configurations."""

from types import SimpleNamespace

import pytest
from amaranth.asserts import AnySeq
from amaranth.hdl import Array, Assert, Assume, Cat, Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, wiring

from lethe.ni.ladder import Ladder
from lethe.spec import stages
from tests.helpers.proof import NotProved, changed, opened, prove_always
from tests.helpers.tiers import but

LEAST = 9  # an eve is at least so much later than its push
LOOK = 3  # cycles from the beginning of a look to its pop
BLIND = LOOK + 1  # pushes of so many cycles before a pop are not seen by its look


def a_system(*, classes: int = 1, steps: int, depth: int, slots: int = 16) -> SimpleNamespace:
    """What a ladder asks a system, with a short time."""
    rungs = classes + steps

    def rung_after(rung: int) -> int:
        return rung if steps == 0 or rung == rungs - 1 else max(rung + 1, classes)

    return SimpleNamespace(
        rungs=rungs,
        rung_after=rung_after,
        timer_depth=depth,
        time_bits=5,
        graph=SimpleNamespace(distance_classes=classes),
        timers=SimpleNamespace(backoff_steps=steps),
        ni=SimpleNamespace(slots=slots, sets=1),
    )


def contract_turns(system, nobody: int) -> list[int]:
    """Section 4.6: whose turn it is in the cycles after a reset, until it begins again."""
    classes, steps = system.graph.distance_classes, system.timers.backoff_steps
    first = max(classes, stages.LEAST_FIRST)
    later = max(steps if steps % 2 else steps + 1, stages.LEAST_LATER)
    firsts = [*range(classes)] + [nobody] * (first - classes)
    laters = [*range(classes, classes + steps)] + [nobody] * (later - steps)
    return [number for pair in zip(firsts * later, laters * first, strict=True) for number in pair]


class Restarted(wiring.Component):
    """A specification with its component, under resets at any time: memories stay as they are."""

    def __init__(self, specification):
        self._specification = specification
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        reset = Signal()
        m.d.comb += reset.eq(AnySeq(1))
        m.submodules.specification = ResetInserter(reset)(self._specification)
        return m


class LadderSpecification(wiring.Component):
    """A rung is popped in its turn if and only if the contract says so; tokens leave in order, none lost, none twice.

    ``room`` is the contract's, of the known levels.

    Parameters
    ----------
    system : of `a_system`
    mine : the rung whose tokens are looked at; of the others there are the levels
    spare : of the ladder
    spaced : whether tokens come as the transmitter pushes them, three cycles after a grant with ``room``; else whenever
        the memory has a place for them
    inner : whether it speaks of inner state too, which an induction needs; else of what is seen and popped alone
    make : the ladder
    """

    def __init__(self, system, mine, *, spare=stages.SPARE_SEND, spaced=False, inner=True, make=Ladder):
        self._system, self._mine, self._spare, self._make = system, mine, spare, make
        self._spaced, self._inner = spaced, inner
        super().__init__({})

    def elaborate(self, platform):
        m, invariant = Module(), Assert if self._inner else lambda _: []
        system, rungs, depth, mine = self._system, self._system.rungs, self._system.timer_depth, self._mine
        time_bits, brim_level, nobody = system.time_bits, depth - self._spare, rungs
        after = system.rung_after(mine)
        number_bits = (depth - 1).bit_length() + 1  # more than are ever in a rung
        token = data.StructLayout({"number": number_bits, "eve": time_bits})
        m.submodules.ladder = ladder = self._make(system, token, self._spare)
        inner = opened(ladder)
        (memory,) = (plain.memory for plain in opened(inner.memory)._plain)
        push, hold, places = ladder.push, ladder.hold, 1 << len(inner.tail)

        # Time, turns, the walk.  `walks` rungs were walked.
        schedule = contract_turns(system, nobody)
        time, cycle, walks = Signal(time_bits), Signal(range(len(schedule))), Signal(range(rungs + 1))
        turn = Signal(range(nobody + 1))
        m.d.comb += [
            ladder.advance.eq(AnySeq(1)),
            ladder.time_base.eq(time),
            hold.ready.eq(AnySeq(1)),
            turn.eq(Array(schedule)[cycle]),
            invariant(cycle < len(schedule)),
        ]
        for i, whose in enumerate(inner.turn):
            m.d.comb += invariant(whose == Array(schedule[i:] + schedule[:i])[cycle])
        (turns,) = inner._turns
        since = [number + len(inner.turn) for number in range(len(schedule))]
        m.d.comb += invariant(turns.odd == cycle[0])
        for which, place in enumerate(turns.places):
            # Those of even cycles have moved in every even cycle so far, the others in every odd cycle.
            places_then = Array((number + 1 - which) // 2 % turns.rounds[which] for number in since)
            m.d.comb += invariant(place == places_then[cycle])
        m.d.sync += [time.eq(time + ladder.advance), cycle.eq(Mux(cycle == len(schedule) - 1, 0, cycle + 1))]
        if not inner.walked:
            walks = Const(rungs, len(walks))
        else:
            with m.If(walks != rungs):
                m.d.sync += walks.eq(walks + 1)
            m.d.comb += invariant(walks <= rungs)
        walking = walks != rungs
        m.d.comb += invariant(inner.walking == walking)

        # What is pushed.
        levels = Array(Signal(number_bits, name=f"level{q}") for q in range(rungs))
        first, ahead = Signal(number_bits), Signal(time_bits)
        m.d.comb += [
            ahead.eq(AnySeq(time_bits)),
            Assume((ahead >= LEAST) & (ahead < 1 << (time_bits - 1))),
            push.rung.eq(AnySeq(len(push.rung))),
            Assume(push.rung < rungs),
            push.eve.eq(time + ahead),
            push.token.eve.eq(push.eve),
            push.token.number.eq(Mux(push.rung == mine, first + levels[mine], AnySeq(number_bits))),
        ]
        if self._spaced:
            grant, granted = Signal(), Signal(3)
            m.d.comb += [
                grant.eq(AnySeq(1)),
                Assume(~grant | (push.room & ~walking & ~granted[:2].any())),
                push.valid.eq(granted[2]),
            ]
            m.d.sync += granted.eq(Cat(grant, granted))
            flying = sum(granted, Const(0, 1))
            m.d.comb += invariant(~(granted[0] & granted[1:].any()) & ~(granted[1] & granted[2]))
            m.d.comb += [Assert(level + flying <= brim_level + 2) for level in levels]
            m.d.comb += invariant(~granted.any() | ~walking)
        else:
            m.d.comb += [
                push.valid.eq(AnySeq(1)),
                Assume(~push.valid | (~walking & (levels[push.rung] < places - 1))),
            ]
            m.d.comb += [invariant(level < places) for level in levels]
        # Whether one was pushed here 1, 2, ... cycles ago.  A look misses these; none is due so soon.
        recent = Signal(BLIND)
        m.d.sync += recent.eq(Cat(push.valid & (push.rung == mine), recent))

        # What is popped: one is, and it is the oldest of its rung.
        full, shown, pops = Signal(), Signal(), Signal()
        m.d.comb += [Assert(hold.valid == full), Assert(~inner.pop | (turn < rungs))]
        with m.If(full):
            m.d.sync += full.eq(~hold.ready)
        with m.Else():
            m.d.sync += [full.eq(inner.pop), shown.eq(pops)]
        m.d.comb += pops.eq(inner.pop & (turn == mine))
        m.d.sync += first.eq(first + pops)
        with m.If(full & shown):
            m.d.comb += Assert(hold.payload.token.number == (first - 1)[:number_bits])
            m.d.comb += Assert(hold.payload.next_rung == after)
        above, beyond = Signal(rungs), Signal(rungs)  # by the levels of a cycle ago
        for q, level in enumerate(levels):
            popped = inner.pop & (turn == q)
            m.d.comb += Assert(~popped | (level != 0))
            m.d.sync += [
                level.eq(level + (push.valid & (push.rung == q)) - popped),
                above[q].eq(level > brim_level),
                beyond[q].eq(level > depth - stages.SPARE_NEXT_RUNG),
            ]
        m.d.comb += [Assert(push.room == ~above.any()), invariant(inner.now == sum(above, Const(0, 1)))]

        # The pointers are as far apart as there are tokens in memory, where a push is one cycle late.
        pushed, rung, number = inner.pushed, inner.rung, inner.token.number
        late = [Signal(name=f"late{q}") for q in range(rungs)]
        heads, tails, brims = (
            [pointers.read(Const(q, range(rungs + 1))) for q in range(rungs + 1)]
            for pointers in (inner.heads, inner.tails, inner.brims)
        )
        for q, level in enumerate(levels):
            m.d.comb += [
                late[q].eq(pushed & (rung == q)),
                invariant(~late[q] | ((level != 0) & (inner.tail == tails[q]))),
            ]
            with m.If(walks > q):
                m.d.comb += [
                    invariant(tails[q] == (heads[q] + level - late[q])[: len(inner.tail)]),
                    invariant(brims[q] == (heads[q] + brim_level)[: len(inner.tail)]),
                ]
            with m.Else():
                m.d.comb += invariant(level == 0)
        m.d.comb += [invariant(heads[nobody] == tails[nobody]), invariant(~pushed | ((rung < rungs) & ~walking))]
        if inner.walked:
            with m.If(walking):
                m.d.comb += [
                    invariant((rung == walks) & (inner.tail == places - 1)),
                    invariant((inner.popped_head == 0) & (inner.popped_brim == brim_level)),
                ]

        # The memory holds the tokens of this rung, the oldest at its head.
        def word(pointer):
            port = memory.read_port(domain="comb")
            m.d.comb += port.addr.eq(mine * places + pointer[: len(inner.tail)])
            return port.data

        stored = Signal(number_bits)
        m.d.comb += stored.eq(levels[mine] - late[mine])
        m.d.comb += invariant(first[: len(inner.tail)] == Mux(walks <= mine, 0, heads[mine]))
        for place in range(places):
            one, ahead_of = word(Const(place, len(inner.tail))), Signal(len(inner.tail))
            m.d.comb += ahead_of.eq(place - heads[mine])
            with m.If(ahead_of < stored):
                round_ = first[-1] ^ (place < heads[mine])
                m.d.comb += invariant(one.token.number == Cat(Const(place, len(inner.tail)), round_))
                m.d.comb += invariant(one.until == ~one.token.eve)
        m.d.comb += invariant(late[mine] == recent[0])
        with m.If(late[mine]):
            m.d.comb += invariant(number == (first + stored)[:number_bits])
            m.d.comb += invariant(inner.until == ~inner.token.eve)
        oldest = word(heads[mine])

        # Looks: those that began after the walk are good; `some` is what there was when it began.
        good = Signal(LOOK)  # of the looks at turn[0], turn[1], ...
        m.d.sync += good.eq(Cat(good, ~walking)[1:])
        seen, before = Signal(number_bits), Signal(number_bits)
        m.d.comb += [
            seen.eq(levels[mine] - sum(recent, Const(0, 1))),
            before.eq(levels[mine] - sum(recent[: BLIND - 1], Const(0, 1))),
            invariant(inner.walked_by == good[2]),
            invariant(~walking | (good == 0)),
            invariant((good == 0) | (good == 0b100) | (good == 0b110) | (good == 0b111)),
        ]
        for i in range(LOOK):
            # When a look that is not good began, there was nothing.
            m.d.comb += invariant(good[i] | (levels[mine] == sum(recent[: LOOK - i], Const(0, number_bits))))
        m.d.comb += invariant(levels[mine] >= sum(recent, Const(0, 1)))
        m.d.comb += [
            invariant(~inner.some | (good[1] & (Array([*levels, Const(0)])[inner.turn[1]] != 0))),
            invariant(~inner.ripe | good[0]),
        ]
        head_of = Array(heads)
        for value, at, what in (
            (inner.head, 2, lambda head: head),
            (inner.after_head, 1, lambda head: head + 1),
            (inner.popped_head, 0, lambda head: head + 1),
            (inner.popped_brim, 0, lambda head: head + 1 + brim_level),
        ):
            right = value == what(head_of[inner.turn[at]])[: len(value)]
            m.d.comb += invariant(right | ~good[at])
        with m.If(good[1] & (inner.turn[1] == mine)):
            m.d.comb += invariant(inner.some == (before != 0))
            with m.If(inner.some):
                m.d.comb += invariant(inner.memory.read_data == oldest)
        ripe = Signal()
        late_by = Signal(time_bits)
        m.d.comb += [late_by.eq(time - oldest.token.eve - 1), ripe.eq((seen != 0) & ~late_by[-1])]
        with m.If(turn == mine):
            m.d.comb += invariant(inner.ripe == ripe)
            with m.If(inner.ripe):
                m.d.comb += [invariant(inner.oldest == oldest.token), invariant(inner.its_next == after)]
            m.d.comb += Assert(pops == (ripe & ~full & (~beyond[after] if after != mine else 1)))
        return m


#: Systems of `a_system`, and a rung.  Rounds of first tries of 2 turns (for one rung or two) and 3; of later tries with
#: no rung, an even number and an odd one; and a walk longer than a look.
LADDERS = {
    "one": ({"steps": 0, "depth": 9}, 0),
    "first": ({"steps": 2, "depth": 9}, 0),
    "middle": ({"steps": 2, "depth": 9}, 1),
    "last": ({"steps": 2, "depth": 16}, 2),
    "flip-flops": ({"steps": 2, "depth": 9, "slots": 2}, 0),
    "two classes, no later tries": ({"classes": 2, "steps": 0, "depth": 9}, 1),
    "two classes, one step": ({"classes": 2, "steps": 1, "depth": 9}, 0),
    "two classes, two steps": ({"classes": 2, "steps": 2, "depth": 9}, 1),
    "two classes, three steps": ({"classes": 2, "steps": 3, "depth": 9}, 3),
    "three classes, one step": ({"classes": 3, "steps": 1, "depth": 9}, 2),
    "three classes, four steps": ({"classes": 3, "steps": 4, "depth": 9}, 2),
}
QUICK, PUSH = ("one", "flip-flops"), ("middle", "two classes, three steps")


@pytest.mark.parametrize("which", but(QUICK, LADDERS, push=PUSH))
def test_ladder(which, tmp_path):
    system, mine = LADDERS[which]
    prove_always(Restarted(LadderSpecification(a_system(**system), mine)), tmp_path, k=4)


def test_ladder_with_more_room_to_spare(tmp_path):
    specification = LadderSpecification(a_system(steps=2, depth=9), 0, spare=stages.SPARE_DELIVER)
    prove_always(Restarted(specification), tmp_path, k=4)


@pytest.mark.parametrize("depth", but([9], [9, 16]))
def test_the_transmitter_leaves_places(depth, tmp_path):
    prove_always(Restarted(LadderSpecification(a_system(steps=2, depth=depth), 1, spaced=True)), tmp_path, k=4)


#: What the proof has to refuse: the text that is changed, and what by.
CHANGES = {
    "tokens leave before their time": ("ripe.eq(some & ~left[-1])", "ripe.eq(some)"),
    "a look that begins during the walk is believed": ("(head != tail_then) & walked_by", "head != tail_then"),
    "the head of the look behind it is popped": ("Mux(walking, 0, after_head)", "Mux(walking, 0, head + 1)"),
    "the brim of the look behind it is popped": ("(after_head + brim_level)", "(head + 1 + brim_level)"),
    "the word of the look before it is read": ("Cat(early_head, turn[3])", "Cat(head, turn[2])"),
    "the turns of later tries begin a place late": (
        "init=ahead // 2 % r,",
        "init=(ahead // 2 + which) % r,",
    ),
    "two pushes in a row go to one place": (
        "return Mux(pushed & (rung == rung_), after_tail, tails.read(rung_))",
        "return tails.read(rung_)",
    ),
    "a held token is lost": ("pop.eq(ripe & ~blocked & ~self.hold.valid)", "pop.eq(ripe & ~blocked)"),
    "room a cycle late": ("room.eq(~rises & ((now == 0)", "room.eq(((now == 0)"),
    "no room after a pop": ("((now == 1) & falls)", "0"),
    "a pop that a push makes up for counts": ("later(pop & ~both, 1)", "later(pop, 1)"),
    "a token on its way to the next rung is not seen": (
        "joins.eq(self.push.valid & (self.push.rung == early_next))",
        "joins.eq(0)",
    ),
    "a token more in the next rung is no matter": ("i in range(1, most)", "i in range(1, most - 1)"),
    "a last rung waits for itself": ("~own & _among(rest, most)", "_among(rest, most)"),
}

#: Wrong ladders that take the solver longest.
LONG = (
    "no room after a pop",
    "the head of the look behind it is popped",
    "the brim of the look behind it is popped",
    "a held token is lost",
    "a last rung waits for itself",
    "a pop that a push makes up for counts",
    "a token on its way to the next rung is not seen",
    "a token more in the next rung is no matter",
)
#: Where a wrong ladder is seen at another rung than 0.
AT = {"a last rung waits for itself": 2}
#: What is seen soon without a look at inner state.
SEEN = ("tokens leave before their time", "a look that begins during the walk is believed")


def refuse(specification, folder):
    with pytest.raises(NotProved, match="Assert failed") as refused:
        prove_always(Restarted(specification), folder, k=20)
    assert refused.value.by == "base"  # it does go wrong, within so many cycles


@pytest.mark.push
@pytest.mark.parametrize(
    "change", [pytest.param(name, marks=[pytest.mark.full] if name in LONG else []) for name in CHANGES]
)
def test_a_wrong_ladder_is_refused(change, tmp_path):
    make = changed(Ladder, CHANGES[change])
    inner = change not in SEEN
    refuse(LadderSpecification(a_system(steps=2, depth=9), AT.get(change, 0), inner=inner, make=make), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("least, mine", [("LEAST_FIRST", 0), ("LEAST_LATER", 1)])
def test_a_turn_every_two_cycles_is_refused(least, mine, tmp_path, monkeypatch):
    """Of the ladder and of the specification alike: the next look would begin before the pointer is written."""
    monkeypatch.setattr(stages, least, 1)
    system = a_system(steps=1, depth=9)
    assert contract_turns(system, 2)[mine::2] == [mine] * (len(contract_turns(system, 2)) // 2)
    refuse(LadderSpecification(system, mine), tmp_path)

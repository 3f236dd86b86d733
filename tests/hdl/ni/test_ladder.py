"""The ladder against section 4.6 in Python: every pop in the contract's cycle."""

import random
from collections import deque

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.sim import Simulator

from lethe.ni.ladder import Ladder, _among
from lethe.spec import stages
from lethe.spec.config import System
from tests.helpers.tiers import but

SEND, DELIVER = stages.SPARE_SEND, stages.SPARE_DELIVER


class Reference:
    """The contract's ladder: the state at the start of a cycle, and one step."""

    def __init__(self, system, spare):
        self.system, self.depth, self.spare = system, system.timer_depth, spare
        self.rungs = [deque() for _ in range(system.rungs)]
        self.known, self.since, self.hold, self.blocked = [0] * system.rungs, 0, None, False

    @property
    def room(self):
        return all(level <= self.depth - self.spare for level in self.known)

    def step(self, time, push, take):
        """``push``: (rung, due, token) or None.  Returns the token that is popped, or None."""
        levels, popped, self.blocked = [len(tokens) for tokens in self.rungs], None, False
        if self.hold is None:
            turn = stages.turn_of(self.system.graph.distance_classes, self.system.timers.backoff_steps, self.since)
            if turn is not None:
                tokens, after = self.rungs[turn], self.system.rung_after(turn)
                may = after == turn or self.known[after] <= self.depth - stages.SPARE_NEXT_RUNG
                due = bool(tokens) and tokens[0][0] <= time
                self.blocked = due and not may
                if due and may:
                    self.hold = popped = (tokens.popleft()[1], after)
        elif take:
            self.hold = None
        if push is not None:
            self.rungs[push[0]].append(push[1:])
        self.known, self.since = levels, self.since + 1
        return popped


POPS = [
    (3, 9, 0.0, 0.0, SEND, 0, 16, 2), (3, 11, 0.3, 0.5, DELIVER, 0, 16, 2), (0, 9, 0.0, 0.9, SEND, 0, 2, 2),
    (2, 9, 0.1, 0.97, DELIVER, 0, 3, 2), (1, 16, 0.0, 0.99, SEND, 0, 6, 2), (2, 12, 0.0, 0.5, DELIVER, 500, 4, 2),
    (0, 16, 0.2, 0.9, SEND, 100, 16, 2), (0, 10, 0.0, 0.0, DELIVER, 0, 1, 1), (9, 9, 0.0, 0.2, SEND, 0, 11, 2),
    (6, 16, 0.0, 0.95, DELIVER, 0, 8, 2), (7, 16, 0.0, 0.3, DELIVER, 300, 8, 2),
]  # fmt: skip


@pytest.mark.parametrize(
    "steps, depth, freeze, slow, spare, ceiling, slots, columns", but([POPS[1]], POPS, push=[POPS[6]])
)
def test_pops(steps, depth, freeze, slow, spare, ceiling, slots, columns):
    """Pushes of Sends as rare as the transmitter's, of Acks in any cycle; repeats come back; resets, some in a walk."""
    system = System.make(
        topology={"kind": "mesh", "columns": 2, "rows": 2} if columns > 1 else {"kind": "wire"},
        ni={"slots": max(2, slots), "sets": 1},
        timers={"backoff_steps": steps, "timer_depth": depth, "slack": 0, "jitter_bits": 3, "ceiling": ceiling},
        wire={"generation_bits": 20},
    )
    first = max(system.ni.slots, system.ni.sets)  # the first cycle after the initialisation
    classes = system.graph.distance_classes
    ladder, reset, draw = Ladder(system, 16, spare), Signal(), random.Random(depth * 100 + steps)
    popped, blocked, full, fullest = 0, 0, 0, 0

    async def process(ctx):
        nonlocal popped, blocked, full, fullest
        time, age, token, since, eager = 0, 0, 0, 9, 0.5
        model, again = Reference(system, spare), deque()
        for cycle in range(9000):
            if cycle % 150 == 0:
                eager = draw.choice((0.02, 0.3, 1.0))
            restart = draw.random() < 0.002 or (age == 4 and draw.random() < 0.5)
            advance, take = int(draw.random() >= freeze), int(draw.random() >= slow)
            assert ctx.get(ladder.push.room) == model.room, cycle
            assert ctx.get(ladder.hold.valid) == (model.hold is not None), cycle
            if model.hold is not None:
                held = ctx.get(ladder.hold.payload.token), ctx.get(ladder.hold.payload.next_rung)
                assert held == model.hold, cycle
                if take and held[1] >= classes:
                    # Taken in c−4, the token of a repeat of an Ack is pushed in c; that of a Send when it may.
                    again.append((cycle + 4, held[1]))
            rung, since = None, since + 1
            if age >= first and not (spare == SEND and since < 3):
                if again and again[0][0] <= cycle and (spare == DELIVER or model.room):
                    rung = again.popleft()[1]
                elif model.room and draw.random() < eager:
                    rung = draw.randrange(classes)
                elif not model.room:
                    full += 1
            push = None
            if rung is not None:
                since = 0
                # Under a ceiling the tokens of a rung have delays of their own.
                delay = draw.randint(system.delays[0], ceiling) if ceiling else system.delays[rung]
                eve = time + delay - 1 + draw.randrange(9)
                token = (token + 1) & 0xFFFF
                push = rung, eve + 1, token
                ctx.set(ladder.push.eve, eve % (1 << system.time_bits))
                ctx.set(ladder.push.token, token)
            ctx.set(ladder.push.rung, draw.randrange(system.rungs) if rung is None else rung)
            ctx.set(ladder.push.valid, push is not None)
            ctx.set(ladder.time_base, time % (1 << system.time_bits))
            ctx.set(ladder.advance, advance)
            ctx.set(ladder.hold.ready, take)
            ctx.set(reset, restart)
            popped += model.step(time, push, take) is not None
            fullest = max(fullest, *map(len, model.rungs))
            blocked += model.blocked
            time, age = time + advance, age + 1
            if restart:
                model, again, time, age = Reference(system, spare), deque(), 0, 0
            await ctx.tick()

    simulator = Simulator(ResetInserter(reset)(ladder))
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
    assert popped > 30
    assert full > 30
    assert (blocked > 0) == (steps > 0)
    assert depth - spare < fullest < depth  # equal pointers mean empty


@pytest.mark.parametrize("spare", [3, 5])
def test_bad_spare_is_refused(spare):
    with pytest.raises(ValueError, match=f"spare must be 4 or 8, not {spare}"):
        Ladder(System.make(), 16, spare)


@pytest.mark.parametrize("most", [2, 3, 6, 32, 33, 64, 65, 100, 127])
def test_the_room_of_the_next_rung_is_found_with_and_without_carries(most):
    m, number, found = Module(), Signal(7), Signal()
    m.d.comb += found.eq(_among(number, most))

    async def process(ctx):
        for value in range(128):
            ctx.set(number, value)
            assert ctx.get(found) == (1 <= value < most), value

    simulator = Simulator(m)
    simulator.add_testbench(process)
    simulator.run()

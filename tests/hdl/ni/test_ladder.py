"""The ladder against section 4.6 in Python: every pop in the contract's cycle."""

# A component's members come from its signature when it is made, where no type checker sees them.
# pyright: reportAttributeAccessIssue=false

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from lethe.ni.ladder import Ladder
from lethe.spec.config import System


@pytest.mark.parametrize(
    "steps, depth, freeze, slow, spare, ceiling",
    [
        (3, 6, 0.0, 0.0, 2, 0), (3, 8, 0.3, 0.5, 3, 0), (0, 5, 0.0, 0.9, 2, 0), (2, 5, 0.1, 0.97, 3, 0),
        (1, 16, 0.0, 0.99, 2, 0), (2, 8, 0.0, 0.5, 3, 500), (0, 16, 0.2, 0.9, 2, 100),
    ],
)  # fmt: skip
def test_pops(steps, depth, freeze, slow, spare, ceiling):
    system = System.make(
        topology={"kind": "mesh", "columns": 2, "rows": 2},
        timers={
            "backoff_steps": steps,
            "timer_depth": depth,
            "slack": 0,
            "jitter_bits": 3,
            "ceiling": ceiling,
        },
        wire={"generation_bits": 20},
    )
    ladder, draw = Ladder(system, 16, spare), random.Random(7)
    rungs = [deque() for _ in range(system.rungs)]
    popped = []

    async def process(ctx):
        time, hold, token = 0, None, 0
        for _ in range(6000):
            levels = [len(r) for r in rungs]
            advance = int(draw.random() >= freeze)
            assert ctx.get(ladder.push.room) == all(level <= depth - spare for level in levels)
            assert ctx.get(ladder.hold.valid) == (hold is not None)
            if hold is not None:
                assert ctx.get(ladder.hold.payload.token) == hold
            take = int(draw.random() >= slow)
            ctx.set(ladder.time_base, time)
            ctx.set(ladder.advance, advance)
            ctx.set(ladder.hold.ready, take)
            push = all(level <= depth - spare for level in levels) and draw.random() < 0.5
            ctx.set(ladder.push.valid, int(push))
            new = None
            if push:
                rung = draw.randrange(system.rungs)
                # Under a ceiling the tokens of a rung have delays of their own.
                delay = draw.randint(system.delays[0], ceiling) if ceiling else system.delays[rung]
                eve = time + delay - 1 + draw.randrange(9)
                token = (token + 1) & 0xFFFF
                new = (rung, eve + 1, token)
                ctx.set(ladder.push.rung, rung)
                ctx.set(ladder.push.eve, eve)
                ctx.set(ladder.push.token, token)
            # The contract's rule, from the state at the start of the cycle.
            taken = None
            if hold is None:
                for q, rung_ in enumerate(rungs):
                    after = system.rung_after(q)
                    if rung_ and rung_[0][0] <= time and (after == q or levels[after] <= depth - 2):
                        taken = rung_.popleft()[1]
                        popped.append(taken)
                        break
            elif take:
                hold = None
            if taken is not None:
                hold = taken
            if new is not None:
                rungs[new[0]].append(new[1:])
            time += advance
            await ctx.tick()

    simulator = Simulator(ladder)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
    assert len(popped) > 30

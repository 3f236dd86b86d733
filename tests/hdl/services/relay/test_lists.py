"""Lists of relay: numbers that are free in the order in which they became so, and buffers that are held."""

import random
from collections import deque

import pytest

from lethe.services.relay.lists import FreeList, HeldList
from tests.helpers.simulated import simulated, walked


@pytest.mark.parametrize("depth", [1, 2, 5, 16])
def test_what_is_free_is_taken_in_its_order(depth):
    """What a transfer ends comes before what a step gives in the same cycle; the count is that of the cycle's start."""
    free, chance = FreeList(depth), random.Random(depth)

    async def test(ctx):
        await walked(ctx, free, depth)
        there, taken, ended = deque(range(depth)), [], False
        for cycle in range(800):
            assert ctx.get(free.count) == len(there), cycle
            assert ctx.get(free.some) == (len(there) >= 1), cycle
            assert cycle % 4 or ctx.get(free.two) == (len(there) >= 2), cycle
            # A step takes what was given before the last cycle: steps are four cycles apart.
            takes = cycle % 4 == 0 and len(there) > 0 and chance.random() < 0.7
            if takes:
                assert ctx.get(free.oldest) == there[0], cycle
                taken.append(there.popleft())
            chance.shuffle(taken)
            ends = not ended and len(taken) > 0 and chance.random() < 0.3
            gives = cycle % 4 == 0 and not takes and len(taken) > ends and chance.random() < 0.6
            first = taken.pop() if ends else 0
            second = taken.pop() if gives else 0
            there += [first] * ends + [second] * gives
            ended = ends
            for signal, value in (
                (free.takes, takes), (free.ends, ends), (free.ended, first), (free.gives, gives), (free.given, second),
            ):  # fmt: skip
                ctx.set(signal, int(value))
            await ctx.tick()

    simulated(free, test)


@pytest.mark.parametrize("depth", [1, 2, 3, 16])
def test_any_that_is_held_can_leave(depth):
    """In the cycle in which it or another comes, too; the oldest is shown, two cycles after one has left."""
    held, chance = HeldList(depth, depth), random.Random(depth)

    async def test(ctx):
        there, shown, marked, coming, gone, before, at_once = [], [], [], [], [], [], 0
        for number in range(depth):
            ctx.set(held.asked[number], number)
        await ctx.delay(0)
        for cycle in range(800):
            assert ctx.get(held.some) == bool(there), cycle
            assert not shown or ctx.get(held.oldest) == shown[0], cycle
            assert [ctx.get(held.is_held[number]) for number in range(depth)] == [n in marked for n in range(depth)], (
                cycle
            )
            others = [number for number in range(depth) if number not in there + gone + before]
            holds = bool(others) and chance.random() < 0.4
            comes = chance.choice(others or [0])
            # A buffer that comes can leave in the same cycle: its transfer ends as its record does.
            there += [comes] * holds
            leaves = bool(there) and not (gone or before) and chance.random() < 0.6
            left = chance.choice(there or [0])
            at_once += leaves and holds and left == comes
            if leaves:
                there.remove(left)
            shown = [number for number in shown if number not in before] + [comes] * holds
            marked = [number for number in marked + coming if number not in gone]
            coming = [comes] * holds
            gone, before = [left] * leaves, gone
            for signal, value in (
                (held.leaves, leaves), (held.left, left), (held.holds, holds), (held.held, comes),
            ):  # fmt: skip
                ctx.set(signal, int(value))
            await ctx.tick()
        assert at_once

    simulated(held, test)

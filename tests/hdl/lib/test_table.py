"""Tables: what is shown is the word as of the cycle that is promised, however near the writes."""

import random

import pytest
from amaranth.hdl import Const

from lethe.lib.table import Table, Words
from tests.helpers.simulated import simulated, walked

DEPTH = 40


@pytest.mark.parametrize("late", [False, True])
def test_a_reader_sees_all_writes_of_earlier_cycles(late):
    """Asked in c, shown in c+2: as of the start of c+2, and of c+1.  Few addresses, so that writes meet reads."""
    table = Table(8, DEPTH, ("seen",), late=late, init=Const(7, 8))
    chance = random.Random(late)

    async def test(ctx):
        await walked(ctx, table, DEPTH)
        words, asked, held = [7] * DEPTH, [], []
        for cycle in range(600):
            # `held[c]`: the words as of the start of c.
            held.append(list(words))
            if cycle >= 2:
                assert ctx.get(table.seen) == held[cycle][asked[cycle - 2]], cycle
                assert ctx.get(table.seen_before) == held[cycle - 1][asked[cycle - 2]], cycle
            asked.append(chance.randrange(3))
            ctx.set(table.seen_addr, asked[-1])
            writes, where, what = chance.random() < 0.6, chance.randrange(3), chance.randrange(256)
            ctx.set(table.write_en, writes)
            ctx.set(table.write_addr, where)
            ctx.set(table.write, what)
            if writes:
                words[where] = what
            await ctx.tick()

    simulated(table, test)


@pytest.mark.parametrize("late", [False, True])
def test_words_show_at_once(late):
    table = Words(8, 4, ("one", "other"), late=late, init=Const(9, 8))

    async def test(ctx):
        await walked(ctx, table, 4)
        ctx.set(table.one_addr, 2)
        ctx.set(table.other_addr, 3)
        ctx.set(table.write_en, 1)
        ctx.set(table.write_addr, 3)
        ctx.set(table.write, 1)
        assert (ctx.get(table.one), ctx.get(table.other)) == (9, 9)
        await ctx.tick()
        assert (ctx.get(table.one), ctx.get(table.other)) == (9, 1)

    simulated(table, test)


@pytest.mark.parametrize("late", [False, True])
def test_words_show_all_writes_of_earlier_cycles(late):
    """Each reader sees them, and no write of its own cycle."""
    table = Words(8, 4, ("one", "other"), late=late, init=Const(9, 8))
    chance = random.Random(late)

    async def test(ctx):
        await walked(ctx, table, 4)
        words = [9] * 4
        for cycle in range(300):
            writes, where, what = chance.random() < 0.6, chance.randrange(4), chance.randrange(256)
            for name, value in {"write_en": writes, "write_addr": where, "write": what}.items():
                ctx.set(getattr(table, name), value)
            for reader in ("one", "other"):
                asked = chance.randrange(4)
                ctx.set(getattr(table, f"{reader}_addr"), asked)
                assert ctx.get(getattr(table, reader)) == words[asked], cycle
            await ctx.tick()
            if writes:
                words[where] = what

    simulated(table, test)

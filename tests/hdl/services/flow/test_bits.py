"""Bits that several write: of one number the first of the writers does, of others each."""

import random

import pytest

from lethe.services.flow.bits import SharedBits
from tests.helpers.simulated import simulated

NUMBERS = 6


@pytest.mark.parametrize("writers", [("one",), ("one", "two"), ("one", "two", "three")])
def test_bits(writers):
    chance, block = random.Random(len(writers)), SharedBits(NUMBERS, writers, ("left", "right"))
    met = set()

    async def test(ctx):
        bits = [0] * NUMBERS
        for _ in range(400):
            clears, cleared = chance.random() < 0.05, chance.randrange(NUMBERS)
            ctx.set(block.clear, clears)
            ctx.set(block.clear_addr, cleared)
            written = {}
            for writer in writers:
                writes, number, bit = chance.random() < 0.6, chance.randrange(NUMBERS), chance.randrange(2)
                for name, value in ((f"{writer}_en", writes), (f"{writer}_addr", number), (writer, bit)):
                    ctx.set(getattr(block, name), value)
                if writes and number in written:
                    met.add(writer)
                elif writes:
                    written[number] = bit
            for reader in ("left", "right"):
                number = chance.randrange(NUMBERS)
                ctx.set(getattr(block, f"{reader}_addr"), number)
                assert ctx.get(getattr(block, reader)) == bits[number]
            await ctx.tick()
            for number, bit in ({cleared: 0} if clears else written).items():
                bits[number] = bit
        assert met == set(writers[1:])

    simulated(block, test)

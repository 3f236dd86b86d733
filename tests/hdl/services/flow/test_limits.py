"""Limits: which credits raise the limit of an out stream (contract of flow, section 6)."""

import pytest

from lethe.services.flow.limits import Limits
from tests.hdl.services.flow.blocks import layouts, stream
from tests.helpers.simulated import simulated


@pytest.mark.parametrize(
    ("limit", "next_", "credit", "raises"),
    [
        (5, 5, 6, 1), (5, 5, 21, 1), (5, 5, 5, 0), (6, 6, 22, 1), (5, 5, 22, 0), (9, 5, 8, 0), (9, 5, 4, 0),
        (5, 4, 21, 0), (250, 250, 3, 1), (11, 5, 12, 1), (12, 5, 22, 0), (11, 5, 11, 0), (11, 5, 10, 0), (5, 5, 133, 0),
        (5, 5, 69, 0), (20, 5, 21, 1), (21, 5, 21, 0),
    ],
)  # fmt: skip
def test_credits_that_raise_and_those_that_do_not(limit, next_, credit, raises):
    """By 1 … 16, and no further than 16 beyond the next number; of a message only if its peer is heard."""
    block = Limits(layouts())

    async def test(ctx):
        ctx.set(block.numbers, stream(limit=limit, next=next_, base=next_, asked=1))
        for acts, heard, wanted in ((1, 0, 0), (1, 1, 1), (0, 0, 0), (0, 1, 1)):
            ctx.set(block.credit_next, acts)
            ctx.set(block.credit_coming, credit if acts else limit)
            ctx.set(block.job_credit, limit if acts else credit)
            await ctx.tick()
            ctx.set(block.credit_acts, acts)
            ctx.set(block.credit_heard, heard and acts)
            ctx.set(block.job_raises, heard and not acts)
            assert ctx.get(block.raises) == (raises and wanted)
            if raises:
                left, limit_ = ctx.get(block.raised_left), ctx.get(block.raised_limit)
                assert (left, limit_) == ((credit - next_) % 256, credit % 64) and not ctx.get(block.raised_stuck)

    simulated(block, test)


def test_a_window_that_is_full_stays_stuck():
    block = Limits(layouts())

    async def test(ctx):
        ctx.set(block.numbers, stream(limit=20, next=20, base=4))
        ctx.set(block.job_raises, 1)
        ctx.set(block.job_credit, 30)
        await ctx.tick()
        assert ctx.get(block.raises) and ctx.get(block.raised_stuck)

    simulated(block, test)

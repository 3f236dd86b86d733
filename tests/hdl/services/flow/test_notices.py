"""Notices of control: what is told, and told again (contract of flow, section 9.2)."""

import pytest

from lethe.services.flow.control import Notices
from lethe.services.flow.layouts import Operation
from lethe.spec.services.flow import Code
from tests.hdl.services.flow.blocks import layouts
from tests.helpers.simulated import simulated, walked

MARK, FLY, WAIT = Operation.MARK, Operation.FLY, Operation.WAIT
CLEAN, REVIVE = Operation.CLEAN, Operation.REVIVE
ARRIVED, REPEAT = Operation.ARRIVED, Operation.REPEAT


def started(test) -> None:
    """Runs a test of a block that is ready."""
    of = layouts()
    block = Notices(of)

    async def run(ctx):
        await walked(ctx, block, of.initial)
        await test(ctx, block)

    simulated(block, run)


def played(operations, code: Code, *, node: int = 1, index: int = 0) -> list[bool]:
    """Whether each operation pushes the notice to the queue; everything is popped at once."""
    pushed = []

    async def test(ctx, block):
        ctx.set(block.tell_pops, 1)
        ctx.set(block.job_peer, node)
        ctx.set(block.notice_code, code)
        ctx.set(block.notice_index, index)
        ctx.set(block.notice_stream, node << 2 | index)
        await ctx.tick().repeat(2)
        for operation in operations:
            ctx.set(block.operation, operation)
            await ctx.tick()
            ctx.set(block.operation, Operation.NOTHING)
            await ctx.tick()
            pushed.append(bool(ctx.get(block.tell_valid)))
            if pushed[-1]:
                told = ctx.get(block.tell)
                assert (told.code, told.node, told.index) == (code, node, index)
            await ctx.tick()

    started(test)
    return pushed


@pytest.mark.parametrize("code", [Code.PING, Code.PONG, Code.MAP, Code.WINDOW, Code.VOID])
def test_every_code(code):
    """Marked once it waits once; marked while it flies it is told again afterwards, and once more if it failed."""
    index = 3 if code in (Code.WINDOW, Code.VOID) else 0
    steps = (MARK, MARK, FLY, ARRIVED, MARK, FLY, MARK, MARK, ARRIVED, FLY, REPEAT, CLEAN, MARK)
    assert played(steps, code, index=index) == [
        True, False, False, False, True, False, False, False, True, False, True, False, True,
    ]  # fmt: skip


def test_what_waits_is_told_when_the_source_revives_or_it_is_marked():
    steps = (REVIVE, MARK, WAIT, REVIVE, WAIT, MARK, REVIVE)
    assert played(steps, Code.WINDOW, index=2) == [False, True, False, True, False, True, False]


def test_steps_of_a_job_mark_in_neighbouring_cycles():
    """Two notices of its node, one after the other: each is told once, though they are marked again."""

    async def test(ctx, block):
        ctx.set(block.tell_pops, 1)
        ctx.set(block.job_peer, 1)
        told = []
        for code in (Code.PING, Code.MAP, None, None, None, Code.PING, Code.MAP, None, None, None, None):
            ctx.set(block.operation, Operation.NOTHING if code is None else MARK)
            ctx.set(block.notice_code, code or 0)
            if ctx.get(block.tell_valid):
                told.append(ctx.get(block.tell).code)
            await ctx.tick()
        assert told == [Code.PING, Code.MAP]

    started(test)


def test_an_acceptance_marks_window():
    """Of the stream that it asked for in the cycle before; its neighbours are untouched."""

    async def test(ctx, block):
        ctx.set(block.accept_soon, 1)
        ctx.set(block.mark_stream, 1 << 2 | 1)
        await ctx.tick()
        ctx.set(block.accept_soon, 0)
        ctx.set(block.accept_now, 1)
        ctx.set(block.accept_at, 1 << 2 | 1)
        await ctx.tick()
        ctx.set(block.accept_now, 0)
        ctx.set(block.accept_marks, 1)
        assert not ctx.get(block.tell_valid) and not ctx.get(block.nothing_to_tell)
        await ctx.tick()
        ctx.set(block.accept_marks, 0)
        told = ctx.get(block.tell)
        assert ctx.get(block.tell_valid) and (told.code, told.node, told.index) == (Code.WINDOW, 1, 1)
        ctx.set(block.tell_pops, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(block.nothing_to_tell)

    started(test)

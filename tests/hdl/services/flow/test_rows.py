"""Rows and the merge port: what a Send carries, and what is known of it afterwards (contract of flow, section 8)."""

import pytest

from lethe.services.flow.rows import Rows
from lethe.spec.services.flow import Code
from tests.hdl.services.flow.blocks import layouts
from tests.helpers.simulated import simulated

ROW = {"node": 1, "index": 2, "q": 3, "seq": 7, "length": 9}


async def accept(ctx, block, slot: int, *, generation: int = 5, control: int = 0) -> None:
    ctx.set(block.accepted, {"valid": 1, "slot": slot, "generation": generation, "tag": 0, "control": control})
    await ctx.tick()
    ctx.set(block.accepted, {})


async def grant(ctx, block, slot: int, *, expected: int, room: int, tries: int = 0) -> tuple[int, int]:
    """Word and mask for a slot; ends in the cycle behind *g+4*."""
    ctx.set(block.merge, {"valid": 1, "slot": slot, "tries": tries})
    assert ctx.get(block.merge_stream) == 1 << 2 | 3 or slot > 5
    assert ctx.get(block.offer_port) == 3 or slot > 5
    await ctx.tick()
    ctx.set(block.merge, {})
    ctx.set(block.merge_expected, 99)
    await ctx.tick()
    ctx.set(block.merge_expected, expected)
    ctx.set(block.offer_room, room)
    await ctx.tick()
    ctx.set(block.merge_expected, 98)
    ctx.set(block.offer_room, 0)
    shown = ctx.get(block.merge_word), ctx.get(block.merge_mask)
    await ctx.tick()
    assert ctx.get(block.merge_mask) == 0
    return shown


@pytest.mark.parametrize(("opened", "tries"), [(0b10, 0), (0b01, 0)])
def test_a_data_datagram_carries_a_credit(opened, tries):
    block = Rows(layouts())

    async def test(ctx):
        ctx.set(block.transfer_row, ROW)
        ctx.set(block.merged_open, opened >> 1)
        await accept(ctx, block, 4)
        shown = await grant(ctx, block, 4, expected=250, room=6, tries=tries)
        assert shown == (((250 + 2 + 6) & 0xFF) | (250 & 0x7F) << 8 | (tries > 0) << 15, 0xFFFF)
        ctx.set(block.ended_slot, 4)
        assert (ctx.get(block.ended_credit), ctx.get(block.ended_carried)) == (2, opened >> 1)
        row = ctx.get(block.ended_row)
        assert {name: row[name] for name in ROW} == ROW
        # The next one in that slot has carried nothing yet.
        await accept(ctx, block, 4)
        assert not ctx.get(block.ended_carried)

    simulated(block, test)


@pytest.mark.parametrize(
    ("first", "second", "least"), [(250, 240, 240), (250, 3, 250), (3, 250, 250), (9, 9, 9)]
)  # fmt: skip
def test_copies_carry_the_least(first, second, least):
    """An Ack does not say which copy it is for; the first of another datagram counts by itself."""
    block = Rows(layouts())

    async def test(ctx):
        def shown():
            return ctx.get(block.ended_credit), ctx.get(block.ended_carried)

        ctx.set(block.transfer_row, ROW)
        ctx.set(block.ended_slot, 4)
        await accept(ctx, block, 4)
        await grant(ctx, block, 4, expected=0, room=0, tries=1)
        assert not ctx.get(block.ended_carried)  # it never was open
        ctx.set(block.merged_open, 1)
        await grant(ctx, block, 4, expected=0, room=0, tries=1)
        assert not ctx.get(block.ended_carried)
        await grant(ctx, block, 4, expected=first - 2, room=0)
        assert shown() == (first, 1)
        word, mask = await grant(ctx, block, 4, expected=second - 2, room=0, tries=3)
        assert (word & 0xFF, word >> 15, mask) == (second, 1, 0xFFFF)
        assert shown() == (least, 1)
        ctx.set(block.merged_open, 0)
        await grant(ctx, block, 4, expected=second - 2, room=0, tries=4)
        assert not ctx.get(block.ended_carried)

    simulated(block, test)


def test_control_carries_by_itself():
    """A WINDOW does unless its source has been forgotten; nothing is merged into control."""
    block = Rows(layouts())

    async def test(ctx):
        ctx.set(block.control_row, {"code": Code.WINDOW, "node": 1, "index": 2, "credit": 44})
        for carries in (0, 1):
            ctx.set(block.control_carries, carries)
            await accept(ctx, block, 7, control=1)
            ctx.set(block.ended_slot, 7)
            assert ctx.get(block.ended_carried) == carries
        assert (await grant(ctx, block, 7, expected=1, room=1))[1] == 0
        ctx.set(block.ended_slot, 7)
        assert ctx.get(block.ended_control).credit == 44
        ctx.set(block.looked_slot, 7)
        assert ctx.get(block.looked_node) == 1
        ctx.set(block.forgotten_slot, 7)
        ctx.set(block.row_forgets, 1)
        await ctx.tick()
        assert not ctx.get(block.ended_carried)

    simulated(block, test)


def test_a_control_slot_is_of_whom_it_is_accepted_for_in_this_cycle():
    """A task forgets what went to its node: it looks at a slot in the cycle before.  A data slot is never renewed."""
    block = Rows(layouts())

    async def test(ctx):
        ctx.set(block.looked_slot, 7)
        for node in (1, 0, 1):
            ctx.set(block.control_row, {"code": Code.WINDOW, "node": node})
            for slot, control, renewed in ((2, 0, 0), (6, 1, 0), (7, 1, 1)):
                ctx.set(block.accepted, {"valid": 1, "slot": slot, "control": control})
                assert ctx.get(block.renewed) == renewed
            await ctx.tick()
            ctx.set(block.accepted, {})
            ctx.set(block.control_row, {"code": Code.WINDOW, "node": 1 - node})
            assert (ctx.get(block.renewed), ctx.get(block.looked_node)) == (0, node)

    simulated(block, test)


def test_what_counts_in_live():
    """Data, PING and VOID, from their acceptance to their completion."""
    block = Rows(layouts())

    async def test(ctx):
        for slot, control, code, lives in ((2, 0, 0, 1), (6, 1, Code.PING, 1), (7, 1, Code.MAP, 0)):
            ctx.set(block.control_row, {"code": code, "node": 1})
            ctx.set(block.looked_slot, slot)
            assert not ctx.get(block.looked_lives)
            await accept(ctx, block, slot, generation=slot + 1, control=control)
            assert ctx.get(block.looked_lives) == lives
            life = ctx.get(block.looked_life)
            assert (life.slot, life.generation) == (slot, slot + 1)
            ctx.set(block.row_ends, 1)
            ctx.set(block.gone_slot, slot)
            await ctx.tick()
            ctx.set(block.row_ends, 0)
            assert not ctx.get(block.looked_lives)

    simulated(block, test)

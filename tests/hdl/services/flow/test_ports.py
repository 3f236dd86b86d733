"""Own ports: cells that are promised, taken and freed, and congestion (contract of flow, sections 6 and 7)."""

from lethe.services.flow.ports import Ports
from tests.hdl.services.flow.blocks import layouts
from tests.helpers.simulated import simulated, walked


def started(test, **sections):
    of = layouts(**sections)
    block = Ports(of)

    async def run(ctx):
        await walked(ctx, block, of.initial)
        ctx.set(block.ready, 1)
        await test(ctx, block)

    simulated(block, run)


async def turned(ctx, block, cycles: int) -> list[tuple[int, int]]:
    """(port, whether it is congested) of each one that is looked at in so many cycles from now on, and then turns."""
    found = []
    for _ in range(cycles):
        await ctx.tick()
        if ctx.get(block.turns):
            found.append((ctx.get(block.turned_index), ctx.get(block.turned)))
    return found


def test_free_cells_come_in_order_and_again():
    """0, 1, … at first; then in the order in which they were freed; ports do not meet."""

    async def test(ctx, block):
        async def takes(port: int) -> int:
            """The oldest free one, which is taken."""
            ctx.set(block.free_port, port)
            ctx.set(block.free_takes, 1)
            await ctx.tick()
            ctx.set(block.free_takes, 0)
            await ctx.tick()
            return ctx.get(block.free_cell)

        assert [await takes(2) for _ in range(3)] == [0, 1, 2]
        for cell in (1, 0):
            ctx.set(block.may_free, 1)
            ctx.set(block.frees, 1)
            ctx.set(block.freed_port, 2)
            ctx.set(block.freed_cell, cell)
            await ctx.tick()
        ctx.set(block.frees, 0)
        ctx.set(block.freed_cell, 2)
        await ctx.tick()
        ctx.set(block.may_free, 0)
        assert [await takes(2) for _ in range(3)] == [3, 1, 0]
        assert await takes(1) == 0

    started(test)


def test_used_cells():
    """A promise and a free in one cycle leave a port as it is; crowded from C − R on, full at C."""

    async def test(ctx, block):
        seen = []
        for frees in (0, 0, 1, 0, 0):
            ctx.set(block.accept_now, 1)
            ctx.set(block.accept_takes, 1)
            ctx.set(block.accept_port, 3)
            ctx.set(block.frees, frees)
            ctx.set(block.freed_port, 3)
            ctx.set(block.offer_port, 3)
            ctx.set(block.judged_port, 3)
            await ctx.tick()
            seen.append((ctx.get(block.judged_crowded), ctx.get(block.judged_full), ctx.get(block.offer_room)))
        # When it is first looked at, room was asked for only a cycle before: it is that of port 0.
        assert seen == [(0, 0, 2), (1, 0, 1), (1, 0, 1), (1, 0, 1), (1, 1, 0)]
        assert ctx.get(block.all_used) == 4 and not ctx.get(block.nothing_used)
        ctx.set(block.accept_now, 0)
        ctx.set(block.accept_takes, 0)
        ctx.set(block.own_takes, 1)
        ctx.set(block.own_port, 0)
        ctx.set(block.frees, 1)
        await ctx.tick()
        assert not ctx.get(block.judged_full) and ctx.get(block.all_used) == 4

    started(test)


def test_messages_to_the_own_node_take_room():
    """From the cycle after next on, of their port alone: half of what was free, asked for two cycles before."""

    async def test(ctx, block):
        for name, port in (("offer", 3), ("job", 2)):
            ctx.set(getattr(block, f"{name}_port"), port)
        ctx.set(block.own_port, 3)
        await ctx.tick().repeat(2)
        seen = []
        for takes in (1, 0, 1, 1, 0, 1):
            ctx.set(block.own_takes, takes)
            await ctx.tick()
            seen.append((ctx.get(block.offer_room), ctx.get(block.job_room)))
        assert seen == [(2, 2), (1, 2), (1, 2), (1, 2), (0, 2), (0, 2)]

    started(test)


def test_congestion():
    """From the limit on, until less than half of it is left; an unbound port is never congested."""

    async def test(ctx, block):
        async def moves(name, port, length):
            ctx.set(getattr(block, f"{name}s"), 1)
            ctx.set(getattr(block, f"{'fill' if name == 'fill' else 'freed'}_port"), port)
            ctx.set(getattr(block, f"{'fill' if name == 'fill' else 'freed'}_length"), length)
            ctx.set(block.append_port, port)
            ctx.set(block.appends, name == "fill")
            await ctx.tick()
            ctx.set(getattr(block, f"{name}s"), 0)
            ctx.set(block.appends, 0)

        assert await turned(ctx, block, 4) == []
        await moves("fill", 1, 32)
        await moves("fill", 1, 31)
        assert await turned(ctx, block, 4) == []
        await moves("fill", 1, 1)
        assert await turned(ctx, block, 4) == [(1, 1)] and ctx.get(block.congested) == 2
        await moves("free", 1, 32)
        assert await turned(ctx, block, 4) == []
        await moves("free", 1, 1)
        assert await turned(ctx, block, 4) == [(1, 0)] and ctx.get(block.congested) == 0
        # A limit that the host sets, and a port that is unbound.
        ctx.set(block.set_index, 1)
        ctx.set(block.set_value, 1)
        ctx.set(block.limits, 1)
        await ctx.tick()
        ctx.set(block.limits, 0)
        assert await turned(ctx, block, 4) == [(1, 1)]
        ctx.set(block.unbinds, 1)
        await ctx.tick()
        ctx.set(block.unbinds, 0)
        assert (
            await turned(ctx, block, 4) == [(1, 0)]
            and await turned(ctx, block, 4) == []
            and ctx.get(block.bound) == 0b1101
        )

    started(test, flow={"cells": 16, "receive_limit": 64})


def test_bound():
    async def test(ctx, block):
        ctx.set(block.judged_port, 2)
        assert ctx.get(block.bound) == 0b1111 and ctx.get(block.judged_number) == 2
        ctx.set(block.names, 1)
        ctx.set(block.binds, 1)
        ctx.set(block.set_index, 2)
        ctx.set(block.set_value, 0x1236)
        ctx.set(block.fetched_port, 2)
        await ctx.tick()
        assert ctx.get(block.judged_number) == 0x1236 and ctx.get(block.fetched_number) == 0x1236
        ctx.set(block.names, 0)
        ctx.set(block.binds, 0)
        for last in (0, 1):
            ctx.set(block.unbinds, 1)
            await ctx.tick()
            ctx.set(block.unbinds, 0)
            ctx.set(block.fetched_port, 2)
            await ctx.tick()
            assert ctx.get(block.bound) == 0b1011 and not ctx.get(block.fetched_bound)
            ctx.set(block.binds_if_last, 1)
            ctx.set(block.fetches_last, last)
            await ctx.tick()
            ctx.set(block.binds_if_last, 0)
            ctx.set(block.fetches_last, 0)
            ctx.set(block.set_index, 1)
            for cycle in range(3):
                for name in ("judged", "sent", "own"):
                    for port in range(4):
                        ctx.set(getattr(block, f"{name}_port"), port)
                        assert ctx.get(getattr(block, f"{name}_bound")) == (port != 2 or last)
                # All of them, and what was fetched, are asked for later.
                if cycle:
                    assert ctx.get(block.bound) == 0b1011 | last << 2 and ctx.get(block.fetched_bound) == last
                await ctx.tick()
            ctx.set(block.set_index, 2)

    started(test)


def test_one_of_two_ports_turns_once():
    """It is looked at in every other cycle; what is read of it in the cycle in which it turns is what it turns to."""

    async def test(ctx, block):
        ctx.set(block.fill_port, 1)
        ctx.set(block.fill_length, 32)
        ctx.set(block.append_port, 1)
        for name in ("fills", "appends"):
            ctx.set(getattr(block, name), 1)
        await ctx.tick().repeat(2)
        for name in ("fills", "appends"):
            ctx.set(getattr(block, name), 0)
        assert await turned(ctx, block, 8) == [(1, 1)]
        ctx.set(block.freed_port, 1)
        ctx.set(block.freed_length, 32)
        ctx.set(block.frees, 1)
        await ctx.tick().repeat(2)
        ctx.set(block.frees, 0)
        assert await turned(ctx, block, 8) == [(1, 0)]

    started(test, flow={"ports": 2, "cells": 16, "receive_limit": 64})


def test_a_limit_of_a_port_holds_from_the_next_cycle_on():
    """In whatever port's turn it is set: also in the cycle before the turn of its own port."""

    async def test(ctx, block):
        async def limited(value: int):
            """What turns in the four cycles behind a new limit of port 1."""
            ctx.set(block.set_index, 1)
            ctx.set(block.set_value, value)
            ctx.set(block.limits, 1)
            await ctx.tick()
            ctx.set(block.limits, 0)
            return await turned(ctx, block, 4)

        ctx.set(block.fills, 1)
        ctx.set(block.fill_port, 1)
        ctx.set(block.fill_length, 32)
        await ctx.tick()
        ctx.set(block.fills, 0)
        for _ in range(4):
            # 13 cycles in all, so that each time the limits are set a turn later.
            assert await limited(2) == [(1, 1)]
            assert await limited(0xFFFF) == [(1, 0)]
            await ctx.tick().repeat(3)

    started(test, flow={"cells": 16, "receive_limit": 64})


def test_congestion_by_cells():
    """From half of them on that are placed, or all but R that are used; until less than half of that, however few bytes
    they hold; each port by itself.
    """

    async def test(ctx, block):
        async def moves(*, promises: int = 0, places: int = 0, frees: int = 0, port: int = 2):
            ctx.set(block.accept_now, promises)
            for name, moved in (("accept", promises), ("append", places), ("freed", frees)):
                ctx.set(getattr(block, {"accept": "accept_takes", "append": "appends", "freed": "frees"}[name]), moved)
                ctx.set(getattr(block, f"{name}_port"), port)
            await ctx.tick()
            for name in ("accept_takes", "appends", "frees"):
                ctx.set(getattr(block, name), 0)
            return await turned(ctx, block, 8)

        assert [await moves(promises=1) for _ in range(3)] == [[]] * 3
        assert [await moves(places=1) for _ in range(2)] == [[], []]
        assert await moves(promises=1, places=1, port=1) == []
        assert await moves(places=1) == [(2, 1)] and ctx.get(block.congested) == 4
        assert await moves(promises=1, places=1, frees=1) == []
        assert await moves(frees=1) == []
        assert await moves(frees=1) == [(2, 0)] and ctx.get(block.congested) == 0
        # One of port 2 is placed still.
        assert [await moves(promises=1) for _ in range(3)] == [[]] * 3
        assert await moves(promises=1) == [(2, 1)]
        assert await moves(places=1, frees=1) == [] and await moves(frees=1) == []
        assert await moves(places=1) == [] and await moves(frees=1) == [(2, 0)]

    started(test, flow={"cells": 6, "in_order": 1})


def test_congestion_by_cells_in_the_cycle_of_the_look():
    """What is placed, or freed, before a port's turn counts in it; what is in its turn does so a round later."""

    async def turn(ctx, block, port: int):
        """Wait for the port's turn: the one before was looked at in the cycle before."""
        while ctx.get(block.turned_index) != (port - 1) % 4:
            await ctx.tick()

    async def test(ctx, block):
        ctx.set(block.accept_port, 2)
        for takes in (1, 1, 1, 0):
            ctx.set(block.accept_now, takes)
            ctx.set(block.accept_takes, takes)
            await ctx.tick()
        await turn(ctx, block, 3)
        ctx.set(block.append_port, 2)
        ctx.set(block.appends, 1)
        await ctx.tick()
        await ctx.tick()
        # The third is placed in the cycle before the turn.
        await ctx.tick()
        ctx.set(block.appends, 0)
        await ctx.tick()
        assert (ctx.get(block.turned_index), ctx.get(block.turns)) == (2, 1)
        # Of two that are freed the second is so in the turn.
        await turn(ctx, block, 1)
        ctx.set(block.frees, 1)
        ctx.set(block.freed_port, 2)
        await ctx.tick()
        await ctx.tick()
        ctx.set(block.frees, 0)
        assert (ctx.get(block.turned_index), ctx.get(block.turns)) == (2, 0)
        await turn(ctx, block, 2)
        await ctx.tick()
        assert ctx.get(block.turns) == 1

    started(test, flow={"cells": 6, "in_order": 1})


def test_a_congested_port_of_which_nothing_moves_is_stuck():
    """From the end of a watch on in which no cell of it was promised or freed, whatever other ports do."""

    async def test(ctx, block):
        async def watch(promised: list[int]) -> int:
            """A watch in which cells of these ports are promised; whether a port is stuck as it ends."""
            for port in promised:
                ctx.set(block.accept_now, 1)
                ctx.set(block.accept_takes, 1)
                ctx.set(block.accept_port, port)
                await ctx.tick()
            ctx.set(block.accept_now, 0)
            ctx.set(block.accept_takes, 0)
            for _ in range(4):
                await ctx.tick()
            ctx.set(block.watch_wraps, 1)
            stuck = ctx.get(block.stuck)
            await ctx.tick()
            ctx.set(block.watch_wraps, 0)
            return stuck

        assert await watch([1, 1, 2]) == 0 and ctx.get(block.congested) == 0b10
        assert await watch([1]) == 0
        assert await watch([2]) == 1 and ctx.get(block.congested) == 0b110
        assert await watch([1, 2]) == 0
        # What moves in the cycle in which a watch ends counts for the next.
        ctx.set(block.watch_wraps, 1)
        ctx.set(block.accept_now, 1)
        ctx.set(block.accept_takes, 1)
        ctx.set(block.accept_port, 1)
        await ctx.tick()
        ctx.set(block.watch_wraps, 0)
        assert await watch([2]) == 0
        ctx.set(block.frees, 1)
        ctx.set(block.freed_port, 2)
        await ctx.tick()
        ctx.set(block.frees, 0)
        assert await watch([1]) == 0
        assert await watch([]) == 1

    started(test)

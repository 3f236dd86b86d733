"""The receive table against a list: what it shows, and when, and whether anything is in it."""

import random
from collections import deque

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.sim import Simulator

from lethe.ni.receive_table import ReceiveTable, same_key, set_of
from lethe.spec.config import System

KEY = data.StructLayout({"source": 3, "slot": 5})
EMPTY = {"valid": 0, "source": 0, "slot": 0, "generation": 0, "incarnation": 0}


@pytest.mark.parametrize("sets, ways", [(1, 1), (2, 3), (8, 2)])
def test_looks_and_updates(sets, ways):
    system = System.make(topology={"kind": "wire"}, ni={"sets": sets, "ways": ways})
    table, draw = ReceiveTable(system), random.Random(sets)

    async def process(ctx):
        rows = [[None] * ways for _ in range(sets)]
        looks: deque = deque([None, None])
        for cycle in range(2000):
            clears = cycle < sets or draw.random() < 0.01
            cleared = cycle if cycle < sets else draw.randrange(sets)
            updates = not clears and draw.random() < 0.6
            number, way = draw.randrange(sets), draw.randrange(ways)
            entry = {name: draw.randrange(2) for name in EMPTY} if updates else EMPTY
            # An entry that is put in its own place neither joins nor leaves; a set is cleared when all are empty.
            if clears and any(any(row) for row in rows):
                clears = False
            before = rows[number][way] is not None
            if updates and not entry["valid"] and not before:
                updates = False
            look = draw.randrange(sets)
            ctx.set(table.look.set, look)
            ctx.set(table.clear.valid, clears)
            ctx.set(table.clear.index, cleared)
            ctx.set(table.update.set, number)
            ctx.set(table.update.ways, updates << way)
            ctx.set(table.update.entry, entry)
            ctx.set(table.update.joins, updates and entry["valid"] and not before)
            ctx.set(table.update.leaves, updates and not entry["valid"])
            assert ctx.get(table.none) == (not any(any(row) for row in rows)), cycle
            if shown := looks.popleft():
                number_then, expected = shown
                for i, own in enumerate(ctx.get(table.look.entries)):
                    want = expected[i] or EMPTY
                    assert own["valid"] == want["valid"], (cycle, number_then)
                    assert not want["valid"] or all(own[name] == want[name] for name in EMPTY), (cycle, number_then)
            looks.append((look, list(rows[look])))
            if updates:
                rows[number][way] = entry if entry["valid"] else None
            await ctx.tick()

    simulator = Simulator(table)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()


@pytest.mark.parametrize("sets", [1, 2, 4, 8, 16, 32, 64])
def test_in_one_set_only_the_same_source_and_slot_are_the_same(sets):
    """Of all pairs of a set: by all of both records, not by the parts that are compared."""
    system = System.make(topology={"kind": "mesh", "columns": 4, "rows": 2}, ni={"slots": 32, "sets": sets})
    assert (system.format.node_bits, system.format.slot_bits) == (3, 5)
    m, one, other, same, number = Module(), Signal(KEY), Signal(KEY), Signal(), Signal(range(max(2, sets)))
    m.d.comb += [same.eq(same_key(system, one, other)), number.eq(set_of(system, one.source, one.slot))]

    async def process(ctx):
        of_set: dict[int, list[int]] = {}
        for key in range(1 << KEY.size):
            ctx.set(one.as_value(), key)
            of_set.setdefault(ctx.get(number), []).append(key)
        assert len(of_set) == sets
        for keys in of_set.values():
            for first in keys:
                ctx.set(one.as_value(), first)
                for second in keys:
                    ctx.set(other.as_value(), second)
                    assert ctx.get(same) == (first == second), (first, second)

    simulator = Simulator(m)
    simulator.add_testbench(process)
    simulator.run()

"""A word of the tree that acts in the very cycle of a walk's last row: RTL and golden model go on alike."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from lethe.spec import trace
from lethe.spec.events import Event
from lethe_sim.golden.model import Golden
from lethe_sim.golden.services.relay import walk
from lethe_sim.lockstep.block_groups import hostile_relay
from lethe_sim.lockstep.blocks import BlockGroup
from lethe_sim.lockstep.system_block import SystemBlock
from tests.helpers.relay_systems import relay_of

#: A word is offered so many cycles before it acts.
ACTS = 3
#: In which cycle it acts: 0 is that of the last row.
PLACES = range(-2, 2)
#: The bit of a relay's flags that says that the word is taken.
TREE_READY = 7


def told(target: int, **word: int) -> int:
    """A word for the tree: a route, or with code 1 a death."""
    fields = trace.fields(trace.STIMULUS_TREE)
    return sum(value << fields[name].shift for name, value in {"valid": 1, "target": target, **word}.items())


def script(golden: Golden):
    """What the host of node 0 offers in each cycle; it is sent whether that was taken.

    For each of `PLACES` a death, a route that acts at the end of its walk, and another death.  Nothing ever goes
    another way, so no walk has anything to tell, unless it is for all.
    """
    relay, route, death = relay_of(golden, 0), told(1, hop=1, way=2), told(1, code=1)

    def offered(word):
        while not (yield word):
            pass

    def quiet(cycles):
        for _ in range(cycles):
            yield 0

    while not relay.told:  # the first tree is the player's
        yield 0
    for word in (told(0, hop=0), route):
        yield from offered(word)
    for place in PLACES:
        yield from offered(death)
        # Without a message it passes over a record, and then a cell, in each cycle.
        while relay.walk_phase != walk.RECORDS or rest(relay) != ACTS - place:
            yield 0
        assert relay.walking
        yield from offered(route)
        yield from quiet(20)
        yield from offered(death)
        yield from quiet(150)


def rest(relay) -> int:
    """Cycles until that of the walk's last row."""
    return int(relay.entries - relay.walk_row + relay.cells - 1)


@pytest.mark.push
def test_a_route_that_is_written_at_the_end_of_a_walk():
    """The word belongs to the walk that ends: the next one is not for all, which would send node 1 a PULL."""
    system = hostile_relay()._system.replace(
        topology={"kind": "wire", "nodes": 0}, ni={"slots": 4}, faults={"loss": 0.0, "resets": ()},
        relay={"records": 64, "cells": 2},
    )  # fmt: skip
    block, golden, layout = SystemBlock(system), Golden(system, external=True), system.layout
    dut = BlockGroup({"block": block})
    flags = layout.service_base + system.services[0].flags
    rows, ends, shown = np.zeros((1, layout.words), np.uint64), [], []

    async def bench(ctx):
        relay, play = relay_of(golden, 0), script(golden)
        word = next(play)
        while True:
            stimulus = np.zeros((1, system.nodes * layout.stimulus_words), np.uint64)
            stimulus[0, layout.stimulus_words - 1] = word
            walked = int(relay.walking)
            golden.run(1, words=rows, stimulus=stimulus)
            ctx.set(dut.i, int.from_bytes(stimulus.tobytes(), "little"))
            expected = int.from_bytes(rows.tobytes(), "little")
            assert ctx.get(dut.o) & (1 << trace.WORD_BITS * layout.words) - 1 == expected, golden.cycle
            shown.extend(block.seen(expected))
            if walked and not relay.walking:
                ends.append(golden.cycle)
            await ctx.tick()
            try:
                word = play.send(int(rows[0, flags]) >> TREE_READY & 1)
            except StopIteration:
                return

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert len(ends) == 2 * len(PLACES) and shown.count(Event.RELAY_NOTICE.name) == 2 + 2 * len(PLACES)
    assert Event.RELAY_TOLD.name not in shown

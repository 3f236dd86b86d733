"""Two things that happen in the very same cycle: RTL and golden model go on alike."""

import random

import numpy as np
import pytest
from amaranth.sim import Simulator

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.services.relay import MODE, RelayJob
from lethe_sim.golden.compile import jit
from lethe_sim.golden.model import Golden
from lethe_sim.golden.services.relay import walk
from lethe_sim.golden.services.relay.state import HostIn, Moving, Of, slot_at
from lethe_sim.lockstep.block_groups import hostile_relay
from lethe_sim.lockstep.blocks import BlockGroup
from lethe_sim.lockstep.system_block import SystemBlock
from tests.helpers.relay_systems import relay_of

#: A word is offered so many cycles before it acts.
ACTS = 3
#: In which cycle it acts: 0 is that of the last row.
PLACES = range(-2, 2)
#: The bits of a relay's flags that say that a record, a beat, the word of the tree is taken.
SEND_READY, DATA_READY, TREE_READY = 0, 1, 7
#: The place of the tree's word in a stimulus: the last one.
TREE = -1


def word(fields, **values: int) -> int:
    """A word of a stimulus."""
    places = trace.fields(fields)
    return sum(value << places[name].shift for name, value in values.items())


def told(target: int, **values: int) -> int:
    """A word for the tree: a route, or with code 1 a death."""
    return word(trace.STIMULUS_TREE, valid=1, target=target, **values)


def until(bit: int, words: dict[int, int], node: int = 0):
    """Words are offered by the host of a node until this is taken."""
    while not (yield {node: words})[node] >> bit & 1:
        pass


def quiet(cycles: int):
    """Nothing is offered."""
    for _ in range(cycles):
        yield {}


def first_tree(relay):
    """The first tree is the player's."""
    while not relay.told:
        yield {}


def modelled(system: System, offers):
    """Runs the golden model; yields the model, the stimulus and the trace words of each cycle.

    ``offers`` is a generator function of the golden model.  For each cycle it yields the words that hosts offer, by
    their nodes and by their places in a stimulus, and is sent the flags of all relays.
    """
    golden, layout = Golden(system, external=True), system.layout
    flags = [layout.service_place(node, 0) + system.services[0].flags for node in range(system.nodes)]
    rows, offered = np.zeros((1, layout.words), np.uint64), offers(golden)
    words = next(offered)
    while True:
        stimulus = np.zeros((system.nodes, layout.stimulus_words), np.uint64)
        for node, given in words.items():
            for place, value in given.items():
                stimulus[node, place] = value
        golden.run(1, words=rows, stimulus=stimulus.reshape(1, -1))
        yield golden, stimulus, rows
        try:
            words = offered.send([int(rows[0, at]) for at in flags])
        except StopIteration:
            return


def played(system: System, offers) -> tuple[list[str], list[int]]:
    """Runs RTL and golden model in lockstep, with hosts as in `modelled`.

    Returns the events that are seen, and the cycles in which a walk of node 0 is over.
    """
    block, layout = SystemBlock(system), system.layout
    dut = BlockGroup({"block": block})
    ends, shown = [], []

    async def bench(ctx):
        walked = 0
        for golden, stimulus, rows in modelled(system, offers):
            ctx.set(dut.i, int.from_bytes(stimulus.tobytes(), "little"))
            expected = int.from_bytes(rows.tobytes(), "little")
            assert ctx.get(dut.o) & (1 << trace.WORD_BITS * layout.words) - 1 == expected, golden.cycle
            shown.extend(block.seen(expected))
            before, walked = walked, int(relay_of(golden, 0).walking)
            if before and not walked:
                ends.append(golden.cycle)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return shown, ends


def routes(golden: Golden):
    """Words for the tree of node 0.

    For each of `PLACES` a death, a route that acts at the end of its walk, and another death.  Nothing ever goes
    another way, so no walk has anything to tell, unless it is for all.
    """
    relay, route, death = relay_of(golden, 0), told(1, hop=1, way=2), told(1, code=1)
    yield from first_tree(relay)
    for one in (told(0, hop=0), route):
        yield from until(TREE_READY, {TREE: one})
    for place in PLACES:
        yield from until(TREE_READY, {TREE: death})
        # Without a message it passes over a record, and then a cell, in each cycle.
        while relay.walk_phase != walk.RECORDS or rest(relay) != ACTS - place:
            yield {}
        assert relay.walking
        yield from until(TREE_READY, {TREE: route})
        yield from quiet(20)
        yield from until(TREE_READY, {TREE: death})
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
    shown, ends = played(system, routes)
    assert len(ends) == 2 * len(PLACES) and shown.count(Event.RELAY_NOTICE.name) == 2 + 2 * len(PLACES)
    assert Event.RELAY_TOLD.name not in shown


def message(count: int, looked_at: set[int]):
    """``count`` messages of a beat, and another that becomes live while a walk for all passes over the slots.

    The death that it is for is that of a node that none of them goes to.  ``looked_at``: the rows that have a job.
    """

    def offers(golden: Golden):
        relay = relay_of(golden, 0)
        record = word(trace.STIMULUS_RECORD, destination=1, mode=MODE, length=8)
        sends, beats = ({trace.STIMULUS_FLAGS: 1 << bit, trace.STIMULUS_RECORD_WORD: record} for bit in range(2))
        yield from first_tree(relay)
        for _ in range(count):
            yield from until(SEND_READY, sends)
            yield from until(DATA_READY, beats)
            while relay.live or relay.host != HostIn.IDLE:
                yield {}
        for node in (0, 1):
            yield from until(TREE_READY, {TREE: told(node, hop=node)})
        yield from until(SEND_READY, sends)
        # The death is heard of while the beat comes: the message is given behind it, and its walk begins meanwhile.
        death = {TREE: told(2, code=1, promoted=1)}
        yield from until(DATA_READY, beats | death)
        assert relay.host == HostIn.STORED and relay.live == 0
        while not relay.walking:
            yield {}
        while relay.walking:
            if relay.job == RelayJob.WALK:
                looked_at.add(int(relay.walk_row))
            yield {}

    return offers


@pytest.mark.push
@pytest.mark.parametrize("count", range(2, 6))
def test_a_slot_that_becomes_live_before_its_row(count):
    """The row has its turn in the cycle behind that one: it is passed over; a cycle later it is told of."""
    system = hostile_relay()._system.replace(
        faults={"loss": 0.0, "resets": ()}, relay={"radix": 0, "slots": 8, "cells": 8},
    )  # fmt: skip
    looked_at: set[int] = set()
    played(system, message(count, looked_at))
    assert looked_at == ({count} if count >= 4 else set())


@jit
def live(relay, row):
    return slot_at(relay, row).live


def acked(row: int, delay: int, late: set[int]):
    """The root (0) sends a message to node 1 from slot ``row``; ``delay`` cycles later that node is told of a death.

    The notice says that node 1 is promoted, so it tells the root PULL, and the root walks.  ``delay`` is put into
    ``late`` if that walk has a job for the slot of a message that has ended.
    """

    def offers(golden: Golden):
        record = word(trace.STIMULUS_RECORD, destination=1, mode=MODE, length=8)
        sends, beats = ({trace.STIMULUS_FLAGS: 1 << bit, trace.STIMULUS_RECORD_WORD: record} for bit in range(2))
        relays = [relay_of(golden, node) for node in range(2)]
        while not all(relay.told for relay in relays):
            yield {}
        trees = ({0: (0, 0), 1: (1, 2), 2: (2, 3)}, {0: (0, 1), 1: (1, 0), 2: (0, 1)})
        for node, tree in enumerate(trees):
            for target, (hop, way) in tree.items():
                yield from until(TREE_READY, {TREE: told(target, hop=hop, way=way)}, node)
            yield from until(TREE_READY, {TREE: told(node, code=1)}, node)
        for target, (hop, way) in trees[1].items():
            yield from until(TREE_READY, {TREE: told(target, hop=hop, way=way)}, 1)
        for _ in range(row + 1):  # the walk passes over the slots before ``row`` while ACKED is heard
            while relays[0].live or relays[0].host != HostIn.IDLE:
                yield {}
            yield from until(SEND_READY, sends)
            yield from until(DATA_READY, beats)
        yield from quiet(delay)
        yield from until(TREE_READY, {TREE: told(2, code=1, promoted=1)}, 1)
        for _ in range(150):
            if relays[0].job == RelayJob.WALK and not live(relays[0], int(relays[0].walk_row)):
                late.add(delay)
            yield {}

    return offers


@pytest.mark.push
def test_a_job_for_a_slot_whose_message_has_just_ended():
    """ACKED acts in the cycle before the job begins.  The job then does nothing; else it would tell LINK."""
    system = hostile_relay()._system.replace(
        topology={"kind": "crossbar", "nodes": 3}, faults={"loss": 0.0, "resets": ()},
        relay={"radix": 2, "slots": 8, "cells": 8},
    )  # fmt: skip
    late: set[int] = set()
    for delay in range(16, 40):
        for _ in modelled(system, acked(3, delay, late)):
            pass
    assert late
    played(system, acked(3, min(late), set()))


def seldom_taken(count: int, met: list[int]):
    """Node 0 sends ``count`` messages to node 1, whose host seldom takes one: what waits for a cell is sent again.

    ``met``: the cycles in which a message ended as the last beat of its slot went out.
    """

    def offers(golden: Golden):
        relay, chance = relay_of(golden, 0), random.Random(0)
        stall, moving, flags = 1 << trace.STIMULUS_BITS.index("deliver_stall"), None, None

        def offered():
            while not all(relay_of(golden, node).told for node in range(2)):
                yield {}
            for number in range(count):
                length = (64, 8)[number % 2]
                record = word(trace.STIMULUS_RECORD, destination=1, mode=MODE, length=length)
                sends, beats = (
                    {trace.STIMULUS_FLAGS: 1 << bit, trace.STIMULUS_RECORD_WORD: record} for bit in range(2)
                )
                yield from until(SEND_READY, sends)
                for _ in range(length // 8):
                    yield from until(DATA_READY, beats)
            yield from quiet(200)

        inner = offered()
        while True:
            try:
                words = inner.send(flags)
            except StopIteration:
                return
            takes = chance.random() >= 0.97 and golden.cycle // 60 % 2 == 0
            slot = int(relay.moving_number) if relay.moving != Moving.IDLE and relay.moving_of == Of.SLOT else None
            if moving is not None and relay.moving == Moving.IDLE and not live(relay, moving):
                met.append(golden.cycle)
            moving = slot if slot is not None and live(relay, slot) else None
            flags = yield words if takes else words | {1: {trace.STIMULUS_FLAGS: stall}}

    return offers


@pytest.mark.push
def test_a_message_that_ends_as_its_slot_has_gone_out_once_more():
    """Its slot is free again, as it would be a cycle sooner or later: all four are used from then on."""
    system = hostile_relay()._system.replace(
        topology={"kind": "wire", "nodes": 0}, faults={"loss": 0.0, "resets": ()},
        relay={"radix": 0, "slots": 4, "window": 4, "cells": 3},
    )  # fmt: skip
    met: list[int] = []
    played(system, seldom_taken(24, met))
    assert met


def changes_its_mind(length: int, states: list[HostIn]):
    """A host offers a message, and then a record of ``length`` bytes; as it is judged the message is offered again.

    ``states``: host in, in that cycle and behind it.
    """

    def offers(golden: Golden):
        relay = relay_of(golden, 0)
        message, other = (
            {trace.STIMULUS_FLAGS: 1, trace.STIMULUS_RECORD_WORD: word(trace.STIMULUS_RECORD, destination=1, **given)}
            for given in ({"mode": MODE, "length": 8}, {"length": length})
        )
        yield from first_tree(relay)
        while relay.job != RelayJob.HOST:
            yield {0: message}
        yield {0: other}
        yield {}
        states.append(HostIn(relay.host))
        yield {0: message}
        states.append(HostIn(relay.host))
        yield from quiet(40)

    return offers


@pytest.mark.push
@pytest.mark.parametrize("length, states", [(16, [HostIn.PASS] * 2), (0, [HostIn.IDLE, HostIn.STORE])])
def test_a_message_that_is_offered_again_behind_a_record(length, states):
    """It is not taken while beats pass, which are not its own; behind a record without beats it is."""
    system = hostile_relay()._system.replace(
        topology={"kind": "wire", "nodes": 0}, faults={"loss": 0.0, "resets": ()}, relay={"slots": 4},
    )  # fmt: skip
    met: list[HostIn] = []
    played(system, changes_its_mind(length, met))
    assert met == states

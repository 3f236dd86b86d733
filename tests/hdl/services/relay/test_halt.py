"""Bits that turn over in a relay's memory: RTL and golden model halt in the same cycle, and no wrong beat goes on."""

import itertools

import numpy as np
import pytest
from amaranth.hdl import Shape
from amaranth.lib.memory import Memory
from amaranth.sim import Simulator

from lethe.lib import memory
from lethe.spec.events import Event
from lethe.spec.wire import CRC8
from lethe_sim.golden.link import crc
from lethe_sim.golden.model import Golden
from lethe_sim.lockstep import system_block
from lethe_sim.lockstep.block_groups import hostile_relay
from lethe_sim.lockstep.blocks import BlockGroup
from lethe_sim.lockstep.system_block import SystemBlock
from tests.helpers.relay_systems import relay_of

#: The memories; how often a bit of each beat of one turns over.
WHERE, EVERY = ("slots", "buffers", "cells"), 7
#: A seed of the hosts, the first cycle in which bits turn over, and the last.  With the first, three nodes halt soon;
#: with the other, all three memories are read; node 1 is reset in cycle 1,500, and begins anew.
QUICK, LONG = (0, 40, 180), (10, 300, 1700)


def checked() -> SystemBlock:
    """The hostile system with CRCs."""
    return SystemBlock(hostile_relay()._system.replace(relay={"crc": True}))


class Turned:
    """Turns a bit of every beat of the memories of one kind, in the golden model and in the RTL."""

    def __init__(self, monkeypatch, block: SystemBlock, where: str):
        relay = block._system.relay
        self._nodes, self._where, self._depth = block._system.nodes, where, getattr(relay, where)
        self._golden: list[Golden] = []
        self._stores: list[Memory] = []
        shape = (self._depth << 2, 72)  # with the CRCs
        made, kept = system_block.Golden, self._golden

        def golden(*given, **named):
            kept.append(made(*given, **named))
            return kept[-1]

        monkeypatch.setattr(system_block, "Golden", golden)
        found = self._stores

        class Kept(Memory):
            def __init__(self, **named):
                super().__init__(**named)
                if (named["depth"], Shape.cast(named["shape"]).width) == shape:
                    found.append(self)

        monkeypatch.setattr(memory, "Memory", Kept)
        made_ram, rams = memory.Ram.__init__, []
        self._rams = rams

        def kept_ram(ram, shape_of_word, depth, **named):
            made_ram(ram, shape_of_word, depth, **named)
            if (depth, Shape.cast(shape_of_word).width) == shape:
                rams.append(ram)

        monkeypatch.setattr(memory.Ram, "__init__", kept_ram)

    def golden(self) -> None:
        for node in range(self._nodes):
            k, _, words = self._golden[0].memory(node)
            relay = relay_of(self._golden[0], node)
            first = int(k.rooms[0].at_data) + int({
                "slots": relay.at_slot_words, "buffers": relay.at_buffer_words, "cells": relay.at_cell_words
            }[self._where])  # fmt: skip
            words[first : first + 2 * self._depth * int(relay.cell_beats) : 2] ^= np.uint64(1 << 17)

    def rtl(self, ctx) -> None:
        assert len(self._stores) == len(self._rams) == self._nodes
        for row in itertools.chain.from_iterable(store.data for store in self._stores):
            ctx.set(row, ctx.get(row) ^ 1 << 17)
        # A beat that the golden model has stored is still in the register before the memory.
        for ram in self._rams:
            ctx.set(ram.write_data, ctx.get(ram.write_data) ^ 1 << 17)


@pytest.mark.parametrize(
    ("where", "run"),
    [
        pytest.param("cells", QUICK, marks=pytest.mark.push),
        *(pytest.param(where, LONG, marks=pytest.mark.full) for where in WHERE),
    ],
    ids=["quick", *WHERE],
)
def test_rtl_and_golden_model_halt_alike(where, run, monkeypatch):
    """Trace words and host ports of all nodes, in every cycle, through resets of those that have halted."""
    block, (seed, first, cycles) = checked(), run
    turned, found = Turned(monkeypatch, block, where), []
    dut = BlockGroup({"block": block})

    async def bench(ctx):
        play = block.play(seed)
        for cycle in range(cycles):
            if cycle >= first and cycle % EVERY == 0:
                turned.golden()
                turned.rtl(ctx)
            given, expected = next(play)
            ctx.set(dut.i, given)
            assert ctx.get(dut.o) == expected, f"they part in cycle {cycle}"
            found.extend((cycle, event) for event in block.seen(expected))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    halts = [cycle for cycle, event in found if event == Event.RELAY_HALT.name]
    assert halts and min(halts) > first
    if run == QUICK:
        assert len(halts) >= 3
        return
    resets = [cycle for cycle, event in found if event == Event.RELAY_RESET.name]
    assert any(cycle > min(halts) for cycle in resets)


def test_a_beat_and_its_crc_differ_from_all_others_in_four_bits():
    """Of 64 bits: no bit reaches the CRC as another does or as a bit of it, and any codeword has even weight."""
    columns = [CRC8.update(0, 1 << bit, 64) for bit in range(64)]
    columns += [1 << bit for bit in range(8)]
    assert len(set(columns)) == 72 and 0 not in columns
    assert not any(a ^ b ^ c == 0 for a, b, c in itertools.combinations(columns, 3))


@pytest.mark.parametrize("bits", [16, 32, 64, 128])
def test_the_golden_model_has_the_same_crc(bits):
    for value in (0, 1, (1 << bits) - 1, 0x0123_4567_89AB_CDEF_0F1E_2D3C_4B5A_6978 % (1 << bits)):
        low, high = np.uint64(value & (1 << 64) - 1), np.uint64(value >> 64)
        assert crc.crc8_flit(low, high, bits) == CRC8.of(value, bits)

"""The XOR matrices against the bit-serial definition."""

import random

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from lethe.link.crc import crc_advance, crc_data, crc_of, crc_update
from lethe.spec.wire import CRC16, CRC32


@pytest.mark.parametrize("bits", [16, 32, 48, 64, 112, 128])
@pytest.mark.parametrize("crc", [CRC16, CRC32], ids=["crc16", "crc32"])
def test_matrix(crc, bits):
    m = Module()
    state, data = Signal(crc.width), Signal(bits)
    after, whole, alone, shifted = (Signal(crc.width, name=n) for n in ("after", "whole", "alone", "shifted"))
    m.d.comb += [
        after.eq(crc_update(crc, state, data)),
        whole.eq(crc_of(crc, data)),
        alone.eq(crc_data(crc, data)),
        shifted.eq(crc_advance(crc, state, bits)),
    ]
    draw = random.Random(bits)

    async def process(ctx):
        for _ in range(50):
            s, d = draw.getrandbits(crc.width), draw.getrandbits(bits)
            ctx.set(state, s)
            ctx.set(data, d)
            await ctx.delay(1e-9)
            assert ctx.get(after) == crc.update(s, d, bits)
            assert ctx.get(whole) == crc.of(d, bits)
            assert ctx.get(alone) == crc.update(0, d, bits)
            assert ctx.get(shifted) == crc.update(s, 0, bits)

    simulator = Simulator(m)
    simulator.add_testbench(process)
    simulator.run()

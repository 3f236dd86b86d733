"""The generator's datagrams, and what the checker sees (cycle contract, section 5)."""

import random

import pytest
from amaranth.sim import Simulator

from lethe.spec.config import System
from lethe.spec.random import UNIT_GENERATOR, advance, scale, seed_for
from lethe.traffic.checker import LATE, Checker
from lethe.traffic.generator import Generator


def configured(flit_bits: int = 64, **workload) -> System:
    return System.make(
        topology={"kind": "tree", "arity": 2, "levels": 2},
        wire={"flit_bits": flit_bits, "mtu": 70, "generation_bits": 20},
        workload={"count": 25, "min_length": 4, "max_length": 70, **workload},
    )


def payload(number: int, node: int, length: int) -> bytes:
    """Section 5, word by word."""
    key = (number & 0xFFFFF) << 12 | node
    text = b""
    for i in range(-(-length // 4)):
        word = key ^ (i & 0xFF) * 0x01010101
        text += (word ^ (0xFFFF_FFFF if i & 1 else 0)).to_bytes(4, "little")
    return text[:length]


def beats(text: bytes, flit_bytes: int) -> list[int]:
    return [int.from_bytes(text[i : i + flit_bytes], "little") for i in range(0, len(text), flit_bytes)]


@pytest.mark.parametrize("flit_bits", [16, 32, 64, 128])
@pytest.mark.parametrize("load", [1.0, 0.3])
def test_records_gaps_and_payloads(flit_bits, load):
    system = configured(flit_bits, load=load)
    node = 2
    dut = Generator(system)
    resets = set(range(140, 143)) | {300}

    async def testbench(ctx):
        rng = random.Random(flit_bits)
        ctx.set(dut.node, node)
        ctx.set(dut.seed, seed_for(system.run.seed, UNIT_GENERATOR, node))
        state = seed_for(system.run.seed, UNIT_GENERATOR, node)
        mode, number, index, gap, sums = "Start", 0, 0, 0, 0
        destination, length, words = 0, 0, []
        for cycle in range(6000):
            reset, ready = cycle in resets, cycle >= 4 and cycle not in resets
            take = rng.random() < 0.8 and not reset
            ctx.set(dut.ready, ready)
            ctx.set(dut.node_reset, reset)
            ctx.set(dut.send.ready, take)
            ctx.set(dut.send_data.ready, take)
            assert ctx.get(dut.send.valid) == (mode == "Record")
            assert ctx.get(dut.send_data.valid) == (mode == "Data")
            assert ctx.get(dut.sent) == number
            assert ctx.get(dut.sent_sum) == sums & 0xFFFF_FFFF
            if mode == "Record":
                record = ctx.get(dut.send.payload)
                assert (record.destination, record.length, record.tag) == (destination, length, number)
            if mode == "Data":
                assert ctx.get(dut.send_data.payload) == words[index]
            await ctx.tick()
            if mode == "Start" and number == 25:
                mode = "Done"
            elif mode == "Start" and ready:
                state = advance(state)
                destination = scale(state & 0xFFFF, 16, system.nodes - 1)
                destination += destination >= node
                gap = system.gaps[state >> 16 & 0xFF]
                length = 4 + scale(state >> 24, 8, 67)
                words = beats(payload(number, node, length), flit_bits // 8)
                mode = "Gap" if gap else "Record"
            elif mode == "Gap":
                gap -= 1
                mode = "Gap" if gap else "Record"
            elif mode in ("Record", "Data") and reset:
                mode = "Record"
            elif mode == "Record" and take:
                mode, index = "Data", 0
            elif mode == "Data" and take:
                index += 1
                if index == len(words):
                    mode = "Start"
                    sums += number << 12 | node
                    number += 1
            if mode == "Done":
                break
        assert mode == "Done"
        await ctx.tick()
        assert ctx.get(dut.done)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def test_stop_ends_the_traffic():
    dut = Generator(configured(count=0, load=1.0))

    async def testbench(ctx):
        ctx.set(dut.ready, 1)
        ctx.set(dut.seed, 1)
        ctx.set(dut.send.ready, 1)
        ctx.set(dut.send_data.ready, 1)
        await ctx.tick().repeat(60)
        assert not ctx.get(dut.done)
        ctx.set(dut.stopped, 1)
        await ctx.tick().repeat(20)
        assert ctx.get(dut.done)
        sent = ctx.get(dut.sent)
        await ctx.tick().repeat(20)
        assert ctx.get(dut.sent) == sent > 0

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize("flit_bits", [16, 32, 64, 128])
def test_checker_takes_and_judges(flit_bits):
    """Good datagrams are summed up, one altered bit anywhere is seen, a reset forgets, a stall takes nothing."""
    dut = Checker(configured(flit_bits))

    async def testbench(ctx):
        rng = random.Random(flit_bits)
        received = sums = wrong = 0

        async def pause(stalled=False):
            ctx.set(dut.deliver.valid, stalled)
            ctx.set(dut.deliver_data.valid, stalled)
            ctx.set(dut.stalled, stalled)
            if stalled:
                assert not ctx.get(dut.deliver.ready) and not ctx.get(dut.deliver_data.ready)
            await ctx.tick()
            ctx.set(dut.stalled, 0)

        for number in range(80):
            node, length = rng.randrange(4), rng.randrange(4, 71)
            words = beats(payload(number, node, length), flit_bits // 8)
            altered = number % 5 == 4
            if altered:
                # Not in the key, and not where only the key itself would be judged against itself.
                at = rng.randrange(32, flit_bits * len(words)) if flit_bits * len(words) > 32 else None
                if at is None:
                    continue
                words[at // flit_bits] ^= 1 << at % flit_bits
            await pause(stalled=rng.random() < 0.5)
            ctx.set(dut.deliver.valid, 1)
            ctx.set(dut.deliver.payload.length, length)
            assert ctx.get(dut.deliver.ready) and not ctx.get(dut.deliver_data.ready)
            await ctx.tick()
            ctx.set(dut.deliver.valid, 0)
            broken = number % 7 == 6
            for i, word in enumerate(words):
                if rng.random() < 0.3:
                    await pause(stalled=rng.random() < 0.5)
                if broken:
                    ctx.set(dut.node_reset, 1)
                    await ctx.tick()
                    ctx.set(dut.node_reset, 0)
                    break
                ctx.set(dut.deliver_data.valid, 1)
                ctx.set(dut.deliver_data.payload.data, word)
                ctx.set(dut.deliver_data.payload.last, i == len(words) - 1)
                assert ctx.get(dut.deliver_data.ready) and not ctx.get(dut.deliver.ready)
                await ctx.tick()
                ctx.set(dut.deliver_data.valid, 0)
            if not broken:
                received, sums, wrong = received + 1, sums + (number << 12 | node), wrong + altered
        await ctx.tick().repeat(LATE)
        assert ctx.get(dut.received) == received
        assert ctx.get(dut.wrong) == wrong > 0
        assert ctx.get(dut.received_sum) == sums & 0xFFFF_FFFF

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()

"""Whole systems: everything arrives once, watch and stimulus words are where section 7 and 8 put them."""

import pytest
from amaranth.sim import Simulator

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Counter, Event, RouterCounter
from lethe.system import SystemTop

SMALL = {
    "wire": {"mtu": 16},
    "ni": {"slots": 2, "sets": 2, "ways": 2},
    "timers": {"wrap_guard": 0, "backoff_steps": 2, "timer_depth": 8},
    "workload": {"count": 3, "load": 1.0, "min_length": 5, "max_length": 16},
}


def simulate(top: SystemTop, testbench) -> None:
    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


def word(watch: int, number: int) -> int:
    return watch >> 64 * number & trace.MASK64


def test_every_datagram_arrives_once_although_worms_are_lost():
    system = System.make(
        topology={"kind": "tree", "arity": 2, "levels": 1},
        faults={"loss": 0.1, "resets": [], "stalls": [{"node": 1, "start": 40, "end": 80}]},
        **SMALL,
    )
    top = SystemTop(system)
    forwarded = [0]

    async def testbench(ctx):
        taken_while_stalled = 0
        base = system.layout.router_base(0)
        for cycle in range(3000):
            watch = ctx.get(top.watch)
            forwarded[0] += sum(word(watch, base + port) & 0xFF == Event.FORWARD for port in range(2))
            take = word(watch, system.layout.ni_words + 2 * 4)
            taken_while_stalled += 40 <= cycle < 80 and take != 0
            await ctx.tick()
            if ctx.get(top.ok):
                break
        assert ctx.get(top.done) and ctx.get(top.idle) and ctx.get(top.ok)
        assert ctx.get(top.sent) == ctx.get(top.received) == 6
        assert ctx.get(top.sent_sum) == ctx.get(top.received_sum) > 0
        assert ctx.get(top.wrong) == taken_while_stalled == 0

        async def counter(address: int) -> int:
            ctx.set(top.counter_address, address)
            await ctx.tick().repeat(2)
            return ctx.get(top.counter_data)

        await ctx.tick().repeat(3)
        delivered = [await counter(node * system.counter_step + Counter.DELIVERED) for node in range(2)]
        assert sum(delivered) == 6
        assert await counter(2 * system.counter_step + RouterCounter.FORWARDED) == forwarded[0] > 12

    simulate(top, testbench)


def test_a_system_without_schedule_is_idle_after_reset_and_stimulus_drives_it():
    system = System.make(topology={"kind": "wire"}, **SMALL)
    top = SystemTop(system, host="stimulus")
    payload = [0x1122_3344_5566_7788, 0x99]

    def stimulus(node: int, words: dict[int, int]) -> int:
        return sum(value << 64 * (node * system.layout.stimulus_words + at) for at, value in words.items())

    async def testbench(ctx):
        def flag(name: str, node: int) -> int:
            flags = word(ctx.get(top.watch), node * system.layout.ni_words + trace.NI_FLAGS)
            return flags >> trace.NI_FLAG_BITS.index(name) & 1

        await ctx.tick().repeat(8)
        assert ctx.get(top.idle)
        record = 1 | 9 << 32 | 0x77 << 48  # to node 1, 9 bytes, tag 0x77
        while not flag("send.ready", 0):
            await ctx.tick()
        ctx.set(top.stimulus, stimulus(0, {0: 1, 1: record}))
        await ctx.tick()
        for beat in payload:
            ctx.set(top.stimulus, stimulus(0, {0: 2, 3: beat}) | stimulus(1, {0: 1 << 5}))
            assert flag("send_data.ready", 0)
            await ctx.tick()
        ctx.set(top.stimulus, stimulus(1, {0: 1 << 5}))  # node 1's deliver ports stall
        seen = []
        for cycle in range(60):
            if cycle == 40:
                assert flag("deliver.valid", 1) and flag("deliver_data.valid", 1)
                ctx.set(top.stimulus, 0)
            watch = ctx.get(top.watch)
            if flag("deliver_data.valid", 1) and cycle >= 40:
                seen.append(word(watch, system.layout.ni_words + trace.NI_BEAT))
            await ctx.tick()
        assert seen == payload
        assert ctx.get(top.idle)

    simulate(top, testbench)


def test_an_unknown_host_is_refused():
    with pytest.raises(ValueError, match="host must be one of generator, stimulus, ports, not 'nobody'"):
        SystemTop(System.make(topology={"kind": "wire"}), host="nobody")

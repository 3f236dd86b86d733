"""Whole systems: everything arrives once, watch and stimulus words are where section 7 and 8 put them."""

import pytest
from amaranth.sim import Simulator

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import ROUTER_COUNTER_STEP, Counter, Event, LoopCounter, RouterCounter
from lethe.spec.services.loop import LOOP
from lethe.statistics import LATENCY
from lethe.system import SystemTop

SMALL = {
    "wire": {"mtu": 16},
    "ni": {"slots": 2, "sets": 2, "ways": 2},
    "timers": {"wrap_guard": 0, "backoff_steps": 2, "timer_depth": 9},
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
            await ctx.tick().repeat(LATENCY + 1)
            return ctx.get(top.counter_data)

        await ctx.tick().repeat(3)
        delivered = [await counter(node * system.counter_step + Counter.DELIVERED) for node in range(2)]
        assert sum(delivered) == 6
        assert await counter(2 * system.counter_step + RouterCounter.FORWARDED) == forwarded[0] > 12

    simulate(top, testbench)


@pytest.mark.push
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


@pytest.mark.push
def test_a_system_with_services_has_their_words_counters_and_resets():
    """Node 1 sends to itself; a reset of its NI leaves what is delivered, one of the node says what it loses."""
    system = System.make(
        topology={"kind": "tree", "arity": 2, "levels": 1},
        faults={
            "resets": [
                {"node": 1, "start": 40, "cycles": 3, "scope": "ni"},
                {"node": 1, "start": 60, "cycles": 3},
            ]
        },
        loop={"slots": 2},
        **SMALL,
    )
    layout = system.layout
    top = SystemTop(system, host="stimulus")
    stalls = 0b1100 << trace.STREAMS_STALL.shift  # the record and the beats of the second deliver FIFO, the loop's
    seen = []

    async def testbench(ctx):
        ctx.set(top.stimulus, stalls << trace.WORD_BITS * layout.stimulus_words)
        for cycle in range(80):
            if cycle in (10, 11):
                offers = [1 | stalls, 1 | 8 << 32 | 7 << 48] if cycle == 10 else [2 | stalls, 0, 0, 77]
                words = sum(value << trace.WORD_BITS * at for at, value in enumerate(offers))
                ctx.set(top.stimulus, words << trace.WORD_BITS * layout.stimulus_words)
            if cycle == 12:
                ctx.set(top.stimulus, stalls << trace.WORD_BITS * layout.stimulus_words)
            watch = ctx.get(top.watch)
            for node in range(2):
                base = layout.service_base + node * layout.service_words
                seen.extend(
                    (cycle, node, Event(trace.EVENT.of(at)), trace.LENGTH.of(at))
                    for at in (word(watch, base + 2 * lane) for lane in range(3))
                    if at
                )
                if cycle in (20, 50, 70) and node:
                    flags, beat = word(watch, base + LOOP.flags), word(watch, base + LOOP.flags + 1)
                    assert bool(flags >> LOOP.flag_bits.index("deliver_loop.valid") & 1) == (cycle != 70)
                    assert beat == (77 if cycle != 70 else 0)
            assert ctx.get(top.idle) == (cycle >= 2 and not 11 <= cycle < 65 and cycle not in range(60, 65))
            await ctx.tick()

        async def counter(address: int) -> int:
            ctx.set(top.counter_address, address)
            await ctx.tick().repeat(LATENCY + 1)
            return ctx.get(top.counter_data)

        first = 2 * system.counter_step + ROUTER_COUNTER_STEP
        for node in range(2):
            address = first + node * system.service_counter_step
            assert [await counter(address + c) for c in LoopCounter] == [node, node, 0]

    simulate(top, testbench)
    assert seen == [
        (12, 1, Event.LOOPED, 8), (14, 1, Event.LOOP_COMPLETE, 0), (60, 1, Event.LOOP_RESET, 1),
    ]  # fmt: skip


@pytest.mark.push
def test_generators_and_checkers_play_on_a_stack():
    """They never send to themselves, and the loop is in nobody's way."""
    system = System.make(topology={"kind": "wire"}, faults={"loss": 0.1}, loop={"slots": 3}, **SMALL)
    top = SystemTop(system)

    async def testbench(ctx):
        await ctx.tick().until(top.ok)
        assert ctx.get(top.sent) == ctx.get(top.received) == 6

    simulate(top, testbench)


def test_an_unknown_host_is_refused():
    with pytest.raises(ValueError, match="host must be one of generator, stimulus, ports, not 'nobody'"):
        SystemTop(System.make(topology={"kind": "wire"}), host="nobody")

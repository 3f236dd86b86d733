"""Measured round trips against section 4.6.1: the block alone, and the repeats of two NIs."""

import random
from collections import deque

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.sim import Simulator

from lethe.ni.round_trip import RoundTrip
from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.events import Event, Kind
from tests.helpers.ni_bench import Bench
from tests.helpers.tiers import but

TREE = {"kind": "tree", "arity": 2, "levels": 3}


class Numbers:
    """S, V and T of one distance class, in the contract's words."""

    def __init__(self, system, distance):
        self.lowest, self.ceiling = system.delays[distance], system.ceiling
        self.s, self.v, self.t = 8 * (self.lowest - system.slack), system.slack, self.lowest

    def sample(self, m):
        e = m - self.s // 8
        self.s += e
        self.v += abs(e) - self.v // 4
        self.t = min(max(self.s // 8 + self.v, self.lowest), self.ceiling)


def doubled(system, t, tries):
    """The delay of a token whose pair has time-out ``t``."""
    s = min(tries, system.timers.backoff_steps)
    while t << s > system.ceiling:
        s -= 1
    return t << s


BLOCKS = [
    (TREE, 300, 3, 1, 4),
    ({"kind": "mesh", "columns": 3, "rows": 2}, 1000, 0, 3, 5),
    ({"kind": "wire"}, 0, 6, 2, 2),  # 0 stands for the first time-out: no other is possible
    ({"kind": "tree", "arity": 2, "levels": 2}, 65536, 2, 8, 3),
]


@pytest.mark.parametrize("topology, ceiling, steps, try_bits, slots", but([BLOCKS[0], BLOCKS[2]], BLOCKS))
def test_block(topology, ceiling, steps, try_bits, slots):
    """Samples back to back, of one class and of many; ages of 0, at the ceiling, beyond it, over the end of time."""
    timers = {"backoff_steps": steps, "jitter_bits": 0, "wrap_guard": 0}
    system = System.make(
        topology=topology,
        ni={"slots": slots, "sets": 2, "deadline_bits": 8},
        wire={"try_bits": try_bits, "generation_bits": 20},
        timers={**timers, "slack": 40},
    )
    ceiling = ceiling or max(system.delays[: system.graph.distance_classes])
    system = system.replace(timers={"ceiling": ceiling})
    classes, period = system.graph.distance_classes, 1 << system.time_bits
    m, reset = Module(), Signal()
    block = RoundTrip(system)
    m.submodules.block = ResetInserter(reset)(block)
    draw = random.Random(ceiling)
    samples, waits, resets = [], set(), 0

    async def process(ctx):
        nonlocal resets
        stamps = [(0, 0)] * slots
        numbers = [Numbers(system, q) for q in range(classes)]
        used = [n.t for n in numbers]
        late = deque([[]] * (stages.MEASURED - 1))  # the numbers to be used after 10 cycles, 9, ...
        acks = deque([(0, 0)] * 3)  # class and step of what acts in 3 cycles, 2, ...
        time, clearing, walks = period - 1000, 0, False
        other = other_step = newest = quiet = 0
        for cycle in range(12000):
            # Phases of any ages, of 0, and beyond the ceiling; time may jump, for it is only an input.
            phase = ("any", "young", "any", "old")[cycle // 500 % 4]
            advance = phase != "young" and draw.random() < 0.9
            restart = draw.random() < 0.001
            walked, walks, clearing = walks, clearing > 0, max(0, clearing - 1)
            stamp = not walks and not restart and draw.random() < {"any": 0.3, "young": 0.9, "old": 0.02}[phase]
            # Often what was stamped in the cycle before.
            slot = draw.choice((newest, draw.randrange(slots)))
            newest = stamped_slot = draw.choice((slot, draw.randrange(slots)))
            tried, echo = draw.randrange(1 << try_bits), draw.randrange(1 << try_bits)
            if draw.random() < 0.8:
                echo = stamps[slot][1]
            # In the first cycle after the walk no slot is live.
            released = not (walks or walked) and draw.random() < 0.8
            acks.append((draw.randrange(classes), draw.randint(0, steps)))
            after_other, after_step = draw.randrange(classes), draw.randint(0, steps)
            distance, step = acks.popleft()
            ctx.set(reset, restart)
            for port, value in (
                (block.time_base, time),
                (block.clear.valid, walks), (block.clear.index, clearing % slots),
                (block.stamp.valid, stamp), (block.stamp.slot, stamped_slot), (block.stamp.try_, tried),
                (block.release.valid, released), (block.release.slot, slot), (block.release.try_, echo),
                (block.send.distance, after_other), (block.send.step, after_step),
                (block.ack.distance, acks[-1][0]), (block.ack.step, acks[-1][1]),
            ):  # fmt: skip
                ctx.set(port, value)

            late.append([])
            if released and not restart and echo == stamps[slot][1]:
                sample = min((time - stamps[slot][0]) % period, ceiling)
                numbers[distance].sample(sample)
                late[-1].append((distance, numbers[distance].t))
                samples.append(sample)
            # Nothing is pushed in the first cycles or right after a reset.
            quiet = 0 if walks > walked else quiet + 1
            if quiet > 3:
                assert ctx.get(block.send.delay) == doubled(system, used[other], other_step) - 1, cycle
                assert ctx.get(block.ack.delay) == doubled(system, used[distance], step) - 1, cycle
            waits.add(used[distance])

            if stamp:
                stamps[stamped_slot] = time, tried
            if walks:
                stamps[clearing % slots] = 0, 0
            for q, t in late.popleft():
                used[q] = t
            if restart:
                resets += 1
                numbers = [Numbers(system, q) for q in range(classes)]
                used, late = [n.t for n in numbers], deque([[]] * (stages.MEASURED - 1))
                acks = deque([(0, 0)] * 3)
                clearing = slots
            jumps = phase == "old" and not stamp and draw.random() < 0.2
            time = (time + (draw.randrange(4 * ceiling) if jumps else advance)) % period
            other, other_step = after_other, after_step
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
    assert resets > 1
    assert {0, 1, ceiling} <= set(samples) and len(samples) > 3000
    assert {min(system.delays), ceiling} <= waits


def test_no_block_without_a_ceiling():
    system = System.make()
    with pytest.raises(ValueError, match=r"timers.ceiling must not be 0"):
        RoundTrip(system)


@pytest.mark.push
def test_repeats_come_after_the_measured_time():
    """One datagram at a time over a link whose latency varies; Sends and Forgets are lost, so both ladders repeat."""
    system = System.make(
        topology={"kind": "wire"},
        ni={"slots": 4, "sets": 2, "ways": 2},
        timers={"slack": 60, "ceiling": 300, "backoff_steps": 2, "jitter_bits": 0},
        wire={"generation_bits": 16},
    )
    draw, losing = random.Random(4), [False, False]
    lines = [deque(), deque()]
    nothing = {"valid": 0, "first": 0, "last": 0, "data": 0}

    def link(cycle, flits):
        out = []
        for i, flit in enumerate(flits):
            if flit["valid"] and flit["first"]:
                losing[i] = flit["data"] & 3 in (Kind.SEND, Kind.FORGET) and draw.random() < 0.5
            lines[i].append(flit if flit["valid"] and not losing[i] else nothing)
            out.append(lines[i].popleft())
        return out[::-1]

    bench = Bench(system, link=link)
    offered = 0

    def offer(bench, ctx):
        nonlocal offered
        if bench.idle() if bench.cycle > 1 else not offered:
            node, offered = offered % 2, offered + 1
            bench.hosts[node].offers.append(({"destination": 1 - node}, b"datagram"))
            lag = draw.choice((0, 25))
            for line in lines:
                line.clear()
                line.extend([nothing] * lag)

    bench.hooks.append(offer)
    assert bench.run(30_000, until=lambda _: offered == 10)

    def acts(since, tries, delay):
        """When a token acts: its rung has its turn; one cycle to the hold register; the stages of a request."""
        rung, steps, due = system.rung(0, tries), system.timers.backoff_steps, since + delay
        while stages.turn_of(1, steps, due) != rung:
            due += 1
        return due + 1 + stages.CHOSEN

    checked = {Event.REPEAT: [], Event.ACK_REPEAT: []}
    for node in (0, 1):
        numbers, sent, waiting, sends = Numbers(system, 0), 0, {}, set()
        for seen in sorted(bench.kinds(node), key=lambda e: e.cycle):
            match seen.event:
                case Event.SEND:
                    sent = seen.cycle - (stages.SHOWN - stages.PUSHED)
                    waiting[Event.REPEAT] = seen.cycle, seen.detail, doubled(system, numbers.t, seen.detail)
                    sends.add(acts(*waiting[Event.REPEAT]))
                case Event.DELIVER:
                    waiting[Event.ACK_REPEAT] = seen.cycle, 0, numbers.t
                case Event.RELEASE:
                    numbers.sample(seen.cycle - sent)
                case Event.REPEAT | Event.ACK_REPEAT:
                    due = acts(*waiting[seen.event])
                    # A Send's token goes before an Ack's, even if its datagram is over and it does nothing.
                    assert seen.cycle == due + (seen.event == Event.ACK_REPEAT and due in sends), seen
                    checked[seen.event].append(waiting[seen.event][2])
                    if seen.event == Event.ACK_REPEAT:
                        waiting[seen.event] = seen.cycle, seen.detail, doubled(system, numbers.t, seen.detail)
    for delays in checked.values():
        assert len(delays) > 5
        # Not what the configuration alone would give.
        assert set(delays) - {system.delays[0] << s for s in range(3)}

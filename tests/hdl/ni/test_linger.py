"""Slots that linger, beside the contract (section 4.19): what acts in a cycle sees the state at its start."""

import random

import pytest
from amaranth.sim import Simulator

from lethe.ni.linger import Linger
from lethe.spec.config import System

CYCLES = 3000


@pytest.mark.parametrize("slots", [2, 3, 4])
def test_an_ack_is_in_doubt_as_the_contract_says(slots):
    """Something acts in every cycle, often on the slot of the cycle before, or on one that is just over."""
    draw = random.Random(slots)
    block = Linger(System.make(topology={"kind": "wire"}, ni={"slots": slots, "linger": -1}))
    again, lingers, seen = (
        [False] * slots,
        [False] * slots,
        {"doubted": 0, "answered": 0, "just over": 0, "just repeated": 0},
    )

    async def play(ctx):
        slot, names, ended, over, repeated = 0, False, None, None, None
        for _ in range(CYCLES):
            following = draw.choice((slot, slot, draw.randrange(slots)))
            names_next = draw.random() < 0.8
            # A datagram that has just ended is not live; what lingers is not live either.
            live = not lingers[slot] and ended != slot
            act = draw.choice(("repeat", "release", "unknown", "other", "ack")) if live else "ack"
            rested = draw.randrange(slots)
            rests = lingers[rested] and draw.random() < 0.3
            ends = act in ("release", "unknown", "other")
            inputs = {
                "next_slot": following, "follows": following == slot, "names": names_next, "slot": slot,
                "repeats": act == "repeat", "ends": ends, "releases": act == "release", "unknown": act == "unknown",
            }  # fmt: skip
            for name, value in inputs.items():
                ctx.set(getattr(block, name), value)
            ctx.set(block.rested.valid, rests)
            ctx.set(block.rested.slot, rested)
            if act in ("ack", "release"):
                doubted = again[slot] if act == "release" else names and lingers[slot]
                assert ctx.get(block.doubted) == doubted
                seen["doubted" if doubted else "answered"] += 1
                seen["just over"] += act == "ack" and names and over == slot
                seen["just repeated"] += act == "release" and repeated == slot
            assert ctx.get(block.lingers) == sum(1 << n for n, here in enumerate(lingers) if here)
            ended, over, repeated = slot if ends else None, rested if rests else None, slot if act == "repeat" else None
            if rests:
                lingers[rested] = False
            if ends and (again[slot] if act == "release" else act == "unknown"):
                lingers[slot] = True
            if ends or act == "repeat":
                again[slot] = act == "repeat"
            slot, names = following, names_next
            await ctx.tick()

    simulator = Simulator(block)
    simulator.add_clock(1e-6)
    simulator.add_testbench(play)
    simulator.run()
    assert min(seen.values()) > 10, seen

"""The set of a message among the records of relay (contract of relay, section 4)."""

import random
from collections import Counter
from types import SimpleNamespace

import pytest
from amaranth.hdl import Module, Signal

from lethe.services.relay.layouts import WAYS, RelayLayouts
from lethe.spec.config import System
from lethe.spec.ports import HostPort
from lethe.spec.sections.relay import OF_NI
from lethe_sim.golden.services.relay import records
from tests.helpers.simulated import simulated

NODES = 15
_golden_set = getattr(records.set_of, "py_func", records.set_of)


def layouts(entries: int) -> RelayLayouts:
    system = System.make(
        topology={"kind": "crossbar", "nodes": NODES}, ni=OF_NI, relay={"slots": 16, "records": entries}
    )
    return RelayLayouts(system, HostPort.of_ni(system))


@pytest.mark.parametrize("entries", [4, 8, 64, 1024])
def test_rtl_and_golden_model_have_one_set(entries):
    of, chance = layouts(entries), random.Random(entries)
    m, source, uid = Module(), Signal(of.node_bits), Signal(of.uid_bits)
    found, bits = Signal(16), (entries // WAYS).bit_length() - 1
    m.d.comb += found.eq(of.set_of(source, uid))

    async def run(ctx):
        for _ in range(200):
            names = chance.randrange(NODES), chance.getrandbits(of.uid_bits)
            ctx.set(source, names[0])
            ctx.set(uid, names[1])
            expected = _golden_set(SimpleNamespace(set_bits=bits), *names)
            assert ctx.get(found) == expected < max(1, entries // WAYS)
            await ctx.tick()

    m.d.sync += Signal(name="clocked").eq(1)
    simulated(m, run)


def test_uids_that_keep_step_do_not_meet():
    """Twelve messages from each of 15 nodes, with uids that are the same, have a way each among 256 records."""
    relay = SimpleNamespace(set_bits=6)
    for first in range(0, 1 << 16, 37):
        sets = Counter(_golden_set(relay, node, first + k) for node in range(NODES) for k in range(12))
        assert max(sets.values()) <= WAYS

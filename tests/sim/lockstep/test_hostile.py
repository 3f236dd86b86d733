"""Hostile hosts are as hostile as they say."""

import random
from itertools import pairwise

import pytest

from lethe.spec import trace
from lethe_sim.lockstep.block_groups import hostile_flow, hostile_relay
from lethe_sim.lockstep.hostile import HostileHost


@pytest.mark.parametrize("block", [hostile_flow, hostile_relay])
def test_a_fickle_host_changes_what_it_offers(block):
    """Records and, of flow, settings change in every few cycles, though nothing is taken."""
    system, changes = block()._system, {}
    places = [trace.STIMULUS_RECORD_WORD]
    if system.flow.ports:
        places.append(system.layout.stimulus_ports + 1)
    for fickle in (False, True):
        host = HostileHost(random.Random(0), system, 0, fickle=fickle)
        words = [host.next() for _ in range(2000)]
        changes[fickle] = [sum(one[place] != other[place] for one, other in pairwise(words)) for place in places]
    assert all(seldom < 50 < 200 < often for seldom, often in zip(changes[False], changes[True], strict=True)), changes

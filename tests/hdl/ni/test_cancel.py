"""A cancel beside a grant of the same slot: what counts as launched (docs/reference/cycle-contract.md, 4.5)."""

import pytest

from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import LANE_ACCEPT, LANE_COMPLETE, Status
from lethe.spec.wire import unpack_uid
from lethe_sim.lockstep import block_python, blocks
from lethe_sim.lockstep.hostile import GAP, Takes

CYCLES = 60


class Silent:
    """A link on which nothing ever comes."""

    def __init__(self, *_, **__):
        pass

    def next(self):
        return GAP

    def hear(self, words):
        pass


def host_of(cancels: int, accepted: list, ended: list):
    """A host whose link is dead: what it sends it cancels, until a slot comes again whose first datagram still waits.

    That one it cancels ``cancels`` cycles later; the link lives from 3 cycles later on.
    """

    class Host:
        reached = ()

        def __init__(self, chance, system, node, **_):
            self.peer, self.cycle, self.live, self.again = 1 - node, 0, False, 0

        def next(self):
            self.cycle += 1
            since = self.cycle - self.again if self.again else -1
            bits = {
                "send.valid": self.cycle > 20 and not self.live and not self.again,
                "cancel.valid": since == cancels if self.again else self.live,
                "link_disable": since < 3,
            }
            slot, generation = accepted[-1] if accepted else (0, 0)
            flags = sum(bits.get(name, False) << i for i, name in enumerate(trace.STIMULUS_BITS))
            return [flags, self.peer, 0, 0, 0, slot | generation << 16]

        def hear(self, offered, words, reset):
            if words[2 * LANE_ACCEPT]:
                accepted.append(unpack_uid(words[2 * LANE_ACCEPT + 1])[2:])
                self.live = True
                self.again = self.cycle + 1 if accepted.count((0, 1)) else 0
            if words[2 * LANE_COMPLETE]:
                self.live = False
                ended.append(Status(words[2 * LANE_COMPLETE] >> 12 & 0xF))

    return Host


class Taker:
    """Takes everything."""

    def __init__(self, *_, **__):
        pass

    def next(self):
        return Takes(True, [(1, 1)], 0, 0)


@pytest.mark.parametrize(("cancels", "status"), [(1, Status.UNKNOWN), (2, Status.NEVER_SENT), (3, Status.NEVER_SENT)])
def test_a_cancel_beside_the_grant_of_another_generation(monkeypatch, cancels, status):
    """The grant of the slot's dead datagram is one cycle after the cancel acts, in the same cycle, one before."""
    accepted, ended = [], []
    monkeypatch.setattr(blocks, "HostileHost", host_of(cancels, accepted, ended))
    monkeypatch.setattr(blocks, "Network", Silent)
    monkeypatch.setattr(blocks, "Taker", Taker)
    system = System.make(
        topology={"kind": "wire"}, wire={"generation_bits": 1, "mtu": 24}, ni={"slots": 2, "sets": 1, "ways": 1},
        timers={"wrap_guard": 0}, workload={"min_length": 4, "max_length": 4},
    )  # fmt: skip
    assert block_python.first_difference(blocks.NiBlock(system), 5, CYCLES) is None
    assert accepted == [(0, 0), (1, 0), (0, 1)]
    assert ended == [Status.NEVER_SENT, Status.NEVER_SENT, status]

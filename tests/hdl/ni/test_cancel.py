"""A cancel beside a judgement of the same slot: what counts as launched (docs/reference/cycle-contract.md, 4.5)."""

import pytest

from lethe.spec import stages, trace
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


def host_of(cancels: int, lives: int, accepted: list, ended: list):
    """A host whose link is dead: what it sends it cancels, until a slot comes again whose first datagram still waits.

    That one it cancels ``cancels`` cycles after its acceptance.  The link lives in the cycle ``lives`` only.
    """

    class Host:
        reached = ()

        def __init__(self, chance, system, node, **_):
            self.peer, self.cycle, self.live, self.again = 1 - node, -1, False, 0

        def next(self):
            self.cycle += 1
            bits = {
                "send.valid": self.cycle > 20 and not self.live and not self.again,
                "cancel.valid": self.cycle == self.again + cancels if self.again else self.live,
                "link_disable": self.cycle != lives,
            }
            slot, generation = accepted[-1][1:] if accepted else (0, 0)
            flags = sum(bits.get(name, False) << i for i, name in enumerate(trace.STIMULUS_BITS))
            return [flags, self.peer, 0, 0, 0, slot | generation << 16]

        def hear(self, offered, words, reset):
            if words[2 * LANE_ACCEPT]:
                accepted.append((self.cycle, *unpack_uid(words[2 * LANE_ACCEPT + 1])[2:]))
                self.live = True
                self.again = self.cycle if accepted[-1][1:] == (0, 1) else 0
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


def play(monkeypatch, *, cancels: int, lives: int) -> tuple[int, list[Status]]:
    """When the slot's second datagram was accepted, and how all datagrams ended; RTL and golden model agree."""
    accepted, ended = [], []
    monkeypatch.setattr(blocks, "HostileHost", host_of(cancels, lives, accepted, ended))
    monkeypatch.setattr(blocks, "Network", Silent)
    monkeypatch.setattr(blocks, "Taker", Taker)
    system = System.make(
        topology={"kind": "wire"}, wire={"generation_bits": 1, "mtu": 24}, ni={"slots": 2, "sets": 1, "ways": 1},
        timers={"wrap_guard": 0}, workload={"min_length": 4, "max_length": 4},
    )  # fmt: skip
    assert block_python.first_difference(blocks.NiBlock(system), 5, CYCLES) is None
    assert [names for _, *names in accepted] == [[0, 0], [1, 0], [0, 1]]
    return accepted[-1][0], ended


@pytest.fixture(scope="module")
def again() -> int:
    """When the slot's second datagram is accepted, whenever it is cancelled and whatever comes then."""
    with pytest.MonkeyPatch.context() as patch:
        return play(patch, cancels=1, lives=-1)[0]


@pytest.mark.push
@pytest.mark.parametrize(
    ("acts", "judged", "status"),
    [
        (7, 8, Status.NEVER_SENT),
        (8, 8, Status.UNKNOWN),
        (9, 8, Status.UNKNOWN),
        (8, stages.ACCEPT_JUDGED, Status.UNKNOWN),
        (8, stages.ACCEPT_JUDGED - 1, Status.NEVER_SENT),
        (stages.ACCEPT_ACTS, stages.ACCEPT_ACTS, Status.UNKNOWN),
        (stages.ACCEPT_ACTS, stages.ACCEPT_JUDGED, Status.UNKNOWN),
        (stages.ACCEPT_ACTS, stages.ACCEPT_JUDGED - 1, Status.NEVER_SENT),
    ],
)
def test_a_cancel_beside_the_judgement_of_another_generation(monkeypatch, again, acts, judged, status):
    """The cancel acts, and the entry of the slot's dead datagram is judged, so many cycles after the acceptance."""
    cancels = acts - stages.CHOSEN
    same, ended = play(monkeypatch, cancels=cancels, lives=again + judged - stages.JUDGED)
    assert same == again
    assert ended == [Status.NEVER_SENT, Status.NEVER_SENT, status]

"""R25 in time: an orphan is reclaimed only when its sender cannot repeat any more.  The model takes it for granted."""

from collections import Counter

import pytest

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe_sim.golden.model import Golden


@pytest.mark.xfail(strict=True, reason="the configuration check leaves out the cycles that repeats wait for the link")
def test_no_orphan_is_reclaimed_while_its_sender_repeats():
    """Acks have no way back, and the sender's repeats wait for each other: as `docs/limits.md` says."""
    system = System.make(
        topology={"kind": "wire"},
        wire={"mtu": 256},
        ni={"slots": 64, "sets": 64, "deliver_flits": 4096},
        timers={"ack_limit": 41, "backoff_steps": 0, "jitter_bits": 0},
        workload={"retry_limit": 40, "count": 64, "load": 1.0, "min_length": 256, "max_length": 256},
        faults={"links": [{"link": 0, "start": 50, "end": 200_000}]},
        run={"cycles": 40_000},
    )
    golden = Golden(system, record=True)
    golden.run(system.run.cycles)
    events = golden.take_events()
    delivered = events[(events["word"] & 0xFF) == Event.DELIVER]
    assert max(Counter(delivered["uid"].tolist()).values()) == 1

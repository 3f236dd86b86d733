"""R25 in time: an orphan is reclaimed only when its sender cannot repeat any more.  The model takes it for granted."""

from collections import Counter

import pytest

from lethe.spec import sections
from lethe.spec.config import ConfigError, System
from lethe.spec.events import Event
from lethe_sim.golden.model import Golden


def system(retry_limit: int, ack_limit: int) -> System:
    """Acks have no way back, and the sender's repeats wait for each other."""
    return System.make(
        topology={"kind": "wire"},
        wire={"mtu": 256},
        ni={"slots": 64, "sets": 64, "deliver_flits": 4096},
        timers={"ack_limit": ack_limit, "backoff_steps": 0, "jitter_bits": 0},
        workload={"retry_limit": retry_limit, "count": 64, "load": 1.0, "min_length": 256, "max_length": 256},
        faults={"links": [{"link": 0, "start": 50, "end": 200_000}]},
        run={"cycles": 200_000},
    )


def most_deliveries(system: System) -> int:
    """How often the datagram that was delivered most often was."""
    golden = Golden(system, record=True)
    golden.run(system.run.cycles)
    events = golden.take_events()
    delivered = events[(events["word"] & 0xFF) == Event.DELIVER]
    return max(Counter(delivered["uid"].tolist()).values())


def test_an_orphan_that_its_sender_outlives_is_refused(monkeypatch):
    """The repeats' waits for their turns and for the link count: without them this would pass, and deliver twice."""
    with pytest.raises(ConfigError, match=r"timers\.ack_limit: entries are reclaimed after \d+ cycles"):
        system(retry_limit=60, ack_limit=70)
    monkeypatch.setattr(sections, "promises", lambda *_: None)
    careless = system(retry_limit=60, ack_limit=70)
    assert careless.orphan_time > 61 * careless.longest_delays[0] + careless.packet_life
    assert most_deliveries(careless) > 1


def test_no_orphan_is_reclaimed_while_its_sender_repeats():
    with pytest.raises(ConfigError, match=r"timers\.ack_limit"):
        system(retry_limit=4, ack_limit=198)
    assert most_deliveries(system(retry_limit=4, ack_limit=199)) == 1

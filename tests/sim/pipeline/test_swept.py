"""What services of an NI do, as the audit sees it: entries swept away, Sends refused."""

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.events import Cause, Drop, Event, Status
from lethe_sim.golden.model import Golden
from lethe_sim.ledger.audit import ONCE
from lethe_sim.ledger.here import audit
from lethe_sim.trace import TraceWriter, summed_counters
from tests.helpers.golden_steps import offer
from tests.helpers.golden_systems import make
from tests.helpers.make_trace import tamper

CYCLES, LAST = 1500, 1200


def system_of(**faults) -> System:
    """Two nodes on a wire; nothing but what a test offers moves."""
    return make(
        "wire", ni={"acceptance": True, "sweep": True, "reject": True, "slots": 2, "sets": 2, "ways": 1},
        timers={"jitter_bits": 0}, faults=faults, workload={"count": 0},
    )  # fmt: skip


def write(path, system: System, refusals: range = range(0), sweeps: range = range(0)) -> list[tuple[int, int]]:
    """Node 0 sends one datagram to node 1, whose service refuses and sweeps; (event, detail) of all that happens."""
    layout = system.layout
    stimulus = np.zeros((CYCLES, 2 * layout.stimulus_words), np.uint64)
    stimulus[40, : len(offer(1, 0))] = offer(1, 0)
    stimulus[refusals, layout.stimulus_words + layout.stimulus_refusal] = 1
    stimulus[sweeps, layout.stimulus_words + layout.stimulus_sweep] = 1  # source 0
    golden = Golden(system, external=True, record=True)
    with TraceWriter(path, system) as writer:
        golden.run(CYCLES, stimulus=stimulus)
        events = golden.take_events()
        writer.append(events)
        counters = summed_counters(golden.counters)
        writer.finish(cycles=CYCLES, drained=bool(golden.drained), counters=counters)
    return [(int(word) & 0xFF, int(word) >> 8 & 0xFF) for word in events["word"]]


@pytest.fixture
def swept(tmp_path):
    """A trace in which the Acks are lost, the entry is swept, and the repeat is delivered again."""
    path = tmp_path / "swept.parquet"
    happened = write(path, system_of(links=[{"link": 1, "start": 0, "end": 100}]), sweeps=range(60, 95))
    codes = [event for event, _ in happened]
    assert codes.count(Event.DELIVER) == 2 and codes.count(Event.SWEPT) == 1
    return path


def test_what_was_swept_may_come_again(swept):
    result = audit(swept)
    assert result.verdict == ONCE and not result.findings, result.text()


def test_without_the_sweep_it_has_come_twice(swept, tmp_path):
    def change(rows):
        rows.remove(next(row for row in rows if row["event"] == Event.SWEPT))

    tamper(tmp_path / "t.parquet", swept, change, counters={})
    assert {"doubled"} <= {finding.name for finding in audit(tmp_path / "t.parquet").findings}


def test_a_sweep_after_both_deliveries_excuses_neither(swept, tmp_path):
    def change(rows):
        late = next(row for row in rows if row["event"] == Event.SWEPT)
        rows.remove(late)
        rows.append(late | {"cycle": LAST})

    tamper(tmp_path / "t.parquet", swept, change, counters={})
    assert {"doubled"} <= {finding.name for finding in audit(tmp_path / "t.parquet").findings}


def test_what_is_not_open_is_rejected(tmp_path):
    path = tmp_path / "t.parquet"
    happened = write(path, system_of(), refusals=range(CYCLES))
    assert (Event.DROP, Drop.NOT_OPEN) in happened and (Event.GIVE_UP, Cause.RESTARTED) in happened
    assert (Event.COMPLETE, Status.UNKNOWN << 4 | Cause.RESTARTED) in happened
    result = audit(path)
    assert not result.findings, result.text()

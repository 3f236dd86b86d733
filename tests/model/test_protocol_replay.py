"""The golden model takes the model's steps and no others: its events are replayed, one by one."""

from collections import Counter

import numpy as np
import pytest

from lethe.spec.events import Event
from tests.model.protocol_replay import Mismatch, Replay, golden_run, small_stimulus, small_system

SEEDS = range(50)
MORE_SEEDS = range(50, 1000)
#: Twelve of them, in which every rule that is seen matters somewhere.
CHOSEN = (*range(8), 9, 16, 17, 38)
#: Rules whose loss shows in what the network interface does, and not only in what follows from it.
SEEN = (
    "R1",
    "R2",
    "R6",
    "R8",
    "R9",
    "R10",
    "R11",
    "R12",
    "R14",
    "R15 live",
    "R16",
    "R17",
    "R21",
    "R22",
    "R23",
    "R26",
    "R26 unknown",
    "R27 unheard",
    "R27 unsent",
)


@pytest.fixture(scope="module")
def runs():
    """Golden runs of twelve small systems."""
    return [golden_run(system, small_stimulus(system, seed)) for seed in CHOSEN for system in [small_system(seed)]]


def follow_all(seeds):
    """What the runs of all seeds have been through: steps by event, promises not kept, properties broken."""
    steps, owed, broken, stopped = Counter(), Counter(), 0, 0
    for seed in seeds:
        system = small_system(seed)
        try:
            replay = Replay(golden_run(system, small_stimulus(system, seed))).follow()
        except Mismatch as mismatch:
            raise AssertionError(f"seed {seed}: {mismatch}") from None
        steps.update(replay.steps)
        owed.update(replay.owed)
        broken += replay.broken is not None
        stopped += bool(replay.stopped)
    print(f"\n{len(seeds)} runs, {sum(steps.values()):,} steps; not kept: {dict(owed)}; broken: {broken}")
    return steps, owed, broken, stopped


def test_every_step_of_the_golden_model_is_one_of_the_model():
    """A property may break only where the environment has broken its promise, which most runs never see."""
    steps, owed, _, stopped = follow_all(SEEDS)
    unseen = {event for event in Event if Event.NOTHING < event < Event.FORWARD} - set(steps)
    # Records are taken outside the model, and nothing sweeps without `ni.sweep`.
    unseen -= {Event.TAKE, Event.SWEPT}
    assert not unseen, "the runs should have every event of a network interface"
    assert owed["E1"] < len(SEEDS) / 2 and stopped < 5


@pytest.mark.full
def test_more_runs():
    follow_all(MORE_SEEDS)


@pytest.mark.parametrize("rule", SEEN)
def test_a_model_without_a_rule_is_found_out(runs, rule):
    """The replay fails where the rule would have mattered."""
    with pytest.raises(Mismatch):
        for run in runs:
            Replay(run, (rule,)).follow()


@pytest.mark.parametrize(
    "event, other",
    [
        (Event.DELIVER, Event.DUPLICATE),
        (Event.DUPLICATE, Event.DELIVER),
        (Event.RELEASE, Event.ACK_IGNORED),
        (Event.ACK_IGNORED, Event.RELEASE),
        (Event.FORGOTTEN, Event.FORGET_IGNORED),
        (Event.KILLED, Event.SEND),
        (Event.FORGET, None),
        (Event.REJECT, None),
        (Event.REPEAT, None),
        (Event.RELEASE, None),
        (Event.DELIVER, None),
        (Event.COMPLETE, None),
        (Event.RESET, None),
        (Event.ORPHAN, None),
    ],
    ids=lambda event: event.name if event else "nothing",
)
def test_an_altered_trace_is_found_out(runs, event, other):
    """One event of a good run is another one, or is missing."""
    altered = 0
    for run in runs:
        at = np.flatnonzero((run.events["word"] & np.uint64(0xFF)) == event)
        at = at[run.events["unit"][at] < run.system.nodes]
        # What a node did just before it was reset may leave no trace.
        resets = run.events[(run.events["word"] & np.uint64(0xFF)) == Event.RESET]
        cut = [
            event != Event.RESET
            and np.any((resets["unit"] == own["unit"]) & (resets["cycle"] - own["cycle"] - np.uint64(1) < 100))
            for own in run.events[at]
        ]
        at = at[~np.array(cut, bool)]
        if not len(at) or "E1" in Replay(run).follow().owed:
            continue
        events = run.events.copy()
        if other is None:
            events = np.delete(events, at[len(at) // 2])
        else:
            events["word"][at[len(at) // 2]] ^= np.uint64(other ^ event)
        whole, run.events = run.events, events
        try:
            with pytest.raises(Mismatch):
                Replay(run).follow()
        finally:
            run.events = whole
        altered += 1
    assert altered

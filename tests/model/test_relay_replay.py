"""The golden model with relay takes the model's steps and no others: runs of seven nodes are replayed, job by job."""

from collections import Counter
from dataclasses import replace

import pytest

from lethe.spec.events import Event
from lethe.spec.services.relay import Type
from tests.model.relay_replay import Mismatch, Replay, golden_run, seven

CYCLES = 5000
#: Runs that have every event of relay between them, and in which every rule that is seen matters somewhere.
CHOSEN = (6, 5, 14, 36)
MORE_SEEDS = [seed for seed in range(300) if seed not in CHOSEN]
#: Rules whose loss shows in what a relay does, and not only in what follows from it.
SEEN = (
    "M4 unknown",
    "M5",
    "M5 until drained",
    "M6",
    "M7 thru",
    "M10",
    "M11",
    "M12",
    "M13",
    "M13 more",
    "M13 quiet",
    "M14",
    "M16",
    "M17",
    "M19 answer",
    "M19 once",
    "M20",
    "M21",
    "M21 once",
    "M22",
    "M23 asks",
    "M23 once",
    "M24",
)
EVENTS = [event for event in Event if Event.RELAY_SEND <= event <= Event.RELAY_FORGOT and event != Event.RELAY_REFUSED]


#: Events that name a node and no message.
NAMELESS = (Event.RELAY_NOTICE, Event.RELAY_IGNORED, Event.RELAY_STALE)


def named(seen) -> bool:
    """Whether an event names a message; a PULL does not."""
    pull = seen.event in (Event.RELAY_TOLD, Event.RELAY_DROPPED, Event.RELAY_HEARD) and seen.detail >> 3 == Type.PULL
    return seen.event not in NAMELESS and not pull


@pytest.fixture(scope="module")
def runs():
    """Runs of seven nodes."""
    return [golden_run(seven(seed), CYCLES) for seed in CHOSEN]


def follow_all(seeds, runs) -> Counter:
    """What the runs of all seeds have been through: steps by event."""
    steps = Counter()
    for seed, run in zip(seeds, runs, strict=True):
        try:
            steps += Replay(run).follow().steps
        except Mismatch as mismatch:
            raise AssertionError(f"seed {seed}: {mismatch}") from None
    print(f"\n{len(seeds)} runs, {steps.total():,} steps: {dict(steps)}")
    return steps


def test_every_step_of_the_golden_model_is_one_of_the_model(runs):
    steps = follow_all(CHOSEN, runs)
    assert not set(EVENTS) - set(steps), "the runs should have every event of relay"
    assert steps[Event.RELAY_RESET] >= len(CHOSEN)


@pytest.mark.full
def test_more_runs():
    follow_all(MORE_SEEDS, (golden_run(seven(seed), CYCLES) for seed in MORE_SEEDS))


@pytest.mark.parametrize("rule", SEEN)
def test_a_model_without_a_rule_is_found_out(runs, rule):
    """The replay fails where the rule would have mattered."""
    with pytest.raises(Mismatch):
        for run in runs:
            Replay(run, (rule,)).follow()


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
@pytest.mark.parametrize("how", ["missing", "another message", "another node"])
def test_an_altered_trace_is_found_out(runs, event, how):
    """One event of a good run is missing, or says something else."""
    altered = 0
    for run in runs:
        # What a node did just before it died, or was sent to it later, may leave no trace; a first notice names nobody.
        until = dict.fromkeys(range(7), run.until - 200) | {
            died.node: died.start - 100 for died in run.system.faults.deaths
        }
        places = [
            place
            for place, seen in enumerate(run.seen)
            if seen.event == event and seen.cycle < until[seen.node] and (named(seen) or how != "another message")
            if event != Event.RELAY_NOTICE or seen.peer != seen.node
            if event != Event.RELAY_HOP or seen.cycle < until[seen.peer]
        ]
        if not places:
            continue
        seen = list(run.seen)
        place = places[len(places) // 2]
        one = seen.pop(place)
        if how == "another message":
            seen.insert(place, one._replace(extra=one.extra ^ 0x1F))
        elif how == "another node":
            seen.insert(place, one._replace(peer=(one.peer + 1) % 7))
        with pytest.raises(Mismatch):
            Replay(replace(run, seen=seen)).follow()
        altered += 1
        break
    assert altered or (how == "another message" and event in NAMELESS)

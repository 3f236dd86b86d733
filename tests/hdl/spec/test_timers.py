"""What a configuration comes to in cycles: time-outs, and the bounds that promises rest on."""

import pytest

from lethe.spec import sections, stages
from lethe.spec.config import ConfigError, System
from lethe_sim.summary import state_bits, summary

TREE = {"kind": "tree", "arity": 2, "levels": 3}
WAITING = [{"queue": 1}, {"flow": "credits"}, {"flow": "credits", "queue": 2}]


def make(router=None, **timers) -> System:
    return System.make(topology=TREE, router=router or {}, timers={"wrap_guard": 0, **timers})


def doubled(system: System, first: int, tries: int) -> int:
    """What a try waits for whose pair has the time-out ``first`` (cycle contract, section 4.6.1)."""
    allowed = range(min(tries, system.timers.backoff_steps) + 1)
    return max(first << s for s in allowed if first << s <= system.ceiling)


@pytest.mark.parametrize("router", WAITING)
def test_time_outs_are_measured_where_worms_wait(router):
    """By themselves up to 64 times the first one of the farthest pair; a ceiling that is given stays."""
    system = make(router)
    assert system.measured and system.ceiling == 64 * system.delays[2] > 64 * system.delays[0]
    assert make(router, ceiling=0).ceiling == 0 and make(router, ceiling=999).ceiling == 999


def test_time_outs_are_fixed_where_nothing_waits():
    assert not make().measured and make().ceiling == 0 and make(ceiling=999).ceiling == 999


@pytest.mark.parametrize(("slack", "cycles"), [(0, 0), (7, 7), (-1, 8 + 2 * 6), (-2, 8 + 4 * 6), (-10, 8 + 20 * 6)])
def test_slack_in_cycles_or_in_worms(slack, cycles):
    """A worm has six flits."""
    system, none = make(slack=slack), make(slack=0)
    assert system.slack == cycles
    assert [a - b for a, b in zip(system.delays[:3], none.delays[:3], strict=True)] == [cycles] * 3


@pytest.mark.parametrize("ceiling", [80, 200, 1000])
@pytest.mark.parametrize("steps", [0, 2, 5])
def test_bounds_of_measured_time_outs_hold_for_all_of_them(monkeypatch, ceiling, steps):
    """What is measured may change between two tries.  Also in systems that would be refused."""
    monkeypatch.setattr(sections, "promises", lambda *_: None)
    system, tries = make(ceiling=ceiling, backoff_steps=steps, ack_limit=4), range(5)
    found = [[doubled(system, first, r) for first in range(system.delays[0], ceiling + 1)] for r in tries]
    least, most = sum(map(min, found)), sum(map(max, found))
    assert least - len(tries) <= system.orphan_time <= least
    # From a due token to the first flit: a turn of its rung for it and for each token before it, two of
    # each slot; the hold register, the action, the repeat queue, the grant.
    turns = 2 * max(*stages.rounds(system.graph.distance_classes, steps)) * 2 * system.ni.slots
    shown = turns + 1 + stages.CHOSEN + stages.QUEUED + 1 + stages.SHOWN
    more = (1 << system.timers.jitter_bits) + system.link_wait + shown
    assert system.retry_time(4) == most + len(tries) * more
    assert set(system.longest_delays) == {max(map(max, found))}


def test_orphans_outlive_senders_whose_time_outs_are_measured():
    """A sender's may be as long as the ceiling, its receiver's as short as the first ones."""
    System.make(timers={"ack_limit": 7}, workload={"retry_limit": 2})
    with pytest.raises(ConfigError, match=r"timers\.ack_limit: entries are reclaimed after"):
        System.make(timers={"ack_limit": 7, "ceiling": 4000}, workload={"retry_limit": 2}, wire={"generation_bits": 16})


@pytest.mark.parametrize(("ceiling", "told"), [(0, []), (999, ["up to 999 cycles"]), (-1, ["up to 3,776 cycles"])])
def test_the_summary_tells_whether_time_outs_are_measured(ceiling, told):
    lines = list(summary(make({"queue": 1}, ceiling=ceiling)))
    assert [
        line.partition("then by the round trips that are measured, ")[2] for line in lines if "then by" in line
    ] == told


def test_measured_round_trips_are_memory_too():
    """A stamp, which is a time and a try, for each slot."""
    assert "round trips" not in state_bits(make(ceiling=0))
    few, more = (make(ceiling=1 << 14).replace(ni={"slots": slots}) for slots in (16, 24))
    grown = state_bits(more)["round trips"] - state_bits(few)["round trips"]
    assert grown == 8 * (few.time_bits + few.format.try_bits)


@pytest.mark.parametrize("classes", [1, 2, 3, 5])
@pytest.mark.parametrize(("steps", "later"), [(0, 3), (1, 3), (2, 3), (3, 3), (4, 5), (5, 5), (6, 7), (16, 17)])
def test_rungs_of_first_tries_have_every_second_turn(classes, steps, later):
    """In even cycles one after the other, the rungs of later tries in odd ones, in rounds of an odd number of turns."""
    turns = [stages.turn_of(classes, steps, cycle) for cycle in range(400)]
    first = [*range(classes), *[None] * (2 - classes)]
    others = [*range(classes, classes + steps), *[None] * (later - steps)]
    assert turns[::2] == [first[n % len(first)] for n in range(200)]
    assert turns[1::2] == [others[n % later] for n in range(200)]

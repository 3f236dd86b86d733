"""An NI sleeps while it has nothing to do: held against a model that steps every NI in every cycle."""

import random

import numpy as np
import pytest

from lethe.spec.config import ConfigError, System
from lethe.spec.events import LANE_ACCEPT, Cause, Event, Status
from lethe.spec.topology import Topology
from lethe_sim.golden.model import Golden, Item, Script
from lethe_sim.lockstep.matrix import with_options
from tests.helpers.golden_systems import TOPOLOGIES, make

CYCLES = 2500
SEEDS, WITH_OPTIONS = 60, 24
KINDS = [name for name in TOPOLOGIES if name != "tree4"]


def drawn(seed: int) -> System:
    """A small system with some of everything that an NI can have, with faults of every kind.

    Those beyond `SEEDS` have options too.
    """
    chance = random.Random(f"sleep {seed}")
    name = KINDS[seed % len(KINDS)]
    while True:
        try:
            system = make(name, **_sections(chance, name))
            return system if seed < SEEDS or system.credits else with_options(system, chance, CYCLES)
        except ConfigError:
            continue  # an impossible combination; draw on


def _sections(chance: random.Random, name: str) -> dict:
    graph: Topology = make(name).graph

    def spans(most: int, longest: int) -> list[tuple[int, int]]:
        starts = [chance.randrange(CYCLES) for _ in range(chance.randrange(most + 1))]
        return [(start, start + chance.randrange(1, longest)) for start in starts]

    control = chance.choice((0, 1, 2))
    limit = chance.choice((0, 0, 1, 3))
    ceiling = chance.choice((0, -1, 400, 3000))
    faults = {
        "loss": chance.choice((0.0, 0.1, 0.4)),
        "flip": chance.choice((0.0, 0.0, 0.004)),
        "links": [
            {"link": chance.randrange(len(graph.links)), "start": start, "end": end} for start, end in spans(2, 400)
        ],
        "resets": [
            {"node": chance.randrange(graph.nodes), "start": start, "cycles": end - start} for start, end in spans(2, 9)
        ],
    }
    flow = {}
    if name != "wire" and chance.random() < 0.2:
        flow, faults, limit = {"flow": "credits", "credit_flits": chance.choice((2, 9))}, {}, 0
    faults["stalls"] = [
        {"node": chance.randrange(graph.nodes), "start": start, "end": end} for start, end in spans(3, 500)
    ]
    return {
        "run": {"seed": chance.getrandbits(32), "cycles": 10 * CYCLES},
        "wire": {
            "flit_bits": chance.choice((16, 32, 64, 128)),
            "mtu": chance.choice((4, 24, 61)),
            "generation_bits": chance.choice((2, 8)),
            "incarnation_bits": 2,
        },
        "router": {"latency": chance.choice((1, 2, 4)), "queue": 0 if flow else chance.choice((0, 0, 1, 4))} | flow,
        "ni": {
            "slots": chance.choice((2, 3, 8)),
            "sets": chance.choice((1, 4)),
            "ways": chance.choice((1, 2)),
            "reply_depth": chance.choice((2, 16)),
            "deliver_records": chance.choice((2, 16)),
            "control_classes": control,
            "reserved_slots": int(control > 0 and chance.random() < 0.5),
        },
        "timers": {
            "slack": chance.choice((-1, 0, 30)),
            "backoff_steps": chance.choice((0, 2, 5)),
            "jitter_bits": chance.choice((0, 4)),
            "ceiling": ceiling,
            "ack_limit": chance.choice((0, 20)) if limit else 0,
            "quarantine": chance.choice((0, 300, 5000)),
        },
        "study": {
            "per_destination": chance.choice((0, 0, 0, 1)),
            "replies": chance.choice(("first", "first", "first", "last")),
        },
        "faults": faults,
        "workload": {
            "load": chance.choice((0.02, 0.3, 1.0)),
            "min_length": 4,
            "max_length": 4,
            "count": 0,
            "stop": CYCLES - chance.randrange(500),
            "retry_limit": limit,
            "deadline": chance.choice((0, 0, 250)),
        },
    }


def items(system: System, seed: int) -> list[Item]:
    """Datagrams good and bad, in bursts with silence between them; some best effort, some refused, some with limits."""
    chance = random.Random(f"items {seed}")
    found = []
    for node in range(system.nodes):
        cycle = 0
        for number in range(chance.randrange(40)):
            cycle += chance.choice((0, 0, 1, 30, 400))
            good = chance.choice([peer for peer in range(system.nodes) if peer != node])
            found.append(
                Item(
                    node=node,
                    destination=chance.choice((*[good] * 9, node, system.nodes)),
                    payload=chance.randbytes(
                        chance.choice((0, 1, chance.randrange(system.wire.mtu + 1), system.wire.mtu + 1))
                    ),
                    not_before=cycle,
                    cls=chance.choice((0, 6, 7)),
                    mode=chance.choice((0, 0, 0, 1, 1, 2)),
                    deadline=chance.choice((0, 0, 60, 300)),
                    retry_limit=chance.choice((0, 0, 1, 3)),
                    expect=chance.choice((0, 0, 1, 2)),
                    tag=number,
                )
            )
    return found


def account(golden: Golden) -> dict:
    """All that a run shows, cycle by cycle."""
    golden.run(CYCLES)
    return {
        "digest": golden.digest,
        "events": golden.take_events().tolist(),
        "counters": golden.counters.tolist(),
        "router counters": golden.router_counters.tolist(),
        "link counters": golden.link_counters.tolist(),
        "sums": {name: column.tolist() for name, column in golden.sums.items()},
        "entries": golden.entries.tolist(),
        "busy": golden.busy.tolist(),
        "drained": golden.drained,
    }


def assert_same(seed: int, system: System, script: Script | None) -> tuple[Golden, dict]:
    """Asleep and awake do the same; returns the one asleep and its account."""
    asleep, awake = (Golden(system, script, record=True, awake=awake) for awake in (False, True))
    shown = account(asleep)
    for what, theirs in account(awake).items():
        assert shown[what] == theirs, f"{what} of seed {seed}, {'generators' if script is None else 'a script'}"
    if script is not None:
        assert asleep.taken == awake.taken
    return asleep, shown


def test_sleeping_changes_nothing():
    """Every event, in its cycle, on systems and scripts drawn by seed.

    It sees an NI that sleeps through the end of a refused or of a best-effort datagram, or past a script's
    ``not_before``: neighbours that are stepped in every cycle, as in the lockstep of single blocks, never would.
    """
    ends, seen = set(), set()
    for seed in range(SEEDS + WITH_OPTIONS):
        system = drawn(seed)
        assert_same(seed, system, None)
        _, shown = assert_same(seed, system, Script.from_items(system, items(system, seed)))
        events = {(word & 0xFF, word >> 8 & 0xFF) for _, _, _, word, _ in shown["events"]}
        seen |= {event for event, _ in events}
        ends |= {(detail >> 4, detail & 0xF) for event, detail in events if event == Event.COMPLETE}
    # Whatever can end a datagram of a script did, and whatever else wakes an NI.
    assert ends == {
        (Status.ACCEPTED, Cause.NONE),
        (Status.UNKNOWN, Cause.BEST_EFFORT),
        (Status.UNKNOWN, Cause.RETRY_LIMIT),
        (Status.UNKNOWN, Cause.DEADLINE),
        *((Status.REJECTED, cause) for cause in (Cause.DESTINATION, Cause.MODE, Cause.LENGTH)),
        (Status.UNKNOWN, Cause.RESTARTED),
        (Status.UNKNOWN, Cause.SILENT),
        (Status.NEVER_SENT, Cause.SILENT),
    }
    assert {Event.RESET, Event.ORPHAN, Event.KILLED, Event.ACK_REPEAT, Event.DELIVER_BE, Event.FRAGMENT} <= seen
    assert Event.REJECT in seen


def test_sleeping_changes_nothing_where_rejects_come_too_late():
    """All nodes send to one that rejects: repeats are under way when the first REJECT ends their datagram."""
    system = make(
        "tree4", ni={"reject": True, "slots": 8, "sets": 8}, timers={"slack": 0, "backoff_steps": 2},
        router={"queue": 2}, workload={"kind": "pattern"},
    )  # fmt: skip
    found = [
        Item(node=node, destination=0, payload=bytes(8), expect=2, tag=number)
        for node in range(1, system.nodes)
        for number in range(12)
    ]
    _, shown = assert_same(0, system, Script.from_items(system, found))
    assert Event.REJECT_IGNORED in {word & 0xFF for _, _, _, word, _ in shown["events"]}


def test_a_model_that_is_awake_steps_every_ni():
    """Else the comparison says nothing: an NI whose next look is far away is stepped all the same."""
    system = make("wire", workload={"kind": "pattern"})
    script = Script.from_items(system, [Item(node=0, destination=1, payload=b"late", not_before=50)])
    for awake, stepped in ((False, False), (True, True)):
        golden = Golden(system, script, record=True, awake=awake)
        golden.run(10)
        golden._plant.look[:] = 1 << 40
        golden.run(90)
        accepted = golden.take_events()["lane"] == LANE_ACCEPT
        assert accepted.any() == stepped


@pytest.mark.parametrize("late", [0, 1, 37])
def test_a_script_is_offered_from_its_cycle_on(late):
    """`not_before` is exact: an empty payload is accepted in the very cycle, once the NI is Ready."""
    system = make("wire", ni={"slots": 3, "sets": 1}, workload={"kind": "pattern"})
    first = 10 + late
    script = Script.from_items(system, [Item(node=1, destination=0, not_before=first)])
    golden = Golden(system, script, record=True)
    golden.run(200)
    events = golden.take_events()
    accepted = events[events["lane"] == LANE_ACCEPT]
    assert accepted["cycle"].tolist() == [first]


def test_a_generator_stops_in_its_cycle():
    """`workload.stop` is exact: START draws in the cycle before, and no longer in the cycle itself.

    On idle wires one datagram follows another after gaps of 0; the last START before ``stop`` still makes a datagram.
    """

    def accepted(stop: int) -> int:
        system = make("wire", ni={"slots": 8}, workload={"count": 0, "stop": stop, "load": 1.0})
        golden = Golden(system, record=True)
        golden.run(400, until_drained=False)
        events = golden.take_events()
        return int(np.count_nonzero((events["lane"] == LANE_ACCEPT) & (events["unit"] == 0)))

    # Section 4.1 and 5: Ready in cycle max(slots, sets), which is the cycle of the first START.
    ready = max(8, make("wire").ni.sets)
    assert accepted(ready) == 0
    assert accepted(ready + 1) == 1

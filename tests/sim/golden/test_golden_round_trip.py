"""Time-outs that follow measured round trips (cycle contract, section 4.6.1)."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.spec.config import System
from lethe.spec.events import LANE_TX, Event, Kind
from lethe.spec.stages import MEASURED
from lethe_sim.golden.blocks import Ni
from lethe_sim.golden.model import Golden
from lethe_sim.golden.ni import ladder, round_trip
from lethe_sim.golden.state import EXTERNAL, Registers, parameters
from tests.helpers.golden_block_steps import message
from tests.helpers.golden_steps import BEAT, offer, run
from tests.helpers.golden_systems import make

TREE = {"topology": {"kind": "tree", "arity": 2, "levels": 3}, "wire": {"generation_bits": 20}}


class Estimator:
    """The numbers of one class as the contract has them, and when each time-out is used."""

    def __init__(self, delay: int, slack: int, most: int):
        self.s, self.v, self.delay, self.most = 8 * (delay - slack), slack, delay, most
        self.used = [(0, delay)]

    def sample(self, cycle: int, trip: int) -> None:
        e = min(trip, self.most) - self.s // 8
        self.s, self.v = self.s + e, self.v + abs(e) - self.v // 4
        self.used.append((cycle + MEASURED, min(max(self.s // 8 + self.v, self.delay), self.most)))

    def time_out(self, cycle: int) -> int:
        return [value for since, value in self.used if since <= cycle][-1]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 1200), st.booleans(), st.integers(0, 4)),
        max_size=120,
    )
)
def test_numbers_are_those_of_the_contract(steps):
    """Samples of several classes, also in each cycle, longer than the ceiling, or of another try than the last."""
    system = System.make(**TREE, timers={"ceiling": 1000, "backoff_steps": 3, "slack": 5})
    k = parameters(system, EXTERNAL)
    row = Registers(np.zeros(k.ni_width, np.int64))
    row.time_zero = 10_000
    ladder.clear(k, row)
    expected = [Estimator(system.delays[c], 5, 1000) for c in range(3)]
    cycle = 20_000
    for distance, wait, trip, same_try, tries in steps:
        cycle += wait
        round_trip.stamp(k, row, cycle - trip, slot=3, tries=tries)
        echo = tries % (1 << system.format.try_bits)
        round_trip.sample(k, row, cycle, 3, distance, echo if same_try else echo ^ 1)
        if same_try:
            expected[distance].sample(cycle, trip)
        cycle += 1
        for c, estimator in enumerate(expected):
            delays = [estimator.time_out(cycle) << s for s in range(min(tries, 3) + 1)]
            assert round_trip.time_out(k, row, cycle, c, tries) == max(d for d in delays if d <= 1000)


def test_a_reset_forgets_all_that_was_measured():
    """Stamps, too: an Ack may come for a datagram that was accepted since and not yet sent."""
    system = System.make(**TREE, timers={"ceiling": 1000, "backoff_steps": 3, "slack": 5})
    k = parameters(system, EXTERNAL)
    used, fresh = (Registers(np.zeros(k.ni_width, np.int64)) for _ in range(2))
    for row in (used, fresh):
        row.time_zero = 10_000
        ladder.clear(k, row)
    for cycle in (20_000, 20_003):  # the second is not yet used when the reset comes
        round_trip.stamp(k, used, cycle - 300, slot=3, tries=1)
        round_trip.sample(k, used, cycle, 3, 1, 1)
    assert round_trip.time_out(k, used, 20_000 + MEASURED, 1, 0) > system.delays[1]
    ladder.clear(k, used)
    for echo in (None, 1, 0):
        for row in (used, fresh) if echo is not None else ():
            round_trip.sample(k, row, 10_200, 3, 1, echo)
        times = [[round_trip.time_out(k, row, 20_030, c, 2) for c in range(3)] for row in (used, fresh)]
        assert times[0] == times[1]
        assert (times[1][1] > 4 * system.delays[1]) == (echo == 0)


def test_a_node_that_is_reset_begins_with_the_time_outs_of_the_configuration():
    ni = Ni(make("tree", timers={"ceiling": 1000, "jitter_bits": 0}), 3)

    def first_repeat(**inputs):
        """Cycles from the first Send of a datagram to its second."""
        run(ni, 40, **inputs)
        ni.step(None, offer(6, 8), **inputs)
        rows = run(ni, 130, [BEAT, 6, 0, 7, 0, 0], **inputs)
        first, second, *_ = (i for i, row in enumerate(rows) if row[2 * LANE_TX] & 0xFF == Event.SEND)
        return second - first

    before = first_repeat()
    run(ni, 60, arrivals=message(Kind.ACK, generation=0, peer_incarnation=1, **{"try": 1}))
    assert first_repeat() > before
    run(ni, 2, reset=True, incarnation=2)
    assert first_repeat(incarnation=2) == before


def test_a_loaded_network_is_repeated_into_less():
    """With credits a message waits for those before it: fixed time-outs repeat all of them, measured ones few."""
    repeats = {}
    for ceiling in (0, 4000):
        system = System.make(
            topology={"levels": 2}, wire={"generation_bits": 20}, router={"flow": "credits", "credit_flits": 6},
            timers={"ceiling": ceiling}, workload={"count": 0, "load": 1.0}, run={"cycles": 6000},
        )  # fmt: skip
        golden = Golden(system, record=True)
        golden.run(3000)
        golden.take_events()
        golden.run(3000)
        events = golden.take_events()["word"] & np.uint64(0xFF)
        repeats[ceiling] = np.sum(events == Event.REPEAT) / np.sum(events == Event.DELIVER)
    assert repeats[4000] < 0.5 < 2 < repeats[0]

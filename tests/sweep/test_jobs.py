"""A sweep's runs as tasks."""

from itertools import pairwise

import pytest

from lethe_sim.sweep.jobs import task_starts


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("costs", [[1.0], [5.0, 1.0, 1.0], [1.0] * 160, [9.0] * 20 + [1.0] * 40])
def test_tasks_are_few_and_the_last_are_short(costs, workers):
    starts = task_starts(costs, workers)
    assert starts[0] == 0 and starts[-1] == len(costs) and starts == sorted(set(starts))
    shares = [sum(costs[a:b]) / sum(costs) for a, b in pairwise(starts)]
    # No worker begins with more than half of its share, but for a single run, and the last have one run each.
    assert shares[0] <= 0.5 / workers + max(costs) / sum(costs)
    assert len(costs) < 4 * workers or starts[-1] - starts[-2] == 1
    assert len(shares) <= 2 * workers * 8

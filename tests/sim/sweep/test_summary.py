"""Student's intervals, against tables and against chance itself."""

import numpy as np
import pytest

from lethe_sim.sweep.summary import interval, student, summary, within

# Two-sided 95 % points as every table has them.
TABLE = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 9: 2.2622, 10: 2.2281, 29: 2.0452, 120: 1.9799}


@pytest.mark.parametrize("freedom, value", TABLE.items())
def test_student(freedom, value):
    assert student(freedom) == pytest.approx(value, abs=6e-5)


def test_other_confidences():
    assert student(1, 0.5) == pytest.approx(1.0)
    assert student(10, 0.99) == pytest.approx(3.1693, abs=6e-5)
    assert within(0, 7) == 0


def test_interval():
    n, mean, deviation, low, high = interval([1.0, 2.0, 3.0, 4.0])
    assert (n, mean) == (4, 2.5) and deviation == pytest.approx(np.std([1, 2, 3, 4], ddof=1))
    assert high - mean == pytest.approx(mean - low) == pytest.approx(3.18245 * deviation / 2, rel=1e-4)
    assert interval([7.0]) == (1, 7.0, None, None, None)
    assert interval([0.1] * 3)[2:] == (0.0, pytest.approx(0.1), pytest.approx(0.1))


def test_intervals_hold_the_truth_as_often_as_they_say():
    chance = np.random.default_rng(1)
    draws = chance.normal(3, 2, (2000, 5)).tolist()
    ends = [interval(values)[3:] for values in draws]
    held = sum(low <= 3 <= high for low, high in ends if low is not None and high is not None)
    # 1900 ± four standard deviations of the count.
    assert 1860 < held < 1940


def test_order_does_not_matter():
    values = np.random.default_rng(2).random(30).tolist()
    assert interval(values) == interval(values[::-1])
    rows = [(0, "a", 1.0, "1"), (1, "a", 2.0, "1"), (0, "a", 3.0, "1"), (0, "b", 4.0, "s")]
    assert [row[:5] for row in summary(rows)] == [(0, "a", "1", 2, 2.0), (1, "a", "1", 1, 2.0), (0, "b", "s", 1, 4.0)]

"""Replicas put together: the mean of each metric at each point, with the confidence interval of the mean."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from lethe.spec.config import System

CONFIDENCE = 0.95


def summary(rows: Iterable[tuple[int, str, float, str]]) -> Iterator[tuple]:
    """Rows of the table ``summary`` from (point, metric, value, unit) of every run, in the order they first come.

    The interval is Student's, over replicas, which are independent and taken for normal.
    """
    found: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    for point, metric, value, unit in rows:
        found[point, metric, unit].append(value)
    for (point, metric, unit), values in found.items():
        yield point, metric, unit, *interval(values)


def broken(system: System, value: Mapping[str, float]) -> bool:
    """Whether a run with these metrics broke its promise, as far as counting sees; a reset may deliver twice."""
    doubled = 0 if system.node_resets else value["doubled"]
    return bool(doubled or value["lost"] or value.get("wrong", 0) or not value.get("right", 1))


def interval(values: list[float]) -> tuple[int, float, float | None, float | None, float | None]:
    """(n, mean, standard deviation, low, high) of at least one value; one alone has neither deviation nor interval."""
    n = len(values)
    # Computed exactly, so that neither depends on the order of the runs.
    mean = statistics.mean(values)
    if n == 1:
        return n, mean, None, None, None
    deviation = statistics.stdev(values)
    half = student(n - 1) * deviation / math.sqrt(n)
    return n, mean, deviation, mean - half, mean + half


def student(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t within which Student's distribution has ``confidence`` of its mass; ``freedom`` from 1 on.

    By bisection of the distribution's closed form (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    low, high = 0.0, 2.0
    while within(high, freedom) < confidence:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, freedom) < confidence else (low, middle)
    return high


def within(t: float, freedom: int) -> float:
    """The mass of Student's distribution between −t and t."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    term, total = (cosine, cosine) if freedom % 2 else (1.0, 1.0)
    for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if freedom % 2:
        return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))
    return sine * total

"""Rows that belong together: equal ones in turn, and those that come after others."""

import numpy as np

from lethe_sim.ledger.columns import NULL, starts_of

__all__ = ["met", "rank", "since"]


def rank(keys: np.ndarray) -> np.ndarray:
    """How many equal keys are before each."""
    order = np.argsort(keys, kind="stable")
    starts = starts_of(keys[order])
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    return ranks


def met(keys: np.ndarray, ranks: np.ndarray, other: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each of two sets of (key, rank) the place of the equal one in the other set, `NULL` if there is none."""
    _, numbers = np.unique(np.concatenate([keys, other]), return_inverse=True)
    size = 1 + max((int(r.max()) for r in (ranks, others) if len(r)), default=0)
    mine, theirs = numbers[: len(keys)] * size + ranks, numbers[len(keys) :] * size + others
    _, here, there = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    found_here, found_there = np.full(len(mine), NULL), np.full(len(theirs), NULL)
    found_here[here], found_there[there] = there, here
    return found_here, found_there


def since(keys: np.ndarray, cycles: np.ndarray, of: np.ndarray, until: np.ndarray) -> np.ndarray:
    """Of each of ``of`` how many equal keys there are whose cycle is not after ``until``."""
    _, numbers = np.unique(np.concatenate([keys, of]), return_inverse=True)
    known, asked = numbers[: len(keys)], numbers[len(keys) :]
    shift = 2 + max((int(c.max()) for c in (cycles, until) if len(c)), default=0)
    ordered = np.sort(known * shift + cycles)
    return np.searchsorted(ordered, asked * shift + until, "right") - np.searchsorted(ordered, asked * shift)

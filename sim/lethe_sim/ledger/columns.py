"""NumPy columns: groups of equal rows, numbers that may be missing, texts."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: A number that is not there.  Whatever is there is at least 0.
NULL = -1

_HASH = np.uint64(0x9E37_79B9_7F4A_7C15)

Columns = Mapping[str, np.ndarray]


def runs(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(order, starts): an order of rows in which equal rows stand together, and the place of each first one.

    By a hash of the columns, which is quicker to sort than they are; by themselves if two hashes are the same.
    """
    size = len(columns[0])
    hashes = np.zeros(size, np.uint64)
    for column in columns:
        hashes = (hashes ^ column.astype(np.uint64)) * _HASH
        hashes ^= hashes >> np.uint64(29)
    order = np.argsort(hashes)
    new, hashes = np.ones(size, bool), hashes[order]
    differs = _changes(columns, order)
    new[1:] = hashes[1:] != hashes[:-1]
    if (differs & ~new[1:]).any():
        order = np.lexsort(columns)
        new[1:] = _changes(columns, order)
    return order, np.flatnonzero(new)


def _changes(columns: tuple[np.ndarray, ...], order: np.ndarray) -> np.ndarray:
    differs = np.zeros(max(len(order) - 1, 0), bool)
    for column in columns:
        there = column[order]
        differs |= there[1:] != there[:-1]
    return differs


def starts_of(*columns: np.ndarray) -> np.ndarray:
    """The place of the first of each run of equal rows that stand together."""
    new = np.ones(len(columns[0]), bool)
    new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def most_before(starts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For each row the greatest of ``values`` before it in its run, NULL if there is none; runs begin at ``starts``."""
    if not len(values):
        return values
    known, ranks = np.unique(values, return_inverse=True)
    run = np.zeros(len(values), np.int64)
    run[starts[1:]] = 1
    # The greatest so far, of this run: a later run's ranks are above all of an earlier one's.
    most = np.maximum.accumulate(np.cumsum(run) * len(known) + ranks) % len(known)
    before = np.full(len(values), NULL, np.int64)
    before[1:] = known[most[:-1]]
    before[starts] = NULL
    return before


def split(columns: Columns, buckets: np.ndarray) -> dict[int, dict[str, np.ndarray]]:
    """The rows of each bucket."""
    order = np.argsort(buckets, kind="stable")
    starts = starts_of(buckets[order])
    pieces = {name: np.split(values[order], starts[1:]) for name, values in columns.items()}
    return {
        int(buckets[order[start]]): {name: parts[place] for name, parts in pieces.items()}
        for place, start in enumerate(starts)
    }


def joined(pieces: list[Columns], types: Mapping[str, type]) -> dict[str, np.ndarray]:
    """The rows of all pieces; ``types`` are their columns."""
    return {name: np.concatenate([np.zeros(0, kind), *(p[name] for p in pieces)]) for name, kind in types.items()}


def nullable(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Numbers that are null where they are `NULL`."""
    return pa.array(values, kind, mask=values == NULL)


def text(*parts: str | np.ndarray) -> pa.Array:
    """Texts row by row, of words and numbers, a blank between them; numbers that are `NULL` are left out."""
    size = next(len(part) for part in parts if not isinstance(part, str))
    columns = [
        pa.repeat(pa.scalar(part), size) if isinstance(part, str) else nullable(part, pa.int64()).cast(pa.string())
        for part in parts
    ]
    return pc.binary_join_element_wise(*columns, " ", null_handling="skip")

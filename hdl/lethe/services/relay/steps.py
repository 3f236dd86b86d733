"""The words of jobs: phases, fates, rows of walks; cycles; orders of uids and lives."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import enum

__all__ = [
    "LONG", "SEARCH", "SHORT", "STEP", "Fate", "RelayPhase", "WalkRows", "counted", "exceeds", "is_below", "is_newer",
    "is_same", "one_of", "same_pairs",
]  # fmt: skip

#: Cycles from its beginning until a job acts, short and long; from a step to the next; of a search, beside its cells.
SHORT, LONG, STEP, SEARCH = 3, 8, 4, 3


class RelayPhase(enum.Enum, shape=4):
    """What the next step of a job is for."""

    FIRST = 0
    FREE = 1  # slots of a stream, up to one, or all of a dead destination
    ACK = 2  # records before one that is ACKED
    FORGET = 3  # records before one that has ended
    SEARCH = 4  # whether the message is parked
    CLEAR = 5  # parked cells of an older incarnation
    JUDGE = 6
    STORE = 7  # after an eviction
    RELEASE = 8  # a parked message whose turn it is
    ANSWER = 9
    DUE = 10  # the oldest held buffer
    STREAM = 11  # only beats are left


class Fate(enum.Enum, shape=2):
    """What becomes of the beats of data in."""

    DROP = 0
    CELL = 1
    BUFFER = 2
    THROUGH = 3


def one_of(otherwise, *choices: tuple) -> Value:
    """The word of the one condition that is met; if none is, ``otherwise``, which may come late."""
    none = ~Cat(condition for condition, _ in choices).any()
    return reduce(or_, (Mux(condition, word, 0) for condition, word in choices), Mux(none, otherwise, 0))


def counted(m: Module, count: Signal, some: Signal | None, more: Value, fewer: Value) -> None:
    """A count of what steps make one more or one fewer, a cycle late; and at once whether it is not 0."""
    more_late, fewer_late = Signal(), Signal()
    m.d.sync += [more_late.eq(more), fewer_late.eq(fewer)]
    with m.If(more_late | fewer_late):
        m.d.sync += count.eq(count + Mux(more_late, 1, -1))
    if some is None:
        return
    with m.If(more):
        m.d.sync += some.eq(1)
    with m.Elif(fewer):
        m.d.sync += some.eq(count != 1)


def exceeds(number: Value, limit: int) -> Value:
    """Whether a number is above a constant: of fours, the highest that differ; without carries."""

    def compared(first: int, last: int) -> tuple[Value, Value]:
        if last - first <= 4:
            part = number[first:last]
            return part > (limit >> first) % (1 << len(part)), part == (limit >> first) % (1 << len(part))
        middle = first + (last - first + 7) // 8 * 4
        (low, same_low), (high, same_high) = compared(first, middle), compared(middle, last)
        return high | (same_high & low), same_high & same_low

    return compared(0, len(number))[0]


def same_pairs(one, other) -> Value:
    """Of each two bits of two words whether they are the same."""
    differs = Value.cast(one) ^ Value.cast(other)
    return Cat(~differs[i : i + 2].any() for i in range(0, len(differs), 2))


def is_same(one, other) -> Value:
    """Whether two words are the same: of each two of their bits, and then of all by a carry, which is faster."""
    pairs = same_pairs(one, other)
    return (pairs + 1)[len(pairs)]


def is_below(uid, mark) -> Value:
    """Whether a uid is at or below another."""
    return ~(mark - uid)[: len(mark)][-1]


def is_newer(incarnation, known) -> Value:
    """Whether an incarnation is newer than another."""
    ahead = (incarnation - known)[: len(known)]
    return ~is_same(incarnation, known) & ~ahead[-1] if len(known) > 1 else Const(0, 1)


class WalkRows(enum.Enum, shape=4):
    """The rows of a walk: a bit each."""

    NODES = 1
    SLOTS = 2
    RECORDS = 4
    CELLS = 8

"""Named fields: the same numbers by name in Python and in compiled code."""

from typing import Any

import numpy as np
import pytest

from lethe_sim.golden.compile import jit, pointer
from lethe_sim.golden.record import Record, bits, numbers, raw, records, table
from lethe_sim.golden.state import InputQueue, Message, Parameters, Queue


class Hold(Record):
    """Two numbers."""

    full: int
    token: int


class Row(Record):
    """Every kind of field."""

    live: int
    stage: Any = numbers(3)
    ladders: Any = records(Hold, 2)
    last: int


_rows = table(Row)


@jit
def write(row, words):
    """Write every kind of field; returns what is read back."""
    row.live += 2
    row.stage[1] = row.live * 10
    row.ladders[1].token = row.stage[1] + 1
    rows = _rows(pointer(words))
    rows[2].last, rows[2].live = 7, row.live > 1
    inner = Row(row, 0, 1)  # the record behind this one
    raw(inner)[0] = np.uint64(5)
    return row.ladders[1].token + inner.live + rows[2].last


def test_fields_are_where_they_are_named():
    """A field is the number at its place, of the record with that number, whoever looks."""
    words = np.zeros(4 * Row.size, np.int64)
    row = Row(words)
    assert (Row.live, Row.stage, Row.ladders, Row.last, Row.size) == (0, 1, 4, 8, 9)
    assert write(row, words) == 21 + 5 + 7
    expected = {Row.live: 2, Row.stage + 1: 20, Row.ladders + Hold.size + Hold.token: 21, Row.size: 5}
    expected |= {2 * Row.size + Row.last: 7, 2 * Row.size + Row.live: 1}
    assert {int(place): int(words[place]) for place in np.flatnonzero(words)} == expected
    assert (row.live, row.stage[1], row.ladders[1].token, Row(words, Row.size).live) == (2, 20, 21, 5)
    assert _rows(words)[2].last == Row(words, 0, 2).last == 7
    row.ladders[0].full = 3
    assert words[Row.ladders] == 3


class Packed(Record):
    """Fields that share numbers, and others between them."""

    low: Any = bits(4)
    flag: Any = bits(1)
    whole: int
    first: Any = bits(40)
    second: Any = bits(23)
    third: Any = bits(1)


@jit
def write_bits(packed):
    """Write fields of some bits; returns what is read back."""
    packed.flag, packed.low, packed.whole = 1, 9, -1
    packed.first, packed.third, packed.second = 1 << 39, packed.low > 8, 0x7F_FFFF
    packed.low += 9  # what does not fit is cut off, and changes no other
    return packed.low + packed.flag + packed.third


def test_fields_of_some_bits_share_numbers():
    """As many as fit into 63 bits; a write changes no other field, in Python as in compiled code."""
    assert (Packed.flag, Packed.whole, Packed.first, Packed.second, Packed.third, Packed.size) == (0, 1, 2, 2, 3, 4)
    words = np.zeros(2 * Packed.size, np.int64)
    assert write_bits(Packed(words, 0, 1)) == 2 + 1 + 1
    assert words.tolist() == [0, 0, 0, 0, 2 | 1 << 4, -1, 1 << 39 | 0x7F_FFFF << 40, 1]
    packed = Packed(words, Packed.size)
    assert (packed.low, packed.flag, packed.first, packed.second, packed.third) == (2, 1, 1 << 39, 0x7F_FFFF, 1)
    packed.second, packed.low = 5, 31
    assert (packed.first, packed.second, packed.low, packed.flag) == (1 << 39, 5, 15, 1)


def test_a_name_that_is_none_is_refused():
    with pytest.raises(AttributeError, match="no_field"):
        getattr(Row(np.zeros(Row.size, np.int64)), "no_field")  # noqa: B009


def test_records_that_are_read_as_others_begin_as_those():
    """The queue of an input is read as a `Queue`, the header of a message in the order of the wire's fields."""
    for name in Queue.layout:
        assert getattr(InputQueue, name) == getattr(Queue, name)
    assert list(Message.layout)[-2:] == ["flits", "good"] and Message.kind == 0 and Message.extension == 11
    assert Parameters.queues == Parameters.size  # what follows is as long as there are queues

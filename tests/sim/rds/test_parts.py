"""Long messages are cut and joined (RDS-47), numbers have 64 bits at the ends (RDS-24, RDS-25)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe_sim.rds.constants import LONGEST
from lethe_sim.rds.parts import Counting, Joiner, cut
from lethe_sim.rds.transport import AGAIN, FIRST, LAST, Arrived


def parts(payload: bytes, mtu: int) -> list[tuple[int, int, int]]:
    """(start, end, flags) of each datagram."""
    found, start = [], 0
    while True:
        end, flags = cut(len(payload), mtu, start)
        found.append((start, end, flags))
        if flags & LAST:
            return found
        start = end


def arrived(payload: bytes, flags: int, seq: int, *, sport: int = 7, gap: int = 0) -> Arrived:
    return Arrived(0, 0, 1, 0, sport, 9, flags, seq % 256, gap, payload)


@given(length=st.integers(0, 300), mtu=st.integers(1, 64))
def test_parts_cover_a_message(length, mtu):
    found = parts(bytes(length), mtu)
    assert found[0][0] == 0 and found[-1][1] == length
    assert all(one[1] == other[0] for one, other in pairwise(found))
    assert all(0 < end - start <= mtu for start, end, _ in found) or length == 0
    assert [bool(flags & FIRST) for *_, flags in found] == [True] + [False] * (len(found) - 1)
    assert [bool(flags & LAST) for *_, flags in found] == [False] * (len(found) - 1) + [True]


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=8), mtu=st.integers(1, 9),
    lost=st.sets(st.integers(0, 60), max_size=6), data=st.data(),
)  # fmt: skip
def test_a_message_arrives_whole_or_not_at_all(lengths, mtu, lost, data):
    """Whatever parts do not come: flow tells of a gap before the next one that does."""
    messages = [bytes([n]) * length for n, length in enumerate(lengths)]
    sent = [(n, m[s:e], f) for n, m in enumerate(messages) for s, e, f in parts(m, mtu)]
    joiner, got, gap = Joiner(), [], 0
    for seq, (_, payload, flags) in enumerate(sent):
        if seq in lost:
            gap = 1
            continue
        whole = joiner.take(arrived(payload, flags, seq, gap=gap))
        gap = 0
        if whole is not None:
            got.append((whole.payload, whole.number))
    hurt = {sent[seq][0] for seq in lost if seq < len(sent)}
    last = {n: max(seq for seq, one in enumerate(sent) if one[0] == n) for n in range(len(messages))}
    assert got == [(message, last[n]) for n, message in enumerate(messages) if n not in hurt]


def test_a_gap_or_a_first_part_throws_the_open_message_away():
    joiner = Joiner()
    assert joiner.take(arrived(b"a", FIRST, 0)) is None and joiner.open
    assert joiner.take(arrived(b"b", LAST, 2, gap=1)) is None
    assert joiner.discarded == 1 and not joiner.open
    assert joiner.take(arrived(b"c", FIRST, 3)) is None
    whole = joiner.take(arrived(b"d", FIRST | LAST | AGAIN, 4))
    assert whole is not None and (whole.payload, whole.again, joiner.discarded) == (b"d", True, 2)


def test_parts_of_another_socket_or_beyond_1_mib_are_no_message():
    joiner = Joiner()
    joiner.take(arrived(b"a", FIRST, 0))
    assert joiner.take(arrived(b"b", LAST, 1, sport=8)) is None
    joiner.take(arrived(bytes(LONGEST), FIRST, 2))
    assert joiner.take(arrived(b"b", LAST, 3)) is None
    assert joiner.discarded == 2 and not joiner.open


@given(steps=st.lists(st.integers(1, 255), max_size=50))
def test_numbers_have_64_bits_as_long_as_no_256_are_missing(steps):
    counting, number = Counting(), 0
    assert counting.extended(0) == 0
    for step in steps:
        number += step
        assert counting.extended(number % 256) == number


@pytest.mark.parametrize(("missing", "short"), [(255, 0), (256, 256), (300, 256)])
def test_what_256_missing_numbers_do(missing, short):
    counting = Counting()
    counting.extended(0)
    assert counting.extended((1 + missing) % 256) == 1 + missing - short


def test_datagrams_to_the_own_node_are_counted():
    """They bear no number; one from another node that says 0 again is 256 numbers later."""
    own, other = Joiner(own=True), Joiner()
    numbers = [[joiner.take(arrived(b"x", FIRST | LAST, 0)).number for _ in range(3)] for joiner in (own, other)]
    assert numbers == [[0, 1, 2], [0, 256, 512]]

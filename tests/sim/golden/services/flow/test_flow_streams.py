"""Streams of flow against references that keep sets of numbers: what is finished, void, there; limits."""

import random

import numpy as np
import pytest

from lethe.spec.services.flow import WINDOW, Out
from lethe_sim.golden.services.flow import state
from lethe_sim.golden.services.flow.state import InStream, OutStream, Peer


def out_stream(base=0):
    stream = OutStream(np.zeros(OutStream.size, np.int64))
    stream.next = stream.base = base
    return stream


def in_stream(expected=0):
    stream = InStream(np.zeros(InStream.size, np.int64))
    stream.expected = expected
    return stream


@pytest.mark.parametrize("seed", range(4))
def test_finished_numbers(seed):
    """Numbers finish in any order; the base is the oldest that has not."""
    chance, stream, finished, base = random.Random(seed), out_stream(250), set(), 0
    for _ in range(2000):
        number = base + chance.randrange(-3, WINDOW + 3)
        if chance.random() < 0.3 and base <= number < base + WINDOW and number not in finished:
            stream.void |= 1 << (number + 250 - stream.base & 255)
        state.finish(stream, number + 250 & 255)
        if base <= number < base + WINDOW:
            finished.add(number)
        while base in finished:
            base += 1
        assert stream.base == base + 250 & 255
        assert {base + k for k in range(WINDOW) if stream.done >> k & 1} == {n for n in finished if n > base}
        assert not any(stream.void >> k & 1 for k in range(WINDOW) if stream.done >> k & 1)


@pytest.mark.parametrize("seed", range(4))
def test_numbers_that_are_there(seed):
    """What is there leaves the window as soon as all before it is there, filled or not."""
    chance, stream, there, expected = random.Random(seed), in_stream(240), {}, 0
    for _ in range(2000):
        number = expected + chance.randrange(WINDOW)
        if number in there:
            continue
        there[number] = chance.random() < 0.7
        stream.present |= 1 << number - expected
        stream.filled |= there[number] << number - expected
        run = []
        while expected + len(run) in there:
            run.append(there[expected + len(run)])
        count, mask = state.shift(stream)
        assert (count, mask & (1 << count) - 1) == (len(run), sum(filled << k for k, filled in enumerate(run)))
        expected += len(run)
        assert stream.expected == expected + 240 & 255
        assert stream.present == sum(1 << n - expected for n in there if n >= expected)


@pytest.mark.parametrize("out", list(Out))
def test_limits(out):
    """A limit is raised by 1 to 16, and not beyond 16 numbers after the next one, while the peer is there."""
    peer = Peer(np.zeros(Peer.size, np.int64))
    peer.out = out
    for following in range(0, 17):
        for credit in range(-40, 60):
            stream = out_stream(200)
            stream.limit, stream.next, stream.asked = 200 + 16 - following & 255, 200, 1
            raises = out in (Out.CONNECTING, Out.UP)
            raises &= 1 <= credit - 16 + following <= 16 and 0 <= credit <= 16
            assert bool(state.raise_limit(peer, stream, 200 + credit & 255)) == raises
            assert stream.limit == (200 + (credit if raises else 16 - following) & 255)
            assert stream.asked == (not raises)


def test_serial_numbers():
    for a in range(256):
        for b in range(0, 256, 7):
            assert bool(state.ahead(a, b)) == ((a - b) % 256 in range(1, 128))


def test_told_limits_go_on_only():
    stream = in_stream()
    for credit, told in ((5, 5), (3, 5), (130, 130), (2, 130), (1, 1), (129, 1), (128, 128)):
        state.told(stream, credit)
        assert stream.told == told

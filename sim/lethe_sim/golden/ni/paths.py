"""Which path a message takes through a tree (4.18), and which are left out (4.20); 0 where there are none."""

from lethe.spec.stages import HEARD
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.state import MissRing, PathCount

from . import misses


@jit
def path_of(k, path, tries):
    """That of a datagram, or of its Ack, after so many tries."""
    return path + (tries >> 1) & (1 << k.path_bits) - 1


@jit
def next_tries(k, tries):
    """The number of tries after so many; it does not end with paths, so that none is left out."""
    if tries < 255:
        return tries + 1
    return 256 - (2 << k.path_bits) if k.path_bits > 0 else 255


@jit
def count_of(k, ni, number):
    """What is known of a path to a node: ``number`` is node · 2^P + path."""
    return PathCount(ni, k.at_paths, number)


@jit
def note_ring(k, ni):
    """Misses and answers that do not count yet; they lie behind all counts."""
    return MissRing(count_of(k, ni, k.nodes << k.path_bits))


@jit
def clear(k, ni):
    """As after reset."""
    if k.path_after == 0:
        return
    note_ring(k, ni).count = 0
    for number in range(k.nodes << k.path_bits):
        count = count_of(k, ni, number)
        count.repeats, count.left_out = 0, 0


@jit
def repeated(k, ni, cycle, node, path):
    """A datagram to a node is repeated in ``cycle``, of which the last Send took a path."""
    if k.path_after > 0 and node < k.nodes:  # a record may be for any number
        note(k, ni, cycle, node << k.path_bits | path, 1)


@jit
def came_through(k, ni, cycle, node, path):
    """An Ack of a node that came on a path releases a datagram in ``cycle``."""
    if k.path_after > 0:
        note(k, ni, cycle, node << k.path_bits | path, 0)


@apart
def note(k, ni, cycle, number, missed):
    """At most one acts in a cycle."""
    settle(k, ni, cycle)
    misses.note(note_ring(k, ni), cycle, number, missed)


@jit
def settle(k, ni, cycle):
    """What is known in ``cycle`` counts."""
    ring = note_ring(k, ni)
    while misses.is_known(ring, cycle):
        oldest = ring.ring[ring.oldest]
        count = count_of(k, ni, oldest.index)
        count.repeats = min(count.repeats + 1, k.path_after) if oldest.missed else 0
        count.left_out = period(k, ni, oldest.cycle + HEARD) if count.repeats == k.path_after else 0
        misses.taken(ring)


@jit
def period(k, ni, cycle):
    """The number of a period, from 1 on after the reset."""
    return (cycle - (ni.ready_from - k.initial)) // k.path_probe + 1


@jit
def choose(k, ni, cycle, node, path):
    """The path that what is judged in ``cycle`` takes: the first from ``path`` on that is not left out, else that."""
    if k.path_after > 0:
        settle(k, ni, cycle)
        for further in range(1 << k.path_bits):
            other = path + further & (1 << k.path_bits) - 1
            if count_of(k, ni, node << k.path_bits | other).left_out != period(k, ni, cycle):
                return other
    return path

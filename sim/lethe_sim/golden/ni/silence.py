"""Silent nodes (section 4.14): who answers nothing any more, and what becomes of the datagrams for it."""

from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.state import NONE, MissRing, Neighbour

from . import misses


@jit
def neighbour_of(k, ni, node):
    """What is known of a node."""
    return Neighbour(ni, k.at_neighbours, node)


@jit
def note_ring(k, ni):
    """What is not yet known."""
    return MissRing(neighbour_of(k, ni, k.nodes))


@jit
def clear(k, ni):
    """As after reset."""
    ni.probing = NONE
    if k.silent_after == 0:
        return
    note_ring(k, ni).count = 0
    for node in range(k.nodes):
        neighbour = neighbour_of(k, ni, node)
        neighbour.repeats, neighbour.probed = 0, 0


@jit
def repeated(k, ni, cycle, node):
    """A datagram to a node is repeated in ``cycle``."""
    if k.silent_after > 0 and node < k.nodes:  # a record may be for any number
        note(k, ni, cycle, node, 1)


@jit
def heard(k, ni, cycle, node):
    """An Ack or a REJECT of a node acts in ``cycle``."""
    if k.silent_after > 0:
        note(k, ni, cycle, node, 0)


@apart
def note(k, ni, cycle, node, silence):
    """At most one acts in a cycle."""
    settle(k, ni, cycle)
    misses.note(note_ring(k, ni), cycle, node, silence)


@jit
def settle(k, ni, cycle):
    """What is known in ``cycle`` counts."""
    ring = note_ring(k, ni)
    while misses.is_known(ring, cycle):
        oldest = ring.ring[ring.oldest]
        neighbour = neighbour_of(k, ni, oldest.index)
        neighbour.repeats = min(neighbour.repeats + 1, k.silent_after) if oldest.missed else 0
        misses.taken(ring)


@apart
def stops(k, ni, cycle, node, once, tries):
    """Whether nothing is sent of what is judged in ``cycle``, because its destination is silent.

    A first try is sent as the probe if there was none in this period; ``once``: best effort is none.
    """
    settle(k, ni, cycle)
    neighbour = neighbour_of(k, ni, node)
    if neighbour.repeats < k.silent_after:
        return False
    if tries == 0 and not once and neighbour.probed != period(k, cycle - ni.time_zero):
        ni.probing = node
        return False
    return True


@jit
def period(k, time):
    """The number of a period, from 1 on."""
    return time // k.silent_probe + 1


@jit
def probed(k, ni, cycle, held):
    """The cycle in which a probe is judged: its destination has been probed from the next on, in the period of that."""
    node = ni.probing
    neighbour_of(k, ni, node).probed = period(k, cycle - ni.time_zero + (0 if held else 1))
    ni.probing = NONE

"""Silent nodes (section 4.14): who answers nothing any more, and what becomes of the datagrams for it."""

from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.state import NEVER, NONE, Neighbour


@jit
def neighbour_of(k, ni, node):
    """What is known of a node."""
    return Neighbour(ni, k.at_neighbours, node)


@jit
def clear(k, ni):
    """As after reset."""
    ni.noted_at = NEVER
    ni.probing = NONE
    for node in range(k.nodes if k.silent_after > 0 else 0):
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
    """At most one acts in a cycle, and is known three cycles later: so the latest one waits, and no other."""
    settle(k, ni)
    ni.noted_at, ni.noted_node, ni.noted_silence = cycle, node, silence


@jit
def settle(k, ni):
    """What was noted last is known."""
    if ni.noted_at == NEVER:
        return
    neighbour = neighbour_of(k, ni, ni.noted_node)
    neighbour.repeats = min(neighbour.repeats + 1, k.silent_after) if ni.noted_silence else 0
    ni.noted_at = NEVER


@apart
def stops(k, ni, cycle, node, once, tries):
    """Whether nothing is sent of what is granted in ``cycle``, because its destination is silent in ``cycle`` + 1.

    A first try is sent as the probe if there was none in this period; ``once``: best effort is none.
    """
    if ni.noted_at <= cycle - 2:
        settle(k, ni)
    neighbour = neighbour_of(k, ni, node)
    if neighbour.repeats < k.silent_after:
        return False
    if tries == 0 and not once and neighbour.probed != period(k, cycle + 1 - ni.time_zero):
        ni.probing = node
        return False
    return True


@jit
def period(k, time):
    """The number of a period, from 1 on."""
    return time // k.silent_probe + 1


@jit
def probed(k, ni, cycle, held):
    """The cycle after a probe's grant: its destination has been probed from the next on, in the period of that."""
    node = ni.probing
    neighbour_of(k, ni, node).probed = period(k, cycle - ni.time_zero + (0 if held else 1))
    ni.probing = NONE

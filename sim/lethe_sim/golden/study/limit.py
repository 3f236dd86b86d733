"""A limit for datagrams under way to one destination (docs/studies/study.md, ``k.per_destination``)."""

from lethe_sim.golden.compile import at, jit
from lethe_sim.golden.record import raw
from lethe_sim.golden.state import NONE


@jit
def destinations(k, ni):
    """Of each slot the destination of the record taken last, `NONE` once it has ended."""
    return at(raw(ni), k.at_taken)


@jit
def clear(k, ni):
    """As after reset."""
    for slot in range(k.slots if k.per_destination > 0 else 0):
        destinations(k, ni)[slot] = NONE


@jit
def begun(k, ni, slot, destination):
    """A record is taken."""
    if k.per_destination > 0:
        destinations(k, ni)[slot] = destination


@jit
def ended(k, ni, slot):
    """A completion is taken."""
    begun(k, ni, slot, NONE)


@jit
def crowded(k, ni, destination):
    """Whether as many datagrams as may be are under way to a destination."""
    if k.per_destination == 0 or destination >= k.nodes:
        return False
    under_way, to = 0, destinations(k, ni)
    for slot in range(k.slots):
        under_way += to[slot] == destination
    return under_way >= k.per_destination

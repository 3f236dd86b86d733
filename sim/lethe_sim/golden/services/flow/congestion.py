"""Congested ports (section 7): each is looked at in its turn, one a cycle."""

from lethe.spec.events import FLOW_PEERS, Event
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.services import site
from lethe_sim.golden.state import NEVER

from .state import port_at


@jit
def weigh_port(flow, index):
    """Whether a port would become congested, or no more, after a change of it: by its bytes, or by its cells."""
    port, most = port_at(flow, index), flow.cells - flow.in_order
    if port.congested:
        drained = 2 * port.bytes < port.receive_limit and 2 * port.used < most and 4 * port.placed < flow.cells
        flips = not port.bound or drained
    else:
        full = port.bytes >= port.receive_limit or port.used >= most or 2 * port.placed >= flow.cells
        flips = port.bound and full
    flow.flips = flow.flips & ~(1 << index) | (1 << index if flips else 0)


@jit
def turn(flow, cycle):
    """The port whose turn it is."""
    return (cycle - flow.begun) & flow.port_mask


@jit
def look(flow, cycle):
    """1 + the port that becomes congested in the next cycle, or no more; 0 without one."""
    index = turn(flow, cycle)
    return 1 + index if flow.flips >> index & 1 else 0


@jit
def flip(s, flow, index):
    """A port becomes congested, or no more."""
    port = port_at(flow, index)
    port.congested = 1 - port.congested
    flow.congested ^= 1 << index
    weigh_port(flow, index)
    flow.map_asked = 1
    if flow.told_peer == s.cycle:
        flow.unseen += 1
    else:
        site.tell(s, FLOW_PEERS, event_word(Event.FLOW_CONGESTED, port.congested, 0, 0), extra(index), 0)


@jit
def next_turn(flow, cycle):
    """The next cycle in which a port is found to become congested, or no more, or does."""
    if flow.turning:
        return cycle + 1
    if flow.flips == 0:
        return NEVER
    following = cycle + 1
    while look(flow, following) == 0:
        following += 1
    return following

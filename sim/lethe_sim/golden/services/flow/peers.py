"""What peers become, and what the host is told of them (section 9.4)."""

from lethe.spec.events import FLOW_PEERS, Event
from lethe.spec.services.flow import Out
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import event_word
from lethe_sim.golden.lib import queue
from lethe_sim.golden.lib.bits import U0
from lethe_sim.golden.services import site

from .state import number_at, peer_at, weigh


@jit
def become(s, flow, node, state):
    """A peer has another state."""
    peer_at(flow, node).out = state
    weigh(flow, node)
    flow.told_peer = s.cycle
    site.tell(s, FLOW_PEERS, event_word(Event.FLOW_PEER, state, node, 0), U0, 0)


@jit
def leave(s, flow, node):
    """A peer leaves: what is under way to it is to end."""
    peer = peer_at(flow, node)
    peer.map, peer.age = 0, 0
    become(s, flow, node, Out.LEAVING)
    notice(s, flow, node)


@jit
def come_up(s, flow, node):
    """A peer is up; the pause of the probe is over."""
    peer = peer_at(flow, node)
    peer.heard, peer.wanted = 1, 0
    flow.pause, flow.pause_until = 0, min(flow.pause_until, s.cycle + 1)
    become(s, flow, node, Out.UP)
    notice(s, flow, node)


@jit
def become_source(flow, node, state):
    """A source has another state."""
    peer_at(flow, node).source = state
    weigh(flow, node)


@jit
def notice(s, flow, node):
    """The host is to be told of a peer."""
    peer, waiting = peer_at(flow, node), flow.host_notices[0]
    if peer.noticed:
        return
    peer.noticed = 1
    number_at(flow, flow.at_told)[queue.place_in(waiting, flow.nodes + 1, waiting.level)] = node
    queue.added(waiting, 1, s.cycle)


@jit
def first_noticed(flow):
    """The peer that the host is told of first."""
    return number_at(flow, flow.at_told)[flow.host_notices[0].head]


@jit
def step(s, flow):
    """The host takes a notice; what changes of this peer in this cycle is a notice of its own."""
    if queue.shows(flow.host_notices[0], s.cycle) and s.above.drives.notice_ready:
        peer_at(flow, first_noticed(flow)).noticed = 0
        queue.removed(flow.host_notices[0], flow.nodes + 1, s.cycle)

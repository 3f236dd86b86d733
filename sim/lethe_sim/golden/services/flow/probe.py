"""The probe (section 9.6): one PING of a peer that is not up, or one MAP to a source that is mute."""

from lethe.spec.events import Cause
from lethe.spec.services.flow import Code, In, Out
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.state import NEVER

from . import control, hear, peers, tasks
from .state import Concern, PeerTask, peer_at, weigh

# The pause after a failure: at least so many cycles, doubled with each further one, so often at most.
_PAUSE, _MOST = 64, 4
#: The probes of a peer whose receiver may hold messages of a stream that begins again.
MOST_WANTED = 7


@jit
def want(flow, node, probes):
    """So many probes of a peer are wanted."""
    peer_at(flow, node).wanted = probes
    weigh(flow, node)


@jit
def is_sought(flow, cycle):
    """Whether a probe may begin in ``cycle``: there was a peer for it at the start of the cycle before."""
    if flow.probing or cycle < flow.pause_until:
        return False
    return flow.sought_before > 0 if flow.stepped == cycle - 1 else flow.sought > 0


@jit
def next_begin(flow):
    """From which cycle on a probe may begin, if none that is under way ends; `NEVER` without a peer for it."""
    if flow.probing or not (flow.sought or flow.sought_before):
        return NEVER
    return max(flow.pause_until, flow.ready_from + flow.silence)


@jit
def begin(flow):
    """The next peer that a probe is for; if there is none any more, it is node 0."""
    flow.job_number = 0
    if flow.sought == 0:
        return
    node = flow.probed
    while True:
        node = 0 if node + 1 == flow.nodes else node + 1
        if peer_at(flow, node).concerns & Concern.SOUGHT:
            break
    flow.probed = flow.job_number = node


@apart
def act(s, flow):
    """The job: the probe is sent, if it still has a reason."""
    node = flow.job_number
    peer = peer_at(flow, node)
    if peer.out == Out.CONNECTING and peer.wanted and not peer.pong:
        peer.wanted -= 1
        control.send_ping(s, flow, node)
    elif peer.source == In.MUTE:
        control.send_map(s, flow, node)
    else:
        return
    weigh(flow, node)
    flow.telling[0].probe, flow.probing = 1, 1 + node


@jit
def under_way(flow, node):
    """Whether a probe of this peer is under way."""
    return flow.probing == 1 + node


@jit
def end(s, flow, code, node, accepted, cause):
    """The probe has ended; a failure is followed by a pause."""
    peer = peer_at(flow, node)
    flow.probing = 0
    good = accepted
    if code == Code.PING:
        good = peer.pong and peer.out == Out.CONNECTING
        if good:
            peers.come_up(s, flow, node)
    elif peer.source == In.MUTE:
        if accepted:
            hear.revive(flow, node)
            control.mark(flow, s.cycle, Code.MAP, node, 0)
        elif cause == Cause.RESTARTED and flow.task == PeerTask.NONE:
            tasks.begin_close(flow, node)
    if good:
        flow.pause = 0
        return
    flow.pause = min(flow.pause + 1, _MOST)
    flow.pause_until = s.cycle + 1 + max(flow.silence, _PAUSE << flow.pause)

"""Ticks (section 9.5): every so often all peers are looked at, one a job.

A walk that finds nothing is not made step by step: `walk_on` knows where it would be.
"""

from lethe.spec.services.flow import Code, In, Out
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.state import NEVER

from . import control, peers, tasks
from .state import Concern, Job, PeerTask, Walk, peer_at, port_at, weigh

# Cycles from one job to the next, and from its begin to its first step.
TURN, STEP = 6, 5
_CLOSES = 7


@jit
def asked(flow, cycle):
    """What a walk that begins in ``cycle`` is for."""
    found = (Walk.MAP if flow.map_asked else 0) | (Walk.AGES if flow.ages_asked else 0)
    if cycle >= flow.watches_from:
        found |= Walk.WATCHES
    return found


@jit
def wraps(flow, cycle):
    """Whether a walk for ages is asked for in this cycle: the count wraps, and a peer is of an age."""
    return flow.aging > 0 and cycle >= flow.ready_from and (cycle - flow.ready_from + 1) % flow.silence == 0


@jit
def next_wrap(flow, cycle):
    """The next cycle in which this may be so, whatever job is under way."""
    if flow.aging == 0:
        return NEVER
    soon = max(cycle + 1, flow.ready_from)
    return soon + -(soon - flow.ready_from + 1) % flow.silence


@jit
def finds_held(flow, cycle):
    """Whether the count of watches wraps in this cycle, and cells are held, none of which moved since it did last, or
    none of a port that is congested.
    """
    if flow.used == 0 or cycle < flow.ready_from:
        return False
    if flow.used_since >= cycle - flow.watch and flow.congested == 0:
        return False
    if (cycle - flow.ready_from + 1) % flow.watch != 0:
        return False
    if flow.used_since < cycle - flow.watch:
        return True
    for index in range(flow.ports):
        port = port_at(flow, index)
        if port.congested and port.since < cycle - flow.watch:
            return True
    return False


@jit
def next_finding(flow, cycle):
    """The next cycle in which this may be so."""
    if flow.used == 0:
        return NEVER
    soon = max(cycle + 1, flow.ready_from)
    return soon + -(soon - flow.ready_from + 1) % flow.watch


@jit
def may_begin(flow, cycle):
    """Whether a walk is under way, or asked for."""
    return flow.walk_node < flow.nodes or asked(flow, cycle) != 0


@jit
def begin(flow, cycle):
    """The job of the next node begins, and with the first a walk."""
    if flow.walk_node < flow.nodes:
        return
    flow.walk, flow.walk_node, flow.map_asked, flow.ages_asked, flow.walk_to = asked(flow, cycle), 0, 0, 0, 0
    flow.walk_first = 0 if flow.walk_first + 1 >= flow.nodes else flow.walk_first + 1
    if flow.walk & Walk.WATCHES:
        flow.watches_from += (1 + (cycle - flow.watches_from) // flow.watch) * flow.watch


@jit
def node_of(flow, turn):
    """The node of a turn of the walk: each walk begins with another one."""
    node = flow.walk_first + turn
    return node if node < flow.nodes else node - flow.nodes


@apart
def act(s, flow):
    """The job of a node."""
    node = node_of(flow, flow.walk_node)
    flow.walk_node += 1
    if node == s.node:
        return
    flow.job_node, follows = node, False
    tells = flow.walk & Walk.MAP and peer_at(flow, node).source != In.CLOSED
    if flow.walk & Walk.AGES:
        follows = age(s, flow, node)
    if flow.walk & Walk.WATCHES and watch(s, flow, node):
        follows = True
    if tells and follows:
        flow.job_map = 1
    elif tells:
        control.mark(flow, s.cycle, Code.MAP, node, 0)


@jit
def age(s, flow, node):
    """A peer that leaves becomes an error, and is connected to again later; returns whether further steps follow."""
    peer = peer_at(flow, node)
    if peer.out == Out.LEAVING and peer.live == 0:
        peer.age = 0
        peers.become(s, flow, node, Out.ERROR)
    elif peer.out == Out.ERROR and peer.age == 0:
        peer.age = 1
    elif peer.out == Out.ERROR:
        peer.round, peer.pong = peer.round + 1 & 255, 0
        peers.become(s, flow, node, Out.CONNECTING)
        flow.job_clears = 0
        return True
    return False


@jit
def watch(s, flow, node):
    """A peer that accepts nothing is asked; a source that stays mute is closed.  Returns whether it is asked."""
    peer = peer_at(flow, node)
    asks = peer.out == Out.UP and not peer.asked and peer.heard == 0 and (peer.live > 0 or peer.blocked)
    if asks:
        control.mark(flow, s.cycle, Code.PING, node, 0)
    watch_on(peer)
    if peer.source == In.MUTE:
        if peer.source_age < _CLOSES:
            peer.source_age += 1
        elif flow.task == PeerTask.NONE:
            tasks.begin_close(flow, node)
    weigh(flow, node)
    return asks


@jit
def watch_on(peer):
    """What is heard from now on counts; while a PING is under way, also what was heard before."""
    peer.blocked = 0
    if not peer.asked:
        peer.heard = 0


@jit
def concern(flow):
    """The turn of the next node about which the walk that is under way may find something; `Flow.nodes` without."""
    flow.walk_to = max(flow.walk_to, flow.walk_node)
    if flow.walk & Walk.MAP:
        return flow.walk_node
    concerns = 0
    if flow.walk & Walk.AGES and flow.aging:
        concerns |= Concern.AGING
    if flow.walk & Walk.WATCHES and flow.watched:
        concerns |= Concern.WATCHED
    if concerns == 0:
        return flow.nodes
    while flow.walk_to < flow.nodes and not peer_at(flow, node_of(flow, flow.walk_to)).concerns & concerns:
        flow.walk_to += 1
    return flow.walk_to


@jit
def walk_on(flow, cycle, until):
    """Bring walks that find nothing to the start of ``cycle``; jobs make steps before the cycle ``until``."""
    flow.job_at = max(flow.job_at, flow.stepped + 1)
    while True:
        if flow.job == Job.TICK:
            if flow.job_at >= until:
                return
            pass_by(flow)
            if flow.free_from >= cycle:
                return
        elif flow.job != Job.NONE:
            return
        first = flow.free_from
        if flow.walk_node == flow.nodes:
            first = max(first, flow.watches_from)
        if first >= cycle:
            return
        begin(flow, first)
        flow.job, flow.last_job, flow.job_at = Job.TICK, Job.TICK, first + STEP
        flow.job_waits, flow.job_goes_on = 0, 0
        skip(flow, cycle)


@jit
def skip(flow, cycle):
    """Jobs of a walk that are over long before ``cycle``."""
    jobs = min((cycle - flow.job_at) // TURN, flow.nodes - flow.walk_node - 1)
    for _ in range(jobs):
        pass_by(flow)
        flow.job, flow.job_at = Job.TICK, flow.free_from + STEP


@jit
def pass_by(flow):
    """A job that finds nothing, but that a peer was heard."""
    if flow.walk & Walk.WATCHES:
        watch_on(peer_at(flow, node_of(flow, flow.walk_node)))
    flow.walk_node += 1
    flow.job, flow.free_from, flow.acted_at = Job.NONE, flow.job_at + 1, flow.job_at


@jit
def next_look(flow, cycle):
    """The next cycle in which a walk may find something."""
    soon = cycle + 1
    walks = flow.walk_node < flow.nodes
    if walks:
        turns = concern(flow) - flow.walk_node
        if flow.walk_node + turns < flow.nodes:
            begun = flow.job_at - STEP if flow.job == Job.TICK else max(soon, flow.free_from)
            return max(soon, begun + STEP) + TURN * turns
    if (flow.map_asked or flow.ages_asked) and not walks:
        return soon
    over = soon
    if walks:
        over = (flow.job_at - STEP if flow.job == Job.TICK else soon) + TURN * (flow.nodes - flow.walk_node)
    if flow.map_asked or flow.ages_asked:
        return over
    nearest = max(flow.watches_from, over) if flow.watched else NEVER
    return nearest

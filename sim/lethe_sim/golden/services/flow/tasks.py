"""Tasks (section 9.7): a source opens or closes, a peer comes up with another life."""

from lethe.spec.services.flow import Code, In, Out
from lethe_sim.golden.compile import apart, jit

from . import control, hear, peers
from .state import (
    Fate,
    PeerTask,
    Phase,
    clear_in,
    in_at,
    peer_at,
    push_entry,
    row_at,
)


@jit
def begin_flush(flow, task, node):
    """The first phase of a task."""
    flow.task, flow.phase, flow.task_node, flow.task_index = task, Phase.FLUSH, node, 0
    flow.task_parks = 0
    for index in range(flow.ports):
        flow.task_parks |= in_at(flow, node, index).filled


@jit
def begin_open(flow, node, boot, round_of, incarnation):
    """A source opens: what is left of it is flushed."""
    peer, life = peer_at(flow, node), boot & control.LIFE
    begin_flush(flow, PeerTask.OPEN, node)
    flow.task_boot, flow.task_round, flow.task_incarnation = boot, round_of, incarnation
    flow.task_life, flow.task_sweep = life, peer.life_known and peer.life != life
    peers.become_source(flow, node, In.CLOSED)


@jit
def begin_close(flow, node):
    """A source is closed."""
    begin_flush(flow, PeerTask.CLOSE, node)
    flow.task_sweep = 0
    peers.become_source(flow, node, In.CLOSED)


@jit
def begin_up(flow, node, life, incarnation, paths):
    """A peer that this node connects to has another life."""
    flow.task, flow.phase, flow.task_node = PeerTask.UP, Phase.SWEEP, node
    flow.task_life, flow.task_incarnation, flow.task_paths, flow.task_sweep = life, incarnation, paths, 1


@jit
def sweeps(flow):
    """Whether the NI is asked to forget a source."""
    return flow.task != PeerTask.NONE and flow.phase == Phase.SWEEP


@jit
def swept(flow):
    """The NI has done so."""
    flow.phase = Phase.LAST


@apart
def act(s, flow):
    """A step of a job; whether the job is over."""
    if flow.phase == Phase.FLUSH:
        flush(flow, s.cycle)
        return True
    if flow.phase == Phase.ROWS:
        return clear_row(flow)
    finish(s, flow)
    return True


@jit
def flush(flow, cycle):
    """What a stream has parked is placed, and it begins again."""
    index = flow.task_index
    stream = in_at(flow, flow.task_node, index)
    count = 1
    while stream.filled >> count - 1:
        count += 1
    push_entry(flow, cycle, Fate.RUN, flow.task_node, index, stream.expected, count, stream.filled)
    clear_in(stream)
    flow.task_index += 1
    if flow.task_index == flow.ports:
        flow.phase, flow.task_index = Phase.ROWS, 0


@jit
def has_rows(flow):
    """Whether a task is under way that flushes streams or clears rows."""
    return flow.task != PeerTask.NONE and flow.phase <= Phase.ROWS


@jit
def rows_before_last(flow):
    """Steps of the task before its last row, which nobody need see: each clears a row."""
    return flow.slots - 1 - flow.task_index if flow.phase == Phase.ROWS else 0


@jit
def clear_row(flow):
    """What a row carries for the stream is of no use any more; returns whether it was the last."""
    if row_at(flow, flow.task_index).destination == flow.task_node:
        row_at(flow, flow.task_index).carried = 0
    if flow.task_index == 0 and flow.telling[0].destination == flow.task_node:
        flow.telling[0].carried = 0
    flow.task_index += 1
    if flow.task_index < flow.slots:
        return False
    flow.phase = Phase.SWEEP if flow.task_sweep else Phase.LAST
    return True


@jit
def finish(s, flow):
    """The last job of a task."""
    node, task = flow.task_node, flow.task
    if task == PeerTask.OPEN:
        peer = peer_at(flow, node)
        peer.source_known, peer.source_boot, peer.source_round = 1, flow.task_boot, flow.task_round
        peer.source_incarnation, peer.life, peer.life_known = flow.task_incarnation, flow.task_life, 1
        if flow.task_sweep and peer.out == Out.UP:
            peers.leave(s, flow, node)
        elif flow.task_sweep and peer.out == Out.CONNECTING:
            peer.pong = 0
        peers.become_source(flow, node, In.OPEN)
        control.mark(flow, s.cycle, Code.PONG, node, 0)
        flow.job_node, flow.job_map = node, 1
    elif task == PeerTask.UP:
        hear.answer(s, flow, node, flow.task_life, flow.task_incarnation, flow.task_paths)
    flow.task = PeerTask.NONE


@jit
def has_job(flow):
    """Whether the phase of the task has a job."""
    return flow.task != PeerTask.NONE and flow.phase != Phase.SWEEP

"""What nobody sees is not made step by step: walks that find nothing, attempts in vain, numbers that are void, and a
task on a source that has nothing parked.

`catch_up` makes it as soon as something else happens.
"""

from lethe_sim.golden.compile import apart, jit

from . import drain, hear, jobs, probe, send, tasks, tick, turns
from .state import Job, PeerTask, Phase

# Cycles from a step of a job to the first one of the next.
_TURN, _STEP = tick.TURN, tick.STEP


@apart
def catch_up(flow, cycle):
    """Bring what is not seen to the start of ``cycle``: nothing else has happened since the last step."""
    # No job makes a step in the cycle before a data message acts.
    until_step = cycle - turns.data_acts(flow, cycle)
    if flow.task != PeerTask.NONE or flow.word_state == hear.FULL or flow.leaving:
        do_jobs(flow, cycle, until_step)
    if flow.job in (Job.NONE, Job.TICK):
        tick.walk_on(flow, cycle, until_step)
    send.catch_up(flow, cycle)


@apart
def do_jobs(flow, cycle, until_step):
    """Jobs to hear, to cancel, and those of a task."""
    begin(flow, cycle)
    if flow.job == Job.TASK and has_rows(flow):
        go_on(flow, cycle, until_step)
    drain.catch_up(flow, cycle)


@jit
def has_rows(flow):
    """Whether a task is under way that flushes streams or clears rows."""
    return flow.task != PeerTask.NONE and flow.phase <= Phase.ROWS


@apart
def until(flow, cycle):
    """If nobody sees what the task that flushes streams or clears rows does next, until when: no other job begins
    before, nor does it clear its last row.  Else 0.
    """
    soon = cycle + 1
    if flow.task_parks or flow.job not in (Job.NONE, Job.TASK):
        return 0
    if flow.word_state == hear.FULL or flow.control_queue[0].level > 0 or flow.leaving or flow.cancelling:
        return 0
    if flow.walk_node < flow.nodes or flow.map_asked or flow.ages_asked or not drain.places_nothing(flow):
        return 0
    nearest = min(flow.watches_from, probe.next_begin(flow))
    if nearest <= soon:
        return 0
    first = max(soon, flow.job_at) if flow.job == Job.TASK else max(soon, flow.free_from) + _STEP
    if flow.phase == Phase.FLUSH:
        first += _TURN * (flow.ports - flow.task_index) + flow.slots - 1
    else:
        first += tasks.rows_before_last(flow)
    return min(nearest, first)


@jit
def begin(flow, cycle):
    """A job has begun since the last step."""
    first = max(flow.free_from, flow.stepped + 1)
    if flow.job == Job.NONE and first < cycle:
        job = jobs.next_unseen(flow, first)
        if job != Job.NONE:
            jobs.start(flow, job, first)


@jit
def go_on(flow, cycle, until_step):
    """Bring the job of a task to the start of ``cycle``, and those that follow; they make steps before the cycle
    ``until_step``.
    """
    while flow.job == Job.TASK:
        now = max(flow.job_at, flow.stepped + 1)
        if now >= until_step:
            return
        flushes = flow.phase == Phase.FLUSH
        if flushes:
            # What is popped in this cycle is popped before.
            drain.catch_up(flow, now + 1)
            tasks.flush(flow, now)
        else:
            tasks.clear_row(flow)
        flow.acted_at, flow.job_goes_on, flow.job_at = now, 1, now + 1
        if flushes:
            flow.job, flow.free_from = Job.NONE, now + 1
            begin(flow, cycle)

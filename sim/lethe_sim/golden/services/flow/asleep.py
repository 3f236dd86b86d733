"""What flow does while its node sleeps, since nobody sees it: walks that find nothing, attempts in vain, begins of jobs
that flow alone decides, numbers that are void, and tasks on a source that has nothing parked.

`catch_up` does it as soon as something else happens.
"""

from lethe_sim.golden.compile import apart, jit

from . import drain, hear, jobs, probe, send, tasks, tick, turns
from .state import Job, PeerTask, Phase


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
    """The same of jobs that hear or cancel and of those of a task, which make steps before the cycle ``until_step``."""
    begin(flow, cycle)
    if flow.job == Job.TASK and tasks.has_rows(flow):
        go_on(flow, cycle, until_step)
    drain.catch_up(flow, cycle)


@jit
def begin(flow, cycle):
    """Begin the job that has begun since the last step, if one has."""
    first = max(flow.free_from, flow.stepped + 1)
    if flow.job == Job.NONE and first < cycle:
        job = jobs.next_own(flow, first)
        if job != Job.NONE:
            jobs.start(flow, job, first)


@jit
def go_on(flow, cycle, until_step):
    """Bring the job of a task to the start of ``cycle``, and the jobs of the task that follow."""
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


@apart
def task_until(flow, cycle):
    """How long nobody sees the task that flushes streams or clears rows: until it clears its last row, or another job
    may begin.  0 if it is seen in the next cycle.
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
    last_row = max(soon, flow.job_at) if flow.job == Job.TASK else max(soon, flow.free_from) + tick.STEP
    if flow.phase == Phase.FLUSH:
        last_row += tick.TURN * (flow.ports - flow.task_index) + flow.slots - 1
    else:
        last_row += tasks.rows_before_last(flow)
    return min(nearest, last_row)

"""Jobs (section 9): one unit does all that is neither a message nor a credit, one job after the other."""

from lethe.spec.services.flow import Code
from lethe_sim.golden.compile import apart, jit

from . import cancels, completion, control, hear, probe, settings, tasks, tick
from .state import Job, Notice, Phase, clear_out, out_at

_LAST = len(Job) - 1
# A bit for each.
_COMPLETION, _CONTROL, _SET, _TICK, _SEND, _PROBE, _CANCEL, _TASK = (1 << job for job in Job if job)


@jit
def asking(s, flow):
    """The jobs that have something to do, a bit each."""
    found = 0
    if s.below.shows.completion_valid:
        found |= _COMPLETION
    if flow.word_state == hear.FULL:
        found |= _CONTROL
    if s.above.drives.set_valid:
        found |= _SET
    if tick.may_begin(flow, s.cycle):
        found |= _TICK
    tells, seeks = control.waits(flow, s.cycle), probe.is_sought(flow, s.cycle)
    if (tells or seeks) and control.may_send(s, flow):
        found |= (_SEND if tells else 0) | (_PROBE if seeks else 0)
    if flow.leaving and not flow.cancelling:
        found |= _CANCEL
    if tasks.has_job(flow):
        found |= _TASK
    return found


@jit
def chosen(s, flow):
    """The job that begins in this cycle, or 0."""
    if flow.job != Job.NONE or s.cycle < flow.free_from:
        return 0
    ask, job = asking(s, flow), flow.last_job
    if ask == 0:
        return 0
    while True:
        job = 1 if job == _LAST else job + 1
        if ask >> job & 1:
            return job


@apart
def begin(s, flow, job):
    """A job begins."""
    flow.job, flow.last_job, flow.job_at, flow.job_waits, flow.job_goes_on = job, job, s.cycle + tick.STEP, 0, 0
    if job == Job.COMPLETION:
        completion.begin(s, flow)
    elif job == Job.CONTROL:
        flow.job_waits = hear.code_of(s, flow) == Code.VOID
    elif job == Job.SET:
        settings.begin(s, flow)
    elif job == Job.TICK:
        tick.begin(flow, s.cycle)
    elif job == Job.SEND:
        flow.job_number = control.pop(flow, s.cycle)
    elif job == Job.PROBE:
        probe.begin(flow)
    elif job == Job.TASK:
        flow.job_waits = flow.phase == Phase.FLUSH


@apart
def act(s, flow):
    """The job that is under way makes a step."""
    job, over, flow.acted_at = flow.job, True, s.cycle
    # What is told, cancelled or flushed changes nothing that an attempt depends on.
    if job not in (Job.SEND, Job.CANCEL, Job.TASK) or flow.phase == Phase.LAST:
        flow.vain = 0
    if flow.job_goes_on and (job != Job.TASK or goes_on(flow)):
        go_on(s, flow)
    elif job == Job.COMPLETION:
        completion.act(s, flow)
    elif job == Job.CONTROL:
        hear.act(s, flow)
    elif job == Job.SET:
        settings.act(flow)
    elif job == Job.TICK:
        tick.act(s, flow)
    elif job == Job.SEND:
        control.tell_notice(s, flow, flow.job_number)
    elif job == Job.PROBE:
        probe.act(s, flow)
    elif job == Job.CANCEL:
        cancels.act(flow)
    else:
        over = tasks.act(s, flow)
    flow.job_goes_on = 1
    if over and not goes_on(flow):
        flow.job, flow.free_from = Job.NONE, s.cycle + 1
        if job == Job.CONTROL:
            hear.forget(flow)


@jit
def goes_on(flow):
    """Whether further steps follow that clear or mark something."""
    return flow.job_clears < flow.ports or flow.job_map or flow.job_windows < flow.ports


@jit
def go_on(s, flow):
    """A further step: an out stream begins again, MAP is marked, or a WINDOW that waits is."""
    node = flow.job_node
    if flow.job_clears < flow.ports:
        stream = out_at(flow, node, flow.job_clears)
        if stream.next != stream.base:
            probe.want(flow, node, probe.MOST_WANTED)
        clear_out(stream)
        flow.job_clears += 1
    elif flow.job_map:
        control.mark(flow, s.cycle, Code.MAP, node, 0)
        flow.job_map = 0
    else:
        number = control.notice_of(flow, Code.WINDOW, node, flow.job_windows)
        if control.states(flow)[number] == Notice.WAITING:
            control.enqueue(flow, s.cycle, number)
        flow.job_windows += 1

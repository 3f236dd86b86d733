"""Jobs (section 9): one unit does all that is neither a message nor a credit, one job after the other."""

from lethe.spec.services.flow import Code
from lethe_sim.golden.compile import apart, jit

from . import cancels, completion, control, hear, probe, send, settings, tasks, tick
from .state import Job, Notice, Phase, clear_out, out_at

_LAST = len(Job) - 1
# A bit for each.
_COMPLETION, _CONTROL, _SET, _TICK, _SEND, _PROBE, _CANCEL, _TASK = (1 << job for job in Job if job)


@jit
def asking(s, flow):
    """The jobs that have something to do, a bit each."""
    found = asking_own(flow)
    if s.below.shows.completion_valid:
        found |= _COMPLETION
    if s.above.drives.set_valid:
        found |= _SET
    if tick.may_begin(flow, s.cycle):
        found |= _TICK
    tells, seeks = control.waits(flow, s.cycle), probe.is_sought(flow, s.cycle)
    if (tells or seeks) and control.may_send(s, flow):
        found |= (_SEND if tells else 0) | (_PROBE if seeks else 0)
    return found


@jit
def asking_own(flow):
    """Those of them that do not depend on the cycle, the NI or the host."""
    found = _CONTROL if flow.word_state == hear.FULL else 0
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
    return in_turn(flow, asking(s, flow))


@jit
def in_turn(flow, asks):
    """The job whose turn it is, of those that ask, or 0."""
    if asks == 0:
        return 0
    job = flow.last_job
    while True:
        job = 1 if job == _LAST else job + 1
        if asks >> job & 1:
            return job


@jit
def next_own(flow, cycle):
    """The job that begins in ``cycle`` if the NI and the host show nothing: one of `asking_own`.

    0 if none of them asks, or if another job may.
    """
    asks = asking_own(flow)
    if asks == 0 or flow.control_queue[0].level > 0 or tick.may_begin(flow, cycle):
        return 0
    return 0 if probe.next_begin(flow) <= cycle else in_turn(flow, asks)


@jit
def start(flow, job, cycle):
    """A job begins in ``cycle``."""
    flow.job, flow.last_job, flow.job_at, flow.job_waits, flow.job_goes_on = job, job, cycle + tick.STEP, 0, 0
    if job == Job.CONTROL:
        flow.job_waits = flow.word_code == Code.VOID
    elif job == Job.TASK:
        flow.job_waits = flow.phase == Phase.FLUSH


@apart
def begin(s, flow, job):
    """A job begins, and takes what it is about."""
    start(flow, job, s.cycle)
    if job == Job.COMPLETION:
        completion.begin(s, flow)
    elif job == Job.SET:
        settings.begin(s, flow)
    elif job == Job.TICK:
        tick.begin(flow, s.cycle)
    elif job == Job.SEND:
        flow.job_number = control.pop(flow, s.cycle)
    elif job == Job.PROBE:
        probe.begin(flow)


@apart
def act(s, flow):
    """The job that is under way makes a step."""
    job, over, flow.acted_at = flow.job, True, s.cycle
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
    if flow.vain:
        flow.vain = send.waits_on(s, flow)
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

"""Jobs (section 7): one unit does all but to move beats, one job after the other."""

from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.lib import queue
from lethe_sim.golden.state import NEVER

from . import data, hear, tell, transfer, walk, work
from .state import Beats, HostIn, Moving, Phase, RelayJob, now

#: Cycles from its beginning until a job acts, short and long; between steps; of a search, beside one for each cell.
SHORT, LONG, STEP, SEARCH = 3, 8, 4, 3


@jit
def is_long(job):
    """Whether a job reads rows that name other rows."""
    return job == RelayJob.LAUNCH or RelayJob.FEED <= job <= RelayJob.WALK


@jit
def ready(s, relay):
    """The jobs that have something to do, a bit each."""
    found, tree = 0, s.above.drives.tree_valid
    if tree:
        found |= 1 << RelayJob.TREE
    elif relay.walking and walk.used(s, relay) and tell.has_room(s, relay):
        found |= 1 << RelayJob.WALK
    if not relay.told:
        return found
    if relay.registers[0].state == hear.FULL:
        found |= 1 << RelayJob.CONTROL
    if relay.registers[1].state == hear.FULL:
        found |= 1 << RelayJob.DATA
    if queue.shows(relay.sending[0], s.cycle) and not transfer.busy(relay):
        found |= 1 << RelayJob.LAUNCH
    if queue.shows(relay.telling[0], s.cycle) and relay.control == Moving.IDLE:
        found |= 1 << RelayJob.TELL
    if work.offers(s, relay) and not (s.above.drives.quiesce or relay.host_waits) and relay.owed < relay.slots + 4:
        found |= 1 << RelayJob.HOST
    if relay.host == HostIn.STORED:
        found |= 1 << RelayJob.GIVEN
    if queue.shows(relay.hungry[0], s.cycle) and relay.free_cells[0].level > 0 and tell.has_room(s, relay):
        found |= 1 << RelayJob.FEED
    if relay.cancel_walk and not relay.cancelling:
        found |= 1 << RelayJob.CANCEL
    if relay.owing > 0 and relay.free_buffers[0].level + relay.held > 0 and tell.has_room(s, relay):
        found |= 1 << RelayJob.OWED
    if relay.look_wanted:
        found |= 1 << RelayJob.LOOK
    return found


@jit
def may_begin(relay):
    """Whether a job may have something to do in the next cycles, beside those that the host or the NI brings."""
    if relay.registers[0].state == hear.FULL or relay.registers[1].state == hear.FULL or relay.host == HostIn.STORED:
        return True
    if relay.telling[0].level > 0 or relay.look_wanted or relay.cancel_walk:
        return True
    if relay.hungry[0].level > 0 and relay.free_cells[0].level > 0:
        return True
    if relay.owing > 0 and relay.free_buffers[0].level + relay.held > 0:
        return True
    return relay.sending[0].level > 0 and not transfer.busy(relay)


@jit
def chosen(s, relay):
    """The job that begins in this cycle, or 0: the first behind the last one, in turn."""
    if relay.job != RelayJob.NONE or s.cycle < relay.free_from:
        return 0
    found = ready(s, relay)
    if found == 0:
        return 0
    later = found >> relay.last_job + 1
    job = relay.last_job + 1 if later else 0
    left = later if later else found
    while left & 1 == 0:
        left >>= 1
        job += 1
    return job


@apart
def begin(s, relay, job):
    """A job begins."""
    relay.job, relay.last_job, relay.phase = job, job, Phase.FIRST
    relay.job_at = s.cycle + (LONG if is_long(job) else SHORT)
    if job == RelayJob.LAUNCH:
        work.begin_launch(s, relay)
    elif job == RelayJob.TELL:
        work.begin_tell(s, relay)
    elif job == RelayJob.HOST:
        relay.job_number = s.above.drives.destination
    elif job == RelayJob.FEED:
        work.begin_feed(s, relay)
    elif job == RelayJob.CANCEL:
        work.begin_cancel(relay)
    elif job == RelayJob.LOOK:
        relay.look_wanted = 0
    elif job == RelayJob.TREE:
        walk.begin_tree(s, relay)


@jit
def acts(s, relay):
    """Whether the job that is under way makes a step."""
    if relay.job == RelayJob.NONE or relay.phase == Phase.STREAM or s.cycle < relay.job_at:
        return False
    return relay.job != RelayJob.GIVEN or relay.phase == Phase.FREE or not s.below.shows.accepted_valid


@apart
def act(s, relay):
    """A step."""
    job = relay.job
    if job == RelayJob.CONTROL:
        control(s, relay)
    elif job == RelayJob.DATA:
        data.act(s, relay)
    elif job == RelayJob.LAUNCH:
        work.launch(s, relay)
    elif job == RelayJob.TELL:
        work.tell_queued(s, relay)
    elif job == RelayJob.HOST:
        work.host(s, relay)
    elif job == RelayJob.GIVEN:
        work.given(s, relay)
    elif job == RelayJob.FEED:
        work.feed(s, relay)
    elif job == RelayJob.CANCEL:
        work.cancel(s, relay)
    elif job == RelayJob.OWED:
        work.owe(s, relay)
    elif job == RelayJob.LOOK:
        work.look(s, relay)
    elif job == RelayJob.WALK:
        walk.act(s, relay)
    else:
        walk.tree(s, relay)
    settle(s, relay)


@jit
def control(s, relay):
    """A step of control in."""
    phase = relay.phase
    if phase == Phase.FIRST:
        hear.act(s, relay)
    elif phase == Phase.FREE:
        hear.free_next(s, relay)
    elif phase == Phase.ACK:
        hear.ack(relay, relay.job_number)
    elif phase == Phase.FORGET:
        hear.forget(s, relay, relay.job_number)
    else:
        relay.phase = Phase.FIRST
        hear.search(s, relay)


@jit
def settle(s, relay):
    """When the next step is made; or the job is over."""
    if relay.phase == Phase.FIRST:
        over(s, relay)
    elif relay.phase in (Phase.SEARCH, Phase.RELEASE):
        relay.job_at = s.cycle + relay.cells + SEARCH
    elif relay.phase == Phase.LAST:
        relay.job_at = s.cycle + 1
    else:
        relay.job_at = s.cycle + STEP


@jit
def over(s, relay):
    """The job is over."""
    if relay.job == RelayJob.CONTROL:
        relay.registers[0].state = hear.EMPTY
    elif relay.job == RelayJob.DATA:
        relay.registers[1].state = hear.EMPTY
    relay.job, relay.free_from = RelayJob.NONE, NEVER if relay.halted else s.cycle + 1


@jit
def step_beats(s, relay):
    """The beats of data in."""
    if relay.job == RelayJob.DATA and relay.phase == Phase.STREAM:
        data.step(s, relay)
        if relay.phase != Phase.STREAM:
            settle(s, relay)


@jit
def through_over(s, relay):
    """What went through has gone."""
    if relay.job == RelayJob.DATA and relay.phase == Phase.STREAM and relay.job_beats == Beats.THROUGH:
        relay.phase = Phase.FIRST
        over(s, relay)


@jit
def wants_look(relay, cycle):
    """Whether a look is wanted from the next cycle on."""
    return now(relay, cycle) % work.LOOK == 0 and relay.live + relay.known + relay.held > 0


@jit
def next_wanted(relay, cycle):
    """The next cycle that wants a look, or `NEVER`."""
    if relay.live + relay.known + relay.held == 0:
        return NEVER
    ahead = work.LOOK - (cycle - relay.ready_from) % work.LOOK
    return cycle + ahead

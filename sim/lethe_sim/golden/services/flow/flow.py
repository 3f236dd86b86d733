"""Flow as a service: its ports, one cycle of it, and when to look again."""

import numpy as np

from lethe.spec.events import FLOW_ENDED, FLOW_MESSAGE, Event
from lethe.spec.services import FLOW
from lethe.spec.services.flow import Out
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import ending, event_word, extra
from lethe_sim.golden.lib import queue
from lethe_sim.golden.lib.bits import U0
from lethe_sim.golden.ni.choose import all_ones
from lethe_sim.golden.ni.host_port import Flow as Moved
from lethe_sim.golden.record import raw
from lethe_sim.golden.services import site
from lethe_sim.golden.services.site import tell
from lethe_sim.golden.state import LEFT_COMPLETIONS, NONE, Delivery

from . import (
    accept,
    asleep,
    congestion,
    control,
    drain,
    fetch,
    hear,
    jobs,
    merge,
    peers,
    probe,
    send,
    settings,
    tasks,
    tick,
    turns,
)
from .peers import first_noticed
from .send import Attempt
from .state import (
    Drain,
    Flow,
    Job,
    Transfer,
    Walk,
    cell_at,
    ended_at,
    number_at,
    peer_at,
    start,
)
from .state import begin as begin_again

_FLAGS = FLOW.flags
(
    _SEND_READY, _DATA_READY, _COMPLETION, _DELIVER, _DELIVER_DATA, _DELIVER_LAST, _CANCEL_READY, _SET_READY,
    _NOTICE, _IDLE,
) = (1 << bit for bit in range(len(FLOW.flag_bits)))  # fmt: skip
_READABLE, _CONGESTED = 16, 32
_DELIVERY = Delivery.size
# The bit of the NI's deliver FIFO for control.
_LEFT_CONTROL = 1 << 1


@jit
def offer(s):
    """Below go datagrams, control words, cancels and sweeps; messages that arrive are judged."""
    flow, below, above = Flow(s.numbers), s.below.drives, s.above.drives
    if flow.stepped < s.cycle - 1:
        asleep.catch_up(flow, s.cycle)
        if turns.data_acts(flow, s.cycle):
            accept.judge(flow, accept.arrival_of(flow, s.cycle))
    below.quiesce, below.link_disable = above.quiesce, above.link_disable
    below.refusal = accept.refusal(flow, s.cycle)
    below.sweep_valid, below.sweep_source = 1 if tasks.sweeps(flow) else 0, flow.task_node
    below.cancel_valid, below.cancel_slot, below.cancel_generation = 0, 0, 0
    if flow.cancelling:
        below.cancel_valid, below.cancel_slot, below.cancel_generation = 1, flow.cancel_name, flow.cancel_generation
    elif not names_none(flow, above):
        below.cancel_valid = above.cancel_valid
        below.cancel_slot, below.cancel_generation = above.cancel_slot, above.cancel_generation
    send.offer(s, flow)
    control.offer(s, flow)
    merge.offer(s, flow)


@jit
def names_none(flow, above):
    """Whether the slot that is to be cancelled has no message of the NI; it has as many bits as a slot above."""
    return above.cancel_slot & all_ones(flow.slots) >= flow.data_slots


@jit
def show(s):
    """Above are messages, their ends, and what the host may set and is told."""
    flow, shown = Flow(s.numbers), s.above.shows
    shown.ready = s.cycle >= flow.ready_from
    shown.send_ready, shown.data_ready = send.record_ready(s, flow), send.beat_ready(s, flow)
    shown.cancel_ready = not flow.cancelling and (names_none(flow, s.above.drives) or s.below.shows.cancel_ready)
    show_accepted(s, flow, shown)
    show_completion(s, flow, shown)
    show_delivery(s, flow)
    shown.set_ready = flow.job == Job.SET and turns.job_acts(flow, s.cycle)
    shown.answer_error = settings.error(flow) if shown.set_ready else 0
    show_notice(s, flow, shown)
    shown.readable, shown.congested = flow.readable, flow.congested


@jit
def show_accepted(s, flow, shown):
    """What is accepted: what the NI has of a message, or an own message."""
    below = s.below.shows
    shown.accepted_valid, shown.accepted_control = below.accepted_valid and not below.accepted_control, 0
    if shown.accepted_valid:
        shown.accepted_slot, shown.accepted_generation = below.accepted_slot, below.accepted_generation
        shown.accepted_tag = below.accepted_tag
        return
    if flow.records_in[0].level == 0 or send.message_at(flow, 0).destination != s.node:
        return
    found, _, _ = send.outcome(s, flow)
    if found == Attempt.OWN:
        shown.accepted_valid, shown.accepted_slot, shown.accepted_generation = 1, flow.slots, flow.generation
        shown.accepted_tag = send.message_at(flow, 0).tag


@jit
def show_completion(s, flow, shown):
    """The completion that is offered."""
    shown.completion_valid = queue.shows(flow.completions[0], s.cycle)
    if shown.completion_valid:
        ended = ended_at(flow, 0)
        shown.slot, shown.generation, shown.destination = ended.slot, ended.generation, ended.destination
        shown.tag, shown.status, shown.cause = ended.tag, ended.status, ended.cause
        shown.peer_incarnation = ended.incarnation


@jit
def show_delivery(s, flow):
    """The message that is shown, and the beat at the output; other streams pass."""
    delivery = s.above.delivers[0]
    delivery.valid = flow.show_cell != NONE and not flow.show_taken
    if delivery.valid:
        cell = cell_at(flow, flow.show_cell)
        delivery.source, delivery.cls, delivery.length = cell.source, cell.cls, cell.length
        delivery.sport, delivery.dport, delivery.flags = cell.sport, cell.dport, cell.flags
        delivery.seq, delivery.gap = cell.seq, cell.gap
    delivery.data_valid = queue.shows(flow.output[0], s.cycle)
    if delivery.data_valid:
        word = flow.at_output + 2 * flow.output[0].head
        s.above.beats[0], s.above.beats[1] = s.words[word], s.words[word + 1]
        delivery.last = number_at(flow, flow.at_lasts)[flow.output[0].head]
    for stream in range(1, s.k.streams):
        site.copy(_DELIVERY, raw(s.above.delivers[stream]), raw(s.below.delivers[stream + 1]))
        s.above.beats[2 * stream] = s.below.beats[2 * stream + 2]
        s.above.beats[2 * stream + 1] = s.below.beats[2 * stream + 3]


@jit
def show_notice(s, flow, shown):
    """What the host is told of a peer."""
    shown.notice_valid = queue.shows(flow.host_notices[0], s.cycle)
    if shown.notice_valid:
        shown.notice_peer = first_noticed(flow)
        peer = peer_at(flow, shown.notice_peer)
        shown.notice_up, shown.notice_map = peer.out == Out.UP, peer.map


@jit
def take(s):
    """A completion is taken as a job begins, a message as it is drained, a control word as there is room for it."""
    flow, below, above = Flow(s.numbers), s.below.drives, s.above.drives
    below.completion_ready = 0
    if s.below.shows.completion_valid:
        below.completion_ready = jobs.chosen(s, flow) == Job.COMPLETION
    below.deliver_ready = (above.deliver_ready & ~1) << 1
    below.deliver_data_ready = (above.deliver_data_ready & ~1) << 1
    below.deliver_ready |= (1 if drain.takes_record(s, flow) else 0) | (2 if hear.takes_record(flow) else 0)
    below.deliver_data_ready |= (1 if drain.takes_beat(flow) else 0) | (2 if hear.takes_beat(flow) else 0)


@jit
def step(s):
    """One cycle.  What depends on its start is worked out first; queues are popped before they are pushed."""
    flow = Flow(s.numbers)
    acts, job = turns.job_acts(flow, s.cycle), jobs.chosen(s, flow)
    found, cause, hinders = send.outcome(s, flow)
    ages, held = tick.wraps(flow, s.cycle), tick.finds_held(flow, s.cycle)
    transfer, shown, freed, turns_now = flow.transfer, flow.show_cell, flow.freeing, flow.turning
    flow.turning = congestion.look(flow, s.cycle)
    flow.sought_before, flow.journal_before = flow.sought, queue.memory_level(flow.journal[0], s.cycle)
    # A look ahead comes only if the host does not look sooner.
    flow.wake = s.cycle + 1
    flow.freeing, flow.readable_before = NONE, flow.readable
    if turns.data_acts(flow, s.cycle + 1):
        accept.judge(flow, accept.arrival_of(flow, s.cycle + 1))
    flushes = fetch.step_fetch(s, flow)
    drain.step(s, flow)
    peers.step(s, flow)
    take_completion(s, flow)
    step_requests(s, flow)
    if job != Job.NONE:
        jobs.begin(s, flow, job)
    if found != Attempt.NONE:
        send.attempt(s, flow, found, cause, hinders)
    if ages:
        flow.ages_asked = 1
    if held:
        flow.map_asked = 1
    if acts:
        jobs.act(s, flow)
    if turns.data_acts(flow, s.cycle):
        accept.act(s, flow)
    fetch.step_show(s, flow, shown)
    fetch.step_free(s, flow, flushes, freed)
    if turns_now:
        congestion.flip(s, flow, turns_now - 1)
    send.step(s, flow, transfer)
    control.step(s, flow)
    merge.step(s, flow)
    if s.below.shows.accepted_valid:
        if s.below.shows.accepted_control:
            control.accepted(s, flow)
        else:
            send.accepted(s, flow)
    send.take(s, flow)
    hear.step(s, flow)
    if s.below.shows.arrival_valid:
        accept.arrive(s, flow)
    flow.stepped = s.cycle


@jit
def take_completion(s, flow):
    """The host takes a completion."""
    if not site.takes_completion(s.above):
        return
    ended = ended_at(flow, 0)
    word = event_word(Event.FLOW_END, ending(ended.status, ended.cause), ended.destination, 0)
    tell(s, FLOW_ENDED, word, extra(ended.tag), 0)
    queue.removed(flow.completions[0], flow.slots + 5, s.cycle)
    flow.owed -= 1


@jit
def step_requests(s, flow):
    """The NI takes a cancel, or has swept."""
    if flow.cancelling and s.below.shows.cancel_ready:
        flow.cancelling = 0
    if tasks.sweeps(flow) and s.below.shows.sweep_ready:
        tasks.swept(flow)


@apart
def reset(s):
    """A reset of either scope: all is lost."""
    flow = Flow(s.numbers)
    if flow.reset_in == s.cycle - 1:
        begin_again(flow, s.cycle + 1, s.cycle + 1 + s.k.initial)
    else:
        tell(s, FLOW_MESSAGE, event_word(Event.FLOW_RESET, 0, 0, flow.used), U0, 0)
        flow.boot = flow.boot + 1 & 0xFFFF_FFFF
        start(flow, s.cycle + 1, s.cycle + 1 + s.k.initial)
    flow.reset_in = s.cycle


@jit
def still(flow):
    """Whether no message is on its way through, in either direction."""
    down = flow.records_in[0].level + flow.beats_in[0].level + flow.due + flow.transfer + flow.control
    up = flow.journal[0].level + flow.drain + flow.placing + flow.used + flow.word_state + flow.on_way
    shown = flow.output[0].level + (flow.fetch_cell != NONE) + (flow.show_cell != NONE)
    return down + up + shown == 0


@jit
def idle(s):
    """Nothing is under way, and nothing waits for the host or to be told; walks go on."""
    flow = Flow(s.numbers)
    if s.cycle < flow.ready_from or not still(flow) or flow.owed > 0 or flow.completions[0].level > 0:
        return False
    if flow.job not in (Job.NONE, Job.TICK) or flow.task or flow.probing or flow.cancelling:
        return False
    walks = flow.walk_node < flow.nodes or flow.job == Job.TICK
    maps = flow.map_asked or (flow.walk & Walk.MAP and walks)
    return not maps and flow.control_queue[0].level == 0 and flow.host_notices[0].level == 0


@jit
def rests(s):
    """Nothing is offered that may be taken, the NI shows nothing, and flow has nothing to do before its next look."""
    flow, port = Flow(s.numbers), s.above.drives
    # Hosts take a node that rests for one whose services are Ready.
    if s.cycle < flow.ready_from:
        return False
    if s.cycle >= flow.wake or port.cancel_valid or port.set_valid:
        return False
    if (port.send_valid and not s.ni.withheld & Moved.SEND) or (port.data_valid and not s.ni.withheld & Moved.DATA):
        return False
    return not site.ni_shows(s, s.ni.left)


@jit
def withholds(s):
    """A record waits behind another that waits, a beat for room: until a message moves on."""
    flow, found = Flow(s.numbers), 0
    if flow.records_in[0].level > 1:
        found |= Moved.SEND
    if flow.beats_in[0].level > flow.beat_depth:
        found |= Moved.DATA
    return found


@jit
def leaves(s):
    """Completions wait while a job is under way, and control words while the word register is full."""
    flow = Flow(s.numbers)
    left = _LEFT_CONTROL if flow.word_state == hear.FULL else 0
    if flow.job == Job.NONE or (flow.job in (Job.TICK, Job.TASK) and not s.below.shows.completion_valid):
        # The jobs of a walk or a task that nobody sees may be over before the next step.
        return left
    return left | LEFT_COMPLETIONS


@jit
def next_look(s):
    """When something is to be done, or at an output; kept for cycles in which all rest."""
    flow = Flow(s.numbers)
    flow.wake = look_ahead(flow, s.cycle, s.ni.left & LEFT_COMPLETIONS > 0)
    return flow.wake


@jit
def rests_until(s):
    """The same, while all rest."""
    return Flow(s.numbers).wake


@jit
def look_ahead(flow, cycle, ended):
    """The next cycle in which flow has something to do; ``ended``: a completion waits for the job to be over."""
    soon = cycle + 1
    if moves(flow):
        return soon
    nearest = min(jobs_ahead(flow, cycle, ended), congestion.next_turn(flow, cycle))
    nearest = min(nearest, tick.next_wrap(flow, cycle), tick.next_finding(flow, cycle))
    if cycle < flow.ready_from:
        nearest = min(nearest, flow.ready_from)
    if flow.acts:
        nearest = min(nearest, accept.next_look(flow, cycle))
    if flow.records_in[0].level > 0:
        nearest = min(nearest, send.next_look(flow, cycle))
    if flow.fetch_cell != NONE:
        nearest = min(nearest, flow.fetch_at + fetch.READ)
    nearest = min(nearest, queue.shows_from(flow.completions[0]), queue.shows_from(flow.host_notices[0]))
    return max(min(nearest, drain.next_look(flow, tasks.has_rows(flow)), merge.next_look(flow)), soon)


@jit
def moves(flow):
    """Whether something moves in every cycle."""
    if flow.transfer != Transfer.IDLE or flow.control != Transfer.IDLE:
        return True
    if flow.drain != Drain.IDLE:
        return True
    if flow.show_cell != NONE or flow.output[0].level > 0 or flow.on_way or flow.freeing != NONE:
        return True
    return flow.readable != 0 and flow.fetch_cell == NONE


@jit
def jobs_ahead(flow, cycle, ended):
    """The next cycle in which a job may begin or act, if somebody may see it; ``ended`` as for `look_ahead`."""
    soon = cycle + 1
    if tasks.has_rows(flow) and not ended:
        until = asleep.task_until(flow, cycle)
        if until > 0:
            return until
    # What is offered below until it is taken is offered in every cycle, whatever job is under way.
    if tasks.sweeps(flow) or flow.cancelling:
        return soon
    if flow.job not in (Job.NONE, Job.TICK):
        return max(soon, flow.job_at) + (tasks.rows_before_last(flow) if flow.job == Job.TASK else 0)
    if flow.job == Job.TICK:
        if tasks.has_job(flow) or flow.leaving or goes_on_now(flow):
            return soon
        if flow.word_state == hear.FULL or ended:
            return max(soon, flow.job_at)
    elif tasks.has_job(flow) or flow.leaving or flow.word_state == hear.FULL:
        begins = max(soon, flow.free_from)
        return begins + tick.STEP if jobs.next_own(flow, begins) else soon
    nearest = tick.next_look(flow, cycle)
    if flow.control_queue[0].level > 0:
        told = flow.ready_from + flow.silence
        nearest = min(nearest, max(soon, told, queue.shows_from(flow.control_queue[0])))
    return min(nearest, max(soon, probe.next_begin(flow)))


@jit
def goes_on_now(flow):
    """Whether the job has further steps."""
    return flow.job_goes_on and jobs.goes_on(flow)


@jit
def outputs(s, row, place):
    """Flags and beat of the port above."""
    shown, delivery, flags = s.above.shows, s.above.delivers[0], 0
    if shown.send_ready:
        flags |= _SEND_READY
    if shown.data_ready:
        flags |= _DATA_READY
    if shown.completion_valid:
        flags |= _COMPLETION
    if delivery.valid:
        flags |= _DELIVER
    if delivery.data_valid:
        flags |= _DELIVER_DATA | (_DELIVER_LAST if delivery.last else 0)
        row[place + _FLAGS + 1], row[place + _FLAGS + 2] = s.above.beats[0], s.above.beats[1]
    if shown.cancel_ready:
        flags |= _CANCEL_READY
    if shown.set_ready:
        flags |= _SET_READY
    if shown.notice_valid:
        flags |= _NOTICE
    if shown.idle:
        flags |= _IDLE
    row[place + _FLAGS] = np.uint64(flags | shown.readable << _READABLE | shown.congested << _CONGESTED)

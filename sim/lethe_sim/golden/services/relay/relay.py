"""Relay as a service: its ports, one cycle of it, and when to look again."""

import numpy as np

from lethe.spec.events import RELAY_MESSAGE, Event
from lethe.spec.services import RELAY
from lethe.spec.services.relay import MODE
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import event_word
from lethe_sim.golden.lib.bits import U0
from lethe_sim.golden.ni.choose import all_ones
from lethe_sim.golden.ni.host_port import Flow
from lethe_sim.golden.record import raw
from lethe_sim.golden.services import site
from lethe_sim.golden.services.site import tell
from lethe_sim.golden.state import NEVER, NONE, Delivery

from . import data, hear, host, jobs, memory, transfer, walk, work
from .state import HostIn, Moving, Phase, Relay, RelayJob, give_free, slot_at, start
from .state import begin as begin_again

_FLAGS = RELAY.flags
(
    _SEND_READY, _DATA_READY, _COMPLETION, _DELIVER, _DELIVER_DATA, _DELIVER_LAST, _CANCEL_READY, _TREE_READY, _IDLE,
) = (1 << bit for bit in range(len(RELAY.flag_bits)))  # fmt: skip
_DELIVERY = Delivery.size


@jit
def offer(s):
    """Below go hops, what is the host's, and cancels."""
    relay, below, above = Relay(s.numbers), s.below.drives, s.above.drives
    catch_up(relay, s.cycle)
    below.quiesce, below.link_disable = above.quiesce, above.link_disable
    below.cancel_valid, below.cancel_slot, below.cancel_generation = 0, 0, 0
    if relay.cancelling:
        below.cancel_valid, below.cancel_slot, below.cancel_generation = 1, relay.cancel_name, relay.cancel_generation
    elif not names_none(relay, above):
        below.cancel_valid = above.cancel_valid
        below.cancel_slot, below.cancel_generation = above.cancel_slot, above.cancel_generation
    host.offer(s, relay)
    transfer.offer(s, relay)


@jit
def catch_up(relay, cycle):
    """What was wanted in cycles that were not stepped; the last of them is the one before."""
    if relay.stepped < cycle - 1 and cycle > relay.ready_from and jobs.next_wanted(relay, relay.stepped) < cycle:
        relay.look_wanted = 1


@jit
def names_none(relay, above):
    """Whether the slot that is to be cancelled is none of the NI; it has as many bits as a slot above."""
    return above.cancel_slot & all_ones(relay.ni_slots + relay.slots) >= relay.ni_slots


@jit
def show(s):
    """Above are messages, their ends, and whether words of the tree are taken."""
    relay, shown, below = Relay(s.numbers), s.above.shows, s.below.shows
    transfer.pass_beat(s, relay)
    shown.ready = s.cycle >= relay.ready_from
    shown.send_ready = host.record_ready(s, relay)
    shown.data_ready = host.beat_ready(s, relay)
    shown.cancel_ready = not relay.cancelling and (names_none(relay, s.above.drives) or below.cancel_ready)
    shown.accepted_valid, shown.accepted_control = 0, 0
    if below.accepted_valid:
        if not below.accepted_control and relay.moving == Moving.IDLE:
            shown.accepted_valid, shown.accepted_slot = 1, below.accepted_slot
            shown.accepted_generation, shown.accepted_tag = below.accepted_generation, below.accepted_tag
    elif relay.job == RelayJob.GIVEN and s.cycle >= relay.job_at and relay.phase == Phase.FIRST:
        slot = slot_at(relay, relay.host_slot)
        shown.accepted_valid, shown.accepted_slot = 1, relay.ni_slots + relay.host_slot
        shown.accepted_generation, shown.accepted_tag = slot.generation, slot.tag
    host.show_completion(s, relay, shown)
    delivery, passed = s.below.delivers[0], s.above.delivers[0]
    passed.valid, passed.data_valid = delivery.valid, delivery.data_valid
    if delivery.valid or delivery.data_valid:
        site.copy(_DELIVERY, raw(passed), raw(delivery))
        s.above.beats[0], s.above.beats[1] = s.below.beats[0], s.below.beats[1]
    host.show_delivery(s, relay)
    shown.tree_ready = s.above.drives.tree_valid and jobs.chosen(s, relay) == RelayJob.TREE


@jit
def take(s):
    """A completion is taken as a job begins, or by the host; headers and beats as there is room for them."""
    relay, below, above = Relay(s.numbers), s.below.drives, s.above.drives
    below.completion_ready = 0
    if host.passes_completion(s, relay):
        below.completion_ready = above.completion_ready and not host.shows_own(s, relay)
    elif s.below.shows.completion_valid:
        below.completion_ready = 1
    records, beats = above.deliver_ready & 1, above.deliver_data_ready & 1
    for fifo in range(2):
        if hear.takes_record(relay, fifo):
            records |= 2 << fifo
        if hear.takes_beat(s, relay, fifo):
            beats |= 2 << fifo
    if relay.job == RelayJob.DATA and data.takes_beat(s, relay):
        beats |= 4
    below.deliver_ready, below.deliver_data_ready = records, beats


@jit
def step(s):
    """One cycle.  What depends on its start is worked out first; queues are popped before they are pushed; what a job
    does counts for what ends in its cycle.
    """
    relay = Relay(s.numbers)
    halted = relay.halted
    acts, job = jobs.acts(s, relay), jobs.chosen(s, relay)
    own, passing = host.shows_own(s, relay), host.passes(s, relay)
    control, moving, streams = relay.control, relay.moving, relay.phase == Phase.STREAM
    wants = s.cycle >= relay.ready_from and jobs.wants_look(relay, s.cycle)
    begins = walk.may_begin(s, relay)
    passes, pulled = relay.walking and relay.job != RelayJob.WALK and not walk.used(s, relay), relay.pulled
    # Whether the next row is used, whichever it will be.
    phase, row, here, behind = relay.walk_phase, relay.walk_row, False, False
    if begins:
        here = walk.uses(relay, walk.first_phase(relay), 0)
    elif relay.walking:
        here, behind = walk.uses(relay, phase, row), walk.uses_next(relay)
    # A look ahead comes only if the host does not look sooner.
    relay.wake = s.cycle + 1
    host.step_completion(s, relay, own)
    if halted:
        memory.step(s, relay)
    freed = host.step_show(s, relay, halted)
    if relay.cancelling and s.below.shows.cancel_ready:
        relay.cancelling = 0
    if job != RelayJob.NONE:
        jobs.begin(s, relay, job)
    ends = moving != Moving.IDLE and transfer.step(s, relay, moving, halted)
    if freed != NONE:
        give_free(relay, relay.free_cells[0], freed)
        relay.free_cells[0].fresh = 1
    early = ends and transfer.end_early(relay)
    if acts:
        jobs.act(s, relay)
    if begins:
        walk.begin(relay)
        relay.asking, relay.pulled = pulled, relay.pulled & ~pulled
    elif passes and relay.walking:
        walk.go_on(relay)
    if s.below.shows.completion_valid and work.is_own(s, relay):
        work.take_at_once(s, relay)
    relay.free_slots[0].fresh = relay.free_cells[0].fresh = relay.free_buffers[0].fresh = 0
    if s.below.shows.accepted_valid:
        transfer.accepted(s, relay, moving)
    if control != Moving.IDLE:
        transfer.step_control(s, relay)
    if streams:
        jobs.step_beats(s, relay)
    if ends or not work.offers(s, relay):
        relay.host_waits = 0
    if ends:
        relay.moving = Moving.IDLE
        if not early:
            transfer.end(s, relay)
        jobs.through_over(s, relay)
    host.step(s, relay, passing)
    hear.step(s, relay, 0)
    hear.step(s, relay, 1)
    if wants and job != RelayJob.LOOK:
        relay.look_wanted = 1
    if relay.halted and not halted:
        relay.free_from = NEVER
    relay.stepped = s.cycle
    moved = not begins and (relay.walk_phase != phase or relay.walk_row != row)
    relay.row_used = behind if moved else here


@apart
def reset(s):
    """A reset of either scope: all is lost but the routes."""
    relay = Relay(s.numbers)
    if relay.reset_in == s.cycle - 1:
        begin_again(relay, s.cycle + 1, s.cycle + 1 + s.k.initial)
    else:
        tell(s, RELAY_MESSAGE, event_word(Event.RELAY_RESET, 0, 0, relay.cells - relay.free_cells[0].level), U0, 0)
        start(relay, s.cycle + 1, s.cycle + 1 + s.k.initial)
    relay.reset_in = s.cycle


@jit
def still(relay):
    """Whether nothing is on its way through."""
    moves = relay.moving + relay.control + relay.host + relay.passing + relay.cancelling + relay.live
    moves += relay.registers[0].state + relay.registers[1].state + (relay.show_cell != NONE)
    waits = relay.sending[0].level + relay.telling[0].level + relay.hungry[0].level + relay.posted[0].level
    ends = relay.completions[0].level + relay.shown[0].level + relay.show_way
    return moves + waits + ends + relay.cells - relay.free_cells[0].level == 0


@jit
def idle(s):
    """Nothing is under way, and nothing waits; records and held data end by time."""
    relay = Relay(s.numbers)
    if s.cycle < relay.ready_from or relay.halted or not still(relay):
        return False
    if relay.job not in (RelayJob.NONE, RelayJob.LOOK, RelayJob.TREE):
        return False
    return not (walk.wanted(relay) or relay.cancel_walk)


@jit
def rests(s):
    """Nothing is offered or shown by the NI that is taken, and relay has nothing to do before its next look."""
    relay, port = Relay(s.numbers), s.above.drives
    # Hosts take a node that rests for one whose services are Ready.
    if s.cycle < relay.ready_from or s.cycle >= relay.wake:
        return False
    if port.data_valid or port.cancel_valid or port.tree_valid:
        return False
    if port.send_valid and s.ni.withheld & Flow.SEND == 0:
        return False
    return not site.ni_shows(s, s.ni.left)


@jit
def withholds(s):
    """A message waits while a job is under way, and for room."""
    relay, offered = Relay(s.numbers), s.above.drives.send_valid and s.above.drives.mode == MODE
    return Flow.SEND if offered and (relay.job != RelayJob.NONE or relay.host_waits) else 0


@jit
def leaves(s):
    """What comes waits while its header register is full, and no beat behind that is taken."""
    relay, left = Relay(s.numbers), 0
    for fifo in range(2):
        streams = fifo == 1 and relay.phase == Phase.STREAM
        if relay.registers[fifo].state == hear.FULL and not streams:
            left |= 2 << fifo
    return left


@jit
def next_look(s):
    """When something is to be done, or at an output; kept for cycles in which all rest."""
    relay = Relay(s.numbers)
    relay.wake = look_ahead(s, relay)
    return relay.wake


@jit
def rests_until(s):
    """The same, while all rest; a slot of the NI that became free may be what a transfer waits for."""
    relay = Relay(s.numbers)
    if relay.moving != Moving.IDLE and transfer.finds_slot(s):
        relay.wake = min(relay.wake, s.cycle + 1)
    return relay.wake


@jit
def moves(s, relay):
    """Whether something moves, or may, in every cycle, whatever job is under way."""
    if (relay.moving != Moving.IDLE or relay.read_way or relay.reading[0].level > 0) and not transfer.waits(s, relay):
        return True
    if relay.control != Moving.IDLE or relay.passing or relay.host not in (HostIn.IDLE, HostIn.STORED):
        return True
    if relay.registers[0].state == hear.FILLING or relay.registers[1].state == hear.FILLING:
        return True
    if relay.show_cell != NONE or relay.show_way:
        return True
    if relay.posted[0].level + relay.shown[0].level + relay.completions[0].level > 0:
        return True
    # Until the cycle after they became free, such places do not count.
    if relay.free_slots[0].fresh or relay.free_cells[0].fresh or relay.free_buffers[0].fresh:
        return True
    return walk.wanted(relay) or relay.cancelling or (relay.halted and not relay.halt_told)


@jit
def look_ahead(s, relay):
    """The next cycle in which relay has something to do."""
    soon = s.cycle + 1
    if moves(s, relay):
        return soon
    if relay.job != RelayJob.NONE:
        return soon if relay.phase == Phase.STREAM else max(soon, relay.job_at)
    if jobs.may_begin(relay):
        return soon
    nearest = jobs.next_wanted(relay, s.cycle)
    if s.cycle < relay.ready_from:
        nearest = min(nearest, relay.ready_from)
    return max(nearest, soon)


@jit
def outputs(s, row, place):
    """Flags and beat of the port above."""
    shown, delivery, flags = s.above.shows, s.above.delivers[1], 0
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
        row[place + _FLAGS + 1], row[place + _FLAGS + 2] = s.above.beats[2], s.above.beats[3]
    if shown.cancel_ready:
        flags |= _CANCEL_READY
    if shown.tree_ready:
        flags |= _TREE_READY
    if shown.idle:
        flags |= _IDLE
    row[place + _FLAGS] = np.uint64(flags)

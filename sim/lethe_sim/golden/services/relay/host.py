"""The host's side (section 5): records that pass, messages that are stored, completions, and the show."""

from lethe.spec.events import RELAY_TAKEN, Event
from lethe.spec.services.relay import MODE
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.lib import ahead, queue
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.services import site
from lethe_sim.golden.state import NONE

from . import memory, records, tell, work
from .state import (
    SHOWN,
    HostIn,
    Moving,
    RelayJob,
    cell_at,
    number_at,
    pop,
    row_at,
)

#: From the choice of a cell until it is shown, and until its first beat is read.
_SHOW = 4


@jit
def passes(s, relay):
    """Whether a record that is not a message is shown below."""
    if relay.passing:
        return True
    if (
        s.cycle < relay.ready_from
        or relay.host != HostIn.IDLE
        or relay.moving != Moving.IDLE
        or queue.shows(relay.sending[0], s.cycle)
    ):
        return False
    return relay.job not in (RelayJob.DATA, RelayJob.LAUNCH)


@jit
def offer(s, relay):
    """What of the host's is offered below, where the transfer offers nothing."""
    above, below = s.above.drives, s.below.drives
    if below.send_valid:
        site.withdraw_record(s.below)
    if below.data_valid:
        site.withdraw_beat(s.below)
    below.cls = relay.data_class if relay.job == RelayJob.DATA else 0
    if above.send_valid and above.mode != MODE and passes(s, relay):
        below.send_valid, below.destination, below.cls, below.mode = 1, above.destination, above.cls, above.mode
        below.length, below.tag, below.deadline = above.length, above.tag, above.deadline
        below.retry_limit, below.expect = above.retry_limit, above.expect
    if relay.host == HostIn.PASS and above.data_valid:
        below.data_valid = 1
        s.below.beat[0], s.below.beat[1] = s.above.beat[0], s.above.beat[1]


@jit
def record_ready(s, relay):
    """Whether a record is taken from above."""
    if work.takes_message(s):
        return relay.job == RelayJob.HOST and s.cycle == relay.job_at and work.takes(s, relay)
    return passes(s, relay) and s.below.shows.send_ready


@jit
def beat_ready(s, relay):
    """Whether a beat is."""
    if relay.host == HostIn.PASS:
        return s.below.shows.data_ready
    return relay.host in (HostIn.STORE, HostIn.DROP)


@jit
def step(s, relay, passing):
    """What is offered above is taken; ``passing``: whether a record passes."""
    above = s.above
    offered = above.drives.send_valid and not work.takes_message(s)
    if offered and passing:
        relay.passing = 0 if above.shows.send_ready else 1
        if above.shows.send_ready:
            relay.host_beats = payload_flits(s.k, above.drives.length)
            relay.host = HostIn.PASS if relay.host_beats > 0 else HostIn.IDLE
            return
    elif relay.passing and not offered:
        relay.passing = 0
    if not site.takes_beat(above):
        return
    if relay.host == HostIn.STORE:
        left = 8 * relay.host_length - relay.host_beat * s.k.flit_bits
        place = relay.at_slot_words + 2 * (relay.host_slot * relay.cell_beats + relay.host_beat)
        memory.write(s, relay, place, above.beat[0], above.beat[1], left)
        relay.host_beat += 1
    relay.host_beats -= 1
    if relay.host_beats == 0:
        relay.host = HostIn.STORED if relay.host == HostIn.STORE else HostIn.IDLE


@jit
def passes_completion(s, relay):
    """Whether a completion is offered below that is the host's."""
    return s.below.shows.completion_valid and not row_at(relay, s.below.shows.slot).mine


@jit
def shows_own(s, relay):
    """Whether the completion that is shown above is an own one."""
    return queue.shows(relay.completions[0], s.cycle) and (relay.own_held or not passes_completion(s, relay))


@jit
def show_completion(s, relay, shown):
    """The completion that is offered."""
    below = s.below.shows
    if shows_own(s, relay):
        ended = records.ended_at(relay, 0)
        shown.completion_valid, shown.slot, shown.generation = 1, ended.slot, ended.generation
        shown.destination, shown.tag = ended.destination, ended.tag
        shown.status, shown.cause = ended.status, ended.cause
        shown.peer_incarnation = 0
        return
    shown.completion_valid = passes_completion(s, relay)
    if shown.completion_valid:
        shown.slot, shown.generation, shown.destination = below.slot, below.generation, below.destination
        shown.tag, shown.status, shown.cause = below.tag, below.status, below.cause
        shown.peer_incarnation = below.peer_incarnation


@jit
def step_completion(s, relay, own):
    """An own completion is taken or held."""
    relay.own_held = own and not s.above.drives.completion_ready
    if own and not relay.own_held:
        queue.removed(relay.completions[0], relay.slots + 5, s.cycle)
        relay.owed -= 1


# The show


@jit
def show_delivery(s, relay):
    """The message that is shown, and the beat at the output."""
    delivery = s.above.delivers[1]
    delivery.valid = relay.show_cell != NONE and not relay.show_taken and s.cycle >= relay.show_at + _SHOW
    if delivery.valid:
        cell = cell_at(relay, relay.show_cell)
        delivery.source, delivery.cls, delivery.length, delivery.uid = cell.source, cell.cls, cell.length, cell.uid
    delivery.data_valid = queue.shows(relay.shown[0], s.cycle)
    if delivery.data_valid:
        word = relay.at_shown + 2 * relay.shown[0].head
        s.above.beats[2], s.above.beats[3] = s.words[word], s.words[word + 1]
        delivery.last = number_at(relay, relay.at_shown_last)[relay.shown[0].head]


@jit
def step_show(s, relay, halted):
    """One cycle of the show, of a relay that was halted before or not.

    Returns the cell that is free from the next cycle on, or `NONE`.
    """
    held = ahead.held(relay.shown[0], relay.show_way)
    taken = site.takes_delivered_beat(s.above, 1)
    if relay.checks:
        relay.show_way = memory.comes(relay, relay.show_way, relay.show_wrong, memory.OF_CELL, halted)
        relay.show_wrong = relay.show_wrong << 1 & 2
    relay.show_way = ahead.step(relay.shown[0], SHOWN + 1, relay.show_way, taken, s.cycle)
    if relay.show_cell == NONE:
        if queue.shows(relay.posted[0], s.cycle) and not halted:
            fetch(s, relay)
        return NONE
    if s.cycle < relay.show_at + _SHOW:
        return NONE
    if relay.show_read < relay.show_beats and held < SHOWN and not halted:
        read(s, relay)
    if site.takes_delivery(s.above, 1):
        relay.show_taken = 1
        cell = cell_at(relay, relay.show_cell)
        word = event_word(Event.RELAY_TAKE, 0, cell.source, cell.length)
        site.tell(s, RELAY_TAKEN, word, extra(cell.uid & tell.LOW_UID), 0)
    if relay.show_taken and relay.show_read == relay.show_beats:
        freed = relay.show_cell
        relay.show_cell = NONE
        return freed
    return NONE


@jit
def fetch(s, relay):
    """The oldest cell that is posted is fetched."""
    relay.show_cell = pop(relay, relay.posted[0], relay.at_posted, relay.cells + 1, s.cycle)
    relay.show_at, relay.show_taken, relay.show_read = s.cycle, 0, 0
    relay.show_beats = payload_flits(s.k, cell_at(relay, relay.show_cell).length)


@jit
def read(s, relay):
    """A beat is read, and is on its way to the beat output."""
    source = relay.at_cell_words + 2 * (relay.show_cell * relay.cell_beats + relay.show_read)
    place = ahead.read(s.words, relay.shown[0], SHOWN + 1, relay.show_way, relay.at_shown, source)
    relay.show_wrong |= memory.is_wrong(s, relay, source)
    relay.show_read += 1
    number_at(relay, relay.at_shown_last)[place] = relay.show_read == relay.show_beats
    relay.show_way |= 1

"""Data in (7.2): a message is posted or parked at its destination, and goes on everywhere else."""

from lethe.spec.events import RELAY_POSTS, Event
from lethe.spec.services.relay import RecordState, Type
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.services import site
from lethe_sim.golden.state import NONE

from . import hear, memory, records, tell, transfer
from .state import (
    DATA_IN,
    Beats,
    Keeping,
    Of,
    Phase,
    below,
    buffer_at,
    cell_at,
    entry_at,
    free_ones,
    from_at,
    give_free,
    give_free_buffer,
    newer,
    number_at,
    push,
    route_at,
    take_free,
    to_at,
    unhold,
    wait_buffer,
)


@jit
def length(relay):
    """The message's length."""
    return relay.registers[1].length - tell.HEADER_BYTES


@jit
def beats(s, relay, fate):
    """What becomes of the beats, from the next cycle on; without beats the job goes on as after them, or is over in the
    next cycle.
    """
    relay.job_beats, relay.phase, relay.job_beat = fate, Phase.STREAM, 0
    left = payload_flits(s.k, relay.registers[1].length) - relay.header_beats
    relay.job_left, relay.job_from = max(left, 0), s.cycle + 1
    if relay.job_left == 0 and fate != Beats.THROUGH:
        finish(s, relay)
        if relay.phase == Phase.FIRST:
            relay.phase = Phase.LAST


@apart
def act(s, relay):
    """A step of the job."""
    if relay.phase == Phase.FIRST:
        first(s, relay)
    elif relay.phase == Phase.CLEAR:
        clear(relay)
    elif relay.phase == Phase.JUDGE:
        judge(s, relay)
    elif relay.phase == Phase.SEARCH:
        if hear.is_parked(relay, relay.heard[0]):
            beats(s, relay, Beats.DROP)
        else:
            park(s, relay)
    elif relay.phase == Phase.STORE:
        entry = entry_at(relay, relay.job_number)
        tell.relay_event(s, Event.RELAY_EVICT, entry, entry.length)
        store(s, relay)
    elif relay.phase == Phase.RELEASE:
        release(s, relay)
    elif relay.phase == Phase.LAST:
        relay.phase = Phase.FIRST
    else:
        done(s, relay)


@jit
def first(s, relay):
    """The first step: where is the message?"""
    register, heard = relay.registers[1], relay.heard[0]
    tell.read(s, DATA_IN, heard, relay.uid_mask)
    heard.hop = register.source
    sound = register.length >= tell.HEADER_BYTES and register.cls == relay.data_class and heard.type == Type.DATA
    sound = sound and hear.names_nodes(relay, heard)
    if not sound or heard.source in (heard.target, s.node):
        hear.ignored(s, Event.RELAY_IGNORED, register.source)
        beats(s, relay, Beats.DROP)
    elif heard.target == s.node:
        here(s, relay, heard)
    else:
        pass_on(s, relay, heard)


# At the destination


@jit
def here(s, relay, heard):
    """Of which life is it (M15, M16)?"""
    row = from_at(relay, heard.source)
    if to_at(relay, heard.source).dead or (row.known and newer(s, row.incarnation, heard.incarnation)):
        hear.ignored(s, Event.RELAY_STALE, heard.hop)
        beats(s, relay, Beats.DROP)
        return
    if not row.known or newer(s, heard.incarnation, row.incarnation):
        row.known, row.incarnation, row.mark, row.slot = 1, heard.incarnation, relay.uid_mask, 0
        if relay.parked > 0:
            relay.phase, relay.job_number = Phase.CLEAR, 0
            return
    judge(s, relay)


@jit
def clear(relay):
    """A step: a parked cell of the source becomes free."""
    cell = cell_at(relay, relay.job_number)
    if cell.parked and cell.source == relay.heard[0].source:
        cell.parked = 0
        relay.parked -= 1
        give_free(relay, relay.free_cells[0], relay.job_number)
    relay.job_number += 1
    if relay.job_number == relay.cells:
        relay.phase = Phase.JUDGE


@jit
def judge(s, relay):
    """Is it its turn (M9, M10, M11)?"""
    heard = relay.heard[0]
    row = from_at(relay, heard.source)
    if heard.prev == row.mark:
        if free_ones(relay.free_cells[0]) == 0:
            go_hungry(s, relay, heard)
            return
        take_cell(s, relay, heard, 1)
        row.mark, row.slot = heard.uid, heard.slot
        beats(s, relay, Beats.CELL)
    elif row.mark != relay.uid_mask and below(relay, heard.uid, row.mark):
        hear.answer(s, relay, heard.source, 0)
        beats(s, relay, Beats.DROP)
    elif relay.parked > 0:
        relay.phase = Phase.SEARCH
    else:
        park(s, relay)


@jit
def park(s, relay):
    """A message before its turn is parked, if a cell is left for another (M12)."""
    heard = relay.heard[0]
    if free_ones(relay.free_cells[0]) < 2:
        go_hungry(s, relay, heard)
        return
    take_cell(s, relay, heard, 0)
    beats(s, relay, Beats.CELL)


@jit
def take_cell(s, relay, heard, posts):
    """A cell for the message."""
    relay.job_cell, relay.job_posts = take_free(relay, relay.free_cells[0]), posts
    cell = cell_at(relay, relay.job_cell)
    cell.source, cell.incarnation, cell.cls, cell.length = heard.source, heard.incarnation, heard.cls, length(relay)
    cell.uid, cell.prev, cell.slot = heard.uid, heard.prev, heard.slot


@jit
def go_hungry(s, relay, heard):
    """There is no cell (M13)."""
    row = from_at(relay, heard.source)
    tell.message_event(s, RELAY_POSTS, Event.RELAY_HUNGRY, heard.source, length(relay), heard)
    if not row.hungry:
        row.hungry = 1
        push(relay, relay.hungry[0], relay.at_hungry, relay.nodes + 1, heard.source, s.cycle)
    beats(s, relay, Beats.DROP)


@jit
def cell_event(s, event, cell):
    """An event about the message of a cell."""
    tell.message_event(s, RELAY_POSTS, event, cell.source, cell.length, cell)


@jit
def post(s, relay, number):
    """A cell is posted."""
    push(relay, relay.posted[0], relay.at_posted, relay.cells + 1, number, s.cycle)
    cell_event(s, Event.RELAY_POST, cell_at(relay, number))


@jit
def release(s, relay):
    """A step: a parked message whose turn it is is posted; after the last, ACKED is told."""
    heard = relay.heard[0]
    row = from_at(relay, heard.source)
    for number in range(relay.cells):
        cell = cell_at(relay, number)
        if cell.parked and cell.source == heard.source and cell.prev == row.mark:
            cell.parked = 0
            relay.parked -= 1
            row.mark, row.slot = cell.uid, cell.slot
            post(s, relay, number)
            relay.phase = Phase.RELEASE if relay.parked > 0 else Phase.ANSWER
            return
    done(s, relay)


@jit
def done(s, relay):
    """The last step of what was posted."""
    hear.answer(s, relay, relay.heard[0].source, 0)
    relay.phase = Phase.FIRST


# Elsewhere


@jit
def pass_on(s, relay, heard):
    """It goes on (M17, M18, M19)."""
    down = route_at(relay, heard.target).hop
    if route_at(relay, heard.source).hop != heard.hop or down in (s.node, heard.hop):
        hear.ignored(s, Event.RELAY_STALE, heard.hop)
        beats(s, relay, Beats.DROP)
        return
    number = records.find(relay, heard.source, heard.incarnation, heard.uid)
    if number != NONE:
        entry = entry_at(relay, number)
        if entry.state == RecordState.ACKED:
            hear.answer_acked(s, relay)
            beats(s, relay, Beats.DROP)
            return
        if entry.buffer != NONE:
            hear.send_held(s, relay, entry)
            beats(s, relay, Beats.DROP)
            return
    else:
        number = records.way(relay, heard.source, heard.uid)
    if number != NONE and free_ones(relay.free_buffers[0]) == 0 and relay.held > 0:
        evict(s, relay)
        relay.phase = Phase.STORE
        return
    store(s, relay)


@jit
def evict(s, relay):
    """The oldest held data go."""
    oldest = number_at(relay, relay.at_held)[0]
    relay.job_number = buffer_at(relay, oldest).record
    entry_at(relay, relay.job_number).buffer = NONE
    unhold(relay, oldest)
    give_free_buffer(relay, oldest)


@jit
def store(s, relay):
    """Record and buffer (M22, M25); at once, or as its turn comes."""
    heard = relay.heard[0]
    number = records.find(relay, heard.source, heard.incarnation, heard.uid)
    if number == NONE:
        number = records.way(relay, heard.source, heard.uid)
        if number == NONE:
            tell.relay_event(s, Event.RELAY_UNTRACKED, heard, length(relay))
            if transfer.at_once(s, relay):
                give_through(s, relay, heard, NONE)
            else:
                beats(s, relay, Beats.DROP)
            return
        records.make(s, relay, number, heard, length(relay))
    entry = entry_at(relay, number)
    records.fill(relay, entry, heard, length(relay))
    if free_ones(relay.free_buffers[0]) == 0:
        records.become(relay, entry, RecordState.OWED)
        tell.relay_event(s, Event.RELAY_OWED, heard, length(relay))
        beats(s, relay, Beats.DROP)
        return
    entry.buffer = take_free(relay, relay.free_buffers[0])
    buffer_at(relay, entry.buffer).record = number
    records.become(relay, entry, RecordState.SENT)
    # Where it does not go at once it waits from the last beat on; until then nothing else may take it.
    buffer_at(relay, entry.buffer).state = Keeping.MOVING
    relay.job_number = entry.buffer
    if transfer.at_once(s, relay):
        give_through(s, relay, heard, entry.buffer)
    else:
        beats(s, relay, Beats.BUFFER)


@jit
def give_through(s, relay, heard, buffer):
    """The message goes on as it comes."""
    tell.copied(relay.out[0], heard)
    relay.out[0].hop = route_at(relay, heard.target).hop
    transfer.give(s, relay, Of.THROUGH, buffer, length(relay))
    relay.job_number = buffer
    beats(s, relay, Beats.THROUGH)


# Beats


@jit
def takes_beat(s, relay):
    """Whether a beat of the message is taken from below."""
    if relay.phase != Phase.STREAM or s.cycle < relay.job_from or relay.job_left == 0:
        return False
    if relay.job_beats == Beats.THROUGH:
        return transfer.passes_beat(relay) and s.below.shows.data_ready
    return True


@jit
def step(s, relay):
    """A beat of the message is taken; after the last the job goes on, or is over."""
    if relay.phase != Phase.STREAM or relay.job_left == 0 or s.cycle < relay.job_from:
        return
    if not site.takes_delivered_beat(s.below, 2):
        return
    left = 8 * length(relay) - relay.job_beat * s.k.flit_bits
    if relay.job_beats == Beats.CELL:
        place = relay.at_cell_words + 2 * (relay.job_cell * relay.cell_beats + relay.job_beat)
        keep(s, relay, place, left)
    elif relay.job_beats != Beats.DROP and relay.job_number != NONE:
        keep(s, relay, relay.at_buffer_words + 2 * (relay.job_number * relay.cell_beats + relay.job_beat), left)
    relay.job_beat += 1
    relay.job_left -= 1
    if relay.job_left == 0 and relay.job_beats != Beats.THROUGH:
        finish(s, relay)


@jit
def keep(s, relay, place, left):
    """Store the beat that is shown."""
    memory.write(s, relay, place, s.below.beats[4], s.below.beats[5], left)


@jit
def finish(s, relay):
    """The last beat has come."""
    if relay.job_beats == Beats.CELL:
        cell = cell_at(relay, relay.job_cell)
        if relay.job_posts:
            relay.phase = Phase.RELEASE if relay.parked > 0 else Phase.ANSWER
            post(s, relay, relay.job_cell)
            return
        cell.parked = 1
        relay.parked += 1
        cell_event(s, Event.RELAY_PARK, cell)
    elif relay.job_beats == Beats.BUFFER:
        wait_buffer(relay, relay.job_number, s.cycle)
    relay.phase = Phase.FIRST

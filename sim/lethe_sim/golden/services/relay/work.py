"""Completions and jobs 7.4 to 7.11: what is launched and told, the host's messages, and what time asks for."""

from lethe.spec.events import RELAY_MESSAGE, Cause, Event, Status
from lethe.spec.services.relay import MODE, RecordState, RelayJob, Type
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.lib import queue
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.ni.layouts import pack_uid
from lethe_sim.golden.services import site
from lethe_sim.golden.state import NONE

from . import hear, records, tell, transfer, walk
from .state import (
    HostIn,
    Keeping,
    Of,
    Phase,
    RelayHeader,
    age,
    buffer_at,
    entry_at,
    free_ones,
    from_at,
    give_free_buffer,
    hold,
    number_at,
    pop,
    route_at,
    row_at,
    slot_at,
    stamp,
    take_free,
    to_at,
    unhold,
    wait_slot,
)

#: Cycles from one look to the next.
LOOK = 64


@jit
def is_own(s, relay):
    """Whether the completion that is offered below is that of a hop."""
    return row_at(relay, s.below.shows.slot).mine


@jit
def take_at_once(s, relay):
    """It is taken; what is looked at to be cancelled has ended."""
    row_at(relay, s.below.shows.slot).mine = 0
    if relay.job == RelayJob.CANCEL and relay.cancel_row == s.below.shows.slot:
        relay.job_number = 0


@jit
def begin_launch(s, relay):
    """The entry leaves the queue to send."""
    places = relay.slots + relay.buffers + 1
    relay.job_number = pop(relay, relay.sending[0], relay.at_sending, places, s.cycle)


@apart
def launch(s, relay):
    """Data of a slot or buffer go to the next hop."""
    if relay.job_number < relay.slots:
        slot = slot_at(relay, relay.job_number)
        slot.waiting = 0
        if slot.live and route_at(relay, slot.target).hop != s.node:
            out = tell.of_slot(s, relay, Type.DATA, slot)
            out.slot, out.replay, out.hop = relay.job_number, slot.sent, route_at(relay, slot.target).hop
            slot.sent = 1
            transfer.give(s, relay, Of.SLOT, relay.job_number, slot.length)
        return
    number = relay.job_number - relay.slots
    buffer = buffer_at(relay, number)
    if buffer.record == NONE:
        give_free_buffer(relay, number)
        return
    entry = entry_at(relay, buffer.record)
    hop = route_at(relay, entry.target).hop
    if hop == s.node:
        hold(relay, number, s.cycle)
        return
    out = tell.of_entry(relay, Type.DATA, entry)
    out.replay, out.hop = buffer.kept, hop
    buffer.state = Keeping.MOVING
    transfer.give(s, relay, Of.BUFFER, number, entry.length)


@jit
def begin_tell(s, relay):
    """The header leaves the queue of control."""
    tell.copied(relay.key[0], RelayHeader(relay, relay.at_telling, relay.telling[0].head))
    queue.removed(relay.telling[0], relay.control_depth + 1, s.cycle)


@jit
def tell_queued(s, relay):
    """It goes, unless its hop is dead."""
    if not to_at(relay, relay.key[0].hop).dead:
        tell.give_control(s, relay, relay.key[0])


@jit
def refusal(s, relay, offered):
    """Why the record that is offered is refused, or 0."""
    if offered.cls & s.k.class_mask >= relay.data_class:
        return Cause.CLASS
    if offered.destination >= relay.nodes or offered.destination == s.node:
        return Cause.DESTINATION
    if offered.length > relay.mtu:
        return Cause.LENGTH
    row = to_at(relay, offered.destination)
    if row.dead:
        return Cause.SILENT
    if row.live >= relay.window:
        return Cause.WINDOW
    return Cause.NONE if free_ones(relay.free_slots[0]) > 0 else Cause.BUFFER


@jit
def waits(s, relay):
    """Whether the record that is offered has to wait for room."""
    offered = s.above.drives
    return offered.deadline & s.k.deadline_mask == 0 and refusal(s, relay, offered) in (Cause.WINDOW, Cause.BUFFER)


@jit
def takes(s, relay):
    """Whether the message that was offered as the job began is still offered, to the same node, and has not to wait."""
    return offers(s, relay) and s.above.drives.destination == relay.job_number and not waits(s, relay)


@apart
def host(s, relay):
    """The host's record is taken; it is refused, or has a slot."""
    offered = s.above.drives
    if not takes(s, relay):
        relay.host_waits = offers(s, relay) and offered.destination == relay.job_number
        return
    cause, left, tag = refusal(s, relay, offered), payload_flits(s.k, offered.length), offered.tag & s.k.tag_mask
    relay.owed += 1
    relay.host_beats, relay.host_beat, relay.host_length = left, 0, offered.length
    if cause != Cause.NONE:
        own = relay.ni_slots + relay.slots
        records.push_completion(s, relay, own, relay.generation, offered.destination, tag, Status.REJECTED, cause)
        relay.generation = relay.generation + 1 & s.k.generation_mask
        word = event_word(Event.RELAY_REFUSED, cause, offered.destination, offered.length)
        site.tell(s, RELAY_MESSAGE, word, extra(tag), 0)
        relay.host = HostIn.DROP if left > 0 else HostIn.IDLE
        return
    relay.host_slot = take_free(relay, relay.free_slots[0])
    slot = slot_at(relay, relay.host_slot)
    slot.target, slot.cls, slot.length, slot.tag = (
        offered.destination, offered.cls & s.k.class_mask, offered.length, tag
    )  # fmt: skip
    slot.sent = 0
    relay.host = HostIn.STORE if left > 0 else HostIn.STORED


@jit
def offers(s, relay):
    """Whether a message is offered, and can be judged."""
    return takes_message(s) and relay.host == HostIn.IDLE and not relay.passing


@jit
def takes_message(s):
    """Whether the record that is offered above is a message."""
    return s.above.drives.send_valid and s.above.drives.mode == MODE


@apart
def given(s, relay):
    """A message is whole: it is live, and waits to be sent (M1); if its destination died meanwhile it ends."""
    if relay.phase == Phase.FREE:
        walk.end_next(s, relay)
        return
    number = relay.host_slot
    slot = slot_at(relay, number)
    row = to_at(relay, slot.target)
    relay.host = HostIn.IDLE
    slot.uid, slot.prev, slot.stamp, slot.live = relay.next_uid, row.last, stamp(relay, s.cycle), 1
    relay.next_uid = 0 if relay.next_uid >= relay.uid_last else relay.next_uid + 1
    row.last = slot.uid
    if row.live > 0:
        slot_at(relay, row.tail).next = number
    else:
        row.head = number
    row.tail = number
    row.live += 1
    relay.live += 1
    wait_slot(relay, number, s.cycle)
    uid = pack_uid(s.node, s.incarnation, number, 0)
    word = event_word(Event.RELAY_SEND, 0, slot.target, slot.length)
    site.tell(s, RELAY_MESSAGE, word, extra(slot.uid & tell.LOW_UID), uid)
    if row.dead:
        relay.phase, relay.job_number = Phase.FREE, slot.target


@jit
def begin_feed(s, relay):
    """The oldest hungry source."""
    relay.job_number = pop(relay, relay.hungry[0], relay.at_hungry, relay.nodes + 1, s.cycle)


@jit
def feed(s, relay):
    """There is a cell again (M13)."""
    from_at(relay, relay.job_number).hungry = 0
    if not to_at(relay, relay.job_number).dead:
        hear.answer(s, relay, relay.job_number, 1)


@jit
def begin_cancel(relay):
    """Whether the slot is relay's, as of now."""
    relay.job_number = row_at(relay, relay.cancel_row).mine


@jit
def cancel(s, relay):
    """A job for each slot of the NI: what goes to the dead is cancelled."""
    row = row_at(relay, relay.cancel_row)
    if relay.job_number and route_at(relay, row.destination).hop == s.node:
        relay.cancelling, relay.cancel_name, relay.cancel_generation = 1, relay.cancel_row, row.generation
    relay.cancel_row += 1
    if relay.cancel_row == relay.ni_slots:
        relay.cancel_walk, relay.cancel_row = 0, 0


@jit
def owe(s, relay):
    """A record whose data were dropped asks for them (M22)."""
    entry = entry_at(relay, relay.owed_row)
    relay.owed_row = relay.owed_row + 1 & relay.entries - 1
    if entry.valid and entry.state == RecordState.OWED:
        records.become(relay, entry, RecordState.REQUESTED)
        tell.of_entry(relay, Type.REQUESTED, entry)
        tell.told_up(s, relay)


@apart
def look(s, relay):
    """A slot and a record are looked at; in a further step what is held too long goes, if no record has ended."""
    if relay.phase == Phase.DUE:
        let_go(relay, relay.job_number)
        relay.phase = Phase.FIRST
        return
    number, oldest = relay.look, due(s, relay)
    last = max(relay.slots, relay.entries) - 1
    relay.look = 0 if number == last else number + 1
    if number < relay.slots:
        watch(s, relay, number)
    if number < relay.entries:
        entry = entry_at(relay, number)
        if entry.valid and age(relay, s.cycle, entry.stamp) >= relay.entry and not moves(relay, entry):
            records.end(s, relay, entry, Event.RELAY_EXPIRE)
            oldest = NONE
    if oldest != NONE:
        relay.phase, relay.job_number = Phase.DUE, oldest


@jit
def moves(relay, entry):
    """Whether the data of a record wait or move."""
    return entry.buffer != NONE and buffer_at(relay, entry.buffer).state != Keeping.HELD


@jit
def watch(s, relay, number):
    """The origin asks for a message that is live for long, if there is room (M7)."""
    slot = slot_at(relay, number)
    if not slot.live or to_at(relay, slot.target).head != number or age(relay, s.cycle, slot.stamp) < relay.watch:
        return
    if not tell.has_room(s, relay):
        return
    slot.stamp = stamp(relay, s.cycle)
    out = tell.of_slot(s, relay, Type.LINK, slot)
    out.slot, out.thru, out.depth = number, 1, relay.depth
    tell.told_to(s, relay, slot.target)


@jit
def due(s, relay):
    """The oldest held buffer, if its data are held no longer; else `NONE`."""
    if relay.held > 0:
        number = number_at(relay, relay.at_held)[0]
        if age(relay, s.cycle, buffer_at(relay, number).stamp) >= relay.cache:
            return number
    return NONE


@jit
def let_go(relay, number):
    """The data of a buffer are held no longer."""
    entry_at(relay, buffer_at(relay, number).record).buffer = NONE
    unhold(relay, number)
    give_free_buffer(relay, number)

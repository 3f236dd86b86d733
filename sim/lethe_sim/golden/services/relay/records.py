"""Records of messages that pass, their buffers, and slots of own messages: what begins and ends them."""

from lethe.spec.events import RELAY_ENDED, Cause, Event, Status
from lethe.spec.services.relay import RecordState
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import ending, event_word, extra
from lethe_sim.golden.lib import queue
from lethe_sim.golden.ni.layouts import pack_uid
from lethe_sim.golden.services import site
from lethe_sim.golden.state import NONE

from . import tell
from .state import (
    TIDE_MASK,
    Keeping,
    Moving,
    Of,
    RelayEnded,
    buffer_at,
    entry_at,
    give_free,
    give_free_buffer,
    slot_at,
    stamp,
    to_at,
    unhold,
)

_WAYS = 4


@jit
def set_of(relay, source, uid):
    """The set of a message."""
    bits = relay.set_bits
    if bits == 0:
        return 0
    found, turned = folded(uid, bits), folded(source, bits)
    for bit in range(bits):
        found ^= (turned >> bit & 1) << bits - 1 - bit
    return found


@jit
def folded(number, bits):
    """The XOR of all pieces of so many bits."""
    found = 0
    while number:
        found ^= number & (1 << bits) - 1
        number >>= bits
    return found


@jit
def find(relay, source, incarnation, uid):
    """The record of a message, or `NONE`."""
    first = set_of(relay, source, uid) * _WAYS
    for number in range(first, first + _WAYS):
        entry = entry_at(relay, number)
        if entry.valid and entry.uid == uid and entry.source == source and entry.incarnation == incarnation:
            return number
    return NONE


@jit
def way(relay, source, uid):
    """A way for a new record, or `NONE`."""
    first = set_of(relay, source, uid) * _WAYS
    for number in range(first, first + _WAYS):
        if not entry_at(relay, number).valid:
            return number
    return NONE


@jit
def make(s, relay, number, header, length):
    """A new record of the message of a header."""
    entry = entry_at(relay, number)
    entry.valid, entry.source, entry.incarnation, entry.uid = 1, header.source, header.incarnation, header.uid
    entry.stamp, entry.buffer, entry.state = stamp(relay, s.cycle), NONE, 0
    fill(relay, entry, header, length)
    relay.known += 1


@jit
def fill(relay, entry, header, length):
    """A record has what the header has."""
    entry.tide = relay.tide - 1 & TIDE_MASK
    entry.prev, entry.target, entry.slot, entry.cls, entry.length = (
        header.prev, header.target, header.slot, header.cls, length
    )  # fmt: skip


@jit
def become(relay, entry, state):
    """A record has another state."""
    relay.owing += int(state == RecordState.OWED) - int(entry.state == RecordState.OWED)
    entry.state = state


@jit
def drop_buffer(relay, entry):
    """The buffer of a record goes."""
    if entry.buffer == NONE:
        return
    number = entry.buffer
    entry.buffer = NONE
    if buffer_at(relay, number).state == Keeping.HELD:
        unhold(relay, number)
        give_free_buffer(relay, number)
    else:
        buffer_at(relay, number).record = NONE


@jit
def end(s, relay, entry, event):
    """A record ends."""
    tell.relay_event(s, event, entry, entry.length)
    drop_buffer(relay, entry)
    become(relay, entry, 0)
    entry.valid = 0
    relay.known -= 1


@jit
def acked(relay, entry):
    """A record is ACKED."""
    become(relay, entry, RecordState.ACKED)
    drop_buffer(relay, entry)


@jit
def push_completion(s, relay, slot, generation, destination, tag, status, cause):
    """An own completion."""
    ended = ended_at(relay, relay.completions[0].level)
    ended.slot, ended.generation, ended.destination = slot, generation, destination
    ended.tag, ended.status, ended.cause = tag, status, cause
    queue.added(relay.completions[0], 1, s.cycle)


@jit
def ended_at(relay, behind):
    """An own completion, counted from the oldest."""
    return RelayEnded(relay, relay.at_completions, queue.place_in(relay.completions[0], relay.slots + 5, behind))


@apart
def free_head(s, relay, target, status, cause):
    """The first message to a destination ends; its slot."""
    row = to_at(relay, target)
    number = row.head
    slot = slot_at(relay, number)
    row.head = slot.next
    row.live -= 1
    relay.live -= 1
    relay.host_waits = 0
    slot.live = 0
    push_completion(s, relay, relay.ni_slots + number, slot.generation, target, slot.tag, status, cause)
    uid = pack_uid(s.node, s.incarnation, number, 0)
    word = event_word(Event.RELAY_END, ending(status, cause), target, 0)
    site.tell(s, RELAY_ENDED, word, extra(slot.uid & tell.LOW_UID), uid)
    slot.generation = slot.generation + 1 & s.k.generation_mask
    reads = relay.moving != Moving.IDLE and relay.moving_of == Of.SLOT and relay.moving_number == number
    if not reads:
        give_free(relay, relay.free_slots[0], number)
    return number


@jit
def posted(s, relay, target):
    """The first message to a destination is posted."""
    return free_head(s, relay, target, Status.ACCEPTED, Cause.NONE)


@jit
def rise(relay):
    """LINKs that were told until now may have to be told again."""
    relay.tide = relay.tide + 1 & TIDE_MASK


@jit
def is_told(relay, entry):
    """Whether LINK of a message was told since the last notice, and since a PULL was heard."""
    return entry.tide == relay.tide


@jit
def told(relay, number, went):
    """LINK of the message of a record, if there is one, went to its next hop, or did not."""
    if number != NONE and went:
        entry_at(relay, number).tide = relay.tide

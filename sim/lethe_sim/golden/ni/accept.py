"""Host side: accept (section 4.2).  The host's side of the port is six stimulus words (section 8)."""

import numpy as np
from lethe.spec.events import LANE_ACCEPT, Cause, Event, Kind

from .. import queue
from ..bits import U0, mask, put_flit
from ..compile import jit
from ..events import emit, event_word, extend, pack_uid
from ..state import (
    ACCEPT_BEAT, ACCEPT_BEATS, ACCEPT_SLOT, AT_PAYLOAD, AT_QUEUES, AT_SLOTS, BUSY, CAUSE, CLASS_MASK, DEADLINE,
    DEADLINE_MASK, EXPECT, FIRST_CONTROL, FLIT_BITS, FREE, INCARNATION_MASK, INCARNATION_NOW, LAUNCHED, LEVEL, LIVE,
    MTU, NEW, NODES, NONE, NUMBER, READY_FROM, RESERVED, RETRY_LIMIT, SLOT_CLASS, SLOT_DESTINATION, SLOT_FIELDS,
    SLOT_FLITS, SLOT_GENERATION, SLOT_LENGTH, SLOT_MODE, SLOT_WORDS, SLOTS, TAG, TAG_MASK, TIME_ZERO, TX_FROM, TX_SLOT,
    TX_UNTIL,
)  # fmt: skip

SEND_VALID, DATA_VALID, CANCEL_VALID, QUIESCE, LINK_DISABLE, DELIVER_STALL = range(6)
_ACCEPT, _SEND, _BE = int(Event.ACCEPT), int(Kind.SEND), int(Kind.BE)
_BAD_DESTINATION, _BAD_MODE, _BAD_LENGTH = int(Cause.DESTINATION), int(Cause.MODE), int(Cause.LENGTH)


@jit
def bit(word, number):
    """A flag of stimulus word 0."""
    return np.int64(word >> np.uint64(number)) & 1 == 1


@jit
def part(word, offset, width):
    """A field of a stimulus word."""
    return np.int64(word >> np.uint64(offset) & mask(width))


@jit
def payload_flits(k, length):
    """Flits of a payload of ``length`` bytes."""
    flit_bytes = k[FLIT_BITS] >> 3
    return (length + flit_bytes - 1) // flit_bytes


@jit
def send_ready(k, ni, stimulus, cycle, node):
    """`send.ready` for the record that is offered in ``cycle``."""
    if ni[node, ACCEPT_BEATS] > 0 or cycle < ni[node, READY_FROM] or bit(stimulus[node, 0], QUIESCE):
        return False
    if not queue.present(k, ni, node, FREE, cycle) or queue.level(k, ni, node, NEW, cycle) >= k[SLOTS]:
        return False
    slot = ni[node, queue.oldest(k, ni, node, FREE)] >> 20
    if slot == ni[node, TX_SLOT] and ni[node, TX_FROM] <= cycle <= ni[node, TX_UNTIL]:
        return False
    control = part(stimulus[node, 1], 16, 8) & k[CLASS_MASK] >= k[FIRST_CONTROL]
    return k[RESERVED] == 0 or control or k[SLOTS] - ni[node, BUSY] > k[RESERVED]


@jit
def take_record(k, ni, cycle, node):
    """The handshake: pop the free queue; returns slot·2^20 + generation."""
    entry = ni[node, queue.oldest(k, ni, node, FREE)]
    queue.pop(k, ni, node, FREE, cycle)
    ni[node, BUSY] += 1
    return entry


@jit
def store_record(k, ni, ev, stimulus, cycle, node, entry):
    """Write the record that was taken in this cycle into its slot; returns whether it is accepted at once."""
    slot = entry >> 20
    at = k[AT_SLOTS] + slot * SLOT_FIELDS
    record, limits = stimulus[node, 1], stimulus[node, 2]
    destination, mode, length = part(record, 0, 16), part(record, 24, 8), part(record, 32, 16)
    cause = 0
    if destination >= k[NODES] or destination == ni[node, NUMBER]:
        cause = _BAD_DESTINATION
    elif mode > 1:
        cause = _BAD_MODE
    elif length > k[MTU]:
        cause = _BAD_LENGTH
    ni[node, at + SLOT_GENERATION] = entry & 0xFFFFF
    ni[node, at + LIVE] = 0
    ni[node, at + LAUNCHED] = 0
    ni[node, at + SLOT_DESTINATION] = destination
    ni[node, at + SLOT_CLASS] = part(record, 16, 8) & k[CLASS_MASK]
    ni[node, at + SLOT_MODE] = mode
    ni[node, at + SLOT_LENGTH] = length
    ni[node, at + DEADLINE] = part(limits, 0, 32) & k[DEADLINE_MASK]  # relative until accepted
    ni[node, at + RETRY_LIMIT] = part(limits, 32, 8)
    ni[node, at + TAG] = part(record, 48, 16) & k[TAG_MASK]
    ni[node, at + EXPECT] = part(limits, 40, 8) & k[INCARNATION_MASK]
    ni[node, at + CAUSE] = cause
    ni[node, ACCEPT_SLOT] = slot
    ni[node, ACCEPT_BEAT] = 0
    ni[node, ACCEPT_BEATS] = payload_flits(k, length)
    if length == 0:
        accept(k, ni, ev, cycle, node)
        return True
    return False


@jit
def store_beat(k, ni, data, ev, stimulus, cycle, node):
    """Take one payload beat; returns whether it was the last."""
    slot, beat = ni[node, ACCEPT_SLOT], ni[node, ACCEPT_BEAT]
    flit_bits = k[FLIT_BITS]
    if beat < k[SLOT_FLITS]:
        low, high = stimulus[node, 3], stimulus[node, 4]
        left = 8 * ni[node, k[AT_SLOTS] + slot * SLOT_FIELDS + SLOT_LENGTH] - beat * flit_bits
        if left < flit_bits:
            low &= mask(left)
            high &= mask(max(0, left - 64))
        if flit_bits < 64:
            low &= mask(flit_bits)
        if flit_bits < 128:
            high = U0
        put_flit(data, node, k[AT_PAYLOAD] + slot * k[SLOT_WORDS], flit_bits, beat, low, high)
    ni[node, ACCEPT_BEAT] = beat + 1
    if beat + 1 < ni[node, ACCEPT_BEATS]:
        return False
    ni[node, ACCEPT_BEATS] = 0
    accept(k, ni, ev, cycle, node)
    return True


@jit
def accept(k, ni, ev, cycle, node):
    """The datagram is fully stored: its slot is live, and waits in the new queue."""
    slot = ni[node, ACCEPT_SLOT]
    at = k[AT_SLOTS] + slot * SLOT_FIELDS
    ni[node, at + LIVE] = 1
    deadline = ni[node, at + DEADLINE]
    ni[node, at + DEADLINE] = cycle - ni[node, TIME_ZERO] + deadline if deadline > 0 else NONE
    generation = ni[node, at + SLOT_GENERATION]
    queue.push(k, ni, node, NEW, slot << 20 | generation, 0, cycle)
    kind = _BE if ni[node, at + SLOT_MODE] == 1 and ni[node, at + CAUSE] == 0 else _SEND
    word = event_word(_ACCEPT, kind, ni[node, at + SLOT_DESTINATION], ni[node, at + SLOT_LENGTH])
    number = ni[node, NUMBER]
    emit(ev, cycle, number, LANE_ACCEPT, word, pack_uid(number, ni[node, INCARNATION_NOW], slot, generation))
    extend(ev, np.uint64(ni[node, at + TAG]) << np.uint64(48))

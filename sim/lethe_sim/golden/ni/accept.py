"""Host side: accept (section 4.2).  The host's side of the port is six stimulus words (section 8)."""

import numpy as np

from lethe.spec.events import LANE_ACCEPT, Cause, Event, Kind
from lethe_sim.golden import queue
from lethe_sim.golden.bits import U0, mask, put_flit
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, event_word, extend, pack_uid
from lethe_sim.golden.state import (
    ACCEPT_BEAT,
    ACCEPT_BEATS,
    ACCEPT_SLOT,
    AT_PAYLOAD,
    AT_SLOTS,
    AT_TAKEN,
    BUSY,
    CAUSE,
    CLASS_MASK,
    DEADLINE,
    DEADLINE_MASK,
    EXPECT,
    FIRST_CONTROL,
    FLIT_BITS,
    FLIT_SHIFT,
    FREE,
    INCARNATION_MASK,
    INCARNATION_NOW,
    LIVE,
    MTU,
    NEW,
    NODES,
    NONE,
    NUMBER,
    PER_DESTINATION,
    READY_FROM,
    RESERVED,
    RETRY_LIMIT,
    SLOT_CLASS,
    SLOT_DESTINATION,
    SLOT_FIELDS,
    SLOT_FLITS,
    SLOT_GENERATION,
    SLOT_LENGTH,
    SLOT_MODE,
    SLOT_WORDS,
    SLOTS,
    TAG,
    TAG_MASK,
    TIME_ZERO,
    TX_FROM,
    TX_SLOT,
    TX_UNTIL,
)  # fmt: skip  # isort: skip

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
    shift = k[FLIT_SHIFT]
    return length + (1 << shift) - 1 >> shift


@jit
def send_ready(k, ni, stimulus, cycle):
    """`send.ready` for the record that is offered in ``cycle``."""
    if ni[ACCEPT_BEATS] > 0 or cycle < ni[READY_FROM] or bit(stimulus[0], QUIESCE):
        return False
    if not queue.present(k, ni, FREE, cycle) or queue.level(k, ni, NEW, cycle) >= k[SLOTS]:
        return False
    slot = ni[queue.oldest(k, ni, FREE)] >> 20
    if slot == ni[TX_SLOT] and ni[TX_FROM] <= cycle <= ni[TX_UNTIL]:
        return False
    if k[PER_DESTINATION] > 0 and crowded(k, ni, part(stimulus[1], 0, 16)):
        return False
    control = part(stimulus[1], 16, 8) & k[CLASS_MASK] >= k[FIRST_CONTROL]
    return k[RESERVED] == 0 or control or k[SLOTS] - ni[BUSY] > k[RESERVED]


@jit
def crowded(k, ni, destination):
    """Whether as many datagrams as may be are under way to a destination."""
    under_way = 0
    for slot in range(k[SLOTS]):
        under_way += ni[k[AT_TAKEN] + slot] == destination
    return destination < k[NODES] and under_way >= k[PER_DESTINATION]


@jit
def take_record(k, ni, cycle):
    """The handshake: pop the free queue; returns slot·2^20 + generation."""
    entry = ni[queue.oldest(k, ni, FREE)]
    queue.pop(k, ni, FREE, cycle)
    ni[BUSY] += 1
    return entry


@jit
def store_record(k, ni, ev, stimulus, cycle, entry):
    """Write the record that was taken in this cycle into its slot; returns whether it is accepted at once."""
    slot = entry >> 20
    at = k[AT_SLOTS] + slot * SLOT_FIELDS
    record, limits = stimulus[1], stimulus[2]
    destination, mode, length = part(record, 0, 16), part(record, 24, 8), part(record, 32, 16)
    cause = 0
    if destination >= k[NODES] or destination == ni[NUMBER]:
        cause = _BAD_DESTINATION
    elif mode > 1:
        cause = _BAD_MODE
    elif length > k[MTU]:
        cause = _BAD_LENGTH
    ni[at + SLOT_GENERATION] = entry & 0xFFFFF
    ni[at + LIVE] = 0
    ni[at + SLOT_DESTINATION] = destination
    ni[at + SLOT_CLASS] = part(record, 16, 8) & k[CLASS_MASK]
    ni[at + SLOT_MODE] = mode
    ni[at + SLOT_LENGTH] = length
    ni[at + DEADLINE] = part(limits, 0, 32) & k[DEADLINE_MASK]  # relative until accepted
    ni[at + RETRY_LIMIT] = part(limits, 32, 8)
    ni[at + TAG] = part(record, 48, 16) & k[TAG_MASK]
    ni[at + EXPECT] = part(limits, 40, 8) & k[INCARNATION_MASK]
    ni[at + CAUSE] = cause
    if k[PER_DESTINATION] > 0:
        ni[k[AT_TAKEN] + slot] = destination
    ni[ACCEPT_SLOT] = slot
    ni[ACCEPT_BEAT] = 0
    ni[ACCEPT_BEATS] = payload_flits(k, length)
    if length == 0:
        accept(k, ni, ev, cycle)
        return True
    return False


@jit
def store_beat(k, ni, data, ev, stimulus, cycle):
    """Take one payload beat; returns whether it was the last."""
    slot, beat = ni[ACCEPT_SLOT], ni[ACCEPT_BEAT]
    flit_bits = k[FLIT_BITS]
    if beat < k[SLOT_FLITS]:
        low, high = stimulus[3], stimulus[4]
        left = 8 * ni[k[AT_SLOTS] + slot * SLOT_FIELDS + SLOT_LENGTH] - beat * flit_bits
        if left < flit_bits:
            low &= mask(left)
            high &= mask(max(0, left - 64))
        if flit_bits < 64:
            low &= mask(flit_bits)
        if flit_bits < 128:
            high = U0
        put_flit(data, k[AT_PAYLOAD] + slot * k[SLOT_WORDS], flit_bits, beat, low, high)
    ni[ACCEPT_BEAT] = beat + 1
    if beat + 1 < ni[ACCEPT_BEATS]:
        return False
    ni[ACCEPT_BEATS] = 0
    accept(k, ni, ev, cycle)
    return True


@jit
def accept(k, ni, ev, cycle):
    """The datagram is fully stored: its slot is live, and waits in the new queue."""
    slot = ni[ACCEPT_SLOT]
    at = k[AT_SLOTS] + slot * SLOT_FIELDS
    ni[at + LIVE] = 1
    deadline = ni[at + DEADLINE]
    ni[at + DEADLINE] = cycle - ni[TIME_ZERO] + deadline if deadline > 0 else NONE
    generation = ni[at + SLOT_GENERATION]
    queue.push(k, ni, NEW, slot << 20 | generation, 0, cycle)
    kind = _BE if ni[at + SLOT_MODE] == 1 and ni[at + CAUSE] == 0 else _SEND
    word = event_word(_ACCEPT, kind, ni[at + SLOT_DESTINATION], ni[at + SLOT_LENGTH])
    number = ni[NUMBER]
    emit(ev, cycle, number, LANE_ACCEPT, word, pack_uid(number, ni[INCARNATION_NOW], slot, generation))
    extend(ev, np.uint64(ni[at + TAG]) << np.uint64(48))

"""Transmitter (section 4.3): the arbiter, and what it shows on `link_o` and lane tx two cycles later.

What the NI shows in cycle c is in a ring at c mod TX_RING: flags and data of the flit, and the event.
"""

import numpy as np

from lethe.spec.events import LANE_TX, Cause, Event, Kind, Status
from lethe_sim.golden import ladder, queue, round_trip
from lethe_sim.golden.bits import ALL, U0, flit_high, flit_low, mask, put
from lethe_sim.golden.compile import jit
from lethe_sim.golden.crc import ONES32, crc16_body, crc32_flit
from lethe_sim.golden.events import emit, event_word, pack_uid
from lethe_sim.golden.random import advance
from lethe_sim.golden.state import (
    AT_HEADER,
    AT_PAYLOAD,
    AT_SLOTS,
    AT_TX,
    AT_TX_DATA,
    CAUSE,
    CLASS,
    CONTROL_FLITS,
    CRC_FLITS,
    DESTINATION,
    EXPECT,
    FIELD_OFFSET,
    FIELD_WIDTH,
    FINISH,
    FINISH_FROM,
    FIRST,
    FLIT_BITS,
    GENERATION,
    HEADER_FLITS,
    INCARNATION,
    INCARNATION_NOW,
    JITTER,
    KIND,
    LAST,
    LAUNCH,
    LAUNCHED,
    LENGTH,
    LIVE,
    MODE,
    NEVER,
    NEW,
    NEXT_GRANT,
    NONE,
    NUMBER,
    ONE_FLIT,
    PEER_INCARNATION,
    RANDOM,
    READY_FROM,
    REPEATS,
    REPLIES_LAST,
    REPLY,
    SEND_LADDER,
    SHOW_FIELDS,
    SHOW_FLAGS,
    SHOW_UID,
    SHOW_WORD,
    SLOT,
    SLOT_CLASS,
    SLOT_DESTINATION,
    SLOT_FIELDS,
    SLOT_GENERATION,
    SLOT_LENGTH,
    SLOT_MODE,
    SLOT_WORDS,
    SOURCE,
    TAG_FLITS,
    TIME_ZERO,
    TRY,
    TRY_MASK,
    TX_CLEAR,
    TX_END,
    TX_FROM,
    TX_RING,
    TX_SLOT,
    TX_UNTIL,
    VALID,
    WORDS,
)  # fmt: skip  # isort: skip
from lethe_sim.golden.topology import distance_class

from .accept import payload_flits

_SEND, _BE = int(Kind.SEND), int(Kind.BE)
_KILLED = int(Event.KILLED)
_EVENT_OF_KIND = np.array([0, Event.SEND, Event.ACK, Event.FORGET, Event.BE], np.int64)
_REJECTED, _UNKNOWN, _BEST_EFFORT = int(Status.REJECTED), int(Status.UNKNOWN), int(Cause.BEST_EFFORT)


@jit
def header_field(k, data, name, value):
    """Write one field of the header under construction."""
    put(data, k[AT_HEADER], k[FIELD_OFFSET + name], k[FIELD_WIDTH + name], value)


@jit
def show_flit(k, ni, data, cycle, flags, low, high):
    """Show a flit in ``cycle``."""
    place = cycle & (k[TX_RING] - 1)
    ni[k[AT_TX] + place * SHOW_FIELDS + SHOW_FLAGS] = VALID | flags
    words = k[WORDS]
    data[k[AT_TX_DATA] + place * words] = low
    if words == 2:
        data[k[AT_TX_DATA] + place * 2 + 1] = high


@jit
def show_event(k, ni, cycle, word, uid):
    """Show an event on lane tx in ``cycle``."""
    at = k[AT_TX] + (cycle & (k[TX_RING] - 1)) * SHOW_FIELDS
    ni[at + SHOW_WORD] = word
    ni[at + SHOW_UID] = uid


@jit
def shown(k, ni, ev, cycle):
    """Flags of the flit visible in ``cycle``; its event is emitted, and the place in the ring cleared."""
    at = k[AT_TX] + (cycle & (k[TX_RING] - 1)) * SHOW_FIELDS
    flags = ni[at + SHOW_FLAGS]
    word = ni[at + SHOW_WORD]
    if word != 0:
        emit(ev, cycle, ni[NUMBER], LANE_TX, word, ni[at + SHOW_UID])
        ni[at + SHOW_WORD] = 0
    ni[at + SHOW_FLAGS] = 0
    return flags


@jit
def show_worm(k, ni, data, cycle, payload_at, payload_count):
    """Show the header under construction and a payload as a worm from ``cycle`` on; returns its flits."""
    flit_bits = k[FLIT_BITS]
    state = ONES32
    n = 0
    total = k[HEADER_FLITS] + payload_count + k[CRC_FLITS]
    header = k[HEADER_FLITS]
    if payload_at == NONE:
        total = k[CONTROL_FLITS]
        header = total - k[CRC_FLITS]
        if k[ONE_FLIT]:
            low = flit_low(data, k[AT_HEADER], flit_bits, 0)
            high = flit_high(data, k[AT_HEADER], flit_bits, 0)
            crc = np.uint64(crc16_body(low, high, flit_bits))
            if flit_bits == 128:
                high |= crc << np.uint64(48)
            else:
                low |= crc << np.uint64(flit_bits - 16)
            show_flit(k, ni, data, cycle, FIRST | LAST | 1 << TAG_FLITS, low, high)
            return 1
    for j in range(header + payload_count):
        if j < header:
            low = flit_low(data, k[AT_HEADER], flit_bits, j)
            high = flit_high(data, k[AT_HEADER], flit_bits, j)
        else:
            low = flit_low(data, payload_at, flit_bits, j - header)
            high = flit_high(data, payload_at, flit_bits, j - header)
        state = crc32_flit(state, low, high, flit_bits)
        show_flit(k, ni, data, cycle + n, FIRST | total << TAG_FLITS if n == 0 else 0, low, high)
        n += 1
    crc = np.uint64(state ^ ONES32)
    for j in range(k[CRC_FLITS]):
        low = crc >> np.uint64(j * flit_bits) & (mask(flit_bits) if flit_bits < 64 else ALL)
        n += 1
        show_flit(k, ni, data, cycle + n - 1, LAST if n == total else 0, low, U0)
    return n


@jit
def start_header(k, ni, data, kind, destination, slot, generation, incarnation, peer_incarnation, attempt):
    """Begin a header with the fields that every message has."""
    for word in range(4):
        data[k[AT_HEADER] + word] = U0
    header_field(k, data, KIND, kind)
    header_field(k, data, DESTINATION, destination)
    header_field(k, data, SOURCE, ni[NUMBER])
    header_field(k, data, SLOT, slot)
    header_field(k, data, GENERATION, generation)
    header_field(k, data, INCARNATION, incarnation)
    header_field(k, data, PEER_INCARNATION, peer_incarnation)
    header_field(k, data, TRY, attempt)


@jit
def grant(k, ni, data, cycle, sends_allowed):
    """One decision of the arbiter, if one is possible in ``cycle``; returns whether something will be shown."""
    if cycle < ni[NEXT_GRANT] or cycle < ni[READY_FROM]:
        return False
    replies = queue.present(k, ni, REPLY, cycle)
    if replies and not (k[REPLIES_LAST] and sends_allowed and send_waits(k, ni, cycle)):
        grant_reply(k, ni, data, cycle)
        return True
    if not sends_allowed:
        return False
    if queue.present(k, ni, REPEATS, cycle):
        entry = ni[queue.oldest(k, ni, REPEATS)]
        queue.pop(k, ni, REPEATS, cycle)
        grant_send(k, ni, data, cycle, entry >> 8, entry & 0xFF)
        return True
    if ni[FINISH_FROM] == NEVER and queue.present(k, ni, NEW, cycle):
        entry = ni[queue.oldest(k, ni, NEW)]
        queue.pop(k, ni, NEW, cycle)
        grant_send(k, ni, data, cycle, entry, 0)
        return True
    return False


@jit
def send_waits(k, ni, cycle):
    """Whether a Send could be granted, if Sends are allowed."""
    return queue.present(k, ni, REPEATS, cycle) or (ni[FINISH_FROM] == NEVER and queue.present(k, ni, NEW, cycle))


@jit
def grant_reply(k, ni, data, cycle):
    """Send the oldest Ack or Forget."""
    at = queue.oldest(k, ni, REPLY)
    uid, rest = ni[at], ni[at + 1]
    queue.pop(k, ni, REPLY, cycle)
    kind, peer = rest & 7, rest >> 19 & 0xFFFF
    incarnation, slot, generation = uid >> 36 & 0xFF, uid >> 20 & 0xFFFF, uid & 0xFFFFF
    start_header(k, ni, data, kind, peer, slot, generation, incarnation, rest >> 3 & 0xFF, rest >> 11 & 0xFF)
    n = show_worm(k, ni, data, cycle + 2, NONE, 0)
    show_event(k, ni, cycle + 2, event_word(_EVENT_OF_KIND[kind], 0, peer, 0), uid)
    ni[NEXT_GRANT] = cycle + n
    ni[TX_CLEAR] = cycle + n + 2
    ni[TX_END] = cycle + 1 + n


@jit
def grant_send(k, ni, data, cycle, entry, tries):
    """Send a datagram (``entry`` is slot·2^20 + generation), or find that there is nothing to send."""
    slot, generation = entry >> 20, entry & 0xFFFFF
    at = k[AT_SLOTS] + slot * SLOT_FIELDS
    peer, incarnation = ni[at + SLOT_DESTINATION], ni[INCARNATION_NOW]
    uid = pack_uid(ni[NUMBER], incarnation, slot, generation)
    if tries == 0:
        ni[at + LAUNCHED] = generation
    strange = tries > 0 and (ni[at + SLOT_MODE] == 1 or ni[at + CAUSE] != 0)
    if not ni[at + LIVE] or ni[at + SLOT_GENERATION] != generation or strange:
        show_event(k, ni, cycle + 2, event_word(_KILLED, 0, peer, 0), uid)
        ni[NEXT_GRANT] = cycle + 2
        ni[TX_END] = cycle + 2
        return
    if ni[at + CAUSE] != 0:
        load_finish(ni, cycle, entry, _REJECTED, ni[at + CAUSE])
        ni[NEXT_GRANT] = cycle + 2
        return
    length = ni[at + SLOT_LENGTH]
    kind = _BE if ni[at + SLOT_MODE] == 1 else _SEND
    expect = ni[at + EXPECT]
    start_header(k, ni, data, kind, peer, slot, generation, incarnation, expect, tries & k[TRY_MASK])
    header_field(k, data, LENGTH, length)
    header_field(k, data, CLASS, ni[at + SLOT_CLASS])
    header_field(k, data, MODE, ni[at + SLOT_MODE])
    payload_at = k[AT_PAYLOAD] + slot * k[SLOT_WORDS]
    n = show_worm(k, ni, data, cycle + 2, payload_at, payload_flits(k, length))
    show_event(k, ni, cycle + 2, event_word(_EVENT_OF_KIND[kind], tries, peer, length), uid)
    ni[NEXT_GRANT] = cycle + n
    ni[TX_CLEAR] = cycle + n + 2
    ni[TX_END] = cycle + 1 + n
    ni[TX_SLOT], ni[TX_FROM], ni[TX_UNTIL] = slot, cycle + 1, cycle + n
    if kind == _BE:
        load_finish(ni, cycle, entry, _UNKNOWN, _BEST_EFFORT)
    else:
        ni[LAUNCH] = entry << 8 | tries


@jit
def load_finish(ni, cycle, entry, status, cause):
    """Load the finish register in grant cycle ``cycle``."""
    ni[FINISH_FROM] = cycle + 2
    ni[FINISH] = entry << 8 | status << 4 | cause


@jit
def launch(k, ni, cycle, token):
    """The cycle after a SEND's grant: its token starts to wait on the Send ladder."""
    delay_jitter = 0
    if k[JITTER] > 0:
        ni[RANDOM] = advance(ni[RANDOM])
        delay_jitter = ni[RANDOM] & k[JITTER]
    tries = token & 0xFF
    slot = token >> 28
    round_trip.stamp(k, ni, cycle, slot, tries)
    distance = distance_class(k, ni[NUMBER], ni[k[AT_SLOTS] + slot * SLOT_FIELDS + SLOT_DESTINATION])
    due = cycle - ni[TIME_ZERO] + 1 + ladder.delay_of(k, ni, cycle, distance, tries) + delay_jitter
    ladder.push(k, ni, SEND_LADDER, ladder.rung_of(k, distance, tries), due, token, 0)

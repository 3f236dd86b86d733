"""Hosts: the traffic generator and its checker (section 5), and the script host (section 8).

A host drives its NI through six stimulus words, whichever kind it is.
"""

import numpy as np

from . import queue
from .bits import U0, flit_high, flit_low, mask, put_flit
from .compile import jit
from .ni import deliver
from .ni.accept import payload_flits
from .ni.ni import ACCEPTED, BEAT_TAKEN, RECORD_TAKEN
from .random import advance, scale
from .state import (
    AT_DATA, AT_FIFOS, AT_MESSAGES, CHECK_BEAT, CHECK_KEY, CHECK_LENGTH, CHECK_STATE, CHECK_WRONG, CLASS, COUNT,
    DEADLINE_GIVEN, DELIVER, FIFOS, FLIT_BITS, GAP, GENERATOR, GENERATOR_RANDOM, HOST, HOST_BEAT, HOST_DESTINATION,
    HOST_LENGTH, HOST_NUMBER, HOST_STATE, HOST_UNTIL, LENGTH, LENGTHS, LEVEL, MESSAGE_FIELDS, MIN_LENGTH, NEVER, NODES,
    NUMBER, READY_FROM, RECEIVED, RECEIVED_SUM, RETRY_GIVEN, SCRIPT, SENT, SENT_SUM, SOURCE, STOP, TAG_MASK,
    WORDS, WRONG,
)  # fmt: skip

# States of a generator; the script host has RECORD and DATA only.
RECORD, DATA, START, GAPPING, DONE = range(5)
# States of a checker.
HEAD_STATE, BEATS_STATE = range(2)
# Columns of a script item and of a delivered letter.
NOT_BEFORE, ITEM_RECORD, ITEM_LIMITS, ITEM_LENGTH, ITEM_PAYLOAD, ITEM_COLUMNS = range(6)
LETTER_NODE, LETTER_SOURCE, LETTER_CLASS, LETTER_LENGTH, LETTER_CYCLE, LETTER_PAYLOAD, LETTER_COLUMNS = range(7)
MASK32 = 0xFFFF_FFFF


@jit
def key_of(number, node):
    """The 32 bits that fix a generated payload."""
    return (number & 0xFFFFF) << 12 | node & 0xFFF


@jit
def word32(key, i):
    """32-bit word ``i`` of a generated payload."""
    word = key ^ (i & 0xFF) * 0x0101_0101
    return np.uint64(word ^ MASK32 if i & 1 else word)


@jit
def beat_low(k, key, j, length):
    """The lower word of beat ``j`` of a generated payload; bytes beyond the length are 0."""
    flit_bits = k[FLIT_BITS]
    if flit_bits == 16:
        low = word32(key, j >> 1) >> np.uint64(16 * (j & 1)) & np.uint64(0xFFFF)
    elif flit_bits == 32:
        low = word32(key, j)
    else:
        i = j * (flit_bits >> 5)
        low = word32(key, i) | word32(key, i + 1) << np.uint64(32)
    return low & mask(min(64, 8 * length - j * flit_bits))


@jit
def beat_high(k, key, j, length):
    """The upper word."""
    if k[FLIT_BITS] < 128:
        return U0
    high = word32(key, 4 * j + 2) | word32(key, 4 * j + 3) << np.uint64(32)
    return high & mask(max(0, min(64, 8 * length - j * 128 - 64)))


@jit
def start_host(k, ni, node):
    """The host's state at system reset."""
    ni[node, HOST_STATE] = START if k[HOST] == GENERATOR else RECORD


@jit
def present(k, ni, stimulus, items, item_first, item_data, cycle, node):
    """Put what the host offers in ``cycle`` on its stimulus words."""
    state = ni[node, HOST_STATE]
    for word in range(5):
        stimulus[node, word] = U0
    if k[HOST] == GENERATOR:
        if state == RECORD:
            tag = ni[node, HOST_NUMBER] & k[TAG_MASK]
            stimulus[node, 0] = np.uint64(1)
            stimulus[node, 1] = np.uint64(ni[node, HOST_DESTINATION] | ni[node, HOST_LENGTH] << 32) | np.uint64(
                tag
            ) << np.uint64(48)
            stimulus[node, 2] = np.uint64(k[DEADLINE_GIVEN] | k[RETRY_GIVEN] << 32)
        elif state == DATA:
            key, beat, length = key_of(ni[node, HOST_NUMBER], node), ni[node, HOST_BEAT], ni[node, HOST_LENGTH]
            stimulus[node, 0] = np.uint64(2)
            stimulus[node, 3] = beat_low(k, key, beat, length)
            stimulus[node, 4] = beat_high(k, key, beat, length)
        return
    item = item_first[node] + ni[node, HOST_NUMBER]
    if item == item_first[node + 1]:
        return
    if state == RECORD:
        if np.int64(items[item, NOT_BEFORE]) <= cycle:
            stimulus[node, 0] = np.uint64(1)
            stimulus[node, 1] = items[item, ITEM_RECORD]
            stimulus[node, 2] = items[item, ITEM_LIMITS]
    else:
        at, beat = np.int64(items[item, ITEM_PAYLOAD]), ni[node, HOST_BEAT]
        stimulus[node, 0] = np.uint64(2)
        stimulus[node, 3] = flit_low(item_data, 0, at, k[FLIT_BITS], beat)
        stimulus[node, 4] = flit_high(item_data, 0, at, k[FLIT_BITS], beat)


@jit
def follow(k, ni, items, item_first, sums, cycle, node, done):
    """The host's next state, after a cycle in which the NI did ``done``."""
    state = ni[node, HOST_STATE]
    if k[HOST] == GENERATOR:
        if done & ACCEPTED:
            sums[node, SENT] += 1
            sums[node, SENT_SUM] = sums[node, SENT_SUM] + key_of(ni[node, HOST_NUMBER], node) & MASK32
        if state == START:
            start_generator(k, ni, cycle, node)
        elif state == GAPPING:
            if cycle >= ni[node, HOST_UNTIL]:
                ni[node, HOST_STATE] = RECORD
        elif done & RECORD_TAKEN:
            ni[node, HOST_STATE] = DATA
            ni[node, HOST_BEAT] = 0
        elif done & BEAT_TAKEN:
            ni[node, HOST_BEAT] += 1
            if ni[node, HOST_BEAT] == payload_flits(k, ni[node, HOST_LENGTH]):
                ni[node, HOST_NUMBER] += 1
                ni[node, HOST_STATE] = DONE if ni[node, HOST_NUMBER] == k[COUNT] else START
        return
    if done & (RECORD_TAKEN | BEAT_TAKEN) == 0:
        return
    item = item_first[node] + ni[node, HOST_NUMBER]
    beat = 0 if done & RECORD_TAKEN else ni[node, HOST_BEAT] + 1
    ni[node, HOST_BEAT] = beat
    ni[node, HOST_STATE] = DATA
    if beat == payload_flits(k, np.int64(items[item, ITEM_LENGTH])):
        ni[node, HOST_STATE] = RECORD
        ni[node, HOST_NUMBER] += 1


@jit
def start_generator(k, ni, cycle, node):
    """START: draw the next datagram, or be done."""
    if k[STOP] > 0 and cycle >= k[STOP]:
        ni[node, HOST_STATE] = DONE
        return
    if cycle < ni[node, READY_FROM]:
        return
    draw = advance(ni[node, GENERATOR_RANDOM])
    ni[node, GENERATOR_RANDOM] = draw
    destination = scale(draw & 0xFFFF, 16, k[NODES] - 1)
    ni[node, HOST_DESTINATION] = destination + 1 if destination >= node else destination
    ni[node, HOST_LENGTH] = k[MIN_LENGTH] + scale(draw >> 24, 8, k[LENGTHS])
    gap = k[GAP + (draw >> 16 & 0xFF)]
    ni[node, HOST_UNTIL] = cycle + gap
    ni[node, HOST_STATE] = GAPPING if gap > 0 else RECORD


@jit
def reset_host(k, ni, cycle, node):
    """A cycle in which the NI is in reset."""
    if ni[node, HOST_STATE] == DATA or (ni[node, HOST_STATE] == GAPPING and cycle >= ni[node, HOST_UNTIL]):
        ni[node, HOST_STATE] = RECORD
    ni[node, CHECK_STATE] = HEAD_STATE


@jit
def finished(k, ni, item_first, node):
    """Whether a host has nothing more to send."""
    if k[HOST] == GENERATOR:
        return ni[node, HOST_STATE] == DONE
    if k[HOST] == SCRIPT:
        return ni[node, HOST_NUMBER] == item_first[node + 1] - item_first[node]
    return True


@jit
def take(k, ni, data, ev, sums, letters, cycle, node, stalled):
    """What the host takes from the deliver ports in ``cycle``."""
    if stalled:
        return
    if k[HOST] == GENERATOR:
        check(k, ni, data, ev, sums, cycle, node)
        return
    seen = False
    for fifo in range(k[FIFOS]):
        if queue.present(k, ni, node, DELIVER + fifo, cycle):
            at = deliver.take_record(k, ni, ev, cycle, node, fifo, seen)
            seen = True
            if k[HOST] == SCRIPT:
                letters[ni[node, at + 1], LETTER_CYCLE] = cycle
        if deliver.beat_present(k, ni, node, fifo, cycle):
            deliver.take_beat(k, ni, node, fifo, cycle)


@jit
def check(k, ni, data, ev, sums, cycle, node):
    """The checker: a record, then its beats, each held against the key in the first 32 bits."""
    if ni[node, CHECK_STATE] == HEAD_STATE:
        if queue.present(k, ni, node, DELIVER, cycle):
            at = deliver.take_record(k, ni, ev, cycle, node, 0, False)
            ni[node, CHECK_LENGTH] = ni[node, at] & 0xFFFF
            ni[node, CHECK_BEAT] = 0
            ni[node, CHECK_WRONG] = 0
            ni[node, CHECK_STATE] = BEATS_STATE if ni[node, CHECK_LENGTH] > 0 else HEAD_STATE
        return
    if not deliver.beat_present(k, ni, node, 0, cycle):
        return
    place = k[AT_DATA] + deliver.take_beat(k, ni, node, 0, cycle) * k[WORDS]
    low = data[node, place]
    high = data[node, place + 1] if k[WORDS] == 2 else U0
    beat, length = ni[node, CHECK_BEAT], ni[node, CHECK_LENGTH]
    if beat == 0:
        ni[node, CHECK_KEY] = np.int64(low & np.uint64(MASK32))
    elif beat == 1 and k[FLIT_BITS] == 16:
        ni[node, CHECK_KEY] |= np.int64(low) << 16
    key = ni[node, CHECK_KEY]
    if (beat > 0 or k[FLIT_BITS] > 16) and (
        low != beat_low(k, key, beat, length) or high != beat_high(k, key, beat, length)
    ):
        ni[node, CHECK_WRONG] = 1
    ni[node, CHECK_BEAT] = beat + 1
    if beat + 1 == payload_flits(k, length):
        ni[node, CHECK_STATE] = HEAD_STATE
        sums[node, RECEIVED] += 1
        sums[node, RECEIVED_SUM] = sums[node, RECEIVED_SUM] + key & MASK32
        sums[node, WRONG] += ni[node, CHECK_WRONG]


@jit
def keep_letter(k, ni, data, letters, letter_data, cycle, node):
    """Copy the datagram that was committed in this cycle; its row was the record's note.

    Row 0 of ``letters`` counts the rows and the words of ``letter_data`` in use.
    """
    message = k[AT_MESSAGES] + (cycle & 3) * MESSAGE_FIELDS
    row, at = letters[0, 0] + 1, letters[0, 1]
    length, datagram_class = ni[node, message + LENGTH], ni[node, message + CLASS]
    letters[row, LETTER_NODE] = ni[node, NUMBER]
    letters[row, LETTER_SOURCE] = ni[node, message + SOURCE]
    letters[row, LETTER_CLASS] = datagram_class
    letters[row, LETTER_LENGTH] = length
    letters[row, LETTER_CYCLE] = -1
    letters[row, LETTER_PAYLOAD] = at
    fifo, flits, words = deliver.fifo_of(k, datagram_class), payload_flits(k, length), k[WORDS]
    first = ni[node, k[AT_FIFOS] + 3 * fifo + LEVEL] - flits
    for j in range(flits):
        place = k[AT_DATA] + deliver.place_of(k, ni, node, fifo, first + j) * words
        high = data[node, place + 1] if words == 2 else U0
        put_flit(letter_data, 0, at, k[FLIT_BITS], j, data[node, place], high)
    letters[0, 0] = row
    letters[0, 1] = at + (flits * k[FLIT_BITS] + 63) // 64


@jit
def next_offer(k, ni, items, item_first, cycle, node):
    """The next cycle in which the host itself changes or offers something."""
    state = ni[node, HOST_STATE]
    if k[HOST] == GENERATOR:
        if state == DONE:
            return NEVER
        if state == GAPPING:
            return max(cycle + 1, ni[node, HOST_UNTIL])
        if state == START:
            return max(cycle + 1, ni[node, READY_FROM])
        return cycle + 1
    item = item_first[node] + ni[node, HOST_NUMBER]
    if item == item_first[node + 1]:
        return NEVER
    if state == RECORD:
        return max(cycle + 1, np.int64(items[item, NOT_BEFORE]))
    return cycle + 1

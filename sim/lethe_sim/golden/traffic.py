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
    AT_DATA,
    AT_FIFOS,
    AT_LAST,
    AT_MESSAGES,
    CHECK_BEAT,
    CHECK_KEY,
    CHECK_LENGTH,
    CHECK_STATE,
    CHECK_WRONG,
    CLASS,
    COUNT,
    DEADLINE_GIVEN,
    DELIVER,
    FIFOS,
    FLIT_BITS,
    FREE,
    GAP,
    GENERATOR,
    GENERATOR_RANDOM,
    HOST,
    HOST_BEAT,
    HOST_DESTINATION,
    HOST_LENGTH,
    HOST_NUMBER,
    HOST_STATE,
    HOST_UNTIL,
    ITEMS_END,
    LENGTH,
    LENGTHS,
    LEVEL,
    MESSAGE_FIELDS,
    MIN_LENGTH,
    NEVER,
    NODES,
    NUMBER,
    READY_FROM,
    RECEIVED,
    RECEIVED_SUM,
    RETRY_GIVEN,
    SCRIPT,
    SENT,
    SENT_SUM,
    SOURCE,
    STOP,
    TAG_MASK,
    WORDS,
    WRONG,
)  # fmt: skip  # isort: skip

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
def start_host(k, ni):
    """The host's state at system reset."""
    ni[HOST_STATE] = START if k[HOST] == GENERATOR else RECORD


@jit
def present(k, ni, stimulus, items, item_data, cycle):
    """Put what the host offers in ``cycle`` on its stimulus words."""
    state = ni[HOST_STATE]
    if stimulus[0] != U0:  # as it was left; without an offer all words are 0
        for word in range(5):
            stimulus[word] = U0
    if k[HOST] == GENERATOR:
        if state == RECORD:
            tag = ni[HOST_NUMBER] & k[TAG_MASK]
            stimulus[0] = np.uint64(1)
            stimulus[1] = np.uint64(ni[HOST_DESTINATION] | ni[HOST_LENGTH] << 32) | np.uint64(tag) << np.uint64(48)
            stimulus[2] = np.uint64(k[DEADLINE_GIVEN] | k[RETRY_GIVEN] << 32)
        elif state == DATA:
            key, beat, length = key_of(ni[HOST_NUMBER], ni[NUMBER]), ni[HOST_BEAT], ni[HOST_LENGTH]
            stimulus[0] = np.uint64(2)
            stimulus[3] = beat_low(k, key, beat, length)
            stimulus[4] = beat_high(k, key, beat, length)
        return
    if ni[HOST_NUMBER] == ni[ITEMS_END]:
        return
    item = ni[HOST_NUMBER] * ITEM_COLUMNS
    if state == RECORD:
        if np.int64(items[item + NOT_BEFORE]) <= cycle:
            stimulus[0] = np.uint64(1)
            stimulus[1] = items[item + ITEM_RECORD]
            stimulus[2] = items[item + ITEM_LIMITS]
    else:
        at, beat = np.int64(items[item + ITEM_PAYLOAD]), ni[HOST_BEAT]
        stimulus[0] = np.uint64(2)
        stimulus[3] = flit_low(item_data, at, k[FLIT_BITS], beat)
        stimulus[4] = flit_high(item_data, at, k[FLIT_BITS], beat)


@jit
def follow(k, ni, items, cycle, done):
    """The host's next state, after a cycle in which the NI did ``done``."""
    state = ni[HOST_STATE]
    if k[HOST] == GENERATOR:
        if done & ACCEPTED:
            ni[SENT] += 1
            ni[SENT_SUM] = ni[SENT_SUM] + key_of(ni[HOST_NUMBER], ni[NUMBER]) & MASK32
        if state == START:
            start_generator(k, ni, cycle)
        elif state == GAPPING:
            if cycle >= ni[HOST_UNTIL]:
                ni[HOST_STATE] = RECORD
        elif done & RECORD_TAKEN:
            ni[HOST_STATE] = DATA
            ni[HOST_BEAT] = 0
        elif done & BEAT_TAKEN:
            ni[HOST_BEAT] += 1
            if ni[HOST_BEAT] == payload_flits(k, ni[HOST_LENGTH]):
                ni[HOST_NUMBER] += 1
                ni[HOST_STATE] = DONE if ni[HOST_NUMBER] == k[COUNT] else START
        return
    if done & (RECORD_TAKEN | BEAT_TAKEN) == 0:
        return
    item = ni[HOST_NUMBER] * ITEM_COLUMNS
    beat = 0 if done & RECORD_TAKEN else ni[HOST_BEAT] + 1
    ni[HOST_BEAT] = beat
    ni[HOST_STATE] = DATA
    if beat == payload_flits(k, np.int64(items[item + ITEM_LENGTH])):
        ni[HOST_STATE] = RECORD
        ni[HOST_NUMBER] += 1


@jit
def start_generator(k, ni, cycle):
    """START: draw the next datagram, or be done."""
    if k[STOP] > 0 and cycle >= k[STOP]:
        ni[HOST_STATE] = DONE
        return
    if cycle < ni[READY_FROM]:
        return
    draw = advance(ni[GENERATOR_RANDOM])
    ni[GENERATOR_RANDOM] = draw
    destination = scale(draw & 0xFFFF, 16, k[NODES] - 1)
    ni[HOST_DESTINATION] = destination + 1 if destination >= ni[NUMBER] else destination
    ni[HOST_LENGTH] = k[MIN_LENGTH] + scale(draw >> 24, 8, k[LENGTHS])
    gap = k[GAP + (draw >> 16 & 0xFF)]
    ni[HOST_UNTIL] = cycle + gap
    ni[HOST_STATE] = GAPPING if gap > 0 else RECORD


@jit
def reset_host(ni, cycle):
    """A cycle in which the NI is in reset."""
    if ni[HOST_STATE] == DATA or (ni[HOST_STATE] == GAPPING and cycle >= ni[HOST_UNTIL]):
        ni[HOST_STATE] = RECORD
    ni[CHECK_STATE] = HEAD_STATE


@jit
def finished(k, ni):
    """Whether a host has nothing more to send."""
    if k[HOST] == GENERATOR:
        return ni[HOST_STATE] == DONE
    if k[HOST] == SCRIPT:
        return ni[HOST_NUMBER] == ni[ITEMS_END]
    return True


@jit
def take(k, ni, data, ev, letters, cycle):
    """What a host that is not stalled takes from the deliver ports in ``cycle``."""
    if k[HOST] == GENERATOR:
        check(k, ni, data, ev, cycle)
        return
    for fifo in range(k[FIFOS]):
        if queue.present(k, ni, DELIVER + fifo, cycle):
            at = deliver.take_record(k, ni, ev, cycle, fifo)
            if k[HOST] == SCRIPT:
                letters[ni[at + 1] * LETTER_COLUMNS + LETTER_CYCLE] = cycle
        if deliver.beat_present(k, ni, fifo, cycle):
            deliver.take_beat(k, ni, fifo, cycle)


@jit
def check(k, ni, data, ev, cycle):
    """The checker: a record, then its beats up to `last`, each held against the key in the first 32 bits."""
    if ni[CHECK_STATE] == HEAD_STATE:
        if queue.present(k, ni, DELIVER, cycle):
            at = deliver.take_record(k, ni, ev, cycle, 0)
            ni[CHECK_LENGTH] = ni[at] & 0xFFFF
            ni[CHECK_BEAT] = 0
            ni[CHECK_WRONG] = 0
            ni[CHECK_STATE] = BEATS_STATE if ni[CHECK_LENGTH] > 0 else HEAD_STATE
        return
    if not deliver.beat_present(k, ni, 0, cycle):
        return
    taken = deliver.take_beat(k, ni, 0, cycle)
    last, place = ni[k[AT_LAST] + taken], k[AT_DATA] + taken * k[WORDS]
    low = data[place]
    high = data[place + 1] if k[WORDS] == 2 else U0
    beat, length = ni[CHECK_BEAT], ni[CHECK_LENGTH]
    ni[CHECK_BEAT] = beat + 1
    beats = payload_flits(k, length)
    if beat == 0:
        ni[CHECK_KEY] = np.int64(low & np.uint64(MASK32))
    elif beat == 1 and beat < beats and k[FLIT_BITS] == 16:
        ni[CHECK_KEY] |= np.int64(low) << 16
    key = ni[CHECK_KEY]
    if beat >= beats or low != beat_low(k, key, beat, length) or high != beat_high(k, key, beat, length):
        ni[CHECK_WRONG] = 1
    if last:
        ni[CHECK_STATE] = HEAD_STATE
        ni[RECEIVED] += 1
        ni[RECEIVED_SUM] = ni[RECEIVED_SUM] + key & MASK32
        ni[WRONG] += 1 if beat + 1 != beats else ni[CHECK_WRONG]


@jit
def keep_letter(k, ni, data, letters, letter_data, cycle):
    """Copy the datagram that was committed in this cycle; its row was the record's note.

    Row 0 of ``letters`` counts the rows and the words of ``letter_data`` in use.
    """
    message = k[AT_MESSAGES] + (cycle & 3) * MESSAGE_FIELDS
    row, at = (letters[0] + 1) * LETTER_COLUMNS, letters[1]
    length, datagram_class = ni[message + LENGTH], ni[message + CLASS]
    letters[row + LETTER_NODE] = ni[NUMBER]
    letters[row + LETTER_SOURCE] = ni[message + SOURCE]
    letters[row + LETTER_CLASS] = datagram_class
    letters[row + LETTER_LENGTH] = length
    letters[row + LETTER_CYCLE] = -1
    letters[row + LETTER_PAYLOAD] = at
    fifo, flits, words = deliver.fifo_of(k, datagram_class), payload_flits(k, length), k[WORDS]
    first = ni[k[AT_FIFOS] + 3 * fifo + LEVEL] - flits
    for j in range(flits):
        place = k[AT_DATA] + deliver.place_of(k, ni, fifo, first + j) * words
        high = data[place + 1] if words == 2 else U0
        put_flit(letter_data, at, k[FLIT_BITS], j, data[place], high)
    letters[0] += 1
    letters[1] = at + (flits * k[FLIT_BITS] + 63) // 64


@jit
def next_offer(k, ni, items, cycle):
    """The next cycle in which the host itself changes or offers something."""
    state = ni[HOST_STATE]
    if k[HOST] == GENERATOR:
        if state == DONE:
            return NEVER
        if state == GAPPING:
            return max(cycle + 1, ni[HOST_UNTIL])
        if state == START:
            return max(cycle + 1, ni[READY_FROM])
        return next_try(k, ni, cycle)
    if ni[HOST_NUMBER] == ni[ITEMS_END]:
        return NEVER
    item = ni[HOST_NUMBER] * ITEM_COLUMNS
    return max(next_try(k, ni, cycle), np.int64(items[item + NOT_BEFORE]))


@jit
def next_try(k, ni, cycle):
    """The next cycle in which a record or beat may be taken; with no free slot that is up to the NI."""
    if ni[HOST_STATE] == RECORD and queue.count(k, ni, FREE) == 0:
        return NEVER
    return cycle + 1

"""The network interface as a whole: reset, one cycle, what can be seen from outside, and when to look again."""

import numpy as np

from lethe.spec.events import LANE_RX, Event
from lethe.spec.trace import NI_BEAT, NI_FLAGS, NI_FLIT
from lethe_sim.golden import ladder, queue
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, event_word
from lethe_sim.golden.state import (
    ACCEPT_BEATS,
    ACK_LADDER,
    AT_DATA,
    AT_FIFOS,
    AT_LAST,
    AT_QUEUES,
    AT_SLOTS,
    AT_TABLE,
    AT_TAKEN,
    AT_TX,
    AT_TX_DATA,
    BUSY,
    COMPLETION,
    DELIVER,
    END,
    ENTRIES,
    FIFOS,
    FINISH_FROM,
    FIRST,
    FRAGMENTED,
    FREE,
    GENERATION_MASK,
    HOLD,
    INCARNATION_MASK,
    INCARNATION_NOW,
    INITIAL,
    LADDER,
    LADDER_FIELDS,
    LAST,
    LAUNCH,
    LAUNCHED,
    LEVEL,
    LIVE,
    NEVER,
    NEW,
    NEXT_DUE,
    NEXT_GRANT,
    NO_REQUEST,
    NONE,
    NUMBER,
    OFFER,
    OFFER_FIFO,
    OFFER_LAST,
    OFFERED,
    OVERFLOW,
    PER_DESTINATION,
    QUARANTINE,
    QUARANTINED,
    READY_FROM,
    REPEATS,
    REPLY,
    REQUEST,
    REQUEST_A,
    REQUEST_B,
    RX_COUNT,
    SEND_LADDER,
    SETS_LOG,
    SHOW_FIELDS,
    SHOW_FLAGS,
    SHOW_WORD,
    SLOT_FIELDS,
    SLOTS,
    STAGE,
    TIME_ZERO,
    TX_CLEAR,
    TX_END,
    TX_RING,
    TX_SLOT,
    UNCOMMITTED,
    UNDER_WAY,
    VALID,
    VISIBLE,
    WAYS,
    WORDS,
)  # fmt: skip  # isort: skip

from . import completion, deliver, receiver, requests, transmitter
from .accept import (
    DATA_VALID,
    LINK_DISABLE,
    SEND_VALID,
    bit,
    send_ready,
    store_beat,
    store_record,
    take_record,
)  # fmt: skip  # isort: skip

_RESET = int(Event.RESET)
# What a step tells the host: bits.
RECORD_TAKEN, BEAT_TAKEN, ACCEPTED, COMMITTED, SHOWING = 1, 2, 4, 8, 16


@jit
def reset(k, ni, cycle):
    """All state as after reset, from ``cycle`` on (section 4.1); the generator goes on."""
    ni[TIME_ZERO] = cycle
    ni[READY_FROM] = cycle + k[INITIAL]
    ni[BUSY] = 0
    ni[ENTRIES] = 0
    ni[ACCEPT_BEATS] = 0
    ni[NEXT_GRANT] = cycle
    ni[TX_CLEAR] = cycle
    ni[TX_SLOT] = NONE
    ni[TX_END] = NONE
    ni[LAUNCH] = NONE
    ni[FINISH_FROM] = NEVER
    ni[UNDER_WAY] = 0
    ni[RX_COUNT] = 0
    ni[UNCOMMITTED] = 0
    ni[OVERFLOW] = 0
    ni[OFFERED] = 0
    ni[REQUEST] = NO_REQUEST
    for i in range(4):
        ni[STAGE + i] = 0
    for i in range(k[TX_RING]):
        ni[k[AT_TX] + i * SHOW_FIELDS + SHOW_FLAGS] = 0
        ni[k[AT_TX] + i * SHOW_FIELDS + SHOW_WORD] = 0
    for i in range(3 * (DELIVER + k[FIFOS])):
        ni[k[AT_QUEUES] + i] = 0
    for i in range(3 * k[FIFOS]):
        ni[k[AT_FIFOS] + i] = 0
    for slot in range(k[SLOTS]):
        ni[k[AT_SLOTS] + slot * SLOT_FIELDS + LIVE] = 0
        ni[k[AT_SLOTS] + slot * SLOT_FIELDS + LAUNCHED] = k[GENERATION_MASK]
        queue.push(k, ni, FREE, slot << 20, 0, cycle)  # one a cycle; nobody looks before it is Ready
    for slot in range(k[SLOTS] if k[PER_DESTINATION] > 0 else 0):
        ni[k[AT_TAKEN] + slot] = NONE
    for i in range(k[WAYS] << k[SETS_LOG]):
        ni[k[AT_TABLE] + i] = NONE
    ladder.clear(k, ni)


@jit
def begin_reset(k, ni, ev, cycle):
    """The first cycle of a node reset: a new incarnation, and what is lost is reported (section 4.11)."""
    lost = deliver.records_held(k, ni)
    incarnation = ni[INCARNATION_NOW]
    ni[INCARNATION_NOW] = 1 if incarnation == k[INCARNATION_MASK] else incarnation + 1
    emit(ev, cycle, ni[NUMBER], LANE_RX, event_word(_RESET, 0, 0, lost), 0)


@jit
def step(k, ni, data, ev, stimulus, cycle, note):
    """One cycle of an NI that is not in reset, after the host has taken what it takes.

    The order is such that every rule sees the state at the start of the cycle: first what takes and judges,
    then what pushes and stores.  ``note`` goes into the deliver record of a datagram that is committed.
    """
    done = 0
    now = ni[receiver.stage(cycle)]
    ni[receiver.stage(cycle)] = 0
    sends_allowed, ack_room = ladder.has_room(ni, SEND_LADDER), ladder.has_room(ni, ACK_LADDER)
    request, request_a, request_b = ni[REQUEST], ni[REQUEST_A], ni[REQUEST_B]
    launched = ni[LAUNCH]
    ni[LAUNCH] = NONE
    flags = stimulus[0]
    storing = ni[ACCEPT_BEATS] > 0
    taken = NONE
    if bit(flags, SEND_VALID) and send_ready(k, ni, stimulus, cycle):
        taken = take_record(k, ni, cycle)
    completion.take(k, ni, ev, cycle)
    if not bit(flags, LINK_DISABLE) and transmitter.grant(k, ni, data, cycle, sends_allowed):
        done |= SHOWING
    requests.choose(k, ni, stimulus, cycle)

    if now & FRAGMENTED:
        receiver.fragment(ni, ev, cycle)
    if now & OFFER:
        last = 1 if now & OFFER_LAST else 0
        deliver.offer(k, ni, data, cycle, now >> OFFER_FIFO, last)
    if now & END:
        if receiver.act(k, ni, ev, cycle, ack_room, note):
            done |= COMMITTED
    elif request != NO_REQUEST:
        requests.act(k, ni, ev, cycle, request, request_a, request_b)
    if launched != NONE:
        transmitter.launch(k, ni, cycle, launched)

    if taken != NONE:
        done |= RECORD_TAKEN
        if store_record(k, ni, ev, stimulus, cycle, taken):
            done |= ACCEPTED
    elif storing and bit(flags, DATA_VALID):
        done |= BEAT_TAKEN
        if store_beat(k, ni, data, ev, stimulus, cycle):
            done |= ACCEPTED
    if bit(flags, LINK_DISABLE):
        ni[TIME_ZERO] += 1
    return done


@jit
def idle(k, ni, cycle):
    """`idle` at the start of ``cycle`` (section 4.10)."""
    if cycle < ni[READY_FROM] or ni[BUSY] > 0 or ni[ENTRIES] > 0 or ni[UNDER_WAY]:
        return False
    if cycle < ni[NEXT_GRANT] or cycle < ni[TX_CLEAR] or queue.count(k, ni, REPLY) > 0:
        return False
    if (ni[receiver.stage(cycle)] | ni[receiver.stage(cycle + 1)]) & END:
        return False
    for fifo in range(k[FIFOS]):
        if queue.count(k, ni, DELIVER + fifo) > 0 or ni[k[AT_FIFOS] + 3 * fifo + LEVEL] > 0:
            return False
    return True


@jit
def outputs(k, ni, data, stimulus, cycle, row, base):
    """Write what the NI's ports show in ``cycle`` into trace words 12 to 16 (section 7)."""
    at = k[AT_TX] + (cycle & (k[TX_RING] - 1)) * SHOW_FIELDS + SHOW_FLAGS
    flit = ni[at]
    word = 0
    if flit & VALID:
        word |= 1 | (2 if flit & FIRST else 0) | (4 if flit & LAST else 0)
        place = k[AT_TX_DATA] + (cycle & (k[TX_RING] - 1)) * k[WORDS]
        row[base + NI_FLIT] = data[place]
        if k[WORDS] == 2:
            row[base + NI_FLIT + 1] = data[place + 1]
    if idle(k, ni, cycle):
        word |= 8
    if send_ready(k, ni, stimulus, cycle):
        word |= 16
    if ni[ACCEPT_BEATS] > 0:
        word |= 32
    if queue.present(k, ni, DELIVER, cycle):
        word |= 64
    if deliver.beat_present(k, ni, 0, cycle):
        place = deliver.place_of(k, ni, 0, 0)
        word |= 128 | (256 if ni[k[AT_LAST] + place] else 0)
        row[base + NI_BEAT] = data[k[AT_DATA] + place * k[WORDS]]
        if k[WORDS] == 2:
            row[base + NI_BEAT + 1] = data[k[AT_DATA] + place * 2 + 1]
    if queue.present(k, ni, COMPLETION, cycle):
        word |= 512
    row[base + NI_FLAGS] = np.uint64(word)


@jit
def visible(k, ni, queue_number):
    """From which cycle a queue offers something; `NEVER` if it is empty."""
    at = k[AT_QUEUES] + 3 * queue_number
    return ni[at + VISIBLE] if ni[at + LEVEL] > 0 else NEVER


@jit
def next_look(k, ni, cycle):
    """The next cycle in which an NI that nobody disturbs has something to do by itself."""
    soon = cycle + 1
    if ni[REQUEST] != NO_REQUEST or ni[LAUNCH] != NONE or ni[ACCEPT_BEATS] > 0:
        return soon
    if ni[receiver.stage(soon)]:
        return soon
    nearest = ni[FINISH_FROM]
    if ni[receiver.stage(cycle + 2)]:
        nearest = min(nearest, cycle + 2)
    waiting = min(visible(k, ni, REPLY), visible(k, ni, NEW), visible(k, ni, REPEATS))
    if waiting < NEVER:
        nearest = min(nearest, max(waiting, ni[NEXT_GRANT], ni[READY_FROM]))
    nearest = min(nearest, visible(k, ni, COMPLETION))
    for which in range(ACK_LADDER + 1):
        fields = LADDER + LADDER_FIELDS * which
        if ni[fields + HOLD]:
            nearest = min(nearest, max(soon, ni[READY_FROM]))
        elif ni[fields + NEXT_DUE] < NEVER:
            nearest = min(nearest, ni[fields + NEXT_DUE] + ni[TIME_ZERO])
    for fifo in range(k[FIFOS]):
        nearest = min(nearest, visible(k, ni, DELIVER + fifo))
        at = k[AT_FIFOS] + 3 * fifo
        if ni[at + LEVEL] > 0:
            nearest = min(nearest, ni[at + VISIBLE])
    if k[QUARANTINE] > 0 and queue.count(k, ni, QUARANTINED) > 0:
        nearest = min(nearest, ni[queue.oldest(k, ni, QUARANTINED) + 1] + ni[TIME_ZERO])
    return max(nearest, soon)

"""Receiver (section 4.4): the assembler, the checks, and what each kind of message does.

The assembler sees a flit in cycle t; what follows from it happens in t+2, and waits in `STAGE` at
(t+2) mod 4, with the message's header beside it in the message ring.
"""

import numpy as np

from lethe.spec.events import LANE_FRAGMENT, LANE_RX, Cause, Drop, Event, Kind, Status
from lethe_sim.golden import ladder, queue, round_trip
from lethe_sim.golden.bits import U0, get, put_flit
from lethe_sim.golden.compile import jit
from lethe_sim.golden.crc import ONES32, crc16_body, crc32_flit
from lethe_sim.golden.events import emit, event_word, pack_uid
from lethe_sim.golden.state import (
    ACK_LADDER,
    AT_MESSAGES,
    AT_RX,
    AT_SLOTS,
    CAUSE,
    CLASS,
    COMMON_FIELDS,
    COMPLETION,
    CONTROL_FLITS,
    CRC_FLITS,
    DELIVER,
    DELIVER_RECORDS,
    DESTINATION,
    END,
    ENTRIES,
    EXTENSION,
    FIELD_OFFSET,
    FIELD_WIDTH,
    FIRST,
    FLIT_BITS,
    FRAGMENTED,
    GENERATION,
    HEADER_FLITS,
    INCARNATION,
    INCARNATION_NOW,
    KIND,
    LAST,
    LENGTH,
    LIVE,
    MAX_FLITS,
    MESSAGE_FIELDS,
    MESSAGE_FLITS,
    MESSAGE_GOOD,
    MODE,
    MTU,
    NODES,
    NUMBER,
    OFFER,
    OFFER_FIFO,
    OFFER_LAST,
    ONE_FLIT,
    OVERFLOW,
    PEER_INCARNATION,
    READY_FROM,
    REPLIES_DROPPED,
    REPLY,
    REPLY_DEPTH,
    RX_COUNT,
    RX_FIFO,
    RX_FLIT,
    RX_PAYLOAD,
    RX_STATE,
    RX_STATE_BEFORE,
    SLOT,
    SLOT_DESTINATION,
    SLOT_FIELDS,
    SLOT_GENERATION,
    SLOT_MODE,
    SLOTS,
    SOURCE,
    STAGE,
    TIME_ZERO,
    TRY,
    UNDER_WAY,
    VALID,
)  # fmt: skip  # isort: skip
from lethe_sim.golden.topology import distance_class

from . import deliver, table
from .accept import payload_flits

_SEND, _ACK, _FORGET, _BE = int(Kind.SEND), int(Kind.ACK), int(Kind.FORGET), int(Kind.BE)
_FRAGMENT, _DROP, _DELIVER, _DELIVER_BE = (
    int(Event.FRAGMENT), int(Event.DROP), int(Event.DELIVER), int(Event.DELIVER_BE),
)  # fmt: skip
_DUPLICATE, _RELEASE, _ACK_IGNORED = int(Event.DUPLICATE), int(Event.RELEASE), int(Event.ACK_IGNORED)
_FORGOTTEN, _FORGET_IGNORED = int(Event.FORGOTTEN), int(Event.FORGET_IGNORED)
_CRC, _KIND, _LENGTH, _MISROUTED = int(Drop.CRC), int(Drop.KIND), int(Drop.LENGTH), int(Drop.MISROUTED)
_SOURCE, _SLOT, _EXTENSION, _INCARNATION = int(Drop.SOURCE), int(Drop.SLOT), int(Drop.EXTENSION), int(Drop.INCARNATION)
_TABLE_FULL, _DELIVER_FULL, _TIMER_FULL = int(Drop.TABLE_FULL), int(Drop.DELIVER_FULL), int(Drop.TIMER_FULL)
_RESETTING = int(Drop.RESETTING)
_ACCEPTED, _NO_CAUSE = int(Status.ACCEPTED), int(Cause.NONE)


@jit
def stage(cycle):
    """Column of `STAGE` for ``cycle``."""
    return STAGE + (cycle & 3)


@jit
def header_value(k, data, name):
    """A field of the message in the receive buffer."""
    return get(data, k[AT_RX], k[FIELD_OFFSET + name], k[FIELD_WIDTH + name])


@jit
def arrive(k, ni, data, cycle, flags, low, high):
    """The assembler takes the flit (or, with flags 0, the gap) that is on `link_i` in ``cycle``."""
    then = stage(cycle + 2)
    if flags & VALID == 0 or flags & FIRST:
        if ni[UNDER_WAY]:
            ni[then] |= FRAGMENTED
            ni[UNDER_WAY] = 0
        if flags & VALID == 0:
            return
        ni[UNDER_WAY] = 1
        ni[RX_COUNT] = 0
        ni[RX_STATE] = ONES32
        ni[RX_PAYLOAD] = 0
    elif not ni[UNDER_WAY]:
        return
    n = ni[RX_COUNT]
    if n == k[MAX_FLITS]:
        ni[then] |= FRAGMENTED
        ni[UNDER_WAY] = 0
        return
    flit_bits = k[FLIT_BITS]
    put_flit(data, k[AT_RX], flit_bits, n, low, high)
    ni[RX_COUNT] = n + 1
    header = k[HEADER_FLITS]
    if n + 1 == header:
        kind = header_value(k, data, KIND)
        if kind in (_SEND, _BE):
            ni[RX_PAYLOAD] = payload_flits(k, header_value(k, data, LENGTH))
            ni[RX_FIFO] = deliver.fifo_of(k, header_value(k, data, CLASS))
    elif n >= header and n - header < ni[RX_PAYLOAD]:
        last = OFFER_LAST if n - header == ni[RX_PAYLOAD] - 1 else 0
        ni[then] |= OFFER | last | ni[RX_FIFO] << OFFER_FIFO
    if flags & LAST:
        ni[UNDER_WAY] = 0
        ni[then] |= END
        read_message(k, ni, data, cycle + 2, low, high)
        return
    before = ni[RX_STATE]
    ni[RX_STATE_BEFORE] = before
    ni[RX_FLIT] = np.int64(low & np.uint64(0xFFFF_FFFF))
    ni[RX_STATE] = crc32_flit(before, low, high, flit_bits)


@jit
def crc_good(k, ni, low, high):
    """Whether the message that ends with this flit has the right CRC."""
    n = ni[RX_COUNT]
    flit_bits = k[FLIT_BITS]
    if n == 1:
        if not k[ONE_FLIT]:
            return False
        crc = high >> np.uint64(48) if flit_bits == 128 else low >> np.uint64(flit_bits - 16)
        return np.int64(crc) == crc16_body(low, high, flit_bits)
    if n <= k[CRC_FLITS]:
        return False
    if k[CRC_FLITS] == 1:
        return high == U0 and low == np.uint64(ni[RX_STATE] ^ ONES32)
    crc = ni[RX_STATE_BEFORE] ^ ONES32
    return crc & 0xFFFF == ni[RX_FLIT] and np.uint64(crc >> 16) == low


@jit
def read_message(k, ni, data, cycle, low, high):
    """Put the message that has just ended where it waits to act in ``cycle``."""
    at = k[AT_MESSAGES] + (cycle & 3) * MESSAGE_FIELDS
    for name in range(COMMON_FIELDS + 4):
        ni[at + name] = header_value(k, data, name)
    ni[at + MESSAGE_FLITS] = ni[RX_COUNT]
    ni[at + MESSAGE_GOOD] = crc_good(k, ni, low, high)


@jit
def verdict(k, ni, cycle, at):
    """The drop reason of the message at column ``at``, 0 if it may act."""
    if cycle < ni[READY_FROM]:
        return _RESETTING
    if not ni[at + MESSAGE_GOOD]:
        return _CRC
    kind, flits, length = ni[at + KIND], ni[at + MESSAGE_FLITS], ni[at + LENGTH]
    datagram = kind in (_SEND, _BE)
    if kind < _SEND or kind > _BE or (datagram and flits == 1):
        return _KIND
    if datagram:
        if length > k[MTU] or flits != k[HEADER_FLITS] + payload_flits(k, length) + k[CRC_FLITS]:
            return _LENGTH
    elif flits != k[CONTROL_FLITS]:
        return _LENGTH
    if ni[at + DESTINATION] != ni[NUMBER]:
        return _MISROUTED
    if ni[at + SOURCE] >= k[NODES] or ni[at + SOURCE] == ni[NUMBER]:
        return _SOURCE
    if kind == _ACK and ni[at + SLOT] >= k[SLOTS]:
        return _SLOT
    if datagram:
        if ni[at + MODE] != (kind == _BE) or ni[at + EXTENSION] != 0:
            return _EXTENSION
        expected = ni[at + PEER_INCARNATION]
        if expected != 0 and expected != ni[INCARNATION_NOW]:
            return _INCARNATION
    return 0


@jit
def act(k, ni, ev, cycle, ack_room, note):
    """What the message that ended in ``cycle`` − 2 does; returns whether it committed a datagram.

    ``note`` goes into the deliver record, for the host's use.
    """
    at = k[AT_MESSAGES] + (cycle & 3) * MESSAGE_FIELDS
    kind = ni[at + KIND]
    source, incarnation = ni[at + SOURCE], ni[at + INCARNATION]
    owner = ni[at + DESTINATION] if kind == _ACK else source
    uid = pack_uid(owner, incarnation, ni[at + SLOT], ni[at + GENERATION])
    length = ni[at + LENGTH] if kind in (_SEND, _BE) else 0
    detail = verdict(k, ni, cycle, at)
    committed = False
    if detail != 0:
        event = _DROP
        if detail == _RESETTING or detail <= _LENGTH:
            source, uid, length = 0, 0, 0
    elif kind == _SEND:
        event, detail = act_send(k, ni, cycle, at, uid, ack_room, note)
        committed = event == _DELIVER
    elif kind == _BE:
        event, detail = _DELIVER_BE, 0
        if deliver_full(k, ni, cycle, at):
            event, detail = _DROP, _DELIVER_FULL
        else:
            committed = True
            commit(k, ni, cycle, at, note)
    elif kind == _FORGET:
        event = _FORGET_IGNORED
        way = table.find(k, ni, source, ni[at + SLOT])
        mine = ni[at + PEER_INCARNATION] == ni[INCARNATION_NOW]
        if way >= 0 and ni[way] == uid and mine:
            event = _FORGOTTEN
            table.erase(ni, way)
    else:
        event = act_ack(k, ni, cycle, at, source, uid)
    deliver.forget(ni)
    emit(ev, cycle, ni[NUMBER], LANE_RX, event_word(event, detail, source, length), uid)
    return committed


@jit
def deliver_full(k, ni, cycle, at):
    """Whether the payload or its record finds no room."""
    records = DELIVER + deliver.fifo_of(k, ni[at + CLASS])
    return ni[OVERFLOW] != 0 or queue.level(k, ni, records, cycle) >= k[DELIVER_RECORDS]


@jit
def commit(k, ni, cycle, at, note):
    """Commit the message's payload and record."""
    datagram_class = ni[at + CLASS]
    fifo = deliver.fifo_of(k, datagram_class)
    deliver.commit(k, ni, cycle, fifo, ni[at + SOURCE], datagram_class, ni[at + LENGTH], note)


@jit
def act_send(k, ni, cycle, at, uid, ack_room, note):
    """A Send: allocate, deliver, then acknowledge, in one step (T8, T9); returns (event, detail)."""
    source, slot, attempt = ni[at + SOURCE], ni[at + SLOT], ni[at + TRY]
    way = table.find(k, ni, source, slot)
    if way >= 0 and ni[way] == uid:
        reply(k, ni, cycle, _ACK, source, uid, ni[INCARNATION_NOW], attempt)
        return _DUPLICATE, 0
    new = way < 0
    if new:
        way = table.vacant(k, ni, source, slot)
        if way < 0:
            return _DROP, _TABLE_FULL
    if deliver_full(k, ni, cycle, at):
        return _DROP, _DELIVER_FULL
    if not ack_room:
        return _DROP, _TIMER_FULL
    ni[way] = uid
    if new:
        ni[ENTRIES] += 1
    commit(k, ni, cycle, at, note)
    reply(k, ni, cycle, _ACK, source, uid, ni[INCARNATION_NOW], attempt)
    distance = distance_class(k, ni[NUMBER], source)
    due = cycle - ni[TIME_ZERO] + ladder.delay_of(k, ni, cycle, distance, 0)
    rung = ladder.rung_of(k, distance, 0)
    ladder.push(k, ni, ACK_LADDER, rung, due, uid, way << 16 | attempt << 8)
    return _DELIVER, 0


@jit
def act_ack(k, ni, cycle, at, source, uid):
    """An Ack: it ends the datagram if it is for one that is live here; a Forget goes back in any case (IMP-22)."""
    slot = ni[at + SLOT]
    place = k[AT_SLOTS] + slot * SLOT_FIELDS
    responder = ni[at + PEER_INCARNATION]
    event = _ACK_IGNORED
    if (
        ni[place + LIVE]
        and ni[place + SLOT_GENERATION] == ni[at + GENERATION]
        and ni[place + SLOT_DESTINATION] == source
        and ni[at + INCARNATION] == ni[INCARNATION_NOW]
        and ni[place + SLOT_MODE] == 0
        and ni[place + CAUSE] == 0
    ):
        event = _RELEASE
        round_trip.sample(k, ni, cycle, slot, distance_class(k, ni[NUMBER], source), ni[at + TRY])
        complete(k, ni, cycle, slot, _ACCEPTED, _NO_CAUSE, responder)
    reply(k, ni, cycle, _FORGET, source, uid, responder, ni[at + TRY])
    return event


@jit
def complete(k, ni, cycle, slot, status, cause, responder):
    """The slot is not live any more; its completion is queued, with the incarnation that acknowledged, or 0."""
    at = k[AT_SLOTS] + slot * SLOT_FIELDS
    ni[at + LIVE] = 0
    result = responder << 8 | status << 4 | cause
    queue.push(k, ni, COMPLETION, slot << 20 | ni[at + SLOT_GENERATION], result, cycle)


@jit
def reply(k, ni, cycle, kind, peer, uid, peer_incarnation, attempt):
    """Queue an Ack or a Forget; with the queue full it is dropped and counted, and nothing else suffers."""
    if queue.level(k, ni, REPLY, cycle) >= k[REPLY_DEPTH]:
        ni[REPLIES_DROPPED] += 1
        return
    queue.push(k, ni, REPLY, uid, kind | peer_incarnation << 3 | attempt << 11 | peer << 19, cycle)


@jit
def fragment(ni, ev, cycle):
    """A fragment is shown, and its payload forgotten."""
    deliver.forget(ni)
    emit(ev, cycle, ni[NUMBER], LANE_FRAGMENT, _FRAGMENT, 0)

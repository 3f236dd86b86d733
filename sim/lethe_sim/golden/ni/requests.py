"""Internal requests (section 4.5): chosen in one cycle, acting in the next if no message ended just before."""

from lethe.spec.events import LANE_RX, Cause, Event, Kind, Status
from lethe_sim.golden import ladder, queue
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, event_word, pack_uid
from lethe_sim.golden.state import (
    ACK_LADDER,
    ACK_LIMIT,
    ACK_REQUEST,
    AT_SLOTS,
    CANCEL_REQUEST,
    CAUSE,
    DEADLINE,
    END,
    FINISH,
    FINISH_FROM,
    FINISH_REQUEST,
    GENERATION_MASK,
    HOLD,
    HOLD_A,
    HOLD_B,
    INCARNATION_NOW,
    LADDER,
    LADDER_FIELDS,
    LAUNCHED,
    LIVE,
    NEVER,
    NO_REQUEST,
    NUMBER,
    READY_FROM,
    REPEATS,
    REQUEST,
    REQUEST_A,
    REQUEST_B,
    RETRY_LIMIT,
    SEND_LADDER,
    SEND_REQUEST,
    SLOT_DESTINATION,
    SLOT_FIELDS,
    SLOT_GENERATION,
    SLOTS,
    TIME_ZERO,
)  # fmt: skip  # isort: skip
from lethe_sim.golden.topology import distance_class

from . import table
from .accept import CANCEL_VALID, bit, part
from .receiver import complete, reply, stage

_ACK = int(Kind.ACK)
_GIVE_UP, _REPEAT, _ACK_REPEAT, _ORPHAN = (
    int(Event.GIVE_UP), int(Event.REPEAT), int(Event.ACK_REPEAT), int(Event.ORPHAN),
)  # fmt: skip
_UNKNOWN, _NEVER_SENT = int(Status.UNKNOWN), int(Status.NEVER_SENT)
_RETRY_LIMIT, _DEADLINE, _CANCELLED = int(Cause.RETRY_LIMIT), int(Cause.DEADLINE), int(Cause.CANCELLED)
_SEND_FIELDS = LADDER + LADDER_FIELDS * SEND_LADDER
_ACK_FIELDS = LADDER + LADDER_FIELDS * ACK_LADDER


@jit
def all_ones(number):
    """The largest number of as many bits as ``number``, which is less than 2^16."""
    for shift in (1, 2, 4, 8):
        number |= number >> shift
    return number


@jit
def choose(k, ni, stimulus, cycle):
    """Choose what may act in ``cycle`` + 1, and poll the ladders; returns with the request in `REQUEST`."""
    time = cycle - ni[TIME_ZERO]
    send_full, ack_full = ni[_SEND_FIELDS + HOLD], ni[_ACK_FIELDS + HOLD]
    if not send_full:
        ladder.poll(k, ni, SEND_LADDER, time)
    if not ack_full:
        ladder.poll(k, ni, ACK_LADDER, time)
    ni[REQUEST] = NO_REQUEST
    if cycle < ni[READY_FROM] or ni[stage(cycle + 1)] & END:
        return
    if ni[FINISH_FROM] <= cycle:
        ni[REQUEST] = FINISH_REQUEST
        ni[REQUEST_A] = ni[FINISH]
        ni[FINISH_FROM] = NEVER
    elif send_full:
        ni[REQUEST] = SEND_REQUEST
        ni[REQUEST_A] = ni[_SEND_FIELDS + HOLD_A]
        ni[_SEND_FIELDS + HOLD] = 0
    elif ack_full:
        ni[REQUEST] = ACK_REQUEST
        ni[REQUEST_A] = ni[_ACK_FIELDS + HOLD_A]
        ni[REQUEST_B] = ni[_ACK_FIELDS + HOLD_B]
        ni[_ACK_FIELDS + HOLD] = 0
    elif bit(stimulus[0], CANCEL_VALID):
        ni[REQUEST] = CANCEL_REQUEST
        # The port has the widths of the configuration.
        slot, generation = part(stimulus[5], 0, 16), part(stimulus[5], 16, 20)
        ni[REQUEST_A] = (slot & all_ones(k[SLOTS] - 1)) << 20 | generation & k[GENERATION_MASK]


@jit
def act(k, ni, ev, cycle, request, a, b):
    """The request that was chosen in ``cycle`` − 1 acts."""
    if request == ACK_REQUEST:
        act_ack_timer(k, ni, ev, cycle, a, b)
        return
    entry = a if request == CANCEL_REQUEST else a >> 8
    slot, generation = entry >> 20, entry & 0xFFFFF
    if slot >= k[SLOTS]:
        return
    at = k[AT_SLOTS] + slot * SLOT_FIELDS
    if not ni[at + LIVE] or ni[at + SLOT_GENERATION] != generation:
        return
    if request == FINISH_REQUEST:
        end(k, ni, ev, cycle, slot, a >> 4 & 0xF, a & 0xF)
    elif request == SEND_REQUEST:
        tries, limit = a & 0xFF, ni[at + RETRY_LIMIT]
        if limit != 0 and tries >= limit:
            end(k, ni, ev, cycle, slot, _UNKNOWN, _RETRY_LIMIT)
        elif 0 <= ni[at + DEADLINE] <= cycle - ni[TIME_ZERO]:
            end(k, ni, ev, cycle, slot, _UNKNOWN, _DEADLINE)
        else:
            tries = min(tries + 1, 255)
            # Full only where generations recur too soon: then the repeat is lost.
            if queue.level(k, ni, REPEATS, cycle) < k[SLOTS]:
                queue.push(k, ni, REPEATS, entry << 8 | tries, 0, cycle)
            slot_event(k, ni, ev, cycle, slot, _REPEAT, tries)
    elif ni[at + CAUSE] == 0:  # a refused record completes as REJECTED
        status = _UNKNOWN if ni[at + LAUNCHED] == ni[at + SLOT_GENERATION] else _NEVER_SENT
        end(k, ni, ev, cycle, slot, status, _CANCELLED)


@jit
def slot_event(k, ni, ev, cycle, slot, event, detail):
    """Show an event of the datagram in ``slot`` on lane rx."""
    at = k[AT_SLOTS] + slot * SLOT_FIELDS
    number = ni[NUMBER]
    uid = pack_uid(number, ni[INCARNATION_NOW], slot, ni[at + SLOT_GENERATION])
    emit(ev, cycle, number, LANE_RX, event_word(event, detail, ni[at + SLOT_DESTINATION], 0), uid)


@jit
def end(k, ni, ev, cycle, slot, status, cause):
    """End a datagram without an Ack."""
    complete(k, ni, cycle, slot, status, cause, 0)
    slot_event(k, ni, ev, cycle, slot, _GIVE_UP, cause)


@jit
def act_ack_timer(k, ni, ev, cycle, uid, rest):
    """The Ack timer of an entry expired: acknowledge again, or reclaim an orphan (T12)."""
    way, attempt, tries = rest >> 16, rest >> 8 & 0xFF, rest & 0xFF
    if ni[way] != uid:
        return
    number, source = ni[NUMBER], uid >> 44
    if k[ACK_LIMIT] != 0 and tries >= k[ACK_LIMIT]:
        table.erase(ni, way)
        emit(ev, cycle, number, LANE_RX, event_word(_ORPHAN, 0, source, 0), uid)
        return
    reply(k, ni, cycle, _ACK, source, uid, ni[INCARNATION_NOW], attempt)
    tries = min(tries + 1, 255)
    distance = distance_class(k, number, source)
    due = cycle - ni[TIME_ZERO] + ladder.delay_of(k, ni, cycle, distance, tries)
    rung = ladder.rung_of(k, distance, tries)
    ladder.push(k, ni, ACK_LADDER, rung, due, uid, way << 16 | attempt << 8 | tries)
    emit(ev, cycle, number, LANE_RX, event_word(_ACK_REPEAT, tries, source, 0), uid)

"""Completions and free slots (section 4.9)."""

import numpy as np

from lethe.spec.events import LANE_COMPLETE, Cause, Event, Status
from lethe_sim.golden import queue
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, event_word, extend, pack_uid
from lethe_sim.golden.state import (
    AT_SLOTS,
    AT_TAKEN,
    BUSY,
    COMPLETION,
    FREE,
    GENERATION_MASK,
    INCARNATION_NOW,
    NONE,
    NUMBER,
    PER_DESTINATION,
    QUARANTINE,
    QUARANTINED,
    SLOT_DESTINATION,
    SLOT_FIELDS,
    TAG,
    TIME_ZERO,
)  # fmt: skip  # isort: skip

_COMPLETE = int(Event.COMPLETE)
_UNKNOWN, _BEST_EFFORT = int(Status.UNKNOWN), int(Cause.BEST_EFFORT)


@jit
def take(k, ni, ev, cycle):
    """The host takes a completion, if one is offered; returns whether it did."""
    time = cycle - ni[TIME_ZERO]
    if not queue.present(k, ni, COMPLETION, cycle):
        release(k, ni, cycle, time)
        return False
    column = queue.oldest(k, ni, COMPLETION)
    entry, result = ni[column], ni[column + 1] & 0xFF
    queue.pop(k, ni, COMPLETION, cycle)
    slot, generation = entry >> 20, entry & 0xFFFFF
    at = k[AT_SLOTS] + slot * SLOT_FIELDS
    number = ni[NUMBER]
    word = event_word(_COMPLETE, result, ni[at + SLOT_DESTINATION], 0)
    emit(ev, cycle, number, LANE_COMPLETE, word, pack_uid(number, ni[INCARNATION_NOW], slot, generation))
    extend(ev, np.uint64(ni[at + TAG]) << np.uint64(48))
    ni[BUSY] -= 1
    if k[PER_DESTINATION] > 0:
        ni[k[AT_TAKEN] + slot] = NONE
    again = slot << 20 | generation + 1 & k[GENERATION_MASK]
    if k[QUARANTINE] > 0 and result >> 4 == _UNKNOWN and result & 0xF != _BEST_EFFORT:
        release(k, ni, cycle, time)
        queue.push(k, ni, QUARANTINED, again, time + k[QUARANTINE], cycle)
    else:
        queue.push(k, ni, FREE, again, 0, cycle)
    return True


@jit
def release(k, ni, cycle, time):
    """The slot that has rested longest returns to the free queue, if its time has come."""
    if k[QUARANTINE] == 0 or queue.count(k, ni, QUARANTINED) == 0:
        return
    column = queue.oldest(k, ni, QUARANTINED)
    if ni[column + 1] <= time:
        entry = ni[column]
        queue.pop(k, ni, QUARANTINED, cycle)
        queue.push(k, ni, FREE, entry, 0, cycle)

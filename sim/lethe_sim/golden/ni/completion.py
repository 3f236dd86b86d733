"""Completions and free slots (section 4.9)."""

import numpy as np
from lethe.spec.events import LANE_COMPLETE, Cause, Event, Status

from .. import queue
from ..compile import jit
from ..events import emit, event_word, extend, pack_uid
from ..state import (
    AT_SLOTS, BUSY, COMPLETION, FREE, GENERATION_MASK, INCARNATION_NOW, NUMBER, QUARANTINE, QUARANTINED,
    SLOT_DESTINATION, SLOT_FIELDS, TAG, TIME_ZERO,
)  # fmt: skip

_COMPLETE = int(Event.COMPLETE)
_UNKNOWN, _BEST_EFFORT = int(Status.UNKNOWN), int(Cause.BEST_EFFORT)


@jit
def take(k, ni, ev, cycle, node):
    """The host takes a completion, if one is offered; returns whether it did."""
    time = cycle - ni[node, TIME_ZERO]
    if not queue.present(k, ni, node, COMPLETION, cycle):
        release(k, ni, cycle, node, time)
        return False
    column = queue.oldest(k, ni, node, COMPLETION)
    entry, result = ni[node, column], ni[node, column + 1]
    queue.pop(k, ni, node, COMPLETION, cycle)
    slot, generation = entry >> 20, entry & 0xFFFFF
    at = k[AT_SLOTS] + slot * SLOT_FIELDS
    number = ni[node, NUMBER]
    word = event_word(_COMPLETE, result, ni[node, at + SLOT_DESTINATION], 0)
    emit(ev, cycle, number, LANE_COMPLETE, word, pack_uid(number, ni[node, INCARNATION_NOW], slot, generation))
    extend(ev, np.uint64(ni[node, at + TAG]) << np.uint64(48))
    ni[node, BUSY] -= 1
    again = slot << 20 | generation + 1 & k[GENERATION_MASK]
    if k[QUARANTINE] > 0 and result >> 4 == _UNKNOWN and result & 0xF != _BEST_EFFORT:
        release(k, ni, cycle, node, time)
        queue.push(k, ni, node, QUARANTINED, again, time + k[QUARANTINE], cycle)
    else:
        queue.push(k, ni, node, FREE, again, 0, cycle)
    return True


@jit
def release(k, ni, cycle, node, time):
    """The slot that has rested longest returns to the free queue, if its time has come."""
    if k[QUARANTINE] == 0 or queue.count(k, ni, node, QUARANTINED) == 0:
        return
    column = queue.oldest(k, ni, node, QUARANTINED)
    if ni[node, column + 1] <= time:
        entry = ni[node, column]
        queue.pop(k, ni, node, QUARANTINED, cycle)
        queue.push(k, ni, node, FREE, entry, 0, cycle)

"""Round trips that are measured, and the time-outs that follow them (section 4.6.1, T15)."""

from .compile import jit
from .state import (
    AT_SLOTS,
    AT_TRIPS,
    CEILING,
    CLASSES,
    DELAY,
    DEVIATIONS,
    LATER,
    LATER_CLASS,
    LATER_COUNT,
    LATER_FIELDS,
    LATER_FROM,
    LATER_RING,
    LATER_TIME_OUT,
    MEANS,
    OLDEST_LATER,
    SLACK,
    SLOT_FIELDS,
    SLOTS,
    STAMP,
    STAMP_TRY,
    STEPS,
    TIME_MASK,
    TIME_OUT,
    TIME_ZERO,
    TRIP_FIELDS,
    TRY_MASK,
)  # fmt: skip  # isort: skip

# Cycles from a sample to its first use.
_USED_AFTER = 6


@jit
def later_at(k):
    """Where the time-outs that are not yet used begin."""
    return k[AT_TRIPS] + TRIP_FIELDS * k[CLASSES]


@jit
def clear(k, ni):
    """As after reset: the configuration's round trips and time-outs."""
    if k[CEILING] == 0:
        return
    for distance in range(k[CLASSES]):
        at = k[AT_TRIPS] + TRIP_FIELDS * distance
        ni[at + MEANS] = 8 * (k[DELAY + distance] - k[SLACK])
        ni[at + DEVIATIONS] = k[SLACK]
        ni[at + TIME_OUT] = k[DELAY + distance]
    ni[later_at(k) + LATER_COUNT] = 0
    for slot in range(k[SLOTS]):
        ni[k[AT_SLOTS] + slot * SLOT_FIELDS + STAMP] = 0
        ni[k[AT_SLOTS] + slot * SLOT_FIELDS + STAMP_TRY] = 0


@jit
def stamp(k, ni, cycle, slot, tries):
    """A Send of ``slot`` was granted in the cycle before."""
    if k[CEILING] > 0:
        at = k[AT_SLOTS] + slot * SLOT_FIELDS
        ni[at + STAMP] = cycle - ni[TIME_ZERO]
        ni[at + STAMP_TRY] = tries & k[TRY_MASK]


@jit
def sample(k, ni, cycle, slot, distance, echo):
    """An Ack that echoes the try ``echo`` has released ``slot``."""
    slot_at = k[AT_SLOTS] + slot * SLOT_FIELDS
    if k[CEILING] == 0 or ni[slot_at + STAMP_TRY] != echo:
        return
    at = k[AT_TRIPS] + TRIP_FIELDS * distance
    error = min(cycle - ni[TIME_ZERO] - ni[slot_at + STAMP] & k[TIME_MASK], k[CEILING]) - (ni[at + MEANS] >> 3)
    ni[at + MEANS] += error
    ni[at + DEVIATIONS] += abs(error) - (ni[at + DEVIATIONS] >> 2)
    time_out = max((ni[at + MEANS] >> 3) + ni[at + DEVIATIONS], k[DELAY + distance])
    settle(k, ni, cycle)
    later = later_at(k)
    place = (ni[later + OLDEST_LATER] + ni[later + LATER_COUNT]) % LATER
    ni[later + LATER_COUNT] += 1
    later += LATER_RING + LATER_FIELDS * place
    ni[later + LATER_FROM] = cycle + _USED_AFTER
    ni[later + LATER_CLASS] = distance
    ni[later + LATER_TIME_OUT] = min(time_out, k[CEILING])


@jit
def settle(k, ni, cycle):
    """Use the time-outs whose cycle has come, in their order."""
    later = later_at(k)
    while ni[later + LATER_COUNT] > 0:
        at = later + LATER_RING + LATER_FIELDS * ni[later + OLDEST_LATER]
        if ni[at + LATER_FROM] > cycle:
            return
        ni[k[AT_TRIPS] + TRIP_FIELDS * ni[at + LATER_CLASS] + TIME_OUT] = ni[at + LATER_TIME_OUT]
        ni[later + OLDEST_LATER] = (ni[later + OLDEST_LATER] + 1) % LATER
        ni[later + LATER_COUNT] -= 1


@jit
def time_out(k, ni, cycle, distance, tries):
    """How long try number ``tries`` to a distance class waits that begins in ``cycle``."""
    settle(k, ni, cycle)
    wait = ni[k[AT_TRIPS] + TRIP_FIELDS * distance + TIME_OUT]
    for _ in range(min(tries, k[STEPS])):
        if 2 * wait <= k[CEILING]:
            wait *= 2
    return wait

"""The ladders of section 4.6: FIFOs of constant delay, one `hold` register each.

``NEXT_DUE`` is the earliest due time of all oldest tokens, so that an NI with nothing due is not asked;
``OVER`` counts the rungs that are too full for a new datagram: a Send leaves room for itself, and a delivery
also for the two Ack tokens that may be on their way (in the hold register and in an acting request).
"""

from . import round_trip
from .compile import jit
from .state import (
    ACK_LADDER,
    AT_RUNGS,
    AT_TOKENS,
    CEILING,
    CLASSES,
    DELAY,
    DUE,
    HOLD,
    HOLD_A,
    HOLD_B,
    LADDER,
    LADDER_FIELDS,
    NEVER,
    NEXT_DUE,
    OVER,
    RUNG_DUE,
    RUNG_FIELDS,
    RUNG_HEAD,
    RUNG_LEVEL,
    RUNGS,
    STEPS,
    TIMER_DEPTH,
    TOKEN_A,
    TOKEN_B,
    TOKEN_FIELDS,
)  # fmt: skip  # isort: skip


@jit
def rung_of(k, distance_class, tries):
    """The rung on which try number ``tries`` of a pair waits."""
    if tries == 0 or k[STEPS] == 0:
        return distance_class
    return k[CLASSES] - 1 + min(tries, k[STEPS])


@jit
def rung_after(k, rung):
    """The successor rung."""
    if k[STEPS] == 0 or rung == k[RUNGS] - 1:
        return rung
    return max(rung + 1, k[CLASSES])


@jit
def delay_of(k, ni, cycle, distance_class, tries):
    """How long try number ``tries`` that begins in ``cycle`` waits, in cycles."""
    if k[CEILING] > 0:
        return round_trip.time_out(k, ni, cycle, distance_class, tries)
    return k[DELAY + rung_of(k, distance_class, tries)]


@jit
def has_room(ni, ladder):
    """Whether every rung has level ≤ timer_depth − 2 (Acks: − 3)."""
    return ni[LADDER + LADDER_FIELDS * ladder + OVER] == 0


@jit
def rung_at(k, ladder, rung):
    """Where a rung's fields begin."""
    return k[AT_RUNGS] + RUNG_FIELDS * (ladder * k[RUNGS] + rung)


@jit
def token_at(k, ladder, rung, place):
    """Where a token's fields begin."""
    return k[AT_TOKENS] + ((ladder * k[RUNGS] + rung) * k[TIMER_DEPTH] + place) * TOKEN_FIELDS


@jit
def push(k, ni, ladder, rung, due, a, b):
    """Put a token on a rung."""
    at = rung_at(k, ladder, rung)
    count = ni[at + RUNG_LEVEL]
    depth = k[TIMER_DEPTH]
    place = ni[at + RUNG_HEAD] + count
    if place >= depth:
        place -= depth
    token = token_at(k, ladder, rung, place)
    ni[token + DUE] = due
    ni[token + TOKEN_A] = a
    ni[token + TOKEN_B] = b
    ni[at + RUNG_LEVEL] = count + 1
    fields = LADDER + LADDER_FIELDS * ladder
    if count == 0:
        ni[at + RUNG_DUE] = due
        ni[fields + NEXT_DUE] = min(ni[fields + NEXT_DUE], due)
    if count + 1 == depth - 1 - ladder:
        ni[fields + OVER] += 1


@jit
def pop(k, ni, ladder, rung):
    """Move a rung's oldest token into the hold register."""
    at, fields = rung_at(k, ladder, rung), LADDER + LADDER_FIELDS * ladder
    head, left = ni[at + RUNG_HEAD], ni[at + RUNG_LEVEL] - 1
    token = token_at(k, ladder, rung, head)
    ni[fields + HOLD] = 1
    ni[fields + HOLD_A] = ni[token + TOKEN_A]
    ni[fields + HOLD_B] = ni[token + TOKEN_B]
    head = 0 if head + 1 == k[TIMER_DEPTH] or left == 0 else head + 1
    ni[at + RUNG_HEAD] = head
    ni[at + RUNG_LEVEL] = left
    ni[at + RUNG_DUE] = ni[token_at(k, ladder, rung, head) + DUE] if left > 0 else NEVER
    if left == k[TIMER_DEPTH] - 2 - ladder:
        ni[fields + OVER] -= 1


@jit
def poll(k, ni, ladder, time):
    """With the hold register empty: move the lowest eligible token into it."""
    fields = LADDER + LADDER_FIELDS * ladder
    if ni[fields + NEXT_DUE] > time:
        return
    rungs, first = k[RUNGS], rung_at(k, ladder, 0)
    rung = 0
    while rung < rungs:
        if ni[first + RUNG_FIELDS * rung + RUNG_DUE] <= time:
            after = rung_after(k, rung)
            if after == rung or ni[first + RUNG_FIELDS * after + RUNG_LEVEL] < k[TIMER_DEPTH] - 1:
                pop(k, ni, ladder, rung)
                break
        rung += 1
    next_due = NEVER
    for rung in range(rungs):
        next_due = min(next_due, ni[first + RUNG_FIELDS * rung + RUNG_DUE])
    ni[fields + NEXT_DUE] = next_due


@jit
def clear(k, ni):
    """Both ladders as after reset."""
    round_trip.clear(k, ni)
    for ladder in range(ACK_LADDER + 1):
        fields = LADDER + LADDER_FIELDS * ladder
        ni[fields + HOLD] = 0
        ni[fields + NEXT_DUE] = NEVER
        ni[fields + OVER] = 0
        for rung in range(k[RUNGS]):
            at = rung_at(k, ladder, rung)
            ni[at + RUNG_HEAD] = 0
            ni[at + RUNG_LEVEL] = 0
            ni[at + RUNG_DUE] = NEVER

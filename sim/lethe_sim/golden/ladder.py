"""The ladders of section 4.6: FIFOs of constant delay, one `hold` register each.

``NEXT_DUE`` is the earliest due time of all oldest tokens, so that an NI with nothing due is not asked;
``OVER`` counts the rungs that are too full for a new datagram: a Send leaves room for itself, and a delivery
also for the two Ack tokens that may be on their way (in the hold register and in an acting request).
"""

from .compile import jit
from .state import (
    ACK_LADDER,
    AT_RUNGS,
    AT_TOKENS,
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
def delay_of(k, distance_class, tries):
    """How long try number ``tries`` waits, in cycles."""
    return k[DELAY + rung_of(k, distance_class, tries)]


@jit
def has_room(ni, ladder):
    """Whether every rung has level ≤ timer_depth − 2 (Acks: − 3)."""
    return ni[LADDER + LADDER_FIELDS * ladder + OVER] == 0


@jit
def push(k, ni, ladder, rung, due, a, b):
    """Put a token on a rung."""
    at = k[AT_RUNGS] + 2 * (ladder * k[RUNGS] + rung)
    head, count = ni[at], ni[at + 1]
    depth = k[TIMER_DEPTH]
    place = head + count
    if place >= depth:
        place -= depth
    token = k[AT_TOKENS] + ((ladder * k[RUNGS] + rung) * depth + place) * TOKEN_FIELDS
    ni[token + DUE] = due
    ni[token + TOKEN_A] = a
    ni[token + TOKEN_B] = b
    ni[at + 1] = count + 1
    fields = LADDER + LADDER_FIELDS * ladder
    if count == 0:
        ni[fields + NEXT_DUE] = min(ni[fields + NEXT_DUE], due)
    if count + 1 == depth - 1 - ladder:
        ni[fields + OVER] += 1


@jit
def poll(k, ni, ladder, time):
    """With the hold register empty: move the lowest eligible token into it."""
    fields = LADDER + LADDER_FIELDS * ladder
    if ni[fields + NEXT_DUE] > time:
        return
    first = ladder * k[RUNGS]
    depth = k[TIMER_DEPTH]
    popped = False
    next_due = NEVER
    for rung in range(k[RUNGS]):
        at = k[AT_RUNGS] + 2 * (first + rung)
        if ni[at + 1] == 0:
            continue
        token = k[AT_TOKENS] + ((first + rung) * depth + ni[at]) * TOKEN_FIELDS
        if not popped and ni[token + DUE] <= time:
            after = rung_after(k, rung)
            if after == rung or ni[k[AT_RUNGS] + 2 * (first + after) + 1] < depth - 1:
                popped = True
                ni[fields + HOLD] = 1
                ni[fields + HOLD_A] = ni[token + TOKEN_A]
                ni[fields + HOLD_B] = ni[token + TOKEN_B]
                ni[at + 1] -= 1
                head = ni[at] + 1
                ni[at] = 0 if head == depth or ni[at + 1] == 0 else head
                if ni[at + 1] == depth - 2 - ladder:
                    ni[fields + OVER] -= 1
                if ni[at + 1] == 0:
                    continue
                token = k[AT_TOKENS] + ((first + rung) * depth + ni[at]) * TOKEN_FIELDS
        next_due = min(next_due, ni[token + DUE])
    ni[fields + NEXT_DUE] = next_due


@jit
def clear(k, ni):
    """Both ladders as after reset."""
    for ladder in range(ACK_LADDER + 1):
        fields = LADDER + LADDER_FIELDS * ladder
        ni[fields + HOLD] = 0
        ni[fields + NEXT_DUE] = NEVER
        ni[fields + OVER] = 0
    for i in range(4 * k[RUNGS]):
        ni[k[AT_RUNGS] + i] = 0

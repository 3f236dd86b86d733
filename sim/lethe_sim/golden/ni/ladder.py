"""The ladders of section 4.6: FIFOs of constant delay, one hold register each.

``next_due`` is the earliest due time of all oldest tokens, so that an NI with nothing due is not asked;
``over`` counts the rungs that are too full for a new datagram: a Send leaves room for itself, and a delivery
also for the two Ack tokens that may be on their way (in the hold register and in an acting request).
"""

from lethe_sim.golden.compile import jit
from lethe_sim.golden.record import raw, table
from lethe_sim.golden.state import ACK_LADDER, NEVER, Rung, Token

from . import round_trip

_rungs = table(Rung)


@jit
def rung_of(k, distance_class, tries):
    """The rung on which try number ``tries`` of a pair waits."""
    if tries == 0 or k.steps == 0:
        return distance_class
    return k.classes - 1 + min(tries, k.steps)


@jit
def rung_after(k, rung):
    """The successor rung."""
    if k.steps == 0 or rung == k.rungs - 1:
        return rung
    return max(rung + 1, k.classes)


@jit
def delay_of(k, ni, cycle, distance_class, tries):
    """How long try number ``tries`` that begins in ``cycle`` waits, in cycles."""
    if k.ceiling > 0:
        return round_trip.time_out(k, ni, cycle, distance_class, tries)
    return k.delay[rung_of(k, distance_class, tries)]


@jit
def has_room(ni, ladder):
    """Whether every rung has level ≤ timer_depth − 2 (Acks: − 3)."""
    return ni.ladders[ladder].over == 0


@jit
def rung_at(k, ni, ladder, rung):
    """A rung of a ladder."""
    return Rung(ni, k.at_rungs, ladder * k.rungs + rung)


@jit
def token_at(k, ni, ladder, rung, place):
    """The token at a place of a rung."""
    return Token(ni, k.at_tokens, (ladder * k.rungs + rung) * k.timer_depth + place)


@jit
def push(k, ni, ladder, number, due, a, b):
    """Put a token on rung ``number``."""
    rung, hold, depth = rung_at(k, ni, ladder, number), ni.ladders[ladder], k.timer_depth
    count = rung.level
    place = rung.head + count
    token = token_at(k, ni, ladder, number, place - depth if place >= depth else place)
    token.due = due
    token.a = a
    token.b = b
    rung.level = count + 1
    if count == 0:
        rung.due = due
        hold.next_due = min(hold.next_due, due)
    if count + 1 == depth - 1 - ladder:
        hold.over += 1


@jit
def pop(k, ni, ladder, number):
    """Move the oldest token of rung ``number`` into the hold register."""
    rung, hold, depth = rung_at(k, ni, ladder, number), ni.ladders[ladder], k.timer_depth
    head, left = rung.head, rung.level - 1
    token = token_at(k, ni, ladder, number, head)
    hold.full = 1
    hold.a = token.a
    hold.b = token.b
    head = 0 if head + 1 == depth or left == 0 else head + 1
    rung.head = head
    rung.level = left
    rung.due = token_at(k, ni, ladder, number, head).due if left > 0 else NEVER
    if left == depth - 2 - ladder:
        hold.over -= 1


@jit
def poll(k, ni, ladder, time):
    """With the hold register empty: move the lowest eligible token into it."""
    hold = ni.ladders[ladder]
    if hold.next_due > time:
        return
    rungs, count = _rungs(raw(rung_at(k, ni, ladder, 0))), k.rungs
    number = 0
    while number < count:
        if rungs[number].due <= time:
            after = rung_after(k, number)
            if after == number or rungs[after].level < k.timer_depth - 1:
                pop(k, ni, ladder, number)
                break
        number += 1
    next_due = NEVER
    for number in range(count):
        next_due = min(next_due, rungs[number].due)
    hold.next_due = next_due


@jit
def clear(k, ni):
    """Both ladders as after reset."""
    round_trip.clear(k, ni)
    for ladder in range(ACK_LADDER + 1):
        hold = ni.ladders[ladder]
        hold.full = 0
        hold.next_due = NEVER
        hold.over = 0
        for number in range(k.rungs):
            rung = rung_at(k, ni, ladder, number)
            rung.head = 0
            rung.level = 0
            rung.due = NEVER

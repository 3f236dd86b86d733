"""The ladders of section 4.6: FIFOs of constant delay, one hold register each.

``wake`` is the cycle in which a rung with a token that is due next has its turn, so that an NI with nothing due is
not asked; it may be too early, never too late.  ``over`` counts the rungs that are too full for a new datagram.
"""

from lethe.spec.stages import LEAST_FIRST, LEAST_LATER, SPARE_DELIVER, SPARE_NEXT_RUNG, SPARE_SEND
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.record import raw, table
from lethe_sim.golden.state import ACK_LADDER, NEVER, NONE, Rung, Token

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
def spare(ladder):
    """Places that a rung must have left for a new datagram."""
    return SPARE_DELIVER if ladder == ACK_LADDER else SPARE_SEND


@jit
def has_room(ni, ladder, cycle):
    """Whether every rung has `spare` places by its known level; to be asked before ``cycle`` changes anything."""
    hold = ni.ladders[ladder]
    return (hold.over if hold.over_changed < cycle - 1 else hold.over_before) == 0


@jit
def change_over(hold, cycle, change):
    """A rung becomes too full, or no longer is."""
    if hold.over_changed != cycle:
        hold.over_changed, hold.over_before = cycle, hold.over
    hold.over += change


@jit
def period_of(k, number):
    """Cycles from a turn of rung ``number`` to its next."""
    return 2 * (max(k.classes, LEAST_FIRST) if number < k.classes else max(k.steps | 1, LEAST_LATER))


@jit
def turn_after(k, ni, number, cycle):
    """The first cycle from ``cycle`` on in which rung ``number`` has its turn."""
    period = period_of(k, number)
    first = 2 * number if number < k.classes else 2 * (number - k.classes) + 1
    late = (cycle - (ni.ready_from - k.initial) - first) % period
    return cycle + period - late if late else cycle


@jit
def rung_at(k, ni, ladder, rung):
    """A rung of a ladder."""
    return Rung(ni, k.at_rungs, ladder * k.rungs + rung)


@jit
def token_at(k, ni, ladder, rung, place):
    """The token at a place of a rung."""
    return Token(ni, k.at_tokens, (ladder * k.rungs + rung) * k.timer_depth + place)


@jit
def push(k, ni, ladder, cycle, number, due, a, b):
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
        rung.due, rung.wake = due, turn_after(k, ni, number, due + ni.time_zero)
        hold.wake = min(hold.wake, rung.wake)
    hold.pushed, hold.pushed_on = cycle, number
    if count == depth - spare(ladder):
        change_over(hold, cycle, 1)


@jit
def pop(k, ni, ladder, cycle, number):
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
    rung.wake = NEVER
    if left > 0:
        rung.due = token_at(k, ni, ladder, number, head).due
        next_turn = cycle + period_of(k, number)
        late = rung.due + ni.time_zero > next_turn
        rung.wake = turn_after(k, ni, number, rung.due + ni.time_zero) if late else next_turn
    if left == depth - spare(ladder):
        change_over(hold, cycle, -1)


@jit
def poll(k, ni, ladder, cycle):
    """The rung whose turn it is: its oldest token moves into the hold register, if that is empty."""
    hold = ni.ladders[ladder]
    if hold.full or cycle < hold.wake:
        return
    look_turn(k, ni, ladder, cycle)


@apart
def look_turn(k, ni, ladder, cycle):
    """A rung that is due may have its turn; then the next that will is worked out."""
    hold, soon = ni.ladders[ladder], cycle + 1
    rungs, count = _rungs(raw(rung_at(k, ni, ladder, 0))), k.rungs
    wake = NEVER
    for number in range(count):
        rung = rungs[number]
        turn = rung.wake
        if turn <= cycle:
            period = period_of(k, number)
            while turn < cycle:  # it could not go when it had its turn
                turn += period
            if turn == cycle:
                if rung.due > cycle - ni.time_zero:
                    turn = turn_after(k, ni, number, rung.due + ni.time_zero)  # the time stood still meanwhile
                elif goes_on(k, hold, rungs, cycle, number):
                    pop(k, ni, ladder, cycle, number)
                    turn, soon = rung.wake, cycle + 2
                else:
                    turn += period
            rung.wake = turn
        wake = min(wake, turn)
    hold.wake = max(wake, soon)


@jit
def goes_on(k, hold, rungs, cycle, number):
    """Whether the successor of a rung has room, by its known level: without what was pushed in the cycle before."""
    after = rung_after(k, number)
    if after == number:
        return True
    just_pushed = hold.pushed_on == after and hold.pushed >= cycle - 1
    return rungs[after].level - just_pushed <= k.timer_depth - SPARE_NEXT_RUNG


@jit
def take(hold, cycle):
    """The hold register's token is chosen in ``cycle``: the register is empty from the next on."""
    hold.full = 0
    hold.wake = max(hold.wake, cycle + 1)


@jit
def clear(k, ni):
    """Both ladders as after reset."""
    round_trip.clear(k, ni)
    for ladder in range(ACK_LADDER + 1):
        hold = ni.ladders[ladder]
        hold.full = 0
        hold.wake = NEVER
        hold.over = 0
        hold.over_before, hold.over_changed = 0, NONE
        hold.pushed = NONE
        for number in range(k.rungs):
            rung = rung_at(k, ni, ladder, number)
            rung.head = 0
            rung.level = 0
            rung.wake = NEVER

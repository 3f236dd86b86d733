"""How many cycles the pipelines of an NI take (cycle contract, section 4): constants, not options."""

__all__ = [
    "ACCEPT_ACTS",
    "ACCEPT_JUDGED",
    "ACTS",
    "CHOSEN",
    "HEARD",
    "JUDGED",
    "LEAST_FIRST",
    "LEAST_LATER",
    "MEASURED",
    "PUSHED",
    "QUEUED",
    "ROUND_TRIP",
    "SHOWN",
    "SPARE_DELIVER",
    "SPARE_NEXT_RUNG",
    "SPARE_SEND",
    "rounds",
    "turn_of",
]

QUEUED = 2  # from a push into an empty queue to its output
JUDGED = 2  # from a grant to the look at the granted slot
PUSHED = 3  # from a grant to the push of its token
SHOWN = 6  # from a grant to the first flit on the link
ACTS = 6  # from the last flit of a message to its action, and from any flit to its offer to the deliver FIFO
CHOSEN = 4  # from the choice of an internal request to its action
ACCEPT_JUDGED = 3  # from an acceptance to the first judgement that knows it
ACCEPT_ACTS = 5  # from an acceptance to the first action that knows it
MEASURED = 10  # from a sample of a round trip to the first push that uses it
HEARD = 5  # from an action to the first judgement that knows its count of silence

ROUND_TRIP = 22  # what a first time-out has beyond the flits and hops of a round trip, without slack

SPARE_SEND = 4  # places left in each rung of the Send ladder when a Send is granted
SPARE_DELIVER = 8  # places left in each rung of the Ack ladder when a datagram is delivered
SPARE_NEXT_RUNG = 6  # places left in a rung when a token for it is popped from the rung before
LEAST_FIRST = 2  # turns at least in a round of the rungs of first tries, two cycles each
LEAST_LATER = 3  # turns at least in a round of the rungs of later tries, two cycles each


def rounds(classes: int, steps: int) -> tuple[int, int]:
    """Turns in a round of a ladder's rungs of first tries, of which there are ``classes``, and of its ``steps`` others.

    Each kind of round has every second cycle.  The turns of the second round are odd in number, so that a rung's turn
    comes now before, now after the turn of one and the same rung of first tries.
    """
    return max(classes, LEAST_FIRST), max(steps | 1, LEAST_LATER)


def turn_of(classes: int, steps: int, cycle: int) -> int | None:
    """The rung that has its turn ``cycle`` cycles after a reset; None if nobody has."""
    first, later = rounds(classes, steps)
    if cycle % 2:
        number = cycle // 2 % later
        return classes + number if number < steps else None
    number = cycle // 2 % first
    return number if number < classes else None

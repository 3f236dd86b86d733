"""How many cycles the pipelines of a NI take (cycle contract, section 4): constants, not options."""

__all__ = [
    "ACCEPT_ACTS",
    "ACCEPT_JUDGED",
    "ACTS",
    "CHOSEN",
    "HEARD",
    "JUDGED",
    "LEAST_TURNS",
    "MEASURED",
    "PUSHED",
    "QUEUED",
    "ROUND_TRIP",
    "SHOWN",
    "SPARE_DELIVER",
    "SPARE_NEXT_RUNG",
    "SPARE_SEND",
    "turns",
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
LEAST_TURNS = 6  # cycles at least between two looks at one rung


def turns(rungs: int) -> int:
    """Cycles between two looks at one rung of a ladder of so many."""
    return max(rungs, LEAST_TURNS)

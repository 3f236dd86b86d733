"""Slots that outlive datagrams of which something may still be under way (section 4.19)."""

from lethe.spec.events import Cause, Status
from lethe_sim.golden.compile import jit
from lethe_sim.golden.state import NEVER, Slot


@jit
def rests(k, datagram, status, cause):
    """Whether a slot goes to the quarantine when its completion is taken."""
    if k.linger > 0:
        return datagram.lingers > 0
    return k.rest > 0 and is_unknown(status, cause)


@jit
def is_unknown(status, cause):
    """Whether nobody here knows if a datagram that ended so was delivered, or will be."""
    return status == Status.UNKNOWN and cause != Cause.BEST_EFFORT


@jit
def ended(k, datagram, status, cause):
    """A datagram ends, or is released: its slot lingers if that leaves it in doubt."""
    if k.linger > 0:
        doubt = datagram.again == 1 if status == Status.ACCEPTED else is_unknown(status, cause)
        datagram.lingers = NEVER if doubt else 0
        datagram.again = 0


@jit
def over(k, ni, cycle, slot):
    """A slot returns to the free queue in ``cycle``, the last in which it lingers."""
    if k.linger > 0:
        Slot(ni, k.at_slots, slot).lingers = cycle


@jit
def is_doubted(k, ni, cycle, message):
    """Whether an Ack that acts in ``cycle`` is of a datagram whose slot lingers."""
    if k.linger == 0 or message.incarnation != ni.incarnation_now:
        return False
    datagram = Slot(ni, k.at_slots, message.slot)
    return datagram.lingers >= cycle and datagram.generation == message.generation

"""Internal requests (section 4.5): which may act in four cycles, if no message ends in time to act instead.

What is pending in a cycle is known at the end of the one before, and so is which messages act in four cycles: the
choice is made then, but for a cancel, which only the cycle itself brings.
"""

from lethe.spec.stages import CHOSEN
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.state import ACK_LADDER, AHEAD, NEVER, NONE, SEND_LADDER, Request

from . import ladder, layouts, receive_side, send_side
from .receiver import acts


@jit
def choose(k, ni, cycle):
    """Choose what is pending in ``cycle``, at the end of the cycle before."""
    sends, acks = ni.ladders[SEND_LADDER], ni.ladders[ACK_LADDER]
    if sends.full == 0 and acks.full == 0 and ni.finish_from > cycle:
        return
    if acts(ni, cycle + CHOSEN):
        return
    ni.chosen = cycle
    if ni.finish_from <= cycle:
        request(ni, cycle, Request.FINISH, ni.finish, 0)
        ni.finish_from, ni.finish_free = NEVER, cycle + 1
    elif sends.full:
        ladder.take(sends, cycle)
        # What is accepted from now on, no action knows in time.
        if send_side.is_waited_for(k, ni, sends.a):
            request(ni, cycle, Request.SEND, sends.a, sends.b)
    else:
        ladder.take(acks, cycle)
        if receive_side.is_waited_for(k, ni, cycle, acks.a, acks.b):
            request(ni, cycle, Request.ACK, acks.a, acks.b)


@jit
def choose_cancel(k, ni, port, cycle):
    """A cancel is taken in ``cycle``, if nothing else was chosen."""
    if port.cancel_valid and may_cancel(ni, cycle):
        ni.chosen = cycle
        # The port has the widths of the configuration.
        life = layouts.pack_life(port.cancel_slot & all_ones(k.slots - 1), port.cancel_generation & k.generation_mask)
        request(ni, cycle, Request.CANCEL, life, 0)


@jit
def may_cancel(ni, cycle):
    """Whether a cancel is taken in ``cycle``: no other request is chosen, and no message will act instead."""
    return cycle >= ni.ready_from and ni.chosen < cycle and not acts(ni, cycle + CHOSEN)


@apart
def choose_sweep(k, ni, port, cycle):
    """A step of the sweep that is offered is chosen in ``cycle``, if nothing else was and no other is on its way."""
    if k.sweep and may_cancel(ni, cycle) and ni.sweep_acts < cycle:
        ni.chosen, ni.sweep_acts = cycle, cycle + CHOSEN
        request(ni, cycle, Request.SWEEP, port.sweep_source & (1 << k.node_bits) - 1, 0)


@jit
def step_of_sweep(ni, cycle):
    """The source of the step of a sweep that acts in ``cycle``, or −1."""
    return ni.requests[cycle & AHEAD - 1].a if ni.sweep_acts == cycle else -1


@jit
def may_dump(ni, cycle):
    """Whether a dump is taken in ``cycle``, if none was in the four before: nothing acts until its own action."""
    for before in range(cycle, cycle + CHOSEN):
        if acts(ni, before):
            return False
    return may_cancel(ni, cycle) and (ni.chosen == NONE or ni.chosen + CHOSEN < cycle)


@jit
def request(ni, cycle, kind, a, b):
    """What is chosen in ``cycle`` will act."""
    pending = ni.requests[cycle + CHOSEN & AHEAD - 1]
    pending.kind, pending.a, pending.b = kind, a, b
    ni.asked |= 1 << (cycle + CHOSEN & AHEAD - 1)


@jit
def all_ones(number):
    """The largest number of as many bits as ``number``, which is less than 2^16."""
    for shift in (1, 2, 4, 8):
        number |= number >> shift
    return number

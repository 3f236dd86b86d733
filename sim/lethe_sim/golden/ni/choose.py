"""Internal requests (section 4.5): which may act in the next cycle, if no message has ended just before."""

from lethe_sim.golden.compile import jit
from lethe_sim.golden.state import ACK_LADDER, END, NEVER, SEND_LADDER, Request

from . import ladder, layouts
from .receiver import stage


@jit
def choose(k, ni, port, cycle):
    """Choose the internal request that may act in ``cycle`` + 1, and poll the ladders."""
    time = cycle - ni.time_zero
    sends, acks = ni.ladders[SEND_LADDER], ni.ladders[ACK_LADDER]
    send_full, ack_full = sends.full, acks.full
    if not send_full:
        ladder.poll(k, ni, SEND_LADDER, time)
    if not ack_full:
        ladder.poll(k, ni, ACK_LADDER, time)
    ni.request = Request.NONE
    if cycle < ni.ready_from or stage(ni, cycle + 1) & END:
        return
    if ni.finish_from <= cycle:
        ni.request = Request.FINISH
        ni.request_a = ni.finish
        ni.finish_from = NEVER
    elif send_full:
        ni.request = Request.SEND
        ni.request_a = sends.a
        sends.full = 0
    elif ack_full:
        ni.request = Request.ACK
        ni.request_a = acks.a
        ni.request_b = acks.b
        acks.full = 0
    elif port.cancel_valid:
        ni.request = Request.CANCEL
        # The port has the widths of the configuration.
        ni.request_a = layouts.pack_life(
            port.cancel_slot & all_ones(k.slots - 1), port.cancel_generation & k.generation_mask
        )


@jit
def all_ones(number):
    """The largest number of as many bits as ``number``, which is less than 2^16."""
    for shift in (1, 2, 4, 8):
        number |= number >> shift
    return number

"""Cancels (section 9.7): what is under way to a peer that leaves."""

from lethe.spec.services.flow import Code, Out
from lethe_sim.golden.compile import apart, jit

from .state import peer_at, row_at


@jit
def counts(flow, slot):
    """Whether a slot has something under way that a peer which leaves waits for."""
    row = row_at(flow, slot)
    asks = slot < flow.data_slots or row.code in (Code.PING, Code.VOID)
    return row.under_way and asks and peer_at(flow, row.destination).out == Out.LEAVING


@apart
def act(flow):
    """The job of a slot: it is cancelled from the next cycle on."""
    slot = flow.cancel_slot
    flow.cancel_slot = 0 if slot + 1 == flow.slots else slot + 1
    if counts(flow, slot):
        flow.cancelling, flow.cancel_name, flow.cancel_generation = 1, slot, row_at(flow, slot).generation

"""Send table: what is kept of each datagram in its slot, and its end (sections 4.2 and 4.9)."""

from lethe.spec.events import LANE_RX, Event
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, event_word
from lethe_sim.golden.lib import queue
from lethe_sim.golden.state import NEVER, Queues, Slot

from . import layouts, linger


@jit
def slot_of(k, ni, slot):
    """What a slot keeps of its datagram."""
    return Slot(ni, k.at_slots, slot)


@jit
def is_live(datagram, generation, known):
    """Whether a slot is live with a generation since a cycle up to ``known``."""
    return datagram.since <= known and datagram.generation == generation


@jit
def complete(k, ni, cycle, slot, status, cause, responder):
    """The slot is not live any more; its completion is queued, with the incarnation that acknowledged, or 0."""
    datagram = slot_of(k, ni, slot)
    datagram.since = NEVER
    linger.ended(k, datagram, status, cause)
    life = layouts.pack_life(slot, datagram.generation)
    queue.push(k, ni, Queues.COMPLETION, life, layouts.pack_result(responder, status, cause), cycle)


@jit
def give_up(k, ni, ev, cycle, slot, status, cause):
    """End a datagram without an Ack."""
    complete(k, ni, cycle, slot, status, cause, 0)
    slot_event(k, ni, ev, cycle, slot, Event.GIVE_UP, cause)


@jit
def slot_event(k, ni, ev, cycle, slot, event, detail):
    """Show an event of the datagram in ``slot`` on lane rx."""
    datagram = slot_of(k, ni, slot)
    uid = layouts.pack_uid(ni.number, ni.incarnation_now, slot, datagram.generation)
    emit(ev, cycle, ni.number, LANE_RX, event_word(event, detail, datagram.destination, 0), uid)

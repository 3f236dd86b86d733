"""Deliver FIFOs (section 4.8): flits are offered as they arrive, and committed or dropped together."""

from lethe.spec.events import LANE_TAKE, Event
from lethe.spec.trace import take_lane
from lethe_sim.golden.compile import at, jit
from lethe_sim.golden.events import emit, event_word
from lethe_sim.golden.lib import queue
from lethe_sim.golden.record import raw
from lethe_sim.golden.state import Offer, Queue, Queues

from . import layouts

# FIFO 0 has the lane that every NI has; those of the others follow each other.
_CONTROL_LANES = take_lane(1) - 1


@jit
def fifo_of(k, cls):
    """The deliver FIFO of a class."""
    if cls >= k.first_control:
        return 1 + k.top_class - cls
    return 0


@jit
def flits_limit(k, fifo):
    """Flits that a FIFO can hold."""
    return k.control_fifo_flits if fifo else k.deliver_flits


@jit
def records_limit(k, fifo):
    """Records that a FIFO can hold."""
    return k.control_fifo_records if fifo else k.deliver_records


@jit
def data_queue(k, ni, fifo):
    """The data queue of a FIFO."""
    return Queue(ni, k.at_fifos, fifo)


@jit
def place_of(k, ni, fifo, index):
    """Place in the memory of all FIFOs of the ``index``-th entry of one, the output register's being 0."""
    place = data_queue(k, ni, fifo).head + index
    if place >= k.data_ring:
        place -= k.data_ring
    return fifo * k.data_ring + place


@jit
def last_at(k, ni):
    """Of each place whether it holds the last beat of a datagram."""
    return at(raw(ni), k.at_last)


@jit
def will_offer(k, ni, data, cycle, fifo, last, low, high):
    """A payload flit has arrived, and will be offered to a FIFO in ``cycle``."""
    place = ni.offers_from + ni.offers & k.offer_ring - 1
    ni.offers += 1
    waiting = Offer(ni, k.at_offers, place)
    waiting.cycle, waiting.fifo, waiting.last = cycle, fifo, last
    data[k.at_offer_data + place * k.words] = low
    if k.words == 2:
        data[k.at_offer_data + place * 2 + 1] = high


@jit
def take_offers(k, ni, data, cycle):
    """All flits that are offered up to ``cycle`` are stored, or their message overflows.

    Nobody sees them before they are committed: so they need not be taken in their own cycles.
    """
    while ni.offers > 0:
        place = ni.offers_from
        waiting = Offer(ni, k.at_offers, place)
        if waiting.cycle > cycle:
            return
        ni.offers_from = place + 1 & k.offer_ring - 1
        ni.offers -= 1
        offer(k, ni, data, waiting, place)


@jit
def offer(k, ni, data, waiting, place):
    """A payload flit of the arriving message is stored, or the message overflows."""
    fifo, uncommitted, words = waiting.fifo, ni.uncommitted, k.words
    stored = data_queue(k, ni, fifo)
    if ni.overflow or queue.memory_level(stored, waiting.cycle) + uncommitted >= flits_limit(k, fifo):
        ni.overflow = 1
        return
    to = place_of(k, ni, fifo, stored.level + uncommitted)
    data[k.at_data + to * words] = data[k.at_offer_data + place * words]
    if words == 2:
        data[k.at_data + to * 2 + 1] = data[k.at_offer_data + place * 2 + 1]
    last_at(k, ni)[to] = waiting.last
    ni.uncommitted = uncommitted + 1


@jit
def drop(ni):
    """Drop what is not committed."""
    ni.uncommitted = 0
    ni.overflow = 0


@jit
def commit(k, ni, cycle, fifo, record):
    """Commit the payload and its record."""
    if ni.uncommitted > 0:
        queue.added(data_queue(k, ni, fifo), ni.uncommitted, cycle)
    queue.push(k, ni, Queues.DELIVER + fifo, record, 0, cycle)


@jit
def step(k, ni, ev, port, cycle):
    """The host takes of each FIFO the record and the beat that are offered and that it is ready for."""
    if port.deliver_ready == 0 and port.deliver_data_ready == 0:
        return
    for fifo in range(k.fifos):
        if port.deliver_ready >> fifo & 1 and queue.present(k, ni, Queues.DELIVER + fifo, cycle):
            source, incarnation, _, length = layouts.unpack_record(queue.oldest(k, ni, Queues.DELIVER + fifo).a)
            queue.pop(k, ni, Queues.DELIVER + fifo, cycle)
            lane = LANE_TAKE if fifo == 0 else _CONTROL_LANES + fifo
            detail = incarnation if k.source_incarnation else 0
            emit(ev, cycle, ni.number, lane, event_word(Event.TAKE, detail, source, length), 0)
        stored = data_queue(k, ni, fifo)
        if port.deliver_data_ready >> fifo & 1 and queue.shows(stored, cycle):
            queue.removed(stored, k.data_ring, cycle)


@jit
def records_held(k, ni):
    """Committed records not yet taken."""
    total = 0
    for fifo in range(k.fifos):
        total += queue.count(k, ni, Queues.DELIVER + fifo)
    return total


@jit
def empty(k, ni):
    """Whether no FIFO holds a committed record or flit."""
    for fifo in range(k.fifos):
        if queue.count(k, ni, Queues.DELIVER + fifo) > 0 or data_queue(k, ni, fifo).level > 0:
            return False
    return True

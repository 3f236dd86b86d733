"""Deliver FIFOs (section 4.8): flits are offered as they arrive, and committed or forgotten together."""

from lethe.spec.events import LANE_FRAGMENT, LANE_TAKE, Event
from lethe_sim.golden import queue
from lethe_sim.golden.bits import flit_high, flit_low
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, event_word
from lethe_sim.golden.state import (
    AT_DATA,
    AT_FIFOS,
    AT_LAST,
    AT_RX,
    DATA_RING,
    DELIVER,
    DELIVER_FLITS,
    FIFOS,
    FIRST_CONTROL,
    FLIT_BITS,
    HEAD,
    HEADER_FLITS,
    LEVEL,
    NUMBER,
    OFFERED,
    OVERFLOW,
    TOP_CLASS,
    UNCOMMITTED,
    VISIBLE,
    WORDS,
)  # fmt: skip  # isort: skip

_TAKE = int(Event.TAKE)


@jit
def fifo_of(k, datagram_class):
    """The deliver FIFO of a class."""
    if datagram_class >= k[FIRST_CONTROL]:
        return 1 + k[TOP_CLASS] - datagram_class
    return 0


@jit
def place_of(k, ni, fifo, index):
    """Place in the ring of FIFO ``fifo``'s data of the ``index``-th entry, the output register's being 0."""
    place = ni[k[AT_FIFOS] + 3 * fifo + HEAD] + index
    if place >= k[DATA_RING]:
        place -= k[DATA_RING]
    return fifo * k[DATA_RING] + place


@jit
def offer(k, ni, data, cycle, fifo, last):
    """The next payload flit of the arriving message is stored, or the message overflows."""
    flit = k[HEADER_FLITS] + ni[OFFERED]
    ni[OFFERED] += 1
    uncommitted = ni[UNCOMMITTED]
    at = k[AT_FIFOS] + 3 * fifo
    if ni[OVERFLOW] or queue.memory_level(ni, at, cycle) + uncommitted >= k[DELIVER_FLITS]:
        ni[OVERFLOW] = 1
        return
    place = place_of(k, ni, fifo, ni[at + LEVEL] + uncommitted)
    words, flit_bits = k[WORDS], k[FLIT_BITS]
    data[k[AT_DATA] + place * words] = flit_low(data, k[AT_RX], flit_bits, flit)
    if words == 2:
        data[k[AT_DATA] + place * 2 + 1] = flit_high(data, k[AT_RX], flit_bits, flit)
    ni[k[AT_LAST] + place] = last
    ni[UNCOMMITTED] = uncommitted + 1


@jit
def forget(ni):
    """Forget what is not committed."""
    ni[UNCOMMITTED] = 0
    ni[OVERFLOW] = 0
    ni[OFFERED] = 0


@jit
def commit(k, ni, cycle, fifo, source, datagram_class, length, note):
    """Commit the payload and its record."""
    if ni[UNCOMMITTED] > 0:
        queue.added(ni, k[AT_FIFOS] + 3 * fifo, ni[UNCOMMITTED], cycle)
    queue.push(k, ni, DELIVER + fifo, source << 24 | datagram_class << 16 | length, note, cycle)


@jit
def beat_present(k, ni, fifo, cycle):
    """Whether `deliver_data` shows a beat."""
    at = k[AT_FIFOS] + 3 * fifo
    return ni[at + LEVEL] > 0 and ni[at + VISIBLE] <= cycle


@jit
def take_record(k, ni, ev, cycle, fifo):
    """The host takes a record, shown on the take lane of its FIFO.  Returns its column."""
    at = queue.oldest(k, ni, DELIVER + fifo)
    record = ni[at]
    queue.pop(k, ni, DELIVER + fifo, cycle)
    lane = LANE_TAKE if fifo == 0 else LANE_FRAGMENT + fifo
    emit(ev, cycle, ni[NUMBER], lane, event_word(_TAKE, 0, record >> 24, record & 0xFFFF), 0)
    return at


@jit
def take_beat(k, ni, fifo, cycle):
    """The host takes a beat; returns its place."""
    place = place_of(k, ni, fifo, 0)
    queue.removed(ni, k[AT_FIFOS] + 3 * fifo, k[DATA_RING], cycle)
    return place


@jit
def records_held(k, ni):
    """Committed records not yet taken."""
    total = 0
    for fifo in range(k[FIFOS]):
        total += queue.count(k, ni, DELIVER + fifo)
    return total

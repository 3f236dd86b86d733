"""Messages on their way in (section 6): which are accepted, and what becomes of their numbers."""

from lethe.spec.events import FLOW_ARRIVE, Event
from lethe.spec.services.flow import WINDOW, Code, In
from lethe.spec.stages import ACTS
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.lib.bits import get
from lethe_sim.golden.services import site
from lethe_sim.golden.state import AHEAD

from . import control, turns
from .congestion import weigh_port
from .send import ASK, DPORT, FLAGS, SEQ
from .state import Fate, in_at, peer_at, port_at, push_entry, shift, use_cells, wants_window


@jit
def arrival_of(flow, cycle):
    """The data message that acts in ``cycle``."""
    return flow.arrivals[cycle & AHEAD - 1]


@apart
def arrive(s, flow):
    """A data message has ended in the cycle before: it will act."""
    shows, word = s.below.shows, 2 * s.k.port_streams
    acts = s.cycle + ACTS - 1
    arrival = arrival_of(flow, acts)
    arrival.source, arrival.best_effort = shows.arrival_source, shows.arrival_best_effort
    arrival.length = shows.arrival_length
    arrival.seq = get(s.below.beats, word + (SEQ.shift >> 6), SEQ.shift, SEQ.bits)
    arrival.flags = get(s.below.beats, word, FLAGS.shift, FLAGS.bits)
    arrival.dport = get(s.below.beats, word, DPORT.shift, DPORT.bits)
    flow.acts |= 1 << (acts & AHEAD - 1)


@apart
def judge(flow, arrival):
    """What becomes of a data message, by the state of the cycle before it acts.

    If flow slept in that cycle, the message is judged when it acts: the state is still the same.
    """
    arrival.verdict = verdict(flow, arrival)


@jit
def verdict(flow, arrival):
    """`Fate` of a data message."""
    if arrival.best_effort or arrival.source >= flow.nodes:
        return Fate.NOT_OPEN
    if peer_at(flow, arrival.source).source == In.CLOSED:
        return Fate.NOT_OPEN
    if arrival.length < flow.header_bytes:
        return Fate.IGNORE
    index = arrival.dport & flow.port_mask
    stream, port = in_at(flow, arrival.source, index), port_at(flow, index)
    distance = arrival.seq - stream.expected & 255
    if WINDOW <= distance < 256 - WINDOW:
        return Fate.NOT_OPEN
    if distance >= WINDOW or stream.present >> distance & 1:
        return Fate.IGNORE
    if not port.bound or port.number != arrival.dport:
        return Fate.VACANT
    if distance == 0:
        return Fate.PORT_FULL if port.used == flow.cells else Fate.PLACE
    return Fate.EARLY if port.used >= flow.cells - flow.in_order else Fate.PLACE


@jit
def refusal(flow, cycle):
    """Why the data message that acts in ``cycle`` is refused, if it is."""
    if not turns.data_acts(flow, cycle):
        return 0
    found = arrival_of(flow, cycle).verdict
    return found if found <= Fate.EARLY else 0


@apart
def act(s, flow):
    """A data message acts: if it was delivered, its number is taken."""
    flow.acts &= ~(1 << (s.cycle & AHEAD - 1))
    flow.data_acted_at = s.cycle
    if not s.below.shows.delivered:
        return
    arrival = arrival_of(flow, s.cycle)
    source, index, found = arrival.source, arrival.dport & flow.port_mask, arrival.verdict
    stream, port = in_at(flow, source, index), port_at(flow, index)
    distance, count, filled = arrival.seq - stream.expected & 255, 0, 0
    if found != Fate.IGNORE:
        stream.present |= 1 << distance
        if found == Fate.PLACE:
            stream.filled |= 1 << distance
            use_cells(flow, port, 1, s.cycle)
            weigh_port(flow, index)
        if distance == 0:
            count, filled = shift(stream)
    push_entry(flow, s.cycle, found, source, index, arrival.seq, count, filled)
    event = Event.FLOW_COMMIT if found == Fate.PLACE else Event.FLOW_IGNORED
    word = event_word(event, arrival.seq, source, max(0, arrival.length - flow.header_bytes))
    site.tell(s, FLOW_ARRIVE, word, extra(arrival.dport), 0)
    if wants_window(stream) or arrival.flags & ASK:
        control.mark(flow, s.cycle, Code.WINDOW, source, index)


@jit
def next_look(flow, cycle):
    """The next cycle in which a data message acts."""
    for ahead in range(1, AHEAD):
        if turns.data_acts(flow, cycle + ahead):
            return cycle + ahead
    return cycle + 1

"""From the NI's deliver FIFO into cells (section 6): the journal is drained, numbers are placed in their order."""

from lethe.spec.events import FLOW_PLACED, Event
from lethe_sim.golden.compile import apart, at, jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.lib import queue
from lethe_sim.golden.lib.bits import U0, cut, get, put_flit
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.services import site
from lethe_sim.golden.state import NEVER, NONE

from . import turns
from .congestion import weigh_port
from .send import CREDIT, DPORT, FLAGS, NOWAIT, RETX, SEQ, SPORT, USER, beat_place, pop_beat
from .state import (
    HEADER_IN,
    Drain,
    Fate,
    Transfer,
    cell_at,
    entry_at,
    in_at,
    number_at,
    out_at,
    peer_at,
    port_at,
    raise_limit,
)


@jit
def pops(s, flow):
    """Whether an entry of the journal is popped in this cycle."""
    if flow.drain != Drain.IDLE or flow.placing > 0 or not queue.shows(flow.journal[0], s.cycle):
        return False
    if turns.credit_acts(flow, s.cycle) or flow.settle_own_at == s.cycle:
        return False
    return entry_at(flow, 0).verdict >= Fate.RUN or s.below.delivers[0].valid


@jit
def next_look(flow, busy):
    """When a number is placed, or an entry may be popped; that a message's record is there, the NI says.

    ``busy``: flow does not become idle soon, so that nobody sees when numbers that are void are done with.
    """
    nearest = min(flow.settle_at, flow.settle_own_at)
    if busy and places_nothing(flow):
        return nearest
    if flow.placing > 0:
        return min(nearest, flow.place_at)
    if flow.journal[0].level > 0 and entry_at(flow, 0).verdict >= Fate.RUN:
        nearest = min(nearest, queue.shows_from(flow.journal[0]))
    return nearest


@jit
def takes_record(s, flow):
    """Whether the deliver record below is taken in this cycle."""
    return pops(s, flow) and entry_at(flow, 0).verdict < Fate.RUN


@jit
def takes_beat(flow):
    """Whether a beat is taken below."""
    return flow.drain in (Drain.HEADER, Drain.BODY, Drain.SHORT)


@apart
def pop(s, flow):
    """An entry of the journal: a run is the placer's, a message is drained."""
    entry, drained = entry_at(flow, 0), flow.draining[0]
    if entry.verdict == Fate.RUN:
        pop_run(flow, s.cycle)
        return
    drained.verdict, drained.source, drained.index = entry.verdict, entry.source, entry.index
    drained.seq, drained.count, drained.mask = entry.seq, entry.count, entry.mask
    queue.removed(flow.journal[0], flow.records_limit + 5, s.cycle)
    if drained.verdict == Fate.OWN:
        begin_own(s, flow)
    else:
        begin_message(s, flow)


@jit
def pop_run(flow, cycle):
    """An entry of the journal that is a run."""
    run = entry_at(flow, 0)
    queue.removed(flow.journal[0], flow.records_limit + 5, cycle)
    run_on(flow, cycle, run.source, run.index, run.seq, run.count, run.mask)


@jit
def begin_own(s, flow):
    """An own message is drained from the beats that wait."""
    drained, sending = flow.draining[0], flow.sending[0]
    flow.drained, flow.drain_length, flow.drain_cls = 0, sending.length, sending.cls
    flow.drain_cell, flow.settle_own_at = NONE, s.cycle + 1
    if drained.count > 0:
        flow.drain_cell = take_cell(flow, drained.index)
        cell = cell_at(flow, flow.drain_cell)
        cell.sport, cell.dport, cell.flags, cell.seq = sending.sport, sending.dport, sending.flags, 0
        cell.length = sending.length
    if flow.left > 0:
        flow.drain = Drain.OWN
    else:
        flow.transfer = Transfer.IDLE


@jit
def begin_message(s, flow):
    """A message is drained from the NI."""
    drained, record = flow.draining[0], s.below.delivers[0]
    flow.drained, flow.drain_length, flow.drain_cls = 0, record.length, record.cls
    flow.drain_beats = payload_flits(s.k, record.length)
    flow.drain_cell = take_cell(flow, drained.index) if drained.verdict == Fate.PLACE else NONE
    if record.length >= flow.header_bytes:
        flow.drain = Drain.HEADER
    elif flow.drain_beats > 0:
        flow.drain = Drain.SHORT
    s.words[HEADER_IN], s.words[HEADER_IN + 1] = U0, U0


@jit
def take_cell(flow, index):
    """The cell of a port that was freed last: nobody sees which cell it is, and its memory is still in the cache."""
    port = port_at(flow, index)
    port.free -= 1
    return number_at(flow, flow.at_free)[index * flow.cells + port.free]


@jit
def store(s, flow, cell, beat, low, high):
    """A beat goes into a cell."""
    word = at(s.words, flow.at_cell_words + 2 * (cell * flow.cell_beats + beat))
    word[0], word[1] = low, high


@apart
def beat(s, flow):
    """A beat is drained."""
    if flow.drain == Drain.OWN:
        own_beat(s, flow)
        return
    low, high = s.below.beats[0], s.below.beats[1]
    number = flow.drained
    flow.drained += 1
    if flow.drain == Drain.HEADER:
        put_flit(s.words, HEADER_IN, s.k.flit_bits, number, low, high)
        if flow.drained == flow.header_beats:
            flow.settle_at = s.cycle + 1
            flow.drain = Drain.BODY if flow.drain_beats > flow.header_beats else Drain.IDLE
        return
    if flow.drain_cell != NONE:
        store(s, flow, flow.drain_cell, number - flow.header_beats, low, high)
    if flow.drained >= flow.drain_beats:
        flow.drain = Drain.IDLE


@jit
def own_beat(s, flow):
    """A beat of an own message, without what is beyond its length."""
    if flow.drain_cell != NONE:
        word = at(s.words, beat_place(flow, 0))
        left = 8 * flow.drain_length - flow.drained * s.k.flit_bits
        low, high = cut(s.k.flit_bits, word[0], word[1], left)
        store(s, flow, flow.drain_cell, flow.drained, low, high)
    flow.drained += 1
    pop_beat(flow, s.cycle)
    if flow.left == 0:
        flow.drain, flow.transfer = Drain.IDLE, Transfer.IDLE


@jit
def header(s, field):
    """A field of the header of the message that is drained."""
    return get(s.words, HEADER_IN, field.shift, field.bits)


@apart
def settle(s, flow):
    """The header of a message is there: its credit acts, and its number is placed or parked."""
    flow.settle_at, flow.credited_at = NEVER, s.cycle
    drained = flow.draining[0]
    source, index = drained.source, drained.index
    socket = header(s, SPORT) & flow.port_mask
    if raise_limit(peer_at(flow, source), out_at(flow, source, socket), header(s, CREDIT)):
        flow.raised += 1
        flow.vain = 0
    if drained.verdict == Fate.PLACE:
        cell = cell_at(flow, flow.drain_cell)
        cell.sport, cell.dport, cell.seq = header(s, SPORT), header(s, DPORT), header(s, SEQ)
        cell.flags = header(s, FLAGS) & USER | (NOWAIT if header(s, RETX) else 0)
        cell.length = flow.drain_length - flow.header_bytes
        fill(flow, cell)
        if drained.count > 0:
            place(s, flow, flow.drain_cell)
        else:
            park(flow, flow.drain_cell)
    elif drained.verdict == Fate.VACANT and drained.count > 0:
        in_at(flow, source, index).gap = 1
    if drained.count > 0:
        seq = drained.seq + 1 & 255
        run_on(flow, s.cycle, source, index, seq, drained.count - 1, drained.mask >> 1)


@apart
def settle_own(s, flow):
    """An own message is placed."""
    flow.settle_own_at = NEVER
    if flow.drain_cell != NONE:
        fill(flow, cell_at(flow, flow.drain_cell))
        place(s, flow, flow.drain_cell)


@jit
def fill(flow, cell):
    """The rest of what a cell knows; its bytes count from now on."""
    drained = flow.draining[0]
    cell.source, cell.index, cell.cls = drained.source, drained.index, flow.drain_cls
    port_at(flow, drained.index).bytes += cell.length
    weigh_port(flow, drained.index)


@jit
def place(s, flow, number):
    """A cell goes to the list of its port."""
    cell = cell_at(flow, number)
    port, stream = port_at(flow, cell.index), in_at(flow, cell.source, cell.index)
    cell.gap, stream.gap = stream.gap, 0
    place_of = port.list_head + port.listed
    place_of = place_of - flow.cells if place_of >= flow.cells else place_of
    number_at(flow, flow.at_lists)[cell.index * flow.cells + place_of] = number
    port.listed += 1
    port.placed += 1
    weigh_port(flow, cell.index)
    flow.readable |= 1 << cell.index
    word = event_word(Event.FLOW_PLACE, cell.seq, cell.source, 0)
    site.tell(s, FLOW_PLACED, word, extra(cell.index), 0)


@jit
def park(flow, number):
    """A cell waits for the numbers before it."""
    cell = cell_at(flow, number)
    stream = in_at(flow, cell.source, cell.index)
    cell.parked, stream.parked = stream.parked, number - cell.index * flow.cells + 1


@jit
def unpark(flow, stream, index, seq):
    """The parked cell with a number, of a stream to a port."""
    behind = index * flow.cells - 1
    cell = cell_at(flow, behind + stream.parked)
    if cell.seq == seq:
        number = behind + stream.parked
        stream.parked = cell.parked
        return number
    while True:
        following = cell_at(flow, behind + cell.parked)
        if following.seq == seq:
            number = behind + cell.parked
            cell.parked = following.parked
            return number
        cell = following


@jit
def run_on(flow, cycle, source, index, seq, count, filled):
    """The placer takes a run of numbers."""
    flow.place_source, flow.place_index, flow.place_seq = source, index, seq
    flow.placing, flow.place_mask, flow.place_at = count, filled, cycle + 2


@apart
def step_placer(s, flow):
    """The next number of the run."""
    if flow.place_mask & 1:
        stream = in_at(flow, flow.place_source, flow.place_index)
        place(s, flow, unpark(flow, stream, flow.place_index, flow.place_seq))
        placed(flow)
    else:
        pass_number(flow)


@jit
def pass_number(flow):
    """The next number of the run, which is void."""
    in_at(flow, flow.place_source, flow.place_index).gap = 1
    placed(flow)


@jit
def placed(flow):
    """The run goes on to its next number."""
    flow.place_seq = flow.place_seq + 1 & 255
    flow.place_mask >>= 1
    flow.placing -= 1


@jit
def places_nothing(flow):
    """Whether all numbers that the placer has, or that wait for it, are void: no cell is placed."""
    if flow.placing > 0 and flow.place_mask:
        return False
    waiting, run = flow.journal[0].level, entry_at(flow, 0)
    return waiting == 0 or (waiting == 1 and run.verdict == Fate.RUN and run.mask == 0)


@jit
def catch_up(flow, cycle):
    """Bring numbers that are void to the start of ``cycle``."""
    idle_from = flow.stepped + 1
    while places_nothing(flow):
        if flow.placing > 0:
            now = max(flow.place_at, idle_from)
            if now >= cycle:
                return
            pass_number(flow)
            idle_from = now + 1
            continue
        now = max(queue.shows_from(flow.journal[0]), idle_from)
        if now >= cycle:
            return
        pop_run(flow, now)


@jit
def step(s, flow):
    """One cycle of drainer and placer."""
    drains, popping = flow.drain, pops(s, flow)
    if flow.placing > 0 and s.cycle >= flow.place_at:
        step_placer(s, flow)
    if turns.credit_acts(flow, s.cycle):
        settle(s, flow)
    if flow.settle_own_at == s.cycle:
        settle_own(s, flow)
    if popping:
        pop(s, flow)
    elif drains != Drain.IDLE:
        beat(s, flow)

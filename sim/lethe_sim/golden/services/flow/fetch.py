"""From cells to the host (section 7): a cell is fetched, shown, and freed when it is taken."""

from lethe.spec.events import FLOW_TAKEN, Event
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.lib import ahead
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.services import site
from lethe_sim.golden.state import NONE

from .congestion import weigh_port
from .state import OUTPUT, cell_at, number_at, port_at, use_cells

# From the choice of a port to the record of its cell, and to the cycle in which it can be shown.  If its port is not
# bound to its number, it can be flushed in the next one.
READ = 5


@jit
def wanted(s, flow):
    """The ports whose messages may be fetched: those that are read, and those that are not bound."""
    found = s.above.drives.receive_mask
    ready = flow.readable & ~found
    if ready:
        for index in range(flow.ports):
            if not port_at(flow, index).bound:
                found |= 1 << index
    return flow.readable & found


@jit
def step_fetch(s, flow):
    """One cycle of the fetch; returns whether its cell is to be flushed, which waits while the host takes or frees."""
    if flow.fetch_cell == NONE:
        if flow.readable:
            choose(s, flow)
        return False
    if s.cycle < flow.fetch_at + READ:
        return False
    if s.cycle == flow.fetch_at + READ:
        cell = cell_at(flow, flow.fetch_cell)
        port = port_at(flow, cell.index)
        flow.fetch_flush = not (port.bound and port.number == cell.dport)
    if flow.fetch_flush:
        return s.cycle > flow.fetch_at + READ
    if flow.show_cell == NONE:
        show(s, flow)
    return False


@apart
def choose(s, flow):
    """The next port with a cell that may be fetched."""
    ready = wanted(s, flow)
    if ready == 0:
        return
    index = flow.fetched
    while True:
        index = index + 1 & flow.port_mask
        if ready >> index & 1:
            break
    port = port_at(flow, index)
    flow.fetched, flow.fetch_at = index, s.cycle
    flow.fetch_cell = number_at(flow, flow.at_lists)[index * flow.cells + port.list_head]
    port.list_head = 0 if port.list_head + 1 == flow.cells else port.list_head + 1
    port.listed -= 1
    if port.listed == 0:
        flow.readable &= ~(1 << index)


@jit
def show(s, flow):
    """What was fetched is shown from the next cycle on."""
    flow.show_cell, flow.fetch_cell = flow.fetch_cell, NONE
    flow.show_taken, flow.show_read = 0, 0
    flow.show_beats = payload_flits(s.k, cell_at(flow, flow.show_cell).length)


@jit
def tell(s, flow, event, number):
    """An event of lane take."""
    cell = cell_at(flow, number)
    site.tell(s, FLOW_TAKEN, event_word(event, cell.seq, cell.source, cell.length), extra(cell.dport), 0)


@jit
def step_show(s, flow, shown):
    """One cycle of the show; ``shown`` is the cell that it had at the start of the cycle."""
    held = ahead.held(flow.output[0], flow.on_way)
    taken = site.takes_delivered_beat(s.above, 0)
    flow.on_way = ahead.step(flow.output[0], OUTPUT + 1, flow.on_way, taken, s.cycle)
    if shown == NONE:
        return
    if flow.show_read < flow.show_beats and held < OUTPUT:
        read(s, flow)
    if site.takes_delivery(s.above, 0):
        flow.show_taken = 1
        tell(s, flow, Event.FLOW_TAKE, shown)
    if flow.show_taken and flow.show_read == flow.show_beats:
        flow.freeing, flow.show_cell = shown, NONE


@jit
def read(s, flow):
    """A beat is read, and is on its way to the beat output, behind those that are."""
    source = flow.at_cell_words + 2 * (flow.show_cell * flow.cell_beats + flow.show_read)
    place = ahead.read(s.words, flow.output[0], OUTPUT + 1, flow.on_way, flow.at_output, source)
    flow.show_read += 1
    number_at(flow, flow.at_lasts)[place] = flow.show_read == flow.show_beats
    flow.on_way |= 1


@apart
def free(flow, number, cycle):
    """A cell is free again."""
    cell = cell_at(flow, number)
    port = port_at(flow, cell.index)
    number_at(flow, flow.at_free)[cell.index * flow.cells + port.free] = number
    port.free += 1
    use_cells(flow, port, -1, cycle)
    port.placed -= 1
    port.bytes -= cell.length
    weigh_port(flow, cell.index)


@jit
def step_free(s, flow, flushes, freed):
    """A cell that was shown is freed a cycle after it; one that is flushed as soon as the show lets it."""
    if freed != NONE:
        free(flow, freed, s.cycle)
    elif flushes and not site.takes_delivery(s.above, 0):
        tell(s, flow, Event.FLOW_FLUSHED, flow.fetch_cell)
        free(flow, flow.fetch_cell, s.cycle)
        flow.fetch_cell = NONE

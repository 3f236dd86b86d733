"""What a message brings with it from the stream the other way (section 8): credit and expected number."""

from lethe.spec.services.flow import MERGED, In
from lethe_sim.golden.compile import jit
from lethe_sim.golden.lib.bits import U0, mask, put
from lethe_sim.golden.state import MERGE, NEVER

from .send import ACK, CREDIT, RETX
from .state import ahead, in_at, offer_of, peer_at, row_at

# From the question to the answer.
_ANSWER = 3


@jit
def offer(s, flow):
    """The answer, in its cycle."""
    beat = s.below.beat
    beat[MERGE], beat[MERGE + 1] = U0, U0
    if flow.merge_at + _ANSWER != s.cycle:
        return
    flow.merge_open = peer_at(flow, flow.merge_node).source != In.CLOSED
    put(beat, MERGE, CREDIT.shift, CREDIT.bits, flow.merge_credit)
    put(beat, MERGE, ACK.shift, ACK.bits, flow.merge_expected)
    put(beat, MERGE, RETX.shift, RETX.bits, 1 if flow.merge_tries > 0 else 0)
    beat[MERGE + 1] = mask(MERGED)


@jit
def next_look(flow):
    """The cycle of the answer."""
    return NEVER if flow.merge_at == NEVER else flow.merge_at + _ANSWER


@jit
def keep(flow, row):
    """What the peer knows for sure when it has accepted the datagram: the least of what its copies carried."""
    if flow.merge_tries == 0:
        row.carried, row.credit = flow.merge_open, flow.merge_credit
        return
    row.carried = row.carried and flow.merge_open
    if ahead(row.credit, flow.merge_credit):
        row.credit = flow.merge_credit


@jit
def step(s, flow):
    """The answer is kept with its slot; the next question may come in the same cycle."""
    if flow.merge_at + _ANSWER == s.cycle:
        keep(flow, row_at(flow, flow.merge_slot))
        flow.merge_at = NEVER
    # A control word is answered by nothing.
    shows = s.below.shows
    if shows.merge_valid and shows.merge_slot < flow.data_slots:
        row = row_at(flow, shows.merge_slot)
        flow.merge_at, flow.merge_slot, flow.merge_tries = s.cycle, shows.merge_slot, shows.merge_tries
        stream = in_at(flow, row.destination, row.socket)
        flow.merge_node, flow.merge_expected = row.destination, stream.expected
        flow.merge_credit = offer_of(flow, stream, row.socket)

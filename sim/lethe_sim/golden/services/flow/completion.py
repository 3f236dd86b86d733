"""The job of a completion (section 9.1): a message or a control word has ended."""

from lethe.spec.events import Cause, Status
from lethe.spec.services.flow import WINDOW, Code, In, Out
from lethe_sim.golden.compile import apart, jit

from . import control, peers, probe
from .state import (
    count_live,
    finish,
    in_at,
    out_at,
    peer_at,
    port_at,
    push_completion,
    row_at,
    told,
    weigh,
)


@apart
def begin(s, flow):
    """The completion is taken below: its slot, and with it the row, may have another datagram soon."""
    shows = s.below.shows
    row, ending = row_at(flow, shows.slot), flow.ending[0]
    ending.code, ending.destination, ending.index, ending.socket = row.code, row.destination, row.index, row.socket
    ending.seq, ending.length, ending.credit, ending.carried = row.seq, row.length, row.credit, row.carried
    ending.base, ending.map, ending.probe = row.base, row.map, row.probe
    row.under_way = 0
    flow.ended_slot, flow.ended_generation = shows.slot, shows.generation
    flow.ended_destination, flow.ended_tag, flow.ended_status = shows.destination, shows.tag, shows.status
    flow.ended_cause, flow.ended_incarnation = shows.cause, shows.peer_incarnation


@apart
def act(s, flow):
    """The job."""
    row = flow.ending[0]
    accepted = flow.ended_status == Status.ACCEPTED
    if flow.ended_slot < flow.data_slots:
        end_message(s, flow, row, accepted)
    else:
        end_word(s, flow, row, accepted)


@jit
def tell(flow, row, index):
    """A source has the limit that came with a datagram; if it is closed, that was of a stream that is no more."""
    if row.carried and peer_at(flow, row.destination).source != In.CLOSED:
        told(in_at(flow, row.destination, index), row.credit)


@jit
def end_message(s, flow, row, accepted):
    """A message has ended: its number is finished, or is void."""
    node, index = row.destination, row.index
    socket, stream = port_at(flow, row.socket), out_at(flow, node, index)
    count_live(flow, node, -1)
    socket.sent_bytes -= row.length
    socket.sent -= 1
    push_completion(
        flow, s.cycle, flow.ended_slot, flow.ended_generation, flow.ended_destination, flow.ended_tag,
        flow.ended_status, flow.ended_cause, flow.ended_incarnation,
    )  # fmt: skip
    if accepted:
        finish(stream, row.seq)
        peer_at(flow, node).heard = 1
        tell(flow, row, row.socket)
    elif peer_at(flow, node).out == Out.UP:
        place = row.seq - stream.base & 255
        if place < WINDOW:
            stream.void |= 1 << place
            control.mark(flow, s.cycle, Code.VOID, node, index)
        if flow.ended_cause == Cause.RESTARTED:
            peers.leave(s, flow, node)


@jit
def end_word(s, flow, row, accepted):
    """A control word has ended: what it told is told, or is to be told again."""
    code, node = row.code, row.destination
    peer = peer_at(flow, node)
    asks, up = code in (Code.PING, Code.VOID), peer.out == Out.UP
    if asks:
        count_live(flow, node, -1)
    if row.probe:
        probe.end(s, flow, code, node, accepted, flow.ended_cause)
    else:
        control.ended(flow, s.cycle, code, node, row.index, accepted)
        if code == Code.PING:
            peer.asked = 0
    if accepted:
        if code == Code.VOID:
            stream = out_at(flow, node, row.index)
            for place in range(WINDOW):
                if row.map >> place & 1:
                    finish(stream, row.base + place)
        elif code == Code.WINDOW:
            tell(flow, row, row.index)
        if asks:
            peer.heard = 1
    elif flow.ended_cause != Cause.CANCELLED:
        if asks and up:
            if flow.ended_cause == Cause.RESTARTED or not peer.heard:
                peers.leave(s, flow, node)
        elif code in (Code.MAP, Code.WINDOW) and peer.source == In.OPEN:
            peer.source_age = 0
            peers.become_source(flow, node, In.MUTE)
    weigh(flow, node)

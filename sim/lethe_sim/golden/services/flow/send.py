"""Messages on their way down (section 5): records and beats are taken, attempted, and go to the NI as datagrams."""

from enum import IntEnum

from lethe.spec.events import FLOW_CARRIED, FLOW_MESSAGE, Cause, Event, Status
from lethe.spec.services.flow import HEADER, WINDOW, Flag, Out
from lethe.spec.trace import fields
from lethe_sim.golden.compile import apart, at, jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.lib import queue
from lethe_sim.golden.lib.bits import U0, flit_high, flit_low, put
from lethe_sim.golden.ni import deliver
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.ni.layouts import pack_uid
from lethe_sim.golden.services import site
from lethe_sim.golden.state import NEVER

from . import peers, probe, turns
from .congestion import weigh_port
from .control import silent
from .state import (
    BEATS,
    HEADER_OUT,
    Fate,
    Transfer,
    count_live,
    journal_has_room,
    message_at,
    out_at,
    peer_at,
    port_at,
    push_completion,
    push_entry,
    row_at,
    use_cells,
    weigh,
)

CREDIT, ACK, RETX, SEQ, FLAGS, SPORT, DPORT = fields(HEADER).values()
ASK, NOWAIT = 1 << Flag.ASK, 1 << Flag.NOWAIT
#: The flags that a host gives and gets.
USER = 0xFF & ~ASK & ~NOWAIT
# A limit is asked for when so many numbers or fewer are left below it.
_ASKED = 8
# Cycles from one attempt to the next.
_AGAIN = 4


class Attempt(IntEnum):
    """What an attempt ends with."""

    NONE = 0  # there is none
    WAIT = 1
    REFUSE = 2
    SEND = 3
    OWN = 4


@jit
def attempt_at(flow):
    """From which cycle on the record at the output is attempted."""
    return max(flow.records_in[0].visible + 2, flow.again_at)


@jit
def next_look(flow, cycle):
    """The next cycle in which an attempt may end otherwise than the last one; `NEVER` if jobs and credits decide it."""
    if not flow.vain:
        return max(attempt_at(flow), turns.quiet_from(flow))
    deadline = message_at(flow, 0).deadline
    if deadline == 0:
        return NEVER
    refused = flow.records_in[0].visible + deadline
    return refused if refused > cycle else attempt_at(flow)


@jit
def catch_up(flow, cycle):
    """Bring attempts that are in vain to the start of ``cycle``.  Behind a job that acted they begin anew, three cycles
    later: those before it do not count.
    """
    if flow.vain:
        # In the last step, perhaps: no attempt is made in the next cycles.
        again = max(flow.again_at, flow.stepped + 1, turns.quiet_from(flow))
        if again < cycle:
            again += cycle - again + _AGAIN - 1 & -_AGAIN
        flow.again_at = again


@jit
def is_due(s, flow):
    """Whether an attempt is made in this cycle."""
    if flow.records_in[0].level == 0 or s.cycle < attempt_at(flow) or flow.transfer != Transfer.IDLE:
        return False
    if flow.owed >= flow.data_slots + 4 or not turns.quiet(flow, s.cycle):
        return False
    return message_at(flow, 0).destination != s.node or may_go_up(s, flow)


@jit
def may_go_up(s, flow):
    """Whether a record to the own node may be attempted."""
    if turns.data_acts(flow, s.cycle) or turns.data_acts(flow, s.cycle + 1):
        return False
    length, late = message_at(flow, 0).length, 1 if flow.beat_at == s.cycle - 1 else 0
    return journal_has_room(flow, s.cycle) and (
        length > flow.mtu or flow.beats_in[0].level - late >= payload_flits(s.k, length)
    )


@jit
def fault(s, flow, message):
    """What is wrong with a record, or 0."""
    if message.mode != 0:
        return Cause.MODE
    if deliver.fifo_of(s.k, message.cls) != 0:
        return Cause.CLASS
    if message.destination >= flow.nodes:
        return Cause.DESTINATION
    port = port_at(flow, message.sport & flow.port_mask)
    if message.length > flow.mtu or message.length > port.send_limit:
        return Cause.LENGTH
    if not port.bound or port.number != message.sport:
        return Cause.NOT_BOUND
    return 0


@jit
def hindrance(s, flow, message):
    """What a sound record waits for, or 0."""
    own, index = message.destination == s.node, message.dport & flow.port_mask
    here, socket = port_at(flow, index), port_at(flow, message.sport & flow.port_mask)
    if not own:
        peer = peer_at(flow, message.destination)
        if silent(flow, s.cycle) or peer.out != Out.UP:
            return Cause.NOT_CONNECTED
        if peer.map >> index & 1:
            return Cause.CONGESTED
    elif here.congested:
        return Cause.CONGESTED
    if socket.sent_bytes + message.length > socket.send_limit or socket.sent >= flow.quota:
        return Cause.BUFFER
    if own:
        full = here.bound and here.number == message.dport and here.used == flow.cells
        return Cause.BUFFER if full else 0
    stream = out_at(flow, message.destination, index)
    if stream.next == stream.limit or (stream.next - stream.base & 255) >= WINDOW:
        return Cause.WINDOW
    return 0


@jit
def outcome(s, flow):
    """What the attempt of this cycle ends with: (`Attempt`, cause, what it found in its way)."""
    if not is_due(s, flow):
        return Attempt.NONE, 0, 0
    message = message_at(flow, 0)
    cause = fault(s, flow, message)
    if cause != 0:
        return Attempt.REFUSE, cause, 0
    cause = hindrance(s, flow, message)
    if cause == 0:
        return (Attempt.OWN if message.destination == s.node else Attempt.SEND), 0, 0
    if message.flags & NOWAIT:
        return Attempt.REFUSE, cause, cause
    if 0 < message.deadline <= s.cycle - flow.records_in[0].visible:
        return Attempt.REFUSE, Cause.DEADLINE, cause
    return Attempt.WAIT, cause, cause


@jit
def waits_on(s, flow):
    """Whether the record that waits for another node goes on waiting, and an attempt would change nothing."""
    message = message_at(flow, 0)
    if fault(s, flow, message) != 0:
        return False
    cause, peer = hindrance(s, flow, message), peer_at(flow, message.destination)
    if cause == Cause.NOT_CONNECTED:
        return peer.wanted > 0 and peer.out != Out.DOWN
    if cause in (Cause.CONGESTED, Cause.WINDOW):
        return peer.blocked > 0
    return cause != 0


@apart
def attempt(s, flow, found, cause, hinders):
    """The attempt of this cycle, which has this outcome."""
    message = message_at(flow, 0)
    if hinders != 0 and message.destination != s.node:
        meet(s, flow, message.destination, hinders)
    if found == Attempt.WAIT:
        flow.again_at, flow.vain = s.cycle + _AGAIN, message.destination != s.node
        return
    flow.vain = 0
    sending = flow.sending[0]
    sending.destination, sending.cls, sending.length = message.destination, message.cls, message.length
    sending.deadline, sending.retry_limit, sending.tag = message.deadline, message.retry_limit, message.tag
    sending.sport, sending.dport, sending.flags = message.sport, message.dport, message.flags & USER
    sending.seq = 0
    queue.removed(flow.records_in[0], 2, s.cycle)
    flow.again_at, flow.beat, flow.left = 0, 0, payload_flits(s.k, sending.length)
    flow.owed += 1
    if found == Attempt.REFUSE:
        refuse(s, flow, cause)
    elif found == Attempt.SEND:
        admit(s, flow)
    else:
        admit_own(s, flow)


@jit
def meet(s, flow, node, hinders):
    """What an attempt met in its way to a node: it is wanted, or somebody waits for it to speak."""
    peer = peer_at(flow, node)
    if hinders == Cause.NOT_CONNECTED:
        # A node that is silent has no peer that is UP.
        probe.want(flow, node, max(peer.wanted, 1))
        if peer.out == Out.DOWN:
            peers.become(s, flow, node, Out.CONNECTING)
    elif hinders in (Cause.CONGESTED, Cause.WINDOW):
        peer.blocked = 1
        weigh(flow, node)


@jit
def show(s, event, detail, sending):
    """An event of lane message."""
    word = event_word(event, detail, sending.destination, sending.length)
    site.tell(s, FLOW_MESSAGE, word, extra(sending.tag), 0)


@jit
def refuse(s, flow, cause):
    """A record is refused, and its beats are dropped."""
    sending = flow.sending[0]
    end_without_slot(s, flow, Status.REJECTED, cause, 0)
    flow.transfer = Transfer.DROP if flow.left > 0 else Transfer.IDLE
    show(s, Event.FLOW_REFUSED, cause, sending)


@jit
def end_without_slot(s, flow, status, cause, incarnation):
    """The completion of a message that has no slot of the NI."""
    sending = flow.sending[0]
    push_completion(
        flow, s.cycle, flow.slots, flow.generation, sending.destination, sending.tag, status, cause, incarnation
    )
    flow.generation = flow.generation + 1 & s.k.generation_mask


@jit
def admit(s, flow):
    """A message to another node has its number."""
    sending = flow.sending[0]
    stream = out_at(flow, sending.destination, sending.dport & flow.port_mask)
    reserve(flow, sending)
    sending.seq = stream.next
    if stream.asked == 0 and (stream.limit - stream.next & 255) <= _ASKED:
        sending.flags |= ASK
        stream.asked = 1
    stream.next = stream.next + 1 & 255
    count_live(flow, sending.destination, 1)
    write_header(s, sending)
    flow.transfer = Transfer.RECORD
    show(s, Event.FLOW_SEND, sending.seq, sending)


@jit
def reserve(flow, sending):
    """A message takes its part of its socket."""
    socket = port_at(flow, sending.sport & flow.port_mask)
    socket.sent_bytes += sending.length
    socket.sent += 1


@jit
def write_header(s, sending):
    """The header of the message that goes down; what the merge port writes is 0."""
    words = s.words
    words[HEADER_OUT], words[HEADER_OUT + 1] = U0, U0
    put(words, HEADER_OUT, SEQ.shift, SEQ.bits, sending.seq)
    put(words, HEADER_OUT, FLAGS.shift, FLAGS.bits, sending.flags)
    put(words, HEADER_OUT, SPORT.shift, SPORT.bits, sending.sport)
    put(words, HEADER_OUT, DPORT.shift, DPORT.bits, sending.dport)


@jit
def admit_own(s, flow):
    """A message to the own node is accepted."""
    sending = flow.sending[0]
    index = sending.dport & flow.port_mask
    port = port_at(flow, index)
    held = port.bound and port.number == sending.dport
    if held:
        use_cells(flow, port, 1, s.cycle)
        weigh_port(flow, index)
    push_entry(flow, s.cycle, Fate.OWN, s.node, index, 0, 1 if held else 0, 0)
    end_without_slot(s, flow, Status.ACCEPTED, Cause.NONE, s.incarnation)
    flow.transfer = Transfer.OWN
    show(s, Event.FLOW_SEND, 0, sending)


@jit
def beat_place(flow, behind):
    """Where a beat stands among the words, counted from the oldest."""
    return BEATS + 2 * queue.place_in(flow.beats_in[0], flow.beat_depth + 1, behind)


@jit
def offer(s, flow):
    """What the transfer offers below."""
    port, beat = s.below.drives, s.below.beat
    if port.send_valid:
        site.withdraw_record_of(port)
    if port.data_valid:
        port.data_valid, beat[0], beat[1] = 0, U0, U0
    if flow.transfer == Transfer.RECORD:
        sending = flow.sending[0]
        port.send_valid, port.destination, port.cls = 1, sending.destination, sending.cls
        port.length, port.tag = sending.length + flow.header_bytes, sending.tag
        port.deadline, port.retry_limit = sending.deadline, sending.retry_limit
        peer = peer_at(flow, sending.destination)
        port.expect, port.path = peer.incarnation, (sending.destination ^ sending.dport) & peer.paths
    elif flow.transfer == Transfer.HEADER:
        port.data_valid = 1
        beat[0] = flit_low(s.words, HEADER_OUT, s.k.flit_bits, flow.beat)
        beat[1] = flit_high(s.words, HEADER_OUT, s.k.flit_bits, flow.beat)
    elif flow.transfer == Transfer.BODY and queue.shows(flow.beats_in[0], s.cycle):
        port.data_valid = 1
        word = at(s.words, beat_place(flow, 0))
        beat[0], beat[1] = word[0], word[1]


@jit
def pop_beat(flow, cycle):
    """The oldest beat leaves."""
    queue.removed(flow.beats_in[0], flow.beat_depth + 1, cycle)
    flow.left -= 1


@jit
def step(s, flow, transfer):
    """The NI takes what the transfer offers, which began the cycle in this state; of what was refused beats are
    dropped.
    """
    below = s.below
    if transfer == Transfer.RECORD:
        if site.takes_record(below):
            flow.transfer = Transfer.HEADER
    elif transfer == Transfer.HEADER:
        if site.takes_beat(below):
            flow.beat += 1
            if flow.beat == flow.header_beats:
                flow.transfer = Transfer.BODY if flow.left > 0 else Transfer.IDLE
    elif transfer == Transfer.BODY:
        if site.takes_beat(below):
            pop_beat(flow, s.cycle)
            if flow.left == 0:
                flow.transfer = Transfer.IDLE
    elif transfer == Transfer.DROP and queue.shows(flow.beats_in[0], s.cycle):
        pop_beat(flow, s.cycle)
        if flow.left == 0:
            flow.transfer = Transfer.IDLE


@jit
def accepted(s, flow):
    """The NI has the whole datagram of the message that goes down: its slot is known."""
    sending, shows = flow.sending[0], s.below.shows
    slot, generation = shows.accepted_slot, shows.accepted_generation
    row = row_at(flow, slot)
    row.under_way, row.generation, row.code, row.probe = 1, generation, 0, 0
    row.destination, row.index = sending.destination, sending.dport & flow.port_mask
    row.socket, row.seq, row.length = sending.sport & flow.port_mask, sending.seq, sending.length
    row.credit, row.carried = 0, 0
    word = event_word(Event.FLOW_CARRY, sending.seq, sending.destination, sending.length)
    site.tell(s, FLOW_CARRIED, word, extra(sending.dport), pack_uid(s.node, s.incarnation, slot, generation))


@jit
def record_ready(s, flow):
    """Whether a record is taken from above."""
    if s.cycle < flow.ready_from or s.above.drives.quiesce:
        return False
    return queue.memory_level(flow.records_in[0], s.cycle) == 0


@jit
def beat_ready(s, flow):
    """Whether a beat is taken from above."""
    return flow.due > 0 and queue.memory_level(flow.beats_in[0], s.cycle) < flow.beat_depth


@jit
def take(s, flow):
    """What is offered above is taken, and waits."""
    above = s.above
    if site.takes_record(above):
        take_record(s, flow, message_at(flow, flow.records_in[0].level))
        queue.added(flow.records_in[0], 1, s.cycle)
    if site.takes_beat(above):
        word = at(s.words, beat_place(flow, flow.beats_in[0].level))
        word[0], word[1] = above.beat[0], above.beat[1]
        queue.added(flow.beats_in[0], 1, s.cycle)
        flow.due -= 1
        flow.beat_at = s.cycle


@jit
def take_record(s, flow, message):
    """The handshake of a record."""
    k, offered = s.k, s.above.drives
    message.destination, message.mode, message.length = offered.destination, offered.mode, offered.length
    message.cls, message.tag = offered.cls & k.class_mask, offered.tag & k.tag_mask
    message.deadline, message.retry_limit = offered.deadline & k.deadline_mask, offered.retry_limit
    message.sport, message.dport, message.flags = offered.sport, offered.dport, offered.flags
    flow.due += payload_flits(k, offered.length)

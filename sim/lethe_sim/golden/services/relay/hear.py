"""Control in (7.1): the header registers, and the job that heeds what control says."""

from lethe.spec.events import RELAY_HEARS, Event
from lethe.spec.services.relay import RecordState, Type
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.lib.bits import U0, put_flit
from lethe_sim.golden.services import site
from lethe_sim.golden.state import NONE

from . import records, tell
from .state import (
    CONTROL_IN,
    DATA_IN,
    Keeping,
    Phase,
    below,
    buffer_at,
    cell_at,
    entry_at,
    from_at,
    newer,
    relation,
    slot_at,
    to_at,
    unhold,
    wait_buffer,
    wait_slot,
)

# States of a header register.
EMPTY, FILLING, FULL = range(3)


@jit
def takes_record(relay, fifo):
    """Whether a record is taken of a FIFO."""
    return relay.registers[fifo].state == EMPTY


@jit
def takes_beat(s, relay, fifo):
    """Whether a beat is taken for its header."""
    register = relay.registers[fifo]
    if register.state == FILLING:
        return True
    stream = fifo + 1
    return register.state == EMPTY and s.below.delivers[stream].valid and s.below.delivers[stream].length > 0


@jit
def step(s, relay, fifo):
    """A header register fills."""
    register, stream = relay.registers[fifo], fifo + 1
    if register.state == FULL:
        return
    delivery, base = s.below.delivers[stream], CONTROL_IN if fifo == 0 else DATA_IN
    if register.state == EMPTY:
        if not site.takes_delivery(s.below, stream):
            return
        s.words[base], s.words[base + 1] = U0, U0
        register.source, register.cls, register.length, register.beat = (
            delivery.source, delivery.cls, delivery.length, 0
        )  # fmt: skip
        register.state = FILLING if delivery.length > 0 else FULL
    if register.state == FILLING and site.takes_delivered_beat(s.below, stream):
        if register.beat < relay.header_beats:
            put_flit(
                s.words, base, s.k.flit_bits, register.beat, s.below.beats[2 * stream], s.below.beats[2 * stream + 1]
            )
        register.beat += 1
        if delivery.last or (fifo == 1 and register.beat == relay.header_beats):
            register.state = FULL


@jit
def ignored(s, event, source):
    """What was heard means nothing."""
    site.tell(s, RELAY_HEARS, event_word(event, 0, source, 0), U0, 0)


@jit
def names_nodes(relay, header):
    """Whether a header names nodes, and its sender is one."""
    return header.hop < relay.nodes and header.source < relay.nodes and header.target < relay.nodes


@apart
def act(s, relay):
    """The job's first step."""
    register, heard = relay.registers[0], relay.heard[0]
    tell.read(s, CONTROL_IN, heard, relay.uid_mask)
    heard.hop = register.source
    sound = register.length == tell.HEADER_BYTES and register.cls == relay.control_class
    sound = sound and Type.ACKED <= heard.type <= Type.PULL and names_nodes(relay, heard)
    if not sound or (heard.type != Type.PULL and heard.source == heard.target):
        ignored(s, Event.RELAY_IGNORED, register.source)
        return
    if heard.type == Type.LINK and relay.radix > 0 and not fits(relay, heard):
        ignored(s, Event.RELAY_IGNORED, register.source)
        return
    shown = 0 if heard.type == Type.PULL else heard.uid & tell.LOW_UID
    word = event_word(Event.RELAY_HEARD, tell.detail(heard), heard.hop, 0)
    site.tell(s, RELAY_HEARS, word, extra(shown), tell.name(heard))
    if heard.type == Type.ACKED:
        if heard.source == s.node:
            own_acked(s, relay, heard)
        else:
            passing_acked(s, relay, heard)
    elif heard.type == Type.ACKACKED:
        if s.node not in (heard.source, heard.target):
            ackacked(s, relay, heard)
    elif heard.type == Type.REQUESTED:
        if heard.source == s.node:
            own_requested(s, relay, heard)
        elif heard.target != s.node:
            requested(s, relay, heard)
    elif heard.type == Type.LINK:
        if heard.target == s.node:
            link_here(s, relay, heard)
        elif heard.source != s.node:
            link(s, relay, heard)
    else:
        way = relation(relay, heard.hop)
        if way > 0:
            relay.pulled |= 1 << way
            records.rise(relay)


@jit
def fits(relay, heard):
    """Whether a LINK's depth is that of its sender's place (M24)."""
    way = relation(relay, heard.hop)
    if way == 1:
        return heard.depth == relay.depth - 1
    return way >= 2 and heard.depth == relay.depth + 1


@jit
def is_live(relay, heard):
    """Whether the message is live here, and is the one that the header means."""
    if heard.slot >= relay.slots:
        return False
    slot = slot_at(relay, heard.slot)
    return slot.live and slot.uid == heard.uid and slot.target == heard.target


@jit
def own_acked(s, relay, heard):
    """ACKED at the origin (M3)."""
    if heard.incarnation != s.incarnation:
        return
    if is_live(relay, heard):
        free_next(s, relay)
    else:
        conclude(s, relay, heard, False)


@jit
def free_next(s, relay):
    """A step: the first message of the stream is posted; after the one that was named, what follows."""
    heard = relay.heard[0]
    if records.posted(s, relay, heard.target) == heard.slot:
        conclude(s, relay, heard, True)
        relay.phase = Phase.FIRST
    else:
        relay.phase = Phase.FREE


@jit
def conclude(s, relay, heard, freed):
    """The stream goes on, or is drained (M4, M5)."""
    row = to_at(relay, heard.target)
    if heard.more:
        row.again = 1
    if row.live > 0:
        if row.again and (heard.more or freed):
            wait_slot(relay, row.head, s.cycle)
        return
    row.again = 0
    if heard.uid != relay.uid_mask:
        out = tell.blank(relay, Type.ACKACKED)
        out.source, out.target, out.incarnation = heard.source, heard.target, heard.incarnation
        out.uid = heard.uid
        tell.told_to(s, relay, heard.target)


@jit
def passing_acked(s, relay, heard):
    """ACKED at a relay (M19)."""
    number = records.find(relay, heard.source, heard.incarnation, heard.uid)
    if number != NONE and entry_at(relay, number).state == RecordState.ACKED and not heard.more:
        return
    ack(relay, heard.uid)
    tell.copied(relay.out[0], heard)
    tell.passed_to(s, relay, heard.source)


@jit
def ack(relay, uid):
    """A record becomes ACKED; a further step looks for the one before.  Where there is none to change, it is over."""
    heard = relay.heard[0]
    number = records.find(relay, heard.source, heard.incarnation, uid)
    relay.phase = Phase.FIRST
    if number != NONE and entry_at(relay, number).state != RecordState.ACKED:
        entry = entry_at(relay, number)
        records.acked(relay, entry)
        relay.phase, relay.job_number = Phase.ACK, entry.prev


@jit
def ackacked(s, relay, heard):
    """ACKACKED at a relay (M20)."""
    tell.copied(relay.out[0], heard)
    tell.passed_to(s, relay, heard.target)
    forget(s, relay, heard.uid)


@jit
def forget(s, relay, uid):
    """A record ends; a further step looks for the one before.  Where there is none, it is over."""
    heard = relay.heard[0]
    number = records.find(relay, heard.source, heard.incarnation, uid)
    relay.phase = Phase.FIRST
    if number != NONE:
        entry = entry_at(relay, number)
        records.end(s, relay, entry, Event.RELAY_FORGOT)
        relay.phase, relay.job_number = Phase.FORGET, entry.prev


@jit
def own_requested(s, relay, heard):
    """REQUESTED at the origin (M6)."""
    if heard.incarnation == s.incarnation and is_live(relay, heard):
        wait_slot(relay, heard.slot, s.cycle)


@jit
def send_held(s, relay, entry):
    """Data that are held are sent once more."""
    if buffer_at(relay, entry.buffer).state == Keeping.HELD:
        unhold(relay, entry.buffer)
        wait_buffer(relay, entry.buffer, s.cycle)
        records.become(relay, entry, RecordState.SENT)


@jit
def requested(s, relay, heard):
    """REQUESTED at a relay (M21)."""
    number = records.find(relay, heard.source, heard.incarnation, heard.uid)
    if number != NONE:
        entry = entry_at(relay, number)
        if entry.buffer != NONE:
            send_held(s, relay, entry)
            return
        if entry.state in (RecordState.ACKED, RecordState.REQUESTED):
            return
    else:
        number = records.way(relay, heard.source, heard.uid)
        if number != NONE:
            records.make(s, relay, number, heard, 0)
    if number != NONE:
        records.become(relay, entry_at(relay, number), RecordState.REQUESTED)
    tell.copied(relay.out[0], heard)
    tell.passed_to(s, relay, heard.source)


@jit
def link_here(s, relay, heard):
    """LINK at the destination (M14)."""
    row = from_at(relay, heard.source)
    if to_at(relay, heard.source).dead or (row.known and newer(s, row.incarnation, heard.incarnation)):
        return
    if not row.known or newer(s, heard.incarnation, row.incarnation):
        ask(s, relay)
    elif heard.prev == row.mark:
        if not row.hungry:
            ask(s, relay)
    elif row.mark != relay.uid_mask and below(relay, heard.uid, row.mark):
        answer(s, relay, heard.source, 0)
    elif not row.hungry:
        if relay.parked > 0:
            relay.phase = Phase.SEARCH
        else:
            ask(s, relay)


@jit
def search(s, relay):
    """A step: the data are asked for unless the message is parked."""
    if not is_parked(relay, relay.heard[0]):
        ask(s, relay)


@jit
def is_parked(relay, heard):
    """Whether a message is parked."""
    for number in range(relay.cells):
        cell = cell_at(relay, number)
        if cell.parked and cell.source == heard.source and cell.uid == heard.uid:
            return True
    return False


@jit
def ask(s, relay):
    """REQUESTED is told for the message that was heard of."""
    tell.of_heard(relay, Type.REQUESTED)
    tell.told_up(s, relay)


@jit
def answer(s, relay, source, more):
    """ACKED is told for a source: what is posted."""
    row, out = from_at(relay, source), tell.blank(relay, Type.ACKED)
    out.more, out.source, out.target = more, source, s.node
    out.incarnation, out.slot, out.uid = row.incarnation, row.slot, row.mark
    tell.told_up(s, relay)


@jit
def answer_acked(s, relay):
    """ACKED is told for a message that a record says is ACKED."""
    out = tell.of_heard(relay, Type.ACKED)
    out.prev, out.cls = 0, 0
    tell.told_up(s, relay)


@jit
def link(s, relay, heard):
    """LINK at a relay (M23)."""
    number = records.find(relay, heard.source, heard.incarnation, heard.uid)
    if number != NONE:
        entry = entry_at(relay, number)
        if entry.state == RecordState.ACKED:
            answer_acked(s, relay)
            return
        if entry.buffer != NONE and not heard.thru:
            return
        if entry.state == RecordState.REQUESTED:
            ask(s, relay)
            return
        if entry.state == RecordState.LINKED and not heard.thru:
            return
        if entry.buffer == NONE and entry.state == RecordState.SENT:
            records.become(relay, entry, RecordState.LINKED)
    else:
        number = records.way(relay, heard.source, heard.uid)
        if number != NONE:
            records.make(s, relay, number, heard, 0)
            records.become(relay, entry_at(relay, number), RecordState.LINKED)
    tell.copied(relay.out[0], heard)
    relay.out[0].depth = relay.depth
    records.told(relay, number, tell.passed_to(s, relay, heard.target))

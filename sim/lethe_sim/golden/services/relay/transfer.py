"""The transfers to the NI (section 6): control, and data that come through, from a slot, or from a buffer."""

from lethe.spec.events import RELAY_HOPS, Event
from lethe_sim.golden.compile import apart, at, jit
from lethe_sim.golden.events import event_word, extra
from lethe_sim.golden.lib import ahead, queue
from lethe_sim.golden.lib.bits import U0, flit_high, flit_low
from lethe_sim.golden.ni import host_port
from lethe_sim.golden.ni.accept import payload_flits
from lethe_sim.golden.services import site
from lethe_sim.golden.state import NONE, Queues

from . import memory, tell
from .state import (
    CONTROL_OUT,
    DATA_OUT,
    READ,
    HostIn,
    Moving,
    Of,
    buffer_at,
    give_free,
    give_free_buffer,
    hold,
    row_at,
    slot_at,
)


@jit
def busy(relay):
    """Whether the transfer of data, or a record or beats of the host's, have `send`."""
    return relay.moving != Moving.IDLE or relay.passing or relay.host == HostIn.PASS


@jit
def at_once(s, relay):
    """Whether what comes can go on as it comes."""
    return not busy(relay) and relay.sending[0].level == 0 and s.below.shows.send_ready


@jit
def give(s, relay, of, number, length):
    """The transfer of data has the header in `out`, and a source of beats."""
    tell.copied(relay.told_data[0], relay.out[0])
    relay.moving, relay.moving_of, relay.moving_number = Moving.RECORD, of, number
    relay.moving_length, relay.moving_beat = length, 0
    relay.moving_left = payload_flits(s.k, length + tell.HEADER_BYTES) - relay.header_beats
    relay.read_from, relay.read = s.cycle + 1, 0
    tell.write(s, DATA_OUT, relay.told_data[0])


@jit
def finds_slot(s):
    """Whether the NI has a free slot, be it one that nobody can take yet."""
    return queue.count(s.k, s.ni, Queues.FREE) > 0


@jit
def waits(s, relay):
    """Whether the transfer of data does nothing but wait for a slot of the NI."""
    if relay.moving != Moving.RECORD or relay.read_way or finds_slot(s):
        return False
    if relay.moving_of == Of.THROUGH or relay.reading[0].level >= READ:
        return True
    return s.cycle >= relay.read_from and relay.read >= payload_flits(s.k, relay.moving_length)


@jit
def passes_beat(relay):
    """Whether a beat passes now, if there is one."""
    return relay.moving == Moving.BODY and relay.moving_of == Of.THROUGH


@jit
def offer(s, relay):
    """What the transfers offer below."""
    offer_control(s, relay)
    port, beat = s.below.drives, s.below.beat
    if relay.moving == Moving.RECORD:
        header = relay.told_data[0]
        port.send_valid, port.destination, port.cls, port.mode = 1, header.hop, relay.data_class, 0
        port.length, port.tag = relay.moving_length + tell.HEADER_BYTES, 0
        port.deadline, port.retry_limit, port.expect = relay.hop_cycles, 0, 0
    elif relay.moving == Moving.HEADER:
        port.data_valid = 1
        beat[0] = flit_low(s.words, DATA_OUT, s.k.flit_bits, relay.moving_beat)
        beat[1] = flit_high(s.words, DATA_OUT, s.k.flit_bits, relay.moving_beat)
    elif relay.moving == Moving.BODY:
        if relay.moving_of == Of.THROUGH:
            # The beat itself is put there by `pass_beat`, when the NI has shown it.
            port.data_valid = 1 if host_port.deliver_data_valid(s.k, s.ni, s.cycle, 2) else 0
        elif queue.shows(relay.reading[0], s.cycle):
            port.data_valid = 1
            word = at(s.words, relay.at_read + 2 * relay.reading[0].head)
            beat[0], beat[1] = word[0], word[1]


@jit
def pass_beat(s, relay):
    """The beat that comes is offered."""
    if passes_beat(relay):
        s.below.beat[0], s.below.beat[1] = s.below.beats[4], s.below.beats[5]


@jit
def offer_control(s, relay):
    """What that of control offers."""
    control, beat = s.below.control, s.below.beat
    if control.send_valid:
        site.withdraw_record_of(control)
    if control.data_valid:
        control.data_valid, beat[2], beat[3] = 0, U0, U0
    if relay.control == Moving.RECORD:
        control.send_valid, control.destination, control.cls = 1, relay.told_control[0].hop, relay.control_class
        control.length, control.deadline = tell.HEADER_BYTES, relay.hop_cycles
    elif relay.control == Moving.BODY:
        control.data_valid = 1
        beat[2] = flit_low(s.words, CONTROL_OUT, s.k.flit_bits, relay.control_beat)
        beat[3] = flit_high(s.words, CONTROL_OUT, s.k.flit_bits, relay.control_beat)


@jit
def step_control(s, relay):
    """The NI takes what that of control offers."""
    offered, shows = s.below.control, s.below.shows
    if relay.control == Moving.RECORD:
        if shows.control_ready:
            relay.control = Moving.BODY
    elif relay.control == Moving.BODY and offered.data_valid and shows.control_data_ready:
        relay.control_beat += 1
        if relay.control_beat == relay.header_beats:
            relay.control = Moving.IDLE


@jit
def step(s, relay, moving, halted):
    """The NI takes what the transfer of data offers, which began the cycle in this state; returns whether it ends.

    ``halted``: whether relay was before this cycle.
    """
    taken = False
    if relay.reading[0].level > 0 and moving == Moving.BODY and relay.moving_of != Of.THROUGH:
        taken = site.takes_beat(s.below)
    step_reading(s, relay, moving, taken, halted)
    if moving == Moving.RECORD:
        if site.takes_record(s.below):
            relay.moving = Moving.HEADER
            show(s, relay)
    elif moving == Moving.HEADER:
        if site.takes_beat(s.below):
            relay.moving_beat += 1
            if relay.moving_beat == relay.header_beats:
                if relay.moving_left == 0:
                    return True
                relay.moving = Moving.BODY
    elif moving == Moving.BODY and site.takes_beat(s.below):
        relay.moving_left -= 1
        return relay.moving_left == 0
    return False


@jit
def show(s, relay):
    """The event of a hop."""
    header = relay.told_data[0]
    word = event_word(Event.RELAY_HOP, header.replay, header.hop, relay.moving_length)
    site.tell(s, RELAY_HOPS, word, extra(header.uid & tell.LOW_UID), tell.name(header))


@jit
def step_reading(s, relay, moving, taken, halted):
    """Beats of a slot or buffer are read ahead."""
    held = ahead.held(relay.reading[0], relay.read_way)
    if relay.checks:
        where = memory.OF_SLOT if relay.moving_of == Of.SLOT else memory.OF_BUFFER
        relay.read_way = memory.comes(relay, relay.read_way, relay.read_wrong, where, halted)
        relay.read_wrong = relay.read_wrong << 1 & 2
    relay.read_way = ahead.step(relay.reading[0], READ + 1, relay.read_way, taken, s.cycle)
    if moving == Moving.IDLE or relay.moving_of == Of.THROUGH or s.cycle < relay.read_from or held >= READ or halted:
        return
    if relay.read < payload_flits(s.k, relay.moving_length):
        read(s, relay)


@jit
def read(s, relay):
    """A beat is read, and is on its way to the output."""
    base = relay.at_slot_words if relay.moving_of == Of.SLOT else relay.at_buffer_words
    source = base + 2 * (relay.moving_number * relay.cell_beats + relay.read)
    ahead.read(s.words, relay.reading[0], READ + 1, relay.read_way, relay.at_read, source)
    relay.read_wrong |= memory.is_wrong(s, relay, source)
    relay.read += 1
    relay.read_way |= 1


@jit
def end_early(relay):
    """The transfer ends in this cycle: what was let go before is free again; it is the first to be appended."""
    number = relay.moving_number
    if relay.moving_of == Of.SLOT:
        if slot_at(relay, number).live:
            return False
        give_free(relay, relay.free_slots[0], number)
        relay.free_slots[0].fresh = 1
        return True
    if number == NONE:
        return True
    if buffer_at(relay, number).record != NONE:
        return False
    give_free_buffer(relay, number)
    relay.free_buffers[0].fresh = 1
    return True


@apart
def end(s, relay):
    """The transfer has ended; what a job did in this cycle counts."""
    number = relay.moving_number
    if relay.moving_of == Of.SLOT:
        if not slot_at(relay, number).live:
            give_free(relay, relay.free_slots[0], number)
    elif buffer_at(relay, number).record == NONE:
        give_free_buffer(relay, number)
    else:
        hold(relay, number, s.cycle)


@jit
def accepted(s, relay, moving):
    """A datagram has its slot: of a transfer, or of the host."""
    shows = s.below.shows
    row = row_at(relay, shows.accepted_slot)
    row.mine, row.generation = 1, shows.accepted_generation
    if shows.accepted_control:
        row.destination = relay.told_control[0].hop
    elif moving != Moving.IDLE:
        row.destination = relay.told_data[0].hop
    else:
        row.mine = 0

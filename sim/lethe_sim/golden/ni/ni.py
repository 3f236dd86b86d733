"""The network interface as a whole: reset, one cycle, what can be seen from outside, and when to look again."""

import numpy as np

from lethe.spec.events import LANE_RX, Event
from lethe.spec.stages import ACTS
from lethe.spec.trace import NI_BEAT, NI_FLAG_BITS, NI_FLAGS, NI_FLIT
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import emit, event_word
from lethe_sim.golden.lib import queue
from lethe_sim.golden.state import (
    ACK_LADDER,
    AHEAD,
    FIRST,
    LAST,
    LEFT_COMPLETIONS,
    NEVER,
    NONE,
    SEND_LADDER,
    VALID,
    Queues,
    Showing,
)
from lethe_sim.golden.study import limit

from . import (
    accept,
    action,
    choose,
    completion,
    deliver,
    host_port,
    ladder,
    layouts,
    paths,
    receive_table,
    receiver,
    send_table,
    silence,
    transmitter,
)
from .host_port import Flow

(
    _LINK_VALID, _LINK_FIRST, _LINK_LAST, _IDLE, _SEND_READY, _DATA_READY, _DELIVER, _DELIVER_DATA, _DELIVER_LAST,
    _COMPLETION, _CONTROL_READY, _CONTROL_DATA_READY,
) = (1 << bit for bit in range(len(NI_FLAG_BITS)))  # fmt: skip


@apart
def reset(k, ni, cycle):
    """All state as after reset, from ``cycle`` on (section 4.1); the generator goes on."""
    ni.time_zero = cycle
    ni.ready_from = cycle + k.initial
    ni.busy = 0
    ni.entries = 0
    ni.accepting[0].beats, ni.accepting[1].beats = 0, 0
    ni.next_grant = cycle
    ni.tx_clear = cycle
    ni.tx_slot = NONE
    ni.tx_last = NONE
    ni.granted = NONE
    ni.merge_at = NEVER
    ni.launch_at = NEVER
    ni.finish_from, ni.finish_free = NEVER, cycle
    ni.under_way = 0
    ni.rx_count = 0
    ni.offers = 0
    deliver.drop(ni)
    ni.ends, ni.asked, ni.fragments = 0, 0, 0
    ni.chosen = NONE
    for place in range(k.tx_ring):
        showing = Showing(ni, k.at_tx, place)
        showing.cycle, showing.word = NONE, 0
    for number in range(Queues.DELIVER + k.fifos):
        clear_queue(queue.queue_of(k, ni, number))
    for fifo in range(k.fifos):
        clear_queue(deliver.data_queue(k, ni, fifo))
    for slot in range(k.slots):
        datagram = send_table.slot_of(k, ni, slot)
        datagram.since, datagram.launched = NEVER, NONE
        datagram.again, datagram.lingers = 0, 0
        # One a cycle; of the data slots nobody looks before the NI is ready.
        queue.push(k, ni, accept.free_queue_of(k, slot), layouts.pack_life(slot, 0), 0, cycle + slot)
    limit.clear(k, ni)
    silence.clear(k, ni)
    paths.clear(k, ni)
    receive_table.clear(k, ni)
    ni.sweep_index, ni.sweep_acts = 0, NONE
    ladder.clear(k, ni)


@jit
def clear_queue(empty):
    """A queue as after reset."""
    empty.head, empty.level, empty.visible = 0, 0, 0


@apart
def begin_reset(k, ni, ev, cycle):
    """The first cycle of a node reset: a new incarnation, and what is lost is reported (section 4.11)."""
    if ni.launch_at < cycle:
        transmitter.launch(k, ni)  # it has drawn its jitter
    lost = deliver.records_held(k, ni)
    ni.incarnation_now = 1 if ni.incarnation_now == k.incarnation_mask else ni.incarnation_now + 1
    emit(ev, cycle, ni.number, LANE_RX, event_word(Event.RESET, 0, 0, lost), 0)


@jit
def step(k, ni, data, ev, port, beat, cycle):
    """One cycle of an NI that is not in reset, whose host drives ``port`` and the words at ``beat``; returns `Flow`.

    The order is such that every rule sees the state at the start of the cycle: first what takes and judges,
    then what pushes and stores, at last what is known of the next cycles.
    """
    if ni.launch_at < cycle:
        transmitter.launch(k, ni)
    deliver.take_offers(k, ni, data, cycle)
    sends_allowed, ack_room = ladder.has_room(ni, SEND_LADDER, cycle), ladder.has_room(ni, ACK_LADDER, cycle)
    # Only one of the accept contexts moves in a cycle.
    control = 1 if host_port.control_moves(k, ni, port, cycle) else 0
    done = Flow.CONTROL if control else 0
    offered = host_port.context(port, control)
    takes_beat = offered.data_valid and host_port.data_ready(ni, control)
    taken = NONE
    deliver.step(k, ni, ev, port, cycle)
    if offered.send_valid and not takes_beat and (control or host_port.send_ready(k, ni, port, cycle)):
        taken = accept.take_record(k, ni, cycle, control)
    completion.step(k, ni, ev, port, cycle)
    if k.merge_bits > 0 and ni.merge_at == cycle:
        transmitter.merge(k, ni, data, cycle)
    held = port.link_disable or ni.away > 0
    if not held and transmitter.grant(k, ni, data, cycle, sends_allowed):
        done |= Flow.SHOWING
    ladder.poll(k, ni, SEND_LADDER, cycle)
    ladder.poll(k, ni, ACK_LADDER, cycle)
    choose.choose_cancel(k, ni, port, cycle)
    if port.sweep_valid:
        choose.choose_sweep(k, ni, port, cycle)

    now = 1 << (cycle & AHEAD - 1)
    if ni.fragments & now:
        ni.fragments ^= now
        receiver.fragment(ni, ev, cycle)
    if ni.ends & now:
        ni.ends ^= now
        action.act_message(k, ni, ev, cycle, ack_room, port.refusal)
    elif ni.asked & now:
        ni.asked ^= now
        action.act_request(k, ni, ev, cycle)
    if ni.launch_at == cycle:
        transmitter.launch(k, ni)
    if ni.probing != NONE:
        silence.probed(k, ni, cycle, held)

    if taken != NONE:
        done |= Flow.SEND
        if accept.store_record(k, ni, ev, offered, cycle, taken, control):
            done |= Flow.ACCEPTED
    elif takes_beat:
        done |= Flow.DATA
        if accept.store_beat(k, ni, data, ev, beat[2 * control], beat[2 * control + 1], cycle, control):
            done |= Flow.ACCEPTED
    if held:
        ni.time_zero += 1
    choose.choose(k, ni, cycle + 1)
    if transmitter.may_judge(k, ni, cycle) and transmitter.judge(k, ni, data):
        done |= Flow.SHOWING
    return done


@jit
def idle(k, ni, cycle):
    """`idle` in ``cycle``, before the NI's step (section 4.10)."""
    if cycle < ni.ready_from or ni.busy > 0 or ni.entries > 0 or receiver.was_under_way(ni, cycle):
        return False
    if cycle < ni.next_grant or cycle < ni.tx_clear or queue.count(k, ni, Queues.REPLY) > 0:
        return False
    if ni.ends & ~(1 << (cycle + ACTS & AHEAD - 1)):
        return False
    return deliver.empty(k, ni)


@apart
def outputs(k, ni, data, port, cycle, row, base):
    """Write what the NI's ports show in ``cycle`` into trace words 12 to 16 (section 7)."""
    flags = transmitter.flags_in(k, ni, cycle)
    word = 0
    if flags & VALID:
        word |= _LINK_VALID | (_LINK_FIRST if flags & FIRST else 0) | (_LINK_LAST if flags & LAST else 0)
        row[base + NI_FLIT], row[base + NI_FLIT + 1] = transmitter.words_in(k, data, cycle)
    if idle(k, ni, cycle):
        word |= _IDLE
    if not host_port.control_moves(k, ni, port, cycle):
        if host_port.send_ready(k, ni, port, cycle):
            word |= _SEND_READY
        if host_port.data_ready(ni, 0):
            word |= _DATA_READY
    if k.control_slots > 0:
        if host_port.slot_ready(k, ni, port, cycle, 1):
            word |= _CONTROL_READY
        if host_port.data_ready(ni, 1):
            word |= _CONTROL_DATA_READY
    if host_port.deliver_valid(k, ni, cycle, 0):
        word |= _DELIVER
    if host_port.deliver_data_valid(k, ni, cycle, 0):
        low, high, last = host_port.deliver_beat(k, ni, data, 0)
        word |= _DELIVER_DATA | (_DELIVER_LAST if last else 0)
        row[base + NI_BEAT], row[base + NI_BEAT + 1] = low, high
    if host_port.completion_valid(k, ni, cycle):
        word |= _COMPLETION
    row[base + NI_FLAGS] = np.uint64(word)


@jit
def shows_from(k, ni, number):
    """From which cycle on a queue shows an entry; `NEVER` if it is empty."""
    return queue.shows_from(queue.queue_of(k, ni, number))


@jit
def next_ahead(ni, cycle):
    """The first cycle from ``cycle`` on in which a message or a request acts or a fragment is shown, or `NEVER`."""
    ahead = receiver.from_cycle(ni.ends | ni.asked | ni.fragments, cycle)
    if ahead == 0:
        return NEVER
    while ahead & 1 == 0:
        ahead >>= 1
        cycle += 1
    return cycle


@jit
def next_look(k, ni, cycle, left=0):
    """The next cycle in which an NI that nobody disturbs has something to do by itself.

    ``left``: deliver FIFOs of which nothing is taken, a bit each, and completions likewise.
    """
    soon = cycle + 1
    if ni.granted != NONE or ni.probing != NONE or ni.away > 0:
        return soon
    if host_port.data_ready(ni, 0) or host_port.data_ready(ni, 1):
        return soon
    nearest = next_ahead(ni, soon)
    if nearest == soon:
        return soon
    if k.kept:
        if k.acceptance and receiver.arrived(k, ni, soon):
            return soon
        nearest = min(nearest, ni.merge_at)
    # A choice is made at the end of the cycle before.
    nearest = min(nearest, ni.finish_from - 1)
    if ni.launch_at < NEVER:
        nearest = min(nearest, ni.launch_due)
    waiting = min(shows_from(k, ni, Queues.REPLY), shows_from(k, ni, Queues.NEW), shows_from(k, ni, Queues.REPEATS))
    if k.control_slots > 0:
        waiting = min(waiting, shows_from(k, ni, Queues.CONTROL))
    if waiting < NEVER:
        nearest = min(nearest, max(waiting, ni.next_grant, ni.ready_from))
    if not left & LEFT_COMPLETIONS:
        nearest = min(nearest, shows_from(k, ni, Queues.COMPLETION))
    for which in range(ACK_LADDER + 1):
        hold = ni.ladders[which]
        nearest = min(nearest, soon if hold.full else hold.wake)
    for fifo in range(k.fifos):
        if left >> fifo & 1:
            continue
        nearest = min(nearest, shows_from(k, ni, Queues.DELIVER + fifo))
        nearest = min(nearest, queue.shows_from(deliver.data_queue(k, ni, fifo)))
    released = completion.next_release(k, ni)
    if released < NEVER:
        nearest = min(nearest, released + ni.time_zero)
    return max(nearest, soon)

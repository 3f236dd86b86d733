"""Accept (sections 4.2 and 4.12): a record and its payload go from the host port into a slot.

There are two contexts: ``control`` is 0 for what `send` offers, 1 for `send_control`.
"""

from lethe.spec.events import LANE_ACCEPT, Cause, Event, Kind
from lethe_sim.golden.compile import jit
from lethe_sim.golden.events import emit, event_word, extend, extra
from lethe_sim.golden.lib import queue
from lethe_sim.golden.lib.bits import cut, put_flit
from lethe_sim.golden.state import NEVER, NONE, Queues
from lethe_sim.golden.study import limit

from . import layouts, send_table


@jit
def payload_flits(k, length):
    """Flits of a payload of ``length`` bytes."""
    shift = k.flit_shift
    return length + (1 << shift) - 1 >> shift


@jit
def free_queue(control):
    """The free queue of an accept context."""
    return Queues.CONTROL_FREE if control else Queues.FREE


@jit
def free_queue_of(k, slot):
    """The free queue to which a slot returns."""
    return free_queue(slot >= k.first_control_slot)


@jit
def launch_queue(control):
    """Where what an accept context has accepted waits for its first grant."""
    return Queues.CONTROL if control else Queues.NEW


@jit
def take_record(k, ni, cycle, control):
    """The handshake: pop the free queue; returns the life that begins."""
    number = free_queue(control)
    life = queue.oldest(k, ni, number).a
    queue.pop(k, ni, number, cycle)
    ni.busy += 1
    return life


@jit
def refusal(k, ni, port, control):
    """Why a record is refused, or 0."""
    if port.destination >= k.nodes or port.destination == ni.number:
        return Cause.DESTINATION
    if port.mode > 1:
        return Cause.MODE
    if port.length > k.mtu:
        return Cause.LENGTH
    if control and port.cls & k.class_mask < k.first_control:
        return Cause.CLASS
    return 0


@jit
def store_record(k, ni, ev, port, cycle, life, control):
    """Write the record that was taken in this cycle into its slot; returns whether it is accepted at once."""
    slot, generation = layouts.unpack_life(life)
    datagram = send_table.slot_of(k, ni, slot)
    datagram.generation = generation
    datagram.since = NEVER
    datagram.destination = port.destination
    datagram.cls = port.cls & k.class_mask
    datagram.mode = port.mode
    datagram.length = port.length
    datagram.deadline = port.deadline & k.deadline_mask  # relative until accepted
    datagram.retry_limit = port.retry_limit
    datagram.tag = port.tag & k.tag_mask
    datagram.expect = port.expect & k.incarnation_mask
    datagram.path = port.path & (1 << k.path_bits) - 1
    datagram.cause = refusal(k, ni, port, control)
    limit.begun(k, ni, slot, port.destination)
    accepting = ni.accepting[control]
    accepting.slot = slot
    accepting.beat = 0
    accepting.beats = payload_flits(k, port.length)
    if port.length == 0:
        accept(k, ni, ev, cycle, control)
        return True
    return False


@jit
def store_beat(k, ni, data, ev, low, high, cycle, control):
    """Take one payload beat; returns whether it was the last."""
    accepting = ni.accepting[control]
    slot, beat = accepting.slot, accepting.beat
    flit_bits = k.flit_bits
    if beat < k.slot_flits:
        left = 8 * send_table.slot_of(k, ni, slot).length - beat * flit_bits
        low, high = cut(flit_bits, low, high, left)
        put_flit(data, k.at_payload + slot * k.slot_words, flit_bits, beat, low, high)
    accepting.beat = beat + 1
    if beat + 1 < accepting.beats:
        return False
    accepting.beats = 0
    accept(k, ni, ev, cycle, control)
    return True


@jit
def accept(k, ni, ev, cycle, control):
    """The datagram is fully stored: its slot is live, and waits in the new or the control queue."""
    slot = ni.accepting[control].slot
    datagram = send_table.slot_of(k, ni, slot)
    datagram.since = cycle
    deadline = datagram.deadline
    datagram.deadline = cycle - ni.time_zero + deadline if deadline > 0 else NONE
    queue.push(k, ni, launch_queue(control), layouts.pack_life(slot, datagram.generation), 0, cycle)
    kind = Kind.BE if datagram.mode == 1 and datagram.cause == 0 else Kind.SEND
    word = event_word(Event.ACCEPT, kind, datagram.destination, datagram.length)
    uid = layouts.pack_uid(ni.number, ni.incarnation_now, slot, datagram.generation)
    emit(ev, cycle, ni.number, LANE_ACCEPT, word, uid)
    extend(ev, extra(datagram.tag))

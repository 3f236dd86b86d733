"""The host port: every flow between an NI and its host by name, each stream with its own valid and ready.

What a host drives in a cycle is in its node's `HostPort` before the NI's step; what the NI shows it, these functions
tell.  A stream moves in a cycle in which its valid and its ready are both 1.

============  =======  ===============================================  ==============================
flow          towards  its valid and payload                            its ready
============  =======  ===============================================  ==============================
send          NI       ``send_valid``, ``destination`` … ``expect``     `send_ready`
send_data     NI       ``data_valid``, the two words at ``beat``        `data_ready`
send_control  NI       as send and send_data, but of `context` 1        `control_moves`
cancel        NI       ``cancel_valid``, ``cancel_slot`` …              `cancel_ready`
accepted      host     `Flow.ACCEPTED` of the step
completion    host     `completion_valid`                               ``completion_ready``
deliver       host     `deliver_valid`, `deliver_record`                ``deliver_ready``, a bit for
                                                                        each FIFO
deliver_data  host     `deliver_data_valid`, `deliver_beat`             ``deliver_data_ready``, likewise
merge         host     `transmitter.asks_merge`; the answer at ``beat``
arrival       host     `receiver.arrived`, `receiver.word_of`
refusal       NI       ``refusal``
delivered     host     `delivers`
sweep         NI       ``sweep_valid``, ``sweep_source``                `sweep_ready`
============  =======  ===============================================  ==============================
"""

from enum import IntEnum

import numpy as np

from lethe.spec.events import Event, Kind
from lethe.spec.services.flow import Flag
from lethe.spec.trace import (
    CONTROL_BEAT,
    CONTROL_BEAT_HIGH,
    CONTROL_LIMITS_WORD,
    CONTROL_RECORD_WORD,
    STIMULUS_BEAT,
    STIMULUS_BITS,
    STIMULUS_CANCEL,
    STIMULUS_CANCEL_WORD,
    STIMULUS_FLAGS,
    STIMULUS_LIMITS,
    STIMULUS_LIMITS_WORD,
    STIMULUS_PORTS,
    STIMULUS_RECORD,
    STIMULUS_RECORD_WORD,
    STIMULUS_REFUSAL,
    STIMULUS_SET,
    STIMULUS_SWEEP,
    STIMULUS_TREE,
    STREAMS_STALL,
    fields,
)
from lethe_sim.golden.compile import at, jit
from lethe_sim.golden.lib import queue
from lethe_sim.golden.lib.bits import U0, mask
from lethe_sim.golden.state import ACK_LADDER, MERGE, NEVER, NONE, HostPort, Queues
from lethe_sim.golden.study import limit

from . import accept, choose, deliver, ladder, layouts, receive_side, receiver, send_table, transmitter

# Bits of the flags word of the stimulus.
(
    _SEND, _DATA, _CANCEL, _QUIESCE, _DISABLE, _STALL_DELIVERIES, _STALL_COMPLETION, _SEND_CONTROL, _DATA_CONTROL,
) = range(len(STIMULUS_BITS))  # fmt: skip

_DESTINATION, _CLASS, _MODE, _LENGTH, _TAG = fields(STIMULUS_RECORD).values()
_DEADLINE, _RETRY_LIMIT, _EXPECT, _PATH = fields(STIMULUS_LIMITS).values()
_SLOT, _GENERATION = fields(STIMULUS_CANCEL).values()
(_REFUSAL,) = fields(STIMULUS_REFUSAL).values()
_SWEEPS, _SOURCE = fields(STIMULUS_SWEEP).values()
_SPORT, _DPORT, _FLAGS, _RECEIVE_MASK = fields(STIMULUS_PORTS).values()
_SETS, _CODE, _INDEX, _VALUE, _NOTICE_STALL = fields(STIMULUS_SET).values()
_TREES, _TREE_CODE, _TARGET, _HOP, _WAY, _DEPTH, _PROMOTED = fields(STIMULUS_TREE).values()
#: The flags of a message that has one part.
_WHOLE = 1 << Flag.FIRST | 1 << Flag.LAST


class Flow(IntEnum):
    """What a step did, bits of its answer: the streams of the sender that moved, and what the model is told."""

    SEND = 1
    DATA = 2
    ACCEPTED = 4
    SHOWING = 8
    CONTROL = 16  # `send_control` or `send_control_data` moved, not `send` or `send_data`


@jit
def withdraw_record(port):
    """Offer no record: what is not offered is 0."""
    if port.send_valid:
        port.send_valid = 0
        port.destination, port.cls, port.mode, port.length, port.tag = 0, 0, 0, 0, 0
        port.deadline, port.retry_limit, port.expect, port.path = 0, 0, 0, 0
        port.sport, port.dport, port.flags = 0, 0, 0


@jit
def name_ports(k, port):
    """A record of a host that knows of no ports: from and to the port of its tag, a message by itself."""
    if k.flow_ports > 0:
        port.sport = port.dport = port.tag & (k.flow_ports - 1)
        port.flags = _WHOLE


@jit
def withdraw_beat(port, beat):
    """Offer no beat."""
    if port.data_valid:
        port.data_valid = 0
        beat[0], beat[1] = U0, U0


@jit
def ready_from(ni):
    """From which cycle on the NI is ready: its initialisation is over."""
    return ni.ready_from


@jit
def context(port, control):
    """What a host offers to an accept context: on `send`, or on `send_control`."""
    return HostPort(port, 0, control)


@jit
def control_moves(k, ni, port, cycle):
    """Whether `send_control` or `send_control_data` has its handshake in ``cycle``: `send` waits (section 4.12)."""
    if k.control_slots == 0:
        return False
    offered = context(port, 1)
    if data_ready(ni, 1):
        return offered.data_valid == 1
    return offered.send_valid == 1 and slot_ready(k, ni, port, cycle, 1)


@jit
def send_ready(k, ni, port, cycle):
    """Whether the record that is offered on `send` in ``cycle`` is taken, if control does not move."""
    if not slot_ready(k, ni, port, cycle, 0) or limit.crowded(k, ni, port.destination):
        return False
    if k.reserved == 0 or port.cls & k.class_mask >= k.first_reserved:
        return True
    return queue.count(k, ni, Queues.FREE) > k.reserved


@jit
def slot_ready(k, ni, port, cycle, control):
    """Whether an accept context would take a record in ``cycle`` that may have any free slot."""
    if data_ready(ni, control) or cycle < ni.ready_from or port.quiesce:
        return False
    free, most = accept.free_queue(control), k.control_slots if control else k.slots
    if not queue.present(k, ni, free, cycle) or queue.level(k, ni, accept.launch_queue(control), cycle) >= most:
        return False
    if cycle > ni.tx_until:
        return True
    slot, _ = layouts.unpack_life(queue.oldest(k, ni, free).a)
    return slot != ni.tx_slot


@jit
def next_send(k, ni, cycle, control):
    """The next cycle in which a context may take a record; `NEVER` if that is up to the NI: no slot is free."""
    return cycle + 1 if queue.count(k, ni, accept.free_queue(control)) > 0 else NEVER


@jit
def data_ready(ni, control):
    """Whether an accept context takes a beat."""
    return ni.accepting[control].beats > 0


@jit
def cancel_ready(ni, cycle):
    """Whether a cancel is taken in ``cycle``: no other request is chosen, and no message will act instead."""
    return choose.may_cancel(ni, cycle)


@jit
def dump_ready(ni, cycle):
    """Whether a dump is taken in ``cycle`` while quiesced, if no cancel is offered and no other dump is on its way."""
    return choose.may_dump(ni, cycle)


@jit
def completion_valid(k, ni, cycle):
    """Whether a completion is offered."""
    return queue.present(k, ni, Queues.COMPLETION, cycle)


@jit
def completion(k, ni):
    """(slot, generation, destination, tag, status, cause, peer incarnation) of the completion that is offered."""
    entry = queue.oldest(k, ni, Queues.COMPLETION)
    slot, generation = layouts.unpack_life(entry.a)
    peer_incarnation, status, cause = layouts.unpack_result(entry.b)
    datagram = send_table.slot_of(k, ni, slot)
    return slot, generation, datagram.destination, datagram.tag, status, cause, peer_incarnation


@jit
def deliver_valid(k, ni, cycle, fifo):
    """Whether a FIFO offers a record."""
    return queue.present(k, ni, Queues.DELIVER + fifo, cycle)


@jit
def deliver_record(k, ni, fifo):
    """(source, incarnation, class, length) of the record that a FIFO offers."""
    return layouts.unpack_record(queue.oldest(k, ni, Queues.DELIVER + fifo).a)


@jit
def deliver_data_valid(k, ni, cycle, fifo):
    """Whether a FIFO offers a beat."""
    return queue.shows(deliver.data_queue(k, ni, fifo), cycle)


@jit
def deliver_beat(k, ni, data, fifo):
    """(low word, high word, last) of the beat that a FIFO offers."""
    place = deliver.place_of(k, ni, fifo, 0)
    at = k.at_data + place * k.words
    return data[at], data[at + 1] if k.words == 2 else U0, deliver.last_at(k, ni)[place]


@jit
def delivers(k, ni, data, cycle, refusal):
    """Whether a data message is delivered in ``cycle``, before the NI's step, while a service says ``refusal``."""
    if not receiver.acts(ni, cycle):
        return False
    deliver.take_offers(k, ni, data, cycle)
    message = receiver.message_of(k, ni, cycle)
    if receiver.verdict(k, ni, cycle, message) != 0 or deliver.fifo_of(k, message.cls) != 0:
        return False
    if message.kind == Kind.BE:
        return receive_side.judge_best_effort(k, ni, cycle, message, refusal) == 0
    if message.kind != Kind.SEND:
        return False
    uid = layouts.pack_uid(message.source, message.incarnation, message.slot, message.generation)
    ack_room = ladder.has_room(ni, ACK_LADDER, cycle)
    event, _, _ = receive_side.judge_send(k, ni, cycle, message, uid, ack_room, refusal)
    return event == Event.DELIVER


@jit
def sweep_ready(k, ni, cycle):
    """Whether a sweep is over in ``cycle``, before the NI's step: its last step finds nothing in the last set."""
    source = choose.step_of_sweep(ni, cycle)
    last = ni.sweep_index + 1 == 1 << k.sets_log
    return source >= 0 and last and receive_side.finds_nothing(k, ni, cycle, source)


@jit
def asks(k, ni, cycle):
    """Whether the merge port or the acceptance port tells or asks something in ``cycle``."""
    if k.merge_bits > 0 and (ni.merge_at == cycle or transmitter.asks_merge(k, ni, cycle)):
        return True
    return k.acceptance > 0 and (receiver.data_acts(k, ni, cycle) or receiver.arrived(k, ni, cycle))


@jit
def write_words(k, port, beat, words):
    """What a host drives, as the stimulus words of the contract (section 8)."""
    flags = port.send_valid | port.data_valid << 1 | port.cancel_valid << 2 | port.quiesce << 3 | port.link_disable << 4
    write_offer(port, beat, words, STIMULUS_RECORD_WORD)
    if k.takes_control:
        offered = context(port, 1)
        flags |= offered.send_valid << 7 | offered.data_valid << 8
        write_offer(offered, at(beat, 2), words, CONTROL_RECORD_WORD)
    if k.stimulus_ports != NONE:
        words[k.stimulus_ports] = (
            placed(port.sport, _SPORT) | placed(port.dport, _DPORT) | placed(port.flags, _FLAGS)
            | placed(port.receive_mask, _RECEIVE_MASK)
        )  # fmt: skip
    words[STIMULUS_FLAGS] = np.uint64(flags)
    words[STIMULUS_CANCEL_WORD] = placed(port.cancel_slot, _SLOT) | placed(port.cancel_generation, _GENERATION)


@jit
def write_offer(port, beat, words, first):
    """What a host offers to an accept context, as the words from ``first`` on: record, limits, beat."""
    words[first] = (
        placed(port.destination, _DESTINATION) | placed(port.cls, _CLASS) | placed(port.mode, _MODE)
        | placed(port.length, _LENGTH) | placed(port.tag, _TAG)
    )  # fmt: skip
    words[first + 1] = (
        placed(port.deadline, _DEADLINE) | placed(port.retry_limit, _RETRY_LIMIT) | placed(port.expect, _EXPECT)
        | placed(port.path, _PATH)
    )  # fmt: skip
    words[first + 2], words[first + 3] = beat[0], beat[1]


@jit
def read_words(k, port, beat, words):
    """Drive what stimulus words say, but for the deliver streams; returns the flags word."""
    flags = np.int64(words[STIMULUS_FLAGS])
    port.send_valid, port.data_valid = flags >> _SEND & 1, flags >> _DATA & 1
    port.cancel_valid, port.quiesce = flags >> _CANCEL & 1, flags >> _QUIESCE & 1
    port.link_disable, port.completion_ready = flags >> _DISABLE & 1, 1 - (flags >> _STALL_COMPLETION & 1)
    read_record(port, words[STIMULUS_RECORD_WORD], words[STIMULUS_LIMITS_WORD])
    beat[0], beat[1] = words[STIMULUS_BEAT], words[STIMULUS_BEAT + 1]
    if k.takes_control:
        offered = context(port, 1)
        offered.send_valid, offered.data_valid = flags >> _SEND_CONTROL & 1, flags >> _DATA_CONTROL & 1
        read_record(offered, words[CONTROL_RECORD_WORD], words[CONTROL_LIMITS_WORD])
        beat[2], beat[3] = words[CONTROL_BEAT], words[CONTROL_BEAT_HIGH]
    cancel = words[STIMULUS_CANCEL_WORD]
    port.cancel_slot, port.cancel_generation = part(cancel, _SLOT), part(cancel, _GENERATION)
    if k.stimulus_merge != NONE:
        beat[MERGE], beat[MERGE + 1] = words[k.stimulus_merge], words[k.stimulus_merge + 1]
    if k.stimulus_refusal != NONE:
        port.refusal = part(words[k.stimulus_refusal], _REFUSAL)
    if k.stimulus_sweep != NONE:
        sweep = words[k.stimulus_sweep]
        port.sweep_valid, port.sweep_source = part(sweep, _SWEEPS), part(sweep, _SOURCE)
    if k.stimulus_ports != NONE:
        read_ports(k, port, words[k.stimulus_ports], words[k.stimulus_ports + 1])
    if k.stimulus_tree != NONE:
        read_tree(port, words[k.stimulus_tree])
    return flags


@jit
def read_tree(port, word):
    """Offer on `tree` what a stimulus word says."""
    port.tree_valid, port.tree_code = part(word, _TREES), part(word, _TREE_CODE)
    port.tree_target, port.tree_hop, port.tree_way = part(word, _TARGET), part(word, _HOP), part(word, _WAY)
    port.tree_depth, port.tree_promoted = part(word, _DEPTH), part(word, _PROMOTED)


@jit
def read_ports(k, port, ports, sets):
    """Drive what two stimulus words say of ports, and of what is set."""
    port.sport, port.dport, port.flags = part(ports, _SPORT), part(ports, _DPORT), part(ports, _FLAGS)
    port.receive_mask = part(ports, _RECEIVE_MASK) & (1 << k.flow_ports) - 1
    port.set_valid, port.set_code, port.set_index = part(sets, _SETS), part(sets, _CODE), part(sets, _INDEX)
    port.set_value, port.notice_ready = part(sets, _VALUE), 1 - part(sets, _NOTICE_STALL)


@jit
def stalls_deliveries(flags):
    """Whether a flags word stalls all deliver streams."""
    return flags >> _STALL_DELIVERIES & 1 == 1


@jit
def stalls_stream(flags, stream):
    """Whether a flags word stalls deliver stream ``stream``: 2i the records of FIFO i, 2i + 1 its beats."""
    return stream < STREAMS_STALL.bits and flags >> (STREAMS_STALL.shift + stream) & 1 == 1


@jit
def read_record(port, record, limits):
    """Offer the record that two stimulus words have."""
    port.destination, port.cls, port.mode = part(record, _DESTINATION), part(record, _CLASS), part(record, _MODE)
    port.length, port.tag = part(record, _LENGTH), part(record, _TAG)
    port.deadline, port.retry_limit = part(limits, _DEADLINE), part(limits, _RETRY_LIMIT)
    port.expect, port.path = part(limits, _EXPECT), part(limits, _PATH)


@jit
def class_of(record):
    """The class in the first of the two stimulus words of a record."""
    return part(np.uint64(record), _CLASS)


@jit
def placed(value, field):
    """A value at the place of a field."""
    return np.uint64(value) << np.uint64(field.shift)


@jit
def part(word, field):
    """A field of a word."""
    return np.int64(word >> np.uint64(field.shift) & mask(field.bits))

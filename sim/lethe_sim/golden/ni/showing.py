"""What an NI shows at its host port in a cycle, written down for the services above it (`ShownPort`, `Delivery`)."""

from lethe_sim.golden.compile import jit
from lethe_sim.golden.lib import queue

from . import accept, host_port, layouts, receiver, send_table, transmitter


@jit
def show(k, numbers, data, cycle, port):
    """Write what the NI shows in ``cycle``, which depends on what it is offered; what it does not have is 0."""
    offered, shown = port.drives, port.shows
    moves = host_port.control_moves(k, numbers, offered, cycle)
    shown.ready = cycle >= host_port.ready_from(numbers)
    shown.send_ready = not moves and host_port.send_ready(k, numbers, offered, cycle)
    shown.data_ready = not moves and host_port.data_ready(numbers, 0)
    shown.control_ready, shown.control_data_ready = 0, 0
    if k.control_slots > 0:
        shown.control_ready = host_port.slot_ready(k, numbers, offered, cycle, 1)
        shown.control_data_ready = host_port.data_ready(numbers, 1)
    shown.cancel_ready = host_port.cancel_ready(numbers, cycle)
    show_accepted(k, numbers, port, 1 if moves else 0)
    show_completion(k, numbers, cycle, shown)
    shown.merge_valid = transmitter.asks_merge(k, numbers, cycle)
    if shown.merge_valid:
        life, shown.merge_tries = layouts.unpack_token(numbers.granted)
        shown.merge_slot, shown.merge_generation = layouts.unpack_life(life)
    shown.arrival_valid, shown.delivered = 0, 0
    if k.acceptance:
        show_arrival(k, numbers, data, cycle, port)
        shown.delivered = host_port.delivers(k, numbers, data, cycle, offered.refusal)
    shown.sweep_ready = k.sweep > 0 and host_port.sweep_ready(k, numbers, cycle)
    for fifo in range(k.port_streams):
        delivery = port.delivers[fifo]
        delivery.valid, delivery.data_valid = 0, 0
        if fifo < k.fifos:
            show_delivery(k, numbers, data, cycle, fifo, delivery, port.beats)


@jit
def show_accepted(k, numbers, port, control):
    """The datagram that is accepted, if one is: with its last beat, or without payload with its record."""
    offered, shown, accepting = host_port.context(port.drives, control), port.shows, numbers.accepting[control]
    shown.accepted_valid, shown.accepted_control = 0, control
    if host_port.data_ready(numbers, control):
        shown.accepted_valid = offered.data_valid and accepting.beat + 1 == accepting.beats
        datagram = send_table.slot_of(k, numbers, accepting.slot)
        shown.accepted_slot, shown.accepted_generation = accepting.slot, datagram.generation
        shown.accepted_tag = datagram.tag
    elif offered.send_valid and (control or shown.send_ready) and offered.length == 0:
        life = queue.oldest(k, numbers, accept.free_queue(control)).a
        shown.accepted_valid = 1
        shown.accepted_slot, shown.accepted_generation = layouts.unpack_life(life)
        shown.accepted_tag = offered.tag & k.tag_mask


@jit
def show_completion(k, numbers, cycle, shown):
    """The completion that is offered, if one is."""
    shown.completion_valid = host_port.completion_valid(k, numbers, cycle)
    if shown.completion_valid:
        slot, generation, destination, tag, status, cause, peer_incarnation = host_port.completion(k, numbers)
        shown.slot, shown.generation, shown.destination, shown.tag = slot, generation, destination, tag
        shown.status, shown.cause, shown.peer_incarnation = status, cause, peer_incarnation


@jit
def show_delivery(k, numbers, data, cycle, fifo, delivery, beats):
    """The record and the beat that a FIFO offers."""
    delivery.valid = host_port.deliver_valid(k, numbers, cycle, fifo)
    if delivery.valid:
        delivery.source, delivery.incarnation, delivery.cls, delivery.length = host_port.deliver_record(
            k, numbers, fifo
        )
    delivery.data_valid = host_port.deliver_data_valid(k, numbers, cycle, fifo)
    if delivery.data_valid:
        beats[2 * fifo], beats[2 * fifo + 1], delivery.last = host_port.deliver_beat(k, numbers, data, fifo)


@jit
def show_arrival(k, numbers, data, cycle, port):
    """The data message that ended in the cycle before, if one did; its word stands behind all beats."""
    shown = port.shows
    shown.arrival_valid = receiver.arrived(k, numbers, cycle)
    if shown.arrival_valid:
        source, incarnation, cls, length, attempt, best_effort = receiver.arrival(k, numbers, cycle)
        shown.arrival_source, shown.arrival_incarnation = source, incarnation
        shown.arrival_cls, shown.arrival_length = cls, length
        shown.arrival_try, shown.arrival_best_effort = attempt, best_effort
        port.beats[2 * k.port_streams] = receiver.word_of(k, data, cycle)

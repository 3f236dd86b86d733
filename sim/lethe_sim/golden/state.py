"""Where everything is kept: the parameters of a system, and what NIs, routers and links know, by name.

`parameters` turns a `System` into one `Parameters`, read as ``k.slots``.  The state of an NI is two rows: ``ni`` (whole
numbers: the `Registers`, its host and the host port between them, then queues, slots, tables and ladders at places that
depend on the sizes) and ``data`` (64-bit words: payloads and messages as bit strings).  What is never used is never
touched, so 65,536 nodes fit in memory.
"""

import dataclasses
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.ports import HostPort as HostShape
from lethe.spec.random import UNIT_SALT, seed_for
from lethe.spec.sections.study import PATHS
from lethe.spec.sections.workload import RELAYED
from lethe.spec.services import relay
from lethe.spec.topology import KINDS

from .record import Record, numbers, records

NEVER = 1 << 62
NONE = -1

# `Parameters.topology`, `Parameters.host` and `Parameters.path`.
WIRE, CROSSBAR, FLY, TREE, MESH = range(len(KINDS))
EXTERNAL, GENERATOR, SCRIPT = range(3)
FREE_PATH, BLIND, PINNED_PATH = range(3)

#: The bit of `Ni.left` for completions.
LEFT_COMPLETIONS = 1 << 8

# Where the merge word and its mask stand behind the beats of `send` and `send_control`.
MERGE = 4

# Flit flags.
VALID, FIRST, LAST = 1, 2, 4
# A head in a transmitter's ring has the flits of its worm beside its flags; where worms travel whole
# (`Parameters.whole`), a head on its way also has the node it comes from and its place there.
TAG_FLITS, TAG_NODE, TAG_PLACE = 3, 16, 32
TAG_FLITS_MASK, TAG_NODE_MASK = (1 << TAG_NODE - TAG_FLITS) - 1, (1 << TAG_PLACE - TAG_NODE) - 1
LONGEST_WAY = 64  # cycles in the fabric up to which a transmitter's ring keeps worms that travel whole
SOURCE_FLITS, MOST_SOURCE_FLITS = 64, 1 << 17  # memory of a source queue: at first, and at most

# What is to come in the next cycles stands at the cycle mod `AHEAD`: masks of so many bits, rings of so many places.
AHEAD = 8
SEND_LADDER, ACK_LADDER = range(2)
LATER = 16  # time-outs that are not yet used, at most
MOST_MISSES = 8  # what is not yet known of misses, at most
LONGEST_LADDER, GAPS = 48, 256
MOST_SERVICES = 16


class Field(IntEnum):
    """The fields of a header, in the order of `lethe.spec.wire`, but for the path, which not every header has."""

    KIND = 0
    DESTINATION = 1
    SOURCE = 2
    SLOT = 3
    GENERATION = 4
    INCARNATION = 5
    PEER_INCARNATION = 6
    TRY = 7
    LENGTH = 8
    CLASS = 9
    MODE = 10
    EXTENSION = 11
    PATH = 12


class Queues(IntEnum):
    """The queues of an NI; the records of deliver FIFO f are queue ``DELIVER + f``."""

    FREE = 0
    NEW = 1
    REPEATS = 2
    REPLY = 3
    COMPLETION = 4
    QUARANTINED = 5
    CONTROL_FREE = 6
    CONTROL = 7
    DELIVER = 8


class Request(IntEnum):
    """Internal requests."""

    FINISH = 0
    SEND = 1
    ACK = 2
    CANCEL = 3
    SWEEP = 4


class Ring(Record):
    """Where the entries of a queue lie in an NI's row, two numbers each, and how many there can be."""

    at: int
    places: int


class Room(Record):
    """A service of the stack: where its numbers and words lie, and its trace words among those of its node."""

    at: int
    at_data: int
    at_words: int


class Place(Record):
    """Where a header field lies."""

    offset: int
    width: int


class Parameters(Record):
    """What a system's configuration comes to.  ``at_…`` are places in an NI's rows."""

    nodes: int
    flit_bits: int
    words: int
    header_flits: int
    crc_flits: int
    control_flits: int
    max_flits: int
    one_flit: int
    mtu: int
    slots: int
    slot_flits: int
    slot_words: int
    sets_log: int
    ways: int
    reply_depth: int
    deliver_flits: int
    deliver_records: int
    control_fifo_flits: int
    control_fifo_records: int
    fifos: int
    streams: int  # deliver streams that a host sees
    port_streams: int  # the most that a port of a stack has
    first_control: int
    control_slots: int
    takes_control: int  # the host's port has `send_control`
    first_control_slot: int
    first_reserved: int
    top_class: int
    reserved: int
    rest: int
    linger: int
    jitter: int
    ack_limit: int
    steps: int
    classes: int
    rungs: int
    timer_depth: int
    initial: int
    slot_bits: int
    generation_mask: int
    incarnation_mask: int
    try_mask: int
    path_bits: int
    tag_mask: int
    class_mask: int
    deadline_mask: int
    topology: int
    arity: int
    levels: int
    columns: int
    rows: int
    width: int
    node_offset: int
    node_bits: int
    loss: int
    flip: int
    latency: int
    phases: int
    host: int
    min_length: int
    lengths: int
    count: int
    stop: int
    deadline_given: int
    retry_given: int
    tx_ring: int
    rx_words: int
    data_ring: int
    at_host: int
    at_port: int
    at_queues: int
    at_fifos: int
    at_last: int
    at_slots: int
    at_table: int
    at_rungs: int
    at_tokens: int
    at_tx: int
    at_messages: int
    at_payload: int
    at_data: int
    at_tx_data: int
    at_rx: int
    at_offers: int
    at_offer_data: int
    offer_ring: int
    at_header: int
    at_beat: int
    ni_width: int
    data_width: int
    router_count: int
    port_count: int
    link_count: int
    flit_shift: int
    arity_shift: int
    whole: int
    tapped: int  # some links are tapped
    input_worms: int
    input_ring: int
    pool: int  # buffers of a router
    climbs_freely: bool  # a worm takes any up-port
    control_first: int  # cycles by which control passes others in a pool
    max_wait: int
    salt: int
    credit_flits: int
    channels: int  # credits: of a link between routers
    adaptive: int  # credits: a head takes any up-port and channel
    credit_delay: int
    source_incarnation: int
    reject: int
    silent_after: int
    silent_probe: int
    path_after: int
    path_probe: int
    at_paths: int
    merge_bits: int  # 0 also where nobody drives the merge port
    acceptance: int  # likewise
    sweep: int
    kept: int  # a service has the merge port or the acceptance port, and its host has not
    return_phases: int
    counters: int
    stimulus_words: int
    stimulus_merge: int  # of these words the first of the merge port, that of `refusal`, of `sweep`, or `NONE`
    stimulus_refusal: int
    stimulus_sweep: int
    stimulus_ports: int  # likewise of what a record says of ports, and of what is set
    stimulus_tree: int  # likewise of `tree`
    flow_ports: int
    trees: int  # whether there are tree players
    mode_given: int
    check_stream: int  # the deliver stream that the checker takes
    source_ring: int
    route_delay: int
    grant_delay: int
    pinned: int
    ceiling: int
    slack: int
    time_mask: int
    at_trips: int
    per_destination: int
    replies_last: int
    path: int
    dilation: int
    at_taken: int
    at_streams: int
    services: int
    at_top: int  # the port of the host, and its words: the NI's without services
    at_top_data: int
    port_width: int
    port_data_width: int
    first_service: int
    service_base: int
    service_words: int
    service_counters: int
    at_neighbours: int
    at_changes: int
    at_arrivals: int
    fields: Any = records(Place, len(Field))
    delay: Any = numbers(LONGEST_LADDER)
    gap: Any = numbers(GAPS)
    rooms: Any = records(Room, MOST_SERVICES)  # from the NI upwards
    queues: Any = records(Ring, 0)  # as many as there are


class Hold(Record):
    """What is looked at of a ladder in every cycle: the hold register, in which cycle a due rung next has its turn (or
    an earlier one), how many rungs are too full for a new datagram, and that number before the last cycle in
    which it changed; the last push.
    """

    full: int
    a: int
    b: int
    wake: int
    over: int
    over_before: int
    over_changed: int
    pushed: int  # the cycle, and its rung
    pushed_on: int


class Accepting(Record):
    """An accept context: the slot of the record taken last, the beats that follow it (0: IDLE), and those so far."""

    slot: int
    beats: int
    beat: int


class Pending(Record):
    """An internal request that will act."""

    kind: int
    a: int
    b: int


class Registers(Record):
    """What every NI has, whatever the sizes."""

    # Looked at in most cycles.
    number: int
    incarnation_now: int
    in_reset: int
    services_in_reset: int
    services_reset_from: int
    away: int  # absences that last
    dead_from: int
    ready_from: int
    rests: int  # in this cycle all of its services rest
    withheld: int  # of what its host offers, what its highest service leaves waiting until it moves itself: `Flow`
    left: int  # deliver FIFOs, a bit each, and completions: its lowest service takes none of them before it steps again
    granted: int  # a Send that is to be judged, or `NONE`
    probing: int  # the silent node that is being probed
    chosen: int  # the latest cycle in which a request is chosen
    ends: int  # of the next cycles those in which a message acts, a request acts, a fragment is shown
    asked: int
    fragments: int
    merge_at: int  # the cycle in which the merge port is read for a worm, or `NEVER`
    launch_at: int  # when a token is pushed, or `NEVER`
    finish_from: int  # from when the finish register is visible (`NEVER`: not loaded), and empty again
    finish_free: int
    next_grant: int
    tx_until: int
    time_zero: int
    offers: int  # flits that wait to be offered to the deliver FIFOs, and the place of the oldest
    offers_from: int
    sweep_index: int  # the set that the next step of a sweep looks at
    sweep_acts: int  # the cycle in which the last step acts that was chosen
    accepting: Any = records(Accepting, 2)  # from `send` and `send_control`
    ladders: Any = records(Hold, 2)
    # The others.
    random: int
    busy: int
    entries: int
    replies_dropped: int
    tx_clear: int
    tx_slot: int
    tx_first: int  # the cycle in which what was granted last begins to be shown, and its last
    tx_last: int
    tx_listed: int
    judge_at: int  # when what is granted is judged
    merge_life: int
    launch: int  # the token that is to be pushed
    launch_path: int
    launch_due: int  # a cycle before which it is not due
    finish: int  # the finish register
    under_way: int  # 0, or the cycle after the one in which the message's first flit came
    rx_count: int
    rx_tag: int
    rx_state: int
    rx_state_before: int
    rx_flit: int
    rx_fifo: int
    rx_payload: int
    uncommitted: int
    overflow: int
    requests: Any = records(Pending, AHEAD)


class Queue(Record):
    """A queue: the place of its oldest entry, its entries, and from when the oldest is at the output."""

    head: int
    level: int
    visible: int


class Entry(Record):
    """An entry of a queue."""

    a: int
    b: int


class Slot(Record):
    """A slot of the send table."""

    generation: int
    since: int  # live since it was accepted in this cycle, or `NEVER`
    launched: int  # when an entry of the new queue was judged last
    destination: int
    cls: int
    mode: int
    length: int
    deadline: int
    retry_limit: int
    tag: int
    expect: int
    path: int
    again: int  # with `ni.linger`: it was repeated
    lingers: int  # the last cycle in which the slot does; `NEVER`: it does still; 0: it does not
    cause: int
    stamp: int
    stamp_try: int


class Neighbour(Record):
    """What an NI knows of a node with `timers.silent_after`: repeats in a row to it that are known, and the number of
    the period in which it was probed, counted from 1.
    """

    repeats: int
    probed: int


class Miss(Record):
    """An action that tells something of a node, or of a path to it: its cycle, the number of the node or path, and
    whether it is a miss or an answer.
    """

    cycle: int
    index: int
    missed: int


class MissRing(Record):
    """What is not yet known: the number of the oldest, how many there are; it lies behind all that is counted."""

    oldest: int
    count: int
    ring: Any = records(Miss, MOST_MISSES)


class PathCount(Record):
    """What an NI knows of a path to a node with `timers.path_after`: repeats in a row on it that are known, and the
    number of the period in which it was left out, counted from 1.
    """

    repeats: int
    left_out: int


class Change(Record):
    """A change of the receive table: its cycle, and the set."""

    cycle: int
    set: int


class Message(Record):
    """A message that waits to act: its header in the order of `Field`, its flits, whether its CRC is right."""

    kind: int
    destination: int
    source: int
    slot: int
    generation: int
    incarnation: int
    peer_incarnation: int
    attempt: int
    length: int
    cls: int
    mode: int
    extension: int
    path: int
    flits: int
    good: int


class Offer(Record):
    """A payload flit on its way to a deliver FIFO: when it is offered, which FIFO, whether it is the last one."""

    cycle: int
    fifo: int
    last: int


class Token(Record):
    """A token of a ladder."""

    due: int
    a: int
    b: int


class Rung(Record):
    """The place of a rung's oldest token, how many there are, when the oldest is due, and the first turn (or an earlier
    one) in which it is (`NEVER` without one).
    """

    head: int
    level: int
    due: int
    wake: int


class Trip(Record):
    """What is known of the round trips to a distance class: eight means, four mean deviations, and the time-out."""

    means: int
    deviations: int
    time_out: int


class Later(Record):
    """A time-out that is not yet used: from when, for which class, and what."""

    use_from: int
    distance: int
    time_out: int


class LaterRing(Record):
    """Time-outs that are not yet used: the number of the oldest, how many there are."""

    oldest: int
    count: int
    ring: Any = records(Later, LATER)


class Showing(Record):
    """What a transmitter shows in one cycle: a flit if it is of that cycle, and an event if its word is not 0."""

    cycle: int
    flags: int
    word: int
    uid: int


class HostPort(Record):
    """What is driven from above at a port (`golden.ni.host_port`); the two words of a beat are among ``data``.

    With control slots a second one follows, and its beat the other's: the valids and the record of `send_control`.
    """

    send_valid: int
    data_valid: int
    cancel_valid: int
    completion_ready: int
    deliver_ready: int  # a bit for each deliver FIFO
    deliver_data_ready: int  # likewise
    quiesce: int
    link_disable: int
    set_valid: int
    cancel_slot: int
    cancel_generation: int
    refusal: int
    sweep_valid: int
    sweep_source: int
    destination: int
    cls: int
    mode: int
    length: int
    tag: int
    deadline: int
    retry_limit: int
    expect: int
    path: int
    sport: int
    dport: int
    flags: int
    receive_mask: int
    set_code: int
    set_index: int
    set_value: int
    notice_ready: int
    tree_valid: int
    tree_code: int
    tree_target: int
    tree_hop: int
    tree_way: int
    tree_depth: int
    tree_promoted: int


class ShownPort(Record):
    """What a port shows its host in a cycle (`golden.services`); of the deliver streams `Delivery`.

    What stands after a valid that is 0 means nothing; nor does what a port does not have.
    """

    ready: int
    idle: int
    send_ready: int
    data_ready: int
    control_ready: int
    control_data_ready: int
    cancel_ready: int
    accepted_valid: int
    accepted_control: int
    completion_valid: int
    merge_valid: int
    arrival_valid: int  # its word stands behind the beats of the deliver streams
    delivered: int
    sweep_ready: int
    set_ready: int  # and with it `answer.valid`
    answer_error: int
    notice_valid: int
    readable: int
    congested: int
    tree_ready: int
    accepted_slot: int
    accepted_generation: int
    accepted_tag: int
    slot: int
    generation: int
    destination: int
    tag: int
    status: int
    cause: int
    peer_incarnation: int
    merge_slot: int
    merge_generation: int
    merge_tries: int
    arrival_source: int
    arrival_incarnation: int
    arrival_cls: int
    arrival_length: int
    arrival_try: int
    arrival_best_effort: int
    notice_peer: int
    notice_up: int
    notice_map: int


class Delivery(Record):
    """What a deliver stream shows: its record, and its beat but for the two words among ``data``."""

    valid: int
    source: int
    incarnation: int
    cls: int
    length: int
    data_valid: int
    last: int
    sport: int  # from here on with flow
    dport: int
    flags: int
    seq: int
    gap: int
    uid: int  # with relay


class Host(Record):
    """A host: what it offers, what it checks, and its sums (section 5)."""

    state: int
    stalled: int
    beat: int
    length: int
    number: int
    node: int
    check_state: int
    check_beat: int
    check_length: int
    check_key: int
    check_wrong: int
    until: int
    destination: int
    random: int
    items_end: int
    sent: int
    sent_sum: int
    received: int
    received_sum: int
    wrong: int
    words: int  # of the tree that its player has offered


class Planned(Record):
    """A datagram that a script host is to send: from which cycle on, its record as stimulus words 1 and 2 have it, and
    the word where its payload begins.
    """

    not_before: int
    record: int
    limits: int
    payload: int


class Letter(Record):
    """A datagram that a script host took: its record in ``cycle``, its payload at a word of the letters' data."""

    node: int
    source: int
    cls: int
    length: int
    cycle: int
    payload: int


class Stream(Record):
    """What a script host takes from one deliver stream: where the payloads are to stand of the latest record that has
    one and of the latest beat, the beats of that payload so far, and by how many payloads the records are ahead.
    """

    record_place: int
    beat_place: int
    beat: int
    ahead: int


class Router(Record):
    """A router; its ports are numbered on from ``first_port``."""

    first_port: int
    ports: int
    number: int
    draw: int  # that of cycle `drawn`; before the first the seed, of cycle −1
    drawn: int
    path_draw: int  # the latest of a generator of its own, for up-ports that are drawn blindly (`golden.study`)
    extra_fragments: int
    stored: int  # buffers of its pool that are in use
    climbing: int  # stored worms that wait for any up-port
    climbed: int  # the last cycle in which such a worm began to leave
    place: int
    place_shift: int
    above: int
    top: int


class Port(Record):
    """Both the input and the output of that number, counted over all routers in the order of the trace words."""

    router: int
    out_link: int
    input_mode: int
    input_count: int
    input_out: int
    input_heard: int
    input_flags: int
    asks: int
    free_from: int
    wanted: int  # pool: the output that a head asks for
    waiting: int  # pool: stored worms that wait for this output
    has_next: int  # pool: one of them is the next one
    next_from: int  # pool: the cycle from which it has it
    refused: int  # pool: for which outputs heads of this input were refused before cycle `refused_from`
    refused_from: int


class InputQueue(Record):
    """The queue of an input: as `Queue`, its back, when a flit was last pushed, and what the head in front wants."""

    head: int
    level: int
    visible: int
    back: int
    back_count: int
    back_heard: int
    pushed: int
    waiting: int  # heads in it
    patience: int  # how often the head in front was refused
    wanted: int


class Stored(Record):
    """A buffer of a router's pool: FREE (from a cycle on), WAITING, the NEXT of its output or LEAVING; its worm, how
    many flits of it came and left, and its place in the order in which worms leave.
    """

    mode: int
    free_from: int
    entered: int
    order: int
    output: int
    written: int
    read: int


class Buffer(Record):
    """Credits: a virtual channel of an input and of the output with its number; those of a port follow one another.

    Of an input channel: its buffer, from when what is in front of it may act, the output channel that its credits go
    to, the output that its worm asks for, the one channel there that is pinned, and the output channel that it holds.
    Of an output channel: its credits, from when it is free, and the input channel that holds it.  Of a port's first
    channel, for the port: the input channel that it prefers, the best that asks for it, the channel that is next, and
    when its input last let a flit out.  A source queue has channels too, the first of them its flits, and the most
    that it has held.
    """

    head: int
    level: int
    switch_from: int
    upstream: int
    asks: int
    only: int
    holds: int
    credits: int
    free_from: int
    holder: int
    turn: int
    best: int
    next: int
    passed: int
    deepest: int


class Link(Record):
    """A link: an input port's number, or −1 − node; how often it is dead; its fault element."""

    target: int
    dead_count: int
    swallowing: int
    loss_random: int
    flip_random: int


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def longest_way(system: System) -> int:
    """Cycles in which a flit is in routers on the longest way through the fabric."""
    graph = system.graph
    return system.router.latency * graph.class_hops(graph.distance_classes - 1)


def worms_stay_whole(system: System) -> bool:
    """Whether nothing can break a worm: its head then stands for all of it until it reaches an NI.

    What is lost on a link is lost from its head on.  Flips of `first` and `last`, links that die and nodes that are
    reset leave pieces, which travel flit by flit, as all do that wait in routers.
    """
    if system.worms_wait or system.flip_threshold or system.link_deaths or system.node_resets:
        return False
    return longest_way(system) <= LONGEST_WAY


#: Words of a line of a cache.
LINE = 8


def parameters(system: System, host: int, rooms: Sequence[tuple[int, int]] = ()) -> Parameters:
    """``k`` for a system whose hosts are of kind ``host``; ``rooms`` are the numbers and words of each service of the
    stack, from the NI upwards; without them hosts sit on the NIs.
    """
    form, graph, ni, timers, load = system.format, system.graph, system.ni, system.timers, system.workload
    study = system.study
    relayed = bool(rooms) and load.mode == RELAYED
    port = system.top_port if rooms else HostShape.of_ni(system)
    layout = dataclasses.replace(system.layout, port=port)

    def driven(shown: bool) -> bool:
        """Whether somebody drives an option's port: stimulus words, or a service that keeps it to itself."""
        return host == EXTERNAL or not shown

    fifos = 1 + ni.control_classes
    queues = Queues.DELIVER + fifos
    k = Parameters(np.zeros(Parameters.size + Ring.size * queues, np.int64))
    whole = worms_stay_whole(system)
    ring = form.max_flits + stages.SHOWN + 2 + (longest_way(system) if whole else 0)
    words = 2 if form.flit_bits == 128 else 1
    slot_words = -(-system.slot_flits * form.flit_bits // 64)
    values = {
        "nodes": system.nodes, "flit_bits": form.flit_bits, "words": words, "header_flits": form.header_flits,
        "crc_flits": form.crc_flits, "control_flits": form.control_flits, "max_flits": form.max_flits,
        "one_flit": form.one_flit_control, "mtu": form.mtu, "slots": ni.slots, "slot_flits": system.slot_flits,
        "slot_words": slot_words, "sets_log": ni.sets.bit_length() - 1, "ways": ni.ways, "reply_depth": ni.reply_depth,
        "deliver_flits": system.deliver_flits, "deliver_records": ni.deliver_records, "fifos": fifos,
        "streams": len(system.top_port.delivers) if rooms else fifos,
        "port_streams": max(len(port.delivers), fifos), "flow_ports": port.ports, "services": len(rooms),
        "first_service": system.layout.first_service, "service_base": system.layout.service_base,
        "service_words": system.layout.service_words,
        "service_counters": max((len(service.counters) for service in system.services), default=0),
        "control_slots": ni.control_slots, "first_control_slot": ni.slots - ni.control_slots,
        "takes_control": port.control,
        "control_fifo_flits": system.control_flits, "control_fifo_records": system.control_records,
        "first_control": (1 << form.class_bits) - ni.control_classes, "top_class": (1 << form.class_bits) - 1,
        "reserved": ni.reserved_slots, "first_reserved": system.first_reserved,
        "source_incarnation": ni.source_incarnation, "reject": ni.reject,
        "silent_after": timers.silent_after, "silent_probe": timers.silent_probe,
        "path_after": timers.path_after, "path_probe": timers.path_probe,
        "merge_bits": ni.merge_bits if driven(port.merge_bits > 0) else 0,
        "acceptance": ni.acceptance and driven(port.acceptance), "sweep": ni.sweep and driven(port.sweep),
        "kept": ni.merge_bits > port.merge_bits or ni.acceptance > port.acceptance, "rest": system.rest,
        "linger": system.linger, "path_bits": form.path_bits,
        "jitter": (1 << timers.jitter_bits) - 1,
        "ack_limit": timers.ack_limit, "steps": timers.backoff_steps, "classes": graph.distance_classes,
        "rungs": system.rungs, "timer_depth": system.timer_depth,
        "initial": system.initial,
        "slot_bits": form.slot_bits, "generation_mask": (1 << form.generation_bits) - 1,
        "incarnation_mask": (1 << form.incarnation_bits) - 1, "try_mask": (1 << form.try_bits) - 1,
        "tag_mask": (1 << system.wire.tag_bits) - 1, "class_mask": (1 << form.class_bits) - 1,
        "deadline_mask": (1 << ni.deadline_bits) - 1, "topology": KINDS.index(graph.kind), "arity": graph.arity,
        "levels": graph.levels, "columns": graph.columns, "rows": graph.rows, "width": graph.width,
        "node_offset": form.common[1].offset, "node_bits": form.node_bits, "loss": system.loss_threshold,
        "flip": system.flip_threshold, "latency": system.router.latency, "phases": _power(system.router.latency + 1),
        "host": host, "min_length": load.min_length, "lengths": load.max_length - load.min_length + 1,
        "count": load.count, "stop": load.stop, "deadline_given": load.deadline, "retry_given": load.retry_limit,
        "whole": whole, "tx_ring": _power(ring), "rx_words": -(-form.header_flits * form.flit_bits // 64) + 1,
        "offer_ring": _power(form.max_flits + stages.ACTS + 1),
        "data_ring": max(system.deliver_flits, system.control_flits) + 1,
        "flit_shift": form.flit_bytes.bit_length() - 1,
        "arity_shift": graph.arity.bit_length() - 1 if graph.arity.bit_count() == 1 else NONE,
        "input_worms": system.queue, "input_ring": system.queue * form.max_flits + 1, "pool": system.pool,
        "climbs_freely": system.climbs_freely, "control_first": system.control_first,
        "max_wait": system.router.max_wait, "salt": seed_for(system.run.seed, UNIT_SALT, 0) & 0xFFFF,
        "credit_flits": system.credits, "channels": system.router.credit_channels,
        "adaptive": system.router.credit_path == "adaptive", "credit_delay": system.router.credit_delay,
        "source_ring": SOURCE_FLITS,
        "pinned": system.router.credit_path == "pinned", "counters": system.counter_addresses,
        "stimulus_words": layout.stimulus_words, "stimulus_merge": layout.stimulus_merge if port.merge_bits else NONE,
        "stimulus_refusal": layout.stimulus_refusal if port.acceptance else NONE,
        "stimulus_sweep": layout.stimulus_sweep if port.sweep else NONE,
        "stimulus_ports": layout.stimulus_ports if port.ports else NONE,
        "stimulus_tree": layout.stimulus_tree if port.tree else NONE, "trees": port.tree,
        "mode_given": relay.MODE if relayed else 0,
        "check_stream": port.delivers.index("deliver_relay") if relayed else 0,
        "return_phases": _power(system.router.credit_delay + 1), "ceiling": system.ceiling,
        "slack": system.slack, "time_mask": (1 << system.time_bits) - 1, "per_destination": study.per_destination,
        "replies_last": study.replies == "last", "path": PATHS.index(study.path), "dilation": graph.dilation,
    }  # fmt: skip
    for name, value in values.items():
        setattr(k, name, value)
    for number, field in enumerate(sorted(form.send, key=lambda field: field.name == "path")):
        k.fields[number].offset, k.fields[number].width = field.offset, field.width
    k.delay[: system.rungs] = system.delays
    if host == GENERATOR:
        k.gap[:GAPS] = system.gaps

    at = 0

    def area(size: int) -> int:
        nonlocal at
        at += size
        return at - size

    def begin_line() -> None:
        area(-at % LINE)

    area(Registers.size)
    k.at_host = area(Host.size)
    begin_line()
    k.port_width = HostPort.size * (2 if ni.control_slots else 1)
    if rooms:
        k.port_width += ShownPort.size + Delivery.size * int(k.port_streams)
    k.at_port = area(int(k.port_width) * (1 + len(rooms)))
    k.at_top = k.at_port + k.port_width * len(rooms)
    k.at_queues = area(queues * Queue.size)
    k.at_fifos = area(fifos * Queue.size)
    k.at_messages = area(AHEAD * Message.size)
    k.at_offers = area(Offer.size * int(k.offer_ring))
    k.at_tx = area(Showing.size * int(k.tx_ring))
    k.at_last = area(fifos * int(k.data_ring))
    depths = [ni.slots, ni.slots, ni.slots, ni.reply_depth, ni.slots, ni.slots]
    depths += [ni.control_slots, ni.control_slots, ni.deliver_records] + [system.control_records] * ni.control_classes
    for queue, depth in enumerate(depths):
        k.queues[queue].places = depth + 1
        k.queues[queue].at = area(2 * (depth + 1))
    k.at_slots = area(ni.slots * Slot.size)
    k.at_table = area(ni.sets * ni.ways)
    k.at_rungs = area(2 * Rung.size * system.rungs)
    k.at_trips = area(Trip.size * graph.distance_classes + LaterRing.size if system.measured else 0)
    k.at_taken = area(ni.slots if study.per_destination else 0)
    k.at_streams = area(int(k.streams) * Stream.size if host == SCRIPT else 0)
    k.at_neighbours = area(system.nodes * Neighbour.size + MissRing.size if timers.silent_after else 0)
    k.at_paths = area((system.nodes << form.path_bits) * PathCount.size + MissRing.size if timers.path_after else 0)
    k.at_changes = area(AHEAD * Change.size if k.sweep else 0)
    at_words = 0
    for level, (numbers_of_it, _) in enumerate(rooms):
        begin_line()
        k.rooms[level].at, k.rooms[level].at_words = area(numbers_of_it), at_words
        at_words += system.services[level].words
    k.at_tokens = area(2 * system.rungs * system.timer_depth * Token.size)
    k.ni_width = _of_lines(at)
    at = 0
    k.at_header = area(5)
    k.port_data_width = MERGE + 2 + (2 * int(k.port_streams) + 1 if rooms else 0)
    k.at_beat = area(int(k.port_data_width) * (1 + len(rooms)))
    k.at_top_data = k.at_beat + k.port_data_width * len(rooms)
    for level, (_, words_of_it) in enumerate(rooms):
        k.rooms[level].at_data = area(words_of_it)
    k.at_tx_data = area(words * int(k.tx_ring))
    k.at_rx = area(int(k.rx_words))
    k.at_arrivals = area(AHEAD + 1 if k.acceptance else 0)
    k.at_offer_data = area(words * int(k.offer_ring))
    k.at_data = area(fifos * int(k.data_ring) * words)
    k.at_payload = area(ni.slots * slot_words)
    k.data_width = _of_lines(at)
    return k


def _of_lines(width: int) -> int:
    """The width in whole lines of a cache, an odd number: else many rows would share few places of the cache."""
    return (-(-width // LINE) | 1) * LINE

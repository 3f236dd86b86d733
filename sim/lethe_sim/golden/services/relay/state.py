"""What a relay knows, by name (section 4 of its contract), and the memory it begins with."""

from enum import IntEnum
from typing import Any

import numpy as np

from lethe.spec.config import System
from lethe.spec.ports import HostPort
from lethe.spec.sections.relay import STAMP_CYCLES
from lethe.spec.services.relay import RelayJob
from lethe_sim.golden.compile import apart, at, jit
from lethe_sim.golden.lib import queue
from lethe_sim.golden.record import Record, raw, records
from lethe_sim.golden.state import NONE, Queue

#: Where words lie: headers that come from FIFO 1 and FIFO 2, those of the transfers of control and data, then beats.
CONTROL_IN, DATA_IN, CONTROL_OUT, DATA_OUT, BEATS = 0, 2, 4, 6, 8
#: Beats that the outputs of show and transfer hold.
SHOWN, READ = 8, 4
STAMP_SHIFT = STAMP_CYCLES.bit_length() - 1
STAMP_MASK = (1 << 16) - 1
TIDE_MASK = 15


class HostIn(IntEnum):
    """States of host in."""

    IDLE = 0
    STORE = 1
    STORED = 2
    DROP = 3
    PASS = 4


class Moving(IntEnum):
    """States of the transfers."""

    IDLE = 0
    RECORD = 1
    HEADER = 2
    BODY = 3


class Of(IntEnum):
    """Where the beats of the transfer of data come from."""

    THROUGH = 0
    SLOT = 1
    BUFFER = 2


class Keeping(IntEnum):
    """States of a buffer."""

    FREE = 0
    WAITING = 1
    MOVING = 2
    HELD = 3


class Phase(IntEnum):
    """What the next step of a job is for."""

    FIRST = 0
    FREE = 1  # slots of a stream, up to one, or all of a dead destination
    ACK = 2  # records before one that is ACKED
    FORGET = 3  # records before one that has ended
    SEARCH = 4  # whether the message is parked
    CLEAR = 5  # parked cells of an older incarnation
    JUDGE = 6
    STORE = 7  # after an eviction
    RELEASE = 8  # a parked message whose turn it is
    ANSWER = 9
    DUE = 10  # the oldest held buffer
    STREAM = 11  # only beats are left
    LAST = 12  # nothing: a message without beats is over


class Beats(IntEnum):
    """What becomes of the beats of data in."""

    DROP = 0
    CELL = 1
    BUFFER = 2
    THROUGH = 3


class RelayHeader(Record):
    """A header; ``hop`` is where it goes, or its sender."""

    hop: int
    type: int
    replay: int
    more: int
    thru: int
    cls: int
    depth: int
    source: int
    target: int
    incarnation: int
    slot: int
    prev: int
    uid: int


class Register(Record):
    """A header register: 0 empty, 1 beats are due, 2 full."""

    state: int
    beat: int
    source: int
    cls: int
    length: int


class RelaySlot(Record):
    """A slot of a message of this node; ``sent``: it has been sent before."""

    live: int
    waiting: int
    sent: int
    generation: int
    target: int
    cls: int
    length: int
    tag: int
    uid: int
    prev: int
    next: int
    stamp: int


class ToRow(Record):
    """What is known of a destination."""

    last: int
    head: int
    tail: int
    live: int
    again: int
    dead: int


class FromRow(Record):
    """What is known of a source."""

    known: int
    incarnation: int
    mark: int
    slot: int
    hungry: int


class PostCell(Record):
    """A cell of the Post."""

    parked: int
    source: int
    incarnation: int
    cls: int
    length: int
    uid: int
    prev: int
    slot: int


class HopRecord(Record):
    """What is known of a message that passes."""

    valid: int
    source: int
    incarnation: int
    uid: int
    prev: int
    target: int
    slot: int
    cls: int
    length: int
    state: int
    buffer: int
    stamp: int
    tide: int  # that in which LINK of it was told last


class HopBuffer(Record):
    """Data of a message that passes; ``kept``: they have been held since they came."""

    state: int
    record: int
    stamp: int
    kept: int


class HopRow(Record):
    """A slot of the NI."""

    mine: int
    destination: int
    generation: int


class Route(Record):
    """A route: the next hop, and what that is to this node."""

    hop: int
    way: int


class RelayEnded(Record):
    """A completion that waits for the host."""

    slot: int
    generation: int
    destination: int
    tag: int
    status: int
    cause: int


class Ring(Record):
    """Numbers of free things, the oldest first; ``fresh``: free since this cycle, and counted from the next on."""

    at: int
    places: int
    head: int
    level: int
    fresh: int


class Relay(Record):
    """A relay: sizes, places, state; behind it lie its tables and rings."""

    nodes: int
    ni_slots: int
    slots: int
    window: int
    cells: int
    sets: int
    set_bits: int
    entries: int
    buffers: int
    control_depth: int
    radix: int
    cache: int
    entry: int
    watch: int
    hop_cycles: int
    uid_mask: int
    uid_last: int
    uid_first: int
    header_beats: int
    mtu: int
    cell_beats: int
    initial: int
    control_class: int
    data_class: int
    checks: int  # each beat has a CRC
    at_slots: int
    at_to: int
    at_from: int
    at_cells: int
    at_entries: int
    at_buffers: int
    at_rows: int
    at_held: int
    at_posted: int
    at_hungry: int
    at_sending: int
    at_telling: int
    at_completions: int
    at_shown_last: int
    at_routes: int  # kept over resets
    at_checks: int  # the CRC of each beat, in the order of the words
    at_shown: int  # among words
    at_read: int
    at_slot_words: int
    at_cell_words: int
    at_buffer_words: int
    # Kept over resets.
    reset_in: int  # the last cycle of reset
    free_slots: Any = records(Ring, 1)
    free_cells: Any = records(Ring, 1)
    free_buffers: Any = records(Ring, 1)
    # Looked at in most cycles.
    begun: int  # the first cycle after reset
    ready_from: int
    wake: int
    stepped: int
    halted: int  # 0, or the detail of RELAY_HALT
    halt_told: int
    read_wrong: int  # of the beats on their way to the transfer's output
    show_wrong: int
    bank: int
    told: int  # the first notice has come
    depth: int
    for_all: int  # the walk for a notice
    next_uid: int
    generation: int  # of the slot of refused messages
    live: int  # messages
    known: int  # records
    owing: int  # records that are OWED
    parked: int
    held: int
    owed: int  # own completions that are to be taken
    own_held: int  # an own completion was shown in the cycle before, and not taken
    host: int
    host_waits: int  # the message that is offered has to wait for room
    passing: int  # a record of the host's is shown below
    host_slot: int
    host_length: int
    host_beat: int
    host_beats: int
    show_cell: int
    show_at: int
    show_taken: int
    show_read: int
    show_beats: int
    show_way: int  # beats on their way to the output: bit 0 read in the cycle before, bit 1 in that before it
    control: int  # the control transfer
    control_beat: int
    moving: int  # the data transfer
    moving_of: int
    moving_number: int  # the slot, the buffer (or `NONE`)
    moving_length: int
    moving_beat: int
    moving_left: int
    read_from: int
    read: int
    read_way: int
    job: int
    last_job: int
    free_from: int  # the next job does not begin before
    job_at: int
    phase: int
    job_number: int
    job_beats: int  # `Beats`, of data in
    job_left: int
    job_from: int  # beats are taken from this cycle on
    job_beat: int
    job_cell: int
    job_posts: int  # the cell is posted, and not parked
    look_wanted: int
    look: int
    owed_row: int
    pulled: int
    tide: int  # notices, and PULLs that were heard
    notice_wanted: int
    walking: int  # 0, or 1: for a PULL, 2: for a notice
    asking: int
    walk_phase: int
    walk_row: int
    row_used: int  # whether that row is, as of the start of the last cycle that was stepped
    cancel_walk: int
    cancel_row: int
    cancelling: int
    cancel_name: int
    cancel_generation: int
    registers: Any = records(Register, 2)
    heard: Any = records(RelayHeader, 1)
    out: Any = records(RelayHeader, 1)
    told_control: Any = records(RelayHeader, 1)
    told_data: Any = records(RelayHeader, 1)
    key: Any = records(RelayHeader, 1)
    posted: Any = records(Queue, 1)
    hungry: Any = records(Queue, 1)
    sending: Any = records(Queue, 1)
    telling: Any = records(Queue, 1)
    completions: Any = records(Queue, 1)
    shown: Any = records(Queue, 1)
    reading: Any = records(Queue, 1)


_CLEARED = (Relay.begun, Relay.size)


def numbers(system: System, below: HostPort) -> np.ndarray:
    """What a relay begins with."""
    nodes, relay = system.nodes, system.relay
    values = {
        "nodes": nodes, "ni_slots": below.slots, "slots": relay.slots, "window": system.relay_window,
        "cells": relay.cells, "sets": relay.records // 4, "set_bits": (relay.records // 4).bit_length() - 1,
        "entries": relay.records, "buffers": relay.buffers, "control_depth": relay.control, "radix": relay.radix,
        "cache": relay.cache_cycles // STAMP_CYCLES, "entry": relay.entry_cycles // STAMP_CYCLES,
        "watch": relay.watch_cycles // STAMP_CYCLES, "hop_cycles": relay.hop_cycles,
        "uid_mask": (1 << relay.uid_bits) - 1, "uid_last": (1 << relay.uid_bits) - 4, "uid_first": relay.uid_first,
        "header_beats": system.relay_header_beats, "mtu": system.relay_mtu, "cell_beats": _beats(system),
        "initial": max(relay.slots, nodes, relay.cells, relay.records, relay.buffers, below.slots),
        "checks": int(relay.crc),
        "control_class": (1 << system.format.class_bits) - 1, "data_class": (1 << system.format.class_bits) - 2,
    }  # fmt: skip
    areas = {
        "at_slots": relay.slots * RelaySlot.size, "at_to": nodes * ToRow.size, "at_from": nodes * FromRow.size,
        "at_cells": relay.cells * PostCell.size, "at_entries": relay.records * HopRecord.size,
        "at_buffers": relay.buffers * HopBuffer.size, "at_rows": below.slots * HopRow.size,
        "at_held": relay.buffers, "at_posted": relay.cells + 1, "at_hungry": nodes + 1,
        "at_sending": relay.slots + relay.buffers + 1, "at_telling": (relay.control + 1) * RelayHeader.size,
        "at_completions": (relay.slots + 5) * RelayEnded.size, "at_shown_last": SHOWN + 1,
        "at_routes": 2 * nodes * Route.size,
        "at_checks": (relay.slots + relay.cells + relay.buffers) * _beats(system) if relay.crc else 0,
    }  # fmt: skip
    place = Relay.size
    for name, size in areas.items():
        values[name], place = place, place + size
    rings = {"free_slots": relay.slots, "free_cells": relay.cells, "free_buffers": relay.buffers}
    places = {}
    for name, size in rings.items():
        places[name], place = place, place + size
    word = BEATS
    for name, size in (
        ("at_shown", SHOWN + 1), ("at_read", READ + 1), ("at_slot_words", relay.slots * _beats(system)),
        ("at_cell_words", relay.cells * _beats(system)), ("at_buffer_words", relay.buffers * _beats(system)),
    ):  # fmt: skip
        values[name], word = word, word + 2 * size
    found = np.zeros(place, np.int64)
    root = Relay(found)
    for name, value in values.items():
        setattr(root, name, value)
    for name, size in rings.items():
        ring = getattr(root, name)[0]
        ring.at, ring.places = places[name], size
    root.reset_in = NONE - 1
    start(root, 0, system.initial)
    return found


def words(system: System, below: HostPort) -> int:
    """Words of its headers and of all beats."""
    relay = system.relay
    return BEATS + 2 * (SHOWN + READ + 2 + (relay.slots + relay.cells + relay.buffers) * _beats(system))


def _beats(system: System) -> int:
    return max(1, -(-system.relay_mtu // system.format.flit_bytes))


@apart
def start(relay, cycle, ready_from):
    """All state as after reset, from ``cycle`` on; the NI is ready from a cycle on."""
    for place in range(_CLEARED[0], _CLEARED[1]):
        number_at(relay, place)[0] = 0
    for place in range(relay.at_slots, relay.at_routes):
        number_at(relay, place)[0] = 0
    relay.show_cell = NONE
    relay.next_uid = relay.uid_first
    relay.last_job = RelayJob.TREE
    none = relay.uid_mask
    for node in range(relay.nodes):
        to_at(relay, node).last = none
        from_at(relay, node).mark = none
    fill(relay, relay.free_slots[0])
    fill(relay, relay.free_cells[0])
    fill(relay, relay.free_buffers[0])
    begin(relay, cycle, ready_from)


@jit
def begin(relay, cycle, ready_from):
    """The first cycle after reset, and what is counted from it."""
    relay.begun, relay.ready_from = cycle, max(cycle + relay.initial, ready_from)
    relay.free_from, relay.stepped, relay.wake = relay.ready_from, cycle - 1, cycle


@jit
def number_at(relay, place):
    """The numbers of a relay from a place on."""
    return at(raw(relay), place)


@jit
def slot_at(relay, number):
    """A slot."""
    return RelaySlot(relay, relay.at_slots, number)


@jit
def to_at(relay, node):
    """What is known of a destination."""
    return ToRow(relay, relay.at_to, node)


@jit
def from_at(relay, node):
    """What is known of a source."""
    return FromRow(relay, relay.at_from, node)


@jit
def cell_at(relay, number):
    """A cell of the Post."""
    return PostCell(relay, relay.at_cells, number)


@jit
def entry_at(relay, number):
    """A record."""
    return HopRecord(relay, relay.at_entries, number)


@jit
def buffer_at(relay, number):
    """A buffer."""
    return HopBuffer(relay, relay.at_buffers, number)


@jit
def row_at(relay, number):
    """A slot of the NI."""
    return HopRow(relay, relay.at_rows, number)


@jit
def route_at(relay, node):
    """The route to a node, in the bank in use."""
    return Route(relay, relay.at_routes, relay.bank * relay.nodes + node)


@jit
def other_route_at(relay, node):
    """The same in the other bank."""
    return Route(relay, relay.at_routes, (1 - relay.bank) * relay.nodes + node)


@jit
def relation(relay, node):
    """What a node is to this one."""
    route = route_at(relay, node)
    return route.way if route.hop == node else 0


@jit
def stamp(relay, cycle):
    """The stamp of a cycle."""
    return (now(relay, cycle) >> STAMP_SHIFT) & STAMP_MASK


@jit
def now(relay, cycle):
    """Cycles since Ready."""
    return (cycle - relay.ready_from) & 0xFFFF_FFFF


@jit
def age(relay, cycle, since):
    """The age of a stamp."""
    return ((now(relay, cycle) >> STAMP_SHIFT) - since) & STAMP_MASK


@jit
def below(relay, uid, mark):
    """Whether a uid is at or below another."""
    return (mark - uid) & relay.uid_mask < (relay.uid_mask + 1) >> 1


@jit
def newer(s, incarnation, known):
    """Whether an incarnation is newer than another."""
    return 0 < (incarnation - known) & s.k.incarnation_mask < (s.k.incarnation_mask + 1) >> 1


# Rings of free things


@jit
def fill(relay, ring):
    """All are free, in their order."""
    ring.head, ring.level, ring.fresh = 0, ring.places, 0
    for number in range(ring.places):
        number_at(relay, ring.at)[number] = number


@jit
def free_ones(ring):
    """How many were free at the start of the cycle, and are."""
    return ring.level - ring.fresh


@jit
def take_free(relay, ring):
    """The oldest one is free no longer."""
    number = number_at(relay, ring.at)[ring.head]
    ring.head = 0 if ring.head + 1 == ring.places else ring.head + 1
    ring.level -= 1
    return number


@jit
def give_free(relay, ring, number):
    """One is free."""
    place = ring.head + ring.level
    number_at(relay, ring.at)[place - ring.places if place >= ring.places else place] = number
    ring.level += 1


@jit
def give_free_buffer(relay, number):
    """A buffer is free."""
    buffer = buffer_at(relay, number)
    buffer.state, buffer.record, buffer.kept = Keeping.FREE, NONE, 0
    give_free(relay, relay.free_buffers[0], number)


# The held list


@jit
def hold(relay, number, cycle):
    """A buffer is held."""
    buffer = buffer_at(relay, number)
    buffer.state, buffer.stamp, buffer.kept = Keeping.HELD, stamp(relay, cycle), 1
    number_at(relay, relay.at_held)[relay.held] = number
    relay.held += 1


@jit
def unhold(relay, number):
    """A held buffer leaves the list."""
    held = number_at(relay, relay.at_held)
    place = 0
    while held[place] != number:
        place += 1
    relay.held -= 1
    while place < relay.held:
        held[place] = held[place + 1]
        place += 1


@jit
def wait_slot(relay, number, cycle):
    """A slot waits to be sent."""
    slot = slot_at(relay, number)
    if not slot.waiting:
        slot.waiting = 1
        push_sending(relay, number, cycle)


@jit
def wait_buffer(relay, number, cycle):
    """A buffer waits to be sent."""
    buffer_at(relay, number).state = Keeping.WAITING
    push_sending(relay, relay.slots + number, cycle)


@jit
def push_sending(relay, number, cycle):
    """The queue to send."""
    push(relay, relay.sending[0], relay.at_sending, relay.slots + relay.buffers + 1, number, cycle)


# Queues of numbers


@jit
def push(relay, waiting, place, places, number, cycle):
    """A number is pushed to a queue whose ring begins at a place."""
    number_at(relay, place)[queue.place_in(waiting, places, waiting.level)] = number
    queue.added(waiting, 1, cycle)


@jit
def pop(relay, waiting, place, places, cycle):
    """The oldest number leaves a queue."""
    number = number_at(relay, place)[waiting.head]
    queue.removed(waiting, places, cycle)
    return number

"""What a flow knows, by name (section 4 of its contract), and the memory it begins with."""

from enum import IntEnum
from typing import Any

import numpy as np

from lethe.spec.config import System
from lethe.spec.ports import HostPort
from lethe.spec.services.flow import WINDOW, In, Out
from lethe_sim.golden.compile import apart, at, jit
from lethe_sim.golden.lib import queue
from lethe_sim.golden.record import Record, bits, raw, records
from lethe_sim.golden.state import AHEAD, NEVER, NONE, Queue

# Where words lie: the header of the message that goes down, of the one that comes up, and the control words likewise.
HEADER_OUT, HEADER_IN, WORD_OUT, WORD_IN, BEATS = 0, 2, 4, 6, 8
# Beats that the beat output holds.
OUTPUT = 8


class Transfer(IntEnum):
    """States of the transfer of messages, and of that of control words (IDLE, RECORD, BODY)."""

    IDLE = 0
    RECORD = 1
    HEADER = 2
    BODY = 3
    DROP = 4
    OWN = 5


class Drain(IntEnum):
    """States of the drainer; OWN is the body of an own message, SHORT what has less than a header."""

    IDLE = 0
    HEADER = 1
    BODY = 2
    OWN = 3
    SHORT = 4


class Fate(IntEnum):
    """What becomes of a data message (the first three are refusals), and what else the journal has."""

    NONE = 0
    NOT_OPEN = 1
    PORT_FULL = 2
    EARLY = 3
    IGNORE = 4
    VACANT = 5
    PLACE = 6
    RUN = 7
    OWN = 8


class Notice(IntEnum):
    """States of a notice of control."""

    CLEAN = 0
    QUEUED = 1
    FLYING = 2
    AGAIN = 3
    WAITING = 4


class Job(IntEnum):
    """The jobs, in their order."""

    NONE = 0
    COMPLETION = 1
    CONTROL = 2
    SET = 3
    TICK = 4
    SEND = 5
    PROBE = 6
    CANCEL = 7
    TASK = 8


class PeerTask(IntEnum):
    """The tasks."""

    NONE = 0
    OPEN = 1
    UP = 2
    CLOSE = 3


class Phase(IntEnum):
    """The phases of a task."""

    FLUSH = 0
    ROWS = 1
    SWEEP = 2
    LAST = 3


class Walk(IntEnum):
    """What a tick walks for, bits."""

    AGES = 1
    WATCHES = 2
    MAP = 4


class Concern(IntEnum):
    """What a peer wants of the jobs, bits of `Peer.concerns`."""

    AGING = 1  # it is LEAVING or in ERROR
    WATCHED = 2  # it is UP and something is under way or blocked, or it is a source that is mute
    CANCELLING = 4  # it is LEAVING, and something is under way
    SOUGHT = 8  # the probe is for it


class Peer(Record):
    """Another node: as a destination (`out`), as a source (`source`), and its life as it was told last."""

    out: int
    wanted: int  # so many probes
    blocked: int
    round: int
    pong: int
    incarnation: int
    paths: int  # a mask
    age: int
    heard: int
    asked: int  # by a PING that is under way
    live: int
    map: int
    source: int  # `In`
    source_known: int
    source_boot: int
    source_round: int
    source_incarnation: int
    source_age: int
    life_known: int
    life: int
    noticed: int  # the host is to be told
    concerns: int


class OutStream(Record):
    """A stream to a port of another node."""

    next: Any = bits(8)
    base: Any = bits(8)
    done: Any = bits(WINDOW)
    void: Any = bits(WINDOW)
    limit: Any = bits(8)
    asked: Any = bits(1)


class InStream(Record):
    """A stream from a node to an own port; ``parked`` is 1 + the first of its parked cells among the port's, or 0."""

    expected: Any = bits(8)
    present: Any = bits(WINDOW)
    filled: Any = bits(WINDOW)
    told: Any = bits(8)
    gap: Any = bits(1)
    parked: Any = bits(13)  # a port has 4,096 cells at most


class Port(Record):
    """An own port, and the socket of its index; its free cells are a pile, those that are placed a ring."""

    bound: int
    number: int
    used: int
    since: int  # the cycle in which ``used`` changed last
    used_was: int  # ``used`` at the start of that cycle
    placed: int  # cells that went to the list and are not free yet
    bytes: int
    receive_limit: int
    congested: int
    free: int
    list_head: int
    listed: int
    sent_bytes: int
    sent: int
    send_limit: int


class PortCell(Record):
    """A cell: what its message's record says, and 1 + the next parked one of the stream among the port's, or 0."""

    index: int
    source: int
    cls: int
    sport: int
    dport: int
    flags: int
    seq: int
    length: int
    gap: int
    parked: int


class SlotRow(Record):
    """A slot of the NI: of a message, or (``code`` is not 0) of a control word."""

    under_way: int
    generation: int
    destination: int
    index: int
    socket: int
    seq: int
    length: int
    credit: int
    carried: int
    code: int
    base: int
    map: int
    probe: int


class Message(Record):
    """A record from above."""

    destination: int
    cls: int
    mode: int
    length: int
    deadline: int
    retry_limit: int
    tag: int
    sport: int
    dport: int
    flags: int
    seq: int


class Ended(Record):
    """A completion that waits for the host."""

    slot: int
    generation: int
    destination: int
    tag: int
    status: int
    cause: int
    incarnation: int


class Entry(Record):
    """An entry of the journal: a verdict about a number of (source, index), which runs on with ``count`` numbers."""

    verdict: int
    source: int
    index: int
    seq: int
    count: int
    mask: int


class Arrival(Record):
    """A data message that is to act."""

    verdict: int
    source: int
    best_effort: int
    length: int
    seq: int
    flags: int
    dport: int


class Flow(Record):
    """A flow: sizes, places, state; behind it lie its tables and rings."""

    # Kept over resets.
    boot: int
    reset_in: int  # the last cycle of reset
    ignored: int  # the counter CONTROL_IGNORED
    raised: int
    unseen: int  # changes of congested ports that the lane had no room for
    # Sizes, and places of what lies behind.
    data_slots: int
    cells: int
    in_order: int
    header_beats: int
    header_bytes: int
    paths: int
    mtu: int
    quota: int
    silence: int
    watch: int
    tries: int
    initial: int
    receive_limit: int
    send_limit: int
    bound: int
    records_limit: int
    cell_beats: int
    ports: int
    notices: int  # of control, for each node
    at_peers: int
    at_outs: int
    at_ins: int
    at_ports: int
    at_free: int
    at_lists: int
    at_cells: int
    at_rows: int
    at_notices: int
    at_messages: int
    at_completions: int
    at_journal: int
    at_control: int
    at_told: int
    at_lasts: int
    at_output: int  # among words
    at_cell_words: int
    # Those looked at in most cycles; state is cleared from `begun` on.
    port_mask: int
    slots: int
    nodes: int
    beat_depth: int
    begun: int  # the first cycle after reset
    ready_from: int
    wake: int
    stepped: int  # the last cycle that was stepped
    acts: int  # of the next cycles those in which a data message acts
    transfer: int
    due: int
    used: int  # of all ports
    used_since: int  # the last cycle in which that of a port changed
    readable: int
    readable_before: int
    congested: int
    flips: int  # ports that would become congested, or no more
    turning: int  # 1 + the port that becomes congested in the next cycle, or no more; 0 without one
    merge_at: int  # the cycle in which the merge port asked, or `NEVER`
    drain: int
    settle_at: int  # the cycle in which a drained message is placed, or `NEVER`
    settle_own_at: int  # likewise of an own one
    placing: int  # numbers left of the run of the placer
    fetch_cell: int
    show_cell: int
    on_way: int  # beats on their way to the output: bit 0 read in the cycle before, bit 1 in that before it
    freeing: int  # the cell that is freed in this cycle
    control: int  # the control transfer
    word_state: int  # of the word register: 0 empty, 1 beats are due, 2 full
    cancelling: int  # a cancel is offered
    task: int
    task_node: int
    aging: int  # peers of each `Concern`
    watched: int
    leaving: int
    sought: int
    sought_before: int  # ``sought`` at the start of the last cycle that was stepped
    journal_before: int  # the journal's level at the start of that cycle
    job: int  # the one under way
    last_job: int
    free_from: int  # the next job does not begin before
    job_at: int  # it does not act before
    walk_node: int  # nodes that the walk has looked at (`nodes`: there is no walk)
    watches_from: int  # the cycle from which the next walk for watches is asked for
    ages_asked: int
    map_asked: int
    records_in: Any = records(Queue, 1)
    beats_in: Any = records(Queue, 1)
    completions: Any = records(Queue, 1)
    journal: Any = records(Queue, 1)
    control_queue: Any = records(Queue, 1)
    host_notices: Any = records(Queue, 1)
    output: Any = records(Queue, 1)
    # The others.
    data_acted_at: int  # the last cycle in which a data message acted, in which a job did, in which a credit did
    acted_at: int
    credited_at: int
    left: int  # beats of the transfer
    beat: int
    again_at: int  # an attempt is not made before
    vain: int  # the last attempt waits, and a further one would change nothing
    owed: int
    beat_at: int  # the last cycle in which a beat was taken
    generation: int
    told_peer: int  # the last cycle in which a peer changed
    merge_slot: int
    merge_tries: int
    merge_node: int
    merge_expected: int
    merge_credit: int
    merge_open: int
    drained: int  # beats of the message that is drained
    drain_beats: int
    drain_cell: int
    drain_length: int
    drain_cls: int
    place_at: int  # when the placer places the next number, and which
    place_source: int
    place_index: int
    place_seq: int
    place_mask: int
    fetch_at: int
    fetch_flush: int
    fetched: int  # the port fetched last
    show_taken: int
    show_read: int
    show_beats: int
    control_beat: int
    control_to: int
    control_expect: int
    word_beat: int
    word_source: int
    word_incarnation: int
    word_length: int
    word_code: int
    job_waits: int  # it does not act before the journal has room
    job_number: int  # the notice that is sent, the node that is probed
    job_node: int  # of further steps: out streams to clear, MAP, WINDOWs that wait
    job_clears: int
    job_map: int
    job_windows: int
    job_goes_on: int  # its first step is done
    set_code: int  # the setting that was offered as the job began
    set_index: int
    set_value: int
    ended_slot: int  # the completion that was taken; its row is `ending`
    ended_generation: int
    ended_destination: int
    ended_tag: int
    ended_status: int
    ended_cause: int
    ended_incarnation: int
    walk: int  # what is walked for
    walk_first: int  # the node that is looked at first
    walk_to: int  # none of those looked at before this one is of concern
    probing: int  # a probe is under way
    probed: int  # the last
    pause_until: int
    pause: int
    cancel_slot: int
    cancel_name: int
    cancel_generation: int
    phase: int
    task_boot: int
    task_round: int
    task_life: int
    task_incarnation: int
    task_paths: int
    task_sweep: int
    task_index: int
    task_parks: int  # some stream that the task flushes has something parked
    sending: Any = records(Message, 1)
    telling: Any = records(SlotRow, 1)
    ending: Any = records(SlotRow, 1)
    arrivals: Any = records(Arrival, AHEAD)
    draining: Any = records(Entry, 1)


_CLEARED = (Flow.begun, Flow.size)


def numbers(system: System, below: HostPort) -> np.ndarray:
    """What a flow begins with."""
    nodes, flow, ports = system.nodes, system.flow, system.flow.ports
    beats = -(-system.flow_mtu // system.format.flit_bytes)
    values = {
        "nodes": nodes, "ports": ports, "port_mask": ports - 1, "slots": below.slots,
        "data_slots": below.slots - system.ni.control_slots, "cells": flow.cells, "in_order": flow.in_order,
        "header_beats": system.flow_header_beats, "header_bytes": system.flow_header_bytes, "mtu": system.flow_mtu,
        "paths": flow.paths,
        "quota": system.flow_quota, "silence": system.flow_silence, "watch": flow.watch, "tries": flow.tries,
        "initial": max(nodes * ports, flow.cells * ports, below.slots), "receive_limit": system.flow_receive_limit,
        "send_limit": system.flow_send_limit, "bound": flow.bound, "records_limit": system.ni.deliver_records,
        "beat_depth": max(beats, 4), "cell_beats": beats, "notices": 2 * ports + 3,
    }  # fmt: skip
    areas = {
        "at_peers": nodes * Peer.size, "at_outs": nodes * ports * OutStream.size,
        "at_ins": nodes * ports * InStream.size, "at_ports": ports * Port.size, "at_free": ports * flow.cells,
        "at_lists": ports * flow.cells, "at_cells": ports * flow.cells * PortCell.size,
        "at_rows": below.slots * SlotRow.size,
        "at_notices": nodes * values["notices"], "at_messages": 2 * Message.size,
        "at_completions": (below.slots + 5) * Ended.size, "at_journal": (system.ni.deliver_records + 5) * Entry.size,
        "at_control": nodes * values["notices"] + 1, "at_told": nodes + 1, "at_lasts": OUTPUT + 1,
    }  # fmt: skip
    place = Flow.size
    for name, size in areas.items():
        values[name], place = place, place + size
    values["at_output"] = BEATS + 2 * (values["beat_depth"] + 1)
    values["at_cell_words"] = values["at_output"] + 2 * (OUTPUT + 1)
    found = np.zeros(place, np.int64)
    root = Flow(found)
    for name, value in values.items():
        setattr(root, name, value)
    root.reset_in = NONE - 1
    start(root, 0, system.initial)
    return found


def words(system: System, below: HostPort) -> int:
    """Words of its headers, its beats and its cells."""
    beats = -(-system.flow_mtu // system.format.flit_bytes)
    return BEATS + 2 * (max(beats, 4) + 1 + OUTPUT + 1 + system.flow.ports * system.flow.cells * beats)


@apart
def start(flow, cycle, ready_from):
    """All state as after reset, from ``cycle`` on; the NI is ready from a cycle on."""
    for place in range(_CLEARED[0], _CLEARED[1]):
        number_at(flow, place)[0] = 0
    for place in range(flow.at_peers, flow.at_lasts + OUTPUT + 1):
        number_at(flow, place)[0] = 0
    flow.merge_at = flow.settle_at = flow.settle_own_at = NEVER
    flow.told_peer = flow.fetch_cell = flow.show_cell = flow.freeing = NONE
    flow.data_acted_at = flow.acted_at = flow.credited_at = -NEVER
    flow.fetched = flow.ports - 1
    flow.probed = flow.nodes - 1
    flow.walk_node, flow.walk_first = flow.nodes, flow.nodes - 1
    flow.job_clears = flow.job_windows = flow.ports
    flow.last_job = Job.TASK
    for stream in range(flow.nodes * flow.ports):
        clear_out(OutStream(flow, flow.at_outs, stream))
        clear_in(InStream(flow, flow.at_ins, stream))
        InStream(flow, flow.at_ins, stream).gap = 1
    for index in range(flow.ports):
        port = port_at(flow, index)
        port.bound, port.number = flow.bound, index if flow.bound else 0
        port.receive_limit, port.send_limit = flow.receive_limit, flow.send_limit
        port.free = flow.cells
        for i in range(flow.cells):
            number_at(flow, flow.at_free)[index * flow.cells + i] = index * flow.cells + i
    begin(flow, cycle, ready_from)


@jit
def begin(flow, cycle, ready_from):
    """The first cycle after reset, and what is counted from it."""
    flow.begun, flow.ready_from = cycle, max(cycle + flow.initial, ready_from)
    flow.free_from, flow.stepped, flow.wake = flow.ready_from, cycle - 1, cycle
    flow.watches_from = flow.ready_from + flow.watch


@jit
def clear_out(stream):
    """An out stream as after reset."""
    stream.next, stream.base, stream.done, stream.void, stream.limit, stream.asked = 0, 0, 0, 0, 2, 0


@jit
def clear_in(stream):
    """An in stream as after reset, but for its gap, which is the placer's, as its parked cells are."""
    stream.expected, stream.present, stream.filled, stream.told = 0, 0, 0, 2


@jit
def number_at(flow, place):
    """The numbers of a flow from a place on."""
    return at(raw(flow), place)


@jit
def peer_at(flow, node):
    """What is known of another node."""
    return Peer(flow, flow.at_peers, node)


@jit
def out_at(flow, node, index):
    """The stream to a port of a node."""
    return OutStream(flow, flow.at_outs, node * flow.ports + index)


@jit
def in_at(flow, node, index):
    """The stream from a node to an own port."""
    return InStream(flow, flow.at_ins, node * flow.ports + index)


@jit
def port_at(flow, index):
    """An own port."""
    return Port(flow, flow.at_ports, index)


@jit
def cell_at(flow, number):
    """A cell."""
    return PortCell(flow, flow.at_cells, number)


@jit
def row_at(flow, slot):
    """What is known of a slot of the NI."""
    return SlotRow(flow, flow.at_rows, slot)


@jit
def message_at(flow, behind):
    """A record that was taken, counted from the oldest."""
    return Message(flow, flow.at_messages, queue.place_in(flow.records_in[0], 2, behind))


@jit
def ended_at(flow, behind):
    """A completion that waits for the host."""
    return Ended(flow, flow.at_completions, queue.place_in(flow.completions[0], flow.slots + 5, behind))


@jit
def entry_at(flow, behind):
    """An entry of the journal."""
    return Entry(flow, flow.at_journal, queue.place_in(flow.journal[0], flow.records_limit + 5, behind))


@jit
def push_entry(flow, cycle, verdict, source, index, seq, count, mask):
    """An entry goes to the journal."""
    entry = entry_at(flow, flow.journal[0].level)
    entry.verdict, entry.source, entry.index = verdict, source, index
    entry.seq, entry.count, entry.mask = seq, count, mask
    queue.added(flow.journal[0], 1, cycle)


@jit
def journal_has_room(flow, cycle):
    """Whether a run, a flush or a message to the own node may enter: by the level at the start of the cycle before."""
    if flow.stepped == cycle - 1:
        return flow.journal_before < 2
    return queue.memory_level(flow.journal[0], cycle - 1) < 2


@jit
def push_completion(flow, cycle, slot, generation, destination, tag, status, cause, incarnation):
    """A completion is to be shown to the host."""
    ended = ended_at(flow, flow.completions[0].level)
    ended.slot, ended.generation, ended.destination, ended.tag = slot, generation, destination, tag
    ended.status, ended.cause, ended.incarnation = status, cause, incarnation
    queue.added(flow.completions[0], 1, cycle)


@jit
def ahead(a, b):
    """Whether the number ``a`` is ahead of ``b``."""
    return 0 < (a - b & 255) < 128


@jit
def wants_window(stream):
    """Whether a source must be told where its stream is."""
    return not 2 <= (stream.told - stream.expected & 255) < 128


@jit
def offer_of(flow, stream, index):
    """The limit that is told to a source."""
    return credit_of(flow, stream, port_at(flow, index).used)


@jit
def credit_of(flow, stream, used):
    """The limit of a stream to a port, of which so many cells are used."""
    return stream.expected + 2 + min(14, flow.cells - used >> 1) & 255


@jit
def offer_in(flow, stream, index, cycle):
    """The limit that a job tells in ``cycle``: by the cells as at the start of the cycle before."""
    port = port_at(flow, index)
    return credit_of(flow, stream, port.used_was if port.since == cycle - 1 else port.used)


@jit
def use_cells(flow, port, change, cycle):
    """A cell of a port is taken (1), or free again (−1)."""
    if port.since != cycle:
        port.used_was = port.used
    port.used += change
    flow.used += change
    flow.used_since = port.since = cycle


@jit
def told(stream, credit):
    """A source was told a limit."""
    if ahead(credit, stream.told):
        stream.told = credit


@jit
def raise_limit(peer, stream, credit):
    """A limit was told; returns whether it raises the stream's."""
    if peer.out not in (Out.CONNECTING, Out.UP):
        return False
    if not 1 <= (credit - stream.limit & 255) <= WINDOW or (credit - stream.next & 255) > WINDOW:
        return False
    stream.limit, stream.asked = credit, 0
    return True


@jit
def finish(stream, number):
    """A number is finished."""
    place = number - stream.base & 255
    if place >= WINDOW:
        return
    stream.done |= 1 << place
    stream.void &= ~(1 << place)
    while stream.done & 1:
        stream.base = stream.base + 1 & 255
        stream.done >>= 1
        stream.void >>= 1


@jit
def shift(stream):
    """The numbers from the expected one on that are there leave the window: how many, and which are filled."""
    count, filled = 0, stream.filled
    while stream.present >> count & 1:
        count += 1
    stream.expected = stream.expected + count & 255
    stream.present >>= count
    stream.filled >>= count
    return count, filled


@jit
def weigh(flow, node):
    """What a peer wants of the jobs, after a change of it."""
    peer = peer_at(flow, node)
    found = 0
    if peer.out in (Out.LEAVING, Out.ERROR):
        found |= Concern.AGING
    if peer.out == Out.LEAVING and peer.live > 0:
        found |= Concern.CANCELLING
    if (peer.out == Out.UP and (peer.live > 0 or peer.blocked)) or peer.source == In.MUTE:
        found |= Concern.WATCHED
    if (peer.out == Out.CONNECTING and peer.wanted and not peer.pong) or peer.source == In.MUTE:
        found |= Concern.SOUGHT
    before = peer.concerns
    if found == before:
        return
    peer.concerns, flow.walk_to = found, 0
    flow.aging += (found & 1) - (before & 1)
    flow.watched += (found >> 1 & 1) - (before >> 1 & 1)
    flow.leaving += (found >> 2 & 1) - (before >> 2 & 1)
    flow.sought += (found >> 3 & 1) - (before >> 3 & 1)


@jit
def count_live(flow, node, change):
    """A datagram to a peer begins (1) or ends (−1)."""
    peer_at(flow, node).live += change
    weigh(flow, node)

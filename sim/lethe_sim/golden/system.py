"""A whole system, cycle by cycle: who acts in which order, and who need not be asked at all.

Within a cycle: faults of the schedule, what the NIs show, the links, the routers, the NIs, the account.
An NI is stepped only from the cycle in `look` on; whatever disturbs it lowers that.
"""

from typing import NamedTuple

import numpy as np
from lethe.spec.trace import NI_WORDS

from . import fabric, link, router, traffic
from .bits import U0
from .compile import jit
from .events import settle, write_words
from .ni import ni as interface
from .ni import receiver, transmitter
from .ni.accept import DELIVER_STALL, bit
from .state import (
    AT_TX_DATA, EXTERNAL, FLIP, HOST, IN_RESET, NODES, PHASES, SCRIPT, STALLED, TX_END, TX_LISTED, TX_RING,
    UNDER_WAY, VALID, WORDS,
)  # fmt: skip


class Plant(NamedTuple):
    """The arrays of a system beside `k`, `ni`, `data` and the fabric."""

    look: np.ndarray  # per node: the next cycle in which it must be stepped
    heard: np.ndarray  # per node: the last cycle in which a flit arrived
    showing: np.ndarray  # list of nodes whose transmitter shows something
    hearing: np.ndarray  # two lists of nodes with a message under way: this cycle's, the one's before
    stimulus: np.ndarray  # per node: its six words
    items: np.ndarray  # script: what is to be sent
    item_first: np.ndarray
    item_data: np.ndarray
    letters: np.ndarray  # script: what was delivered
    letter_data: np.ndarray
    schedule: np.ndarray  # faults: cycle, what, which, +1 or −1
    clock: np.ndarray  # columns below
    events: np.ndarray
    digest: np.ndarray
    counters: np.ndarray
    router_counters: np.ndarray
    link_counters: np.ndarray
    sums: np.ndarray


CYCLE, SCHEDULED, KEEP_EVENTS, EVENT_ROOM, LETTER_ROOM, LETTER_WORD_ROOM = range(6)
LINK_DIES, NODE_STALLS, NODE_RESETS = range(3)


@jit
def schedule(k, ni, f, plant, cycle):
    """Apply the faults that begin or end in ``cycle``."""
    rows, clock = plant.schedule, plant.clock
    while clock[SCHEDULED] < len(rows) and rows[clock[SCHEDULED], 0] <= cycle:
        row = clock[SCHEDULED]
        what, which, change = rows[row, 1], rows[row, 2], rows[row, 3]
        clock[SCHEDULED] += 1
        if what == LINK_DIES:
            f.link_state[which, fabric.DEAD_COUNT] += change
        elif what == NODE_STALLS:
            ni[which, STALLED] += change
            plant.look[which] = cycle
        else:
            if change > 0 and ni[which, IN_RESET] == 0:
                interface.begin_reset(k, ni, plant.events, cycle, which)
            ni[which, IN_RESET] += change
            plant.look[which] = cycle


@jit
def show(k, ni, data, f, plant, cycle):
    """What the transmitters show: their flits enter the injection links."""
    showing = plant.showing
    kept = 0
    for i in range(1, showing[0] + 1):
        node = showing[i]
        if not ni[node, IN_RESET]:
            flags = transmitter.shown(k, ni, plant.events, cycle, node)
            if flags & VALID:
                place = k[AT_TX_DATA] + (cycle & (k[TX_RING] - 1)) * k[WORDS]
                high = data[node, place + 1] if k[WORDS] == 2 else U0
                fabric.fly(k, f, cycle, node, flags, data[node, place], high)
            if ni[node, TX_END] > cycle:
                kept += 1
                showing[kept] = node
                continue
        ni[node, TX_LISTED] = 0
    showing[0] = kept


@jit
def carry(k, ni, data, f, plant, cycle):
    """All flits that are on a link in ``cycle`` reach its end, or do not."""
    phase = cycle & (k[PHASES] - 1)
    nodes, routers = k[NODES], len(f.router_number)
    for i in range(f.flight_count[phase]):
        number, flags = f.flight[phase, i, 0], f.flight[phase, i, 1]
        low, high = f.flight_data[phase, i, 0], f.flight_data[phase, i, 1]
        unit = nodes + routers + number
        if not link.survives(k, f, plant.events, cycle, unit, number, flags):
            continue
        if k[FLIP] > 0:
            flags, low, high = link.flip(k, f, plant.events, cycle, unit, number, flags, low, high)
        target = f.target[number]
        if target >= 0:
            router.arrive(k, f, plant.events, cycle, target, flags, low, high)
        else:
            hear(k, ni, data, plant, cycle, -1 - target, flags, low, high)
    f.flight_count[phase] = 0
    router.gaps(k, f, plant.events, cycle)
    router.decide_all(k, f, plant.events, cycle)


@jit
def hear(k, ni, data, plant, cycle, node, flags, low, high):
    """A flit arrives at an NI."""
    if ni[node, IN_RESET]:
        return
    plant.heard[node] = cycle
    receiver.arrive(k, ni, data, cycle, node, flags, low, high)
    after_arrival(ni, plant, cycle, node)


@jit
def after_arrival(ni, plant, cycle, node):
    """Look at the NI again when it acts on what arrived, and notice the gap if the message goes on."""
    if ni[node, receiver.stage(cycle + 2)]:
        plant.look[node] = min(plant.look[node], cycle + 1)
    if ni[node, UNDER_WAY]:
        now = cycle & 1
        n = plant.hearing[now, 0] + 1
        plant.hearing[now, 0] = n
        plant.hearing[now, n] = node


@jit
def gaps(k, ni, data, plant, cycle):
    """NIs whose message went on in the cycle before and have no flit now."""
    before = cycle & 1 ^ 1
    for i in range(1, plant.hearing[before, 0] + 1):
        node = plant.hearing[before, i]
        if plant.heard[node] != cycle and not ni[node, IN_RESET]:
            receiver.arrive(k, ni, data, cycle, node, 0, U0, U0)
            after_arrival(ni, plant, cycle, node)
    plant.hearing[before, 0] = 0


@jit
def step_node(k, ni, data, f, plant, cycle, node):
    """One cycle of an NI and its host; sets the next cycle to look."""
    if ni[node, IN_RESET]:
        interface.reset(k, ni, cycle + 1, node)
        traffic.reset_host(k, ni, cycle, node)
        plant.look[node] = cycle + 1
        return
    if k[HOST] != EXTERNAL:
        traffic.present(k, ni, plant.stimulus, plant.items, plant.item_first, plant.item_data, cycle, node)
    stalled = ni[node, STALLED] > 0 or bit(plant.stimulus[node, 0], DELIVER_STALL)
    traffic.take(k, ni, data, plant.events, plant.sums, plant.letters, cycle, node, stalled)
    note = plant.letters[0, 0] + 1
    done = interface.step(k, ni, data, plant.events, plant.stimulus, cycle, node, note)
    if done & interface.SHOWING and not ni[node, TX_LISTED]:
        ni[node, TX_LISTED] = 1
        plant.showing[0] += 1
        plant.showing[plant.showing[0]] = node
    if k[HOST] == EXTERNAL:
        plant.look[node] = cycle + 1
        return
    if k[HOST] == SCRIPT and done & interface.COMMITTED:
        traffic.keep_letter(k, ni, data, plant.letters, plant.letter_data, cycle, node)
    traffic.follow(k, ni, plant.items, plant.item_first, plant.sums, cycle, node, done)
    own = traffic.next_offer(k, ni, plant.items, plant.item_first, cycle, node)
    plant.look[node] = min(own, interface.next_look(k, ni, cycle, node))


@jit
def drained(k, ni, f, plant, cycle):
    """Whether all is done at the start of ``cycle``: hosts finished, NIs idle, nothing on any wire."""
    if plant.showing[0] > 0 or not fabric.quiet(k, f):
        return False
    for node in range(k[NODES]):
        if not traffic.finished(k, ni, plant.item_first, node) or not interface.idle(k, ni, cycle, node):
            return False
    return True


@jit
def run(k, ni, data, f, plant, cycles, words, stimulus, until_drained):
    """Step up to ``cycles`` cycles; stops early when drained (if asked to) or when a buffer might not do.

    ``words`` and ``stimulus`` have a row per cycle, or no row.  Returns how many cycles ran.
    """
    clock, events = plant.clock, plant.events
    nodes, routers = k[NODES], len(f.router_number)
    for ran in range(cycles):
        cycle = clock[CYCLE]
        if not clock[KEEP_EVENTS]:
            events[0, 0] = U0
        if np.int64(events[0, 0]) > clock[EVENT_ROOM]:
            return ran
        if plant.letters[0, 0] > clock[LETTER_ROOM] or plant.letters[0, 1] > clock[LETTER_WORD_ROOM]:
            return ran
        start = np.int64(events[0, 0]) + 1
        schedule(k, ni, f, plant, cycle)
        if k[HOST] == EXTERNAL:
            for node in range(nodes):
                for word in range(6):
                    plant.stimulus[node, word] = stimulus[ran, 6 * node + word]
        elif len(words) > 0 or len(stimulus) > 0:
            for node in range(nodes):
                traffic.present(k, ni, plant.stimulus, plant.items, plant.item_first, plant.item_data, cycle, node)
                if len(stimulus) > 0:
                    for word in range(6):
                        stimulus[ran, 6 * node + word] = plant.stimulus[node, word]
        if len(words) > 0:
            for node in range(nodes):
                if not ni[node, IN_RESET]:
                    interface.outputs(k, ni, data, plant.stimulus, cycle, node, words[ran], node * NI_WORDS)
        show(k, ni, data, f, plant, cycle)
        carry(k, ni, data, f, plant, cycle)
        gaps(k, ni, data, plant, cycle)
        for node in range(nodes):
            if plant.look[node] <= cycle:
                step_node(k, ni, data, f, plant, cycle, node)
        settle(events, start, nodes, routers, plant.digest, plant.counters, plant.router_counters, plant.link_counters)
        if len(words) > 0:
            write_words(events, start, nodes, routers, f.router_first, words[ran])
        clock[CYCLE] = cycle + 1
        if until_drained and drained(k, ni, f, plant, cycle + 1):
            return ran + 1
    return cycles


NO_WORDS = np.zeros((0, 0), np.uint64)

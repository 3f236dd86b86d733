"""A whole system, cycle by cycle: who acts in which order, and who need not be asked at all.

Within a cycle: faults of the schedule, what the NIs show, the links, the routers, the NIs, the account.
An NI is stepped only from the cycle in `look` on; whatever disturbs it lowers that.  A model that never sleeps
(`AWAKE`) steps every NI in every cycle instead, and must come to the same.
"""

from typing import NamedTuple

import numpy as np

from lethe.spec.trace import STIMULUS_WORDS

from . import credits, fabric, link, router, traffic
from .bits import U0
from .compile import at, jit, pointer
from .events import ni_words, settle, write_words
from .ni import ni as interface
from .ni import receiver, transmitter
from .ni.accept import DELIVER_STALL, bit
from .state import (
    AT_TX_DATA,
    CREDIT_FLITS,
    DATA_WIDTH,
    DEAD_COUNT,
    EXTERNAL,
    FIRST,
    FLIP,
    HOST,
    IN_RESET,
    LAST,
    LINK_COLUMNS,
    LINK_COUNT,
    NEVER,
    NI_WIDTH,
    NODES,
    PHASES,
    ROUTER_COUNT,
    RX_COUNT,
    RX_TAG,
    SCRIPT,
    STALLED,
    TAG_FLITS,
    TAG_FLITS_MASK,
    TAG_NODE,
    TAG_NODE_MASK,
    TAG_PLACE,
    TARGET,
    TX_END,
    TX_LISTED,
    TX_RING,
    UNDER_WAY,
    VALID,
    WHOLE,
    WORDS,
)  # fmt: skip  # isort: skip


class Plant(NamedTuple):
    """The memory of a system beside the fabric's; rows follow one another."""

    k: np.ndarray
    ni: np.ndarray
    data: np.ndarray
    look: np.ndarray  # per node: the next cycle in which it must be stepped
    heard: np.ndarray  # per node: the last cycle in which a flit arrived
    lists: np.ndarray  # nodes whose transmitter shows something; with a message under way, even and odd cycles; to step
    stimulus: np.ndarray  # per node: its six words
    items: np.ndarray  # script: what is to be sent
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


(
    CYCLE, SCHEDULED, FAULTS, KEEP_EVENTS, EVENT_ROOM, LETTER_ROOM, LETTER_WORD_ROOM, FLIGHTS_END, AWAKE, CLOCK_COLUMNS,
) = range(10)  # fmt: skip
LINK_DIES, NODE_STALLS, NODE_RESETS = range(3)
SHOWING, HEARING, STEPPING = 0, 1, 3


@jit
def pointers(p):
    """The memory as the functions of a cycle take it."""
    return Plant(
        pointer(p.k), pointer(p.ni), pointer(p.data), pointer(p.look), pointer(p.heard), pointer(p.lists),
        pointer(p.stimulus), pointer(p.items), pointer(p.item_data), pointer(p.letters), pointer(p.letter_data),
        pointer(p.schedule), pointer(p.clock), pointer(p.events), pointer(p.digest), pointer(p.counters),
        pointer(p.router_counters), pointer(p.link_counters),
    )  # fmt: skip


@jit
def ni_of(p, node):
    """The numbers of an NI."""
    return at(p.ni, node * p.k[NI_WIDTH])


@jit
def data_of(p, node):
    """The words of an NI."""
    return at(p.data, node * p.k[DATA_WIDTH])


@jit
def stimulus_of(p, node):
    """The stimulus words of an NI."""
    return at(p.stimulus, node * STIMULUS_WORDS)


@jit
def enlist(p, number, node):
    """Put a node on a list."""
    first = number * (p.k[NODES] + 1)
    p.lists[first] += 1
    p.lists[first + p.lists[first]] = node


@jit
def apply_schedule(p, f, cycle):
    """Apply the faults that begin or end in ``cycle``."""
    clock = p.clock
    while clock[SCHEDULED] < clock[FAULTS] and p.schedule[4 * clock[SCHEDULED]] <= cycle:
        row = 4 * clock[SCHEDULED]
        what, which, change = p.schedule[row + 1], p.schedule[row + 2], p.schedule[row + 3]
        clock[SCHEDULED] += 1
        if what == LINK_DIES:
            f.links[which * LINK_COLUMNS + DEAD_COUNT] += change
            continue
        ni = ni_of(p, which)
        p.look[which] = cycle
        if what == NODE_STALLS:
            ni[STALLED] += change
        else:
            if change > 0 and ni[IN_RESET] == 0:
                interface.begin_reset(p.k, ni, p.events, cycle)
            ni[IN_RESET] += change


@jit
def sent(p, node, cycle):
    """Words of the flit that a transmitter shows or has shown in ``cycle``."""
    k, data = p.k, data_of(p, node)
    place = k[AT_TX_DATA] + (cycle & (k[TX_RING] - 1)) * k[WORDS]
    return data[place], data[place + 1] if k[WORDS] == 2 else U0


@jit
def show(p, f, cycle):
    """What the transmitters show: their flits enter the injection links."""
    k, showing = p.k, p.lists
    kept = 0
    for i in range(1, showing[0] + 1):
        node = showing[i]
        ni = ni_of(p, node)
        if not ni[IN_RESET]:
            flags = transmitter.shown(k, ni, p.events, cycle)
            if flags & FIRST or (flags & VALID and not k[WHOLE]):
                low, high = sent(p, node, cycle)
                if k[CREDIT_FLITS]:
                    credits.enqueue(k, f, node, flags, low, high)
                else:
                    tag = flags | node << TAG_NODE | (cycle & (k[TX_RING] - 1)) << TAG_PLACE
                    fabric.fly(k, f, cycle, node, tag, low, high)
            if ni[TX_END] > cycle:
                kept += 1
                showing[kept] = node
                continue
        ni[TX_LISTED] = 0
    showing[0] = kept
    if k[CREDIT_FLITS]:
        credits.take_back(k, f, cycle)
        credits.feed(k, f, cycle)


@jit
def carry(p, f, cycle):
    """All flits that are on a link in ``cycle`` reach its end, or do not; then the routers decide."""
    k, ev = p.k, p.events
    phase = cycle & (k[PHASES] - 1)
    count = fabric.list_at(k, 3) + phase
    first_unit = k[NODES] + k[ROUTER_COUNT]
    first = 2 * phase * k[LINK_COUNT]
    for row in range(first, first + 2 * f.lists[count], 2):
        number, flags = f.flight[row], f.flight[row + 1]
        low, high = f.flight_data[row], f.flight_data[row + 1]
        if k[WHOLE]:
            p.clock[FLIGHTS_END] = max(p.clock[FLIGHTS_END], cycle + (flags >> TAG_FLITS & TAG_FLITS_MASK))
        if not link.survives(k, f, ev, cycle, first_unit + number, number, flags):
            continue
        if k[FLIP] > 0:
            flags, low, high = link.flip(k, f, ev, cycle, first_unit + number, number, flags, low, high)
        target = f.links[number * LINK_COLUMNS + TARGET]
        if target < 0:
            hear(p, cycle, -1 - target, flags, low, high)
        elif k[CREDIT_FLITS]:
            credits.arrive(k, f, cycle, target, flags, low, high)
        else:
            router.arrive(k, f, ev, cycle, target, flags, low, high)
    f.lists[count] = 0
    if k[CREDIT_FLITS]:
        credits.step(k, f, ev, cycle)
    else:
        router.gaps(k, f, ev, cycle)
        router.decide_all(k, f, ev, cycle)


@jit
def hear(p, cycle, node, flags, low, high):
    """A flit, or with flags 0 the gap in a message, arrives at an NI."""
    ni = ni_of(p, node)
    if ni[IN_RESET]:
        return
    p.heard[node] = cycle
    if flags & FIRST:
        ni[RX_TAG] = flags
    receiver.arrive(p.k, ni, data_of(p, node), cycle, flags, low, high)
    if ni[receiver.stage(cycle + 2)]:
        p.look[node] = min(p.look[node], cycle + 1)
    if ni[UNDER_WAY]:
        enlist(p, HEARING + (cycle & 1), node)


@jit
def hear_next(p, cycle, node):
    """The next flit of a worm that travels whole: its words are still where its transmitter shows them."""
    ni = ni_of(p, node)
    tag, count = ni[RX_TAG], ni[RX_COUNT]
    low, high = sent(p, tag >> TAG_NODE & TAG_NODE_MASK, (tag >> TAG_PLACE) + count)
    last = LAST if count + 1 == tag >> TAG_FLITS & TAG_FLITS_MASK else 0
    hear(p, cycle, node, VALID | last, low, high)


@jit
def hear_more(p, cycle):
    """NIs whose message went on in the cycle before and have no flit now: the next of a whole worm, or a gap.

    With credits worms pause, and are never cut short: to a NI a pause is no gap.
    """
    before = (HEARING + (cycle & 1 ^ 1)) * (p.k[NODES] + 1)
    for i in range(before + 1, before + p.lists[before] + 1):
        node = p.lists[i]
        if p.k[WHOLE]:
            hear_next(p, cycle, node)
        elif p.heard[node] != cycle and p.k[CREDIT_FLITS] == 0:
            hear(p, cycle, node, 0, U0, U0)
    p.lists[before] = 0


@jit
def step_node(p, cycle, node):
    """One cycle of an NI and its host; sets the next cycle to look."""
    k, ni, data, stimulus, ev = p.k, ni_of(p, node), data_of(p, node), stimulus_of(p, node), p.events
    if ni[IN_RESET]:
        interface.reset(k, ni, cycle + 1)
        traffic.reset_host(ni, cycle)
        p.look[node] = cycle + 1
        return
    if k[HOST] != EXTERNAL:
        traffic.present(k, ni, stimulus, p.items, p.item_data, cycle)
    if ni[STALLED] == 0 and not bit(stimulus[0], DELIVER_STALL):
        traffic.take(k, ni, data, ev, p.letters, cycle)
    done = interface.step(k, ni, data, ev, stimulus, cycle, p.letters[0] + 1)
    if done & interface.SHOWING and not ni[TX_LISTED]:
        ni[TX_LISTED] = 1
        enlist(p, SHOWING, node)
    if k[HOST] == EXTERNAL:
        p.look[node] = cycle + 1
        return
    if k[HOST] == SCRIPT and done & interface.COMMITTED:
        traffic.keep_letter(k, ni, data, p.letters, p.letter_data, cycle)
    traffic.follow(k, ni, p.items, cycle, done)
    own = traffic.next_offer(k, ni, p.items, cycle)
    p.look[node] = own if own == cycle + 1 else min(own, interface.next_look(k, ni, cycle))


@jit
def step_all(p, cycle):
    """Step every NI that is to be looked at.  They are listed first, without a branch that nobody could foretell."""
    stepping = at(p.lists, STEPPING * (p.k[NODES] + 1))
    count, latest = 0, NEVER if p.clock[AWAKE] else cycle
    for node in range(p.k[NODES]):
        stepping[count] = node
        count += p.look[node] <= latest
    for i in range(count):
        step_node(p, cycle, stepping[i])


@jit
def all_drained(p, f, cycle):
    """Whether all is done at the start of ``cycle``: hosts finished, NIs idle, nothing on any wire."""
    if p.lists[0] > 0 or cycle < p.clock[FLIGHTS_END] or not fabric.quiet(p.k, f):
        return False
    for node in range(p.k[NODES]):
        ni = ni_of(p, node)
        if not traffic.finished(p.k, ni) or not interface.idle(p.k, ni, cycle):
            return False
    return True


@jit
def drained(plant, tables):
    """Whether everything is drained now."""
    p = pointers(plant)
    return all_drained(p, fabric.pointers(tables), p.clock[CYCLE])


@jit
def offer(p, cycle, stimulus):
    """The hosts' stimulus words of ``cycle``: read from its row if they are external, else copied to it."""
    k = p.k
    for node in range(k[NODES]):
        words = stimulus_of(p, node)
        if k[HOST] != EXTERNAL:
            traffic.present(k, ni_of(p, node), words, p.items, p.item_data, cycle)
        for word in range(STIMULUS_WORDS if len(stimulus) > 0 else 0):
            if k[HOST] == EXTERNAL:
                words[word] = stimulus[STIMULUS_WORDS * node + word]
            else:
                stimulus[STIMULUS_WORDS * node + word] = words[word]


@jit
def full(p):
    """Whether a buffer might not do for another cycle."""
    clock, letters = p.clock, p.letters
    return (
        np.int64(p.events[0]) > clock[EVENT_ROOM]
        or letters[0] > clock[LETTER_ROOM]
        or letters[1] > clock[LETTER_WORD_ROOM]
    )


@jit
def run(plant, tables, cycles, words, stimulus, until_drained):
    """Step up to ``cycles`` cycles; stops early when drained (if asked to) or when a buffer might not do.

    ``words`` and ``stimulus`` have a row per cycle, or no row.  Returns how many cycles ran.
    """
    p, f = pointers(plant), fabric.pointers(tables)
    k, clock, ev = p.k, p.clock, p.events
    traced = len(words) > 0
    for ran in range(cycles):
        cycle = clock[CYCLE]
        if not clock[KEEP_EVENTS]:
            ev[0] = U0
        if full(p) or (k[CREDIT_FLITS] and credits.full(k, f)):
            return ran
        start = np.int64(ev[0]) + 1
        apply_schedule(p, f, cycle)
        if len(stimulus) > 0:
            offer(p, cycle, stimulus[ran])
        elif traced:
            offer(p, cycle, stimulus.reshape(-1))
        if traced:
            row, per_ni = pointer(words[ran]), ni_words(k)
            for node in range(k[NODES]):
                ni = ni_of(p, node)
                if not ni[IN_RESET]:
                    interface.outputs(k, ni, data_of(p, node), stimulus_of(p, node), cycle, row, node * per_ni)
        show(p, f, cycle)
        carry(p, f, cycle)
        hear_more(p, cycle)
        step_all(p, cycle)
        settle(k, ev, start, p.digest, p.counters, p.router_counters, p.link_counters)
        if traced:
            write_words(k, ev, start, f.routers, row)
        clock[CYCLE] = cycle + 1
        if until_drained and all_drained(p, f, cycle + 1):
            return ran + 1
    return cycles


NO_WORDS = np.zeros((0, 0), np.uint64)


def fresh(k: np.ndarray, ni: np.ndarray, data: np.ndarray, **given: np.ndarray) -> Plant:
    """A plant at system reset but for the NIs' own reset; ``given`` replaces what is empty otherwise."""
    nodes = int(k[NODES])
    parts = {
        "look": np.zeros(nodes, np.int64),
        "heard": np.full(nodes, -1, np.int64),
        "lists": np.zeros(4 * (nodes + 1), np.int64),
        "stimulus": np.zeros(nodes * STIMULUS_WORDS, np.uint64),
        "items": np.zeros(1, np.uint64),
        "item_data": np.zeros(2, np.uint64),
        "letters": np.zeros(2 * traffic.LETTER_COLUMNS, np.int64),
        "letter_data": np.zeros(1, np.uint64),
        "schedule": np.zeros(4, np.int64),
        "clock": np.zeros(CLOCK_COLUMNS, np.int64),
        "digest": np.zeros(1, np.uint64),
        "events": np.zeros(4, np.uint64),
        "counters": np.zeros(1, np.uint64),
        "router_counters": np.zeros(1, np.uint64),
        "link_counters": np.zeros(1, np.uint64),
    }
    return Plant(k=k, ni=ni, data=data, **(parts | given))


@jit
def reset_all(plant):
    """System reset of every NI and host."""
    p = pointers(plant)
    for node in range(p.k[NODES]):
        interface.reset(p.k, ni_of(p, node), 0)
        traffic.start_host(p.k, ni_of(p, node))

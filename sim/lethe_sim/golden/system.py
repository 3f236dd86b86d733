"""A whole system, cycle by cycle: who acts in which order, and who need not be asked at all.

Within a cycle: faults of the schedule, what the NIs show, the links, the routers, the NIs with their services and
hosts, the account.
An NI is stepped only from the cycle in `Plant.look` on; whatever disturbs it lowers that.  A model that never sleeps
(`Clock.awake`) steps every NI in every cycle instead, and must come to the same.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lethe.spec.services import Service
from lethe.spec.stages import ACTS
from lethe_sim.golden.fabric import fabric, fault, router, tap
from lethe_sim.golden.lib.bits import U0
from lethe_sim.golden.study import credits

from .compile import Functions, apart, at, jit, pointer
from .events import ni_words, settle, write_words
from .ni import host_port, receiver, transmitter
from .ni import ni as interface
from .ni.host_port import Flow
from .record import Record, table
from .services.site import shown_at
from .services.stack import stack_of
from .state import (
    AHEAD,
    EXTERNAL,
    FIRST,
    LAST,
    NEVER,
    NONE,
    TAG_FLITS,
    TAG_FLITS_MASK,
    TAG_NODE,
    TAG_NODE_MASK,
    TAG_PLACE,
    VALID,
    Host,
    HostPort,
    Letter,
    Parameters,
    Registers,
)
from .traffic import host as hosts
from .traffic import tree_player


class Clock(Record):
    """The cycle, and what bounds a run."""

    cycle: int
    scheduled: int  # faults of the schedule so far
    faults: int  # faults of the schedule
    keep_events: int
    event_room: int
    letter_room: int
    letter_word_room: int
    tap_room: int
    flights_end: int  # from when on no worm that travels whole is on its way
    awake: int


class Fault(Record):
    """A fault begins (``change`` 1) or ends (−1)."""

    cycle: int
    what: int
    which: int
    change: int


class Plant(NamedTuple):
    """The memory of a system beside the fabric's; rows follow one another."""

    k: Parameters
    ni: np.ndarray
    data: np.ndarray
    look: np.ndarray  # per node: the next cycle in which it must be stepped
    heard: np.ndarray  # per node: the last cycle in which a flit arrived
    lists: (
        np.ndarray
    )  # nodes: showing, hearing (even and odd cycles), to step, to begin to show by the cycle mod `AHEAD`
    items: np.ndarray  # script: what is to be sent
    item_data: np.ndarray
    letters: np.ndarray  # script: what was taken
    letter_data: np.ndarray
    schedule: Any
    clock: Clock
    stack: Functions  # what a cycle asks of a node
    events: np.ndarray
    digest: np.ndarray
    counters: np.ndarray
    router_counters: np.ndarray
    link_counters: np.ndarray
    service_counters: np.ndarray
    tapped: np.ndarray  # per link: whether its flits are noted
    taps: np.ndarray  # how many flits are noted; then those (`fabric.tap`)
    trees: np.ndarray  # of the tree players (`traffic.tree_player`)


LINK_DIES, NODE_STALLS, NODE_RESETS, NI_RESETS, NODE_AWAY = range(5)
SHOWING, HEARING, STEPPING, BEGINNING = 0, 1, 3, 4
LISTS = BEGINNING + AHEAD
_faults = table(Fault)


@jit
def pointers(p):
    """The memory as the functions of a cycle take it."""
    return Plant(
        p.k, pointer(p.ni), pointer(p.data), pointer(p.look), pointer(p.heard), pointer(p.lists), pointer(p.items),
        pointer(p.item_data), pointer(p.letters), pointer(p.letter_data), _faults(pointer(p.schedule)), p.clock,
        p.stack, pointer(p.events), pointer(p.digest), pointer(p.counters), pointer(p.router_counters),
        pointer(p.link_counters), pointer(p.service_counters), pointer(p.tapped), pointer(p.taps),
        pointer(p.trees),
    )  # fmt: skip


@jit
def ni_of(p, node):
    """The numbers of an NI."""
    return Registers(p.ni, node * p.k.ni_width)


@jit
def data_of(p, node):
    """The words of an NI."""
    return at(p.data, node * p.k.data_width)


@jit
def host_of(p, node):
    """A host."""
    return Host(ni_of(p, node), p.k.at_host)


@jit
def port_of(p, node):
    """What a host drives."""
    return HostPort(ni_of(p, node), p.k.at_top)


@jit
def beat_of(p, node):
    """The words of the beat that a host offers."""
    return at(data_of(p, node), p.k.at_top_data)


@jit
def enlist(p, number, node):
    """Put a node on a list."""
    first = number * (p.k.nodes + 1)
    p.lists[first] += 1
    p.lists[first + p.lists[first]] = node


@apart
def apply_schedule(p, f, cycle):
    """Apply the faults that begin or end in ``cycle``."""
    clock = p.clock
    while clock.scheduled < clock.faults and p.schedule[clock.scheduled].cycle <= cycle:
        fault = p.schedule[clock.scheduled]
        clock.scheduled += 1
        if fault.what == LINK_DIES:
            f.links[fault.which].dead_count += fault.change
            continue
        p.look[fault.which] = cycle
        if fault.what == NODE_STALLS:
            host_of(p, fault.which).stalled += fault.change
        elif fault.what == NODE_AWAY:
            ni_of(p, fault.which).away += fault.change
        else:
            ni = ni_of(p, fault.which)
            if fault.change > 0 and ni.in_reset == 0:
                interface.begin_reset(p.k, ni, p.events, cycle)
            ni.in_reset += fault.change
            if fault.what == NODE_RESETS:
                if fault.change > 0 and ni.services_in_reset == 0:
                    ni.services_reset_from = cycle
                ni.services_in_reset += fault.change


@jit
def show(p, f, cycle):
    """What the transmitters show: their flits enter the injection links."""
    k, showing = p.k, p.lists
    beginning = (BEGINNING + (cycle & AHEAD - 1)) * (k.nodes + 1)
    for i in range(beginning + 1, beginning + p.lists[beginning] + 1):
        ni = ni_of(p, p.lists[i])
        if not ni.tx_listed:
            ni.tx_listed = 1
            enlist(p, SHOWING, p.lists[i])
    p.lists[beginning] = 0
    kept = 0
    for i in range(1, showing[0] + 1):
        node = showing[i]
        ni = ni_of(p, node)
        if not ni.in_reset:
            flags = transmitter.shown(k, ni, p.events, cycle)
            if flags & FIRST or (flags & VALID and not k.whole):
                low, high = transmitter.words_in(k, data_of(p, node), cycle)
                if k.credit_flits:
                    credits.enqueue(k, f, node, flags, low, high)
                else:
                    tag = flags | node << TAG_NODE | (cycle & (k.tx_ring - 1)) << TAG_PLACE
                    fabric.fly(k, f, cycle, node, tag, low, high)
            if ni.tx_last > cycle and not k.whole:  # the head says all of a worm that travels whole
                kept += 1
                showing[kept] = node
                continue
        ni.tx_listed = 0
    showing[0] = kept
    if k.credit_flits:
        credits.take_back(k, f, cycle)
        credits.feed(k, f, cycle)


@jit
def carry(p, f, cycle):
    """All flits that are on a link in ``cycle`` reach its end, or do not; then the routers decide."""
    k, ev = p.k, p.events
    phase = cycle & (k.phases - 1)
    count = fabric.list_at(k, 3) + phase
    first_unit = k.nodes + k.router_count
    first = 2 * phase * k.link_count
    for row in range(first, first + 2 * f.lists[count], 2):
        number, flags = f.flight[row], f.flight[row + 1]
        low, high = f.flight_data[row], f.flight_data[row + 1]
        if k.whole:
            p.clock.flights_end = max(p.clock.flights_end, cycle + (flags >> TAG_FLITS & TAG_FLITS_MASK))
        if not fault.survives(k, f, ev, cycle, first_unit + number, number, flags):
            if k.tapped:
                tap.note(p.tapped, p.taps, f, cycle, number, flags, low, high, False)
            continue
        if k.tapped:
            tap.note(p.tapped, p.taps, f, cycle, number, flags, low, high, True)
        if k.flip > 0:
            flags, low, high = fault.flip(k, f, ev, cycle, first_unit + number, number, flags, low, high)
            if k.tapped:
                tap.flipped(p.tapped, p.taps, number, flags, low, high)
        target = f.links[number].target
        if target < 0 and k.channels > 1:
            credits.arrive(k, f, cycle, k.port_count - 1 - target, flags, low, high)
        elif target < 0:
            hear(p, cycle, -1 - target, flags, low, high)
        elif k.credit_flits:
            credits.arrive(k, f, cycle, target, flags, low, high)
        else:
            router.arrive(k, f, ev, cycle, target, flags, low, high)
    f.lists[count] = 0
    if k.credit_flits:
        if k.channels > 1:
            hear_sinks(p, f, cycle)
        credits.step(k, f, ev, cycle)
    else:
        router.gaps(k, f, ev, cycle)
        router.decide_all(k, f, ev, cycle)


@apart
def hear_sinks(p, f, cycle):
    """Under credits with several channels an NI hears one worm at a time."""
    for node in range(p.k.nodes):
        place = credits.drain(p.k, f, cycle, node)
        if place != NONE:
            hear(p, cycle, node, f.buffer_flags[place], f.buffer_flits[2 * place], f.buffer_flits[2 * place + 1])


@jit
def hear(p, cycle, node, flags, low, high):
    """A flit, or with flags 0 the gap in a message, arrives at an NI."""
    ni = ni_of(p, node)
    if ni.in_reset:
        return
    p.heard[node] = cycle
    if flags & FIRST:
        ni.rx_tag = flags
    receiver.arrive(p.k, ni, data_of(p, node), cycle, flags, low, high)
    if (ni.ends | ni.fragments) >> (cycle + ACTS & AHEAD - 1) & 1:
        p.look[node] = min(p.look[node], cycle + (1 if p.k.acceptance else ACTS))
    if ni.under_way:
        enlist(p, HEARING + (cycle & 1), node)


@jit
def hear_next(p, cycle, node):
    """The next flit of a worm that travels whole: its words are still where its transmitter shows them."""
    ni = ni_of(p, node)
    tag, count = ni.rx_tag, ni.rx_count
    sender = tag >> TAG_NODE & TAG_NODE_MASK
    low, high = transmitter.words_in(p.k, data_of(p, sender), (tag >> TAG_PLACE) + count)
    last = LAST if count + 1 == tag >> TAG_FLITS & TAG_FLITS_MASK else 0
    hear(p, cycle, node, VALID | last, low, high)


@jit
def hear_more(p, cycle):
    """NIs whose message went on in the cycle before and have no flit now: the next of a whole worm, or a gap.

    With credits worms pause, and are never cut short: to an NI a pause is no gap.
    """
    before = (HEARING + (cycle & 1 ^ 1)) * (p.k.nodes + 1)
    for i in range(before + 1, before + p.lists[before] + 1):
        node = p.lists[i]
        if p.k.whole:
            hear_next(p, cycle, node)
        elif p.heard[node] != cycle and p.k.credit_flits == 0:
            hear(p, cycle, node, 0, U0, U0)
    p.lists[before] = 0


@jit
def step_node(p, cycle, node):
    """One cycle of an NI, its services and its host; sets the next cycle to look."""
    k, ni, data, host, port = p.k, ni_of(p, node), data_of(p, node), host_of(p, node), port_of(p, node)
    stack = p.stack
    if cycle > ni.dead_from:
        # A stall of the dead ends, for example; they stay as they are.
        p.look[node] = NEVER
        return
    if ni.in_reset:
        interface.reset(k, ni, cycle + 1)
        stack.reset(k, ni, data, p.events, cycle)
        hosts.reset(k, ni, host, cycle)
        host.words = 0
        p.look[node] = NEVER if cycle >= ni.dead_from else cycle + 1
        return
    hosts.present(k, host, port, beat_of(p, node), p.items, p.item_data, cycle)
    if k.trees:
        tree_player.present(k, host, port, p.trees, cycle)
    stack.arrange(k, ni, data, p.events, cycle)
    hosts.take(stack, k, ni, data, host, port, p.letters, p.letter_data, cycle)
    done = stack.step(k, ni, data, p.events, cycle)
    if done & Flow.SHOWING:
        enlist(p, BEGINNING + (ni.tx_first & AHEAD - 1), node)
    if k.trees:
        tree_player.follow(k, host, p.trees, cycle, port.tree_valid and shown_at(k, ni, k.services).tree_ready)
    if k.host == EXTERNAL:
        p.look[node] = cycle + 1
        return
    hosts.follow(stack, k, ni, host, port, p.items, cycle, done)
    if p.clock.awake:  # nor do services rest that nobody asks when to look again
        p.look[node] = cycle + 1
        return
    own = hosts.next_offer(stack, k, ni, host, p.items, cycle)
    if k.trees:
        own = min(own, tree_player.next_offer(k, host, p.trees, cycle))
    p.look[node] = own if own == cycle + 1 else min(own, stack.next_look(k, ni, data, p.events, cycle))


@jit
def step_all(p, cycle):
    """Step every NI that is to be looked at.  They are listed first, without a branch that nobody could foretell."""
    stepping = at(p.lists, STEPPING * (p.k.nodes + 1))
    count, latest = 0, NEVER if p.clock.awake else cycle
    for node in range(p.k.nodes):
        stepping[count] = node
        count += p.look[node] <= latest
    for i in range(count):
        step_node(p, cycle, stepping[i])


@jit
def all_drained(p, f, cycle):
    """Whether all is done at the start of ``cycle``: nothing on any wire, hosts of the living finished, NIs idle."""
    if cycle < p.clock.flights_end or not fabric.quiet(p.k, f):
        return False
    for node in range(p.k.nodes):
        ni = ni_of(p, node)
        if ni.tx_last >= cycle and not ni.in_reset:
            return False
        rests = hosts.finished(p.k, host_of(p, node)) and p.stack.idle(p.k, ni, data_of(p, node), p.events, cycle)
        if not rests and cycle < ni.dead_from:
            return False
    return True


@jit
def drained(plant, tables):
    """Whether everything is drained now."""
    p = pointers(plant)
    return all_drained(p, fabric.pointers(tables), p.clock.cycle)


@apart
def offer(p, cycle, stimulus):
    """The hosts' stimulus words of ``cycle``: read from its row if they are external, else written to it."""
    for node in range(p.k.nodes):
        host, port, beat = host_of(p, node), port_of(p, node), beat_of(p, node)
        hosts.present(p.k, host, port, beat, p.items, p.item_data, cycle)
        if len(stimulus) > 0:
            words = stimulus[p.k.stimulus_words * node : p.k.stimulus_words * (node + 1)]
            if p.k.host == EXTERNAL:
                hosts.drive(p.k, host, port, beat, words)
            else:
                host_port.write_words(p.k, port, beat, words)
        if p.k.trees:
            tree_player.present(p.k, host, port, p.trees, cycle)


@jit
def full(p):
    """Whether a buffer might not do for another cycle."""
    clock, letters = p.clock, p.letters
    return (
        np.int64(p.events[0]) > clock.event_room
        or letters[0] > clock.letter_room
        or letters[1] > clock.letter_word_room
        or np.int64(p.taps[0]) > clock.tap_room
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
        cycle = clock.cycle
        if not clock.keep_events:
            ev[0] = U0
        if full(p) or (k.credit_flits and credits.full(k, f)):
            return ran
        start = np.int64(ev[0]) + 1
        if clock.scheduled < clock.faults:
            apply_schedule(p, f, cycle)
        if len(stimulus) > 0:
            offer(p, cycle, stimulus[ran])
        elif traced:
            offer(p, cycle, stimulus.reshape(-1))
        if traced:
            row, per_ni = pointer(words[ran]), ni_words(k)
            for node in range(k.nodes):
                ni = ni_of(p, node)
                if not ni.in_reset:
                    data, port = data_of(p, node), HostPort(ni, k.at_port)
                    p.stack.ports(k, ni, data, ev, cycle)
                    interface.outputs(k, ni, data, port, cycle, row, node * per_ni)
                    p.stack.outputs(k, ni, data, ev, cycle, row)
        show(p, f, cycle)
        carry(p, f, cycle)
        hear_more(p, cycle)
        step_all(p, cycle)
        settle(k, ev, start, p.digest, p.counters, p.router_counters, p.link_counters, p.service_counters)
        if traced:
            write_words(k, ev, start, f.routers, row)  # pyrefly: ignore[unbound-name]
        clock.cycle = cycle + 1
        if until_drained and all_drained(p, f, cycle + 1):
            return ran + 1
    return cycles


NO_WORDS = np.zeros((0, 0), np.uint64)


def fresh(
    k: Parameters, ni: np.ndarray, data: np.ndarray, services: Sequence[Service] = (), **given: np.ndarray
) -> Plant:
    """A plant at system reset but for the NIs' own reset, with services stacked on them; ``given`` replaces what is
    empty otherwise.
    """
    nodes = int(k.nodes)
    stack, clock = stack_of(services), Clock(np.zeros(Clock.size, np.int64))
    parts = {
        "look": np.zeros(nodes, np.int64),
        "heard": np.full(nodes, -1, np.int64),
        "lists": np.zeros(LISTS * (nodes + 1), np.int64),
        "items": np.zeros(1, np.int64),
        "item_data": np.zeros(2, np.uint64),
        "letters": np.zeros(2 * Letter.size, np.int64),
        "letter_data": np.zeros(1, np.uint64),
        "schedule": np.zeros(Fault.size, np.int64),
        "digest": np.zeros(1, np.uint64),
        "events": np.zeros(4, np.uint64),
        "counters": np.zeros(1, np.uint64),
        "router_counters": np.zeros(1, np.uint64),
        "link_counters": np.zeros(1, np.uint64),
        "service_counters": np.zeros(1, np.uint64),
        "tapped": np.zeros(1, np.uint8),
        "taps": np.zeros(1, np.uint64),
        "trees": np.zeros(1, np.int64),
    }
    return Plant(k=k, ni=ni, data=data, clock=clock, stack=stack, **(parts | given))


@jit
def reset_all(plant):
    """System reset of every NI and host."""
    p = pointers(plant)
    for node in range(p.k.nodes):
        interface.reset(p.k, ni_of(p, node), 0)
        hosts.start(p.k, host_of(p, node), port_of(p, node))

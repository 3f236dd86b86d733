"""The network with credits alone, under plain packets: no NI, no protocol, an open loop.

What a simulator of credit-based networks measures too, so that `credits` can be held against one.
"""

import math
from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.random import UNIT_GENERATOR
from lethe_sim.golden.compile import jit, pointer
from lethe_sim.golden.fabric import fabric
from lethe_sim.golden.lib.bits import U0
from lethe_sim.golden.lib.random import advance, scale
from lethe_sim.golden.record import Record, table
from lethe_sim.golden.state import EXTERNAL, FIRST, LAST, NONE, VALID, parameters
from lethe_sim.golden.study import credits


class Source(Record):
    """A source: when its next packet is born, how many of its flits have left."""

    born: int
    left: int


class Measured(Record):
    """Flits that arrive, packets that arrive, the sum of their latencies."""

    flits: int
    packets: int
    latency: int


_sources = table(Source)


class Plain(NamedTuple):
    """What a network did with plain packets, warm-up left out."""

    accepted: float
    """flits that arrived, per node and cycle"""
    latency: float
    """mean cycles from a packet's birth (its wait at the source counts) to its last flit's arrival; nan without any"""


@jit
def _next_birth(seed, born, threshold):
    """The generator after the first cycle later than ``born`` in which a packet is born, and that cycle."""
    while True:
        born += 1
        seed = advance(seed)
        if seed & 0xFF_FFFF < threshold:
            return seed, born


@jit
def _feed(k, f, cycle, node, source, seeds, threshold, size):
    """A source with a packet and a credit sends a flit; it only looks at births that it has come to."""
    if source.born > cycle:
        return
    left = source.left
    channel = credits.source_channel(k, f, node, U0)
    if channel == NONE:
        return
    low, flags = U0, VALID
    if left == 0:
        seeds[node] = advance(seeds[node])
        target = scale(seeds[node] & 0xFFFF, 16, k.nodes - 1)
        low = np.uint64(target + (target >= node)) << np.uint64(k.node_offset)
        flags |= FIRST
    if left == size - 1:
        flags |= LAST
    credits.launch(k, f, cycle + k.latency, node, channel, flags, low, np.uint64(source.born))
    if left == size - 1:
        source.left = 0
        seeds[node], source.born = _next_birth(seeds[node], source.born, threshold)
    else:
        source.left = left + 1


@jit
def _run(tables, k, events, sources, seeds, threshold, size, warm_up, cycles, measured):
    f, ev, source = fabric.pointers(tables), pointer(events), _sources(pointer(sources))
    for node in range(k.nodes):
        seeds[node], source[node].born = _next_birth(seeds[node], -1, threshold)
    for cycle in range(warm_up + cycles):
        ev[0] = U0
        credits.take_back(k, f, cycle)
        for node in range(k.nodes):
            _feed(k, f, cycle, node, source[node], seeds, threshold, size)
        phase = cycle & (k.phases - 1)
        count = fabric.list_at(k, 3) + phase
        first = 2 * phase * k.link_count
        for row in range(first, first + 2 * f.lists[count], 2):
            target, flags = f.links[f.flight[row]].target, f.flight[row + 1]
            if target >= 0:
                credits.arrive(k, f, cycle, target, flags, f.flight_data[row], f.flight_data[row + 1])
                continue
            if k.channels > 1:  # a node takes a flit at once
                sink = credits.sink_of(k, -1 - target) + (flags >> credits.CHANNEL)
                credits.give_back(k, f, cycle + k.credit_delay, f.buffers[sink].upstream)
            if cycle >= warm_up:
                measured.flits += 1
                if flags & LAST:
                    measured.packets += 1
                    measured.latency += cycle - np.int64(f.flight_data[row + 1])
        f.lists[count] = 0
        credits.step(k, f, ev, cycle)


def plain_packets(
    system: System,
    load: float,
    size: int,
    cycles: int,
    *,
    warm_up: int = 1000,
    route_delay: int = 0,
    grant_delay: int = 0,
) -> Plain:
    """Packets of ``size`` flits from all nodes to uniformly random others, ``load`` flits per node and cycle.

    They are born by chance in each cycle and wait at their source without limit; heads climb a tree by random ports, or
    as ``router.credit_path = "adaptive"`` says, and take any free channel.
    Sources are a link away from their routers, as routers are from each other.

    Parameters
    ----------
    system : a network with ``router.flow = "credits"``; its routers' latency and credit delay are used
    route_delay, grant_delay : further cycles a head spends in a router, before and after it has won its output
    """
    k = parameters(system, EXTERNAL)
    k.route_delay, k.grant_delay, k.pinned = route_delay, grant_delay, 0
    tables = fabric.build(system, k)
    credits.start(k, tables)
    seeds = fabric.seeds(system.run.seed, UNIT_GENERATOR, system.nodes)
    sources = np.zeros(system.nodes * Source.size, np.int64)
    measured = Measured(np.zeros(Measured.size, np.int64))
    events = np.zeros(4 * (int(k.port_count) + 2), np.uint64)
    threshold = max(1, round(load / size * 2**24))
    with np.errstate(over="ignore"):
        _run(tables, k, events, sources, seeds, threshold, size, warm_up, cycles, measured)
    latency = float(measured.latency / measured.packets) if measured.packets else math.nan
    return Plain(float(measured.flits / cycles / system.nodes), latency)

"""The network with credits alone, under plain packets: no NI, no protocol, an open loop.

What a simulator of credit-based networks measures too, so that `credits` can be held against one.
"""

import math
from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.random import UNIT_GENERATOR

from . import credits, fabric
from .bits import U0
from .compile import jit, pointer
from .random import advance, scale
from .state import (
    BUFFER_COLUMNS,
    CREDITS,
    EXTERNAL,
    FIRST,
    GRANT_DELAY,
    LAST,
    LATENCY,
    LINK_COLUMNS,
    LINK_COUNT,
    NODE_OFFSET,
    NODES,
    PHASES,
    PINNED,
    PORT_COUNT,
    ROUTE_DELAY,
    TARGET,
    VALID,
    parameters,
)

# Columns of a source: when its next packet is born, how many of its flits have left.
_BORN, _LEFT, _COLUMNS = range(3)
# What is measured: flits that arrive, packets that arrive, the sum of their latencies.
_FLITS, _PACKETS, _LATENCY, _MEASURES = range(4)


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
    at = (k[PORT_COUNT] + node) * BUFFER_COLUMNS + CREDITS
    if source[_COLUMNS * node + _BORN] > cycle or f.buffers[at] == 0:
        return
    f.buffers[at] -= 1
    left = source[_COLUMNS * node + _LEFT]
    low, flags = U0, VALID
    if left == 0:
        seeds[node] = advance(seeds[node])
        target = scale(seeds[node] & 0xFFFF, 16, k[NODES] - 1)
        low = np.uint64(target + (target >= node)) << np.uint64(k[NODE_OFFSET])
        flags |= FIRST
    if left == size - 1:
        flags |= LAST
    fabric.fly(k, f, cycle + k[LATENCY], node, flags, low, np.uint64(source[_COLUMNS * node + _BORN]))
    if left == size - 1:
        source[_COLUMNS * node + _LEFT] = 0
        seeds[node], source[_COLUMNS * node + _BORN] = _next_birth(
            seeds[node], source[_COLUMNS * node + _BORN], threshold
        )
    else:
        source[_COLUMNS * node + _LEFT] = left + 1


@jit
def _run(tables, k, events, sources, seeds, threshold, size, warm_up, cycles, measured):
    f, ev, source = fabric.pointers(tables), pointer(events), pointer(sources)
    for node in range(k[NODES]):
        seeds[node], source[_COLUMNS * node + _BORN] = _next_birth(seeds[node], -1, threshold)
    for cycle in range(warm_up + cycles):
        ev[0] = U0
        credits.take_back(k, f, cycle)
        for node in range(k[NODES]):
            _feed(k, f, cycle, node, source, seeds, threshold, size)
        phase = cycle & (k[PHASES] - 1)
        count = fabric.list_at(k, 3) + phase
        first = 2 * phase * k[LINK_COUNT]
        for row in range(first, first + 2 * f.lists[count], 2):
            target, flags = f.links[f.flight[row] * LINK_COLUMNS + TARGET], f.flight[row + 1]
            if target >= 0:
                credits.arrive(k, f, cycle, target, flags, f.flight_data[row], f.flight_data[row + 1])
            elif cycle >= warm_up:
                measured[_FLITS] += 1
                if flags & LAST:
                    measured[_PACKETS] += 1
                    measured[_LATENCY] += cycle - np.int64(f.flight_data[row + 1])
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

    They are born by chance in each cycle and wait at their source without limit; heads climb a tree by random ports.
    Sources are a link away from their routers, as routers are from each other.

    Parameters
    ----------
    system : a network with ``router.flow = "credits"``; its routers' latency and credit delay are used
    route_delay, grant_delay : further cycles a head spends in a router, before and after it has won its output
    """
    k = parameters(system, EXTERNAL)
    k[ROUTE_DELAY], k[GRANT_DELAY], k[PINNED] = route_delay, grant_delay, 0
    tables = fabric.build(system, k)
    credits.start(k, tables)
    seeds = fabric.seeds(system.run.seed, UNIT_GENERATOR, system.nodes)
    sources = np.zeros(system.nodes * _COLUMNS, np.int64)
    measured = np.zeros(_MEASURES, np.int64)
    events = np.zeros(4 * (int(k[PORT_COUNT]) + 2), np.uint64)
    threshold = max(1, round(load / size * 2**24))
    with np.errstate(over="ignore"):
        _run(tables, k, events, sources, seeds, threshold, size, warm_up, cycles, measured)
    flits, packets, latency = measured.tolist()
    return Plain(flits / cycles / system.nodes, latency / packets if packets else math.nan)

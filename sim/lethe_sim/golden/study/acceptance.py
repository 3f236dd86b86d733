"""The fabric alone, under one-flit worms that nobody repeats: what share each stage accepts.

An outside truth for the router: for a k-ary n-fly under uniform traffic Patel's recursion
p(i+1) = 1 − (1 − p(i)/k)^k gives the load after stage i.
"""

import numpy as np

from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.random import UNIT_GENERATOR
from lethe.spec.trace import EVENT
from lethe_sim.golden.compile import jit, pointer
from lethe_sim.golden.events import COLUMNS
from lethe_sim.golden.fabric import fabric, router
from lethe_sim.golden.lib.bits import U0
from lethe_sim.golden.lib.random import advance, scale
from lethe_sim.golden.state import EXTERNAL, FIRST, LAST, VALID, parameters


@jit
def _flood(tables, k, events, seeds, threshold, cycles, width, heads, passed):
    """Run the fabric; adds the heads that reach each stage, and those that pass it."""
    f, ev = fabric.pointers(tables), pointer(events)
    for cycle in range(cycles):
        ev[0] = U0
        for node in range(k.nodes):
            draw = advance(seeds[node])
            seeds[node] = advance(draw)
            if draw & 0xFFFF < threshold:
                head = scale(seeds[node] & 0xFFFF, 16, k.nodes) << k.node_offset
                fabric.fly(k, f, cycle, node, VALID | FIRST | LAST, np.uint64(head), U0)
        phase = cycle & (k.phases - 1)
        count = fabric.list_at(k, 3) + phase
        first = 2 * phase * k.link_count
        for row in range(first, first + 2 * f.lists[count], 2):
            target = f.links[f.flight[row]].target
            if target >= 0:
                flags, low = f.flight[row + 1], f.flight_data[row]
                router.arrive(k, f, ev, cycle, target, flags, low, U0)
        f.lists[count] = 0
        router.gaps(k, f, ev, cycle)
        router.decide_all(k, f, ev, cycle)
        for row in range(COLUMNS, COLUMNS * (np.int64(ev[0]) + 1), COLUMNS):
            stage = (np.int64(ev[row + 1] >> np.uint64(8)) - k.nodes) // width
            heads[stage] += 1
            passed[stage] += np.int64(ev[row + 2] & np.uint64((1 << EVENT.bits) - 1)) == Event.FORWARD


def stage_acceptance(system: System, load: float, cycles: int) -> tuple[np.ndarray, np.ndarray]:
    """One-flit worms of all nodes to uniformly random nodes, a new one in each cycle with probability ``load``.

    Returns how many heads reached each stage of the fabric (level of a tree), and how many passed it;
    divided by nodes · cycles they are loads.
    """
    graph = system.graph
    k = parameters(system, EXTERNAL)
    k.whole = 0
    tables = fabric.build(system, k)
    width = graph.width or graph.routers
    stages = int(k.router_count) // width
    heads, passed = np.zeros(stages, np.int64), np.zeros(stages, np.int64)
    events = np.zeros((int(k.link_count) + 4) * COLUMNS, np.uint64)
    seeds = fabric.seeds(system.run.seed, UNIT_GENERATOR, system.nodes)
    with np.errstate(over="ignore"):
        _flood(tables, k, events, seeds, round(load * 65536), cycles, width, heads, passed)
    return heads, passed

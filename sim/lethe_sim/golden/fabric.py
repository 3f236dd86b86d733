"""Links, their flits under way, and what they connect: the arrays, made from a system.

A flit that a router lets out in cycle c is put where the flits of cycle c+latency are kept, so its
way through the plain registers costs nothing.  Work is in lists: links with a flit, inputs with a flit.
"""

from typing import NamedTuple

import numpy as np
from lethe.spec.config import System
from lethe.spec.random import UNIT_LINK_FLIP, UNIT_LINK_LOSS, UNIT_ROUTER, seed_for

from .compile import jit
from .state import LATENCY, NODES, NONE, PHASES
from .topology import ports, wire_up


class Fabric(NamedTuple):
    """Arrays of links and routers.  Ports are counted over all routers, in the order of the trace words.

    Lists have their length in column 0.
    """

    router_first: np.ndarray  # first port of each router, and one past the last
    port_router: np.ndarray
    target: np.ndarray  # of a link: input port, or −1 − node
    link_of_port: np.ndarray  # of an output port: link, or −1
    router_number: np.ndarray  # as routes know it
    random: np.ndarray  # of each router
    state: np.ndarray  # per port: columns below
    port_flit: np.ndarray  # per input port: low and high word of a head
    heads: np.ndarray  # per router: list of its inputs with a head (ports of the router)
    asks: np.ndarray  # scratch, per port of a router: what its head asks for
    lists: np.ndarray  # HEARD_NOW, HEARD_BEFORE (input ports), ROUTERS
    link_state: np.ndarray  # per link: columns below
    flight_count: np.ndarray  # per phase
    flight: np.ndarray  # per phase and flit: link, flags
    flight_data: np.ndarray  # per phase and flit: low and high word
    extra_fragments: np.ndarray  # per router: fragments that lane events do not show


# Columns of `state`: of the input …, and of the output with that number.
INPUT_MODE, INPUT_COUNT, INPUT_OUT, INPUT_HEARD, INPUT_FLAGS, FREE_FROM, STATE_COLUMNS = range(7)
IDLE, FORWARDING, SWALLOW = range(3)
HEARD, ROUTERS = 0, 2
# Columns of `link_state`.
DEAD_COUNT, SWALLOWING, LOSS_RANDOM, FLIP_RANDOM, LINK_COLUMNS = range(5)


def seeds(seed: int, unit: int, count: int) -> np.ndarray:
    """`seed_for` of units 0 … count−1."""
    return np.array([seed_for(seed, unit, index) for index in range(count)], np.int64)


def router_firsts(k: np.ndarray, routers: int) -> np.ndarray:
    """First port of each router, and one past the last."""
    first = np.zeros(routers + 1, np.int64)
    np.cumsum([int(ports(k, r)) for r in range(routers)], out=first[1:])
    return first


def build(system: System, k: np.ndarray) -> Fabric:
    """The fabric of a system, in its state at system reset."""
    graph = system.graph
    first = router_firsts(k, graph.routers)
    count = int(first[-1])
    target = np.full(2 * system.nodes + count if graph.routers else 2, NONE, np.int64)
    port_router, link_of_port = np.zeros(count, np.int64), np.full(count, NONE, np.int64)
    wire_up(k, first, port_router, target, link_of_port)
    links = max(int(link_of_port.max(initial=1)) + 1, system.nodes)
    fabric = empty(k, first, port_router, target[:links], link_of_port, np.arange(graph.routers), links)
    fabric.random[:] = seeds(system.run.seed, UNIT_ROUTER, graph.routers)
    if system.loss_threshold:
        fabric.link_state[:, LOSS_RANDOM] = seeds(system.run.seed, UNIT_LINK_LOSS, links)
    if system.flip_threshold:
        fabric.link_state[:, FLIP_RANDOM] = seeds(system.run.seed, UNIT_LINK_FLIP, links)
    return fabric


def empty(k, first, port_router, target, link_of_port, numbers, links) -> Fabric:
    """A fabric without a flit in it."""
    count, routers, phases = len(port_router), len(first) - 1, int(k[PHASES])
    state = np.zeros((count, STATE_COLUMNS), np.int64)
    state[:, INPUT_HEARD] = NONE
    return Fabric(
        router_first=first,
        port_router=port_router,
        target=target,
        link_of_port=link_of_port,
        router_number=np.asarray(numbers, np.int64),
        random=np.zeros(routers, np.int64),
        state=state,
        port_flit=np.zeros((count, 2), np.uint64),
        heads=np.zeros(count + routers, np.int64),
        asks=np.zeros(max(count, 1), np.int64),
        lists=np.zeros((3, count + 1), np.int64),
        link_state=np.zeros((links, LINK_COLUMNS), np.int64),
        flight_count=np.zeros(phases, np.int64),
        flight=np.zeros((phases, links, 2), np.int64),
        flight_data=np.zeros((phases, links, 2), np.uint64),
        extra_fragments=np.zeros(routers, np.int64),
    )


@jit
def fly(k, f, cycle, link, flags, low, high):
    """Put a flit on a link, visible in ``cycle``."""
    phase = cycle & (k[PHASES] - 1)
    n = f.flight_count[phase]
    f.flight_count[phase] = n + 1
    f.flight[phase, n, 0] = link
    f.flight[phase, n, 1] = flags
    f.flight_data[phase, n, 0] = low
    f.flight_data[phase, n, 1] = high


@jit
def let_out(k, f, cycle, output, flags, low, high):
    """A flit passes an output port in ``cycle``; it is on the link a hop latency later."""
    fly(k, f, cycle + k[LATENCY], f.link_of_port[output], flags, low, high)


@jit
def quiet(k, f):
    """Whether no flit is under way anywhere."""
    for phase in range(k[PHASES]):
        if f.flight_count[phase] > 0:
            return False
    return k[NODES] > 0

"""Links, routers and the flits on their way between them: the tables, made from a system.

A flit that a router lets out in cycle c is put where the flits of cycle c+latency are kept, so its
way through the plain registers costs nothing.  Work is in lists: links with a flit, inputs with a flit.
"""

from typing import NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.random import UNIT_LINK_FLIP, UNIT_LINK_LOSS, UNIT_ROUTER, seed_for

from .compile import jit, pointer
from .state import (
    BUFFER_COLUMNS,
    CREDIT_FLITS,
    DRAWS,
    FIRST_PORT,
    FLIP,
    FLIP_RANDOM,
    INPUT_HEARD,
    INPUT_RING,
    INPUT_WORMS,
    LATENCY,
    LINK_COLUMNS,
    LINK_COUNT,
    LOSS,
    LOSS_RANDOM,
    NODES,
    NONE,
    OUT_LINK,
    PHASES,
    PORT_COLUMNS,
    PORT_COUNT,
    PORTS,
    QUEUE_COLUMNS,
    RETURN_PHASES,
    ROUTER_COLUMNS,
    ROUTER_COUNT,
    SOURCE_RING,
)  # fmt: skip  # isort: skip
from .topology import ports, wire_up


class Fabric(NamedTuple):
    """Tables of whole numbers, rows one after the other (columns in `state`), but for the two of words."""

    routers: np.ndarray
    ports: np.ndarray
    links: np.ndarray
    heads: np.ndarray  # per router: how many of its inputs have a head, and which
    lists: np.ndarray  # inputs with a flit, even and odd cycles; routers with a head; flights per phase; queued flits
    flight: np.ndarray  # per phase and flit: link, flags
    port_flit: np.ndarray  # per input: words of a head
    flight_data: np.ndarray  # per phase and flit: its words
    queues: np.ndarray  # per input with a queue: its row
    queue_flags: np.ndarray  # per flit in a queue: its flags
    queue_flits: np.ndarray  # per flit in a queue: its words
    buffers: np.ndarray  # credits: per port, then per source queue: its row
    buffer_flags: np.ndarray  # per flit in a buffer: its flags
    buffer_flits: np.ndarray  # per flit in a buffer: its words
    returning: np.ndarray  # the most flits in a source queue; per phase: how many credits come back, and where to


@jit
def pointers(f):
    """The tables as the functions of a cycle take them."""
    return Fabric(
        pointer(f.routers), pointer(f.ports), pointer(f.links), pointer(f.heads), pointer(f.lists), pointer(f.flight),
        pointer(f.port_flit), pointer(f.flight_data), pointer(f.queues), pointer(f.queue_flags),
        pointer(f.queue_flits), pointer(f.buffers), pointer(f.buffer_flags), pointer(f.buffer_flits),
        pointer(f.returning),
    )  # fmt: skip


def seeds(seed: int, unit: int, count: int) -> np.ndarray:
    """`seed_for` of units 0 … count−1."""
    return np.array([seed_for(seed, unit, index) for index in range(count)], np.int64)


def build(system: System, k: np.ndarray) -> Fabric:
    """The fabric of a system at system reset; enters the numbers of its parts into ``k``."""
    graph, seed = system.graph, system.run.seed
    k[ROUTER_COUNT] = graph.routers
    sizes = np.array([ports(k, router) for router in range(graph.routers)], np.int64)
    k[PORT_COUNT] = sizes.sum()
    k[LINK_COUNT] = 2 * system.nodes + k[PORT_COUNT] if graph.routers else 2
    fabric = empty(k, sizes)
    k[LINK_COUNT] = wire_up(k, fabric.routers, fabric.ports, fabric.links)
    tables = fabric.routers.reshape(-1, ROUTER_COLUMNS), fabric.links.reshape(-1, LINK_COLUMNS)[: k[LINK_COUNT]]
    tables[0][:, DRAWS] = seeds(seed, UNIT_ROUTER, graph.routers)
    if k[LOSS]:
        tables[1][:, LOSS_RANDOM] = seeds(seed, UNIT_LINK_LOSS, len(tables[1]))
    if k[FLIP]:
        tables[1][:, FLIP_RANDOM] = seeds(seed, UNIT_LINK_FLIP, len(tables[1]))
    return fabric


def empty(k: np.ndarray, sizes: np.ndarray) -> Fabric:
    """A fabric without a flit in it, whose routers have ``sizes`` ports, and whose links lead nowhere yet."""
    count, links, phases = int(k[PORT_COUNT]), int(k[LINK_COUNT]), int(k[PHASES])
    routers = np.zeros((len(sizes), ROUTER_COLUMNS), np.int64)
    routers[:, PORTS] = sizes
    routers[:, FIRST_PORT] = np.cumsum(sizes) - sizes
    table = np.zeros((count, PORT_COLUMNS), np.int64)
    table[:, INPUT_HEARD] = NONE
    table[:, OUT_LINK] = NONE
    queues = count if k[INPUT_WORMS] else 0
    sources = int(k[NODES]) if k[CREDIT_FLITS] else 0
    buffers = count if k[CREDIT_FLITS] else 0
    places = buffers * int(k[CREDIT_FLITS]) + sources * int(k[SOURCE_RING])
    return Fabric(
        routers=routers.reshape(-1),
        ports=table.reshape(-1),
        links=np.zeros(links * LINK_COLUMNS, np.int64),
        heads=np.zeros(count + len(sizes), np.int64),
        lists=np.zeros(3 * (count + 1) + phases + 1, np.int64),
        flight=np.zeros(phases * links * 2, np.int64),
        port_flit=np.zeros(2 * count, np.uint64),
        flight_data=np.zeros(phases * links * 2, np.uint64),
        queues=np.zeros(queues * QUEUE_COLUMNS, np.int64),
        queue_flags=np.zeros(queues * int(k[INPUT_RING]), np.int64),
        queue_flits=np.zeros(2 * queues * int(k[INPUT_RING]), np.uint64),
        buffers=np.zeros((buffers + sources) * BUFFER_COLUMNS, np.int64),
        buffer_flags=np.zeros(places, np.int64),
        buffer_flits=np.zeros(2 * places, np.uint64),
        returning=np.zeros(1 + int(k[RETURN_PHASES]) * (buffers + 1), np.int64),
    )


@jit
def list_at(k, number):
    """Where list ``number`` begins, with its length: 0 and 1 inputs, 2 routers, 3 the flights of the phases."""
    return number * (k[PORT_COUNT] + 1)


@jit
def buffered_at(k):
    """Where in the lists the number of flits in all queues is."""
    return list_at(k, 3) + k[PHASES]


@jit
def fly(k, f, cycle, link, flags, low, high):
    """Put a flit on a link, visible in ``cycle``."""
    phase = cycle & (k[PHASES] - 1)
    count = list_at(k, 3) + phase
    at = 2 * (phase * k[LINK_COUNT] + f.lists[count])
    f.lists[count] += 1
    f.flight[at] = link
    f.flight[at + 1] = flags
    f.flight_data[at] = low
    f.flight_data[at + 1] = high


@jit
def let_out(k, f, cycle, output, flags, low, high):
    """A flit passes an output port in ``cycle``; it is on the link a hop latency later."""
    fly(k, f, cycle + k[LATENCY], f.ports[output * PORT_COLUMNS + OUT_LINK], flags, low, high)


@jit
def quiet(k, f):
    """Whether no flit is under way anywhere."""
    for phase in range(k[PHASES]):
        if f.lists[list_at(k, 3) + phase] > 0:
            return False
    return f.lists[buffered_at(k)] == 0

"""Links, routers and the flits on their way between them: the tables, made from a system.

A flit that a router lets out in cycle c is put where the flits of cycle c+latency are kept, so its
way through the plain registers costs nothing.  Work is in lists: links with a flit, inputs with a flit.
"""

from typing import Any, NamedTuple

import numpy as np

from lethe.spec.config import System
from lethe.spec.random import UNIT_LINK_FLIP, UNIT_LINK_LOSS, UNIT_ROUTER, seed_for
from lethe_sim.golden.compile import jit, pointer
from lethe_sim.golden.fabric.topology import ports, wire_up
from lethe_sim.golden.lib.random import leap, leaps
from lethe_sim.golden.record import Record, table
from lethe_sim.golden.state import NONE, Buffer, InputQueue, Link, Parameters, Port, Router, Stored


class Fabric(NamedTuple):
    """Tables, their records one after the other; `pointers` names them."""

    routers: Any
    ports: Any
    links: Any
    heads: np.ndarray  # per router: how many of its inputs have a head, and which
    lists: np.ndarray  # inputs with a flit, even and odd cycles; routers with a head; flights per phase; queued flits
    flight: np.ndarray  # per phase and flit: link, flags
    port_flit: np.ndarray  # per input: words of a head
    flight_data: np.ndarray  # per phase and flit: its words
    queues: Any  # of inputs
    queue_flags: np.ndarray  # per flit in a queue: its flags
    queue_flits: np.ndarray  # per flit in a queue: its words
    pool: Any  # per router: its buffers
    pool_flags: np.ndarray  # per flit in a pool: its flags
    pool_flits: np.ndarray  # per flit in a pool: its words
    buffers: Any  # credits: per channel of a port, a sink, a source queue
    buffer_flags: np.ndarray  # per flit in a buffer: its flags
    buffer_flits: np.ndarray  # per flit in a buffer: its words
    returning: np.ndarray  # the most flits in a source queue; per phase: how many credits come back, and where to
    leaps: np.ndarray  # of the generators (`lib.random.leaps`)


_routers, _ports, _links, _queues, _pool, _buffers = map(table, (Router, Port, Link, InputQueue, Stored, Buffer))


@jit
def pointers(f):
    """The tables as the functions of a cycle take them."""
    return Fabric(
        _routers(pointer(f.routers)), _ports(pointer(f.ports)), _links(pointer(f.links)), pointer(f.heads),
        pointer(f.lists), pointer(f.flight), pointer(f.port_flit), pointer(f.flight_data), _queues(pointer(f.queues)),
        pointer(f.queue_flags), pointer(f.queue_flits), _pool(pointer(f.pool)), pointer(f.pool_flags),
        pointer(f.pool_flits), _buffers(pointer(f.buffers)), pointer(f.buffer_flags),
        pointer(f.buffer_flits), pointer(f.returning), pointer(f.leaps),
    )  # fmt: skip


def rows(array: np.ndarray, record: type[Record]) -> np.ndarray:
    """A table as a matrix with a row for each record and a column for each field (`Port.out_link`)."""
    return array.reshape(-1, record.size)


def seeds(seed: int, unit: int, count: int) -> np.ndarray:
    """`seed_for` of units 0 … count−1."""
    return np.array([seed_for(seed, unit, index) for index in range(count)], np.int64)


def build(system: System, k: Parameters) -> Fabric:
    """The fabric of a system at system reset; enters the numbers of its parts into ``k``."""
    graph, seed = system.graph, system.run.seed
    k.router_count = graph.routers
    sizes = np.array([ports(k, router) for router in range(graph.routers)], np.int64)
    k.port_count = sizes.sum()
    k.link_count = 2 * system.nodes + k.port_count if graph.routers else 2
    fabric = empty(k, sizes)
    k.link_count = _wire_up(k, fabric)
    links = rows(fabric.links, Link)[: k.link_count]
    routers = rows(fabric.routers, Router)
    routers[:, Router.draw] = seeds(seed, UNIT_ROUTER, graph.routers)
    routers[:, Router.path_draw] = seeds(seed, UNIT_ROUTER, 2 * graph.routers)[graph.routers :]
    if k.loss:
        links[:, Link.loss_random] = seeds(seed, UNIT_LINK_LOSS, len(links))
    if k.flip:
        links[:, Link.flip_random] = seeds(seed, UNIT_LINK_FLIP, len(links))
    return fabric


@jit
def _wire_up(k, tables):
    return wire_up(k, pointers(tables))


def empty(k: Parameters, sizes: np.ndarray) -> Fabric:
    """A fabric without a flit in it, whose routers have ``sizes`` ports, and whose links lead nowhere yet."""
    count, links, phases = int(k.port_count), int(k.link_count), int(k.phases)
    routers = np.zeros((len(sizes), Router.size), np.int64)
    routers[:, Router.ports] = sizes
    routers[:, Router.first_port] = np.cumsum(sizes) - sizes
    routers[:, Router.drawn] = -1
    routers[:, Router.climbed] = -1
    inputs = np.zeros((count, Port.size), np.int64)
    inputs[:, Port.input_heard] = NONE
    inputs[:, Port.out_link] = NONE
    queues = count if k.input_worms else 0
    stored = len(sizes) * int(k.pool)
    sources = int(k.nodes) if k.credit_flits else 0
    buffers = count * int(k.channels) if k.credit_flits else 0
    places = (buffers + sources * int(k.channels)) * int(k.credit_flits) + sources * int(k.source_ring)
    return Fabric(
        routers=routers.reshape(-1),
        ports=inputs.reshape(-1),
        links=np.zeros(links * Link.size, np.int64),
        heads=np.zeros(count + len(sizes), np.int64),
        lists=np.zeros(3 * (count + 1) + phases + 1, np.int64),
        flight=np.zeros(phases * links * 2, np.int64),
        port_flit=np.zeros(2 * count, np.uint64),
        flight_data=np.zeros(phases * links * 2, np.uint64),
        queues=np.zeros(queues * InputQueue.size, np.int64),
        queue_flags=np.zeros(queues * int(k.input_ring), np.int64),
        queue_flits=np.zeros(2 * queues * int(k.input_ring), np.uint64),
        pool=np.zeros(stored * Stored.size, np.int64),
        pool_flags=np.zeros(stored * int(k.max_flits), np.int64),
        pool_flits=np.zeros(2 * stored * int(k.max_flits), np.uint64),
        buffers=np.zeros((buffers + 2 * sources * int(k.channels)) * Buffer.size, np.int64),
        buffer_flags=np.zeros(places, np.int64),
        buffer_flits=np.zeros(2 * places, np.uint64),
        returning=np.zeros(1 + int(k.return_phases) * (count + sources + 1), np.int64),
        leaps=leaps(),
    )


@jit
def list_at(k, number):
    """Where list ``number`` begins, with its length: 0 and 1 inputs, 2 routers, 3 the flights of the phases."""
    return number * (k.port_count + 1)


@jit
def heads_at(f, number):
    """Where the heads of router ``number`` are listed."""
    return f.routers[number].first_port + number


@jit
def buffered_at(k):
    """Where in the lists the number of flits in all queues, or of worms in all pools, is."""
    return list_at(k, 3) + k.phases


@jit
def fly(k, f, cycle, link, flags, low, high):
    """Put a flit on a link, visible in ``cycle``."""
    phase = cycle & (k.phases - 1)
    count = list_at(k, 3) + phase
    at = 2 * (phase * k.link_count + f.lists[count])
    f.lists[count] += 1
    f.flight[at] = link
    f.flight[at + 1] = flags
    f.flight_data[at] = low
    f.flight_data[at + 1] = high


@jit
def draw_of(f, router, cycle):
    """What a router draws in ``cycle``, which is no earlier than the one it was last asked for."""
    draw = leap(f.leaps, router.draw, cycle - router.drawn)
    router.draw = draw
    router.drawn = cycle
    return draw


@jit
def let_out(k, f, cycle, output, flags, low, high):
    """A flit passes an output port in ``cycle``; it is on the link a hop latency later."""
    fly(k, f, cycle + k.latency, f.ports[output].out_link, flags, low, high)


@jit
def quiet(k, f):
    """Whether no flit is under way anywhere."""
    for phase in range(k.phases):
        if f.lists[list_at(k, 3) + phase] > 0:
            return False
    return f.lists[buffered_at(k)] == 0

"""Routes, distances and wiring as arithmetic, against the specification's graphs."""

import numpy as np
import pytest
from golden_systems import TOPOLOGIES, make

from lethe_sim.golden import fabric
from lethe_sim.golden.state import (
    EXTERNAL,
    FIRST_PORT,
    LINK_COLUMNS,
    LINK_COUNT,
    OUT_LINK,
    PORT_COLUMNS,
    ROUTER_COLUMNS,
    TARGET,
    parameters,
)
from lethe_sim.golden.topology import distance_class, place_router, route

GRAPHS = [
    *((name, 1) for name in TOPOLOGIES),
    *((name, d) for name in ("fly", "fly3", "tree", "tree4") for d in (2, 5)),
]
graphs = pytest.mark.parametrize(("name", "dilation"), GRAPHS)


@graphs
def test_routes_and_distances(name, dilation):
    system = make(name, study={"dilation": dilation})
    graph, k = system.graph, parameters(system, EXTERNAL)
    row = np.zeros(ROUTER_COLUMNS, np.int64)
    for router in range(graph.routers):
        place_router(k, row, 0, router)
        for port in range(graph.ports(router)):
            for destination in range(system.nodes + 3):
                assert route(k, row, 0, port, destination) == graph.route(router, port, destination)
    for a in range(system.nodes):
        for b in range(system.nodes):
            if a != b:
                assert distance_class(k, a, b) == graph.distance_class(a, b)


@graphs
def test_wiring(name, dilation):
    system = make(name, study={"dilation": dilation})
    graph, k = system.graph, parameters(system, EXTERNAL)
    tables = fabric.build(system, k)
    first = tables.routers.reshape(-1, ROUTER_COLUMNS)[:, FIRST_PORT]
    targets = tables.links.reshape(-1, LINK_COLUMNS)[:, TARGET]
    out = tables.ports.reshape(-1, PORT_COLUMNS)[:, OUT_LINK]
    assert k[LINK_COUNT] == len(graph.links)
    for number, link in enumerate(graph.links):
        expected = -1 - link.target if link.target_is_node else first[link.target] + link.target_port
        assert targets[number] == expected, graph.link_name(number)
        if not link.source_is_node:
            assert out[first[link.source] + link.source_port] == number
    assert np.count_nonzero(out >= 0) == sum(not link.source_is_node for link in graph.links)

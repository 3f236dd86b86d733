"""Routes, distances and wiring as arithmetic, against the specification's graphs."""

import numpy as np
import pytest

from lethe_sim.golden.fabric import fabric
from lethe_sim.golden.fabric.topology import distance_class, place_router, route
from lethe_sim.golden.state import EXTERNAL, Link, Port, Router, parameters
from tests.helpers.golden_systems import TOPOLOGIES, make

GRAPHS = [
    *((name, 1) for name in TOPOLOGIES),
    *((name, d) for name in ("fly", "fly3", "tree", "tree4") for d in (2, 5)),
]
graphs = pytest.mark.parametrize(("name", "dilation"), GRAPHS)


@graphs
def test_routes_and_distances(name, dilation):
    system = make(name, study={"dilation": dilation})
    graph, k = system.graph, parameters(system, EXTERNAL)
    state = Router(np.zeros(Router.size, np.int64))
    for router in range(graph.routers):
        place_router(k, state, router)
        for port in range(graph.ports(router)):
            for destination in range(system.nodes + 3):
                assert route(k, state, port, destination) == graph.route(router, port, destination)
    for a in range(system.nodes):
        for b in range(system.nodes):
            if a != b:
                assert distance_class(k, a, b) == graph.distance_class(a, b)


@graphs
def test_wiring(name, dilation):
    system = make(name, study={"dilation": dilation})
    graph, k = system.graph, parameters(system, EXTERNAL)
    tables = fabric.build(system, k)
    first = fabric.rows(tables.routers, Router)[:, Router.first_port]
    targets = fabric.rows(tables.links, Link)[:, Link.target]
    out = fabric.rows(tables.ports, Port)[:, Port.out_link]
    assert k.link_count == len(graph.links)
    for number, link in enumerate(graph.links):
        expected = -1 - link.target if link.target_is_node else first[link.target] + link.target_port
        assert targets[number] == expected, graph.link_name(number)
        if not link.source_is_node:
            assert out[first[link.source] + link.source_port] == number
    assert np.count_nonzero(out >= 0) == sum(not link.source_is_node for link in graph.links)

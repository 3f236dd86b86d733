"""Topologies: every route arrives, as long as promised, and the links are two ends of one wire."""

from dataclasses import replace

import pytest

from lethe.spec.config import System
from lethe.spec.topology import NOWHERE, UP, Topology

GRAPHS = (
    Topology(kind="crossbar", nodes=5),
    Topology(kind="fly", nodes=8, arity=2, levels=3),
    Topology(kind="fly", nodes=9, arity=3, levels=2),
    Topology(kind="tree", nodes=4, arity=4, levels=1),
    Topology(kind="tree", nodes=8, arity=2, levels=3),
    Topology(kind="tree", nodes=27, arity=3, levels=3),
    Topology(kind="fly", nodes=8, arity=2, levels=3, dilation=2),
    Topology(kind="fly", nodes=9, arity=3, levels=2, dilation=3),
    Topology(kind="fly", nodes=3, arity=3, levels=1, dilation=4),
    Topology(kind="tree", nodes=4, arity=4, levels=1, dilation=2),
    Topology(kind="tree", nodes=8, arity=2, levels=3, dilation=2),
    Topology(kind="tree", nodes=9, arity=3, levels=2, dilation=3),
    Topology(kind="mesh", nodes=12, columns=4, rows=3),
    Topology(kind="mesh", nodes=5, columns=5, rows=1),
)
graphs = pytest.mark.parametrize("graph", GRAPHS, ids=lambda g: f"{g.kind}{g.nodes}x{g.dilation}")


def paths(graph: Topology, source: int, destination: int):
    """The number of routers on every path that `route` allows."""
    onward = {(link.source, link.source_port): link for link in graph.links if not link.source_is_node}
    entry = next(link for link in graph.links if link.source_is_node and link.source == source)

    def follow(link, routers):
        if link.target_is_node:
            assert link.target == destination
            yield routers
            return
        port = graph.route(link.target, link.target_port, destination)
        assert port != NOWHERE
        ports = graph.ports(link.target)
        up = range(ports - graph.up_ports(link.target), ports)
        for p in up if port == UP else range(port, port + graph.parallel(link.target, port)):
            yield from follow(onward[link.target, p], routers + 1)

    return list(follow(entry, 0))


@graphs
def test_every_route_arrives_and_all_paths_of_a_pair_have_one_length(graph):
    """IMP-12: and the length is `hops`, at most `class_hops`, at least `least_hops`."""
    least = graph.nodes * graph.max_ports
    for source in range(graph.nodes):
        for destination in range(graph.nodes):
            if source == destination:
                continue
            hops = graph.hops(source, destination)
            found = paths(graph, source, destination)
            assert set(found) == {hops}
            assert hops <= graph.class_hops(graph.distance_class(source, destination))
            least = min(least, hops)
            if graph.kind == "tree":
                up = graph.distance_class(source, destination)
                assert len(found) == graph.arity**up * graph.dilation ** (2 * up)
            elif graph.kind == "fly":
                assert len(found) == graph.dilation ** (graph.levels - 1)
    assert graph.least_hops == least


@graphs
def test_links_are_wired_once_at_each_end(graph):
    outputs = [(link.source_is_node, link.source, link.source_port) for link in graph.links]
    inputs = [(link.target_is_node, link.target, link.target_port) for link in graph.links]
    assert len(set(outputs)) == len(outputs) and len(set(inputs)) == len(inputs)
    for link in graph.links:
        assert link.source_is_node or link.source_port < graph.ports(link.source)
        assert link.target_is_node or link.target_port < graph.ports(link.target)


@graphs
def test_nowhere_is_nowhere(graph):
    for router in range(graph.routers):
        assert graph.route(router, 0, graph.nodes) == NOWHERE
        assert graph.route(router, 0, -1) == NOWHERE


def test_what_came_down_does_not_go_up_again_and_y_does_not_turn_to_x():
    tree = Topology(kind="tree", nodes=8, arity=2, levels=3)
    assert tree.route(0, 0, 7) == UP and tree.route(0, 2, 7) == NOWHERE and tree.route(0, 2, 1) == 1
    mesh = Topology(kind="mesh", nodes=9, columns=3, rows=3)
    assert mesh.route(4, 3, 5) == NOWHERE and mesh.route(4, 2, 5) == 1 and mesh.route(4, 2, 3) == NOWHERE


@pytest.mark.parametrize(
    "graph", [g for g in GRAPHS if g.dilation > 1], ids=lambda g: f"{g.kind}{g.nodes}x{g.dilation}"
)
def test_parallel_links_are_those_of_the_single_ones(graph):
    """Link by link: a bundle for each link between routers, the same links of nodes, the same routes."""
    single, d, nodes = replace(graph, dilation=1), graph.dilation, graph.nodes
    ends = [
        (link.source, link.source_port // d, link.target, link.target_port // d) for link in graph.links[2 * nodes :]
    ]
    expected = [(link.source, link.source_port, link.target, link.target_port) for link in single.links[2 * nodes :]]
    assert ends == [end for end in expected for _ in range(d)]
    for number, link in enumerate(graph.links):
        together = {graph.links[n].source for n in graph.bundle(number)} | {
            graph.links[n].target for n in graph.bundle(number)
        }
        assert number in graph.bundle(number) and len(together) <= 2
        if number < 2 * nodes:
            port = link.target_port if link.source_is_node else link.source_port
            plain = single.links[number]
            assert port == d * (plain.target_port if plain.source_is_node else plain.source_port)
            assert len(graph.bundle(number)) == 1
        else:
            assert link.source_port % d == link.target_port % d == (number - 2 * nodes) % d
            assert len(graph.bundle(number)) == d == graph.parallel(link.source, link.source_port)
    for router in range(graph.routers):
        assert graph.ports(router) == d * single.ports(router) and graph.up_ports(router) == d * single.up_ports(router)
        for port in range(graph.ports(router)):
            for destination in range(nodes):
                way = single.route(router, port // d, destination)
                assert graph.route(router, port, destination) == (way * d if way >= 0 else way)
    assert graph.distance_classes == single.distance_classes
    assert [graph.class_hops(c) for c in range(graph.distance_classes)] == [
        single.class_hops(c) for c in range(single.distance_classes)
    ]


def test_names():
    tree = Topology(kind="tree", nodes=16, arity=4, levels=2)
    assert tree.link_name(0) == "node0→router0.0" and tree.link_name(16) == "router0.0→node0"
    dilated = replace(tree, dilation=3)
    assert dilated.link_name(1) == "node1→router0.3" and dilated.link_name(17) == "router0.3→node1"
    assert [dilated.link_name(32 + n) for n in range(4)] == [
        "router0.12→router4.0", "router0.13→router4.1", "router0.14→router4.2", "router0.15→router5.0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "topology",
    [
        {"kind": "tree", "arity": 4, "levels": 8},
        {"kind": "fly", "arity": 2, "levels": 16},
        {"kind": "mesh", "columns": 256, "rows": 256},
    ],
)
def test_65536_nodes_are_described_at_once(topology):
    """IMP-05: nothing that a configuration needs grows with the number of nodes."""
    system = System.make(topology=topology, wire={"generation_bits": 16})
    assert system.nodes == 65536
    last = system.graph.link(system.graph.link_count - 1)
    assert not last.source_is_node and last.source < system.graph.routers


def test_a_slot_is_not_reused_faster_than_the_wrap_rule_assumes():
    """T1: the shortest time between two uses of a slot, in the golden model with nothing in the way."""
    from lethe.spec.events import Event
    from lethe.spec.wire import unpack_uid
    from lethe_sim.golden.model import Golden, Item, Script

    system = System.make(
        topology={"kind": "crossbar", "nodes": 2}, ni={"slots": 2}, timers={"wrap_guard": 0}, run={"cycles": 2000}
    )
    script = Script.from_items(system, [Item(node=0, destination=1) for _ in range(60)])
    golden = Golden(system, script, record=True)
    golden.run(2000, until_drained=True)
    assert golden.drained
    last: dict[int, int] = {}
    gaps = []
    for event in golden.take_events():
        if int(event["word"]) & 0xFF == Event.ACCEPT:
            slot = unpack_uid(int(event["uid"]))[2]
            if slot in last:
                gaps.append(int(event["cycle"]) - last[slot])
            last[slot] = int(event["cycle"])
    assert len(gaps) == 58 and min(gaps) == system.reuse_time

"""The partition check against a search of every path of every pair."""

import random
import time

import pytest

from lethe.spec.config import System
from lethe.spec.partition import cut_pair, pathless_pair
from lethe.spec.pin import by_path
from lethe.spec.topology import UP, Topology

SMALL = (
    Topology(kind="wire", nodes=2),
    Topology(kind="crossbar", nodes=5),
    Topology(kind="fly", nodes=2, arity=2, levels=1),
    Topology(kind="fly", nodes=8, arity=2, levels=3),
    Topology(kind="fly", nodes=9, arity=3, levels=2),
    Topology(kind="tree", nodes=4, arity=4, levels=1),
    Topology(kind="tree", nodes=8, arity=2, levels=3),
    Topology(kind="tree", nodes=9, arity=3, levels=2),
    Topology(kind="tree", nodes=16, arity=2, levels=4),
    Topology(kind="fly", nodes=9, arity=3, levels=2, dilation=2),
    Topology(kind="tree", nodes=8, arity=2, levels=3, dilation=2),
    Topology(kind="mesh", nodes=6, columns=3, rows=2),
    Topology(kind="mesh", nodes=4, columns=1, rows=4),
)


def name(graph: Topology) -> str:
    return f"{graph.kind}{graph.nodes}x{graph.dilation}"


def reachable(graph: Topology, dead: set[int], source: int, destination: int) -> bool:
    """Whether any path that `Topology.route` allows avoids the dead links."""
    links = [link for number, link in enumerate(graph.links) if number not in dead]
    entry = next((link for link in links if link.source_is_node and link.source == source), None)
    onward = {(link.source, link.source_port): link for link in links if not link.source_is_node}

    def follow(link) -> bool:
        if link is None or link.target_is_node:
            return link is not None and link.target == destination
        port = graph.route(link.target, link.target_port, destination)
        ports = graph.ports(link.target)
        choice = (
            range(ports - graph.up_ports(link.target), ports)
            if port == -1
            else range(port, port + graph.parallel(link.target, port))
        )
        return any(follow(onward.get((link.target, p))) for p in choice)

    return follow(entry)


def is_partitioned(graph: Topology, dead: set[int]) -> bool:
    pairs = ((s, d) for s in range(graph.nodes) for d in range(graph.nodes) if s != d)
    return any(not reachable(graph, dead, s, d) for s, d in pairs)


@pytest.mark.parametrize("graph", SMALL, ids=name)
def test_link_by_number_is_the_link_of_the_list(graph):
    assert graph.link_count == len(graph.links)
    assert [graph.link(number) for number in range(graph.link_count)] == list(graph.links)
    for beyond in (-1, graph.link_count):
        with pytest.raises(IndexError, match="link must be 0 to"):
            graph.link(beyond)


@pytest.mark.parametrize("graph", SMALL, ids=name)
def test_one_dead_link(graph):
    for link in range(graph.link_count):
        cut = cut_pair(graph, {link})
        assert (cut is not None) == is_partitioned(graph, {link}), link
        if cut:
            assert cut[0] != cut[1]
            assert not reachable(graph, {link}, *cut), (link, cut)


@pytest.mark.parametrize("graph", [g for g in SMALL if g.kind == "tree" and g.levels > 1], ids=name)
@pytest.mark.parametrize("seed", range(25))
def test_many_dead_links_of_a_tree(graph, seed):
    """Only links between routers, so that whether a pair is cut depends on all of them together."""
    chance = random.Random(seed)
    inner = range(2 * graph.nodes, graph.link_count)
    dead = set(chance.sample(inner, chance.randint(1, max(2, len(inner) // 3))))
    cut = cut_pair(graph, dead)
    assert (cut is not None) == is_partitioned(graph, dead), f"seed {seed}, dead {sorted(dead)}"
    if cut:
        assert not reachable(graph, dead, *cut), f"seed {seed}, dead {sorted(dead)}, cut {cut}"


def test_nothing_dead():
    assert all(cut_pair(graph, set()) is None for graph in SMALL)


@pytest.mark.parametrize("kind", ["tree", "fly"])
def test_a_large_network_is_checked_at_once(kind):
    """65,536 nodes: no list of links, no loop over pairs."""
    graph = Topology(kind=kind, nodes=4**8, arity=4, levels=8)
    inner = range(2 * graph.nodes, graph.link_count)
    dead = set(random.Random(1).sample(inner, 50))
    start = time.perf_counter()
    cut = cut_pair(graph, dead)
    assert time.perf_counter() - start < 5
    assert (cut is None) == (kind == "tree")


def test_a_tree_with_one_path_left_is_accepted():
    """IMP-08: all but one up-link of a leaf switch may die for ever."""
    system = System.make(topology={"kind": "tree", "arity": 4, "levels": 2})
    up = [
        number
        for number, link in enumerate(system.graph.links)
        if not link.source_is_node and not link.target_is_node and link.source == 0
    ]
    fault = [{"link": link, "start": 0, "end": system.run.cycles} for link in up]
    assert len(up) == 4
    System.make(topology={"kind": "tree", "arity": 4, "levels": 2}, faults={"links": fault[:3]})
    with pytest.raises(ValueError, match=r"faults\.links: no path is left from node 0 to node 4"):
        System.make(topology={"kind": "tree", "arity": 4, "levels": 2}, faults={"links": fault})


def links_of(graph: Topology, source: int, destination: int, path: int, path_bits: int) -> set[int]:
    """The links of a path."""
    leaving = {(link.source_is_node, link.source, link.source_port): (n, link) for n, link in enumerate(graph.links)}
    number, link = leaving[True, source, 0]
    found = {number}
    while not link.target_is_node:
        port = graph.route(link.target, link.target_port, destination)
        if port == UP:
            level, ups = graph.level(link.target), graph.up_ports(link.target)
            port = graph.arity + by_path(path, path_bits, level, ups)
        number, link = leaving[False, link.target, port]
        found.add(number)
    assert link.target == destination
    return found


@pytest.mark.parametrize("arity, levels, path_bits", [(2, 2, 1), (2, 3, 1), (2, 3, 2), (2, 4, 3), (3, 2, 2), (4, 2, 2)])
def test_pairs_without_a_path(arity, levels, path_bits):
    """Against every path of every pair, there and back."""
    graph = Topology(kind="tree", nodes=arity**levels, arity=arity, levels=levels)
    paths = {
        (a, b): [
            links_of(graph, a, b, path, path_bits) | links_of(graph, b, a, path, path_bits)
            for path in range(1 << path_bits)
        ]
        for a in range(graph.nodes)
        for b in range(a)
    }
    chance, between = random.Random(levels), range(2 * graph.nodes, graph.link_count)
    cut = 0
    for _ in range(40):
        dead = set(chance.sample(between, min(len(between), chance.randrange(12))))
        without = {pair for pair, ways in paths.items() if all(dead & way for way in ways)}
        found = pathless_pair(graph, dead, path_bits)
        assert (found is None) == (not without)
        assert found is None or (max(found), min(found)) in without
        cut += bool(without)
    assert 3 < cut < 38

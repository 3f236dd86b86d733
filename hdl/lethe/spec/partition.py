"""Which pair of nodes a set of dead links cuts off, in time that follows the dead links, not the nodes."""

import itertools
from dataclasses import replace

from .pin import by_path
from .topology import Fly, Link, Mesh, Topology, Tree


def cut_pair(graph: Topology, dead: set[int]) -> tuple[int, int] | None:
    """A (source, destination) pair with no path that avoids the links in ``dead``; None if all have one.

    Only a fat tree has more than one path for a pair.  Elsewhere every link is the only way of some pair.
    """
    if graph.dilation > 1:
        return cut_pair(*_single(graph, dead))
    ends = [graph.link(number) for number in sorted(dead)]
    for end in ends:
        if end.source_is_node:
            return end.source, end.target if end.target_is_node else int(end.source == 0)
        if end.target_is_node:
            return int(end.target == 0), end.target
    match graph:
        case Mesh() if ends:
            return ends[0].source, ends[0].target
        case Fly() if ends:
            return _fly_pair(graph, ends[0])
        case Tree():
            return _tree_pair(graph, ends)
    return None


def _single(graph: Topology, dead: set[int]) -> tuple[Topology, set[int]]:
    """The network of single links, and its dead ones: those of which all parallel links are dead."""
    first, d = 2 * graph.nodes, graph.dilation
    whole = {first + (link - first) // d for link in dead if link >= first and dead.issuperset(graph.bundle(link))}
    return replace(graph, dilation=1), whole | {link for link in dead if link < first}


def _fly_pair(graph: Fly, end: Link) -> tuple[int, int]:
    """A pair whose path crosses this link between two stages."""
    k = graph.arity

    def source(entry: int) -> int:
        line = graph.index(end.source) * k + entry
        for stage in reversed(range(graph.level(end.source))):
            line = graph.fly_wire(stage, line)  # its own inverse
            line = line // k * k + entry
        return line

    def destination(choice: int) -> int:
        line = graph.index(end.target) * k + end.target_port
        for stage in range(graph.level(end.target), graph.levels):
            line = line // k * k + choice
            if stage < graph.levels - 1:
                line = graph.fly_wire(stage, line)
        return line

    pairs = ((source(entry), destination(choice)) for entry in range(k) for choice in range(k))
    return next((s, d) for s, d in pairs if s != d)


def pathless_pair(graph: Topology, dead: set[int], path_bits: int) -> tuple[int, int] | None:
    """Two nodes of a tree that have no path (`lethe.spec.pin.by_path`) without dead links up and down; None: all have.

    A path leads from the routers of both nodes to the same router where they meet, so each router of a leaf has one
    chain upwards for each path.
    """
    k, width = graph.arity, graph.width
    between = [graph.link(number) for number in dead if number >= 2 * graph.nodes]
    broken = {(link.source, link.target) for link in between}

    def whole(leaf: int, path: int) -> int:
        """Levels up to which the chain of a path is whole."""
        index = leaf
        for level in range(graph.levels - 1):
            place, port = k**level, by_path(path, path_bits, level, k)
            above = index + (port - index // place % k) * place
            below, over = level * width + index, (level + 1) * width + above
            if (below, over) in broken or (over, below) in broken:
                return level
            index = above
        return graph.levels - 1

    reach = [[whole(leaf, path) for path in range(1 << path_bits)] for leaf in range(width)]
    for level in range(1, graph.levels):
        # By group of leaves that meet a level below: the sets of paths that are whole up to here, and a leaf of each.
        groups: dict[int, dict[int, int]] = {}
        for leaf, reached in enumerate(reach):
            paths = sum(1 << path for path, most in enumerate(reached) if most >= level)
            groups.setdefault(leaf // k ** (level - 1), {})[paths] = leaf
        for group, own in groups.items():
            for other in range(group // k * k, group):
                for (paths, leaf), (others, far) in itertools.product(own.items(), groups[other].items()):
                    if not paths & others:
                        return far * k, leaf * k
    return None


def _tree_pair(graph: Topology, ends: list[Link]) -> tuple[int, int] | None:
    """The fat tree: a pair that meets at level m has k^m paths, one for each choice of up-ports.

    Going up from level l and coming down to it, the choices so far are the low l digits of the router, so
    one bit set over these digits says which paths are alive; two such sets that do not meet are a cut.
    """
    k, width = graph.arity, graph.width
    # (level, group of routers with the same high digits, up-port) -> low digits whose link is dead.
    dead_up: dict[tuple[int, int, int], int] = {}
    dead_down: dict[tuple[int, int, int], int] = {}
    for end in ends:
        upward = end.source < end.target
        low, high = sorted((end.source, end.target))
        level, index = low // width, low % width
        place = k**level
        port = high % width // place % k
        into = dead_up if upward else dead_down
        key = level, index // place, port
        into[key] = into.get(key, 0) | 1 << index % place

    def rise(sets: dict[int, int], level: int, group: int, dead: dict[tuple[int, int, int], int]) -> dict[int, int]:
        """Alive paths (with a leaf router that has just these) of one group, one level further up."""
        place = k**level
        lost = [dead.get((level, group, port), 0) for port in range(k)]
        risen = {}
        for alive, leaf in sets.items():
            risen[sum((alive & ~lost[port]) << port * place for port in range(k))] = leaf
        return risen

    # What is known of groups with a dead link below them; all others are whole.
    known: dict[int, tuple[dict[int, int], dict[int, int]]] = {}
    for level in range(graph.levels - 1):
        whole = (1 << k**level) - 1
        touched = {group // k for group in known}
        touched |= {group // k for (at, group, _) in (*dead_up, *dead_down) if at == level}
        above = {}
        for parent in touched:
            ups, downs = [], []
            for group in range(parent * k, parent * k + k):
                leaf = group * k**level
                up, down = known.get(group, ({whole: leaf}, {whole: leaf}))
                ups.append(rise(up, level, group, dead_up))
                downs.append(rise(down, level, group, dead_down))
            for i, up in enumerate(ups):
                for j, down in enumerate(downs):
                    for alive, source in up.items():
                        for wanted, destination in down.items() if i != j else ():
                            if not alive & wanted:
                                return source * k, destination * k
            above[parent] = (
                {alive: leaf for up in ups for alive, leaf in up.items()},
                {alive: leaf for down in downs for alive, leaf in down.items()},
            )
        known = above
    return None

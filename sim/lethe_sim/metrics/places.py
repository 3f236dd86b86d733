"""Places of a fabric: the level of a router, the class of a link."""

import numpy as np

from lethe.spec.topology import EAST, WEST, Topology
from lethe.spec.trace import Layout

#: The place of all network interfaces and services.
NODES = "nodes"


def places(layout: Layout) -> tuple[list[str], np.ndarray]:
    """The names of the places, and of each unit (NIs, routers, links, services) the index of its place.

    Routers are ``level0`` … in a tree (0 is next to the nodes), ``stage0`` … in a fly, else ``routers``; links are
    ``injection``, ``ejection``, ``up0`` (from level 0 to 1), ``down0`` (back), ``between0`` (behind stage 0), ``x``
    and ``y`` in a mesh, or ``wire``.
    """
    graph, names = layout.graph, [NODES]
    of_unit = np.zeros(layout.units, np.int64)

    def put(first: int, name: str, which: np.ndarray | slice) -> None:
        if name not in names:
            names.append(name)
        of_unit[first:][which] = names.index(name)

    for router_level in range(graph.levels if graph.width else min(graph.routers, 1)):
        prefix = {"tree": "level", "fly": "stage"}.get(graph.kind)
        width = graph.width or graph.routers
        name = f"{prefix}{router_level}" if prefix else "routers"
        put(graph.first_router, name, slice(router_level * width, (router_level + 1) * width))
    links = graph.first_link
    if graph.kind == "wire":
        put(links, "wire", slice(0, graph.link_count))
        return names, of_unit
    put(links, "injection", slice(0, graph.nodes))
    put(links, "ejection", slice(graph.nodes, 2 * graph.nodes))
    for name, which in _inner(graph):
        put(links + 2 * graph.nodes, name, which)
    return names, of_unit


def _inner(graph: Topology):
    """(name, which of the links between routers): those are ordered by source router and port."""
    k, width = graph.arity * graph.dilation, graph.width
    match graph.kind:
        case "fly":
            for stage in range(graph.levels - 1):
                yield f"between{stage}", slice(stage * width * k, (stage + 1) * width * k)
        case "tree":
            start = 0
            for level in range(graph.levels if graph.levels > 1 else 0):
                down, up = level > 0, level < graph.levels - 1
                ports = k * (down + up)
                place = np.arange(width * ports)
                if down:
                    yield f"down{level - 1}", start + place[place % ports < k]
                if up:
                    yield f"up{level}", start + place[place % ports >= k * down]
                start += width * ports
        case "mesh":
            along = np.array([link.source_port in (EAST, WEST) for link in graph.links[2 * graph.nodes :]], bool)
            yield "x", np.flatnonzero(along)
            yield "y", np.flatnonzero(~along)

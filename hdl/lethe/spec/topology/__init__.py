"""Topologies as graphs: who is connected to whom, and where a head may go.  One file for each kind.

Units are numbered NIs first (0 … nodes−1), then routers, then links.  Both implementations build
their fabric from `Topology.links` and are held against `Topology.route`.

With ``dilation`` d > 1 the ports i·d … i·d + d − 1 of a router are direction i: what port i is without.  A direction
that leads to another router has d parallel links; one that leads to a node has its first port only.
"""

from .crossbar import Crossbar
from .fly import Fly
from .graph import NOWHERE, UP, Link, Topology
from .mesh import EAST, LOCAL, NORTH, SOUTH, WEST, Mesh
from .pair import Pair
from .tree import Tree

__all__ = [
    "EAST", "KINDS", "LOCAL", "NORTH", "NOWHERE", "OF_KIND", "SOUTH", "UP", "WEST",
    "Crossbar", "Fly", "Link", "Mesh", "Pair", "Topology", "Tree",
]  # fmt: skip

#: Every kind by its name in a configuration.
OF_KIND: dict[str, type[Topology]] = {"wire": Pair, "crossbar": Crossbar, "fly": Fly, "tree": Tree, "mesh": Mesh}
KINDS = tuple(OF_KIND)

"""[topology]: the kind of network, and its size."""

import typing
from dataclasses import dataclass

from lethe.spec.topology import KINDS, OF_KIND, Topology

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


@dataclass(frozen=True, kw_only=True)
class TopologySection:
    about = "The network: its kind and its size."

    kind: str = key("tree", "wire (two nodes), crossbar, fly (k-ary n-fly), tree (k-ary n-tree) or mesh")
    nodes: int = key(0, "crossbar: number of nodes; all other kinds follow from the keys below, 0 for these")
    arity: int = key(4, "tree, fly: k")
    levels: int = key(2, "tree, fly: n; it has k^n nodes, for example 4^2 = 16")
    columns: int = key(4, "mesh: nodes along x")
    rows: int = key(4, "mesh: nodes along y; 4 columns and 4 rows are 16 nodes")


def check(system: "System", fail: Fail, within: Within) -> None:
    t = system.topology
    if t.kind not in KINDS:
        fail("topology.kind", f"no such topology {t.kind!r}", f"choose one of {', '.join(KINDS)}")
    OF_KIND[t.kind].check(t, fail, within)
    if t.nodes and t.nodes != system.nodes:
        fail("topology.nodes", f"is {t.nodes}, but the topology has {system.nodes}", "leave it out")


def graph(system: "System") -> Topology:
    section = system.topology
    return OF_KIND[section.kind].of(section, queued=system.stores, dilation=system.study.dilation)


def nodes(system: "System") -> int:
    return system.graph.nodes

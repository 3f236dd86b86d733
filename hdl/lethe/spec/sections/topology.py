"""[topology]: the kind of network, and its size."""

import typing
from dataclasses import dataclass

from lethe.spec.topology import KINDS, Topology

from .key import Fail, Within, key

if typing.TYPE_CHECKING:
    from lethe.spec.config import System


@dataclass(frozen=True, kw_only=True)
class TopologySection:
    kind: str = key("tree", "wire, crossbar, fly (k-ary n-fly), tree (k-ary n-tree) or mesh")
    nodes: int = key(0, "crossbar: number of nodes; elsewhere it follows from the other keys")
    arity: int = key(4, "tree, fly: k")
    levels: int = key(2, "tree, fly: n; nodes = k^n")
    columns: int = key(4, "mesh: nodes along x")
    rows: int = key(4, "mesh: nodes along y")


def check(system: "System", fail: Fail, within: Within) -> None:
    t = system.topology
    if t.kind not in KINDS:
        fail("topology.kind", f"no such topology {t.kind!r}", f"choose one of {', '.join(KINDS)}")
    match t.kind:
        case "crossbar":
            within("topology.nodes", 2, 256)
        case "tree" | "fly":
            within("topology.arity", 2, 16)
            within("topology.levels", 1, 16)
            if t.arity**t.levels > 65536:
                fail("topology.levels", f"gives {t.arity**t.levels} nodes", "65536 are the most, so lower it")
        case "mesh":
            within("topology.columns", 1, 256)
            within("topology.rows", 1, 256)
            if t.columns * t.rows < 2:
                fail("topology.columns", "a mesh needs at least 2 nodes", "raise columns or rows")
    if t.nodes and t.nodes != system.nodes:
        fail("topology.nodes", f"is {t.nodes}, but the topology has {system.nodes}", "leave it out")


def graph(system: "System") -> Topology:
    t, queued = system.topology, system.queue > 0
    match t.kind:
        case "wire":
            return Topology(kind="wire", nodes=2, queued=queued)
        case "crossbar":
            return Topology(kind="crossbar", nodes=t.nodes, queued=queued)
        case "mesh":
            return Topology(kind="mesh", nodes=t.columns * t.rows, columns=t.columns, rows=t.rows, queued=queued)
        case _:
            return Topology(
                kind=t.kind, nodes=t.arity**t.levels, arity=t.arity, levels=t.levels, queued=queued,
                dilation=system.study.dilation,
            )  # fmt: skip


def nodes(system: "System") -> int:
    return system.graph.nodes

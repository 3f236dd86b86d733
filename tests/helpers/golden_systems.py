"""Small systems that the golden model's tests share."""

from lethe.spec.config import System

TOPOLOGIES = {
    "wire": {"kind": "wire"},
    "crossbar": {"kind": "crossbar", "nodes": 5},
    "fly": {"kind": "fly", "arity": 2, "levels": 3},
    "fly3": {"kind": "fly", "arity": 3, "levels": 2},
    "tree": {"kind": "tree", "arity": 2, "levels": 3},
    "tree4": {"kind": "tree", "arity": 4, "levels": 2},
    "mesh": {"kind": "mesh", "columns": 3, "rows": 2},
}


def make(topology: str = "tree", **sections: dict) -> System:
    """A system of `TOPOLOGIES` with 20 datagrams per node, unless ``sections`` says otherwise."""
    workload = {"count": 20, "load": 0.1} | sections.pop("workload", {})
    timers = {"wrap_guard": 0} | sections.pop("timers", {})
    return System.make(topology=TOPOLOGIES[topology], workload=workload, timers=timers, **sections)

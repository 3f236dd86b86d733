"""Small systems for proofs."""

from lethe.spec.config import System

MAX_FLITS = 3


def crossbar(nodes):
    """With the shortest worms there are."""
    narrow = dict.fromkeys(("generation_bits", "incarnation_bits", "class_bits", "mode_bits", "ext_bits"), 1)
    system = System.make(
        topology={"kind": "crossbar", "nodes": nodes},
        wire={"flit_bits": 32, "mtu": 4, **narrow},
        ni={"slots": 2},
        timers={"wrap_guard": 0},
        workload={"min_length": 4, "max_length": 4},
    )
    assert system.format.max_flits == MAX_FLITS
    return system


def small(**sections):
    sections.setdefault("wire", {"flit_bits": 16, "mtu": 4, "generation_bits": 4})
    timers = {"wrap_guard": 0, **sections.pop("timers", {})}
    return System.make(
        topology={"kind": "wire"}, workload={"min_length": 4, "max_length": 4}, timers=timers, **sections
    )

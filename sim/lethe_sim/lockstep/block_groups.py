"""The groups of blocks that are held against their models, and how a group is run."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lethe import verilog
from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.sections import flow
from lethe.spec.sections.relay import OF_NI
from lethe.spec.sections.router import STAGES

from . import simulators
from .blocks import Block, BlockGroup, LadderBlock, LinkBlock, NiBlock, QueueBlock, RouterBlock
from .credit_block import CreditRouterBlock
from .host_blocks import CheckerBlock, GeneratorBlock
from .system_block import SystemBlock

TOP = "lethe_blocks"
BENCH = "lethe_sim.lockstep.block_bench"
#: The least `timers.timer_depth`.
SHALLOWEST = stages.SPARE_DELIVER + 1


def _system(kind: str, flit_bits: int, *, latency: int = 1, **sections) -> System:
    """A small system of ``kind`` whose numbers leave room for nodes that do not exist."""
    sizes = {
        "wire": {}, "crossbar": {"nodes": 5}, "fly": {"arity": 2, "levels": 3}, "tree": {"arity": 2, "levels": 2},
        "tree3": {"arity": 3, "levels": 3}, "mesh": {"columns": 3, "rows": 3}, "crossbar9": {"nodes": 9},
        "fly8": {"arity": 8, "levels": 1}, "fly16": {"arity": 16, "levels": 1}, "tree6": {"arity": 6, "levels": 2},
    }[kind]  # fmt: skip
    topology = {"kind": kind.rstrip("0123456789"), **sizes}
    nodes = System.make(topology=topology).nodes
    wire = {"flit_bits": flit_bits, "node_bits": nodes.bit_length() + 1, "mtu": 24, **sections.pop("wire", {})}
    timers = {"wrap_guard": 0, **sections.pop("timers", {})}
    workload = {"min_length": 4, "max_length": 4, **sections.pop("workload", {})}
    return System.make(
        topology=topology, wire=wire, timers=timers, workload=workload, router={"latency": latency}, **sections
    )


def _links() -> dict[str, Block]:
    return {
        "link, all faults, 16": LinkBlock(_system("wire", 16, faults={"loss": 0.3, "flip": 0.1})),
        "link, all faults, 128": LinkBlock(_system("wire", 128, faults={"loss": 0.1, "flip": 0.4})),
        "link, loss, 32": LinkBlock(_system("wire", 32, faults={"loss": 0.5}), mortal=False),
        "link, flips, 64": LinkBlock(_system("wire", 64, faults={"flip": 0.5}), mortal=False),
        "link, death, 64": LinkBlock(_system("wire", 64)),
        "link, none, 32": LinkBlock(_system("wire", 32), mortal=False),
    }


#: Routers that are held with every number of stages before the crossbar.
_SHAPES = {"3-ary tree level 1": ("tree3", 16, 11), "mesh middle": ("mesh", 32, 4), "crossbar": ("crossbar", 16, 0)}
#: Those of them that are in the long test only; up-ports are in the quick one with each.
_LATER = {"mesh middle": (1, 4, 6), "crossbar": (2, 3, 5)}


def _late(name: str, latency: int) -> Block:
    kind, bits, number = _SHAPES[name]
    return RouterBlock(_system(kind, bits, latency=latency), number)


def _routers() -> dict[str, Block]:
    """With every number of stages before the crossbar, and up-ports with each."""
    found: dict[str, Block] = {
        "tree level 0": RouterBlock(_system("tree", 16), 1),
        "tree top": RouterBlock(_system("tree", 32, latency=2), 2),
        "fly stage 1": RouterBlock(_system("fly", 128, latency=2), 5),
    }
    for name in _SHAPES:
        for latency in range(1, STAGES + 1):
            if latency not in _LATER.get(name, ()):
                found[f"{name}, latency {latency}"] = _late(name, latency)
    return found


def _more_routers() -> dict[str, Block]:
    """The other latencies."""
    return {f"{name}, latency {latency}": _late(name, latency) for name in _LATER for latency in _LATER[name]}


def _queued(system: System, number: int, queue: int, max_wait: int) -> Block:
    return RouterBlock(system.replace(router={"queue": queue, "max_wait": max_wait}), number)


def _pooled(system: System, number: int, pool: int, **order) -> Block:
    ni = {"linger": -1} if order else {}
    return RouterBlock(system.replace(router={"pool": pool, **order}, ni=ni), number)


def _queued_routers() -> dict[str, Block]:
    return {
        "tree level 0, queue of 1": _queued(_system("tree", 16), 1, 1, 4),
        "3-ary tree level 1, queues of 2": _queued(_system("tree3", 32, latency=3), 11, 2, 9),
        "mesh middle, queues of 4": _queued(_system("mesh", 64, latency=2), 4, 4, 40),
        "tree level 0, pool of 2": _pooled(_system("tree", 16), 1, 2),
        "3-ary tree level 1, pool of 5": _pooled(_system("tree3", 32, latency=4), 11, 5),
        "tree level 0, pool of 4, any up-port": _pooled(_system("tree", 16), 1, 4, pool_path="any"),
        "3-ary tree level 1, pool of 5, any up-port, control first": _pooled(
            _system("tree3", 32, latency=2), 11, 5, pool_path="any", control_first=9
        ),
        "crossbar, pool of 4, control first": _pooled(_system("crossbar", 32), 0, 4, control_first=200),
        "mesh middle, pool of 1": _pooled(_system("mesh", 64, latency=2), 4, 1),
        "crossbar of 9, queues of 1": _queued(_system("crossbar9", 16, wire={"mtu": 6}), 0, 1, 2),
    }


def _large_pools() -> dict[str, Block]:
    """As many buffers as ports, nearly: most of what is built here is the way from each to each."""
    return {
        f"crossbar of 9, pool of {buffers}": _pooled(_system("crossbar9", 16, latency=3, wire={"mtu": 6}), 0, buffers)
        for buffers in (3, 8)
    }


def _wide_routers() -> dict[str, Block]:
    """Tournaments of three rounds and of four, and up-ports whose number is no power of two."""
    short = {"mtu": 6}
    return {
        "fly of 8": RouterBlock(_system("fly8", 16, wire=short), 0),
        "6-ary tree level 0, latency 4": RouterBlock(_system("tree6", 16, latency=4, wire=short), 2),
    }


def _widest_routers() -> dict[str, Block]:
    short = {"mtu": 6}
    return {
        "fly of 16": RouterBlock(_system("fly16", 16, wire=short, latency=2), 0),
        "6-ary tree level 0": RouterBlock(_system("tree6", 16, wire=short), 2),
    }


def _credit_routers() -> dict[str, Block]:
    """With and without registers in each way, with buffers larger and smaller than the round trip of a credit."""

    def credited(
        kind: str, bits: int, number: int, flits: int, latency: int, delay: int, route: int, grant: int
    ) -> Block:
        router = {"flow": "credits", "credit_flits": flits, "credit_delay": delay}
        system = _system(kind, bits, latency=latency, wire={"mtu": 6}).replace(router=router)
        return CreditRouterBlock(system, number, route_delay=route, grant_delay=grant)

    return {
        "tree level 0, 4 flits": credited("tree", 16, 1, 4, 1, 1, 0, 0),
        "tree top, 2 flits": credited("tree", 32, 2, 2, 2, 2, 1, 0),
        "3-ary tree level 1, 5 flits": credited("tree3", 32, 11, 5, 3, 2, 1, 1),
        "mesh middle, 1 flit": credited("mesh", 64, 4, 1, 2, 3, 0, 1),
        "mesh middle, 16 flits": credited("mesh", 32, 4, 16, 3, 2, 1, 1),
        "fly stage 1, 3 flits": credited("fly", 16, 5, 3, 1, 8, 0, 0),
        "crossbar of 9, 16 flits": credited("crossbar9", 16, 0, 16, 1, 1, 0, 0),
    }


def _hosts() -> dict[str, Block]:
    """Generators and checkers, up to the longest payload."""

    def host(flit_bits: int, mtu: int, load: float = 1.0, count: int = 0) -> System:
        workload = {"min_length": 4, "max_length": mtu, "load": load, "count": count}
        return _system("crossbar", flit_bits, wire={"mtu": mtu}, workload=workload)

    generators = ((16, 1500, 1.0, 0), (32, 4096, 1.0, 0), (64, 512, 0.3, 12), (128, 4096, 1.0, 0))
    checkers = ((16, 512), (32, 4096), (64, 32), (128, 1500))
    return {
        **{
            f"generator {bits}, {mtu}": GeneratorBlock(host(bits, mtu, load, count))
            for bits, mtu, load, count in generators
        },
        **{f"checker {bits}, {mtu}": CheckerBlock(host(bits, mtu)) for bits, mtu in checkers},
    }


def _queues() -> dict[str, Block]:
    return {f"queue of {depth}": QueueBlock(depth) for depth in (2, 3, 4, 7, 16)}


def _ladders() -> dict[str, Block]:
    short = {"slack": 0, "timer_depth": SHALLOWEST}
    longer = {"slack": 0, "timer_depth": 2 * SHALLOWEST, "backoff_steps": 3, "jitter_bits": 6}
    found: dict[str, Block] = {}
    for ladder in (0, 1):
        whose = "ladder of Acks" if ladder else "ladder of Sends"
        fixed = _system("tree3", 64, timers={**short, "backoff_steps": 0, "jitter_bits": 3})
        doubling = _system("tree", 128, timers={**short, "backoff_steps": 2, "jitter_bits": 0})
        deep = _system("wire", 64, timers=longer)
        found |= {f"{whose}, fixed": LadderBlock(fixed, ladder), f"{whose}, doubling": LadderBlock(doubling, ladder)}
        found |= {f"{whose}, deep": LadderBlock(deep, ladder)}
        found |= {f"{whose}, measured": LadderBlock(_measured(doubling, 9), ladder)}
    return found


def _ni(
    flit_bits: int,
    kind: str = "tree",
    *,
    mtu: int,
    ni: dict,
    timers: dict,
    workload: dict | None = None,
    generation_bits: int = 3,
    path_bits: int = 0,
    ceiling: int = 0,
) -> dict[str, Block]:
    """An NI with small tables; time-outs are measured up to ``ceiling`` first ones, or fixed."""
    widths = {"mtu": mtu, "generation_bits": generation_bits, "incarnation_bits": 2, "slot_bits": 3}
    widths["path_bits"] = path_bits
    tables = {"slots": 2, "sets": 1, "ways": 1, "reply_depth": 2, "deliver_records": 2, **ni}
    timers = {"timer_depth": SHALLOWEST, "slack": 0, **timers}
    system = _system(kind, flit_bits, wire=widths, ni=tables, timers=timers, workload=workload or {})
    return {f"ni {flit_bits}": NiBlock(_measured(system, ceiling))}


def _options() -> dict[str, Block]:
    """NIs with what is off by default, with one flit of payload and with several."""
    everything = {
        "control_classes": 1, "control_slots": 1, "control_records": 3, "reserved_slots": 1, "reserved_classes": 2,
        "reject": True, "source_incarnation": True, "acceptance": True, "sweep": True,
    }  # fmt: skip
    short = {"backoff_steps": 1, "jitter_bits": 2}
    return _ni(
        64,
        mtu=24,
        ni={"slots": 4, "sets": 2, "ways": 2, "control_flits": 4, "merge_bits": 19, **everything},
        timers={"silent_after": 2, "silent_probe": 150, "quarantine": 300, **short},
    ) | _ni(
        16,
        "crossbar",
        mtu=12,
        ni={"slots": 3, "merge_bits": 16, **everything},
        timers={"silent_after": 1, "silent_probe": 64, **short},
        generation_bits=1,
    )


def _measured(system: System, ceiling: int) -> System:
    """With time-outs of up to ``ceiling`` first ones."""
    return system.replace(timers={"ceiling": ceiling * system.delays[system.graph.distance_classes - 1]})


def hostile_ni() -> Block:
    """A small NI with everything an NI can have."""
    (block,) = _ni(
        64,
        mtu=24,
        ni={"slots": 4, "sets": 2, "ways": 2, "reply_depth": 3, "control_classes": 1, "reserved_slots": 1},
        timers={"backoff_steps": 2, "jitter_bits": 2, "ack_limit": 4, "quarantine": 600},
        workload={"retry_limit": 1},
    ).values()
    return block


def hostile_router() -> Block:
    """A router with down-ports and up-ports."""
    return RouterBlock(_system("tree", 16), 1)


def hostile_flow() -> Block:
    """Two nodes with flow and with little room, which are reset, and whose hosts stall."""
    system = _system(
        "wire",
        64,
        ni=flow.OF_NI | {"slots": 6, "control_slots": 2, "sets": 2},
        flow={"ports": 4, "cells": 4, "in_order": 2, "watch": 512},
        faults={
            "loss": 0.02,
            "stalls": [{"node": 1, "start": 500, "end": 600}],
            "resets": [{"node": 1, "start": 1500, "cycles": 3}, {"node": 0, "start": 2200, "cycles": 1, "scope": "ni"}],
        },
    )
    return SystemBlock(system)


def hostile_relay(flit_bits: int = 64) -> Block:
    """Three nodes with relay and with little room, one of which is reset, and no two hosts that agree on the tree.

    With ``flit_bits`` of 128 or more a header of relay has one beat.
    """
    system = _system(
        "crossbar",
        flit_bits,
        wire={"mtu": 40, "class_bits": 3, "incarnation_bits": 4},
        ni=OF_NI | {"slots": 8, "control_slots": 2, "sets": 2},
        timers={"ack_limit": 255, "slack": 0},
        relay={
            "slots": 6, "window": 4, "cells": 3, "records": 8, "buffers": 2, "control": 4, "cache_cycles": 256,
            "entry_cycles": 512, "watch_cycles": 4096, "hop_cycles": 256, "uid_bits": 8, "uid_first": 250, "wrap": True,
        },
        faults={
            "loss": 0.02,
            "resets": [{"node": 1, "start": 1500, "cycles": 3}, {"node": 2, "start": 2200, "cycles": 1, "scope": "ni"}],
        },
        workload={"retry_limit": 2},
    )  # fmt: skip
    return SystemBlock(system)


#: A group is one design; its blocks by name.
GROUPS: dict[str, Callable[[], dict[str, Block]]] = {
    "small": lambda: _links() | _queues() | _ladders() | _hosts(),
    "flow": lambda: {"flow": hostile_flow()},
    "relay": lambda: {"relay": hostile_relay()},
    "relay of one header beat": lambda: {"relay": hostile_relay(128)},
    "routers": _routers,
    "more routers": _more_routers,
    "queued routers": _queued_routers,
    "large pools": _large_pools,
    "wide routers": _wide_routers,
    "widest routers": _widest_routers,
    "credit routers": _credit_routers,
    "ni16": lambda: _ni(
        16,
        mtu=12,
        ni={"control_classes": 1, "deliver_flits": 7},
        timers={"backoff_steps": 1, "jitter_bits": 0},
        generation_bits=1,
        ceiling=2,
    ),
    "ni32": lambda: _ni(
        32,
        "crossbar",
        mtu=9,
        ni={"slots": 3, "sets": 8, "ways": 2, "reply_depth": 3, "deliver_flits": 4},
        timers={"backoff_steps": 0, "jitter_bits": 4},
        generation_bits=1,
    ),
    "ni64": lambda: _ni(
        64,
        mtu=24,
        ni={"slots": 3, "ways": 2, "control_classes": 2, "reserved_slots": 1, "deliver_flits": 3},
        timers={"backoff_steps": 2, "jitter_bits": 3, "ack_limit": 4, "quarantine": 700},
        workload={"retry_limit": 1},
    ),
    "ni128": lambda: _ni(
        128,
        "mesh",
        mtu=33,
        ni={"slots": 5, "sets": 2, "control_classes": 1, "reserved_slots": 1},
        timers={"backoff_steps": 3, "jitter_bits": 2, "quarantine": 80},
        ceiling=3,
    ),
    "ni options": _options,
    "ni paths": lambda: _ni(
        64,
        mtu=24,
        ni={"slots": 4, "sets": 2, "ways": 2, "control_classes": 1, "control_slots": 1, "reject": True, "linger": -1},
        timers={"silent_after": 4, "path_after": 2, "path_probe": 90, "backoff_steps": 1, "jitter_bits": 2},
        path_bits=2,
    ),
}


#: Seeds of a quick test, and cycles of each.
SEEDS = {group: 4 for group in GROUPS}
SEEDS |= {group: 2 for group in GROUPS if "routers" in group or group == "large pools"}
CYCLES = {group: 3000 for group in GROUPS} | {"wide routers": 1500, "widest routers": 1500}
#: Cycles of a seed under patient neighbours, in which tries reach 255; and how many seeds.
PATIENT_CYCLES, PATIENT_SEEDS = {"ni32": 17_000}, 2
#: Cycles of a seed with fickle hosts; and how many seeds.
FICKLE_CYCLES, FICKLE_SEEDS = {"relay": 3000, "flow": 3000, "ni64": 3000}, 2


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a run found.

    ``report`` is empty if every output agreed in every cycle; ``seen`` counts what happened, and ``differ`` has the
    seeds that differ: the first, or all.
    """

    report: str
    cycles: int
    seen: dict[str, int]
    differ: list[int]


def blocks_of(group: str, only: Sequence[str] = ()) -> dict[str, Block]:
    """The blocks of a group by name: all, or ``only`` these."""
    blocks = GROUPS[group]()
    return {name: blocks[name] for name in only or blocks}


def hold(
    group: str,
    seeds: int,
    cycles: int,
    *,
    reproduce: str = "",
    every: bool = False,
    only: Sequence[str] = (),
    patient: bool = False,
    fickle: bool = False,
) -> Held:
    """Hold every block of ``group`` (or ``only`` these) against its model, ``cycles`` cycles of seeds 0 … ``seeds``−1.

    It ends with the first seed that differs, unless ``every`` seed is wanted.  ``patient``: NIs have neighbours that
    never answer and a host that never gives up.  ``fickle``: hosts change what they offer while it waits.

    ``{seeds}`` in ``reproduce`` becomes the number of seeds that reach the one that differs.  Raises `ToolError` if
    a tool is missing or fails.
    """
    directory = simulators.build(verilog.emit(BlockGroup(blocks_of(group, only)), TOP), TOP)
    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        job = {"group": group, "only": list(only), "seeds": seeds, "cycles": cycles, "every": every}
        job |= {"patient": patient, "fickle": fickle, "reproduce": reproduce}
        return Held(**simulators.outcome(directory, TOP, BENCH, Path(scratch), job))

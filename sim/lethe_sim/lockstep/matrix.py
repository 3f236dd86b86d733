"""Systems drawn by seed: small, hostile, and every one legal.

Tables are small because coverage is best there; every topology, flit width and kind of fault comes up.
"""

import contextlib
import random

from lethe.spec.config import ConfigError, System
from lethe.spec.sections.faults import RESET_SCOPES, Absence, NodeDeath, Notice, ResetFault
from lethe.spec.sections.flow import OF_NI
from lethe.spec.sections.relay import OF_NI as RELAY_NI
from lethe.spec.sections.router import POOL_PATHS, QUEUES
from lethe.spec.sections.workload import RELAYED

TOPOLOGIES = (
    {"kind": "wire"},
    {"kind": "crossbar", "nodes": 3},
    {"kind": "crossbar", "nodes": 6},
    {"kind": "fly", "arity": 2, "levels": 2},
    {"kind": "fly", "arity": 2, "levels": 3},
    {"kind": "fly", "arity": 3, "levels": 2},
    {"kind": "tree", "arity": 2, "levels": 2},
    {"kind": "tree", "arity": 2, "levels": 3},
    {"kind": "tree", "arity": 3, "levels": 2},
    {"kind": "mesh", "columns": 2, "rows": 2},
    {"kind": "mesh", "columns": 3, "rows": 2},
    {"kind": "mesh", "columns": 4, "rows": 1},
)
KINDS = ("wire", "crossbar", "fly", "tree", "mesh")


def draw(seed: int, *, kind: str | None = None, cycles: int = 10_000, options: bool = False) -> System:
    """The system of ``seed``: traffic for ``cycles`` cycles, faults spread over them; with ``options`` of its own.

    Topologies and sizes of input queues take turns by seed (unless ``kind`` fixes the former), so a few seeds cover
    them all.
    """
    chance = random.Random(f"lethe {seed}")
    wanted = kind or KINDS[seed % len(KINDS)]
    while True:
        try:
            sections = _sections(chance, wanted, seed, cycles)
            sections["router"] |= _queue(seed)
            system = _measured(System.make(source=f"matrix seed {seed}", **sections), seed)
            return with_options(system, random.Random(f"lethe options {seed}"), cycles) if options else system
        except ConfigError:
            continue  # an impossible combination; draw on


def with_options(system: System, chance: random.Random, cycles: int) -> System:
    """The system with some of what is off by default, and with nodes that die or are away within ``cycles``."""
    dies = chance.random() < 0.4
    while True:
        start = chance.randrange(cycles // 2)
        node, other = (chance.randrange(system.nodes) for _ in range(2))
        control = chance.choice((1, 2))
        ni = {
            "control_classes": control,
            "control_flits": chance.choice((0, system.slot_flits, system.slot_flits + 5)),
            "control_records": chance.choice((0, 2, 5)),
            "control_slots": chance.choice((0, 1, 2)),
            "reserved_slots": chance.choice((0, 0, 1)),
            "reserved_classes": chance.choice((0, 1, 3)),
            "reject": chance.random() < 0.7,
            "source_incarnation": chance.random() < 0.7,
            "merge_bits": chance.choice((0, 1, 16, system.wire.flit_bits // 2, min(64, system.wire.flit_bits))),
        }
        more = random.Random(repr(chance.getstate()))  # the draws of the others stay
        ni |= {"acceptance": more.random() < 0.5, "sweep": more.random() < 0.5}
        timers = {
            "silent_after": chance.choice((0, 1, 2, 5, 40)),
            "silent_probe": chance.choice((1, 7, 300, 4096)),
            "quarantine": 0 if dies else chance.choice((system.timers.quarantine, 100)),
            "ack_limit": chance.choice((12, 60, 255)) if dies else system.timers.ack_limit,
        }
        workload = {"retry_limit": 2 if dies else system.workload.retry_limit}
        faults = {
            "deaths": (NodeDeath(node=node, start=start),) if dies else (),
            "absences": (Absence(node=other, start=start, end=start + chance.randrange(1, cycles // 2)),),
        }
        try:
            return system.replace(ni=ni, timers=timers, faults=faults, workload=workload)
        except ConfigError:
            continue


def with_paths(system: System, chance: random.Random) -> System:
    """The tree with paths that its generators take in turn, and slots that linger."""
    while True:
        ni = {"linger": chance.choice((-1, system.least_linger + chance.randrange(200)))}
        wire = {"path_bits": chance.choice((1, 2, 3, 6))}
        router = {"max_wait": min(system.router.max_wait, 40)}
        timers = {"path_after": chance.choice((0, 1, 2, 3)), "path_probe": chance.choice((1, 50, 700, 16384))}
        try:
            return system.replace(wire=wire, ni=ni, router=router, timers=timers)
        except ConfigError:
            if system.format.flit_bits < 64:  # too narrow for a path
                system = system.replace(wire={"flit_bits": 64})


def with_pools(system: System, chance: random.Random) -> System:
    """The system with pools in which messages overtake each other, and slots that linger."""
    while True:
        router = {
            "queue": 0,
            "pool": chance.choice((1, 2, 3, 5, 8)),
            "pool_path": chance.choice(POOL_PATHS),
            "control_first": chance.choice((0, 1, 7, 40)),
        }
        ni = {"linger": chance.choice((-1, 1 << 12))}
        try:
            found = system.replace(router=router, ni=ni)
        except ConfigError:
            continue
        if found.overtakes:
            return found


def with_services(system: System, chance: random.Random, cycles: int) -> System:
    """The system with a loop, and with more resets, of either scope; two of them touch."""
    loop = {
        "slots": chance.choice((2, 3, 8)),
        "flits": chance.choice((0, system.slot_flits, system.slot_flits + chance.randrange(1, 6))),
    }

    def reset(scope: str, node: int, start: int) -> ResetFault:
        return ResetFault(node=node, start=start, cycles=chance.choice((1, 2, 20)), scope=scope)

    resets = [reset(scope, chance.randrange(system.nodes), chance.randrange(cycles)) for scope in RESET_SCOPES * 3]
    last = resets[-1]
    resets.append(reset("ni" if last.scope == "node" else "node", last.node, last.start + last.cycles))
    return system.replace(loop=loop, faults={"resets": (*system.faults.resets, *resets)})


def with_flow(system: System, chance: random.Random, cycles: int) -> System:
    """The system with flow, in small ports, and with more resets, of either scope."""
    while True:
        cells = chance.choice((2, 3, 6, 24))
        flow = {
            "ports": chance.choice((2, 4, 16)),
            "cells": cells,
            "in_order": chance.randrange(1, cells),
            "bound": chance.random() < 0.9,
            "receive_limit": chance.choice((0, 0, 16, 64)),
            "send_limit": chance.choice((0, 0, 256)),
            "quota": chance.choice((0, 1, 3)),
            "watch": chance.choice((64, 500, 4096)),
            "tries": chance.choice((2, 6, 12)),
        }
        ni = OF_NI | {
            "slots": max(system.ni.slots, chance.choice((5, 8, 16))),
            "control_classes": max(1, system.ni.control_classes), "control_slots": chance.choice((2, 4)),
            "control_records": 0, "control_flits": 0, "deliver_flits": 0,
        }  # fmt: skip
        resets = [
            ResetFault(
                node=chance.randrange(system.nodes), start=chance.randrange(cycles), cycles=chance.choice((1, 2, 20)),
                scope=scope,
            )
            for scope in RESET_SCOPES[: chance.randrange(3)]
        ]  # fmt: skip
        wire = {"mtu": max(system.wire.mtu, 8) + 16, "generation_bits": max(2, system.wire.generation_bits)}
        router = {"queue": system.router.queue and 1, "max_wait": min(system.router.max_wait, 5)}
        reclaims = system.timers.ack_limit > 0
        timers = {"ack_limit": 255 if reclaims else 0}
        workload = {
            "retry_limit": min(system.workload.retry_limit or 2, 2) if reclaims else system.workload.retry_limit,
            "max_length": min(system.workload.max_length, system.wire.mtu),
        }
        try:
            return system.replace(
                flow=flow,
                ni=ni,
                wire=wire,
                router=router,
                timers=timers,
                workload=workload,
                faults={"resets": (*system.faults.resets, *resets)},
            )
        except ConfigError:  # a reset that overlaps another, or a limit below the longest message; draw on
            system = system.replace(timers={"ceiling": 0})  # it may be below the first time-out of longer messages


def with_much_flow(system: System, chance: random.Random, cycles: int) -> System:
    """The system with flow, few losses, buffers that hold some, and late deaths: it carries hundreds of messages."""
    faults = system.faults
    return system.replace(
        flow={
            "cells": chance.choice((6, 24)), "in_order": chance.choice((1, 3)), "bound": True, "receive_limit": 0,
            "send_limit": 0, "quota": 0, "watch": chance.choice((500, 4096)), "tries": 12,
        },
        ni={"slots": max(16, system.ni.slots)},
        faults={
            "loss": min(faults.loss, chance.choice((0.01, 0.05))), "flip": min(faults.flip, 0.0005),
            "resets": faults.resets[:1],
            "deaths": tuple(NodeDeath(node=one.node, start=cycles * 3 // 4 + one.start // 8) for one in faults.deaths),
        },
        workload={"load": max(system.workload.load, 0.4), "deadline": 0},
    )  # fmt: skip


def with_relay(system: System, chance: random.Random, cycles: int) -> System:
    """The system with relay, with tables that are large or too small; nodes die, and some are said to be dead and live.

    Its generators send messages.
    """
    while True:
        nodes = range(system.nodes)
        died = chance.sample(nodes, chance.choice((0, 1, 1, 2)) if len(nodes) > 2 else 0)
        alive = [node for node in nodes if node not in died]
        small = chance.random() < 0.4
        bits = chance.choice((8, 9, 16)) if small else 32
        relay = {
            "slots": chance.choice((1, 3, 4, 16, 40)), "radix": chance.choice((2, 2, 0, 1, 3)),
            "cells": chance.choice((2, 3, 5, 16)), "records": chance.choice((4, 8, 32, 64)),
            "buffers": chance.choice((1, 2, 3, 16)), "control": chance.choice((4, 8, 32)),
            "cache_cycles": chance.choice((256, 1024, 4096)), "entry_cycles": chance.choice((4096, 16384)),
            "watch_cycles": 1 << 16, "hop_cycles": chance.choice((1024, 4096)),
            "uid_bits": bits, "uid_first": (1 << bits) - 6 if small else 0, "wrap": True,
            "notice": chance.choice((50, 800)), "spread": chance.choice((0, 500)),
        }  # fmt: skip
        relay["crc"] = random.Random(f"{relay}").random() < 0.5  # drawn apart: the draws after it stay
        notices: tuple[Notice, ...] = ()
        if len(alive) > 1 and chance.random() < 0.4:
            told, suspected = chance.sample(alive, 2)
            notices = (Notice(node=told, died=suspected, start=chance.randrange(cycles)),)
        resets = tuple(
            ResetFault(
                node=chance.choice(alive), start=chance.randrange(cycles), cycles=chance.choice((1, 2, 20)), scope=scope
            )
            for scope in RESET_SCOPES[: chance.randrange(3)]
        )
        mtu = max(system.wire.mtu, 4) + 16
        faults = {
            "deaths": tuple(NodeDeath(node=node, start=chance.randrange(cycles // 2)) for node in died),
            "notices": notices, "loss": chance.choice((0.0, 0.02, 0.3)), "flip": 0.0, "resets": resets,
        }  # fmt: skip
        ni = RELAY_NI | {
            "slots": max(system.ni.slots, chance.choice((8, 16))), "control_slots": chance.choice((2, 4)),
            "acceptance": False, "sweep": False, "merge_bits": 0, "reserved_classes": chance.choice((0, 2)),
            "deliver_flits": 0, "control_flits": 0, "control_records": 0,
        }  # fmt: skip
        wire = {
            "mtu": mtu, "class_bits": 3, "generation_bits": max(4, system.wire.generation_bits), "incarnation_bits": 4
        }  # fmt: skip
        load = {
            "mode": RELAYED, "min_length": 4, "max_length": mtu - 16, "retry_limit": 2,
            "deadline": chance.choice((0, 0, 500)), "load": chance.choice((0.05, 0.3, 1.0)),
        }  # fmt: skip
        router = {"queue": system.router.queue and 1, "max_wait": min(system.router.max_wait, 5)}
        timers = {
            "ack_limit": 255, "backoff_steps": min(system.timers.backoff_steps, 2), "ceiling": 0, "quarantine": 0
        }  # fmt: skip
        try:
            found = system.replace(
                relay=relay, ni=ni, wire=wire, faults=faults, workload=load, router=router, timers=timers
            )
        except ConfigError:
            continue
        return _often_watched(found) if random.Random(f"watch {relay}").random() < 0.6 else found


def _often_watched(system: System) -> System:
    """The system whose origins ask for their messages as often as may be, else hardly one would in a run."""
    for cycles in (1 << bits for bits in range(10, 16)):
        with contextlib.suppress(ConfigError):
            return system.replace(relay={"watch_cycles": cycles})
    return system


def _queue(seed: int) -> dict:
    """The queues or the pool of a seed, drawn apart; by place and by round, so that no topology always has the same."""
    chance = random.Random(f"lethe queue {seed}")
    queue = QUEUES[(seed % len(KINDS) + seed // len(KINDS)) % len(QUEUES)]
    return {
        "queue": queue,
        "max_wait": chance.choice((1, 5, 40, 300)),
        "pool": 0 if queue else chance.choice((0, 0, 1, 3, 8)),
    }


def _measured(system: System, seed: int) -> System:
    """With the ceiling of a seed, drawn apart: fixed time-outs, or so many of the first."""
    first = system.delays[system.graph.distance_classes - 1]
    return system.replace(timers={"ceiling": first * random.Random(f"lethe ceiling {seed}").choice((0, 0, 1, 3, 64))})


def _sections(chance: random.Random, kind: str, seed: int, cycles: int) -> dict:
    topology = chance.choice([t for t in TOPOLOGIES if t["kind"] == kind])
    base = System.make(topology=topology).graph
    flit_bits = chance.choice((16, 32, 64, 128))
    mtu = chance.choice((4, 8, 24, 33, 64))
    retry_limit = chance.choice((0, 0, 0, 3, 10))
    faults: dict = {
        "loss": chance.choice((0.0, 0.3, 0.5)),
        "flip": chance.choice((0.0, 0.0, 0.001, 0.02)),
    }

    def spans(most: int, longest: int) -> list[tuple[int, int]]:
        starts = [chance.randrange(cycles) for _ in range(chance.randrange(most + 1))]
        return [(s, s + chance.randrange(1, longest)) for s in starts]

    faults["links"] = [
        {"link": chance.randrange(len(base.links)), "start": s, "end": e} for s, e in spans(4, cycles // 4)
    ]
    faults["stalls"] = [{"node": chance.randrange(base.nodes), "start": s, "end": e} for s, e in spans(3, cycles // 6)]
    if chance.random() < 0.4:
        faults["resets"] = [
            {"node": chance.randrange(base.nodes), "start": s, "cycles": min(e - s, 40)} for s, e in spans(3, 40)
        ]
    least = chance.randrange(4, mtu + 1)
    return {
        "run": {"name": f"matrix-{seed}", "seed": seed, "cycles": cycles * 10},
        "topology": topology,
        "wire": {
            "flit_bits": flit_bits,
            "mtu": mtu,
            "generation_bits": chance.choice((8, 10, 12, 16)),
            "incarnation_bits": chance.choice((2, 4, 8)),
            "try_bits": chance.choice((1, 2)),
            "tag_bits": chance.choice((4, 16)),
        },
        "router": {"latency": chance.choice((1, 1, 2, 3, 4, 6))},
        "ni": {
            "slots": chance.choice((2, 3, 4, 8, 16)),
            "sets": chance.choice((1, 2, 4, 8)),
            "ways": chance.choice((1, 2, 3, 4)),
            "reply_depth": chance.choice((2, 4, 16)),
            "deliver_records": chance.choice((2, 3, 16)),
            "deliver_flits": 0 if chance.random() < 0.5 else -(-mtu * 8 // flit_bits) + chance.randrange(8),
            "control_classes": chance.choice((0, 0, 1, 2)),
        },
        "timers": {
            "slack": chance.choice((-1, 0, 5, 40)),
            "backoff_steps": chance.choice((0, 1, 3, 5)),
            "jitter_bits": chance.choice((0, 3, 6)),
            "timer_depth": chance.choice((0, 0, 9, 11)),
            "ack_limit": chance.choice((0, 12)) if retry_limit else 0,
            "wrap_guard": 0,  # few generation bits are wanted here; their wrap is not reached
            "quarantine": chance.choice((0, 0, 2000)),
        },
        "faults": faults,
        "workload": {
            "load": chance.choice((0.02, 0.2, 1.0)),
            "min_length": least,
            "max_length": chance.randrange(least, mtu + 1),
            "count": 0,
            "stop": cycles,
            "retry_limit": retry_limit,
            "deadline": chance.choice((0, 0, 0, 300)),
        },
    }

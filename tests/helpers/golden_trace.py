"""Traces by the golden model, small enough for a test."""

import random
from pathlib import Path

from lethe.spec.config import System
from lethe_sim.golden.model import Golden
from lethe_sim.golden.script import Item, Script
from lethe_sim.trace import Meta, TraceWriter, summed_counters

#: A node dies, one is reset, one is away; restarts are told, silent nodes given up, control has slots of its own.
OPTIONS = {
    "topology": {"kind": "crossbar", "nodes": 4},
    "ni": {"slots": 8, "control_classes": 1, "control_slots": 2, "source_incarnation": True, "reject": True},
    "timers": {"silent_after": 2, "silent_probe": 400, "ack_limit": 60, "backoff_steps": 1, "ceiling": 0},
    "workload": {"retry_limit": 3, "min_length": 4, "count": 30},
    "faults": {
        "deaths": [{"node": 3, "start": 600}], "resets": [{"node": 2, "start": 300, "cycles": 5}],
        "absences": [{"node": 1, "start": 900, "end": 1100}],
    },
    "run": {"name": "options", "seed": 4, "cycles": 60_000},
}  # fmt: skip


def write_golden(path: Path, system: System, side: str = "golden", script: Script | None = None) -> Meta:
    """Run ``system`` until it has drained, or for its cycles; with its generators, or the hosts of ``script``."""
    model = Golden(system, script, record=True)
    with TraceWriter(path, system, side) as writer:
        while model.cycle < system.run.cycles and not model.drained:
            model.run(min(5000, system.run.cycles - model.cycle), until_drained=True)
            writer.append(model.take_events())
        return writer.finish(
            cycles=model.cycle,
            drained=bool(model.drained),
            digest=int(model.digest),
            counters=summed_counters(
                model.counters, model.router_counters, model.link_counters, model.sums, model.service_counters
            ),
        )


def write_options(path: Path) -> Meta:
    """A run of `OPTIONS`: data and control, some of it for no node, some of it for the first incarnation of a node."""
    system, chance = System.make("options", **OPTIONS), random.Random(4)
    items = [
        Item(
            node=node,
            destination=4 if n % 13 == 5 else chance.choice([other for other in range(4) if other != node]),
            payload=bytes(chance.randrange(30)),
            not_before=60 * n + 30,
            cls=7 if n % 3 == 0 else 0,
            retry_limit=3,
            tag=n,
            expect=chance.choice((0, 0, 1)),
        )
        for node in range(4)
        for n in range(40)
    ]
    return write_golden(path, system, script=Script.from_items(system, items))

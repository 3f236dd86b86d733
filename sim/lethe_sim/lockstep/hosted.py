"""Whole systems whose hosts torment their NIs: best effort, cancels, bad records, everything held.

The generators of the matrix send what is good and wait for their turn.  Here orphans are left behind, generations come
round, and datagrams end in every way there is, with the fabric's faults between.
"""

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lethe.spec.config import ConfigError, System
from lethe.spec.toml import dump

from . import simulators
from .cosim import TOP, emit
from .matrix import with_options, with_services

BENCH = "lethe_sim.lockstep.hosted_bench"
TOPOLOGIES = (
    {"kind": "crossbar", "nodes": 3},
    {"kind": "wire"},
    {"kind": "tree", "arity": 2, "levels": 2},
    {"kind": "fly", "arity": 2, "levels": 2},
    {"kind": "mesh", "columns": 2, "rows": 2},
)


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """What a run found.

    ``report`` is empty if every trace word and every counter agreed; ``seen`` counts the NIs' events by name, and
    slots whose generations came round; ``differ`` has the seeds that differ: the first, or all.
    """

    report: str
    cycles: int
    seen: dict[str, int]
    differ: list[int]


def draw(number: int, *, cycles: int) -> System:
    """The system of ``number``: small, with few generations, and with faults spread over ``cycles`` cycles.

    Those after the first of every topology have options, those after the second services.
    """
    chance = random.Random(f"lethe hosted {number}")
    while True:
        try:
            system = System.make(source=f"hosted {number}", **_sections(chance, number, cycles))
            if number >= len(TOPOLOGIES):
                system = with_options(system, chance, cycles)
            if number >= 2 * len(TOPOLOGIES):
                system = with_services(system, chance, cycles)
            return system
        except ConfigError:
            continue  # an impossible combination; draw on


def _sections(chance: random.Random, number: int, cycles: int) -> dict:
    topology = TOPOLOGIES[number % len(TOPOLOGIES)]
    graph = System.make(topology=topology).graph

    def spans(count: int, longest: int) -> list[tuple[int, int]]:
        starts = [chance.randrange(cycles) for _ in range(count)]
        return [(start, start + chance.randrange(1, longest)) for start in starts]

    control = chance.choice((0, 1))
    return {
        "run": {"name": f"hosted-{number}", "seed": number, "cycles": cycles * 10},
        "topology": topology,
        "wire": {
            "flit_bits": (128, 64, 32, 16, 64)[number % len(TOPOLOGIES)],
            "mtu": (1500, 512, 24, 12, 64)[number % len(TOPOLOGIES)],
            "generation_bits": chance.choice((1, 2)),
            "incarnation_bits": 2,
        },
        "router": {"latency": chance.choice((1, 2)), "queue": chance.choice((0, 0, 1))},
        "ni": {
            "slots": chance.choice((2, 3, 5)),
            "sets": chance.choice((1, 2)),
            "ways": chance.choice((1, 2)),
            "reply_depth": chance.choice((2, 4)),
            "deliver_records": chance.choice((2, 4)),
            "control_classes": control,
            "reserved_slots": control,
        },
        "timers": {
            "slack": chance.choice((0, 20)),
            "backoff_steps": chance.choice((0, 1)),
            "jitter_bits": chance.choice((0, 3)),
            "ack_limit": chance.choice((4, 5, 6)),
            "wrap_guard": 0,  # generations are to come round: nobody judges here what is delivered
            "ceiling": chance.choice((0, 5000)),
        },
        "faults": {
            "loss": chance.choice((0.05, 0.2)),
            "flip": chance.choice((0.0, 0.001)),
            "links": [
                {"link": chance.randrange(len(graph.links)), "start": start, "end": end}
                for start, end in spans(2, cycles // 8)
            ],
            "stalls": [
                {"node": chance.randrange(graph.nodes), "start": start, "end": end} for start, end in spans(1, 200)
            ],
            "resets": [
                {"node": chance.randrange(graph.nodes), "start": start, "cycles": end - start}
                for start, end in spans(2, 20)
            ],
        },
        "workload": {"min_length": 4, "max_length": 4, "retry_limit": 1},
    }


def hold(system: System, seeds: int, cycles: int, *, reproduce: str = "", every: bool = False) -> Hosted:
    """Hold the RTL of ``system`` against its model for ``cycles`` cycles under the hosts of seeds 0 … ``seeds``−1.

    It ends with the first seed that differs, unless ``every`` seed is wanted.  ``{seeds}`` in ``reproduce`` becomes the
    number of seeds that reach the one that differs.  Raises `ToolError` if a tool is missing or fails.
    """
    directory = simulators.build(emit(system, scripted=True), TOP)
    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        job = {
            "toml": dump(system), "source": system.source, "seeds": seeds, "cycles": cycles, "reproduce": reproduce,
            "every": every,
        }  # fmt: skip
        return Hosted(**simulators.outcome(directory, TOP, BENCH, Path(scratch), job))

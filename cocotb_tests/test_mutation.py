"""Proof that lockstep can fail: changes drawn by seed from the netlists of NI and router, two in every block."""

import pytest

from lethe.spec.config import System
from lethe_sim.lockstep.mutation import hunt, summary

SEED = 1
NI_BLOCKS = (
    "accept", "ack_ladder", "action", "completions", "deliver0", "free", "news", "payloads", "received", "receiver",
    "repeats", "replies", "send_ladder", "table", "transmitter",
)  # fmt: skip
#: One NI and the router are changed; the other NIs are whole.
BLOCKS = {name: (rf"ni0\..*\b{name}\b", 2) for name in NI_BLOCKS} | {"router": (r"\brouter0\b", 12)}


def system() -> System:
    """Three nodes at a crossbar, everything small and lossy, so that every block has to work."""
    return System.make(
        source="mutation",
        topology={"kind": "crossbar", "nodes": 3},
        wire={"flit_bits": 64, "mtu": 24, "generation_bits": 8},
        ni={"slots": 4, "sets": 2, "ways": 2, "reply_depth": 4, "deliver_records": 4},
        timers={"backoff_steps": 2, "jitter_bits": 2, "wrap_guard": 0},
        faults={"loss": 0.2, "flip": 0.01, "stalls": [{"node": 0, "start": 500, "end": 700}]},
        workload={"load": 1.0, "min_length": 4, "max_length": 24, "count": 0, "retry_limit": 6},
    )


def test_lockstep_kills_mutants(capsys):
    """How many of the changes are seen is printed, and every survivor; most must be."""
    mutants = hunt(system(), BLOCKS, seed=SEED, cycles=3000)
    with capsys.disabled():
        print("\n" + summary(mutants))
    assert len(mutants) >= 40
    assert sum(mutant.killed is not None for mutant in mutants) >= 0.7 * len(mutants), summary(mutants)


@pytest.mark.full
@pytest.mark.parametrize("seed", (2, 3, 4))
def test_more_mutants(seed, capsys):
    """A hundred and twenty more."""
    mutants = hunt(system(), BLOCKS, seed=seed, cycles=4000)
    with capsys.disabled():
        print("\n" + summary(mutants))
    assert sum(mutant.killed is not None for mutant in mutants) >= 0.7 * len(mutants), summary(mutants)

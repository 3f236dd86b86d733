"""Traces by the golden model, small enough for a test."""

from pathlib import Path

from lethe.spec.config import System
from lethe_sim.golden.model import Golden
from lethe_sim.trace import Meta, TraceWriter, summed_counters


def write_golden(path: Path, system: System, side: str = "golden") -> Meta:
    """Run ``system`` until it has drained, or for its cycles."""
    model = Golden(system, record=True)
    with TraceWriter(path, system, side) as writer:
        while model.cycle < system.run.cycles and not model.drained:
            model.run(min(5000, system.run.cycles - model.cycle), until_drained=True)
            writer.append(model.take_events())
        return writer.finish(
            cycles=model.cycle,
            drained=bool(model.drained),
            digest=int(model.digest),
            counters=summed_counters(model.counters, model.router_counters, model.link_counters, model.sums),
        )

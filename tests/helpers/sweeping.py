"""A sweep without Spark, for tests of what a sweep leaves."""

from pathlib import Path

from lethe_sim.sweep import jobs, work
from lethe_sim.sweep.plan import load
from lethe_sim.sweep.store import Store


def alone(path: Path, root: Path) -> Store:
    """The sweep of the file ``path`` into ``root``, one run after the other in this process."""
    plan, store = load(path), Store(root)
    with store.locked():
        for run in plan.runs:
            task = work.task(run.name, run.system, store.root, plan.measure, plan.events)
            assert work.attempt(task) == (work.DONE, "")
        jobs.write_tables(store, plan.runs, {run.name: store.read_run(run.name) for run in plan.runs})
    return store

"""A sweep without Spark, for tests of what a sweep leaves."""

from pathlib import Path

from lethe_sim.sweep import jobs, work
from lethe_sim.sweep.plan import Run, load
from lethe_sim.sweep.store import Store


def in_this_process(tasks: list[work.Task], runs: list[Run], store: Store, measure, **_) -> int:
    """In place of Spark's part of a sweep: one run after the other; none is done again."""
    for task in tasks:
        assert work.attempt(task) == (work.DONE, "")
    return 0


def alone(path: Path, root: Path) -> Store:
    """The sweep of the file ``path`` into ``root``, one run after the other in this process."""
    plan, store = load(path), Store(root)
    with store.locked():
        tasks = [work.task(run.name, run.system, store.root, plan.measure, plan.events) for run in plan.runs]
        in_this_process(tasks, plan.runs, store, plan.measure)
        jobs.write_tables(store, plan.runs, {run.name: store.read_run(run.name) for run in plan.runs})
    return store

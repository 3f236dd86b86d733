"""`lethe sweep`: many runs of the golden model, their tables and their page."""

import argparse
from typing import TYPE_CHECKING

from lethe_sim.files import PAGE, SWEEP

from .common import Progress, duration, note
from .compare import add_master
from .files import Files, beside

if TYPE_CHECKING:
    from lethe_sim.sweep.plan import Sweep

EXAMPLES = """\
  lethe sweep load.toml                       what is finished is not done again
  lethe sweep load.toml -o results --workers 1
  lethe sweep load.toml --master spark://host:7077
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sweep", metavar="FILE", help="sweep (TOML): base, axes, replicas; see docs/use/sweep.md")
    parser.add_argument("-o", "--output", metavar="DIR", help="directory of its results (default: FILE without .toml)")
    parser.add_argument("--workers", type=_positive, metavar="N", help="runs at a time (default: one for each core)")
    parser.add_argument("--no-report", action="store_true", help="write the tables only, no page")
    parser.add_argument("--progress", action="store_true", default=None, help="show progress even if not on a terminal")
    add_master(parser)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, not {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from lethe_sim.sweep.jobs import sweep

    progress = Progress(args.progress)

    files = Files()
    default = beside(args.sweep, "").name if args.output is None else args.output
    where = files.writes(default, "-o" if args.output is not None else "the default directory (-o)", SWEEP)

    def check(plan: "Sweep") -> None:
        files.reads(args.sweep, "the sweep")
        files.reads(plan.base_source, "base of the sweep")
        for system in {run.system.workload.path: run.system for run in plan.runs}.values():
            files.reads_workload(system)
        files.check()
        if where.is_dir() and not args.no_report:
            page = Files()
            page.writes(where / "report.html", "the page", PAGE)
            page.check()

    def told(text: str) -> None:
        progress.clear()
        note(text)

    try:
        swept = sweep(
            args.sweep, where, master=args.master, workers=args.workers, check=check, say=progress.show, note=told
        )
    finally:
        progress.clear()
    before = f", {swept.before:,} of them before" if swept.before else ""
    print(f"{swept.sweep.name}: {swept.runs:,} runs of {swept.points:,} points{before}, in {duration(swept.seconds)}")
    print(f"  tables {where / 'summary.parquet'}, metrics, configuration, runs, points")
    if swept.again:
        tasks = "a task was" if swept.again == 1 else f"{swept.again:,} tasks were"
        print(f"  {tasks} done again because a worker died")
    if not args.no_report:
        from lethe_sim.report import sweep_report

        swept.store.write_text("report.html", sweep_report(swept.store.root))
        print(f"  page {where / 'report.html'}")
    if swept.unfinished:
        note(f"{_some(swept.unfinished)} ended with datagrams under way (metric `unfinished`); raise run.cycles")
    if swept.broken:
        print(f"broken: datagrams lost, doubled or altered in {_some(swept.broken)}")
        return 1
    print("no datagram lost, doubled or altered")
    return 0


def _some(runs: tuple[str, ...]) -> str:
    first, *others = runs
    return f"run {first}" + (f" and {len(others):,} more" if others else "")

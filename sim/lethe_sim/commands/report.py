"""`lethe report`: a trace or a sweep as one self-contained web page."""

import argparse
from pathlib import Path

from lethe_sim.files import CSV, FIGURES, PAGE, SVG

from .common import Mistake, write_text
from .compare import add_master
from .files import Files, add_force, beside

EXAMPLES = """\
  lethe report run.parquet -o run.html
  lethe report golden.parquet --against rtl.parquet -o both.html
  lethe report load/ --figures figures/        of a sweep, and every picture as SVG and CSV
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace, or the directory of a sweep")
    parser.add_argument("--against", metavar="TRACE", help="a second trace; the page says whether they are equal")
    parser.add_argument("--figures", metavar="DIR", help="sweep: write every picture there, as SVG and as CSV")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="page to write (default: TRACE with .html, or report.html in the sweep)"
    )
    add_force(parser)
    add_master(parser)


def run(args: argparse.Namespace) -> int:
    if (Path(args.trace) / "sweep.toml").is_file():
        return _sweep(args)
    if args.figures:
        raise Mistake(f"--figures: {args.trace} is not the directory of a sweep; leave it out")
    from lethe_sim.report import report

    output = beside(args.trace, ".html") if args.output is None else args.output
    files = Files(force=args.force)
    files.reads(args.trace, "the trace")
    if args.against is not None:
        files.reads(args.against, "--against")
    files.writes(output, _named(args), PAGE)
    files.check()
    page, audit = report(args.trace, against=args.against, master=args.master)
    write_text(output, page)
    print(f"{output}: {audit.verdict}")
    return 0 if audit.exit_code == 0 else 1


def _sweep(args: argparse.Namespace) -> int:
    if args.against:
        raise Mistake(f"--against: {args.trace} is a sweep; compare two of its events with `lethe compare`")
    from lethe_sim.report import figures, sweep_report
    from lethe_sim.sweep.store import TABLES

    sweep = Path(args.trace)
    output = sweep / "report.html" if args.output is None else args.output
    files = Files(force=args.force)
    for name in ("sweep.toml", *(f"{table}.parquet" for table in TABLES), "runs", "events"):
        files.reads(sweep / name, f"{name} of the sweep")
    files.writes(output, _named(args), PAGE)
    files.writes_if(args.figures, "--figures", FIGURES)
    files.check()
    page = sweep_report(sweep)
    drawn = {}
    if args.figures is not None:
        directory = Path(args.figures)
        directory.mkdir(parents=True, exist_ok=True)
        drawn = {directory / name: text for name, text in figures(sweep).items()}
    for path in drawn:
        files.writes(path, "--figures", SVG if path.suffix == ".svg" else CSV)
    files.check()
    write_text(output, page)
    print(f"{output}: sweep")
    for path, text in drawn.items():
        write_text(path, text)
    if args.figures is not None:
        print(f"{args.figures}: {len(drawn)} files")
    return 0


def _named(args: argparse.Namespace) -> str:
    return "-o" if args.output is not None else "the default page (-o)"

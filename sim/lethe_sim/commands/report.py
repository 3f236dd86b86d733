"""`lethe report`: a trace or a sweep as one self-contained web page."""

import argparse
from pathlib import Path

from .common import Mistake, write_text
from .compare import add_master

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
    add_master(parser)


def run(args: argparse.Namespace) -> int:
    if (Path(args.trace) / "sweep.toml").is_file():
        return _sweep(args)
    if args.figures:
        raise Mistake(f"--figures: {args.trace} is not the directory of a sweep; leave it out")
    from lethe_sim.report import report

    output = args.output or str(Path(args.trace).with_suffix(".html"))
    page, audit = report(args.trace, against=args.against, master=args.master)
    write_text(output, page)
    print(f"{output}: {audit.verdict}")
    return 0 if audit.exit_code == 0 else 1


def _sweep(args: argparse.Namespace) -> int:
    if args.against:
        raise Mistake(f"--against: {args.trace} is a sweep; compare two of its events with `lethe compare`")
    from lethe_sim.report import figures, sweep_report

    output = args.output or str(Path(args.trace) / "report.html")
    write_text(output, sweep_report(args.trace))
    print(f"{output}: sweep")
    if args.figures:
        print(f"{args.figures}: {len(figures(args.trace, args.figures))} files")
    return 0

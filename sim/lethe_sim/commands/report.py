"""`lethe report`: a trace as one self-contained web page."""

import argparse
from pathlib import Path

from .common import write_text
from .compare import add_master

EXAMPLES = """\
  lethe report run.parquet -o run.html
  lethe report golden.parquet --against rtl.parquet -o both.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace")
    parser.add_argument("--against", metavar="TRACE", help="a second trace; the page says whether they are equal")
    parser.add_argument("-o", "--output", metavar="FILE", help="page to write (default: TRACE with .html)")
    add_master(parser)


def run(args: argparse.Namespace) -> int:
    from lethe_sim.report import report

    output = args.output or str(Path(args.trace).with_suffix(".html"))
    page, audit = report(args.trace, against=args.against, master=args.master)
    write_text(output, page)
    print(f"{output}: {audit.verdict}")
    return 0 if audit.exit_code == 0 else 1

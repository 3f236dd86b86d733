"""`lethe compare`: where two traces part."""

import argparse

EXAMPLES = """\
  lethe compare golden.parquet rtl.parquet
  lethe compare before.parquet after.parquet --rows    read every row, whatever the digests say
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("left", metavar="LEFT", help="a trace")
    parser.add_argument("right", metavar="RIGHT", help="the trace to compare it with")
    parser.add_argument("--rows", action="store_true", help="compare rows even if the digests agree")
    add_master(parser)


def add_master(
    parser: argparse.ArgumentParser, about: str = "Spark master (default: on the cores of this machine)"
) -> None:
    parser.add_argument("--master", metavar="URL", help=about)


def run(args: argparse.Namespace) -> int:
    from lethe_sim.pipeline.jobs import compare_traces

    result = compare_traces(args.left, args.right, rows=args.rows, master=args.master)
    print(result.text())
    return result.exit_code

"""`lethe compare`: where two traces part."""

import argparse
import re

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
    parser.add_argument("--master", type=_master, metavar="URL", help=about)


def _master(url: str) -> str:
    """A master of Spark by its form, so that a mistyped one is found before a long run, not after it."""
    if not re.fullmatch(r"local(-cluster)?(\[[^\]]+\])?|yarn|\w[\w+]*://.+", url):
        raise argparse.ArgumentTypeError(f"{url!r} is no master of Spark: give one as local[2] or spark://HOST:PORT")
    return url


def run(args: argparse.Namespace) -> int:
    from lethe_sim.pipeline.jobs import compare_traces

    result = compare_traces(args.left, args.right, rows=args.rows, master=args.master)
    print(result.text())
    return result.exit_code

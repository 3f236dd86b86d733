"""`lethe run`: the golden model, its trace, the audit."""

import argparse

from .common import add_config

EXAMPLES = """\
  lethe run my.toml                            trace in my.parquet, then the audit
  lethe run my.toml --seed 7 --cycles 50000
  lethe run my.toml --no-audit --vcd my.vcd    without Spark; with a waveform
  lethe run file.toml --output received.bin    a file workload: what arrived
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument(
        "--trace", metavar="FILE", help="trace to write (default: FILE with .parquet, in this directory)"
    )
    parser.add_argument("--no-audit", action="store_true", help="write the trace only")
    parser.add_argument("--vcd", metavar="FILE", help="write a waveform there, with a .gtkw beside it")
    parser.add_argument("--output", metavar="FILE", help="file workload: write what was received there")
    parser.add_argument("--progress", action="store_true", default=None, help="show progress even if not on a terminal")
    parser.add_argument("--master", metavar="URL", help="Spark master (default: inside this process)")


def run(args: argparse.Namespace) -> int:
    from lethe_sim.running import run_golden

    return run_golden(args)

"""`lethe new`: a commented configuration to start from."""

import argparse

from lethe.spec.config import example
from lethe.spec.sections.workload import WORKLOADS
from lethe.spec.topology import KINDS
from lethe_sim.files import CONFIGURATION

from .common import write_text
from .files import Files

EXAMPLES = """\
  lethe new my.toml                      a 16-node fat tree
  lethe new mesh.toml --topology mesh    a 4 by 4 mesh
  lethe new sort.toml --workload kernel  a parallel sort instead of generated traffic
  lethe new - | less                     look before writing
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="file to write; - for stdout")
    parser.add_argument("--topology", choices=KINDS, default="tree", help="kind of network (default: tree)")
    parser.add_argument(
        "--workload", choices=WORKLOADS, default="generator", help="what the hosts send (default: generator)"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> int:
    if args.file != "-":
        files = Files(force=args.force)
        files.writes(args.file, "", CONFIGURATION)
        files.check()
    write_text(args.file, example(args.topology, args.workload))
    return 0

"""`lethe new`: a commented configuration to start from."""

import argparse

from lethe.spec.config import example, preset_example
from lethe.spec.presets import PRESETS
from lethe.spec.sections.workload import WORKLOADS
from lethe.spec.topology import KINDS
from lethe_sim.files import CONFIGURATION

from .common import Mistake, write_text
from .files import Files

EXAMPLES = """\
  lethe new my.toml                      a 16-node fat tree
  lethe new mesh.toml --topology mesh    a 4 by 4 mesh
  lethe new sort.toml --workload kernel  a parallel sort instead of generated traffic
  lethe new small.toml --preset small    a short file: the name of a preset, and what you change
  lethe new - | less                     look before writing
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="file to write; - for stdout")
    parser.add_argument("--topology", choices=KINDS, help="kind of network (default: tree)")
    parser.add_argument("--workload", choices=WORKLOADS, help="what the hosts send (default: generator)")
    parser.add_argument("--preset", choices=PRESETS, help="write only the name of this preset, and what it sets")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> int:
    for option in ("topology", "workload"):
        if args.preset and getattr(args, option):
            raise Mistake(f"--{option}: a file with a preset says it itself; leave it out, and set {option}.kind there")
    if args.file != "-":
        files = Files(force=args.force)
        files.writes(args.file, "", CONFIGURATION)
        files.check()
    text = (
        preset_example(args.preset) if args.preset else example(args.topology or "tree", args.workload or "generator")
    )
    write_text(args.file, text)
    return 0

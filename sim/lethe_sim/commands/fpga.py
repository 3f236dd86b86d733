"""`lethe fpga`: a bitstream that tests itself."""

import argparse
from pathlib import Path

from lethe.spec.config import load
from lethe_sim.files import BITSTREAM, JSON

from .common import Mistake, write_text
from .files import Files, add_force
from .verilog import refuse_golden_only

EXAMPLES = """\
  lethe fpga boards
  lethe fpga build --board ulx3s_25f
  lethe fpga build my.toml --board ulx3s_85f --output build/my --seed 3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("build", "boards"), help="make a bitstream, or list the boards")
    parser.add_argument("config", metavar="FILE", nargs="?", help="configuration (default: the small self-test)")
    parser.add_argument("--board", metavar="NAME", help="board to build for")
    parser.add_argument("-o", "--output", metavar="DIR", default="build/fpga", help="directory (default: build/fpga)")
    parser.add_argument("--seed", type=int, metavar="N", default=1, help="seed of the place and route (default: 1)")
    parser.add_argument("--json", metavar="FILE", help="write the report there as well, - for stdout")
    add_force(parser)


def run(args: argparse.Namespace) -> int:
    from lethe_fpga.boards import BOARDS

    if args.action == "boards":
        for name, board in BOARDS.items():
            print(f"{name:<16}{board.about}")
        return 0
    if not args.board:
        raise Mistake(f"--board: name the board to build for: {', '.join(BOARDS)}")
    from lethe_fpga.build import build

    system = load(args.config) if args.config else None
    if system:
        refuse_golden_only(system)
    files = Files(force=args.force)
    if system:
        files.reads_config(system)
    files.writes(args.output, "-o", BITSTREAM)
    if args.json != "-":
        files.writes(args.json, "--json", JSON)
    files.check()
    report = build(args.board, Path(args.output), system=system, seed=args.seed)
    print(f"{report.bitstream}: {report.bytes:,} bytes for {report.board}")
    print(f"  {report.fmax:.1f} MHz, {report.target:.1f} wanted")
    for name, (used, available) in report.cells.items():
        print(f"  {name:<16}{used:>8,} of {available:,}")
    if args.json:
        write_text(args.json, report.as_json() + "\n")
    return 0

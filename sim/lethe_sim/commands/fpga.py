"""`lethe fpga`: a bitstream that tests itself."""

import argparse
import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from lethe.spec.config import load
from lethe_sim.files import BITSTREAM, JSON

from .common import Afterwards, Mistake, Progress, note, write_text
from .files import Files, add_force
from .verilog import refuse_golden_only

if TYPE_CHECKING:
    from lethe_fpga.build import BuildReport

EXAMPLES = """\
  lethe fpga boards
  lethe fpga build
  lethe fpga build --board orangecrab_85f --mhz 40
  lethe fpga build my.toml --board ulx3s_85f --output build/my --seed 3
  lethe fpga build --board icebreaker                 one node, with mirrors in the place of the network
  lethe fpga build tiny.toml --mirror --board ice40_hx8k_b_evn
"""

#: Rows of the table of blocks; the rest are one row more.
_ROWS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("build", "boards"), help="make a bitstream, or list the boards")
    parser.add_argument("config", metavar="FILE", nargs="?", help="configuration (default: the board's self-test)")
    parser.add_argument("--board", metavar="NAME", help="board to build for (default: ulx3s_25f)")
    parser.add_argument(
        "--mhz", metavar="N", type=_mhz, help="highest clock of the PLL (default: the board's, mostly 50)"
    )
    parser.add_argument(
        "--mirror", action="store_true", help="build one node of FILE, a mesh, with mirrors in the place of the network"
    )
    parser.add_argument("-o", "--output", metavar="DIR", default="build/fpga", help="directory (default: build/fpga)")
    parser.add_argument("--seed", type=_seed, metavar="N", default=1, help="seed of the place and route (default: 1)")
    parser.add_argument("--json", metavar="FILE", help="write the report there as well, - for stdout")
    add_force(parser)
    parser.add_argument("--progress", action="store_true", help="show progress even when stderr is no terminal")


def _seed(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 999999999, not {text!r}")
    return int(text)


def _mhz(text: str) -> Fraction:
    try:
        # `Fraction` writes an exponent out: 1e999999999 would take all memory.
        return Fraction(text if len(text) <= 20 and "e" not in text.lower() else "")
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"must be a frequency in MHz such as 50 or 33.3, not {text!r}") from None


def run(args: argparse.Namespace) -> int:
    if args.action == "boards":
        return _boards()
    from lethe_fpga.boards import DEFAULT
    from lethe_fpga.build import UnmetError, build, clock_for, failed_directory
    from lethe_fpga.pll import PllError

    board = args.board or DEFAULT
    try:
        clock_for(board, args.mhz)
    except PllError as error:
        raise Mistake(f"--mhz: {error}") from None
    if args.mirror and not args.config:
        raise Mistake("--mirror: is for a configuration; name one, or leave it out and take an iCE40 with --board")
    system = load(args.config) if args.config else None
    if system:
        refuse_golden_only(system)
        if system.workload.kind != "generator":
            raise Mistake(f"{args.config}: workload.kind: a board has only the hardware generator; set it to generator")
    files = Files(force=args.force)
    if system:
        files.reads_config(system)
    files.writes(args.output, "-o", BITSTREAM)
    files.writes(failed_directory(Path(args.output)), "", BITSTREAM)
    if args.json != "-":
        files.writes_if(args.json, "--json", JSON)
    files.check()
    progress = Progress(shown=args.progress or None)
    try:
        report = build(
            board,
            Path(args.output),
            system=system,
            mirror=args.mirror,
            mhz=args.mhz,
            seed=args.seed,
            say=lambda phase, what: progress.show(phase, what),
        )
    except UnmetError as unmet:
        progress.clear()
        after = Afterwards()
        if args.json and unmet.report:
            with after.writing():
                write_text(args.json, unmet.report.as_json() + "\n")
        for error in after.errors:
            note(str(error))
        raise
    finally:
        progress.clear()
    print(_told(report))
    if report.note:
        note(report.note)
    if args.json:
        write_text(args.json, report.as_json() + "\n")
    return 0


def _boards() -> int:
    from lethe_fpga.boards import BOARDS, DEFAULT, clock_mhz
    from lethe_fpga.selftest import MIRRORED_NEEDS, NEEDS
    from lethe_fpga.top import ROOM, leds

    for name, board in BOARDS.items():
        platform = board.make()
        room = ROOM[platform.device]
        needs = MIRRORED_NEEDS if board.mirror else NEEDS
        share = max(needs[cell] / room[cell] for cell in needs)
        shown = leds(platform)
        lights = "one LED of three colours" if "blue" in shown else "two LEDs" if len(shown) == 2 else "one LED"
        fits = f"self-test fits, {share:.0%} full" if share <= 1 else "too small for the self-test"
        default = " (default)" if name == DEFAULT else ""
        print(f"{name:<18}{board.about:<46}{float(clock_mhz(platform)):>5g} MHz  {lights}, {fits}{default}")
    return 0


def _told(report: "BuildReport") -> str:
    """The report as a short table."""
    lines = [
        f"{report.bitstream}: {report.bytes:,} bytes for {report.about}",
        f"  clock {report.target:g} MHz, made of the board's {report.board_clock:g}; the design takes "
        f"{report.fmax:.1f}",
        f"  slowest path: {report.path}, {report.path.logic + report.path.routing:.1f} ns",
        "",
        f"  {'cells':<18}{'used':>8}{'of':>8}",
        *(f"  {name:<18}{used:>8,}{room:>8,}{used / room:>7.0%}" for name, (used, room) in report.cells.items()),
        "",
        f"  {'block':<18}{'times':>8}{'LUT4':>8}{'':>7}{'FF':>8}{'RAM':>6}",
    ]
    total = sum(share.lut for share in report.shares) or 1
    for share in report.shares[:_ROWS]:
        lines.append(
            f"  {share.block:<18}{share.count:>8}{share.lut:>8,}{share.lut / total:>7.0%}{share.ff:>8,}{share.ram:>6}"
        )
    if rest := report.shares[_ROWS:]:
        lut, ff, ram = (sum(getattr(share, column) for share in rest) for column in ("lut", "ff", "ram"))
        lines.append(f"  {'others':<18}{'':>8}{lut:>8,}{lut / total:>7.0%}{ff:>8,}{ram:>6}")
    return "\n".join(lines)

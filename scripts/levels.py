"""Print where the logic of a block of `lethe_fpga.area` is deep: the ends of its longest paths, by estimate.

Without a placement, in seconds: not its clock, but which of its paths would have to be cut first.
"""

import argparse
import sys

from lethe import verilog
from lethe_fpga.area import BLOCKS
from lethe_fpga.levels import longest


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="levels", description=__doc__)
    parser.add_argument("block", help='such as "NI, medium"')
    parser.add_argument("--rows", type=int, default=30, help="so many kinds of ends (default: 30)")
    chosen = parser.parse_args(arguments)
    if chosen.block not in BLOCKS:
        parser.error(f"no such block {chosen.block!r}; known are {'; '.join(BLOCKS)}")
    if chosen.rows < 1:
        parser.error(f"--rows: must be 1 or more, not {chosen.rows}")
    try:
        found = longest(*BLOCKS[chosen.block].netlist())
    except verilog.VerilogError as error:
        print(f"levels: {chosen.block}: {error}", file=sys.stderr)
        return 3
    print(f"{'ns':>5}  {'levels':>6}  {'ends':>5}  end, and where its path begins")
    for ends in found[: chosen.rows]:
        print(f"{ends.ns:5.2f}  {ends.levels:6}  {ends.count:5}  {ends.name}.{ends.port}, from {ends.start}")
    if len(found) > chosen.rows:
        rest = found[chosen.rows :]
        print(f"and {sum(ends.count for ends in rest):,} ends of {len(rest):,} kinds, at {rest[0].ns:.2f} ns or before")
    return 0


if __name__ == "__main__":
    sys.exit(main())

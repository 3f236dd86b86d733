"""Print the longest paths of a block of `lethe_fpga.area`, estimated without placing it.

The times give no clock.  They show which paths a change of the clock has to cut first.
"""

import argparse
import sys

from campaign import positive

from lethe import verilog
from lethe_fpga.area import BLOCKS
from lethe_fpga.levels import longest


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="levels", description=__doc__)
    parser.add_argument("block", help='such as "NI, medium"')
    parser.add_argument("--rows", type=positive, default=30, help="rows to print (default: 30)")
    chosen = parser.parse_args(arguments)
    if chosen.block not in BLOCKS:
        parser.error(f"no such block {chosen.block!r}; known are {'; '.join(BLOCKS)}")
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
        ends = sum(row.count for row in rest)
        print(f"and {ends:,} ends in {len(rest):,} rows more, at {rest[0].ns:.2f} ns or before")
    return 0


if __name__ == "__main__":
    sys.exit(main())

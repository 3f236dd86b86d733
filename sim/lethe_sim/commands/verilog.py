"""`lethe verilog`: the RTL of a configuration, for other tools."""

import argparse
import re
from pathlib import Path

from lethe.spec.config import System, load
from lethe_sim.files import HEADER, MARK, REGISTERS, VERILOG, WAIVERS

from .common import Mistake, add_config, note, write_text
from .files import Files, add_force

EXAMPLES = """\
  lethe verilog my.toml -o system.v                 the whole system with its traffic generators
  lethe verilog my.toml --block ni -o ni.v          one network interface, with the services that my.toml names
  lethe verilog my.toml --block ni --no-watch --no-dump --name a_ -o a.v --header a.vh --c-header a.h
                                                    module a_lethe_ni, for a design with other NIs in it
  lethe verilog my.toml --host ports -o system.v    the whole system, for hosts of your own
  lethe verilog my.toml --block fabric -o fabric.v  the network alone, for NIs that are elsewhere
  lethe verilog my.toml -o system.v --waivers system.vlt && verilator --lint-only -Wall system.vlt system.v
  lethe verilog my.toml --block router --router 4   one router, to stdout
"""

_TOPS = {"system": "lethe_system", "ni": "lethe_ni", "router": "lethe_router", "fabric": "lethe_fabric"}
_HOSTS = ("generator", "ports")
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
    parser.add_argument("--router", type=int, metavar="N", default=0, help="router: its number (default: 0)")
    parser.add_argument(
        "--host",
        choices=_HOSTS,
        default=_HOSTS[0],
        help="system: hosts are traffic generators (the default), or ports of the module",
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
        help="NI: write the registers of its bus there: SystemRDL, C header, Python package, HTML",
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
    files.check()
    from lethe import verilog
    from lethe.spec import header

    registers = None
    if args.registers:
        from lethe.spec.registers import RegisterMap
        from lethe_sim.registers import require, write

        registers = RegisterMap(system, dump=not args.no_dump)
        require()
    top = args.name + _TOPS[args.block]
    text = f"// {MARK}, lethe verilog\n{verilog.emit(_component(system, args), _TOPS[args.block], prefix=args.name)}"
    write_text(args.output, text)
    if args.header:
        told = header.verilog_header(system, prefix=args.name)
        write_text(args.header, f"// {MARK}, lethe verilog --header\n{told}")
    if args.c_header:
        told = header.c_header(system, prefix=args.name)
        write_text(args.c_header, f"/* {MARK}, lethe verilog --c-header */\n{told}")
    if args.waivers:
        from lethe_sim.lockstep.waivers import waivers

        lines = waivers(text, top, Path(args.output).name)
        write_text(args.waivers, f"// {MARK}, lethe verilog --waivers\n{lines}")
    if registers:
        write(registers, args.registers, prefix=args.name)
    return 0


def _refuse(args: argparse.Namespace, system: System) -> None:
    """What does not go together."""
    if args.block == "router" and not 0 <= args.router < system.graph.routers:
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
    if args.registers and args.block != "ni":
        raise Mistake(f"--registers: a {args.block} has no registers; leave it out, or --block ni")
    if args.waivers and args.output == "-":
        raise Mistake("--waivers: waivers name the file that they are for; give it with -o")
    if args.host == "ports" and system.faults.stalls:
        raise Mistake(
            f"{system.source}: faults.stalls: with --host ports the hosts themselves stall; leave it out, or "
            "--host generator"
        )
    if args.block == "fabric" and (system.faults.stalls or system.faults.resets):
        note(f"{system.source}: faults.stalls and faults.resets are for nodes, which are not part of a fabric")


def refuse_golden_only(system: System, *, alone: bool = False) -> None:
    """Systems that only the golden model can run; a NI ``alone`` is of one size."""
    if system.golden_only:
        key, value, default = system.golden_only
        raise Mistake(
            f"{system.source}: {key}: {value} is for the golden model only, there is no RTL of it; "
            f"set it to {default}, or `lethe run` for the golden model"
        )
    if system.nodes > MOST_NODES and not alone:
        raise Mistake(
            f"{system.source}: topology: {system.nodes:,} nodes are too many for RTL (at most {MOST_NODES}); "
            "choose a smaller network, or `lethe run` for the golden model"
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
        case "ni":
            from lethe.ni.ni import Ni
            from lethe.services.stack import Node

            make = Node if system.services else Ni
            return make(system, watch=watch, dump=not args.no_dump)
        case _:
            from lethe.fabric.router import Router
            from lethe.fabric.routes import Rule

            router, rule = system.router, Rule.of(system.graph, args.router)
            return Router(system.format, rule, router.latency, router.queue, router.max_wait, watch=watch)

"""`lethe verilog`: the RTL of a configuration, for other tools."""

import argparse
from pathlib import Path

from lethe.spec.config import System, load
from lethe_sim.files import MARK, VERILOG, WAIVERS

from .common import Mistake, add_config, write_text
from .files import Files, add_force

EXAMPLES = """\
  lethe verilog my.toml -o system.v                 the whole system with its traffic generators
  lethe verilog my.toml --block ni -o ni.v          one network interface
  lethe verilog my.toml -o system.v --waivers system.vlt && verilator --lint-only -Wall system.vlt system.v
  lethe verilog my.toml --block router --router 4   one router, to stdout
"""

_TOPS = {"system": "lethe_system", "ni": "lethe_ni", "router": "lethe_router"}
#: A router of the RTL has at most 255 ports, and beyond a few hundred nodes a netlist does not fit in memory.
MOST_NODES = 255


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser, overrides=False)
    parser.add_argument("--block", choices=tuple(_TOPS), default="system", help="what to write (default: system)")
    parser.add_argument("--router", type=int, metavar="N", default=0, help="which router (default: 0)")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="file to write (default: stdout)")
    parser.add_argument(
        "--waivers", metavar="FILE", help="write waivers for Verilator's lint there: one a line, each with its reason"
    )
    add_force(parser)


def run(args: argparse.Namespace) -> int:
    system = load(args.config)
    refuse_golden_only(system, alone=args.block == "ni")
    if args.block == "router" and not 0 <= args.router < system.graph.routers:
        raise Mistake(f"{args.config}: --router {args.router}: no such router; the topology has {system.graph.routers}")
    if args.waivers and args.output == "-":
        raise Mistake("--waivers: waivers name the file that they are for; give it with -o")
    files = Files(force=args.force)
    files.reads_config(system)
    if args.output != "-":
        files.writes(args.output, "-o", VERILOG)
    files.writes_if(args.waivers, "--waivers", WAIVERS)
    files.check()
    from lethe import verilog

    text = f"// {MARK}, lethe verilog\n{verilog.emit(_component(system, args), _TOPS[args.block])}"
    write_text(args.output, text)
    if args.waivers:
        from lethe_sim.lockstep.waivers import waivers

        lines = waivers(text, _TOPS[args.block], Path(args.output).name)
        write_text(args.waivers, f"// {MARK}, lethe verilog --waivers\n{lines}")
    return 0


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
    match args.block:
        case "system":
            from lethe.system import SystemTop

            return SystemTop(system)
        case "ni":
            from lethe.ni.ni import Ni

            return Ni(system)
        case _:
            from lethe.fabric.router import Router
            from lethe.fabric.routes import Rule

            router = system.router
            return Router(
                system.format, Rule.of(system.graph, args.router), router.latency, router.queue, router.max_wait
            )

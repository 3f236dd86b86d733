"""`lethe verilog`: the RTL of a configuration, for other tools."""

import argparse

from lethe.spec.config import load

from .common import Mistake, add_config, write_text

EXAMPLES = """\
  lethe verilog my.toml -o system.v                 the whole system with its traffic generators
  lethe verilog my.toml --block ni -o ni.v          one network interface
  lethe verilog my.toml --block router -o router.v  one router
"""

_TOPS = {"system": "lethe_system", "ni": "lethe_ni", "router": "lethe_router"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser, overrides=False)
    parser.add_argument("--block", choices=tuple(_TOPS), default="system", help="what to write (default: system)")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="file to write (default: stdout)")


def run(args: argparse.Namespace) -> int:
    system = load(args.config)
    if args.block == "router" and not system.graph.routers:
        raise Mistake(f"{args.config}: topology.kind: a wire has no router; choose another topology")
    from lethe import verilog

    match args.block:
        case "system":
            from lethe.system import SystemTop

            component = SystemTop(system)
        case "ni":
            from lethe.ni.ni import Ni

            component = Ni(system)
        case _:
            from lethe.fabric.router import Router

            component = Router.of(system, 0)
    write_text(args.output, verilog.emit(component, _TOPS[args.block]))
    return 0

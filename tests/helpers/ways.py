"""Which outputs of a module depend on which inputs in the same cycle: found in its netlist."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from lethe.verilog import run_yosys

#: Cells of Yosys whose outputs come from registers.
_REGISTERS = ("$dff", "$sdff", "$adff", "$aldff")


def ways(verilog: str, top: str, directory: Path) -> dict[str, set[str]]:
    """For each output port of module ``top`` that depends on inputs in the same cycle: these input ports."""
    (directory / "ways.v").write_text(verilog)
    script = (
        f"read_verilog ways.v; hierarchy -top {top}; proc; flatten; opt_clean; memory_collect; write_json ways.json"
    )
    run_yosys(directory, script)
    module = json.loads((directory / "ways.json").read_text())["modules"][top]
    behind: dict[Any, list[Any]] = defaultdict(list)
    for cell in module["cells"].values():
        for out, sources in _through(cell):
            for bit in out:
                behind[bit] += sources
    inputs = {
        bit: name for name, port in module["ports"].items() if port["direction"] == "input" for bit in port["bits"]
    }
    found: dict[str, set[str]] = {}
    for name, port in module["ports"].items():
        if port["direction"] == "output":
            todo, seen = list(port["bits"]), set(port["bits"])
            while todo:
                fresh = {bit for bit in behind[todo.pop()] if bit not in seen}
                seen |= fresh
                todo += fresh
            if reached := {inputs[bit] for bit in seen if bit in inputs}:
                found[name] = reached
    return found


def _through(cell: dict[str, Any]):
    """(bits of outputs, bits that they depend on in the same cycle) of a cell."""
    at, kind = cell["connections"], cell["type"]
    if kind.startswith(_REGISTERS):
        return
    if kind.startswith("$mem"):
        ports = int(cell["parameters"]["RD_PORTS"], 2)
        clocked = cell["parameters"]["RD_CLK_ENABLE"][::-1]
        for port in range(ports):
            if clocked[port] == "0":
                yield _part(at["RD_DATA"], port, ports), _part(at["RD_ADDR"], port, ports)
        return
    sides = cell["port_directions"]
    sources = [bit for name, bits in at.items() if sides[name] == "input" for bit in bits]
    yield [bit for name, bits in at.items() if sides[name] == "output" for bit in bits], sources


def _part(bits: list, port: int, ports: int) -> list:
    size = len(bits) // ports
    return bits[port * size : (port + 1) * size]

"""The longest paths of a block, estimated from its netlist alone: in seconds, without a placement.

Placing a block gives one slowest path, and the next placement another one.  The estimate has a time for every end of a
path.  Delays of cells are about those that nextpnr has for an ECP5 of speed grade 6, and all nets have one delay.  So
the times give no clock; they show where the logic is deep, and whether a change has made it less deep.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

__all__ = ["Ends", "longest"]

#: Delays in ns: of a net; of a LUT, or of a small RAM that is read; into a carry chain, and along one cell of it; from
#: the clock to the output of a flip-flop, of a block RAM with an output register, and of one without; the set-up time.
NET, LUT, CHAIN, CARRY, FLIP_FLOP, RAM, SLOW_RAM, SETUP = 0.3, 0.24, 0.44, 0.07, 0.5, 0.9, 5.6, 0.1
#: Cells that paths go through, and from which of their inputs.
_THROUGH = {
    "LUT4": ("A", "B", "C", "D"), "TRELLIS_DPR16X4": ("RAD",),
    "CCU2C": ("CIN", "A0", "B0", "C0", "D0", "A1", "B1", "C1", "D1"),
}  # fmt: skip
#: Cells that paths end at, and at which of their inputs no path ends.
_CLOCKED = {
    "TRELLIS_FF": ("CLK",), "TRELLIS_DPR16X4": ("RAD", "WCK"), "DP16KD": ("CLKA", "CLKB"), "PDPW16KD": ("CLKR", "CLKW"),
}  # fmt: skip

#: Part of a net's name that Yosys made from the names of cells.
_OF_YOSYS = re.compile(rf"_({'|'.join(_CLOCKED | _THROUGH)})_")
#: What a name has before it for the wrappers around a block, and behind it for the cells of a memory.
_AROUND, _NUMBERS = re.compile(r"^(core\.)+"), re.compile(r"(\.\d+)+$")


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Ends of paths at one input of a register or memory, all with the same number of levels.

    ``name`` is the register or memory, and ``port`` the input of its cells; ``count`` is the number of ends; ``levels``
    is the number of LUTs, reads of small RAMs and carry chains on each path.  ``ns`` is the time at the latest of these
    ends, with the set-up time, and ``start`` is the register or memory where the path to that end begins.
    """

    name: str
    port: str
    count: int
    levels: int
    ns: float
    start: str


class _Arrival(NamedTuple):
    """The longest path to a net: its time, its levels, and the net where it begins."""

    ns: float
    levels: int
    start: int


def longest(netlist: dict[str, Any], top: str) -> list[Ends]:
    """The ends of all paths in the flattened netlist of module ``top``, the latest first.

    No path begins at an input of the module.
    """
    module = netlist["modules"][top]
    cells, names = module["cells"], _names(module)
    arrivals = _arrivals(cells)
    groups: dict[tuple[str, str, int], list[_Arrival]] = defaultdict(list)
    for name, cell in cells.items():
        ignored = _CLOCKED.get(cell["type"])
        if ignored is None:
            continue
        # A flip-flop is named by what it drives.
        shown = names.get(cell["connections"]["Q"][0], name) if cell["type"] == "TRELLIS_FF" else name
        for port, net in _nets(cell, "input"):
            if port not in ignored and net in arrivals:
                at = arrivals[net]
                groups[_plain(shown), port, at.levels].append(at._replace(ns=at.ns + NET + SETUP))
    found = []
    for (name, port, levels), reached in groups.items():
        last = max(reached)
        start = _plain(names.get(last.start, str(last.start)))
        found.append(Ends(name=name, port=port, count=len(reached), levels=levels, ns=round(last.ns, 2), start=start))
    return sorted(found, key=lambda ends: (-ends.ns, -ends.count, ends.name, ends.port))


def _arrivals(cells: dict[str, Any]) -> dict[int, _Arrival]:
    """The longest path to each net; nets that no clocked cell reaches are left out."""
    arrivals, drivers = {}, {}
    for name, cell in cells.items():
        kind = cell["type"]
        for _, net in _nets(cell, "output"):
            if kind in _THROUGH:
                drivers[net] = name
            elif kind in _CLOCKED:
                arrivals[net] = _Arrival(_leaves(cell), 0, net)
    before = {
        name: {drivers[net] for port, net in _nets(cell, "input") if port in _THROUGH[cell["type"]] and net in drivers}
        for name, cell in cells.items()
        if cell["type"] in _THROUGH
    }
    for name in TopologicalSorter(before).static_order():
        cell = cells[name]
        reached = [
            _through(cell["type"], port, arrivals[net])
            for port, net in _nets(cell, "input")
            if port in _THROUGH[cell["type"]] and net in arrivals
        ]
        for _, net in _nets(cell, "output"):
            if reached:
                arrivals[net] = max(reached)
            elif cell["type"] == "TRELLIS_DPR16X4":  # its address comes from no register, but its words change
                arrivals[net] = _Arrival(FLIP_FLOP, 0, net)
    return arrivals


def _through(kind: str, port: str, at: _Arrival) -> _Arrival:
    if port == "CIN":
        return at._replace(ns=at.ns + CARRY)
    return at._replace(ns=at.ns + NET + (CHAIN if kind == "CCU2C" else LUT), levels=at.levels + 1)


def _leaves(cell: dict[str, Any]) -> float:
    """From the clock to the outputs of a cell."""
    if cell["type"] == "TRELLIS_FF":
        return FLIP_FLOP
    modes = [value for name, value in cell["parameters"].items() if name.startswith("REGMODE")]
    return RAM if "OUTREG" in modes else SLOW_RAM


def _nets(cell: dict[str, Any], direction: str) -> Iterator[tuple[str, int]]:
    """The ports of a cell that are inputs, or outputs, and the nets at them; a constant is no net."""
    for port, nets in cell["connections"].items():
        if cell["port_directions"][port] == direction:
            yield from ((port, net) for net in nets if isinstance(net, int))


def _names(module: dict[str, Any]) -> dict[int, str]:
    """A name for each net: if it has several, the shortest one that Yosys did not make."""
    found: dict[int, tuple[bool, int, str]] = {}
    for name, net in module["netnames"].items():
        ranked = (bool(net.get("hide_name")) or bool(_OF_YOSYS.search(name)), len(name), name)
        for bit in net["bits"]:
            found[bit] = min(ranked, found.get(bit, ranked))
    return {bit: name for bit, (_, _, name) in found.items()}


def _plain(name: str) -> str:
    """A name without wrappers, and without the numbers that tell copies and cells apart."""
    return _NUMBERS.sub("", _AROUND.sub("", re.sub(r"(?<=\w)\$\d+", "", name)))

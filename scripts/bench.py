"""Measures what Lethe promises in numbers, and prints each figure beside its target.

The table goes to standard output as Markdown, progress to standard error.  A missed target is a row that says so, not
a failure: the exit code is 0 unless a tool is missing (3), an argument is wrong (2) or it is interrupted (130, after
the table of what was measured until then).  Speeds are per second of CPU time, so that other load shows less.
"""

import argparse
import json
import os
import platform
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.lib import wiring
from amaranth.sim import Simulator

from lethe import verilog
from lethe.bus.ni import AxiNi, StreamNi
from lethe.bus.registers import Registers
from lethe.bus.streams import Streams
from lethe.fabric.credits import CreditRouter
from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.ni.ni import Ni
from lethe.services.flow import Flow
from lethe.services.loop import Loop
from lethe.services.relay import Relay
from lethe.services.stack import Node
from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.config import load as load_config
from lethe.spec.events import Counter, Event, Kind
from lethe.spec.ports import HostPort
from lethe.spec.random import UNIT_NI, seed_for
from lethe.spec.sections.faults import Absence
from lethe.spec.sections.flow import OF_NI
from lethe.spec.sections.router import STAGES
from lethe.spec.stages import ACTS, QUEUED, SHOWN
from lethe.system import SystemTop
from lethe_fpga.area import BLOCKS, COLUMNS, LATENCY, Block, Size, Unwatched, measured, size
from lethe_fpga.boards import platform_for
from lethe_fpga.build import BuildError, UnmetError, build
from lethe_fpga.cost import Path as SlowestPath
from lethe_fpga.top import ROOM
from lethe_sim.golden.model import Golden
from lethe_sim.lockstep import simulators
from lethe_sim.lockstep.cosim import cosim
from lethe_sim.lockstep.simulators import ToolError
from lethe_sim.metrics import RunLedger
from lethe_sim.sweep.store import Store


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One row: a quantity, its value and target in words, and whether the target is met (None: there is none)."""

    section: str
    quantity: str
    measured: str
    target: str = ""
    met: bool | None = None
    #: More numbers, for the file alone.
    details: dict[str, Any] | None = None


def say(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)


def unwatched_system(system: System) -> wiring.Component:
    """A `SystemTop` with generators and without trace port, which simulators would otherwise have to compute."""
    return Unwatched(SystemTop(system), tuple(system.layout.watch_ports))


# Rates and latencies, in Verilator's RTL.


class Rows:
    """The RTL's trace words of a run on two nodes joined by a wire."""

    def __init__(self, system: System, cycles: int):
        with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
            path = Path(scratch) / "rows.npy"
            self.result = cosim(system, cycles=cycles, rows=path)
            self.words = np.load(path)
        self.layout = system.layout
        if not self.result.equal:
            say(f"RTL and golden model part: {self.result.report}")

    def flag(self, node: int, name: str) -> np.ndarray:
        """bool[cycles]: one bit of a node's flags."""
        column = self.words[:, node * self.layout.ni_words + trace.NI_FLAGS]
        return (column >> np.uint64(trace.NI_FLAG_BITS.index(name)) & np.uint64(1)).astype(bool)

    def events(self, node: int, event: Event) -> np.ndarray:
        """int64[n, 2]: cycle and packed UID of each such event at a node, on any lane."""
        places = np.array([node * self.layout.ni_words + trace.lane_word(lane) for lane in range(trace.LANES)])
        cycle, lane = np.nonzero(trace.EVENT.of(self.words[:, places]) == event)
        return np.stack([cycle, self.words[cycle, places[lane] + 1].astype(np.int64)], axis=1)

    def count(self, *kinds: Event) -> int:
        return sum(len(self.events(node, kind)) for node in (0, 1) for kind in kinds)


def rates(quick: bool) -> Iterator[Figure]:
    """What the link carries, how fast an idle NI answers, and what a datagram costs in messages."""
    count = 100 if quick else 600
    yield from _saturated(count)
    yield from _idle(20 if quick else 100)
    yield _one_flit_messages(1000 if quick else 10_000)


def _saturated(count: int) -> Iterator[Figure]:
    system = System.make(
        topology={"kind": "wire"},
        ni={"slots": 256, "sets": 64},
        workload={"load": 1.0, "count": count},
    )
    say(f"rates: two nodes, a wire, {count} datagrams each, back to back (Verilator)")
    rows = Rows(system, 40 * count)
    sends = rows.events(0, Event.SEND)[:, 0]
    window = slice(int(sends[0]), int(sends[-1]) + 1)
    busy = np.zeros(len(rows.words), np.int64)
    busy[rows.events(0, Event.ACCEPT)[:, 0]] += 1
    busy[rows.events(0, Event.COMPLETE)[:, 0]] -= 1
    # A record's slot is taken before its payload is in: one more than the accepted ones.
    free = np.cumsum(busy)[window] + 1 < system.ni.slots
    carried = rows.flag(0, "link.valid")[window][free]
    yield Figure(
        section="rates",
        quantity="flits per cycle on an NI's link, datagrams back to back, slots free",
        measured=f"{carried.mean():.4f} (over {len(carried):,} of {len(free):,} cycles)",
        target="≥ 0.99",
        met=bool(carried.mean() >= 0.99),
    )
    yield _messages(rows, "saturated")


def _idle(count: int) -> Iterator[Figure]:
    system = System.make(
        topology={"kind": "wire"}, ni={"slots": 4, "sets": 4, "ways": 2}, workload={"load": 0.005, "count": count}
    )
    say(f"rates: the same, {count} datagrams each, mostly idle (Verilator)")
    rows = Rows(system, 3000 * count)
    beats = system.slot_flits + 1  # a record and its payload
    first, answered = [], []
    idle = [rows.flag(node, "idle") for node in (0, 1)]
    lasts = [rows.flag(node, "link.valid") & rows.flag(node, "link.last") for node in (0, 1)]
    for node in (0, 1):
        sent = {uid: cycle for cycle, uid in rows.events(node, Event.SEND)[::-1].tolist()}
        for cycle, uid in rows.events(node, Event.ACCEPT).tolist():
            if idle[node][cycle - beats] and not rows.flag(1 - node, "link.valid")[cycle - beats : sent[uid]].any():
                first.append(sent[uid] - cycle)
        other = 1 - node
        acked = {uid: cycle for cycle, uid in rows.events(other, Event.ACK)[::-1].tolist()}
        accepted = rows.events(other, Event.ACCEPT)[:, 0]
        for cycle, uid in rows.events(other, Event.DELIVER).tolist():
            last = int(np.flatnonzero(lasts[node][: cycle - ACTS + 1])[-1])
            if idle[other][last - 1 - system.format.send_flits(32)] and not np.any(
                (accepted > last - 20) & (accepted <= acked[uid])
            ):
                answered.append(acked[uid] - last)
    for quantity, found, target in (
        ("cycles from accepted to first flit, NI idle", first, QUEUED + SHOWN),
        ("cycles from last flit in to Ack's first flit out, NI idle", answered, ACTS + QUEUED + SHOWN),
    ):
        yield Figure(
            section="rates",
            quantity=quantity,
            measured=f"{min(found)} to {max(found)} (of {len(found)} datagrams)" if found else "none was idle",
            target=f"≤ {target}",
            met=max(found, default=target + 1) <= target,
        )
    yield _messages(rows, "mostly idle")


def _messages(rows: Rows, load: str) -> Figure:
    datagrams = rows.count(Event.ACCEPT)
    messages = rows.count(Event.SEND, Event.ACK, Event.FORGET)
    repeats = rows.count(Event.REPEAT, Event.ACK_REPEAT)
    drained = "" if rows.result.drained else ", not drained"
    return Figure(
        section="rates",
        quantity=f"messages per datagram without loss or contention, {load}",
        measured=f"{messages / max(1, datagrams):g}, {repeats} repeats (of {datagrams:,} datagrams{drained})",
        target="3, 0 repeats",
        met=messages == 3 * datagrams and repeats == 0,
    )


def _one_flit_messages(cycles: int) -> Figure:
    """Acks and Forgets, one in every cycle, three of four for one and the same slot or entry."""
    system = System.make(topology={"kind": "wire"})
    form, draw = system.format, random.Random(1)
    flits = []
    for _ in range(cycles):
        uid = {"slot": 2, "generation": 5, "incarnation": 1}
        if draw.random() < 0.25:
            uid |= {"slot": draw.randrange(system.ni.slots), "generation": draw.randrange(1 << form.generation_bits)}
        kind = draw.choice((Kind.ACK, Kind.FORGET))
        flits += form.flits({"kind": kind, "destination": 0, "source": 1, "peer_incarnation": 1, **uid})
    say(f"rates: {cycles:,} one-flit messages, one in every cycle (Amaranth's simulator)")
    ni = Ni(system)
    acts = (Event.RELEASE, Event.ACK_IGNORED, Event.FORGOTTEN, Event.FORGET_IGNORED)
    acted = []

    async def process(ctx):
        ctx.set(ni.seed, seed_for(system.run.seed, UNIT_NI, 0))
        ctx.set(ni.incarnation, 1)
        ctx.set(ni.link_enable, 1)
        while not ctx.get(ni.host.ready):
            await ctx.tick()
        rx = ni.watch[2 * trace.WORD_BITS :][:8]
        for flit in [*flits, *(ACTS + 2) * [None]]:
            ctx.set(ni.link_i, {"valid": flit is not None, "first": flit is not None, "last": flit is not None}
                    | {"data": flit or 0})  # fmt: skip
            acted.append(ctx.get(rx) in acts)
            await ctx.tick()

    simulator = Simulator(ni)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()
    rate = sum(acted[ACTS : ACTS + cycles]) / cycles
    return Figure(
        section="rates",
        quantity="one-flit messages received and acted on per cycle",
        measured=f"{rate:.4f} (over {cycles:,} cycles, most on one slot or entry)",
        target="1",
        met=rate == 1,
    )


# Size on ECP5.


def slots(quick: bool) -> Iterator[Figure]:
    """What a slot costs: its state is in memories, so flip-flops must hardly grow with their number."""
    few, many = 16, 64 if quick else 256
    sizes = []
    for number in (few, many):
        say(f"slots: an NI with {number} slots (Yosys)")
        sizes.append(size(Ni(System.make(ni={"slots": number}))).cells)
    small, large = sizes
    growth = large["FF"] / small["FF"] - 1
    for name in ("LUT4", "DP16KD", "DPR16X4"):
        yield Figure(
            section="slots",
            quantity=f"{name} of an NI with {few} and {many} slots",
            measured=f"{small[name]:,} and {large[name]:,}",
        )
    yield Figure(
        section="slots",
        quantity=f"flip-flops of an NI with {few} and {many} slots",
        measured=f"{small['FF']:,} and {large['FF']:,} ({growth:+.1%})",
        target="≤ +10 %",
        met=growth <= 0.1,
    )


def options(quick: bool) -> Iterator[Figure]:
    """What each option of an NI and each service cost, beside an NI without; control slots beside a control class."""
    base, classes = System.make(), System.make(ni={"control_classes": 1})
    paths = System.make(wire={"path_bits": 2})
    added = [
        ("ni.reject", base, {"ni": {"reject": True}}),
        ("timers.silent_after = 8, 16 nodes", base, {"timers": {"silent_after": 8}}),
        ("ni.merge_bits = 64", base, {"ni": {"merge_bits": 64}}),
        ("ni.acceptance", base, {"ni": {"acceptance": True}}),
        ("ni.sweep", base, {"ni": {"sweep": True}}),
        ("ni.source_incarnation", base, {"ni": {"source_incarnation": True}}),
        ("ni.control_slots = 8, with a control class", classes, {"ni": {"control_slots": 8}}),
        ("wire.path_bits = 2", base, {"wire": {"path_bits": 2}}),
        ("ni.linger = -1", base, {"ni": {"linger": -1}}),
        ("timers.path_after = 3, 4 paths to each of 16 nodes", paths, {"timers": {"path_after": 3}}),
        ("loop.slots = 4", base, {"loop": {"slots": 4}}),
    ]
    sizes: dict[System, Size] = {}

    def cells(system: System, what: str) -> Size:
        if system not in sizes:
            say(f"options: {what} (Yosys)")
            sizes[system] = size(Node(system) if system.services else Ni(system))
        return sizes[system]

    for name, without, sections in added[: 1 if quick else None]:
        before, after = cells(without, f"without {name}"), cells(without.replace(**sections), name)
        yield Figure(
            section="options",
            quantity=name,
            measured=", ".join(
                f"{before.cells[key]:,} → {after.cells[key]:,} {key}" for key in ("LUT4", "FF", "DPR16X4")
            ),
        )


#: Figures of peers, measured with the same flags (results.md has their versions), by the block beside which they stand.
BESIDE = {
    "mesh router, 32 bit": "basejump mesh router, 38 bit: 851 LUT4, 113 MHz",
    "NI, medium": "LiteEth UDP core: 1,958 LUT4, 56 MHz",
}
#: What blocks are to be: the most LUT4 and the least MHz.
GOALS = {
    "NI, medium": (2900, 150),
    "NI, large": (3100, 150),
    "mesh router, 32 bit": (700, 220),
    "tree router, medium": (2800, 190),
    "NI whose time-outs follow round trips": (3300, 150),
    "AXI4-Streams of an NI, medium": (350, 150),
    "AXI4-Streams, store and forward": (350, 150),
    "registers of an NI, medium": (450, 150),
    "flow, 16 nodes, 16 ports": (3000, 146),
    "relay, 64 nodes, 16 slots": (4400, 146),
    "NI on AXI4-Streams, medium": (3250, 146),
    "NI on AXI, medium": (3700, 146),
    "NI on AXI, store and forward, host clock": (3700, 146),
}
#: The least MHz of a router with a pool.
POOL_MHZ = 150
#: Before the NI was cut into stages (commit 9403362): cycles, and the clock in MHz of the block that limits them.
BEFORE = {
    "accepted to first flit": (4, 65),
    "last flit in to Ack's first flit": (6, 65),
    "hop, mesh router, 32 bit": (1, 117),
    "hop, tree router, medium": (1, 81),
}
#: The same of a whole tree of latency 1: the median from accepted to delivered.
BEFORE_END_TO_END = (14, 65)
#: The goals in ns.
MOST_NS = {
    "accepted to first flit": 75,
    "last flit in to Ack's first flit": 110,
    "hop, mesh router, 32 bit": 20,
    "hop, tree router, medium": 27,
}
#: Parts of a block below this share of its LUT4 are one row.
LEAST_SHARE = 0.02


def area(quick: bool, peers: Path | None = None) -> Iterator[Figure]:
    """What the blocks of the presets cost on an ECP5, part by part, and what limits their clocks.

    The clock is that of a block between others: its link's inputs come from registers, which are not counted.
    ``peers`` is a TOML file that names designs of others, which are measured with the same flags.
    """
    timed = System.make(timers={"ceiling": 2000})
    looped = System.make(loop={"slots": 4})
    others = {
        "NI whose time-outs follow round trips": Block(make=lambda: Ni(timed), registered=("link_i",)),
        "loop of 4 slots, 64 bit": Block(make=lambda: Loop(looped, HostPort.of_ni(looped))),
    }
    seeds = 1 if quick else 3
    sizes = {}
    for name, block in list((BLOCKS | others).items())[: 1 if quick else None]:
        say(f"area: {name} (Yosys, nextpnr)")
        sizes[name] = block.size(seeds=seeds, aim=_aim(name))
        yield from _sized(name, sizes[name])
    if not quick:
        yield from _in_time({name: found.mhz for name, found in sizes.items()})
    if peers is None:
        yield Figure(section="area", quantity="peers", measured="left out: `--peers FILE` names their sources")
        return
    for name, peer in peers_of(peers).items():
        say(f"area: {name} (Yosys, nextpnr)")
        try:
            found = measured(peer.files, peer.top, parameters=peer.parameters, seeds=seeds)
        except (verilog.VerilogError, BuildError) as error:
            yield Figure(section="area", quantity=name, measured=f"left out: {error}")
            continue
        yield from _sized(name, found)


@dataclass(frozen=True, kw_only=True)
class Device:
    """A whole bitstream: a configuration (none: the board's self-test) on a board, with what is asked of it."""

    board: str
    example: str = ""
    mhz: int
    most: float = 1.0


EXAMPLES = Path(__file__).parent.parent / "examples" / "fpga"
DEVICES = {
    "tiny, one node with mirrors, iCE40UP5K": Device(board="icebreaker", mhz=24),
    "tiny, one node with mirrors, iCE40HX8K": Device(board="ice40_hx8k_b_evn", mhz=50),
    "4 NIs of medium and their tree, ECP5-85": Device(board="ulx3s_85f", example="medium4.toml", mhz=100),
    "16 NIs of small and their tree, ECP5-85": Device(board="ulx3s_85f", example="small16.toml", mhz=80, most=0.8),
}


def device(quick: bool) -> Iterator[Figure]:
    """Whole devices: bitstreams with a PLL, generators and checkers, one seed; an ECP5's takes an hour."""
    for name, wanted in list(DEVICES.items())[: 1 if quick else None]:
        say(f"device: {name} (Yosys, nextpnr)")
        system = load_config(EXAMPLES / wanted.example) if wanted.example else None
        # Of the board's own clock the PLL may not make the very frequency.
        mhz = Fraction(wanted.mhz) if system else None
        target = f"≥ {wanted.mhz} MHz" + (f", ≤ {wanted.most:.0%} of the device" if wanted.most < 1 else "")
        with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
            try:
                found = build(wanted.board, Path(scratch) / "out", system=system, mhz=mhz)
            except UnmetError as error:
                if error.report is None:
                    yield Figure(section="device", quantity=name, measured=str(error), target=target, met=False)
                    continue
                found = error.report
        room = ROOM[platform_for(wanted.board).device]
        shares = {cell: found.cells[cell][0] / room[cell] for cell in room}
        yield Figure(
            section="device",
            quantity=name,
            measured=f"{found.fmax:.0f} MHz; "
            + ", ".join(f"{found.cells[cell][0]:,} {cell} ({share:.0%})" for cell, share in shares.items()),
            target=target,
            met=found.fmax >= wanted.mhz and max(shares.values()) <= wanted.most,
        )
        yield Figure(section="device", quantity=f"{name}: slowest path", measured=_path(found.path))


def on_axi(quick: bool) -> Iterator[Figure]:
    """What AXI costs an NI of the preset medium, and the clock of the whole, as in `area`; with flow for one seed.

    (An NI with flow on AXI is in `nodes`.)

    The NI's clock is that of an NI alone, whose host port is not timed; on AXI the paths from its host port count,
    too.  With registers its reset and its link enable come from flip-flops, so there is a row of an NI alone of which
    they do.
    """
    medium = System.make(preset="medium")
    flow = System.make(preset="medium", flow={"ports": 16}, ni=OF_NI)
    blocks = {
        "AXI4-Streams of an NI, medium": Block(make=lambda: Streams(medium), without=()),
        "AXI4-Streams, store and forward": Block(make=lambda: Streams(medium, store=True), without=()),
        "registers of an NI, medium": Block(make=lambda: Registers(medium), registered=("bus",), without=()),
        "NI, medium, reset from a flip-flop": Block(
            make=lambda: Ni(medium), registered=("link_i", "node_reset", "link_enable")
        ),
        "NI on AXI4-Streams, medium": Block(make=lambda: StreamNi(medium), registered=("link_i",)),
        "NI on AXI, medium": Block(make=lambda: AxiNi(medium), registered=("link_i",)),
        "NI on AXI, store and forward, host clock": Block(
            make=lambda: AxiNi(medium, store=True, host_clock=True), registered=("link_i",)
        ),
    }
    with_flow = {
        "AXI4-Streams of an NI with flow, medium": Block(make=lambda: Streams(flow), without=()),
        "registers of an NI with flow, medium": Block(make=lambda: Registers(flow), registered=("bus",), without=()),
    }
    for name, block in list((blocks | with_flow).items())[: 1 if quick else None]:
        say(f"axi: {name} (Yosys, nextpnr)")
        found = block.size(seeds=1 if quick or name in with_flow else 3, aim=_aim(name))
        yield from _sized(name, found, section="axi")
        if crossed := [clocks["host_clk"] for clocks in found.domains if "host_clk" in clocks]:
            reached, (_, wanted) = statistics.median(crossed), GOALS[name]
            yield Figure(
                section="axi", quantity=f"{name}: the host's clock", measured=f"{reached:.0f} MHz",
                target=f"≥ {wanted} MHz", met=reached >= wanted,
            )  # fmt: skip


def nodes(quick: bool) -> Iterator[Figure]:
    """What an NI and its service take in one block, and the clock of the block for one seed.

    The block with relay is not placed: nextpnr's router had not ended after twenty minutes.
    """
    import relay_bench

    with_flow = _with_flow({"kind": "crossbar", "nodes": 16}, 32, 1.0)
    with_relay = relay_bench.system_of(3).replace(relay={"slots": 16})
    on_bus = System.make(preset="medium", flow={"ports": 16}, ni=OF_NI)
    blocks = {
        "NI and flow, 16 nodes, 16 ports": (_node(with_flow), 1),
        "NI with flow, on AXI, medium": (Block(make=lambda: AxiNi(on_bus), registered=("link_i",)), 1),
        "NI and relay, 64 nodes, 16 slots": (_node(with_relay), 0),
    }
    for name, (block, seeds) in list(blocks.items())[: 1 if quick else None]:
        say(f"nodes: {name} ({'Yosys, nextpnr' if seeds else 'Yosys'})")
        yield from _sized(name, block.size(seeds=seeds), section="nodes")


def _node(system: System) -> Block:
    """The node of a system with services, without its trace."""
    return Block(make=lambda: Node(system, watch=False), registered=("link_i",), without=())


#: Cycles after which queues are filled, and in which goodput is counted.
FILLED, COUNTED = 10_000, 40_000
# Cycles whose time is measured, and after which all peers are connected, and nearly all streams have begun.
TIMED, CONNECTED = 20_000, 400_000


def on_flow(quick: bool) -> Iterator[Figure]:
    """What flow costs in cells, in goodput, and in time of the golden model; what its users get (`flow_bench`)."""
    crossed = _with_flow({"kind": "crossbar", "nodes": 16}, 32, 1.0)
    block = Block(make=lambda: Flow(crossed, HostPort.of_ni(crossed), watch=False), without=())
    name = "flow, 16 nodes, 16 ports"
    say(f"flow: {name} (Yosys, nextpnr)")
    yield from _sized(name, block.size(seeds=1 if quick else 3, aim=_aim(name)), section="flow")
    yield from _under(crossed, name, "flow", quick)
    for loss, least in ((0.0, 0.43), (0.01, 0.42), (0.1, 0.36)):
        say(f"flow: a pair, loss {loss:.0%} (golden model)")
        found = _goodput(_with_flow({"kind": "wire"}, 32, 1.0).replace(faults={"loss": loss}))
        yield Figure(
            section="flow", quantity=f"a pair, both ways, 32 bytes, loss {loss:.0%}: flits per node and cycle",
            measured=f"{found:.3f}", target=f"≥ {least}", met=found >= least,
        )  # fmt: skip
    tree = {"kind": "tree", "arity": 4, "levels": 2}
    windows = ((FILLED, COUNTED, "most streams begin"), (CONNECTED, 5 * COUNTED, "all peers are connected"))
    for length, least in ((32, 0.83), (256, 0.95)):
        with_flow = _with_flow(tree, length, 1.0)
        bare = System.make(
            topology=tree, workload=asdict(with_flow.workload), ni={"slots": 16},
            wire={"mtu": length, "generation_bits": 16},
        )  # fmt: skip
        for after, cycles, state in windows:
            say(f"flow: 16 nodes saturated, {length} bytes, {state} (golden model)")
            ratios = sorted(
                _goodput(with_flow.replace(run={"seed": seed}), after, cycles)
                / _goodput(bare.replace(run={"seed": seed}), after, cycles)
                for seed in range(1, 3 if quick else 5)
            )
            ratio, judged = statistics.mean(ratios), after == CONNECTED
            yield Figure(
                section="flow",
                quantity=f"16 nodes saturated, {length} bytes, {state} (cycles {after:,} to {after + cycles:,}): "
                f"goodput beside that without flow, mean of {len(ratios)} seeds",
                measured=f"{ratio:.2f} ({ratios[0]:.3f} to {ratios[-1]:.3f})", target=f"≥ {least}" if judged else "",
                met=ratio >= least if judged else None,
            )  # fmt: skip
    import flow_bench

    say("flow: latency, control, isolation, fairness, credits (golden model)")
    for row in flow_bench.figures(quick):
        yield Figure(section="flow", **row._asdict())
    many = _with_flow({"kind": "tree", "arity": 4, "levels": 2 if quick else 3}, 32, 0.05)
    say("flow: speed (golden model)")
    _golden_seconds(many)
    connecting = min(_golden_seconds(many) for _ in range(5))
    golden = Golden(many)
    golden.run(CONNECTED)
    steady = min(_seconds_of(golden) for _ in range(5))
    for when, spent in (("cycles 1,000 to 21,000", connecting), (f"from cycle {CONNECTED:,} on", steady)):
        speed = many.nodes * TIMED / spent / 1e6
        yield Figure(
            section="flow",
            quantity=f"golden model, {many.nodes} nodes, load 0.05, {when}: node-cycles in a second of CPU time",
            measured=f"{speed:.1f} M", target="≥ 12 M", met=speed >= 12,
        )  # fmt: skip


def on_relay(quick: bool) -> Iterator[Figure]:
    """What relay costs in cells, and the golden model in time; what it promises (`relay_bench`)."""
    import relay_bench

    sized = relay_bench.system_of(3).replace(relay={"slots": 16})
    name = "relay, 64 nodes, 16 slots"
    say(f"relay: {name} (Yosys, nextpnr)")
    block = Block(make=lambda: Relay(sized, HostPort.of_ni(sized), watch=False), without=())
    bare = block.size(seeds=3, aim=_aim(name))
    yield from _sized(name, bare, section="relay")
    yield from _under(sized, name, "relay", quick)
    say(f"relay: {name}, with CRCs (Yosys)")
    checked = sized.replace(relay={"crc": True})
    block = Block(make=lambda: Relay(checked, HostPort.of_ni(checked), watch=False), without=())
    found = block.size().cells
    yield Figure(
        section="relay", quantity=f"{name}: with relay.crc",
        measured=", ".join(f"{bare.cells[key]:,} → {found[key]:,} {key}" for key in ("LUT4", "FF", "DP16KD")),
    )  # fmt: skip
    system = relay_bench.system_of(2 if quick else 3)
    found = {}
    for name, one in (("on", system), ("off", relay_bench.without_relay(system))):
        say(f"relay: speed with relay {name} (golden model)")
        found[name] = _golden_speed(one)
    yield Figure(
        section="relay", quantity=f"golden model, {system.nodes} nodes, load 0.02: node-cycles/s",
        measured=_rate(found["on"], system.nodes), target="≥ 8 M", met=found["on"] >= 8e6,
    )  # fmt: skip
    yield Figure(
        section="relay", quantity="the same beside that without relay, the messages datagrams of the NI",
        measured=f"{_rate(found['off'], system.nodes)} without: {found['on'] / found['off']:.2f}",
    )  # fmt: skip
    say("relay: recovery, messages, incast, a stalled destination, latency (golden model)")
    for row in relay_bench.figures(quick):
        yield Figure(section="relay", **row._asdict())


def _with_flow(topology: dict, length: int, load: float) -> System:
    return System.make(
        topology=topology, flow={"ports": 16}, ni=OF_NI | {"slots": 16},
        wire={"mtu": length + 8, "generation_bits": 16},
        workload={"load": load, "min_length": length, "max_length": length, "count": 0},
    )  # fmt: skip


def _goodput(system: System, after: int = FILLED, counted: int = COUNTED) -> float:
    """Flits of the user's bytes that arrive, per node and cycle, in ``counted`` cycles after the first ``after``."""
    golden = Golden(system)
    golden.run(after)
    before = golden.sums["received"].sum()
    golden.run(counted)
    flits = system.workload.max_length / system.format.flit_bytes
    return float(golden.sums["received"].sum() - before) * flits / system.nodes / counted


def _in_time(clocks: dict[str, float]) -> Iterator[Figure]:
    """What blocks take in ns at the clocks in MHz that were just measured: the cycles are those of `rates`."""
    ni = "NI, medium"
    steps = {
        "accepted to first flit": (QUEUED + SHOWN, clocks[ni]),
        "last flit in to Ack's first flit": (ACTS + QUEUED + SHOWN, clocks[ni]),
        "hop, mesh router, 32 bit": (LATENCY["mesh"], clocks["mesh router, 32 bit"]),
        "hop, tree router, medium": (LATENCY["tree"], clocks["tree router, medium"]),
    }
    for name, (cycles, mhz) in steps.items():
        ns, (cycles_before, mhz_before) = 1000 * cycles / mhz, BEFORE[name]
        yield Figure(
            section="area",
            quantity=f"{name}: before, and now",
            measured=f"{_in_ns(cycles_before, mhz_before)}; {_in_ns(cycles, mhz)}",
            target=f"≤ {MOST_NS[name]} ns",
            met=ns <= MOST_NS[name],
        )
    say("area: end to end (golden model)")
    system = System.make(router={"latency": LATENCY["tree"]}, workload={"load": 0.05, "count": 200})
    cycles = _end_to_end(system)
    mhz = min(clocks[ni], clocks["tree router, medium"])
    yield Figure(
        section="area",
        quantity="accepted to delivered, median, medium at load 0.05, one clock for all: before, and now",
        measured=f"{_in_ns(*BEFORE_END_TO_END)}; {_in_ns(cycles, mhz)}",
    )


def _end_to_end(system: System) -> int:
    """The median of the cycles from acceptance to delivery, in a run of the golden model until it has drained."""
    golden, ledger = Golden(system, record=True), RunLedger(system)
    golden.run(system.run.cycles, until_drained=True)
    ledger.append(golden.take_events())
    return ledger.percentile(0, 0.5)


def _in_ns(cycles: float, mhz: float) -> str:
    return f"{cycles:g} cycle{'' if cycles == 1 else 's'} of {mhz:.0f} MHz, {1000 * cycles / mhz:.0f} ns"


def _aim(name: str) -> int:
    """The clock in MHz that a block is to have, or 0."""
    return GOALS[name][1] if name in GOALS else 0


def _sized(name: str, found: Size, section: str = "area") -> Iterator[Figure]:
    """A block, its parts, and its slowest path with each seed."""
    goal, beside = GOALS.get(name), BESIDE.get(name)
    target = f"≤ {goal[0]:,} LUT4, ≥ {goal[1]} MHz" if goal else ""
    yield Figure(
        section=section,
        quantity=name,
        measured=_cells(found),
        target=" ".join(filter(None, (target, f"(beside {beside})" if beside else ""))),
        met=found.cells["LUT4"] <= goal[0] and found.reached >= goal[1] if goal else None,
        details=asdict(found)
        | {"clocks": found.clocks}
        | {name: getattr(found, name) for name in ("mhz", "aimed_mhz", "stepped_mhz")},
    )
    total = {column: sum(part[column] for part in found.parts.values()) for column in COLUMNS}
    large = {part: cells for part, cells in found.parts.items() if cells["LUT4"] >= LEAST_SHARE * total["LUT4"]}
    small = [cells for part, cells in found.parts.items() if part not in large]
    rows = dict(large)
    if small:
        rows[f"{len(small)} others"] = {column: sum(cells[column] for cells in small) for column in COLUMNS}
    for part, cells in rows.items() if len(found.parts) > 1 else ():
        yield Figure(
            section=section,
            quantity=f"{name}: {'itself' if part == 'top' else part}",
            measured=", ".join(
                f"{cells[column]:,} {column} ({cells[column] / total[column]:.0%})"
                for column in ("LUT4", "FF", "DP16KD", "DPR16X4")
                if cells[column]
            ),
        )
    for seed, path in enumerate(found.paths, 1):
        yield Figure(section=section, quantity=f"{name}: slowest path, seed {seed}", measured=_path(path))


def _under(system: System, name: str, section: str, quick: bool) -> Iterator[Figure]:
    """The NI under a service."""
    quantity = f"the NI under {name}"
    say(f"{section}: {quantity} (Yosys, nextpnr)")
    block = Block(make=lambda: Ni(system, watch=False), registered=("link_i",), without=())
    found = block.size(seeds=1 if quick else 3, aim=_aim(name))
    yield Figure(section=section, quantity=quantity, measured=_cells(found))
    for seed, path in enumerate(found.paths, 1):
        yield Figure(section=section, quantity=f"{quantity}: slowest path, seed {seed}", measured=_path(path))


def _path(path: SlowestPath) -> str:
    """A path in words: the registers at its ends, the blocks between, and where its time goes."""
    ends = [re.sub(r"^(core\.)+|_(TRELLIS|LUT4|PFUMX|CCU2C).*|\$DPRAM.*", "", end) for end in (path.start, path.end)]
    through = " → ".join("itself" if block == "top" else block for block in path.blocks)
    return (
        f"{ends[0]} to {ends[1]}, through {through}: {path.levels} levels, {path.logic + path.routing:.1f} ns "
        f"({path.logic:.1f} logic, {path.routing:.1f} routing)"
    )


def _cells(found: Size) -> str:
    """A size in words; what was not placed has no clock."""
    cells = found.cells
    comb, clock = (f" ({found.comb:,} COMB)", f", {found.mhz:.0f} MHz") if found.clocks else ("", "")
    clock += f", aimed {found.aimed_mhz:.0f} MHz" if found.aimed else ""
    clock += f", in smaller steps {found.stepped_mhz:.0f} MHz" if found.stepped else ""
    return (
        f"{cells['LUT4']:,} LUT4{comb}, {cells['FF']:,} FF, {cells['DP16KD']} DP16KD, {cells['DPR16X4']} DPR16X4{clock}"
    )


class PeerError(ValueError):
    """A file of peers that cannot be used; the message is ``file: peer: what is wrong; cure``."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A design of others: the text of its Verilog files by name, its top module, and what its parameters are set to."""

    top: str
    files: dict[str, str]
    parameters: dict[str, int]


def peers_of(path: Path) -> dict[str, Peer]:
    """The peers that a TOML file names: a table for each, with ``top``, ``files`` and, where wanted, ``parameters``.

    The files are relative to it, in the order in which they are read.  Raises `PeerError`.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PeerError(f"{path}: cannot be read: {error.strerror}; name a TOML file") from None
    except ValueError as error:
        raise PeerError(f"{path}: is not TOML: {error}; mend that line") from None
    found = {}
    for name, table in tables.items():
        if not isinstance(table, dict) or not table.keys() >= {"top", "files"} >= table.keys() - {"parameters"}:
            raise PeerError(f"{path}: {name}: is no peer; give it top, files and, where wanted, parameters")
        files = {}
        for number, file in enumerate(table["files"]):
            try:
                files[f"peer{number}.v"] = (path.parent / file).read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                raise PeerError(f"{path}: {name}: {file}: {error.strerror}; files are relative to {path}") from None
        found[name] = Peer(top=table["top"], files=files, parameters=table.get("parameters", {}))
    return found


def latency(quick: bool) -> Iterator[Figure]:
    """What `router.latency` buys: its registers cut the longest paths of a router without queues.

    With the sums of its counters connected.
    """
    mesh = System.make(topology={"kind": "mesh"}, wire={"flit_bits": 32})
    tree = System.make()
    # With the latency at which it is as fast as it has to be: the most LUT4, the least MHz.
    routers = (
        ("mesh router, 32 bit", mesh, 5, LATENCY["mesh"], *GOALS["mesh router, 32 bit"]),
        ("4-ary tree router, level 0, 64 bit", tree, 0, LATENCY["tree"], *GOALS["tree router, medium"]),
    )
    for name, system, number, fast, lut4, mhz in routers[: 1 if quick else None]:
        for cycles in (1, fast) if quick else range(1, STAGES + 1):
            say(f"latency: {name}, {cycles} cycles (Yosys, nextpnr)")
            rule = Rule.of(system.graph, number)
            router = Router(system.format, rule, cycles)
            found = size(
                router, registered=("i",), seeds=1 if quick else 3, without=("watch",), aim=mhz if cycles == fast else 0
            )
            yield Figure(
                section="latency",
                quantity=f"{name}, latency {cycles}",
                measured=_cells(found),
                target=f"≤ {lut4:,} LUT4, ≥ {mhz} MHz" if cycles == fast else "",
                met=found.cells["LUT4"] <= lut4 and found.reached >= mhz if cycles == fast else None,
            )


def queues(quick: bool) -> Iterator[Figure]:
    """What input queues cost a router on an ECP5, with a patience of 64 cycles.

    The clock is that of a router between others, whose output registers are its inputs; they are not counted.
    """
    mesh = System.make(topology={"kind": "mesh"}, wire={"flit_bits": 32})
    tree = System.make()
    routers = (("mesh router, 32 bit", mesh, 5), ("4-ary tree router, level 0, 64 bit", tree, 0))
    for name, system, number in routers[: 1 if quick else None]:
        for worms in (0, 1) if quick else (0, 1, 2, 4):
            say(f"queues: {name}, {worms} worms (Yosys, nextpnr)")
            rule = Rule.of(system.graph, number)
            router = Router(system.format, rule, queue=worms, max_wait=64)
            aim = 100 if system is mesh else 0
            found = size(router, registered=("i",), seeds=1, aim=aim)
            yield Figure(
                section="queues",
                quantity=f"{name}, queues for {worms} worms of {system.format.max_flits} flits",
                measured=_cells(found),
                target=f"≥ {aim} MHz" if aim else "",
                met=found.reached >= aim if aim else None,
            )


def pools(quick: bool) -> Iterator[Figure]:
    """What routers with pools cost on an ECP5, beside those with credits, at the latency of `LATENCY`.

    A tree router takes many minutes to place and route: it has one seed, and is not aimed.  That with 16 is on an
    LFE5U-85F.
    """
    mesh, tree = System.make(topology={"kind": "mesh"}, wire={"flit_bits": 32}), System.make()
    places = (("mesh router, 32 bit", mesh, 5), ("4-ary tree router, level 0, 64 bit", tree, 0))
    orders = ((8, "pinned", False, 0), (8, "any up-port", True, 0), (8, "any up-port, control first", True, 24))
    for name, system, number in places[: 1 if quick else None]:
        rule, worm = Rule.of(system.graph, number), system.format.max_flits
        climbing = system is tree
        for worms, order, climbs, first in (*(orders if climbing else orders[:1]), (16, "pinned", False, 0)):
            seeds = 1 if climbing or quick else 3
            say(f"pools: {name}, {worms} worms{f', {order}' * climbing} (Yosys, nextpnr)")
            cycles = LATENCY[system.topology.kind]
            router = Router(system.format, rule, cycles, pool=worms, climbs_freely=climbs, control_first=first)
            wanted = POOL_MHZ if worms == 8 else 0
            found = size(router, registered=("i",), seeds=seeds, aim=0 if climbing else wanted)
            yield Figure(
                section="pools",
                quantity=f"{name}, latency {cycles}, pool of {worms} worms of {worm} flits{f', {order}' * climbing}",
                measured=_cells(found),
                target=f"≥ {wanted} MHz" if wanted else "",
                met=found.reached >= wanted if wanted else None,
            )
        sinks = [
            link.source_port
            for link in system.graph.links
            if link.target_is_node and not link.source_is_node and link.source == number
        ]
        stages = (("decides in one cycle", 1, 0, 0), ("grants in a cycle of their own", 2, 0, 1),
                  ("routes and grants in cycles of their own", 3, 1, 1))  # fmt: skip
        for what, cycles, route, grant in stages[: 1 if quick else None]:
            say(f"pools: {name}, credits, {what} (Yosys, nextpnr)")
            router = CreditRouter(
                system.format, rule, worm, cycles, cycles, sinks, route_delay=route, grant_delay=grant
            )
            found = size(router, registered=("i",), seeds=1)
            yield Figure(
                section="pools",
                quantity=f"{name}, credits for {worm} flits at each input, {what}",
                measured=_cells(found),
            )


# One node that is away.


def silent(quick: bool) -> Iterator[Figure]:
    """What the others deliver while one node is away, its datagrams without a retry limit: by `timers.silent_after`."""
    cycles = 40_000 if quick else 400_000
    system = System.make(
        run={"cycles": 2 * cycles},
        topology={"kind": "tree", "arity": 4, "levels": 2 if quick else 3},
        ni={"slots": 4 if quick else 16},
        workload={"load": 0.05, "min_length": 32, "max_length": 32, "count": 0},
    )
    away, window = system.nodes // 2, cycles // 4
    gone = system.replace(faults={"absences": (Absence(node=away, start=1000, end=cycles),)})
    rates: dict[str, float] = {}
    for name, setting in (
        ("nobody is away", system),
        ("timers.silent_after = 0", gone),
        ("timers.silent_after = 8", gone.replace(timers={"silent_after": 8})),
    ):
        say(f"silent: {system.nodes} nodes, {cycles:,} cycles, {name}")
        golden = Golden(setting)
        golden.run(cycles - window)
        before = golden.counters[:, Counter.DELIVERED].sum() - golden.counters[away, Counter.DELIVERED]
        golden.run(window)
        after = golden.counters[:, Counter.DELIVERED].sum() - golden.counters[away, Counter.DELIVERED]
        rates[name] = 1000 * int(after - before) / window
        one_of = f"one of {system.nodes} nodes is away, " if setting is not system else f"{system.nodes} nodes, "
        yield Figure(
            section="silent",
            quantity=f"{one_of}{name}: datagrams delivered to the others per 1,000 cycles",
            measured=f"{rates[name]:,.0f}",
            target="≥ 0.95 of that" if len(rates) == 3 else "",
            met=rates[name] >= 0.95 * next(iter(rates.values())) if len(rates) == 3 else None,
        )


# Speed of the simulations.


def speed(quick: bool) -> Iterator[Figure]:
    """Node-cycles a second of the golden model, of Verilator and of Amaranth's simulator, on one system."""
    levels = 2 if quick else 3
    system = System.make(
        topology={"kind": "tree", "arity": 4, "levels": levels},
        workload={"load": 0.05, "min_length": 32, "max_length": 32, "count": 0},
    )
    nodes = system.nodes
    golden = {}
    for load in (0.05, 1.0):
        say(f"speed: golden model, {nodes} nodes, load {load:g}")
        golden[load] = rate = _golden_speed(system.replace(workload={"load": load}))
        yield Figure(
            section="speed",
            quantity=f"golden model, {nodes} nodes, {'saturated' if load == 1 else f'load {load:g}'}, node-cycles/s",
            measured=_rate(rate, nodes),
            # The target is for the 64 nodes of a full run at the low load.
            target="≥ 20 M" if load < 1 and not quick else "",
            met=rate >= 20e6 if load < 1 and not quick else None,
        )

    def beside(name: str, rate: float) -> Figure:
        return Figure(
            section="speed",
            quantity=f"{name}, the same {nodes} nodes, load 0.05, node-cycles/s",
            measured=f"{_rate(rate, nodes)}; golden model {golden[0.05] / rate:,.0f} times as fast",
        )

    say(f"speed: Amaranth's simulator, {nodes} nodes")
    yield beside("Amaranth's simulator", _amaranth_speed(system))
    say(f"speed: Verilator, {nodes} nodes: building it takes minutes the first time")
    text = verilog.emit(unwatched_system(system), "lethe_system")
    # Flat, 64 nodes are a hundred megabytes of C++.
    program = simulators.native(text, "lethe_system", hierarchical=nodes > 16)
    yield beside(f"Verilator in C++{', by module' if nodes > 16 else ''}", _native_speed(program, nodes))


def _rate(rate: float, nodes: int) -> str:
    words = f"{rate / 1e6:.1f} M" if rate >= 1e6 else f"{rate / 1e3:.2f} k"
    return f"{words} ({rate / nodes:,.0f} cycles/s)"


def _golden_speed(system: System) -> float:
    """Node-cycles a second after the model is compiled and its queues are filled: the median of five spans."""
    golden = Golden(system)
    golden.run(5000)
    cycles, found = 2000, []
    while len(found) < 5:
        started = time.process_time()
        golden.run(cycles)
        spent = time.process_time() - started
        if spent < 0.5:
            cycles *= 2
        else:
            found.append(cycles * system.nodes / spent)
    return sorted(found)[2]


def services(quick: bool) -> Iterator[Figure]:
    """What an idle stack costs the golden model: the same system with a loop and without, in pairs of runs."""
    system = System.make(
        topology={"kind": "tree", "arity": 4, "levels": 2 if quick else 3},
        workload={"min_length": 32, "max_length": 32, "count": 0},
    )
    pairs = 7 if quick else 21
    for load in (0.05, 1.0):
        without = system.replace(workload={"load": load})
        idle = without.replace(loop={"slots": 4})
        say(f"services: golden model, {system.nodes} nodes, load {load:g}, {pairs} pairs of runs")
        for compiled in (without, idle):
            _golden_seconds(compiled)
        ratios = sorted(_golden_seconds(without) / _golden_seconds(idle) for _ in range(pairs))
        median, low, high = (ratios[pairs * quarter // 4] for quarter in (2, 1, 3))
        yield Figure(
            section="services",
            quantity=f"speed with an idle loop beside without, {system.nodes} nodes, "
            f"{'saturated' if load == 1 else f'load {load:g}'}",
            measured=f"{median:.3f} (quartiles {low:.3f}, {high:.3f} of {pairs})",
            target="≥ 0.98",
            met=median >= 0.98,
        )


def _golden_seconds(system: System) -> float:
    """CPU time of some cycles after queues are filled."""
    golden = Golden(system)
    golden.run(1000)
    return _seconds_of(golden)


def _seconds_of(golden: Golden) -> float:
    """CPU time of the next cycles."""
    started = time.process_time()
    golden.run(TIMED)
    return time.process_time() - started


def _native_speed(program: Path, nodes: int) -> float:
    cycles, spent = 250, 0.0
    while spent < 2:
        cycles *= 4
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([str(program), str(cycles)], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cycles * nodes / spent


def _amaranth_speed(system: System) -> float:
    period = 1e-6
    sys.set_int_max_str_digits(0)  # the simulator writes masks as decimal text, and trace ports are wide
    simulator = Simulator(unwatched_system(system))
    simulator.add_clock(period)
    simulator.run_until(20.5 * period)
    cycles, started = 0, time.process_time()
    while time.process_time() - started < 5:
        cycles += 10
        simulator.run_until((20.5 + cycles) * period)
    return cycles * system.nodes / (time.process_time() - started)


# Traces.


def pipeline(quick: bool, events: int = 0) -> Iterator[Figure]:
    """Audit and comparison of a large trace on Spark, and how many times as long as DuckDB they take.

    ``events`` is the size of the trace, about; 0 stands for 5 million, or 300,000 if ``quick``.
    """
    import pipeline_bench  # only this section needs DuckDB

    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        left, right = Path(scratch) / "left.parquet", Path(scratch) / "right.parquet"
        wanted = events or (300_000 if quick else 5_000_000)
        say(f"pipeline: a run of about {wanted:,} events (golden model)")
        started = time.process_time()
        meta = pipeline_bench.write_trace(left, wanted)
        rate = meta.events / (time.process_time() - started)
        files = sorted(left.glob("*.parquet")) if left.is_dir() else [left]
        yield Figure(
            section="pipeline",
            quantity="events of the trace; files, bytes an event, events written per second of CPU time",
            measured=f"{meta.events:,}; {len(files)}, {sum(f.stat().st_size for f in files) / meta.events:.2f}, "
            f"{rate / 1e6:.2f} M",
        )
        yield from _beside_duckdb(pipeline_bench, "audit", meta.events, left)
        say("pipeline: a copy with one row changed")
        pipeline_bench.alter(left, right)
        yield from _beside_duckdb(pipeline_bench, "compare", meta.events, left, right)


def _beside_duckdb(bench, question: str, events: int, *traces: Path) -> Iterator[Figure]:
    costs = ("start", "seconds", "cpu", "memory")
    found = {}
    for engine in ("duckdb", "spark"):
        say(f"pipeline: {question} ({engine})")
        found[engine] = bench.measure(engine, question, *traces)
    spark, duckdb = found["spark"], found["duckdb"]
    answers = [{name: value for name, value in answer.items() if name not in costs} for answer in (spark, duckdb)]
    yield Figure(
        section="pipeline",
        quantity=f"{question}: Spark and DuckDB agree",
        measured="yes" if answers[0] == answers[1] else f"no: {answers[0]} and {answers[1]}",
        target="yes",
        met=answers[0] == answers[1],
    )
    # In a large trace the cost of starting Spark's tasks matters less, so the target is stricter.
    most = {"audit": 3 if events >= 50_000_000 else 6}.get(question) if events >= 5_000_000 else None
    for name, unit in (("seconds", "s"), ("cpu", "s of CPU time")):
        bound = most if name == "seconds" else None
        yield Figure(
            section="pipeline",
            quantity=f"{question}: Spark, DuckDB, ratio",
            target="" if bound is None else f"≤ {bound}",
            met=None if bound is None else spark[name] <= bound * duckdb[name],
            measured=f"{spark[name]:.1f} {unit}, {duckdb[name]:.1f} {unit}, {spark[name] / duckdb[name]:.1f}"
            + (f" (without {spark['start']:.1f} s to start a session)" if name == "seconds" else ""),
        )
    yield Figure(
        section="pipeline",
        quantity=f"{question}: most memory held, Spark (driver and JVM), DuckDB",
        measured=f"{spark['memory'] / 2**20:,.0f} MB, {duckdb['memory'] / 2**20:,.0f} MB",
    )


_SWEEP = """\
replicas = {replicas}
warmup = 2000
window = 60000
base = {{ topology.levels = 3, workload.count = 0, run.cycles = 100000 }}
axes = {{ workload.load = [0.05, 0.1, 0.2, 1.0] }}
"""


def sweep(quick: bool) -> Iterator[Figure]:
    """A sweep with one worker between two with two, from the command to its tables.

    The speed of a machine may change meanwhile, so what share of two workers' time went into runs is told as well.
    """
    runs = 4 * (5 if quick else 60)
    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        plan = Path(scratch) / "load.toml"
        plan.write_text(_SWEEP.format(replicas=runs // 4))
        seconds: dict[int, list[float]] = {1: [], 2: []}
        shares = []
        for workers in (2, 1, 2):
            say(f"sweep: {runs} runs, {workers} at a time")
            store = Store(plan.with_name("results"))
            shutil.rmtree(store.root, ignore_errors=True)
            arguments = (str(plan), "-o", str(store.root), "--workers", str(workers), "--no-report")
            command = [sys.executable, "-m", "lethe_sim.cli", "sweep", *arguments]
            before = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            seconds[workers].append(time.monotonic() - before)
            if done.returncode:
                raise ToolError(f"lethe sweep failed: {done.stderr.strip()}")
            if workers == 2:
                inside = sum(store.read_run(path.stem).seconds for path in store.root.glob("runs/*.parquet"))
                shares.append(inside / workers / seconds[workers][-1])
    one, two = seconds[1][0], sum(seconds[2]) / 2
    yield Figure(
        section="sweep",
        quantity=f"{runs} runs of 64 nodes, 2 workers, 1 worker, 2 workers; parallel efficiency",
        measured=f"{seconds[2][0]:.0f} s, {one:.0f} s, {seconds[2][1]:.0f} s; {one / 2 / two:.2f}",
        target="≥ 0.9",
        met=one / 2 / two >= 0.9,
    )
    yield Figure(
        section="sweep",
        quantity="share of two workers' time, from the command to the tables, that was spent in runs",
        measured=", ".join(f"{share:.2f}" for share in shares),
    )


SECTIONS: dict[str, Callable[..., Iterator[Figure]]] = {
    "rates": rates,
    "slots": slots,
    "options": options,
    "silent": silent,
    "speed": speed,
    "services": services,
    "area": area,
    "device": device,
    "axi": on_axi,
    "flow": on_flow,
    "relay": on_relay,
    "nodes": nodes,
    "latency": latency,
    "queues": queues,
    "pools": pools,
    "pipeline": pipeline,
    "sweep": sweep,
}


def table(figures: list[Figure]) -> str:
    """The figures as a Markdown table whose columns also align as text."""
    verdict = {True: "yes", False: "**no**", None: ""}
    rows = [("section", "quantity", "measured", "target", "met")]
    rows += [(f.section, f.quantity, f.measured, f.target, verdict[f.met]) for f in figures]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=SECTIONS, help="this section; may be repeated")
    parser.add_argument("--quick", action="store_true", help="smaller systems and fewer cycles")
    parser.add_argument("--events", type=int, default=0, metavar="N", help="pipeline: size of the trace, about")
    parser.add_argument(
        "--peers",
        type=Path,
        metavar="FILE",
        help="area: a TOML of others' designs, a table for each: top, files, parameters",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    chosen = parser.parse_args(arguments)
    figures = []
    try:
        if chosen.peers:
            peers_of(chosen.peers)
        for name in chosen.only or SECTIONS:
            # One by one: what was measured before a tool is missed is kept.
            more = {"pipeline": {"events": chosen.events}, "area": {"peers": chosen.peers}}.get(name, {})
            for figure in SECTIONS[name](chosen.quick, **more):
                figures.append(figure)
    except PeerError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except (ToolError, verilog.VerilogError, BuildError) as error:
        print(f"bench: {error}", file=sys.stderr)
        if figures:
            print(table(figures))
        return 3
    except KeyboardInterrupt:
        say("interrupted")
        print(table(figures))
        return 130
    print(table(figures))
    if chosen.json:
        machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        found = {"machine": machine | {"load": os.getloadavg()[0]}, "figures": [asdict(f) for f in figures]}
        chosen.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

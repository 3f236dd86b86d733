"""Waveforms of an NI on AXI, from a run of its RTL: what the timing diagrams of the documents show.

Two NIs on a wire without faults exchange a few datagrams, and software reads and writes a register of one of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.sim import Simulator

from lethe.bus.ni import AxiNi
from lethe.spec.axi import AxiStream, axi_streams
from lethe.spec.config import System
from lethe.spec.registers import RegisterMap

__all__ = ["SYSTEM", "Waves", "record"]

#: An NI with a control pair and few slots, so that a host soon has to wait for one.
SYSTEM = System.make(topology={"kind": "wire"}, ni={"slots": 3, "control_slots": 1, "control_classes": 1}, hosted=False)
#: Cycles from one part of the run to the next: all that was sent is over by then.
APART = 120
_STEP = SYSTEM.format.flit_bytes
_HIGHEST = (1 << SYSTEM.format.class_bits) - 1
#: What is offered when: (part, stream, the letters and lengths in bytes of datagrams right behind each other).
OFFERED = (
    (1, "s_axis_send", (("a", 24), ("b", 16))),
    (2, "s_axis_send", (("c", 8), ("d", 8), ("e", 8), ("f", 16))),
    (3, "s_axis_send", (("g", 13), ("h", 16))),
    (4, "s_axis_send", (("i", 0), ("k", 8))),
    (5, "s_axis_send_control", (("m", 13),)),
)
#: Cycles that a host pauses before each beat, by (whether it is the other's, stream) and part.
PAUSES = {(True, "deliver"): {3: [1, 2]}, (False, "completion"): {1: [2]}}


@dataclass(frozen=True)
class Waves:
    """What ports carried, cycle by cycle: of ``near``, which sends, and ``far``, which takes.

    ``values`` are by side and port, for example ``values["near", "s_axis_send_tdata"]``.
    """

    values: dict[tuple[str, str], list[int]]

    def part(self, side: str, names: list[str], *, first: str, number: int = 1, cycles: int, before: int = 1) -> dict:
        """{port: values} from ``before`` cycles before the cycle in part ``number`` in which ``first`` becomes 1."""
        start = self.values[side, first].index(1, number * APART) - before
        return {name: self.values[side, name][start : start + cycles] for name in names}

    @staticmethod
    def field(axis: AxiStream, port: str, name: str, values: list[int]) -> list[int]:
        """A field of a port of a stream."""
        layout = data.StructLayout(dict(axis.fields[port]))[name]
        return [value >> layout.offset & ((1 << layout.width) - 1) for value in values]


def word(letter: str, beat: int, length: int) -> int:
    """A beat of a datagram: its bytes are the letter and the number of the beat, those behind its length are 0."""
    whole = bytes([ord(letter), beat] * (_STEP // 2))
    return int.from_bytes(whole[: max(0, length - beat * _STEP)], "little")


class _Pair(wiring.Component):
    def __init__(self):
        self.near, self.far = (AxiNi(SYSTEM, watch=False, dump=False) for _ in range(2))
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.near, m.submodules.far = self.near, self.far
        for number, (ni, other) in enumerate([(self.near, self.far), (self.far, self.near)]):
            m.d.comb += [ni.node.eq(number), ni.seed.eq(number + 1), ni.link_i.eq(other.link_o)]
        return m


def record() -> Waves:
    """Run the two NIs."""
    pair = _Pair()
    near, far = pair.near, pair.far
    streams = {axis.name: axis for axis in axi_streams(SYSTEM)}
    watched = dict(_ports("near", near, streams)) | dict(_ports("far", far, streams))
    found: dict[tuple[str, str], list[int]] = {name: [] for name in watched}
    parts = max(part for part, _, _ in OFFERED) + 2

    async def clock(ctx):
        for _ in range(parts * APART):
            _, _, *values = await ctx.tick().sample(*watched.values())
            for kept, value in zip(found.values(), values, strict=True):
                kept.append(int(value))

    async def sender(ctx):
        now = 0

        async def wait(until):
            nonlocal now
            await ctx.tick().repeat(until - now)
            now = until

        for part, name, datagrams in OFFERED:
            await wait(part * APART)
            port, axis = getattr(near, name), streams[name]
            user = data.View(data.StructLayout(dict(axis.user)), port.tuser)
            for letter, length in datagrams:
                beats = max(1, -(-length // _STEP))
                ctx.set(port.tdest, 1)
                ctx.set(user, {"length": length, "tag": ord(letter), "cls": _HIGHEST if "control" in name else 0})
                for beat in range(beats):
                    ctx.set(port.tdata, word(letter, beat, length))
                    ctx.set(port.tlast, beat == beats - 1)
                    ctx.set(port.tvalid, 1)
                    ready = 0
                    while not ready:
                        _, _, ready = await ctx.tick().sample(port.tready)
                        now += 1
            ctx.set(port.tvalid, 0)

    async def software(ctx):
        await ctx.tick().repeat((parts - 1) * APART)
        bus, registers = near.s_axil, RegisterMap(SYSTEM, dump=False)
        ctx.set(bus.araddr, registers["IDENTITY"].address)
        ctx.set(bus.arvalid, 1)
        ctx.set(bus.rready, 1)
        await ctx.tick().until(bus.arready)
        ctx.set(bus.arvalid, 0)
        await ctx.tick().until(bus.rvalid)
        ctx.set(bus.rready, 0)
        await ctx.tick().repeat(10)
        ctx.set(bus.awaddr, registers["CONTROL"].address)
        ctx.set(bus.wdata, registers["CONTROL"].pack(LINK_ENABLE=1))
        ctx.set(bus.wstrb, 0xF)
        for valid in (bus.awvalid, bus.wvalid, bus.bready):
            ctx.set(valid, 1)
        await ctx.tick().until(bus.awready & bus.wready)
        ctx.set(bus.awvalid, 0)
        ctx.set(bus.wvalid, 0)
        await ctx.tick().until(bus.bvalid)
        ctx.set(bus.bready, 0)

    def taker(port, pauses: dict[int, list[int]]):
        """A host that takes what comes; in some parts it pauses before a beat, and then before the next."""

        async def take(ctx):
            for cycle in range((parts - 1) * APART):
                left = pauses.get(cycle // APART, [])
                ctx.set(port.tready, not left or not left[0])
                _, _, valid = await ctx.tick().sample(port.tvalid)
                if valid and left:
                    left[:1] = [left[0] - 1] if left[0] else []

        return take

    simulator = Simulator(pair)
    simulator.add_clock(1e-8)
    simulator.add_testbench(clock)
    simulator.add_testbench(sender)
    simulator.add_testbench(software)
    for ni in (near, far):
        for name, axis in streams.items():
            if axis.to_ni:
                continue
            pauses = PAUSES.get((ni is far, axis.port), {})
            simulator.add_testbench(taker(getattr(ni, name), {part: list(cycles) for part, cycles in pauses.items()}))
    simulator.run()
    return Waves(found)


def _ports(side: str, ni: AxiNi, streams) -> Iterator[tuple[tuple[str, str], object]]:
    for name, axis in streams.items():
        for port in axis.ports:
            yield (side, f"{name}_{port}"), getattr(getattr(ni, name), port)
    for name in ni.s_axil.signature.members:
        yield (side, f"s_axil_{name}"), getattr(ni.s_axil, name)

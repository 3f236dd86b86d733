"""A router with input queues in Amaranth's simulator, beside that of the third implementation; traffic for it."""

import random
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from amaranth.hdl import Cat, Module, Signal, Value

from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.spec.config import System, parse
from lethe.spec.events import ROUTER_COUNTED, Event, RouterCounter
from lethe.spec.toml import dump
from lethe.spec.topology import NOWHERE
from lethe.spec.trace import HEAD
from lethe.spec.wire import KIND_BITS
from tests.helpers.simulated import Simulated
from tests.third import derived, fabric

SIZES = {
    "crossbar": {"nodes": 4},
    "fly": {"arity": 2, "levels": 3},
    "tree": {"arity": 2, "levels": 3},
    "mesh": {"columns": 3, "rows": 3},
}


def system(kind: str, *, wire: dict | None = None, **topology) -> System:
    """A small system with worms of up to seven flits, or of another ``wire``."""
    return System.make(
        topology={"kind": kind, **SIZES[kind], **topology},
        wire=wire or {"flit_bits": 16, "mtu": 4, "generation_bits": 4, "incarnation_bits": 1},
        ni={"slots": 4},
        timers={"wrap_guard": 0},
        workload={"min_length": 4, "max_length": 4},
    )


class Flit(NamedTuple):
    first: bool
    last: bool
    data: int

    @property
    def bits(self) -> int:
        """The flit as it is on a link."""
        return 1 | self.first << 1 | self.last << 2 | self.data << 3


class Reference:
    """The third implementation's router ``number``, with queues for ``worms`` worms and the patience ``max_wait``."""

    def __init__(self, configured: System, number: int, worms: int, max_wait: int):
        numbers = derived.read(dump(configured))
        numbers.section["router"] |= {"queue": worms, "max_wait": max_wait}
        self.router = fabric.QueuedRouter(numbers, fabric.Shape(numbers), number)

    def step(self, arriving: list[Flit | None]) -> tuple[list[Flit | None], list[tuple[int, int, int]], list[int]]:
        """One cycle: what enters each output's register, (event, detail, head's data) per lane, and the counters."""
        flits = [fabric.Flit(1, *flit) if flit else fabric.GAP for flit in arriving]
        counts = [0] * len(RouterCounter)
        for state, back, flit in zip(self.router.inputs, self.router.backs, flits, strict=True):
            shown = back.queue.output or (flit if back.presents(flit) else fabric.GAP)
            # A head ends a worm without an event for it.
            counts[RouterCounter.FRAGMENT] += state.output is not None and shown.first
        lanes = [
            (word & 0xFF, word >> 8 & 0xFF, word >> HEAD.shift & (1 << HEAD.bits) - 1)
            for word in self.router.step(flits)
        ]
        for counter, event in ROUTER_COUNTED.items():
            counts[counter] += sum(seen == event for seen, _, _ in lanes)
        passing = [Flit(*flit[1:]) if flit.valid else None for flit in self.router.pipeline[-1]]
        return passing, lanes, counts


def word(lane: tuple[int, int, int]) -> int:
    """A lane as its trace word."""
    event, detail, data = lane
    return event | detail << 8 | data << HEAD.shift


@cache
def _router(
    toml: str, number: int, latency: int, worms: int, max_wait: int
) -> tuple[Simulated, Router, Signal, Signal]:
    """Router ``number`` in a simulator; all it is fed, and all it shows, each as one value."""
    configured = parse(toml)
    wire, rule = configured.format, Rule.of(configured.graph, number)
    m = Module()
    m.submodules.dut = dut = Router(wire, rule, latency, worms, max_wait)
    fed, shown = (Signal(rule.ports * (3 + wire.flit_bits)) for _ in range(2))
    m.d.comb += [
        Cat(Value.cast(port) for port in dut.i).eq(fed),
        shown.eq(Cat(Value.cast(port) for port in dut.o)),
    ]
    return Simulated(m), dut, fed, shown


class Bench:
    """RTL and reference of router ``number``, fed with the same flits.

    `Bench.play` raises AssertionError, with the last cycles, when they part.
    """

    def __init__(self, configured: System, number: int, worms: int, max_wait: int, latency: int = 1):
        self.wire, self.graph, self.number = configured.format, configured.graph, number
        self.rule = Rule.of(self.graph, number)
        self.ports, self.latency = self.rule.ports, latency
        self.reference = Reference(configured, number, worms, max_wait)
        # Traffic for the same router is played in the same simulator.
        self._simulated, self.dut, self._fed, self._shown = _router(dump(configured), number, latency, worms, max_wait)
        self.name = f"{self.graph.kind} router {number}, queue {worms}, max_wait {max_wait}"

    def play(self, traffic: Iterator[list[Flit | None]]) -> list[tuple[list, list]]:
        """(flits that enter the outputs' registers, lanes) of each cycle."""
        played = []
        width = 3 + self.wire.flit_bits
        dut, fed, shown = self.dut, self._fed, self._shown
        bits = Router.count_bits(self.rule)

        async def testbench(ctx):
            ctx.set(dut.seed, self.reference.router.chance)
            ctx.set(dut.position, self.rule.position(self.number))
            if Router.pins(self.rule, 1, self.wire):
                ctx.set(dut.salt, self.reference.router.salt)
            pipeline = [0] * self.latency
            counted = [0, 0]
            for cycle, flits in enumerate(traffic):
                ctx.set(fed, sum(flit.bits << i * width for i, flit in enumerate(flits) if flit))
                passing, lanes, counts = self.reference.step(flits)
                found = ctx.get(dut.watch), ctx.get(shown), ctx.get(dut.counts)
                wanted = (
                    sum(word(lane) << 64 * i for i, lane in enumerate(lanes)),
                    pipeline[0],
                    counted.pop(0),
                )
                played.append((passing, lanes))
                if found != wanted:
                    raise AssertionError(self._report(cycle, flits, lanes, found, wanted))
                pipeline.append(sum(flit.bits << o * width for o, flit in enumerate(passing) if flit))
                pipeline.pop(0)
                counted.append(sum(count << bits * i for i, count in enumerate(counts)))
                await ctx.tick()

        self._simulated.run(testbench)
        return played

    def _report(self, cycle, flits, lanes, found, wanted) -> str:
        width = 3 + self.wire.flit_bits
        lines = [f"{self.name}: they part in cycle {cycle}, fed {flits}"]
        for i in range(2 * self.ports):
            rtl, contract = (each[0] >> 64 * i & (1 << 64) - 1 for each in (found, wanted))
            if rtl != contract:
                lines.append(f"lane {i}: {Event(rtl & 0xFF).name} {rtl:#x}, contract {lanes[i]} {contract:#x}")
        for o in range(self.ports):
            rtl, contract = (each[1] >> width * o & (1 << width) - 1 for each in (found, wanted))
            if rtl != contract:
                lines.append(f"output {o}: {rtl:#x}, contract {contract:#x}")
        lines.append(f"counts: {found[2]:#x}, contract {wanted[2]:#x}")
        return "\n".join(lines)


def head(wire, to: int, *, last: bool = False, kind: int = 1, source: int = 0, slot: int = 0, above: int = 0) -> Flit:
    """A head with the first header fields, and ``above`` in the bits above them."""
    b = wire.node_bits
    data = kind | (to | source << b | slot << 2 * b | above << 2 * b + wire.slot_bits) << KIND_BITS
    return Flit(True, last, data & (1 << wire.flit_bits) - 1)


def body(data: int, *, last: bool = False) -> Flit:
    return Flit(False, last, data)


def worm(wire, to: int, length: int, number: int = 0, **fields) -> list[Flit]:
    """A whole worm; each flit after the head carries ``number`` and its place."""
    flits = [head(wire, to, last=length == 1, above=number, **fields)]
    return flits + [body((number << 4 | i) & 0xFFFF, last=i == length - 1) for i in range(1, length)]


def hostile(chance: random.Random, wire, nodes: int, favoured: list[int], gap: float) -> Iterator[Flit | None]:
    """One input's flits: mostly legal worms, alone and in bursts, of all lengths, and everything else that can come."""
    while True:
        kind = chance.random()
        to = chance.choice(favoured) if chance.random() < 0.93 else chance.randrange(1 << wire.node_bits)
        fields = {"kind": chance.randrange(8), "source": chance.randrange(nodes), "slot": chance.randrange(4)}
        length = chance.choice([1, 1, chance.randint(1, wire.max_flits), wire.max_flits])
        flits: list[Flit | None] = list(worm(wire, to, length, chance.randrange(1 << 10), **fields))
        if kind < 0.08:  # cut by a gap, or by the next head
            flits = flits[: chance.randint(1, length)]
            flits[-1] = flits[-1]._replace(last=False)
        elif kind < 0.14:  # too long, ended with and without `last`
            flits[-1] = flits[-1]._replace(last=False)
            flits += [body(chance.getrandbits(16)) for _ in range(chance.randint(1, 2 * wire.max_flits))]
            flits[-1] = flits[-1]._replace(last=chance.random() < 0.5)
        elif kind < 0.18:  # of no worm
            flits = [body(chance.getrandbits(16), last=chance.random() < 0.3) for _ in range(chance.randint(1, 4))]
        elif kind < 0.22:  # a gap within
            flits.insert(chance.randint(1, length), None)
        yield from flits
        while chance.random() < gap:
            yield None


def together(chance: random.Random, bench: Bench) -> Iterator[list[Flit | None]]:
    """All inputs' flits; load and favoured destinations of each change now and then."""
    wire, graph = bench.wire, bench.graph
    while True:
        spots = chance.sample(range(graph.nodes), chance.choice([1, 2, graph.nodes]))
        inputs = []
        for port in range(bench.ports):
            routable = [to for to in range(graph.nodes) if graph.route(bench.number, port, to) != NOWHERE] or [0]
            favoured = [to for to in routable if to in spots] or routable
            inputs.append(hostile(chance, wire, graph.nodes, favoured, chance.choice([0.0, 0.3, 0.8, 0.97])))
        for _ in range(chance.randint(20, 150)):
            yield [next(flits) for flits in inputs]

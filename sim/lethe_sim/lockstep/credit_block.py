"""The RTL router with credits beside one router of the reference, between neighbours that obey, but not regularly."""

import random
from collections.abc import Iterator

from amaranth.hdl import Cat, Value

from lethe.fabric.credits import CreditRouter
from lethe.fabric.routes import Rule
from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.pin import salt_for
from lethe.spec.topology import NOWHERE
from lethe.spec.wire import KIND_BITS
from lethe_sim.golden import blocks as golden
from lethe_sim.golden.blocks import Flit

from . import divergence
from .blocks import Block, Span, flit_field, pack, slices
from .hostile import GAP, flits

__all__ = ["CreditRouterBlock"]


class CreditRouterBlock(Block):
    """Router ``number`` of a system with credits; ``route_delay`` and ``grant_delay`` as of `CreditRouter`."""

    def __init__(self, system: System, number: int, *, route_delay: int = 0, grant_delay: int = 0):
        self._system, self._number = system, number
        self._delays = {"route_delay": route_delay, "grant_delay": grant_delay}
        self._rule = Rule.of(system.graph, number)
        self._bits, self._ports = system.format.flit_bits, system.graph.ports(number)
        self._pins = CreditRouter.pins(self._rule, system.format)
        self._sinks = [
            link.source_port
            for link in system.graph.links
            if link.target_is_node and not link.source_is_node and link.source == number
        ]
        self.inputs = self._ports * (3 + self._bits) + self._rule.position_bits + self._ports + 16 * self._pins
        base = system.layout.router_base(number)
        self.outputs = (
            *(Span(f"output {port}", 3 + self._bits) for port in range(self._ports)),
            *(Span(f"input {port}", trace.WORD_BITS, self._say(base + port)) for port in range(self._ports)),
            Span("credits back", self._ports, bin),
        )

    def _say(self, index: int):
        return lambda word: divergence.describe_word(self._system.layout, index, word)

    def build(self, m, name, i, o):
        router = self._system.router
        m.submodules[name] = dut = CreditRouter(
            self._system.format, self._rule, router.credit_flits, router.latency, router.credit_delay, self._sinks,
            **self._delays,
        )  # fmt: skip
        *links, position, returned, salt = slices(
            i, *[3 + self._bits] * self._ports, self._rule.position_bits, self._ports, 16 * self._pins
        )
        if self._pins:
            m.d.comb += dut.salt.eq(salt)
        m.d.comb += [
            *(Value.cast(port).eq(flit) for port, flit in zip(dut.i, links, strict=True)),
            dut.position.eq(position),
            dut.credits.eq(returned),
            o.eq(Cat(*(Value.cast(port) for port in dut.o), dut.watch, dut.back)),
        ]

    def play(self, seed):
        system, number = self._system.replace(run={"seed": seed}), self._number
        model = golden.CreditRouter(system, number, sinks=self._sinks, **self._delays)
        position = self._rule.position(number), self._rule.position_bits
        salt = (salt_for(seed), 16) if self._pins else (0, 0)
        chance = random.Random(f"{seed} credits")
        heard = [self._worms(random.Random(f"{seed} {port}"), port) for port in range(self._ports)]
        free = [system.router.credit_flits] * self._ports  # what each input still has room for
        owed = [0] * self._ports  # by those behind an output
        pace = 0.5
        while True:
            if chance.random() < 0.02:
                pace = chance.choice((0.0, 0.1, 0.5, 1.0))
            links = [next(worm) if room else GAP for worm, room in zip(heard, free, strict=True)]
            returned = [int(debt > 0 and chance.random() < pace) for debt in owed]
            shown, words, back = model.step(links, returned)
            self.reached = model.waits
            yield (
                pack(
                    *(flit_field(flit, self._bits) for flit in links),
                    position,
                    *((bit, 1) for bit in returned),
                    salt,
                ),
                pack(
                    *(flit_field(flit, self._bits) for flit in shown),
                    *((word, trace.WORD_BITS) for word in words),
                    *((bit, 1) for bit in back),
                ),
            )
            for port in range(self._ports):
                free[port] += back[port] - links[port].valid
                if port not in self._sinks:
                    owed[port] += shown[port].valid - returned[port]

    def _worms(self, chance: random.Random, port: int) -> Iterator[Flit]:
        """What one input hears where it has room: worms to all nodes that it leads to, in bursts and with pauses."""
        form, graph = self._system.format, self._system.graph
        nodes = [node for node in range(graph.nodes) if graph.route(self._number, port, node) != NOWHERE]
        busy, hot = 0.5, 0
        while True:
            if chance.random() < 0.1:
                busy, hot = chance.choice((0.1, 0.5, 0.9, 1.0)), chance.randrange(graph.nodes)
            if not nodes or chance.random() > busy:
                yield from [GAP] * chance.randrange(1, 8)
            if not nodes:
                continue
            to = hot if hot in nodes and chance.random() < 0.5 else chance.choice(nodes)
            length = chance.choice((1, 1, 2, 3, chance.randrange(1, form.max_flits + 1), form.max_flits))
            words = [chance.getrandbits(form.flit_bits) for _ in range(length)]
            words[0] = words[0] & ~(((1 << form.node_bits) - 1) << KIND_BITS) | to << KIND_BITS
            for flit in flits(words):
                while chance.random() > max(busy, 0.3):
                    yield GAP
                yield flit

    def seen(self, output):
        words = output >> self._ports * (3 + self._bits)
        back = words >> trace.WORD_BITS * self._ports
        passing = [words >> trace.WORD_BITS * port & 0xFF for port in range(self._ports)]
        return [Event(event).name for event in passing if event] + ["credit"] * back.bit_count()

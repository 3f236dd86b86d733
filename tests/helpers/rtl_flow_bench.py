"""A bench of nodes with flow for Amaranth's simulator: hosts with scripts, a wire that can lose, and trace events."""

import random
from collections import deque
from dataclasses import dataclass, field

from amaranth.hdl import Module
from amaranth.sim import Simulator

from lethe.services.stack import Node
from lethe.spec import trace
from lethe.spec.config import System
from lethe.spec.events import Event
from lethe.spec.random import UNIT_NI, seed_for
from lethe.spec.sections.flow import OF_NI
from lethe.spec.services.flow import FLOW

FLIT = ("valid", "first", "last", "data")


def flow_system(**sections) -> System:
    """Two nodes over a wire, four ports of four cells; other keys as given."""
    given: dict[str, dict] = {
        "topology": {"kind": "wire"},
        "flow": {"ports": 4, "cells": 4, "in_order": 2, "watch": 512},
        "wire": {"mtu": 40},
        "ni": OF_NI | {"slots": 8, "control_slots": 2},
    }
    merged = {name: given.get(name, {}) | sections.get(name, {}) for name in given | sections}
    return System.make(hosted=False, **merged)


@dataclass
class FlowHost:
    """The host of a node: what it is to send, and what it has got."""

    offers: deque = field(default_factory=deque)  # (record, payload)
    beats: deque = field(default_factory=deque)
    delivered: list = field(default_factory=list)  # (record, payload)
    completions: list = field(default_factory=list)
    accepted: list = field(default_factory=list)  # (slot, generation, tag)
    notices: list = field(default_factory=list)  # (peer, up, map)
    answers: list = field(default_factory=list)
    sets: deque = field(default_factory=deque)  # (code, index, value)
    cancels: deque = field(default_factory=deque)  # (slot, generation)
    mask: int = 0xFFFF
    pause: float = 0.0
    record: dict | None = None
    payload: bytearray = field(default_factory=bytearray)

    def send(self, destination: int, payload: bytes, *, sport: int = 0, dport: int = 0, **record) -> None:
        self.offers.append(
            ({"destination": destination, "sport": sport, "dport": dport, "length": len(payload), **record}, payload)
        )


class FlowBench:
    """Nodes 0 and 1; ``lost(node, number, cycle)`` says whether a node's number-th worm is lost."""

    def __init__(self, system: System, *, lost=None, seed: int = 1):
        self.system, self.form = system, system.format
        self.lost = lost or (lambda node, number, cycle: False)
        self.random = random.Random(seed)
        self.nodes = [Node(system) for _ in range(2)]
        self.hosts = [FlowHost() for _ in self.nodes]
        self.events: list[list[tuple]] = [[] for _ in self.nodes]  # (cycle, event, detail, peer, length, extra)
        self.idle = [0, 0]
        self.cycle, self.resets = 0, {}  # node: (first cycle of its reset, first cycle behind it)
        self.boots, self._worms, self._swallow = [0, 0], [0, 0], [False, False]
        self._flow = trace.WORD_BITS * system.layout.ni_words
        m = Module()
        for i, node in enumerate(self.nodes):
            m.submodules[f"node{i}"] = node
        self.simulator = Simulator(m)
        self.simulator.add_clock(1e-6)

    def run(self, cycles: int, *, until=None, each=None) -> bool:
        """Runs until ``until()``, at most so many cycles; ``each(cycle)`` is called at the start of each."""
        result = []

        async def process(ctx):
            for i, node in enumerate(self.nodes):
                ctx.set(node.node, i)
                ctx.set(node.seed, seed_for(self.system.run.seed, UNIT_NI, i))
                ctx.set(node.link_enable, 1)
            for cycle in range(cycles):
                self.cycle = cycle
                if each is not None:
                    each(cycle)
                for i, node in enumerate(self.nodes):
                    first, last = self.resets.get(i, (-1, -1))
                    self.boots[i] += cycle == first
                    ctx.set(node.boot, self.boots[i])
                    ctx.set(node.incarnation, self.boots[i] + 1)
                    ctx.set(node.node_reset, first <= cycle < last)
                    ctx.set(node.service_reset, first <= cycle < last)
                flits = []
                for i, node in enumerate(self.nodes):
                    flit = ctx.get(node.link_o)
                    flit = {name: flit[name] for name in FLIT}
                    if flit["valid"] and flit["first"]:
                        self._swallow[i] = self.lost(i, self._worms[i], cycle)
                        self._worms[i] += 1
                    flits.append(flit if not self._swallow[i] else dict.fromkeys(FLIT, 0))
                for node, flit in zip(self.nodes, reversed(flits), strict=True):
                    ctx.set(node.link_i, flit)
                for node, host in zip(self.nodes, self.hosts, strict=True):
                    self._drive(ctx, node.host, host)
                for i, (node, host) in enumerate(zip(self.nodes, self.hosts, strict=True)):
                    self._observe(ctx, i, node, host)
                if until is not None and until():
                    result.append(True)
                    return
                await ctx.tick()

        self.simulator.add_testbench(process)
        self.simulator.run()
        return bool(result)

    def seen(self, node: int, *events: Event) -> list[tuple]:
        return [found for found in self.events[node] if found[1] in events]

    def all_idle(self) -> bool:
        waits = any(host.offers or host.beats or host.record for host in self.hosts)
        return not waits and all(self.idle)

    def _willing(self, host: FlowHost) -> bool:
        return self.random.random() >= host.pause

    def _drive(self, ctx, port, host: FlowHost) -> None:
        def offer(stream, waiting, payload):
            ctx.set(stream.valid, bool(waiting))
            if waiting:
                ctx.set(stream.payload, payload(waiting[0]))

        offer(port.send, host.offers if not host.beats else (), lambda found: found[0])
        offer(port.send_data, host.beats, lambda found: found)
        offer(port.set, host.sets, lambda f: dict(zip(("code", "index", "value"), f, strict=True)))
        offer(port.cancel, host.cancels, lambda f: dict(zip(("slot", "generation"), f, strict=True)))
        ctx.set(port.receive_mask, host.mask & (1 << self.system.flow.ports) - 1)
        ctx.set(port.completion.ready, self._willing(host))
        ctx.set(port.notice.ready, self._willing(host))
        ctx.set(port.deliver.ready, host.record is None and self._willing(host))
        ctx.set(port.deliver_data.ready, host.record is not None and self._willing(host))

    def _observe(self, ctx, i: int, node, host: FlowHost) -> None:
        port = node.host
        words = [ctx.get(node.watch) >> self._flow >> 64 * w & trace.MASK64 for w in range(FLOW.words)]
        for lane in range(len(FLOW.lanes)):
            if word := words[2 * lane]:
                fields = (trace.DETAIL, trace.PEER, trace.LENGTH, trace.EXTRA)
                self.events[i].append((self.cycle, Event(trace.EVENT.of(word)), *(f.of(word) for f in fields)))
        self.idle[i] = words[FLOW.flags] >> FLOW.flag_bits.index("idle") & 1

        def taken(stream):
            return ctx.get(stream.valid) and ctx.get(stream.ready)

        def values(payload):
            return {name: payload[name] for name in payload.shape().members}

        if taken(port.send_data):
            host.beats.popleft()
        if taken(port.send):
            _, payload = host.offers.popleft()
            size = self.form.flit_bytes
            host.beats += [
                int.from_bytes(payload[at : at + size], "little")
                | (1 << 8 * size) - (1 << 8 * len(payload[at : at + size]))
                for at in range(0, len(payload), size)
            ]
        if taken(port.set):
            answer = ctx.get(port.answer)
            assert answer.valid
            host.answers.append((host.sets.popleft(), answer.error))
        if taken(port.cancel):
            host.cancels.popleft()
        accepted = ctx.get(port.accepted)
        if accepted.valid:
            host.accepted.append((accepted.slot, accepted.generation, accepted.tag))
        if taken(port.completion):
            host.completions.append(values(ctx.get(port.completion.payload)))
        if taken(port.notice):
            notice = ctx.get(port.notice.payload)
            host.notices.append((notice.peer, notice.up, notice.map))
        if taken(port.deliver_data):
            beat = ctx.get(port.deliver_data.payload)
            host.payload += beat.data.to_bytes(self.form.flit_bytes, "little")
            if beat.last:
                assert host.record is not None
                length = host.record["length"]
                assert not any(host.payload[length:])
                host.delivered.append((host.record, bytes(host.payload[:length])))
                host.record, host.payload = None, bytearray()
        if taken(port.deliver):
            record = values(ctx.get(port.deliver.payload))
            if record["length"]:
                host.record = record
            else:
                host.delivered.append((record, b""))

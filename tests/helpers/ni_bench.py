"""A bench of NIs for Amaranth's simulator: hosts, a lossy link, and the watch words as events."""

import random
from collections import deque
from dataclasses import dataclass, field

from amaranth.hdl import Module
from amaranth.sim import Simulator

from lethe.ni.ni import Ni
from lethe.spec.events import Event
from lethe.spec.random import UNIT_NI, seed_for
from lethe.spec.trace import LANES, NI_FLAG_BITS, NI_FLAGS, NI_TAKES, WORD_BITS
from lethe.spec.wire import unpack_uid

PERIOD = 1e-6


@dataclass(frozen=True)
class Seen:
    """One event of a watch lane."""

    cycle: int
    lane: int
    event: Event
    detail: int
    peer: int
    length: int
    extra: int
    uid: int

    @property
    def slot(self) -> int:
        return unpack_uid(self.uid)[2]

    @property
    def generation(self) -> int:
        return unpack_uid(self.uid)[3]


def words_of(value: int) -> list[int]:
    mask = (1 << WORD_BITS) - 1
    return [value >> i * WORD_BITS & mask for i in range(NI_TAKES)]


def seen_in(cycle: int, value: int) -> list[Seen]:
    """The events in one NI's watch words."""
    words, events = words_of(value), []
    for lane in range(LANES):
        word, uid = words[2 * lane : 2 * lane + 2]
        if word & 0xFF:
            events.append(
                Seen(
                    cycle, lane, Event(word & 0xFF), word >> 8 & 0xFF, word >> 16 & 0xFFFF, word >> 32 & 0xFFFF,
                    word >> 48, uid,
                )
            )  # fmt: skip
        else:
            assert word == 0 and uid == 0, (cycle, lane, hex(word), hex(uid))
    return events


def flags_of(value: int) -> dict[str, int]:
    flags = value >> NI_FLAGS * WORD_BITS
    return {name: flags >> i & 1 for i, name in enumerate(NI_FLAG_BITS)}


@dataclass
class Host:
    """One NI's host: what it sends, what it got, and how unwilling it is."""

    offers: deque = field(default_factory=deque)  # (record fields, payload bytes)
    delivered: list = field(default_factory=list)  # (source, class, payload bytes)
    completions: list = field(default_factory=list)
    accepted: list = field(default_factory=list)
    pause: float = 0.0  # chance to stall each port in a cycle
    closed: bool = False  # deliver port does not take at all


class Bench:
    """NIs 0 … n−1 of a system; ``link(cycle, flits)`` maps what they send to what they receive.

    The default link of two NIs is a wire that may lose whole worms.  ``make`` makes an NI, or what has its ports.
    """

    def __init__(self, system, *, loss=0.0, seed=1, link=None, nodes=2, make=Ni):
        self.system, self.form = system, system.format
        self.random = random.Random(seed)
        self.loss = loss
        self.link = link or self._wire
        self.nis = [make(system) for _ in range(nodes)]
        self.hosts = [Host() for _ in self.nis]
        self.events = [[] for _ in self.nis]
        self.cycle = 0
        self.swallow = [False] * nodes
        self.hooks = []  # called with (bench, ctx) at the start of each cycle
        self.flags = [{} for _ in self.nis]
        m = Module()
        for i, ni in enumerate(self.nis):
            m.submodules[f"ni{i}"] = ni
        self.simulator = Simulator(m)
        self.simulator.add_clock(PERIOD)

    def _wire(self, cycle, flits):
        out = []
        for i, flit in enumerate(flits):
            if flit["valid"] and flit["first"]:
                self.swallow[i] = self.random.random() < self.loss
            kept = flit["valid"] and not self.swallow[i]
            out.append(flit if kept else {"valid": 0, "first": 0, "last": 0, "data": 0})
        return out[::-1]

    def run(self, cycles=20000, *, until=None):
        """Runs until ``until(bench)`` or for ``cycles`` cycles; returns whether ``until`` came true."""
        result = []

        async def process(ctx):
            states = [{"beats": deque(), "payload": bytearray(), "record": None} for _ in self.nis]
            for i, ni in enumerate(self.nis):
                ctx.set(ni.node, i)
                ctx.set(ni.seed, seed_for(self.system.run.seed, UNIT_NI, i))
                ctx.set(ni.incarnation, 1)
                ctx.set(ni.link_enable, 1)
            for cycle in range(cycles):
                self.cycle = cycle
                for hook in self.hooks:
                    hook(self, ctx)
                flits = []
                for ni in self.nis:
                    flit = ctx.get(ni.link_o)
                    flits.append({name: flit[name] for name in ("valid", "first", "last", "data")})
                for ni, flit in zip(self.nis, self.link(cycle, flits), strict=True):
                    ctx.set(ni.link_i, flit)
                for ni, host, state in zip(self.nis, self.hosts, states, strict=True):
                    self._drive(ctx, ni, host, state)
                for i, (ni, host, state) in enumerate(zip(self.nis, self.hosts, states, strict=True)):
                    self._observe(ctx, i, ni, host, state)
                if until is not None and until(self):
                    result.append(True)
                    return
                await ctx.tick()

        self.simulator.add_testbench(process)
        self.simulator.run()
        return bool(result)

    def _willing(self, host):
        return self.random.random() >= host.pause

    def _drive(self, ctx, ni, host, state):
        offer = bool(host.offers) and (state["beats"] or state.get("offering") or self._willing(host))
        step = self.form.flit_bytes
        data = bool(state["beats"]) and self._willing(host)
        ctx.set(ni.host.send_data.valid, int(data))
        if data:
            ctx.set(ni.host.send_data.payload, state["beats"][0])
        offer = offer and not state["beats"]
        ctx.set(ni.host.send.valid, int(offer))
        state["offering"] = offer
        if offer:
            record, payload = host.offers[0]
            ctx.set(ni.host.send.payload, {"length": len(payload), **record})
        taking = not host.closed and self._willing(host)
        in_record = state["record"] is not None
        ctx.set(ni.host.deliver.ready, int(taking and not in_record))
        ctx.set(ni.host.deliver_data.ready, int(taking and in_record))
        ctx.set(ni.host.completion.ready, int(self._willing(host)))
        state["step"] = step

    def _observe(self, ctx, i, ni, host, state):
        watch = ctx.get(ni.watch)
        self.events[i] += seen_in(self.cycle, watch)
        self.flags[i] = flags_of(watch)
        if ctx.get(ni.host.send_data.valid) and ctx.get(ni.host.send_data.ready):
            state["beats"].popleft()
        if ctx.get(ni.host.send.valid) and ctx.get(ni.host.send.ready):
            _, payload = host.offers.popleft()
            step = self.form.flit_bytes
            noise = (1 << 8 * step) - 1
            for at in range(0, len(payload), step):
                piece = payload[at : at + step]
                beat = int.from_bytes(piece, "little") | (noise << 8 * len(piece) & noise)
                state["beats"].append(beat)
        if ctx.get(ni.host.accepted.valid):
            accepted = ctx.get(ni.host.accepted)
            host.accepted.append((accepted["slot"], accepted["generation"], accepted["tag"]))
        if ctx.get(ni.host.completion.valid) and ctx.get(ni.host.completion.ready):
            entry = ctx.get(ni.host.completion.payload)
            host.completions.append({name: entry[name] for name in ("tag", "status", "cause", "slot", "generation")})
        if ctx.get(ni.host.deliver_data.valid) and ctx.get(ni.host.deliver_data.ready):
            beat = ctx.get(ni.host.deliver_data.payload)
            state["payload"] += beat["data"].to_bytes(self.form.flit_bytes, "little")
            if beat["last"]:
                source, cls, length = state["record"]
                assert not any(state["payload"][length:])
                host.delivered.append((source, cls, bytes(state["payload"][:length])))
                state["record"], state["payload"] = None, bytearray()
        if ctx.get(ni.host.deliver.valid) and ctx.get(ni.host.deliver.ready):
            record = ctx.get(ni.host.deliver.payload)
            if record["length"]:
                state["record"] = record["source"], record["cls"], record["length"]
            else:
                host.delivered.append((record["source"], record["cls"], b""))

    def kinds(self, node, *events):
        """The events of a node, of these kinds if any are given."""
        return [e for e in self.events[node] if not events or e.event in events]

    def idle(self):
        return all(flags["idle"] for flags in self.flags)

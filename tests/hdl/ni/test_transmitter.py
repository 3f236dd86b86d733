"""Transmitter, send table and payload store beside what the cycle contract says of a grant (4.2, 4.3, 4.5)."""

import random
from collections import defaultdict, deque
from dataclasses import dataclass, field

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.sim import Simulator

from lethe.ni.payload_store import PayloadStore
from lethe.ni.send_table import SendTable
from lethe.ni.transmitter import Transmitter
from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.events import Cause, Event, Kind, Status
from tests.helpers.tiers import but

NODE, INCARNATION = 2, 3
#: Cycles of the walk, after which the bench begins.
BEGINS = 8


def system(flit_bits: int = 64, mtu: int = 24, **sections) -> System:
    return System.make(
        topology={"kind": "crossbar", "nodes": 4},
        wire={"flit_bits": flit_bits, "mtu": mtu, "generation_bits": 2, "incarnation_bits": 4},
        ni={"slots": 4, **sections.pop("ni", {})},
        timers={"wrap_guard": 0, "backoff_steps": 2, **sections.pop("timers", {})},
        workload={"min_length": 4, "max_length": 4},
        **sections,
    )


SYSTEMS = {
    "default": system(),
    "16 bit": system(16),
    "32 bit": system(32, timers={"jitter_bits": 3}),
    "128 bit": system(128, 64, ni={"reject": True}),
    "control slots": system(ni={"control_slots": 1, "control_classes": 1}),
    "measured": system(timers={"ceiling": 5000, "jitter_bits": 2}),
    "silent": system(timers={"silent_after": 3}),
    "merge": system(128, 48, ni={"merge_bits": 60}),
    "merge into 16 bit": system(16, ni={"merge_bits": 16}),
}


@dataclass
class Life:
    """One datagram in its slot."""

    generation: int
    fields: dict
    payload: bytes
    accepted: int | None = None
    ended: int | None = None

    def live(self, cycle: int, known: int = 1) -> bool:
        """Whether it is live at the start of ``cycle``, for who knows of acceptances ``known`` cycles old."""
        begun = self.accepted is not None and self.accepted + known <= cycle
        return begun and (self.ended is None or self.ended >= cycle)


@dataclass
class Expected:
    """What must be seen in which cycle; what is not named is 0."""

    link: dict = field(default_factory=dict)
    shown: dict = field(default_factory=dict)
    push: dict = field(default_factory=dict)
    merge: dict = field(default_factory=dict)
    flying: dict = field(default_factory=dict)
    judged: dict = field(default_factory=dict)


class Bench:
    """Drives the three units as their neighbours would, and worse; raises AssertionError where they differ."""

    def __init__(self, configured: System, seed: int):
        self.system, self.form, self.draw = configured, configured.format, random.Random(seed)
        self.expected = Expected()
        self.lives: dict[int, Life] = {}
        self.judgements = defaultdict(list)  # cycles in which an entry of the slot was judged
        self.free_from = defaultdict(int)
        self.filling: tuple[int, deque] | None = None
        self.queues = {name: deque() for name in ("replies", "repeats", "news", "controls")}
        self.granted: tuple[int, str, dict] | None = None  # (g, queue, entry) that waits for its judgement
        self.next_grant, self.rests_from = BEGINS, BEGINS
        self.finish: dict | None = None
        self.finish_from = 0
        self.held_from = 0  # the granted slot can be free, and its holder another
        self.merges = {}  # by the cycle in which word and mask come
        self.looks: deque[tuple] = deque([(0, None, False)] * 5, 5)  # (slot, whose row, if launched), by cycles ago
        self.counts = defaultdict(int)

    def play(self, cycles: int) -> dict[str, int]:
        """How often each thing happened."""
        m = Module()
        m.submodules.dut = self.dut = dut = Transmitter(self.system)
        m.submodules.table = self.table = table = SendTable(self.system)
        m.submodules.payloads = self.payloads = payloads = PayloadStore(self.system)
        wiring.connect(m, dut.peek, table.peek)
        wiring.connect(m, dut.payload, payloads.read)
        wiring.connect(m, dut.judged, table.judged)
        self.silent, self.probed = Signal(self.system.nodes), Signal(self.system.nodes)
        if self.system.timers.silent_after:
            m.d.comb += [
                dut.judge.silent.eq(self.silent.bit_select(dut.judge.node, 1)),
                dut.judge.probed.eq(self.probed.bit_select(dut.judge.node, 1)),
            ]

        async def testbench(ctx):
            ctx.set(dut.node, NODE)
            ctx.set(dut.incarnation, INCARNATION)
            for slot in range(BEGINS):
                ctx.set(table.clear.valid, slot < self.system.ni.slots)
                ctx.set(table.clear.index, slot % self.system.ni.slots)
                await ctx.tick()
            time, jitter, wait = self.draw.getrandbits(self.system.time_bits), 0, (0, 0)
            for cycle in range(BEGINS, BEGINS + cycles):
                open_, room = self.draw.random() < 0.95, self.draw.random() < 0.9
                ctx.set(dut.open, open_)
                ctx.set(dut.push.room, room)
                ctx.set(dut.time_base, time)
                ctx.set(dut.jitter, jitter)
                if self.system.measured:
                    ctx.set(dut.wait.delay, 100 + 7 * wait[0] + 1000 * wait[1])
                ctx.set(self.silent, self.draw.getrandbits(self.system.nodes))
                ctx.set(self.probed, self.draw.getrandbits(self.system.nodes))
                self._merge(ctx, cycle)
                self._accept(ctx, cycle)
                self._look(ctx, cycle)
                self._feed(ctx, cycle)
                rests = cycle >= max(self.next_grant, self.rests_from)
                assert ctx.get(dut.resting) == rests, cycle
                self._judge(ctx, cycle, jitter)
                self._grant(ctx, cycle, open_, room)
                self._finish(ctx, cycle)
                self._check(ctx, cycle, time)
                if self.system.measured:
                    wait = ctx.get(dut.wait.distance), ctx.get(dut.wait.step)
                if ctx.get(dut.push.valid):
                    jitter = self.draw.getrandbits(self.system.timers.jitter_bits)
                time = (time + open_) % (1 << self.system.time_bits)
                await ctx.tick()

        simulator = Simulator(m)
        simulator.add_clock(1e-6)
        simulator.add_testbench(testbench)
        simulator.run()
        return self.counts

    # The host's side: what accept writes.

    def _accept(self, ctx, cycle):
        table, payloads, draw = self.table, self.payloads, self.draw
        for port in (table.store, table.begin, payloads.write):
            ctx.set(port.valid, 0)
        if self.filling is None:
            slots = [s for s in range(self.system.ni.slots) if self.free_from[s] <= cycle]
            if not slots or draw.random() < 0.3:
                return
            slot = draw.choice(slots)
            old = self.lives.get(slot)
            generation = (old.generation + 1) % (1 << self.form.generation_bits) if old else 0
            refused, best = draw.random() < 0.2, draw.random() < 0.15
            length = draw.choice([0, draw.randint(1, 8), draw.randint(1, self.system.wire.mtu)])
            fields = {
                "generation": generation,
                "destination": draw.choice([n for n in range(4) if n != NODE]),
                "cls": draw.getrandbits(self.form.class_bits),
                "best_effort": best and not refused,
                "refused": refused,
                "cause": Cause.LENGTH if refused else 0,
                "length": length,
                "expect": draw.getrandbits(4),
            }
            self.lives[slot] = life = Life(generation, fields, draw.randbytes(length))
            self.free_from[slot] = 1 << 60
            ctx.set(table.store.valid, 1)
            ctx.set(table.store.slot, slot)
            ctx.set(table.store.fields, fields)
            step = self.form.flit_bytes
            beats = [int.from_bytes(life.payload[i : i + step], "little") for i in range(0, length, step)]
            self.filling = slot, deque(enumerate(beats))
        else:
            slot, beats = self.filling
            if draw.random() < 0.1:
                return
            beat, flit = beats.popleft()
            ctx.set(payloads.write.valid, 1)
            ctx.set(payloads.write.slot, slot)
            ctx.set(payloads.write.beat, beat)
            ctx.set(payloads.write.flit, flit)
        slot, beats = self.filling
        if not beats:
            life, self.filling = self.lives[slot], None
            life.accepted = cycle
            ctx.set(table.begin.valid, 1)
            ctx.set(table.begin.slot, slot)
            ctx.set(table.begin.phase, ~life.generation & 1)
            kind = "controls" if self._control(slot) else "news"
            self.queues[kind].append((cycle + 2, {"slot": slot, "generation": life.generation}))

    def _control(self, slot: int) -> bool:
        return slot >= self.system.ni.slots - self.system.ni.control_slots

    # The action's side: rows that are looked at, and what ends.

    def _look(self, ctx, cycle):
        table, slot = self.table, self.draw.randrange(self.system.ni.slots)
        ctx.set(table.look.slot, slot)
        life = self.lives.get(slot)
        live = life if life and life.live(cycle) else None
        self.looks.appendleft((slot, live, self._launched(slot, life, cycle - 1)))
        _, live, launched = self.looks[2]
        row = ctx.get(table.look.row)
        assert row["live"] == bool(live), cycle
        if live:
            assert row["launched"] == launched, cycle
        ctx.set(table.end.valid, 0)
        if self.draw.random() < 0.06:
            slot, life, _ = self.looks[4]
            if life and life.live(cycle, stages.ACCEPT_ACTS):
                launched = self._launched(slot, life, cycle)
                self.counts["ended launched" if launched else "ended unlaunched"] += 1
                ctx.set(table.end.valid, 1)
                ctx.set(table.end.slot, slot)
                ctx.set(table.end.phase, ~life.generation & 1)
                ctx.set(table.end.launched, launched)
                life.ended = cycle
                self.free_from[slot] = cycle + 2 * stages.QUEUED + self.draw.choice([0, 0, 1, 5])

    def _launched(self, slot: int, life: Life | None, cycle: int) -> bool:
        if life is None or life.accepted is None:
            return False
        judged = [*self.judgements[slot]]
        if self.granted:
            grant, queue, entry = self.granted
            # A judgement of this very cycle is noted below.
            if queue != "repeats" and entry["slot"] == slot and grant + stages.JUDGED == cycle:
                judged.append(cycle)
        return any(life.accepted + stages.ACCEPT_JUDGED <= j <= cycle for j in judged)

    # The queues.

    def _feed(self, ctx, cycle):
        draw, rungs = self.draw, self.system.rungs
        slots = range(self.system.ni.slots)
        if draw.random() < 0.3 / self.form.control_flits and len(self.queues["replies"]) < 2:
            reply = {name: draw.getrandbits(4) for name in ("incarnation", "peer_incarnation")}
            reply |= {"forget": draw.getrandbits(1), "destination": draw.randrange(4), "slot": draw.choice(slots)}
            reply |= {"generation": draw.getrandbits(2), "try": draw.getrandbits(self.form.try_bits)}
            if self.system.ni.reject:
                reply["reject"] = not reply["forget"] and draw.getrandbits(1)
            self.queues["replies"].append((cycle, reply))
        if draw.random() < 0.1 and len(self.queues["repeats"]) < 3:
            slot = draw.choice(slots)
            generation = self.lives[slot].generation if slot in self.lives else 0
            if draw.random() < 0.2:
                generation = draw.getrandbits(2)
            entry = {"slot": slot, "generation": generation, "tries": draw.choice([1, 2, 255])}
            self.queues["repeats"].append((cycle, entry | {"rung": draw.randrange(rungs)}))
        for name, queue in self.queues.items():
            if not hasattr(self.dut, name):
                continue
            ready = bool(queue) and queue[0][0] <= cycle
            ctx.set(getattr(self.dut, name).valid, ready)
            if ready:
                ctx.set(getattr(self.dut, name).payload, queue[0][1])

    # The contract.

    def _grant(self, ctx, cycle, open_, room):
        offered = {name: bool(queue) and queue[0][0] <= cycle for name, queue in self.queues.items()}
        empty, chosen = self.finish is None or cycle < self.finish_from, None
        if open_ and cycle >= self.next_grant:
            if offered["replies"]:
                chosen = "replies"
            elif room and offered["controls"] and empty:
                chosen = "controls"
            elif room and offered["repeats"]:
                chosen = "repeats" if empty or not self.system.timers.silent_after else None
            elif room and offered["news"] and empty:
                chosen = "news"
        for name in self.queues:
            if hasattr(self.dut, name):
                taken = offered[name] and ctx.get(getattr(self.dut, name).ready)
                assert taken == (name == chosen), (cycle, name, chosen)
        if chosen is None:
            return
        _, entry = self.queues[chosen].popleft()
        if chosen == "replies":
            kind = Kind.FORGET if entry["forget"] else Kind.REJECT if entry.get("reject") else Kind.ACK
            event = {Kind.FORGET: Event.FORGET, Kind.REJECT: Event.REJECT, Kind.ACK: Event.ACK}[kind]
            header = {name: entry[name] for name in ("destination", "slot", "generation", "incarnation", "try")}
            header |= {"kind": kind, "source": NODE, "peer_incarnation": entry["peer_incarnation"]}
            self._send(cycle, self.form.flits(header))
            self.next_grant = cycle + self.form.control_flits
            source = NODE if entry["forget"] else entry["destination"]
            self.expected.shown[cycle + stages.SHOWN] = {
                "event": event, "tries": 0, "source": source, "incarnation": entry["incarnation"],
                "slot": entry["slot"], "generation": entry["generation"], "peer": entry["destination"], "length": 0,
            }  # fmt: skip
        else:
            self.granted, self.held_from = (cycle, chosen, entry), cycle + 2 + 2 * stages.QUEUED
            self.next_grant = cycle + 3
            if self.system.ni.merge_bits:
                tries = entry["tries"] if chosen == "repeats" else 0
                self.expected.merge[cycle + 1] = {
                    "slot": entry["slot"], "generation": entry["generation"], "tries": tries,
                }  # fmt: skip
        self.counts[chosen] += 1

    def _judge(self, ctx, cycle, jitter):
        if self.granted is None or self.granted[0] + stages.JUDGED != cycle:
            return
        (grant, queue, entry), self.granted = self.granted, None
        slot, new, tries = entry["slot"], queue != "repeats", entry.get("tries", 0)
        life = self.lives.get(slot)
        if life and not life.live(cycle, stages.ACCEPT_JUDGED):
            life = None
        if new:
            self.judgements[slot].append(cycle)
            if life:
                self.expected.judged[cycle] = (slot, ~life.generation & 1)
        fields = life.fields if life else {}
        alone = life and (fields["refused"] or fields["best_effort"])
        shown = {
            "tries": 0, "source": NODE, "incarnation": INCARNATION, "slot": slot, "generation": entry["generation"],
            "peer": 0, "length": 0,
        }  # fmt: skip
        if not life or life.generation != entry["generation"] or (not new and alone):
            self.expected.shown[grant + stages.SHOWN] = {"event": Event.KILLED, **shown}
            self.counts["killed"] += 1
            return
        ends = {"slot": slot, "generation": entry["generation"]}
        if fields["refused"]:
            self.finish = ends | {"status": Status.REJECTED, "cause": fields["cause"]}
            self.finish_from = cycle + 1
            self.counts["refused"] += 1
            return
        if self.system.timers.silent_after and ctx.get(self.silent) >> fields["destination"] & 1:
            probes = new and not fields["best_effort"] and not ctx.get(self.probed) >> fields["destination"] & 1
            if not probes:
                status = Status.NEVER_SENT if new else Status.UNKNOWN
                self.finish, self.finish_from = ends | {"status": status, "cause": Cause.SILENT}, cycle + 1
                self.counts["muted"] += 1
                return
            self.counts["probes"] += 1
        best, length = fields["best_effort"], fields["length"]
        header = {
            "kind": Kind.BE if best else Kind.SEND, "destination": fields["destination"], "source": NODE, "slot": slot,
            "generation": entry["generation"], "incarnation": INCARNATION, "peer_incarnation": fields["expect"],
            "try": tries % (1 << self.form.try_bits), "length": length, "class": fields["cls"], "mode": best,
        }  # fmt: skip
        payload = life.payload
        if self.system.ni.merge_bits and length:
            self.counts["merged"] += 1
            payload = self._merged(grant + 4, payload)
        flits = self.form.flits(header, payload)
        self._send(grant, flits)
        self.next_grant = max(grant + len(flits), grant + 3)
        for at in range(self.held_from, grant + len(flits) + 1):
            self.expected.flying[at] = slot
        self.expected.shown[grant + stages.SHOWN] = shown | {
            "event": Event.BE if best else Event.SEND, "tries": tries, "peer": fields["destination"], "length": length,
        }  # fmt: skip
        if best:
            self.finish, self.finish_from = ends | {"status": Status.UNKNOWN, "cause": Cause.BEST_EFFORT}, cycle + 1
        else:
            rung = 0 if new else entry["rung"]
            delay = self.system.delays[rung]
            if self.system.measured:
                # The bench's own: the delay less one.
                delay = 101 + 1000 * (0 if new else max(0, rung - self.system.graph.distance_classes + 1))
            token = {"slot": slot, "generation": entry["generation"], "tries": tries}
            self.expected.push[grant + stages.PUSHED] = (token, rung, delay + jitter)
        self.counts["sent"] += 1

    def _send(self, grant: int, flits: list[int]) -> None:
        for i, flit in enumerate(flits):
            self.expected.link[grant + stages.SHOWN + i] = (1, i == 0, i == len(flits) - 1, flit)
        self.rests_from = max(self.rests_from, grant + len(flits) + stages.SHOWN)

    def _merged(self, cycle: int, payload: bytes) -> bytes:
        """The payload with word and mask of ``cycle``, drawn here, in its first flit."""
        bits = self.system.ni.merge_bits
        word, mask = self.draw.getrandbits(bits), self.draw.getrandbits(bits)
        self.merges[cycle] = word, mask
        inside = min(8 * len(payload), self.form.flit_bits)
        mask &= (1 << inside) - 1
        value = int.from_bytes(payload, "little")
        return (value & ~mask | word & mask).to_bytes(len(payload), "little")

    def _merge(self, ctx, cycle):
        if bits := self.system.ni.merge_bits:
            word, mask = self.merges.pop(cycle, (self.draw.getrandbits(bits), self.draw.getrandbits(bits)))
            ctx.set(self.dut.merge_word, word)
            ctx.set(self.dut.merge_mask, mask)

    def _finish(self, ctx, cycle):
        shown = self.finish if self.finish and cycle >= self.finish_from else {}
        assert ctx.get(self.dut.finish.valid) == bool(shown), cycle
        payload = ctx.get(self.dut.finish.payload)
        assert {name: payload[name] for name in shown} == shown, cycle
        take = bool(shown) and self.draw.random() < 0.3
        ctx.set(self.dut.finish.ready, take)
        if take:
            self.finish = None

    def _check(self, ctx, cycle, time):
        dut, expected = self.dut, self.expected
        link = ctx.get(dut.link_o)
        found = tuple(link[name] for name in ("valid", "first", "last", "data"))
        assert found == expected.link.pop(cycle, (0, 0, 0, 0)), cycle
        shown, event = ctx.get(dut.shown), expected.shown.pop(cycle, {"event": Event.NOTHING})
        assert {name: shown[name] for name in event} == event, cycle
        push = expected.push.pop(cycle, None)
        assert ctx.get(dut.push.valid) == (push is not None), cycle
        if push:
            token, rung, delay = push
            assert {name: ctx.get(dut.push.token)[name] for name in token} == token, cycle
            eve = (time + stages.PUSHED + delay - 1) % (1 << self.system.time_bits)
            assert (ctx.get(dut.push.rung), ctx.get(dut.push.eve)) == (rung, eve), cycle
            if self.system.measured:
                stamp = ctx.get(dut.stamp.valid), ctx.get(dut.stamp.slot), ctx.get(dut.stamp.try_)
                assert stamp == (1, token["slot"], token["tries"] % (1 << self.form.try_bits)), cycle
        if self.system.ni.merge_bits:
            merge = {"valid": 0, "slot": 0, "generation": 0, "tries": 0}
            if cycle in expected.merge:
                merge = {"valid": 1, **expected.merge.pop(cycle)}
            assert {name: ctx.get(dut.merge)[name] for name in merge} == merge, cycle
        judged = expected.judged.pop(cycle, None)
        assert ctx.get(dut.judged.any) == any(cycle in cycles for cycles in self.judgements.values()), cycle
        assert ctx.get(dut.judged.valid) == (judged is not None), cycle
        if judged:
            assert (ctx.get(dut.judged.slot), ctx.get(dut.judged.phase)) == judged, cycle
        flying = ctx.get(dut.flying.valid), ctx.get(dut.flying.slot)
        if cycle in expected.flying:
            assert flying == (1, expected.flying.pop(cycle)), cycle
        elif cycle >= self.held_from:
            assert not flying[0], cycle


@pytest.mark.parametrize("name", but(["16 bit"], SYSTEMS, push=("control slots", "silent")))
def test_grants(name):
    """Fifteen hundred cycles of everything that can come, and that it did come."""
    counts = Bench(SYSTEMS[name], 1).play(1500)
    common = ["replies", "repeats", "news", "killed", "refused", "sent", "ended launched", "ended unlaunched"]
    options = {"control slots": ["controls"], "silent": ["muted", "probes"], "merge": ["merged"]}
    missing = [what for what in common + options.get(name, []) if counts[what] < 5]
    assert not missing, dict(counts)

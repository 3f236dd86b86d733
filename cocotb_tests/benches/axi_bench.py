"""Moves datagrams both ways between two exported NIs on AXI4-Streams; runs inside the simulator.

All streams are driven and taken by cocotbext-axi's models, with random pauses.  On every stream that the NIs drive, a
watcher holds them to the rules of AXI4-Stream in every cycle.  ``$LETHE_JOB`` names the job.
"""

import itertools
import json
import os
import random
from collections import Counter
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

JOB_PATH = Path(os.environ["LETHE_JOB"])
JOB = json.loads(JOB_PATH.read_text())
FIELDS = JOB["fields"]
STREAMS = JOB["streams"]
MTU = JOB["mtu"]
#: Datagrams that each side offers while nodes are reset.
FLOOD = 600
#: Microseconds, many times what the job needs: a design that stands still fails.
LIMIT = 40 * (JOB["rounds"] * (MTU + 1) + 40) // 4 + FLOOD


def packed(port: str, **values: int) -> int:
    """The fields of a port, as its header tells them."""
    found, at = 0, 0
    for name, bits in FIELDS[port].items():
        found |= (values.get(name, 0) & ((1 << bits) - 1)) << at
        at += bits
    return found


def unpacked(port: str, value: int) -> dict[str, int]:
    found, at = {}, 0
    for name, bits in FIELDS[port].items():
        found[name] = value >> at & ((1 << bits) - 1)
        at += bits
    return found


class Side:
    """The host of one NI."""

    def __init__(self, dut, side: str, chance: random.Random):
        self.dut, self.side, self.chance = dut, side, chance
        self.number = "ab".index(side)
        host = "host_" if JOB["host_clock"] else ""
        self.clock, self.reset = getattr(dut, f"{host}clk"), getattr(dut, f"{host}rst")
        self.sources, self.sinks = {}, {}
        for name in STREAMS:
            kind, found = (AxiStreamSource, self.sources) if name.startswith("s_") else (AxiStreamSink, self.sinks)
            bus = AxiStreamBus.from_prefix(dut, f"{side}_{name}")
            bytewise = {} if "tkeep" in STREAMS[name] else {"byte_size": 8}
            found[name] = kind(bus, self.clock, self.reset, **bytewise)
            if kind is AxiStreamSink:
                cocotb.start_soon(self._watch(name))
        self.pauses(0.4)
        self.malformed = 0
        cocotb.start_soon(self._count())
        self.port("node_reset").value = 0
        self.port("incarnation").value = 1
        self.incarnation = 1

    def port(self, name: str):
        return getattr(self.dut, f"{self.side}_{name}")

    def pauses(self, share: float) -> None:
        for stream in (*self.sources.values(), *self.sinks.values()):
            stream.set_pause_generator(self._pauses(share))

    def _pauses(self, share: float):
        """Single pauses, and now and then a long one."""
        while True:
            yield from itertools.repeat(
                True, self.chance.choice((0, 1, 1, 2, 30)) if self.chance.random() < share else 0
            )
            yield False

    async def _watch(self, name: str) -> None:
        """Once valid is 1, it and the payload hold until the transfer, but for a reset."""
        ports = [port for port in STREAMS[name] if port not in ("tvalid", "tready")]
        before = None
        while True:
            await RisingEdge(self.clock)
            if self.reset.value == 1 or self.dut.rst.value == 1:
                before = None
                continue
            valid, ready = self.port(f"{name}_tvalid").value, self.port(f"{name}_tready").value
            assert valid.is_resolvable, f"{name}_tvalid is {valid}"
            shown = tuple(str(self.port(f"{name}_{port}").value) for port in ports) if valid == 1 else None
            assert before is None or before == shown, f"{self.side}_{name}: {before} became {shown}"
            before = shown if ready == 0 else None

    async def _count(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            self.malformed += int(self.dut.rst.value == 0 and self.port("malformed").value == 1)

    async def offer(self, payloads: list[bytes], other: "Side", *, first: int = 0, stream: str = "s_axis_send") -> None:
        """Hand every payload to the NI, tagged from ``first`` on."""
        for tag, payload in enumerate(payloads, first):
            await self.send(payload, other.number, tag, len(payload), stream=stream)

    async def send(self, payload: bytes, to: int, tag: int, length: int, *, stream="s_axis_send", keep=None) -> None:
        """One datagram.  One of 0 bytes is a beat without bytes; without ``tkeep`` the length alone says so."""
        user = packed(f"{stream}_tuser", length=length, tag=tag, cls=JOB["cls"].get(stream, 0))
        keep = keep or ([int(bool(payload))] * max(1, len(payload)))
        frame = AxiStreamFrame(payload or b"\xee", tkeep=keep, tdest=to, tuser=user)
        await self.sources[stream].send(frame)

    async def deliver(self, stream: str = "m_axis_deliver") -> tuple[bytes, dict[str, int]]:
        """A datagram, whose bytes are those of its length, and its fields."""
        frame = await self.sinks[stream].recv(compact=False)
        user = unpacked(f"{stream}_tuser", frame.tuser[-1])
        lanes = self.sinks[stream].byte_lanes
        keep = frame.tkeep
        assert all(tid == frame.tid[0] for tid in frame.tid)
        told = {"source": frame.tid[0], **user}
        if user["aborted"]:
            assert not any(keep[-lanes:]) and all(keep[:-lanes])
            assert not any(unpacked(f"{stream}_tuser", one)["aborted"] for one in frame.tuser[:-lanes])
            return bytes(frame.tdata[:-lanes]), told
        length = user["length"]
        assert all(one == frame.tuser[0] for one in frame.tuser)
        assert keep == [1] * length + [0] * (len(keep) - length), (length, keep)
        assert len(keep) == max(1, -(-length // lanes)) * lanes
        return bytes(frame.tdata[:length]), told

    async def take(self, count: int, stream: str = "m_axis_deliver") -> list[bytes]:
        """The payloads of so many deliveries."""
        found = []
        for _ in range(count):
            payload, told = await self.deliver(stream)
            assert (told["source"], told["aborted"], told["cls"]) == (1 - self.number, 0, JOB["cls"].get(stream, 0))
            assert told.get("incarnation", 1) == 1
            found.append(payload)
        return found

    async def end(self) -> dict[str, int]:
        """A completion."""
        frame = await self.sinks["m_axis_completion"].recv(compact=False)
        data = bytes(frame.tdata)
        assert len(data) == self.sinks["m_axis_completion"].byte_lanes
        user = unpacked("m_axis_completion_tuser", frame.tuser[0])
        return unpacked("m_axis_completion_tdata", int.from_bytes(data, "little")) | {"of": user["incarnation"]}

    async def complete(self, count: int) -> list[tuple[int, int]]:
        """(tag, status) of so many completions."""
        ends = [await self.end() for _ in range(count)]
        assert all(end["of"] == 1 and end["destination"] == 1 - self.number for end in ends)
        return sorted((end["tag"], end["status"]) for end in ends)

    async def idle(self) -> None:
        while self.port("idle").value != 1:
            await RisingEdge(self.dut.clk)

    async def reset_node(self, cycles: int) -> None:
        """A node reset, which gives the next incarnation."""
        await RisingEdge(self.dut.clk)
        self.incarnation = self.incarnation % 15 + 1
        self.port("node_reset").value = 1
        self.port("incarnation").value = self.incarnation
        await ClockCycles(self.dut.clk, cycles)
        self.port("node_reset").value = 0

    def empty(self) -> bool:
        return all(sink.empty() and sink.idle() for sink in self.sinks.values())


async def begin(dut, *, seed: int = 0) -> tuple[random.Random, dict[str, Side]]:
    """Clocks, sides, and a reset."""
    chance = random.Random(JOB["seed"] + seed)
    Clock(dut.clk, 10, unit="ns").start()
    if JOB["host_clock"]:
        Clock(dut.host_clk, JOB["host_clock"], unit="ps").start()
    sides = {side: Side(dut, side, chance) for side in "ab"}
    await reset(dut, sides)
    return chance, sides


async def reset(dut, sides: dict[str, Side]) -> None:
    resets = [dut.rst, *([dut.host_rst] if JOB["host_clock"] else [])]
    for one in resets:
        one.value = 1
    for side in sides.values():
        side.port("node_reset").value = 0
        side.port("incarnation").value = side.incarnation = 1
    await ClockCycles(dut.clk, 20)
    for one in resets:
        one.value = 0
    for side in sides.values():
        while side.port("ready").value != 1:
            await RisingEdge(dut.clk)


def of_all_lengths(chance: random.Random, rounds: int) -> list[bytes]:
    """Payloads of every length, so many times, in any order."""
    lengths = [*range(MTU + 1)] * rounds
    chance.shuffle(lengths)
    return [chance.randbytes(length) for length in lengths]


async def exchange(sides: dict[str, Side], payloads: dict[str, list[bytes]], *, kind: str = "", first: int = 0) -> None:
    """Every datagram arrives exactly once with its bytes, and ends ACCEPTED."""
    send, deliver = (f"s_axis_send{kind}", f"m_axis_deliver{kind and '_control1'}")
    for side, other in ("ab", "ba"):
        cocotb.start_soon(sides[side].offer(payloads[side], sides[other], first=first, stream=send))
    takers = {side: cocotb.start_soon(sides[side].take(len(payloads[side]), deliver)) for side in "ab"}
    enders = {side: cocotb.start_soon(sides[side].complete(len(payloads[side]))) for side in "ab"}
    for side, other in ("ab", "ba"):
        got = await with_timeout(takers[other], LIMIT, "us")
        assert Counter(got) == Counter(payloads[side])
        ends = await with_timeout(enders[side], LIMIT, "us")
        assert ends == [(first + tag, JOB["accepted"]) for tag in range(len(payloads[side]))]


async def quiet(dut, sides: dict[str, Side]) -> None:
    """Nothing comes twice, however long one waits for the last repeats."""
    for side in sides.values():
        await with_timeout(cocotb.start_soon(side.idle()), LIMIT, "us")
    await ClockCycles(dut.clk, 200)
    assert all(side.empty() for side in sides.values())


@cocotb.test
async def every_length_both_ways(dut):
    """Worms are lost and torn on the way; what has control slots sends control beside it."""
    chance, sides = await begin(dut)
    payloads = {side: of_all_lengths(chance, JOB["rounds"]) for side in "ab"}
    await exchange(sides, payloads)
    if "s_axis_send_control" in STREAMS:
        payloads = {side: of_all_lengths(chance, 1) for side in "ab"}
        await exchange(sides, payloads, kind="_control")
    await quiet(dut, sides)
    assert sides["a"].malformed == sides["b"].malformed == 0
    assert dut.lost.value.to_unsigned() > 0
    JOB_PATH.with_name("outcome.json").write_text(json.dumps({"lost": dut.lost.value.to_unsigned()}))


@cocotb.test
async def resets_of_the_system_in_mid_transfer(dut):
    """After each all streams begin anew, and everything arrives once."""
    chance, sides = await begin(dut, seed=1)
    for _ in range(4):
        payloads = {side: of_all_lengths(chance, 1) for side in "ab"}
        for side, other in ("ab", "ba"):
            cocotb.start_soon(sides[side].offer(payloads[side], sides[other]))
        await ClockCycles(dut.clk, chance.randint(100, 400))
        await reset(dut, sides)
        for side in sides.values():
            for stream in (*side.sources.values(), *side.sinks.values()):
                stream.clear()
        await ClockCycles(dut.clk, 3)
        # A source that was reset may have taken one more frame from its queue.
        await reset(dut, sides)
    payloads = {side: of_all_lengths(chance, 1) for side in "ab"}
    await exchange(sides, payloads)
    await quiet(dut, sides)


@cocotb.test
async def resets_of_a_node_in_mid_transfer(dut):
    """The watchers see no rule of AXI broken; what is delivered is whole, or aborted and a part; then all is well."""
    chance, sides = await begin(dut, seed=2)
    near, far = sides["a"], sides["b"]
    for side in sides.values():
        side.pauses(0.15)
    aborted, ends = [], Counter()
    payloads = {side: [chance.randbytes(chance.choice((0, MTU, MTU))) for _ in range(FLOOD)] for side in "ab"}

    async def take(side: Side, sent: list[bytes]) -> None:
        while True:
            payload, told = await side.deliver()
            if told["aborted"]:
                aborted.append(payload)
                assert payload and any(one.startswith(payload) for one in sent)
            else:
                assert payload in sent

    async def end(side: Side) -> None:
        while True:
            found = await side.end()
            assert 1 <= found["of"] <= 15 and found["tag"] < FLOOD
            ends[side.side] += 1

    tasks = [
        *(cocotb.start_soon(one.offer(payloads[one.side], other)) for one, other in ((near, far), (far, near))),
        *(cocotb.start_soon(take(one, payloads[other.side])) for one, other in ((near, far), (far, near))),
        *(cocotb.start_soon(end(one)) for one in sides.values()),
    ]
    resets = 0
    while resets < JOB["resets"] or (not aborted and resets < 20 * JOB["resets"]):
        await ClockCycles(dut.clk, chance.randint(40, 260))
        one = chance.choice((near, far))
        if chance.random() < 0.5:  # in the middle of what it delivers, if it delivers
            for _ in range(200):
                await RisingEdge(one.clock)
                beat = [one.port(f"m_axis_deliver_{port}").value == 1 for port in ("tvalid", "tlast")]
                if beat == [True, False]:
                    break
        await one.reset_node(chance.choice((1, 1, 2, 5, 40)))
        resets += 1
    for one in sides.values():
        one.pauses(0)
    for one in sides.values():
        await with_timeout(one.sources["s_axis_send"].wait(), LIMIT, "us")
    await ClockCycles(dut.clk, 3000)
    for one in sides.values():
        await with_timeout(cocotb.start_soon(one.idle()), LIMIT, "us")
    await ClockCycles(dut.clk, 200)
    for task in tasks:
        task.cancel()
    assert min(ends.values()) > 0
    assert all(side.empty() for side in sides.values())
    # The streams are in step: everything arrives once, as if nothing had been.
    incarnations = {side: sides[side].incarnation for side in "ab"}
    payloads = {side: of_all_lengths(chance, 1) for side in "ab"}
    for one, other in ((near, far), (far, near)):
        cocotb.start_soon(one.offer(payloads[one.side], other, first=FLOOD))
    for one, other in ((near, far), (far, near)):
        got = [await with_timeout(cocotb.start_soon(other.deliver()), LIMIT, "us") for _ in payloads[one.side]]
        assert Counter(payload for payload, _ in got) == Counter(payloads[one.side])
        found = [await with_timeout(cocotb.start_soon(one.end()), LIMIT, "us") for _ in payloads[one.side]]
        assert sorted(end["tag"] for end in found) == [FLOOD + n for n in range(MTU + 1)]
        assert {(end["of"], end["status"]) for end in found} == {(incarnations[one.side], JOB["accepted"])}
    assert len(aborted) > 0, f"no datagram was cut by {resets} resets; the test is too tame"


@cocotb.test
async def wrong_datagrams(dut):
    """One that is not as it must be does not disturb those around it."""
    chance, sides = await begin(dut, seed=3)
    near, far = sides["a"], sides["b"]
    lanes = near.sources["s_axis_send"].byte_lanes
    told, wanted, statuses = [], [], {}
    for tag in range(30):
        payload = chance.randbytes(chance.randint(0, MTU))
        kind = chance.choice(("good", "short", "long", "huge", "sparse"))
        statuses[tag] = JOB["accepted"]
        if kind == "huge" and not JOB["store"]:
            told.append((chance.randbytes(2 * lanes), tag, MTU + 1 + chance.randint(0, 40), None))
            statuses[tag] = JOB["rejected"]
        elif kind == "huge":
            told.append((chance.randbytes(chance.randint(MTU + 1, 4 * MTU)), tag, 0, None))
            statuses[tag] = JOB["rejected"]
        elif kind == "sparse" and JOB["store"] and len(payload) > 2:
            keep = [1] * len(payload)
            keep[chance.randrange(len(payload) - 1)] = 0
            told.append((payload, tag, 0, keep))
            statuses[tag] = JOB["rejected"]
        elif kind == "short" and not JOB["store"] and len(payload) > lanes:
            cut = chance.randrange(lanes, len(payload), lanes)
            told.append((payload[:cut], tag, len(payload), None))
            wanted.append(payload[:cut] + bytes(len(payload) - cut))
        elif kind == "long" and not JOB["store"]:
            more = bytes(-len(payload) % lanes) + chance.randbytes(chance.randint(1, 3) * lanes)
            told.append((payload + more, tag, len(payload), None))
            wanted.append(payload)
        else:
            told.append((payload, tag, len(payload), None))
            wanted.append(payload)
    for payload, tag, length, keep in told:
        await near.send(payload, 1, tag, length, keep=keep)
    got = await with_timeout(cocotb.start_soon(far.take(len(wanted))), LIMIT, "us")
    assert Counter(got) == Counter(wanted)
    ends = await with_timeout(cocotb.start_soon(near.complete(len(told))), LIMIT, "us")
    assert ends == sorted(statuses.items())
    assert 0 < near.malformed < 30 and far.malformed == 0
    await quiet(dut, sides)

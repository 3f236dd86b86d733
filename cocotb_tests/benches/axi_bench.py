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
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

JOB_PATH = Path(os.environ["LETHE_JOB"])
JOB = json.loads(JOB_PATH.read_text())
FIELDS = JOB["fields"]
STREAMS = JOB["streams"]
#: Registers, {name: address}, and their fields, {name: {field: [shift, bits]}}; none: the NI has ports instead.
REGISTERS, REGISTER_FIELDS = JOB["registers"], JOB["register_fields"]
MTU = JOB["mtu"]
#: Different datagrams that each side offers, again and again, while nodes are reset.
POOL = 50
#: Microseconds, many times what the job needs: a design that stands still fails.
LIMIT = 40 * (JOB["rounds"] * (MTU + 1) + 40) // 4 + 600


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
        if REGISTERS:
            self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, f"{side}_s_axil"), self.clock, self.reset)
        self.pauses(0.4)
        self.malformed = 0
        cocotb.start_soon(self._count())
        self.begin()

    def begin(self) -> None:
        """As after a reset of the system."""
        self.incarnation = 1
        if not REGISTERS:
            self.port("node_reset").value = 0
            self.port("incarnation").value = 1

    def port(self, name: str):
        return getattr(self.dut, f"{self.side}_{name}")

    def pauses(self, share: float) -> None:
        for stream in (*self.sources.values(), *self.sinks.values()):
            stream.set_pause_generator(self._pauses(share))
        if REGISTERS:
            writes, reads = self.master.write_if, self.master.read_if
            for channel in (
                writes.aw_channel, writes.w_channel, writes.b_channel, reads.ar_channel, reads.r_channel,
            ):  # fmt: skip
                channel.set_pause_generator(self._pauses(share))

    async def read(self, name: str) -> dict[str, int]:
        """The fields of a register."""
        found = await self.master.read(REGISTERS[name], 4)
        assert found.resp == AxiResp.OKAY, name
        word = int.from_bytes(found.data, "little")
        return {field: word >> shift & ((1 << bits) - 1) for field, (shift, bits) in REGISTER_FIELDS[name].items()}

    async def write(self, name: str, **values: int) -> None:
        """A register; what is not named is 0."""
        word = sum(value << REGISTER_FIELDS[name][field][0] for field, value in values.items())
        found = await self.master.write(REGISTERS[name], word.to_bytes(4, "little"))
        assert found.resp == AxiResp.OKAY, name

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
        await self._until("idle")

    async def ready(self) -> None:
        await self._until("ready")

    async def _until(self, what: str) -> None:
        if REGISTERS:
            while not (await self.read("STATUS"))[what.upper()]:
                pass
            return
        while self.port(what).value != 1:
            await RisingEdge(self.dut.clk)

    async def reset_node(self, cycles: int) -> None:
        """A node reset, which gives the next incarnation."""
        await RisingEdge(self.dut.clk)
        self.incarnation = self.incarnation % 15 + 1
        if REGISTERS:
            await self.write("RESET", CYCLES=cycles)
            assert (await self.read("INCARNATION"))["INCARNATION"] == self.incarnation
            while (await self.read("STATUS"))["RESETTING"]:
                pass
            return
        self.port("node_reset").value = 1
        self.port("incarnation").value = self.incarnation
        await ClockCycles(self.dut.clk, cycles)
        self.port("node_reset").value = 0

    def empty(self) -> bool:
        return all(sink.empty() and sink.idle() for sink in self.sinks.values())


def chosen(name: str) -> bool:
    """Whether the job has the test of this name."""
    return not JOB["only"] or name in JOB["only"]


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
        side.begin()
    await ClockCycles(dut.clk, 10)
    for side in sides.values():
        for stream in (*side.sources.values(), *side.sinks.values()):
            stream.clear()
    await ClockCycles(dut.clk, 10)
    for one in resets:
        one.value = 0
    for side in sides.values():
        await with_timeout(cocotb.start_soon(side.ready()), LIMIT, "us")


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


@cocotb.test(skip=not chosen("every_length_both_ways"))
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


@cocotb.test(skip=not chosen("resets_of_the_system_in_mid_transfer"))
async def resets_of_the_system_in_mid_transfer(dut):
    """After each all streams begin anew, and everything arrives once."""
    chance, sides = await begin(dut, seed=1)
    for _ in range(4):
        payloads = {side: of_all_lengths(chance, 1) for side in "ab"}
        for side, other in ("ab", "ba"):
            cocotb.start_soon(sides[side].offer(payloads[side], sides[other]))
        await ClockCycles(dut.clk, chance.randint(100, 400))
        await reset(dut, sides)
    payloads = {side: of_all_lengths(chance, 1) for side in "ab"}
    await exchange(sides, payloads)
    await quiet(dut, sides)


@cocotb.test(skip=not chosen("resets_of_a_node_in_mid_transfer"))
async def resets_of_a_node_in_mid_transfer(dut):
    """The watchers see no rule of AXI broken; what is delivered is whole, or aborted and a part; then all is well."""
    chance, sides = await begin(dut, seed=2)
    near, far = sides["a"], sides["b"]
    for side in sides.values():
        side.pauses(0.15)
    aborted, ends, over = [], Counter(), False
    payloads = {side: [chance.randbytes(chance.choice((0, MTU, MTU))) for _ in range(POOL)] for side in "ab"}

    async def offer(side: Side, other: Side) -> None:
        while not over:
            tag = chance.randrange(POOL)
            payload = payloads[side.side][tag]
            await side.send(payload, other.number, tag, len(payload))
            await side.sources["s_axis_send"].wait()

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
            assert 1 <= found["of"] <= 15 and found["tag"] < POOL
            ends[side.side] += 1

    tasks = [
        *(cocotb.start_soon(take(one, payloads[other.side])) for one, other in ((near, far), (far, near))),
        *(cocotb.start_soon(end(one)) for one in sides.values()),
    ]
    offers = [cocotb.start_soon(offer(one, other)) for one, other in ((near, far), (far, near))]
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
    over = True
    for one in sides.values():
        one.pauses(0)
    for one in offers:
        await with_timeout(one, LIMIT, "us")
    await ClockCycles(dut.clk, 300)
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
        cocotb.start_soon(one.offer(payloads[one.side], other, first=POOL))
    for one, other in ((near, far), (far, near)):
        got = [await with_timeout(cocotb.start_soon(other.deliver()), LIMIT, "us") for _ in payloads[one.side]]
        assert Counter(payload for payload, _ in got) == Counter(payloads[one.side])
        found = [await with_timeout(cocotb.start_soon(one.end()), LIMIT, "us") for _ in payloads[one.side]]
        assert sorted(end["tag"] for end in found) == [POOL + n for n in range(MTU + 1)]
        assert {(end["of"], end["status"]) for end in found} == {(incarnations[one.side], JOB["accepted"])}
    assert len(aborted) > 0, f"no datagram was cut by {resets} resets; the test is too tame"


@cocotb.test(skip=not chosen("wrong_datagrams"))
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
    if REGISTERS:
        assert (await near.read("INTERRUPT_PENDING"))["MALFORMED"] == 1
        assert (await far.read("INTERRUPT_PENDING"))["MALFORMED"] == 0
    await quiet(dut, sides)


@cocotb.test(skip=not REGISTERS or not chosen("registers_beside_the_streams"))
async def registers_beside_the_streams(dut):
    """Every register is read while datagrams pass; wrong addresses and narrow writes; counters; interrupts."""
    chance, sides = await begin(dut, seed=4)
    near = sides["a"]
    constants = {name: await near.read(name) for name in ("IDENTITY", "VERSION", "SIZES", "NODE")}
    assert constants["IDENTITY"]["IDENTITY"] == int.from_bytes(b"LETH", "little")
    assert constants["SIZES"]["MTU"] == MTU and constants["NODE"]["NODE"] == 0
    assert (await sides["b"].read("NODE"))["NODE"] == 1
    payloads = {side: of_all_lengths(chance, 1) for side in "ab"}
    running = cocotb.start_soon(exchange(sides, payloads))
    before = {name: await near.read(name) for name in ("CONTROL", "INTERRUPT_ENABLE")}
    holes = sorted(set(range(0, 1 << len(near.master.read_if.bus.ar.araddr), 4)) - set(REGISTERS.values()))
    for address in chance.sample(holes, 12):
        assert (await near.master.read(address, 4)).resp == AxiResp.SLVERR, hex(address)
        assert (await near.master.write(address, b"\xff" * 4)).resp == AxiResp.SLVERR, hex(address)
    # A command takes a whole word, and what is only read takes none.
    for name in ("RESET", "IDENTITY", "STATUS"):
        assert (await near.master.write(REGISTERS[name], b"\xff")).resp == AxiResp.SLVERR, name
    assert before == {name: await near.read(name) for name in before}
    assert (await near.read("INCARNATION"))["INCARNATION"] == 1
    await running
    await quiet(dut, sides)
    await near.write("SNAPSHOT", TAKE=1)
    counted = {name: (await near.read(f"COUNTER_{name}"))["COUNT"] for name in ("ACCEPTED", "COMPLETED", "DELIVERED")}
    assert counted == dict.fromkeys(counted, MTU + 1)
    # What waits for the host says so.
    assert dut.a_irq.value == 0
    await near.write("INTERRUPT_ENABLE", COMPLETION=1)
    near.sinks["m_axis_completion"].clear_pause_generator()
    near.sinks["m_axis_completion"].pause = True
    await near.send(b"last", 1, 99, 4)
    while dut.a_irq.value != 1:
        await RisingEdge(near.clock)
    status = await near.read("STATUS")
    assert (status["COMPLETION"], status["IDLE"]) == (1, 0)
    near.sinks["m_axis_completion"].pause = False
    assert (await near.end())["tag"] == 99
    assert (await sides["b"].deliver())[0] == b"last"
    await quiet(dut, sides)
    assert dut.a_irq.value == 0
    assert (await near.read("STATUS"))["COMPLETION"] == 0

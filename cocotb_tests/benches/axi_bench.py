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

from lethe.spec.events import Cause, Status
from lethe.spec.services.flow import WHOLE, Flag
from lethe.spec.services.relay import MODE as RELAY_MODE

JOB_PATH = Path(os.environ["LETHE_JOB"])
JOB = json.loads(JOB_PATH.read_text())
FIELDS = JOB["fields"]
STREAMS = JOB["streams"]
#: Registers, {name: address}, and their fields, {name: {field: [shift, bits]}}; none: the NI has ports instead.
REGISTERS, REGISTER_FIELDS = JOB["registers"], JOB["register_fields"]
#: The longest message: of a service, if there is one.
MTU = JOB["mtu"]
#: Ports of flow; 0: there is none.  Whether the hosts send by relay, which needs the words of its tree, by node.
PORTS, RELAYED, TREES = JOB["ports"], JOB["relayed"], JOB["trees"]
#: Where messages come, in the order of their stream if a service sees to that.
DELIVER = "m_axis_deliver_relay" if RELAYED else "m_axis_deliver"
ORDERED = bool(PORTS or RELAYED)
NOWAIT = REPEATED = 1 << Flag.NOWAIT
#: Codes of SET.
UNBIND, BIND, RECEIVE_LIMIT = 0, 1, 2
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
        self.incarnation, self.boots = 1, 0
        if not REGISTERS:
            self.port("node_reset").value = 0
            self.port("incarnation").value = 1
            if PORTS:
                for name, value in {"boot": 0, "receive_mask": -1, "set_valid": 0, "notice_ready": 1}.items():
                    self.port(name).value = value
            if RELAYED:
                self.port("tree_valid").value = 0

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

    @staticmethod
    def dport(tag: int) -> int:
        """The port that a message is for."""
        return tag // 3 % PORTS

    async def send(
        self, payload: bytes, to: int, tag: int, length: int, *, stream="s_axis_send", keep=None, **ends: int
    ) -> None:
        """One datagram.  One of 0 bytes is a beat without bytes; without ``tkeep`` the length alone says so."""
        if PORTS:
            ends = {"sport": tag % PORTS, "dport": self.dport(tag), "flags": WHOLE} | ends
        told = {"cls": JOB["cls"].get(stream, 0), "mode": RELAY_MODE if RELAYED else 0} | ends
        user = packed(f"{stream}_tuser", length=length, tag=tag, **told)
        keep = keep or ([int(bool(payload))] * max(1, len(payload)))
        frame = AxiStreamFrame(payload or b"\xee", tkeep=keep, tdest=to, tuser=user)
        await self.sources[stream].send(frame)

    async def deliver(self, stream: str = DELIVER) -> tuple[bytes, dict[str, int]]:
        """A datagram, whose bytes are those of its length, and its fields."""
        frame = await self.sinks[stream].recv(compact=False)
        user = unpacked(f"{stream}_tuser", frame.tuser[-1])
        lanes = self.sinks[stream].byte_lanes
        keep = frame.tkeep
        assert all(tid == frame.tid[0] for tid in frame.tid)
        told = {"source": frame.tid[0], **user}
        if PORTS:
            assert all(tdest == frame.tdest[0] for tdest in frame.tdest)
            told["dport"] = frame.tdest[0]
        if user["aborted"]:
            assert not any(keep[-lanes:]) and all(keep[:-lanes])
            assert not any(unpacked(f"{stream}_tuser", one)["aborted"] for one in frame.tuser[:-lanes])
            return bytes(frame.tdata[:-lanes]), told
        length = user["length"]
        assert all(one == frame.tuser[0] for one in frame.tuser)
        assert keep == [1] * length + [0] * (len(keep) - length), (length, keep)
        assert len(keep) == max(1, -(-length // lanes)) * lanes
        return bytes(frame.tdata[:length]), told

    async def take(self, count: int, stream: str = DELIVER, incarnation: int = 1) -> list[bytes]:
        """The payloads of so many deliveries, with flow those of each port together."""
        found, of_ports = [], [[] for _ in range(PORTS)]
        for _ in range(count):
            payload, told = await self.deliver(stream)
            assert (told["source"], told["aborted"], told["cls"]) == (1 - self.number, 0, JOB["cls"].get(stream, 0))
            assert told.get("incarnation", incarnation) == incarnation
            found.append(payload)
            if PORTS:
                assert told["flags"] & ~REPEATED == WHOLE and told["gap"] in (0, 1)
                of_ports[told["dport"]].append(payload)
        return [payload for port in of_ports for payload in port] if PORTS else found

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
        for word in TREES[self.number] if RELAYED else ():
            await self._tell(word)

    async def _tell(self, word: dict[str, int]) -> None:
        """A word of relay's tree."""
        if REGISTERS:
            name, parts = ("DEATH", ("depth", "promoted")) if word["code"] else ("ROUTE", ("hop", "way"))
            await self.write(name, **{part.upper(): word[part] for part in ("target", *parts)})
            while (await self.read("STATUS"))["TELLING"]:
                pass
            return
        for part, value in word.items():
            self.port(f"tree_{part}").value = value
        self.port("tree_valid").value = 1
        await RisingEdge(self.dut.clk)
        while self.port("tree_ready").value != 1:
            await RisingEdge(self.dut.clk)
        self.port("tree_valid").value = 0

    async def _until(self, what: str) -> None:
        if REGISTERS:
            while not (status := await self.read("STATUS"))[what.upper()]:
                if what == "idle" and status.get("NOTICE"):  # it waits for the host
                    await self.read("NOTICE")
            return
        while self.port(what).value != 1:
            await RisingEdge(self.dut.clk)

    async def reset_node(self, cycles: int) -> None:
        """A node reset, which gives the next incarnation."""
        await RisingEdge(self.dut.clk)
        self.incarnation = self.incarnation % 15 + 1
        self.boots += 1
        if REGISTERS:
            await self.write("RESET", CYCLES=cycles)
            assert (await self.read("INCARNATION"))["INCARNATION"] == self.incarnation
            while (await self.read("STATUS"))["RESETTING"]:
                pass
            return
        self.port("node_reset").value = 1
        self.port("incarnation").value = self.incarnation
        if PORTS:
            self.port("boot").value = self.boots
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
    send, deliver = f"s_axis_send{kind}", "m_axis_deliver_control1" if kind else DELIVER
    for side, other in ("ab", "ba"):
        cocotb.start_soon(sides[side].offer(payloads[side], sides[other], first=first, stream=send))
    takers = {side: cocotb.start_soon(sides[side].take(len(payloads[side]), deliver)) for side in "ab"}
    enders = {side: cocotb.start_soon(sides[side].complete(len(payloads[side]))) for side in "ab"}
    for side, other in ("ab", "ba"):
        got = await with_timeout(takers[other], LIMIT, "us")
        arrived_once(got, payloads[side], first)
        ends = await with_timeout(enders[side], LIMIT, "us")
        assert ends == [(first + tag, JOB["accepted"]) for tag in range(len(payloads[side]))]


def arrived_once(got: list[bytes], payloads: list[bytes], first: int = 0) -> None:
    """What was offered, tagged from ``first`` on: with a service in the order of its streams."""
    if PORTS:
        payloads = [payload for _, payload in sorted(enumerate(payloads, first), key=lambda one: Side.dport(one[0]))]
    assert got == payloads if ORDERED else Counter(got) == Counter(payloads)


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


# By relay a message to a node that was reset can wait for ever, so all would stand still after a few.
@cocotb.test(skip=RELAYED or not chosen("resets_of_a_node_in_mid_transfer"))
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
                beat = [one.port(f"{DELIVER}_{port}").value == 1 for port in ("tvalid", "tlast")]
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
    if PORTS:
        await meet(sides)
    assert min(ends.values()) > 0
    # Flow begins anew with each reset, and its few messages are soon in the FIFOs of a crossing.
    tame = PORTS and JOB["host_clock"]
    assert tame or len(aborted) > 0, f"no datagram was cut by {resets} resets; the test is too tame"
    assert all(side.empty() for side in sides.values())
    # The streams are in step: everything arrives once, as if nothing had been.
    incarnations = {side: sides[side].incarnation for side in "ab"}
    payloads = {side: of_all_lengths(chance, 1) for side in "ab"}
    for one, other in ((near, far), (far, near)):
        cocotb.start_soon(one.offer(payloads[one.side], other, first=POOL))
    for one, other in ((near, far), (far, near)):
        taker = cocotb.start_soon(other.take(MTU + 1, incarnation=incarnations[one.side]))
        got = await with_timeout(taker, LIMIT, "us")
        arrived_once(got, payloads[one.side], POOL)
        found = [await with_timeout(cocotb.start_soon(one.end()), LIMIT, "us") for _ in payloads[one.side]]
        assert sorted(end["tag"] for end in found) == [POOL + n for n in range(MTU + 1)]
        assert {(end["of"], end["status"]) for end in found} == {(incarnations[one.side], JOB["accepted"])}


async def meet(sides: dict[str, Side]) -> None:
    """Messages both ways, until the nodes are up for each other in this life; nothing is left of them."""
    for one, other in (("a", "b"), ("b", "a")):
        while True:
            await sides[one].send(b"", sides[other].number, 0, 0)
            end = await with_timeout(cocotb.start_soon(sides[one].end()), LIMIT, "us")
            if end["status"] == JOB["accepted"]:
                break
    for side in sides.values():
        await with_timeout(cocotb.start_soon(side.idle()), LIMIT, "us")
    await ClockCycles(sides["a"].dut.clk, 200)
    for side in sides.values():
        for sink in side.sinks.values():
            sink.clear()


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
            wanted.append((tag, payload[:cut] + bytes(len(payload) - cut)))
        elif kind == "long" and not JOB["store"]:
            more = bytes(-len(payload) % lanes) + chance.randbytes(chance.randint(1, 3) * lanes)
            told.append((payload + more, tag, len(payload), None))
            wanted.append((tag, payload))
        else:
            told.append((payload, tag, len(payload), None))
            wanted.append((tag, payload))
    malformed = list(statuses.values()).count(JOB["rejected"])
    if not JOB["store"]:
        beats = [(max(1, -(-len(payload) // lanes)), max(1, -(-length // lanes))) for payload, _, length, _ in told]
        malformed = sum(came != asked for came, asked in beats)
    for payload, tag, length, keep in told:
        await near.send(payload, 1, tag, length, keep=keep)
    got = await with_timeout(cocotb.start_soon(far.take(len(wanted))), LIMIT, "us")
    if not PORTS:
        wanted = [payload for _, payload in wanted]
        assert got == wanted if RELAYED else Counter(got) == Counter(wanted)
    else:
        assert got == [payload for _, payload in sorted(wanted, key=lambda one: Side.dport(one[0]))]
    ends = await with_timeout(cocotb.start_soon(near.complete(len(told))), LIMIT, "us")
    assert ends == sorted(statuses.items())
    assert near.malformed == malformed > 0 and far.malformed == 0
    if REGISTERS:
        assert (await near.read("INTERRUPT_PENDING"))["MALFORMED"] == 1
        assert (await far.read("INTERRUPT_PENDING"))["MALFORMED"] == 0
    await quiet(dut, sides)


@cocotb.test(skip=ORDERED or not chosen("refused_records"))
async def refused_records(dut):
    """The NI refuses them, each with its cause; their bytes go nowhere, and what comes behind them arrives."""
    chance, sides = await begin(dut, seed=7)
    near, far = sides["a"], sides["b"]
    wrong = [
        ("s_axis_send", 2, {}, Cause.DESTINATION),
        ("s_axis_send", 0xFFFF, {}, Cause.DESTINATION),
        ("s_axis_send", 1, {"mode": 2}, Cause.MODE),
        ("s_axis_send", 1, {"mode": 0xFF}, Cause.MODE),
    ]
    if "m_axis_deliver_loop" not in STREAMS:
        wrong.append(("s_axis_send", 0, {}, Cause.DESTINATION))
    if "s_axis_send_control" in STREAMS:
        wrong += [
            ("s_axis_send_control", 1, {"cls": 0}, Cause.CLASS),
            ("s_axis_send_control", 2, {}, Cause.DESTINATION),
        ]
    for tag, (stream, to, ends, cause) in enumerate(wrong * 2):
        payload = chance.randbytes(chance.choice((0, 1, MTU)))
        await near.send(payload, to, tag, len(payload), stream=stream, **ends)
        end = await with_timeout(cocotb.start_soon(near.end()), LIMIT, "us")
        assert (end["tag"], end["status"], end["cause"]) == (tag, JOB["rejected"], cause), (stream, to, ends)
    payloads = {side: of_all_lengths(chance, 1) for side in "ab"}
    await exchange(sides, payloads)
    await quiet(dut, sides)
    assert near.malformed == far.malformed == 0


@cocotb.test(skip="m_axis_deliver_loop" not in STREAMS or not chosen("datagrams_to_the_own_node"))
async def datagrams_to_the_own_node(dut):
    """They come on the stream of the loop, in order, beside those of the other node."""
    chance, sides = await begin(dut, seed=8)
    near, far = sides["a"], sides["b"]
    own, others = of_all_lengths(chance, 1), of_all_lengths(chance, 1)

    async def offer() -> None:
        for tag, (mine, its) in enumerate(zip(own, others, strict=True)):
            await near.send(mine, near.number, 2 * tag, len(mine))
            await near.send(its, far.number, 2 * tag + 1, len(its))

    async def take() -> list[bytes]:
        found = []
        for _ in own:
            payload, told = await near.deliver("m_axis_deliver_loop")
            assert (told["source"], told["aborted"]) == (near.number, 0)
            found.append(payload)
        return found

    cocotb.start_soon(offer())
    taking, its = cocotb.start_soon(take()), cocotb.start_soon(far.take(len(others)))
    ends = [await with_timeout(cocotb.start_soon(near.end()), LIMIT, "us") for _ in (*own, *others)]
    assert sorted((end["tag"], end["status"]) for end in ends) == [(n, JOB["accepted"]) for n in range(len(ends))]
    assert all(end["destination"] == (far if end["tag"] % 2 else near).number for end in ends)
    assert await with_timeout(taking, LIMIT, "us") == own
    assert Counter(await with_timeout(its, LIMIT, "us")) == Counter(others)
    await quiet(dut, sides)


@cocotb.test(skip=not REGISTERS or not chosen("registers_beside_the_streams"))
async def registers_beside_the_streams(dut):
    """Registers are read while datagrams pass; wrong addresses and narrow writes; counters; interrupts."""
    chance, sides = await begin(dut, seed=4)
    near = sides["a"]
    constants = {name: await near.read(name) for name in ("IDENTITY", "VERSION", "SIZES", "NODE")}
    service = "FLOW" if PORTS else "RELAY" if RELAYED else ""
    for name in ("FLOW", "RELAY"):
        assert (await near.read("FEATURES"))[name] == (service == name)
        assert (f"{name}_SIZES" in REGISTERS) == (service == name)
    if service:
        assert (await near.read(f"{service}_SIZES"))["MTU"] == MTU
    assert constants["IDENTITY"]["IDENTITY"] == int.from_bytes(b"LETH", "little")
    assert constants["SIZES"]["MTU"] == JOB["wire_mtu"] and constants["NODE"]["NODE"] == 0
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
    names = [f"COUNTER_{name}" for name in ("ACCEPTED", "COMPLETED", "DELIVERED")]
    if service:
        names = [f"{service}_COUNTER_{name}" for name in ("SENT", "ENDED", "TAKEN")]
    counted = {name: (await near.read(name))["COUNT"] for name in names}
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


@cocotb.test(skip=not (PORTS and REGISTERS) or not chosen("ports_and_peers"))
async def ports_and_peers(dut):
    """Ports are bound and limited, one that nobody reads becomes congested, and the other host is noticed of it all."""
    chance, sides = await begin(dut, seed=6)
    near, far = sides["a"], sides["b"]

    async def sets(side: Side, code: int, index: int, value: int = 0) -> int:
        """The answer."""
        await side.write("SET", CODE=code, INDEX=index, VALUE=value)
        while not (answer := await side.read("ANSWER"))["VALID"]:
            assert (await side.read("STATUS"))["RESETTING"] == 0
        assert (await side.read("INTERRUPT_PENDING"))["ANSWERED"] == 1
        await side.write("INTERRUPT_PENDING", ANSWERED=1)
        return answer["ERROR"]

    async def noticed(side: Side) -> tuple[int, int, int]:
        """(peer, whether it is up, its congested ports) of the next notice."""
        while not (notice := await side.read("NOTICE"))["VALID"]:
            pass
        return notice["PEER"], notice["UP"], (await side.read("NOTICE_MAP"))["MAP"]

    async def sent(payload: bytes, tag: int, **ends: int) -> tuple[int, int]:
        """How a message of the near host ends."""
        await near.send(payload, 1, tag, len(payload), **ends)
        end = await with_timeout(cocotb.start_soon(near.end()), LIMIT, "us")
        assert end["tag"] == tag
        return end["status"], end["cause"]

    accepted, none = (Status.ACCEPTED, Cause.NONE), {"NOTICE": 0, "ANSWERED": 0, "CONGESTED": 0, "READABLE": 0}
    told = await near.read("INTERRUPT_PENDING")
    assert {name: told[name] for name in none} == none
    assert (await near.read("RECEIVE"))["MASK"] == (1 << PORTS) - 1
    # A peer that is not up yet: a message that does not wait is refused, and wakes it.
    assert await sent(b"x", 1, sport=0, dport=1, flags=WHOLE | NOWAIT) == (Status.REJECTED, Cause.NOT_CONNECTED)
    assert await noticed(near) == (1, 1, 0)
    assert await sent(b"first", 2, sport=0, dport=1) == accepted
    assert (await far.deliver())[0] == b"first"
    # Ports.
    assert await sets(near, BIND, 2, 2) == 1, "bound already"
    assert await sets(near, UNBIND, 2) == 0
    assert await sets(near, BIND, 2, 3) == 3, "a number of another index"
    assert await sets(near, BIND, PORTS, PORTS) == 3, "no such index"
    assert await sent(b"x", 3, sport=2, dport=1) == (Status.REJECTED, Cause.NOT_BOUND)
    assert await sets(near, BIND, 2, 2 + 9 * PORTS) == 0
    assert await sent(b"second", 4, sport=2 + 9 * PORTS, dport=1) == accepted
    payload, told = await far.deliver()
    assert (payload, told["sport"], told["dport"], told["source"]) == (b"second", 2 + 9 * PORTS, 1, 0)
    # One that the host does not read: two messages are more than its limit.
    assert await sets(far, RECEIVE_LIMIT, 3, 1) == 0
    await far.write("RECEIVE", MASK=(1 << PORTS) - 1 & ~(1 << 3))
    payloads = [chance.randbytes(12) for _ in range(2)]
    for tag, payload in enumerate(payloads, 10):
        assert await sent(payload, tag, sport=1, dport=3) == accepted
    while (await far.read("PORTS"))["CONGESTED"] != 1 << 3:
        pass
    told, ports = await far.read("INTERRUPT_PENDING"), await far.read("PORTS")
    assert ports["READABLE"] == 1 << 3 and (told["READABLE"], told["CONGESTED"]) == (1, 1)
    await far.write("INTERRUPT_PENDING", CONGESTED=1)
    assert await noticed(near) == (1, 1, 1 << 3)
    assert await sent(b"x", 20, sport=1, dport=3, flags=WHOLE | NOWAIT) == (Status.REJECTED, Cause.CONGESTED)
    assert await sent(b"passes", 21, sport=1, dport=0) == accepted
    assert (await far.deliver())[0] == b"passes" and far.sinks[DELIVER].empty()
    await far.write("RECEIVE", MASK=(1 << PORTS) - 1)
    for payload in payloads:
        found, told = await with_timeout(cocotb.start_soon(far.deliver()), LIMIT, "us")
        assert (found, told["dport"]) == (payload, 3)
    assert await noticed(near) == (1, 1, 0)
    told = await far.read("INTERRUPT_PENDING")
    assert (told["READABLE"], told["CONGESTED"]) == (0, 1)
    assert await sent(b"last", 22, sport=1, dport=3) == accepted
    assert (await far.deliver())[0] == b"last"
    # A reset is counted, and peers know it by the count.
    assert (await far.read("BOOT"))["BOOT"] == 0
    await far.write("LEAST_BOOT", BOOT=1000)
    await far.reset_node(3)
    assert (await far.read("BOOT"))["BOOT"] == 1000
    await far.send(b"again", 0, 30, 5, sport=0, dport=1)
    assert (await with_timeout(cocotb.start_soon(near.deliver()), LIMIT, "us"))[0] == b"again"
    assert (await far.end())["of"] == 2
    await quiet(dut, sides)

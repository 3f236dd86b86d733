"""Moves datagrams both ways between two exported NIs; runs inside the simulator.

The payload streams are driven and taken by cocotbext-axi's AXI4-Stream models, the records by its streams of fields,
all with random pauses.  ``$LETHE_JOB`` names the job: seed, datagrams, the header's counters, and the MTU.
"""

import itertools
import json
import os
import random
from collections import Counter
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamBus, AxiStreamSink, AxiStreamSource
from cocotbext.axi.stream import define_stream

JOB_PATH = Path(os.environ["LETHE_JOB"])
JOB = json.loads(JOB_PATH.read_text())
#: Microseconds, some ten times what so many datagrams need: a design that stands still fails.
LIMIT = 4 * JOB["count"]

_, SendRecord, SendSource, _, _ = define_stream("Send", ["valid", "ready", "destination", "mode", "length", "tag"])
_, _, _, DeliverSink, _ = define_stream("Deliver", ["valid", "ready", "source", "length"])
_, _, _, CompletionSink, _ = define_stream("Completion", ["valid", "ready", "tag", "status", "cause"])


class Side:
    """The host of one NI: what it sends, and what it has got."""

    def __init__(self, dut, side: str, chance: random.Random):
        self.dut, self.side, self.chance = dut, side, chance
        self.number = "ab".index(side)
        self.send = SendSource(self._bus(SendSource, "send"), dut.clk, dut.rst)
        self.data = AxiStreamSource(AxiStreamBus.from_prefix(dut, f"{side}_send_data"), dut.clk, dut.rst)
        self.deliver = DeliverSink(self._bus(DeliverSink, "deliver"), dut.clk, dut.rst)
        self.delivered_data = AxiStreamSink(AxiStreamBus.from_prefix(dut, f"{side}_deliver_data"), dut.clk, dut.rst)
        self.completion = CompletionSink(self._bus(CompletionSink, "completion"), dut.clk, dut.rst)
        for stream, share in (
            (self.send, 0.3), (self.data, 0.3), (self.deliver, 0.5), (self.delivered_data, 0.5), (self.completion, 0.5)
        ):  # fmt: skip
            stream.set_pause_generator(self._pauses(share))

    def _bus(self, kind, name: str):
        return kind._bus_obj.from_prefix(self.dut, f"{self.side}_{name}")

    def _pauses(self, share: float):
        return (self.chance.random() < share for _ in itertools.count())

    async def offer(self, payloads: list[bytes], other: "Side") -> None:
        """Hand every payload to the NI, by tag."""
        for tag, payload in enumerate(payloads):
            if payload:
                await self.data.send(payload)
            await self.send.send(SendRecord(destination=other.number, mode=0, length=len(payload), tag=tag))

    async def take(self, count: int) -> list[bytes]:
        """The payloads of so many deliveries."""
        found = []
        while len(found) < count:
            record = await self.deliver.recv()
            assert int(record.source) == 1 - self.number
            length = int(record.length)
            frame = bytes((await self.delivered_data.recv()).tdata) if length else b""
            assert 0 <= len(frame) - length < len(self.data.bus.tdata) // 8
            found.append(frame[:length])
        return found

    async def complete(self, count: int) -> list[tuple[int, int, int]]:
        """(tag, status, cause) of so many completions."""
        ends = [await self.completion.recv() for _ in range(count)]
        return [(int(end.tag), int(end.status), int(end.cause)) for end in ends]

    async def counter(self, address: int) -> int:
        """A counter, three cycles after its address."""
        getattr(self.dut, f"{self.side}_counter_address").value = address
        await ClockCycles(self.dut.clk, 5)
        return getattr(self.dut, f"{self.side}_counter_data").value.to_unsigned()


@cocotb.test(timeout_time=LIMIT, timeout_unit="us")
async def every_datagram_once(dut):
    """Every datagram arrives exactly once with its bytes, and ends ACCEPTED; worms are lost and torn on the way."""
    chance = random.Random(JOB["seed"])
    payloads = {side: [chance.randbytes(chance.randint(0, JOB["mtu"])) for _ in range(JOB["count"])] for side in "ab"}
    for side in "ab":
        getattr(dut, f"{side}_counter_address").value = 0
    dut.rst.value = 1
    Clock(dut.clk, 10, unit="ns").start()
    sides = {side: Side(dut, side, chance) for side in "ab"}
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    for side in "ab":
        while getattr(dut, f"{side}_ready").value != 1:
            await RisingEdge(dut.clk)
    near, far = sides["a"], sides["b"]
    for one, other in ((near, far), (far, near)):
        cocotb.start_soon(one.offer(payloads[one.side], other))
    takers = {side: cocotb.start_soon(host.take(JOB["count"])) for side, host in sides.items()}
    enders = {side: cocotb.start_soon(host.complete(JOB["count"])) for side, host in sides.items()}
    for side, other in ("ab", "ba"):
        got = await takers[other]
        assert Counter(got) == Counter(payloads[side])
        ends = await enders[side]
        assert sorted(ends) == [(tag, JOB["accepted"], 0) for tag in range(JOB["count"])]
    # Nothing comes twice, however long one waits for the last repeats.
    while not (near.dut.a_idle.value == 1 and far.dut.b_idle.value == 1):
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 200)
    for host in sides.values():
        assert host.deliver.empty() and host.delivered_data.empty() and host.completion.empty()
    found = {
        "lost": dut.lost.value.to_unsigned(),
        "flipped": dut.flipped.value.to_unsigned(),
        **{name: [await host.counter(address) for host in sides.values()] for name, address in JOB["counters"].items()},
    }
    JOB_PATH.with_name("outcome.json").write_text(json.dumps(found))

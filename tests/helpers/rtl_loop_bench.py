"""A bench of one loop for Amaranth's simulator: the test is the NI below and the host above."""

from functools import cache

from lethe.services.loop import Loop
from lethe.spec import trace
from lethe.spec.config import System, parse
from lethe.spec.events import Event
from lethe.spec.ports import HostPort
from lethe.spec.services.loop import LOOP
from lethe.spec.toml import dump
from lethe.spec.wire import unpack_uid
from tests.helpers.simulated import Simulated

NODE, SLOTS = 1, 4


def system_with(**sections) -> System:
    """Two nodes, `SLOTS` slots, a loop of two; other keys as given."""
    given = {"topology": {"kind": "wire"}, "ni": {"slots": SLOTS}, "loop": {"slots": 2}}
    return System.make(
        hosted=False, **{name: given.get(name, {}) | sections.get(name, {}) for name in given | sections}
    )


@cache
def _loop(toml: str) -> Simulated:
    """Tests of the same system share its loop."""
    system = parse(toml, hosted=False)
    return Simulated(Loop(system, HostPort.of_ni(system)))


class LoopBench:
    """The loop of node 1, cycle by cycle; an NI is ready, idle and takes everything, a host takes completions.

    What a test sets stays until it is set again.  `shown` and `flags` are of the cycle that has begun.
    """

    def __init__(self, system: System):
        self.system, self.form = system, system.format
        self._simulated = _loop(dump(system))
        self.loop = self._simulated.block
        self.cycle = 0

    def run(self, test) -> None:
        """Runs ``await test(bench)``."""

        async def process(ctx):
            self._ctx = ctx
            loop = self.loop
            self.set(loop.node, NODE)
            self.set(loop.incarnation, 1)
            for bit in (loop.below.ready, loop.below.idle, loop.below.send.ready, loop.below.send_data.ready):
                self.set(bit, 1)
            self.set(loop.above.completion.ready, 1)
            await test(self)

        self._simulated.run(process)

    def set(self, signal, value) -> None:
        self._ctx.set(signal, value)

    def get(self, signal):
        return self._ctx.get(signal)

    async def tick(self, cycles: int = 1) -> None:
        for _ in range(cycles):
            await self._ctx.tick()
            self.cycle += 1

    def flags(self) -> dict[str, int]:
        """Bits of the flags, by name."""
        word = self._words()[LOOP.flags]
        return {name: word >> bit & 1 for bit, name in enumerate(LOOP.flag_bits)}

    def beat(self) -> int:
        """The beat in the trace words."""
        low, high = self._words()[LOOP.flags + 1 :]
        return low | high << 64

    def shown(self) -> list[tuple]:
        """(event, detail, peer, length, extra, uid) of each lane that shows one; a UID is (source, incarnation, …)."""
        words, found = self._words(), []
        for lane in range(len(LOOP.lanes)):
            word, uid = words[2 * lane : 2 * lane + 2]
            fields = (trace.DETAIL, trace.PEER, trace.LENGTH, trace.EXTRA)
            if word:
                values = (field.of(word) for field in fields)
                found.append((Event(trace.EVENT.of(word)), *values, unpack_uid(uid) if uid else None))
            assert word or not uid
        return found

    def _words(self) -> list[int]:
        watch = self.get(self.loop.watch)
        return [watch >> trace.WORD_BITS * i & trace.MASK64 for i in range(LOOP.words)]

    def offer(self, length: int, **record) -> None:
        """Offers a record for the own node."""
        fields = {"destination": NODE, "length": length, **record}
        given = {name: fields.get(name, 0) for name in self.loop.above.send.payload.shape().members}
        self.set(self.loop.above.send.payload, given)
        self.set(self.loop.above.send.valid, 1)

    async def send(self, payload: bytes, **record) -> None:
        """Offers a datagram from this cycle on, until its last beat is taken; ends in the cycle after."""
        self.offer(record.pop("length", len(payload)), **record)
        await self._until(self.loop.above.send.ready)
        self.set(self.loop.above.send.valid, 0)
        step = self.form.flit_bytes
        noise = (1 << 8 * step) - 1
        for at in range(0, len(payload), step):
            piece = payload[at : at + step]
            self.set(
                self.loop.above.send_data.payload, int.from_bytes(piece, "little") | noise << 8 * len(piece) & noise
            )
            self.set(self.loop.above.send_data.valid, 1)
            await self._until(self.loop.above.send_data.ready)
        self.set(self.loop.above.send_data.valid, 0)

    async def take(self) -> tuple[dict, bytes]:
        """Takes a record and its beats; ends in the cycle after."""
        deliver, beats = self.loop.above.deliver_loop, self.loop.above.deliver_loop_data
        record = await self._taken(deliver)
        payload = bytearray()
        last = not record["length"]
        while not last:
            beat = await self._taken(beats)
            payload += beat["data"].to_bytes(self.form.flit_bytes, "little")
            last = beat["last"]
        assert not any(payload[record["length"] :])
        return record, bytes(payload[: record["length"]])

    async def _taken(self, port) -> dict:
        self.set(port.ready, 1)
        for _ in range(50):
            there, payload = self.get(port.valid), self.get(port.payload)
            values = {name: payload[name] for name in port.payload.shape().members}
            await self.tick()
            if there:
                self.set(port.ready, 0)
                return values
        raise AssertionError("nothing came")

    async def _until(self, ready) -> None:
        for _ in range(50):
            there = self.get(ready)
            await self.tick()
            if there:
                return
        raise AssertionError("nothing was taken")

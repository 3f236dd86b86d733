"""The RTL's generator and checker beside their golden models, for payloads of any length."""

import random
from collections import deque

from amaranth.hdl import Cat, Mux

from lethe.spec.config import System
from lethe.spec.random import UNIT_GENERATOR, seed_for
from lethe.traffic.checker import LATE, Checker
from lethe.traffic.generator import Generator
from lethe_sim.golden import host_blocks as golden

from .blocks import Block, Span, pack, slices

#: Cycles for which an NI is not Ready after reset, at least.
_INITIAL = 2
#: The number of a payload's word counts so far, and comes round.
WORDS_COME_ROUND = 256


class GeneratorBlock(Block):
    """A generator under an NI that takes records and beats in fits, and is reset."""

    def __init__(self, system: System):
        self._system, form = system, system.format
        self._record = (form.node_bits, form.length_bits, system.wire.tag_bits)
        self._bits = form.flit_bits
        self.inputs = form.node_bits + 32 + 5
        self.outputs = (
            Span("offer valid", 1), Span("destination", self._record[0], str), Span("length", self._record[1], str),
            Span("tag", self._record[2], str), Span("data valid", 1), Span("data", self._bits), Span("sent", 32, str),
            Span("sent_sum", 32), Span("done", 1),
        )  # fmt: skip

    def build(self, m, name, i, o):
        m.submodules[name] = dut = Generator(self._system)
        record, bits = dut.send.payload, self._record
        fields = Cat(record.destination[: bits[0]], record.length[: bits[1]], record.tag)
        m.d.comb += [
            Cat(dut.node, dut.seed, dut.ready, dut.node_reset, dut.stopped, dut.send.ready, dut.send_data.ready).eq(i),
            o.eq(
                Cat(
                    dut.send.valid, Mux(dut.send.valid, fields, 0),
                    dut.send_data.valid, Mux(dut.send_data.valid, dut.send_data.payload, 0), dut.sent, dut.sent_sum,
                    dut.done,
                )
            ),
        ]  # fmt: skip

    def play(self, seed):
        chance = random.Random(seed)
        form = self._system.format
        stop = chance.randrange(1500, 3500)
        system = self._system.replace(run={"seed": seed}, workload={"stop": stop})
        node = chance.randrange(system.nodes)
        model = golden.Generator(system, node)
        constants = (node, form.node_bits), (seed_for(seed, UNIT_GENERATOR, node), 32)
        takes, reset, initial = [0.5, 0.9], 0, _INITIAL
        while True:
            if chance.random() < 0.01:
                takes[chance.randrange(2)] = chance.choice((0.1, 0.5, 1.0, 1.0))
            if not reset and chance.random() < 1 / 700:
                reset = chance.choice((1, 3, 40))
            initial = _INITIAL if reset else initial
            ready = not initial and chance.random() < 0.95
            takes_record, takes_beat = (chance.random() < share for share in takes)
            stopped, offered = 0 < stop <= model.cycle, model.offer()
            self.reached = []
            if model.done:
                self.reached.append("DONE")
            elif offered.beat is not None and (model.beat + 1) * self._bits > 32 * WORDS_COME_ROUND:
                self.reached.append("WORDS COME ROUND")
            record, widths = offered.record or (0, 0, 0), self._record
            yield (
                pack(*constants, (ready, 1), (reset > 0, 1), (stopped, 1), (takes_record, 1), (takes_beat, 1)),
                pack(
                    (offered.record is not None, 1), *zip(record, widths, strict=True),
                    (offered.beat is not None, 1), (offered.beat or 0, self._bits),
                    *((total, 32) for total in model.sums), (model.done, 1),
                ),
            )  # fmt: skip
            model.step(ready=ready, reset=reset > 0, record_ready=takes_record, beat_ready=takes_beat)
            initial = max(0, initial - 1)
            reset = max(0, reset - 1)


class CheckerBlock(Block):
    """A checker, given datagrams good and bad, of which some end with the wrong beat."""

    def __init__(self, system: System):
        self._system, self._bits = system, system.format.flit_bits
        self._length = system.format.length_bits
        self.inputs = 3 + self._length + 1 + self._bits + 1
        self.outputs = (
            Span("record.ready", 1), Span("data.ready", 1), Span("received", 32, str), Span("received_sum", 32),
            Span("wrong", 32, str),
        )  # fmt: skip

    def build(self, m, name, i, o):
        m.submodules[name] = dut = Checker(self._system)
        stalled, reset, offers, length, shows, beat = slices(i, 1, 1, 1, self._length, 1, self._bits + 1)
        m.d.comb += [
            dut.stalled.eq(stalled),
            dut.node_reset.eq(reset),
            dut.deliver.valid.eq(offers),
            dut.deliver.payload.length.eq(length),
            dut.deliver_data.valid.eq(shows),
            Cat(dut.deliver_data.payload.data, dut.deliver_data.payload.last).eq(beat),
            o.eq(Cat(dut.deliver.ready, dut.deliver_data.ready, dut.received, dut.received_sum, dut.wrong)),
        ]

    def play(self, seed):
        chance = random.Random(seed)
        model = golden.Checker(self._system)
        records: deque[int] = deque()
        beats: deque[tuple[int, int]] = deque()
        eager, stalled, reset = [0.5, 0.9], 0, 0
        sums = deque([model.sums] * LATE, LATE)
        while True:
            self.reached = []
            if chance.random() < 0.02:
                eager[chance.randrange(2)] = chance.choice((0.2, 0.8, 1.0))
            if not records:
                length, shape, words = self._datagram(chance)
                records.append(length)
                beats.extend(words)
                self.reached.append(shape)
            if not stalled and chance.random() < 0.02:
                stalled = chance.choice((1, 5, 20))
            if not reset and chance.random() < 1 / 900:
                reset = chance.choice((1, 3))
            record = records[0] if chance.random() < eager[0] else None
            beat = beats[0] if beats and chance.random() < eager[1] else None
            held, heads = stalled > 0 or reset > 0, model.takes_records
            yield (
                pack(
                    (stalled > 0, 1), (reset > 0, 1), (record is not None, 1), (record or 0, self._length),
                    (beat is not None, 1), *zip(beat or (0, 0), (self._bits, 1), strict=True),
                ),
                pack(
                    (not held and heads, 1), (not held and not heads, 1), *((total, 32) for total in sums[0]),
                ),
            )  # fmt: skip
            took_record, took_beat = model.step(record, beat, stalled=stalled > 0, reset=reset > 0)
            sums.append(model.sums)
            if took_record:
                records.popleft()
            if took_beat:
                beats.popleft()
            if reset:
                records.clear()
                beats.clear()
            stalled, reset = max(0, stalled - 1), max(0, reset - 1)

    def _datagram(self, chance: random.Random) -> tuple[int, str, list[tuple[int, int]]]:
        """Length, shape, and beats with their ``last``."""
        mtu, step = self._system.wire.mtu, self._bits // 8
        length = chance.choice((4, chance.randrange(4, min(mtu, 64) + 1), chance.randrange(4, mtu + 1), mtu))
        text = _payload(chance.getrandbits(32), length)
        words = [int.from_bytes(text[i : i + step], "little") for i in range(0, length, step)]
        shape = chance.choice(("GOOD", "GOOD", "BIT", "EARLY", "LATE", "TWICE", "ENDLESS"))
        match shape:
            case "BIT":
                words[chance.randrange(len(words))] ^= 1 << chance.randrange(self._bits)
            case "EARLY":
                words = words[: chance.randrange(1, len(words) + 1)]
            case "LATE":
                words += [chance.getrandbits(self._bits) for _ in range(chance.choice((1, 2, 9)))]
            case "TWICE":  # what is beyond looks as if the datagram began anew
                words += words
        return length, shape, [(word, int(i == len(words) - 1 and shape != "ENDLESS")) for i, word in enumerate(words)]


def _payload(key: int, length: int) -> bytes:
    """The payload of ``key``, as section 5 says it."""
    words = (key ^ (i & 0xFF) * 0x0101_0101 ^ (0xFFFF_FFFF if i & 1 else 0) for i in range(-(-length // 4)))
    return b"".join(word.to_bytes(4, "little") for word in words)[:length]

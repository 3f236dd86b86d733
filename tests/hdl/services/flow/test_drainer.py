"""Drainer and placer: cells, lists, gaps, and credits, in their cycles (contract of flow, section 6)."""

import random

from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from lethe.services.flow.drainer import Drainer
from lethe.services.flow.layouts import EntryKind
from tests.hdl.services.flow.blocks import layouts, passing, placed
from tests.helpers.simulated import walked


class Bench:
    """A drainer between entries and delivered messages, which both are there when asked for."""

    def __init__(self, **sections):
        self.of = layouts(**sections)
        self.block = Drainer(self.of)
        self.shown: list[tuple] = []  # (cycle, what, …)
        self.cycle, self.cell, self.coming = 0, 0, None
        self.cells = [0, 0]  # what was oldest two cycles ago, and one
        self.records: list[dict] = []
        self.beats: list[int] = []

    def run(self, test) -> None:
        async def process(ctx):
            self.ctx = ctx
            await walked(ctx, self.block, self.of.initial)
            await test(self)

        m = Module()
        m.submodules.block = self.block
        m.d.sync += Signal(name="clocked").eq(1)
        simulator = Simulator(m)
        simulator.add_clock(1e-6)
        simulator.add_testbench(process)
        simulator.run()

    def message(
        self, kind: EntryKind, seq: int, body: bytes = b"", *, count=0, mask=0, index=1, credit=0, short=None
    ) -> dict:
        """A message: the entry, and what the NI delivers."""
        size = self.of.system.format.flit_bytes
        header = credit | seq << 16 | 0xFB << 24 | 2 << 32 | index << 48
        whole = header.to_bytes(8, "little") + body if short is None else bytes(short)
        self.records.append({"source": 1, "cls": 1, "length": len(whole)})
        for at in range(0, len(whole), size):
            piece = whole[at : at + size]
            self.beats.append(int.from_bytes(piece, "little"))
        return {
            "kind": kind, "source": 1, "index": index, "seq": seq, "count": passing(count, seq), "mask": mask, "q": 2,
        }  # fmt: skip

    async def tick(self, cycles: int = 1) -> None:
        """Cycles in which what is due is offered and what is shown is noted."""
        ctx, block = self.ctx, self.block
        for _ in range(cycles):
            ctx.set(block.deliver.valid, bool(self.records))
            ctx.set(block.deliver_data.valid, bool(self.beats))
            if self.records:
                ctx.set(block.deliver.payload, self.records[0])
            if self.beats:
                ctx.set(block.deliver_data.payload, {"data": self.beats[0], "last": 0})
            ctx.set(block.free_cell, self.cells.pop(0))
            self.cells.append(self.cell)
            if ctx.get(block.free_takes):
                self._note("takes", ctx.get(block.free_port))
            if ctx.get(block.cell_writes):
                word = ctx.get(block.cell_word)
                self._note("cell", ctx.get(block.cell_at), word.seq, word.length, word.flags, word.source)
            if ctx.get(block.store_writes):
                self._note("store", ctx.get(block.store_at), ctx.get(block.store_data))
            if ctx.get(block.appends):
                word = ctx.get(block.append_word)
                self._note("append", ctx.get(block.append_port), word.cell, word.gap, ctx.get(block.append_seq))
            if ctx.get(block.fills):
                self._note("fill", ctx.get(block.fill_port), ctx.get(block.fill_length))
            if ctx.get(block.credit_soon):
                self._note("soon", ctx.get(block.credit_stream))
            if ctx.get(block.credit_acts):
                self._note("credit", self.coming, ctx.get(block.credit_at))
            self.coming = ctx.get(block.credit_coming) if ctx.get(block.credit_next) else None
            for name in ("own_pops", "own_ends"):
                if ctx.get(getattr(block, name)):
                    self._note(name)
            took = ctx.get(block.free_takes)
            if ctx.get(block.deliver.ready) and self.records:
                self.records.pop(0)
            if ctx.get(block.deliver_data.ready) and self.beats:
                self.beats.pop(0)
            await ctx.tick()
            self.cycle += 1
            self.cell = (self.cell + took) % 4

    def _note(self, *what) -> None:
        self.shown.append((self.cycle, *what))

    async def enter(self, *entries: dict) -> None:
        for entry in entries:
            self.ctx.set(self.block.enters, 1)
            self.ctx.set(self.block.entry, entry)
            await self.tick()
        self.ctx.set(self.block.enters, 0)


def test_a_message_goes_to_its_cell():
    """Entered in 0, popped in 2 (r), its header in 3 (k), settled in 4; its beats are stored from 4 on."""
    bench = Bench()

    async def test(b):
        await b.enter(b.message(EntryKind.PLACE, 0, bytes(range(1, 13)), count=1, mask=1))
        await b.tick(10)
        stored = [int.from_bytes(bytes(range(1, 9)), "little"), int.from_bytes(bytes(range(9, 13)), "little")]
        assert b.shown == [
            (2, "takes", 1), (2, "soon", 1 << 2 | 2),
            (4, "cell", 1 << 2, 0, 12, 0x73, 1), (4, "store", 1 << 2, stored[0]), (4, "append", 1, 0, 1, 0),
            (4, "fill", 1, 12), (4, "credit", 0, 1 << 2 | 2), (5, "store", 1 << 4 | 1 << 2, stored[1]),
        ]  # fmt: skip
        assert b.ctx.get(b.block.journal_empty) and b.ctx.get(b.block.drainer_idle)

    bench.run(test)


def test_what_is_parked_comes_when_its_turn_does():
    """2 and 1 are parked, 3 is void, 4 parked; 0 takes all: one number in each cycle from two cycles later on."""
    bench = Bench()

    async def test(b):
        await b.enter(
            b.message(EntryKind.PLACE, 2, b"two"), b.message(EntryKind.PLACE, 1), b.message(EntryKind.PLACE, 4, b"f"),
            b.message(EntryKind.PLACE, 0, b"zero", count=5, mask=0b10111),
        )  # fmt: skip
        await b.tick(40)
        appended = [found for found in b.shown if found[1] == "append"]
        settled = appended[0][0]
        assert appended == [
            (settled, "append", 1, 3, 1, 0), (settled + 2, "append", 1, 1, 0, 1), (settled + 3, "append", 1, 0, 0, 2),
            (settled + 5, "append", 1, 2, 1, 4),
        ]  # fmt: skip
        assert b.ctx.get(b.block.drainer_idle)

    bench.run(test)


def test_a_vacant_number_leaves_a_gap():
    bench = Bench()

    async def test(b):
        await b.enter(
            b.message(EntryKind.PLACE, 0, count=1, mask=1), b.message(EntryKind.SKIP, 1, b"nobody", count=1),
            b.message(EntryKind.PLACE, 2, count=1, mask=1), b.message(EntryKind.SKIP, 2, b"again"),
            b.message(EntryKind.PLACE, 3, count=1, mask=1),
        )  # fmt: skip
        await b.tick(40)
        assert [found[2:] for found in b.shown if found[1] == "append"] == [(1, 0, 1, 0), (1, 1, 1, 2), (1, 2, 0, 3)]
        assert len([found for found in b.shown if found[1] == "credit"]) == 5
        assert [found for found in b.shown if found[1] == "store"] == []
        assert not b.beats and not b.records

    bench.run(test)


def test_runs():
    """Of a VOID: what is parked behind it; the last number of a flush is void, the seventeenth at most."""
    bench = Bench()

    async def test(b):
        run = {"kind": EntryKind.RUN, "source": 1, "index": 1, "seq": 0, "count": passing(3, 0), "mask": 0b10}
        await b.enter(b.message(EntryKind.PLACE, 1, b"one"), run, b.message(EntryKind.PLACE, 0, count=1, mask=1))
        await b.tick(40)
        assert [found[2:] for found in b.shown if found[1] == "append"] == [(1, 0, 1, 1), (1, 1, 1, 0)]
        b.shown.clear()
        flush = {"kind": EntryKind.FLUSH, "source": 1, "index": 1, "seq": 5, "count": 17}
        flush["mask"] = placed(1 << 3 | 1 << 15, 5)
        await b.enter(b.message(EntryKind.PLACE, 8, b"8"), b.message(EntryKind.PLACE, 20), flush)
        await b.tick(12)
        assert not b.ctx.get(b.block.drainer_idle)
        await b.tick(28)
        assert [found[2:] for found in b.shown if found[1] == "append"] == [(1, 2, 1, 8), (1, 3, 1, 20)]
        assert b.ctx.get(b.block.drainer_idle)

    bench.run(test)


def test_sixteen_numbers_at_once():
    """15 are parked; the expected one takes all of them, and the next number is as after a single one."""
    bench = Bench()

    async def test(b):
        for seq in range(1, 16):
            await b.enter(b.message(EntryKind.PLACE, seq))
            await b.tick(5)
        await b.enter(b.message(EntryKind.PLACE, 0, count=16, mask=0xFFFF), b.message(EntryKind.PLACE, 16, count=1))
        await b.tick(40)
        assert [found[-1] for found in b.shown if found[1] == "append"] == list(range(17))
        assert b.ctx.get(b.block.drainer_idle)

    bench.run(test)


def test_a_run_waits_for_what_is_placed():
    """The placer takes the run behind a message without body first; then that of the next entry."""
    bench = Bench()

    async def test(b):
        run = {"kind": EntryKind.RUN, "source": 1, "index": 1, "seq": 2, "count": passing(1, 2), "mask": 0}
        await b.enter(
            b.message(EntryKind.PLACE, 1), b.message(EntryKind.PLACE, 0, count=2, mask=0b11), run,
            b.message(EntryKind.PLACE, 3, count=1, mask=1),
        )  # fmt: skip
        await b.tick(40)
        assert [found[2:] for found in b.shown if found[1] == "append"] == [(1, 1, 1, 0), (1, 0, 0, 1), (1, 2, 1, 3)]

    bench.run(test)


def test_a_message_shorter_than_its_header_is_dropped():
    bench = Bench(wire={"flit_bits": 16, "mtu": 40})

    async def test(b):
        await b.enter(b.message(EntryKind.SKIP, 0, short=3), b.message(EntryKind.SKIP, 0, short=0))
        await b.tick(20)
        assert b.shown == [] and not b.beats and not b.records and b.ctx.get(b.block.drainer_idle)

    bench.run(test)


def test_headers_of_several_beats():
    """With 16 bits: the credit is asked for two cycles before it acts, in k+1 = r+5."""
    bench = Bench(wire={"flit_bits": 16, "mtu": 40})

    async def test(b):
        await b.enter(b.message(EntryKind.PLACE, 9, b"ab", count=1, mask=1))
        await b.tick(20)
        times = {found[1]: found[0] for found in b.shown}
        assert times == {"takes": 2, "soon": 5, "cell": 7, "append": 7, "fill": 7, "credit": 7, "store": 7}
        assert (7, "cell", 1 << 2, 9, 2, 0x73, 1) in b.shown

    bench.run(test)


def test_the_credit_of_what_is_ignored():
    bench = Bench()

    async def test(b):
        await b.enter(b.message(EntryKind.SKIP, 0, credit=21))
        await b.tick(6)
        assert [shown[2:] for shown in b.shown if shown[1] == "credit"] == [(21, 1 << 2 | 2)]

    bench.run(test)


def test_own_messages():
    """Beats of the host from r+1 on, with nothing beyond the length; without a cell they are dropped."""
    bench = Bench()

    async def test(b):
        b.ctx.set(b.block.own_length, 12)
        b.ctx.set(b.block.own_header, {"flags": 3, "sport": 2, "dport": 1})
        b.ctx.set(b.block.own_beat, 3 << 24 | 2 << 32 | 1 << 48)
        await b.enter({"kind": EntryKind.OWN, "index": 1, "count": 1})
        await b.tick(2)
        b.ctx.set(b.block.own_beat, (1 << 64) - 1)
        await b.tick(6)
        assert b.shown == [
            (2, "takes", 1), (3, "cell", 1 << 2, 0, 12, 3, 0), (3, "store", 1 << 2, (1 << 64) - 1),
            (3, "append", 1, 0, 1, 0), (3, "fill", 1, 12), (3, "own_pops"),
            (4, "store", 1 << 4 | 1 << 2, (1 << 32) - 1), (4, "own_pops"), (4, "own_ends"),
        ]  # fmt: skip
        b.shown.clear()
        b.ctx.set(b.block.own_length, 0)
        await b.enter({"kind": EntryKind.OWN, "index": 1, "count": 0})
        await b.tick(8)
        assert [found[1:] for found in b.shown] == [("own_ends",)]

    bench.run(test)


def test_runs_wait_while_the_journal_holds_two_entries():
    """Beside the one at its output, whatever enters and leaves meanwhile."""
    chance, bench = random.Random(1), Bench()

    async def test(b):
        ctx, block = b.ctx, b.block
        held, shown, seen = 0, False, set()
        ctx.set(block.entry, {"kind": EntryKind.SKIP})
        for cycle in range(400):
            often = 0.8 if cycle // 40 % 2 else 0.3
            offers, enters = chance.random() < 1 - often, held < 4 and chance.random() < often
            ctx.set(block.deliver.valid, offers)
            ctx.set(block.enters, enters)
            assert ctx.get(block.journal_high) == (held >= 2), cycle
            seen.add((held, shown))
            leaves = shown and offers
            refills = held > 0 and (not shown or leaves)
            held, shown = held + enters - refills, refills or (shown and not leaves)
            await ctx.tick()
        assert {at for at, _ in seen} >= {0, 1, 2, 3, 4}

    bench.run(test)

"""The reader: turns of the ports, what the host is shown, and what is flushed (contract of flow, section 7)."""

from lethe.services.flow.reader import PortReader
from tests.hdl.services.flow.blocks import layouts
from tests.helpers.simulated import simulated, walked


def started(test):
    of = layouts()
    block = PortReader(of, of.system.top_port)

    async def run(ctx):
        await walked(ctx, block, of.initial)
        ctx.set(block.bound, 0xF)
        ctx.set(block.fetched_bound, 1)
        await test(ctx, block)

    simulated(block, run)


async def append(ctx, block, port: int, cell: int, *, seq: int = 0, length: int = 0, gap: int = 0, number=None) -> None:
    """A message in a cell, at the end of a list; one cycle."""
    ctx.set(block.cell_writes, 1)
    ctx.set(block.cell_at, port << 2 | cell)
    dport = port if number is None else number
    ctx.set(block.cell_word, {"source": 1, "length": length, "dport": dport, "seq": seq})
    ctx.set(block.appends, 1)
    ctx.set(block.append_port, port)
    ctx.set(block.append_list, 1 << port)
    ctx.set(block.append_word, {"cell": cell, "gap": gap})
    await ctx.tick()
    ctx.set(block.appends, 0)
    ctx.set(block.cell_writes, 0)


def test_a_message_is_shown_seven_cycles_after_it_is_placed():
    """Appended in 0, chosen in 1 (x), at the show from 7 (x+6) on; taken there, freed in 8."""

    async def test(ctx, block):
        ctx.set(block.receive_mask, 0xF)
        ctx.set(block.fetched_number, 2)
        await append(ctx, block, 2, 3, seq=9, gap=1)
        assert ctx.get(block.readable) == 0b100
        for cycle in range(1, 7):
            assert not ctx.get(block.deliver.valid) and not ctx.get(block.frees)
            assert ctx.get(block.readable) == (0b100 if cycle == 1 else 0)
            await ctx.tick()
        ctx.set(block.deliver.ready, 1)
        record = ctx.get(block.deliver.payload)
        assert ctx.get(block.deliver.valid)
        assert (record.source, record.dport, record.seq, record.gap) == (1, 2, 9, 1)
        await ctx.tick()
        assert ctx.get(block.frees) and (ctx.get(block.freed_port), ctx.get(block.freed_cell)) == (2, 3)
        await ctx.tick()
        assert not ctx.get(block.frees) and ctx.get(block.reader_idle)

    started(test)


def test_ports_take_turns():
    """From port 0 on, each once, as far as the host reads them; a list keeps its order."""

    async def test(ctx, block):
        for port, cell, seq in ((3, 0, 1), (0, 0, 2), (0, 1, 3), (2, 1, 4), (1, 0, 5)):
            await append(ctx, block, port, cell, seq=seq)
            await ctx.tick()
        ctx.set(block.receive_mask, 0b1101)
        ctx.set(block.deliver.ready, 1)
        seen = []
        for _ in range(60):
            ctx.set(block.fetched_number, ctx.get(block.fetched_port))
            if ctx.get(block.deliver.valid):
                seen.append(ctx.get(block.deliver.payload.seq))
            await ctx.tick()
        assert seen == [2, 4, 1, 3] and ctx.get(block.readable) == 0b10

    started(test)


def test_beats_wait_in_the_output():
    """Eight at most are read ahead; the cell is freed when the last has been read and the record taken."""

    async def test(ctx, block):
        ctx.set(block.receive_mask, 0xF)
        for beat in range(4):
            ctx.set(block.store_writes, 1)
            ctx.set(block.store_at, beat << 4 | 1 << 2 | 2)
            ctx.set(block.store_data, 100 + beat)
            await ctx.tick()
        ctx.set(block.store_writes, 0)
        ctx.set(block.fetched_number, 1)
        await append(ctx, block, 1, 2, length=29)
        ctx.set(block.deliver.ready, 1)
        freed, beats = [], []
        for cycle in range(40):
            if ctx.get(block.frees):
                freed.append((cycle, ctx.get(block.freed_length)))
            ctx.set(block.deliver_data.ready, cycle >= 20)
            if cycle >= 20 and ctx.get(block.deliver_data.valid):
                beat = ctx.get(block.deliver_data.payload)
                beats.append((beat.data, beat.last))
            await ctx.tick()
        # Chosen in 0, shown from 6 on, read in 6 to 9.
        assert freed == [(10, 29)]
        assert beats == [(100, 0), (101, 0), (102, 0), (103, 1)]

    started(test)


def test_what_nobody_is_bound_to_is_flushed():
    """In x+6; a port that is not bound is read whatever the mask says."""

    async def test(ctx, block):
        ctx.set(block.bound, 0b1110)
        ctx.set(block.fetched_number, 9)
        for port, cell in ((0, 1), (3, 2)):
            await append(ctx, block, port, cell, seq=port, length=8)
            await ctx.tick()
        ctx.set(block.receive_mask, 0b1000)
        seen = []
        for cycle in range(3, 30):
            ctx.set(block.fetched_bound, ctx.get(block.fetched_port) != 0)
            if ctx.get(block.flushed):
                seen.append((cycle, ctx.get(block.freed_port), ctx.get(block.freed_cell), ctx.get(block.freed_length)))
            assert not ctx.get(block.deliver.valid)
            await ctx.tick()
        assert seen == [(6, 0, 1, 8), (13, 3, 2, 8)] and ctx.get(block.reader_idle)

    started(test)

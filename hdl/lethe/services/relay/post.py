"""The Post: messages that have come, of which it shows those that are posted to the host (contract of relay, 5)."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.lib.memory import Ram
from lethe.lib.queue import Queue
from lethe.spec.ports import HostPort

from .layouts import RelayLayouts

__all__ = ["Post"]

#: Beats in the beat output, or on their way to it.
AHEAD = 8
#: Cycles from the choice of a cell until it is shown.
SHOW = 4


class Post(wiring.Component):
    """The messages of cells: written as they come, shown to the host in the order in which they are posted.

    Members
    -------
    writes, at, word : In
        What is known of the message of a cell.
    store_writes, store_at, store_data : In
        A beat of it.
    posts, posted : In
        The cell is posted.
    deliver, deliver_data : Out(stream)
        Of the port above.
    frees, freed : Out
        A cell is free from the next cycle on.
    idle : Out(1)
        Nothing waits for the host.
    halted, wrong : In(1), Out(1), with ``relay.crc``
        No cell is chosen, and no beat is read, nor comes; the one that comes is wrong.
    """

    def __init__(self, layouts: RelayLayouts, above: HostPort):
        self._layouts = layouts
        of, records = layouts, host_records(layouts.system, above)
        self._shown = data.StructLayout(
            {"source": of.node_bits, "cls": 3, "length": of.length_bits, "uid": of.uid_bits}
        )
        self._beat = records["beat"]
        checks = {"halted": In(1), "wrong": Out(1)} if of.checks else {}
        super().__init__(
            {
                "writes": In(1), "at": In(of.cell_bits), "word": In(of.cell),
                "store_writes": In(1), "store_at": In(of.cell_bits + of.beat_bits),
                "store_data": In(of.stored_bits),
                "posts": In(1), "posted": In(of.cell_bits),
                "deliver": Out(stream.Signature(records["relayed"])),
                "deliver_data": Out(stream.Signature(self._beat)),
                "frees": Out(1), "freed": Out(of.cell_bits), "idle": Out(1), **checks,
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of = self._layouts
        m.submodules.queue = queue = Queue(of.cell_bits, of.cells, apart=True)
        m.submodules.words = words = Ram(self._shown, of.cells)
        m.submodules.store = store = Ram(of.stored_bits, of.cells << of.beat_bits)
        m.submodules.output = output = Queue(self._beat, AHEAD)
        showing, age, taken, cell = Signal(), Signal(SHOW), Signal(), Signal(of.cell_bits)
        read, left = Signal(of.beat_bits), Signal(range(of.beats + 1))
        there, coming, coming_last = Signal(range(AHEAD + 1)), Signal(2), Signal(2)
        fetches, shows, reads, takes, last, done = Signal(), Signal(), Signal(), Signal(), Signal(), Signal()
        word = words.read_data
        m.d.comb += [
            words.write_en.eq(self.writes),
            words.write_addr.eq(self.at),
            *(words.write_data[name].eq(self.word[name]) for name in self._shown.members),
            words.read_addr.eq(cell),
            store.read_addr.eq(Cat(read, cell)),
            queue.i.valid.eq(self.posts),
            queue.i.payload.eq(self.posted),
            fetches.eq(~showing & queue.o.valid),
            queue.o.ready.eq(~showing),
            shows.eq(showing & age[-1]),
            self.deliver.valid.eq(shows & ~taken),
            *(self.deliver.payload[name].eq(word[name]) for name in self._shown.members),
            takes.eq(self.deliver.valid & self.deliver.ready),
            last.eq(left == 1),
            reads.eq(shows & left.any() & (there != AHEAD)),
            done.eq(shows & (taken | takes) & (~left.any() | (reads & last))),
            output.i.valid.eq(coming[1]),
            output.i.payload.data.eq(of.beat_of(store.read_data)),
            output.i.payload.last.eq(coming_last[1]),
            self.deliver_data.valid.eq(output.o.valid),
            self.deliver_data.payload.eq(output.o.payload),
            output.o.ready.eq(self.deliver_data.ready),
            self.frees.eq(done),
            self.freed.eq(cell),
            self.idle.eq(~showing & queue.empty & output.empty & ~coming.any()),
        ]
        if of.checks:
            m.d.comb += self.wrong.eq(coming[1] & ~self.halted & of.is_wrong(store.read_data))
            with m.If(self.halted):
                m.d.comb += [fetches.eq(0), queue.o.ready.eq(0), reads.eq(0)]
            with m.If(self.halted | self.wrong):
                m.d.comb += output.i.valid.eq(0)
        m.d.sync += [
            store.write_en.eq(self.store_writes),
            store.write_addr.eq(self.store_at),
            store.write_data.eq(self.store_data),
            coming.eq(Cat(reads, coming)),
            coming_last.eq(Cat(last, coming_last)),
            there.eq(there + reads - (output.o.valid & output.o.ready)),
            age.eq(Cat(0, age[:-2], age[-2:].any())),
        ]
        with m.If(reads):
            m.d.sync += [read.eq(read + 1), left.eq(left - 1)]
        with m.If(age[-2]):
            m.d.sync += left.eq(of.payload_flits(word.length))
        with m.If(takes):
            m.d.sync += taken.eq(1)
        with m.If(done):
            m.d.sync += showing.eq(0)
        with m.If(fetches):
            m.d.sync += [showing.eq(1), taken.eq(0), cell.eq(queue.o.payload), read.eq(0), age.eq(1)]
        return m

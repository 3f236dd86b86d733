"""The reader: from the lists of the ports to the host (contract of flow, section 7)."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.lib.first import first_of
from lethe.lib.memory import Ram
from lethe.lib.queue import Queue, step
from lethe.lib.table import Words
from lethe.spec.ports import HostPort

from .layouts import Layouts

__all__ = ["PortReader"]

#: Beats in the beat output, or on their way to it.
AHEAD = 8


class PortReader(wiring.Component):
    """The lists of the ports, the cells that they name, and what shows them to the host.

    Parameters
    ----------
    layouts : of the configuration
    above : the port above

    Members
    -------
    appends, append_port, append_list, append_word : In
        To the list of a port; ``append_list`` has a bit for each port, and a 1 for this one.
    cell_writes, cell_at, cell_word, store_writes, store_at, store_data : In
        What the drainer writes; no cell in the cycle after ``appends``.
    receive_mask, bound : In(ports)
        Of what ports the host takes messages; those that are bound.
    readable : Out(ports)
        The ports whose lists are not empty.
    listed, fetches, fetches_last : Out
        The same, but for ``fetched_port`` if this is fetched, and the last of its list.
    fetched_port, fetched_number, fetched_bound : Out, In(16), In(1)
        A port; in the next cycle, what it is bound to, and whether it is bound.
    deliver, deliver_data : Out(stream)
    frees, freed_port, freed_cell, freed_length : Out
        A cell is free again.
    may_free : Out(1)
        It may be, or will.
    flushed, flushed_word : Out
        It was of a port that is bound no more.
    reader_idle : Out(1)
    ports_clear, ports_clear_addr : In
        The walk over ports after a reset.
    """

    def __init__(self, layouts: Layouts, above: HostPort):
        self._layouts = layouts
        of = layouts
        records = host_records(of.system, above)
        super().__init__(
            {
                "appends": In(1), "append_port": In(of.port_bits), "append_list": In(of.ports),
                "append_word": In(of.placed),
                "cell_writes": In(1), "cell_at": In(of.port_bits + of.cell_bits), "cell_word": In(of.cell),
                "store_writes": In(1), "store_at": In(of.port_bits + of.cell_bits + of.beat_bits),
                "store_data": In(of.system.format.flit_bits),
                "receive_mask": In(of.ports), "bound": In(of.ports), "readable": Out(of.ports),
                "listed": Out(of.ports), "fetches": Out(1), "fetches_last": Out(1),
                "fetched_port": Out(of.port_bits), "fetched_number": In(16), "fetched_bound": In(1),
                "deliver": Out(stream.Signature(records["received"])),
                "deliver_data": Out(stream.Signature(records["beat"])),
                "frees": Out(1), "may_free": Out(1), "freed_port": Out(of.port_bits), "freed_cell": Out(of.cell_bits),
                "freed_length": Out(of.length_bits),
                "flushed": Out(1), "flushed_word": Out(of.cell),
                "reader_idle": Out(1),
                "ports_clear": In(1), "ports_clear_addr": In(of.port_bits),
            }
        )  # fmt: skip
        self._beat = records["beat"]

    def elaborate(self, platform):
        m = Module()
        of = self._layouts
        deep = of.ports << of.cell_bits
        # The lists stand beside what is before messages in the cells: a message's cell is read when it is known which.
        m.submodules.cells = cells = Ram(of.cell, deep, beside=of.placed)
        m.submodules.store = store = Ram(of.system.format.flit_bits, deep * of.beats, split=True)
        m.submodules.heads = heads = Words(of.cell_bits, of.ports, ("now",))
        m.submodules.nexts = nexts = Words(of.cell_bits, of.ports, ("now",), init=1 % of.cells)  # behind the heads
        m.submodules.tails = tails = Words(of.cell_bits, of.ports, ("now", "left"))

        # The lists.  In x+1 it is seen whether the message that left in x was the last.
        filled, leaving, port = Signal(of.ports), Signal(), Signal(of.port_bits, init=of.ports - 1)
        last, emptied, arrives, whose = Signal(), Signal(of.ports), Signal(of.ports), Signal(of.ports)
        # Those that hold one message: known while they hold any, but not in the cycle after one has left.
        alone, left = Signal(of.ports), Signal()
        for pointers in (heads, nexts, tails):
            m.d.comb += [
                pointers.clear.eq(self.ports_clear),
                pointers.clear_addr.eq(self.ports_clear_addr),
            ]
        m.d.comb += [
            tails.now_addr.eq(self.append_port),
            tails.write_en.eq(self.appends),
            tails.write_addr.eq(self.append_port),
            tails.write.eq(step(tails.now, of.cells)),
            tails.left_addr.eq(port),
            heads.now_addr.eq(port),
            heads.write_en.eq(leaving),
            heads.write_addr.eq(port),
            heads.write.eq(nexts.now),
            nexts.now_addr.eq(port),
            nexts.write_en.eq(leaving),
            nexts.write_addr.eq(port),
            nexts.write.eq(step(nexts.now, of.cells)),
            last.eq(nexts.now == tails.left),
            whose.eq(1 << port),
            emptied.eq(whose & alone & leaving.replicate(of.ports)),
            arrives.eq(Mux(self.appends, self.append_list, 0)),
            self.readable.eq(filled & ~emptied),
            self.listed.eq(filled),
            self.fetches.eq(leaving),
            self.fetches_last.eq(last),
        ]
        listing, list_at, list_word = Signal(), Signal.like(self.cell_at), Signal(of.placed)
        m.d.sync += [
            filled.eq(self.readable | arrives),
            left.eq(leaving),
            *(one.eq(Mux(arrives[i], ~filled[i], Mux(left & whose[i], last, one))) for i, one in enumerate(alone)),
            # What comes in x is read in x+2 at the earliest.
            listing.eq(self.appends),
            list_at.eq(Cat(tails.now, self.append_port)),
            list_word.eq(self.append_word),
        ]

        # Fetch: chosen in x, the cell's number known in x+3, its word in x+5.
        fetching, age, undone = Signal(), Signal(5), Signal()
        wanted = Signal(of.ports)
        # The ports behind the one that was chosen last: known a cycle later, and long before the next choice.
        later = Signal(of.ports)
        m.d.sync += later.eq(Cat(port < i for i in range(of.ports)))
        # In the cycle in which it is seen that a list is empty, none is chosen.
        m.d.comb += wanted.eq(filled & (self.receive_mask | ~self.bound))
        cell, gap = Signal(of.cell_bits), Signal()
        m.d.sync += [leaving.eq(0), age.eq(age << 1)]
        with m.If(~fetching & ~undone & wanted.any()):
            m.d.sync += [fetching.eq(1), leaving.eq(1), port.eq(first_of(wanted, later)), age.eq(1)]
        with m.If(age[2]):
            m.d.sync += [cell.eq(cells.beside.cell), gap.eq(cells.beside.gap)]
        word = cells.read_data
        m.d.comb += [
            cells.write_en.eq(self.cell_writes),
            cells.write_addr.eq(Mux(listing, list_at, self.cell_at)),
            cells.write_data.eq(self.cell_word),
            cells.beside_en.eq(listing),
            cells.beside_data.eq(list_word),
            cells.read_addr.eq(Cat(Mux(leaving, heads.now, Mux(age[2], cells.beside.cell, cell)), port)),
            self.fetched_port.eq(port),
        ]
        # ``good``, ``bad``: it is judged, and waits.  A message that finds the show free goes there before it is
        # judged; if it is to be flushed, this is undone in the next cycle.
        good, bad, bound, low = Signal(), Signal(), Signal(), of.port_bits
        passes, flushes = Signal(), Signal()
        m.d.comb += bound.eq(self.fetched_bound & (self.fetched_number[low:] == word.dport[low:]))

        # Show.
        showing, taken, beats_left, beat = (
            Signal(), Signal(), Signal(range(of.beats + 1)), Signal(max(1, of.beat_bits)),
        )  # fmt: skip
        show, shown_gap, shown_at = Signal(of.cell), Signal(), Signal(of.port_bits + of.cell_bits)
        done, ends, reads, takes = Signal(), Signal(), Signal(), Signal()
        there = Signal(range(AHEAD + 1))
        coming, coming_last = Signal(2), Signal(2)
        m.submodules.output = output = Queue(self._beat, AHEAD)
        wiring.connect(m, output.o, wiring.flipped(self.deliver_data))
        beat_taken = self.deliver_data.valid & self.deliver_data.ready
        m.d.comb += [
            passes.eq((age[4] | good) & ~showing),
            flushes.eq(bad & ~done & ~takes),
            self.deliver.valid.eq(showing & ~taken & ~done & ~undone),
            takes.eq(self.deliver.valid & self.deliver.ready),
            reads.eq(showing & ~undone & beats_left.any() & (there != AHEAD)),
            ends.eq(showing & ~done & (taken | takes) & ((beats_left == 0) | (reads & (beats_left == 1)))),
            store.read_addr.eq(Cat(shown_at, beat[: of.beat_bits])),
            output.i.valid.eq(coming[1]),
            output.i.payload.data.eq(store.read_data),
            output.i.payload.last.eq(coming_last[1]),
            *(self.deliver.payload[name].eq(show[name]) for name in of.cell.members),
            self.deliver.payload.gap.eq(shown_gap),
            self.flushed.eq(flushes),
            self.flushed_word.eq(word),
            self.frees.eq(done | flushes),
            self.may_free.eq(done | bad),
            self.reader_idle.eq(~fetching & ~showing & ~done & output.empty & ~coming.any()),
        ]
        m.d.sync += [
            # A beat is stored long before it is read.
            store.write_en.eq(self.store_writes),
            store.write_addr.eq(self.store_at),
            store.write_data.eq(self.store_data),
            coming.eq(Cat(reads, coming)),
            coming_last.eq(Cat(beats_left == 1, coming_last)),
            there.eq(there + reads - beat_taken),
            done.eq(ends),
            Cat(self.freed_cell, self.freed_port).eq(Mux(ends, shown_at, Cat(cell, port))),
            self.freed_length.eq(Mux(ends, show.length, word.length)),
            undone.eq(age[4] & ~bound & ~showing),
            good.eq(((age[4] & bound) | good) & showing),
            bad.eq((age[4] & ~bound) | (bad & ~flushes)),
        ]
        with m.If(reads):
            m.d.sync += [beat.eq(beat + 1), beats_left.eq(beats_left - 1)]
        with m.If(takes):
            m.d.sync += taken.eq(1)
        with m.If(ends | undone):
            m.d.sync += showing.eq(0)
        with m.If(passes | flushes):
            m.d.sync += fetching.eq(0)
        with m.If(passes):
            m.d.sync += [
                showing.eq(1), taken.eq(0), show.eq(word), shown_gap.eq(gap), shown_at.eq(Cat(cell, port)), beat.eq(0),
                beats_left.eq(of.payload_flits(word.length)),
            ]  # fmt: skip
        return m

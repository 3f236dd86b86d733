"""From one clock to another: a small queue for each AXI channel."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.lib.memory import style_of

__all__ = ["CHANNELS", "DEPTH", "HOST", "AsyncQueue", "Crossing", "GrayCounter", "LiteCrossing"]

#: The clock domain of the host, whose clock and reset are the ports ``host_clk`` and ``host_rst``.
HOST = "host"
#: Beats of a stream on their way: enough for one in each cycle, whatever the clocks.
DEPTH = 16
#: Transfers of a channel of AXI4-Lite on their way, of which there is one at most.
LITE_DEPTH = 4
#: The channels of AXI4-Lite: which go to the slave, and what they carry.
CHANNELS = {
    "aw": (True, ("awaddr", "awprot")),
    "w": (True, ("wdata", "wstrb")),
    "b": (False, ("bresp",)),
    "ar": (True, ("araddr", "arprot")),
    "r": (False, ("rdata", "rresp")),
}


class GrayCounter(wiring.Component):
    """A number in Gray code: of its bits one changes with a step, so another clock sees the old number or the new one.

    Parameters
    ----------
    bits : of the number, which begins at 0 and comes round
    domain : in which it steps

    Members
    -------
    step : In(1)
    gray, following : Out(bits)
        The number, and the next one; from registers.
    place : Out(bits - 1)
        The place of this number in a memory of half as many places: numbers that follow each other have different ones.
    """

    def __init__(self, bits: int, domain: str):
        self._bits, self._domain = bits, domain
        super().__init__({"step": In(1), "gray": Out(bits), "following": Out(bits, init=1), "place": Out(bits - 1)})

    def elaborate(self, platform):
        m = Module()
        ahead = Signal(self._bits, init=2)
        with m.If(self.step):
            m.d[self._domain] += [
                self.gray.eq(self.following),
                self.following.eq(ahead ^ ahead[1:]),
                ahead.eq(ahead + 1),
            ]
        m.d.comb += self.place.eq(Cat(self.gray[:-2], self.gray[-2] ^ self.gray[-1]))
        return m


class AsyncQueue(wiring.Component):
    """A queue from one clock to another.  Its ready, its output and its counters come from registers.

    The library's FIFO compares its pointers, counts and reads its memory within one cycle, which limits the host's
    clock.  A place is free when its entry was taken on ``o``.  Both domains are reset together, as `Crossing` says.

    Parameters
    ----------
    width : bits of an entry
    depth : entries, a power of two, at least 4
    domains : whence, and where to

    Members
    -------
    i, o : In, Out(stream)
        Each in its domain.
    waiting : Out(1), in the first domain
        An entry went in, and is not known to have been taken.
    """

    def __init__(self, width: int, depth: int, domains: tuple[str, str]):
        self._width, self._depth, self._domains = width, depth, domains
        entry = stream.Signature(width)
        super().__init__({"i": In(entry), "o": Out(entry), "waiting": Out(1)})

    def elaborate(self, platform):
        m = Module()
        writes, reads = self._domains
        style = style_of(platform, self._depth, self._width)
        m.submodules.storage = storage = Memory(shape=self._width, depth=self._depth, init=[], attrs=style)
        write, read = storage.write_port(domain=writes), storage.read_port(domain=reads)
        bits = exact_log2(self._depth) + 1
        m.submodules.written = written = GrayCounter(bits, writes)
        m.submodules.read = loaded = GrayCounter(bits, reads)
        # What each side knows of the other.
        there, taken = Signal(bits), Signal(bits)

        full = Signal()
        last = taken ^ (0b11 << (bits - 2))  # a whole round ahead
        m.d.comb += [
            self.i.ready.eq(~full),
            written.step.eq(self.i.valid & ~full),
            write.en.eq(written.step),
            write.addr.eq(written.place),
            write.data.eq(self.i.payload),
            self.waiting.eq(written.gray != taken),
        ]
        m.d[writes] += full.eq(Mux(written.step, written.following == last, written.gray == last))

        # The entry that is shown still has its place.
        free, some, left = Signal(), Signal(), Signal(bits)
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            some.eq(loaded.gray != there),
            loaded.step.eq(some & free),
            read.en.eq(free),
            read.addr.eq(loaded.place),
            self.o.payload.eq(read.data),
        ]
        with m.If(free):
            m.d[reads] += [self.o.valid.eq(some), left.eq(loaded.gray)]

        m.submodules.produce_cdc = FFSynchronizer(written.gray, there, o_domain=reads)
        m.submodules.consume_cdc = FFSynchronizer(left, taken, o_domain=writes)
        return m


def _cross(m: Module, name: str, taken: tuple, shown: tuple, *, domains: tuple[str, str], depth: int) -> AsyncQueue:
    """A queue from one of ``domains`` to the other, between two channels: (what it carries, valid, ready)."""
    (source, source_valid, source_ready), (sink, sink_valid, sink_ready) = taken, shown
    m.submodules[name] = queue = AsyncQueue(len(Cat(source)), depth, domains)
    m.d.comb += [
        queue.i.payload.eq(Cat(source)),
        queue.i.valid.eq(source_valid),
        source_ready.eq(queue.i.ready),
        Cat(sink).eq(queue.o.payload),
        sink_valid.eq(queue.o.valid),
        queue.o.ready.eq(sink_ready),
    ]
    return queue


class Crossing(wiring.Component):
    """An AXI4-Stream from one clock domain to another, in order, none lost, none twice.

    A beat comes out at the earliest four cycles of the second clock after the cycle of the first in which it went in.
    Both domains are reset together: the resets overlap for eight cycles of the slower clock at least.

    Parameters
    ----------
    signature : an `axi_stream`
    domains : whence, and where to

    Members
    -------
    i, o : In, Out(signature)
    waiting : Out(1), in the first domain
        A beat went in, and is not known to have come out.
    """

    def __init__(self, signature: wiring.Signature, domains: tuple[str, str]):
        self._signature, self._domains = signature, domains
        super().__init__({"i": In(signature), "o": Out(signature), "waiting": Out(1)})

    def elaborate(self, platform):
        m = Module()
        names = [name for name in self._signature.members if name not in ("tvalid", "tready")]
        taken, shown = (
            ([getattr(port, name) for name in names], port.tvalid, port.tready) for port in (self.i, self.o)
        )
        queue = _cross(m, "queue", taken, shown, domains=self._domains, depth=DEPTH)
        m.d.comb += self.waiting.eq(queue.waiting)
        return m


class LiteCrossing(wiring.Component):
    """An AXI4-Lite bus whose master is in another clock domain than its slave: a queue for each channel.

    Parameters
    ----------
    signature : an `axi_lite`
    domains : of the master, of the slave

    Members
    -------
    i, o : In, Out(signature)
    """

    def __init__(self, signature: wiring.Signature, domains: tuple[str, str]):
        self._domains = domains
        super().__init__({"i": In(signature), "o": Out(signature)})

    def elaborate(self, platform):
        m = Module()
        for channel, (forward, carried) in CHANNELS.items():
            one, other = (
                (
                    [getattr(bus, name) for name in carried],
                    getattr(bus, f"{channel}valid"),
                    getattr(bus, f"{channel}ready"),
                )
                for bus in (self.i, self.o)
            )
            taken, shown = (one, other) if forward else (other, one)
            master, slave = self._domains
            domains = (master, slave) if forward else (slave, master)
            _cross(m, channel, taken, shown, domains=domains, depth=LITE_DEPTH)
        return m

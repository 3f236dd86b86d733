"""From one clock to another: a small FIFO for each AXI channel."""

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import AsyncFFSynchronizer, FFSynchronizer
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from lethe.lib.memory import style_of

__all__ = ["CHANNELS", "DEPTH", "HOST", "AsyncQueue", "Crossing", "LiteCrossing"]

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


class AsyncQueue(wiring.Component):
    """A queue from one clock to another: what is taken and shown, and all that its two sides count, is in registers.

    A place is free again when its entry was taken on ``o``, so that the side that writes knows what waits.  Pointers
    cross in Gray code.  Both domains are reset together, as `Crossing` says.

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
        bits = exact_log2(self._depth) + 1
        style = style_of(platform, self._depth, self._width)
        m.submodules.storage = storage = Memory(shape=self._width, depth=self._depth, init=[], attrs=style)
        write, read = storage.write_port(domain=writes), storage.read_port(domain=reads)

        def counter(name: str, domain: str, steps: Value, **reset):
            """Place, its number in Gray code, and that of the next place; each in registers."""
            place, ahead = Signal(bits, name=f"{name}_bin", **reset), Signal(bits, name=f"{name}_nxt", init=1, **reset)
            gray, next_gray = (
                Signal(bits, name=f"{name}_gry", **reset),
                Signal.like(ahead, name=f"{name}_nxt_gry", **reset),
            )
            after = (ahead + 1)[:bits]
            with m.If(steps):
                m.d[domain] += [place.eq(ahead), ahead.eq(after), gray.eq(next_gray), next_gray.eq(after ^ after[1:])]
            return place, gray, next_gray, [place.eq(0), ahead.eq(1), gray.eq(0), next_gray.eq(1)]

        # Write.
        push, full, pushed, differs = Signal(), Signal(), Signal(), Signal()
        produce, produced, following, _ = counter("produce_w", writes, push)
        taken = Signal(bits)  # by the other side, as known here
        # One whole round ahead of it: in Gray code the two highest bits differ.
        round_ahead = taken ^ (0b11 << (bits - 2))
        m.d.comb += [
            self.i.ready.eq(~full),
            push.eq(self.i.valid & ~full),
            write.addr.eq(produce[:-1]),
            write.data.eq(self.i.payload),
            write.en.eq(push),
            self.waiting.eq(pushed | differs),
        ]
        m.d[writes] += [
            full.eq(Mux(push, following == round_ahead, produced == round_ahead)),
            pushed.eq(push),
            differs.eq(produced != taken),
        ]

        # Read.  These registers are reset by the other side's reset, with which all entries are gone.
        reset, free, some, pop = Signal(), Signal(), Signal(), Signal()
        consume, consumed, next_consumed, cleared = counter("consume_r", reads, pop, reset_less=True)
        there, shown, left = Signal(bits), Signal(bits), Signal(bits, reset_less=True)
        m.d.comb += [
            some.eq((consumed != there) & ~reset),
            free.eq(~self.o.valid | self.o.ready),
            pop.eq(some & free),
            read.addr.eq(consume[:-1]),
            read.en.eq(free),
            self.o.payload.eq(read.data),
        ]
        with m.If(free):
            m.d[reads] += [self.o.valid.eq(some), shown.eq(next_consumed)]
        with m.If(self.o.valid & self.o.ready):
            m.d[reads] += left.eq(shown)
        with m.If(reset):
            m.d[reads] += [*cleared, left.eq(0), self.o.valid.eq(0)]

        m.submodules.produce_cdc = FFSynchronizer(produced, there, o_domain=reads)
        m.submodules.consume_cdc = FFSynchronizer(left, taken, o_domain=writes)
        m.submodules.rst_cdc = AsyncFFSynchronizer(ResetSignal(writes, allow_reset_less=True), reset, o_domain=reads)
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
        queue = _cross(m, "fifo", taken, shown, domains=self._domains, depth=DEPTH)
        m.d.comb += self.waiting.eq(queue.waiting)
        return m


class LiteCrossing(wiring.Component):
    """An AXI4-Lite bus whose master is in another clock domain than its slave: a FIFO for each channel.

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

"""From one clock to another: a small FIFO for each AXI channel."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import AsyncFIFO
from amaranth.lib.wiring import In, Out

__all__ = ["CHANNELS", "DEPTH", "HOST", "Crossing", "LiteCrossing"]

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


def _cross(m: Module, name: str, taken: tuple, shown: tuple, *, domains: tuple[str, str], depth: int) -> AsyncFIFO:
    """A FIFO from one of ``domains`` to the other, between two channels: (what it carries, valid, ready)."""
    (source, source_valid, source_ready), (sink, sink_valid, sink_ready) = taken, shown
    fifo = AsyncFIFO(width=len(Cat(source)), depth=depth, w_domain=domains[0], r_domain=domains[1])
    m.submodules[name] = fifo
    m.d.comb += [
        fifo.w_data.eq(Cat(source)),
        fifo.w_en.eq(source_valid),
        source_ready.eq(fifo.w_rdy),
        Cat(sink).eq(fifo.r_data),
        sink_valid.eq(fifo.r_rdy),
        fifo.r_en.eq(sink_ready),
    ]
    return fifo


class Crossing(wiring.Component):
    """An AXI4-Stream from one clock domain to another, in order, none lost, none twice.

    A beat comes out at the earliest three cycles of the second clock after the cycle of the first in which it went in.
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
        fifo = _cross(m, "fifo", taken, shown, domains=self._domains, depth=DEPTH)
        pushed = Signal()  # the level is two cycles late
        m.d[self._domains[0]] += pushed.eq(self.i.tvalid & self.i.tready)
        m.d.comb += self.waiting.eq(pushed | fifo.w_level.any())
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

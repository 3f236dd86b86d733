"""The pool of a router: buffers for whole worms, which all its inputs share (cycle contract, section 3.2)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.spec.wire import Wire

from .input_queue import SHALLOW
from .order import count, ranks

__all__ = ["Pool"]


class Pool(wiring.Component):
    """Takes the heads that are refused, with their worms, and gives them back output by output, the oldest first.

    A buffer is a memory of its own, with one write and one read port, so any input can fill it while any output empties
    it.  Its worm comes without gaps and leaves without gaps, at least two cycles later: a flit that is read was written
    before.  A worm that is torn ends with an entry that is not valid.

    Parameters
    ----------
    wire : format of the flits
    ports : inputs, and outputs
    worms : buffers, at least 1

    Members
    -------
    i : In(flit), one for each input
        The flits on which the router decides in this cycle.
    refused : In(ports)
        Which of them are heads that do not get their output.
    routes : In(ports · ports)
        For each input a bit for each output: what its head asks for, one of them if it is refused.
    turn : In
        Heads that are refused in one cycle come in the order of ``i ^ turn``.
    held : In(ports)
        Which outputs are held.
    full : Out(ports)
        Which refused heads are discarded, because no buffer is free.
    waits : Out(ports)
        Outputs that some worm waits for: no head that arrives gets them.
    asks : Out(worms · ports)
        For each buffer a bit for each output: it has the oldest worm that waits for the output, and is ready.
    o : Out(flit), one for each buffer
        What passes in this cycle, if the output is not held by another.  Its other bits mean nothing without ``valid``.
    routed : Out(worms · ports)
        For each buffer the output of its worm, one-hot.
    head, body, longest : Out(worms)
        Its worm begins to leave if ``held`` allows; goes on; and has as many flits as it may, without a last one.

    Reset empties it.
    """

    def __init__(self, wire: Wire, ports: int, worms: int):
        if worms < 1:
            raise ValueError(f"worms must be at least 1, not {worms!r}")
        self._wire, self._ports, self._worms = wire, ports, worms
        self.waiting, self.leaving = Signal(worms), Signal(worms)
        flit = flit_layout(wire)
        super().__init__(
            {
                "i": In(flit).array(ports),
                "refused": In(ports),
                "routes": In(ports * ports),
                "turn": In((ports - 1).bit_length()),
                "held": In(ports),
                "full": Out(ports),
                "waits": Out(ports),
                "asks": Out(worms * ports),
                "o": Out(flit).array(worms),
                "routed": Out(worms * ports),
                "head": Out(worms),
                "body": Out(worms),
                "longest": Out(worms),
            }
        )

    def elaborate(self, platform):
        m = Module()
        ports, worms, flits = self._ports, range(self._worms), self._wire.max_flits
        inputs = range(ports)
        waiting, leaving, ready = self.waiting, self.leaving, Signal(self._worms)
        routes = [Signal(ports, name=f"route{b}") for b in worms]
        takes = [Signal(ports, name=f"takes{b}") for b in worms]  # the head of this input
        oldest = self._ages(m, routes, Cat(take.any() for take in takes))
        self._place(m, takes)
        for o in inputs:
            m.d.comb += self.waits[o].eq(Cat(waiting[b] & routes[b][o] for b in worms).any())
        for b in worms:
            taken, begins, goes_on = Signal(name=f"taken{b}"), Signal(name=f"begins{b}"), Signal(name=f"goes_on{b}")
            asks = (waiting[b] & ready[b] & oldest[b]).replicate(ports) & routes[b]
            read = Signal(range(flits + 1), name=f"read{b}")
            after = Mux(begins | (leaving[b] & self.body[b]), read + 1, 0)
            stored = self._buffer(m, b, takes[b], read, after[: len(read)])
            m.d.comb += [
                taken.eq(takes[b].any()),
                self.asks.word_select(b, ports).eq(asks),
                self.routed.word_select(b, ports).eq(routes[b]),
                self.head[b].eq(waiting[b] & ready[b] & oldest[b]),
                self.body[b].eq(leaving[b] & stored.valid),
                self.longest[b].eq(self.body[b] & ~stored.last & (read == flits - 1)),
                begins.eq((self.asks.word_select(b, ports) & ~self.held).any()),
                goes_on.eq((begins | self.body[b]) & ~(stored.last | self.longest[b])),
                self.o[b].valid.eq(self.head[b] | self.body[b]),
                self.o[b].first.eq(stored.first),
                self.o[b].last.eq(stored.last),
                self.o[b].data.eq(stored.data),
            ]
            m.d.sync += [
                waiting[b].eq(taken | (waiting[b] & ~begins)),
                ready[b].eq(waiting[b]),
                leaving[b].eq(goes_on),
                read.eq(after),
            ]
            with m.If(taken):
                m.d.sync += routes[b].eq(
                    Cat(Cat(takes[b][i] & self.routes[i * ports + o] for i in inputs).any() for o in inputs)
                )
        return m

    def _place(self, m, takes: list[Signal]) -> None:
        """Which buffer takes which head: the first head the first free one, the second the second, and so on."""
        free = ~(self.waiting | self.leaving)
        places = ranks(dict(enumerate(self.refused)), self.turn)
        for i, place in places.items():
            found = []
            for b, take in enumerate(takes):
                before = count([free[other] for other in range(b)])
                found.append(self.refused[i] & free[b] & (place == before))
                m.d.comb += take[i].eq(found[-1])
            m.d.comb += self.full[i].eq(self.refused[i] & ~Cat(found).any())

    def _ages(self, m, routes: list[Signal], taken: Value) -> list[Value]:
        """For each buffer whether no worm has waited for the same output for longer."""
        worms = range(self._worms)
        older = {}  # of two buffers, whether the worm of the first came before that of the second
        for a in worms:
            for b in range(a + 1, self._worms):
                older[a, b] = Signal(name=f"older{a}_{b}")
                with m.If(taken[b]):
                    m.d.sync += older[a, b].eq(1)
                with m.Elif(taken[a]):
                    m.d.sync += older[a, b].eq(0)
        found = []
        for b in worms:
            first = [
                self.waiting[a] & (routes[a] & routes[b]).any() & (older[a, b] if a < b else ~older[b, a])
                for a in worms
                if a != b
            ]
            found.append(~Cat(first).any() if first else Const(1, 1))
        return found

    def _buffer(self, m, b: int, takes: Signal, read: Signal, after: Value):
        """The flit at ``read`` of buffer ``b``, which the input in ``takes``, or that whose worm it takes, fills."""
        flits = self._wire.max_flits
        shape = data.StructLayout({"valid": 1, "first": 1, "last": 1, "data": self._wire.flit_bits})
        shallow = flits <= SHALLOW
        attrs = {"ram_style": "distributed"} if shallow else {}
        m.submodules[f"buffer{b}"] = memory = Memory(shape=shape, depth=flits, init=[], attrs=attrs)
        write = memory.write_port()
        source = Signal(self._ports, name=f"source{b}")  # one-hot, while the worm arrives
        written = Signal(range(flits), name=f"written{b}")
        taken, storing = takes.any(), source.any()
        chosen = Mux(taken, takes, source)
        incoming = Signal(shape, name=f"incoming{b}")
        body = incoming.valid & ~incoming.first
        m.d.comb += [
            Value.cast(incoming).eq(
                Cat(
                    Cat(Value.cast(self.i[i])[bit] & chosen[i] for i in range(self._ports)).any()
                    for bit in range(len(Value.cast(self.i[0])))
                )
            ),
            write.addr.eq(Mux(taken, 0, written)),
            write.en.eq(taken | storing),
            write.data.eq(incoming),
            write.data.valid.eq(taken | body),
        ]
        goes_on = ~incoming.last & (taken | (body & (written != flits - 1)))
        m.d.sync += [source.eq(chosen & goes_on.replicate(self._ports)), written.eq(Mux(taken, 1, written + 1))]
        if shallow:
            port = memory.read_port(domain="comb")
            m.d.comb += port.addr.eq(read)
        else:
            port = memory.read_port()
            m.d.comb += port.addr.eq(after)
        return port.data

"""The pool of a router: buffers for whole worms, which all its inputs share (cycle contract, section 3.2)."""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.spec.events import CONTROL_KINDS
from lethe.spec.wire import KIND_BITS, Wire

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
    up_ports : outputs, those with the highest numbers, of which a worm that climbs takes any; 0: it asks for one
    control_first : cycles by which control passes what came before it; 0: it does not

    Members
    -------
    i : In(flit), one for each input
        The flits on which the router decides in this cycle.
    refused : In(ports)
        Which of them are heads that do not get their output.
    routes : In(ports · ports)
        For each input a bit for each output: what its head asks for if it is refused, one of them, or all up-ports.
    turn : In
        Heads that are refused in one cycle come in the order of ``i ^ turn``.
    turn_up : In, with ``up_ports``
        Up-ports are taken in the order of ``number ^ turn_up``.
    held : In(ports)
        Which outputs are held.
    full : Out(ports)
        Which refused heads are discarded, because no buffer is free.
    waits : Out(ports)
        Outputs that some worm waits for: no head that arrives gets them.
    asks : Out(worms · ports)
        For each buffer a bit for each output: its worm is ready, and of those that wait for the output the first.
    o : Out(flit), one for each buffer
        What passes in this cycle, if the output is not held by another.  Its other bits mean nothing without ``valid``.
    routed : Out(worms · ports)
        For each buffer the output of its worm, one-hot; while one that climbs waits, all up-ports.
    head, body, longest : Out(worms)
        Its worm begins to leave if ``held`` allows; goes on; and has as many flits as it may, without a last one.

    Reset empties it.
    """

    def __init__(self, wire: Wire, ports: int, worms: int, up_ports: int = 0, control_first: int = 0):
        if worms < 1:
            raise ValueError(f"worms must be at least 1, not {worms!r}")
        self._wire, self._ports, self._worms = wire, ports, worms
        self._up_ports, self._control_first = up_ports, control_first
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
            | ({"turn_up": In((up_ports - 1).bit_length())} if up_ports else {})
        )

    def elaborate(self, platform):
        m = Module()
        ports, worms, flits = self._ports, range(self._worms), self._wire.max_flits
        inputs = range(ports)
        waiting, leaving, ready = self.waiting, self.leaving, Signal(self._worms)
        routes = [Signal(ports, name=f"route{b}") for b in worms]
        takes = [Signal(ports, name=f"takes{b}") for b in worms]  # the head of this input
        before = self._order(m, takes)
        # Where none overtakes another, those that do not ask yet come last.
        asking = waiting & ready if self._control_first else waiting
        first = self._first(routes, before, asking)
        up = self._climbers(m, routes, before, asking) if self._up_ports else None
        self._place(m, takes)
        for o in inputs:
            m.d.comb += self.waits[o].eq(Cat(waiting[b] & routes[b][o] for b in worms).any())
        for b in worms:
            taken, begins, goes_on = Signal(name=f"taken{b}"), Signal(name=f"begins{b}"), Signal(name=f"goes_on{b}")
            asks = (waiting[b] & ready[b] & first[b]).replicate(ports) & routes[b]
            if up is not None:
                climbs, gets = up[b]
                asks = Mux(
                    climbs, Cat(Const(0, ports - self._up_ports), ready[b].replicate(self._up_ports) & gets), asks
                )
            read = Signal(range(flits + 1), name=f"read{b}")
            after = Mux(begins | (leaving[b] & self.body[b]), read + 1, 0)
            stored = self._buffer(m, b, takes[b], read, after[: len(read)])
            m.d.comb += [
                taken.eq(takes[b].any()),
                self.asks.word_select(b, ports).eq(asks),
                self.routed.word_select(b, ports).eq(routes[b]),
                self.head[b].eq(waiting[b] & ready[b] & first[b] if up is None else asks.any()),
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
            if up is not None:
                with m.If(begins):  # what climbs has its up-port
                    m.d.sync += routes[b].eq(asks & ~self.held)
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

    def _order(self, m, takes: list[Signal]) -> dict[tuple[int, int], Value]:
        """For each two buffers whether the worm of the first goes before that of the second."""
        taken = Cat(take.any() for take in takes)
        control = self._control(m, takes, taken) if self._control_first else None
        before: dict[tuple[int, int], Value] = {}
        for a in range(self._worms):
            for b in range(a + 1, self._worms):
                older = Signal(name=f"older{a}_{b}")
                b_passes, a_passes = (0, 0) if control is None else (control(b, a), control(a, b))
                with m.If(taken[b]):
                    m.d.sync += older.eq(~b_passes if control else 1)
                with m.Elif(taken[a]):
                    m.d.sync += older.eq(a_passes)
                before[a, b], before[b, a] = older, ~older
        return before

    def _control(self, m, takes: list[Signal], taken: Value) -> Callable[[int, int], Value]:
        """``passes(b, a)``: whether the head that buffer b takes is control, and passes the worm of buffer a."""
        worms = range(self._worms)
        comes = [Signal(name=f"comes{b}") for b in worms]  # it takes control
        is_control = [Signal(name=f"is_control{b}") for b in worms]
        young = [Signal(name=f"young{b}") for b in worms]  # its worm came so lately that control passes it
        kinds = [flit.data[:KIND_BITS] for flit in self.i]
        of_control = Cat(Cat(kind == one for one in CONTROL_KINDS).any() for kind in kinds)
        for b in worms:
            left = Signal(range(self._control_first), name=f"left{b}")
            m.d.comb += [comes[b].eq((takes[b] & of_control).any()), young[b].eq(left != 0)]
            m.d.sync += left.eq(Mux(taken[b], self._control_first - 1, left - young[b]))
            with m.If(taken[b]):
                m.d.sync += is_control[b].eq(comes[b])
        return lambda b, a: comes[b] & Mux(taken[a], ~comes[a], ~is_control[a] & young[a])

    def _first(self, routes: list[Signal], before: dict[tuple[int, int], Value], asking: Value) -> list[Value]:
        """For each buffer whether no worm that asks for the same output goes before its own."""
        found = []
        for b in range(self._worms):
            others = [asking[a] & (routes[a] & routes[b]).any() & before[a, b] for a in range(self._worms) if a != b]
            found.append(~Cat(others).any() if others else Const(1, 1))
        return found

    def _climbers(self, m, routes: list[Signal], before, asking: Value) -> list[tuple[Value, Value]]:
        """For each buffer whether its worm asks for any up-port, and which it gets: the first worm the first free one,
        the second the second, and so on.
        """
        ups, worms = range(self._up_ports), range(self._worms)
        first_up = self._ports - self._up_ports
        free = {u: ~self.held[first_up + u] for u in ups}
        places = ranks(free, self.turn_up)
        climbs = [Signal(name=f"climbs{b}") for b in worms]
        found = []
        for b in worms:
            m.d.comb += climbs[b].eq(asking[b] & routes[b][first_up])
            place = Signal(range(max(2, self._worms)), name=f"place{b}")
            m.d.comb += place.eq(count([climbs[a] & before[a, b] for a in worms if a != b]))
            found.append((climbs[b], Cat(free[u] & (places[u] == place) for u in ups)))
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

"""The pool of a router: buffers for whole worms, which all its inputs share (cycle contract, section 3.2)."""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.spec.events import CONTROL_KINDS
from lethe.spec.sections.router import PLACED
from lethe.spec.wire import KIND_BITS, Wire

from .column import chosen
from .input_queue import SHALLOW
from .order import count, ranks

__all__ = ["Pool"]

#: Flags of an entry are in memory of LUTs up to so many entries.
FLAGS_IN_LUTS = 1024


class Pool(wiring.Component):
    """Takes the heads that are refused, with their worms, and gives them back output by output, the oldest first.

    A buffer is a memory of its own, with one write and one read port, so any input can fill it while any output empties
    it.  Its worm comes without gaps and leaves without gaps, later: a flit that is read was written before.  A worm
    that is torn ends with an entry that is not valid.

    A head that is refused in cycle c goes through stages, and its worm behind it: in c+1 its place among those that
    are refused with it is found, in c+2 the free buffer with that place, in c+3 it is written, and its order to other
    worms is known; in c+4 it is known which of them want the same output, and in c+5 it may be chosen for its
    output's next, so that it begins to leave in c+6 at the earliest.  What is free, too, is found two cycles late, by a
    buffer that becomes free late: it is what is free in c.
    A worm that climbs freely is given a port in every second cycle: its place among those that climb has a register.

    Parameters
    ----------
    wire : format of the flits
    ports : inputs, and outputs
    worms : buffers, at least 1
    up_ports : outputs, those with the highest numbers, of which a worm that climbs takes any; 0: it asks for one
    control_first : cycles by which control passes what came before it; 0: it does not
    odd : whether the first cycle is one in which worms that climb are given ports

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
        Which heads are discarded that were refused `PLACED` cycles ago, because no buffer was free.
    holds : Out(ports)
        From the next cycle on a worm that waited here holds the output.
    takes : Out(ports)
        Outputs that no head gets that arrives, for what waits here.
    asks : Out(worms · ports)
        For each buffer a bit for each output: what passes there in this cycle.  Nobody else passes there.
    o : Out(flit), one for each buffer
        What passes in this cycle if it is asked for.
    routed : Out(worms · ports)
        For each buffer the output of its worm, one-hot; none while one that climbs waits.
    head, body, longest : Out(worms)
        Its worm begins to leave; goes on; and has as many flits as it may, without a last one.

    Reset empties it.
    """

    def __init__(
        self, wire: Wire, ports: int, worms: int, up_ports: int = 0, control_first: int = 0, *, odd: bool = False
    ):
        if worms < 1:
            raise ValueError(f"worms must be at least 1, not {worms!r}")
        self._wire, self._ports, self._worms = wire, ports, worms
        self._up_ports, self._control_first, self._odd = up_ports, control_first, odd
        #: A buffer can be taken; its worm waits, and is not next; is chosen to be next; leaves.
        self.free = Signal(worms, init=-1)
        self.waiting, self.chosen, self.leaving = Signal(worms), Signal(worms), Signal(worms)
        flit = flit_layout(wire)
        super().__init__(
            {
                "i": In(flit).array(ports),
                "refused": In(ports),
                "routes": In(ports * ports),
                "turn": In((ports - 1).bit_length()),
                "held": In(ports),
                "full": Out(ports),
                "holds": Out(ports),
                "takes": Out(ports),
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
        ports, worms = self._ports, range(self._worms)
        fixed = ports - self._up_ports  # outputs that a worm waits for, one by one
        waiting = self.waiting
        routes = [Signal(ports, name=f"route{b}") for b in worms]
        climbs = Signal(self._worms)
        starts = Signal(self._worms)  # the head of its worm is written
        sources = [Signal(ports, name=f"source{b}") for b in worms]  # the input that fills it, one-hot
        taken, takes, released = self._place(m)

        # In the cycle in which a head is written.
        flits = [_late(m, Value.cast(flit), PLACED + 1, f"flit{i}") for i, flit in enumerate(self.i)]
        wanted = [_late(m, self.routes.word_select(i, ports), PLACED + 1, f"wanted{i}") for i in range(ports)]
        # Heads and others behind which there is more.
        last = [(flit.valid & ~flit.last, flit.first) for flit in self.i]
        heads = _late(m, Cat(on & first for on, first in last), PLACED + 1, "heads")
        bodies = _late(m, Cat(on & ~first for on, first in last), PLACED + 1, "bodies")
        before = self._order(m, starts, sources)
        m.d.sync += [starts.eq(taken), waiting.eq((waiting & ~self.chosen) | starts)]
        for b in worms:
            with m.If(starts[b]):
                asked = (_any(sources[b][i] & wanted[i][o] for i in range(ports)) for o in range(fixed))
                m.d.sync += routes[b].eq(Cat(*asked))
                if self._up_ports:
                    m.d.sync += climbs[b].eq(_any(sources[b][i] & wanted[i][-1] for i in range(ports)))

        # What begins to leave is an output's next worm, or was given an up-port.
        following = self._choose(m, routes, before, waiting & ~climbs)
        given = self._climb(m, routes, before, climbs) if self._up_ports else Signal(self._worms)
        going, more = Signal(self._worms), []  # its worm leaves, and began to before
        for b in worms:
            begins = [following[o][b] & ~self.held[o] for o in range(fixed)]
            m.d.comb += self.head[b].eq(_any(begins) | given[b])
            more.append(self._buffer(m, b, takes[b], starts[b], sources[b], flits, heads, bodies, going[b]))
            stays = (given[b] | (going[b] & self.o[b].valid)).replicate(ports) & routes[b]
            m.d.comb += [
                self.asks.word_select(b, ports).eq(stays | Cat(*begins)),
                self.routed.word_select(b, ports).eq(routes[b]),
            ]
        goes_on = self.leaving & Cat(more)
        m.d.sync += going.eq(goes_on)
        m.d.comb += [self.leaving.eq(self.head | going), released.eq(self.leaving & ~goes_on)]

        for o in range(ports):
            # Not of `leaving`: which output is held is known late enough.
            holds = _any((going[b] | given[b]) & routes[b][o] & more[b] for b in worms)
            if o < fixed:
                holds |= ~self.held[o] & (following[o] & Cat(more)).any()
            m.d.comb += self.holds[o].eq(holds)
        if self._up_ports:  # by worms that wait for any up-port
            taken_up = Signal()
            m.d.sync += taken_up.eq((waiting & climbs).any())
            m.d.comb += self.takes[fixed:].eq(taken_up.replicate(self._up_ports))
        return m

    def _place(self, m) -> tuple[Signal, list[Value], Signal]:
        """Which buffer takes which head: the first head the first free one, the second the second, and so on.

        Returns which are taken, for each buffer a bit for each input whose head it takes, and where it is told what is
        released.
        """
        released, taken = Signal(self._worms, name="released"), Signal(self._worms, name="taken")
        refused = _late(m, self.refused, 1, "refused")
        turn = _late(m, self.turn, 1, "turn")
        places = [_late(m, place, 1, f"place{i}") for i, place in ranks(dict(enumerate(refused)), turn).items()]
        placed = _late(m, refused, 1, "placed")
        number = _late(m, count(list(refused)), 1, "number")
        found: list[list[Value]] = [[] for _ in places]
        for b in range(self._worms):
            before = Signal(range(self._worms + 1), name=f"before{b}")
            m.d.comb += [
                before.eq(count([self.free[other] for other in range(b)])),
                taken[b].eq(self.free[b] & (before < number)),
            ]
            for i, place in enumerate(places):
                takes = Signal(name=f"takes{b}_{i}")
                m.d.comb += takes.eq(placed[i] & self.free[b] & (place == before))
                found[i].append(takes)
        m.d.comb += self.full.eq(placed & ~Cat(_any(each) for each in found))
        m.d.sync += self.free.eq((self.free & ~taken) | _late(m, released, PLACED, "released"))
        return taken, [Cat(each[b] for each in found) for b in range(self._worms)], released

    def _order(self, m, starts: Signal, sources: list[Signal]) -> dict[tuple[int, int], Value]:
        """For each two buffers whether the worm of the first goes before that of the second."""
        control = self._control(m, starts, sources) if self._control_first else None
        before: dict[tuple[int, int], Value] = {}
        for a in range(self._worms):
            for b in range(a + 1, self._worms):
                older = Signal(name=f"older{a}_{b}")
                b_passes, a_passes = (0, 0) if control is None else (control(b, a), control(a, b))
                with m.If(starts[b]):
                    m.d.sync += older.eq(~b_passes if control else 1)
                with m.Elif(starts[a]):
                    m.d.sync += older.eq(a_passes)
                before[a, b], before[b, a] = older, ~older
        return before

    def _control(self, m, starts: Signal, sources: list[Signal]) -> Callable[[int, int], Value]:
        """``passes(b, a)``: whether the head that buffer b takes is control, and passes the worm of buffer a."""
        worms = range(self._worms)
        comes = [Signal(name=f"comes{b}") for b in worms]  # it takes control
        is_control = [Signal(name=f"is_control{b}") for b in worms]
        young = [Signal(name=f"young{b}") for b in worms]  # its worm came so lately that control passes it
        kinds = [_late(m, flit.data[:KIND_BITS], PLACED, f"kind{i}") for i, flit in enumerate(self.i)]
        of_control = _late(m, Cat(_any(kind == one for one in CONTROL_KINDS) for kind in kinds), 1, "of_control")
        for b in worms:
            left = Signal(range(self._control_first), name=f"left{b}")
            m.d.comb += [comes[b].eq((sources[b] & of_control).any()), young[b].eq(left != 0)]
            m.d.sync += left.eq(Mux(starts[b], self._control_first - 1, left - young[b]))
            with m.If(starts[b]):
                m.d.sync += is_control[b].eq(comes[b])
        return lambda b, a: comes[b] & Mux(starts[a], ~comes[a], ~is_control[a] & young[a])

    def _choose(self, m, routes: list[Signal], before: dict[tuple[int, int], Value], waits: Value) -> list[Signal]:
        """By output the buffer of its next worm, one-hot; a worm that waits is known to others one cycle later."""
        worms, outputs = range(self._worms), range(self._ports - self._up_ports)
        known, asking = Signal(self._worms, name="known"), Signal(self._worms, name="asking")
        m.d.sync += known.eq(waits)
        m.d.comb += asking.eq(known & self.waiting)
        ahead: dict[tuple[int, int], Signal] = {}  # both want the same output, and the first goes before the second
        for a in worms:
            for b in range(a + 1, self._worms):
                same = Signal(name=f"same{a}_{b}")
                m.d.comb += same.eq((routes[a] & routes[b]).any())
                for one, other in ((a, b), (b, a)):
                    ahead[one, other] = Signal(name=f"ahead{one}_{other}")
                    m.d.sync += ahead[one, other].eq(same & before[one, other])
        first, found, empty = Signal(self._worms, name="first"), [], []
        for o in outputs:
            follows, some = Signal(self._worms, name=f"next{o}"), Signal(name=f"has_next{o}")
            with m.If(~some | ~self.held[o]):
                m.d.sync += [
                    follows.eq(Cat(first[b] & routes[b][o] for b in worms)),
                    some.eq(_any(asking[b] & routes[b][o] for b in worms)),
                ]
            found.append(follows)
            m.d.comb += self.takes[o].eq(some)
            empty.append(~some | ~self.held[o])
        for b in worms:
            m.d.comb += [
                first[b].eq(asking[b] & ~_any(asking[a] & ahead[a, b] for a in worms if a != b)),
                self.chosen[b].eq(first[b] & _any(routes[b][o] & empty[o] for o in outputs)),
            ]
        return found

    def _climb(self, m, routes: list[Signal], before: dict[tuple[int, int], Value], climbs: Signal) -> Signal:
        """Gives up-ports in every second cycle: the first worm that climbs gets the first free one, and so on.

        Its place among those that climb is found in the cycle before.  Returns whose worms begin to leave so.
        """
        ups, worms = range(self._up_ports), range(self._worms)
        first_up = self._ports - self._up_ports
        gives, given = Signal(init=self._odd), Signal(self._worms)
        m.d.sync += gives.eq(~gives)
        free = {u: ~self.held[first_up + u] for u in ups}
        places = ranks(free, self.turn_up)
        climbing = Signal(self._worms)
        m.d.comb += climbing.eq(self.waiting & climbs)
        asking = _late(m, climbing, 1, "climbing")
        for b in worms:
            place = _late(m, count([climbing[a] & before[a, b] for a in worms if a != b]), 1, f"place_up{b}")
            gets = Signal(self._up_ports, name=f"gets{b}")
            here = Cat(free[u] & (places[u] == place) for u in ups)
            m.d.comb += gets.eq(here & (gives & asking[b]).replicate(len(ups)))
            m.d.sync += given[b].eq(gets.any())
            with m.If(gets.any()):
                m.d.comb += self.chosen[b].eq(1)
                m.d.sync += [routes[b][first_up:].eq(gets), climbs[b].eq(0)]
        return given

    def _buffer(
        self,
        m,
        b: int,
        takes: Value,
        starts: Value,
        source: Signal,
        flits: list[Value],
        heads: Value,
        bodies: Value,
        going: Value,
    ) -> Value:
        """Fills and empties buffer ``b``; returns whether the worm that leaves it has more flits."""
        count_of = self._wire.max_flits
        shallow = count_of <= SHALLOW
        m.submodules[f"buffer{b}"] = memory = Memory(
            shape=data.StructLayout({"last": 1, "data": self._wire.flit_bits}),
            depth=count_of,
            init=[],
            attrs={"ram_style": "distributed"} if shallow else {},
        )
        # Whether there is a flit, and another behind it: early, for what this decides is much.
        m.submodules[f"flags{b}"] = flags = Memory(
            shape=data.StructLayout({"valid": 1, "more": 1}),
            depth=count_of,
            init=[],
            attrs={"ram_style": "distributed"} if count_of <= FLAGS_IN_LUTS else {},
        )
        write, write_flags = memory.write_port(), flags.write_port()
        written, ends = Signal(range(count_of), name=f"written{b}"), Signal(name=f"ends{b}")
        incoming = data.View(flit_layout(self._wire), Signal(len(flits[0]), name=f"incoming{b}"))
        place = Mux(starts, 0, written)
        full = ends & ~starts if count_of > 1 else Const(1, 1)
        fills = Mux(starts, heads, bodies) & ~full.replicate(self._ports)  # of these inputs there is more
        m.d.comb += [
            Value.cast(incoming).eq(chosen(list(source), flits)),
            write.addr.eq(place),
            write.en.eq(source.any()),
            write.data.last.eq(incoming.last),
            write.data.data.eq(incoming.data),
            write_flags.addr.eq(place),
            write_flags.en.eq(source.any()),
            write_flags.data.valid.eq(starts | (incoming.valid & ~incoming.first)),
            write_flags.data.more.eq((source & fills).any()),
        ]
        m.d.sync += [
            source.eq(takes | (source & fills)),
            written.eq(place + 1),
            ends.eq(place == count_of - 2 if count_of > 1 else 1),
        ]

        leaving, begins = self.leaving[b], self.head[b]
        # The entry that is shown, and the one behind it: their addresses are known before it is known whether it goes.
        read, behind = Signal(range(count_of), name=f"read{b}"), Signal(range(count_of), name=f"behind{b}")
        after = Signal.like(read, name=f"after{b}")
        show = flags.read_port()
        more, valid = show.data.more, show.data.valid
        moves, loads = Signal(name=f"moves{b}"), Signal(name=f"loads{b}")
        m.d.comb += [
            moves.eq(leaving & more),
            after.eq(Mux(moves, behind, read)),
            show.addr.eq(behind),
            show.en.eq(moves | loads),
        ]
        m.d.sync += [loads.eq(starts), read.eq(Mux(starts, 0, after))]
        with m.If(starts):
            m.d.sync += behind.eq(0)
        with m.Elif(show.en):
            m.d.sync += behind.eq(behind + 1)
        if shallow:
            port = memory.read_port(domain="comb")
            m.d.comb += port.addr.eq(read)
        else:
            port = memory.read_port()
            m.d.comb += port.addr.eq(after)
        m.d.comb += [
            self.body[b].eq(going & valid),
            self.longest[b].eq(self.body[b] & ~port.data.last & (read == count_of - 1)),
            self.o[b].valid.eq(valid),
            self.o[b].first.eq(begins),
            self.o[b].last.eq(port.data.last),
            self.o[b].data.eq(port.data.data),
        ]
        return more


def _any(bits) -> Value:
    """Whether one of these is set."""
    return Cat(*bits).any()


def _late(m: Module, value: Value, cycles: int, name: str) -> Value:
    """The value some cycles later."""
    for n in range(cycles):
        register = Signal(len(value), name=f"{name}_{n}")
        m.d.sync += register.eq(value)
        value = register
    return value

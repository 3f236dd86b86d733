"""A router with credits, for its size and its clock beside a `Router` (docs/studies/credits.md)."""

from collections.abc import Collection

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.lib.memory import style_of
from lethe.lib.queue import step
from lethe.spec.events import Event
from lethe.spec.trace import HEAD, WORD_BITS
from lethe.spec.wire import KIND_BITS, Wire

from . import pin
from .column import chosen, code, passed
from .routes import Rule

__all__ = ["CreditBuffer", "CreditRouter"]


class CreditBuffer(wiring.Component):
    """The buffer of an input: what comes while it is empty is in front in the same cycle.

    Its memory is of LUTs.  Nothing comes while it is full, because every flit has cost a credit.

    Parameters
    ----------
    wire : format of the flits
    flits : how many it can hold, at least 1

    Members
    -------
    i : In(flit)
        The link.
    o : Out(flit)
        The flit in front.
    pop : In(1)
        It leaves; only if it is valid.
    """

    def __init__(self, wire: Wire, flits: int):
        if flits < 1:
            raise ValueError(f"flits must be at least 1, not {flits!r}")
        self._flits = flits
        super().__init__({"i": In(flit_layout(wire)), "o": Out(flit_layout(wire)), "pop": In(1)})

    def elaborate(self, platform):
        m = Module()
        flit, depth = self.i.shape(), max(2, self._flits)
        attributes = style_of(platform, depth, flit.size)
        m.submodules.memory = memory = Memory(shape=flit, depth=depth, init=[], attrs=attributes)
        write, read = memory.write_port(), memory.read_port(domain="comb")
        first, end, some = Signal(range(depth)), Signal(range(depth)), Signal()
        push, refill, after = Signal(), Signal(), step(first, depth)
        m.d.comb += [
            push.eq(self.i.valid & (some | ~self.pop)),
            refill.eq(some & self.pop),
            # Behind the last flit anything may stand.
            write.addr.eq(end),
            write.data.eq(self.i),
            write.en.eq(self.i.valid),
            read.addr.eq(first),
            self.o.eq(Mux(some, Value.cast(read.data), Value.cast(self.i))),
        ]
        with m.If(push):
            m.d.sync += [end.eq(step(end, depth)), some.eq(1)]
        with m.Elif(refill):
            m.d.sync += some.eq(after != end)
        with m.If(refill):
            m.d.sync += first.eq(after)
        return m


class CreditRouter(wiring.Component):
    """Wormhole switching on one channel with flow control by credits: a head waits for its output, and nothing is lost.

    Who is on each link obeys: worms are whole, and lead to nodes to which their input may send; a flit is there only
    for a credit.  Up-ports are pinned (`lethe.spec.pin`), or given by the path in the header.

    Parameters
    ----------
    wire : format of the flits
    rule : ports, and who may go where
    flits : what each input can hold, and the credits of each output at reset
    latency : cycles from the link of an input to that of an output, at least 1
    credit_delay : cycles until the other end of an input's link can use the place of a flit that passes, at least 1
    sinks : outputs that lead to a node, which takes every flit, without credits
    route_delay : 1 if what a head asks for has a register, else 0
    grant_delay : 1 if who got an output has a register before flits pass, else 0

    Members
    -------
    position : In
        Constant: `Rule.position`.
    i, o : In(flit), Out(flit), ``rule.ports`` of each
        The links.
    back : Out(ports)
        A place of this input can be used again from the next cycle on.
    credits : In(ports)
        Likewise, of what this output leads to.
    salt : In(16), only where up-ports are pinned
        Constant: `lethe.spec.pin.salt_for` of the run's seed.
    watch : Out(64 · ports)
        One trace word per input (section 7): FORWARD of a head, in the cycle in which it passes.
    """

    def __init__(
        self,
        wire: Wire,
        rule: Rule,
        flits: int,
        latency: int = 1,
        credit_delay: int = 1,
        sinks: Collection[int] = (),
        *,
        route_delay: int = 0,
        grant_delay: int = 0,
    ):
        for name, value in (("flits", flits), ("latency", latency), ("credit_delay", credit_delay)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value!r}")
        for name, value in (("route_delay", route_delay), ("grant_delay", grant_delay)):
            if value not in (0, 1):
                raise ValueError(f"{name} must be 0 or 1, not {value!r}")
        self._wire, self._rule, self._flits, self._latency = wire, rule, flits, latency
        self._credit_delay, self._sinks = credit_delay, frozenset(sinks)
        self._route_delay, self._grant_delay = route_delay, grant_delay
        if rule.up_ports:
            pin.check(wire)
        flit = flit_layout(wire)
        super().__init__(
            {
                "position": In(rule.position_bits),
                "i": In(flit).array(rule.ports),
                "o": Out(flit).array(rule.ports),
                "back": Out(rule.ports),
                "credits": In(rule.ports),
                "watch": Out(WORD_BITS * rule.ports),
                **({"salt": In(16)} if self.pins(rule, wire) else {}),
            }
        )

    @staticmethod
    def pins(rule: Rule, wire: Wire) -> bool:
        """Whether such a router has a ``salt``."""
        return rule.up_ports > 0 and not wire.path_bits

    def elaborate(self, platform):
        m = Module()
        rule, inputs = self._rule, range(self._rule.ports)
        fronts, pops, holding, won = [], Signal(rule.ports), Signal(rule.ports), Signal(rule.ports)
        asks: dict[int, dict[int, Value]] = {}  # by output and input
        for i in inputs:
            m.submodules[f"buffer{i}"] = buffer = CreditBuffer(self._wire, self._flits)
            m.d.comb += [Value.cast(buffer.i).eq(Value.cast(self.i[i])), buffer.pop.eq(pops[i])]
            fronts.append(buffer.o)
            m.d.sync += holding[i].eq((holding[i] | won[i]) & ~(pops[i] & buffer.o.last))
            for o, ask in self._ask(m, i, buffer.o, holding[i], won[i]).items():
                asks.setdefault(o, {})[i] = ask

        granted: dict[int, list[Value]] = {i: [] for i in inputs}
        passes: dict[int, list[tuple[int, Value]]] = {i: [] for i in inputs}
        registered = self._latency > 1  # between what passes, and the crossbar
        moved = [_late(m, Value.cast(front), f"moved{i}") if registered else Value.cast(front)
                 for i, front in enumerate(fronts)]  # fmt: skip
        for o, asking in asks.items():
            sources = list(asking)
            held, owner = Signal(name=f"held{o}"), Signal(len(sources), name=f"owner{o}")
            some, wins = self._choose(m, o, list(asking.values()), held)
            select = Signal(len(sources), name=f"select{o}")
            m.d.comb += select.eq(Mux(held, owner, 0 if self._grant_delay else wins))
            going, credit = Signal(name=f"going{o}"), self._credit(m, o)
            m.d.comb += going.eq((select & Cat(fronts[i].valid for i in sources)).any() & credit.any())
            ends = (select & Cat(fronts[i].last for i in sources)).any()
            m.d.sync += held.eq((held | some) & ~(going & ends))
            with m.If(~held):
                m.d.sync += owner.eq(wins)
            if o not in self._sinks:
                with m.If(self.credits[o] & ~going):
                    m.d.sync += credit.eq(credit + 1)
                with m.Elif(going & ~self.credits[o]):
                    m.d.sync += credit.eq(credit - 1)
            for i, win, chosen_now in zip(sources, wins, select, strict=True):
                granted[i].append(win)
                passes[i].append((o, chosen_now & going))
            lets = select & going.replicate(len(sources))
            # Without a register behind them synthesis would dissolve the codes in every bit of the columns.
            if registered:
                bits: list[Value] = [_late(m, bit, f"code{o}_{n}") for n, bit in enumerate(code(list(lets)))]
                self._drive(m, o, passed(bits, [moved[i] for i in sources]))
            else:
                self._drive(m, o, chosen(list(lets), [moved[i] for i in sources]))

        back = pops
        for stage in range(self._credit_delay - 1):
            back = _late(m, back, f"back{stage}")
        m.d.comb += self.back.eq(back)
        for i in inputs:
            m.d.comb += [won[i].eq(Cat(granted[i]).any()), pops[i].eq(Cat(bit for _, bit in passes[i]).any())]
            self._show(m, i, fronts[i], pops[i], passes[i])
        return m

    def _ask(self, m, i: int, front, holding: Value, won: Value) -> dict[int, Value]:
        """By output whether the head in front of an input asks for it."""
        header = Value.cast(front.data)
        fixed, up = self._rule.route(i, header[KIND_BITS : KIND_BITS + self._wire.node_bits], self.position)
        if up is not None:
            salt = self.salt if self.pins(self._rule, self._wire) else None
            fixed |= pin.climbing(m, f"pin{i}", self._wire, self._rule, header, up, salt)
        head = Signal(name=f"head{i}")
        m.d.comb += head.eq(front.valid & front.first & ~holding)
        if not self._route_delay:
            return {o: head & wanted for o, wanted in fixed.items()}
        return {o: _late(m, head & wanted & ~won, f"asks{i}_{o}") for o, wanted in fixed.items()}

    def _choose(self, m, o: int, asks: list[Value], held: Value) -> tuple[Value, Value]:
        """Whether a free output is given, and to which of those that ask: in turn, from the one after the last."""
        some, wins = Signal(name=f"some{o}"), Signal(len(asks), name=f"wins{o}")
        behind = Signal(len(asks), init=-1, name=f"behind{o}")  # those whose turn it is before the others'
        asking = Signal(len(asks), name=f"asking{o}")
        early = asking & behind
        m.d.comb += [
            asking.eq(Cat(asks) & (~held).replicate(len(asks))),
            some.eq(asking.any()),
            wins.eq(Mux(early.any(), _first(early), _first(asking))),
        ]
        with m.If(some):
            m.d.sync += behind.eq(Cat(wins[:n].any() for n in range(len(asks))))
        return some, wins

    def _credit(self, m, o: int) -> Value:
        """How many credits an output has; 1 without end if it leads to a node."""
        return Const(1, 1) if o in self._sinks else Signal(range(self._flits + 1), init=self._flits, name=f"credit{o}")

    def _drive(self, m, o: int, flit: Value) -> None:
        """The registers between the crossbar and the link."""
        for stage in range(max(1, self._latency - 1)):
            flit = _late(m, flit, f"flit{o}_{stage}")
        m.d.comb += Value.cast(self.o[o]).eq(flit)

    def _show(self, m, i: int, front, pop: Value, passes: list[tuple[int, Value]]) -> None:
        """The event FORWARD of an input on ``watch``."""
        word = self.watch.word_select(i, WORD_BITS)
        number = Cat(Cat(bit for o, bit in passes if o >> place & 1).any() for place in range(8))
        event = Cat(Const(Event.FORWARD, 8), number)
        m.d.comb += word.eq(Mux(pop & front.first, Cat(event, front.data[: HEAD.bits]), 0))


def _late(m: Module, value: Value, name: str) -> Signal:
    """The register behind a value."""
    register = Signal(len(value), name=name)
    m.d.sync += register.eq(value)
    return register


def _first(bits: Value) -> Value:
    """The lowest of the bits that are set, alone."""
    return Cat(bit & ~bits[:n].any() for n, bit in enumerate(bits))

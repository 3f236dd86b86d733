"""The wormhole router: it discards, at once or when the queue of an input is full (cycle contract, section 3)."""

from functools import partial

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.lib.random import Draws, scale
from lethe.spec.events import ROUTER_COUNTED, Event, RouterCounter
from lethe.spec.sections.router import lag
from lethe.spec.trace import HEAD, WORD_BITS
from lethe.spec.wire import KIND_BITS, Wire

from . import pin
from .input_queue import InputQueue
from .routes import Rule

__all__ = ["Router"]

#: Up to so many ports the winner of an output is looked up in tables, which is faster.
SMALL = 8
#: Where the first registers of the latency are, by their number: after what the heads ask for, after who would win,
#: before the crossbar.  The others follow the output.
CUTS = ((), ("winner",), ("route", "winner"), ("route", "winner", "select"))


class Router(wiring.Component):
    """A crossbar: a head gets its output at once, or its worm is swallowed, or waits if its input has a queue.

    A flit that comes in during a cycle and is forwarded without waiting is at the output ``latency`` cycles later.
    Without queues the registers of the latency cut the longest paths (`CUTS`): what comes in waits in them for its
    decision, so all decisions are made as late, and are the same.  Those of one cycle still see those of the cycle
    before, in a loop of one cycle.
    Nothing flows back.  A worm that ends by a gap, by an unexpected ``first`` or by being longer than any legal one
    frees its output; contention discards whole worms only.  Turns that the rule forbids have no logic.
    With queues, heads that climb are pinned to one up-port each (`lethe.spec.pin`).

    Parameters
    ----------
    wire : format of the flits
    rule : ports, and who may go where
    latency : 1 or more
    queue : worms that can wait at each input; 0: none, and no logic for it
    max_wait : how often the head of a queue is refused before it is discarded
    watch : whether ``watch`` is a port

    Members
    -------
    position, seed : In
        Constants: `Rule.position`, and the seed of the router's generator.
    i, o : In(flit), Out(flit), ``rule.ports`` of each
        The links, after their fault elements.
    salt : In(16), only with a queue and up-ports
        Constant: `lethe.spec.pin.salt_for` of the run's seed.
    watch : Out(64 · ports), or Out(128 · ports) with a queue
        One trace word per input (section 7), `lag` cycles after its own; above them those of the queues' backs.
    counts : Out
        For `Statistics`: how many inputs had each event of `RouterCounter`, one cycle after ``watch``.
    """

    def __init__(
        self, wire: Wire, rule: Rule, latency: int = 1, queue: int = 0, max_wait: int = 0, *, watch: bool = True
    ):
        if latency < 1:
            raise ValueError(f"latency must be at least 1, not {latency!r}")
        if rule.ports > 255:
            raise ValueError(f"a router must have at most 255 ports, not {rule.ports!r}")
        if queue < 0:
            raise ValueError(f"queue must be at least 0, not {queue!r}")
        if max_wait < 0:
            raise ValueError(f"max_wait must be at least 0, not {max_wait!r}")
        self._wire, self._rule, self._latency = wire, rule, latency
        self._queue, self._max_wait = queue, max_wait
        self._cuts = CUTS[lag(latency, queue)]
        self._pins = self.pins(rule, queue)
        if self._pins:
            pin.check(wire)
        flit = flit_layout(wire)
        super().__init__(
            {
                "position": In(rule.position_bits),
                "seed": In(32),
                "i": In(flit).array(rule.ports),
                "o": Out(flit).array(rule.ports),
                "counts": Out(len(RouterCounter) * self.count_bits(rule)),
            }
            | ({"salt": In(16)} if self._pins else {})
            | ({"watch": Out(self.watch_bits(rule, queue))} if watch else {})
        )
        if not watch:
            self.watch = Signal(self.watch_bits(rule, queue))

    @staticmethod
    def pins(rule: Rule, queue: int) -> bool:
        """Whether such a router has a ``salt``."""
        return queue > 0 and rule.up_ports > 0

    @staticmethod
    def watch_bits(rule: Rule, queue: int) -> int:
        """Bits of ``watch``."""
        return WORD_BITS * rule.ports * (2 if queue else 1)

    @staticmethod
    def count_bits(rule: Rule) -> int:
        """Bits of each number in ``counts``: up to one event per input."""
        return rule.ports.bit_length()

    def elaborate(self, platform):
        m = Module()
        wire, rule = self._wire, self._rule
        inputs = range(rule.ports)
        first_up = rule.ports - rule.up_ports
        after = partial(self._after, m)
        m.submodules.chance = chance = Draws(2 if "route" in self._cuts else 1)
        m.d.comb += chance.seed.eq(self.seed)

        presented = list(self.i)
        routes = [self._route(m, i) for i in inputs]
        queues = []
        for i, (fixed, _) in enumerate(routes if self._queue else []):
            queue = m.submodules[f"queue{i}"] = InputQueue(wire, len(fixed), self._queue, self._max_wait)
            m.d.comb += [queue.i.eq(self.i[i]), queue.route.eq(Cat(fixed.values()))]
            presented[i] = queue.o
            queues.append(queue)

        # Inputs: IDLE (neither), FORWARD or SWALLOW.
        forwarding = Signal(rule.ports)
        swallowing = Signal(rule.ports)
        count = [Signal(range(wire.max_flits + 1), name=f"count{i}") for i in inputs]
        # Outputs: held by a worm, or free.
        held = Signal(rule.ports)

        head = Signal(rule.ports)
        body = Signal(rule.ports)
        ends = Signal(rule.ports)  # this flit, if it passes, is the last to do so
        longest = Signal(rule.ports)  # as it has as many flits as a worm may have
        # Before a cut it is not known which worms are forwarded, and does not matter: others end nothing.
        counted = Const(-1, rule.ports) if self._cuts else forwarding
        for i in inputs:
            flit = presented[i]
            m.d.comb += [
                head[i].eq(flit.valid & flit.first),
                body[i].eq(flit.valid & ~flit.first),
                longest[i].eq(counted[i] & body[i] & ~flit.last & (count[i] == wire.max_flits - 1)),
                ends[i].eq(flit.last | longest[i]),
            ]
            m.d.sync += count[i].eq(Mux(head[i], 1, count[i] + 1))

        asks = {}  # (input, output): the head asks for this fixed output
        climbs = {}  # input: the head asks for any up-port
        routed = Signal(rule.ports)
        for i, (fixed, up) in enumerate(routes):
            for n, (o, wanted) in enumerate(fixed.items()):
                asks[i, o] = Signal(name=f"ask{i}_{o}")
                m.d.comb += asks[i, o].eq(queues[i].asks[n] if queues else head[i] & wanted)
            if up is not None:
                climbs[i] = Signal(name=f"climb{i}")
                m.d.comb += climbs[i].eq(head[i] & up)
            wants = [asks[i, o] for o in fixed] + ([climbs[i]] if up is not None else [])
            m.d.comb += routed[i].eq(Cat(wants).any())
        presented, head, body, longest, ends, routed, asks, climbs = after(
            "route",
            flit=presented, head=head, body=body, longest=longest, ends=ends, routed=routed, ask=asks, climb=climbs,
        )  # fmt: skip
        m.d.comb += chance.take.eq(routed.any())

        wins = {}  # (input, output): this head wins this output, if it is free
        picks = self._picks(m, chance) if rule.ports <= SMALL else None
        for o in inputs if self._pins else range(first_up):
            contenders = {i: asks[i, o] for i in inputs if (i, o) in asks}
            if picks is None:
                drawn = _by_count(m, f"output{o}", list(contenders.values()), chance.draw[:8])
            else:
                drawn = _by_table(m, f"output{o}", list(contenders.values()), picks)
            for (i, ask), win in zip(contenders.items(), drawn, strict=True):
                wins[i, o] = ask & win
        ranks = _ranks(m, "head", climbs, scale(chance.draw[8:16], rule.ports)) if climbs else {}
        turn_out = scale(chance.draw[16:24], rule.up_ports) if climbs else Const(0)

        presented, head, body, longest, ends, routed, asks, climbs, wins, ranks, turn_out = after(
            "winner",
            flit=presented, head=head, body=body, longest=longest, ends=ends, routed=routed, ask=asks, climb=climbs,
            win=wins, rank=ranks, turn=turn_out,
        )  # fmt: skip
        granted = {}  # (input, output): this head gets this output
        for (i, o), win in wins.items():
            granted[i, o] = Signal(name=f"grant{i}_{o}")
            m.d.comb += granted[i, o].eq(win & ~held[o])
        if climbs:
            free = {o: ~held[o] for o in range(first_up, rule.ports)}
            granted |= _paired(m, climbs, ranks, free, turn_out)

        selected = {}  # output: which of its sources passes, one-hot
        for o in inputs:
            grants = {i: granted[i, o] for i in inputs if (i, o) in granted}
            if grants:
                selected[o] = self._select(m, o, grants, held, body, ends)

        won = Signal(rule.ports)
        busy = Signal(rule.ports)
        overlong = Signal(rule.ports)
        fragment = Signal(rule.ports)
        stray = Signal(rule.ports)
        for i in inputs:
            m.d.comb += [
                won[i].eq(Cat(grant for (asker, _), grant in granted.items() if asker == i).any()),
                busy[i].eq(Cat(ask & held[o] for (asker, o), ask in asks.items() if asker == i).any()),
                overlong[i].eq(forwarding[i] & longest[i]),
                fragment[i].eq(forwarding[i] & ~body[i]),
                stray[i].eq(body[i] & ~forwarding[i] & ~swallowing[i]),
            ]
            m.d.sync += forwarding[i].eq((won[i] | (forwarding[i] & body[i])) & ~ends[i])
            if queues:
                m.d.comb += queues[i].refused.eq(routed[i] & ~won[i])
            else:
                swallowed = (head[i] & ~won[i]) | (body[i] & swallowing[i])
                m.d.sync += swallowing[i].eq(overlong[i] | (~presented[i].last & swallowed))

        presented, selected, granted, head, routed, climbs, won, busy, overlong, fragment, stray = after(
            "select",
            flit=presented, select=selected, granted=granted, head=head, routed=routed, climb=climbs,
            won=won, busy=busy, overlong=overlong, fragment=fragment, stray=stray,
        )  # fmt: skip
        for o, select in selected.items():
            self._drive(m, o, [presented[i] for i in inputs if (i, o) in granted], select)
        for i in inputs:
            fates = [
                (won[i], Event.FORWARD),
                (head[i] & ~routed[i], Event.DISCARD_ROUTE),
                (climbs.get(i, Const(0, 1)), Event.DISCARD_UP),
                (head[i] & busy[i], Event.DISCARD_BUSY),
                (head[i], Event.DISCARD_CONTENTION),
                (overlong[i], Event.OVERLONG),
                (fragment[i], Event.FRAGMENT),
            ]
            decided = head[i]
            if queues:
                queue = queues[i]
                fates = [(queue.stays, Event.NOTHING), *fates]
                decided = head[i] & ~queue.stays
                lost = [(queue.full, Event.DISCARD_FULL), (queue.stray, Event.STRAY)]
                self._watch(m, rule.ports + i, lost, queue.full, self.i[i])
            else:
                fates.append((stray[i], Event.STRAY))
            self._watch(m, i, fates, decided, presented[i])
            grants = {o: granted[i, o] for o in inputs if (i, o) in granted}
            m.d.comb += self.watch.word_select(i, WORD_BITS)[8 : HEAD.shift].eq(_number(grants))

        for counter, event in ROUTER_COUNTED.items():
            # With queues, what these two count is seen at their backs.
            first = rule.ports if queues and event in (Event.DISCARD_FULL, Event.STRAY) else 0
            happened = [self.watch.word_select(first + i, WORD_BITS)[:8] == event for i in inputs]
            if counter == RouterCounter.FRAGMENT:
                happened = [now | (head[i] & fragment[i]) for i, now in enumerate(happened)]
            m.d.sync += self.counts.word_select(counter, self.count_bits(rule)).eq(sum(happened))
        return m

    def _watch(self, m, lane: int, events: list[tuple[Value, Event]], decided: Value, flit):
        """The first of these events that happens, and the head of which one is the fate."""
        event = Const(0, 8)
        for happens, code in reversed(events):
            event = Mux(happens, code, event)
        word = self.watch.word_select(lane, WORD_BITS)
        m.d.comb += [
            word[:8].eq(event),
            word[HEAD.shift :].eq(Mux(decided, flit.data[: HEAD.bits], 0)),
        ]

    def _route(self, m, came_from: int) -> tuple[dict[int, Value], Value | None]:
        """`Rule.route` of a head on the link; if the router pins, the up-ports are among the fixed outputs."""
        rule, wire, header = self._rule, self._wire, Value.cast(self.i[came_from].data)
        fixed, up = rule.route(came_from, header[KIND_BITS : KIND_BITS + wire.node_bits], self.position)
        if not self._pins or up is None:
            return fixed, up
        port = pin.pinned(m, f"pin{came_from}", wire, header, self.salt, rule.level, rule.up_ports)
        first_up = rule.ports - rule.up_ports
        return fixed | {first_up + n: up & (port == n) for n in range(rule.up_ports)}, None

    def _picks(self, m, chance: Draws) -> dict[tuple[int, int], Signal]:
        """Registers beside the draw: (n, p) is 1 if of n contenders the one with p before it wins."""
        picks = {}
        draw = chance.following[:8]
        for n in range(1, self._rule.ports + 1):
            # `scale` maps the draws from ceil(256 p / n) on to p or more.
            reached = [Const(1, 1), *(draw >= -(-256 * p // n) for p in range(1, n)), Const(0, 1)]
            for p in range(n):
                picks[n, p] = Signal(name=f"pick{p}_of{n}")
                with m.If(chance.step):
                    m.d.sync += picks[n, p].eq(reached[p] & ~reached[p + 1])
        return picks

    def _select(self, m, o: int, grants: dict[int, Value], held, body, ends) -> Value:
        """Which of the sources of output ``o`` passes, and who holds it from then on."""
        sources = list(grants)
        owner = Signal(len(sources), name=f"owner{o}")  # one-hot, while held
        select = Signal(len(sources), name=f"select{o}")
        m.d.comb += select.eq(Mux(held[o], owner & Cat(body[i] for i in sources), Cat(grants.values())))
        m.d.sync += [
            owner.eq(select),
            held[o].eq((select & ~Cat(ends[i] for i in sources)).any()),
        ]
        return select

    def _drive(self, m, o: int, flits, select: Value):
        """The crossbar column of output ``o``, its register, and the plain registers of the rest of the latency."""
        flit = Signal.like(self.o[o], name=f"flit{o}")
        passing = [Mux(select[n], Value.cast(each), 0) for n, each in enumerate(flits)]
        m.d.sync += flit.eq(_any_of(passing))
        for stage in range(len(self._cuts) + 1, self._latency):
            later = Signal.like(flit, name=f"flit{o}_{stage}")
            m.d.sync += later.eq(flit)
            flit = later
        m.d.comb += self.o[o].eq(flit)

    def _after(self, m, cut: str, **values):
        """These values, also in lists and dicts, after a cut: in registers, or as they are if there is none."""
        if cut not in self._cuts:
            return tuple(values.values())

        def registered(value, name: str):
            if isinstance(value, dict):
                return {key: registered(each, f"{name}{_label(key)}") for key, each in value.items()}
            if isinstance(value, list):
                return [registered(each, f"{name}{i}") for i, each in enumerate(value)]
            register = Signal.like(value, name=f"{name}_{cut}")
            m.d.sync += register.eq(value)
            return register

        return tuple(registered(value, name) for name, value in values.items())


def _label(key: int | tuple[int, int]) -> str:
    """The key of an input, an output or both as a part of a name."""
    return "_".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _any_of(values: list[Value]) -> Value:
    """The OR of these, as a balanced tree."""
    while len(values) > 1:
        values = [a | b for a, b in zip(values[::2], values[1::2], strict=False)] + values[len(values) // 2 * 2 :]
    return values[0]


def _number(bits: dict[int, Value]) -> Value:
    """The key of the one bit that is set; 0 if none is."""
    width = max(bits, default=0).bit_length()
    return Cat(Cat(bit for key, bit in bits.items() if key >> place & 1).any() for place in range(width))


def _count(bits) -> Value:
    return sum(bits, Const(0, 1))


def _by_table(m, name: str, asks: list[Value], picks) -> list[Value]:
    """For each contender whether it is the drawn one: looked up by how many ask before and after it."""
    wins = []
    for i in range(len(asks)):
        before = Signal(range(i + 1), name=f"{name}_before{i}")
        after = Signal(range(len(asks) - i), name=f"{name}_after{i}")
        win = Signal(name=f"{name}_win{i}")
        m.d.comb += [before.eq(_count(asks[:i])), after.eq(_count(asks[i + 1 :]))]
        rows = [[picks[b + 1 + a, b] for a in range(len(asks) - i)] for b in range(i + 1)]
        m.d.comb += win.eq(_chosen([_chosen(row, after) for row in rows], before))
        wins.append(win)
    return wins


def _chosen(values: list[Value], number: Value) -> Value:
    """The ``number``-th of these, as a tree of two-way choices; any if there are not so many."""
    for place in range(len(number)):
        pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
        values = [Mux(number[place], pair[1], pair[0]) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


def _by_count(m, name: str, asks: list[Value], draw: Value) -> list[Value]:
    """The same for many contenders, where tables would be too large: number ``draw · total >> 8``."""
    running: list[Value] = [Const(0, 1)]
    for i, ask in enumerate(asks):
        running.append(Signal(range(i + 2), name=f"{name}_to{i}"))
        m.d.comb += running[-1].eq(running[-2] + ask)
    chosen = Signal(8, name=f"{name}_chosen")
    m.d.comb += chosen.eq((draw * running[-1])[8:])
    return [before == chosen for before in running[:-1]]


def _paired(m, asks, head_rank, free, turn_out: Value) -> dict[tuple[int, int], Value]:
    """Grants the head of rank j among those that ask the j-th free up-port, from ``turn_out`` on."""
    port_rank = _ranks(m, "port", free, turn_out)
    granted = {}
    for i in asks:
        for o in free:
            granted[i, o] = Signal(name=f"grant{i}_{o}")
            m.d.comb += granted[i, o].eq(asks[i] & free[o] & (head_rank[i] == port_rank[o]))
    return granted


def _ranks(m, name: str, bits: dict[int, Value], turn: Value) -> dict[int, Value]:
    """For each bit how many set ones precede it in the order that begins with the ``turn``-th, and goes around."""
    order = list(bits)
    ranks: dict[int, Value] = {key: Signal(range(max(2, len(bits))), name=f"{name}{key}_rank") for key in order}
    with m.Switch(turn):
        for start in range(1, len(order)):
            with m.Case(start):
                turned = order[start:] + order[:start]
                m.d.comb += [ranks[key].eq(_count(bits[k] for k in turned[:at])) for at, key in enumerate(turned)]
        with m.Default():  # also from beyond the last, where the order begins at the first
            m.d.comb += [ranks[key].eq(_count(bits[k] for k in order[:at])) for at, key in enumerate(order)]
    return ranks

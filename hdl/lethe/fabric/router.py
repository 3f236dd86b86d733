"""The wormhole router: it discards, at once or when a queue or its pool is full (cycle contract, section 3)."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from lethe.layouts import flit_layout
from lethe.lib.random import SteadyDraws
from lethe.spec.config import System
from lethe.spec.events import ROUTER_COUNTED, Event, RouterCounter
from lethe.spec.sections.router import BEHIND, PLACED, stages_of
from lethe.spec.trace import HEAD, WORD_BITS
from lethe.spec.wire import KIND_BITS, Wire

from . import pin
from .column import GROUP, MOST, chosen, code, passed
from .input_queue import InputQueue
from .order import count, ranks, winners
from .pool import Pool
from .routes import Rule

__all__ = ["Router"]

#: Where the first registers of the latency are, by their number: after what the heads ask for, after who would win and
#: in which order heads climb, after what follows from that order, after who passes, before the crossbar.
CUTS = (
    (),
    ("winner",),
    ("route", "code"),
    ("route", "winner", "code"),
    ("route", "winner", "select", "code"),
    ("route", "draw", "winner", "select", "code"),
)


class Router(wiring.Component):
    """A crossbar: a head gets its output at once, or its worm is swallowed, or waits in a queue or the pool.

    A flit that comes in during a cycle and is forwarded without waiting is at the output ``latency`` cycles later.
    Without queues the registers of the latency cut the longest paths (`CUTS`): what comes in waits in them for its
    decision, so all decisions are made as late, and are the same.  Those of one cycle still see those of the cycle
    before, in a loop of one cycle.  In it is only what needs to know which outputs are held: draws follow from seed and
    cycle, so who would win and in which order heads climb is known before.
    Nothing flows back.  A worm that ends by a gap, by an unexpected ``first`` or by being longer than any legal one
    frees its output; contention discards whole worms only.  Turns that the rule forbids have no logic.
    With queues or a pool, and with paths, heads that climb ask for one up-port each (`lethe.spec.pin`), unless worms
    in the pool climb freely.

    Parameters
    ----------
    wire : format of the flits
    rule : ports, and who may go where
    latency : 1 or more
    queue : worms that can wait at each input; 0: none, and no logic for it
    max_wait : how often the head of a queue is refused before it is discarded
    pool : worms that wait in buffers that the inputs share; 0: none, and no logic for it; not with ``queue``
    climbs_freely : whether with a pool a worm takes any up-port that is free
    control_first : cycles by which control passes what came into the pool before it
    watch : whether ``watch`` is a port

    Members
    -------
    position, seed : In
        Constants: `Rule.position`, and the seed of the router's generator.
    i, o : In(flit), Out(flit), ``rule.ports`` of each
        The links, after their fault elements.
    salt : In(16), only with a queue or pool, and up-ports, and no paths
        Constant: `lethe.spec.pin.salt_for` of the run's seed.
    watch : Out(64 · ports), or Out(128 · ports) with a queue or pool
        One trace word per input (section 7), `lag` cycles after its own; above them those of the queues' backs, or
        of what leaves the pool by each output.
    counts : Out
        For `Statistics`: how many inputs had each event of `RouterCounter`, two cycles after ``watch``.
    """

    def __init__(
        self,
        wire: Wire,
        rule: Rule,
        latency: int = 1,
        queue: int = 0,
        max_wait: int = 0,
        pool: int = 0,
        climbs_freely: bool = False,
        control_first: int = 0,
        *,
        watch: bool = True,
    ):
        if latency < 1:
            raise ValueError(f"latency must be at least 1, not {latency!r}")
        if rule.ports > 255:
            raise ValueError(f"a router must have at most 255 ports, not {rule.ports!r}")
        if queue < 0:
            raise ValueError(f"queue must be at least 0, not {queue!r}")
        if max_wait < 0:
            raise ValueError(f"max_wait must be at least 0, not {max_wait!r}")
        if pool < 0:
            raise ValueError(f"pool must be at least 0, not {pool!r}")
        if pool and queue:
            raise ValueError("a router has queues or a pool, not both")
        self._wire, self._rule, self._latency, self._pool = wire, rule, latency, pool
        self._queue, self._max_wait = queue, max_wait
        self._climbs_freely, self._control_first = climbs_freely and rule.up_ports > 0, control_first
        self._cuts = CUTS[stages_of(latency, queue)]
        stores = queue or pool
        self._pins = self.pins(rule, stores, wire, climbs_freely)
        self._fixes = self._pins or (wire.path_bits > 0 and rule.up_ports > 0)
        if self._fixes:
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
            | ({"watch": Out(self.watch_bits(rule, stores))} if watch else {})
        )
        if not watch:
            self.watch = Signal(self.watch_bits(rule, stores))

    @staticmethod
    def settings(system: System) -> tuple[int, int, int, int, bool, int]:
        """What a configuration says of its routers: the arguments behind ``rule``, in their order."""
        router = system.router
        return router.latency, system.queue, router.max_wait, system.pool, system.climbs_freely, system.control_first

    @staticmethod
    def pins(rule: Rule, stores: int, wire: Wire, climbs_freely: bool = False) -> bool:
        """Whether a router that stores so many worms has a ``salt``."""
        return stores > 0 and rule.up_ports > 0 and not wire.path_bits and not climbs_freely

    @staticmethod
    def watch_bits(rule: Rule, stores: int) -> int:
        """Bits of ``watch``."""
        return WORD_BITS * rule.ports * (2 if stores else 1)

    @staticmethod
    def count_bits(rule: Rule) -> int:
        """Bits of each number in ``counts``: up to one event per input."""
        return rule.ports.bit_length()

    def elaborate(self, platform):
        m = Module()
        rule, inputs = self._rule, range(self._rule.ports)
        m.submodules.chance = chance = SteadyDraws(late=int("route" in self._cuts))
        m.d.comb += chance.seed.eq(self.seed)

        now = self._arrive(m)
        self._after(m, "route", now)
        self._draw_lots(m, now, chance.draw)
        self._after(m, "draw", now)
        self._look_ahead(m, now)
        self._after(m, "winner", now)

        # Outputs: held by a worm, or free; with a pool also taken by what waits.
        held = Signal(rule.ports)
        now.opens = {}  # up-port: whether it is held from now on, if it is free
        if now.climbs:
            self._pair(m, now, held)
        pool = self._store(m, now, held) if self._pool else None
        sources = {}  # output: the inputs, and behind them the buffers, that may go there
        now.selected = {}  # output: which of them passes, one-hot
        for o in inputs:
            grants = {i: now.grants[i, o] for i in inputs if (i, o) in now.grants}
            if grants and pool is not None:
                sources[o] = [*grants, *range(rule.ports, rule.ports + self._pool)]
                now.selected[o] = self._select_with_pool(m, o, grants, held, now, pool)
            elif grants:
                sources[o] = list(grants)
                now.selected[o] = self._select(m, o, grants, held, now)
        now.held = held
        del now.grants, now.places, now.climbs_on, now.turn_up, now.opens
        self._after(m, "select", now)
        # Without a register behind them synthesis would dissolve the codes in every bit of the columns.
        coded = "code" in self._cuts
        most = GROUP if pool is not None else MOST
        now.codes = {o: code(list(select), most) if coded else list(select) for o, select in now.selected.items()}
        self._after(m, "code", now)

        passing = {}
        for o, bits in now.codes.items():
            flits = [Value.cast(now.flit[i]) for i in sources[o]]
            passing[o] = passed(bits, flits, most) if coded else chosen(bits, flits)
            self._drive(m, o, passing[o])

        if pool:  # what is shown waits for what is found out about buffers
            del now.codes
            passing = self._show_late(m, now, passing, pool)
        # Inputs: IDLE (neither), FORWARD or SWALLOW.
        forwarding = Signal(rule.ports)
        swallowing = Signal(rule.ports)
        now.granted, now.won, now.busy = {}, Signal(rule.ports), Signal(rule.ports)
        now.overlong, now.fragment, now.stray = Signal(rule.ports), Signal(rule.ports), Signal(rule.ports)
        for i in inputs:
            grants = {o: now.head[i] & now.selected[o][whose.index(i)] for o, whose in sources.items() if i in whose}
            now.granted |= {(i, o): grant for o, grant in grants.items()}
            m.d.comb += [
                now.won[i].eq(Cat(grants.values()).any()),
                now.busy[i].eq(Cat(ask & now.held[o] for (asker, o), ask in now.asks.items() if asker == i).any()),
                now.overlong[i].eq(forwarding[i] & now.longest[i]),
                now.fragment[i].eq(forwarding[i] & ~now.body[i]),
                now.stray[i].eq(now.body[i] & ~forwarding[i] & ~swallowing[i]),
            ]
            m.d.sync += forwarding[i].eq((now.won[i] | (forwarding[i] & now.body[i])) & now.holds[i])
            if now.queues:
                m.d.comb += now.queues[i].refused.eq(now.routed[i] & ~now.won[i])
            else:
                swallowed = (now.head[i] & ~now.won[i]) | (now.body[i] & swallowing[i])
                m.d.sync += swallowing[i].eq(now.overlong[i] | (~now.flit[i].last & swallowed))
        left = self._leave(m, now, passing, sources) if self._pool else {}
        self._show(m, now, left)
        return m

    def _store(self, m, now, held) -> Pool:
        """The pool: takes the heads that get no output; what it gives back is among the flits from now on."""
        rule, inputs = self._rule, range(self._rule.ports)
        ups = rule.up_ports if self._climbs_freely else 0
        first_up = rule.ports - rule.up_ports
        before = sum(cut in self._cuts for cut in ("route", "draw", "winner"))
        m.submodules.pool = pool = Pool(
            self._wire, rule.ports, self._pool, ups, self._control_first, odd=before % 2 == 1
        )
        climbs = {(i, o): climb for i, climb in now.climbs.items() for o in range(first_up, rule.ports)}
        # A head there would overtake one of its input.
        self._behind = {(i, o): Signal(name=f"behind{i}_{o}") for i, o in now.asks}
        for i in inputs:
            m.d.comb += Value.cast(pool.i[i]).eq(Value.cast(now.flit[i]))
            asked = {o: ask for (asker, o), ask in (now.asks | climbs).items() if asker == i}
            wins = [self._wins(now, i, o, held, pool) for o in asked]
            m.d.comb += pool.refused[i].eq(now.routed[i] & ~Cat(wins).any())
            m.d.comb += [pool.routes[i * rule.ports + o].eq(ask) for o, ask in asked.items()]
        for (i, o), ask in now.asks.items():
            window = [pool.refused[i] & ask]
            for n in range(BEHIND - 1):
                window.append(_registered(m, window[-1], f"refused{i}_{o}", str(n)))
            m.d.sync += self._behind[i, o].eq(Cat(window).any())
        m.d.comb += [pool.turn.eq(now.turn), pool.held.eq(held)]
        if ups:
            m.d.comb += pool.turn_up.eq(now.turn_up)
        now.flit = [*now.flit, *pool.o]
        now.routes = list(pool.routed.word_select(b, rule.ports) for b in range(self._pool))
        lasts = Cat(flit.last for flit in pool.o)
        now.head, now.body = Cat(now.head, pool.head), Cat(now.body, pool.body)
        now.longest, now.holds = Cat(now.longest, pool.longest), Cat(now.holds, ~(lasts | pool.longest))
        return pool

    def _wins(self, now, i: int, o: int, held: Signal, pool: Pool) -> Value:
        """Whether the head on input ``i`` gets output ``o``."""
        behind = (i, o) in self._behind and self._behind[i, o]
        return now.grants[i, o] & ~(held[o] | pool.takes[o] | behind)

    def _select_with_pool(self, m, o: int, grants: dict[int, Value], held: Signal, now, pool: Pool) -> Value:
        """Which of the sources of output ``o`` passes, and who holds it from then on."""
        sources = list(grants)
        owner = Signal(len(sources), name=f"owner{o}")  # the input that holds it, one-hot
        holds = Cat(now.holds[i] for i in sources)
        goes_on = owner & Cat(now.body[i] for i in sources)
        wins = Cat(self._wins(now, i, o, held, pool) for i in sources)
        stays = (goes_on | wins) & holds
        m.d.sync += [owner.eq(stays), held[o].eq(stays.any() | pool.holds[o])]
        return Cat(goes_on | wins, (pool.asks[b * self._rule.ports + o] for b in range(self._pool)))

    def _show_late(self, m, now, passing: dict[int, Value], pool: Pool) -> dict[int, Value]:
        """Registers, for what is shown only, until it is known which heads found a buffer; returns what passes then."""
        after = sum(cut in self._cuts for cut in ("select", "code"))
        for n in range(PLACED):
            for name, value in vars(now).items():
                setattr(now, name, _registered(m, value, name, f"shown{n}"))
            passing = {o: _registered(m, flit, f"passing{o}", f"shown{n}") for o, flit in passing.items()}
        now.full = pool.full
        for n in range(after):
            now.full = _registered(m, now.full, "full", str(n))
        return passing

    def _leave(self, m, now, passing, sources) -> dict[int, dict[Event, Value]]:
        """By output the events of what leaves the pool there."""
        rule, buffers = self._rule, range(self._rule.ports, self._rule.ports + self._pool)
        leaving, found = Signal(self._pool), {}
        begins = {
            b: {o: now.head[b] & now.selected[o][whose.index(b)] for o, whose in sources.items()} for b in buffers
        }
        for n, b in enumerate(buffers):
            begun = Cat(begins[b].values()).any()
            m.d.sync += leaving[n].eq((begun | (leaving[n] & now.body[b])) & now.holds[b])
        for o in sources:
            here = {b: now.routes[n][o] & leaving[n] for n, b in enumerate(buffers)}
            found[o] = {
                Event.FORWARD: Cat(begins[b][o] for b in buffers).any(),
                Event.FRAGMENT: Cat(bit & ~now.body[b] for b, bit in here.items()).any(),
                Event.OVERLONG: Cat(bit & now.longest[b] for b, bit in here.items()).any(),
            }
            lane = rule.ports + o
            flit = data.View(flit_layout(self._wire), passing[o])
            self._watch(m, lane, found[o], found[o][Event.FORWARD], flit)
            number = Mux(found[o][Event.FORWARD], o, 0)
            m.d.comb += self.watch.word_select(lane, WORD_BITS)[8 : HEAD.shift].eq(number)
        return found

    def _arrive(self, m) -> SimpleNamespace:
        """The presented flits, what they mean if they pass, and what heads ask for."""
        wire, rule = self._wire, self._rule
        inputs = range(rule.ports)
        now = SimpleNamespace(flit=list(self.i), queues=[], asks={}, climbs={})
        counts = [Signal(range(wire.max_flits + 1), name=f"count{i}") for i in inputs]
        routes = [self._route(m, i) for i in inputs]
        for i, (fixed, _) in enumerate(routes if self._queue else []):
            queue = m.submodules[f"queue{i}"] = InputQueue(wire, len(fixed), self._queue, self._max_wait)
            m.d.comb += [queue.i.eq(self.i[i]), queue.route.eq(Cat(fixed.values()))]
            now.flit[i] = queue.o
            now.queues.append(queue)

        for name in (
            "head", "body",
            "longest",  # it is not the last, but as many as a worm may have
            "holds",  # if it passes, its worm holds the output from now on
            "routed",
        ):  # fmt: skip
            setattr(now, name, Signal(rule.ports, name=name))
        for i in inputs:
            flit, number = now.flit[i], counts[i]
            m.d.comb += [
                now.head[i].eq(flit.valid & flit.first),
                now.body[i].eq(flit.valid & ~flit.first),
                now.longest[i].eq(now.body[i] & ~flit.last & (number == wire.max_flits - 1)),
                now.holds[i].eq(~(flit.last | now.longest[i])),
            ]
            m.d.sync += number.eq(Mux(now.head[i], 1, number + 1))
            fixed, up = routes[i]
            for n, (o, wanted) in enumerate(fixed.items()):
                now.asks[i, o] = Signal(name=f"ask{i}_{o}")
                m.d.comb += now.asks[i, o].eq(now.queues[i].asks[n] if now.queues else now.head[i] & wanted)
            if up is not None:
                now.climbs[i] = Signal(name=f"climb{i}")
                m.d.comb += now.climbs[i].eq(now.head[i] & up)
            wants = [now.asks[i, o] for o in fixed] + ([now.climbs[i]] if up is not None else [])
            m.d.comb += now.routed[i].eq(Cat(wants).any())
        return now

    def _draw_lots(self, m, now, draw: Value) -> None:
        """Who gets each fixed output, if it is free, and in which order heads climb and up-ports are taken."""
        rule = self._rule
        turn = draw[: (rule.ports - 1).bit_length()]
        if self._pool:
            now.turn = turn
        now.grants, now.places = {}, {}
        for o in range(rule.ports):
            for i, win in winners({i: ask for (i, target), ask in now.asks.items() if target == o}, turn).items():
                now.grants[i, o] = Signal(name=f"win{i}_{o}")
                m.d.comb += now.grants[i, o].eq(win)
        for i, rank in ranks(now.climbs, draw[8 : 8 + len(turn)]).items():
            now.places[i] = Signal(range(max(2, len(now.climbs))), name=f"place{i}")
            m.d.comb += now.places[i].eq(rank)
        now.turn_up = draw[16 : 16 + (max(1, rule.up_ports) - 1).bit_length()]

    def _look_ahead(self, m, now) -> None:
        """By place in the order of the heads that climb, whether an up-port is held from now on by the one there."""
        now.climbs_on = [Signal(name=f"climbs_on{place}") for place in range(len(now.climbs))]
        for place, on in enumerate(now.climbs_on):
            there = [climb & now.holds[i] & (now.places[i] == place) for i, climb in now.climbs.items()]
            m.d.comb += on.eq(Cat(there).any())

    def _pair(self, m, now, held) -> None:
        """The grants of up-ports: the first head takes the first free one, the second the second, and so on."""
        rule = self._rule
        first_up = rule.ports - rule.up_ports
        for u, rank in ranks({u: ~held[first_up + u] for u in range(rule.up_ports)}, now.turn_up).items():
            o = first_up + u
            place = Signal(range(max(2, rule.up_ports)), name=f"place_of{o}")
            m.d.comb += place.eq(rank)
            if not self._pool:  # nothing else takes them
                now.opens[o] = _chosen(now.climbs_on, place)
            for i, climb in now.climbs.items():
                now.grants[i, o] = Signal(name=f"win{i}_{o}")
                m.d.comb += now.grants[i, o].eq(climb & (now.places[i] == place))

    def _select(self, m, o: int, grants: dict[int, Value], held, now) -> Value:
        """Which of the sources of output ``o`` passes, and who holds it from then on."""
        sources = list(grants)
        owner = Signal(len(sources), name=f"owner{o}")  # one-hot, while held
        select = Signal(len(sources), name=f"select{o}")
        goes_on = owner & Cat(now.body[i] for i in sources)
        holds = Cat(now.holds[i] for i in sources)
        m.d.comb += select.eq(Mux(held[o], goes_on, Cat(grants.values())))
        m.d.sync += owner.eq(select)
        if o in now.opens:  # known before it is known by whom
            m.d.sync += held[o].eq(Mux(held[o], (goes_on & holds).any(), now.opens[o]))
        else:
            m.d.sync += held[o].eq((select & holds).any())
        return select

    def _drive(self, m, o: int, passing: Value) -> None:
        """The register of output ``o``, and the plain registers of the rest of the latency."""
        flit = Signal.like(self.o[o], name=f"flit{o}")
        m.d.sync += Value.cast(flit).eq(passing)
        for stage in range(len(self._cuts) + 1, self._latency):
            later = Signal.like(flit, name=f"flit{o}_{stage}")
            m.d.sync += later.eq(flit)
            flit = later
        m.d.comb += self.o[o].eq(flit)

    def _show(self, m, now, left: dict[int, dict[Event, Value]]) -> None:
        """The events on ``watch``, and ``counts``."""
        rule, inputs = self._rule, range(self._rule.ports)
        seen: dict[Event, list] = {event: [] for event in ROUTER_COUNTED.values()}
        for i in inputs:
            lost = now.head[i] & now.routed[i] & ~now.won[i]
            climbs = now.climbs.get(i, Const(0, 1))
            fates = {
                Event.FORWARD: now.won[i],
                Event.DISCARD_ROUTE: now.head[i] & ~now.routed[i],
                Event.DISCARD_UP: lost & climbs,
                Event.DISCARD_BUSY: lost & now.busy[i],
                Event.DISCARD_CONTENTION: lost & ~climbs & ~now.busy[i],
                Event.OVERLONG: now.overlong[i],
                Event.FRAGMENT: now.fragment[i] & ~now.head[i],
            }
            decided = now.head[i]
            if now.queues:
                queue = now.queues[i]
                decided = now.head[i] & ~queue.stays
                for event in (Event.DISCARD_BUSY, Event.DISCARD_CONTENTION):
                    fates[event] &= ~queue.stays
                behind = {Event.DISCARD_FULL: queue.full, Event.STRAY: queue.stray}
                self._watch(m, rule.ports + i, behind, queue.full, self.i[i])
            else:
                behind = {Event.STRAY: now.stray[i]}
                fates |= behind
                if self._pool:
                    decided = now.head[i] & (now.won[i] | ~now.routed[i] | now.full[i])
                    del fates[Event.DISCARD_UP], fates[Event.DISCARD_BUSY], fates[Event.DISCARD_CONTENTION]
                    fates[Event.DISCARD_FULL] = now.full[i]
            self._watch(m, i, fates, decided, now.flit[i])
            grants = {o: grant for (asker, o), grant in now.granted.items() if asker == i}
            m.d.comb += self.watch.word_select(i, WORD_BITS)[8 : HEAD.shift].eq(_number(grants))
            # One that a head cuts short is counted without being shown.
            for event, happens in (fates | behind | {Event.FRAGMENT: now.fragment[i]}).items():
                seen[event].append(happens)

        for events in left.values():
            for event, happens in events.items():
                seen[event].append(happens)

        for counter, event in ROUTER_COUNTED.items():
            happened = Signal(len(seen[event]), name=f"{counter.name.lower()}_seen")
            m.d.sync += [
                happened.eq(Cat(seen[event])),
                self.counts.word_select(counter, self.count_bits(rule)).eq(count(list(happened))),
            ]

    def _watch(self, m, lane: int, events: dict[Event, Value], decided: Value, flit):
        """Which of these events happens, one at most, and the head of which one is the fate."""
        word = self.watch.word_select(lane, WORD_BITS)
        m.d.comb += [
            word[:8].eq(Cat(Cat(bit for event, bit in events.items() if event >> n & 1).any() for n in range(8))),
            word[HEAD.shift :].eq(Mux(decided, flit.data[: HEAD.bits], 0)),
        ]

    def _route(self, m, came_from: int) -> tuple[dict[int, Value], Value | None]:
        """`Rule.route` of a head on the link; where it may not take any up-port they are among the fixed outputs."""
        rule, wire, header = self._rule, self._wire, Value.cast(self.i[came_from].data)
        fixed, up = rule.route(came_from, header[KIND_BITS : KIND_BITS + wire.node_bits], self.position)
        if not self._fixes or up is None:
            return fixed, up
        salt = self.salt if self._pins else None
        return fixed | pin.climbing(m, f"pin{came_from}", wire, rule, header, up, salt), None

    def _after(self, m, cut: str, now) -> None:
        """Puts a cut behind all that is known ``now``: signals, also in lists and dicts, become their registers."""
        if cut not in self._cuts:
            return

        for name, value in vars(now).items():
            setattr(now, name, _registered(m, value, name, cut))


def _registered(m, value, name: str, behind: str) -> Any:
    """The register behind a value, or those behind each in a list or dict."""
    if isinstance(value, dict):
        return {key: _registered(m, each, f"{name}{_label(key)}", behind) for key, each in value.items()}
    if isinstance(value, list):
        return [_registered(m, each, f"{name}{i}", behind) for i, each in enumerate(value)]
    register = Signal.like(value, name=f"{name}_{behind}")
    m.d.sync += register.eq(value)
    return register


def _label(key: int | tuple[int, int]) -> str:
    """The key of an input, an output or both as a part of a name."""
    return "_".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _number(bits: dict[int, Value]) -> Value:
    """The key of the one bit that is set; 0 if none is."""
    width = max(bits, default=0).bit_length()
    return Cat(Cat(bit for key, bit in bits.items() if key >> place & 1).any() for place in range(width))


def _chosen(values: list[Value], number: Value) -> Value:
    """The ``number``-th of these, as a tree of two-way choices; any if there are not so many."""
    for place in range(len(number)):
        pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
        values = [Mux(number[place], pair[1], pair[0]) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]

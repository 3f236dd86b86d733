"""The router, case by case (cycle contract, section 3)."""

import random
from collections import deque
from itertools import product

import pytest
from amaranth.sim import Simulator

from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.spec.events import Event, RouterCounter
from lethe.spec.random import advance
from lethe.spec.sections.router import lag
from tests.helpers.fabric_bench import flit, head, system
from tests.helpers.tiers import but

SEED = 0x1234_5678


class Bench:
    """One router of a system, fed with one flit per input and cycle."""

    def __init__(self, configured, number: int = 0, latency: int = 1):
        self.graph = configured.graph
        self.rule = Rule.of(self.graph, number)
        self.number = number
        self.latency = latency
        self.dut = Router(configured.format, self.rule, latency)
        self.max_flits = configured.format.max_flits
        self.undecided: deque[dict[int, int]] = deque([{}] * lag(latency, 0))
        self.state = SEED  # of the generator, before the draw of the next cycle

    def run(self, testbench) -> None:
        async def seeded(ctx):
            ctx.set(self.dut.seed, SEED)
            ctx.set(self.dut.position, self.rule.position(self.number))
            await testbench(ctx)

        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(seeded)
        simulator.run()

    async def step(self, ctx, inputs: dict[int, int]) -> tuple[list[tuple[int, int]], dict[int, int]]:
        """Shows the flits for one cycle: ((event, detail) per input, what the outputs show in the next cycle).

        A router whose latency is more than 1 shows the events of earlier flits.
        """
        self.state = advance(self.state)
        for port in range(self.rule.ports):
            ctx.set(self.dut.i[port].as_value(), inputs.get(port, 0))
        words = [ctx.get(self.dut.watch) >> 64 * port & (1 << 64) - 1 for port in range(self.rule.ports)]
        self.undecided.append(inputs)
        decided = self.undecided.popleft()
        for port, word in enumerate(words):
            given = decided.get(port, 0)
            data = given >> 3 & (1 << 48) - 1 if given & 2 else 0
            assert word >> 16 == data
        await ctx.tick()
        shown = {port: ctx.get(self.dut.o[port].as_value()) for port in range(self.rule.ports)}
        return [(word & 0xFF, word >> 8 & 0xFF) for word in words], {o: f for o, f in shown.items() if f}

    def drawn(self, place: int, count: int) -> int:
        """The slice of the last cycle's draw from bit ``place`` on, for an order of ``count``."""
        return self.state >> place & (1 << (count - 1).bit_length()) - 1

    async def events(self, ctx, inputs: dict[int, int]) -> list[int]:
        return [event for event, _ in (await self.step(ctx, inputs))[0]]


def test_a_worm_passes_and_frees_its_output_for_the_next_cycle():
    bench = Bench(system("crossbar"))

    async def testbench(ctx):
        worm = [head(2), flit(7), flit(8, last=True)]
        assert await bench.step(ctx, {0: worm[0]}) == ([(Event.FORWARD, 2), (0, 0), (0, 0), (0, 0)], {2: worm[0]})
        assert (await bench.step(ctx, {0: worm[1]}))[1] == {2: worm[1]}
        events, shown = await bench.step(ctx, {0: worm[2], 1: head(2, last=True)})
        assert events[1] == (Event.DISCARD_BUSY, 0)  # still held in the cycle of `last`
        assert shown == {2: worm[2]}
        one = head(2, last=True)
        for _ in range(3):  # one-flit worms follow each other without a gap
            assert await bench.step(ctx, {1: one}) == ([(0, 0), (Event.FORWARD, 2), (0, 0), (0, 0)], {2: one})

    bench.run(testbench)


@pytest.mark.parametrize("nodes", [4, 9])
def test_contention_has_one_winner_and_discards_whole_worms(nodes):
    bench = Bench(system("crossbar", nodes=nodes))
    target = nodes - 1

    async def testbench(ctx):
        quiet = [(0, 0)] * nodes
        for turn in range(60):
            asking = [i for i in range(target) if turn % 2 == 0 or i % 3 != turn % 3]
            events, shown = await bench.step(ctx, {i: head(target, i << 8) for i in asking})
            winner = min(asking, key=lambda i: i ^ bench.drawn(0, nodes))
            fates = {i: Event.FORWARD if i == winner else Event.DISCARD_CONTENTION for i in asking}
            assert [event for event, _ in events] == [fates.get(i, 0) for i in range(nodes)]
            assert shown == {target: head(target, winner << 8)}
            assert await bench.step(ctx, {i: flit(i) for i in asking}) == (quiet, {target: flit(winner)})
            tail = {i: flit(i, last=True) for i in asking}
            assert await bench.step(ctx, tail) == (quiet, {target: tail[winner]})
            loser = next(i for i in asking if i != winner)
            assert await bench.events(ctx, {loser: flit(9)}) == [
                Event.STRAY if i == loser else 0 for i in range(nodes)
            ]  # swallowing ended with `last`

    bench.run(testbench)


def test_the_generator_advances_in_every_cycle():
    """From the first on, whether or not anything comes: the winner is drawn by seed and cycle."""
    bench = Bench(system("crossbar"))

    async def testbench(ctx):
        rng = random.Random(1)
        for _ in range(60):
            events = await bench.events(ctx, {0: head(3, last=True), 1: head(3, last=True)})
            assert events[bench.drawn(0, 4) & 1] == Event.FORWARD
            for _ in range(rng.randrange(3)):
                await bench.step(ctx, rng.choice([{}, {0: flit(3)}, {1: head(1, last=True)}, {2: head(0, last=True)}]))

    bench.run(testbench)


def test_a_gap_frees_the_output():
    bench = Bench(system("crossbar"))

    async def testbench(ctx):
        await bench.step(ctx, {0: head(2)})
        events, shown = await bench.step(ctx, {1: head(2, last=True)})
        assert [event for event, _ in events] == [Event.FRAGMENT, Event.DISCARD_BUSY, 0, 0]
        assert shown == {}
        assert await bench.events(ctx, {0: flit(1), 1: head(2, last=True)}) == [Event.STRAY, Event.FORWARD, 0, 0]

    bench.run(testbench)


def test_an_unexpected_first_ends_the_old_worm_and_routes_the_new():
    bench = Bench(system("crossbar"))

    async def testbench(ctx):
        await bench.step(ctx, {0: head(2)})
        new = head(3)
        events, shown = await bench.step(ctx, {0: new})
        assert (events[0], shown) == ((Event.FORWARD, 3), {3: new})
        # The same output counts as held in this cycle: the new head is discarded, and swallowed.
        assert await bench.events(ctx, {0: head(3)}) == [Event.DISCARD_BUSY, 0, 0, 0]
        counts = ctx.get(bench.dut.counts)
        bits = Router.count_bits(bench.rule)
        assert counts >> bits * RouterCounter.FRAGMENT & (1 << bits) - 1 == 1
        assert counts >> bits * RouterCounter.FORWARDED & (1 << bits) - 1 == 1
        assert await bench.step(ctx, {0: flit(4), 1: head(3)}) == (
            [(0, 0), (Event.FORWARD, 3), (0, 0), (0, 0)],
            {3: head(3)},
        )

    bench.run(testbench)


def test_an_overlong_worm_is_cut_and_its_rest_swallowed():
    bench = Bench(system("crossbar"))
    length = bench.max_flits

    async def testbench(ctx):
        await bench.step(ctx, {0: head(2)})
        for number in range(1, length):
            events, shown = await bench.step(ctx, {0: flit(number)})
            assert events[0] == ((Event.OVERLONG if number == length - 1 else 0), 0)
            assert shown == {2: flit(number)}
        assert await bench.step(ctx, {0: flit(99), 1: head(2, last=True)}) == (
            [(0, 0), (Event.FORWARD, 2), (0, 0), (0, 0)],
            {2: head(2, last=True)},
        )
        assert await bench.step(ctx, {0: flit(99, last=True)}) == ([(0, 0)] * 4, {})
        # A worm of exactly that many flits is legal.
        for number in range(length):
            last = number == length - 1
            given = flit(number, last=last) if number else head(2)
            assert (await bench.events(ctx, {0: given}))[0] == (0 if number else Event.FORWARD)
        assert await bench.events(ctx, {0: flit(1)}) == [Event.STRAY, 0, 0, 0]

    bench.run(testbench)


def test_impossible_destinations_are_discarded():
    bench = Bench(system("tree", arity=3, levels=2))

    async def testbench(ctx):
        for node in (9, 15, 0):  # no such node; no such node; the node on this very port
            assert (await bench.events(ctx, {0: head(node)}))[0] == Event.DISCARD_ROUTE
            assert (await bench.events(ctx, {0: flit(1, last=True)}))[0] == 0
        # From above, a head for another subtree never climbs again.
        assert (await bench.events(ctx, {3: head(8, last=True)}))[3] == Event.DISCARD_ROUTE
        assert (await bench.events(ctx, {3: head(1, last=True)}))[3] == Event.FORWARD

    bench.run(testbench)


@pytest.mark.parametrize("arity", [2, 3, 4])
def test_no_head_is_discarded_while_an_up_port_is_free(arity):
    bench = Bench(system("tree", arity=arity, levels=2))
    away = arity * arity - 1

    async def testbench(ctx):
        rng = random.Random(arity)
        held, owner = set(), {}
        length = {}
        for _ in range(400):
            asking = {i for i in range(arity) if i not in owner and rng.random() < 0.5}
            length = {i: length.get(i, 0) + 1 for i in owner}
            ending = {i for i in owner if rng.random() < 0.2 or length[i] == bench.max_flits - 1}
            inputs = {i: flit(1, last=i in ending) for i in owner}
            lasts = {i: rng.random() < 0.3 for i in asking}
            inputs |= {i: head(away, last=lasts[i]) for i in asking}
            events, shown = await bench.step(ctx, inputs)
            heads = sorted(asking, key=lambda i: i ^ bench.drawn(8, 2 * arity))
            ports = sorted(range(arity), key=lambda j: j ^ bench.drawn(16, arity))
            free = [arity + j for j in ports if arity + j not in held]
            expected = dict(zip(heads, free, strict=False))
            for i in asking:
                wanted = (Event.FORWARD, expected[i]) if i in expected else (Event.DISCARD_UP, 0)
                assert events[i] == wanted
            assert set(shown) == held | set(expected.values())
            assert len(expected) == min(len(asking), arity - len(held))
            for i in ending:
                held.discard(owner.pop(i))
            for i, o in expected.items():
                if not lasts[i]:
                    held.add(o)
                    owner[i] = o
            swallowed = {i for i in asking if i not in expected and not lasts[i]}
            if swallowed:  # end what is swallowed with a gap, and the others with `last`
                await bench.step(ctx, {i: flit(2, last=True) for i in owner})
                held.clear()
                owner.clear()

    bench.run(testbench)


@pytest.mark.parametrize("latency", [1, 2, 3, 4, 5, 6])
def test_latency_is_a_build_parameter(latency):
    bench = Bench(system("mesh"), 1, latency)

    async def testbench(ctx):
        sent = [head(2), flit(11), flit(12, last=True), 0, 0, 0, 0, 0, 0, 0]
        shown = []
        for given in sent:
            _, outputs = await bench.step(ctx, {0: given})
            shown.append(outputs.get(1, 0))
            assert set(outputs) <= {1}
        assert shown == ([0] * (latency - 1) + sent)[: len(sent)]

    bench.run(testbench)


@pytest.mark.parametrize(
    ("kind", "latency"),
    but([("mesh", 3), ("crossbar", 2)], product(("tree", "mesh", "crossbar"), range(2, 7)), push=[("tree", 6)]),
)
def test_every_latency_decides_alike(kind, latency):
    """What a router with latency 1 shows, so many cycles later: events, flits and counts, from the first cycle on."""
    configured = system(kind, **({"arity": 4} if kind == "tree" else {}))
    rng = random.Random(f"{kind} {latency}")
    traffic = []
    for _ in range(250):
        inputs = {}
        for port in range(Rule.of(configured.graph, 0).ports):
            kind_of = rng.random()
            if kind_of < 0.3:
                # A fifth of the heads goes to one of two nodes, so that some ask for the same port.
                destination = rng.randrange(2 if rng.random() < 0.2 else configured.nodes)
                inputs[port] = head(destination, port << 32, last=rng.random() < 0.3)
            elif kind_of < 0.9:
                inputs[port] = flit(rng.getrandbits(16), last=rng.random() < 0.2)
        traffic.append(inputs)
    seen = {}
    for cycles in (1, latency):
        bench = Bench(configured, latency=cycles)
        shown = seen[cycles] = []

        async def testbench(ctx, bench=bench, shown=shown):
            for inputs in [*traffic, *[{}] * 6]:
                events, outputs = await bench.step(ctx, inputs)
                shown.append((events, outputs, ctx.get(bench.dut.counts)))

        bench.run(testbench)
    late = latency - 1
    assert seen[latency][late:] == seen[1][: len(seen[1]) - late]
    wanted = {Event.FORWARD, Event.DISCARD_BUSY, Event.DISCARD_CONTENTION, Event.FRAGMENT, Event.STRAY}
    wanted |= {Event.DISCARD_UP} if kind == "tree" else set()
    assert {event for events, _, _ in seen[1] for event, _ in events} >= wanted


@pytest.mark.parametrize("kind", ["tree", "crossbar", "mesh", "fly"])
def test_random_traffic_never_mixes_worms(kind):
    """Whatever comes in, an output shows whole flits of one worm after another, each begun by its own head."""
    configured = system(kind, **({"arity": 2, "levels": 3} if kind == "fly" else {}))
    bench = Bench(configured)
    nodes = configured.nodes

    async def testbench(ctx):
        rng = random.Random(kind)
        carried: dict[int, int] = {}
        totals = [0] * len(RouterCounter)
        bits = Router.count_bits(bench.rule)
        seen = [0] * len(RouterCounter)
        for cycle in range(600):
            inputs = {}
            for port in range(bench.rule.ports if cycle < 598 else 0):
                kind_of = rng.random()
                data = port << 32
                if kind_of < 0.3:
                    inputs[port] = head(rng.randrange(nodes), data, last=rng.random() < 0.3)
                elif kind_of < 0.9:
                    inputs[port] = flit(data, last=rng.random() < 0.2)
            events, shown = await bench.step(ctx, inputs)
            counts = ctx.get(bench.dut.counts)
            totals = [total + (counts >> bits * c & (1 << bits) - 1) for c, total in enumerate(totals)]
            for port, (event, detail) in enumerate(events):
                if event:
                    seen[event - Event.FORWARD] += 1
                if event == Event.FORWARD:
                    assert shown[detail] == inputs[port]
                    carried[detail] = port
            for output, value in shown.items():
                assert value >> 35 & 0xFF == carried[output]
                if value & 2:
                    assert (Event.FORWARD, output) in events
        cut = totals[RouterCounter.FRAGMENT] - seen[RouterCounter.FRAGMENT]
        seen[RouterCounter.FRAGMENT] += cut
        assert totals == seen
        assert cut > 0

    bench.run(testbench)


def test_bad_sizes_are_refused():
    configured = system()
    with pytest.raises(ValueError, match="latency must be at least 1, not 0"):
        Router(configured.format, Rule.of(configured.graph, 0), 0)

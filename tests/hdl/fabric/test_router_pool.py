"""Pools (cycle contract, section 3.2): the router beside its golden model, and case by case."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from lethe.fabric.pool import Pool
from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.spec.config import System
from lethe.spec.events import Event
from lethe_sim.golden import blocks as golden
from lethe_sim.lockstep.blocks import RouterBlock
from tests.helpers.queue_bench import system, worm

FREE = golden.Flit()


def play(router: golden.Router, *inputs: list) -> tuple[list[list], list[list[tuple[int, int]]]]:
    """Feed each input its flits, cycle by cycle, and some gaps; the outputs and the (event, detail) of the lanes."""
    shown, lanes = [], []
    for cycle in range(max(map(len, inputs)) + 40):
        flits = [each[cycle] if cycle < len(each) and each[cycle] else FREE for each in inputs]
        flits += [FREE] * (router.ports - len(flits))
        out, words = router.step(flits)
        shown.append(out)
        lanes.append([(word & 0xFF, word >> 8 & 0xFF) for word in words])
    return shown, lanes


def flits(configured: System, to: int, length: int, number: int) -> list:
    return [golden.Flit(1, f.first, f.last, f.data) for f in worm(configured.format, to, length, number)]


def numbers(shown: list[list], output: int) -> list[int]:
    """The cycles in which a flit is at an output."""
    return [cycle for cycle, out in enumerate(shown) if out[output].valid]


def pooled(worms: int) -> tuple[System, golden.Router]:
    configured = system("crossbar").replace(router={"pool": worms})
    return configured, golden.Router(configured, 0)


def test_a_stored_worm_leaves_when_its_output_is_free():
    """The output is idle in cycle 6, and then no more."""
    configured, router = pooled(3)
    a, b, c = (flits(configured, 3, length, n) for n, length in enumerate((6, 4, 1)))
    shown, lanes = play(router, a, [None, *b], [None, None, *c, *c])
    assert numbers(shown, 3) == [*range(1, 7), *range(8, 14)]
    assert [cycle for cycle, seen in enumerate(lanes) if seen[4 + 3] == (Event.FORWARD, 3)] == [7, 11, 12]
    assert [out[3].data for out in shown if out[3].valid] == [f.data for f in (*a, *b, *c, *c)]


def test_a_stored_worm_asks_after_six_cycles():
    configured, router = pooled(1)
    a, b = flits(configured, 3, 3, 1), flits(configured, 3, 4, 2)
    shown, _ = play(router, a, [None, *b])
    assert numbers(shown, 3) == [1, 2, 3, *range(8, 12)]


def test_until_a_worm_is_next_only_what_comes_behind_it_waits():
    """The example of section 3.2, and what comes on the input of b after it is next."""
    configured, router = pooled(2)
    a, b, c, d = (flits(configured, 3, length, n) for n, length in enumerate((3, 1, 1, 1)))
    shown, lanes = play(router, a, [None, *b, None, None, *c], [None] * 5 + d)
    assert lanes[4][1] == (0, 0) and lanes[5][2] == (Event.FORWARD, 3)
    assert numbers(shown, 3) == [1, 2, 3, 6, 8, 11]
    assert [out[3].data for out in shown if out[3].valid] == [f.data for f in (*a, *d, *b, *c)]


@pytest.mark.parametrize(("arrives", "passes"), [(7, False), (8, True)])
def test_a_head_is_behind_one_that_was_discarded_for_five_cycles(arrives, passes):
    """A worm for another output fills the pool; in cycle 2 a head is discarded whose output is free from 3 on."""
    configured, router = pooled(1)
    a, other = flits(configured, 3, 3, 1), [flits(configured, 0, 6, n) for n in (2, 3)]
    lost, last = flits(configured, 3, 3, 4), flits(configured, 3, 3, 5)
    _, lanes = play(router, a, [None, None, *lost, *[None] * (arrives - 5), *last], other[0], other[1])
    seen = [[event for event, _ in cycle if event] for cycle in lanes]
    assert seen[2] == [Event.DISCARD_FULL]
    assert lanes[arrives][1][0] == (Event.FORWARD if passes else Event.DISCARD_FULL)


@pytest.mark.parametrize("worms", [1, 2, 3])
def test_a_full_pool_discards_the_rest(worms):
    configured, router = pooled(worms)
    a, rest = flits(configured, 3, 7, 1), [flits(configured, 3, 3, n) for n in (2, 3, 4)]
    _, lanes = play(router, [*a], [None, *rest[0], *rest[1]], [None, *rest[2]])
    seen = [event for cycle in lanes for event, _ in cycle if event]
    assert seen.count(Event.DISCARD_FULL) == 3 - worms and seen.count(Event.FORWARD) == 1 + worms


def test_a_head_does_not_overtake_one_that_waits():
    configured, router = pooled(3)
    a, b, c, d = (flits(configured, 3, length, n) for n, length in enumerate((4, 3, 3, 3)))
    # The output is free from cycle 4 on, in which c arrives on the input of b; in cycle 7 b is next, and d arrives.
    shown, _ = play(router, a, [None, *b, *c], [None] * 7 + d)
    assert [out[3].data for out in shown if out[3].valid] == [f.data for f in (*a, *b, *c, *d)]


def test_what_is_torn_leaves_as_a_fragment():
    configured, router = pooled(1)
    a, b = flits(configured, 3, 4, 1), flits(configured, 3, 5, 2)
    _, lanes = play(router, a, [None, *b[:2]])
    assert lanes[9][4 + 3] == (Event.FRAGMENT, 0)
    assert not any(event for cycle in lanes for event, _ in cycle[:1] if event == Event.FRAGMENT)


@pytest.mark.parametrize(
    ("kind", "number", "worms", "latency", "options", "wire"),
    [
        ("crossbar", 0, 1, 1, {}, None),
        ("tree", 5, 3, 4, {}, None),
        ("tree", 5, 4, 5, {"pool_path": "any", "control_first": 8}, None),
        ("mesh", 4, 2, 6, {}, {"flit_bits": 128, "mtu": 4}),
        ("tree", 1, 2, 2, {}, {"flit_bits": 16, "mtu": 128, "generation_bits": 4, "incarnation_bits": 1}),
    ],
)
def test_rtl_and_golden_model_are_equal(kind, number, worms, latency, options, wire):
    """Under hostile input, from one seed; the last with deep buffers, which are read a cycle ahead."""
    configured = system(kind, wire=wire).replace(
        router={"pool": worms, "latency": latency, **options}, ni={"linger": -1 if options else 0}
    )
    block = RouterBlock(configured, number)
    i, o, m = Signal(block.inputs), Signal(block.output_bits), Module()
    block.build(m, "dut", i, o)
    seen = set()

    async def testbench(ctx):
        for cycle, (fed, wanted) in zip(range(400), block.play(1), strict=False):
            ctx.set(i, fed)
            assert ctx.get(o) == wanted, f"cycle {cycle}"
            seen.update(block.seen(wanted))
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()
    assert {"FORWARD", "DISCARD_FULL"} <= seen


def test_only_pinned_heads_need_a_salt():
    configured = system("tree")
    rule = Rule.of(configured.graph, 0)
    for freely in (False, True):
        router = Router(configured.format, rule, pool=2, climbs_freely=freely)
        assert ("salt" in router.signature.members) == (not freely)


def test_bad_arguments_are_refused():
    configured = system("crossbar")
    with pytest.raises(ValueError, match="worms must be at least 1, not 0"):
        Pool(configured.format, 4, 0)
    with pytest.raises(ValueError, match="pool must be at least 0, not -1"):
        Router(configured.format, Rule.of(configured.graph, 0), pool=-1)
    with pytest.raises(ValueError, match="queues or a pool, not both"):
        Router(configured.format, Rule.of(configured.graph, 0), queue=1, pool=1)

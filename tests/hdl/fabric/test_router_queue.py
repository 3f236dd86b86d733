"""Input queues (cycle contract, section 3.1): the router beside its reference, and case by case."""

import itertools
import random
import re
from collections import Counter, defaultdict

import pytest

from lethe.fabric.fabric import Fabric
from lethe.fabric.input_queue import InputQueue
from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.spec.events import Event, Kind
from lethe.spec.pin import key_hash, pinned
from lethe.spec.wire import KIND_BITS
from lethe.verilog import to_rtlil
from tests.helpers.queue_bench import Bench, Flit, body, head, system, together, worm
from tests.helpers.tiers import but

LATE = 1000  # a patience that does not end here

ROUTERS = {
    "crossbar": ("crossbar", 0, {}),
    "large crossbar": ("crossbar", 0, {"nodes": 9}),
    "fly": ("fly", 5, {}),
    "tree, bottom": ("tree", 1, {}),
    "tree, middle": ("tree", 5, {}),
    "tree, top": ("tree", 9, {}),
    "tree, three up-ports": ("tree", 1, {"arity": 3, "levels": 2}),
    "mesh, middle": ("mesh", 4, {}),
    "mesh, corner": ("mesh", 0, {}),
}
QUEUES = ((1, 0), (1, 3), (1, LATE), (2, 20), (4, 2))
#: One of the queues for each router, each queue for a router or two.
QUICK = [(router, *QUEUES[i % len(QUEUES)]) for i, router in enumerate(ROUTERS)]
SHORT = {"flit_bits": 128, "mtu": 4}  # worms of three flits


def events(played) -> Counter:
    return Counter(Event(event) for _, lanes in played for event, _, _ in lanes if event)


def forwarded(played, lane: int) -> list[int]:
    """The cycles in which a head passed."""
    return [cycle for cycle, (_, lanes) in enumerate(played) if lanes[lane][0] == Event.FORWARD]


def sent(played, output: int) -> list[Flit | None]:
    return [passing[output] for passing, _ in played]


@pytest.mark.parametrize(("router", "worms", "max_wait"), but(QUICK, [(r, *q) for r in ROUTERS for q in QUEUES]))
def test_random_traffic_follows_the_contract(router, worms, max_wait):
    kind, number, sizes = ROUTERS[router]
    bench = Bench(system(kind, **sizes), number, worms, max_wait, latency=1 + worms % 3)
    chance = random.Random(f"{router} {worms} {max_wait}")
    seen = events(bench.play(itertools.islice(together(chance, bench), 1500 // bench.ports)))
    assert {Event.FORWARD, Event.STRAY, Event.OVERLONG, Event.FRAGMENT} <= set(seen)


@pytest.mark.parametrize("worms, max_wait", but([(2, 7)], [(1, 1), (2, 7), (4, 5)]))
def test_short_worms_follow_it_too(worms, max_wait):
    bench = Bench(system("mesh", wire=SHORT), 4, worms, max_wait)
    assert bench.wire.max_flits == 3
    seen = events(bench.play(itertools.islice(together(random.Random(worms), bench), 400)))
    refused = {Event.DISCARD_BUSY, Event.DISCARD_CONTENTION, Event.DISCARD_FULL, Event.DISCARD_ROUTE}
    assert {Event.FORWARD, Event.STRAY, Event.OVERLONG, Event.FRAGMENT} | refused <= set(seen)


@pytest.mark.parametrize("latency", [1, 3])
def test_a_worm_that_need_not_wait_has_the_latency_of_the_router(latency):
    """Bench.play compares the outputs in every cycle: what enters a register is shown ``latency`` cycles later."""
    bench = Bench(system("crossbar"), 0, 1, LATE, latency)
    first, second = worm(bench.wire, 2, 4, 1), worm(bench.wire, 2, 3, 2)
    played = bench.play([flit, None, None, None] for flit in [*first, *second, *[None] * 4])
    assert sent(played, 2) == [*first, *second, *[None] * 4]
    assert events(played) == {Event.FORWARD: 2}


def test_a_waiting_worm_leaves_without_gaps_when_its_output_is_free():
    bench = Bench(system("crossbar"), 0, 1, LATE)
    holds, waits = worm(bench.wire, 3, 6, 1), worm(bench.wire, 3, 5, 2)
    cycles = [[holds[0], None, None, None]]
    cycles += [[a, b, None, None] for a, b in zip(holds[1:], waits, strict=True)]
    played = bench.play([*cycles, *[[None] * 4] * 8])
    # It was refused in cycles 1 to 5; the output is free from cycle 6 on.
    assert sent(played, 3) == [*holds, *waits, *[None] * 3]
    assert events(played) == {Event.FORWARD: 2}


def test_it_is_forwarded_while_it_still_arrives():
    bench = Bench(system("crossbar"), 0, 1, LATE)
    holds, waits = worm(bench.wire, 3, 3, 1), worm(bench.wire, 3, 6, 2)
    cycles = [[a, b, None, None] for a, b in zip([None, *holds, *[None] * 3], [None, None, *waits[:5]], strict=True)]
    cycles += [[None, waits[5], None, None], *[[None] * 4] * 4]
    played = bench.play(cycles)
    assert forwarded(played, 1) == [4]  # refused in 2, in 3 it was in memory only
    assert [flit for flit in sent(played, 3) if flit] == [*holds, *waits]


@pytest.mark.parametrize("worms", [1, 2, 4])
def test_a_full_queue_discards_whole_worms(worms):
    bench = Bench(system("crossbar"), 0, worms, LATE)
    wire, length = bench.wire, 4
    # Input 0 holds output 3 with a worm of one flit after another; output 3 is never free for input 1 for long.
    holds = worm(wire, 3, wire.max_flits, 99)
    burst = [worm(wire, 3, length, number) for number in range(worms + 2)]
    arriving = [flit for each in burst for flit in each]
    cycles = [[holds[0], None, None, None]]
    for at in range(max(len(arriving), wire.max_flits)):
        blocker = holds[at + 1] if at + 1 < wire.max_flits else None
        cycles.append([blocker, arriving[at] if at < len(arriving) else None, None, None])
    played = bench.play([*cycles, *[[None] * 4] * (length * (worms + 3))])
    full = [cycle for cycle, (_, lanes) in enumerate(played) if lanes[4 + 1][0] == Event.DISCARD_FULL]
    passed = [flit for flit in sent(played, 3) if flit][wire.max_flits :]
    whole = [passed[at : at + length] for at in range(0, len(passed), length)]
    assert len(whole) == len(burst) - len(full) and all(each in burst for each in whole)
    if worms == 1:  # the first waits until cycle 6; the second, of cycle 5, finds it waiting
        assert full == [5]


@pytest.mark.parametrize("max_wait", [0, 1, 2, 5])
def test_patience_ends_with_the_event_of_the_refusal(max_wait):
    bench = Bench(system("crossbar"), 0, 1, max_wait)
    holds, waits = worm(bench.wire, 3, 6, 1), worm(bench.wire, 3, 2, 2)
    later = worm(bench.wire, 3, 6, 3)
    cycles = [[a, b, None, None] for a, b in zip([*holds, None], [None, *waits, *[None] * 4], strict=True)]
    # The output is taken again as soon as it is free: input 2 contends in cycle 6.
    cycles[6][2] = later[0]
    cycles += [[None, None, flit, None] for flit in later[1:]]
    played = bench.play([*cycles, *[[None] * 4] * 3])
    seen = {cycle: lanes[1][0] for cycle, (_, lanes) in enumerate(played) if lanes[1][0]}
    # Its head is refused in cycle 1 where it arrives, and from cycle 3 on where it waits.
    if max_wait <= 2:
        assert seen == {3 + max_wait: Event.DISCARD_BUSY}
    else:
        ((cycle, event),) = seen.items()
        assert (cycle, event) in ((6, Event.FORWARD), (8, Event.DISCARD_BUSY))


def test_patience_that_ends_at_a_free_output_is_contention():
    bench = Bench(system("crossbar"), 0, 1, 0)
    one = {i: head(bench.wire, 3, last=True, above=i) for i in range(3)}
    played = bench.play([[one[0], one[1], one[2], None], [None] * 4, [None] * 4, [None] * 4])
    # Of three, one passes at once; of the two that wait one passes in cycle 2, and the other is discarded there.
    assert [sorted(event for event, _, _ in lanes if event) for _, lanes in played] == [
        [Event.FORWARD],
        [],
        [Event.FORWARD, Event.DISCARD_CONTENTION],
        [],
    ]


def test_no_route_is_discarded_at_once_and_its_worm_swallowed():
    bench = Bench(system("crossbar"), 0, 1, LATE)
    nowhere, good = worm(bench.wire, 0, 3, 1), worm(bench.wire, 2, 2, 2)
    played = bench.play([flit, None, None, None] for flit in [*nowhere, *good, None])
    assert events(played) == {Event.DISCARD_ROUTE: 1, Event.FORWARD: 1}
    assert sent(played, 2) == [None] * 3 + [*good, None]


def test_strays_do_not_enter_the_queue():
    bench = Bench(system("crossbar"), 0, 1, LATE)
    cycles = [[body(1), None, None, None], [body(2, last=True), None, None, None], [None] * 4]
    played = bench.play(cycles)
    assert [lanes[4][0] for _, lanes in played] == [Event.STRAY, Event.STRAY, 0]


def test_an_unexpected_head_that_waits_ends_the_old_worm():
    bench = Bench(system("crossbar"), 0, 1, LATE)
    old, new = worm(bench.wire, 2, 3, 1), worm(bench.wire, 2, 2, 2)
    played = bench.play([flit, None, None, None] for flit in [*old[:2], *new, *[None] * 4])
    # Its own output is held by the old worm in cycle 2, so it waits; it is in the output register from cycle 4 on.
    assert sent(played, 2) == [*old[:2], None, None, *new, None, None]
    assert events(played) == {Event.FORWARD: 2}  # the old worm's FRAGMENT is counted without an event


ORDERED = ("tree, middle", "fly", "tree, bottom", "mesh, middle")


@pytest.mark.parametrize("router", but(ORDERED[:2], ORDERED))
def test_order_per_source_destination_and_slot_is_kept(router):
    """What is sent between two nodes on one slot passes in the order in which it came, by one output."""
    kind, number, sizes = ROUTERS[router]
    bench = Bench(system(kind, wire={"flit_bits": 64, "mtu": 4}, **sizes), number, 2, 30)
    wire, nodes, chance = bench.wire, bench.graph.nodes, random.Random(router)

    def stream(port: int):
        for count in itertools.count():
            # Sources of an input are its own: a key always comes in at one port.
            source = port + bench.ports * chance.randrange(max(1, nodes // bench.ports))
            fields = {"kind": Kind.SEND, "source": source % nodes, "slot": chance.randrange(4)}
            yield from worm(wire, chance.randrange(nodes), chance.randint(1, wire.max_flits), count, **fields)
            yield from [None] * chance.choice([0, 0, 0, 1, 5])

    inputs = [stream(port) for port in range(bench.ports)]
    played = bench.play([next(flits) for flits in inputs] for _ in range(500))
    number_at = KIND_BITS + 2 * wire.node_bits + wire.slot_bits
    seen: dict[tuple[int, int], tuple[int, int]] = {}
    followed = 0
    for _, lanes in played:
        for port, (event, output, data) in enumerate(lanes[: bench.ports]):
            if event == Event.FORWARD:
                key, count = (port, data & (1 << number_at) - 1), data >> number_at
                if key in seen:
                    followed += 1
                    assert seen[key][0] < count and seen[key][1] == output
                seen[key] = count, output
    assert followed > 20


def test_heads_that_climb_are_pinned_and_acks_take_the_way_of_their_sends():
    bench = Bench(system("tree", arity=4, levels=2, wire={"flit_bits": 64, "mtu": 4}), 0, 1, LATE)
    wire = bench.wire
    keys = [(source, to, slot) for source in range(4) for to in (5, 9, 14) for slot in range(4)]
    salt, chosen = bench.reference.router.salt, defaultdict(set)
    heads = []
    for source, to, slot in keys:
        heads += [head(wire, to, last=True, kind=kind, source=source, slot=slot) for kind in (Kind.SEND, Kind.FORGET)]
        # An Ack for what `to` sent to `source`.
        heads.append(head(wire, to, last=True, kind=Kind.ACK, source=source, slot=slot))
    played = bench.play([flit, *[None] * 7] for flit in heads)
    for (source, to, slot), at in zip(keys, range(0, len(heads), 3), strict=True):
        send, forget, ack = (played[at + i][1][0] for i in range(3))
        assert send[0] == forget[0] == ack[0] == Event.FORWARD
        hashed = key_hash(wire, salt, kind=Kind.SEND, source=source, destination=to, slot=slot)
        assert send[1] == forget[1] == 4 + pinned(hashed, 0, 4)
        back = key_hash(wire, salt, kind=Kind.SEND, source=to, destination=source, slot=slot)
        assert ack[1] == 4 + pinned(back, 0, 4)
        chosen[source].add(send[1])
    assert all(len(ports) > 1 for ports in chosen.values())


@pytest.mark.parametrize("worms, max_wait", but([(1, 0), (2, 9)], [(1, 0), (1, 9), (2, 9), (4, 3)]))
def test_no_flit_is_in_an_input_for_longer_than_the_bound(worms, max_wait):
    """Flits carry the cycle in which they came; three inputs contend for one output."""
    bench = Bench(system("crossbar", wire=SHORT), 0, worms, max_wait)
    wire, chance, longest = bench.wire, random.Random(worms), 0
    bound = worms * (max_wait + wire.max_flits + 3) + wire.max_flits + 2

    def traffic():
        left = [0] * 3
        for cycle in range(500):
            flits: list[Flit | None] = [None] * 4
            for i in range(3):
                if not left[i]:
                    left[i] = chance.randint(1, 3)
                    flits[i] = head(wire, 3, last=left[i] == 1, above=cycle)
                else:
                    flits[i] = body(cycle, last=left[i] == 1)
                left[i] -= 1
            yield flits

    number_at = KIND_BITS + 2 * wire.node_bits + wire.slot_bits
    for cycle, flit in enumerate(sent(bench.play(traffic()), 3)):
        if flit:
            longest = max(longest, cycle - (flit.data >> number_at if flit.first else flit.data))
    assert worms * max_wait < longest <= bound


def test_a_fabric_takes_queue_and_patience_from_the_configuration():
    text = to_rtlil(Fabric(system("tree", levels=2).replace(router={"queue": 2, "max_wait": 9})), "fabric")
    queues = re.findall(r"^module \\(lethe_router_level\d\.queue\d)$", text, re.MULTILINE)
    assert len(queues) == 4 + 2  # one for each input of a router of each level
    assert set(re.findall(r"wire width 512 output \d+ +\\(watch\d)", text)) == {"watch0", "watch1"}


def test_bad_arguments_are_refused():
    configured = system("tree")
    rule = Rule.of(configured.graph, 0)
    with pytest.raises(ValueError, match="queue must be at least 0, not -1"):
        Router(configured.format, rule, queue=-1)
    with pytest.raises(ValueError, match="worms must be at least 1, not 0"):
        InputQueue(configured.format, 1, 0, 1)
    with pytest.raises(ValueError, match="max_wait must be at least 0, not -1"):
        Router(configured.format, rule, queue=1, max_wait=-1)
    narrow = system("tree", arity=4, levels=3, wire={"flit_bits": 16, "mtu": 4, "slot_bits": 4})
    with pytest.raises(ValueError, match="need the header's slot in the first flit: it ends at bit 19"):
        Router(narrow.format, Rule.of(narrow.graph, 0), queue=1)
    # At the top nothing climbs.
    assert "salt" not in to_rtlil(Router(narrow.format, Rule.of(narrow.graph, 40), queue=1), "top")


def test_only_routers_that_pin_have_a_salt():
    configured = system("tree")
    for number, queue, salted in ((0, 1, True), (0, 0, False), (8, 1, False)):
        router = Router(configured.format, Rule.of(configured.graph, number), queue=queue)
        assert (" \\salt\n" in to_rtlil(router, "router")) == salted

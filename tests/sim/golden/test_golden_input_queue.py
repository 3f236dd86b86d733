"""Routers with input queues (section 3.1), cycle by cycle: the back, the front, patience, pinned up-ports."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.spec.events import Event, Kind
from lethe.spec.pin import key_hash, pinned, salt_for
from lethe_sim.golden.blocks import Flit, Router
from tests.helpers.golden_block_steps import BODY, TAIL, head, step
from tests.helpers.golden_systems import make

FULL, FORWARD, BUSY = Event.DISCARD_FULL, Event.FORWARD, Event.DISCARD_BUSY


def crossbar(queue=1, max_wait=50, **sections):
    """A router of five ports, whose backs show their events on lanes 5 to 9."""
    return make("crossbar", router={"queue": queue, "max_wait": max_wait}, **sections)


def steps(router, count, **flits):
    return [step(router, **flits) for _ in range(count)]


def busy(system):
    """A router whose output 4 carries a worm of input 0; the next flit of it is `BODY`."""
    router = Router(system, 0)
    assert step(router, p0=head(system, 4)) == ([], {0: FORWARD})
    return router


def test_a_head_that_gets_its_output_passes_as_without_queues():
    system = crossbar()
    router = Router(system, 0)
    assert step(router, p0=head(system, 4)) == ([], {0: FORWARD})
    assert step(router, p0=TAIL) == ([4], {})
    assert step(router, p1=head(system, 4, 1)) == ([4], {1: FORWARD})
    assert step(router) == ([4], {})


def test_a_refused_head_waits_and_its_worm_leaves_without_a_gap():
    """Refused in c it is in the output register from c+2 on, shown to the router in each cycle until it passes."""
    system = crossbar()
    router = busy(system)
    assert step(router, p0=BODY, p1=head(system, 4)) == ([4], {})
    assert step(router, p0=BODY, p1=BODY) == ([4], {})
    assert step(router, p0=TAIL, p1=BODY) == ([4], {})
    assert step(router, p1=TAIL) == ([4], {1: FORWARD})
    assert steps(router, 4) == [([4], {}), ([4], {}), ([4], {}), ([4], {})]
    assert step(router) == ([], {})


def test_a_head_that_comes_to_an_empty_queue_needs_two_cycles_to_be_seen_again():
    system = crossbar()
    router = Router(system, 0)
    step(router, p0=head(system, 4))
    step(router, p0=TAIL, p1=head(system, 4, 1))
    assert step(router) == ([4], {})  # the output is free, but the head is in the memory
    assert step(router) == ([], {1: FORWARD})


@pytest.mark.parametrize("queue", [1, 2, 4])
def test_a_full_queue_discards_whole_worms(queue):
    """Worms wait until the queue is full; those that come then are discarded, and no flit of theirs is a stray."""
    system = crossbar(queue, wire={"mtu": 256})
    router = busy(system)
    worm = (head(system, 4), BODY, TAIL)
    fates = [step(router, p0=BODY, p1=flit)[1] for _ in range(queue + 2) for flit in worm]
    assert fates == 3 * queue * [{}] + 2 * [{6: FULL}, {}, {}]


def test_waiting_counts_heads_in_the_queue_at_the_start_of_the_cycle():
    """In the cycle in which its head passes a worm still counts; its other flits never do."""
    system = crossbar(1)
    router = busy(system)
    step(router, p0=BODY, p1=head(system, 4))
    step(router, p0=TAIL, p1=BODY)
    assert step(router, p1=TAIL) == ([4], {1: FORWARD})
    router = busy(system)
    step(router, p0=BODY, p1=head(system, 4, 1))
    step(router, p0=TAIL)
    assert step(router, p1=head(system, 3, 1)) == ([4], {1: FORWARD, 6: FULL})
    router = busy(system)
    step(router, p0=BODY, p1=head(system, 4))
    step(router, p0=TAIL, p1=BODY)
    step(router, p1=TAIL)  # the head passes
    assert step(router, p1=head(system, 3, 1)) == ([4], {})  # two flits are still there; this one waits behind them
    assert [step(router)[1] for _ in range(2)] == [{}, {1: FORWARD}]


@pytest.mark.parametrize("max_wait", [1, 2, 7])
def test_patience(max_wait):
    """Refused max_wait times in the output register a head stays; refused once more it is discarded."""
    system = crossbar(1, max_wait, wire={"mtu": 256})
    router = busy(system)
    assert step(router, p0=BODY, p1=head(system, 4)) == ([4], {})
    assert step(router, p0=BODY, p1=BODY) == ([4], {})
    for _ in range(max_wait):
        assert step(router, p0=BODY, p1=BODY) == ([4], {})
    assert step(router, p0=BODY, p1=BODY) == ([4], {1: BUSY})
    # The rest of it vanishes, and then the queue is empty again.
    assert steps(router, max_wait + 2, p0=BODY) == (max_wait + 2) * [([4], {})]
    assert step(router, p0=BODY, p1=head(system, 3, 1)) == ([4], {1: FORWARD})


def test_patience_begins_anew_for_the_next_head():
    system = crossbar(2, 3, wire={"mtu": 256})
    router = busy(system)
    step(router, p0=BODY, p1=head(system, 4, 1))
    step(router, p0=BODY, p1=head(system, 4, 1))
    fates = [step(router, p0=BODY)[1] for _ in range(12)]
    # Visible from the third cycle on, it is refused in that and three more; the next follows at once.
    assert [n for n, fate in enumerate(fates) if fate] == [3, 7]
    assert all(fate in ({}, {1: BUSY}) for fate in fates)


def test_a_head_without_a_route_vanishes_at_once():
    system = crossbar()
    router = Router(system, 0)
    assert step(router, p1=head(system, 7)) == ([], {1: Event.DISCARD_ROUTE})
    assert step(router, p1=BODY) == ([], {})
    assert step(router, p1=TAIL) == ([], {})
    router = busy(system)
    step(router, p0=BODY, p1=head(system, 4, 1))
    step(router, p0=TAIL)
    assert step(router, p1=BODY) == ([4], {1: FORWARD, 6: Event.STRAY})


def test_the_loser_of_a_draw_waits():
    system = crossbar()
    router = Router(system, 0)
    won = [step(router, p0=head(system, 4, 1), p1=head(system, 4, 1))[1]]
    won += [step(router)[1] for _ in range(2)]
    assert won[0] in ({0: FORWARD}, {1: FORWARD})
    assert won[1:] == [{}, {1 - next(iter(won[0])): FORWARD}]


def test_strays_and_gaps():
    """A flit without a worm is the back's; a gap ends a worm in the queue as it does on the link."""
    system = crossbar(2)
    router = busy(system)
    assert step(router, p0=BODY, p1=BODY) == ([4], {6: Event.STRAY})
    step(router, p0=BODY, p1=head(system, 4))
    step(router, p0=BODY)
    assert step(router, p0=TAIL, p1=BODY) == ([4], {6: Event.STRAY})
    assert step(router) == ([4], {1: FORWARD})
    assert step(router) == ([4], {1: Event.FRAGMENT})
    assert step(router, p2=head(system, 4, 1)) == ([], {2: FORWARD})


def test_a_head_behind_a_fragment_in_the_queue():
    """The old worm ends in the cycle in which the head behind it is presented, whether or not that gets its output."""
    system = crossbar(2)
    router = busy(system)
    step(router, p0=BODY, p1=head(system, 4))
    step(router, p0=BODY, p1=head(system, 4, 1))
    assert step(router, p0=TAIL) == ([4], {})
    assert step(router) == ([4], {1: FORWARD})
    assert step(router) == ([4], {})  # presented to an output that its own fragment holds until this cycle
    assert step(router) == ([], {1: FORWARD})


def test_overlong_in_the_queue():
    """A worm is cut at max_flits when it is stored, so that the front shows a fragment, not an overlong worm."""
    system = crossbar()
    flits = system.format.max_flits
    router = busy(system)
    step(router, p0=BODY, p1=head(system, 4))
    step(router, p0=TAIL, p1=BODY)
    fates = [step(router, p1=BODY)[1] for _ in range(flits + 4)]
    assert fates[0] == {1: FORWARD}
    assert [n for n, fate in enumerate(fates) if fate] == [0, flits - 1]
    assert fates[flits - 1] == {1: Event.OVERLONG}
    assert step(router, p1=TAIL)[1] == {}
    # Direct, it is the front that cuts it.
    router = busy(system)
    fates = [step(router, p0=BODY)[1] for _ in range(flits + 3)]
    assert [n for n, fate in enumerate(fates) if fate] == [flits - 2]
    assert fates[flits - 2] == {0: Event.OVERLONG}


def test_no_queue_no_lanes():
    assert len(Router(make("crossbar"), 0).step([Flit()] * 5)[1]) == 5
    assert len(Router(crossbar(), 0).step([Flit()] * 5)[1]) == 10


@settings(derandomize=True, deadline=None, max_examples=120)
@given(st.data())
def test_up_ports_are_pinned(data):
    """Of a slot's Send, Ack and Forget, at every level, whatever else is in the head."""
    draw = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    flit_bits = data.draw(st.sampled_from([16, 32, 64, 128]))
    arity, levels = data.draw(st.sampled_from([(2, 3), (4, 2), (3, 3), (2, 4)]))
    seed = draw(0, 99)
    system = make("tree", wire={"flit_bits": flit_bits}, ni={"slots": 8}, router={"queue": 1}, run={"seed": seed})
    system = system.replace(topology={"arity": arity, "levels": levels})
    graph, form = system.graph, system.format
    router = draw(0, (levels - 1) * graph.width - 1)
    fields = {name: draw(0, (1 << width) - 1) for name, width in (("source", form.node_bits), ("slot", form.slot_bits))}
    fields["kind"] = data.draw(st.sampled_from([Kind.SEND, Kind.ACK, Kind.FORGET, Kind.BE]))
    fields["destination"] = draw(0, graph.nodes - 1)
    up = graph.route(router, 0, fields["destination"]) == -1
    expected = pinned(key_hash(form, salt_for(seed), **fields), graph.level(router), graph.up_ports(router))
    word = sum(fields[f.name] << f.offset for f in form.common if f.name in fields)
    rest = form.common[3].offset + form.common[3].width
    word |= draw(0, (1 << flit_bits - rest) - 1) << rest
    _, words = Router(system, router).step([Flit(1, 1, 1, word)] + [Flit()] * (graph.ports(router) - 1))
    if up:
        assert words[0] & 0xFFFF == FORWARD | (arity + expected) << 8


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.data())
def test_worms_leave_whole_and_in_order(data):
    """Each input's worms leave in their order, none is mixed with another, and there is an event for each."""
    queue, max_wait = data.draw(st.sampled_from([(1, 2), (1, 60), (2, 9), (4, 200)]))
    system = crossbar(queue, max_wait, wire={"flit_bits": 32})
    router = Router(system, 0)
    plans = [
        data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6), st.sampled_from([0, 0, 1, 9])), max_size=12))
        for _ in range(3)
    ]
    offset = system.format.common[1].offset + system.format.node_bits
    lines, number = [], 0
    for port, plan in enumerate(plans):
        line = []
        for choice, length, pause in plan:
            number += 1
            to = (port + 1 + choice) % 5
            line += [Flit()] * pause
            for i in range(length):
                word = number << offset | (to << system.format.common[1].offset if i == 0 else i << offset + 12)
                line.append(Flit(1, int(i == 0), int(i == length - 1), word))
        lines.append(line)
    out, fates, longest = [[] for _ in range(5)], {}, 0
    end = max(map(len, lines), default=0) + system.longest_wait
    for cycle in range(end + 80):
        shown, words = router.step([line[cycle] if cycle < len(line) else Flit() for line in lines] + [Flit(), Flit()])
        for port, flit in enumerate(shown):
            if flit.valid:
                out[port].append(flit)
        for lane, word in enumerate(words):
            if word:
                fates.setdefault(lane % 5, []).append((word & 0xFF, word >> 16 + offset))
                longest = max(longest, cycle)
    assert longest < end
    for port, line in enumerate(lines):
        heads = [flit.data >> offset for flit in line if flit.first]
        assert sorted(n for _, n in fates.get(port, [])) == heads
        passed = [n for event, n in fates.get(port, []) if event == FORWARD]
        assert passed == sorted(passed)
        assert {event for event, _ in fates.get(port, [])} <= {FORWARD, BUSY, Event.DISCARD_CONTENTION, FULL}
    lengths = {n: sum(1 for line in lines for f in line if f.data >> offset & 0xFFF == n) for n in range(1, number + 1)}
    for flits in out:
        while flits:
            assert flits[0].first
            n = flits[0].data >> offset & 0xFFF
            worm, flits[:] = flits[: lengths[n]], flits[lengths[n] :]
            assert [f.data >> offset & 0xFFF for f in worm] == [n] * lengths[n]
            assert [f.last for f in worm] == [0] * (lengths[n] - 1) + [1]

"""Single blocks, cycle by cycle: the NI's answers, the router's decisions, the ladder's order, a link's faults."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.spec import stages
from lethe.spec.events import Drop, Event, Kind, Status
from lethe.spec.sections.router import STAGES
from lethe.spec.stages import ACCEPT_ACTS, ACTS, CHOSEN, JUDGED, QUEUED, SHOWN
from lethe.spec.trace import NI_FLAGS
from lethe_sim.golden.blocks import Flit, Ladder, LinkFault, Ni, Router, Token
from tests.helpers.golden_block_steps import BODY, FORM, READY, SYSTEM, TAIL, events, head, message, ready, step
from tests.helpers.golden_steps import offer, run, send, sent, worm
from tests.helpers.golden_systems import make


def test_latencies():
    """From the acceptance to the first flit, and from the last flit that comes in to the first of its Ack."""
    rows = send(Ni(SYSTEM, 3), 64, bytes(16), 6)
    accepted = events(rows, 2)[0][0]
    assert next(i for i, row in enumerate(rows) if Ni.link_o(row).valid) == accepted + QUEUED + SHOWN
    flits = message(Kind.SEND, length=8)
    rows = run(ready(3), 30, arrivals=flits)
    last = len(flits) - 1
    assert events(rows) == [(last + ACTS, Event.DELIVER, 0)]
    assert next(i for i, row in enumerate(rows) if Ni.link_o(row).valid) == last + ACTS + QUEUED + SHOWN


def test_control_messages_at_full_rate():
    """One-flit Acks in every cycle act in every cycle, and are answered in every cycle."""
    flits = [flit for n in range(50) for flit in message(Kind.ACK, slot=n % 16, generation=n)]
    rows = run(ready(3), 70, arrivals=flits)
    acted = [cycle for cycle, event, _ in events(rows) if event == Event.ACK_IGNORED]
    assert acted == list(range(ACTS, 50 + ACTS))
    answered = [i for i, row in enumerate(rows) if Ni.link_o(row).valid]
    assert answered == [cycle + QUEUED + SHOWN for cycle in acted]


@pytest.mark.parametrize(
    ("reason", "kind", "fields"),
    [
        (Drop.KIND, Kind.RESERVED, {}),
        (Drop.MISROUTED, Kind.ACK, {"destination": 4}),
        (Drop.SOURCE, Kind.FORGET, {"source": 3}),
        (Drop.EXTENSION, Kind.SEND, {"extension": 1}),
        (Drop.EXTENSION, Kind.SEND, {"mode": 2}),
        (Drop.INCARNATION, Kind.BE, {"peer_incarnation": 9}),
    ],
)
def test_drops(reason, kind, fields):
    rows = run(ready(3), 20, arrivals=message(kind, **fields))
    assert [event[1:] for event in events(rows)] == [(Event.DROP, reason)]
    assert not sent(rows)


def test_drop_before_ready_and_for_a_bad_crc():
    ni = Ni(SYSTEM, 3)
    flits = message(Kind.ACK)
    assert [event[2] for event in events(run(ni, 9, arrivals=flits))] == [Drop.RESETTING]
    for bit in range(64):
        bad = [flits[0]._replace(data=flits[0].data ^ 1 << bit)]
        assert [event[2] for event in events(run(ready(3), 9, arrivals=bad))] == [Drop.CRC]


def test_wrong_lengths_and_slots():
    system = make("tree", ni={"slots": 5})
    form = system.format
    flits = form.flits({"kind": Kind.ACK, "destination": 3, "source": 6, "slot": 6})
    assert [e[2] for e in events(run(ready(3, system), 9, arrivals=worm(flits)))] == [Drop.SLOT]
    # A Send that says one length and has another, with a good CRC.
    fields = {"kind": Kind.SEND, "destination": 3, "source": 6, "length": 9}
    flits = form.flits(fields, bytes(17))
    assert [e[2] for e in events(run(ready(3, system), 19, arrivals=worm(flits)))] == [Drop.LENGTH]


def test_duplicate_forget_and_replacement():
    ni = ready(3)
    first, again = message(Kind.SEND, length=8), message(Kind.SEND, length=8, generation=6)
    forget = message(Kind.FORGET, peer_incarnation=1)
    assert [e[1] for e in events(run(ni, 20, arrivals=first))] == [Event.DELIVER]
    assert [e[1] for e in events(run(ni, 20, arrivals=first))] == [Event.DUPLICATE]
    assert [e[1] for e in events(run(ni, 20, arrivals=again))] == [Event.DELIVER]
    assert [e[1] for e in events(run(ni, 20, arrivals=forget))] == [Event.FORGET_IGNORED]
    newer = message(Kind.FORGET, generation=6, peer_incarnation=1)
    other = message(Kind.FORGET, generation=6, peer_incarnation=2)
    assert [e[1] for e in events(run(ni, 20, arrivals=other))] == [Event.FORGET_IGNORED]
    rows = run(ni, 20, arrivals=newer)
    assert [e[1] for e in events(rows)] == [Event.FORGOTTEN]
    assert rows[-1][NI_FLAGS] >> 3 & 1  # idle


@pytest.mark.parametrize(
    ("fields", "event"),
    [
        ({}, Event.RELEASE),
        ({"source": 5}, Event.ACK_IGNORED),
        ({"generation": 1}, Event.ACK_IGNORED),
        ({"incarnation": 2}, Event.ACK_IGNORED),
        ({"slot": 1}, Event.ACK_IGNORED),
    ],
)
def test_only_the_right_ack_releases(fields, event):
    """T2: stale or foreign Acks change nothing, and are answered with a Forget all the same."""
    ni = Ni(SYSTEM, 3)
    send(ni, 64, bytes(16), 6)
    ack = {"slot": 0, "generation": 0, "incarnation": 1, "peer_incarnation": 1, "source": 6} | fields
    rows = run(ni, 20, arrivals=message(Kind.ACK, **ack))
    assert event in [e[1] for e in events(rows)]
    forgets = [w for w in sent(rows) if w[0] & 7 == Kind.FORGET]
    assert len(forgets) == 1
    assert bool(events(rows, 3)) == (event == Event.RELEASE)


def test_fragments_and_strays():
    ni = ready(3)
    flits = message(Kind.SEND, length=24)
    broken = [*flits[:3], Flit(), flits[3], flits[4], *flits]
    rows = run(ni, 40, arrivals=broken)
    assert events(rows, 5) == [(3 + ACTS, Event.FRAGMENT, 0)]
    assert [e[1] for e in events(rows)] == [Event.DELIVER]
    long = [Flit(1, int(i == 0), 0, i) for i in range(FORM.max_flits + 4)]
    rows = run(ni, 40, arrivals=long)
    assert events(rows, 5) == [(FORM.max_flits + ACTS, Event.FRAGMENT, 0)]


def test_cancel():
    """Before its grant a datagram ends NEVER_SENT, after it UNKNOWN; nothing happens for what is not live."""
    ni = ready(3)
    cancel, disable = 1 << 2, 1 << 4
    rows = [ni.step(None, offer(6, 0, extra=disable)), ni.step(None, [cancel | disable, 0, 0, 0, 0, 0])]
    rows += [*run(ni, CHOSEN + 1, [disable, 0, 0, 0, 0, 0]), *run(ni, 30)]
    assert [(e[1], e[2] >> 4) for e in events(rows, 3)] == [(Event.COMPLETE, Status.NEVER_SENT)]
    assert [e[1] for e in events(rows, 0)] == [Event.KILLED]
    rows = [ni.step(None, offer(6, 0)), *run(ni, 10), ni.step(None, [cancel, 0, 0, 0, 0, 1]), *run(ni, 30)]
    assert [e[2] >> 4 for e in events(rows, 3)] == [Status.UNKNOWN]
    assert not events([ni.step(None, [cancel, 0, 0, 0, 0, 0]), *run(ni, 9)], 3)


@pytest.mark.parametrize("later", range(-1, 7))
def test_an_acceptance_is_known_after_some_cycles(later):
    """A cancel that acts too early finds nothing; one that acts in the cycle of the judgement finds a launched one."""
    ni = ready(3)
    cancels = {READY + 3 + later: [1 << 2, 0, 0, 0, 0, 0]}
    rows = [ni.step(None, offer(6, 0) if i == 3 else cancels.get(READY + i)) for i in range(60)]
    assert [event[0] for event in events(rows, 2)] == [3]
    acts = later + CHOSEN
    assert [e[2] >> 4 for e in events(rows, 3)] == ([Status.UNKNOWN] if acts >= ACCEPT_ACTS else [])
    # It is judged before anything can have ended it.
    assert next(e[:2] for e in events(rows, 0)) == (3 + QUEUED + SHOWN, Event.SEND)


@pytest.mark.parametrize(("before", "fate"), [(2, Event.KILLED), (1, Event.KILLED), (0, Event.SEND)])
def test_a_repeat_is_judged_in_its_own_cycle(before, fate):
    """An Ack that acts between the grant of a repeat and its judgement kills it; one that acts in it does not."""
    ni = ready(3)
    rows = [ni.step(None, offer(6, 0)), *run(ni, 200)]
    repeat = [e[0] for e in events(rows, 0) if e[1] == Event.SEND][1]
    ni = ready(3)
    (ack,) = message(Kind.ACK, generation=0, peer_incarnation=1)
    acts = repeat - SHOWN + JUDGED - before
    rows = [ni.step(ack if i == acts - ACTS else None, offer(6, 0) if i == 0 else None) for i in range(201)]
    assert (acts, Event.RELEASE, 0) in events(rows)
    assert [e[0] for e in events(rows, 0) if e[1] == fate][-1] == repeat
    assert [row[0] >> 16 for row in rows if row[0] & 0xFF == Event.KILLED] == [0] * (fate == Event.KILLED)  # no peer


def test_reset_is_silent_and_counts_what_is_lost():
    ni = ready(3)
    stalled = [1 << 5, 0, 0, 0, 0, 0]
    run(ni, 30, stalled, arrivals=message(Kind.SEND, length=8))
    rows = run(ni, 4, stalled, reset=True, incarnation=2)
    assert rows[0][2] == Event.RESET | 1 << 32 and not any(rows[0][4:]) and not any(any(row) for row in rows[1:])
    rows = run(ni, READY, incarnation=2)
    assert not any(row[NI_FLAGS] >> 6 & 1 for row in rows)  # nothing to deliver any more


def test_router_holds_an_output_until_the_cycle_after_last():
    system = make("crossbar")
    router = Router(system, 0)
    assert step(router, p0=head(system, 4)) == ([], {0: Event.FORWARD})
    assert step(router, p0=BODY, p1=head(system, 4, 1)) == ([4], {1: Event.DISCARD_BUSY})
    assert step(router, p0=TAIL, p1=head(system, 4)) == ([4], {1: Event.DISCARD_BUSY})
    assert step(router, p1=BODY, p2=head(system, 4, 1)) == ([4], {2: Event.FORWARD})
    assert step(router, p1=TAIL, p3=head(system, 3)) == ([4], {3: Event.DISCARD_ROUTE})
    assert step(router, p3=head(system, 7)) == ([], {3: Event.DISCARD_ROUTE})


def test_router_gets_over_fragments():
    system = make("crossbar")
    router = Router(system, 0)
    step(router, p0=head(system, 4))
    assert step(router) == ([4], {0: Event.FRAGMENT})
    assert step(router, p0=BODY, p1=head(system, 4, 1)) == ([], {0: Event.STRAY, 1: Event.FORWARD})
    step(router, p0=head(system, 4))
    assert step(router, p0=head(system, 4)) == ([4], {0: Event.DISCARD_BUSY})
    assert step(router, p0=TAIL, p1=head(system, 4, 1)) == ([], {1: Event.FORWARD})
    step(router, p0=head(system, 4))
    for _ in range(system.format.max_flits - 2):
        assert step(router, p0=BODY) == ([4], {})
    assert step(router, p0=BODY) == ([4], {0: Event.OVERLONG})
    assert step(router, p0=BODY, p1=head(system, 4, 1)) == ([4], {1: Event.FORWARD})
    assert step(router, p0=TAIL) == ([4], {})


def test_contention_has_one_winner_and_leaves_no_fragment():
    system = make("crossbar")
    router = Router(system, 0)
    wins = [0] * 4
    for _ in range(400):
        _, fates = step(router, **{f"p{port}": head(system, 4, 1) for port in range(4)})
        assert sorted(fates.values()) == [Event.FORWARD] + 3 * [Event.DISCARD_CONTENTION]
        wins[next(port for port, fate in fates.items() if fate == Event.FORWARD)] += 1
    assert min(wins) > 60


def test_a_lone_head_that_came_before_changes_no_draw():
    """What is drawn is a matter of the cycle, near or far."""
    system = make("crossbar")
    crowd = {f"p{port}": head(system, 4, 1) for port in range(4)}
    for cycles in (3, 40, 1000):
        quiet, busy = Router(system, 0), Router(system, 0)
        for _ in range(cycles):
            step(quiet)
            step(busy, p0=head(system, 4, 1))
        for _ in range(8):
            assert step(quiet, **crowd)[1] == step(busy, **crowd)[1]


def test_no_head_is_discarded_while_an_up_port_is_free():
    system = make("tree4")
    router = Router(system, 0)
    far = {f"p{port}": head(system, 15) for port in range(4)}
    assert list(step(router, **far)[1].values()) == 4 * [Event.FORWARD]
    router = Router(system, 0)
    step(router, p0=head(system, 15), p1=head(system, 14))
    _, fates = step(router, p0=BODY, p1=BODY, p2=head(system, 13), p3=head(system, 12))
    assert fates == {2: Event.FORWARD, 3: Event.FORWARD}
    assert step(router, p4=head(system, 15, 1))[1][4] == Event.DISCARD_ROUTE  # never up again


def test_latency_of_a_hop():
    for latency in range(1, STAGES + 1):
        system = make("crossbar", router={"latency": latency})
        router = Router(system, 0)
        step(router, p0=head(system, 1, 1))
        assert [step(router)[0] for _ in range(7)] == [[1] if n + 1 == latency else [] for n in range(7)]


def test_link_faults():
    link = LinkFault(make("wire", faults={"loss": 0.5}), 0)
    whole = [Flit(1, 1, 0, 1), BODY, TAIL]
    fates = set()
    for _ in range(64):
        results = [link.step(flit) for flit in whole]
        fates.add(tuple(flit.valid for flit, _ in results))
        assert results[0][1] == (0 if results[0][0].valid else Event.LOST)
    assert fates == {(0, 0, 0), (1, 1, 1)}
    assert link.step(whole[0], dead=True) == (Flit(), Event.DEAD)
    assert link.step(Flit()) == (Flit(), 0)

    link = LinkFault(make("wire", faults={"flip": 0.5}), 0)
    for _ in range(64):
        flit, event = link.step(BODY)
        changed = (flit.data ^ BODY.data) | (flit.first ^ BODY.first) << 64 | (flit.last ^ BODY.last) << 65
        assert event in (0, Event.FLIP)
        assert changed.bit_count() == (1 if event else 0)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 3)), max_size=150))
def test_ladder_order(wishes):
    """No token leaves before it is due, nor before one that was pushed to its rung earlier; none is lost."""
    system = make("tree", timers={"timer_depth": 16, "backoff_steps": 5})
    ladder, rungs = Ladder(system), [[] for _ in range(system.rungs)]
    spread = [step for rung, wants, wait in wishes for step in [(rung, wants), *[(0, False)] * wait]]
    for time, (rung, wants) in enumerate(spread + [(0, False)] * 600):
        rung %= system.rungs
        push = None
        if wants and len(rungs[rung]) < 6:
            due = max([time + system.delays[rung] % 40, *[token.due for token in rungs[rung]]])
            push = Token(rung, due, time)
            rungs[rung].append(push)
        hold, _ = ladder.step(time, push, take=True)
        if hold:
            home = next(tokens for tokens in rungs if tokens and tokens[0].a == hold[0])
            assert home.pop(0).due < time
    assert not any(rungs)


@pytest.mark.parametrize("steps", [0, 1, 4, 6])
def test_every_rung_has_its_turn(steps):
    """A token leaves in the first turn of its rung in which it is due."""
    system = make("tree", timers={"backoff_steps": steps})
    classes, later = system.graph.distance_classes, max(steps + (steps % 2 == 0), stages.LEAST_LATER)
    assert stages.rounds(classes, steps) == (classes, later)
    for rung, late in product(range(system.rungs), range(2 * later)):
        ladder, due = Ladder(system), 20 + late
        holds = [ladder.step(cycle, Token(rung, due, 7) if cycle == 3 else None)[0] for cycle in range(60)]
        left = next(cycle for cycle in range(due, 60) if stages.turn_of(classes, steps, cycle) == rung)
        assert holds == [None] * (left + 1) + [(7, 0)] * (59 - left)


def test_a_rung_waits_for_room_on_its_successor():
    """By the known level: what is pushed in the cycle before, or in the turn itself, does not count yet."""
    system = make("tree", timers={"backoff_steps": 1, "timer_depth": 16})
    room, last = system.timer_depth - stages.SPARE_NEXT_RUNG, system.rungs - 1
    turn = 42  # of rung 0
    assert stages.turn_of(system.graph.distance_classes, 1, turn) == 0
    for level, late in product((room, room + 1), (0, 1, 2)):
        pushes = {turn - late - i: Token(last, 1000, i) for i in range(level)} | {5: Token(0, turn - 3, 7)}
        ladder = Ladder(system)
        holds = [ladder.step(cycle, pushes.get(cycle))[0] for cycle in range(turn + 2)]
        assert holds[:-1] == [None] * (turn + 1)
        assert holds[-1] == ((7, 0) if level <= room or late < 2 else None)


@pytest.mark.parametrize(("number", "spare"), [(0, stages.SPARE_SEND), (1, stages.SPARE_DELIVER)])
def test_a_new_datagram_needs_room_on_every_rung(number, spare):
    """By the known level too: the push that fills a rung is seen two cycles later, and so is the pop."""
    system = make("tree", timers={"backoff_steps": 1, "timer_depth": 16})
    last, level = system.rungs - 1, system.timer_depth - spare + 1
    turn = 43  # of the last rung
    assert stages.turn_of(system.graph.distance_classes, 1, turn) == last
    ladder = Ladder(system, number)
    rooms = [
        ladder.step(cycle, Token(last, turn, cycle) if 3 <= cycle < 3 + level else None)[1] for cycle in range(turn + 4)
    ]
    full = 3 + level - 1 + 2
    assert rooms == [True] * full + [False] * (turn + 2 - full) + [True] * 2

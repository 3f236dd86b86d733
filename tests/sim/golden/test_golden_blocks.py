"""Single blocks, cycle by cycle: the NI's answers, the router's decisions, the ladder's order, a link's faults."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.spec.events import Drop, Event, Kind
from lethe.spec.sections.router import STAGES
from lethe_sim.golden.blocks import Flit, Ladder, LinkFault, Ni, Router, Token
from tests.helpers.golden_block_steps import BODY, FORM, READY, SYSTEM, TAIL, events, head, message, ready, step
from tests.helpers.golden_steps import offer, run, send, sent, worm
from tests.helpers.golden_systems import make


def test_latencies():
    """Accepted to first flit: 4 cycles.  Last flit in to the Ack's first flit out: 6 cycles."""
    rows = send(Ni(SYSTEM, 3), 64, bytes(16), 6)
    accepted = events(rows, 2)[0][0]
    assert next(i for i, row in enumerate(rows) if Ni.link_o(row).valid) == accepted + 4
    flits = message(Kind.SEND, length=8)
    rows = run(ready(3), 30, arrivals=flits)
    last = len(flits) - 1
    assert events(rows) == [(last + 2, Event.DELIVER, 0)]
    assert next(i for i, row in enumerate(rows) if Ni.link_o(row).valid) == last + 6


def test_control_messages_at_full_rate():
    """One-flit Acks in every cycle act in every cycle, and are answered in every cycle."""
    flits = [flit for n in range(50) for flit in message(Kind.ACK, slot=n % 16, generation=n)]
    rows = run(ready(3), 60, arrivals=flits)
    assert [cycle for cycle, event, _ in events(rows) if event == Event.ACK_IGNORED] == list(range(2, 52))
    assert [i for i, row in enumerate(rows) if Ni.link_o(row).valid] == list(range(6, 56))


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
    assert rows[-1][12] >> 3 & 1  # idle


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
    assert events(rows, 5) == [(5, Event.FRAGMENT, 0)]
    assert [e[1] for e in events(rows)] == [Event.DELIVER]
    long = [Flit(1, int(i == 0), 0, i) for i in range(FORM.max_flits + 4)]
    rows = run(ni, 40, arrivals=long)
    assert events(rows, 5) == [(FORM.max_flits + 2, Event.FRAGMENT, 0)]


def test_cancel():
    """Before its grant a datagram ends NEVER_SENT, after it UNKNOWN; nothing happens for what is not live."""
    ni = ready(3)
    cancel = [1 << 2, 0, 0, 0, 0, 0]
    rows = [ni.step(None, offer(6, 0, extra=cancel[0])), *run(ni, 30)]
    assert [(e[1], e[2] >> 4) for e in events(rows, 3)] == [(Event.COMPLETE, 3)]
    assert [e[1] for e in events(rows, 0)] == [Event.KILLED]
    rows = [ni.step(None, offer(6, 0)), *run(ni, 10), ni.step(None, [1 << 2, 0, 0, 0, 0, 1]), *run(ni, 30)]
    assert [e[2] >> 4 for e in events(rows, 3)] == [1]
    assert not events([ni.step(None, cancel), *run(ni, 9)], 3)


def test_reset_is_silent_and_counts_what_is_lost():
    ni = ready(3)
    stalled = [1 << 5, 0, 0, 0, 0, 0]
    run(ni, 30, stalled, arrivals=message(Kind.SEND, length=8))
    rows = run(ni, 4, stalled, reset=True, incarnation=2)
    assert rows[0][2] == Event.RESET | 1 << 32 and not any(rows[0][4:]) and not any(any(row) for row in rows[1:])
    rows = run(ni, READY, incarnation=2)
    assert not any(row[12] >> 6 & 1 for row in rows)  # nothing to deliver any more


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
    system = make("tree", timers={"timer_depth": 8, "backoff_steps": 5})
    ladder, rungs, time = Ladder(system), [[] for _ in range(system.rungs)], 0
    for number, (rung, wants, wait) in enumerate(wishes + [(0, False, 9)] * 60):
        rung %= system.rungs
        push = None
        if wants and len(rungs[rung]) < 6:
            due = max([time + system.delays[rung] % 40, *[token.due for token in rungs[rung]]])
            push = Token(rung, due, number)
            rungs[rung].append(push)
        hold, _ = ladder.step(time, push, take=True)
        if hold:
            home = next(tokens for tokens in rungs if tokens and tokens[0].a == hold[0])
            assert home.pop(0).due < time
        time += 1 + wait
    assert not any(rungs)

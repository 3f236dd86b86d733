"""Rates and latencies: what may never have a bubble, and the contract's latencies."""

import pytest

from lethe.spec import stages
from lethe.spec.config import System
from lethe.spec.events import Event, Kind
from tests.helpers.ni_bench import Bench
from tests.helpers.tiers import but

#: From what pushes a message into an empty queue to its event.
SAID = stages.QUEUED + stages.SHOWN
NOTHING = {"valid": 0, "first": 0, "last": 0, "data": 0}


def worm(form, fields, payload=b""):
    words = form.flits(fields, payload)
    last = len(words) - 1
    return [{"valid": 1, "first": int(i == 0), "last": int(i == last), "data": w} for i, w in enumerate(words)]


def fed(system, flits, start=60):
    """A bench of one NI whose link brings these flits, from cycle ``start`` on."""

    def link(cycle, _):
        at = cycle - start
        return [flits[at] if 0 <= at < len(flits) else NOTHING]

    return Bench(system, link=link, nodes=1)


def small(**sections):
    sections.setdefault("ni", {"slots": 4, "sets": 4, "ways": 2, "reply_depth": 4})
    return System.make(topology={"kind": "wire"}, **sections)


def test_latencies():
    system = small()
    bench = Bench(system)
    for tag in range(3):
        bench.hosts[0].offers.append(({"destination": 1, "tag": tag}, bytes(range(20))))
    arrived = []

    def hook(bench, ctx):
        if ctx.get(bench.nis[1].link_i.valid) and ctx.get(bench.nis[1].link_i.last):
            arrived.append(bench.cycle - 1)

    bench.hooks.append(hook)
    assert bench.run(400, until=lambda b: len(b.hosts[0].completions) == 3)
    accept = bench.kinds(0, Event.ACCEPT)[0].cycle
    assert bench.kinds(0, Event.SEND)[0].cycle == accept + SAID
    deliver = bench.kinds(1, Event.DELIVER)[0].cycle
    assert deliver == arrived[0] + stages.ACTS
    assert bench.kinds(1, Event.ACK)[0].cycle == deliver + SAID
    assert [c["status"] for c in bench.hosts[0].completions] == [0, 0, 0]


@pytest.mark.parametrize("flit_bits", but([64], [64, 128]))
def test_datagrams_leave_without_gaps(flit_bits):
    mtu = 8 * flit_bits // 8
    system = small(wire={"flit_bits": flit_bits, "mtu": mtu}, ni={"slots": 64, "sets": 16, "ways": 4})
    bench = Bench(system, link=lambda cycle, flits: [NOTHING], nodes=1)
    for tag in range(60):
        bench.hosts[0].offers.append(({"destination": 1, "tag": tag}, bytes(mtu)))
    shown = []

    def hook(bench, ctx):
        shown.append(ctx.get(bench.nis[0].link_o.valid))

    bench.hooks.append(hook)
    bench.run(450)
    first = shown.index(1)
    # The repeats begin before the last first Send, and nobody acknowledges: the link is simply busy.
    assert sum(shown[first : first + 300]) >= 0.99 * 300


@pytest.mark.parametrize("kind, event", [(Kind.ACK, Event.ACK_IGNORED), (Kind.FORGET, Event.FORGET_IGNORED)])
def test_a_message_a_cycle_on_one_entry(kind, event):
    system = small()
    one = {"kind": kind, "destination": 0, "source": 1, "slot": 2, "generation": 5, "incarnation": 1}
    start = 60
    bench = fed(system, worm(system.format, {**one, "peer_incarnation": 1}) * 200, start)
    bench.run(300)
    seen = [e for e in bench.kinds(0) if e.lane == 1]
    acts = start + stages.ACTS
    assert [e.cycle for e in seen] == list(range(acts, acts + 200))
    assert {e.event for e in seen} == {event}
    forgets = [e.cycle for e in bench.kinds(0, Event.FORGET)]
    if kind == Kind.ACK:
        assert forgets == list(range(acts + SAID, acts + SAID + 200))


#: In so many cycles one operation follows the other.
DISTANCES = range(1, stages.ACTS + 2)
#: Between one distance and the next.
PAUSE = [NOTHING] * 60


def test_successive_operations_on_one_entry():
    """Send, Forget, Forget, then the same Send again: each sees what the one before did, at every distance."""
    system = small()
    form = system.format
    uid = {"destination": 0, "source": 1, "slot": 3, "generation": 9, "incarnation": 2}
    send = worm(form, {**uid, "kind": Kind.SEND, "length": 5}, b"hello")
    forget = worm(form, {**uid, "kind": Kind.FORGET, "peer_incarnation": 1})
    worms = []
    for distance in DISTANCES:
        gap = [NOTHING] * (distance - 1)
        worms += send + gap + forget + gap + forget + send + send + gap + forget + PAUSE
    bench = fed(system, worms)
    bench.run(len(worms) + 100)
    events = [e.event for e in bench.kinds(0) if e.lane == 1]
    assert events == len(DISTANCES) * [
        Event.DELIVER, Event.FORGOTTEN, Event.FORGET_IGNORED, Event.DELIVER, Event.DUPLICATE, Event.FORGOTTEN,
    ]  # fmt: skip
    assert bench.hosts[0].delivered == [(1, 0, b"hello")] * 2 * len(DISTANCES)


def test_successive_operations_on_one_slot():
    """Two Acks of one datagram: the second finds it ended, and is answered all the same (IMP-22), at every distance."""
    system = small(ni={"slots": len(DISTANCES), "sets": 4, "ways": 2, "reply_depth": 4})
    worms, start = [], 100
    for slot, distance in enumerate(DISTANCES):
        ack = worm(
            system.format,
            {
                "kind": Kind.ACK, "destination": 0, "source": 1, "slot": slot, "generation": 0, "incarnation": 1,
                "peer_incarnation": 1,
            },
        )  # fmt: skip
        worms += ack + [NOTHING] * (distance - 1) + ack + PAUSE
    bench = fed(system, worms, start=start)
    for slot in range(len(DISTANCES)):
        bench.hosts[0].offers.append(({"destination": 1, "tag": slot}, b"payload"))
    bench.run(start + len(worms) + 100)
    events = [e.event for e in bench.kinds(0) if e.lane == 1 and e.event != Event.REPEAT]
    assert events == [Event.RELEASE, Event.ACK_IGNORED] * len(DISTANCES)
    assert len(bench.kinds(0, Event.FORGET)) == 2 * len(DISTANCES)
    assert [(c["tag"], c["status"]) for c in bench.hosts[0].completions] == [
        (slot, 0) for slot in range(len(DISTANCES))
    ]

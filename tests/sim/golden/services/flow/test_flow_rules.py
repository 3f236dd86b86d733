"""Flow, rule by rule (docs/reference/flow.md): the cycles are worked out from its text."""

from itertools import pairwise

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.events import Cause, Event, FlowCounter, Status
from lethe.spec.sections.flow import OF_NI
from lethe.spec.services.flow import Code, In, Out
from lethe_sim.golden.model import Golden
from lethe_sim.golden.services.flow import completion
from lethe_sim.golden.services.flow.hear import FULL
from lethe_sim.golden.services.flow.state import WORD_IN, InStream, OutStream, Peer, Port
from tests.helpers.flow_bench import (
    CANCEL,
    CANCEL_READY,
    COMPLETION,
    DATA_READY,
    DELIVER,
    DELIVER_DATA,
    DELIVER_LAST,
    DELIVER_STALL,
    IDLE,
    NOTICE,
    QUIESCE,
    SEND_READY,
    SET_READY,
    FlowBench,
    Shown,
)

REJECTED = Status.REJECTED << 4
NOWAIT = 0x80


def send_own(bench, length, **fields):
    """A record to the own node in this cycle, its beats in those behind it; returns the flags."""
    seen = [bench.step({0: bench.record(0, length, **fields)})]
    for number in range(bench.system.format.payload_flits(length)):
        seen.append(bench.step({0: bench.beat(0x1111_1111_1111_1111 * (number + 1))}))
    return seen


def test_an_own_message():
    """Taken in 0, at the output in 2, attempted in 4; in the journal's output in 6, placed in 7, fetched in 8, shown in
    13 and valid in 14; its beats are read from 14 on, pushed from 16 on, and at the output from 18 on.
    """
    bench = FlowBench()
    seen = send_own(bench, 12, tag=7, dport=1, sport=0) + bench.steps(30)
    assert bench.events() == [
        Shown(4, Event.FLOW_SEND, 0, 0, 12, 7), Shown(6, Event.FLOW_END, 0, 0, 0, 7),
        Shown(7, Event.FLOW_PLACE, 0, 0, 0, 1), Shown(14, Event.FLOW_TAKE, 0, 0, 12, 1),
    ]  # fmt: skip
    assert [cycle for cycle, flags in enumerate(seen) if flags & DELIVER] == [14]
    assert [cycle for cycle, flags in enumerate(seen) if flags & DELIVER_DATA] == [18, 19]
    assert [cycle for cycle, flags in enumerate(seen) if flags & DELIVER_LAST] == [19]
    assert [cycle for cycle, flags in enumerate(seen) if flags & COMPLETION] == [6]
    # Its beats are all read in 15, so its cell is freed in 16; the beats are taken until 19.
    assert [cycle for cycle, flags in enumerate(seen) if not flags & IDLE] == list(range(1, 20))


@pytest.mark.parametrize(("beat", "attempt"), [(1, 4), (2, 4), (3, 5), (5, 7)])
def test_an_own_message_whose_last_beat_comes_late(beat, attempt):
    """The beat is taken in this cycle; the attempt is made two cycles later, but not before cycle 4."""
    bench = FlowBench()
    bench.step({0: bench.record(0, 8, dport=1)})
    bench.steps(beat - 1)
    bench.step({0: bench.beat(5)})
    bench.steps(8)
    assert [event.cycle for event in bench.events() if event.event == Event.FLOW_SEND] == [attempt]


def test_what_the_port_shows_of_an_own_message():
    bench = FlowBench(wire={"generation_bits": 4})
    for generation in range(18):
        send_own(bench, 3, tag=generation, sport=1, dport=1, flags=0xFF, cls=2)
        bench.steps(1)
        for _ in range(20):
            bench.step()
            shown = bench.shown()
            if shown.accepted_valid:
                assert (shown.accepted_slot, shown.accepted_generation) == (16, generation % 16)
            if bench.flags(0) & COMPLETION:
                found = (shown.slot, shown.generation, shown.destination, shown.tag, shown.status, shown.cause)
                assert found == (16, generation % 16, 0, generation, Status.ACCEPTED, Cause.NONE)
            if bench.flags(0) & DELIVER:
                it = bench.delivery()
                assert (it.source, it.cls, it.length, it.sport, it.dport, it.flags, it.seq) == (0, 2, 3, 1, 1, 0x77, 0)
                assert it.gap == (generation == 0)
            if bench.flags(0) & DELIVER_DATA:
                assert int(bench._words[0, bench.system.layout.service_place(0, 0) + 17]) == 0x11_1111


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"mode": 1, "cls": 7}, Cause.MODE),
        ({"cls": 7, "destination": 2}, Cause.CLASS),
        ({"destination": 2, "length": 33}, Cause.DESTINATION),
        ({"length": 33, "sport": 2}, Cause.LENGTH),
        ({"sport": 2}, Cause.NOT_BOUND),
        ({"sport": 1, "flags": NOWAIT}, Cause.NOT_CONNECTED),
    ],
)
def test_refusals(fields, cause):
    """Refused in 4; the completion is at the output in 6, and one beat is dropped in each cycle from 5 on."""
    bench, fields = FlowBench(), dict(fields)
    destination, length = fields.pop("destination", 1), fields.pop("length", 24)
    beats = bench.system.format.payload_flits(length)
    bench.step({0: bench.record(destination, length, tag=9, **fields)})
    seen = [bench.step({0: bench.beat(5)}) for _ in range(beats)] + bench.steps(10)
    assert sum(1 for flags in seen if flags & DATA_READY) >= beats
    expected = [Shown(4, Event.FLOW_REFUSED, cause, destination, length, 9)]
    if cause == Cause.NOT_CONNECTED:
        expected.insert(0, Shown(4, Event.FLOW_PEER, 1, 1, 0, 0))
    expected.append(Shown(6, Event.FLOW_END, REJECTED | cause, destination, 0, 9))
    assert bench.events() == expected
    assert bench.flow().transfer == 0 and bench.flow().due == 0


def test_what_waits_is_attempted_every_four_cycles_until_its_deadline():
    """At the output in 2; with a deadline of 9 it is refused at the first attempt from 11 on: in 12."""
    bench = FlowBench()
    bench.step({0: bench.record(1, 0, deadline=9, tag=3)})
    bench.steps(20)
    assert bench.events() == [
        Shown(4, Event.FLOW_PEER, 1, 1, 0, 0), Shown(12, Event.FLOW_REFUSED, Cause.DEADLINE, 1, 0, 3),
        Shown(14, Event.FLOW_END, REJECTED | Cause.DEADLINE, 1, 0, 3),
    ]  # fmt: skip


def test_a_peer_comes_up_and_a_message_goes():
    """PING and PONG, then the message: its number is 0, and the peer commits, places and gives it."""
    bench = FlowBench()
    bench.send(0, 1, 12, tag=5, dport=1, flags=0x11)
    sends, arrives = [], []
    for _ in range(500):
        bench.step()
        events = bench.golden.take_events().tolist()
        for node, found in ((0, sends), (1, arrives)):
            unit = bench.system.layout.service_unit(node, 0)
            found += [(Event(w & 255), w >> 8 & 255) for _, u, _, w, _ in events if u == unit]
        if bench.flags(1) & DELIVER:
            it = bench.delivery(1)
            assert (it.source, it.length, it.sport, it.dport, it.flags, it.seq, it.gap) == (0, 12, 0, 1, 0x11, 0, 1)
    assert next(code for event, code in sends if event == Event.FLOW_TOLD) == 1
    assert (Event.FLOW_HEARD, 2) in sends
    assert [e for e in sends if e[0] in (Event.FLOW_SEND, Event.FLOW_CARRY, Event.FLOW_END)] == [
        (Event.FLOW_SEND, 0), (Event.FLOW_CARRY, 0), (Event.FLOW_END, 0),
    ]  # fmt: skip
    assert [e for e in arrives if e[0] in (Event.FLOW_COMMIT, Event.FLOW_PLACE, Event.FLOW_TAKE)] == [
        (Event.FLOW_COMMIT, 0), (Event.FLOW_PLACE, 0), (Event.FLOW_TAKE, 0),
    ]  # fmt: skip
    shown = bench.golden.service_counters["flow"]
    assert shown[0].tolist()[:4] == [1, 0, 1, 0]


def test_a_peer_that_may_hold_messages_is_sought_again():
    """A peer is away while a message is under way to it, so it leaves.  With no record that waits for it, seven probes
    seek it, in vain; then none does.
    """
    bench = FlowBench(
        faults={"absences": [{"node": 1, "start": 900, "end": 90_000}]}, flow={"watch": 300, "tries": 2}
    )  # fmt: skip
    bench.send(0, 1, 4, tag=1)
    bench.steps(500)
    assert Peer(bench.flow(), int(bench.flow().at_peers), 1).out == Out.UP and bench.golden.cycle < 900
    bench.steps(900 - bench.golden.cycle)
    bench.send(0, 1, 4, tag=2, retry_limit=1)
    bench.events()
    states = []
    while bench.golden.cycle < 60_000:
        bench.steps(20)
        peer = Peer(bench.flow(), int(bench.flow().at_peers), 1)
        states += [Out(int(peer.out))] * (states[-1:] != [Out(int(peer.out))])
        if not peer.wanted and peer.out == Out.CONNECTING:
            break
    events = bench.events()
    assert states == [Out.UP, Out.LEAVING, Out.ERROR, Out.CONNECTING]
    left = next(event.cycle for event in events if event.event == Event.FLOW_PEER and event.detail == Out.CONNECTING)
    pings = [event for event in events if event.event == Event.FLOW_TOLD and event.cycle > left]
    assert [event.detail for event in pings] == [1] * 7


def test_a_peer_that_accepts_something_while_it_is_asked_stays():
    """A peer is away, and PINGs of the watch end in vain.  It leaves with the first during which nothing was heard."""
    bench = FlowBench(faults={"absences": [{"node": 1, "start": 900, "end": 90_000}]}, flow={"watch": 300, "tries": 2})
    bench.send(0, 1, 4, tag=1)
    bench.steps(899)
    bench.send(0, 1, 4, tag=2)
    peer, asked, before = Peer(bench.flow(), int(bench.flow().at_peers), 1), 0, 0
    while bench.golden.cycle < 30_000 and peer.out == Out.UP:
        bench.step()
        if peer.asked and not before:
            asked += 1
            peer.heard = asked < 3  # as by an Ack that comes now
        before = int(peer.asked)
    assert asked == 3 and peer.out == Out.LEAVING and not peer.asked


def test_in_a_saturated_network_hardly_a_peer_is_taken_for_gone():
    """Long messages and PINGs meet congestion, and are repeated often; but every peer accepts something of a node.

    With 7 of the seeds 1 to 62 one peer is taken for gone.
    """
    system = System.make(
        topology={"kind": "tree", "levels": 2, "arity": 4}, flow={"ports": 16}, ni=OF_NI | {"slots": 16},
        wire={"mtu": 264, "generation_bits": 16},
        workload={"load": 1.0, "min_length": 256, "max_length": 256, "count": 0},
    )  # fmt: skip
    golden = Golden(system)
    golden.run(100_000)
    changes = golden.service_counters["flow"][:, FlowCounter.PEER_CHANGES]
    each = 2 * (system.nodes - 1)  # CONNECTING, then UP; one that is taken for gone is LEAVING, ERROR, and these again
    assert sorted(changes.tolist())[:-1] == [each] * (system.nodes - 1) and changes.max() <= each + 4


def test_the_receiver_is_asked_for_a_limit_once():
    """The first message of a stream, whose limit is 2, asks; the next does not until a limit has come."""
    bench, asked = FlowBench(), []
    bench.send(0, 1, 4, tag=1, deadline=3000)
    for tag in (2, 3):
        while bench.flow().sending[0].tag != tag - 1:
            bench.step()
        asked.append(bool(bench.flow().sending[0].flags & 8))
        if tag == 2:
            bench.send(0, 1, 4, tag=2, deadline=3000)
    assert asked == [True, False]


def test_a_port_that_is_not_read_keeps_its_messages_while_others_go_on():
    bench = FlowBench(flow={"cells": 8})
    bench.mask[0] = 0b10
    for number in range(3):
        send_own(bench, 4, tag=number, sport=0, dport=0)
        bench.steps(6)
    send_own(bench, 4, tag=3, sport=1, dport=1)
    bench.steps(40)
    takes = [event for event in bench.events() if event.event == Event.FLOW_TAKE]
    assert [event.extra for event in takes] == [1]
    assert bench.shown().readable == 0b01
    bench.mask[0] = 0b01
    bench.steps(60)
    assert [event.extra for event in bench.events() if event.event == Event.FLOW_TAKE] == [0, 0, 0]


def turn_after(bench, cycle, index):
    """The cycle, as the bench counts, behind the first after this one in which a port is looked at."""
    turn = bench.begin + cycle + 1
    while turn % bench.system.flow.ports != index:
        turn += 1
    return turn - bench.begin + 1


def changes_of(events):
    """What has become congested, or no more."""
    return [event for event in events if event.event == Event.FLOW_CONGESTED]


@pytest.mark.parametrize("index", [0, 1])
def test_a_port_with_own_messages_in_half_of_its_cells_is_congested(index):
    """Two of 4, from its turn after the second is placed; the third is refused.  It is congested no more from its turn
    after the last is freed, in the cycle after it is taken.
    """
    bench = FlowBench(flow={"cells": 4, "in_order": 1})
    bench.mask[0] = 0
    bench.steps(index)
    for tag in range(2):
        assert not changes_of(bench.events())
        bench.step({0: bench.record(0, 0, tag=tag, dport=index)})
        bench.steps(11)
    events = bench.events()
    placed = next(event.cycle for event in events if event.event == Event.FLOW_PLACE)
    assert changes_of(events) == [Shown(turn_after(bench, placed, index), Event.FLOW_CONGESTED, 1, 0, 0, index)]
    bench.send(0, 0, 0, tag=3, dport=index, flags=3 | NOWAIT)
    bench.steps(8)
    assert [(event.event, event.detail) for event in bench.events()][:1] == [(Event.FLOW_REFUSED, Cause.CONGESTED)]
    bench.mask[0] = 1 << index
    bench.steps(40)
    events = bench.events()
    takes = [event.cycle for event in events if event.event == Event.FLOW_TAKE]
    assert len(takes) == 2
    assert changes_of(events) == [Shown(turn_after(bench, takes[1] + 1, index), Event.FLOW_CONGESTED, 0, 0, 0, index)]


@pytest.mark.parametrize(("cells", "in_order", "most", "read"), [(4, 1, 2, 2), (6, 1, 3, 2), (12, 3, 6, 4)])
def test_a_port_with_messages_of_a_peer_in_half_of_its_cells_is_congested(cells, in_order, most, read):
    """In its turn after the last of ``most`` is placed, until that after ``read`` of them are freed."""
    bench = FlowBench(flow={"cells": cells, "in_order": in_order}, wire={"mtu": 64})
    bench.mask[0] = 0
    for tag in range(most):
        bench.send(1, 0, 0, tag=tag, dport=1)
    bench.steps(1000)
    events = bench.events()
    places = [event.cycle for event in events if event.event == Event.FLOW_PLACE]
    assert len(places) == most
    assert changes_of(events) == [Shown(turn_after(bench, places[-1], 1), Event.FLOW_CONGESTED, 1, 0, 0, 1)]
    peer = Peer(bench.flow(1), int(bench.flow(1).at_peers), 0)
    assert peer.map == 0b10 and bench.shown().congested == 0b10
    bench.mask[0] = 0b10
    bench.steps(200)
    events = bench.events()
    takes = [event.cycle for event in events if event.event == Event.FLOW_TAKE]
    assert len(takes) == most
    last = takes[read - 1] + 1
    assert changes_of(events) == [Shown(turn_after(bench, last, 1), Event.FLOW_CONGESTED, 0, 0, 0, 1)]
    assert peer.map == 0


def test_a_port_that_is_congested_by_what_is_held_early_tells_so_with_every_watch():
    """Its source may have been reset since: a MAP to it ends RESTARTED, and frees what is held.  That other ports are
    busy does not keep the node from telling it.
    """
    watch = 512
    bench = FlowBench(flow={"cells": 8, "in_order": 4, "watch": watch}, wire={"mtu": 64})
    bench.send(1, 0, 0, dport=1)
    bench.steps(400)
    out = bench.flow(1)
    stream = OutStream(out, int(out.at_outs), 1)
    # A number that nobody sends stands for a lost one.
    stream.next = stream.next + 1 & 0xFF
    for tag in range(4):
        bench.send(1, 0, 0, tag=tag, dport=1)
    bench.steps(600)
    port = Port(bench.flow(0), int(bench.flow(0).at_ports), 1)
    events = bench.events()
    assert (port.used, port.placed) == (4, 0)
    commits = [event.cycle for event in events if event.event == Event.FLOW_COMMIT]
    assert changes_of(events) == [Shown(turn_after(bench, commits[-1], 1), Event.FLOW_CONGESTED, 1, 0, 0, 1)]
    for tag in range(3 * watch // 64):
        send_own(bench, 4, tag=tag, sport=0, dport=0)
        bench.steps(64 - 6)
    events = bench.events()
    told = [event.cycle for event in events if event.event == Event.FLOW_TOLD and event.detail == Code.MAP]
    assert len(told) == 3 and all(abs(second - first - watch) < 8 for first, second in pairwise(told))
    assert not changes_of(events)


def test_setting_ports():
    """A job begins in the cycle in which it is asked for, and acts five cycles later."""
    bench = FlowBench()
    words = bench.set(0, 1)
    assert [bool(flags & SET_READY) for flags in bench.steps(6, {0: words})] == [False] * 5 + [True]

    def error(code, index, value=0):
        for _ in range(40):
            if bench.step({0: bench.set(code, index, value)}) & SET_READY:
                return bench.shown().answer_error
        raise AssertionError("set is not taken")

    assert error(1, 0, 0) == 1  # bound already
    assert error(1, 1, 4) == 3  # of another index
    assert error(1, 1, 5) == 0 and error(1, 1, 7) == 1
    assert error(2, 3) == 3 and error(3, 2) == 3
    assert error(2, 1, 4) == 0 and error(3, 1, 2) == 0
    port = Port(bench.flow(), int(bench.flow().at_ports), 1)
    assert (port.number, port.receive_limit, port.send_limit) == (5, 64, 32)


@pytest.mark.parametrize("later", [(2, 0, 9), (1, 0, 6), (0, 0), None])
def test_a_job_sets_what_was_offered_as_it_began(later):
    """Even if the host changes or withdraws the offer meanwhile."""
    bench = FlowBench()
    bench.step({0: bench.set(2, 1, 4)})
    flags = bench.steps(5, {0: bench.set(*later)} if later else None)
    assert [bool(shown & SET_READY) for shown in flags] == [False] * 4 + [True]
    assert bench.shown().answer_error == 0
    flow = bench.flow()
    other, port = (Port(flow, int(flow.at_ports), index) for index in range(2))
    assert port.receive_limit == 64 and port.bound and other.bound and other.receive_limit != 144


def test_messages_of_a_port_that_is_bound_no_more_are_flushed():
    bench = FlowBench()
    for number in range(2):
        send_own(bench, 4, tag=number)
        bench.steps(3, flags=DELIVER_STALL)
    bench.steps(12, flags=DELIVER_STALL)
    # The first is shown, the second waits behind it in its list.
    for _ in range(40):
        if bench.step({0: bench.set(0, 0)}, flags=DELIVER_STALL) & SET_READY:
            break
    bench.steps(20, flags=DELIVER_STALL)
    bench.steps(20)
    found = [
        (event.event, event.extra) for event in bench.events() if event.event in (Event.FLOW_TAKE, Event.FLOW_FLUSHED)
    ]
    assert sorted(found) == [(Event.FLOW_TAKE, 0)] * 2 or sorted(found) == [
        (Event.FLOW_TAKE, 0), (Event.FLOW_FLUSHED, 0),
    ]  # fmt: skip
    assert bench.flow().used == 0


def test_who_is_not_ready():
    bench = FlowBench(wait=0)
    record = bench.record(0, 0)
    seen = [bool(bench.step({0: record}) & SEND_READY) for _ in range(20)]
    assert seen == [False] * 16 + [True, False, True, False]  # max(n·P, C·P, N) = 16
    assert not bench.step({0: record}, flags=QUIESCE) & SEND_READY


def test_a_slot_has_its_next_message_before_the_end_of_its_last_is_dealt_with():
    """Of one data slot and messages of one beat: what each takes of its socket and of its stream is given back."""
    bench = FlowBench(
        ni={"slots": 5, "control_slots": 4}, wire={"flit_bits": 128, "mtu": 40}, flow={"cells": 24, "quota": 5}
    )  # fmt: skip
    for number in range(12):
        bench.send(0, 1, 0, tag=number, sport=number // 2 % 2, dport=number % 2)
    bench.steps(400)
    flow = bench.flow()
    for index in range(2):
        stream = OutStream(flow, int(flow.at_outs), 2 + index)
        assert stream.next == stream.base == 6
        port = Port(flow, int(flow.at_ports), index)
        assert (port.sent, port.sent_bytes) == (0, 0)
    assert Peer(flow, int(flow.at_peers), 1).live == 0


def test_a_source_that_is_closed_is_told_nothing():
    """Between a PING that opens and ROWS a credit may end that was told of the stream before: it is none of the new."""
    flow = FlowBench().flow()
    row = flow.ending[0]
    stream = InStream(flow, int(flow.at_ins), 2 + 1)
    for source, carried, told in ((In.OPEN, 1, 9), (In.MUTE, 1, 9), (In.CLOSED, 1, 2), (In.OPEN, 0, 2)):
        Peer(flow, int(flow.at_peers), 1).source = source
        row.destination, row.carried, row.credit, stream.told = 1, carried, 9, 2
        completion.tell(flow, row, 1)
        assert stream.told == told, (source, carried)


@pytest.mark.parametrize(
    ("before", "known", "after"),
    [
        ((Out.UP, 0), 1, (Out.LEAVING, 0)), ((Out.CONNECTING, 1), 1, (Out.CONNECTING, 0)),
        ((Out.UP, 0), 0, (Out.UP, 0)), ((Out.CONNECTING, 1), 0, (Out.CONNECTING, 1)),
    ],
)  # fmt: skip
def test_a_source_that_opens_in_another_life_is_no_peer_of_before(before, known, after):
    """A PING of another boot ends what this node had with its sender; the first PING of a node does not."""
    bench = FlowBench()
    peer = Peer(bench.flow(), int(bench.flow().at_peers), 1)
    peer.life_known, peer.life = known, 5
    peer.out, peer.pong = before
    bench.send(1, 0, 4)
    for _ in range(300):
        bench.step()
        if peer.source == In.OPEN:
            break
    assert peer.source == In.OPEN and peer.life != 5 and (peer.out, peer.pong) == after


def test_cancels():
    """Of slot 16 and beyond nothing is below."""
    bench = FlowBench()
    assert [bool(bench.step({0: [CANCEL, 0, 0, 0, 0, slot]}) & CANCEL_READY) for slot in (16, 17, 31, 65535)] == [
        True
    ] * 4
    assert bench.golden.counters[0].sum() == 0


def test_a_host_cannot_cancel_control():
    """It cancels a message, then in each cycle whatever may be in a slot of control: VOID is told all the same."""
    bench = FlowBench()
    bench.send(0, 1, 4, tag=1)
    bench.steps(2000)
    stream = OutStream(bench.flow(), int(bench.flow().at_outs), bench.system.flow.ports)
    assert (stream.base, stream.next) == (1, 1)
    bench.send(0, 1, 4, tag=2)
    accepted = bench.shown()
    while not accepted.accepted_valid:
        bench.step()
    slot, life = int(accepted.accepted_slot), int(accepted.accepted_generation)
    bench.step({0: [CANCEL, 0, 0, 0, 0, slot | life << 16]})
    first = bench.system.ni.slots - bench.system.ni.control_slots
    for _ in range(200):
        for control in range(first, bench.system.ni.slots):
            for generation in range(8):
                assert bench.step({0: [CANCEL, 0, 0, 0, 0, control | generation << 16]}) & CANCEL_READY
    assert (stream.base, stream.next, stream.void) == (2, 2, 0)


def test_a_map_with_bits_of_no_port():
    """They do not matter, to the map or to the host."""
    bench = FlowBench()
    bench.send(0, 1, 4)
    bench.steps(3000)
    flow = bench.flow()
    peer, ports = Peer(flow, int(flow.at_peers), 1), bench.system.flow.ports
    assert peer.out == Out.UP and peer.map == 0 and ports < 16
    for bits, seen in ((0xFFFF << ports, 0), (0xFFFF << ports | 1, 1)):
        flow.word_source, flow.word_incarnation, flow.word_length, flow.word_state = 1, 1, 8, FULL
        flow.word_code = Code.MAP
        k, _, words = bench.golden.memory(0)
        at = int(k.rooms[0].at_data)
        words[at + WORD_IN], words[at + WORD_IN + 1] = np.uint64(Code.MAP | bits << 5), np.uint64(0)
        told = any(flags & NOTICE for flags in bench.steps(12))
        assert (peer.map, told) == (seen, bool(seen))

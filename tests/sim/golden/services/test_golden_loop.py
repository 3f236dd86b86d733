"""The loop, rule by rule (cycle contract, 10.1): the cycles are worked out from its text."""

import random

import pytest

from lethe.spec.events import LANE_ACCEPT, LANE_COMPLETE, LANE_RX, Cause, Event, LoopCounter, Status
from lethe.spec.stages import CHOSEN
from lethe.spec.trace import LENGTH, event_hash, lane_word
from lethe.spec.wire import pack_uid
from lethe_sim.golden.model import Golden, Item, Script
from tests.helpers.golden_steps import offer
from tests.helpers.golden_systems import make
from tests.helpers.loop_bench import (
    CANCEL_READY,
    COMPLETION,
    COMPLETION_STALL,
    CONTROL_RECORD,
    DATA_READY,
    DELIVER,
    DELIVER_DATA,
    DELIVER_LAST,
    DELIVER_STALL,
    IDLE,
    NODE,
    QUIESCE,
    RECORD,
    SEND_READY,
    SLOTS,
    LoopBench,
)

ACCEPTED, REJECTED = Status.ACCEPTED << 4, Status.REJECTED << 4
LINK_DISABLE = 16
NI_COMPLETION = 1 << 9


def uid(slot, generation=0, incarnation=1):
    return pack_uid(NODE, incarnation, slot, generation)


def events(seen, lane):
    """(cycle, event) of a lane."""
    lanes = [(cycle, shown.lanes[lane]) for cycle, shown in enumerate(seen)]
    return [(cycle, event) for cycle, event in lanes if event]


def ready(bench, words, flags=0):
    """Whether a record is taken."""
    return bench.step(words, flags=flags).flags & SEND_READY


def test_the_example_of_the_contract():
    bench = LoopBench()
    seen = bench.send(8, tag=7) + bench.steps(5)
    assert events(seen, 0) == [(2, (Event.LOOPED, 0, 8, 7, uid(16)))]
    assert events(seen, 1) == [(4, (Event.LOOP_COMPLETE, ACCEPTED, 0, 7, uid(16)))]
    assert events(seen, 2) == [(4, (Event.LOOP_TAKE, 0, 8, 0, 0))]
    assert [shown.flags & ~CANCEL_READY for shown in seen] == [
        SEND_READY | IDLE, DATA_READY, 0, SEND_READY, SEND_READY | COMPLETION | DELIVER | DELIVER_DATA | DELIVER_LAST,
        SEND_READY | IDLE, SEND_READY | IDLE,
    ]  # fmt: skip
    assert [shown.beat for shown in seen] == [0, 0, 0, 0, 0x1111_1111_1111_1111, 0, 0]
    assert bench.golden.service_counters["loop"].tolist() == [[0] * 3] * NODE + [[1, 1, 1], [0] * 3]
    assert list(LoopCounter) == [LoopCounter.LOOPED, LoopCounter.COMPLETED, LoopCounter.TAKEN]


def test_without_payload():
    """Handshake in 0, DONE in 1, offered from 3 on."""
    seen = (bench := LoopBench()).send(0) + bench.steps(4)
    assert [cycle for lane in range(3) for cycle, _ in events(seen, lane)] == [1, 3, 3]
    assert not any(shown.flags & DELIVER_DATA for shown in seen)


def test_what_the_port_shows_of_a_datagram():
    bench = LoopBench(ni={"slots": SLOTS, "source_incarnation": True})
    bench.send(5, tag=9, cls=3, flags=DELIVER_STALL)
    assert not bench.shown.accepted_valid
    bench.step(flags=DELIVER_STALL | COMPLETION_STALL)
    shown = bench.shown
    assert (shown.accepted_valid, shown.accepted_control) == (1, 0)
    assert (shown.accepted_slot, shown.accepted_generation, shown.accepted_tag) == (16, 0, 9)
    bench.steps(2, flags=DELIVER_STALL | COMPLETION_STALL)
    ended, delivery = bench.shown, bench.delivery
    assert (ended.slot, ended.generation, ended.destination, ended.tag) == (16, 0, NODE, 9)
    assert (ended.status, ended.cause, ended.peer_incarnation) == (Status.ACCEPTED, Cause.NONE, 1)
    assert (delivery.source, delivery.incarnation, delivery.cls, delivery.length) == (NODE, 1, 3, 5)
    # Bytes beyond the length are 0.
    assert bench.step().beat == 0x11_1111_1111


@pytest.mark.parametrize(
    ("fields", "beats", "cause"),
    [
        ({"length": 5, "mode": 2}, 1, Cause.MODE),
        ({"length": 0, "mode": 255}, 0, Cause.MODE),
        ({"length": 33}, 5, Cause.LENGTH),
        ({"length": 8, "expect": 2}, 1, Cause.RESTARTED),
        ({"length": 40, "mode": 2, "expect": 2}, 5, Cause.MODE),
        ({"length": 40, "expect": 2}, 5, Cause.LENGTH),
    ],
)
def test_refusals(fields, beats, cause):
    bench = LoopBench(flits=4)
    seen = bench.send(tag=5, **fields) + bench.steps(4)
    assert all(shown.flags & DATA_READY for shown in seen[1 : 1 + beats])
    end = 1 + beats + 2
    assert events(seen, 1) == [(end, (Event.LOOP_COMPLETE, REJECTED | cause, 0, 5, uid(16)))]
    assert not events(seen, 0) and not events(seen, 2)
    assert not any(shown.flags & (DELIVER | DELIVER_DATA) for shown in seen)
    assert seen[end + 1].flags & IDLE
    # Its slot counts: the next has the next one.
    again = bench.send(8) + bench.steps(5)
    assert events(again, 0) == [(2, (Event.LOOPED, 0, 8, 0, uid(17)))]
    assert again[4].beat == 0x1111_1111_1111_1111


@pytest.mark.parametrize("fields", [{"mode": 1}, {"expect": 1}, {"deadline": 1, "retry_limit": 1, "cls": 7}])
def test_what_does_not_matter(fields):
    bench = LoopBench()
    seen = bench.send(8, **fields) + bench.steps(5)
    assert events(seen, 1) == [(4, (Event.LOOP_COMPLETE, ACCEPTED, 0, 0, uid(16)))]


def test_what_goes_below_goes_in_its_turn():
    """Two beats of a datagram for node 4 keep an own record waiting, and the NI sees none of the own one."""
    bench = LoopBench()
    assert bench.step(offer(4, 16)).flags & (SEND_READY | DATA_READY) == SEND_READY
    both = bench.record(8, extra=2)
    flags = [bench.step(both).flags & (SEND_READY | DATA_READY) for _ in range(3)]
    assert flags == [DATA_READY, DATA_READY, SEND_READY]
    taken = bench.step(both)  # the beat of the own one
    assert taken.flags & (SEND_READY | DATA_READY) == DATA_READY
    bench.steps(5)
    kept = bench.golden.take_events()
    accepted = kept[(kept["unit"] == NODE) & (kept["lane"] == LANE_ACCEPT)]
    assert [LENGTH.of(int(word)) for word in accepted["word"]] == [16]
    assert accepted["cycle"].tolist() == [bench.begin + 2]


def test_slots_and_generations_wrap():
    bench = LoopBench(wire={"generation_bits": 2}, timers={"wrap_guard": 0})
    names = [events(bench.send(0) + bench.steps(5), 0)[0][1][4] for _ in range(10)]
    assert names == [uid(16 + i % 2, i // 2 % 4) for i in range(10)]


def test_no_more_are_under_way_than_there_are_slots():
    """The completion that is taken in 10 lets the next record in in 11."""
    bench, stall = LoopBench(), COMPLETION_STALL
    seen = [*bench.send(0, flags=stall), *bench.steps(1, flags=stall), *bench.send(0, flags=stall)]
    assert all(seen[cycle].flags & SEND_READY for cycle in (0, 2))
    assert not any(ready(bench, bench.record(0), stall) for _ in range(3, 10))
    # While nothing is offered, the NI says whether it is ready.
    record = bench.record(0)
    assert ready(bench, [record[0] & ~RECORD, *record[1:]], stall)
    assert not ready(bench, record) and ready(bench, record)


@pytest.mark.parametrize(("length", "mode", "room"), [(16, 0, False), (8, 0, True), (0, 0, True), (32, 2, True)])
def test_room_for_beats(length, mode, room):
    """Four beats in memory, and one at the output: of two datagrams of two beats, three are in memory from 8 on."""
    bench, stall = LoopBench(slots=8, flits=4), DELIVER_STALL
    bench.send(16, flags=stall)
    bench.step(flags=stall)
    assert bench.send(16, flags=stall)[0].flags & SEND_READY  # cycle 4
    bench.step(flags=stall)
    assert bool(ready(bench, bench.record(length, mode=mode), stall)) == room  # cycle 8
    if not room:
        # One leaves in this cycle.
        only_records = 1 << 16 | 1 << 18
        assert not ready(bench, bench.record(length), only_records)
        assert ready(bench, bench.record(length), stall)


def test_room_for_records():
    """Two records in memory are in 6: the third datagram is at the output's back, although its predecessors ended."""
    bench, stall = LoopBench(), DELIVER_STALL
    for _ in range(3):
        assert bench.send(0, flags=stall)[0].flags & SEND_READY  # cycles 0, 2, 4
        bench.step(flags=stall)
    assert not any(ready(bench, bench.record(0), stall) for _ in range(6, 12))
    assert not ready(bench, bench.record(0)) and ready(bench, bench.record(0))


def test_who_is_not_ready():
    bench = LoopBench()
    assert not ready(bench, bench.record(8), QUIESCE) and ready(bench, bench.record(8))
    resets = {"resets": [{"node": NODE, "start": 30, "cycles": 1, "scope": "ni"}]}
    bench = LoopBench(faults=resets)
    bench.steps(31 - bench.golden.cycle)
    # Sixteen cycles of initialisation.
    assert [bool(ready(bench, bench.record(8))) for _ in range(17)] == [False] * 16 + [True]


def below_ended(bench, flags):
    """Have the NI refuse a datagram, and wait until its completion is there."""
    bench.step(offer(9, 0), flags=flags)
    bench.steps(12, flags=flags)
    assert bench.ni_word(12) & NI_COMPLETION


def completed(bench, count):
    """In which cycles the NI's completion and the own one are taken."""
    found = []
    for cycle in range(count):
        shown = bench.step()
        found += [("ni", cycle)] * (bench.ni_word(lane_word(LANE_COMPLETE)) != 0)
        found += [("loop", cycle)] * (shown.lanes[1] is not None)
    return found


def test_completions_of_the_ni_go_first():
    bench = LoopBench()
    below_ended(bench, COMPLETION_STALL)
    bench.send(0, flags=COMPLETION_STALL)
    bench.steps(5, flags=COMPLETION_STALL)
    assert bench.shown.slot < SLOTS
    assert completed(bench, 4) == [("ni", 0), ("loop", 1)]


def test_an_own_completion_that_is_offered_stays():
    bench = LoopBench()
    bench.send(0, flags=COMPLETION_STALL)
    bench.steps(5, flags=COMPLETION_STALL)
    below_ended(bench, COMPLETION_STALL)
    assert bench.shown.slot == 16
    assert completed(bench, 4) == [("loop", 0), ("ni", 1)]


def test_cancel():
    """Five bits name a slot: 16 and 17 are the loop's, and 32 and 33 are 0 and 1."""
    bench = LoopBench()
    for _ in range(3):
        bench.step(offer(4, 0), flags=LINK_DISABLE)
        bench.step(flags=LINK_DISABLE)

    def ended(slot):
        assert bench.step(bench.cancel(slot), flags=LINK_DISABLE).flags & CANCEL_READY
        bench.steps(CHOSEN, flags=LINK_DISABLE)
        return bench.ni_word(lane_word(LANE_RX)) & 0xFF == Event.GIVE_UP

    assert [ended(slot) for slot in (16, 17, 0, 33, 18, 2)] == [False, False, True, True, False, True]


def test_a_cancel_of_an_own_slot_needs_no_ni():
    bench = LoopBench(faults={"resets": [{"node": NODE, "start": 30, "cycles": 1}]})
    bench.steps(31 - bench.golden.cycle)
    assert bench.step(bench.cancel(17)).flags & CANCEL_READY
    assert not bench.step(bench.cancel(0)).flags & CANCEL_READY


@pytest.mark.parametrize("cls", [7, 0])
def test_done_waits_while_the_ni_accepts(cls):
    """With a control datagram that the NI accepts in 1, LOOPED is in 2."""
    bench = LoopBench(ni={"slots": SLOTS, "control_classes": 1, "control_slots": 2})
    bench.step(bench.record(0))
    control = [CONTROL_RECORD, 0, 0, 0, 0, 0, *offer(4, 0, cls=cls)[1:3], 0, 0]
    seen = [bench.step(control)]
    assert bench.ni_word(lane_word(LANE_ACCEPT)) & 0xFF == Event.ACCEPT and bench.shown.accepted_control
    seen += bench.steps(3)
    assert [cycle for cycle, _ in events(seen, 0)] == [1]


@pytest.mark.parametrize("option", [False, True])
def test_the_take_names_the_incarnation(option):
    bench = LoopBench(ni={"slots": SLOTS, "source_incarnation": option})
    seen = bench.send(8) + bench.steps(4)
    assert events(seen, 2) == [(4, (Event.LOOP_TAKE, int(option), 8, 0, 0))]


def until_reset(scope, start=60, cycles=3):
    """Two datagrams wait with their completions, one refused waits with its completion, one has one beat of two."""
    bench = LoopBench(slots=5, faults={"resets": [{"node": NODE, "start": start, "cycles": cycles, "scope": scope}]})
    stall = DELIVER_STALL | COMPLETION_STALL
    for fields in ({}, {"mode": 3}, {}):
        bench.send(8, flags=stall, **fields)
        bench.step(flags=stall)
    bench.step(bench.record(16), flags=stall)
    bench.step(bench.beat(0xDEAD), flags=stall)
    bench.steps(start - bench.golden.cycle, flags=stall)
    return bench, [bench.step(bench.record(8), flags=stall) for _ in range(cycles)]


def test_a_reset_of_the_node():
    bench, within = until_reset("node")
    assert events(within, 0) == [(0, (Event.LOOP_RESET, 0, 2, 0, 0))]
    assert all(shown.flags == shown.beat == 0 for shown in within)
    after = bench.steps(20)
    assert not any(shown.flags & (COMPLETION | DELIVER | DELIVER_DATA) for shown in after)
    seen = bench.send(8) + bench.steps(5)
    assert events(seen, 0) == [(2, (Event.LOOPED, 0, 8, 0, uid(16, 0, 2)))]
    assert seen[4].beat == 0x1111_1111_1111_1111


def test_a_reset_of_the_ni_alone():
    """What is committed stays, what is under way is forgotten, and its slot is the next again."""
    bench, within = until_reset("ni")
    assert all(shown.flags == shown.beat == 0 and not any(shown.lanes) for shown in within)
    after = bench.steps(20)
    assert [cycle for cycle, _ in events(after, 2)] == [0, 1]
    assert [shown.beat for shown in after[:3]] == [0x1111_1111_1111_1111] * 2 + [0]
    names = [(detail, name) for _, (_, detail, _, _, name) in events(after, 1)]
    # That of a refused one has the incarnation of the cycle in which it is taken.
    assert names == [(ACCEPTED, uid(16)), (REJECTED | Cause.MODE, uid(17, 0, 2)), (ACCEPTED, uid(18))]
    seen = bench.send(8) + bench.steps(5)
    assert events(seen, 0) == [(2, (Event.LOOPED, 0, 8, 0, uid(19, 0, 2)))]
    assert seen[4].beat == 0x1111_1111_1111_1111 and seen[5].flags & DELIVER_DATA == 0


def test_a_reset_of_the_node_within_one_of_the_ni():
    """Services are reset from its first cycle on."""
    resets = [{"node": NODE, "start": 40, "cycles": 8, "scope": "ni"}, {"node": NODE, "start": 43, "cycles": 2}]
    bench = LoopBench(faults={"resets": resets})
    bench.send(8, flags=DELIVER_STALL)
    bench.steps(40 - bench.golden.cycle, flags=DELIVER_STALL)
    assert events(bench.steps(9, flags=DELIVER_STALL), 0) == [(3, (Event.LOOP_RESET, 0, 1, 0, 0))]


def test_the_dead_do_nothing_more():
    bench = LoopBench(
        faults={"deaths": [{"node": NODE, "start": 40}]}, timers={"ack_limit": 40}, workload={"retry_limit": 2}
    )
    bench.send(8, flags=DELIVER_STALL)
    bench.steps(40 - bench.golden.cycle, flags=DELIVER_STALL)
    seen = bench.steps(30)
    assert events(seen, 0) == [(0, (Event.LOOP_RESET, 0, 1, 0, 0))]
    assert not any(shown.flags for shown in seen)


def test_an_absence_does_not_stop_it():
    bench = LoopBench(faults={"absences": [{"node": NODE, "start": 16, "end": 90}]})
    assert [cycle for cycle, _ in events(bench.send(8) + bench.steps(5), 2)] == [4]


def own_and_others(system, count=60):
    """Datagrams of all lengths, a third of them to the own node."""
    chance = random.Random(7)
    for number in range(count):
        node = chance.randrange(system.nodes)
        destination = chance.choice((node, *range(system.nodes)))
        payload = chance.randbytes(chance.choice((0, 1, chance.randrange(system.wire.mtu + 1))))
        yield Item(node=node, destination=destination, payload=payload, not_before=chance.randrange(600), tag=number)


@pytest.mark.parametrize("flit_bits", [16, 32, 64, 128])
def test_script_hosts_get_what_they_send_to_themselves(flit_bits):
    system = make(
        "crossbar", wire={"flit_bits": flit_bits, "mtu": 61}, loop={"slots": 3}, ni={"control_classes": 2},
        faults={"loss": 0.1, "stalls": [{"node": 1, "start": 20, "end": 400}]},
    )  # fmt: skip
    items = [*own_and_others(system)]
    golden = Golden(system, Script.from_items(system, items), record=True)
    golden.run(100_000, until_drained=True)
    assert golden.drained and not golden.taking
    sent = sorted((item.destination, item.node, item.payload) for item in items)
    assert sorted((d.node, d.source, d.payload) for d in golden.taken) == sent
    own = sum(item.destination == item.node for item in items)
    assert golden.service_counters["loop"].sum(axis=0).tolist() == [own] * 3
    # The network has seen nothing of them, and the digest everything.
    kept = golden.take_events()
    assert (kept["word"] & 0xFF == Event.ACCEPT).sum() == len(items) - own
    total = sum(event_hash(int(c), int(u), int(lane), int(word), int(name)) for c, u, lane, word, name in kept.tolist())
    assert golden.digest == total % (1 << 64)
    assert {system.layout.unit_name(u) for u in kept["unit"].tolist() if u >= system.layout.first_service} == {
        f"loop{item.node}" for item in items if item.node == item.destination
    }


def test_words_and_events_say_the_same():
    bench = LoopBench()
    seen = bench.send(8, tag=3) + bench.steps(1) + bench.send(0, mode=3) + bench.steps(6)
    kept = bench.golden.take_events()
    here = kept[kept["unit"] == bench.system.layout.service_unit(NODE, 0)]
    told = [(int(e["cycle"]) - bench.begin, int(e["lane"]), int(e["word"]) & 0xFF, int(e["uid"])) for e in here]
    shown = [(i, lane, event[0], event[4]) for i, c in enumerate(seen) for lane, event in enumerate(c.lanes) if event]
    assert sorted(told) == shown and len(shown) == 4


def test_no_loop_refuses():
    system = make("crossbar")
    golden = Golden(system, Script.from_items(system, [Item(node=0, destination=0)]), record=True)
    golden.run(1000, until_drained=True)
    kept = golden.take_events()
    assert [int(word) >> 8 & 0xFF for word in kept["word"][kept["lane"] == LANE_COMPLETE]] == [
        REJECTED | Cause.DESTINATION
    ]

"""Relay (docs/reference/relay.md): each message is posted once and in order, whoever dies between (RELM-01 to 35)."""

import numpy as np
import pytest

from lethe.spec.events import CAUSE_BITS, Cause, Event, Kind, RelayCounter, Status
from lethe.spec.services.relay import MODE, Type
from lethe.spec.trace import EVENT
from lethe_sim.golden.model import Golden
from lethe_sim.golden.script import Item, Script
from tests.helpers import relay_systems
from tests.helpers.relay_systems import deaths, drawn, ended, finished, relay_of, relay_system, scripted, streams

ACCEPTED = Status.ACCEPTED << CAUSE_BITS | Cause.NONE
SILENT = Status.UNKNOWN << CAUSE_BITS | Cause.SILENT


def assert_in_order(seen, dead=()):
    """What is posted is what was given, from the first on and without a gap; all of it between the living."""
    given, posted = streams(seen)
    assert posted
    for pair, messages in posted.items():
        if pair[0] not in dead:
            assert messages == given[pair][: len(messages)], pair
    for pair, messages in given.items():
        if not {*pair} & {*dead}:
            assert posted[pair] == messages, pair
    for pair, details in ended(seen).items():
        assert {*details} <= ({ACCEPTED, SILENT} if pair[1] in dead else {ACCEPTED}), pair


@pytest.mark.parametrize(
    ("radix", "kind"), [(2, "tree"), (1, "tree"), (0, "tree"), (3, "crossbar")], ids=lambda value: str(value)
)
def test_every_message_is_posted_once_and_in_order(radix, kind):
    """RELM-01, RELM-12, RELM-21."""
    topology = {"kind": "crossbar", "nodes": 8, "levels": 0} if kind == "crossbar" else {}
    golden = Golden(relay_system(relay={"radix": radix}, topology=topology, faults={"loss": 0.05}), record=True)
    assert_in_order(finished(golden, 40_000))
    golden.run(400_000, until_drained=True)
    assert golden.drained and golden.sums["wrong"].sum() == 0
    assert golden.sums["received"].sum() == golden.sums["sent"].sum() == 8 * 12
    assert golden.sums["received_sum"].sum() & 0xFFFF_FFFF == golden.sums["sent_sum"].sum() & 0xFFFF_FFFF


@pytest.mark.parametrize("seed", range(24))
def test_systems_drawn_by_seed(seed):
    """Deaths, stalls, losses; tables that are too small (RELM-10, RELM-11, RELM-22, RELM-25)."""
    system = drawn(seed)
    dead = tuple(fault.node for fault in system.faults.deaths)
    assert_in_order(finished(Golden(system, record=True), 120_000, dead=dead), dead)


def test_the_draws_meet_everything():
    """What the systems above are for happens in some of them."""
    seen = set()
    for seed in range(12):
        golden = Golden(drawn(seed))
        golden.run(20_000)
        counts = golden.service_counters["relay"].sum(axis=0)
        seen |= {counter for counter in RelayCounter if counts[counter]}
    assert seen >= {*RelayCounter} - {RelayCounter.EXPIRED, RelayCounter.HALTED}


@pytest.mark.parametrize("node", [0, 1, 5], ids=["root", "relay", "leaf"])
def test_a_death(node):
    """RELM-28, RELM-35: what was live to the dead ends UNKNOWN, later records are refused, the rest goes on."""
    golden = Golden(relay_system(faults=deaths((node, 1000)), workload={"count": 60}), record=True)
    seen = finished(golden, 60_000, dead=(node,))
    assert_in_order(seen, (node,))
    noticed = {one.node: one.cycle for one in seen if one.event == Event.RELAY_NOTICE and one.peer == node != one.node}
    assert {*noticed} == {*range(8)} - {node}
    assert all(2500 <= cycle <= 3500 for cycle in noticed.values())
    refused = [one for one in seen if one.event == Event.RELAY_REFUSED]
    assert refused and all((one.peer, one.detail) == (node, Cause.SILENT) for one in refused)
    assert all(one.cycle > noticed[one.node] for one in refused)


def test_a_relay_that_lives_and_is_taken_for_dead():
    """A false suspicion costs the suspected node alone: nobody answers it any more."""
    rows = [{"node": node, "died": 1, "start": 600 + 37 * node} for node in (0, 2, 3, 4, 5, 6, 7)]
    golden = Golden(relay_system(faults={"notices": rows}), record=True)
    golden.run(60_000)
    seen = relay_systems.events(golden)
    given, posted = streams(seen)
    for pair, messages in given.items():
        if 1 not in pair:
            assert posted[pair] == messages, pair
    for pair, messages in posted.items():
        assert messages == given[pair][: len(messages)], pair


def test_a_message_of_each_length_arrives_whole():
    """RELM-20: from the longest to none, at once over three hops, and out of the way of others."""
    system = relay_system()
    payloads = [bytes(range(n, 2 * n)) for n in (48, 17, 8, 1, 0, 33)]
    golden = scripted(
        system, *(Item(node=7, destination=4, payload=p, mode=MODE, tag=n) for n, p in enumerate(payloads))
    )
    golden.run(20_000)
    letters = golden.letters()
    assert [letters.payload(i) for i in range(len(letters))] == payloads
    assert {*letters.node.tolist()} == {4} and {*letters.source.tolist()} == {7}


def test_other_modes_pass():
    """RELM-02: a datagram of the NI beside messages; its class is its own."""
    system = relay_system(workload={"mode": "exactly_once"})
    items = [
        Item(node=3, destination=6, payload=bytes([n]) * 20, mode=(0, MODE, 1)[n % 3], tag=n, cls=n % 2)
        for n in range(9)
    ]
    golden = scripted(system, *items)
    golden.run(10_000)
    letters = golden.letters()
    got = sorted(letters.payload(i)[0] for i in range(len(letters)))
    assert got == list(range(9))
    relayed = [one.extra for one in relay_systems.events(golden) if one.event == Event.RELAY_POST]
    assert relayed == [0, 1, 2]  # three messages, by uid


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"cls": 7}, Cause.CLASS), ({"destination": 3}, Cause.DESTINATION), ({"destination": 8}, Cause.DESTINATION),
        ({"payload": bytes(49)}, Cause.LENGTH),
    ],
)  # fmt: skip
def test_records_that_are_refused(change, cause):
    """RELM-03: nothing is stored of them, and what follows goes on."""
    base = {"node": 3, "destination": 6, "payload": b"12345678", "mode": MODE}
    golden = scripted(relay_system(), Item(**base | change), Item(**base))
    golden.run(5000)
    seen = relay_systems.events(golden)
    assert [one.detail for one in seen if one.event == Event.RELAY_REFUSED] == [cause]
    assert [one.node for one in seen if one.event == Event.RELAY_POST] == [6]


@pytest.mark.parametrize("deadline", [0, 1], ids=["waits", "refused"])
def test_a_full_window(deadline):
    """With a deadline a record is refused; without one it waits for its turn."""
    items = [Item(node=3, destination=6, payload=bytes(8), mode=MODE, deadline=deadline, tag=n) for n in range(12)]
    golden = scripted(relay_system(relay={"window": 2}), *items)
    golden.run(20_000)
    seen = relay_systems.events(golden)
    refused = [one.detail for one in seen if one.event == Event.RELAY_REFUSED]
    posts = sum(one.event == Event.RELAY_POST for one in seen)
    assert posts + len(refused) == 12 and {*refused} == ({Cause.WINDOW} if deadline else set())


def test_a_destination_that_stalls_for_ever():
    """Its messages take no more than its window; the others go on (RELM-03)."""
    system = relay_system(faults={"stalls": [{"node": 6, "start": 0, "end": 400_000}]}, relay={"window": 2, "cells": 2})
    stuck = [Item(node=3, destination=6, payload=bytes(8), mode=MODE, deadline=1, tag=n) for n in range(20)]
    others = [Item(node=3, destination=4, payload=bytes(8), mode=MODE, tag=n) for n in range(20)]
    golden = scripted(system, *(item for pair in zip(stuck, others, strict=True) for item in pair))
    golden.run(20_000)
    posts = [one for one in relay_systems.events(golden) if one.event == Event.RELAY_POST]
    assert sum(one.node == 4 for one in posts) == 20
    assert sum(one.node == 6 for one in posts) == 2  # as many as it has cells


def test_uids_come_round():
    """RELM-09: after 2^8 − 4 comes 0, and order is by prev."""
    system = relay_system(relay={"uid_bits": 8, "uid_first": 240, "wrap": True}, workload={"count": 40, "load": 0.02})
    seen = finished(Golden(system, record=True), 60_000)
    assert_in_order(seen)
    uids = [one.extra for one in seen if one.event == Event.RELAY_SEND and one.node == 3]
    assert uids == [n % 253 for n in range(240, 280)]


def test_tables_are_empty_after_a_quiet_time():
    """RELM-24: data and records end by time, though nobody says so."""
    golden = Golden(relay_system(faults={"loss": 0.15}, relay={"records": 8}, run={"seed": 3}), record=True)
    seen = finished(golden, 60_000)
    relays = [relay_of(golden, node) for node in range(8)]
    assert any(relay.known for relay in relays) and any(relay.held for relay in relays)
    golden.run(16_384 + 4096 + 64 * 64 + 64)
    for relay in relays:
        assert (relay.known, relay.held, relay.live, relay.parked, relay.owing) == (0, 0, 0, 0, 0)
        assert relay.free_buffers[0].level == relay.buffers and relay.free_cells[0].level == relay.cells
    seen += relay_systems.events(golden)
    hops = {(one.node, one.uid, one.extra) for one in seen if one.event == Event.RELAY_HOP if one.uid >> 44 != one.node}
    ends = (Event.RELAY_FORGOT, Event.RELAY_EXPIRE, Event.RELAY_UNTRACKED)
    gone = {(one.node, one.uid, one.extra) for one in seen if one.event in ends}
    assert hops and hops <= gone


def test_hops_and_control_of_a_message():
    """Six NI messages for each hop of a message, three more for each hop of a stream that is drained (RELM-16)."""
    golden = scripted(relay_system(), Item(node=7, destination=4, payload=bytes(8), mode=MODE))
    golden.run(3000)
    seen = relay_systems.events(golden)
    hops = sum(one.event == Event.RELAY_HOP for one in seen)
    told = [one.detail >> 3 for one in seen if one.event == Event.RELAY_TOLD]
    assert hops == 5  # 7 → 3 → 1 → 0 → 2 → 4
    assert told == [Type.ACKED] * hops + [Type.ACKACKED] * hops


def test_a_walk_does_not_tell_again():
    """M30: of what was told by LINK since the last notice and PULL, unless data of it came or its record ended.

    What was told where no way was free has no record; REQUESTED may make one.
    """
    faults = deaths((0, 600), (2, 600), (5, 600))
    golden = Golden(relay_system(16, faults=faults, relay={"records": 256, "spread": 100}), record=True)
    seen = finished(golden, 60_000, dead=(0, 2, 5))
    passed = {(one.node, one.cycle) for one in seen if one.event == Event.RELAY_HEARD}
    anew = (Event.RELAY_HOP, Event.RELAY_OWED, Event.RELAY_FORGOT, Event.RELAY_EXPIRE)
    told: dict[int, set[tuple[int, int]]] = {node: set() for node in range(16)}
    walked = 0
    for one in seen:
        mine, message = told[one.node], (one.uid, one.extra)
        kind, thru = one.detail >> 3, one.detail & 4
        heard = kind if one.event == Event.RELAY_HEARD else None
        if one.event == Event.RELAY_NOTICE or heard == Type.PULL:
            mine.clear()
        elif heard == Type.REQUESTED or one.event in anew:
            mine.discard(message)
        elif one.event == Event.RELAY_TOLD and kind == Type.LINK and one.uid >> 44 != one.node and not thru:
            walks = (one.node, one.cycle) not in passed
            assert not walks or message not in mine, one
            mine.add(message)
            walked += walks
    assert walked > 20


@pytest.mark.parametrize("length", [0, 8, 20, 48])
def test_latency_of_an_idle_relay(length):
    """From the last flit in to the first out: control in 24 cycles, DATA in one more for each beat of the message."""
    system = relay_system(4)
    out, into = system.graph.links_of(1)
    starts = [500 + 709 * n for n in range(8)]
    items = [Item(node=3, destination=2, payload=bytes(length), mode=MODE, not_before=start) for start in starts]
    golden = Golden(system, Script.from_items(system, items), tapped=[into, out])
    golden.run(8000)
    flits, came, went = golden.take_flits(), [], []
    for link, cycles, end in ((into, came, "last"), (out, went, "first")):
        some = flits[flits["link"] == link]
        worm = np.cumsum(some["first"])
        sends = worm[some["first"] & (some["data"][:, 0] & 7 == Kind.SEND)]
        cycles += some["cycle"][some[end] & np.isin(worm, sends)].tolist()
    # Of each message DATA and ACKACKED from 3 to 2, ACKED from 2 to 3.
    spent = [after - before for before, after in zip(came, went, strict=True)]
    assert len(spent) == 3 * len(starts)
    data, control = spent[::3], spent[1::3] + spent[2::3]
    assert data == [24 + -(-length // 8)] * len(starts)
    # By then there is a record: a look, 12 cycles, may be under way.
    assert min(control) == 24 and max(control) <= 24 + 12


def test_nothing_passes_before_ready():
    """Neither the words of the tree nor records of either mode are taken while it initialises."""
    system = relay_system(relay={"records": 1024}, workload={"mode": "exactly_once"})
    items = [Item(node=3, destination=6, payload=b"12345678", mode=mode) for mode in (0, MODE)]
    golden = Golden(system, Script.from_items(system, items), record=True)
    golden.run(3000)
    found = golden.take_events()
    first = {
        Event(event): int(found["cycle"][EVENT.of(found["word"]) == event].min())
        for event in set(EVENT.of(found["word"]).tolist())
    }
    assert min(first.values()) >= 1024
    assert first[Event.RELAY_NOTICE] < first[Event.RELAY_SEND] and 1024 <= first[Event.ACCEPT] < 1100


@pytest.mark.parametrize("seed", range(6))
def test_sleeping_changes_nothing(seed):
    """A model that steps every node in every cycle comes to the same."""
    system = drawn(seed)
    one, other = Golden(system), Golden(system, awake=True)
    for golden in (one, other):
        golden.run(12_000)
    assert one.digest == other.digest
    assert (one.service_counters["relay"] == other.service_counters["relay"]).all()


def turned(golden: Golden, where: str) -> None:
    """A bit of each beat of a memory of all relays turns over."""
    for node in range(golden.system.nodes):
        k, _, words = golden.memory(node)
        relay = relay_of(golden, node)
        first = int(k.rooms[0].at_data) + int(getattr(relay, f"at_{where}_words"))
        beats = 2 * int(getattr(golden.system.relay, f"{where}s")) * int(relay.cell_beats)
        words[first : first + beats : 2] ^= np.uint64(1 << 9)


@pytest.mark.parametrize("where", ["slot", "buffer", "cell"])
def test_a_bit_that_turns_over_halts(where):
    """RELM-33: no host takes a wrong byte; some do without CRCs."""
    found = {}
    for crc in (True, False):
        system = relay_system(relay={"crc": crc, "cells": 3}, workload={"count": 40, "load": 0.3})
        golden = Golden(system.replace(faults={"loss": 0.1}))
        for _ in range(200):
            golden.run(19)
            turned(golden, where)
        halts = golden.service_counters["relay"][:, RelayCounter.HALTED]
        assert halts.max() == (1 if crc else 0) and not (crc and golden.drained)
        found[crc] = golden.sums["wrong"].sum()
    assert found[True] == 0 < found[False]

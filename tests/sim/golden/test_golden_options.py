"""Options of the NI (sections 4.2, 4.8, 4.12 to 4.15), and nodes that die: each rule where another would differ."""

from collections import deque

import numpy as np
import pytest

from lethe.spec import stages, trace
from lethe.spec.events import (
    LANE_ACCEPT,
    LANE_COMPLETE,
    LANE_RX,
    LANE_TAKE,
    LANE_TX,
    Cause,
    Counter,
    Drop,
    Event,
    Kind,
    Status,
)
from lethe.spec.stages import ACTS, HEARD, JUDGED, QUEUED
from lethe_sim.golden.blocks import Ni
from lethe_sim.golden.model import Golden, Item, Script
from lethe_sim.golden.state import Registers
from tests.helpers.golden_block_steps import events, ready
from tests.helpers.golden_steps import BEAT, offer, run, sent, worm
from tests.helpers.golden_systems import make

FLAGS = {name: 1 << bit for bit, name in enumerate(trace.STIMULUS_BITS)}
SHOWN = {name: 1 << bit for bit, name in enumerate(trace.NI_FLAG_BITS)}
HELD, RECORDS, BEATS = FLAGS["link_disable"], 1 << trace.STREAMS_STALL.shift, 2 << trace.STREAMS_STALL.shift


def words(ni, *, flags=0, control=None, merge=None, cancel=None):
    """Stimulus words: of ``control`` a record for `send_control`, of ``merge`` word and mask, of ``cancel`` a life."""
    row = [0] * int(ni.k.stimulus_words)
    row[0] = flags
    if control is not None:
        row[0] |= FLAGS["send_control.valid"]
        row[trace.CONTROL_RECORD_WORD : trace.CONTROL_RECORD_WORD + 2] = control[1:3]
    if merge is not None:
        row[-2:] = merge
    if cancel is not None:
        row[0] |= FLAGS["cancel.valid"]
        row[trace.STIMULUS_CANCEL_WORD] = cancel
    return row


def record(ni, destination, length=0, *, flags=0, **fields):
    """Stimulus words of a record for `send`."""
    row = words(ni)
    row[:6] = offer(destination, length, extra=flags, **fields)
    return row


def message(system, kind, *, length=0, **fields):
    """The arriving flits of a message to node 3 from node 6, unless ``fields`` says otherwise."""
    base = {"kind": kind, "destination": 3, "source": 6, "generation": 0, "incarnation": 1}
    base |= {"length": length} if length else {}
    return worm(system.format.flits(base | fields, bytes(length)))


def shows(row, name):
    return bool(row[trace.NI_FLAGS] & SHOWN[name])


def ends(rows):
    """(status, cause) of every completion that was taken."""
    return [(detail >> 4, detail & 15) for _, _, detail in events(rows, LANE_COMPLETE)]


# What is kept free, and deliver FIFOs.


def test_a_slot_that_rests_is_not_free_and_the_reserve_is_for_the_highest_classes():
    system = make("tree", ni={"slots": 3, "reserved_slots": 1, "reserved_classes": 1}, timers={"quarantine": 4000})
    ni = ready(3, system)
    for slot in range(2):
        assert shows(ni.step(None, record(ni, 6)), "send.ready")
        run(ni, 8)
        assert ends(run(ni, 9, words(ni, cancel=slot))) == [(Status.UNKNOWN, Cause.CANCELLED)]
    # No datagram is under way, two slots rest, and the last is the reserve.
    assert ni.ni.busy == 0
    ready_for = [shows(ni.step(None, record(ni, 6, cls=cls)), "send.ready") for cls in (0, 6, 7)]
    assert ready_for == [False, False, True]


@pytest.mark.parametrize(("cls", "kept"), [(0, 4 + 1), (7, 2 + 1)])
def test_deliver_fifos_of_control_have_their_own_records(cls, kept):
    system = make("tree", ni={"control_classes": 1, "deliver_records": 4, "control_records": 2})
    ni = ready(3, system)
    arrivals = [flit for slot in range(8) for flit in message(system, Kind.SEND, slot=slot, **{"class": cls})]
    rows = run(ni, 60, words(ni, flags=FLAGS["deliver_stall"]), arrivals=arrivals)
    found = [(event, detail) for _, event, detail in events(rows)]
    assert found == kept * [(Event.DELIVER, 0)] + (8 - kept) * [(Event.DROP, Drop.DELIVER_FULL)]


@pytest.mark.parametrize(("cls", "kept"), [(0, 5), (7, 3)])
def test_deliver_fifos_of_control_have_their_own_flits(cls, kept):
    """Of 8 bytes, one flit, each; one more is at the output."""
    system = make("tree", wire={"mtu": 16}, ni={"control_classes": 1, "deliver_flits": 4, "control_flits": 2})
    ni = ready(3, system)
    arrivals = [f for slot in range(8) for f in message(system, Kind.SEND, slot=slot, length=8, **{"class": cls})]
    rows = run(ni, 90, words(ni, flags=FLAGS["deliver_stall"]), arrivals=arrivals)
    assert [event for _, event, _ in events(rows)] == kept * [Event.DELIVER] + (8 - kept) * [Event.DROP]


@pytest.mark.parametrize("shown", [False, True])
def test_the_incarnation_of_the_source_is_in_the_record_and_is_the_detail_of_take(shown):
    system = make("tree", ni={"source_incarnation": shown, "deliver_records": 4})
    ni = ready(3, system)
    rows = run(ni, 20, arrivals=message(system, Kind.SEND, incarnation=9) + message(system, Kind.BE, mode=1))
    assert [detail for _, _, detail in events(rows, LANE_TAKE)] == ([9, 1] if shown else [0, 0])


def test_streams_stall_one_by_one():
    system = make("tree", ni={"slots": 4})
    arrivals = message(system, Kind.SEND, length=8)
    record_left, beat_left = "deliver.valid", "deliver_data.valid"
    cases = ((RECORDS, [record_left]), (BEATS, [beat_left]), (RECORDS | BEATS, [record_left, beat_left]), (0, []))
    for flags, left in cases:
        ni = ready(3, system)
        row = run(ni, 20, words(ni, flags=flags), arrivals=arrivals)[-1]
        assert [name for name in (record_left, beat_left) if shows(row, name)] == left
    ni = ready(3, system)
    ni.step(None, record(ni, 3))  # refused
    rows = run(ni, 20, words(ni, flags=FLAGS["completion_stall"]))
    assert shows(rows[-1], "completion.valid") and not ends(rows)
    assert ends(run(ni, 2)) == [(Status.REJECTED, Cause.DESTINATION)]


# Restarts (4.13).


def test_a_send_for_an_incarnation_that_is_gone_is_rejected():
    system = make("tree", ni={"reject": True}, wire={"try_bits": 2})
    fields = {"slot": 2, "generation": 7, "incarnation": 4, "try": 3}
    ni = ready(3, system)
    arrivals = message(system, Kind.SEND, peer_incarnation=5, **fields)
    rows = run(ni, 20, arrivals=arrivals, incarnation=6)
    assert [event[1:] for event in events(rows)] == [(Event.DROP, Drop.INCARNATION)]
    rejected = {"kind": Kind.REJECT, "destination": 6, "source": 3, "peer_incarnation": 6, **fields}
    assert sent(rows) == [system.format.flits(rejected)]
    assert [event[1] for event in events(rows, LANE_TX)] == [Event.REJECT]
    best_effort = message(system, Kind.BE, mode=1, peer_incarnation=5, **fields)
    assert not sent(run(ni, 20, arrivals=best_effort, incarnation=6))


def rejection(system, **fields):
    return message(system, Kind.REJECT, **({"peer_incarnation": 2} | fields))


def test_a_reject_ends_what_it_is_for_and_nothing_answers_it():
    system = make("tree", ni={"reject": True, "slots": 4})
    for fields, event in (
        ({}, (Event.GIVE_UP, Cause.RESTARTED)),
        ({"generation": 1}, (Event.REJECT_IGNORED, 0)),
        ({"source": 5}, (Event.REJECT_IGNORED, 0)),
        ({"incarnation": 2}, (Event.REJECT_IGNORED, 0)),
        ({"slot": 1}, (Event.REJECT_IGNORED, 0)),
        ({"slot": 3, "source": 3}, (Event.DROP, Drop.SOURCE)),
        ({"destination": 4}, (Event.DROP, Drop.MISROUTED)),
    ):
        ni = ready(3, system)
        rows = [ni.step(None, record(ni, 6, expect=1)), *run(ni, 9)]
        assert len(sent(rows)) == 1
        rows = run(ni, 12, words(ni, flags=FLAGS["completion_stall"]), arrivals=rejection(system, **fields))
        assert [found[1:] for found in events(rows)] == [event], fields
        assert not sent(rows)
        ended = ni.ports().completion
        assert (ended is not None) == (event[0] == Event.GIVE_UP)
        if ended:
            assert (ended.status, ended.cause, ended.peer_incarnation) == (Status.UNKNOWN, Cause.RESTARTED, 2)


def test_a_reject_of_a_slot_that_does_not_exist_and_one_without_the_option():
    system = make("tree", ni={"reject": True, "slots": 5})
    rows = run(ready(3, system), 9, arrivals=rejection(system, slot=6))
    assert [event[1:] for event in events(rows)] == [(Event.DROP, Drop.SLOT)]
    assert rows[ACTS][2 * LANE_RX + 1] >> 44 == 3  # of this node's datagram
    plain = make("tree", ni={"slots": 5})
    assert [event[2] for event in events(run(ready(3, plain), 9, arrivals=rejection(plain, slot=6)))] == [Drop.KIND]


# Silent nodes (4.14).


def silent(after=2, probe=100_000, **ni):
    """An NI that gives node 6 up after so many repeats; its time-outs are short and fixed."""
    system = make(
        "wire" if ni.pop("wire", False) else "tree", ni={"slots": 4, **ni},
        timers={"silent_after": after, "silent_probe": probe, "backoff_steps": 0, "jitter_bits": 0},
    )  # fmt: skip
    return ready(3, system), system


def hush(ni, destination=6):
    """Send one datagram until it has ended; returns all rows."""
    return [ni.step(None, record(ni, destination)), *run(ni, 400)]


def test_a_silent_node_ends_its_datagrams_at_their_repeats_and_new_ones_unsent():
    ni, _ = silent()
    rows = hush(ni)
    repeats = [cycle for cycle, event, _ in events(rows) if event == Event.REPEAT]
    assert len(repeats) == 3  # the second makes it silent, which its own judgement does not know yet
    assert ends(rows) == [(Status.UNKNOWN, Cause.SILENT)]
    assert [event for _, event, _ in events(rows, LANE_TX)] == 3 * [Event.SEND]
    rows = hush(ni)  # the probe: sent once, not repeated
    assert [event for _, event, _ in events(rows, LANE_TX)] == [Event.SEND]
    assert ends(rows) == [(Status.UNKNOWN, Cause.SILENT)]
    rows = hush(ni)
    assert not events(rows, LANE_TX) and ends(rows) == [(Status.NEVER_SENT, Cause.SILENT)]
    # Another node is not concerned, and best effort probes nothing.
    assert events(hush(ni, 5), LANE_TX)
    ni, _ = silent()
    hush(ni)
    rows = [ni.step(None, record(ni, 6, mode=1)), *run(ni, 40)]
    assert not events(rows, LANE_TX) and ends(rows) == [(Status.NEVER_SENT, Cause.SILENT)]
    assert events(hush(ni), LANE_TX)  # the probe


def test_an_ack_of_nothing_live_makes_a_node_heard_again():
    ni, system = silent()
    hush(ni)
    run(ni, 20, arrivals=message(system, Kind.ACK, slot=1))
    assert len(events(hush(ni), LANE_TX)) == 3


@pytest.mark.parametrize(("earlier", "stopped"), [(HEARD, False), (HEARD - 1, True)])
def test_what_acts_is_known_some_cycles_later(earlier, stopped):
    """A REJECT, to which nothing answers, acts ``earlier`` cycles before a datagram is judged."""
    ni, system = silent(reject=True)
    hush(ni)
    hush(ni)  # the probe
    judged = QUEUED + JUDGED  # cycles from the acceptance
    flit = rejection(system, slot=1)
    assert len(flit) == 1
    arrives = judged - earlier - ACTS
    rows = []
    for cycle in range(min(arrives, 0), 40):
        offered = record(ni, 6) if cycle == 0 else words(ni)
        rows.append(ni.step(flit[0] if cycle == arrives else None, offered))
    acted = [cycle for cycle, event, _ in events(rows) if event == Event.REJECT_IGNORED]
    assert acted == [judged - earlier - min(arrives, 0)]
    assert (Event.SEND not in [event for _, event, _ in events(rows, LANE_TX)]) == stopped


def test_a_silent_node_is_probed_once_in_a_period_of_enabled_cycles():
    """Held for half the time, the periods are twice as long."""
    period = 500
    for held in (False, True):
        ni, _ = silent(probe=period)
        hush(ni)
        probes = []
        for cycle in range(6 * period):
            flags = HELD if held and cycle & 1 else 0
            row = ni.step(None, record(ni, 6, flags=flags))
            if row[2 * LANE_TX]:
                probes.append(int(ni.cycle - 1 - ni.ni.time_zero) // period)
        assert len(probes) == len(set(probes)) > 2
        assert probes == list(range(probes[0], probes[0] + len(probes)))
        assert len(probes) in ((3, 4) if held else (6, 7))


def test_a_probe_at_the_end_of_a_period_counts_for_the_next():
    """Judged in a period's last cycle, in which the counter wraps: it is probed from the next on."""
    period, found = 150, set()
    for early in range(8):
        ni, _ = silent(probe=period)
        hush(ni)
        while (ni.cycle - ni.ni.time_zero + early) % period:
            ni.step(None)
        ni.step(None, record(ni, 6))
        rows = run(ni, 12)
        judged = next(cycle for cycle, event, _ in events(rows, LANE_TX) if event == Event.SEND) - stages.SHOWN + JUDGED
        time = (ni.cycle - len(rows) + judged - ni.ni.time_zero) % period
        rows = [ni.step(None, record(ni, 6)), *run(ni, 20)]
        found.add((time, bool(events(rows, LANE_TX))))
    by_time = dict(found)
    # A second one follows well within the next period.
    assert by_time[period - 1] is False  # probed in the new period
    assert by_time[period - 2] is True  # probed from the last cycle on, which clears it
    assert by_time[0] is False


def test_repeats_and_hearing_count_by_node_and_in_a_row():
    """Three repeats to 6 with an Ack of it between them do not make it silent at 3; those to 5 count apart."""
    ni, system = silent(after=3)
    ni.step(None, record(ni, 6))
    ni.step(None, record(ni, 5))
    rows, heard = [], 0
    for _ in range(600):
        due = sum(event == Event.REPEAT for _, event, _ in events(rows)) >= 3 and not heard
        heard |= due
        rows.append(ni.step(message(system, Kind.ACK, slot=3)[0] if due else None))
        if any(event == Event.GIVE_UP for _, event, _ in events(rows[-1:])):
            break
    by_peer = [row[2 * LANE_RX] >> 16 & 0xFFFF for row in rows if row[2 * LANE_RX] & 0xFF == Event.REPEAT]
    last = next(row for row in rows if row[2 * LANE_RX] & 0xFF == Event.GIVE_UP)
    assert last[2 * LANE_RX] >> 16 & 0xFFFF == 5 and by_peer.count(5) == 4 and by_peer.count(6) >= 4


def test_initialisation_lasts_as_long_as_there_are_nodes():
    system = make("tree4", ni={"slots": 2, "sets": 1}, timers={"silent_after": 1})
    ni = Ni(system, 3)
    rows = run(ni, 20)
    assert [shows(row, "send.ready") for row in rows].index(True) == system.nodes == 16


# Control slots (4.12).


def control_ni(**ni):
    return ready(3, make("tree", ni={"slots": 4, "control_slots": 1, "control_classes": 1, **ni}))


def test_control_finds_its_slot_and_goes_before_the_repeats_of_data():
    """The example of the contract: three data datagrams wait for their Acks."""
    ni = control_ni()
    rows = [ni.step(None, record(ni, 6)) for _ in range(12)]
    assert [row[2 * LANE_ACCEPT + 1] >> 20 & 0xFFFF for row in rows if row[2 * LANE_ACCEPT]] == [0, 1, 2]
    run(ni, 20)
    while not any(event == Event.REPEAT for _, event, _ in events([ni.step(None, words(ni))])):
        pass
    held = run(ni, 30, words(ni, flags=HELD))  # the repeat waits for the link
    assert not events(held, LANE_TX)
    row = ni.step(None, words(ni, control=offer(6, 0, cls=7), flags=HELD))
    assert shows(row, "send_control.ready") and not shows(row, "send.ready")
    run(ni, 4, words(ni, flags=HELD))
    slots = [row[2 * LANE_TX + 1] >> 20 & 0xFFFF for row in run(ni, 12) if row[2 * LANE_TX]]
    assert slots[0] == 3 and len(slots) > 1


def test_only_one_accept_context_moves_in_a_cycle():
    ni = control_ni(slots=8, control_slots=2)
    both = record(ni, 6, 16)
    control = words(ni, control=offer(5, 16, cls=7))
    both = [a | b for a, b in zip(both, control, strict=True)]
    row = ni.step(None, both)
    assert shows(row, "send_control.ready") and not shows(row, "send.ready")
    row = ni.step(None, record(ni, 6, 16))  # control waits for its beats: data are taken
    assert shows(row, "send.ready") and shows(row, "send_control_data.ready")
    beat = BEAT | FLAGS["send_control_data.valid"]
    rows = [ni.step(None, words(ni, flags=beat)) for _ in range(4)]
    assert [shows(row, "send_control_data.ready") for row in rows] == [True, True, False, False]
    assert [shows(row, "send_data.ready") for row in rows] == [False, False, True, True]
    accepted = [(row[2 * LANE_ACCEPT + 1] >> 20 & 0xFFFF) for row in rows if row[2 * LANE_ACCEPT]]
    assert accepted == [6, 0]  # the first of the control slots, and of the data slots


def test_control_takes_control_classes_only_and_data_any():
    ni = control_ni()
    ni.step(None, words(ni, control=offer(6, 0, cls=6)))
    assert ends(run(ni, 20)) == [(Status.REJECTED, Cause.CLASS)]
    ni.step(None, words(ni, control=offer(3, 0, cls=6)))
    assert ends(run(ni, 20)) == [(Status.REJECTED, Cause.DESTINATION)]
    rows = [ni.step(None, record(ni, 6, cls=7)), *run(ni, 9)]
    assert [event for _, event, _ in events(rows, LANE_TX)] == [Event.SEND]


def test_a_control_slot_returns_to_control():
    for quarantine in (0, 30):
        ni = ready(3, make("tree", ni={"slots": 2, "control_slots": 1, "control_classes": 1},
                           timers={"quarantine": quarantine}))  # fmt: skip
        for generation in range(3):
            row = ni.step(None, words(ni, control=offer(6, 0, cls=7)))
            assert row[2 * LANE_ACCEPT + 1] & 0xFFFFF_FFFFF == 1 << 20 | generation | 1 << 36
            assert not shows(ni.step(None, words(ni, control=offer(6, 0, cls=7))), "send_control.ready")
            run(ni, 8)
            assert len(ends(run(ni, 10, words(ni, cancel=1 | generation << 16)))) == 1
            run(ni, 40)


def test_a_script_offers_control_on_its_own_port():
    system = make("crossbar", ni={"slots": 3, "control_slots": 1, "control_classes": 1},
                  workload={"kind": "pattern"})  # fmt: skip
    lot = [Item(node=n % 5, destination=(n + 1) % 5, payload=bytes([n] * 17), cls=7 * (n % 3 == 0)) for n in range(60)]
    golden, stimulus = Golden(system, Script.from_items(system, lot), record=True), None
    cycles = 4000
    stimulus = np.zeros((cycles, system.layout.stimulus_words * system.nodes), np.uint64)
    golden.run(cycles, stimulus=stimulus)
    assert golden.drained
    assert sorted((d.node, d.cls, d.payload) for d in golden.taken) == sorted(
        (item.destination, item.cls, item.payload) for item in lot
    )
    accepted = golden.take_events()
    accepted = accepted[accepted["lane"] == LANE_ACCEPT]
    slots = (accepted["uid"] >> np.uint64(20)).astype(int) & 0xFFFF
    assert np.count_nonzero(slots == 2) == 20
    outside = Golden(system, external=True)
    outside.run(cycles, stimulus=stimulus)
    assert outside.digest == golden.digest


# The merge port (4.15).


@pytest.mark.parametrize("flit_bits", [16, 32, 64, 128])
@pytest.mark.parametrize("length", [0, 1, 24])
def test_a_service_writes_into_the_payload_when_it_is_sent(flit_bits, length):
    bits = 13
    system = make("tree", wire={"flit_bits": flit_bits, "mtu": 24}, ni={"merge_bits": bits}, timers={"jitter_bits": 0})
    ni = ready(3, system)
    payload = bytes(range(100, 100 + length))
    ni.step(None, record(ni, 6, length))
    step, rows, merges = flit_bits // 8, [], []
    for at in range(0, length, step):
        data = int.from_bytes(payload[at : at + step], "little")
        beat = words(ni, flags=BEAT)
        beat[3:5] = data & trace.MASK64, data >> 64
        rows.append(ni.step(None, beat))
    word, mask = 0x3A5C_F123_4567_89AB, 0xFFFF_FFFF_FFFF_F0F0
    asked = deque([None] * 3)
    for _ in range(400):
        # Only three cycles after the port asked does it matter what is said.
        said = (word + merges.index(asked[0]) + 1, mask) if asked[0] else (~0 & trace.MASK64, trace.MASK64)
        asked.popleft()
        asked.append(ni.ports().merge)
        merges += [asked[-1]] if asked[-1] else []
        rows.append(ni.step(None, words(ni, merge=said)))
    worms = sent(rows)
    assert len(worms) > 2 and [merge.tries for merge in merges] == list(range(len(worms)))
    chosen = mask & (1 << min(bits, 8 * length)) - 1
    for number, found in enumerate(worms):
        fields = {"kind": Kind.SEND, "destination": 6, "source": 3, "incarnation": 1, "length": length}
        fields["try"] = number % (1 << system.format.try_bits)
        whole = int.from_bytes(payload, "little")
        whole = whole & ~chosen | (word + number + 1) & chosen
        assert found == system.format.flits(fields, whole.to_bytes(length, "little")), number


def test_the_merge_port_asks_for_every_grant_in_the_cycle_after_it():
    """Also of a datagram that is refused, of one that has ended, and of best effort."""
    ni = ready(3, make("tree", ni={"merge_bits": 8, "slots": 4}))
    ni.step(None, record(ni, 3))  # refused
    ni.step(None, words(ni))
    ni.step(None, record(ni, 6, flags=HELD))
    ni.step(None, words(ni, flags=HELD))
    ni.step(None, record(ni, 6, mode=1, flags=HELD))
    run(ni, 8, words(ni, flags=HELD))
    ni.step(None, words(ni, flags=HELD, cancel=1))
    run(ni, 8, words(ni, flags=HELD))
    asked, rows = [], []
    for cycle in range(20):
        asked += [(cycle, ni.ports().merge.slot)] if ni.ports().merge else []
        rows.append(ni.step(None, words(ni, merge=(0, 0))))
    shown = [(cycle, event) for cycle, event, _ in events(rows, LANE_TX)]
    # Granted in 0 (it fills the finish register), 4 and 7: one is refused, one killed, one sent.
    assert asked == [(1, 0), (5, 1), (8, 2)]
    assert shown == [(10, Event.KILLED), (13, Event.BE)]


# Deaths and absences (section 6).


def test_the_dead_are_not_waited_for():
    system = make(
        "tree", faults={"deaths": [{"node": 2, "start": 300}]}, timers={"ack_limit": 9},
        workload={"retry_limit": 3, "count": 40, "load": 0.5},
    )  # fmt: skip
    golden = Golden(system, record=True)
    ran = golden.run(200_000, until_drained=True)
    assert golden.drained and ran < 100_000
    found = golden.take_events()
    resets = found[(found["word"] & np.uint64(0xFF)) == Event.RESET]
    assert [(row["cycle"], row["unit"]) for row in resets] == [(300, 2)]
    after = found[(found["unit"] == 2) & (found["lane"] < len(system.layout.lanes)) & (found["cycle"] > 300)]
    assert not len(after)
    assert golden.sums["sent"][2] < 40 and (np.delete(golden.sums["sent"], 2) == 40).all()
    assert not np.delete(golden.entries, 2).any()


def test_a_death_is_one_reset_with_one_that_touches_it_and_counts_from_its_cycle_on():
    faults = {"resets": [{"node": 2, "start": 250, "cycles": 50}], "deaths": [{"node": 2, "start": 300}]}
    system = make("tree", faults=faults, timers={"ack_limit": 9}, workload={"retry_limit": 3})
    golden = Golden(system, record=True)
    golden.run(400)
    found = golden.take_events()
    resets = found[(found["word"] & np.uint64(0xFF)) == Event.RESET]
    assert resets["cycle"].tolist() == [250]


def test_an_absent_node_comes_back_as_it_was():
    """Nothing is lost or doubled, its time stands still, and it neither sends nor hears.

    Tokens that were due when it left still act, one in each turn of their rung.
    """
    away = {"node": 1, "start": 400, "end": 3000}
    system = make("tree", faults={"absences": [away]}, workload={"count": 30, "load": 0.5})
    golden = Golden(system, record=True)
    golden.run(200_000, until_drained=True)
    assert golden.drained
    assert (golden.sums["sent"] == 30).all() and golden.sums["received"].sum() == 30 * system.nodes
    found = golden.take_events()
    within = found[(found["unit"] == 1) & (found["cycle"] >= 400 + stages.SHOWN) & (found["cycle"] < 3000)]
    assert not (within["lane"] == LANE_TX).any()
    acted = within[within["lane"] == LANE_RX]
    assert np.isin(acted["word"] & np.uint64(0xFF), (Event.ACK_REPEAT, Event.REPEAT)).all()
    longest = 2 * max(stages.rounds(system.graph.distance_classes, system.timers.backoff_steps))
    assert (acted["cycle"] < 400 + 5 * longest).all()
    assert golden._ni[1, Registers.time_zero] == 2600


def test_the_one_control_slot_comes_last_in_the_initialisation():
    """Pushed in its last cycle, I - 1, it is at the output two cycles later."""
    ni = Ni(make("tree", ni={"slots": 4, "sets": 2, "control_slots": 1, "control_classes": 1}), 3)
    rows = run(ni, 10)
    assert [shows(row, "send.ready") for row in rows].index(True) == 4
    assert [shows(row, "send_control.ready") for row in rows].index(True) == 5


# One node is away, and nobody has a retry limit.


def delivered_to_the_others(away, after):
    """Datagrams that all but node 1 take in cycles 6,000 to 9,000."""
    faults = {"absences": [{"node": 1, "start": 300, "end": 10_000}]} if away else {}
    system = make("tree", ni={"slots": 2}, faults=faults, timers={"silent_after": after, "silent_probe": 2000},
                  workload={"load": 0.1, "count": 0, "min_length": 16, "max_length": 16})  # fmt: skip
    golden = Golden(system)
    golden.run(6000)
    before = golden.counters[:, Counter.DELIVERED]
    golden.run(3000)
    return int(np.delete(golden.counters[:, Counter.DELIVERED] - before, 1).sum())


def test_a_node_that_is_away_stops_the_others_unless_it_is_known_to_be_silent():
    alone, stopped, silent = (delivered_to_the_others(*case) for case in ((False, 0), (True, 0), (True, 4)))
    assert stopped < 0.2 * alone and silent > 0.75 * alone

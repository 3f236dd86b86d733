"""The acceptance port and sweeps of an NI (sections 4.16 and 4.17): each rule where another would differ."""

import pytest

from lethe.spec import trace
from lethe.spec.events import LANE_RX, LANE_TX, Drop, Event, Kind
from lethe.spec.stages import ACTS
from lethe_sim.golden.view import Arrival
from tests.helpers.golden_block_steps import events, ready
from tests.helpers.golden_steps import sent, worm
from tests.helpers.golden_systems import make

PAYLOAD = bytes(range(0xA0, 0xA0 + 24))


def system_of(**ni):
    return make("tree", wire={"mtu": 24, "try_bits": 2, **ni.pop("wire", {})}, ni={"acceptance": True, **ni})


def message(system, kind=Kind.SEND, length=24, **fields):
    """The flits of a message to node 3 from node 6 that carries so much of `PAYLOAD`."""
    base = {"kind": kind, "destination": 3, "source": 6, "generation": 0, "incarnation": 1, "length": length}
    return worm(system.format.flits(base | {"mode": int(kind == Kind.BE)} | fields, PAYLOAD[:length]))


def play(ni, cycles, arrivals=(), refusals=None, sweeps=None, flags=0):
    """Rows and ports of so many cycles; ``refusals`` and ``sweeps`` (sources) are by cycle."""
    system, rows, ports = ni.system, [], []
    for cycle in range(cycles):
        words = [flags] + [0] * (int(ni.k.stimulus_words) - 1)
        refusal, source = (refusals or {}).get(cycle, 0), (sweeps or {}).get(cycle)
        if system.ni.acceptance:
            words[system.layout.stimulus_refusal] = refusal
        if system.ni.sweep and source is not None:
            words[system.layout.stimulus_sweep] = 1 | source << 1
        ports.append(ni.ports(refusal=refusal, sweep=source is not None))
        rows.append(ni.step(arrivals[cycle] if cycle < len(arrivals) else None, words))
    return rows, ports


def started(system):
    ni = ready(3, system)
    ni.system = system
    return ni


@pytest.mark.parametrize("flit_bits", [16, 32, 64, 128])
@pytest.mark.parametrize("length", [0, 3, 8, 24])
def test_an_arrival_is_told_in_the_cycle_after_its_last_flit(flit_bits, length):
    system = system_of(wire={"flit_bits": flit_bits})
    arrivals = message(system, length=length, slot=2, incarnation=4, **{"try": 3, "class": 5})
    rows, ports = play(started(system), 60, arrivals)
    last = len(arrivals) - 1
    assert [cycle for cycle, port in enumerate(ports) if port.arrival] == [last + 1]
    word = int.from_bytes(PAYLOAD[: min(8, length)], "little")
    assert ports[last + 1].arrival == Arrival(6, 4, 5, length, 3, 0, word)
    assert [cycle for cycle, port in enumerate(ports) if port.delivered] == [last + ACTS]
    assert events(rows) == [(last + ACTS, Event.DELIVER, 0)]


def test_what_is_not_data_is_not_told_and_what_is_damaged_is():
    system = system_of(control_classes=1)
    for arrivals in (
        message(system, **{"class": 7}),
        worm(system.format.flits({"kind": Kind.FORGET, "destination": 3, "source": 6})),
        message(system)[: system.format.header_flits],
    ):
        _, ports = play(started(system), 30, arrivals)
        assert not any(port.arrival for port in ports)
    arrivals = message(system, Kind.BE)
    arrivals[1] = arrivals[1]._replace(data=arrivals[1].data ^ 1)
    rows, ports = play(started(system), 30, arrivals)
    (arrival,) = (port.arrival for port in ports if port.arrival)
    assert arrival.best_effort == 1 and arrival.word == int.from_bytes(PAYLOAD[:8], "little") ^ 1
    assert [event[1:] for event in events(rows)] == [(Event.DROP, Drop.CRC)]


@pytest.mark.parametrize(("refusal", "reason"), [(1, Drop.NOT_OPEN), (2, Drop.PORT_FULL), (3, Drop.EARLY)])
@pytest.mark.parametrize("reject", [False, True])
@pytest.mark.parametrize("kind", [Kind.SEND, Kind.BE])
def test_what_is_refused_leaves_nothing(refusal, reason, reject, kind):
    system = system_of(reject=reject)
    ni, arrivals = started(system), message(system, kind, slot=1)
    acts = len(arrivals) - 1 + ACTS
    rows, ports = play(ni, 40, arrivals, {acts: refusal})
    assert events(rows) == [(acts, Event.DROP, reason)]
    assert not any(port.delivered for port in ports) and rows[-1][trace.NI_FLAGS] >> 3 & 1  # idle
    answered = reject and kind == Kind.SEND and reason == Drop.NOT_OPEN
    assert [event[1] for event in events(rows, LANE_TX)] == ([Event.REJECT] if answered else [])
    if answered:
        rejected = {"kind": Kind.REJECT, "destination": 6, "source": 3, "slot": 1, "incarnation": 1}
        assert sent(rows) == [system.format.flits(rejected | {"peer_incarnation": 1})]
    again, _ = play(ni, 40, message(system, kind, slot=1), {acts - 1: refusal, acts + 1: refusal})
    assert events(again)[0][1:] == (Event.DELIVER_BE if kind == Kind.BE else Event.DELIVER, 0)


def test_duplicates_and_control_are_not_refused_and_what_is_missing_goes_first():
    system = system_of(control_classes=1, sets=1, ways=1)
    ni = started(system)
    always = dict.fromkeys(range(60), 1)
    rows, _ = play(ni, 30, message(system, slot=1, **{"class": 7}), always)
    assert events(rows)[0][1] == Event.DELIVER
    rows, _ = play(ni, 30, message(system, slot=1), always)
    assert events(rows)[0][1] == Event.DUPLICATE
    rows, _ = play(ni, 30, message(system, slot=2), always)
    assert events(rows)[0][1:] == (Event.DROP, Drop.TABLE_FULL)


# Sweeps.


def filled(**ni):
    """An NI that holds entries of nodes 5 and 6, and its system; nobody forgets them."""
    system = system_of(sweep=True, slots=16, **ni)
    found = started(system)
    for source, slot in ((6, 0), (5, 0), (6, 1), (6, 2)):
        rows, _ = play(found, 20, message(system, source=source, slot=slot, length=0))
        assert events(rows)[0][1] == Event.DELIVER
    return found


def swept(rows):
    """(cycle, source, slot) of each entry that is erased."""
    uids = [row[2 * LANE_RX + 1] for row in rows]
    return [
        (cycle, uids[cycle] >> 44, uids[cycle] >> 20 & 0xFFFF)
        for cycle, event, _ in events(rows)
        if event == Event.SWEPT
    ]


@pytest.mark.parametrize("sets", [1, 2, 8])
def test_a_sweep_erases_all_of_its_source_and_is_taken_at_the_end(sets):
    ni = filled(sets=sets, ways=4)
    before = [entry for number in range(sets) for entry in ni.dumped(0, number).entries if entry]
    assert len(before) == 4
    rows, ports = play(ni, 200, sweeps=dict.fromkeys(range(200), 6))
    found = swept(rows)
    assert sorted(slot for _, _, slot in found) == [0, 1, 2] and {source for _, source, _ in found} == {6}
    done = next(cycle for cycle, port in enumerate(ports) if port.sweep_ready)
    # Five cycles for each set and for each entry, unless Ack tokens go first.
    assert done >= 4 + 5 * (sets + 3 - 1)
    assert [entry >> 44 for number in range(sets) for entry in ni.dumped(0, number).entries if entry] == [5]


def test_steps_come_every_five_cycles_and_the_handshake_ends_them():
    system = system_of(sweep=True, sets=2, ways=2)
    rows, ports = play(started(system), 30, sweeps=dict.fromkeys(range(30), 9))
    assert [cycle for cycle, port in enumerate(ports) if port.sweep_ready] == [9, 19, 29]
    assert not events(rows)
    # Dumps wait as for any other request.
    quiet = started(system)
    assert quiet.ports(quiesce=True).dump_ready and not quiet.ports(quiesce=True, sweep=True).dump_ready


@pytest.mark.parametrize("early", range(-1, 7))
def test_a_set_that_has_just_changed_is_looked_at_again(early):
    """A datagram is delivered ``early`` cycles before a step."""
    system = system_of(sweep=True, sets=1, ways=2)
    ni = started(system)
    arrivals = message(system, length=0)
    delivered = len(arrivals) - 1 + ACTS
    at = delivered + early
    rows, ports = play(ni, 40, arrivals, sweeps=dict.fromkeys(range(at - 4, 40), 6))
    # Before the delivery there is nothing yet; in its cycle the message goes first, and a step is chosen a cycle later.
    erased = {-1: at + 10, 0: at + 6, 1: at + 5, 2: at + 5, 3: at + 5, 4: at + 5}.get(early, at)
    assert [cycle for cycle, _, _ in swept(rows)] == [erased]
    assert ports[at].sweep_ready == (early == -1)


def test_a_reset_begins_a_sweep_anew():
    system = system_of(sweep=True, sets=4, ways=1)
    ni = started(system)
    play(ni, 12, sweeps=dict.fromkeys(range(12), 6))
    ni.step(None, None, reset=True, incarnation=2)
    rest = max(system.ni.slots, system.ni.sets)
    _, ports = play(ni, 60, sweeps=dict.fromkeys(range(60), 6))
    assert next(cycle for cycle, port in enumerate(ports) if port.sweep_ready) == rest + 4 + 5 * 3

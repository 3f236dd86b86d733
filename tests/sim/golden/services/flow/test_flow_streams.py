"""Streams of flow against references that keep sets of numbers: what is finished, void, there; limits."""

import random

import numpy as np
import pytest

from lethe.spec.ports import HostPort
from lethe.spec.services.flow import WINDOW, Out
from lethe_sim.golden.services.flow import congestion, merge, probe, state, tick, turns
from lethe_sim.golden.services.flow.state import Flow, InStream, OutStream, Peer, Port, SlotRow
from tests.helpers.flow_oracle import flow_system


def out_stream(base=0):
    stream = OutStream(np.zeros(OutStream.size, np.int64))
    stream.next = stream.base = base
    return stream


def in_stream(expected=0):
    stream = InStream(np.zeros(InStream.size, np.int64))
    stream.expected = expected
    return stream


@pytest.mark.parametrize("seed", range(4))
def test_finished_numbers(seed):
    """Numbers finish in any order; the base is the oldest that has not."""
    chance, stream, finished, base = random.Random(seed), out_stream(250), set(), 0
    for _ in range(2000):
        number = base + chance.randrange(-3, WINDOW + 3)
        if chance.random() < 0.3 and base <= number < base + WINDOW and number not in finished:
            stream.void |= 1 << (number + 250 - stream.base & 255)
        state.finish(stream, number + 250 & 255)
        if base <= number < base + WINDOW:
            finished.add(number)
        while base in finished:
            base += 1
        assert stream.base == base + 250 & 255
        assert {base + k for k in range(WINDOW) if stream.done >> k & 1} == {n for n in finished if n > base}
        assert not any(stream.void >> k & 1 for k in range(WINDOW) if stream.done >> k & 1)


@pytest.mark.parametrize("seed", range(4))
def test_numbers_that_are_there(seed):
    """What is there leaves the window as soon as all before it is there, filled or not."""
    chance, stream, there, expected = random.Random(seed), in_stream(240), {}, 0
    for _ in range(2000):
        number = expected + chance.randrange(WINDOW)
        if number in there:
            continue
        there[number] = chance.random() < 0.7
        stream.present |= 1 << number - expected
        stream.filled |= there[number] << number - expected
        run = []
        while expected + len(run) in there:
            run.append(there[expected + len(run)])
        count, mask = state.shift(stream)
        assert (count, mask & (1 << count) - 1) == (len(run), sum(filled << k for k, filled in enumerate(run)))
        expected += len(run)
        assert stream.expected == expected + 240 & 255
        assert stream.present == sum(1 << n - expected for n in there if n >= expected)


@pytest.mark.parametrize("out", list(Out))
def test_limits(out):
    """A limit is raised by 1 to 16, and not beyond 16 numbers after the next one, while the peer is there."""
    peer = Peer(np.zeros(Peer.size, np.int64))
    peer.out = out
    for following in range(0, 17):
        for credit in range(-40, 60):
            stream = out_stream(200)
            stream.limit, stream.next, stream.asked = 200 + 16 - following & 255, 200, 1
            raises = out in (Out.CONNECTING, Out.UP)
            raises &= 1 <= credit - 16 + following <= 16 and 0 <= credit <= 16
            assert bool(state.raise_limit(peer, stream, 200 + credit & 255)) == raises
            assert stream.limit == (200 + (credit if raises else 16 - following) & 255)
            assert stream.asked == (not raises)


def test_serial_numbers():
    for a in range(256):
        for b in range(0, 256, 7):
            assert bool(state.ahead(a, b)) == ((a - b) % 256 in range(1, 128))


def test_told_limits_go_on_only():
    stream = in_stream()
    for credit, told in ((5, 5), (3, 5), (130, 130), (2, 130), (1, 1), (129, 1), (128, 128)):
        state.told(stream, credit)
        assert stream.told == told


def test_of_copies_the_least_credit_is_told():
    """A repeated datagram may be accepted for an earlier copy, so what all of its copies carried counts."""
    flow = flow_of()
    row = SlotRow(np.zeros(SlotRow.size, np.int64))
    for tries, credit, is_open, told, carried in (
        (0, 9, 1, 9, 1), (1, 12, 1, 9, 1), (2, 7, 1, 7, 1), (3, 255, 1, 255, 1), (4, 3, 1, 255, 1), (5, 254, 0, 254, 0),
        (6, 250, 1, 250, 0), (0, 11, 0, 11, 0), (1, 11, 1, 11, 0), (0, 20, 1, 20, 1),
    ):  # fmt: skip
        flow.merge_tries, flow.merge_credit, flow.merge_open = tries, credit, is_open
        merge.keep(flow, row)
        assert (row.credit, row.carried) == (told, carried), (tries, credit, is_open)


def flow_of(**flow):
    system = flow_system(flow=flow)
    return Flow(state.numbers(system, HostPort.of_ni(system)))


def test_cells_that_are_held():
    """Whoever has cells in use, of which none has moved from one wrap of the watches to the next, asks the sources."""
    flow = flow_of(watch=100)
    flow.ready_from = 40
    for used, since, finds in (
        (0, -1, []), (1, -1, [139, 239, 339]), (1, 38, [139, 239, 339]), (1, 39, [239, 339]), (3, 138, [239, 339]),
        (1, 139, [339]), (2, 140, [339]),
    ):  # fmt: skip
        flow.used, flow.used_since = used, since
        assert [cycle for cycle in range(341) if tick.finds_held(flow, cycle)] == finds
        if used:
            assert [tick.next_finding(flow, cycle) for cycle in (0, 40, 138, 139, 238)] == [139, 139, 139, 239, 239]


def test_offers():
    """Two numbers, and half of the free cells, at most 14."""
    flow = flow_of(cells=40)
    for expected in (0, 250):
        for used in range(41):
            Port(flow, int(flow.at_ports), 1).used = used
            more = min(14, (40 - used) // 2)
            assert state.offer_of(flow, in_stream(expected), 1) == (expected + 2 + more) % 256


def test_what_a_job_offers_is_by_the_cells_of_the_cycle_before():
    """Whatever was taken and freed in that, and in this one before."""
    flow = flow_of(cells=40, in_order=8)
    port = Port(flow, int(flow.at_ports), 1)
    port.used, flow.used = 30, 30
    offers = []
    for cycle, changes in enumerate(((), (1, 1, -1), (-1,), (), (1, -1)), 100):
        for change in changes:
            state.use_cells(flow, port, change, cycle)
        offers.append(state.offer_in(flow, in_stream(0), 1, cycle + 1))
        assert flow.used == port.used and (not changes or flow.used_since == port.since == cycle)
    assert offers == [2 + (40 - used) // 2 for used in (30, 30, 31, 30, 30)]


def test_the_journal_has_room_by_its_level_in_the_cycle_before():
    """If that was stepped, by what it was at its start; else nothing has changed in it."""
    flow = flow_of()
    for stepped, before, level, room in ((99, 1, 5, True), (99, 2, 0, False), (98, 2, 2, True), (98, 0, 3, False)):
        flow.stepped, flow.journal_before, flow.journal[0].level, flow.journal[0].visible = stepped, before, level, 50
        assert bool(state.journal_has_room(flow, 100)) == room, (stepped, before, level)


def test_a_probe_may_begin_a_cycle_after_somebody_is_to_be_probed():
    """If the cycle before was stepped, by how many were to be probed at its start; else by how many are."""
    flow = flow_of()
    for stepped, before, sought, begins in ((99, 0, 1, False), (99, 1, 0, True), (98, 0, 1, True), (98, 1, 0, False)):
        flow.stepped, flow.sought_before, flow.sought, flow.pause_until = stepped, before, sought, 0
        assert bool(probe.is_sought(flow, 100)) == begins, (stepped, before, sought)
        flow.pause_until = 101
        assert not probe.is_sought(flow, 100)


def test_who_acts_in_a_cycle():
    """A job from its cycle on, but not beside a data message that acts in it or in the next, nor beside a credit; a
    VOID not in the two cycles after a data message either.  An attempt also avoids the cycle after a credit, and
    two after a job.
    """
    flow = flow_of()
    start = {"job": 0, "job_at": 0, "job_waits": 0, "acts": 0, "settle_at": 0, "acted_at": 0, "credited_at": 0,
             "data_acted_at": 0}  # fmt: skip
    for job, changes, acts, quiet in (
        (0, {}, False, True), (3, {}, True, False), (3, {"job_at": 101}, False, True),
        (3, {"acts": 1 << 4}, False, True), (3, {"acts": 1 << 5}, False, True), (3, {"acts": 1 << 6}, True, False),
        (3, {"settle_at": 100}, False, False), (3, {"settle_at": 101}, True, False),
        (3, {"data_acted_at": 99}, True, False), (8, {"job_waits": 1, "data_acted_at": 99}, True, False),
        (0, {"acted_at": 99}, False, False), (0, {"acted_at": 98}, False, False), (0, {"acted_at": 97}, False, True),
        (0, {"credited_at": 99}, False, False), (0, {"credited_at": 98}, False, True),
        (2, {"job_waits": 1, "data_acted_at": 99}, False, True), (2, {"data_acted_at": 99}, True, False),
        (2, {"job_waits": 1, "data_acted_at": 98}, False, True),
        (2, {"job_waits": 1, "data_acted_at": 97}, True, False),
    ):  # fmt: skip
        for name, value in {**start, "job": job, **changes}.items():
            setattr(flow, name, value)
        assert (bool(turns.job_acts(flow, 100)), bool(turns.quiet(flow, 100))) == (acts, quiet), (job, changes)


def test_congestion_begins_at_a_limit_and_ends_below_half_of_both():
    """Of bytes, `receive_limit`; of placed cells half: here 6 of 12; of used ones all but R, 8."""
    flow = flow_of(receive_limit=64, cells=12, in_order=4)
    port = Port(flow, int(flow.at_ports), 1)
    for congested, size, placed, bound, flips, limit, *used in (
        # By bytes, with few cells placed.
        (0, 63, 1, 1, 0, 64), (0, 64, 1, 1, 1, 64), (0, 64, 1, 0, 0, 64), (1, 64, 1, 1, 0, 64), (1, 32, 1, 1, 0, 64),
        (1, 31, 1, 1, 1, 64), (1, 64, 1, 0, 1, 64),
        # By cells, with few bytes.
        (0, 0, 5, 1, 0, 64), (0, 0, 6, 1, 1, 64), (0, 0, 12, 1, 1, 64), (0, 0, 6, 0, 0, 64), (1, 0, 6, 1, 0, 64),
        (1, 0, 3, 1, 0, 64), (1, 0, 2, 1, 1, 64), (1, 0, 12, 0, 1, 64),
        # By cells that are not placed.
        (0, 0, 0, 1, 0, 64, 7), (0, 0, 0, 1, 1, 64, 8), (0, 0, 0, 0, 0, 64, 8), (1, 0, 0, 1, 0, 64, 4),
        (1, 0, 0, 1, 1, 64, 3), (1, 32, 0, 1, 0, 64, 3), (1, 0, 3, 1, 0, 64, 3), (1, 0, 0, 0, 1, 64, 12),
        # Either makes it congested; both must be low for an end.
        (0, 64, 5, 1, 1, 64), (0, 63, 6, 1, 1, 64), (0, 63, 5, 1, 0, 64), (0, 64, 6, 1, 1, 64), (1, 31, 3, 1, 0, 64),
        (1, 32, 2, 1, 0, 64), (1, 31, 2, 1, 1, 64),
        # A limit of 0 keeps a bound port congested.
        (0, 0, 0, 1, 1, 0), (1, 0, 0, 1, 0, 0), (1, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 0),
    ):  # fmt: skip
        port.congested, port.bytes, port.placed, port.bound, port.receive_limit = congested, size, placed, bound, limit
        port.used = used[0] if used else placed
        congestion.weigh_port(flow, 1)
        assert flow.flips == flips << 1, (congested, size, placed, bound, limit)
        # Its turn is every other cycle.
        assert [congestion.look(flow, flow.begun + cycle) for cycle in range(4)] == ([0, 2] * 2 if flips else [0] * 4)


@pytest.mark.parametrize(("cells", "on", "off"), [(2, 1, 0), (3, 2, 0), (4, 2, 0), (5, 3, 1), (32, 16, 7)])
def test_cells_from_which_on_a_port_is_congested(cells, on, off):
    """With half of its cells it becomes so; ``off`` is the greatest count below a quarter."""
    flow = flow_of(cells=cells, in_order=1)
    port = Port(flow, int(flow.at_ports), 0)
    port.bound, port.receive_limit = 1, 64
    for placed in range(cells + 1):
        for congested, flips in ((0, placed >= on), (1, placed <= off)):
            port.congested, port.placed, port.used = congested, placed, placed
            congestion.weigh_port(flow, 0)
            assert bool(flow.flips) == flips, (placed, congested)

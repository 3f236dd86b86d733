"""The outbox event by event: order of what is sent again, one long message at a time (RDS-43, RDS-47)."""

from collections import deque

import pytest

from lethe.spec.events import Cause, Status
from lethe_sim.rds import RdsNetwork, Socket
from lethe_sim.rds.transport import (
    AGAIN,
    FIRST,
    LAST,
    NOWAIT,
    Accepted,
    Answered,
    DatagramEnd,
    FlowRecord,
    Happening,
    Noticed,
    Restarted,
    SettingCode,
)
from tests.helpers.rds_sockets import bound

B = ("10.0.0.2", 4002)


class ByHand:
    """A transport whose events a test makes; only `set` is answered by itself."""

    nodes, ports, mtu, tags, receive_limit = 2, 16, 4, 64, 160
    cycle, at, idle = 0, 0, False

    def __init__(self):
        self.offered: deque[FlowRecord] = deque()
        self.cancelled: list[tuple[int, int]] = []
        self.told: list[Happening] = []

    def send(self, node: int, datagram: FlowRecord) -> None:
        self.offered.append(datagram)
        self.at = self.cycle

    def set(self, node: int, code: SettingCode, index: int, value: int) -> None:
        self.told.append(Answered(node, self.cycle, 0))

    def cancel(self, node: int, slot: int, generation: int) -> None:
        self.cancelled.append((slot, generation))

    def receive(self, node: int, mask: int) -> None:
        pass

    def advance(self, cycles: int) -> list[Happening]:
        self.cycle += 1 if self.told else cycles
        told, self.told = self.told, []
        return told

    def close(self) -> None:
        pass


class Bench:
    """A socket of node 0, and what its node offers."""

    def __init__(self):
        self.transport = ByHand()
        self.network = RdsNetwork(self.transport)
        self.socket: Socket = bound(self.network, 0, 4001)

    def offered(self) -> list[FlowRecord]:
        """What is offered now; each is accepted in turn, with its tag as its slot."""
        found = []
        while True:
            for _ in range(2):
                self.network.go_on(self.transport.cycle + 1)
            if not self.transport.offered:
                return found
            datagram = self.transport.offered.popleft()
            assert not self.transport.offered, "a stream offers one at a time"
            found.append(datagram)
            self.transport.told.append(Accepted(0, self.transport.cycle, datagram.tag, 0, datagram.tag))

    def first(self) -> FlowRecord:
        """What is offered now, and not answered yet."""
        self.network.go_on(self.transport.cycle + 1)
        return self.transport.offered.popleft()

    def end(self, datagram: FlowRecord, status: Status = Status.ACCEPTED, cause: Cause = Cause.NONE) -> None:
        """A datagram ends."""
        tag = datagram.tag
        self.transport.told.append(DatagramEnd(0, self.transport.cycle, tag, 0, 1, tag, status, cause))


def test_what_is_sent_again_goes_before_what_was_behind_it_and_waits_for_it():
    bench = Bench()
    for message in (b"0", b"1", b"2"):
        bench.socket.sendto(message, B)
    sent = bench.offered()
    assert [(d.payload, d.flags) for d in sent] == [(m, FIRST | LAST | NOWAIT) for m in (b"0", b"1", b"2")]
    bench.socket.sendto(b"3", B)
    (third,) = bench.offered()
    bench.end(sent[1], Status.UNKNOWN, Cause.CANCELLED)
    assert bench.offered() == []
    bench.socket.sendto(b"4", B)
    assert bench.offered() == []
    bench.end(third, Status.NEVER_SENT, Cause.CANCELLED)
    bench.end(sent[0], Status.UNKNOWN, Cause.RESTARTED)
    assert bench.offered() == []
    bench.end(sent[2])
    again = bench.offered()
    assert [(d.payload, bool(d.flags & AGAIN)) for d in again] == [
        (b"0", True), (b"1", True), (b"3", False), (b"4", False),
    ]  # fmt: skip


def test_a_long_message_behind_one_that_failed_begins_anew():
    bench = Bench()
    bench.socket.sendto(b"0", B)
    bench.socket.sendto(b"abcdefghij", B)
    zero = bench.first()
    bench.transport.told.append(Accepted(0, 0, zero.tag, 0, zero.tag))
    bench.network.go_on(bench.transport.cycle + 1)
    part = bench.first()
    assert (part.payload, part.flags) == (b"abcd", FIRST | NOWAIT)
    bench.transport.told.append(Accepted(0, 0, part.tag, 0, part.tag))
    bench.end(zero, Status.UNKNOWN, Cause.CANCELLED)
    bench.network.go_on(bench.transport.cycle + 1)
    assert bench.offered() == []
    bench.end(part)
    again = bench.offered()
    assert [d.payload for d in again] == [b"0", b"abcd", b"efgh", b"ij"]
    # A long message of which a part was not sent has not arrived before.
    assert [bool(d.flags & AGAIN) for d in again] == [True, False, False, False]


@pytest.mark.parametrize("news", [Restarted(0, 0), Noticed(0, 0, 1, False, 0)], ids=["reset", "peer gone"])
def test_a_long_message_begins_anew_even_if_nothing_of_it_is_under_way(news):
    """RDS-42, RDS-43: the parts that were acknowledged are gone at the other side, so the rest alone is no message."""
    bench = Bench()
    bench.socket.sendto(b"abcdefghij", B)
    part = bench.first()
    bench.transport.told.append(Accepted(0, 0, part.tag, 0, part.tag))
    bench.end(part)
    bench.network.go_on(bench.transport.cycle + 1)
    bench.end(bench.first(), Status.REJECTED, Cause.CONGESTED)
    bench.network.go_on(bench.transport.cycle + 1)
    bench.transport.told += [news, Noticed(0, 0, 1, True, 0)]
    bench.network.go_on(bench.transport.cycle + 1)
    again = bench.offered()
    # A long message of which a part was not sent has not arrived before.
    assert [d.payload for d in again] == [b"abcd", b"efgh", b"ij"] and not any(d.flags & AGAIN for d in again)
    for datagram in again:
        bench.end(datagram)
    assert bench.offered() == [] and bench.network.information(0).counters["send_drop_acked"] == 1


def test_a_long_message_is_not_mixed_with_another_sockets():
    bench = Bench()
    other = bound(bench.network, 0, 4003)
    bench.socket.sendto(b"abcdefghij", B)
    other.sendto(b"x", B)
    other.sendto(b"12345", ("10.0.0.2", 4018))
    assert [d.payload for d in bench.offered()] == [b"abcd", b"efgh", b"ij", b"x", b"1234", b"5"]


def test_refusals_are_offered_again_after_their_pause():
    """The pause is that of the cause; what tells that it is worth while ends it."""
    pauses = {Cause.NOT_CONNECTED: 512, Cause.BUFFER: 256, Cause.WINDOW: 32, Cause.CONGESTED: 2048}
    for cause, least in pauses.items():
        bench = Bench()
        bench.socket.sendto(b"0", B)
        datagram = bench.first()
        bench.end(datagram, Status.REJECTED, cause)
        bench.network.go_on(bench.transport.cycle + 1)
        refused = bench.transport.cycle
        while not bench.transport.offered:
            bench.network.go_on()
        assert least - 2 <= bench.transport.at - refused <= least + 2, cause


def test_no_more_datagrams_are_under_way_than_there_are_tags():
    bench = Bench()
    bench.transport.tags = 2
    for message in (b"0", b"1", b"2"):
        bench.socket.sendto(message, B)
    first, second = bench.offered()
    assert first.tag != second.tag
    bench.end(second)
    (third,) = bench.offered()
    assert (third.payload, third.tag) == (b"2", second.tag)


def test_news_of_a_peer_ends_a_pause():
    """A peer that comes up, and a port that is congested no more."""
    for cause in (Cause.NOT_CONNECTED, Cause.CONGESTED):
        bench = Bench()
        bench.socket.sendto(b"0", B)
        bench.end(bench.first(), Status.REJECTED, cause)
        bench.network.go_on(bench.transport.cycle + 1)
        bench.transport.told.append(Noticed(0, bench.transport.cycle, 1, True, 0))
        bench.network.go_on(bench.transport.cycle + 1)
        assert bench.first().payload == b"0", cause


def test_a_cancelled_message_cancels_its_datagrams():
    """RDS-20: those under way, and one whose answer is still to come."""
    bench = Bench()
    bench.socket.sendto(b"abcdefgh", B)
    first = bench.first()
    bench.socket.cancel_sent_to(B)
    assert bench.transport.cancelled == []
    bench.transport.told.append(Accepted(0, 0, 7, 3, first.tag))
    assert bench.offered() == [] and bench.transport.cancelled == [(7, 3)]
    bench.end(first, Status.UNKNOWN, Cause.CANCELLED)
    assert bench.offered() == []
    assert bench.network.information(0).counters["send_cancelled"] == 1

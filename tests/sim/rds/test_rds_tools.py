"""`rds-ping`, `rds-stress` and `rds-info` as functions (RDS-39, RDS-48)."""

from dataclasses import replace

import pytest

from lethe_sim.rds import RdsNetwork, info, ping, stress
from lethe_sim.rds import constants as rds
from tests.helpers.rds_sockets import bound, until_quiet
from tests.helpers.rds_transport import ReferenceTransport


def addresses(network: RdsNetwork) -> list[str]:
    return [network.addresses.of(node.number) for node in network.nodes]


def test_a_ping_is_answered_from_port_0(network):
    """RDS-48: an empty message to port 0."""
    a = bound(network, 0, 4001)
    for to in ("10.0.0.3", "10.0.0.1"):
        a.sendto(b"what it says does not matter", (to, 0))
        assert a.recvfrom(9) == (b"", (to, 0))
    counters = network.information().counters
    assert (counters["recv_ping"], counters["send_pong"]) == (2, 2)


def test_ping_tells_round_trips(network):
    answers = list(ping.ping(network, 0, "10.0.0.1", "10.0.0.3", count=4))
    assert [answer.number for answer in answers] == [1, 2, 3, 4]
    assert all(answer.cycles is not None and answer.cycles >= 40 for answer in answers)
    assert ping.told(ping.Answer(2, 1234)) == "   2: 1,234 cycles"
    # The port is free again, and the network was given its pauses.
    assert network.cycle > 3000
    assert network.information(0).sockets[1:] == []


def test_ping_tells_that_nobody_answers(network):
    network.transport.cut(0, 2)
    answers = []
    for answer in ping.ping(network, 0, "10.0.0.1", "10.0.0.3", count=3, patience=5000, interval=6000):
        answers.append(answer)
        if answer.number == 2:
            network.transport.heal(0, 2)
    assert [answer.cycles is None for answer in answers] == [True, True, False]
    assert ping.told(answers[0]) == "   1: no answer"
    assert ping.lines(answers[:2]) == ["0 of 2 pings answered"]


def test_a_ping_to_a_congested_port_has_no_answer(network):
    """It is not sent, and ends all the same."""
    network.nodes[1].stop(0)
    answers = list(ping.ping(network, 0, "10.0.0.1", "10.0.0.2", count=2, patience=5000))
    assert [answer.cycles for answer in answers] == [None, None]


def test_the_median_of_pings():
    def answers(*cycles):
        return [ping.Answer(n, one) for n, one in enumerate(cycles, 1)]

    assert ping.lines(answers(30, 10, None, 20)) == ["3 of 4 pings answered; cycles: least 10, median 20, most 30"]
    assert ping.lines(answers(40, 10, 20, 30)) == ["4 of 4 pings answered; cycles: least 10, median 25, most 40"]


def run(network: RdsNetwork, **options: int) -> list[stress.Interval]:
    running = stress.Running(network, addresses(network), stress.Stress(**options))
    try:
        return list(running.run())
    finally:
        running.close()


def test_a_stress_checks_every_message():
    """RDS-01, RDS-02: N sockets of a node share what it has to each peer."""
    with RdsNetwork(ReferenceTransport(4, seed=2)) as network:
        intervals = run(network, tasks=16, depth=2, request=100, ack=20, cycles=6000, interval=2000)
        requests, acks = (sum(getattr(i, name) for i in intervals) for name in ("requests", "acks"))
        assert requests == acks > 100
        assert sum(i.bytes for i in intervals) == 100 * requests + 20 * acks
        assert sum(len(i.round_trips) for i in intervals) == acks
        assert [i.start for i in intervals[1:]] == [i.end for i in intervals[:-1]]
        assert network.information().counters["send_given_up"] == 0


def test_a_stress_tells_its_intervals():
    with RdsNetwork(ReferenceTransport(4, seed=2)) as network:
        running = stress.Running(network, addresses(network), stress.Stress(tasks=4, cycles=6000, interval=2000))
        started = network.cycle
        head, *lines, found = running.lines()
        assert len(lines) >= 3 and {len(line) for line in lines} == {len(head)}
        requests = sum(int(line.split()[1].replace(",", "")) for line in lines)
        acks = sum(task.answered for task in running.tasks)
        assert requests == acks > 0
        cycles = network.cycle - started
        told = f"{requests:,} requests and {acks:,} acks of 4 sockets in {cycles:,} cycles: "
        assert found == told + "every one whole, once and in order"
        running.close()


def test_a_stress_of_a_congested_network_goes_on():
    """Requests larger than what a port takes (RDS-15, RDS-23)."""
    with RdsNetwork(ReferenceTransport(2, seed=4, cells=10, in_order=4, receive_limit=64)) as network:
        intervals = run(network, tasks=6, depth=8, request=300, ack=300, cycles=4000)
        assert sum(i.refused for i in intervals) > 0
        assert sum(i.requests for i in intervals) == sum(i.acks for i in intervals) > 20


class Tampering(ReferenceTransport):
    """Changes one of the messages that arrive."""

    def __init__(self, change, **options):
        super().__init__(4, loss=0, **options)
        self.change, self.seen = change, 0

    def advance(self, cycles):
        told = []
        for event in super().advance(cycles):
            if hasattr(event, "payload") and event.payload:
                self.seen += 1
                told += self.change(event) if self.seen == 9 else [event]
            else:
                told.append(event)
        return told


def changed(**fields):
    return lambda event: [replace(event, **{name: value(event) for name, value in fields.items()})]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed(payload=lambda event: event.payload[:-1] + bytes([event.payload[-1] ^ 1])), "are not what was sent"),
        (changed(payload=lambda event: event.payload[:-1]), "19 bytes are not what was sent"),
        (changed(payload=lambda event: event.payload[:5]), r"\d+ to 10\.0\.0\.\d:\d+: 5 bytes"),
        (changed(sport=lambda event: event.sport ^ 64), "where nobody is"),
        (lambda event: [event, event], ": twice"),
        (lambda event: [], ": one is lost|requests are unanswered"),
    ],
)
def test_a_stress_finds_what_is_wrong(change, said):
    with RdsNetwork(Tampering(change)) as network, pytest.raises(stress.Wrong, match=said):
        run(network, tasks=8, request=20, ack=20, cycles=5000, patience=20_000)


def test_patience_ends_a_stress_between_two_lines():
    with RdsNetwork(Tampering(lambda event: [])) as network:
        began = network.cycle
        with pytest.raises(stress.Wrong, match=r"nothing has arrived for 10 cycles, and \d+ requests are unanswered"):
            run(network, tasks=8, request=20, ack=20, cycles=5000, patience=10)
        assert network.cycle - began < 2000


def test_a_repeated_message_that_says_so_is_no_mistake():
    """RDS-43: after a cut."""
    with RdsNetwork(ReferenceTransport(2, seed=3, watch=500)) as network:
        asked = stress.Stress(tasks=4, request=60, ack=60, cycles=20_000, interval=1000)
        running = stress.Running(network, addresses(network), asked)
        intervals = []
        for interval in running.run():
            intervals.append(interval)
            if len(intervals) == 3:
                network.transport.cut(0, 1)
            if len(intervals) == 4:
                network.transport.heal(0, 1)
        assert sum(i.again for i in intervals) > 0
        assert sum(i.requests for i in intervals) == sum(i.acks for i in intervals)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tasks": 1}, "tasks: must be at least 2, not 1"),
        ({"depth": 0}, "depth: must be at least 1, not 0"),
        ({"cycles": 0}, "cycles: must be at least 1"),
        ({"request": 13}, "request: must be 14 to 1,048,576 bytes, not 13"),
        ({"ack": (1 << 20) + 1}, "ack: must be 14 to 1,048,576 bytes"),
    ],
)
def test_options_that_a_stress_refuses(options, said):
    with pytest.raises(ValueError, match=said):
        stress.Stress(**options)


def test_info_has_the_tables_of_rds_info(network):
    """RDS-39: statistics; RDS-24: numbers of 64 bits."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    a.connect(("10.0.0.2", 4002))
    for n in range(300):
        a.send(b"%d" % n)
        b.recv(9)
    a.send(b"waits")
    until_quiet(network)
    network.transport.cut(0, 1)
    a.send(bytes(100))
    network.go_on(network.cycle + 20)
    network.go_on(network.cycle + 20)
    found = network.information()
    (socket,) = [row for row in found.sockets if row.port == 4001]
    assert (socket.peer_address, socket.peer_port, socket.queued) == ("10.0.0.2", 4002, 100)
    out, back = (next(row for row in found.streams if row.node == node) for node in (0, 1))
    # Parts of the last one may have their numbers already.
    assert out.next_tx >= 301 and back.next_rx == 301 and (out.state, back.state) == ("UP", "DOWN")
    assert [(row.number, row.length, row.remote_port) for row in found.receive] == [(300, 5, 4001)]
    assert [row.length for row in found.send + found.unanswered] == [100]
    text = info.lines(found, "kn")
    assert text[0] == "Sockets:" and "Connections:" in text and "Counters:" not in text
    assert [line.split() for line in text if "4001" in line] == [
        ["10.0.0.1", "4001", "10.0.0.2", "4002", "212992", "100", "212992", "0"]
    ]
    everything = info.lines(found)
    assert [line for line in everything if line.endswith(":")] == [
        "Counters:", "Sockets:", "Connections:", "Receive queue:", "Send queue:", "Unanswered:"
    ]  # fmt: skip
    assert ["send_queued", "302"] in [line.split() for line in everything]
    assert sum(network.information(n).counters["send_queued"] for n in range(4)) == 302


def test_stress_sets_its_sockets_options(network):
    running = stress.Running(network, addresses(network), stress.Stress(tasks=2, depth=3, request=1000))
    socket = running.tasks[0].socket
    assert socket.getsockopt(rds.SOL_SOCKET, rds.SO_SNDBUF) == 6000
    assert socket.getsockopt(rds.SOL_RDS, rds.RDS_CONG_MONITOR) == 1
    running.close()
    running = stress.Running(network, addresses(network), stress.Stress(tasks=2, depth=1 << 20, request=1 << 20))
    assert running.tasks[0].socket.getsockopt(rds.SOL_SOCKET, rds.SO_SNDBUF) == (1 << 31) - 1
    running.close()

"""Full queues, congestion and its monitor (RDS-10, 15, 16, 19, 23, 36, 37, 38)."""

import errno

import pytest

from lethe_sim.rds import RdsNetwork
from lethe_sim.rds import constants as rds
from lethe_sim.rds.notices import uncongested
from lethe_sim.rds.transport import SettingCode
from tests.helpers.rds_sockets import bound, raises, until_quiet
from tests.helpers.rds_transport import ReferenceTransport

B = ("10.0.0.2", 4002)


def congest(network, sender, receiver, *, rcvbuf: int = 100):
    """Fill a port that nobody reads, until sends to it are refused."""
    receiver.setsockopt(rds.SOL_SOCKET, rds.SO_RCVBUF, rcvbuf)
    sender.setblocking(False)
    for sent in range(1000):
        try:
            sender.sendto(bytes([sent]) * 20, receiver.getsockname())
        except OSError as error:
            assert error.errno == errno.ENOBUFS
            return sent
        network.run(300)
    raise AssertionError("never congested")


def test_a_port_is_congested_from_rcvbuf_on_and_loses_nothing(network):
    """RDS-10, RDS-36: 5 messages of 20 bytes reach 100; what is on its way is taken, too; only payload counts."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    a.sendto(b"", B)
    until_quiet(network)
    sent = congest(network, a, b)
    assert 5 <= sent < 30
    (row,) = [row for row in network.information(1).sockets if row.port == 4002]
    assert row.waiting >= 100
    assert network.information(1).counters["recv_congested"] == 1
    a.setblocking(True)
    a.sendto(b"", ("10.0.0.3", 4003))
    assert b.recv(1) == b""
    assert [b.recv(99) for _ in range(sent)] == [bytes([n]) * 20 for n in range(sent)]


def test_it_is_congested_no_more_below_half_of_rcvbuf(network):
    """RDS-16: and all peers are told."""
    a, b, c = bound(network, 0, 4001), bound(network, 1, 4002), bound(network, 2, 4003)
    c.sendto(b"c", B)
    until_quiet(network)
    b.recv(9)
    congest(network, a, b)
    c.setblocking(False)
    with raises(errno.ENOBUFS):
        c.sendto(b"", B)
    transport = network.transport
    before = len(transport.settings)
    (row,) = [row for row in network.information(1).sockets if row.port == 4002]
    # What is read leaves room, and what waited below comes; the port opens again when less than half is there.
    waiting, read = row.waiting, 0
    while transport.settings[before:] == []:
        read += len(b.recv(99))
    assert waiting - read < 50 <= waiting - read + 20
    assert transport.settings[before:] == [(1, SettingCode.RECEIVE_LIMIT, 2, transport.receive_limit)]
    while b.poll(rds.POLLIN, 2000):
        b.recv(99)
    for socket in (a, c):
        assert socket.sendto(b"", B) == 0


def test_a_send_that_waits_goes_on_when_the_port_is_read(network):
    """RDS-38: a socket that waits is blocked, another gets ENOBUFS at once."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    congest(network, a, b)
    a.settimeout(700)
    with pytest.raises(TimeoutError):
        a.sendto(b"late", B)
    counters = network.information(0).counters
    assert (counters["cong_send_error"], counters["cong_send_blocked"]) == (2, 0)
    # The rest is read while the call waits: a call of its own is what lets time pass.
    waiting = network.nodes[0]
    call = network.begin(a.descriptor, "send", (b"late", B, 0))
    assert next(call) == errno.ENOBUFS
    while b.poll(rds.POLLIN, 2000):
        b.recv(99)
    with pytest.raises(StopIteration):
        while True:
            next(call)
            network.go_on()
    assert waiting.counters.cong_send_blocked == 1
    assert b.recv(9) == b"late"


def test_other_ports_of_the_node_do_not_notice():
    """RDS-36, RDS-38: the bit is the port's."""
    with RdsNetwork(ReferenceTransport(3, seed=5)) as network:
        a, b, other = bound(network, 0, 4001), bound(network, 1, 4002), bound(network, 1, 4003)
        congest(network, a, b)
        for n in range(200):
            a.sendto(bytes([n]) * 20, ("10.0.0.2", 4003))
            assert other.recv(99) == bytes([n]) * 20


def test_poll_alone_does_not_know_of_congestion(network):
    """RDS-19: POLLOUT says only that the queue has room."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    congest(network, a, b)
    until = network.cycle
    assert a.poll(rds.POLLOUT, 0) == rds.POLLOUT and network.cycle == until
    with raises(errno.ENOBUFS):
        a.sendto(b"x", B)


def test_the_monitor_wakes_who_met_congestion(network):
    """RDS-23: a refused send arms bit (port mod 64); the notice tells which armed bits are free."""
    a, b, idle = bound(network, 0, 4001), bound(network, 1, 4002), bound(network, 0, 4003)
    for socket in (a, idle):
        socket.setsockopt(rds.SOL_RDS, rds.RDS_CONG_MONITOR, 1)
    congest(network, a, b)
    assert a.poll(rds.POLLIN, 500) == 0
    while b.poll(rds.POLLIN, 500):
        b.recv(99)
    assert a.poll(rds.POLLIN, 5000) == rds.POLLIN
    data, ancdata, flags, address = a.recvmsg(99)
    assert (data, flags, address) == (b"", 0, None)
    ((level, kind, mask),) = ancdata
    assert (level, kind, uncongested(mask)) == (rds.SOL_RDS, rds.RDS_CMSG_CONG_UPDATE, 1 << 4002 % 64)
    # It is told once, and only to who was refused.
    assert a.poll(rds.POLLIN, 500) == 0 and idle.poll(rds.POLLIN, 0) == 0
    assert a.sendto(b"x", B) == 1


def test_who_asks_for_the_monitor_no_more_is_told_nothing(network):
    """As in Linux: what is armed, or is to be told, is forgotten."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    a.setsockopt(rds.SOL_RDS, rds.RDS_CONG_MONITOR, 1)
    congest(network, a, b)
    while b.poll(rds.POLLIN, 500):
        b.recv(99)
    assert a.poll(rds.POLLIN, 5000) == rds.POLLIN
    for value in (0, 1):
        a.setsockopt(rds.SOL_RDS, rds.RDS_CONG_MONITOR, value)
    assert a.poll(rds.POLLIN, 100) == 0


def test_a_notice_without_room_is_lost_and_the_flag_says_so(network):
    """As a system call does it (RDS-17)."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    a.setsockopt(rds.SOL_RDS, rds.RDS_CONG_MONITOR, 1)
    congest(network, a, b)
    while b.poll(rds.POLLIN, 500):
        b.recv(99)
    assert a.poll(rds.POLLIN, 5000)
    assert a.recvmsg(99, 23) == (b"", [], rds.MSG_CTRUNC, None)
    assert a.poll(rds.POLLIN, 100) == 0


def test_without_the_monitor_news_wakes_once(network):
    """RDS-18: with POLLWRBAND, and nothing to read."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    congest(network, a, b)
    while b.poll(rds.POLLIN, 500):
        b.recv(99)
    assert a.poll(rds.POLLIN | rds.POLLWRBAND, 5000) == rds.POLLIN | rds.POLLWRBAND
    assert a.poll(rds.POLLIN | rds.POLLWRBAND, 500) == 0
    with raises(errno.EAGAIN):
        a.recv(9)


def test_the_own_node_is_congested_too(network):
    """RDS-39: messages to the own node follow the same rules."""
    a, b = bound(network, 1, 4001), bound(network, 1, 4002)
    a.setsockopt(rds.SOL_RDS, rds.RDS_CONG_MONITOR, 1)
    sent = congest(network, a, b)
    assert [b.recv(99) for _ in range(sent)] == [bytes([n]) * 20 for n in range(sent)]
    assert a.poll(rds.POLLIN, 2000) == rds.POLLIN
    assert a.recvmsg(0).address is None
    assert a.sendto(b"x", B) == 1


def test_a_larger_rcvbuf_frees_a_port_at_once(network):
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    congest(network, a, b)
    b.setsockopt(rds.SOL_SOCKET, rds.SO_RCVBUF, 10_000)
    network.run(2000)
    assert a.sendto(b"x", B) == 1


def test_too_many_empty_messages_close_a_port_too(network):
    """They count nothing to SO_RCVBUF, but a queue holds 4,096."""
    a, b = bound(network, 1, 4001), bound(network, 1, 4002)
    counters = network.nodes[1].counters
    for _ in range(4000):
        a.sendto(b"", B)
    a.drain()
    assert counters.recv_congested == 0
    for _ in range(96):
        a.sendto(b"", B)
    until_quiet(network)
    assert counters.recv_congested == 1
    with raises(errno.ENOBUFS):
        a.sendto(b"", rds.MSG_DONTWAIT, B)
    assert [b.recv(0) for _ in range(4096)] == [b""] * 4096

"""Resets, peers that are gone, and messages that ended without an answer (RDS-42, RDS-43)."""

import errno
from collections import Counter

import pytest

from lethe.spec.events import Cause, Status
from lethe_sim.rds import GivenUp, RdsNetwork
from lethe_sim.rds import constants as rds
from lethe_sim.rds.notices import uncongested
from tests.helpers.rds_sockets import bound, raises, until_quiet
from tests.helpers.rds_transport import ReferenceTransport

B = ("10.0.0.2", 4002)
FLUSH = (rds.SOL_RDS, rds.SO_RDS_ENDED, rds.FLUSH)


def read(network, socket) -> list[tuple[bytes, bool]]:
    """What waits, and whether it may have come before."""
    found = []
    while socket.poll(rds.POLLIN, 0):
        data, ancdata, *_ = socket.recvmsg(1 << 20)
        found.append((data, ancdata == [(rds.SOL_RDS, rds.RDS_CMSG_AGAIN, b"")]))
    return found


def test_a_user_never_sees_that_a_peer_is_not_connected():
    """RDS-12, RDS-42: the first send connects, for as long as that takes."""
    with RdsNetwork(ReferenceTransport(2)) as network:
        network.transport.cut(0, 1)
        a, b = bound(network, 0, 4001), bound(network, 1, 4002)
        a.sendto(b"patience", B)
        network.run(50_000)
        assert network.information(0).streams[0].state == "CONNECTING"
        network.transport.heal(0, 1)
        assert b.recv(9) == b"patience"
        assert network.information(0).streams[0].state == "UP"


@pytest.mark.parametrize("seed", range(8))
def test_what_ended_without_an_answer_is_sent_again_and_says_so(seed):
    """RDS-43: each message arrives; a second time only with the notice; those sent again keep their order."""
    with RdsNetwork(ReferenceTransport(2, seed=seed, loss=0.2)) as network:
        a, b = bound(network, 0, 4001), bound(network, 1, 4002)
        messages = [bytes([n]) * (1 + n % 3 * 40) for n in range(40)]
        for n, message in enumerate(messages):
            a.sendto(message, B)
            if n in (10, 25):
                network.run(200)
                network.transport.cut(0, 1)
                network.run(4000)
                network.transport.heal(0, 1)
        until_quiet(network)
        got = read(network, b)
        assert {data for data, _ in got} == set(messages)
        twice = Counter(data for data, _ in got)
        assert all(count == 1 or (data, True) in got for data, count in twice.items())
        again = [data[0] for data, flag in got if flag]
        assert again == sorted(again)
        assert network.information(0).counters["send_again"] > 0
        assert network.information(0).counters["conn_reset"] == 2


@pytest.mark.parametrize("seed", range(8))
def test_flush_gives_up_and_tells(seed):
    """RDS-43, RDS-17: each message arrives once or is told of; what never left is sent later."""
    with RdsNetwork(ReferenceTransport(2, seed=seed, loss=0.2)) as network:
        a, b = bound(network, 0, 4001), bound(network, 1, 4002)
        a.setsockopt(*FLUSH)
        a.setsockopt(rds.SOL_RDS, rds.RDS_RECVERR, 1)
        for n in range(30):
            a.sendto(bytes([n]) * (1 + n % 3 * 40), B)
            if n == 20:
                network.run(300)
                network.transport.cut(0, 1)
                network.run(4000)
                network.transport.heal(0, 1)
        until_quiet(network)
        got = read(network, b)
        assert all(not again for _, again in got)
        told = []
        while a.poll(rds.POLLIN, 0):
            data, ancdata, flags, address = a.recvmsg(99)
            assert (data, flags, address) == (b"", 0, None)
            told += [GivenUp.unpack(data) for level, kind, data in ancdata if kind == rds.RDS_CMSG_GIVEN_UP]
        assert told and all((up.address, up.status) == (B, Status.UNKNOWN) for up in told)
        assert all(up.cause is Cause.CANCELLED and up.length == 1 + up.number % 3 * 40 for up in told)
        arrived = Counter(data[0] for data, _ in got)
        assert set(arrived) | {up.number for up in told} == set(range(30))
        assert max(arrived.values()) == 1
        assert network.information(0).counters["send_given_up"] == len(told)


def test_notices_that_have_no_room_wait_for_the_next_call():
    with RdsNetwork(ReferenceTransport(2)) as network:
        a = bound(network, 0, 4001)
        a.setsockopt(*FLUSH)
        a.setsockopt(rds.SOL_RDS, rds.RDS_RECVERR, 1)
        bound(network, 1, 4002)
        a.sendto(b"", B)
        a.drain()
        network.transport.cut(0, 1)
        for _ in range(3):
            a.sendto(b"x", B)
        network.run(3000)
        sizes = []
        while a.poll(rds.POLLIN, 0):
            sizes.append(len(a.recvmsg(0, 80).ancdata))
        assert sum(sizes) == 3 and max(sizes) <= 2


@pytest.mark.parametrize("seed", range(8))
def test_a_receiver_that_is_reset_is_bound_again(seed):
    """RDS-42: its sockets stay; every message that is sent later arrives."""
    with RdsNetwork(ReferenceTransport(3, seed=seed, loss=0.2)) as network:
        a, b, c = bound(network, 0, 4001), bound(network, 1, 4002), bound(network, 2, 4003)
        for n in range(20):
            a.sendto(bytes([n]) * 50, B)
            c.sendto(bytes([n]) * 5, B)
        network.run(400)
        network.transport.reset(1)
        network.run(3000)
        for n in range(20, 30):
            a.sendto(bytes([n]) * 50, B)
        until_quiet(network)
        got = [data[0] for data, _ in read(network, b) if len(data) == 50]
        assert set(range(20, 30)) <= set(got)
        assert all(len(set(data)) == 1 for data, _ in read(network, b))
        # What b sends goes, too.
        b.sendto(b"alive", ("10.0.0.1", 4001))
        assert a.recvfrom(9) == (b"alive", B)


@pytest.mark.parametrize("seed", range(8))
def test_a_sender_that_is_reset_sends_all_that_has_not_ended(seed):
    """RDS-43: the driver outlives the reset; parts of a message from before it are no message."""
    with RdsNetwork(ReferenceTransport(2, seed=seed, loss=0.2)) as network:
        a, b = bound(network, 0, 4001), bound(network, 1, 4002)
        messages = [bytes([n]) * 150 for n in range(20)]
        for message in messages:
            a.sendto(message, B)
        network.run(300 + 50 * seed)
        network.transport.reset(0)
        until_quiet(network)
        got = read(network, b)
        assert {data for data, _ in got} == set(messages)
        assert all(count == 1 or (data, True) in got for data, count in Counter(data for data, _ in got).items())
        assert len(got) < 2 * len(messages)


def test_a_congested_port_is_congested_after_a_reset():
    """What the driver holds counts still (RDS-10)."""
    with RdsNetwork(ReferenceTransport(2, loss=0)) as network:
        a, b = bound(network, 0, 4001), bound(network, 1, 4002)
        b.setsockopt(rds.SOL_SOCKET, rds.SO_RCVBUF, 50)
        for n in range(3):
            a.sendto(bytes([n]) * 20, B)
        until_quiet(network)
        network.transport.reset(1)
        network.run(2000)
        a.sendto(b"z", B)
        network.run(3000)
        assert a.poll(rds.POLLOUT, 0) and not network.transport.reads(1, 2)
        with pytest.raises(OSError, match="No buffer space"):
            a.sendto(b"x", rds.MSG_DONTWAIT, B)
        assert [b.recv(99) for _ in range(4)] == [bytes([n]) * 20 for n in range(3)] + [b"z"]


@pytest.mark.parametrize("monitor", [0, 1])
def test_a_reset_of_the_sender_tells_who_met_congestion(monitor):
    """RDS-18, RDS-23: what the node knew of others' ports is gone, so a send is worth while again."""
    with RdsNetwork(ReferenceTransport(2, loss=0)) as network:
        a, idle, b = bound(network, 0, 4001), bound(network, 0, 4003), bound(network, 1, 4002)
        b.setsockopt(rds.SOL_SOCKET, rds.SO_RCVBUF, 16)
        for socket in (a, idle):
            socket.setsockopt(rds.SOL_RDS, rds.RDS_CONG_MONITOR, monitor)
        a.sendto(bytes(20), B)
        until_quiet(network)
        with raises(errno.ENOBUFS):
            a.sendto(b"x", rds.MSG_DONTWAIT, B)
        assert a.poll(rds.POLLIN, 500) == 0
        network.transport.reset(0)
        assert a.poll(rds.POLLIN | rds.POLLWRBAND, 500) == rds.POLLIN | (0 if monitor else rds.POLLWRBAND)
        if monitor:
            ((_, kind, mask),) = a.recvmsg(9).ancdata
            assert (kind, uncongested(mask)) == (rds.RDS_CMSG_CONG_UPDATE, 1 << 4002 % 64)
        assert idle.poll(rds.POLLIN | rds.POLLWRBAND, 500) == 0
        b.recv(99)
        a.sendto(b"again", B)
        assert b.recv(9) == b"again"


def test_every_call_of_a_dead_node_says_that_it_is_dead():
    """Those that wait, too; others go on."""
    with RdsNetwork(ReferenceTransport(3, loss=0)) as network:
        a, other, b = bound(network, 0, 4001), bound(network, 0, 4003), bound(network, 1, 4002)
        c, unbound = bound(network, 2, 4002), network.socket(0)
        other.sendto(b"", B)
        b.recv(0)
        b.sendto(b"read by the driver", ("10.0.0.1", 4001))
        assert a.poll(rds.POLLIN)
        other.sendto(b"under way", B)
        calls = [
            network.begin(other.descriptor, name, arguments)
            for name, arguments in (("receive", (9, 0, 0)), ("drain", ()))
        ]
        calls.append(network.begin(unbound.descriptor, "bind", ("10.0.0.1", 4005)))
        for call in calls:
            next(call)
        network.transport.die(0)
        assert other.poll(rds.POLLIN, 500) == rds.POLLIN
        died = network.nodes[0].died
        said = f"node 0 is dead from cycle {died:,} on"
        for call in calls:
            with raises(errno.ENETDOWN, said):
                next(call)
        option = rds.SOL_SOCKET, rds.SO_RCVBUF
        for call in (
            lambda: a.recv(9), lambda: a.sendto(b"x", B), a.drain, lambda: a.cancel_sent_to(B), lambda: a.connect(B),
            lambda: a.setsockopt(*option, 16), lambda: bound(network, 0, 4007),
        ):  # fmt: skip
            with raises(errno.ENETDOWN, said):
                call()
        assert a.getsockname() == ("10.0.0.1", 4001) and a.getsockopt(*option) == rds.BUFFER
        assert a.poll(rds.POLLIN | rds.POLLOUT) == rds.POLLIN | rds.POLLOUT
        c.sendto(b"fine", B)
        assert b.recv(99) in (b"fine", b"under way")
        for socket in (a, other, unbound):
            socket.close()
        until_quiet(network)
        assert network.information(0).sockets[1:] == []


def test_bind_outlives_a_reset():
    """A reset while `bind` waits for its answer."""
    for after in range(1, 14):
        with RdsNetwork(ReferenceTransport(2, loss=0)) as network:
            network.run(100)
            b = network.socket(1)
            call = network.begin(b.descriptor, "bind", B)
            next(call)
            network.run(after)
            network.transport.reset(1)
            network.perform(call, None)
            a = bound(network, 0, 4001)
            a.sendto(b"x", B)
            assert b.recv(9) == b"x"


def test_what_never_left_does_not_say_again():
    """A message that the transport ends NEVER_SENT is simply sent later."""
    with RdsNetwork(ReferenceTransport(2, loss=0)) as network:
        a, b = bound(network, 0, 4001), bound(network, 1, 4002)
        a.setsockopt(*FLUSH)
        a.sendto(b"first", B)
        until_quiet(network)
        b.recv(9)
        a.sendto(b"second", B)
        network.go_on(network.cycle + 1)
        network.transport.reset(0)
        until_quiet(network)
        assert read(network, b) == [(b"second", False)]

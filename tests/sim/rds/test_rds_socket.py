"""The calls of a socket: what they do, and every errno (RDS-06, 08, 09, 12 … 15, 20, 21, 49, 57)."""

import array
import errno
import socket as system
import struct

import pytest

from lethe_sim.rds import RdsNetwork
from lethe_sim.rds import constants as rds
from lethe_sim.rds.polling import Poll
from tests.helpers.rds_sockets import bound, raises, until_quiet
from tests.helpers.rds_transport import ReferenceTransport

A, B = ("10.0.0.1", 4001), ("10.0.0.2", 4002)


@pytest.mark.parametrize(
    "name",
    ["AF_RDS", "PF_RDS", "SOL_RDS", "SOCK_SEQPACKET", "SOL_SOCKET", "SO_SNDBUF", "SO_RCVBUF", "SO_TYPE", "SO_ERROR",
     "SO_DOMAIN", "SO_PROTOCOL", "MSG_PEEK", "MSG_TRUNC", "MSG_CTRUNC", "MSG_DONTWAIT", "MSG_OOB", "RDS_CANCEL_SENT_TO",
     "RDS_GET_MR", "RDS_FREE_MR", "RDS_RECVERR", "RDS_CONG_MONITOR", "RDS_GET_MR_FOR_DEST", "RDS_CMSG_RDMA_ARGS",
     "RDS_CMSG_RDMA_DEST", "RDS_CMSG_RDMA_MAP", "RDS_CMSG_RDMA_STATUS"],
)  # fmt: skip
def test_numbers_are_those_of_linux(name):
    """RDS-08: where Python knows them."""
    assert getattr(rds, name) == getattr(system, name, getattr(rds, name))


# bind


def test_a_socket_must_be_bound(network):
    """RDS-06."""
    socket = network.socket(0)
    assert socket.getsockname() == ("0.0.0.0", 0)
    with raises(errno.ENOTCONN, "bind the socket first"):
        socket.sendto(b"x", B)
    with raises(errno.ENOTCONN, "bind the socket first"):
        socket.recv(1)
    with raises(errno.ENOTCONN, "bind the socket first"):
        socket.cancel_sent_to(B)


def test_bind_takes_an_own_address_and_a_free_index(network):
    """RDS-04, RDS-06: the index of a port is its number modulo 16."""
    one, other = network.socket(0), network.socket(0)
    for wrong in ("10.0.0.2", "0.0.0.0", "", "224.0.0.1", "10.0.0.77"):
        with raises(errno.EADDRNOTAVAIL, "is no address of node 0"):
            one.bind((wrong, 4001))
    with raises(errno.EINVAL, "port 1 is kept for probes"):
        one.bind(("10.0.0.1", rds.PROBE_PORT))
    with raises(errno.EADDRINUSE, "which answers pings; take another port"):
        one.bind(("10.0.0.1", 4000))
    one.bind(A)
    with raises(errno.EINVAL, "bound to port 4001 already"):
        one.bind(("10.0.0.1", 4002))
    with raises(errno.EADDRINUSE, "port 4017 has index 1 (the number modulo 16), and so has port 4001"):
        other.bind(("10.0.0.1", 4017))
    other.bind(("10.0.0.1", 4018))
    assert (one.getsockname(), other.getsockname()) == (A, ("10.0.0.1", 4018))
    # The same port of another node is another's.
    bound(network, 1, 4001)


def test_port_0_chooses_a_port_until_none_is_left(network):
    sockets = [bound(network, 0) for _ in range(15)]
    names = {socket.getsockname()[1] % 16 for socket in sockets}
    assert names == set(range(1, 16))
    with raises(errno.EADDRINUSE, "every port of node 0 is bound"):
        bound(network, 0)
    sockets[3].close()
    assert bound(network, 0).getsockname()[1] % 16 == 4


def test_without_pings_every_index_is_free():
    with RdsNetwork(ReferenceTransport(2), pings=False) as network:
        sockets = [bound(network, 0) for _ in range(16)]
        assert {socket.getsockname()[1] % 16 for socket in sockets} == set(range(16))


def test_a_port_can_be_bound_again_and_gets_nothing_old(network):
    """What waited for the old socket is thrown away (RDS-56)."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    b.setsockopt(rds.SOL_SOCKET, rds.SO_RCVBUF, 16)
    for _ in range(12):
        a.sendto(bytes(20), B)
    network.run(5000)
    assert network.transport.waiting(1) > 0
    a.close()
    b.close()
    b = bound(network, 1, 4002)
    until_quiet(network)
    bound(network, 0, 4001).sendto(b"new", B)
    assert b.recvfrom(9) == (b"new", A)


def test_what_comes_for_a_port_that_nobody_has_bound_is_dropped_and_acknowledged(network):
    """RDS-56."""
    a = bound(network, 0, 4001)
    a.sendto(b"x", ("10.0.0.2", 4002))
    a.drain()
    assert network.information(0).counters["send_drop_acked"] == 1
    b = bound(network, 1, 4018)
    a.sendto(b"x", ("10.0.0.2", 4002))
    a.drain()
    assert b.poll(rds.POLLIN, 0) == 0


# Messages


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 64, 1000])
@pytest.mark.parametrize("to", [0, 1])
def test_a_message_arrives_whole(network, length, to):
    """RDS-26, RDS-47; to the own node, too (RDS-39)."""
    a = bound(network, 0, 4001)
    b = bound(network, to, 4002)
    payload = bytes(i * 7 % 256 for i in range(length))
    assert a.sendto(payload, (f"10.0.0.{to + 1}", 4002)) == length
    assert b.recvfrom(2000) == (payload, A)


def test_a_message_of_1_mib(network):
    """RDS-13."""
    with RdsNetwork(ReferenceTransport(2, mtu=4096, loss=0.02)) as network:
        a, b = bound(network, 0, 4001), bound(network, 1, 4002)
        a.setsockopt(rds.SOL_SOCKET, rds.SO_SNDBUF, 1 << 20)
        payload = struct.pack("<262144I", *range(1 << 18))
        a.sendto(payload, B)
        assert b.recv(1 << 20) == payload
        a.setsockopt(rds.SOL_SOCKET, rds.SO_SNDBUF, 1 << 21)
        with raises(errno.EMSGSIZE, "1,048,577 bytes are more than 1 MiB"):
            a.sendto(bytes((1 << 20) + 1), B)


def test_longer_than_sndbuf_is_emsgsize(network):
    """RDS-13."""
    a = bound(network, 0, 4001)
    a.setsockopt(rds.SOL_SOCKET, rds.SO_SNDBUF, 100)
    with raises(errno.EMSGSIZE, "101 bytes are more than SO_SNDBUF, 100"):
        a.sendto(bytes(101), B)
    assert a.sendto(bytes(100), B) == 100


def test_what_would_pass_sndbuf_is_eagain_or_waits(network):
    """RDS-09, RDS-14: a message leaves the queue when it is acknowledged."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    a.setsockopt(rds.SOL_SOCKET, rds.SO_SNDBUF, 100)
    a.sendto(bytes(60), B)
    before = network.cycle
    with raises(errno.EAGAIN):
        a.sendto(bytes(41), rds.MSG_DONTWAIT, B)
    assert network.cycle == before + 1  # so time passes for who asks again
    assert a.sendto(bytes(40), rds.MSG_DONTWAIT, B) == 40
    a.settimeout(5)
    with pytest.raises(TimeoutError, match="not within 5 cycles"):
        a.sendto(b"x", B)
    a.setblocking(True)
    assert a.sendto(bytes(100), B) == 100
    assert network.information(0).counters["send_drop_acked"] == 2
    assert [len(b.recv(200)) for _ in range(3)] == [60, 40, 100]
    assert network.information(0).counters["send_queue_full"] == 3


def test_empty_messages_fill_the_queue_too(network):
    a = bound(network, 0, 4001)
    a.setblocking(False)
    for _ in range(4096):
        a.sendto(b"", B)
    with raises(errno.EAGAIN):
        a.sendto(b"", B)
    assert not a.poll(rds.POLLOUT, 0)


def test_destinations_that_are_none(network):
    a = bound(network, 0, 4001)
    with raises(errno.EHOSTUNREACH, "no node has the address 10.0.0.9"):
        a.sendto(b"x", ("10.0.0.9", 5))
    with raises(errno.ENOTCONN, "name a destination"):
        a.send(b"x")
    # RDS-57: no multicast, no broadcast.
    for wrong in ("224.0.0.1", "255.255.255.255", "0.0.0.0"):
        with raises(errno.EINVAL, "there is no multicast, broadcast or wildcard"):
            a.sendto(b"x", (wrong, 5))
    with raises(errno.EINVAL, "port 65536 is not 0 to 65535"):
        a.sendto(b"x", ("10.0.0.2", 65536))


def test_connect_names_the_destination_of_send(network):
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    with raises(errno.ENOTCONN):
        a.getpeername()
    with raises(errno.EDESTADDRREQ):
        a.connect(("0.0.0.0", 5))
    with raises(errno.EINVAL):
        a.connect(("224.0.0.1", 5))
    a.connect(B)
    assert a.getpeername() == B
    a.send(b"to the peer")
    a.sendto(b"elsewhere", ("10.0.0.3", 4003))
    assert b.recv(99) == b"to the peer"


def test_flags_and_control_messages_that_rds_has_not(network):
    """RDS-49, RDS-57; RDS-22 is for later."""
    a = bound(network, 0, 4001)
    for flags in (rds.MSG_OOB, 0x8000):
        with raises(errno.EOPNOTSUPP):
            a.sendto(b"x", flags, B)
    with raises(errno.EOPNOTSUPP, "no urgent data"):
        a.recv(1, rds.MSG_OOB)
    for kind in (1, 2, 3, 6, 9):
        with raises(errno.EOPNOTSUPP, "there is no remote memory"):
            a.sendmsg([b"x"], [(rds.SOL_RDS, kind, b"")], 0, B)
    with raises(errno.EINVAL, "type 5 is not for sending"):
        a.sendmsg([b"x"], [(rds.SOL_RDS, 5, b"")], 0, B)
    # Those of other levels are passed over.
    assert a.sendmsg([b"x", b"yz"], [(1, 1, b"")], 0, B) == 3


def test_peek_trunc_and_dontwait(network):
    """RDS-49."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    with raises(errno.EAGAIN):
        b.recv(1, rds.MSG_DONTWAIT)
    a.sendto(b"0123456789", B)
    a.sendto(b"second", B)
    assert b.recvmsg(4, 0, rds.MSG_PEEK) == (b"0123", [], rds.MSG_TRUNC, A)
    buffer = bytearray(4)
    assert b.recv_into(buffer, 0, rds.MSG_PEEK) == 4
    assert b.recv_into(buffer, 3, rds.MSG_PEEK | rds.MSG_TRUNC) == 10
    # What has no room is lost.
    assert b.recvmsg(4) == (b"0123", [], rds.MSG_TRUNC, A)
    assert b.recvmsg(6) == (b"second", [], 0, A)
    with pytest.raises(ValueError, match="a buffer has 0 bytes or more"):
        b.recv(-1)


def test_a_buffer_that_is_refused_takes_no_message(network):
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    a.sendto(b"0123456789", B)
    assert b.poll(rds.POLLIN)
    with pytest.raises(ValueError, match="the buffer has 5 bytes, not 20"):
        b.recv_into(bytearray(5), 20)
    with pytest.raises(TypeError, match="the buffer cannot be written"):
        b.recv_into(memoryview(bytes(20)))
    with pytest.raises(ValueError, match="a buffer has 0 bytes or more"):
        b.recv_into(bytearray(5), -1)
    buffer = bytearray(20)
    assert b.recv_into(buffer) == 10 and buffer[:10] == b"0123456789"


def test_only_bytes_are_sent(network):
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    for wrong in (7, "text", [1, 2], None):
        with pytest.raises(TypeError):
            a.sendto(wrong, B)
    with pytest.raises(TypeError):
        a.sendmsg(b"a buffer, not a list of some", address=B)
    a.sendmsg([array.array("H", [1, 2]), memoryview(b"abcdef")[::2], bytearray(b"!")], address=B)
    assert b.recv(99) == struct.pack("HH", 1, 2) + b"ace!"


def test_recv_waits_for_so_many_cycles(network):
    b = bound(network, 1, 4002)
    b.settimeout(500)
    assert b.gettimeout() == 500
    before = network.cycle
    with pytest.raises(TimeoutError):
        b.recv(1)
    assert network.cycle == before + 500
    b.settimeout(20.0)
    assert b.gettimeout() == 20
    with pytest.raises(TimeoutError, match="not within 20 cycles"):
        b.recv(1)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [(500.5, ValueError, "500.5 cycles: time is in whole cycles; give a whole number, 0 or more"),
     (float("nan"), ValueError, "nan cycles: time is in whole cycles"),
     (float("inf"), ValueError, "inf cycles: time is in whole cycles"),
     (-1, ValueError, "-1 cycles: time does not go back; give a whole number, 0 or more"),
     ("soon", TypeError, "'soon': time is in whole cycles")],
)  # fmt: skip
def test_time_is_in_whole_cycles(network, wrong, error, said):
    """What is no number of cycles is refused before time passes, and changes nothing."""
    b, poll = bound(network, 1, 4002), Poll()
    poll.register(b, rds.POLLIN)
    b.settimeout(7)
    before = network.cycle
    for call in (b.settimeout, lambda cycles: b.poll(rds.POLLIN, cycles), poll.poll, b.drain, network.run):
        with pytest.raises(error, match=said):
            call(wrong)
    with pytest.raises(TypeError, match="None: time is in whole cycles"):
        network.run(None)
    assert b.gettimeout() == 7 and network.cycle == before


def test_what_would_wait_for_ever_is_edeadlk(network):
    """One program has all the sockets: if nothing is under way, nobody can send."""
    b = bound(network, 1, 4002)
    with raises(errno.EDEADLK, "nothing is under way"):
        b.recv(1)


def test_messages_of_two_sockets_keep_their_order():
    """RDS-01: from each socket in order, whatever the network loses; long messages among short ones."""
    for seed in range(6):
        with RdsNetwork(ReferenceTransport(3, seed=seed, loss=0.3, delay=(5, 400))) as network:
            senders = [bound(network, 0, 4001), bound(network, 0, 4002), bound(network, 2, 4003)]
            receiver = bound(network, 1, 4005)
            for number in range(12):
                for n, sender in enumerate(senders):
                    sender.sendto(bytes([n, number]) * (1 + 37 * (number % 4 == n)), ("10.0.0.2", 4005))
            got = [receiver.recvfrom(1000) for _ in range(36)]
            for n, sender in enumerate(senders):
                mine = [data for data, address in got if address == sender.getsockname()]
                assert mine == [bytes([n, k]) * (1 + 37 * (k % 4 == n)) for k in range(12)]


def test_close_gives_up_and_drain_waits(network):
    """As in Linux, what is not acknowledged when a socket is closed is given up."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    with a:
        a.sendto(b"never", B)
    until_quiet(network)
    assert b.poll(rds.POLLIN, 0) == 0 and network.information(0).counters["send_cancelled"] == 1
    with bound(network, 0, 4001) as a:
        a.sendto(b"drained", B)
        a.drain()
    assert b.recv(9) == b"drained"
    for call in (lambda: a.send(b""), lambda: a.recv(1), a.getsockname, lambda: a.bind(A)):
        with raises(errno.EBADF):
            call()
    a.close()


def test_a_closed_network_has_no_sockets():
    network = RdsNetwork(ReferenceTransport(2))
    with network:
        a = bound(network, 0, 4001)
    poll = Poll()
    poll.register(a)
    calls = lambda: a.recv(1), lambda: a.sendto(b"x", B), lambda: a.poll(rds.POLLIN), lambda: network.socket(0)
    for call in (*calls, a.getsockname, a.drain, poll.poll):
        with raises(errno.ENETDOWN, "the network is closed"):
            call()
    with a:
        pass
    with raises(errno.EBADF):
        a.recv(1)
    assert network.transport.closed
    with pytest.raises(ValueError, match="node 2: there are 2; name one of 0 to 1"):
        RdsNetwork(ReferenceTransport(2)).socket(2)


def test_an_address_that_moves_takes_its_messages_with_it(network):
    """RDS-11."""
    a, b, c = bound(network, 0, 4001), bound(network, 1, 4002), network.socket(2)
    network.addresses.move("10.0.0.2", 2)
    c.bind(B)
    a.sendto(b"moved", B)
    assert c.recvfrom(9) == (b"moved", A)
    c.sendto(b"back", A)
    # Node 2 has an address of its own, which is what the header's source stands for.
    assert a.recvfrom(9) == (b"back", ("10.0.0.3", 4002))
    assert b.poll(rds.POLLIN, 0) == 0


def test_cancel_sent_to_gives_up_what_has_not_ended(network):
    """RDS-20: of this socket, to this address and port; the hole is passed over."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    other = bound(network, 0, 4003)
    a.sendto(b"before", B)
    assert b.recv(9) == b"before"
    for n in range(10):
        a.sendto(b"%d" % n * 50, B)
    other.sendto(b"other", B)
    a.sendto(b"elsewhere", ("10.0.0.2", 4018))
    network.run(100)
    a.cancel_sent_to(B)
    a.sendto(b"after", B)
    until_quiet(network)
    counters = network.information(0).counters
    got = []
    while b.poll(rds.POLLIN, 0):
        got.append(b.recv(99))
    assert got[-1] == b"after" and b"other" in got
    taken = [data for data in got if data not in (b"other", b"after")]
    assert taken == [b"%d" % n * 50 for n in range(len(taken))] and len(taken) == 10 - counters["send_cancelled"]
    assert counters["send_cancelled"] >= 7


def test_cancel_sent_to_as_in_c(network):
    """The option takes a struct sockaddr_in."""
    a = bound(network, 0, 4001)
    a.sendto(b"x", B)
    inet = struct.pack("=H", system.AF_INET) + struct.pack(">H", 4002) + system.inet_aton("10.0.0.2") + bytes(8)
    with raises(errno.EINVAL, "15 bytes are no struct sockaddr_in"):
        a.setsockopt(rds.SOL_RDS, rds.RDS_CANCEL_SENT_TO, inet[:15])
    a.setsockopt(rds.SOL_RDS, rds.RDS_CANCEL_SENT_TO, bytearray(inet))
    assert network.information(0).counters["send_cancelled"] == 1


def test_a_cancelled_message_in_parts_leaves_no_half():
    """RDS-20, RDS-47."""
    for seed in range(8):
        with RdsNetwork(ReferenceTransport(2, seed=seed, loss=0.3)) as network:
            a, b = bound(network, 0, 4001), bound(network, 1, 4002)
            a.sendto(b"first" * 40, B)
            network.run(300 + 100 * seed)
            a.cancel_sent_to(B)
            a.sendto(b"second" * 40, B)
            got = [b.recv(999)]
            if got == [b"first" * 40]:
                got.append(b.recv(999))
            assert got[-1] == b"second" * 40
            until_quiet(network)
            assert not b.poll(rds.POLLIN, 0)


# Options


def test_so_rds_transport_once_and_before_bind(network):
    """RDS-21."""
    a, b = network.socket(0), network.socket(1)
    option = (rds.SOL_RDS, rds.SO_RDS_TRANSPORT)
    assert a.getsockopt(*option) == rds.RDS_TRANS_NONE
    with raises(errno.EINVAL, "RDS_TRANS_NONE is no transport"):
        a.setsockopt(*option, rds.RDS_TRANS_NONE)
    with raises(errno.EINVAL, "there is no transport 7"):
        a.setsockopt(*option, 7)
    a.setsockopt(*option, rds.RDS_TRANS_TCP)
    assert a.getsockopt(*option) == rds.RDS_TRANS_TCP
    with raises(errno.EOPNOTSUPP, "the socket has its transport"):
        a.setsockopt(*option, rds.RDS_TRANS_IB)
    with raises(errno.EINVAL):
        a.setsockopt(*option, rds.RDS_TRANS_NONE)
    a.bind(A)
    assert a.getsockopt(*option) == rds.RDS_TRANS_TCP
    b.bind(B)
    assert b.getsockopt(*option) == rds.RDS_TRANS_LETHE
    with raises(errno.EOPNOTSUPP):
        b.setsockopt(*option, rds.RDS_TRANS_TCP)
    with raises(errno.EINVAL):
        b.setsockopt(*option, rds.RDS_TRANS_NONE)


@pytest.mark.parametrize(
    ("level", "name", "value", "then"),
    [
        (rds.SOL_SOCKET, rds.SO_SNDBUF, 5000, 5000),
        (rds.SOL_SOCKET, rds.SO_RCVBUF, 5000, 5000),
        (rds.SOL_RDS, rds.RDS_RECVERR, 7, 1),
        (rds.SOL_RDS, rds.RDS_CONG_MONITOR, 7, 1),
        (rds.SOL_RDS, rds.SO_RDS_ENDED, rds.FLUSH, rds.FLUSH),
    ],
)
def test_options_that_can_be_set(network, level, name, value, then):
    a = network.socket(0)
    a.setsockopt(level, name, value)
    assert a.getsockopt(level, name) == then
    for packed in (struct.pack("i", value), bytearray(struct.pack("i", value))):
        a.setsockopt(level, name, packed)
    assert a.getsockopt(level, name, 4) == struct.pack("i", then)
    for wrong in (1 << 31, -(1 << 31) - 1, 1 << 40):
        with raises(errno.EINVAL, f"{wrong} is no int of 32 bits"):
            a.setsockopt(level, name, wrong)
    assert a.getsockopt(level, name, 4) == struct.pack("i", then)
    with raises(errno.EINVAL, "3 bytes are no int"):
        a.setsockopt(level, name, b"abc")
    with raises(errno.EINVAL, "have no room for an int"):
        a.getsockopt(level, name, 3)
    with raises(errno.EINVAL, "is no int"):
        a.setsockopt(level, name, ("10.0.0.1", 1))


def test_options_that_cannot(network):
    a = network.socket(0)
    for name, value in ((rds.SO_TYPE, 5), (rds.SO_DOMAIN, 21), (rds.SO_PROTOCOL, 0), (rds.SO_ERROR, 0)):
        assert a.getsockopt(rds.SOL_SOCKET, name) == value
        with raises(errno.ENOPROTOOPT):
            a.setsockopt(rds.SOL_SOCKET, name, value)
    for name in (rds.RDS_GET_MR, rds.RDS_FREE_MR, rds.RDS_GET_MR_FOR_DEST):
        for value in (1, bytes(16), ("10.0.0.1", 1)):
            with raises(errno.EOPNOTSUPP, "no remote memory"):
                a.setsockopt(rds.SOL_RDS, name, value)
    for level, name in ((rds.SOL_RDS, 99), (rds.SOL_SOCKET, 2), (6, 1)):
        for value in (1, bytes(16), 1 << 40):
            with raises(errno.ENOPROTOOPT, f"level {level}, option {name}"):
                a.setsockopt(level, name, value)
        with raises(errno.ENOPROTOOPT):
            a.getsockopt(level, name)
    for name in (rds.SO_SNDBUF, rds.SO_RCVBUF):
        with raises(errno.EINVAL):
            a.setsockopt(rds.SOL_SOCKET, name, -1)
    with raises(errno.EINVAL, "2 is neither 0 (FLUSH) nor 1"):
        a.setsockopt(rds.SOL_RDS, rds.SO_RDS_ENDED, 2)


def test_sendto_takes_flags_or_not(network):
    a = bound(network, 0, 4001)
    with pytest.raises(TypeError, match="sendto takes"):
        a.sendto(b"x")
    assert repr(a) == f"<Socket {a.descriptor} of node 0>"

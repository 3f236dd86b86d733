"""Waiting for several sockets, as `select.poll` and `selectors` do (RDS-18, RDS-19)."""

import errno
import selectors

import pytest

from lethe_sim.rds import RdsNetwork
from lethe_sim.rds import constants as rds
from lethe_sim.rds.polling import Poll, RdsSelector
from tests.helpers.rds_sockets import bound, raises
from tests.helpers.rds_transport import ReferenceTransport

B, C = ("10.0.0.2", 4002), ("10.0.0.3", 4003)


def test_bits_are_levels(network):
    """RDS-18, RDS-19: they stay as long as their reason does."""
    a, b = bound(network, 0, 4001), bound(network, 1, 4002)
    a.setsockopt(rds.SOL_SOCKET, rds.SO_SNDBUF, 4)
    assert b.poll(rds.POLLIN, 0) == 0
    a.sendto(b"abcd", B)
    assert a.poll(rds.POLLOUT | rds.POLLWRNORM, 0) == 0
    for _ in range(2):
        assert b.poll(rds.POLLIN | rds.POLLRDNORM) == rds.POLLIN | rds.POLLRDNORM
    assert a.poll(rds.POLLOUT | rds.POLLWRNORM) == rds.POLLOUT | rds.POLLWRNORM
    b.recv(9)
    assert b.poll(rds.POLLIN, 0) == 0
    assert b.poll(rds.POLLOUT, 0) == rds.POLLOUT


def test_poll_tells_who_is_ready_and_waits_no_longer_than_asked(network):
    a, b, c = bound(network, 0, 4001), bound(network, 1, 4002), bound(network, 2, 4003)
    poll = Poll()
    assert poll.poll(5) == []
    poll.register(a, rds.POLLIN)
    poll.register(b)
    poll.modify(b, rds.POLLIN)
    poll.register(c, rds.POLLIN)
    before = network.cycle
    assert poll.poll(77) == [] and network.cycle == before + 77
    a.sendto(b"x", C)
    assert poll.poll() == [(c, rds.POLLIN)]
    poll.unregister(c)
    assert poll.poll(100) == []
    with pytest.raises(KeyError):
        poll.unregister(c)
    with pytest.raises(KeyError):
        poll.modify(c, rds.POLLIN)
    with RdsNetwork(ReferenceTransport(2)) as other, pytest.raises(ValueError, match="is of another network"):
        poll.register(bound(other, 0))
    with raises(errno.EDEADLK):
        poll.poll()
    b.close()
    with raises(errno.EBADF):
        poll.poll(5)


def test_a_selector_of_python(network):
    """The chat of the guide, with `selectors`: who is ready is served."""
    a, b, c = bound(network, 0, 4001), bound(network, 1, 4002), bound(network, 2, 4003)
    with RdsSelector() as selector:
        selector.register(a, selectors.EVENT_READ, "a")
        selector.register(b, selectors.EVENT_READ, "b")
        key = selector.register(c, selectors.EVENT_READ | selectors.EVENT_WRITE, "c")
        assert selector.get_key(c) == key and key.fd == c.descriptor and len(selector.get_map()) == 3
        assert selector.select(0) == [(key, selectors.EVENT_WRITE)]
        selector.modify(c, selectors.EVENT_READ, "c")
        assert selector.select(-1) == [] and selector.select(2.0) == []
        with pytest.raises(ValueError, match="whole cycles"):
            selector.select(0.5)
        c.sendto(b"to b", B)
        served = []
        for _ in range(4):
            for key, events in selector.select():
                assert events == selectors.EVENT_READ
                data, address = key.fileobj.recvfrom(99)
                served.append((key.data, data))
                if len(served) < 4:
                    key.fileobj.sendto(data + b".", address if served[-1][0] != "b" else ("10.0.0.1", 4001))
        assert served == [("b", b"to b"), ("a", b"to b."), ("b", b"to b.."), ("a", b"to b...")]
        selector.unregister(a)
        with pytest.raises(KeyError):
            selector.unregister(a)


def test_what_a_selector_refuses(network):
    a = bound(network, 0, 4001)
    selector = RdsSelector()
    with pytest.raises(ValueError, match="no socket of a network is registered"):
        selector.select(0)
    with pytest.raises(ValueError, match="give EVENT_READ, EVENT_WRITE or both"):
        selector.register(a, 0)
    selector.register(a, selectors.EVENT_READ)
    with pytest.raises(KeyError, match="is registered already"):
        selector.register(a, selectors.EVENT_READ)
    selector.register(0, selectors.EVENT_READ)
    with pytest.raises(ValueError, match="files of the system need sockets of a Client"):
        selector.select(0)
    with RdsNetwork(ReferenceTransport(2)) as other, pytest.raises(ValueError, match="is of another network"):
        selector.register(bound(other, 0), selectors.EVENT_READ)


def test_time_passes_for_a_program_that_asks_again_and_again():
    """POLLOUT says that the queue has room, but not for how much: a send may find too little again."""
    with RdsNetwork(ReferenceTransport(2)) as network:
        one = network.socket(0)
        one.bind(("10.0.0.1", 4001))
        one.setblocking(False)
        before = network.cycle
        for asked in range(1, 4):
            with pytest.raises(BlockingIOError):
                one.recv(9)
            assert network.cycle == before + asked

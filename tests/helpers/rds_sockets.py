"""Sockets for the tests of the RDS driver."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lethe_sim.rds import RdsNetwork, Socket
from lethe_sim.rds.network import Sockets


def bound(sockets: Sockets, node: int, port: int = 0) -> Socket:
    """A socket of a node, bound to its address, 10.0.0.(node + 1)."""
    socket = Socket(sockets, node)
    socket.bind((f"10.0.0.{node + 1}", port))
    return socket


def until_quiet(network: RdsNetwork, most: int = 200_000) -> None:
    """Let time pass until nothing is under way."""
    end = network.cycle + most
    while not network.idle:
        assert network.cycle < end, "something is under way for ever"
        network.go_on(end)


@contextmanager
def raises(number: int, text: str = "") -> Iterator[None]:
    """An OSError of this errno, with this text."""
    with pytest.raises(OSError) as caught:
        yield
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[number], caught.value
    assert text in str(caught.value)

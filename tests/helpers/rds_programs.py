"""Programs of users, each a process of its own on one network."""

import sys

from lethe_sim.rds import constants as rds
from lethe_sim.rds.client import Client
from tests.helpers.rds_sockets import bound


def echo(path: str) -> None:
    """Send back what comes, until an empty message."""
    with Client(path) as network, bound(network, 1, 4002) as socket:
        print("ready", flush=True)
        while True:
            data, address = socket.recvfrom(1 << 20)
            if not data:
                break
            assert address is not None
            socket.sendto(data[::-1], address)
        socket.drain()


def ask(path: str) -> None:
    """Have 20 messages sent back."""
    with Client(path) as network, bound(network, 0, 4001) as socket:
        socket.setsockopt(rds.SOL_SOCKET, rds.SO_SNDBUF, 1 << 20)
        for number in range(20):
            message = bytes([number, 1, 2]) * (1 + 50 * number)
            socket.sendto(message, ("10.0.0.2", 4002))
            assert socket.recvfrom(1 << 20) == (message[::-1], ("10.0.0.2", 4002))
        socket.sendto(b"", ("10.0.0.2", 4002))
        socket.drain()
        print("cycle", network.cycle)


if __name__ == "__main__":
    {"echo": echo, "ask": ask}[sys.argv[1]](sys.argv[2])

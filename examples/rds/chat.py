"""Two people talk: each runs this program, and both use the network that a third process simulates.

    lethe rds serve examples/rds/network.toml at.socket
    python examples/rds/chat.py at.socket 0 5       # in a second terminal
    python examples/rds/chat.py at.socket 5 0       # in a third

A line that is typed is a message to the other node; what is typed before the other's program runs is lost.  Ctrl-D ends
a chat, and tells the other by an empty message.
"""

import argparse
import os
import selectors
import stat
import sys

from lethe_sim.rds.addresses import Addresses
from lethe_sim.rds.client import Client
from lethe_sim.rds.polling import RdsSelector
from lethe_sim.rds.socket import Socket

PORT = 4001
LONGEST = 1 << 16


def talk(socket: Socket, to: tuple[str, int]) -> None:
    """Send what is typed and print what comes, until either end is over."""
    typed = b""
    with RdsSelector() as selector:
        selector.register(socket, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is socket:
                    said, name = socket.recvfrom(LONGEST)
                    address = name[0] if name else ""
                    print(f"{address}: {said.decode(errors='replace')}" if said else f"{address} has left", flush=True)
                    if not said and address == to[0]:
                        return
                else:
                    data = os.read(sys.stdin.fileno(), LONGEST)
                    *lines, typed = (typed + data).split(b"\n")
                    if not data and typed:
                        lines, typed = [typed], b""
                    for line in filter(None, lines):
                        socket.sendto(line, to)
                    if not data:
                        socket.sendto(b"", to)
                        # Closing would give up what is still under way.
                        socket.drain()
                        return


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="where `lethe rds serve` serves the network")
    parser.add_argument("node", type=int, help="your node")
    parser.add_argument("other", type=int, help="the other's node")
    chosen = parser.parse_args(arguments)
    if stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode):
        parser.error("the standard input is a file, and cannot be waited for; give a terminal or a pipe")
    try:
        with Client(chosen.path) as network:
            for node in (chosen.node, chosen.other):
                if not 0 <= node < network.nodes:
                    parser.error(f"node {node}: the network has 0 to {network.nodes - 1}")
            addresses = Addresses(network.nodes)
            with network.socket(chosen.node) as socket:
                socket.bind((addresses.of(chosen.node), PORT))
                print(f"you are {addresses.of(chosen.node)}", flush=True)
                talk(socket, (addresses.of(chosen.other), PORT))
    except OSError as error:
        print(f"chat: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""A link dies, and messages take another path: eight sockets of node 0 send to node 5 over four paths; one dies.

``python examples/rds/failover.py`` prints what the messages took before, while and after, on the paths that live and on
the one that died.  Its exit code is 1 if one is missing, out of order, took more than 2,000 cycles, or if those after
the death still take longer.
"""

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from lethe.spec.config import System, load
from lethe.spec.pin import by_path
from lethe_sim.rds import RdsNetwork
from lethe_sim.rds import constants as rds
from lethe_sim.rds.golden import GoldenFlow
from lethe_sim.rds.polling import Poll

NETWORK = Path(__file__).with_name("failover.toml")
SENDER, RECEIVER, PORTS = 0, 5, range(4001, 4009)
#: Cycles from one message of a socket to its next; its bytes; cycles that a message may take.
PERIOD, LENGTH, LONGEST = 400, 16, 2000
#: Cycles until all are connected, and cycles after a death that are told apart.
CONNECTED, WHILE = 2000, 2000


@dataclass
class Course:
    """What happened: of each port the latencies of its messages by the cycle in which they were sent."""

    sent: int = 0
    took: dict[int, dict[int, int]] = field(default_factory=lambda: {port: {} for port in PORTS})
    disordered: int = 0


def path_of(system: System, port: int) -> int:
    """The path of the messages to a port of the receiver."""
    return (RECEIVER ^ port) & (system.flow.paths - 1)


def run(system: System, cycles: int) -> Course:
    """Send until a cycle, then read what is still to come."""
    course, last = Course(), dict.fromkeys(PORTS, -1)
    with RdsNetwork(GoldenFlow(system)) as network:
        readers, senders = {}, {}
        for port in PORTS:
            readers[port], senders[port] = network.socket(RECEIVER), network.socket(SENDER)
            readers[port].bind((network.addresses.of(RECEIVER), port))
            senders[port].bind((network.addresses.of(SENDER), port))
            senders[port].connect((network.addresses.of(RECEIVER), port))
        poll = Poll()
        for socket in readers.values():
            poll.register(socket, rds.POLLIN)
        due = {port: CONNECTED + at * PERIOD // len(PORTS) for at, port in enumerate(PORTS)}
        senders[PORTS[0]].send(bytes(LENGTH))  # connects
        readers[PORTS[0]].recv(LENGTH)
        read = 0
        while network.cycle < cycles or read < course.sent:
            for port, at in due.items():
                if at <= network.cycle < cycles:
                    senders[port].send(network.cycle.to_bytes(8) + bytes(LENGTH - 8))
                    due[port] = at + PERIOD
                    course.sent += 1
            wait = min(due.values()) - network.cycle if network.cycle < cycles else LONGEST
            ready = poll.poll(max(1, wait))
            if not ready and network.cycle >= cycles + 10 * LONGEST:
                break
            for socket, _ in ready:
                port = socket.getsockname()[1]
                at = int.from_bytes(socket.recv(LENGTH)[:8])
                course.took[port][at] = network.cycle - at
                course.disordered += at <= last[port]
                last[port] = at
                read += 1
    return course


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=30_000, help="how long it is sent (default: 30,000)")
    chosen = parser.parse_args(arguments)
    system = load(str(NETWORK))
    dies = system.faults.links[0].start
    if chosen.cycles < dies + 2 * WHILE:
        parser.error(f"--cycles: must be at least {dies + 2 * WHILE}; the link dies in {dies}")
    course = run(system, chosen.cycles)
    graph = system.graph
    up_port = graph.link(system.faults.links[0].link).source_port - graph.arity
    ways = {path: by_path(path, system.format.path_bits, 0, graph.arity) for path in range(system.flow.paths)}
    spans = {"before": (0, dies), "while": (dies, dies + WHILE), "after": (dies + WHILE, chosen.cycles)}
    print(f"cycles that messages took from send to recv; one of {system.flow.paths} paths died in {dies:,}")
    print(f"{'':8}{'its streams':>24}{'the others':>24}")
    print(f"{'sent':8}" + f"{'messages median longest':>24}" * 2)
    medians = {}
    for name, (start, end) in spans.items():
        columns = []
        for ours in (True, False):
            of = [
                took
                for port in PORTS if (ways[path_of(system, port)] == up_port) == ours
                for at, took in course.took[port].items() if start <= at < end
            ]  # fmt: skip
            columns.append(f"{len(of):8,}{median(of):8,.0f}{max(of):8,}" if of else f"{0:8}{'-':>8}{'-':>8}")
            medians[name, ours] = median(of) if of else float("inf")
        print(f"{name:8}" + "".join(columns))
    read = sum(len(took) for took in course.took.values())
    longest = max((cycles for took in course.took.values() for cycles in took.values()), default=0)
    whole = read == course.sent and not course.disordered and longest <= LONGEST
    recovered = medians["after", True] <= 1.1 * medians["before", True]
    print(f"{read:,} of {course.sent:,} messages read, {course.disordered} out of order; the longest took {longest:,}")
    return 0 if whole and recovered else 1


if __name__ == "__main__":
    raise SystemExit(main())

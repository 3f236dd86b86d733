"""Sixty-four sockets on sixteen nodes ask each other, and every message is checked.

``python examples/rds/stress.py`` prints a line for every 2,000 cycles, then what sockets and nodes have counted.
``--cycles`` and ``--seed`` change the run; `lethe rds stress` has more options.
"""

import argparse
from pathlib import Path

from lethe.spec.config import load
from lethe_sim.rds import RdsNetwork
from lethe_sim.rds.golden import GoldenFlow
from lethe_sim.rds.stress import Running, Stress, Wrong

NETWORK = Path(__file__).with_name("network.toml")
SOCKETS = 64


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=20_000, help="how long requests are sent (default: 20,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the messages' bytes (default: 1)")
    chosen = parser.parse_args(arguments)
    try:
        asked = Stress(
            tasks=SOCKETS, depth=2, request=40, ack=20, cycles=chosen.cycles, interval=2000, seed=chosen.seed
        )
    except ValueError as error:
        parser.error(str(error))
    with RdsNetwork(GoldenFlow(load(str(NETWORK)))) as network:
        addresses = [network.addresses.of(node) for node in range(len(network.nodes))]
        running = Running(network, addresses, asked)
        try:
            for line in running.lines():
                print(line, flush=True)
        except Wrong as wrong:
            print(f"broken: {wrong}")
            return 1
        answered = sorted(task.answered for task in running.tasks)
        print(
            f"answered requests of a socket: least {answered[0]}, median {answered[SOCKETS // 2]}, most {answered[-1]}"
        )
        counters = network.information().counters
        for name in ("send_queued", "send_again", "recv_delivered", "cong_send_error", "cong_update_received"):
            print(f"{name}: {counters[name]:,}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

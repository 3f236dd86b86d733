"""`lethe rds`: what `rds-ping`, `rds-stress` and `rds-info` do, on a network of its own or on one that is served."""

import argparse
import contextlib
import errno
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lethe.spec.config import System, load

from .common import Mistake, Progress
from .verilog import refuse_golden_only

if TYPE_CHECKING:
    from lethe_sim.rds import RdsNetwork
    from lethe_sim.rds.client import Client
    from lethe_sim.rds.transport import FlowTransport

EXAMPLES = """\
  lethe rds ping my.toml 10.0.0.2         from node 0 of a network that is simulated meanwhile
  lethe rds stress my.toml --tasks 16     sockets that ask and answer, each message checked
  lethe rds stress my.toml --rtl          the same on the RTL, in lockstep with the golden model
  lethe rds serve my.toml at.socket       a network for several programs, until Ctrl-C
  lethe rds info at.socket                its sockets, connections, queues and counters
"""

#: Whoever runs a network or asks for one names it so.
_NETWORK = "a configuration (TOML) with [flow], or the path at which `lethe rds serve` serves a network"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    ping = actions.add_parser("ping", help="send empty messages to port 0 of a node, which answers them")
    ping.add_argument("network", metavar="NETWORK", help=_NETWORK)
    _add_rtl(ping)
    ping.add_argument("to", metavar="ADDRESS", help="who is pinged: node n has 10.0.0.0 + n + 1")
    _natural(ping, "--node", 0, "the node that pings", least=0)
    _natural(ping, "--count", 5, "pings")
    _natural(ping, "--interval", 1000, "cycles from one ping to the next")
    _natural(ping, "--patience", 20_000, "cycles after which an answer is given up")

    stress = actions.add_parser("stress", help="sockets that ask and answer, each message checked")
    stress.add_argument("network", metavar="NETWORK", help=_NETWORK)
    _add_rtl(stress)
    _natural(stress, "--tasks", 8, "sockets; socket i is on node i mod nodes")
    _natural(stress, "--depth", 4, "requests that a socket may have unanswered")
    _natural(stress, "--request", 256, "bytes of a request")
    _natural(stress, "--ack", 64, "bytes of an answer")
    _natural(stress, "--cycles", 20_000, "cycles in which requests are sent")
    _natural(stress, "--interval", 5_000, "cycles from line to line")
    _natural(stress, "--patience", 1_000_000, "cycles without a message after which one is lost")
    _natural(stress, "--seed", 1, "of the messages' bytes", least=0)

    info = actions.add_parser("info", help="sockets, connections, queues and counters of a network that is served")
    info.add_argument("network", metavar="PATH", help="where `lethe rds serve` serves it")
    info.add_argument("--node", type=int, metavar="N", help="of this node alone")
    info.add_argument(
        "--tables", metavar="LETTERS", default="cknrst",
        help="c counters, k sockets, n connections, r receive queue, s send queue, t unanswered (default: all)",
    )  # fmt: skip

    serve = actions.add_parser("serve", help="simulate a network for several programs (docs/use/rds.md), until Ctrl-C")
    serve.add_argument("network", metavar="FILE", help="configuration (TOML) with [flow]")
    serve.add_argument("path", metavar="PATH", help="of the Unix socket; only you may use it")
    _add_rtl(serve)


def _add_rtl(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rtl", action="store_true",
        help="simulate the RTL, and the golden model in lockstep with it; exit code 1 if they differ",
    )  # fmt: skip


def _natural(parser: argparse.ArgumentParser, name: str, default: int, about: str, *, least: int = 1) -> None:
    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {value}")
        return value

    parser.add_argument(name, type=number, default=default, metavar="N", help=f"{about} (default: {default:,})")


def run(args: argparse.Namespace) -> int:
    return _ACTIONS[args.action](args)


@contextlib.contextmanager
def _simulated(path: str, *, rtl: bool) -> Iterator["RdsNetwork"]:
    """The network of a configuration, under the golden model, or as RTL beside it."""
    system = load(path)
    if not system.flow.ports:
        raise Mistake(f"{path}: flow.ports: is 0, so there are no ports; set it to 2, 4, 8 or 16")
    if rtl:
        refuse_golden_only(system, instead="leave out --rtl")
    progress = Progress()
    progress.show("the golden model is made", "")
    from lethe_sim.rds import RdsNetwork

    try:
        with RdsNetwork(_transport(system, progress, rtl=rtl)) as network:
            progress.clear()
            yield network
    finally:
        progress.clear()


def _transport(system: System, progress: Progress, *, rtl: bool) -> "FlowTransport":
    if rtl:
        from lethe_sim.rds.rtl import RtlFlow

        return RtlFlow(system, progress=lambda what: progress.show(what, ""))
    from lethe_sim.rds.golden import GoldenFlow

    return GoldenFlow(system)


def _is_served(path: str) -> bool:
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except OSError:
        return False


@contextlib.contextmanager
def _network(path: str, *, rtl: bool) -> Iterator["RdsNetwork | Client"]:
    """The network that ``path`` names: one that is served, or else one of our own."""
    if not Path(path).exists():
        raise Mistake(
            f"{path}: no such file; name a configuration, or a path at which `lethe rds serve FILE PATH` serves one"
        )
    if not _is_served(path):
        with _simulated(path, rtl=rtl) as network:
            yield network
        return
    if rtl:
        raise Mistake(f"--rtl: {path} is served already; leave it out, or give it to `lethe rds serve`")
    from lethe_sim.rds.client import Client

    with Client(path) as client:
        yield client


def _nodes(network: "RdsNetwork | Client") -> int:
    return network.nodes if isinstance(network.nodes, int) else len(network.nodes)


def _ping(args: argparse.Namespace) -> int:
    from lethe_sim.rds.addresses import Addresses
    from lethe_sim.rds.ping import lines, ping, told

    with _network(args.network, rtl=args.rtl) as network:
        nodes = _nodes(network)
        addresses = Addresses(nodes)
        if args.node >= nodes:
            raise Mistake(f"--node: the network has nodes 0 to {nodes - 1}, not {args.node}")
        try:
            reached = addresses.node(args.to) is not None
        except OSError:
            reached = False
        if not reached:
            raise Mistake(
                f"{args.to}: no node has this address; nodes have {addresses.of(0)} to {addresses.of(nodes - 1)}"
            )
        answers = []
        for answer in ping(
            network, args.node, addresses.of(args.node), args.to,
            count=args.count, interval=args.interval, patience=args.patience,
        ):  # fmt: skip
            print(told(answer), flush=True)
            answers.append(answer)
        print(*lines(answers), sep="\n")
    return 0 if all(answer.cycles is not None for answer in answers) else 1


def _stress(args: argparse.Namespace) -> int:
    from lethe_sim.rds.addresses import Addresses
    from lethe_sim.rds.stress import Running, Stress, Wrong

    names = ("tasks", "depth", "request", "ack", "cycles", "interval", "patience", "seed")
    try:
        asked = Stress(**{name: getattr(args, name) for name in names})
    except ValueError as error:
        raise Mistake(f"--{error}") from None
    with _network(args.network, rtl=args.rtl) as network:
        addresses = Addresses(_nodes(network))
        try:
            running = Running(network, [addresses.of(node) for node in range(_nodes(network))], asked)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise Mistake(f"--tasks: a node has not so many ports free ({error.strerror}); ask for fewer") from None
        try:
            for line in running.lines():
                print(line, flush=True)
        except Wrong as wrong:
            print(f"broken: {wrong}")
            return 1
        finally:
            running.close()
    return 0


def _info(args: argparse.Namespace) -> int:
    from lethe_sim.rds.client import Client
    from lethe_sim.rds.info import TABLES, lines

    wrong = [letter for letter in args.tables if letter not in TABLES]
    if wrong:
        raise Mistake(f"--tables: {wrong[0]!r} is none of {', '.join(TABLES)}")
    if not _is_served(args.network):
        raise Mistake(f"{args.network}: no network is served there; start one with `lethe rds serve FILE PATH`")
    with Client(args.network) as client:
        if args.node is not None and not 0 <= args.node < client.nodes:
            raise Mistake(f"--node: the network has nodes 0 to {client.nodes - 1}, not {args.node}")
        print(*lines(client.information(args.node), args.tables), sep="\n")
    return 0


def _serve(args: argparse.Namespace) -> int:
    from lethe_sim.rds.server import Server, refuse_path

    refuse_path(args.path)
    with _simulated(args.network, rtl=args.rtl) as network, Server(network, args.path) as server:
        nodes = len(network.nodes)
        print(
            f"{nodes} nodes, {network.addresses.of(0)} to {network.addresses.of(nodes - 1)}, at {args.path}; "
            "Ctrl-C ends it",
            flush=True,
        )
        server.serve()
    return 0


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "ping": _ping,
    "stress": _stress,
    "info": _info,
    "serve": _serve,
}

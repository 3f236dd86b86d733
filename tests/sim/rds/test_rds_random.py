"""Programs drawn by seed, on networks drawn by seed: what a socket promises holds whatever they do.

The promises (RDS-01, 14, 15, 20, 47, 48): from each socket to each port messages come whole, once and in order; only
what was cancelled is missing; what sockets count goes back to zero.
"""

import errno
import random
from collections import defaultdict

import pytest

from lethe_sim.rds import RdsNetwork, Socket
from lethe_sim.rds import constants as rds
from tests.helpers.rds_sockets import bound, until_quiet
from tests.helpers.rds_transport import ReferenceTransport
from tests.helpers.tiers import but


class Program:
    """Random calls, and what must come of them."""

    def __init__(self, seed: int, **options):
        self.random = r = random.Random(seed)
        self.transport = ReferenceTransport(
            r.randint(2, 4), seed=seed, ports=r.choice((4, 8, 16)), mtu=r.choice((8, 17, 64)),
            loss=r.choice((0, 0.1, 0.4)), delay=(5, r.choice((10, 60, 500))), cells=r.choice((10, 24)),
            quota=r.choice((1, 3)), slots=r.choice((4, 12)), tags=r.choice((16, 1 << 16)), **options,
        )  # fmt: skip
        self.network = RdsNetwork(self.transport)
        self.sockets: list[Socket] = []
        for node in range(self.transport.nodes):
            for _ in range(r.randint(1, 3)):
                socket = bound(self.network, node)
                socket.setblocking(False)
                socket.setsockopt(rds.SOL_SOCKET, rds.SO_RCVBUF, r.choice((30, 300, 5000)))
                socket.setsockopt(rds.SOL_SOCKET, rds.SO_SNDBUF, r.choice((100, 1000)))
                self.sockets.append(socket)
        self.sent: dict[tuple, list[bytes]] = defaultdict(list)
        self.cancelled: dict[tuple, set[int]] = defaultdict(set)
        self.got: dict[tuple, list[bytes]] = defaultdict(list)
        self.refused: set[str] = set()

    def send(self) -> None:
        socket, to = self.random.choice(self.sockets), self.random.choice(self.sockets)
        pair = socket.getsockname(), to.getsockname()
        number = len(self.sent[pair])
        payload = number.to_bytes(2, "big") + bytes([number % 251]) * self.random.choice((0, 1, 10, 60, 300))
        try:
            socket.sendto(payload, pair[1])
            self.sent[pair].append(payload)
        except OSError as error:
            self.refused.add(errno.errorcode[error.errno or 0])

    def receive(self) -> None:
        self.take(self.random.choice(self.sockets))

    def take(self, socket: Socket) -> bool:
        """Take a message, if one waits: news of congestion makes a socket readable without one."""
        try:
            message = socket.recvmsg(1000)
        except BlockingIOError:
            return False
        assert message.msg_flags == 0 and message.address is not None
        self.got[message.address, socket.getsockname()].append(message.data)
        return True

    def cancel(self) -> None:
        socket, to = self.random.choice(self.sockets), self.random.choice(self.sockets)
        pair = socket.getsockname(), to.getsockname()
        socket.cancel_sent_to(pair[1])
        self.cancelled[pair].update(range(len(self.sent[pair])))

    def wait(self) -> None:
        self.network.run(self.random.choice((1, 10, 300)))

    def end(self) -> None:
        """Read everything."""
        for _ in range(10_000):
            for socket in self.sockets:
                while self.take(socket):
                    pass
            if self.network.idle and not any(socket.poll(rds.POLLIN, 0) for socket in self.sockets):
                break
            self.network.go_on()
        else:
            raise AssertionError("something is under way for ever")
        until_quiet(self.network)
        for row in self.network.information().sockets:
            assert (row.queued, row.waiting) == (0, 0)
        for node in self.network.nodes:
            assert not node.outbox.lanes or not any(lane.backlogs for lane in node.outbox.lanes.values())


@pytest.mark.parametrize("seed", but(range(15), range(60), push=range(60)))
def test_whole_once_and_in_order(seed):
    program = Program(seed)
    calls = [program.send] * 8 + [program.receive] * 6 + [program.wait] * 3 + [program.cancel] * (seed % 3 == 2)
    for _ in range(250):
        program.random.choice(calls)()
    program.end()
    assert sum(map(len, program.got.values())) > 20
    for pair in program.sent.keys() | program.got.keys():
        sent, got = program.sent[pair], program.got[pair]
        numbers = [int.from_bytes(data[:2], "big") for data in got]
        assert numbers == sorted(set(numbers)), pair
        assert got == [sent[number] for number in numbers], pair
        assert set(range(len(sent))) - set(numbers) <= program.cancelled[pair], pair


def test_the_draws_reach_what_they_are_for():
    refused = set()
    for seed in range(20):
        program = Program(seed)
        for _ in range(150):
            program.random.choice([program.send] * 8 + [program.receive, program.wait])()
        refused |= program.refused
    assert refused == {"EMSGSIZE", "EAGAIN", "ENOBUFS"}


@pytest.mark.parametrize("seed", but(range(10), range(40), push=range(40)))
def test_with_resets_and_cuts_nothing_is_damaged_and_what_is_sent_later_arrives(seed):
    program = Program(1000 + seed, watch=300)
    transport, r = program.transport, program.random

    def hurt():
        a, b = r.sample(range(transport.nodes), 2)
        r.choice([lambda: transport.reset(a), lambda: transport.cut(a, b), lambda: transport.heal(a, b)])()

    calls = [program.send] * 8 + [program.receive] * 6 + [program.wait] * 3 + [hurt]
    for _ in range(250):
        r.choice(calls)()
    for a in range(transport.nodes):
        for b in range(a):
            transport.heal(a, b)
    program.end()
    for pair in program.got:
        assert set(program.got[pair]) <= set(program.sent[pair]), pair
    before = {pair: len(sent) for pair, sent in program.sent.items()}
    program.network.run(5000)
    for _ in range(80):
        program.send()
        program.network.run(50)
        program.receive()
    program.end()
    for pair, sent in program.sent.items():
        later = sent[before.get(pair, 0) :]
        assert [data for data in program.got[pair] if data in later] == later, pair

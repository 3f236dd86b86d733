"""A thing that happens once, in each cycle in which it can: a cancel, a reset while two nodes connect."""

from collections import Counter
from dataclasses import dataclass

import pytest

from lethe.spec.events import Cause, Event, Status
from lethe.spec.services.flow import Code, In, Out
from lethe.spec.trace import DETAIL, EVENT
from lethe_sim.golden.model import Golden, Item, Script
from lethe_sim.golden.services.flow.state import Flow, InStream, OutStream, Peer
from lethe_sim.rds import transport
from lethe_sim.rds.golden import GoldenFlow
from lethe_sim.rds.transport import FIRST, LAST, FlowRecord
from tests.helpers.flow_oracle import flow_system, play

ACCEPTED = (Status.ACCEPTED, Cause.NONE)
TREE = {"kind": "tree", "levels": 2, "arity": 2}


# A cancel


@dataclass(eq=False)
class Stream:
    """A node's stream to port 1 of node 0, of messages of four bytes that are their number."""

    node: int
    cancels: list[int]  # of each round: so many cycles after its second message has its slot
    sent: int = 0
    due: tuple[int, int, int] | None = None  # when what is cancelled
    slot: tuple[int, int] | None = None


class Cancels:
    """Rounds of three messages on each stream, of which the second is cancelled; then all is quiet."""

    def __init__(self, flow: GoldenFlow, streams: list[Stream]):
        self.flow, self.streams = flow, {stream.node: stream for stream in streams}
        self.ends: dict[tuple[int, int], tuple[int, int]] = {}
        self.taken: dict[int, list[tuple[int, int]]] = {stream.node: [] for stream in streams}  # (number, gap)

    def round(self, number: int) -> None:
        for stream in self.streams.values():
            for _ in range(3):
                stream.sent += 1
                payload = stream.sent.to_bytes(4, "little")
                self.flow.send(stream.node, FlowRecord(0, 1, 1, FIRST | LAST, stream.sent, payload))
        end = self.flow.cycle + 5000
        while self.flow.cycle < end and not self._over():
            due = [stream.due[0] for stream in self.streams.values() if stream.due]
            for event in self.flow.advance(max(1, min([*due, self.flow.cycle + 200]) - self.flow.cycle)):
                self._follow(event, number)
            for stream in self.streams.values():
                if stream.due and stream.due[0] <= self.flow.cycle:
                    self.flow.cancel(stream.node, *stream.due[1:])
                    stream.due = None

    def _over(self) -> bool:
        ended = all((node, s.sent - back) in self.ends for node, s in self.streams.items() for back in range(3))
        return ended and all(at_rest(self.flow, node, 1) for node in self.streams)

    def _follow(self, event: transport.Happening, number: int) -> None:
        match event:
            case transport.Accepted() if event.tag % 3 == 2:
                stream = self.streams[event.node]
                stream.due = (event.cycle + stream.cancels[number], event.slot, event.generation)
            case transport.DatagramEnd():
                assert (event.node, event.tag) not in self.ends
                self.ends[event.node, event.tag] = (event.status, event.cause)
            case transport.Arrived():
                self.taken[event.source].append((int.from_bytes(event.payload, "little"), event.gap))


def flow_of(golden: Golden, node: int) -> Flow:
    """What a node's flow knows."""
    return Flow(golden.numbers[node], int(golden.k.rooms[0].at))


def peer_of(golden: Golden, node: int, other: int) -> Peer:
    """What it knows of another node."""
    flow = flow_of(golden, node)
    return Peer(flow, int(flow.at_peers), other)


def at_rest(flow: GoldenFlow, node: int, index: int) -> bool:
    """Nothing of a stream to node 0 is open, and both ends know the same number and the same limit."""
    sender, receiver = flow_of(flow.golden, node), flow_of(flow.golden, 0)
    out = OutStream(sender, int(sender.at_outs) + index * OutStream.size)
    source = InStream(receiver, int(receiver.at_ins) + (node * flow.ports + index) * InStream.size)
    over = peer_of(flow.golden, node, 0).live == receiver.used == source.present == out.void == 0
    return bool(over and out.base == out.next == source.expected and source.told == out.limit)


@pytest.mark.parametrize("loss", [0.0, pytest.param(0.05, marks=pytest.mark.push)])
def test_a_cancel_in_each_cycle_of_a_message(loss):
    """In a tree of four nodes three send to a port of the fourth; of each three messages the second is cancelled, a
    cycle later each time, from the cycle after it has its slot until long after it has ended.
    """
    system = flow_system(4, topology=TREE, flow={"cells": 12, "in_order": 3}, faults={"loss": loss})
    last = 96 if loss == 0 else 180
    streams = [Stream(node, list(range(node - 1, last, 3))) for node in (1, 2, 3)]
    flow = GoldenFlow(system)
    run = Cancels(flow, streams)
    kinds: Counter[tuple[int, int]] = Counter()
    for number in range(len(streams[0].cancels)):
        run.round(number)
        assert all(at_rest(flow, stream.node, 1) for stream in streams), number
        assert all(peer_of(flow.golden, node, 0).out == Out.UP for node in (1, 2, 3))
    for node, stream in run.streams.items():
        ends = {tag: run.ends[node, tag] for tag in range(1, stream.sent + 1)}
        kinds.update(ends.values())
        taken = [tag for tag, _ in run.taken[node]]
        assert taken == sorted({*taken}) and all(tag in taken for tag, end in ends.items() if end == ACCEPTED)
        assert all(end == ACCEPTED for tag, end in ends.items() if tag % 3 != 2)
        assert not any(tag in taken for tag, (status, _) in ends.items() if status == Status.NEVER_SENT)
        # A gap is told just where a number is missing, and at the beginning.
        for (before, _), (tag, gap) in zip([(0, 1), *run.taken[node]], run.taken[node], strict=False):
            assert gap == (tag == 1 or tag != before + 1)
    assert kinds[ACCEPTED] > 2 * len(kinds) and kinds[Status.UNKNOWN, Cause.CANCELLED] > 20, kinds


# A reset while two nodes connect


#: Of what connects two nodes: PING is told in 49, heard in 76; PONG is told in 122, heard in 149, when the peer is up.
CONNECTING = range(18, 166)
#: The cycle of PONG.
TOLD = 122
#: How what meets a reset of its receiver ends.
MAY_MEET = {ACCEPTED, (Status.UNKNOWN, Cause.RESTARTED), (Status.UNKNOWN, Cause.CANCELLED)}
#: From a reset on: messages that may meet it, and those that may not.
MEET, AFTER = 400, 7000


def message(node: int, tag: int, start: int) -> Item:
    return Item(node=node, destination=1 - node, payload=tag.to_bytes(4, "little"), tag=tag, not_before=start)


def test_what_connects_two_nodes():
    """The cycles that `CONNECTING` covers."""
    system = flow_system(2)
    golden = Golden(system, Script.from_items(system, [message(0, 1, 0)]), record=True)
    golden.run(400)
    words = [(cycle, EVENT.of(word), DETAIL.of(word)) for cycle, _, _, word, _ in golden.take_events().tolist()]
    found = [(cycle, code) for cycle, event, code in words if event in (Event.FLOW_TOLD, Event.FLOW_HEARD)]
    assert [found_at for found_at in found if found_at[1] in (Code.PING, Code.PONG)] == [
        (49, Code.PING), (76, Code.PING), (TOLD, Code.PONG), (149, Code.PONG),
    ]  # fmt: skip
    assert (149, Event.FLOW_PEER, Out.UP) in words


@pytest.mark.parametrize(
    ("node", "scope"),
    [
        (0, "node"), (1, "node"), pytest.param(0, "ni", marks=pytest.mark.push),
        pytest.param(1, "ni", marks=pytest.mark.push),
    ],
)  # fmt: skip
def test_a_reset_of_either_end_in_each_cycle_until_they_are_connected(node, scope):
    """Node 0 connects to node 1, and one of them is reset.  What is sent soon after it may meet the reset, and end as
    UNKNOWN; what is sent later is accepted and arrives, both ways, and in the end both hold each other for up.
    """
    lost = 0
    for start in CONNECTING:
        resets = [{"node": node, "start": start, "cycles": 1 + start % 3, "scope": scope}]
        system = flow_system(2, faults={"resets": resets})
        items = [message(0, 1, 0), message(0, 2, start + MEET), message(1, 3, start + MEET)]
        items += [message(tag % 2, tag, start + AFTER) for tag in range(4, 10)]
        watched = play(system, items, cycles=40_000)
        assert all(watched.ended[tag] == ACCEPTED and tag in watched.taken for tag in range(4, 10)), start
        assert {watched.ended[tag] for tag in (2, 3)} <= MAY_MEET
        # Node 0's first message is lost with node 0; it waits for node 1, or goes to the one that told PONG.
        if node == 1:
            assert watched.ended[1] in ({ACCEPTED} if start <= TOLD else MAY_MEET), start
            lost += watched.ended[1] != ACCEPTED
        for at, other in ((0, 1), (1, 0)):
            peer = peer_of(watched.golden, at, other)
            assert (peer.out, peer.source, peer.live) == (Out.UP, In.OPEN, 0), start
            assert peer.life == boot_of(watched.golden, other), start
    assert lost > 20 or node == 0


def boot_of(golden: Golden, node: int) -> int:
    """How often a node was reset, the low bits."""
    return int(flow_of(golden, node).boot) & 0x7FFF

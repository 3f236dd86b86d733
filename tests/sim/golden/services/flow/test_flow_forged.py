"""A node whose flow says anything: headers and words of control that are forged.  The others go on."""

import random

import numpy as np
import pytest

from lethe.spec.events import Cause, Status
from lethe.spec.services.flow import HEADER, Code, Out
from lethe.spec.trace import fields
from lethe_sim.golden.services.flow.state import HEADER_OUT, WORD_OUT, InStream, Peer, Transfer
from tests.helpers.flow_oracle import flow_system
from tests.helpers.flow_sockets import Flood, Socket

#: The liar is the first node: what it says of ports that it does not have must not fall on the streams of the next.
NODES, LIAR = 4, 0
OTHERS = range(1, NODES)
#: When it begins to lie, when it is reset and lies no more, until when all else has ended, and until when is counted.
LIES, HONEST, QUIET, END = 1200, 4500, 12_000, 14_000
_FIELDS = fields(HEADER)


class Forger:
    """Alters what a node's flow is about to send: in its own memory, after it was made and before it is offered.

    What the merge port writes, credit and ack, lies about streams whose numbers are altered likewise.
    """

    def __init__(self, flood: Flood, seed: int):
        self.flow, self.chance = flood.at(LIAR), random.Random(seed)
        k, _, words = flood.flow.golden.memory(LIAR)
        self.words = words[int(k.rooms[0].at_data) :]
        self.before = (0, 0)
        self.headers = self.control = 0

    def __call__(self) -> None:
        flow, chance, before = self.flow, self.chance, self.before
        now = self.before = (int(flow.transfer), int(flow.control))
        if now[0] == Transfer.RECORD != before[0] and chance.random() < 0.4:
            self.words[HEADER_OUT] = np.uint64(self.header())
            self.headers += 1
        if now[1] == Transfer.RECORD != before[1] and chance.random() < 0.4:
            self.words[WORD_OUT] = np.uint64(chance.getrandbits(64) if chance.random() < 0.3 else self.word())
            self.control += 1
        if chance.random() < 0.002:
            number = chance.choice(OTHERS) * int(flow.ports) + chance.randrange(int(flow.ports))
            stream = InStream(flow, int(flow.at_ins) + number * InStream.size)
            # What is parked is found by its number.
            if not stream.present and not stream.parked:
                stream.expected = chance.randrange(256)

    def header(self) -> int:
        """Any, or one to a port that is there, with a number near that of its stream."""
        chance = self.chance
        if chance.random() < 0.3:
            return chance.getrandbits(64)
        values = {
            "seq": int(self.flow.sending[0].seq) + chance.randrange(-20, 21) & 255, "flags": chance.getrandbits(8),
            "sport": chance.getrandbits(2), "dport": chance.randrange(int(self.flow.ports)),
        }  # fmt: skip
        return sum(value << _FIELDS[name].shift for name, value in values.items())

    def word(self) -> int:
        """One with a code that is there, or is just not; of a WINDOW or VOID often a number that may be of use."""
        chance = self.chance
        if chance.random() < 0.4:
            return chance.randrange(8) | chance.getrandbits(59) << 5
        code = chance.choice((Code.WINDOW, Code.VOID, Code.VOID))
        return code | chance.getrandbits(4) << 5 | chance.randrange(80) << 9 | chance.getrandbits(16) << 17


def lie(seed: int) -> None:
    """Three nodes send to each other, to the liar, and get what it says.

    What one says to the other arrives once and in order, and is ACCEPTED, all the time (`Flood` looks at it, too).
    The liar may hold cells of a port for ever, behind a hole in its stream; when it is reset, these are freed.
    """
    chance = random.Random(seed)
    system = flow_system(
        NODES, flow={"ports": 4, "cells": chance.choice((4, 8, 16)), "in_order": 2, "watch": 300},
        faults={"resets": [{"node": LIAR, "start": HONEST, "cycles": 3}], "loss": chance.choice((0, 0, 0.02))},
    )  # fmt: skip
    sockets = [
        Socket(node, node, other, port)
        for node in range(NODES)
        for other in range(NODES)
        for port in ((0, 1) if node != LIAR else range(4))
        if other != node
    ]
    flood = Flood(system, sockets, liars=(LIAR,))
    honest = [socket for socket in sockets if LIAR not in (socket.node, socket.destination)]
    flood.run(LIES)
    forger = Forger(flood, seed)
    flood.run(HONEST, between=forger)
    assert forger.headers > 0 and forger.control > 0
    flood.run(QUIET, sends=False)
    before = [len(socket.taken) for socket in honest]
    assert before == [socket.sent for socket in honest] and sum(before) > 0
    for node in OTHERS:
        flow = flood.at(node)
        assert (flow.used, flow.congested) == (0, 0)
        assert all(Peer(flow, int(flow.at_peers), other).out == Out.UP for other in OTHERS if other != node)
    flood.run(END)
    assert min(len(socket.taken) - had for socket, had in zip(honest, before, strict=True)) > 0
    assert all({*socket.ends} == {(Status.ACCEPTED, Cause.NONE)} for socket in honest)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_forged_does_not_stop_others(seed):
    lie(seed)


@pytest.mark.full
def test_what_is_forged_does_not_stop_others_often():
    for seed in range(3, 60):
        lie(seed)

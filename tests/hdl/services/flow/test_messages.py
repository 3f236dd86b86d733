"""Messages out: when an attempt is made, how it ends, and what goes to the NI (contract of flow, section 5)."""

import pytest

from lethe.services.flow.layouts import PeerState as Out
from lethe.services.flow.messages import MessagesOut
from lethe.spec.events import Cause, Status
from lethe.spec.services.flow import Flag
from tests.hdl.services.flow.blocks import layouts, stream
from tests.helpers.simulated import simulated, walked

UP = {"state": Out.UP, "incarnation": 3}
OPEN = stream(next=250, limit=10, base=250)
NOWAIT, CONTROL = 1 << Flag.NOWAIT, 0xFF


class Bench:
    """One record; the tables show what they are set to."""

    def __init__(self, **sections):
        self.of = layouts(**sections)
        self.block = MessagesOut(self.of, self.of.system.top_port)
        self.inputs: dict = {"attempt_out": UP, "attempt_numbers": OPEN, "open": 1, "send_below.ready": 1}
        self.inputs |= {"sent_bound": 1, "own_bound": 1}

    def run(self, test) -> None:
        async def process(ctx):
            self.ctx = ctx
            await walked(ctx, self.block, self.of.initial)
            self.set(**self.inputs)
            await test(self)

        simulated(self.block, process)

    def set(self, **values) -> None:
        for name, value in values.items():
            port = self.block
            for part in name.split("."):
                port = getattr(port, part)
            self.ctx.set(port, value)

    def get(self, name: str):
        return self.ctx.get(getattr(self.block, name))

    async def offer(self, **record) -> None:
        """A record from now on; it is at the output two cycles later, when this ends."""
        given = {"destination": 1, "length": 8, "sport": 2, "dport": 1, "tag": 6, **record}
        fields = self.block.send.payload.shape().members
        given["cls"] = given.get("cls", 0) & (1 << self.of.system.format.class_bits) - 1
        self.ctx.set(self.block.send.payload, {name: given.get(name, 0) for name in fields})
        self.set(**{"send.valid": 1, "sent_number": given["sport"], "own_number": given["dport"]})
        assert self.ctx.get(self.block.send.ready)
        await self.ctx.tick()
        self.set(**{"send.valid": 0})
        await self.ctx.tick()

    async def attempts(self, cycles: int) -> list[int]:
        """The cycles, from now on, in which something waits for its peer."""
        found = []
        for cycle in range(cycles):
            if self.get("attempt_connects"):
                found.append(cycle)
            await self.ctx.tick()
        return found


def ended(given: dict, record: dict) -> tuple:
    """(cycle, "admitted" or "refused", cause) of a record, that of its first 8 cycles, or None."""
    bench = Bench()
    bench.inputs |= given
    found: list = []

    async def test(b):
        await b.offer(**record)
        for cycle in range(8):
            for name in ("admitted", "refused"):
                if b.get(name):
                    found.append((cycle, name, Cause(b.get("cause_shown"))))
            await b.ctx.tick()

    bench.run(test)
    assert len(found) <= 1
    return found[0] if found else ()


@pytest.mark.parametrize(
    ("given", "record", "cause"),
    [
        ({}, {"mode": 1}, Cause.MODE),
        ({}, {"cls": CONTROL}, Cause.CLASS),
        ({}, {"destination": 2}, Cause.DESTINATION),
        ({}, {"length": 33}, Cause.LENGTH),
        ({"sent_bound": 0}, {}, Cause.NOT_BOUND),
        ({}, {"mode": 3, "cls": CONTROL}, Cause.MODE),
        ({"silent_soon": 1}, {"flags": NOWAIT}, Cause.NOT_CONNECTED),
        ({"attempt_out": {"state": Out.CONNECTING}}, {"flags": NOWAIT}, Cause.NOT_CONNECTED),
        ({"attempt_out": {"state": Out.UP, "map": 0b10}}, {"flags": NOWAIT}, Cause.CONGESTED),
        ({"attempt_numbers": stream(next=9, limit=9)}, {"flags": NOWAIT}, Cause.WINDOW),
        ({"attempt_numbers": stream(next=9, limit=12, base=249)}, {"flags": NOWAIT}, Cause.WINDOW),
        ({"own_full": 1}, {"destination": 0, "length": 0, "flags": NOWAIT}, Cause.BUFFER),
        ({"attempt_out": {"state": Out.LEAVING}}, {"deadline": 2}, Cause.DEADLINE),
    ],
)
def test_refusals(given, record, cause):
    """In the first attempt, two cycles after the record is there."""
    assert ended(given, record) == (2, "refused", cause)


@pytest.mark.parametrize(
    ("given", "record"),
    [
        ({"attempt_out": {"state": Out.LEAVING}}, {}),
        ({"attempt_out": {"state": Out.UP, "map": 0b10}}, {}),
        ({"attempt_numbers": stream(next=9, limit=9)}, {}),
        ({"own_full": 1}, {"destination": 0, "length": 0}),
        *(({name: 1}, {"mode": 1}) for name in ("job_next", "job_acts", "credit_next", "credit_acts")),
        ({"mark_soon": 1}, {"destination": 0, "length": 0}),
        ({"accept_soon": 1}, {"destination": 0, "length": 0}),
        ({"journal_high": 1}, {"destination": 0, "length": 0}),
        ({}, {"destination": 0, "length": 8}),  # its beats are not here
    ],
)
def test_what_waits(given, record):
    assert ended(given, record) == ()


def test_a_journal_that_is_full_keeps_only_the_own_node_waiting():
    assert ended({"journal_high": 1}, {})[1] == "admitted"


@pytest.mark.parametrize(("beat", "admitted"), [(0, 2), (1, 3), (2, 4), (3, 5)])
def test_the_beats_of_a_message_to_the_own_node(beat, admitted):
    """All were taken before the cycle before the attempt: the last in this cycle after the record."""
    bench = Bench()

    async def test(b):
        await b.offer(destination=0, length=8)
        found = []
        for cycle in range(8):
            b.set(**{"send_data.valid": cycle == beat})
            if b.get("admitted"):
                found.append(cycle)
            await b.ctx.tick()
        assert found == [admitted]

    bench.run(test)


def test_attempts_come_every_four_cycles():
    """From c+2 on; one that cannot be made waits until nothing acts, nor did just before, nor a job in the last two
    cycles; the next comes 4 later.
    """
    bench = Bench()
    bench.inputs["attempt_out"] = {"state": Out.CONNECTING}

    async def test(b):
        await b.offer()
        assert await b.attempts(12) == [2, 6, 10]
        for name, later in (("job", 1), ("credit", 0)):
            b.set(**{f"{name}_next": 1})
            assert await b.attempts(5) == []
            b.set(**{f"{name}_next": 0, f"{name}_acts": 1})
            await b.ctx.tick()
            b.set(**{f"{name}_acts": 0})
            assert await b.attempts(11) == [1 + later, 5 + later, 9 + later]
        b.set(attempt_out=UP)
        await b.ctx.tick().repeat(2)
        assert b.get("admitted")

    bench.run(test)


@pytest.mark.parametrize("flit_bits", [16, 64, 128])
def test_a_message_to_the_ni(flit_bits):
    """Record, header and beats; the numbers go on, and the receiver is asked if the limit is near."""
    bench = Bench(wire={"flit_bits": flit_bits, "mtu": 40})
    bench.inputs["attempt_numbers"] = stream(next=250, limit=2, base=249)

    async def test(b):
        await b.offer(flags=3, tag=6, length=9, cls=1, retry_limit=4)
        b.set(**{"send_data.valid": 1, "send_data.payload": 0x55, "send_data_below.ready": 1})
        await b.ctx.tick().repeat(2)
        assert b.get("admitted") and b.get("attempt_writes") and b.get("attempt_lives")
        word = b.get("attempt_word")
        assert (word.next, word.left, word.open, word.asked, word.stuck) == (251, 7, 2, 1, 0)
        beats = []
        for cycle in range(16):
            await b.ctx.tick()
            valid = b.ctx.get(b.block.send_below.valid)
            assert valid == (cycle == 0)
            if valid:
                sent = b.ctx.get(b.block.send_below.payload)
                assert (sent.destination, sent.cls, sent.expect, sent.tag) == (1, 1, 3, 6)
                assert (sent.length, sent.mode, sent.retry_limit) == (9 + b.of.header_bytes, 0, 4)
            if b.ctx.get(b.block.send_data_below.valid):
                beats.append(b.ctx.get(b.block.send_data_below.payload))
        header = sum(beat << at * flit_bits for at, beat in enumerate(beats[: b.of.header_beats]))
        assert header == 250 << 16 | (3 | 1 << Flag.ASK) << 24 | 2 << 32 | 1 << 48
        assert beats[b.of.header_beats :] == [0x55] * -(-9 * 8 // flit_bits)
        row = b.get("transfer_row")
        assert (row.node, row.index, row.q, row.seq, row.length) == (1, 1, 2, 250, 9)

    bench.run(test)


def test_refused_beats_are_dropped_and_the_slot_goes_on():
    """Each refused message has the slot behind those of the NI, and the next generation of it."""
    bench = Bench()

    async def test(b):
        for generation in range(2):
            await b.offer(length=40)
            b.set(**{"send_data.valid": 1})
            await b.ctx.tick().repeat(12)
            assert not b.ctx.get(b.block.send_data.ready)  # all five have come
            b.set(**{"send_data.valid": 0})
            end = b.ctx.get(b.block.completion.payload)
            assert b.ctx.get(b.block.completion.valid) and not b.get("messages_idle")
            assert (end.slot, end.generation, end.tag) == (8, generation, 6)
            assert (end.status, end.cause, end.peer_incarnation) == (Status.REJECTED, Cause.LENGTH, 0)
            b.set(**{"completion.ready": 1})
            await b.ctx.tick()
            b.set(**{"completion.ready": 0})
            assert b.get("messages_idle")

    bench.run(test)


def test_a_quota_is_kept():
    """As many messages of a socket as may be under way, until one ends; bytes as the host has limited them."""
    bench = Bench(flow={"ports": 4, "cells": 4, "in_order": 2, "quota": 2})

    async def test(b):
        async def goes(length: int) -> bool:
            await b.offer(length=length, flags=NOWAIT)
            b.set(**{"send_data.valid": 1, "send_data_below.ready": 1})
            await b.ctx.tick().repeat(2)
            admitted = bool(b.get("admitted"))
            assert admitted or b.get("cause_shown") == Cause.BUFFER
            b.set(**{"completion.ready": 1})
            await b.ctx.tick().repeat(16)
            b.set(**{"send_data.valid": 0})
            return admitted

        assert [await goes(8), await goes(8), await goes(8)] == [True, True, False]
        b.set(job_leaves=1, job_q=2, job_length=8)
        await b.ctx.tick()
        b.set(job_leaves=0, send_limits=1, set_index=2, set_value=1)
        await b.ctx.tick()
        b.set(send_limits=0)
        assert [await goes(9), await goes(8)] == [False, True]

    bench.run(test)


@pytest.mark.parametrize("late", [False, True])
def test_a_limit_of_a_socket_holds_from_the_next_cycle_on(late):
    """It is set while the record comes, or in the first cycle in which the record waits, two before its attempt."""
    bench = Bench()

    async def test(b):
        if not late:
            b.set(send_limits=1, set_index=2, set_value=1)
        await b.offer(length=17, flags=NOWAIT)
        b.set(send_limits=int(late), set_index=2, set_value=1)
        await b.ctx.tick()
        b.set(send_limits=0)
        await b.ctx.tick()
        assert b.get("refused") and b.get("cause_shown") == Cause.LENGTH

    bench.run(test)

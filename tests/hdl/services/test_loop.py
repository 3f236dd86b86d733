"""The loop alone: what it takes, refuses, delivers and forgets, in its cycle (cycle contract, section 10.1)."""

import random

import pytest

from lethe.spec.events import Cause, Event, Status
from tests.helpers.rtl_loop_bench import NODE, SLOTS, LoopBench, system_with

ACCEPTED, REJECTED = Status.ACCEPTED << 4, Status.REJECTED << 4


def uid(slot: int, generation: int, incarnation: int = 1) -> tuple[int, int, int, int]:
    return NODE, incarnation, slot, generation


def played(test):
    """The test on a loop of two slots, in flits of 64 bits."""

    def run():
        LoopBench(system_with()).run(test)

    run.__doc__ = test.__doc__
    return run


@played
async def test_the_example_of_the_contract(bench):
    """Handshake in 0, beat in 1, LOOPED in 2, record, beat and completion from 4 on."""
    above = bench.loop.above
    bench.set(above.completion.ready, 0)
    await bench.send(bytes(range(1, 9)), tag=9)
    assert bench.cycle == 2
    assert bench.shown() == [(Event.LOOPED, 0, NODE, 8, 9, uid(SLOTS, 0))]
    accepted = bench.get(above.accepted)
    assert (accepted.valid, accepted.slot, accepted.generation, accepted.tag) == (1, SLOTS, 0, 9)
    offered = ("completion.valid", "deliver_loop.valid", "deliver_loop_data.valid", "deliver_loop_data.last")
    await bench.tick()
    assert not any(bench.flags()[name] for name in offered) and bench.shown() == [] and bench.beat() == 0
    assert not bench.get(above.accepted.valid)
    await bench.tick()
    assert all(bench.flags()[name] for name in offered) and bench.beat() == 0x0807_0605_0403_0201
    completion = bench.get(above.completion.payload)
    assert (completion.slot, completion.destination, completion.tag) == (SLOTS, NODE, 9)
    assert (completion.status, completion.cause, completion.peer_incarnation) == (Status.ACCEPTED, Cause.NONE, 1)
    for ready in (above.completion.ready, above.deliver_loop.ready):
        bench.set(ready, 1)
    assert bench.shown() == [
        (Event.LOOP_COMPLETE, ACCEPTED, NODE, 0, 9, uid(SLOTS, 0)),
        (Event.LOOP_TAKE, 0, NODE, 8, 0, None),
    ]
    assert not bench.flags()["idle"]
    bench.set(above.deliver_loop_data.ready, 1)
    await bench.tick()
    assert bench.flags()["idle"] and bench.shown() == []


@pytest.mark.parametrize("flit_bits", [16, 64, 128])
@pytest.mark.parametrize("loop_flits", ["least", "default"])
def test_payloads_come_as_they_were(flit_bits, loop_flits):
    """Every length, through a host that takes and stalls; bytes beyond the length are 0, whatever was offered."""
    mtu = 24
    system = system_with(
        wire={"flit_bits": flit_bits, "mtu": mtu},
        ni={"source_incarnation": True},
        loop={"slots": 3, "flits": -(-mtu * 8 // flit_bits) if loop_flits == "least" else 0},
    )
    chance = random.Random(flit_bits)
    payloads = [chance.randbytes(length) for length in [*range(mtu + 1), *chance.sample(range(mtu + 1), mtu)]]

    async def test(bench):
        assert system.loop_flits == system.slot_flits * (1 if loop_flits == "least" else 4)
        for tag, payload in enumerate(payloads):
            await bench.send(payload, cls=tag & 3)
            await bench.tick(chance.choice((0, 0, 1, 5)))
            record, taken = await bench.take()
            assert taken == payload
            assert record == {"source": NODE, "incarnation": 1, "cls": tag & 3, "length": len(payload)}
        await bench.tick(2)
        assert bench.flags()["idle"]

    LoopBench(system).run(test)


def test_flits_of_one_payload_are_room_enough():
    """One flit in all: the next fits when the one before is in the output register."""
    system = system_with(wire={"flit_bits": 128, "mtu": 16}, loop={"slots": 2, "flits": 1})

    async def test(bench):
        for payload in (b"first", b"second"):
            await bench.send(payload)
        assert (await bench.take())[1] == b"first"
        assert (await bench.take())[1] == b"second"

    LoopBench(system).run(test)


def test_room_counts_beats_to_the_last():
    """Six beats, of which one has gone to the output: with four in memory two fit, three do not."""
    system = system_with(loop={"slots": 8, "flits": 6})

    async def test(bench):
        send, beats = bench.loop.above.send, bench.loop.above.deliver_loop_data

        def fits(length: int) -> bool:
            bench.offer(length)
            ready = bench.flags()["send.ready"]
            bench.set(send.valid, 0)
            return bool(ready)

        await bench.send(bytes(32))
        await bench.send(bytes(8))
        await bench.tick(3)
        assert [fits(length) for length in (0, 16, 17, 24, 32)] == [True, True, False, False, False]
        bench.set(beats.ready, 1)
        await bench.tick()
        bench.set(beats.ready, 0)
        assert [fits(length) for length in (17, 24, 25)] == [True, True, False]
        await bench.send(bytes(24))
        await bench.tick(3)
        assert [fits(length) for length in (0, 1)] == [True, False]
        bench.offer(33)  # refused: needs no room
        assert bench.flags()["send.ready"]

    LoopBench(system).run(test)


@played
async def test_records_wait_for_records(bench):
    """Two in memory and one at the output are all that two slots hold, however many completions are taken."""
    for length in (0, 0, 0):
        await bench.send(bytes(length))
    await bench.tick(5)
    bench.offer(0)
    assert not bench.flags()["send.ready"]
    bench.set(bench.loop.above.deliver_loop.ready, 1)
    await bench.tick()
    bench.set(bench.loop.above.deliver_loop.ready, 0)
    assert bench.flags()["send.ready"]


@played
async def test_a_slot_is_in_use_until_its_completion_is_taken(bench):
    above = bench.loop.above
    bench.set(above.completion.ready, 0)
    bench.set(above.deliver_loop.ready, 1)
    for _ in range(2):
        await bench.send(b"")
    await bench.tick(5)
    bench.offer(0)
    assert not bench.flags()["send.ready"]
    bench.set(above.completion.ready, 1)
    assert not bench.flags()["send.ready"]
    await bench.tick()
    assert bench.flags()["send.ready"]


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        ({"mode": 2, "length": 33, "expect": 2}, Cause.MODE),
        ({"mode": 255, "length": 0}, Cause.MODE),
        ({"mode": 1, "length": 33, "expect": 2}, Cause.LENGTH),
        ({"length": 0xFFFF}, Cause.LENGTH),
        ({"length": 32, "expect": 2}, Cause.RESTARTED),
        ({"length": 0, "expect": 3}, Cause.RESTARTED),
    ],
)
def test_what_is_refused_is_taken_whole_and_leaves_nothing(record, cause):
    async def test(bench):
        length = record["length"]
        await bench.send(bytes(length), tag=5, **record)
        assert bench.cycle == 1 + -(-length // 8)
        accepted = bench.get(bench.loop.above.accepted)
        assert (accepted.valid, accepted.slot, accepted.tag) == (1, SLOTS, 5) and bench.shown() == []
        await bench.tick(2)
        ended = bench.get(bench.loop.above.completion.payload)
        assert (ended.status, ended.cause, ended.peer_incarnation) == (Status.REJECTED, cause, 0)
        bench.set(bench.loop.incarnation, 7)
        assert bench.shown() == [(Event.LOOP_COMPLETE, REJECTED | cause, NODE, 0, 5, uid(SLOTS, 0, 7))]
        await bench.tick()
        assert bench.flags()["idle"] and not bench.flags()["deliver_loop.valid"]
        await bench.send(b"good")
        assert (await bench.take())[1] == b"good"

    system = system_with(wire={"mtu": 32})
    LoopBench(system).run(test)


@pytest.mark.parametrize("record", [{"expect": 1}, {"mode": 1}, {"deadline": 1, "retry_limit": 1}])
def test_what_does_not_matter_is_not_refused(record):
    async def test(bench):
        await bench.send(b"good", **record)
        assert [event for event, *_ in bench.shown()] == [Event.LOOPED]

    LoopBench(system_with()).run(test)


@played
async def test_the_nis_completion_goes_first_but_what_is_offered_stays(bench):
    above, below = bench.loop.above.completion, bench.loop.below.completion
    bench.set(above.ready, 0)
    bench.set(below.payload, {"slot": 2, "tag": 0x1234, "destination": 0})

    def offered() -> tuple[int, int, int]:
        return bench.get(above.valid), bench.get(above.payload.slot), bench.get(below.ready)

    await bench.send(b"")
    await bench.send(b"")
    bench.set(below.valid, 1)
    await bench.tick(3)
    assert offered() == (1, 2, 0)  # both are there: the NI's
    bench.set(above.ready, 1)
    assert offered() == (1, 2, 1)
    await bench.tick()
    bench.set(below.valid, 0)
    bench.set(above.ready, 0)
    assert offered() == (1, SLOTS, 0)
    await bench.tick()
    bench.set(below.valid, 1)
    assert offered() == (1, SLOTS, 0)  # it was offered, and stays
    await bench.tick()
    bench.set(above.ready, 1)
    assert offered() == (1, SLOTS, 0)
    await bench.tick()
    assert offered() == (1, 2, 1)  # the next was not
    bench.set(below.valid, 0)
    assert offered() == (1, SLOTS + 1, 0)


@played
async def test_a_cancel_of_its_slots_does_nothing(bench):
    above, below = bench.loop.above.cancel, bench.loop.below.cancel
    await bench.send(b"")
    for slot in range(8):
        own = slot >= SLOTS
        bench.set(above.payload, {"slot": slot, "generation": 3})
        for valid in (0, 1):
            for ready in (0, 1):
                bench.set(above.valid, valid)
                bench.set(below.ready, ready)
                assert bench.get(below.valid) == (valid and not own)
                assert bench.flags()["cancel.ready"] == bench.get(above.ready) == (own or ready)
        if not own:
            assert (bench.get(below.payload.slot), bench.get(below.payload.generation)) == (slot, 3)


@played
async def test_the_nis_datagrams_pass(bench):
    """The record passes in its cycle, then so many beats; meanwhile no record is taken, an own one neither."""
    above, below = bench.loop.above, bench.loop.below
    bench.set(below.send.ready, 0)
    record = {"destination": 0, "length": 20, "tag": 3, "cls": 1, "mode": 9, "deadline": 5, "retry_limit": 6}
    bench.offer(**record)
    assert not bench.get(above.send.ready)
    bench.set(below.send.ready, 1)
    assert {name: bench.get(below.send.payload)[name] for name in record} == record
    assert bench.get(below.send.valid) and bench.flags()["send.ready"]
    bench.set(above.send_data.valid, 1)
    assert not bench.get(below.send_data.valid) and not bench.flags()["send_data.ready"]
    await bench.tick()
    for destination in (0, NODE):
        bench.offer(8, destination=destination, cls=3)
        assert not bench.flags()["send.ready"] and not bench.get(below.send.valid)
        assert not bench.get(below.send.payload.cls)
    for beat in range(3):
        bench.set(above.send_data.payload, 100 + beat)
        bench.set(below.send_data.ready, 0)
        assert not bench.flags()["send_data.ready"]
        await bench.tick()
        bench.set(below.send_data.ready, 1)
        assert bench.flags()["send_data.ready"] and bench.get(below.send_data.payload) == 100 + beat
        await bench.tick()
    assert not bench.get(below.send_data.valid) and bench.flags()["send.ready"]
    bench.offer(0, destination=0)
    await bench.tick()
    assert bench.get(below.send.valid)  # no beats, so the next record may come at once


@played
async def test_a_record_for_the_own_node_is_not_shown_to_the_ni(bench):
    below = bench.loop.below
    bench.offer(8, cls=7, tag=77)
    shown = bench.get(below.send.payload)
    assert not bench.get(below.send.valid) and not any(shown[name] for name in shown.shape().members)
    assert bench.flags()["send.ready"]
    for signal, value in ((bench.loop.above.quiesce, 1), (below.ready, 0)):
        before = bench.get(signal)
        bench.set(signal, value)
        assert not bench.flags()["send.ready"]
        bench.set(signal, before)
    bench.set(below.send.ready, 0)
    assert bench.flags()["send.ready"]
    # While nothing is offered, the NI says whether it is ready.
    bench.set(bench.loop.above.send.valid, 0)
    assert not bench.flags()["send.ready"]


@played
async def test_accepted_waits_for_the_nis(bench):
    """With control slots an NI may accept while an own datagram is due."""
    above, below = bench.loop.above, bench.loop.below
    await bench.send(b"8 bytes.", tag=6)
    bench.set(below.accepted, {"valid": 1, "slot": 2, "generation": 5, "tag": 4})
    for _ in range(3):
        accepted = bench.get(above.accepted)
        assert (accepted.valid, accepted.slot, accepted.generation, accepted.tag) == (1, 2, 5, 4)
        assert bench.shown() == [] and not bench.flags()["send.ready"] and not bench.flags()["send_data.ready"]
        await bench.tick()
    bench.set(below.accepted, {"valid": 0, "slot": 2, "generation": 5, "tag": 4})
    accepted = bench.get(above.accepted)
    assert (accepted.valid, accepted.slot, accepted.generation, accepted.tag) == (1, SLOTS, 0, 6)
    assert [event for event, *_ in bench.shown()] == [Event.LOOPED]
    await bench.tick(2)
    assert bench.flags()["deliver_loop.valid"]


@played
async def test_idle_is_all_that_is_idle(bench):
    """Not while the NI is not, a record or a beat waits, a completion waits, or beats are due."""
    above, below = bench.loop.above, bench.loop.below
    bench.set(above.completion.ready, 0)
    ready = [above.completion.ready, above.deliver_loop.ready, above.deliver_loop_data.ready]
    for order in (ready, ready[::-1]):
        await bench.send(b"8 bytes.")
        await bench.tick(3)
        for bit in order:
            assert not bench.flags()["idle"]
            bench.set(bit, 1)
            await bench.tick()
            bench.set(bit, 0)
        assert bench.flags()["idle"]
    bench.set(below.idle, 0)
    assert not bench.flags()["idle"]
    bench.set(below.idle, 1)
    bench.offer(8, destination=0)
    await bench.tick()
    assert not bench.flags()["idle"]


def test_what_the_loop_accepts_came_by_send():
    """The NI's fields show through only with its own ``valid``."""

    async def test(bench):
        above, below = bench.loop.above.accepted, bench.loop.below.accepted
        bench.set(below, {"valid": 0, "slot": 3, "generation": 2, "tag": 1, "control": 1})
        await bench.send(b"", tag=6)
        assert [bench.get(above)[name] for name in ("valid", "slot", "generation", "tag", "control")] == [
            1, SLOTS, 0, 6, 0
        ]  # fmt: skip

    LoopBench(system_with(ni={"control_slots": 1, "control_classes": 1})).run(test)


def test_slots_go_round_and_generations_with_them():
    """Three slots, one bit of generation: the seventh datagram has the name of the first."""
    system = system_with(wire={"generation_bits": 1}, loop={"slots": 3}, timers={"wrap_guard": 0})

    async def test(bench):
        bench.set(bench.loop.above.deliver_loop.ready, 1)
        names = []
        for _ in range(8):
            await bench.send(b"")
            (name,) = [row[-1] for row in bench.shown() if row[0] == Event.LOOPED]
            names.append(name[2:])
            accepted = bench.get(bench.loop.above.accepted)
            assert (accepted.slot, accepted.generation) == name[2:]
            await bench.tick(3)
        rounds = [(SLOTS + slot, generation) for generation in (0, 1) for slot in range(3)]
        assert names == [*rounds, *rounds[:2]]

    LoopBench(system).run(test)


STATES = ("idle", "below", "first beat due", "last beat due", "done", "waits for the NI")


async def brought(bench: LoopBench, state: str) -> None:
    """A datagram is delivered and complete, nothing of it taken; then the loop is brought into a state."""
    above, below = bench.loop.above, bench.loop.below
    bench.set(above.completion.ready, 0)
    await bench.send(b"delivered before", tag=1)
    await bench.tick(3)
    assert bench.flags()["completion.valid"] and bench.flags()["deliver_loop_data.valid"]
    if state == "idle":
        return
    bench.offer(16, destination=0 if state == "below" else NODE, tag=2)
    assert bench.flags()["send.ready"]
    await bench.tick()
    bench.set(above.send.valid, 0)
    bench.set(above.send_data.valid, 1)
    if state in ("last beat due", "done", "waits for the NI"):
        await bench.tick()
    if state in ("done", "waits for the NI"):
        bench.set(below.accepted.valid, state == "waits for the NI")
        await bench.tick()
    if state == "waits for the NI":
        await bench.tick()
        bench.set(below.accepted.valid, 0)
    bench.set(above.send_data.valid, 0)


async def reset(bench: LoopBench, *, whole: bool, cycles: int = 2) -> None:
    """A reset of the NI, which shows nothing then, or of the whole node: in it the port above is silent."""
    loop = bench.loop
    bench.set(loop.node_reset, 1)
    bench.set(loop.service_reset, whole)
    for signal in (loop.below.ready, loop.below.idle, loop.below.send.ready, loop.below.send_data.ready):
        bench.set(signal, 0)
    bench.set(loop.incarnation, 2)
    for cycle in range(cycles):
        assert bench.flags() == dict.fromkeys(bench.flags(), 0) and bench.beat() == 0
        lost = [(Event.LOOP_RESET, 0, 0, 1, 0, None)] if whole and cycle == 0 else []
        assert bench.shown() == lost
        streams = (
            loop.above.send.ready, loop.above.send_data.ready, loop.above.cancel.ready, loop.above.completion.valid,
            loop.above.deliver_loop.valid, loop.above.deliver_loop_data.valid, loop.above.accepted.valid,
        )  # fmt: skip
        assert not any(map(bench.get, streams))
        await bench.tick()
    bench.set(loop.node_reset, 0)
    bench.set(loop.service_reset, 0)


@pytest.mark.parametrize("state", STATES)
def test_a_reset_of_the_ni_keeps_what_is_delivered(state):
    """What was under way is forgotten, and its slot is used again; record, beats and completion stay."""

    async def test(bench):
        above, below = bench.loop.above, bench.loop.below
        await brought(bench, state)
        bench.set(above.send_data.valid, 1)
        bench.set(above.deliver_loop.ready, 1)
        bench.set(above.deliver_loop_data.ready, 1)
        await reset(bench, whole=False)
        bench.set(above.deliver_loop.ready, 0)
        bench.set(above.deliver_loop_data.ready, 0)
        bench.set(above.send_data.valid, 0)
        bench.set(below.completion.payload, {"slot": 3})
        bench.set(below.completion.valid, 1)
        assert bench.get(above.completion.payload.slot) == 3  # the own one was shown before, and counts as not shown
        bench.set(below.completion.valid, 0)
        assert not bench.flags()["send.ready"]  # the NI is not Ready
        bench.set(below.ready, 1)
        bench.set(below.idle, 1)
        assert bench.shown() == [] and not bench.flags()["send_data.ready"]
        await bench.send(b"delivered after.", tag=3)
        assert bench.shown() == [(Event.LOOPED, 0, NODE, 16, 3, uid(SLOTS + 1, 0, 2))]
        bench.set(above.completion.ready, 1)
        # The completion of the first names it by the incarnation that it was sent in.
        await bench.tick()
        bench.set(above.completion.ready, 0)
        for wanted in (b"delivered before", b"delivered after."):
            record, payload = await bench.take()
            assert (payload, record["length"]) == (wanted, 16)
        bench.set(above.completion.ready, 1)
        ((event, detail, _, _, tag, name),) = bench.shown()
        assert (event, detail, tag, name) == (Event.LOOP_COMPLETE, ACCEPTED, 3, uid(SLOTS + 1, 0, 2))
        await bench.tick()
        assert bench.flags()["idle"]

    LoopBench(system_with(loop={"flits": 16})).run(test)


@pytest.mark.parametrize("state", STATES)
def test_a_reset_of_the_node_forgets_all_and_says_what_it_loses(state):
    async def test(bench):
        await brought(bench, state)
        await reset(bench, whole=True)
        flags = bench.flags()
        assert not any(flags[name] for name in ("completion.valid", "deliver_loop.valid", "deliver_loop_data.valid"))
        for signal in (bench.loop.below.ready, bench.loop.below.idle, bench.loop.above.completion.ready):
            bench.set(signal, 1)
        assert bench.flags()["idle"]
        await bench.send(b"after", tag=3)
        assert bench.shown() == [(Event.LOOPED, 0, NODE, 5, 3, uid(SLOTS, 0, 2))]
        assert (await bench.take())[1] == b"after"

    LoopBench(system_with()).run(test)


@played
async def test_a_completion_that_outlives_a_reset_has_the_name_of_its_time(bench):
    """Accepted ones keep their incarnation; refused ones have the NI's, as nobody else knows them."""
    bench.set(bench.loop.above.completion.ready, 0)
    await bench.send(b"", tag=1)
    await bench.send(b"", tag=2, mode=3)
    await bench.tick(2)
    await reset(bench, whole=False, cycles=1)
    bench.set(bench.loop.above.completion.ready, 1)
    assert bench.shown() == [(Event.LOOP_COMPLETE, ACCEPTED, NODE, 0, 1, uid(SLOTS, 0, 1))]
    assert bench.get(bench.loop.above.completion.payload.peer_incarnation) == 1
    await bench.tick()
    assert bench.shown() == [(Event.LOOP_COMPLETE, REJECTED | Cause.MODE, NODE, 0, 2, uid(SLOTS + 1, 0, 2))]


@pytest.mark.push
def test_every_datagram_comes_once_in_its_order():
    """A host that sends, takes and stalls at random, and an NI below that is as busy."""
    system = system_with(wire={"flit_bits": 32, "mtu": 13}, loop={"slots": 5, "flits": 9})
    chance = random.Random(3)

    async def test(bench):
        above, below = bench.loop.above, bench.loop.below
        bench.set(below.send.ready, 1)
        sent, beats, begun, taken, ends, awaited, left = [], [], [], [], [], 0, 0
        current = None
        for _ in range(6000):
            if current is None and chance.random() < 0.5:
                own = chance.random() < 0.7
                current = NODE if own else 0, chance.randbytes(chance.choice((0, 1, 4, 5, 13)))
            bench.set(above.send.valid, 0)
            if current and not beats:
                bench.offer(len(current[1]), destination=current[0])
                bench.set(above.send.valid, 1)
            offers = bool(beats) and chance.random() < 0.7
            bench.set(above.send_data.valid, offers)
            bench.set(above.send_data.payload, beats[0] if beats else 0)
            bench.set(below.send_data.ready, chance.random() < 0.7)
            bench.set(below.accepted.valid, chance.random() < 0.2)
            there = chance.random() < 0.2 or left > 0
            bench.set(below.completion.valid, there)
            for port in (above.completion, above.deliver_loop, above.deliver_loop_data):
                bench.set(port.ready, chance.random() < 0.4)
            if current and not beats and bench.get(above.send.ready):
                sent.append(current)
                text = current[1]
                beats = [int.from_bytes(text[at : at + 4], "little") for at in range(0, len(text), 4)]
                current = None
            elif offers and bench.get(above.send_data.ready):
                beats.pop(0)
            if bench.get(above.deliver_loop.valid) and bench.get(above.deliver_loop.ready):
                begun.append(bench.get(above.deliver_loop.payload.length))
            if bench.get(above.deliver_loop_data.valid) and bench.get(above.deliver_loop_data.ready):
                beat = bench.get(above.deliver_loop_data.payload)
                taken.append((beat.data, beat.last))
            left = there and not bench.get(below.completion.ready)
            for event, *_, name in bench.shown():
                awaited += event == Event.LOOPED
                ends += [name] if event == Event.LOOP_COMPLETE else []
            await bench.tick()
        own = [text for to, text in sent if to == NODE]
        assert len(own) > 250 and len(sent) - len(own) > 100
        assert 0 <= len(own) - awaited <= 1 and awaited - 5 <= len(ends) <= awaited
        assert ends == [uid(SLOTS + n % 5, n // 5) for n in range(len(ends))]
        assert begun == [len(text) for text in own[: len(begun)]] and len(begun) > 240
        whole, text = [], b""
        for data, last in taken:
            text += data.to_bytes(4, "little")
            if last:
                whole.append(text)
                text = b""
        wanted = [text + bytes(-len(text) % 4) for text in own if text]
        assert whole == wanted[: len(whole)] and len(whole) > 150

    LoopBench(system).run(test)

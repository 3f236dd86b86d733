"""The driver over the golden model: its calls, its errors, and the code of its page."""

import asyncio
import re

import numpy as np
import pytest

from lethe.spec.config import System
from lethe.spec.events import Cause, Status
from lethe.spec.registers import RegisterMap
from lethe_sim.driver.driver import Driver, Name
from lethe_sim.driver.golden import GoldenNetwork
from lethe_sim.driver.transport import Datagram, DriverError, Transport
from tests.helpers import ROOT

WIRE = {"topology": {"kind": "wire"}}


def run(program, **sections):
    """A program with the drivers of all nodes, opened."""
    network = GoldenNetwork(System.make(**WIRE | sections))
    drivers = [Driver(transport, patience=20_000) for transport in network.transports]

    async def opened():
        for driver in drivers:
            await driver.open()
        return await program(*drivers)

    return asyncio.run(opened())


def test_payloads_of_every_length_arrive_once_over_lossy_links():
    sent = [bytes(range(length)) for length in range(33)]

    async def program(near, far):
        for payload in sent:
            await near.send(1, payload, cls=len(payload) % 8)
        found = [await far.recv() for _ in sent]
        assert sorted(one.payload for one in found) == sorted(sent)
        assert all(one.source == 0 and one.cls == len(one.payload) % 8 for one in found)
        ends = await near.completions(len(sent))
        assert sorted(end.tag for end in ends) == list(range(len(sent)))
        assert {(end.status, end.cause, end.destination) for end in ends} == {(Status.ACCEPTED, Cause.NONE, 1)}
        await far.idle()
        with pytest.raises(DriverError, match=r"recv: nothing was delivered in 400 cycles; wait longer"):
            await far.recv(patience=400)

    run(program, faults={"loss": 0.2})


def test_completions_that_were_too_few_are_not_lost():
    async def program(near, far):
        sent = [await near.send(1, b"data") for _ in range(3)]
        for _ in sent:
            await far.recv()
        with pytest.raises(DriverError, match="completions: 3 of 4 came in 4,000 cycles"):
            await near.completions(4, patience=4000)
        assert sorted(end.tag for end in await near.completions()) == sorted(name.tag for name in sent)

    run(program)


def test_control_goes_by_slots_of_its_own():
    ni = {"slots": 4, "control_slots": 1, "control_classes": 1, "source_incarnation": True}

    async def program(near, far):
        await near.control(link_enable=False)
        for tag in range(3):
            await near.send(1, b"data", tag=tag)
        with pytest.raises(DriverError, match=r"send: the NI has not taken datagram 3 in 400 cycles; it still may\."):
            await near.send(1, b"data", tag=3, patience=400)
        name = await near.send(1, b"control", tag=9, cls=7)
        assert name.slot == 3 and name.tag == 9
        await near.control()
        assert len(await near.completions(5)) == 5
        await far.reset()
        await far.send(0, b"of the second")
        assert (await near.recv()).incarnation == 2

    run(program, ni=ni)


def test_a_cancel_a_reset_and_the_counters():
    async def program(near, far):
        await near.control(link_enable=False)
        first, second = await near.send(1, b"a"), await near.send(1, b"b")
        await near.cancel(first)
        (end,) = await near.completions(1)
        assert (end.slot, end.generation, end.tag) == first
        assert (end.status, end.cause) == (Status.NEVER_SENT, Cause.CANCELLED)
        await near.cancel(first)  # nothing happens
        assert await near.reset(255, incarnation=9) == 9
        assert await near.completions() == []
        await near.control()
        assert (await near.counters())["ACCEPTED"] == 2, "counters survive"
        await near.send(1, b"c", expect=1)
        (end,) = await near.completions(1)
        assert end.incarnation == 9 and end.status is Status.ACCEPTED and second
        assert (await far.recv()).payload == b"c"
        assert await near.reset() == 10

    run(program)


def test_what_cannot_be_done_is_told_with_its_cure():
    async def program(near, far):
        wrong = {
            "destination must be 0 to 1, not 2": {"destination": 2},
            "destination 0 is the own node; set loop.slots": {"destination": 0},
            "length must be 0 to 32, not 33": {"destination": 1, "payload": bytes(33)},
            "tag must be 0 to 65535, not 65536": {"destination": 1, "tag": 65536},
            "cls must be 0 to 7, not -1": {"destination": 1, "cls": -1},
            "mode must be 0 to 1, not 2": {"destination": 1, "mode": 2},
            "expect must be 0 to 15, not 16": {"destination": 1, "expect": 16},
        }
        for message, arguments in wrong.items():
            with pytest.raises(DriverError, match=f"^send: {message}"):
                await near.send(**arguments)
        with pytest.raises(DriverError, match="reset: cycles must be 1 to 255, not 0"):
            await near.reset(0)
        with pytest.raises(DriverError, match=r"RESET\.INCARNATION must be 0 to 15, not 16"):
            await near.reset(incarnation=16)
        with pytest.raises(DriverError, match="completions: 0 of 1 came in 400 cycles; wait longer, or send with"):
            await near.completions(1, patience=400)
        with pytest.raises(DriverError, match="NOTHING: the NI has no such register"):
            await near.read("NOTHING")
        with pytest.raises(DriverError, match="RESET: reading it is an error; it is written only"):
            await near.read("RESET")
        with pytest.raises(DriverError, match=r"DUMP: writing {'INDEX': 0} was refused; .* or not QUIESCE"):
            await near.write("DUMP", INDEX=0)
        with pytest.raises(DriverError, match="CONTROL has no field SPEED"):
            await near.write("CONTROL", SPEED=1)
        await near.write("RESET", CYCLES=200)
        with pytest.raises(DriverError, match="cancel: the node is in reset"):
            await near.cancel(Name(0, 0, 0))
        with pytest.raises(DriverError, match=r"STATUS\.IDLE: the NI did not become idle in 20 cycles"):
            await near.idle(patience=20)

    run(program)

    async def uncounted(near, _):
        with pytest.raises(DriverError, match=r"counters: the NI has none; set ni\.statistics = true"):
            await near.counters()

    run(uncounted, ni={"statistics": False})
    with pytest.raises(DriverError, match=r"\[loop\]: the golden model's driver has no services; leave them out"):
        GoldenNetwork(System.make(loop={"slots": 2}))


def in_turns(transport) -> list[int]:
    """Let other tasks go on at each call of a transport; returns the addresses that are read from now on."""
    asked = []
    read, write, wait = transport.read, transport.write, transport.wait

    async def reads(address):
        asked.append(address)
        await asyncio.sleep(0)
        return await read(address)

    async def writes(address, word):
        await asyncio.sleep(0)
        return await write(address, word)

    async def waits(cycles):
        await asyncio.sleep(0)
        await wait(cycles)

    transport.read, transport.write, transport.wait = reads, writes, waits
    return asked


def test_tasks_take_turns_with_one_driver():
    """What one has begun with registers no other disturbs."""

    async def program(near, far):
        transport, asked = near._transport, in_turns(near._transport)
        names = await asyncio.gather(*(near.send(1, b"data", tag=tag) for tag in (5, 6, 7)))
        assert [name.tag for name in names] == [5, 6, 7] and len({name.slot for name in names}) == 3
        first, second = await asyncio.gather(near.counters(), near.counters())
        assert first["ACCEPTED"] == second["ACCEPTED"] == 3
        counters = [register.address for register in transport.map.counters]
        assert [address for address in asked if address in counters] == 2 * counters
        ends = await near.completions(3)
        assert {(end.slot, end.generation, end.tag) for end in ends} == set(names)

    run(program)


def test_control_does_not_go_to_the_own_node():
    class Untouched(Transport):
        system = System.make(**WIRE, loop={"slots": 2}, ni={"control_slots": 1, "control_classes": 1})
        map = RegisterMap(system)

        def _refused(self, *_):
            raise AssertionError("nothing is done")

        read = write = put = delivery = completion = wait = _refused

    driver = Driver(Untouched())
    driver.node = 0
    with pytest.raises(DriverError, match="send: class 7 is control, which does not go to the own node"):
        asyncio.run(driver.send(0, b"data", cls=7))


def test_a_stalled_host_takes_nothing_and_then_everything_once():
    sent = [b"x%d" % n for n in range(5)]

    async def program(near, far):
        for payload in sent:
            await near.send(1, payload)
        assert len(await near.completions(len(sent))) == len(sent)
        assert (await far.status())["DELIVER"] == (await far.read("INTERRUPT_PENDING"))["DELIVER"] == 1
        with pytest.raises(DriverError, match="recv: nothing was delivered in 0 cycles"):
            await far.recv(patience=0)
        assert [(await far.recv()).payload for _ in sent] == sent
        assert (await far.status())["DELIVER"] == 0
        with pytest.raises(DriverError, match="recv: nothing was delivered in 400 cycles"):
            await far.recv(patience=400)

    run(program, faults={"stalls": [{"node": 1, "start": 1, "end": 900}]})


def test_a_dead_node_is_in_reset():
    async def program(near, far):
        await far.control(link_enable=False)
        await far.send(0, b"never")
        far._transport.put(Datagram(destination=0, payload=b"nor this"))
        await far._transport.wait(100)
        assert (await far.status())["ACCEPTED"] == 1
        await far._transport.wait(900)
        assert (await far.status())["ACCEPTED"] == 0  # names are void
        await far.write("RESET", CYCLES=1)
        status = await far.status()
        assert (status["READY"], status["RESETTING"]) == (0, 1)
        await near.send(1, b"into the void", deadline=100)
        (end,) = await near.completions(1)
        assert (end.status, end.cause) == (Status.UNKNOWN, Cause.DEADLINE)

    faults = {"deaths": [{"node": 1, "start": 900}]}
    run(program, faults=faults, timers={"ack_limit": 40}, workload={"retry_limit": 30})


def test_a_reset_that_no_register_would_know_of_is_refused():
    system = System.make(**WIRE, faults={"resets": [{"node": 1, "start": 9}]})
    with pytest.raises(DriverError, match=r"faults\.resets: its registers would not know; reset nodes by drivers"):
        GoldenNetwork(system)


#: Calls with an argument of a wrong kind, by what is said of it.
WRONG_KINDS = {
    "send: payload must be bytes, not str": lambda near: near.send(1, "hello"),
    "send: payload must be bytes, not list": lambda near: near.send(1, [1, 300]),
    "send: payload must be bytes, not int": lambda near: near.send(1, 1 << 40),
    "send: patience must be a whole number, not str": lambda near: near.send(1, b"", patience="5"),
    **{
        f"send: {name} must be a whole number, not {kind}": lambda near, name=name, value=value: near.send(
            **{"destination": 1, name: value}
        )
        for name, value, kind in (
            ("destination", 1.0, "float"), ("destination", "1", "str"), ("destination", None, "NoneType"),
            ("tag", 1.0, "float"), ("cls", "7", "str"), ("mode", 0.0, "float"), ("deadline", 10.0, "float"),
            ("retry_limit", "1", "str"), ("expect", [], "list"), ("path", None, "NoneType"),
        )
    },
    "recv: patience must be a whole number, not float": lambda near: near.recv(patience=0.5),
    "completions: least must be a whole number, not float": lambda near: near.completions(0.5),
    "completions: least must be at least 0, not -1": lambda near: near.completions(-1),
    "completions: patience must be a whole number, not str": lambda near: near.completions(patience="5"),
    "cancel: name must be what send has returned, not NoneType": lambda near: near.cancel(None),
    "cancel: patience must be a whole number, not str": lambda near: near.cancel(Name(0, 0, 0), patience="5"),
    r"CANCEL\.SLOT must be a whole number, not float": lambda near: near.cancel(Name(0.5, 0, 0)),
    "reset: cycles must be a whole number, not float": lambda near: near.reset(8.0),
    "reset: incarnation must be a whole number, not str": lambda near: near.reset(incarnation="3"),
    "control: link_enable must be True or False, not 'no'": lambda near: near.control(link_enable="no"),
    "control: quiesce must be True or False, not 2": lambda near: near.control(quiesce=2),
    "idle: patience must be a whole number, not str": lambda near: near.idle(patience="5"),
    r"CONTROL\.QUIESCE must be a whole number, not float": lambda near: near.write("CONTROL", QUIESCE=0.5),
    r"\['STATUS'\]: the name of a register must be a string": lambda near: near.read(["STATUS"]),
    "0: the name of a register must be a string": lambda near: near.write(0),
}  # fmt: skip


def test_an_argument_of_a_wrong_kind_is_told_and_leaves_the_driver_as_it_was():
    async def program(near, far):
        for message, call in WRONG_KINDS.items():
            with pytest.raises(DriverError, match=f"^{message}"):
                await call(near)
        for payload in (bytearray(b"some"), memoryview(b"some")):
            name = await near.send(np.int64(1), payload, cls=True)
            assert (await far.recv()).payload == b"some"
        assert name.tag == 1, "what was refused has taken no number"
        assert len(await near.completions(2)) == 2
        await near.control()

    run(program)
    with pytest.raises(DriverError, match="Driver: transport must be a Transport, not NoneType"):
        Driver(None)


def test_patience_is_from_one_look_on():
    async def program(near, far):
        golden = near._transport._network.golden
        before = golden.cycle
        with pytest.raises(DriverError, match="recv: nothing was delivered in 0 cycles; wait longer"):
            await far.recv(patience=0)
        with pytest.raises(DriverError, match="completions: 0 of 1 came in 0 cycles"):
            await near.completions(1, patience=0)
        assert golden.cycle == before
        await near.control(link_enable=False)
        for _ in range(16):
            await near.send(1, b"fills a slot")
        with pytest.raises(DriverError, match="send: the NI has not taken datagram 16 in 0 cycles"):
            await near.send(1, b"has none", patience=0)
        with pytest.raises(DriverError, match=r"STATUS\.IDLE: the NI did not become idle in 0 cycles"):
            await near.idle(patience=0)
        await near.cancel(Name(0, 0, 0), patience=0)
        await near.control()
        assert len(await near.completions(17)) == 17
        assert await far.recv(patience=0)
        for call in (near.send(1, patience=-1), near.recv(patience=-1), near.completions(patience=-1),
                     near.cancel(Name(0, 0, 0), patience=-1), near.idle(patience=-1)):  # fmt: skip
            with pytest.raises(DriverError, match=r"^[a-z]+: patience must be at least 0, not -1"):
                await call

    run(program)
    (transport, _) = GoldenNetwork(System.make(**WIRE)).transports
    with pytest.raises(DriverError, match="Driver: patience must be at least 0, not -5"):
        Driver(transport, patience=-5)


def test_only_some_sends_are_offered_at_once():
    """Those behind them wait until names have been read; each gets the name of its datagram."""
    count = 24

    async def program(near, far):
        in_turns(near._transport)
        await near.control(quiesce=True)
        sending = [asyncio.ensure_future(near.send(1, b"data", tag=tag)) for tag in range(count)]
        await asyncio.sleep(0)
        with pytest.raises(DriverError, match="send: datagram 99 was not offered: 8 others have waited for the NI"):
            await near.send(1, b"data", tag=99, patience=100)
        await near.control()
        names = await asyncio.gather(*sending)
        assert [name.tag for name in names] == [*range(count)]
        ends = await near.completions(count)
        assert {(end.slot, end.generation, end.tag) for end in ends} == set(names)
        assert not (await near.read("INTERRUPT_PENDING"))["NAME_LOST"]

    run(program, ni={"slots": 32})


def test_tasks_that_cancel_wait_for_each_other():
    """A CANCEL is refused while the one before it has not been taken, which takes some looks at STATUS here."""

    async def program(near, far):
        transport, cancelling = near._transport, 0
        read, write, cancel, status = transport.read, transport.write, transport.map["CANCEL"], transport.map["STATUS"]

        async def reads(address):
            nonlocal cancelling
            word, good = await read(address)
            if address == status.address and cancelling:
                cancelling -= 1
                word |= 1 << status.field("CANCELLING").shift
            return word, good

        async def writes(address, word):
            nonlocal cancelling
            if address == cancel.address:
                if cancelling:
                    return False
                cancelling = 3
            return await write(address, word)

        transport.read, transport.write = reads, writes
        in_turns(transport)
        await near.control(link_enable=False)
        names = [await near.send(1, b"data") for _ in range(6)]
        await asyncio.gather(*map(near.cancel, names))
        ends = await near.completions(6)
        assert {end.status for end in ends} == {Status.NEVER_SENT} and len({end.tag for end in ends}) == 6

    run(program)


def test_registers_of_something_else_are_refused():
    network = GoldenNetwork(System.make(**WIRE))
    transport = network.transports[0]
    read = transport.read
    wrong: dict[int, int] = {}
    features = transport.map["FEATURES"].pack(**{part.name: part.reset for part in transport.map["FEATURES"].fields})

    async def reads(address):
        word, good = await read(address)
        return wrong.get(address, word), good

    transport.read = reads
    for address, word, message in (
        (0x00, 7, r"IDENTITY: is 0x00000007, not 0x4854454C"),
        (0x04, 2 << 24, r"VERSION: the registers are of map 2, and this driver knows 1"),
        (0x08, 16 << 16 | 33, r"SIZES\.MTU: is 33, and \(configuration\) says 32; give the configuration that"),
        (0x14, features & ~2, r"FEATURES\.DUMP: is 0, and \(configuration\) says 1; give the transport dump=False"),
    ):
        wrong.clear()
        wrong[address] = word
        with pytest.raises(DriverError, match=message):
            asyncio.run(Driver(transport).open())
    wrong.clear()
    assert asyncio.run(Driver(transport).open()).node == 0


def test_a_state_dump_shows_slot_and_entry():
    async def program(near, far):
        await near.control(link_enable=False)
        name = await near.send(1, b"here")
        await near.control(link_enable=False, quiesce=True)
        await near.write("DUMP", INDEX=name.slot)
        while (await near.status())["DUMPING"]:
            pass
        assert await near.read("DUMPED_SLOT") == {"LIVE": 1, "GENERATION": name.generation}
        assert await near.read("DUMPED_DESTINATION") == {"DESTINATION": 1}
        assert (await near.read("INTERRUPT_PENDING"))["DUMPED"]

    run(program)


def test_the_code_of_the_page_runs():
    page = (ROOT / "docs" / "use" / "driver.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    exec(compile("\n".join(blocks), "docs/use/driver.md", "exec"), {})

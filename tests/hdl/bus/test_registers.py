"""The registers over their bus: every field of the map read, written and reset, and each transfer that it forbids."""

import random
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from lethe.bus.registers import Registers
from lethe.spec.config import ConfigError, System
from lethe.spec.registers import ADDRESS_BITS, LEVELS, Access, Interrupt, RegisterMap, dump_parts, interrupts_of
from lethe.spec.sections import flow, relay
from lethe.statistics import LATENCY
from lethe_sim.driver.register_file import NAMES, RegisterFile
from tests.helpers.lite_master import LiteMaster
from tests.helpers.tiers import but

SYSTEMS = {
    "default": System.make(),
    "services and control": System.make(
        topology={"kind": "wire"},
        loop={"slots": 3},
        ni={"slots": 5, "control_slots": 2, "control_classes": 1, "reject": True, "ways": 1},
        wire={"generation_bits": 11, "tag_bits": 9, "incarnation_bits": 2},
    ),
    "without counters": System.make(ni={"statistics": False, "sets": 64}),
    "flow": System.make(
        topology={"kind": "wire"}, flow={"ports": 4}, ni=flow.OF_NI, timers={"ack_limit": 40},
        workload={"retry_limit": 30},
    ),
    "relay and a loop": System.make(
        topology={"kind": "wire"}, relay={"slots": 4}, loop={"slots": 2}, ni=relay.OF_NI, timers={"ack_limit": 40},
        workload={"retry_limit": 30},
    ),
}  # fmt: skip
SMALL = SYSTEMS["services and control"]
OF_FLOW = (Interrupt.NOTICE, Interrupt.ANSWERED, Interrupt.CONGESTED, Interrupt.READABLE)


@dataclass
class Bench:
    """The registers with a testbench that is bus and NI at once.

    ``counts`` has the counters as the NI would show them, by address; ``commands`` what the registers have asked for.
    """

    system: System
    dump: bool = True
    chance: random.Random | None = None
    counts: dict[int, int] = field(default_factory=dict)

    def __post_init__(self):
        self.dut = Registers(self.system, dump=self.dump)
        self.map = RegisterMap(self.system, dump=self.dump)
        self.rst = Signal()
        self.master = LiteMaster(self.dut.bus, self.chance)
        self.all = (*self.map.registers, *self.map.counters)

    def run(self, testbench) -> None:
        simulator = Simulator(ResetInserter(self.rst)(self.dut))
        simulator.add_clock(1e-6)
        simulator.add_testbench(testbench)
        if self.system.ni.statistics:
            simulator.add_testbench(self._counter_port, background=True)
        simulator.run()

    async def _counter_port(self, ctx):
        asked = deque([0] * LATENCY)
        while True:
            asked.append(ctx.get(self.dut.counter_address))
            ctx.set(self.dut.counter_data, self.counts.get(asked.popleft(), 0) & 0xFFFF_FFFF)
            await ctx.tick()

    async def everything(self, ctx) -> dict[str, int]:
        """All that can be read without changing anything."""
        found = {}
        for register in self.all:
            if register.readable and not register.takes:
                found[register.name], good = await self.master.read(ctx, register.address)
                assert good, register.name
        return found

    async def write(self, ctx, name: str, **fields: int) -> bool:
        return await self.master.write(ctx, self.map[name].address, self.map[name].pack(**fields))

    async def value(self, ctx, name: str) -> dict[str, int]:
        word, good = await self.master.read(ctx, self.map[name].address)
        assert good
        return self.map[name].unpack(word)


#: What has least of its own; random transfers go to all.
LONG = ("default", "services and control")


@pytest.fixture(params=but(SYSTEMS.keys() - LONG, SYSTEMS))
def bench(request) -> Bench:
    return Bench(SYSTEMS[request.param])


def shown_after_reset(bench: Bench, found: dict[str, int]) -> None:
    for register in bench.all:
        for part in register.fields:
            if register.readable and not register.takes and part.reset is not None:
                assert part.of(found[register.name]) == part.reset, f"{register.name}.{part.name}"


def test_after_reset_every_field_is_what_the_map_says(bench):
    """Also when it was something else before."""
    dut = bench.dut

    async def testbench(ctx):
        shown_after_reset(bench, await bench.everything(ctx))
        for register in bench.map.registers:
            if register.writable and not register.command:
                assert await bench.master.write(ctx, register.address, 0xFFFF_FFFF)
        await bench.write(ctx, "RESET", CYCLES=255)
        assert ctx.get(dut.node_reset)
        if "BOOT" in bench.map:
            assert await bench.value(ctx, "BOOT") == {"BOOT": 0xFFFF_FFFF}
        changed = await bench.everything(ctx)
        assert bench.map["CONTROL"].unpack(changed["CONTROL"]) == {"LINK_ENABLE": 1, "QUIESCE": 1}
        assert changed["INTERRUPT_ENABLE"] and changed["INCARNATION"] == 2
        await bench.write(ctx, "RESET", CYCLES=255)
        ctx.set(bench.rst, 1)
        await ctx.tick()
        ctx.set(bench.rst, 0)
        shown_after_reset(bench, await bench.everything(ctx))
        assert not ctx.get(dut.node_reset) and ctx.get(dut.link_enable) and not ctx.get(dut.quiesce)

    bench.run(testbench)


def test_every_byte_of_what_is_written_is_kept_and_nothing_else(bench):
    """With all combinations of strobes."""
    chance = random.Random(1)
    stored = [r for r in bench.map.registers if r.fields[0].access is Access.WRITE]
    of_flow = {"RECEIVE", "LEAST_BOOT"} if bench.system.flow.ports else set()
    assert {"CONTROL", "INTERRUPT_ENABLE"} | of_flow == {r.name for r in stored}

    async def testbench(ctx):
        before = await bench.everything(ctx)
        for register in stored:
            kept = sum(part.mask for part in register.fields)
            for strobe in (*range(16), 15, 1):
                word = chance.getrandbits(32) if strobe != 1 else 0
                mask = kept & sum(0xFF << 8 * byte for byte in range(4) if strobe >> byte & 1)
                assert await bench.master.write(ctx, register.address + chance.randrange(4), word, strobe)
                before[register.name] = before[register.name] & ~mask | word & mask
                # What else has changed stays so.
                for other in stored if strobe != 1 else ():
                    assert await bench.master.read(ctx, other.address) == (before[other.name], True)
                control = bench.map["CONTROL"].unpack(before["CONTROL"])
                assert ctx.get(bench.dut.link_enable) == control["LINK_ENABLE"]
                assert ctx.get(bench.dut.quiesce) == control["QUIESCE"]
                if of_flow:
                    assert ctx.get(bench.dut.receive_mask) == before["RECEIVE"]
            assert await bench.everything(ctx) == before

    bench.run(testbench)


def test_a_transfer_that_the_map_forbids_is_an_error_and_changes_nothing(bench):
    """Every address, read and written, with all strobes and with one missing.

    Of systems without flow, which has most registers: their registers, what is behind each, and some others.
    """
    dut, chance = bench.dut, random.Random(2)
    by_address = {register.address: register for register in bench.all}
    addresses = range(0, 1 << ADDRESS_BITS, 4)
    if not bench.system.flow.ports:
        wanted = {*by_address, *(address + 4 for address in by_address), *chance.sample(addresses, 100)}
        addresses = [address for address in addresses if address in wanted]

    async def testbench(ctx):
        ctx.set(dut.accepted, {"valid": 1, "slot": 1})
        await ctx.tick()
        ctx.set(dut.accepted.valid, 0)
        before = await bench.everything(ctx)
        for address in addresses:
            register = by_address.get(address)
            readable = register is not None and register.readable
            if register is None or not register.takes:
                word, good = await bench.master.read(ctx, address + chance.randrange(4))
                assert good == readable and (good or word == 0), hex(address)
            word = chance.getrandbits(32) | 0x0101
            for strobe in (15, 7, 14, 0) if register is not None and register.command else (15,):
                if strobe == 15 and register is not None and register.writable:
                    continue
                assert not await bench.master.write(ctx, address, word, strobe), (hex(address), strobe)
        assert await bench.everything(ctx) == before
        assert not ctx.get(dut.node_reset) and not ctx.get(dut.cancel.valid)
        assert await bench.value(ctx, "ACCEPTED") == {"SLOT": 1, "GENERATION": 0}

    bench.run(testbench)


def test_what_the_ni_shows_is_read(bench):
    """Every field that the hardware says, with values drawn."""
    dut, chance, system = bench.dut, random.Random(3), bench.system

    async def testbench(ctx):
        for _ in range(6):
            node, time = chance.randrange(system.nodes), chance.getrandbits(system.time_bits)
            levels = {
                name: chance.getrandbits(1) for name in ("ready", "idle", "deliver_waiting", "completion_waiting")
            }
            ctx.set(dut.node, node)
            ctx.set(dut.time_base, time)
            for name, level in levels.items():
                ctx.set(getattr(dut, name), level)
            await ctx.tick()
            assert await bench.value(ctx, "NODE") == {"NODE": node}
            assert await bench.value(ctx, "TIME") == {"TIME": time & 0xFFFF_FFFF}
            status = await bench.value(ctx, "STATUS")
            others = {part.name: 0 for part in bench.map["STATUS"].fields}
            assert status == others | {
                "READY": levels["ready"], "IDLE": levels["idle"], "RESETTING": 0, "DELIVER": levels["deliver_waiting"],
                "COMPLETION": levels["completion_waiting"], "ACCEPTED": 0, "CANCELLING": 0, "DUMPING": 0,
            }  # fmt: skip

    bench.run(testbench)


def test_names_come_in_order_and_the_ones_too_many_are_lost(bench):
    dut, chance = bench.dut, random.Random(4)
    names = [
        {name: chance.getrandbits(len(value)) for name, value in
         ((name, dut.accepted[name]) for name in dut.accepted.shape().members) if name != "valid"}
        for _ in range(NAMES + 3)
    ]  # fmt: skip

    async def testbench(ctx):
        assert (await bench.value(ctx, "ACCEPTED_TAG"))["VALID"] == 0
        for name in names:
            ctx.set(dut.accepted, {"valid": 1, **name})
            await ctx.tick()
        ctx.set(dut.accepted.valid, 0)
        pending = await bench.value(ctx, "INTERRUPT_PENDING")
        assert pending["ACCEPTED"] and pending["NAME_LOST"]
        for name in names[: NAMES + 1]:  # the queue has one in its output
            tag = await bench.value(ctx, "ACCEPTED_TAG")
            assert await bench.value(ctx, "ACCEPTED_TAG") == tag, "reading a tag takes nothing away"
            assert tag == {"TAG": name["tag"], "VALID": 1} | ({"CONTROL": name["control"]} if "control" in name else {})
            uid = await bench.value(ctx, "ACCEPTED")
            assert uid == {"SLOT": name["slot"], "GENERATION": name["generation"]}
        assert (await bench.value(ctx, "ACCEPTED_TAG"))["VALID"] == 0
        assert (await bench.value(ctx, "STATUS"))["ACCEPTED"] == 0
        assert await bench.value(ctx, "ACCEPTED") == {"SLOT": 0, "GENERATION": 0}  # takes nothing
        ctx.set(dut.accepted, {"valid": 1, **names[0]})
        await ctx.tick()
        ctx.set(dut.accepted.valid, 0)
        assert (await bench.value(ctx, "ACCEPTED_TAG"))["TAG"] == names[0]["tag"]
        assert await bench.write(ctx, "RESET", CYCLES=3)
        assert (await bench.value(ctx, "ACCEPTED_TAG"))["VALID"] == 0, "a reset drops names"

    bench.run(testbench)


def test_a_cancel_holds_until_taken_and_a_second_one_is_refused(bench):
    dut, chance = bench.dut, random.Random(5)

    async def testbench(ctx):
        for _ in range(4):
            given = {
                "SLOT": chance.getrandbits(len(dut.cancel.payload.slot)),
                "GENERATION": chance.getrandbits(len(dut.cancel.payload.generation)),
            }
            shown = {"slot": given["SLOT"], "generation": given["GENERATION"]}
            assert await bench.write(ctx, "CANCEL", **given)
            assert not await bench.write(ctx, "CANCEL", SLOT=0, GENERATION=0)
            assert (await bench.value(ctx, "STATUS"))["CANCELLING"]
            for name, value in shown.items():
                assert ctx.get(dut.cancel.payload[name]) == value
            ctx.set(dut.cancel.ready, 1)
            await ctx.tick()
            ctx.set(dut.cancel.ready, 0)
            assert not ctx.get(dut.cancel.valid) and not (await bench.value(ctx, "STATUS"))["CANCELLING"]
        assert await bench.write(ctx, "CANCEL", SLOT=1, GENERATION=1)
        assert await bench.write(ctx, "RESET", CYCLES=60)
        assert not ctx.get(dut.cancel.valid), "a reset drops it"
        assert not await bench.write(ctx, "CANCEL", SLOT=1, GENERATION=1), "and refuses others"

    bench.run(testbench)


def test_a_set_holds_until_taken_and_is_answered():
    bench, chance = Bench(SYSTEMS["flow"]), random.Random(8)
    dut = bench.dut

    async def testbench(ctx):
        for error in range(4):
            given = {"CODE": error, "INDEX": chance.getrandbits(4), "VALUE": chance.getrandbits(16)}
            assert await bench.write(ctx, "SET", **given)
            assert not await bench.write(ctx, "SET", CODE=1), "one at a time"
            shown = ctx.get(dut.set.payload)
            assert {name: shown[name.lower()] for name in given} == given
            assert (await bench.value(ctx, "STATUS"))["SETTING"] and not (await bench.value(ctx, "ANSWER"))["VALID"]
            ctx.set(dut.set.ready, 1)
            ctx.set(dut.answer, {"valid": 1, "error": error})
            await ctx.tick()
            ctx.set(dut.set.ready, 0)
            ctx.set(dut.answer, {"valid": 0, "error": ~error & 3})
            assert not ctx.get(dut.set.valid) and not (await bench.value(ctx, "STATUS"))["SETTING"]
            assert await bench.value(ctx, "ANSWER") == {"ERROR": error, "VALID": 1}
        assert await bench.write(ctx, "SET", CODE=0)
        assert await bench.write(ctx, "RESET", CYCLES=60)
        assert not ctx.get(dut.set.valid), "a reset drops it"
        assert not (await bench.value(ctx, "ANSWER"))["VALID"]
        assert not await bench.write(ctx, "SET", CODE=0), "and refuses others"

    bench.run(testbench)


def test_a_notice_is_taken_when_it_is_read_and_its_map_is_kept():
    bench, chance = Bench(SYSTEMS["flow"]), random.Random(9)
    dut = bench.dut
    taken: list[dict] = []

    async def observer(ctx):
        async for _, _, valid, ready, payload in ctx.tick().sample(
            dut.notice.valid, dut.notice.ready, dut.notice.payload
        ):
            if valid and ready:
                taken.append({"peer": payload.peer, "up": payload.up, "map": payload.map})

    async def testbench(ctx):
        ctx.set(dut.notice.payload, {"peer": 1, "up": 1, "map": 15})
        assert await bench.value(ctx, "NOTICE") == {"PEER": 0, "UP": 0, "VALID": 0} and not taken
        for _ in range(6):
            one = {"peer": chance.getrandbits(1), "up": chance.getrandbits(1), "map": chance.getrandbits(4)}
            kept = await bench.value(ctx, "NOTICE_MAP")
            ctx.set(dut.notice.payload, one)
            ctx.set(dut.notice.valid, 1)
            assert (await bench.value(ctx, "STATUS"))["NOTICE"] and not taken
            assert await bench.value(ctx, "NOTICE_MAP") == kept
            assert await bench.value(ctx, "NOTICE") == {"PEER": one["peer"], "UP": one["up"], "VALID": 1}
            assert [taken.pop()] == [one] and not taken
            ctx.set(dut.notice.payload, {"peer": 0, "up": 0, "map": ~one["map"] & 15})
            assert await bench.value(ctx, "NOTICE_MAP") == {"MAP": one["map"]}
        assert not taken

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.add_testbench(observer, background=True)
    simulator.run()


def test_every_reset_is_counted_and_the_count_can_be_raised():
    """It changes with the first cycle of a reset, and never falls."""
    bench = Bench(SYSTEMS["flow"])
    dut = bench.dut

    async def testbench(ctx):
        boot = 0
        for least in (0, 0, 5, 6, 3, 1 << 31, 0xFFFF_FFFE, 0):
            assert await bench.write(ctx, "LEAST_BOOT", BOOT=least)
            assert ctx.get(dut.boot) == boot
            assert await bench.write(ctx, "RESET", CYCLES=0)
            assert ctx.get(dut.boot) == boot
            boot = max(boot + 1, least)
            assert await bench.write(ctx, "RESET", CYCLES=90)
            assert ctx.get(dut.boot) == boot and ctx.get(dut.service_reset)
            assert await bench.write(ctx, "RESET", CYCLES=2)
            assert await bench.value(ctx, "BOOT") == {"BOOT": boot}, "a reset during a reset is none of its own"
            await ctx.tick().repeat(3)
            assert not ctx.get(dut.node_reset)

    bench.run(testbench)


def test_routes_and_deaths_hold_until_taken():
    bench, chance = Bench(SYSTEMS["relay and a loop"]), random.Random(10)
    dut = bench.dut

    async def testbench(ctx):
        for code, name in enumerate(("ROUTE", "DEATH", "DEATH", "ROUTE")):
            given = {part.name: chance.getrandbits(part.bits) for part in bench.map[name].fields}
            assert await bench.write(ctx, name, **given)
            for other in ("ROUTE", "DEATH"):
                assert not await bench.write(ctx, other), "one at a time"
            told = ctx.get(dut.tree.payload)
            assert told["code"] == (name == "DEATH") and ctx.get(dut.tree.valid), code
            assert {part: told[part.lower()] for part in given} == given
            assert (await bench.value(ctx, "STATUS"))["TELLING"]
            ctx.set(dut.tree.ready, 1)
            await ctx.tick()
            ctx.set(dut.tree.ready, 0)
            assert not ctx.get(dut.tree.valid) and not (await bench.value(ctx, "STATUS"))["TELLING"]
        assert await bench.write(ctx, "ROUTE", TARGET=1)
        assert await bench.write(ctx, "RESET", CYCLES=60)
        assert not ctx.get(dut.tree.valid), "a reset drops it"
        assert not await bench.write(ctx, "DEATH", TARGET=1), "and refuses others"

    bench.run(testbench)


def test_a_reset_lasts_as_long_as_it_says_and_every_one_is_an_incarnation(bench):
    dut, bits = bench.dut, bench.system.format.incarnation_bits
    services = bool(bench.system.services)

    incarnation = 1
    seen: list[list[tuple[int, int]]] = []

    async def observer(ctx):
        """(incarnation, service_reset) in every cycle of each reset."""
        during = False
        while True:
            if ctx.get(dut.node_reset):
                if not during:
                    seen.append([])
                seen[-1].append((ctx.get(dut.incarnation), ctx.get(dut.service_reset) if services else 1))
            elif services:
                assert not ctx.get(dut.service_reset), "only with node_reset"
            during = bool(ctx.get(dut.node_reset))
            await ctx.tick()

    async def testbench(ctx):
        nonlocal incarnation
        assert await bench.write(ctx, "RESET", CYCLES=0, INCARNATION=3)
        assert ctx.get(dut.incarnation) == 1
        for cycles in (1, 2, 40, 255, *([5] * (1 << bits))):
            incarnation = (incarnation + 1) % (1 << bits) or 1
            assert await bench.write(ctx, "RESET", CYCLES=cycles)
            await ctx.tick().repeat(cycles + 1)
            assert seen.pop() == [(incarnation, 1)] * cycles and not seen
            assert await bench.value(ctx, "INCARNATION") == {"INCARNATION": incarnation}
        # Of a chosen incarnation; then one that goes on, which stays the same.
        assert await bench.write(ctx, "RESET", CYCLES=100, INCARNATION=3)
        assert await bench.write(ctx, "RESET", CYCLES=9, INCARNATION=1)
        assert (await bench.value(ctx, "INCARNATION"))["INCARNATION"] == 3
        await ctx.tick().repeat(100)
        (found,) = seen
        assert {each for each, _ in found} == {3} and 9 < len(found) < 100
        seen.clear()
        if "NI_ONLY" in {part.name for part in bench.map["RESET"].fields}:
            assert await bench.write(ctx, "RESET", CYCLES=4, NI_ONLY=1)
            await ctx.tick().repeat(5)
            assert [service for _, service in seen.pop()] == [0] * 4

    simulator = Simulator(ResetInserter(bench.rst)(dut))
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.add_testbench(observer, background=True)
    simulator.run()


def test_interrupts_come_and_are_cleared(bench):
    """Levels follow their causes; edges stay until 1 is written in a byte that counts, and a new cause wins."""
    dut = bench.dut
    address = bench.map["INTERRUPT_PENDING"].address
    causes = {
        Interrupt.DELIVER: "deliver_waiting", Interrupt.COMPLETION: "completion_waiting", Interrupt.READY: "ready",
        Interrupt.IDLE: "idle", Interrupt.DUMPED: "dumped_valid", Interrupt.MALFORMED: "malformed",
    }  # fmt: skip

    system = bench.system
    assert set(interrupts_of(system)) == set(Interrupt) - (set() if system.flow.ports else set(OF_FLOW))

    async def of_flow(ctx):
        async def pending():
            return (await bench.master.read(ctx, address))[0]

        assert await bench.write(ctx, "RECEIVE", MASK=0b0101)
        for port, value, interrupt in (
            (dut.notice.valid, 1, Interrupt.NOTICE),
            (dut.readable, 0b0111, Interrupt.READABLE),
        ):
            ctx.set(port, value)
            assert await pending() == 1 << interrupt
            ctx.set(port, 0)
            assert await pending() == 0
        ctx.set(dut.readable, 0b0101)
        assert await pending() == 0, "the host takes from these"
        ctx.set(dut.readable, 0)
        ctx.set(dut.answer.valid, 1)
        await ctx.tick()
        ctx.set(dut.answer.valid, 0)
        assert await pending() == 1 << Interrupt.ANSWERED
        assert await bench.master.write(ctx, address, 1 << Interrupt.ANSWERED)
        for congested in (1, 3, 2, 0):
            ctx.set(dut.congested, congested)
            assert await pending() == 1 << Interrupt.CONGESTED
            assert await bench.master.write(ctx, address, 1 << Interrupt.CONGESTED)
            assert await pending() == 0

    async def testbench(ctx):
        for interrupt, cause in causes.items():
            port, level = getattr(dut, cause), interrupt in LEVELS
            ctx.set(port, 1)
            await ctx.tick()
            assert (await bench.master.read(ctx, address))[0] == 1 << interrupt, interrupt.name
            await ctx.tick()
            assert not ctx.get(dut.irq)
            assert await bench.write(ctx, "INTERRUPT_ENABLE", **{interrupt.name: 1})
            await ctx.tick()
            assert ctx.get(dut.irq)
            if interrupt in (Interrupt.DUMPED, Interrupt.MALFORMED):
                ctx.set(port, 0)
            # Neither the other bits nor a byte without strobe clear it.
            assert await bench.master.write(ctx, address, 0xFF ^ 1 << interrupt)
            assert await bench.master.write(ctx, address, 0xFFFF_FFFF, 0b1110)
            assert (await bench.master.read(ctx, address))[0] == 1 << interrupt
            assert await bench.master.write(ctx, address, 1 << interrupt)
            assert (await bench.master.read(ctx, address))[0] == (1 << interrupt if level else 0)
            ctx.set(port, 0)
            assert (await bench.master.read(ctx, address))[0] == 0, "it falls without being written"
            await ctx.tick().repeat(2)
            assert not ctx.get(dut.irq)
            assert await bench.write(ctx, "INTERRUPT_ENABLE")
        if system.flow.ports:
            await of_flow(ctx)
        # Its cause in every cycle, also in that of the write.
        ctx.set(dut.dumped_valid, 1)
        assert await bench.master.write(ctx, address, 1 << Interrupt.DUMPED)
        assert (await bench.master.read(ctx, address))[0] == 1 << Interrupt.DUMPED
        ctx.set(dut.dumped_valid, 0)
        assert await bench.master.write(ctx, address, 1 << Interrupt.DUMPED)
        assert (await bench.master.read(ctx, address))[0] == 0

    bench.run(testbench)


def test_a_snapshot_is_of_its_moment(bench):
    """Counters that go on change nothing that software reads until the next one."""
    if not bench.system.ni.statistics:
        assert "SNAPSHOT" not in bench.map and not bench.map.counters
        return
    chance, port = random.Random(6), bench.dut.counter_since

    async def testbench(ctx):
        for _ in range(2):
            wanted = {address: chance.getrandbits(32) for address in bench.map.counter_addresses}
            bench.counts = dict(wanted)
            await ctx.tick().repeat(LATENCY)
            assert await bench.write(ctx, "SNAPSHOT", TAKE=1)
            for address in wanted:
                bench.counts[address] += 1
            assert await bench.write(ctx, "SNAPSHOT", TAKE=0)
            for register, address in zip(bench.map.counters, bench.map.counter_addresses, strict=True):
                assert (await bench.master.read(ctx, register.address))[0] == wanted[address], register.name
        ctx.set(port, 3)
        assert await bench.write(ctx, "SNAPSHOT", TAKE=1)
        for register, address in zip(bench.map.counters, bench.map.counter_addresses, strict=True):
            word, _ = await bench.master.read(ctx, register.address)
            assert word == (bench.counts[address] - 3) & 0xFFFF_FFFF, "what was counted since does not belong to it"

    bench.run(testbench)


def test_a_state_dump_is_kept(bench):
    dut, chance = bench.dut, random.Random(7)

    async def testbench(ctx):
        assert not await bench.write(ctx, "DUMP", INDEX=1), "only with QUIESCE"
        assert await bench.write(ctx, "CONTROL", QUIESCE=1, LINK_ENABLE=1)
        for _ in range(3):
            index = chance.getrandbits(len(dut.dump.payload))
            assert await bench.write(ctx, "DUMP", INDEX=index)
            assert not await bench.write(ctx, "DUMP", INDEX=0)
            assert ctx.get(dut.dump.valid) and ctx.get(dut.dump.payload) == index
            ctx.set(dut.dump.ready, 1)
            await ctx.tick()
            ctx.set(dut.dump.ready, 0)
            assert not ctx.get(dut.dump.valid) and (await bench.value(ctx, "STATUS"))["DUMPING"]
            dumped = chance.getrandbits(len(dut.dumped.as_value()))
            ctx.set(dut.dumped.as_value(), dumped)
            ctx.set(dut.dumped_valid, 1)
            await ctx.tick()
            ctx.set(dut.dumped_valid, 0)
            wanted = {name: ctx.get(dut.dumped[name]) for name in ("live", "generation", "destination")}
            entries = [
                {
                    name: ctx.get(dut.dumped.entries[way][name])
                    for part in dump_parts(bench.system, way)
                    for name, _ in part
                }
                for way in range(bench.system.ni.ways)
            ]
            ctx.set(dut.dumped.as_value(), 0)
            assert not (await bench.value(ctx, "STATUS"))["DUMPING"]
            slot = await bench.value(ctx, "DUMPED_SLOT") | await bench.value(ctx, "DUMPED_DESTINATION")
            assert {name.lower(): value for name, value in slot.items()} == wanted
            for way, entry in enumerate(entries):
                found = await bench.value(ctx, f"DUMPED_SOURCE{way}") | await bench.value(ctx, f"DUMPED_ENTRY{way}")
                assert {name.lower(): value for name, value in found.items()} == entry
        assert await bench.write(ctx, "DUMP", INDEX=0)
        assert await bench.write(ctx, "RESET", CYCLES=1)
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.dump.valid) and not (await bench.value(ctx, "STATUS"))["DUMPING"]

    bench.run(testbench)


@pytest.mark.parametrize("seed", but([0], range(3)))
@pytest.mark.parametrize("name", SYSTEMS)
def test_random_transfers_are_those_of_the_model(name, seed):
    """Reads and writes of any address with any strobes and pauses, while an NI does this and that between them."""
    chance = random.Random(f"{name} {seed}")
    bench = Bench(SYSTEMS[name], chance=chance)
    dut, system = bench.dut, bench.system
    asked: list = []
    model = RegisterFile(
        system, 0, counters=lambda: bench.counts,
        cancel=lambda *given: asked.append(("cancel", *given)), ask=lambda index: asked.append(("dump", index)),
        set=lambda *given: asked.append(("set", *given)), tell=lambda word: asked.append(("tell", word)),
    )  # fmt: skip
    levels = {"ready": 0, "idle": 0, "deliver_waiting": 0, "completion_waiting": 0}
    addresses = [register.address for register in bench.all]

    def take(kind: str) -> tuple:
        return asked.pop(next(n for n, one in enumerate(asked) if one[0] == kind))

    async def happen(ctx):
        """Something at the NI."""
        match chance.randrange(5 + 4 * bool(system.flow.ports) + bool(system.relay.slots)):
            case 0:
                levels[chance.choice(list(levels))] ^= 1
                for level, value in levels.items():
                    ctx.set(getattr(dut, level), value)
                model.show(ready=bool(levels["ready"]), idle=bool(levels["idle"]))
                model.deliver_waiting, model.completion_waiting = (
                    bool(levels[part]) for part in ("deliver_waiting", "completion_waiting")
                )
            case 1:
                parts = {
                    part: chance.getrandbits(len(dut.accepted[part]))
                    for part in dut.accepted.shape().members
                    if part != "valid"
                }
                ctx.set(dut.accepted, {"valid": 1, **parts})
                await ctx.tick()
                ctx.set(dut.accepted.valid, 0)
                model.accept(**parts)
            case 2 if ctx.get(dut.cancel.valid):
                taken = ctx.get(dut.cancel.payload)
                assert take("cancel") == ("cancel", taken["slot"], taken["generation"])
                ctx.set(dut.cancel.ready, 1)
                await ctx.tick()
                ctx.set(dut.cancel.ready, 0)
                model.cancelled()
            case 3:
                bench.counts[chance.choice(bench.map.counter_addresses or (0,))] = chance.getrandbits(32)
            case 4 if ctx.get(dut.dump.valid):
                assert take("dump") == ("dump", ctx.get(dut.dump.payload))
                for port in (dut.dump.ready, dut.dumped_valid):
                    ctx.set(port, 1)
                await ctx.tick()
                for port in (dut.dump.ready, dut.dumped_valid):
                    ctx.set(port, 0)
                model.dumped({})
            case 5 if system.flow.ports == 0:
                if ctx.get(dut.tree.valid):
                    _, word = take("tell")
                    told = ctx.get(dut.tree.payload)
                    assert {name: told[name] for name in word} == word
                    ctx.set(dut.tree.ready, 1)
                    await ctx.tick()
                    ctx.set(dut.tree.ready, 0)
                    model.told()
            case 5 if ctx.get(dut.set.valid):
                taken = ctx.get(dut.set.payload)
                assert take("set") == ("set", taken["code"], taken["index"], taken["value"])
                error = chance.getrandbits(2)
                ctx.set(dut.set.ready, 1)
                ctx.set(dut.answer, {"valid": 1, "error": error})
                await ctx.tick()
                ctx.set(dut.set.ready, 0)
                ctx.set(dut.answer.valid, 0)
                model.answered(error)
            case 6:
                model.readable = chance.getrandbits(4)
                ctx.set(dut.readable, model.readable)
            case 7:
                congested = chance.getrandbits(4)
                ctx.set(dut.congested, congested)
                model.congest(congested)
            case 8 if not model.notices:
                model.notices.append((chance.randrange(2), bool(chance.getrandbits(1)), chance.getrandbits(4)))
        await ctx.tick().repeat(LATENCY + 2)

    async def testbench(ctx):
        for step in range(250):
            await happen(ctx)
            if system.flow.ports:
                ctx.set(dut.notice.valid, bool(model.notices))
                if model.notices:
                    peer, up, congested = model.notices[0]
                    ctx.set(dut.notice.payload, {"peer": peer, "up": up, "map": congested})
            address = chance.choice(addresses) if chance.random() < 0.9 else chance.randrange(1 << ADDRESS_BITS)
            register = next((r for r in bench.all if r.address == address & ~3), None)
            if chance.random() < 0.5:
                word, strobe = chance.getrandbits(32), chance.choice((15, 15, chance.randrange(16)))
                if register is not None and register.name == "RESET":
                    word &= ~0xFF | 1  # over before anything else happens
                wanted = model.write(address, word, strobe)
                assert await bench.master.write(ctx, address, word, strobe) == wanted, (step, hex(address), strobe)
                if model.resetting:
                    model.resetting = False
                    asked.clear()
            else:
                wanted = model.read(address)
                found = await bench.master.read(ctx, address)
                assert found == wanted, (step, register and register.name)
            if system.flow.ports:
                assert ctx.get(dut.boot) == model.boot
                assert ctx.get(dut.receive_mask) == model.receive
                ctx.set(dut.notice.valid, bool(model.notices))
            await ctx.tick().repeat(2)
            assert ctx.get(dut.irq) == model.irq, step
            assert ctx.get(dut.incarnation) == model.incarnation

    bench.run(testbench)


def test_a_read_and_a_write_take_turns():
    """Both offered for ever: neither waits for more than one of the other."""
    bench = Bench(SMALL)
    bus = bench.dut.bus
    order = []

    async def testbench(ctx):
        for port in (bus.awvalid, bus.wvalid, bus.arvalid, bus.bready, bus.rready):
            ctx.set(port, 1)
        ctx.set(bus.awaddr, bench.map["INTERRUPT_ENABLE"].address)
        for _ in range(100):
            if ctx.get(bus.bvalid):
                order.append("write")
            if ctx.get(bus.rvalid):
                order.append("read")
            await ctx.tick()
        assert len(order) > 12 and all(a != b for a, b in pairwise(order))

    bench.run(testbench)


def test_an_answer_comes_when_the_page_says():
    """Five cycles after a transfer is offered; to a SNAPSHOT, with 32 counters, after 2 · 32 + 9."""
    bench = Bench(SYSTEMS["default"])
    bus, found = bench.dut.bus, {}

    async def answered(ctx, offers, taken, valid) -> int:
        for port in offers:
            ctx.set(port, 1)
        cycles = 0
        while not ctx.get(valid):
            over = ctx.get(taken)
            await ctx.tick()
            cycles += 1
            for port in offers if over else ():
                ctx.set(port, 0)
        await ctx.tick()
        return cycles

    async def testbench(ctx):
        for port in (bus.bready, bus.rready):
            ctx.set(port, 1)
        found["read"] = await answered(ctx, (bus.arvalid,), bus.arready, bus.rvalid)
        ctx.set(bus.wdata, 1)
        ctx.set(bus.wstrb, 15)
        for name in ("INTERRUPT_ENABLE", "SNAPSHOT"):
            ctx.set(bus.awaddr, bench.map[name].address)
            found[name] = await answered(ctx, (bus.awvalid, bus.wvalid), bus.awready, bus.bvalid)

    bench.run(testbench)
    assert found == {"read": 5, "INTERRUPT_ENABLE": 5, "SNAPSHOT": 2 * 32 + 9}


def test_too_many_slots_are_refused():
    with pytest.raises(ConfigError, match=r"ni\.slots: on a bus an NI has at most 4096 slots, .*lower it"):
        RegisterMap(System.make(ni={"slots": 5000}))
    with pytest.raises(ValueError, match="names must be at least 1, not 0"):
        Registers(SMALL, names=0)


def test_fields_fit_and_nothing_overlaps():
    """For the largest widths that there are, and for all that can be left out."""
    largest = System.make(
        wire={"generation_bits": 20, "tag_bits": 16, "incarnation_bits": 8, "class_bits": 8, "mtu": 4096,
              "flit_bits": 128, "node_bits": 16, "slot_bits": 16},
        ni={"slots": 4000, "ways": 8, "control_classes": 255, "control_slots": 9}, loop={"slots": 96},
        timers={"quarantine": 1 << 24, "backoff_steps": 8}, hosted=False,
    )  # fmt: skip
    for system in (*SYSTEMS.values(), largest):
        for dump in (True, False):
            found = RegisterMap(system, dump=dump)
            everything = (*found.registers, *found.counters)
            addresses = [register.address for register in everything]
            assert len(set(addresses)) == len(addresses) == len({register.name for register in everything})
            assert all(address % 4 == 0 and address < 1 << ADDRESS_BITS for address in addresses)
            for register in everything:
                taken = 0
                for part in register.fields:
                    assert not taken & part.mask and part.mask < 1 << 32, f"{register.name}.{part.name}"
                    assert part.reset is None or part.reset < 1 << part.bits, f"{register.name}.{part.name}"
                    taken |= part.mask
                assert [part.shift for part in register.fields] == sorted(part.shift for part in register.fields)

"""Other people's AXI4-Lite master on the exported registers; runs inside the simulator.

``$LETHE_JOB`` has the configuration and a seed.  Whatever the master reads and writes, the model of the registers says
what comes of it.
"""

import itertools
import json
import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Combine
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from lethe.spec.config import parse
from lethe.spec.registers import ADDRESS_BITS, Access, RegisterMap
from lethe_sim.driver.register_file import RegisterFile

JOB_PATH = Path(os.environ["LETHE_JOB"])
JOB = json.loads(JOB_PATH.read_text())
SYSTEM = parse(JOB["toml"])
MAP = RegisterMap(SYSTEM)
ALL = (*MAP.registers, *MAP.counters)
#: What the NI shows, and stays.
TIME = 0x1234
#: A datagram that was accepted.
NAME = {"slot": 5, "generation": 0x234, "tag": 0x5678, "control": 1}


async def begin(dut, chance: random.Random) -> AxiLiteMaster:
    """A reset, and a master that pauses at random on all five channels."""
    for port in dut:
        if port._name.startswith(("accepted_", "dumped_")):
            port.value = 0
    for name in (
        "cancel_ready", "dump_ready", "counter_data", "counter_since", "deliver_waiting", "completion_waiting", "ready",
        "idle", "malformed",
    ):  # fmt: skip
        getattr(dut, name).value = 0
    dut.node.value, dut.time_base.value = 1, TIME
    dut.rst.value = 1
    Clock(dut.clk, 10, unit="ns").start()
    master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "bus"), dut.clk, dut.rst)
    write, read = master.write_if, master.read_if
    for channel in (write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel):
        channel.set_pause_generator(chance.random() < 0.4 for _ in itertools.count())
    await ClockCycles(dut.clk, 3)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)
    for name, value in NAME.items():
        getattr(dut, f"accepted_{name}").value = value
    dut.accepted_valid.value = 1
    await ClockCycles(dut.clk, 1)
    dut.accepted_valid.value = 0
    return master


def model(*, named: bool = True) -> RegisterFile:
    """The registers after a reset, and, if ``named``, after `NAME` was accepted."""
    found = RegisterFile(SYSTEM, 1)
    found.time_base = TIME
    if named:
        found.accept(**NAME)
    return found


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def every_field(dut):
    """Read after reset, written in every byte of its own, read back, and as it was after the next reset."""
    chance = random.Random(JOB["seed"])
    master, twin = await begin(dut, chance), model()

    async def same(register) -> None:
        got = await master.read(register.address, 4)
        word, good = twin.read(register.address)
        assert (got.resp == AxiResp.OKAY) == good, register.name
        if good:
            assert int.from_bytes(got.data, "little") == word, register.name

    for register in ALL:
        await same(register)
    kept = [r for r in MAP.registers if r.fields[0].access is Access.WRITE]
    for register in kept:
        for length, offset in ((4, 0), (1, 0), (1, 3), (2, 1), (3, 1), (2, 2)):
            data = chance.randbytes(length)
            got = await master.write(register.address + offset, data)
            strobe = ((1 << length) - 1) << offset
            word = int.from_bytes(data, "little") << 8 * offset
            assert (got.resp == AxiResp.OKAY) == twin.write(register.address, word, strobe), register.name
            for each in kept:
                await same(each)
    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0
    twin = model(named=False)
    for register in ALL:
        await same(register)


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def wrong_addresses(dut):
    """SLVERR, and nothing changed."""
    chance = random.Random(JOB["seed"])
    master, twin = await begin(dut, chance), model()
    known = {register.address: register for register in ALL}
    for address in chance.sample(range(0, 1 << ADDRESS_BITS, 4), 60):
        if address in known and known[address].writable:
            continue
        assert (await master.write(address, b"\xff\xff\xff\xff")).resp == AxiResp.SLVERR, hex(address)
        if address not in known:
            assert (await master.read(address, 4)).resp == AxiResp.SLVERR, hex(address)
    for register in MAP.registers:
        if register.command:
            assert (await master.read(register.address, 4)).resp == AxiResp.SLVERR, register.name
            assert (await master.write(register.address, b"\xff\xff")).resp == AxiResp.SLVERR, register.name
    for register in MAP.registers:
        if register.readable:
            got = await master.read(register.address, 4)
            assert int.from_bytes(got.data, "little") == twin.read(register.address)[0], register.name
    assert not dut.node_reset.value and not dut.cancel_valid.value and not dut.dump_valid.value


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def many_at_once(dut):
    """Reads and writes that wait together: each is answered once, with its own answer."""
    chance = random.Random(JOB["seed"])
    master = await begin(dut, chance)
    counts = {"reads": 0, "writes": 0}

    async def read():
        register = chance.choice([r for r in MAP.registers if r.fields[0].access is Access.CONSTANT])
        got = await master.read(register.address, 4)
        assert int.from_bytes(got.data, "little") == register.pack(**{f.name: f.reset for f in register.fields})
        counts["reads"] += 1

    async def write():
        got = await master.write(MAP["INTERRUPT_ENABLE"].address, bytes([chance.randrange(256), 0, 0, 0]))
        assert got.resp == AxiResp.OKAY
        counts["writes"] += 1

    await Combine(*(cocotb.start_soon(chance.choice((read, write))()) for _ in range(120)))
    assert sum(counts.values()) == 120 and min(counts.values()) > 20
    # Nothing is left on the bus.
    await ClockCycles(dut.clk, 30)
    assert not dut.bus_bvalid.value and not dut.bus_rvalid.value


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def reset_in_mid_transfer(dut):
    """At any cycle of a transfer: afterwards all is as after the first reset, and the bus answers."""
    chance = random.Random(JOB["seed"])
    master, twin = await begin(dut, chance), model(named=False)
    for delay in range(14):
        write = cocotb.start_soon(master.write(MAP["CONTROL"].address, b"\x02\0\0\0"))
        read = cocotb.start_soon(master.read(MAP["STATUS"].address, 4))
        await ClockCycles(dut.clk, 1 + delay)
        dut.rst.value = 1
        await ClockCycles(dut.clk, 2)
        for task in (write, read):
            task.cancel()
        dut.rst.value = 0
        await ClockCycles(dut.clk, 2)
        assert not dut.bus_bvalid.value and not dut.bus_rvalid.value
        for name in ("CONTROL", "STATUS", "INCARNATION", "IDENTITY"):
            got = await master.read(MAP[name].address, 4)
            assert int.from_bytes(got.data, "little") == twin.read(MAP[name].address)[0], (delay, name)
    JOB_PATH.with_name("outcome.json").write_text(json.dumps({"done": True}))

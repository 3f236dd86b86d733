"""Runs a program of the driver over two exported NIs; runs inside the simulator.  ``$LETHE_JOB`` names the program."""

import importlib.util
import itertools
import json
import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles

from lethe.spec.config import System
from lethe_sim.driver.axi import AxiTransport
from lethe_sim.driver.driver import Driver

JOB_PATH = Path(os.environ["LETHE_JOB"])
JOB = json.loads(JOB_PATH.read_text())


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def run(dut):
    """What the program says goes to ``outcome.json``."""
    spec = importlib.util.spec_from_file_location("program", JOB["program"])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    chance = random.Random(JOB["seed"])
    system = System.make(**JOB["sections"])
    dut.rst.value = 1
    Clock(dut.clk, 10, unit="ns").start()

    def pauses():
        return (chance.random() < JOB["pauses"] for _ in itertools.count())

    made = {"store": JOB["store"], "pauses": pauses}
    drivers = [Driver(AxiTransport(dut, system, dut.clk, dut.rst, prefix=prefix, **made)) for prefix in ("a_", "b_")]
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 4)
    found = await getattr(module, JOB["function"])(*drivers)
    JOB_PATH.with_name("outcome.json").write_text(json.dumps(found))

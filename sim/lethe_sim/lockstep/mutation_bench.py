"""The cocotb bench behind `mutation.hunt`: every mutant of one netlist against the golden models."""

import itertools
import json
import os
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from .block_bench import restart, side_by_side
from .mutation import SUBJECTS


@cocotb.test()
async def hunt(dut):
    """``outcome.json``: for mutant 0 (none), 1, 2, …: after how many cycles it differed, or null."""
    job_path = Path(os.environ["LETHE_JOB"])
    job = json.loads(job_path.read_text())
    # What the models say does not depend on the mutant.
    subjects = SUBJECTS[job["subject"]]
    plays = [
        [(given, expected) for given, expected, _ in itertools.islice(side_by_side(subjects(), seed), job["cycles"])]
        for seed in range(job["seeds"])
    ]
    Clock(dut.clk, 10, unit="ns", impl="gpi").start()
    fates = []
    for mutant in range(job["mutants"] + 1):
        dut.mutant.value = mutant
        fates.append(await _fate(dut, plays))
        if mutant == 0 and fates[0] is not None:
            break
    job_path.with_name("outcome.json").write_text(json.dumps(fates))


async def _fate(dut, plays: list[list[tuple[int, int]]]) -> int | None:
    ran = 0
    for play in plays:
        await restart(dut)
        for cycle, (given, expected) in enumerate(play):
            if cycle:
                await RisingEdge(dut.clk)
            dut.i.value = given
            await FallingEdge(dut.clk)
            if dut.o.value.to_unsigned() != expected:
                return ran + cycle
        ran += len(play)
    return None

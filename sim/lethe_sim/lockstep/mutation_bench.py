"""The cocotb bench behind `mutation.hunt`: every mutant of one netlist against the golden model."""

import json
import os
from pathlib import Path

import cocotb

from lethe.spec.config import parse

from .divergence import DivergenceError
from .lockstep import Lockstep


@cocotb.test()
async def hunt(dut):
    """``outcome.json``: for mutant 0 (none), 1, 2, …: the cycle of its divergence, or null."""
    job_path = Path(os.environ["LETHE_JOB"])
    job = json.loads(job_path.read_text())
    system = parse(job["toml"])
    fates = []
    for mutant in range(job["mutants"] + 1):
        dut.mutant.value = mutant
        bench = Lockstep(dut, system)
        try:
            await bench.start()
            await bench.run(job["cycles"])
            await bench.compare_counters()
            fates.append(None)
        except DivergenceError as divergence:
            fates.append(divergence.cycle)
        if mutant == 0 and fates[0] is not None:
            break
    job_path.with_name("outcome.json").write_text(json.dumps(fates))

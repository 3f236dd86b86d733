"""The cocotb bench behind `cosim`; runs inside the simulator, reads its job from ``$LETHE_JOB``."""

import json
import os
from pathlib import Path

import cocotb

from lethe.spec.config import parse
from lethe_sim.trace.store import TraceWriter
from lethe_sim.trace.words import RawEvents
from lethe_sim.workloads.file import script_for

from .divergence import DivergenceError
from .lockstep import Lockstep


@cocotb.test()
async def lockstep(dut):
    """Compare until drained or out of cycles; the outcome goes to ``outcome.json`` beside the job."""
    job_path = Path(os.environ["LETHE_JOB"])
    job = json.loads(job_path.read_text())
    system = parse(job["toml"], job["source"])
    script = script_for(system) if system.workload.kind == "file" else None
    progress = job_path.with_name("progress")
    bench = Lockstep(
        dut,
        system,
        script=script,
        reproduce=job["reproduce"],
        progress=lambda cycle, _: progress.write_text(str(cycle)),
    )
    outcome = {"equal": True, "cycles": 0, "drained": False}
    try:
        await bench.start()
        await bench.run(job["cycles"], until_drained=job["until_drained"])
        outcome["counters"] = await bench.compare_counters()
    except DivergenceError as divergence:
        outcome |= {"equal": False, "report": str(divergence), "divergence_cycle": divergence.cycle}
    golden = bench.golden
    outcome |= {"cycles": golden.cycle, "drained": bool(golden.drained), "digest": int(golden.digest)}
    job_path.with_name("outcome.json").write_text(json.dumps(outcome))

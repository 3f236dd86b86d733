"""The cocotb bench that holds a self-test, as RTL or as gates, against the golden model: trace words and LEDs."""

import json
import os
from pathlib import Path

import cocotb

from lethe.spec.config import parse
from lethe_sim.lockstep.divergence import DivergenceError
from lethe_sim.lockstep.lockstep import Lockstep

LEDS = ("running", "passed", "failed", "status")


class Watching(Lockstep):
    """Lockstep that also notes every change of the LEDs, with its cycle."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.shown: list[list[int]] = []

    async def _look(self, start: int, i: int) -> None:
        await super()._look(start, i)
        now = [int(getattr(self.dut, name).value) for name in LEDS]
        if not self.shown or self.shown[-1][1:] != now:
            self.shown.append([start + i, *now])


@cocotb.test()
async def selftest(dut):
    """So many cycles in lockstep; the outcome goes to ``outcome.json`` beside the job."""
    job_path = Path(os.environ["LETHE_JOB"])
    job = json.loads(job_path.read_text())
    bench = Watching(dut, parse(job["toml"], "(self-test)"), reproduce=job["reproduce"])
    report = ""
    try:
        await bench.start()
        await bench.run(job["cycles"])
    except DivergenceError as divergence:
        report = str(divergence)
    events = int(bench.golden.counters.sum())
    outcome = {"report": report, "cycles": bench.golden.cycle, "leds": bench.shown, "events": events}
    job_path.with_name("outcome.json").write_text(json.dumps(outcome))

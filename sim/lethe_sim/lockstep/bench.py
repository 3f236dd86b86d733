"""The cocotb bench behind `cosim`; runs inside the simulator, reads its job from ``$LETHE_JOB``."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from lethe.spec.config import System, parse
from lethe_sim.trace import TraceError, TraceWriteError, TraceWriter, digest, events_from_words, summed_counters
from lethe_sim.wireshark.capture import CaptureWriter
from lethe_sim.workloads import Play, build

from .cosim import UNCAPTURED
from .divergence import DivergenceError
from .lockstep import Lockstep
from .taken import TakenPayloads


@cocotb.test()
async def lockstep(dut):
    """Compare until drained or out of cycles; the outcome goes to ``outcome.json`` beside the job."""
    job_path = Path(os.environ["LETHE_JOB"])
    job = json.loads(job_path.read_text())
    system = parse(job["toml"], job["source"])
    play = Play(build(system))
    progress = job_path.with_name("progress")
    outcome: dict[str, Any] = {"equal": True, "digest": 0, "events": 0, "unwritten": []}
    takes = TakenPayloads(system) if play.workload else None
    rows_kept: list[np.ndarray] = []
    with contextlib.ExitStack() as stack:
        rtl, golden_trace = (
            stack.enter_context(_Trace(job[name], system, side, job["force"], outcome["unwritten"]))
            if job[name]
            else None
            for name, side in (("rtl_trace", "rtl"), ("golden_trace", "golden"))
        )

        capture = stack.enter_context(_Capture(job["pcap"], system, job["links"], job_path)) if job["pcap"] else None

        def record(first: int, rows: np.ndarray) -> None:
            """The RTL's side, from its own words."""
            events = events_from_words(rows, system.layout, first)
            outcome["digest"] = (outcome["digest"] + digest(events)) % 2**64
            outcome["events"] += len(events)
            if rtl:
                rtl.append(events)
            if takes:
                takes.append(first, rows)
            if job["rows"]:
                rows_kept.append(rows.copy())

        def after_chunk(cycle: int, golden) -> None:
            progress.write_text(str(cycle))
            if not (golden_trace or capture):
                return
            events = golden.take_events()
            if golden_trace:
                golden_trace.append(events)
            if capture:
                capture.take(golden, events)

        bench = Lockstep(
            dut,
            system,
            script=play.script,
            reproduce=job["reproduce"],
            record=record,
            progress=after_chunk,
            record_golden=bool(golden_trace or capture),
            tapped=job["links"],
        )
        golden = bench.golden
        try:
            await bench.start()
            for size, until_drained in play.strides(golden, job["cycles"], until_drained=job["until_drained"]):
                await bench.run(size, until_drained=until_drained)
            outcome |= {"cycles": golden.cycle, "drained": bool(golden.drained), "golden_digest": int(golden.digest)}
            totals = summed_counters(
                golden.counters, golden.router_counters, golden.link_counters, golden.sums, golden.service_counters
            )
            if capture:
                outcome["packets"] = capture.finish(golden)
            await bench.settle()
            for writer in (rtl, golden_trace):
                if writer:
                    side = outcome["golden_digest" if writer is golden_trace else "digest"]
                    writer.finish(cycles=outcome["cycles"], drained=outcome["drained"], digest=side, counters=totals)
            outcome["counters"] = await bench.compare_counters()
        except DivergenceError as divergence:
            outcome |= {
                "equal": False,
                "report": str(divergence),
                "divergence_cycle": divergence.cycle,
                "cycles": golden.cycle,
                "drained": False,
                "packets": capture.finish(golden) if capture else 0,
            }
    if takes:
        np.savez(
            job_path.with_name("taken.npz"),
            where=np.array([(d.node, d.source, d.cycle, len(d.payload)) for d in takes.complete], np.int64).reshape(
                -1, 4
            ),
            payload=np.frombuffer(b"".join(d.payload for d in takes.complete), np.uint8),
        )
    if job["rows"]:
        np.save(job["rows"], np.concatenate(rows_kept))
    job_path.with_name("outcome.json").write_text(json.dumps(outcome))


class _Trace(contextlib.AbstractContextManager):
    """A trace under way; one that cannot be written is given up, and the comparison goes on without it."""

    def __init__(self, path: str, system: System, side: str, force: bool, unwritten: list[str]):
        self._unwritten = unwritten
        self._writer: TraceWriter | None = None
        with self._trying():
            self._writer = TraceWriter(path, system, side, force=force)

    def __exit__(self, *_) -> None:
        if self._writer is not None:
            self._writer.__exit__()

    def append(self, events: np.ndarray) -> None:
        with self._trying():
            if self._writer is not None:
                self._writer.append(events)

    def finish(self, **end) -> None:
        with self._trying():
            if self._writer is not None:
                self._writer.finish(**end)

    @contextlib.contextmanager
    def _trying(self) -> Iterator[None]:
        try:
            yield
        except (TraceError, TraceWriteError) as error:
            self._unwritten.append(str(error))
            self.__exit__()
            self._writer = None


class _Capture(contextlib.AbstractContextManager):
    """A capture under way; one that cannot be written is given up, and the comparison goes on without it."""

    def __init__(self, path: str, system: System, links: list[int], job_path: Path):
        self._failed = job_path.with_name(UNCAPTURED)
        self._file = self._writer = None
        with self._trying():
            self._file = open(path, "wb")  # noqa: SIM115, closed at the end of the run
            self._writer = CaptureWriter(self._file, system, links)

    def __exit__(self, *_) -> None:
        if self._file is not None:
            with self._trying():
                self._file.close()

    def take(self, golden, events: np.ndarray) -> None:
        with self._trying():
            if self._writer is not None:
                self._writer.take(golden, events)

    def finish(self, golden) -> int:
        """Write the rest; how many messages there are."""
        with self._trying():
            if self._writer is not None:
                writer, self._writer = self._writer, None
                writer.finish(golden, golden.take_events())
                return writer.written
        return 0

    @contextlib.contextmanager
    def _trying(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._failed.write_text(error.strerror or str(error))
            self._writer = None

"""`cosim`: build a system's RTL, run it beside the golden model, say where they part."""

import contextlib
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lethe.spec.config import System
from lethe.spec.toml import dump
from lethe_sim.files import WriteError, whole
from lethe_sim.golden.script import Letters

from . import simulators

TOP = "lethe_system"
BENCH = "lethe_sim.lockstep.bench"
#: In the workspace: why the bench could not write the capture.
UNCAPTURED = "uncaptured"


@dataclass(frozen=True, kw_only=True)
class CosimResult:
    """What a lockstep run found.

    ``equal`` is True if every trace word of every cycle agreed and so did every counter; otherwise
    ``report`` says where they part.  ``digest`` and ``events`` are the RTL's own; ``taken`` are
    (node, source, cycle, payload) of every datagram the RTL handed to a scripted host; ``packets`` are the messages in
    the capture; ``unwritten`` are the traces, waveforms and captures that could not be written.
    """

    equal: bool
    cycles: int
    drained: bool
    digest: int = 0
    golden_digest: int = 0
    report: str = ""
    divergence_cycle: int | None = None
    counters: int = 0
    seconds: float = 0.0
    build_seconds: float = 0.0
    events: int = 0
    packets: int = 0
    taken: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    unwritten: list[OSError] = field(default_factory=list)

    @property
    def letters(self) -> Letters:
        """The same in columns, for the verdict of a workload."""
        return Letters.from_bytes(self.taken)


def emit(system: System, *, scripted: bool) -> str:
    """The Verilog of a system under test, the same for all seeds with the same `relay_notices`."""
    from lethe import verilog
    from lethe.system import SystemTop

    return verilog.emit(SystemTop(system, host="stimulus" if scripted else "generator", seeded=True), TOP)


def cosim(
    system: System,
    *,
    cycles: int | None = None,
    simulator: str = "verilator",
    until_drained: bool = True,
    rtl_trace: Path | None = None,
    golden_trace: Path | None = None,
    vcd: Path | None = None,
    pcap: Path | None = None,
    links: Sequence[int] = (),
    rows: Path | None = None,
    reproduce: str = "",
    verilog: str | None = None,
    force: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> CosimResult:
    """Run RTL and golden model of ``system`` in lockstep.

    Parameters
    ----------
    cycles : at most so many (default: the configuration's)
    rtl_trace, golden_trace : write each side's events there, as Parquet
    vcd : write the simulator's own waveform there (Verilator)
    pcap : write what crosses the links ``links`` there, as pcapng: the golden model's flits, which are the RTL's as
        long as both agree
    rows : save the RTL's trace words there as a NumPy array uint64[cycles, words]
    force : let traces replace files that are none
    verilog : use this text instead of the one the RTL gives, such as RTL changed by hand
    progress : called with (phase, done, total)

    Raises `ToolError` if a simulator, compiler or Java is missing or fails.
    """
    limit = system.run.cycles if cycles is None else cycles
    simulators.require(simulator)
    scripted = system.workload.kind != "generator"
    say = progress or (lambda phase, done, total: None)
    say("verilog", 0, limit)
    started = time.monotonic()
    text = verilog if verilog is not None else emit(system, scripted=scripted)
    say("build", 0, limit)
    directory = simulators.build(text, TOP, simulator, waves=vcd is not None)
    built = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lethe-") as scratch:
        workspace = Path(scratch)
        job = {
            "toml": dump(system),
            "source": system.source,
            "cycles": limit,
            "until_drained": until_drained,
            "reproduce": reproduce or f"lethe cosim {system.source} --seed {system.run.seed} --cycles {limit}",
            "rtl_trace": str(rtl_trace.resolve()) if rtl_trace else "",
            "golden_trace": str(golden_trace.resolve()) if golden_trace else "",
            "links": list(links),
            "rows": str(rows.resolve()) if rows else "",
            "force": force,
        }
        watcher = _Watcher(workspace / "progress", lambda done: say("cosim", done, limit))
        unwritten: list[OSError] = []
        with watcher, _waveform(vcd, unwritten) as waves, _capture(pcap, workspace, unwritten) as capture:
            job["pcap"] = str(capture.resolve()) if capture else ""
            (workspace / "job.json").write_text(json.dumps(job))
            simulators.run(
                directory, TOP, BENCH, simulator, workspace, {"LETHE_JOB": str(workspace / "job.json")}, waves=waves
            )
        outcome = workspace / "outcome.json"
        if not outcome.exists():
            said = simulators.words(workspace / simulators.LOG, directory.name)
            raise simulators.ToolError(f"the bench ended without an outcome: {said}")
        found = json.loads(outcome.read_text())
        if scripted:
            found["taken"] = _taken(workspace / "taken.npz")
    unwritten = [WriteError(told) for told in found.pop("unwritten")] + unwritten
    return CosimResult(seconds=time.monotonic() - built, build_seconds=built - started, unwritten=unwritten, **found)


@contextlib.contextmanager
def _waveform(vcd: Path | None, unwritten: list[OSError]) -> Iterator[Path | None]:
    """Where the simulator writes its waveform; ``vcd`` gets it at the end, unless that goes to ``unwritten``."""
    if vcd is None:
        yield None
        return
    ran = False
    try:
        with whole(vcd) as part:
            yield part
            ran = True
            _mark(part)
    except simulators.ToolError as error:
        # The simulator stops where it cannot write.
        if found := re.search(r"VerilatedVcd::\S+: ([^;\n]*)", str(error)):
            raise WriteError(f"{vcd}: cannot be written: {found[1].strip()}; make room, or leave it out") from None
        raise
    except WriteError as error:
        if not ran:
            raise
        unwritten.append(error)


@contextlib.contextmanager
def _capture(pcap: Path | None, workspace: Path, unwritten: list[OSError]) -> Iterator[Path | None]:
    """Where the bench writes its capture; ``pcap`` gets it at the end, unless that goes to ``unwritten``."""
    if pcap is None:
        yield None
        return
    ran = False
    try:
        with whole(pcap) as part:
            yield part
            ran = True
            if (failed := workspace / UNCAPTURED).exists():
                raise WriteError(f"{pcap}: cannot be written: {failed.read_text()}")
    except WriteError as error:
        if not ran:
            raise
        unwritten.append(error)


def _mark(vcd: Path) -> None:
    """Say in the first line whose waveform it is, in as many letters as Verilator uses for itself."""
    before, after = b"$version Generated by VerilatedVcd", b"$version Lethe cosim, VerilatedVcd"
    with vcd.open("r+b") as file:
        if file.read(len(before)) == before:
            file.seek(0)
            file.write(after)


def _taken(path: Path) -> list[tuple[int, int, int, bytes]]:
    with np.load(path) as saved:
        where, payload = saved["where"], saved["payload"].tobytes()
    found, at = [], 0
    for node, source, cycle, length in where.tolist():
        found.append((node, source, cycle, payload[at : at + length]))
        at += length
    return found


class _Watcher:
    """Reads a file that the bench overwrites with its cycle count, a few times a second."""

    def __init__(self, path: Path, report: Callable[[int], None]):
        self._path = path
        self._report = report
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            try:
                done = int(self._path.read_text() or 0)
            except (OSError, ValueError):
                continue
            self._report(done)

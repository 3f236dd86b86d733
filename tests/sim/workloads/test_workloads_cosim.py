"""Every kind of workload in lockstep: one small design, built once; the verdict comes from what the RTL delivered."""

import shutil
from pathlib import Path

import pytest

from lethe.spec.config import System
from lethe.spec.sections.workload import KERNELS
from lethe_sim import running
from lethe_sim.lockstep.cosim import cosim, emit
from lethe_sim.workloads import anchored, build, judge
from tests.helpers.capture_files import FRAMES, pcapng

WORKLOADS = {
    "file": {"kind": "file", "path": "file.bin"},
    "pattern": {"kind": "pattern", "pattern": "hotspot", "count": 20, "load": 0.3, "arrivals": "bursty"},
    "capture": {"kind": "capture", "path": "c.pcapng", "cycle_ns": 500.0},
    "trace": {"kind": "trace", "path": "trace.csv"},
} | {name: {"kind": "kernel", "kernel": name, "size": 6, "steps": 2} for name in KERNELS}

#: The others differ from these in what is computed, not in how it gets into the RTL.
NORMAL = ("pattern", "capture", "sort")


def small(source: str, name: str) -> System:
    return System.make(
        source, topology={"kind": "crossbar", "nodes": 4}, faults={"loss": 0.1},
        ni={"slots": 4, "sets": 4, "ways": 2, "statistics": False}, run={"cycles": 30_000}, workload=WORKLOADS[name],
        wire={"generation_bits": 14},
    )  # fmt: skip


@pytest.fixture(scope="module")
def verilog() -> str:
    """The RTL does not depend on what its hosts are given."""
    return emit(small("w.toml", "pattern"), scripted=True)


@pytest.mark.push
@pytest.mark.skipif(shutil.which("c++") is None, reason="the simulator needs a C++ compiler")
@pytest.mark.parametrize(
    "name", [name if name in NORMAL else pytest.param(name, marks=pytest.mark.full) for name in WORKLOADS]
)
def test_in_lockstep(name, verilog, tmp_path: Path):
    (tmp_path / "file.bin").write_bytes(bytes(range(200)))
    (tmp_path / "c.pcapng").write_bytes(pcapng())
    (tmp_path / "trace.csv").write_text("cycle,source,destination,length\n40,0,1,32\n0,3,2,0\n90,2,1,9\n")
    system = small(str(tmp_path / "w.toml"), name)
    workload = build(system)
    assert workload
    result = cosim(anchored(system), verilog=verilog)
    assert result.equal, result.report
    assert result.drained and len(result.letters) == len(result.taken) > 0
    verdict = judge(workload, result.letters)
    assert verdict.good, verdict.text
    # The golden model alone is given the same in the same cycles, and comes to the same.
    ran = running.run(system, tmp_path / "w.parquet")
    assert (ran.meta.digest, ran.meta.cycles) == (result.digest, result.cycles)
    assert ran.verdict and ran.verdict.text.split("\n")[0] == verdict.text.split("\n")[0]
    if name == "capture":
        assert verdict.data and len(verdict.data) == len(pcapng(FRAMES))
    # One datagram less in the RTL's deliveries, and the verdict is another.
    assert not judge(workload, result.letters.select(slice(1, None))).good

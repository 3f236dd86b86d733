"""Workloads with flow: payloads are what is left beside its header, and a node may send to itself."""

import pytest

from lethe.spec.config import ConfigError
from lethe_sim.workloads.file import FileWorkload
from lethe_sim.workloads.kernel import KernelWorkload
from lethe_sim.workloads.trace import TraceWorkload
from lethe_sim.workloads.workload import WorkloadError
from tests.helpers.flow_oracle import flow_system


def test_lengths_that_nobody_gave_fit():
    load = flow_system(wire={"mtu": 24}).workload
    assert (load.min_length, load.max_length) == (16, 16)
    assert flow_system(wire={"mtu": 24, "flit_bits": 128}).workload.max_length == 8


def test_a_length_that_does_not_fit_is_named():
    with pytest.raises(ConfigError, match=r"max_length: must be 32 to 32 \(wire\.mtu without the 8 of flow"):
        flow_system(workload={"max_length": 33})


def test_a_trace(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("cycle,source,destination,length\n0,1,1,32\n")
    workload = {"kind": "trace", "path": str(path)}
    assert TraceWorkload(flow_system(workload=workload)).length.tolist() == [32]
    path.write_text("cycle,source,destination,length\n0,1,1,33\n")
    with pytest.raises(WorkloadError, match=r"length must be 0 to 32, not 33; cut it up, or raise wire\.mtu"):
        TraceWorkload(flow_system(workload=workload))


def test_a_file_and_a_kernel(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(100))
    assert FileWorkload(flow_system(workload={"kind": "file", "path": str(path)})).expected == -(-100 // 28)
    assert KernelWorkload(flow_system(workload={"kind": "kernel", "kernel": "sort", "size": 9})).kernel.room == 32

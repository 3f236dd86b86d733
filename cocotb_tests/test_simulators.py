"""Built simulations that are kept."""

import shutil

import cocotb_tools.config
import pytest
from cocotb_tools.runner import get_results

from lethe_sim.lockstep import simulators

VERILOG = "module top(d, q);\n  input d;\n  output q;\n  assign q = ~d;\nendmodule\n"
BENCH = """
import cocotb
from cocotb.triggers import Timer

@cocotb.test()
async def inverts(top):
    top.d.value = 1
    await Timer(1, "ns")
    assert top.q.value == 0
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="the simulator needs a C++ compiler")
def test_a_build_outlives_the_environment_that_made_it(tmp_path, monkeypatch):
    (tmp_path / "inverter_bench.py").write_text(BENCH)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("LETHE_CACHE", str(tmp_path / "cache"))
    gone = tmp_path / "environment" / "libs"
    shutil.copytree(cocotb_tools.config.libs_dir, gone)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(cocotb_tools.config, "libs_dir", gone)
        built = simulators.build(VERILOG, "top")
    shutil.rmtree(gone)
    assert simulators.build(VERILOG, "top") == built
    results = simulators.run(built, "top", "inverter_bench", "verilator", tmp_path, {})
    assert get_results(results) == (1, 0)

"""Built simulations that are kept."""

import shutil

import cocotb_tools.config
import pytest
from cocotb_tools.runner import get_results

from lethe_sim.lockstep import simulators

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="the simulator needs a C++ compiler")

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


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of its own, with what other tests have compiled of Verilator's run-time library."""
    directory = tmp_path_factory.mktemp("cache")
    for kept in simulators.cache_directory().glob("runtime-*"):
        shutil.copytree(kept, directory / kept.name)
    return directory


@pytest.fixture
def in_cache(cache, monkeypatch):
    monkeypatch.setenv("LETHE_CACHE", str(cache))
    return cache


@pytest.mark.full
def test_a_build_outlives_the_environment_that_made_it(tmp_path, in_cache, monkeypatch):
    (tmp_path / "inverter_bench.py").write_text(BENCH)
    monkeypatch.syspath_prepend(tmp_path)
    gone = tmp_path / "environment" / "libs"
    shutil.copytree(cocotb_tools.config.libs_dir, gone)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(cocotb_tools.config, "libs_dir", gone)
        built = simulators.build(VERILOG, "top")
    shutil.rmtree(gone)
    assert simulators.build(VERILOG, "top") == built
    results = simulators.run(built, "top", "inverter_bench", "verilator", tmp_path, {})
    assert get_results(results) == (1, 0)
    assert list(in_cache.glob("verilator-*")) == [built]


@pytest.mark.push
def test_the_run_time_library_is_compiled_once(tmp_path, monkeypatch):
    """What is built with the one that was kept, works."""
    (tmp_path / "inverter_bench.py").write_text(BENCH)
    monkeypatch.syspath_prepend(tmp_path)
    simulators.build(VERILOG, "top")
    built = simulators.build(f"{VERILOG}// {tmp_path}\n", "top")
    assert "verilated_vpi.cpp" not in (built / "build.log").read_text()
    assert get_results(simulators.run(built, "top", "inverter_bench", "verilator", tmp_path, {})) == (1, 0)
    shutil.rmtree(built)


def test_of_two_builds_at_once_the_first_stays(in_cache, monkeypatch):
    ports = simulators._public_ports

    def meanwhile(workshop, *arguments):
        theirs = in_cache / workshop.parent.name.rpartition("-")[0]
        theirs.mkdir()
        (theirs / "theirs").touch()
        return ports(workshop, *arguments)

    monkeypatch.setattr(simulators, "_public_ports", meanwhile)
    built = simulators.build(VERILOG + "// one more\n", "top")
    assert (built / "theirs").exists()


def test_a_failed_build_leaves_its_log_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("LETHE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(simulators.ToolError, match="verilator failed") as failed:
        simulators.build(VERILOG.replace("~d", "~nobody"), "top")
    (log,) = (tmp_path / "cache").iterdir()
    assert str(log) in str(failed.value) and "nobody" in log.read_text()


def test_a_cache_that_cannot_be_written_says_what_to_set(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LETHE_CACHE", str(tmp_path / "file"))
    with pytest.raises(simulators.ToolError, match=r"cannot be written: .*; set LETHE_CACHE to a directory that can"):
        simulators.build(VERILOG, "top")

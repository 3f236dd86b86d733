"""The registers' exported text under other simulators, with cocotbext-axi's master on their bus."""

import pytest

from cocotb_tests.test_export import needs_icarus
from lethe.bus.registers import Registers
from lethe.spec.config import parse
from lethe.verilog import emit
from lethe_sim.lockstep import simulators

TOP = "lethe_registers"
TOML = '[topology]\nkind = "wire"\n[loop]\nslots = 3\n[ni]\nslots = 5\ncontrol_slots = 2\ncontrol_classes = 1\n'


@pytest.fixture(scope="module")
def text():
    return emit(Registers(parse(TOML)), TOP)


@pytest.mark.parametrize(
    ("simulator", "options"),
    [
        pytest.param("icarus", ("-g2005",), marks=needs_icarus),
        pytest.param("icarus", ("-g2012",), marks=needs_icarus),
        ("verilator", ()),
    ],
)
def test_a_master_reads_and_writes_every_register(tmp_path, text, simulator, options):
    directory = simulators.build(text, TOP, simulator, options=options)
    job = {"toml": TOML, "seed": 3}
    bench = "cocotb_tests.benches.registers_bench"
    assert simulators.outcome(directory, TOP, bench, tmp_path, job, simulator=simulator) == {"done": True}
    results = (tmp_path / "results.xml").read_text()
    assert results.count("<testcase") == 4 and "<failure" not in results and "<error" not in results

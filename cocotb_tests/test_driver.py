"""One program of the driver over exported RTL and over the golden model."""

import asyncio
import importlib.util
import json
from pathlib import Path

import pytest

from cocotb_tests.benches.axi_pair import TOP, pair
from cocotb_tests.test_export import needs_icarus
from lethe.spec.config import System
from lethe.spec.sections.flow import OF_NI
from lethe.spec.toml import dump
from lethe_sim.cli import main
from lethe_sim.driver.axi import AxiTransport
from lethe_sim.driver.driver import Driver
from lethe_sim.driver.golden import GoldenNetwork
from lethe_sim.driver.transport import DriverError
from lethe_sim.lockstep import simulators
from tests.helpers import ROOT

PROGRAM = ROOT / "examples" / "driver.py"
BENCH = "cocotb_tests.benches.driver_bench"


def loaded(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def over_golden(path: Path, function: str, sections: dict) -> dict:
    network = GoldenNetwork(System.make(**sections))
    found = asyncio.run(getattr(loaded(path), function)(*map(Driver, network.transports)))
    return json.loads(json.dumps(found))


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    """Verilog of two NIs on AXI with a lossy link each way between them, for the sections of a configuration."""
    found = {}

    def make(sections: dict, *, store: bool = False) -> str:
        key = json.dumps([sections, store])
        if key not in found:
            place = tmp_path_factory.mktemp("driver")
            (place / "ni.toml").write_text(dump(System.make(**sections)))
            command = ["verilog", str(place / "ni.toml"), "--block", "ni", "--bus", "axi", "--no-watch"]
            command += ["--store-and-forward"] if store else []
            assert main([*command, "-o", str(place / "ni.v"), "--list", str(place / "ni.json")]) == 0
            listed = json.loads((place / "ni.json").read_text())
            found[key] = (place / "ni.v").read_text() + pair(listed["top"], listed["modules"][listed["top"]])
        return found[key]

    return make


def over_rtl(tmp_path: Path, text: str, path: Path, function: str, sections: dict, simulator: str, **more) -> dict:
    directory = simulators.build(text, TOP, simulator)
    job = {"program": str(path), "function": function, "sections": sections, "seed": 5, **more}
    return simulators.outcome(directory, TOP, BENCH, tmp_path, job, simulator=simulator)


@pytest.mark.push
@pytest.mark.parametrize(
    ("simulator", "pauses", "store"),
    [
        ("verilator", 0.0, False),
        ("verilator", 0.3, False),
        pytest.param("verilator", 0.3, True, marks=pytest.mark.full),
        pytest.param("icarus", 0.3, False, marks=[needs_icarus, pytest.mark.full]),
    ],
)
def test_the_example_does_the_same_over_golden_model_and_rtl(tmp_path, design, simulator, pauses, store):
    sections = loaded(PROGRAM).CONFIGURATION
    wanted = over_golden(PROGRAM, "program", sections)
    assert wanted["last"] == "ACCEPTED" and wanted["incarnation"] == 2
    text = design(sections, store=store)
    found = over_rtl(tmp_path, text, PROGRAM, "program", sections, simulator, pauses=pauses, store=store)
    assert found == wanted


@pytest.fixture
def played(tmp_path, design):
    """What a program of `driver_programs` comes to over RTL."""
    path = ROOT / "cocotb_tests" / "benches" / "driver_programs.py"
    programs = loaded(path)

    def play(function: str) -> dict:
        text = design(programs.CONFIGURATION)
        more = {"pauses": 0.0, "store": False}
        return over_rtl(tmp_path, text, path, function, programs.CONFIGURATION, "verilator", **more)

    return play


@pytest.mark.push
def test_more_tasks_send_than_names_can_wait(played):
    """Each gets the name that the completion of its datagram has."""
    found = played("many_senders")
    assert found["names"] == found["ends"] and not found["lost"]
    assert sorted(tag for _, _, tag in found["names"]) == [*range(len(found["ends"]))] and len(found["ends"]) > 30


@pytest.mark.push
def test_a_reset_of_the_system_cuts_a_transfer_off(played):
    found = played("reset_in_a_transfer")
    assert found["said"] == ["a reset of the system has cut off a transfer of a register; call open again"] * 2
    assert found["status"]["READY"]


def test_a_ni_with_flow_is_refused():
    system = System.make(topology={"kind": "wire"}, wire={"mtu": 40}, flow={"ports": 4}, ni=OF_NI, hosted=False)
    with pytest.raises(DriverError, match=r"\[flow\]: the driver sends datagrams, not messages; leave it out"):
        AxiTransport(None, system, None, None)

"""Verilog that linters and people can read."""

import re
import subprocess
from pathlib import Path

import pytest

from lethe import verilog
from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.lib.queue import Queue
from lethe.ni.ni import Ni
from lethe.spec.config import System
from lethe.system import SystemTop
from lethe_sim.lockstep.simulators import has_icarus
from tests.helpers.tiers import but
from tests.helpers.verilog_lint import lint


def ports(text: str, module: str) -> set[str]:
    return set(re.findall(r"\w+", text[text.index(f"module {module}(") :].split(");")[0]))


def test_a_router_has_readable_ports_and_no_warnings(tmp_path):
    system = System.make(topology={"kind": "tree", "arity": 2, "levels": 2})
    text = verilog.emit(Router(system.format, Rule.of(system.graph, 0), 2), "router")
    assert {"clk", "rst", "seed", "position", "i_0_valid", "i_3_data", "o_2_first", "o_0_last"} <= ports(text, "router")
    assert lint(text, "router", tmp_path) == ""


@pytest.mark.push
def test_a_network_interface_has_readable_ports_and_no_warnings(tmp_path):
    system = System.make(topology={"kind": "tree", "arity": 2, "levels": 2}, ni={"control_classes": 1})
    text = verilog.emit(Ni(system), "ni")
    found = ports(text, "ni")
    streams = {"send": "destination", "send_data": "payload", "deliver_data": "last", "completion": "status"}
    for stream, field in streams.items():
        assert {f"{stream}_valid", f"{stream}_ready", f"{stream}_{field}"} <= found
    assert {"node", "link_i_valid", "link_o_data", "deliver_control1_length"} <= found
    assert lint(text, "ni", tmp_path) == ""


@pytest.mark.parametrize("host", but([], ["generator", "stimulus"], push=["generator"]))
def test_units_that_are_alike_are_one_module_and_other_tools_read_them(tmp_path, host):
    system, text = _odd("tree", host)
    modules = re.findall(r"^module (\S+?)\(", text, re.MULTILINE)
    assert len(modules) == len(set(modules))
    used = [re.findall(rf"^  {name} \\?\S+ \(", text, re.MULTILINE) for name in ("lethe_ni", "lethe_router_level0")]
    assert [len(uses) for uses in used] == [4, 2]
    links = re.findall(r"^  lethe_(?:mortal_)?link \\?\S+ \(", text, re.MULTILINE)
    assert len(links) == len(system.graph.links)
    assert not re.search(r"/\S+\.py", text)
    read_by_other_tools(text, tmp_path)


def test_what_yosys_refuses_is_an_error():
    with pytest.raises(verilog.VerilogError, match="yosys failed"):
        verilog.emit(Queue(8, 2), "a name with blanks")


SYSTEMS = {
    "wire": {"topology": {"kind": "wire"}, "wire": {"flit_bits": 16}},
    "crossbar": {"topology": {"kind": "crossbar", "nodes": 3}, "wire": {"flit_bits": 128}},
    "fly": {"topology": {"kind": "fly", "arity": 2, "levels": 2}, "wire": {"flit_bits": 32}},
    "tree": {"topology": {"kind": "tree", "arity": 2, "levels": 2}, "router": {"latency": 3}},
    "mesh": {"topology": {"kind": "mesh", "columns": 3, "rows": 2}, "wire": {"flit_bits": 16}},
}
FAULTS = {"tree": {"flip": 0.001, "links": [{"link": 3, "start": 5, "end": 9}]}}


def _odd(kind: str, host: str = "generator") -> tuple[System, str]:
    """A whole system of this topology with odd widths and table sizes, and faults."""
    tables = {"slots": 3, "sets": 1, "ways": 3} if kind in ("wire", "fly") else {"slots": 8, "control_classes": 2}
    system = System.make(
        **SYSTEMS[kind],
        ni={**tables, "reply_depth": 2, "deliver_records": 3},
        faults={"loss": 0.1, "resets": [{"node": 1, "start": 50, "cycles": 3}], **FAULTS.get(kind, {})},
    )
    return system, verilog.emit(SystemTop(system, host), "lethe_system")


@pytest.mark.full
@pytest.mark.parametrize("kind", [kind for kind in SYSTEMS if kind != "tree"])
def test_other_tools_read_every_topology(tmp_path, kind):
    """Widths, table sizes and topologies."""
    read_by_other_tools(_odd(kind)[1], tmp_path)


def read_by_other_tools(text: str, tmp_path: Path) -> None:
    """Verilator and Icarus have nothing to say, Yosys finds the netlist whole."""
    assert lint(text, "lethe_system", tmp_path) == ""
    verilog.run_yosys(
        tmp_path, "read_verilog lethe_system.v; hierarchy -check -top lethe_system; proc; opt_clean; check -assert"
    )
    if has_icarus():
        done = subprocess.run(
            ["iverilog", "-t", "null", "-g2005", "-Wall", "-Wno-timescale", "-s", "lethe_system", "lethe_system.v"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")

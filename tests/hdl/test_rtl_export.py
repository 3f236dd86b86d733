"""Exported modules in a design: their names, what can be left out, and the headers that go with them."""

import re
import shutil
import subprocess
from functools import cache, partial
from pathlib import Path

import pytest
from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.sim import Simulator

from lethe import verilog
from lethe.fabric.router import Router
from lethe.fabric.routes import Rule
from lethe.ni.ni import Ni
from lethe.services.stack import Node
from lethe.spec import header
from lethe.spec.config import System
from lethe.spec.events import Cause, Drop, Event, Kind, LoopCounter, Mode, RouterCounter, Status
from lethe.spec.ports import ni_ports, records
from lethe.system import FabricTop, SystemTop
from lethe_sim.lockstep.simulators import has_icarus
from tests.helpers.keywords import KEYWORDS
from tests.helpers.tiers import but
from tests.helpers.verilog_lint import lint

#: Small, with every kind of port; and another that differs in tables and wire.
OPTIONS = {"control_slots": 1, "reject": True, "source_incarnation": True, "merge_bits": 20}
OPTIONS |= {"acceptance": True, "sweep": True}
FULL = {
    "topology": {"kind": "wire"},
    "ni": {"slots": 2, "sets": 2, "ways": 2, "control_classes": 1, **OPTIONS},
    "timers": {"silent_after": 3},
}
OTHER = {
    "topology": {"kind": "crossbar", "nodes": 3},
    "wire": {"flit_bits": 32},
    "ni": {"slots": 4, "sets": 1, "ways": 1},
}
#: Small, with every kind of port, and with services.
STACKED = {**FULL, "loop": {"slots": 3}}
TREE = {"topology": {"kind": "tree", "arity": 2, "levels": 2}, "ni": {"slots": 2, "sets": 1, "ways": 1}}


@cache
def exported(block: str) -> str:
    """The Verilog of a block, by name."""
    tree = System.make(**TREE, faults={"links": [{"link": 3, "start": 5, "end": 9}]}, workload={"stop": 50})
    make, name, prefix = {
        "ni": (lambda: Ni(System.make(**FULL)), "lethe_ni", ""),
        "bare ni": (lambda: Ni(System.make(**FULL), watch=False, dump=False), "lethe_ni", "a_"),
        "other ni": (lambda: Ni(System.make(**OTHER)), "lethe_ni", "b_"),
        "stacked ni": (lambda: Node(System.make(**STACKED)), "lethe_ni", ""),
        "bare stacked ni": (lambda: Node(System.make(**STACKED), watch=False, dump=False), "lethe_ni", "e_"),
        "router": (lambda: Router(tree.format, Rule.of(tree.graph, 0)), "lethe_router", ""),
        "bare router": (lambda: Router(tree.format, Rule.of(tree.graph, 0), watch=False), "lethe_router", ""),
        "system": (lambda: SystemTop(System.make(**TREE), watch=False), "lethe_system", "c_"),
        "ports": (lambda: SystemTop(System.make(**TREE), "ports"), "lethe_system", ""),
        "fabric": (lambda: FabricTop(tree), "lethe_fabric", "d_"),
    }[block]
    return verilog.emit(make(), name, prefix=prefix)


BLOCKS = (
    "ni", "bare ni", "other ni", "stacked ni", "bare stacked ni", "router", "bare router", "system", "ports", "fabric"
)  # fmt: skip
#: The bare stacked NI has every name of the services.
QUICK = [block for block in BLOCKS if block != "stacked ni"]


def modules(text: str) -> dict[str, dict[str, int]]:
    """Bits of each port of each module."""
    found = {}
    for body in re.findall(r"^module (.*?)^endmodule$", text, re.MULTILINE | re.DOTALL):
        name = body.split("(")[0].strip().removeprefix("\\")
        ports = re.findall(r"^  (?:input|output) (?:\[(\d+):0\] )?(\S+) ?;$", body, re.MULTILINE)
        found[name] = {port: int(high or 0) + 1 for high, port in ports}
    return found


def read_by_yosys(directory: Path, texts: list[str], top: str) -> None:
    (directory / "all.v").write_text("".join(texts))
    verilog.run_yosys(directory, f"read_verilog all.v; hierarchy -check -top {top}; proc; opt_clean; check -assert")


def read_by_icarus(directory: Path, texts: list[str], top: str, *, generation: str = "-g2005") -> None:
    (directory / "all.v").write_text("".join(texts))
    done = subprocess.run(
        ["iverilog", "-t", "null", generation, "-Wall", "-Wno-timescale", "-s", top, "all.v"],
        cwd=directory, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("block", but(["ni", "system"], BLOCKS, push=QUICK))
def test_no_exported_name_is_a_keyword(block):
    """Of the top and of the units that others may want to see: not in Verilog, SystemVerilog or VHDL."""
    found = modules(exported(block))
    for name, ports in found.items():
        if "." in name:  # a part of a unit, whose name is escaped
            continue
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) and name not in KEYWORDS
        for port in ports:
            # Units within a system have structured ports, with two underscores.
            assert re.fullmatch(r"[a-z][a-z0-9]*(__?[a-z0-9]+)*", port), port
            assert port.lower() not in KEYWORDS, port


@pytest.mark.parametrize("block", but(["ni", "system"], BLOCKS, push=QUICK))
def test_nothing_waits_for_a_change(block):
    """Combinational logic is assignments: an ``always @*`` may sleep for ever if its inputs never change."""
    text = exported(block)
    assert set(re.findall(r"\balways\b.*", text)) <= {"always @(posedge clk)", "always @(posedge clk) begin"}


def test_a_name_begins_the_names_of_all_modules():
    for block, prefix in (("bare ni", "a_"), ("system", "c_"), ("fabric", "d_")):
        assert all(name.startswith(f"{prefix}lethe_") for name in modules(exported(block)))


BOTH = """
module both(clk, rst, a_idle, b_idle);
  input clk, rst;
  output a_idle, b_idle;
  a_lethe_ni a (.clk(clk), .rst(rst), .idle(a_idle));
  b_lethe_ni b (.clk(clk), .rst(rst), .idle(b_idle));
endmodule
"""


@pytest.mark.push
def test_two_configurations_are_in_one_design(tmp_path):
    texts = [exported("bare ni"), exported("other ni"), BOTH]
    remarks = lint("".join(texts), "both", tmp_path)
    assert set(re.findall(r"%\w+-?(\w*)", remarks)) <= {"PINMISSING", ""}, remarks
    read_by_yosys(tmp_path, texts, "both")


@pytest.mark.skipif(not has_icarus(), reason="Icarus Verilog is not installed")
@pytest.mark.parametrize("generation", ["-g2005", "-g2012"])
def test_icarus_takes_two_configurations_in_one_design(tmp_path, generation):
    (tmp_path / "all.v").write_text("".join([exported("bare ni"), exported("other ni"), BOTH]))
    command = ["iverilog", "-t", "null", generation, "-s", "both", "all.v"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0


@pytest.mark.push
@pytest.mark.parametrize("statistics", [True, False])
def test_what_is_left_out_leaves_nothing_loose(tmp_path, statistics):
    if statistics:
        text, name = exported("bare ni"), "a_lethe_ni"
    else:
        system, name = System.make(**FULL).replace(ni={"statistics": False}), "lethe_ni"
        text = verilog.emit(Ni(system, watch=False, dump=False), name)
    assert lint(text, name, tmp_path) == ""


def test_what_is_left_out_is_not_there():
    full, bare = modules(exported("ni"))["lethe_ni"], modules(exported("bare ni"))["a_lethe_ni"]
    gone = set(full) - set(bare)
    assert gone == {port for port in full if port.startswith(("watch", "dump"))} and len(gone) > 4
    assert not any(
        "dump" in port or "watch" in port for ports in modules(exported("bare ni")).values() for port in ports
    )
    assert "watch" in modules(exported("router"))["lethe_router"]
    assert "watch" not in modules(exported("bare router"))["lethe_router"]
    assert "watch" not in modules(exported("system"))["c_lethe_system"]


@pytest.mark.push
@pytest.mark.parametrize(("block", "name"), [("ports", "lethe_system"), ("fabric", "d_lethe_fabric")])
def test_a_system_for_other_hosts_and_a_fabric_for_other_nis_are_whole(tmp_path, block, name):
    text = exported(block)
    ports = modules(text)[name]
    if block == "ports":
        assert {
            f"host_{n}_{port}" for n in range(4) for port in ("send_ready", "deliver_data_last", "cancel_slot")
        } <= set(ports)
        assert "done" not in ports
    else:
        assert {f"link_{way}_{n}_{field}" for way in "io" for n in range(4) for field in ("valid", "data")} <= set(
            ports
        )
        assert not any("lethe_ni" in module for module in modules(text))
    assert lint(text, name, tmp_path) == ""
    read_by_yosys(tmp_path, [text], name)
    if has_icarus():
        read_by_icarus(tmp_path, [text], name)


SECTIONS = {"ni": FULL, "other ni": OTHER, "stacked ni": STACKED}


@pytest.mark.parametrize(("block", "sections"), but([("ni", FULL), ("other ni", OTHER)], SECTIONS.items()))
def test_the_ports_of_the_module_are_those_of_the_specification(block, sections):
    (ports,) = (ports for name, ports in modules(exported(block)).items() if name.endswith("lethe_ni"))
    assert ports == ni_ports(System.make(**sections))


@pytest.mark.push
def test_services_are_in_the_module_of_their_ni(tmp_path):
    """Its ports are those of the top; what is left out leaves nothing loose, and other tools read it."""
    text, plain = exported("bare stacked ni"), modules(exported("bare ni"))["a_lethe_ni"]
    ports = modules(text)["e_lethe_ni"]
    streams = {
        f"{name}_{field}"
        for name, record in (("deliver_loop", "deliver"), ("deliver_loop_data", "beat"))
        for field in ("valid", "ready", *dict(records(System.make(**STACKED))[record]))
    }
    assert set(ports) - set(plain) == {"service_reset", *streams} and not set(plain) - set(ports)
    assert [ports[name] - plain[name] for name in ("completion_slot", "accepted_slot", "cancel_slot")] == [2, 2, 2]
    assert lint(text, "e_lethe_ni", tmp_path) == ""
    read_by_yosys(tmp_path, [text], "e_lethe_ni")
    if has_icarus():
        read_by_icarus(tmp_path, [text], "e_lethe_ni")


def test_headers_know_the_services():
    system, plain = System.make(**STACKED), System.make(**FULL)
    found = macros(header.c_header(system))
    assert found == macros(header.verilog_header(system))
    for port, bits in ni_ports(system).items():
        assert found[f"LETHE_{port.upper()}_BITS"] == bits
    assert {c.name: found[f"LETHE_LOOP_COUNTER_{c.name}"] for c in LoopCounter} == {
        c.name: c.value for c in LoopCounter
    }
    assert found["LETHE_LOOP_COUNTER_BASE"] == system.counter_step == 64
    assert found["LETHE_SERVICE_COUNTER_BASE"] == 2 * system.counter_step
    assert (found["LETHE_SLOTS"], found["LETHE_HOST_SLOTS"], found["LETHE_SERVICES"]) == (2, 5, 1)
    assert found["LETHE_COUNTER_ADDRESS_BITS"] == (64 + 16 - 1).bit_length()
    assert not any("SERVICE" in name for name in macros(header.c_header(plain)))


def macros(text: str) -> dict[str, int]:
    found = re.findall(r"^[`#]define (\w+) (\d+)$", text, re.MULTILINE)
    assert len(found) == len({name for name, _ in found})
    return {name: int(value) for name, value in found}


def test_the_headers_say_what_the_specification_says():
    system = System.make(**OTHER)
    found = macros(header.c_header(system, prefix="b_"))
    assert found == macros(header.verilog_header(system, prefix="b_"))
    for name, codes in (
        ("MODE", Mode), ("STATUS", Status), ("CAUSE", Cause), ("KIND", Kind), ("EVENT", Event), ("DROP", Drop),
        ("COUNTER", system.counters), ("ROUTER_COUNTER", RouterCounter),
    ):  # fmt: skip
        assert {code.name: found[f"B_LETHE_{name}_{code.name}"] for code in codes} == {c.name: c.value for c in codes}
    for port, bits in ni_ports(system).items():
        assert found[f"B_LETHE_{port.upper()}_BITS"] == bits
    assert found["B_LETHE_WIRE_BITS"] == system.format.send_bits
    for field in system.format.send:
        name = f"B_LETHE_WIRE_{field.name.upper()}"
        assert (found[f"{name}_SHIFT"], found[f"{name}_BITS"]) == (field.offset, field.width)
    assert found["B_LETHE_NODES"] == 3 and found["B_LETHE_ROUTER_COUNTER_BASE"] == 96


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_c_takes_two_headers_twice(tmp_path):
    wanted, program = {}, ["#include <stdio.h>", *2 * ['#include "a.h"', '#include "b.h"'], "int main(void) {"]
    for prefix, sections in (("a", FULL), ("b", OTHER)):
        system = System.make(**sections)
        (tmp_path / f"{prefix}.h").write_text(header.c_header(system, prefix=f"{prefix}_"))
        for _, values in header.constants(system):
            wanted |= {f"{prefix}_lethe_{name}".upper(): value for name, value in values.items()}
    program += [f'    printf("{name} %lu\\n", (unsigned long)({name}));' for name in wanted]
    (tmp_path / "main.c").write_text("\n".join([*program, "    return 0;", "}", ""]))
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "main.c", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert {name: int(value) for name, value in map(str.split, said.splitlines())} == wanted
    assert wanted["A_LETHE_SEND_DATA_PAYLOAD_BITS"] == 64 and wanted["B_LETHE_SEND_DATA_PAYLOAD_BITS"] == 32


#: Cycles in which nothing may come any more.
LATE = 100


def exchange(top, host, nodes: int) -> None:
    """Every node sends its own number to the next through the host members ``host(n)``; each arrives, once."""
    got: dict[int, list[tuple[int, int]]] = {}

    ends = 0

    async def play(ctx, node: int):
        nonlocal ends
        port = host(node)
        ctx.set(port.completion.ready, 1)
        await ctx.tick().until(port.ready)
        ctx.set(port.send.payload, {"destination": (node + 1) % nodes, "length": 1, "tag": node})
        ctx.set(port.send.valid, 1)
        await ctx.tick().until(port.send.ready)
        ctx.set(port.send.valid, 0)
        ctx.set(port.send_data.payload, 65 + node)
        ctx.set(port.send_data.valid, 1)
        await ctx.tick().until(port.send_data.ready)
        ctx.set(port.send_data.valid, 0)
        (ended,) = await ctx.tick().sample(port.completion.payload).until(port.completion.valid)
        assert (ended["tag"], ended["status"]) == (node, Status.ACCEPTED)
        ends += 1

    async def take(ctx, node: int):
        port, found, late = host(node), got.setdefault(node, []), LATE
        ctx.set(port.deliver.ready, 1)
        ctx.set(port.deliver_data.ready, 1)
        while ends < nodes or late > 0:
            late -= ends == nodes
            _, _, record, there, beat, beating = await ctx.tick().sample(
                port.deliver.payload.source, port.deliver.valid, port.deliver_data.payload.data, port.deliver_data.valid
            )
            if there:
                found.append((record, -1))
            if beating:
                found.append((-1, beat & 0xFF))

    simulator = Simulator(top)
    simulator.add_clock(1e-8)
    for node in range(nodes):
        simulator.add_testbench(partial(play, node=node))
        simulator.add_testbench(partial(take, node=node))
    simulator.run()
    assert got == {n: [((n - 1) % nodes, -1), (-1, 65 + (n - 1) % nodes)] for n in range(nodes)}


#: Loses worms, and the deadline of none of them passes.
LOSSY = {**OTHER, "topology": {"kind": "crossbar", "nodes": 2}, "faults": {"loss": 0.2}}


@pytest.mark.push
def test_hosts_of_ones_own_play_with_a_system():
    top = SystemTop(System.make(**LOSSY), "ports", watch=False)
    exchange(top, lambda node: top.host[node], 2)


class Around(wiring.Component):
    """A fabric alone, and NIs around it."""

    def __init__(self, system: System):
        self.fabric = FabricTop(system)
        self.nis = [Ni(system, watch=False, dump=False) for _ in range(system.nodes)]
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.fabric = fabric = self.fabric
        for node, ni in enumerate(self.nis):
            m.submodules[f"ni{node}"] = ni
            m.d.comb += [
                Value.cast(fabric.link_i[node]).eq(Value.cast(ni.link_o)),
                Value.cast(ni.link_i).eq(Value.cast(fabric.link_o[node])),
                ni.node.eq(node),
                ni.seed.eq(node + 1),
                ni.incarnation.eq(1),
                ni.link_enable.eq(1),
            ]
        return m


@pytest.mark.push
def test_nis_of_ones_own_play_on_a_fabric():
    top = Around(System.make(**LOSSY))
    exchange(top, lambda node: top.nis[node].host, 2)


def test_hosts_of_ones_own_stall_by_themselves():
    stalls = {"stalls": [{"node": 0, "start": 1, "end": 9}]}
    with pytest.raises(ValueError, match=r"faults\.stalls must be empty"):
        SystemTop(System.make(**OTHER, faults=stalls), "ports")

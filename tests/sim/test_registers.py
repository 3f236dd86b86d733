"""What `lethe verilog --registers` writes: every tool's view of the map is the map."""

import itertools
import subprocess
import sys

import pytest
from amaranth.sim import Simulator

from lethe.bus.registers import Registers
from lethe.spec.config import System, load
from lethe.spec.registers import Access, RegisterMap
from lethe_sim.cli import main
from lethe_sim.driver.register_file import RegisterFile
from lethe_sim.registers import write
from tests.helpers.lite_master import LiteMaster

#: With services, control slots and a map that is not the smallest.
TOML = (
    '[topology]\nkind = "wire"\n[loop]\nslots = 3\n[ni]\nslots = 5\ncontrol_slots = 2\ncontrol_classes = 1\nways = 2\n'
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """(directory, system) of registers with the prefix a_."""
    place = tmp_path_factory.mktemp("registers")
    (place / "ni.toml").write_text(TOML)
    command = [
        "verilog",
        str(place / "ni.toml"),
        "--block",
        "ni",
        "--bus",
        "axi",
        "--name",
        "a_",
        "-o",
        str(place / "ni.v"),
    ]
    assert main([*command, "--registers", str(place / "out")]) == 0
    return place / "out", load(place / "ni.toml", hosted=False)


def registers_of(system: System):
    found = RegisterMap(system)
    return (*found.registers, *found.counters)


def test_the_systemrdl_says_what_the_map_says(written):
    """Every register at its address, every field with its bits, its access and its value after a reset."""
    from systemrdl import RDLCompiler

    directory, system = written
    compiler = RDLCompiler()
    compiler.compile_file(str(directory / "a_lethe_ni.rdl"))
    top = compiler.elaborate().top
    assert top.inst_name == "a_lethe_ni"
    found = {register.inst_name: register for register in top.registers()}
    assert list(found) == [register.name for register in registers_of(system)]
    for register in registers_of(system):
        node = found[register.name]
        assert node.absolute_address == register.address and node.get_property("regwidth") == 32
        fields = {field.inst_name: field for field in node.fields()}
        assert set(fields) == {field.name for field in register.fields}
        for field in register.fields:
            told = fields[field.name]
            assert (told.low, told.width) == (field.shift, field.bits), f"{register.name}.{field.name}"
            assert told.get_property("reset") == field.reset
            assert told.is_sw_writable == (field.access in (Access.WRITE, Access.CLEAR, Access.COMMAND))
            assert told.is_sw_readable == (field.access is not Access.COMMAND)


def test_the_rtl_has_the_addresses_and_resets_of_the_systemrdl(written):
    """Read over the bus after a reset, at the addresses that the compiled SystemRDL says, and nowhere else."""
    from systemrdl import RDLCompiler

    directory, system = written
    compiler = RDLCompiler()
    compiler.compile_file(str(directory / "a_lethe_ni.rdl"))
    told = {register.absolute_address: register for register in compiler.elaborate().top.registers()}
    dut = Registers(system)
    master = LiteMaster(dut.bus)

    async def testbench(ctx):
        for address in range(0, 1 << len(dut.bus.araddr), 4):
            word, good = await master.read(ctx, address)
            assert good == (address in told and told[address].has_sw_readable), hex(address)
            for field in told[address].fields() if good else ():
                if field.get_property("reset") is not None:
                    got = word >> field.low & (1 << field.width) - 1
                    assert got == field.get_property("reset"), field.get_path()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize(
    ("language", "standard"), [("c", "c99"), ("c", "c11"), ("c", "c17"), ("c++", "c++11"), ("c++", "c++17")]
)
def test_the_c_header_compiles_and_has_the_offsets_and_resets(written, tmp_path, language, standard):
    """Without a warning.  The compiler, the one that every simulation needs, refuses an array of -1 elements."""
    directory, system = written
    checks = itertools.count()

    def check(condition: str) -> str:
        return f"typedef char check{next(checks)}[({condition}) ? 1 : -1];"

    lines = ["#include <stddef.h>", '#include "a_lethe_ni_registers.h"']
    last = max(register.address for register in registers_of(system))
    lines.append(check(f"sizeof(a_lethe_ni_t) == {last + 4}"))
    for register in registers_of(system):
        lines.append(check(f"offsetof(a_lethe_ni_t, {register.name}) == {register.address}"))
        for field in register.fields:
            name = f"A_LETHE_NI__{register.name}__{field.name}"
            lines.append(check(f"{name}_bp == {field.shift} && {name}_bm == {field.mask}u"))
            if field.reset is not None:
                lines.append(check(f"{name}_reset == {field.reset}u"))
    (tmp_path / "use.c").write_text("\n".join([*lines, "int main(void) { return 0; }", ""]))
    compiler = ["c++", f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror", "-x", language]
    done = subprocess.run(
        [*compiler, "-I", str(directory), "-c", str(tmp_path / "use.c"), "-o", str(tmp_path / "use.o")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (tmp_path / "use.c").write_text("\n".join([*lines, check("A_LETHE_NI__CONTROL__QUIESCE_bp == 0"), ""]))
    assert subprocess.run(
        [*compiler, "-I", str(directory), "-c", str(tmp_path / "use.c"), "-o", str(tmp_path / "use.o")],
        capture_output=True, check=False,
    ).returncode  # fmt: skip


def test_the_python_package_reads_and_writes_fields(written, monkeypatch):
    directory, system = written
    monkeypatch.syspath_prepend(str(directory))
    for name in [name for name in sys.modules if name.partition(".")[0] == "a_lethe_ni"]:
        monkeypatch.delitem(sys.modules, name)
    from a_lethe_ni.reg_model import RegModel
    from peakrdl_python.lib import NormalCallbackSet

    model = RegisterFile(system, 1)

    def read(addr, **_):
        word, good = model.read(addr)
        assert good, hex(addr)
        return word

    def write(addr, *, data, **_):
        assert model.write(addr, data), hex(addr)

    ni = RegModel(callbacks=NormalCallbackSet(read_callback=read, write_callback=write))
    for register in registers_of(system):
        assert getattr(ni, register.name).address == register.address
    assert ni.SIZES.SLOTS.read() == 8 and ni.NODE.NODE.read() == 1
    ni.CONTROL.QUIESCE.write(1)
    assert model.quiesce and model.link_enable and ni.CONTROL.QUIESCE.read() == 1


def test_the_page_has_every_register(written):
    directory, system = written
    assert "<html" in (directory / "html" / "index.html").read_text()
    told = "".join(path.read_text() for path in sorted((directory / "html").rglob("*.html")))
    told += "".join(path.read_text() for path in sorted((directory / "html").glob("data/*.js*")))
    for register in registers_of(system):
        assert register.name in told, register.name


def test_it_is_written_again_but_never_over_something_else(tmp_path, capsys):
    (tmp_path / "ni.toml").write_text('[topology]\nkind = "wire"\n')
    command = [
        "verilog",
        str(tmp_path / "ni.toml"),
        "--block",
        "ni",
        "--bus",
        "axi",
        "-o",
        str(tmp_path / "ni.v"),
        "--registers",
    ]
    out = tmp_path / "out"
    for dump in (True, False):
        write(RegisterMap(load(tmp_path / "ni.toml"), dump=dump), out)
        assert ("DUMPED" in (out / "lethe_ni.rdl").read_text()) == dump
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    assert main([*command, str(tmp_path / "mine")]) == 2
    assert "is a directory of something else, not registers of Lethe; name another" in capsys.readouterr().err
    assert main([*command[:2], "--registers", str(out)]) == 2
    assert (
        "--registers: only an NI on AXI has registers; leave it out, or give --block ni --bus axi"
        in capsys.readouterr().err
    )
    (tmp_path / "ni.toml").write_text('[topology]\nkind = "wire"\n[ni]\nslots = 5000\n')
    assert main([*command, str(tmp_path / "other")]) == 2
    assert "ni.slots: on a bus an NI has at most 4096 slots" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_missing_tool_is_named_with_its_cure(tmp_path, monkeypatch, capsys):
    (tmp_path / "ni.toml").write_text('[topology]\nkind = "wire"\n')
    monkeypatch.setitem(sys.modules, "peakrdl_html", None)
    command = ["verilog", str(tmp_path / "ni.toml"), "--block", "ni", "--bus", "axi", "-o", str(tmp_path / "ni.v")]
    assert main([*command, "--registers", str(tmp_path / "out")]) == 3
    assert "needs peakrdl_html, which is not installed; pip install 'lethe[registers]'" in capsys.readouterr().err
    assert not (tmp_path / "ni.v").exists()

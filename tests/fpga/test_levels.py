"""Where the logic of a block is deep, by the cells of its netlist."""

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from lethe.lib.memory import Ram
from lethe_fpga import area, levels
from lethe_fpga.area import BLOCKS, Block
from lethe_fpga.levels import longest


class Inner(wiring.Component):
    """Registers behind none, one and three levels of LUTs, a carry chain, and the read of a small RAM."""

    i: In(64)
    o: Out(12)

    def elaborate(self, platform):
        m = Module()
        names = {"kept": 1, "four": 1, "all_of": 1, "total": 12, "read": 12}
        kept, four, all_of, total, read = (Signal(width, name=name) for name, width in names.items())
        m.submodules.words = words = Memory(shape=12, depth=16, init=[])
        write, at = words.write_port(), words.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(self.i[0]), write.addr.eq(self.i[1:5]), write.data.eq(self.i[5:17]), at.addr.eq(self.i[17:21]),
            self.o.eq(kept ^ four ^ all_of ^ total ^ read),
        ]  # fmt: skip
        m.d.sync += [
            kept.eq(self.i[0]), four.eq(self.i[:4].any()), all_of.eq(self.i.all()),
            total.eq(self.i[:12] + self.i[12:24]), read.eq(at.data),
        ]  # fmt: skip
        return m


class Deep(wiring.Component):
    """`Inner` in a block."""

    i: In(64)
    o: Out(12)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Inner()
        m.d.comb += [inner.i.eq(self.i), self.o.eq(inner.o)]
        return m


BLOCK = Block(make=Deep, registered=("i",))


@pytest.fixture(scope="module")
def found():
    return longest(*BLOCK.netlist())


@pytest.fixture(scope="module")
def command(script):
    return script("levels")


def ends(found, name: str, port: str = "DI"):
    return [ends for ends in found if (ends.name, ends.port) == (name, port)]


@pytest.mark.parametrize(
    ("name", "count", "deep"),
    [("inner.kept", 1, 0), ("inner.four", 1, 1), ("inner.all_of", 1, 3), ("inner.read", 12, 1)],
)
def test_levels_are_those_of_the_source(found, name, count, deep):
    (group,) = ends(found, name)
    assert (group.count, group.levels) == (count, deep)
    each = levels.NET + levels.LUT
    assert group.ns == pytest.approx(levels.FLIP_FLOP + deep * each + levels.NET + levels.SETUP)


def test_a_carry_chain_is_one_level_and_longer_with_each_cell(found):
    (group,) = ends(found, "inner.total")
    assert (group.count, group.levels) == (12, 1)
    shortest = levels.FLIP_FLOP + levels.NET + levels.CHAIN + levels.NET + levels.SETUP
    assert group.ns == pytest.approx(shortest + 5 * levels.CARRY, abs=2 * levels.CARRY)


def test_what_is_reached_last_comes_first_and_is_found_from_its_start(found):
    assert [group.ns for group in found] == sorted((group.ns for group in found), reverse=True)
    assert found[0].name == "inner.all_of" and found[0].start == "i"
    (written,) = ends(found, "inner.words", "WRE")
    assert written.levels == 0, "the address of a read is no end"
    assert not ends(found, "inner.words", "RAD")


def test_what_comes_from_no_register_is_no_path_but_what_a_small_ram_holds():
    """Of a block whose inputs are left out."""
    (read,) = longest(*Block(make=Deep).netlist())
    assert (read.name, read.levels, read.ns) == ("inner.read", 0, 0.9)


class Kept(wiring.Component):
    """A register behind a block RAM, which has an output register or not."""

    i: In(32)
    o: Out(36)

    def __init__(self, registered: bool):
        self._registered = registered
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        address, data = self.i[:9], Cat(self.i, self.i[:4])
        if self._registered:
            m.submodules.words = words = Ram(36, 512)
            m.d.comb += [words.write_en.eq(1), words.write_addr.eq(address), words.write_data.eq(data)]
            m.d.comb += words.read_addr.eq(address)
            read = words.read_data
        else:
            m.submodules.words = words = Memory(shape=36, depth=512, init=[])
            write, port = words.write_port(), words.read_port()
            m.d.comb += [
                write.en.eq(1),
                write.addr.eq(address),
                write.data.eq(data),
                port.addr.eq(address),
                port.en.eq(1),
            ]
            read = port.data
        m.d.sync += self.o.eq(read)
        return m


@pytest.mark.parametrize(("registered", "leaves"), [(True, levels.RAM), (False, levels.SLOW_RAM)])
def test_a_block_ram_is_slow_without_its_output_register(registered, leaves):
    found = longest(*Block(make=lambda: Kept(registered), registered=("i",)).netlist())
    (group,) = ends(found, "o")
    assert group.count == 36 and group.levels <= 1, "a LUT, if reads beside a write have to be emulated"
    expected = leaves + group.levels * (levels.NET + levels.LUT) + levels.NET + levels.SETUP
    assert group.ns == pytest.approx(expected)


def test_the_command_prints_the_longest_and_counts_the_others(command, monkeypatch, capsys):
    monkeypatch.setitem(BLOCKS, "deep", BLOCK)
    assert command.main(["deep", "--rows", "1"]) == 0
    head, first, rest = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["ns", "levels", "ends"]
    assert first.split() == ["2.52", "3", "1", "inner.all_of.DI,", "from", "i"]
    assert rest.startswith("and ") and rest.endswith(" ns or before")


def test_what_the_command_cannot_do_is_said_in_a_line(command, monkeypatch, capsys):
    refused = {
        ("none",): "no such block 'none'; known are NI, tiny; ",
        ("flow", "--rows", "0"): "argument --rows: must be at least 1",
    }
    for arguments, told in refused.items():
        with pytest.raises(SystemExit) as left:
            command.main(list(arguments))
        assert left.value.code == 2 and f"levels: error: {told}" in capsys.readouterr().err

    def fails(*_):
        raise area.verilog.VerilogError("Yosys failed: no more room")

    monkeypatch.setattr(area.verilog, "run_yosys", fails)
    monkeypatch.setitem(BLOCKS, "deep", BLOCK)
    assert command.main(["deep"]) == 3
    assert capsys.readouterr().err == "levels: deep: Yosys failed: no more room\n"

"""The memory with an output register: what it reads when, as RTL and as the cells of an ECP5."""

# A component's members come from its signature when it is made, where no type checker sees them.
# pyright: reportAttributeAccessIssue=false

import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.sim import Simulator

from lethe import verilog
from lethe.lib.memory import LUT_DEPTH, Ram
from lethe_sim.lockstep.simulators import has_icarus
from tests.fpga import gates

#: Depths and widths of memories that are made of LUTs.
LUTS = [(16, 41), (LUT_DEPTH, 12), (6, 9)]
#: A depth of each width that a block has, and a width that leaves bits of the last block over.
BLOCKS = {36: (LUT_DEPTH + 1, 50), 18: (600, 20), 9: (2048, 9), 4: (3000, 6), 2: (8192, 3), 1: (8193, 2)}


@pytest.mark.parametrize(
    "depth, early, late",
    [
        (1, False, False), (2, False, False), (5, True, False), (16, False, False), (LUT_DEPTH, True, False),
        (33, False, False), (33, True, False), (1, False, True), (5, False, True), (LUT_DEPTH, True, True),
    ],
)  # fmt: skip
def test_reads_are_two_cycles_late_and_see_the_writes_of_earlier_cycles(depth, early, late):
    """Where words are shown early, so they are a cycle before; where they are written late, those of that cycle too."""
    ram, draw = Ram(8, depth, early=early, late=late), random.Random(depth)

    async def process(ctx):
        words, pipeline = [0] * depth, [0, 0]
        for _ in range(600):
            address, writes, value, read = draw.randrange(depth), draw.random() < 0.5, draw.getrandbits(8), 0
            read = draw.choice([address, draw.randrange(depth)])
            ctx.set(ram.write_en, writes)
            ctx.set(ram.write_addr, address)
            ctx.set(ram.write_data, value)
            ctx.set(ram.read_addr, read)
            assert ctx.get(ram.read_data) == pipeline.pop(0)
            assert not early or ctx.get(ram.read_early) == pipeline[0]
            before = words[read]
            if writes:
                words[address] = value
            pipeline.append(words[read] if late else before)
            await ctx.tick()

    simulator = Simulator(ram)
    simulator.add_clock(1e-6)
    simulator.add_testbench(process)
    simulator.run()


_BENCH = """
module bench;
    reg clk = 0, write_en = 0;
    reg [{address}:0] write_addr = 0, read_addr = 0;
    reg [{data}:0] write_data = 0;
    wire [{data}:0] plain_data, cells_data;
    plain plain(clk, write_en, write_addr, write_data, read_addr, plain_data);
    cells cells(clk, write_en, write_addr, write_data, read_addr, cells_data);
    integer cycle, differs = 0, seen = 0, few;
    initial begin
        for (cycle = 0; cycle < 4000; cycle = cycle + 1) begin
            // Often one of few words, so that what is read was written.
            few = cycle / 200 * 37;
            write_en = $random;
            write_data = {{$random, $random}};
            write_addr = (few + {{$random}} % 8) % {depth};
            read_addr = (few + {{$random}} % 8) % {depth};
            if (write_en && read_addr == write_addr) read_addr = ({{$random}} % {depth} + 1 + write_addr) % {depth};
            if (write_en && read_addr == write_addr) write_en = 0;
            #1 clk = 1;
            #1 clk = 0;
            if (cycle > 1 && plain_data !== cells_data) differs = differs + 1;
            if (plain_data != 0) seen = seen + 1;
        end
        $display("differs %0d seen %0d", differs, seen);
        $finish;
    end
endmodule
"""


class Beside(wiring.Component):
    """Words of a memory, or what stands beside them, as a memory; the other is written in all other cycles."""

    def __init__(self, bits: int, depth: int, aside: bool):
        self._aside, self._ram = aside, Ram(10 if aside else bits, depth, beside=bits if aside else 10)
        super().__init__(dict(Ram(bits, depth).signature.members))

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = self._ram
        own, other = (ram.beside_en, ram.write_en) if self._aside else (ram.write_en, ram.beside_en)
        m.d.comb += [
            own.eq(self.write_en),
            other.eq(~self.write_en),
            ram.write_addr.eq(self.write_addr),
            ram.beside_data.eq(self.write_data),
            ram.write_data.eq(self.write_data),
            ram.read_addr.eq(self.read_addr),
            self.read_data.eq(ram.beside if self._aside else ram.read_data),
        ]
        return m


class Late(wiring.Component):
    """A memory that is written late, behind a register: as one that is not."""

    def __init__(self, bits: int, depth: int):
        self._ram = Ram(bits, depth, late=True)
        super().__init__(dict(self._ram.signature.members))

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = self._ram
        for name in ("write_en", "write_addr", "write_data"):
            given = getattr(self, name)
            before = Signal.like(given, reset_less=True)
            m.d.sync += before.eq(given)
            m.d.comb += getattr(ram, name).eq(before)
        m.d.comb += [ram.read_addr.eq(self.read_addr), self.read_data.eq(ram.read_data)]
        return m


class Early(wiring.Component):
    """A memory that shows its words early only, with a register behind it: together a plain one."""

    def __init__(self, bits: int, depth: int):
        self._ram = Ram(bits, depth, early=True, registered=False)
        super().__init__(dict(Ram(bits, depth).signature.members))

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = self._ram
        given = ("write_en", "write_addr", "write_data", "read_addr")
        m.d.comb += [getattr(ram, name).eq(getattr(self, name)) for name in given]
        shown = Signal.like(self.read_data, reset_less=True)
        m.d.sync += shown.eq(ram.read_early)
        m.d.comb += self.read_data.eq(shown)
        return m


def beside_the_plain_one(
    depth: int, bits: int, device: str, cells: str, directory: Path, make: Callable[..., wiring.Component] = Ram
) -> str:
    """Simulates a memory for ``device`` beside a plain one, with what ``cells`` say; returns the former's Verilog."""
    ports = "clk, write_en, write_addr, write_data, read_addr, read_data"
    texts = []
    for name, made_for in (("plain", ""), ("cells", device)):
        text = verilog.emit(make(bits, depth) if made_for else Ram(bits, depth), name, device=made_for)
        texts.append(re.sub(rf"module {name}\(.*?\)", f"module {name}({ports})", text, count=1))
    (directory / "in.v").write_text("\n".join([*texts, cells]), encoding="utf-8")
    bench = _BENCH.format(depth=depth, address=(depth - 1).bit_length() - 1, data=bits - 1)
    (directory / "bench.v").write_text(bench, encoding="utf-8")
    subprocess.run(["iverilog", "-g2005", "-s", "bench", "-o", "bench", "in.v", "bench.v"], cwd=directory, check=True)
    done = subprocess.run(["vvp", "-n", "bench"], cwd=directory, capture_output=True, text=True, check=True)
    word, differs, _, seen = done.stdout.split()
    assert (word, differs) == ("differs", "0") and int(seen) > 1000, done.stdout
    return texts[1]


@pytest.mark.skipif(not has_icarus(), reason="Icarus Verilog is not installed")
@pytest.mark.parametrize(
    ("depth", "bits", "width"), [*((*BLOCKS[width], width) for width in BLOCKS), *((*size, 0) for size in LUTS)]
)
def test_an_ecp5s_memory_reads_what_the_plain_memory_reads(depth, bits, width, tmp_path):
    """Where no word is read while it is written: blocks of every width, with a last one that is not full, and LUTs."""
    text = beside_the_plain_one(depth, bits, "LFE5U-25F", gates.cells(), tmp_path)
    assert text.count("DP16KD ") == (-(-bits // width) if width else 0)
    assert not width or f".DATA_WIDTH_B(32'd{width})" in text


@pytest.mark.skipif(not has_icarus(), reason="Icarus Verilog is not installed")
@pytest.mark.parametrize(("device", "cells"), [("LFE5U-25F", gates.cells), ("iCE40UP5K", gates.ice40_ram)])
def test_what_is_written_late_is_read_as_soon(device, cells, tmp_path):
    """Wherever it is made, no block is: those read the word before."""
    text = beside_the_plain_one(16, 26, device, cells(), tmp_path, Late)
    assert "SB_RAM40_4K " not in text and "DP16KD " not in text


@pytest.mark.skipif(not has_icarus(), reason="Icarus Verilog is not installed")
@pytest.mark.parametrize(
    ("device", "cells", "block"),
    [("LFE5U-25F", gates.cells, "DP16KD "), ("iCE40UP5K", gates.ice40_ram, "SB_RAM40_4K ")],
)
def test_what_is_shown_early_is_what_is_shown_a_cycle_later(device, cells, block, tmp_path):
    """Also where the memory is made of blocks, which have no register of their own then."""
    text = beside_the_plain_one(200, 26, device, cells(), tmp_path, Early)
    assert block in text and "OUTREG" not in text


@pytest.mark.skipif(not has_icarus(), reason="Icarus Verilog is not installed")
@pytest.mark.parametrize(("depth", "bits", "whole", "parts"), [(1536, 64, 8, 6), (1100, 20, 3, 3), (2048, 18, 2, 2)])
def test_a_memory_is_split_where_that_takes_fewer_blocks(depth, bits, whole, parts, tmp_path):
    for split, blocks in ((False, whole), (True, parts)):

        def make(bits, depth, split=split):
            return Ram(bits, depth, split=split)

        text = beside_the_plain_one(depth, bits, "LFE5U-25F", gates.cells(), tmp_path, make)
        assert text.count("DP16KD ") == blocks


@pytest.mark.skipif(not has_icarus(), reason="Icarus Verilog is not installed")
@pytest.mark.parametrize("aside", [False, True])
@pytest.mark.parametrize(("depth", "bits"), [(512, 16), (600, 9), (2048, 9), (16, 5)])
def test_what_stands_beside_a_word_is_written_by_itself(depth, bits, aside, tmp_path):
    def make(bits, depth):
        return Beside(bits, depth, aside)

    text = beside_the_plain_one(depth, bits, "LFE5U-25F", gates.cells(), tmp_path, make)
    # Blocks that nobody reads vanish.
    assert text.count("DP16KD ") == (depth > LUT_DEPTH)


@pytest.mark.skipif(not has_icarus(), reason="Icarus Verilog is not installed")
@pytest.mark.parametrize(("depth", "bits", "blocks"), [(4, 26, 2), (256, 16, 1), (257, 16, 0), (4, 15, 0)])
def test_an_ice40s_memory_reads_what_the_plain_memory_reads(depth, bits, blocks, tmp_path):
    """As above: blocks where they are worth it, not with too few bits, and not with too many words."""
    text = beside_the_plain_one(depth, bits, "iCE40UP5K", gates.ice40_ram(), tmp_path)
    assert text.count("SB_RAM40_4K ") == blocks


def test_synthesis_keeps_the_output_registers_and_makes_the_small_ones_of_luts(tmp_path):
    """Also below other modules, whose platform is handed down."""
    for depth, cell in ((LUT_DEPTH, "TRELLIS_DPR16X4"), (LUT_DEPTH + 1, "DP16KD")):
        (tmp_path / "in.v").write_text(verilog.emit(Ram(8, depth), "top", device="LFE5U-25F"), encoding="utf-8")
        verilog.run_yosys(tmp_path, "read_verilog in.v; synth_ecp5 -top top; write_verilog -noattr out.v")
        netlist = (tmp_path / "out.v").read_text()
        assert f"{cell} " in netlist
        assert ('.REGMODE_B("OUTREG")' in netlist) == (cell == "DP16KD")
        assert ("TRELLIS_FF " in netlist) != (cell == "DP16KD"), "the register is in the block"


def test_depth_is_checked():
    with pytest.raises(ValueError, match="depth must be at least 1, not 0"):
        Ram(8, 0)
    with pytest.raises(ValueError, match="a memory shows its words early, or from a register, or both"):
        Ram(8, 5, registered=False)
    with pytest.raises(ValueError, match="shown early are not split"):
        Ram(8, 5, early=True, split=True)
    with pytest.raises(ValueError, match=f"at most {LUT_DEPTH} where words are written late, not {LUT_DEPTH + 1}"):
        Ram(8, LUT_DEPTH + 1, late=True)
    with pytest.raises(ValueError, match="neither early, nor late, nor split"):
        Ram(8, 5, beside=1, split=True)

"""What NIs, routers and services take on an ECP5: a recorded budget, and how it is held and rewritten.

`scripts/budget` rewrites `budget.json`.
"""

import json
import subprocess
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe_fpga import area
from lethe_fpga.area import BLOCKS, BUDGETED, grown, size
from lethe_fpga.build import BuildError
from lethe_fpga.families import ECP5

BUDGET = json.loads(Path(__file__).with_name("budget.json").read_text())
#: Those of the default tier; the others take three times as long.  What grows with slots shows in the larger NI, what
#: counts in the router of the mesh.
QUICK = ("NI, medium", "mesh router, 32 bit", "tree router, small")


@pytest.mark.push
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in BLOCKS]
)
def test_a_block_stays_within_its_budget(name):
    assert grown(name, BLOCKS[name].size().cells, BUDGET) == []


def test_every_block_has_a_budget_and_every_budget_a_block():
    assert list(BUDGET) == list(BLOCKS)
    assert all(set(cells) == set(BUDGETED) for cells in BUDGET.values())


def test_growth_beyond_three_percent_is_told_with_its_cure():
    budget = {"a": {"LUT4": 1000, "FF": 200}}
    assert grown("a", {"LUT4": 1030, "FF": 206}, budget) == []
    assert grown("a", {"LUT4": 1, "FF": 1}, budget) == []
    (told,) = grown("a", {"LUT4": 1031, "FF": 206}, budget)
    assert told.startswith("a: 1,031 LUT4, and 1,000 are its budget (+3.1%); ") and "scripts/budget" in told
    (told,) = grown("a", {"LUT4": 1030, "FF": 207}, budget)
    assert told.startswith("a: 207 FF, and 200 are its budget (+3.5%); ")
    (told,) = grown("b", {"LUT4": 1, "FF": 1}, budget)
    assert told == "b: has no budget; `scripts/budget` records one"


class Inner(wiring.Component):
    """A register behind an inverter."""

    i: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        kept = Signal(8)
        m.d.sync += kept.eq(self.i)
        m.d.comb += self.o.eq(~kept)
        return m


class Outer(wiring.Component):
    """`Inner`, an adder in a register, and a register that only ``watch`` shows."""

    i: In(8)
    o: Out(8)
    watch: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Inner()
        unseen = Signal(8)
        m.d.comb += [inner.i.eq(self.i), self.watch.eq(unseen)]
        m.d.sync += [self.o.eq(inner.o + self.i), unseen.eq(unseen ^ self.i)]
        return m


def test_cells_are_counted_by_block_without_what_is_not_connected():
    """Eight flip-flops in the inner block, eight outside it; those of ``watch`` and of the inputs do not count."""
    found = size(Outer(), registered=("i",))
    assert found.cells["FF"] == 16 and found.parts["inner"]["FF"] == 8
    assert found.parts["top"]["FF"] == 16, "with the registers before the inputs"
    assert found.cells["LUT4"] + 2 * found.cells["CCU2C"] >= 8
    assert size(Outer(), without=(), registered=("i",)).cells["FF"] == 24
    assert found.mhz == 0 and found.paths == ()


@pytest.mark.push
def test_a_placed_block_has_a_clock_and_a_path_for_each_seed():
    found = size(Outer(), registered=("i",), seeds=2)
    assert len(found.clocks) == len(found.paths) == 2 and min(found.clocks) > 100
    assert min(found.clocks) <= found.mhz <= max(found.clocks) and found.comb >= 8
    for path, mhz in zip(found.paths, found.clocks, strict=True):
        assert path.logic + path.routing == pytest.approx(1000 / mhz, rel=0.01)
        assert set(path.blocks) <= {"inner", "top"}
    assert found.aimed == () and found.aimed_mhz == 0 and found.reached == found.mhz


@pytest.mark.push
def test_a_block_that_misses_its_clock_is_aimed_at_it(monkeypatch):
    """With the seeds that missed it, in their order; one that has its clock is not placed again."""
    given, run = [], area.subprocess.run
    monkeypatch.setattr(area.subprocess, "run", lambda command, **how: (given.append(command), run(command, **how))[1])
    missed, met = (size(Outer(), registered=("i",), seeds=3, aim=mhz) for mhz in (2000, 10))
    placed = [command for command in given if "--seed" in command]
    assert [("--freq 2000" in text, "--placer-heap-alpha" in text) for text in map(" ".join, placed)] == [
        *[(False, False)] * 3, *[(True, False)] * 3, *[(True, True)] * 3, *[(False, False)] * 3,
    ]  # fmt: skip
    assert met.aimed == met.stepped == () and met.clocks == missed.clocks
    for again, median in ((missed.aimed, missed.aimed_mhz), (missed.stepped, missed.stepped_mhz)):
        clocks = [min(found.values()) for found in again]
        assert len(clocks) == 3 and sorted(clocks)[1] == median > 0
    assert missed.reached == max(missed.mhz, missed.aimed_mhz, missed.stepped_mhz)


def test_logic_is_mapped_as_for_a_bitstream(monkeypatch):
    """By the script of ABC that is chosen before synthesis."""
    given, run = [], area.verilog.run_yosys
    monkeypatch.setattr(area.verilog, "run_yosys", lambda where, script: (given.append(script), run(where, script)))
    size(Outer())
    *_, script = given
    assert 0 < script.index(f"{ECP5.mapping}; ") < script.index("synth_ecp5")


def test_nextpnr_is_asked_for_the_clock_and_routes_anew(monkeypatch, tmp_path):
    """With a clock to aim at; without one nextpnr is asked for 100 MHz, and routes once."""
    asked = []

    def run(command, **_):
        asked.append(command)
        (tmp_path / "report1.json").write_text("{}")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(area.subprocess, "run", run)
    for aim in (0, 146):
        area._placed(tmp_path, "--25k", 1, aim)
    plain, aimed = (" ".join(command) for command in asked)
    assert "--freq 100 " in plain and "--tmg-ripup" not in plain
    assert "--freq 146 --tmg-ripup " in aimed


def test_a_router_that_does_not_end_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(area, "_NEXTPNR", "import time; time.sleep(60)")
    monkeypatch.setattr(area, "_PATIENCE", 0.3)
    with pytest.raises(BuildError, match=r"^nextpnr: seed 2 is not routed after 0.005 minutes$"):
        area._placed(tmp_path, "--25k", 2)


def test_the_budget_is_rewritten_by_one_command(script, monkeypatch, tmp_path, capsys):
    """Of one block: the others keep theirs, and one that is no more is dropped."""
    budget, path = script("budget"), tmp_path / "budget.json"
    names = list(BLOCKS)
    old = {"gone": {"LUT4": 1, "FF": 1}} | {name: {"LUT4": 10, "FF": 20} for name in names[:2]}
    path.write_text(json.dumps(old))
    monkeypatch.setitem(BLOCKS, names[1], area.Block(make=Outer, registered=("i",)))
    assert budget.main([names[1]], path) == 0
    found = json.loads(path.read_text())
    assert list(found) == names[:2] and found[names[0]] == {"LUT4": 10, "FF": 20}
    assert found[names[1]]["FF"] == 16
    assert "20 → 16 FF" in capsys.readouterr().out
    assert budget.main(["nothing"], path) == 2
    assert capsys.readouterr().err.startswith("budget: no such block 'nothing'; known are NI, tiny; ")

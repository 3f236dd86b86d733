"""Standard streams that are closed, full or of another encoding; messages that are one line whatever is in them."""

import os
import subprocess
import sys

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

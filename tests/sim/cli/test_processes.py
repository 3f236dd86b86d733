"""What a command starts dies with it: tools, compilers and the JVM, whatever ends the command."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from lethe import processes
from lethe.spec.config import System
from tests.helpers.golden_trace import write_golden
from tests.helpers.marked import running


def until(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def gone(mark: str, directory: Path) -> None:
    """Soon no process has ``mark``, and nothing is in ``directory``."""
    try:
        until(lambda: not running(mark) and not list(directory.iterdir()), 10)
    finally:
        for pid in running(mark):
            os.kill(pid, signal.SIGKILL)


#: Starts a tool as `lethe` does, whose own child has a process group of its own, as compilers and Spark's workers may.
TOOL = """
import sys
from lethe import processes
inner = "import os, time; os.setpgid(0, 0); print('up', flush=True); time.sleep(1000)"
processes.run(["sh", "-c", f'"{sys.executable}" -c "{inner}" & wait'])
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_tools_and_their_children_die_with_the_command(tmp_path, number):
    mark = str(uuid.uuid4())
    with subprocess.Popen(
        [sys.executable, "-c", TOOL], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"MARK": mark, "TMPDIR": str(tmp_path)},
    ) as command:  # fmt: skip
        assert command.stdout is not None and command.stdout.readline() == b"up\n"
        assert len(running(mark)) >= 4  # the command, the leash, the shell, its child
        command.send_signal(number)
        command.wait(60)
        gone(mark, tmp_path)


def test_a_tool_is_run_as_by_subprocess(tmp_path):
    done = processes.run(["sh", "-c", "echo out; echo err >&2; exit 7"], cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert processes.run(["sh", "-c", "kill -9 $$"]).returncode == 128 + signal.SIGKILL
    missing = processes.run(["/no/such/tool"], capture_output=True)
    assert (missing.returncode, missing.stderr) == (127, "/no/such/tool: No such file or directory\n")


def test_what_a_tool_leaves_behind_goes(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    began = time.monotonic()
    done = processes.run(["sh", "-c", 'sleep 1000 & touch "$TMPDIR/left"; echo "$TMPDIR"'], stdout=subprocess.PIPE)
    assert done.stdout.startswith(str(tmp_path)) and not list(tmp_path.iterdir())
    assert time.monotonic() - began < 60


def test_a_tool_that_takes_too_long_is_killed():
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run(["sh", "-c", "sleep 1000 & wait"], timeout=0.2)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("make: all\n%Error: a.v:3: syntax\nmake: *** Error 1\n", "%Error: a.v:3: syntax"),
        ("ERROR failed\nTraceback (most recent call last):\n  File\nOSError: no room\nend\n", "OSError: no room"),
        ("this\nand that\n", "and that"),
        ("\n", "it said nothing"),
    ],
)
def test_the_last_words_of_a_tool_are_one_line(said, line):
    assert processes.last_words(said) == line


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_jvm_that_is_just_starting_dies_with_the_command(tmp_path, number):
    """Between the start of the JVM and its first answer nobody but the leash knows of it."""
    trace, temporary, mark = tmp_path / "t.parquet", tmp_path / "tmp", str(uuid.uuid4())
    write_golden(trace, System.make(topology={"kind": "wire"}, workload={"count": 1}))
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "lethe_sim.cli", "report", str(trace)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"MARK": mark, "TMPDIR": str(temporary)},
    ) as command:  # fmt: skip
        until(lambda: any("SparkSubmit" in line and "java.io.tmpdir" in line for line in running(mark).values()))
        command.send_signal(number)
        command.wait(60)
        gone(mark, temporary)
        out, said = command.communicate(timeout=60)
    assert (out, said) == (b"", b"lethe: interrupted\n" if number == signal.SIGINT else b"")

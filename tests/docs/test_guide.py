"""docs/start/guide.md, done as it says: its files written, its commands run in the order of the page.

The quick form runs what needs neither Spark nor a build, in this process; the long one runs everything as written.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lethe_sim import cli
from tests.helpers import ROOT

#: What needs Spark, a compiler or Yosys; and `lethe compare`, whose traces the lockstep writes.
LONG = ("report", "sweep", "cosim", "compare", "verilog", "fpga")
#: What the audit says begins so.
AUDIT = ("every datagram", "  by_reset", "  latency in", "  goodput")
#: Not done again: installing, and a bitstream, which tests/fpga builds.
NEVER = ("python3 -m venv", "lethe fpga build", "openFPGALoader")


def blocks() -> list[tuple[str, str]]:
    """(language, text) of every block of the page but the installation's."""
    text = (ROOT / "docs" / "start" / "guide.md").read_text(encoding="utf-8")
    return [tuple(block) for block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)][1:]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A directory with the examples in it."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str) -> None:
    """A file that the page shows, under the name in its first line."""
    named = re.match(r"# (\S+\.toml)\n", text)
    assert named, f"the file has no name: {text}"
    Path(named[1]).write_text(text)


def timeless(text: str) -> str:
    """Without what a run took."""
    return re.sub(r" in [\d.]+ s \(.*?\)", "", text)


def commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(NEVER)]


def test_the_quick_commands(here, capsys):
    printed, ran = "", 0
    for kind, text in blocks():
        match kind:
            case "toml":
                write(text)
            case "python":
                exec(compile(text, "guide.md", "exec"), {})
            case "sh":
                for line in commands(text):
                    program, *words = shlex.split(line, comments=True)
                    if program != "lethe":
                        subprocess.run([program, *words], check=True, timeout=60)
                    elif words[0] not in LONG:
                        if words[0] == "run" and "--no-audit" not in words:
                            words.append("--no-audit")
                        assert cli.main(words) == cli.GOOD, line
                        ran += 1
                printed += timeless(capsys.readouterr().out)
            case "":
                for line in text.splitlines():
                    if not line.startswith(AUDIT):
                        assert line.strip() == "…" or timeless(line) in printed, line
    assert ran >= 14
    assert capsys.readouterr().err == ""


@pytest.mark.full
def test_every_command(here):
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    printed = ""
    for kind, text in blocks():
        match kind:
            case "toml":
                write(text)
            case "sh" | "python":
                program = ["bash", "-e"] if kind == "sh" else [sys.executable, "-"]
                text = "\n".join(commands(text)) if kind == "sh" else text
                done = subprocess.run(
                    program, input=text, env=environment, capture_output=True, text=True, timeout=1800, check=False
                )
                assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
                printed += timeless(done.stdout)
            case "":
                for line in text.splitlines():
                    assert line.strip() == "…" or timeless(line) in printed, line

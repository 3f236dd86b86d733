"""docs/start/tutorial.md, done as it says: its files written, its commands run, in the order of the page.

The quick form runs them in this process, without Spark, and measures for a shorter time; the long one runs everything
as written.
"""

import csv
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lethe_sim import cli
from lethe_sim.sweep import jobs
from tests.helpers import ROOT
from tests.helpers.sweeping import in_this_process

PAGE = ROOT / "docs" / "start" / "tutorial.md"


def blocks() -> list[tuple[str, str]]:
    text = PAGE.read_text(encoding="utf-8")
    return [tuple(block) for block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def write(text: str) -> None:
    """A file that the page shows, under the name in its first line."""
    name = re.match(r"# (\S+\.toml)\n", text)
    assert name, f"the file has no name: {text}"
    Path(name[1]).write_text(text)


def assert_shown(text: str, printed: str) -> None:
    """What the page says was printed, but for the time it took."""
    for line in text.splitlines():
        assert line.rpartition(", in ")[0] in printed or line in printed, line


def assert_published() -> None:
    """The picture and the numbers that come of it."""
    root = ElementTree.parse(Path("figures", "latency_p99.svg")).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    labels = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "workload.load" in labels and "faults.loss 0.05" in labels and "cycles" in labels
    with open("slow.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15 and {row["faults.loss"] for row in rows} == {"0.0", "0.02", "0.05"}
    by_loss = {row["faults.loss"]: float(row["mean"]) for row in rows if row["workload.load"] == "0.02"}
    assert by_loss["0.0"] < by_loss["0.02"] < by_loss["0.05"]
    with open(Path("figures", "latency_p99.csv")) as file:
        published = [float(row["mean"]) for row in csv.DictReader(file)]
    assert sorted(published) == sorted(float(row["mean"]) for row in rows)
    assert Path("load", "report.html").stat().st_size > 50_000


@pytest.mark.push
def test_from_a_toml_to_a_published_plot(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "_spark", in_this_process)
    printed = ""
    for kind, text in blocks():
        match kind:
            case "toml":
                write(text.replace("window = 4000 ", "window = 1000 "))
            case "python":
                exec(compile(text, str(PAGE), "exec"), {})
            case "sh":
                for line in text.splitlines():
                    program, *words = shlex.split(line)
                    if program == "lethe":
                        assert cli.main(words) == cli.GOOD, line
                    else:
                        subprocess.run([program, *words], check=True, timeout=60)
                printed = capsys.readouterr().out
            case _:
                assert_shown(text, printed)
    assert "window = 1000 " in Path("load.toml").read_text()
    assert_published()


@pytest.mark.full
def test_every_command_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The commands are those of this environment, whatever is on the path.
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    printed = ""
    for kind, text in blocks():
        match kind:
            case "toml":
                write(text)
            case "sh" | "python":
                command = ["bash", "-e"] if kind == "sh" else [sys.executable, "-"]
                done = subprocess.run(
                    command, input=text, env=environment, capture_output=True, text=True, timeout=300, check=False
                )
                assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
                printed = done.stdout
            case _:
                assert_shown(text, printed)
    assert_published()

"""docs/start/tutorial.md, done as it says: its files written, its commands run, in the order of the page."""

import csv
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.helpers import ROOT

PAGE = ROOT / "docs" / "start" / "tutorial.md"


def test_from_a_toml_to_a_published_plot(tmp_path):
    # The commands are those of this environment, whatever is on the path.
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    printed = ""
    for kind, text in blocks:
        match kind:
            case "toml":
                name = re.match(r"# (\S+\.toml)\n", text)
                assert name, f"the file has no name: {text}"
                (tmp_path / name[1]).write_text(text)
            case "sh" | "python":
                command = ["bash", "-e"] if kind == "sh" else [sys.executable, "-"]
                done = subprocess.run(
                    command, input=text, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
                    check=False,
                )  # fmt: skip
                assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
                printed = done.stdout
            case _:
                # What the page says was printed, but for the time it took.
                for line in text.splitlines():
                    assert line.rpartition(", in ")[0] in printed or line in printed, line
    root = ElementTree.parse(tmp_path / "figures" / "latency_p99.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    labels = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "workload.load" in labels and "faults.loss 0.05" in labels and "cycles" in labels
    with open(tmp_path / "slow.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15 and {row["faults.loss"] for row in rows} == {"0.0", "0.02", "0.05"}
    by_loss = {row["faults.loss"]: float(row["mean"]) for row in rows if row["workload.load"] == "0.02"}
    assert by_loss["0.0"] < by_loss["0.02"] < by_loss["0.05"]
    with open(tmp_path / "figures" / "latency_p99.csv") as file:
        published = [float(row["mean"]) for row in csv.DictReader(file)]
    assert sorted(published) == sorted(float(row["mean"]) for row in rows)
    assert (tmp_path / "load" / "report.html").stat().st_size > 50_000

"""The example of relay: a file crosses 64 nodes while three die; it runs as a user starts it, and can fail."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.helpers.html_balance import Balance

EXAMPLE = ROOT / "examples" / "relay" / "file.py"
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


def example(*arguments: str | Path) -> subprocess.CompletedProcess:
    """The example, in a process of its own."""
    command = [sys.executable, str(EXAMPLE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, env=ENVIRONMENT, check=False)


def test_a_file_crosses_while_three_relays_die(tmp_path):
    sent = tmp_path / "sent"
    sent.write_bytes(bytes(n * n % 251 for n in range(4000)))
    done = example(sent, "-o", tmp_path / "file.html")
    assert (done.returncode, done.stderr) == (0, "")
    first, *sums, audit = done.stdout.splitlines()
    assert first.startswith("4,000 bytes in 36 messages, ")
    assert {line.split()[-1] for line in sums} == {hashlib.sha256(sent.read_bytes()).hexdigest()}
    assert audit == "audit: nothing is wrong"
    page = (tmp_path / "file.html").read_text(encoding="utf-8")
    Balance().feed(page)
    for told in ("The file came whole.", "Nodes 7, 0, 6 on this way died", "The overlay after", "Who sent again"):
        assert told in page


@pytest.mark.parametrize(("arguments", "said"), [(["nowhere"], "nowhere: cannot be read: No such file or directory")])
def test_a_file_that_is_not_there(arguments, said):
    done = example(*arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr

"""The tiers of `scripts/test`: no long test is without a part, no part is empty, and CI runs what is for every push."""

import re
import subprocess
import sys
from pathlib import Path

from tests.helpers import ROOT

#: In the text of a file with long tests.
LONG = re.compile(r"mark\.full|import but$", re.MULTILINE)


def parts() -> dict[str, list[str]]:
    told = subprocess.run([ROOT / "scripts" / "test", "--help"], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in told.splitlines() if line.startswith("    ")]
    return {name: paths for name, *paths in rows}


def test_every_long_test_is_in_one_part():
    found = parts()
    long = {
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "cocotb_tests")
        for path in (ROOT / folder).rglob("test_*.py")
        if path.name != Path(__file__).name and LONG.search(path.read_text(encoding="utf-8"))
    }
    assert len(long) >= 14
    for path in long:
        within = [
            name for name, paths in found.items() for one in paths if (path + "/").startswith(one.rstrip("/") + "/")
        ]
        assert len(within) == 1, f"{path} is in {within or 'no part'} of scripts/test"
    for name, paths in found.items():
        assert all((ROOT / path).exists() for path in paths), name
        assert any(path.startswith(tuple(paths)) for path in long), f"{name} has no long test"


def test_ci_runs_what_is_for_every_push(tmp_path):
    """`.ci/run` asks `scripts/test` for it, which takes all but the long tests."""
    assert (ROOT / ".ci" / "run").read_text().endswith('\nexec scripts/test --push "$@"\n')
    (tmp_path / "test_three.py").write_text(
        "import pytest\n\n\ndef test_always():\n    pass\n\n\n@pytest.mark.push\ndef test_push():\n    pass\n\n\n"
        "@pytest.mark.full\ndef test_full():\n    pass\n"
    )
    text = (ROOT / "scripts" / "test").read_text()
    chosen = dict(re.findall(r'^(?:    )?marked="(.*)"(.*)$', text, re.MULTILINE))
    assert [*chosen] == ["not full and not push", "not full", ""]
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", tmp_path, "--collect-only", "-q", "-n0"]
    for marked, tests in zip(chosen, (1, 2, 3), strict=True):
        told = subprocess.run([*command, "-m", marked], capture_output=True, text=True, check=False).stdout
        assert told.count("::test_") == tests, told
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert told.count("::test_") == 1, "without -m as scripts/test"

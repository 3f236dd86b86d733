"""The tiers of `scripts/test`: no long test is without a part, no part is empty, and CI runs what is for every push."""

import re
import subprocess
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


def test_ci_runs_what_is_for_every_push():
    """All but the long tests; and pytest alone takes what `scripts/test` takes."""
    assert (ROOT / ".ci" / "run").read_text().endswith('\nexec scripts/test --push "$@"\n')
    chosen = re.findall(r'^ *marked="(.*?)"', (ROOT / "scripts" / "test").read_text(), re.MULTILINE)
    assert chosen == ["not full and not push", "not full", ""]
    assert f"-m '{chosen[0]}'" in (ROOT / "pyproject.toml").read_text()

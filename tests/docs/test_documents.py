"""The documents say what is: generated tables are fresh, links lead somewhere, named tests and commands exist."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import lethe
from lethe.spec.config import parse
from lethe_sim import cli, docs
from lethe_sim.sweep.plan import load
from tests.helpers import ROOT

PAGES = sorted([*(ROOT / "docs").glob("**/*.md"), *ROOT.glob("*.md")])


@pytest.fixture(params=PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def page(request) -> Path:
    return request.param


def test_generated_tables_are_fresh(page):
    text = page.read_text(encoding="utf-8")
    assert docs.refreshed(text) == text, f"{page.name} is stale; run python -m lethe_sim.docs"


def test_a_stale_page_is_found_and_written(tmp_path, capsys):
    stale = tmp_path / "page.md"
    stale.write_text("before\n<!-- generated: kinds -->\nold\n<!-- end: kinds -->\nafter\n")
    assert docs.main(["--check", str(tmp_path)]) == 1
    assert "old" in stale.read_text() and "is stale" in capsys.readouterr().out
    assert docs.main([str(tmp_path)]) == 0
    assert "| 1 | `SEND` |" in stale.read_text() and "after" in stale.read_text()
    assert docs.main(["--check", str(tmp_path)]) == 0


def test_a_region_that_nothing_generates():
    with pytest.raises(ValueError, match=r"no generated region is called nonsense; known are .*budget"):
        docs.refreshed("<!-- generated: nonsense -->\n<!-- end: nonsense -->\n")


def test_every_generated_table_is_somewhere():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in docs.REGIONS if f"<!-- generated: {name} -->" not in text] == []


def test_every_member_of_a_documented_enumeration_is_explained():
    for name in ("kinds", "statuses", "causes", "drops", "events"):
        assert "|  |" not in docs.REGIONS[name](), name


def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"https?:", target):
            path = page.parent / target.split("#")[0] if target.split("#")[0] else page
            assert path.exists(), f"{page.name}: {target}"


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_named_tests_exist(page):
    """`tests/x.py` and `tests/x.py::test_y`, wherever a document names one."""
    for path, name in re.findall(r"`((?:cocotb_)?tests/[\w/.]+\.py)(?:::(\w+))?`", page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), f"{page.name}: {path}"
        assert not name or name in functions(ROOT / path), f"{page.name}: {path}::{name}"


def test_every_row_of_the_test_plan_names_its_test():
    plan = (ROOT / "docs" / "testplan.md").read_text(encoding="utf-8")
    rows = [row for row in plan.splitlines() if row.startswith("| ") and not row.startswith(("| ---", "| what"))]
    assert len(rows) > 30
    assert [row for row in rows if not re.search(r"`(?:cocotb_)?tests/[\w/.]+\.py", row)] == []


def test_named_commands_and_options_exist(page):
    """Every `lethe …` line in a code block is one the command line would take."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:sh|console)\n(.*?)```", text, re.DOTALL)
    for line in (line for block in blocks for line in block.splitlines()):
        command = line.removeprefix("$ ").split("#")[0].split("|")[0].split("&&")[0].strip()
        if command.startswith("lethe ") and "--help" not in command and "--version" not in command:
            cli.parser().parse_args(command.split()[1:])


def test_configurations_in_documents_are_good(page, tmp_path):
    for block in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        if "[axes" in block:
            (tmp_path / "sweep.toml").write_text(re.sub("^base = .*", "", block, flags=re.MULTILINE))
            assert load(tmp_path / "sweep.toml").runs
        else:
            parse(block, page.name)


def test_a_study_has_a_row_for_each_change_of_its_sweep():
    (axis,) = load(ROOT / "examples" / "study.toml").axes
    page = (ROOT / "docs" / "studies" / "study.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\| change \| goodput .*?\n\n", page, re.DOTALL)
    assert [row.split(" | ")[0] for row in re.findall(r"^\| (.+)", table, re.MULTILINE)][2:] == [
        change.name for change in axis.values
    ]


def test_no_merge_is_half_done(page):
    assert not re.search(r"^(<{7}|>{7}) ", page.read_text(encoding="utf-8"), re.MULTILINE)


def test_one_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {lethe.__version__}" in changelog
    assert f'version: "{lethe.__version__}"' in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_lock_has_every_requirement_and_no_index():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    assert {re.split(r"[<>=\[]", name)[0] for name in wanted} <= locked
    assert "://" not in lock and "--index" not in lock

"""The documents as a site: it builds without a warning, loads nothing from elsewhere, and can be searched."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

pytest.importorskip("mkdocs", reason="the site's generator is part of the extra `test`")


def build(configuration: Path, site: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(configuration), "-d", str(site)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site."""
    directory = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", directory)
    assert done.returncode == 0, done.stderr
    return directory


def test_every_document_is_a_page(site):
    documents = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").glob("**/*.md")}
    pages = {page.relative_to(site).with_suffix("") for page in site.glob("**/*.html")}
    assert len(documents) > 15
    assert documents - pages == {Path("README")}, "the page README is the site's index"


def test_nothing_is_loaded_from_elsewhere(site):
    loads = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)=["']?(?:https?:)?//[^>]*>""")
    for page in site.glob("**/*.html"):
        assert loads.findall(page.read_text(encoding="utf-8")) == [], page


def test_words_are_found(site):
    pages = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    found = {page["location"].split("#")[0] for page in pages if "quarantine" in page["text"]}
    assert {"reference/cycle-contract.html", "reference/configuration.html"} <= found


def test_a_wrong_link_stops_the_build(tmp_path):
    links = ("nowhere.md", "README.md#nowhere", "/README.md")
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(text)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# Page\n\n" + " ".join(f"[x]({link})" for link in links))
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert done.stderr.count("WARNING") == len(links), done.stderr

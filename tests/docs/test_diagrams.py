"""The diagrams of the documents are fresh, and the exchange that they show is the one that a run has."""

from pathlib import Path

import pyarrow.parquet
import pytest

from lethe.spec.events import Event
from lethe_sim import cli

pytest.importorskip("schemdraw", reason="what draws the diagrams is part of the extra `test`")


@pytest.fixture(scope="module")
def diagrams(script):
    return script("diagrams")


def test_pictures_are_fresh(diagrams):
    assert diagrams.main(["--check"]) == 0
    assert {path.name for path in diagrams.PICTURES.glob("*.svg")} >= set(diagrams.pictures())


def test_a_stale_picture_is_found_and_written(diagrams, tmp_path, capsys):
    assert diagrams.main(["--directory", str(tmp_path)]) == 0
    (tmp_path / "hop.svg").write_text("old")
    assert diagrams.main(["--check", "--directory", str(tmp_path)]) == 1
    assert "hop.svg: is stale" in capsys.readouterr().out
    assert diagrams.main(["--directory", str(tmp_path)]) == 0
    assert diagrams.main(["--check", "--directory", str(tmp_path)]) == 0


def test_the_exchange_is_that_of_a_run(diagrams, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("cycle,source,destination,length\n100,0,1,32\n")
    Path("one.toml").write_text('[topology]\nkind = "wire"\n[workload]\nkind = "trace"\npath = "one.csv"\n')
    assert cli.main(["run", "one.toml", "--no-audit"]) == cli.GOOD
    rows = pyarrow.parquet.read_table("one.parquet").to_pylist()
    begin = rows[0]["cycle"]
    assert {Event(row["event"]).name: row["cycle"] - begin for row in rows} == diagrams.EXCHANGE

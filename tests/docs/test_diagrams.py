"""The diagrams of the documents are fresh, and the exchange that they show is the one that a run has."""

import re
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


def test_the_waveforms_show_what_the_guide_says(diagrams):
    """Of a send that waits, bytes that count, a datagram of 0 bytes, and answers of registers."""
    rows = {name: diagrams.axi_rows(diagrams.recorded(), name) for name in diagrams.WAVES}
    assert rows["axi-send"]["tready"]["wave"] == "1.01..01"
    assert rows["axi-send"]["tdata"]["data"] == ["a0", "a1", "a2", "b0", "b1"]
    waits = rows["axi-send-waits"]
    assert waits["tdata"]["data"] == ["c0", "d0", "e0", "f0", "f1"]
    assert re.search(r"0\.{20,}1", waits["tready"]["wave"])
    deliver = rows["axi-deliver"]
    assert (deliver["tdata"]["data"][:2], deliver["tkeep"]["data"]) == (["g0", "g1"], ["FF", "1F", "FF"])
    assert deliver["tdata"]["wave"].startswith("03.3..3")
    empty = rows["axi-deliver-empty"]
    assert (empty["tkeep"]["data"][0], empty["tuser.length"]["data"][0], empty["tlast"]["wave"][0]) == ("0", "0", "1")
    assert rows["axi-completion"]["tdata.tag"]["data"] == ["a", "b"]
    assert set(rows["axi-completion"]["tdata.status"]["data"]) == {"ACCEPTED"}
    assert rows["axi-send-control"]["tuser.cls"]["data"] == rows["axi-deliver-control"]["tuser.cls"]["data"] == ["7"]
    assert rows["axi-read"]["rdata"]["data"] == ["4854454C"]
    assert rows["axi-read"]["rvalid"]["wave"].index("1") - rows["axi-read"]["arvalid"]["wave"].index("1") == 5
    assert rows["axi-write"]["bvalid"]["wave"].index("1") - rows["axi-write"]["awvalid"]["wave"].index("1") == 5


def test_a_port_without_a_place_is_an_error(diagrams, monkeypatch):
    ports = diagrams.axi_ports
    monkeypatch.setattr(diagrams, "axi_ports", lambda *args, **options: ports(*args, **options) | {"sideband": 1})
    with pytest.raises(ValueError, match="no place for the ports"):
        diagrams.axi_block()

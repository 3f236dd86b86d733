"""The page of a sweep stands alone, is well formed, and draws whatever was varied; its pictures can be taken away."""

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from base64 import b64decode
from pathlib import Path

import pytest

from lethe_sim import cli
from lethe_sim.report import facets, figures, sweep_report
from lethe_sim.report.chart import scale
from lethe_sim.report.curves import MOST_LINES, Cell, Dot, Line, curves, heat_map
from lethe_sim.report.sweep import Kept
from lethe_sim.sweep.store import Result, Store
from tests.helpers.html_balance import Balance
from tests.helpers.sweeping import alone

SVG = "{http://www.w3.org/2000/svg}"
BASE = "[base.workload]\ncount = 3\n[base.topology]\nkind = 'crossbar'\nnodes = 4\n"
SWEEPS = {
    "two axes": "replicas = 3\nevents = true\n[axes]\nworkload.load = [0.02, 0.1, 0.5]\nfaults.loss = [0, 0.1]",
    "one axis": "replicas = 2\n[axes]\nfaults.loss = { from = 0, to = 0.3, steps = 3 }",
    "three axes": "[axes]\nni.slots = [4, 8, 16]\nfaults.loss = [0, 0.1]\nwire.flit_bits = [32, 64]",
    "words": "[axes]\ntopology = [{ kind = 'wire', nodes = 0 }, { kind = 'crossbar', nodes = 3 }]\nni.slots = [4, 8]",
    "random": "design = 'random'\nsamples = 8\n[axes]\nworkload.load = { from = 0.02, to = 0.5 }\n"
    "faults.loss = { from = 0, to = 0.2 }\nni.slots = [4, 8]",
    "nothing varied": "replicas = 2",
}


def swept(directory: Path, text: str) -> Store:
    """A sweep done in this process."""
    path = directory / "sweep.toml"
    path.write_text(text)
    return alone(path, directory)


@pytest.fixture(scope="module", params=SWEEPS)
def page(request, tmp_path_factory) -> tuple[str, str]:
    store = swept(tmp_path_factory.mktemp("sweep"), SWEEPS[request.param] + "\n" + BASE)
    return request.param, sweep_report(store.root)


def downloads(page: str) -> dict[str, str]:
    found = re.findall(r'download="([\w.-]+)" href="data:[^,]*,([^"]*)"', page)
    assert len({name for name, _ in found}) == len(found), "two downloads of one name"
    return {name: b64decode(data).decode() for name, data in found}


def test_the_page_stands_alone_and_is_well_formed(page):
    _, text = page
    assert all(address.startswith("data:") for address in re.findall(r'(?:src|href)="([^"]*)"', text))
    assert "<script" not in text and "@import" not in text and "url(" not in text
    balance = Balance()
    balance.VOID = Balance.VOID | {"polygon"}
    balance.feed(text)
    assert balance.open == []
    for picture in re.findall(r"<svg.*?</svg>", text, re.S):
        ElementTree.fromstring(picture)
    assert "Nothing lost, nothing twice." in text


def test_every_picture_can_be_taken_away(page):
    name, text = page
    files = downloads(text)
    pictures = [file for file in files if file.endswith(".svg")]
    assert len(pictures) == {
        "two axes": 12, "one axis": 9, "three axes": 24, "words": 12, "random": 27, "nothing varied": 0,
    }[name]  # fmt: skip
    for file in pictures:
        root = ElementTree.fromstring(files[file])
        assert root.tag == f"{SVG}svg" and "var(" not in files[file] and "color-mix" not in files[file]
        numbers = list(csv.DictReader(io.StringIO(files[file.replace(".svg", ".csv")])))
        marks = [e for e in root.iter(f"{SVG}path") if e.get("role") == "graphics-symbol"]
        told = [mark.findtext(f"{SVG}title", "") for mark in marks]
        assert len(told) == len(numbers), file
        assert all(any(f"{float(row['mean']):.6g}" in text for text in told) for row in numbers), file
    summary = list(csv.DictReader(io.StringIO(files["summary.csv"])))
    assert {"goodput", "latency_p99.9"} <= {row["metric"] for row in summary}


def test_the_numbers_are_those_of_the_summary(tmp_path):
    store = swept(tmp_path, SWEEPS["two axes"] + "\n" + BASE)
    text = sweep_report(store.root)
    rows = list(csv.DictReader(io.StringIO(downloads(text)["latency_p50.csv"])))
    summary = store.read_table("summary").to_pylist()
    means = [row["mean"] for row in summary if row["metric"] == "latency_p50"]
    assert [float(row["mean"]) for row in rows] == means and len(means) == 6
    assert [row["faults.loss"] for row in rows[:2]] == ["0", "0.1"] and rows[0]["workload.load"] == "0.02"
    # The worst datagrams are drawn from the events that were kept.
    assert "The slowest" in text and "The unluckiest" in text and "accepted" in text
    files = figures(store.root)
    assert len(files) == 24 and all(files.values())
    assert files["latency_p50.csv"] == downloads(text)["latency_p50.csv"]


@pytest.mark.parametrize(
    ("axis", "labels"),
    [
        ("[axes]\nni.slots = [4, 8]\n", ["ni.slots 4", "ni.slots 8"]),
        ("[axes.network]\nbare = {}\nqueued = { router = { queue = 1 } }\n", ["bare", "queued"]),
    ],
    ids=["key", "named"],
)
def test_a_line_is_called_by_its_key_and_value_or_by_its_own_name(tmp_path, axis, labels):
    store = swept(tmp_path, f"{BASE}{axis}[axes.workload]\nload = [0.02, 0.1, 0.5]\n")
    (facet,) = facets(Kept.read(store.root))
    for figure in facet.figures:
        named = [text for text in re.findall(r">([^<>]+)</text>", figure.picture) if text in labels]
        dots = re.findall(r"<title>(.*?): ", figure.picture)
        assert named == labels and list(dict.fromkeys(dots)) == labels


def test_of_many_lines_the_ends_are_drawn(tmp_path):
    """No more than can be told apart."""
    names = [f"with {4 + slots} slots" for slots in range(10)]
    choices = "".join(f"'{name}' = {{ ni = {{ slots = {4 + slots} }} }}\n" for slots, name in enumerate(names))
    store = swept(tmp_path, f"{BASE}[axes.memory]\n{choices}[axes.workload]\nload = [0.1, 0.5]\n")
    (facet,) = facets(Kept.read(store.root))
    drawn = [text for text in re.findall(r">([^<>]+)</text>", facet.figures[0].picture) if text in names]
    assert len(drawn) == MOST_LINES and [drawn[0], drawn[-1]] == [names[0], names[-1]]


def test_a_broken_promise_is_the_headline(tmp_path):
    store = swept(tmp_path, BASE)
    (name,) = store.read_table("runs")["run"].to_pylist()
    result = store.read_run(name)
    rows = tuple(row._replace(value=2.0) if row.metric == "lost" else row for row in result.metrics)
    store.write_run(Result(**(vars(result) | {"metrics": rows})))
    swept(tmp_path, BASE)  # its runs are done; the tables follow them
    text = sweep_report(store.root)
    assert "The promise was broken." in text and "2 datagrams were lost" in text and name in text


def test_from_the_command_line(tmp_path, capsys):
    store = swept(tmp_path, BASE)
    assert cli.main(["report", str(tmp_path)]) == cli.GOOD
    assert (tmp_path / "report.html").read_text() == sweep_report(store.root)
    assert cli.main(["report", str(tmp_path), "--against", "x"]) == cli.MISTAKE
    (name,) = store.read_table("runs")["run"].to_pylist()
    store.run_file(name).write_bytes(b"")
    assert cli.main(["report", str(tmp_path)]) == cli.MISTAKE
    assert "is damaged" in capsys.readouterr().err
    store.table_file("runs").unlink()
    assert cli.main(["report", str(tmp_path)]) == cli.MISTAKE
    assert "finish the sweep first" in capsys.readouterr().err


def test_an_unfinished_point_is_an_empty_dot():
    dots = (Dot(0, 1, 0.5, 1.5, 3, True), Dot(1, 2, None, None, 1, False))
    picture = curves([Line(label="a", dots=dots)], x_label="x", y_label="y")
    fills = [e.get("fill") for e in ElementTree.fromstring(picture).iter("path") if e.get("role") == "graphics-symbol"]
    assert fills == ["var(--s0)", "var(--card)"]
    assert "1 (3 runs)" not in picture and "95 % confidence interval 0.5 to 1.5 (3 runs)" in picture
    assert "2 (1 run, not all finished)" in picture


def test_values_that_differ_widely_have_a_logarithmic_axis():
    assert scale([1, 10, 100])["type"] == "log" == scale([0.001, 0.1])["type"]
    assert "type" not in scale([0, 1, 100]) and "type" not in scale([5, 5]) and "type" not in scale([2, 8])
    dots = tuple(Dot(x, y, None, None, 1, True) for x, y in ((1, 0.001), (2, 0.1)))
    assert ">0.01</text>" in curves([Line(label="", dots=dots)], x_label="x", y_label="y")


@pytest.mark.parametrize("values", [[0.0], [3.0], [0.0, 0.0], [-1.0, 2.0]])
def test_few_values_and_equal_ones_are_drawn(values):
    dots = tuple(Dot(5.0 + n, value, None, None, 1, True) for n, value in enumerate(values))
    picture = curves([Line(label="", dots=dots)], x_label="x", y_label="y")
    assert "NaN" not in picture and picture.count("<title>") == len(values)


def test_a_map_of_one_value_and_of_many_columns():
    picture = heat_map([Cell(0, 0, 5.0)], ["a"], ["b"], x_label="x", y_label="y", unit="cycles")
    assert ">5</text>" in picture and picture.count("<title>a, b: 5 cycles</title>") == 1
    many = [Cell(column, 0, float(column)) for column in range(40)]
    picture = heat_map(many, [str(c) for c in range(40)], ["b"], x_label="x", y_label="y", unit="cycles")
    strengths = [
        float(e.get("opacity")) for e in ElementTree.fromstring(picture).iter("path") if e.find("title") is not None
    ]
    assert len(strengths) == 40 and strengths == sorted(strengths) and strengths[-1] == 0.7


@pytest.mark.parametrize(
    ("names", "slant"),
    [
        (["discards", "queue of 1 worm", "queue of 2 worms"], False),
        (["discards", "queue of 1 worm", "queue of 2 worms", "queue of 4 worms"], True),
        (list("abcdefghijklmnop"), False),
    ],
)
def test_names_that_have_no_room_side_by_side_slant_and_none_is_cut(names, slant):
    dots = tuple(Dot(float(x), 1.0 + x, None, None, 1, True) for x in range(len(names)))
    root = ElementTree.fromstring(curves([Line(label="", dots=dots)], x_label="choice", y_label="", names=names))
    labels = [e for e in root.iter("text") if e.text in names]
    assert [e.text for e in labels] == names
    assert all(("rotate(300)" in e.get("transform", "")) == slant for e in labels)


def test_a_slanting_name_stays_in_the_picture():
    names = [f"{number}: {'very ' * 9}long" for number in range(11)]
    dots = tuple(Dot(float(x), 1.0 + x, None, None, 1, True) for x in range(11))
    picture = curves([Line(label="", dots=dots)], x_label="choice", y_label="", names=names)
    labels = re.findall(r">(\d+: [^<]*)</text>", picture)
    assert [label[:6] for label in labels] == [name[:6] for name in names]
    assert all(label.endswith("…") and len(label) < 40 for label in labels)

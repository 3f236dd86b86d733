"""`scripts/bench`: that it can be run, what it prints, and that it counts what it says it counts."""

import json

import numpy as np
import pytest

from lethe.spec.config import System
from lethe_sim.lockstep.simulators import ToolError


@pytest.fixture(scope="module")
def bench(script):
    return script("bench")


def figures(bench, *, met):
    return lambda quick: iter([bench.Figure(section="slots", quantity="a", measured="1", target="≤ 2", met=met)])


def test_a_section_is_a_table_and_a_file(bench, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(bench.SECTIONS, "slots", figures(bench, met=True))
    assert bench.main(["--only", "slots", "--json", str(tmp_path / "found.json")]) == 0
    header, rule, row = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in header.split("|")[1:-1]] == ["section", "quantity", "measured", "target", "met"]
    assert set(rule) == set("| -")
    assert [cell.strip() for cell in row.split("|")[1:-1]] == ["slots", "a", "1", "≤ 2", "yes"]
    assert json.loads((tmp_path / "found.json").read_text())["figures"][0]["met"] is True


def test_a_missed_target_is_said_and_no_failure(bench, monkeypatch, capsys):
    monkeypatch.setitem(bench.SECTIONS, "slots", figures(bench, met=False))
    assert bench.main(["--only", "slots"]) == 0
    assert "**no**" in capsys.readouterr().out


def test_a_missing_tool_ends_it(bench, monkeypatch, capsys):
    def without(quick):
        raise ToolError("no such tool; install it")

    monkeypatch.setitem(bench.SECTIONS, "slots", without)
    assert bench.main(["--only", "slots"]) == 3
    assert capsys.readouterr().err == "bench: no such tool; install it\n"


def test_an_unknown_section_is_refused(bench, capsys):
    with pytest.raises(SystemExit) as ended:
        bench.main(["--only", "nothing"])
    assert ended.value.code == 2
    assert "rates" in capsys.readouterr().err


def test_one_flit_messages_are_counted_in_the_rtl(bench):
    figure = bench._one_flit_messages(50)
    assert figure.met and figure.measured.startswith("1.0000 ")


def test_events_are_found_in_trace_words(bench):
    """The golden model's words of one datagram each way: three messages a datagram."""
    system = System.make(topology={"kind": "wire"}, ni={"slots": 2}, workload={"count": 1})
    golden = bench.Golden(system)
    words = np.zeros((2000, system.layout.words), np.uint64)
    golden.run(len(words), words=words, until_drained=True)
    rows = bench.Rows.__new__(bench.Rows)
    rows.words, rows.layout = words, system.layout
    assert rows.count(bench.Event.ACCEPT) == 2
    assert rows.count(bench.Event.SEND, bench.Event.ACK, bench.Event.FORGET) == 6
    send = int(rows.events(0, bench.Event.SEND)[0, 0])
    assert rows.flag(0, "link.valid")[send : send + system.format.send_flits(32)].all()

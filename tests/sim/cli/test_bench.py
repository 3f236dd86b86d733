"""`scripts/bench`: that it can be run, what it prints, and that it counts what it says it counts."""

import json
import re

import numpy as np
import pytest

from lethe.spec.config import System
from lethe_sim.lockstep.simulators import ToolError
from tests.helpers import ROOT


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


PEER = """
module peer_mix(input clk, input [W - 1:0] a, output reg [W - 1:0] o);
    parameter W = 4;
    wire [W - 1:0] held;
    peer_inner #(.W(W)) inner(clk, a, o, held);
    always @(posedge clk) o <= held & a;
endmodule
"""
INNER = """
module peer_inner #(parameter W = 1)(input clk, input [W - 1:0] a, input [W - 1:0] b, output [W - 1:0] y);
    reg [W - 1:0] kept;
    always @(posedge clk) kept <= a ^ b;
    assign y = ~kept;
endmodule
"""


def peers(path, text: str):
    (path / "mix.v").write_text(PEER)
    (path / "inner.v").write_text(INNER)
    (path / "peers.toml").write_text(text)
    return path / "peers.toml"


@pytest.mark.push
def test_blocks_and_peers_have_parts_paths_and_numbers(bench, monkeypatch, capsys, tmp_path):
    """A block in the place of ours, and a peer: cells, parts, clock and slowest path, in the table and in the file."""
    source = peers(tmp_path, '["a mixer"]\ntop = "peer_mix"\nfiles = ["mix.v", "inner.v"]\nparameters = { W = 6 }\n')
    found = bench.peers_of(source)["a mixer"]

    class Ours:
        def size(self, *, seeds, aim):
            return bench.measured(found.files, found.top, seeds=seeds, aim=aim)

    monkeypatch.setattr(bench, "BLOCKS", {"ours": Ours()})
    monkeypatch.setattr(bench, "GOALS", {"ours": (100, 2000)})
    out = tmp_path / "found.json"
    assert bench.main(["--only", "area", "--quick", "--peers", str(source), "--json", str(out)]) == 0
    rows = {r["quantity"]: r for r in json.loads(out.read_text())["figures"]}
    ours, theirs = rows["ours"]["measured"], rows["a mixer"]["details"]
    assert ours.startswith("8 LUT4 (") and ", 8 FF, 0 DP16KD, 0 DPR16X4, " in ours
    assert re.search(r" MHz, aimed \d+ MHz, in smaller steps \d+ MHz$", ours), "it is not so fast"
    assert rows["ours"]["met"] is False
    assert theirs["cells"] == {"LUT4": 12, "FF": 12, "DP16KD": 0, "DPR16X4": 0, "CCU2C": 0} and theirs["mhz"] > 100
    assert "6 FF (50%)" in rows["a mixer: inner"]["measured"] and "6 FF (50%)" in rows["a mixer: itself"]["measured"]
    path = rows["a mixer: slowest path, seed 1"]["measured"]
    assert re.match(r"(o|inner\.kept) to (o|inner\.kept), through .*: 1 levels, .* ns \(.* logic, .* routing\)$", path)
    assert "| a mixer: slowest path, seed 1 " in capsys.readouterr().out


def test_a_clock_that_only_a_later_run_reaches_is_met(bench, monkeypatch):
    """The medians of the seeds that were aimed, and placed in smaller steps, count too; the cells count in any case."""
    monkeypatch.setattr(bench, "GOALS", {"ours": (100, 150)})

    def row(lut4: int, *aimed: float, stepped: tuple[float, ...] = ()):
        cells = dict.fromkeys(bench.COLUMNS, 0) | {"LUT4": lut4}
        runs = zip(("domains", "aimed", "stepped"), ((148, 149, 150), aimed, stepped), strict=True)
        clocks = {name: tuple({"clk": mhz} for mhz in each) for name, each in runs}
        return next(bench._sized("ours", bench.Size(cells=cells, parts={}, **clocks)))

    found = row(100, 148, 151, 156)
    assert found.met and found.measured.endswith(", 149 MHz, aimed 151 MHz")
    found = row(100, 140, 141, 156, stepped=(149, 152, 153))
    assert found.met and found.measured.endswith(", aimed 141 MHz, in smaller steps 152 MHz")
    assert not row(100, 140, 141, 156, stepped=(149, 149, 153)).met
    assert not row(100).met and not row(100, 140, 141, 156).met and not row(101, 148, 151, 156).met


def test_nodes_are_an_ni_and_its_services_in_one_block(bench, monkeypatch):
    """Each with the host port of its service, and all of its own: nothing but the trace is left out."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    made = []
    cells = dict.fromkeys(bench.COLUMNS, 1)
    monkeypatch.setattr(
        bench.Block, "size", lambda self, *, seeds: made.append((self, seeds)) or bench.Size(cells=cells, parts={})
    )
    rows = list(bench.nodes(False))
    assert [(row.section, row.met) for row in rows] == [("nodes", None)] * 3
    assert [seeds for _, seeds in made] == [1, 1, 0]
    with_flow, on_bus, with_relay = (block.make() for block, _ in made)
    assert "flow" in rows[0].quantity and "dport" in with_flow.host.send.payload.shape().members
    assert "relay" in rows[2].quantity and hasattr(with_relay.host, "deliver_relay")
    for node in (with_flow, with_relay):
        assert "counter_data" in node.signature.members and "watch" not in node.signature.members
    assert "AXI" in rows[1].quantity and isinstance(on_bus, bench.AxiNi)
    assert made[0][0].without == made[2][0].without == ()
    assert all(block.registered == ("link_i",) for block, _ in made), "the paths from the link count"
    assert len(list(bench.nodes(True))) == 1


def test_peers_are_left_out_with_a_word(bench, monkeypatch, tmp_path):
    """Without a file of them, and one that Yosys refuses."""
    monkeypatch.setattr(bench, "BLOCKS", {})
    monkeypatch.setattr(bench, "_sized", lambda *arguments: iter(()))
    monkeypatch.setattr(bench.Block, "size", lambda self, *, seeds, aim: None)
    (row,) = bench.area(True)
    assert (row.quantity, row.measured) == ("peers", "left out: `--peers FILE` names their sources")
    (row,) = bench.area(True, peers(tmp_path, '[broken]\ntop = "none"\nfiles = ["mix.v"]\n'))
    assert row.quantity == "broken" and row.measured.startswith("left out: yosys failed: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "is not TOML: "),
        ("x = 3", "x: is no peer; give it top, files and, where wanted, parameters"),
        ('[x]\ntop = "a"', "x: is no peer; give it top, files"),
        ('[x]\ntop = "a"\nfiles = []\nclock = 1', "x: is no peer; give it top, files"),
        ('[x]\ntop = "a"\nfiles = ["none.v"]', "x: none.v: No such file or directory; files are relative to "),
    ],
)
def test_a_file_of_peers_that_cannot_be_used(bench, text, message, capsys, tmp_path):
    source = peers(tmp_path, text)
    assert bench.main(["--only", "area", "--peers", str(source)]) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"bench: {source}: {message}") and len(told.err.splitlines()) == 1 and not told.out

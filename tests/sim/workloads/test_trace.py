"""Traffic traces: Parquet and CSV alike, and errors that name the row."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lethe.spec.config import System
from lethe_sim import running
from lethe_sim.golden.model import Golden
from lethe_sim.workloads import Play, WorkloadError
from lethe_sim.workloads.trace import TraceWorkload
from tests.helpers.perfect_network import carried, played

GOOD = "cycle,source,destination,length\n5,0,1,32\n0,0,2,0\n5,0,2,7\n90,2,1,3\n"
SYSTEM = System.make(
    "t.toml", topology={"kind": "crossbar", "nodes": 3}, workload={"kind": "trace", "path": "traffic.csv"},
    run={"cycles": 5000},
)  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def trace(text: str | bytes = GOOD, **workload) -> TraceWorkload:
    with open("traffic.csv", "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
    return TraceWorkload(SYSTEM.replace(workload=workload) if workload else SYSTEM)


def parquet(**columns) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


def sent(workload: TraceWorkload) -> list[tuple[int, int, int]]:
    return [(source, node, len(payload)) for node, source, _, payload in carried(workload.script())]


def test_a_node_sends_in_the_order_of_cycles_and_then_of_rows():
    workload = trace()
    assert sent(workload) == [(0, 2, 0), (0, 1, 32), (0, 2, 7), (2, 1, 3)]
    assert workload.script().rows[:-1, 0].tolist() == [0, 5, 5, 90]
    assert trace(timing="compressed").script().rows[:-1, 0].tolist() == [0] * 4
    verdict = played(workload)
    assert verdict.good and verdict.text == "trace: 4 datagrams, 42 bytes, received as sent, each once"


def test_parquet_is_the_same():
    columns = {"more": [1.5] * 4, "cycle": [5, 0, 5, 90], "source": [0, 0, 0, 2]}
    columns |= {"destination": [1, 2, 2, 1], "length": [32, 0, 7, 3]}
    assert carried(trace(parquet(**columns)).script()) == carried(trace().script())


def test_csv_as_others_write_it():
    other = (
        '\ufeff"length", more ,source,cycle,destination\r\n32, x,0, 5 ,1\r\n0,,0,0,2\r\n7,,0,5,2\r\n3,,2,90,1\r\n\r\n'
    )
    assert carried(trace(other).script()) == carried(trace().script())


def test_no_rows():
    assert played(trace("cycle,source,destination,length\n")).good


def test_on_the_golden_model(tmp_path):
    trace()
    ran = running.run(SYSTEM.replace(faults={"loss": 0.2}), tmp_path / "t.parquet")
    assert ran.verdict and ran.verdict.good and ran.meta.cycles > 90


def test_a_loop_takes_what_a_node_sends_to_itself():
    trace()
    with open("traffic.csv", "a") as file:
        file.write("7,1,1,9\n8,1,1,0\n")
    workload = TraceWorkload(SYSTEM.replace(loop={"slots": 2}))
    assert sent(workload)[3:5] == [(1, 1, 9), (1, 1, 0)]
    assert _judged_on_the_model(workload) == "trace: 6 datagrams, 51 bytes, received as sent, each once"


def _judged_on_the_model(workload: TraceWorkload) -> str:
    play = Play(workload)
    golden = Golden(workload.system, play.script)
    for cycles, until_drained in play.strides(golden, workload.system.run.cycles):
        golden.run(cycles, until_drained=until_drained)
    verdict = play.verdict(golden)
    assert verdict and verdict.good and golden.service_counters["loop"].sum(axis=0).tolist() == [2, 2, 2]
    return verdict.text


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,1,1,3", r"row 5 \(line 6\): node 1 sends to itself; leave such rows out, or set loop.slots"),
        ("1,1,0,3\n1,2,2,3\n1,0,0,3", r"row 6 \(line 7\): node 2 sends to itself \(1 more rows like it\); "),
        ("3,x,1,2", r"row 5 \(line 6\): source is 'x'; give a whole number"),
        ("3,1.0,1,2", r"row 5 \(line 6\): source is '1.0'; give a whole number"),
        ("3,,1,2", r"row 5 \(line 6\): source is empty; give a whole number"),
        ("-1,0,1,2", r"row 5 \(line 6\): cycle must be 0 to 4,999, not -1; "),
        (
            "5000,0,1,2",
            r"row 5 \(line 6\): cycle must be 0 to 4,999, not 5,000; raise run.cycles, or compress workload.timing",
        ),
        ("1,3,1,2", r"row 5 \(line 6\): source must be 0 to 2, not 3; number the nodes from 0"),
        ("1,0,3,2", r"row 5 \(line 6\): destination must be 0 to 2, not 3; number the nodes from 0"),
        ("1,0,1,33", r"row 5 \(line 6\): length must be 0 to 32, not 33; cut it up, or raise wire.mtu"),
        ("1,0,1", r"is not CSV: .*Row #6: Expected 4 columns, got 3.*; mend that row"),
        ("\n1,0,1,2", r"row 5 \(line 6\): cycle is empty; give a whole number"),
        ("99999999999999999999,0,1,2", r"row 5 \(line 6\): cycle is '99999999999999999999'; give a whole number"),
    ],
)
def test_a_bad_row_is_named(row, message):
    with pytest.raises(WorkloadError, match=f"^traffic.csv: {message}"):
        trace(GOOD + row + "\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs one column cycle, and has none; name the columns cycle, source, destination, length"),
        ("a,b\n1,2\n", "needs one column cycle, and has a, b; "),
        (GOOD.replace("length", "cycle"), "needs one column cycle, and has "),
        (b"\xff\xfe\0", "is neither Parquet nor text; "),
        (b"PAR1 and so on", "is no whole Parquet file: "),
        (parquet(cycle=[0], source=[0], length=[3]), "needs one column destination, and has cycle, source, length; "),
        (parquet(cycle=[0.5], source=[0], destination=[1], length=[3]), "column cycle is double; make it a column of"),
        (parquet(cycle=[0, None], source=[0, 0], destination=[1, 1], length=[3, 3]), "row 2: cycle is empty; "),
        (parquet(cycle=[0], source=[0], destination=[1], length=[3])[:200], "is no whole Parquet file: .*copy it"),
    ],
)  # fmt: skip
def test_files_that_are_no_trace(text, message):
    with pytest.raises(WorkloadError, match=f"^traffic.csv: {message}"):
        trace(text)


#: Commands, two at once, of which up to half ended in an abort while a thread of Arrow had the file.
COMMANDS = 12


@pytest.mark.push
def test_a_command_that_refuses_a_file_ends_in_order():
    Path("traffic.csv").write_bytes(parquet(cycle=[None] * 2, source=[0] * 2, destination=[1] * 2, length=[4] * 2))
    Path("c.toml").write_text('[topology]\nkind = "wire"\n[workload]\nkind = "trace"\npath = "traffic.csv"\n')
    command = [sys.executable, "-m", "lethe_sim", "run", "c.toml", "--no-audit"]
    said = "lethe: traffic.csv: column cycle is null; make it a column of whole numbers\n"

    def ended(_) -> tuple[int, str]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    with ThreadPoolExecutor(2) as both:
        assert [*both.map(ended, range(COMMANDS))] == [(2, said)] * COMMANDS

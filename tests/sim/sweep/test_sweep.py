"""Sweeps from the command line, on Spark: killed, resumed, on one worker or two, on a cluster."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lethe_sim import cli
from lethe_sim.sweep.store import TABLES, Store
from tests.helpers.sweeping import alone

SWEEP = """\
replicas = 3
[base.workload]
count = {count}
[axes]
faults.loss = [0, 0.02]
workload.load = {loads}
"""


def same_tables(left: Store, right: Store) -> None:
    for table in TABLES:
        assert left.table_file(table).read_bytes() == right.table_file(table).read_bytes(), table


def started(directory: Path, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "lethe_sim.cli", "sweep", "load.toml", "--no-report", *arguments],
        cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process: subprocess.Popen) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def finished(directory: Path) -> dict[str, int]:
    """When each finished run was written."""
    return {path.name: path.stat().st_mtime_ns for path in directory.glob("load/runs/[0-9a-f]*.parquet")}


def wait_for(directory: Path, runs: int, process: subprocess.Popen) -> None:
    while len(finished(directory)) < runs and process.poll() is None:
        time.sleep(0.02)


def descendants(pid: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            yield int(stat.parent.name)
            yield from descendants(int(stat.parent.name))


def python_workers(pid: int) -> list[int]:
    """The processes in which Spark below ``pid`` runs Python: children of its daemon."""
    found = [p for p in descendants(pid) if b"pyspark.daemon" in Path(f"/proc/{p}/cmdline").read_bytes()]
    return [p for p in found if int(Path(f"/proc/{p}/stat").read_text().rpartition(")")[2].split()[1]) in found]


@pytest.mark.push
def test_interrupted_resumed_and_with_workers_killed(tmp_path):
    sweep = tmp_path / "load.toml"
    sweep.write_text(SWEEP.format(count=400, loads=[0.05, 0.06]))
    first = started(tmp_path, "--workers", "2")
    wait_for(tmp_path, 3, first)
    first.send_signal(signal.SIGINT)
    code, _, err = ended(first)
    kept = finished(tmp_path)
    assert code == cli.INTERRUPTED, err
    assert re.search(r"\d+ runs of 12 finished and kept; the same command goes on from there", err)
    assert 3 <= len(kept) < 12

    # A damaged file is done again, a point more is done too, and nothing else that was finished.
    damaged = tmp_path / "load" / "runs" / sorted(kept)[0]
    damaged.write_bytes(damaged.read_bytes()[:100])
    sweep.write_text(SWEEP.format(count=400, loads=[0.05, 0.06, 0.07]))
    second = started(tmp_path, "--workers", "2")
    wait_for(tmp_path, len(kept) + 3, second)
    for worker in python_workers(second.pid):  # one at least is at work
        os.kill(worker, signal.SIGKILL)
    code, out, err = ended(second)
    assert code == cli.GOOD, err
    assert f"load: 18 runs of 6 points, {len(kept) - 1} of them before" in out
    assert re.search(r"(a task was|2 tasks were) done again because a worker died", out) and "is damaged" in err
    now = finished(tmp_path)
    assert len(now) == 18 and not list(tmp_path.glob("load/**/*.part"))
    assert all(now[name] == when for name, when in kept.items() if name != damaged.name)
    # And the tables are those of one process that does run after run.
    same_tables(Store(tmp_path / "load"), alone(sweep, tmp_path / "alone"))

    # Nothing left to do needs no Spark.
    assert cli.main(["sweep", str(sweep), "-o", str(tmp_path / "load"), "--master", "spark://nowhere"]) == cli.GOOD
    assert finished(tmp_path) == now and (tmp_path / "load" / "report.html").stat().st_size > 10_000


def test_tables_join(tmp_path):
    sweep = tmp_path / "load.toml"
    sweep.write_text(SWEEP.format(count=5, loads=[0.05]))
    store = alone(sweep, tmp_path / "load")
    tables = {name: pq.read_table(store.table_file(name)).to_pandas() for name in TABLES}
    for name, columns in TABLES.items():
        assert list(tables[name].columns) == [column for column, *_ in columns]
    joined = tables["metrics"].merge(tables["configuration"], on="run")
    loss = joined[(joined.metric == "discards.lost.injection") & (joined.key == "faults.loss")]
    assert set(loss[loss.value_x > 0].value_y) == {"0.02"} and set(loss.value_y) == {"0.0", "0.02"}
    runs = tables["runs"].merge(tables["points"], on="point")
    assert set(runs.axis) == {"faults.loss", "workload.load"} and len(runs) == 12
    mean = tables["metrics"].merge(tables["runs"], on="run").groupby(["point", "metric"]).value.mean()
    summary = tables["summary"].set_index(["point", "metric"])
    assert (abs(summary["mean"] - mean) < 1e-9 * (1 + abs(mean))).all()
    assert (summary.high >= summary["mean"]).all() and (summary.runs == 3).all(), summary[summary.runs < 3]


@pytest.mark.parametrize(
    "text, message",
    [
        ("[axes]\nni.slots = [4, 1]", "point ni.slots = 1: ni.slots: must be"),
        ("[axes]\nni.slot = [4, 1]", "axes.ni.slot: no such key; did you mean slots?"),
    ],
)
def test_a_mistake_is_one_line_before_anything_runs(tmp_path, capsys, text, message):
    path = tmp_path / "load.toml"
    path.write_text(text)
    assert cli.main(["sweep", str(path), "-o", str(tmp_path / "load")]) == cli.MISTAKE
    assert capsys.readouterr().err.startswith(f"lethe: {path}: {message}") and not (tmp_path / "load").exists()


@pytest.fixture
def cluster(tmp_path) -> Iterator[str]:
    """A standalone master with two workers of one core, on this machine, each in a process of its own."""
    from lethe_sim.pipeline.session import usable_java

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": str(usable_java()),
        "SPARK_WORKER_DIR": str(tmp_path / "spark"),
    }  # fmt: skip
    master, package = f"spark://127.0.0.1:{port}", "org.apache.spark.deploy"
    commands = [
        [f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
        *2 * [[f"{package}.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
               "--webui-port", "0", master]],
    ]  # fmt: skip
    with open(tmp_path / "spark.log", "w") as log:
        processes = [
            subprocess.Popen(
                [home / "bin" / "spark-class", *command], env=environment, cwd=tmp_path, stdout=log, stderr=log
            )
            for command in commands
        ]
        try:
            yield master
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(30)


@pytest.mark.full
def test_unchanged_on_a_standalone_cluster(tmp_path, cluster):
    sweep = tmp_path / "load.toml"
    sweep.write_text(SWEEP.format(count=200, loads=[0.05, 0.06]))
    process = started(tmp_path, "--master", cluster)
    wait_for(tmp_path, 2, process)
    workers = python_workers(os.getpid())
    assert workers
    os.kill(workers[-1], signal.SIGKILL)
    code, out, err = ended(process)
    assert code == cli.GOOD, err + (tmp_path / "spark.log").read_text()[-3000:]
    assert "load: 12 runs of 4 points" in out
    same_tables(Store(tmp_path / "load"), alone(sweep, tmp_path / "alone"))

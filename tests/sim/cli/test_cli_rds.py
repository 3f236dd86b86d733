"""`lethe rds`: on a network of its own, and on one that is served."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lethe.spec.config import System
from lethe.spec.sections.faults import NodeDeath
from lethe.spec.sections.flow import OF_NI
from lethe.spec.toml import dump
from lethe_sim.rds.stress import Running, Wrong

SYSTEM = System.make(topology={"kind": "wire"}, wire={"mtu": 40}, flow={"ports": 16}, ni=OF_NI)


def dies(**death: int) -> System:
    """A node of it dies."""
    deaths = (NodeDeath(**death),)
    return SYSTEM.replace(timers={"ack_limit": 20}, workload={"retry_limit": 9}, faults={"deaths": deaths})


@pytest.fixture
def configured(tmp_path) -> Path:
    path = tmp_path / "my.toml"
    path.write_text(dump(SYSTEM))
    return path


def test_a_ping_is_answered(lethe, configured):
    ended = lethe("rds", "ping", configured, "10.0.0.2", "--count", "3", "--node", "0")
    lines = ended.out.splitlines()
    assert ended.code == 0 and len(lines) == 4
    assert all(line.endswith(" cycles") for line in lines[:3])
    assert lines[3].startswith("3 of 3 pings answered; cycles: least ")


def test_a_peer_that_is_away_answers_no_ping(lethe, configured):
    configured.write_text(dump(dies(node=1, start=10)))
    ended = lethe("rds", "ping", configured, "10.0.0.2", "--count", "2", "--patience", "500", "--interval", "10")
    assert (ended.code, ended.out) == (1, "   1: no answer\n   2: no answer\n0 of 2 pings answered\n")


@pytest.mark.parametrize(
    ("start", "answered", "arguments"),
    [
        (10, 0, ("ping", "my.toml", "10.0.0.1", "--node", "1", "--patience", "100")),
        (3000, 3, ("ping", "my.toml", "10.0.0.1", "--node", "1")),
        (10, 0, ("stress", "my.toml", "--tasks", "2", "--cycles", "1000")),
        (700, 1, ("stress", "my.toml", "--tasks", "2", "--cycles", "1000")),
    ],
)
def test_a_node_that_is_dead_is_told_in_one_line(lethe, configured, start, answered, arguments):
    configured.write_text(dump(dies(node=1, start=start)))
    ended = lethe("rds", *arguments)
    assert ended.err == f"lethe: Network is down: node 1 is dead from cycle {start:,} on\n"
    assert ended.code == 3 and ended.out.count("\n") == answered


def test_a_stress_tells_what_it_did(lethe, configured):
    ended = lethe(
        "rds", "stress", configured, "--tasks", "3", "--cycles", "900", "--interval", "500", "--request", "30"
    )
    lines = ended.out.splitlines()
    assert ended.code == 0 and lines[0].split()[:3] == ["cycles", "requests", "acks"]
    assert lines[-1].endswith("every one whole, once and in order") and int(lines[-1].split()[0]) > 3


def test_what_is_wrong_in_a_stress_is_told_and_exit_1(lethe, configured, monkeypatch):
    def broken(self):
        raise Wrong("10.0.0.1:1 to 10.0.0.2:2: message 3: one is lost")
        yield

    monkeypatch.setattr(Running, "run", broken)
    ended = lethe("rds", "stress", configured, "--tasks", "2")
    assert ended.code == 1 and ended.out.endswith("broken: 10.0.0.1:1 to 10.0.0.2:2: message 3: one is lost\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ping", "my.toml", "10.0.0.9"), "10.0.0.9: no node has this address; nodes have 10.0.0.1 to 10.0.0.2"),
        (("ping", "my.toml", "nobody"), "nobody: no node has this address; nodes have 10.0.0.1 to 10.0.0.2"),
        (("ping", "my.toml", "10.0.0.2", "--node", "2"), "--node: the network has nodes 0 to 1, not 2"),
        (("ping", "bare.toml", "10.0.0.2"), "bare.toml: flow.ports: is 0, so there are no ports; set it to 2, 4, 8"),
        (("stress", "my.toml", "--tasks", "1"), "--tasks: must be at least 2, not 1; one sends to the other"),
        (("stress", "my.toml", "--tasks", "99"), "--tasks: a node has not so many ports free ("),
        (("stress", "my.toml", "--request", "3"), "--request: must be 14 to 1,048,576 bytes, not 3"),
        (("info", "my.toml"), "my.toml: no network is served there; start one with `lethe rds serve FILE PATH`"),
        (("info", "at", "--tables", "kx"), "--tables: 'x' is none of c, k, n, r, s, t"),
        (("serve", "my.toml", "no/such/place"), "no/such/place: No such file or directory; name another path"),
        (
            ("ping", "none", "10.0.0.2"),
            "none: no such file; name a configuration, or a path at which `lethe rds serve FILE PATH` serves one",
        ),
        (("stress", "my.toml", "--tasks", "1000000000"), "--tasks: a node has not so many ports free ("),
        (("serve", "my.toml", "x" * 200), f"{'x' * 200}: AF_UNIX path too long; name another path"),
        (("ping", "bare.toml", "10.0.0.2", "--rtl"), "bare.toml: flow.ports: is 0, so there are no ports; set it to"),
        (
            ("serve", "golden.toml", "at", "--rtl"),
            "golden.toml: study.per_destination: 1 is for the golden model only, there is no RTL of it; "
            "set it to 0, or leave out --rtl",
        ),
        (
            ("stress", "served", "--rtl"),
            "--rtl: served is served already; leave it out, or give it to `lethe rds serve`",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(lethe, configured, tmp_path, arguments, said):
    (tmp_path / "bare.toml").write_text('[topology]\nkind = "wire"\n')
    (tmp_path / "golden.toml").write_text(dump(SYSTEM.replace(study={"per_destination": 1})))
    with socket.socket(socket.AF_UNIX) as served:
        served.bind("served")
    ended = lethe("rds", *arguments)
    assert ended.err.startswith(f"lethe: {said}") and ended.err.count("\n") == 1
    assert ended.code in (2, 3) and not ended.out


def test_a_path_is_refused_before_a_network_is_made(lethe, configured, monkeypatch):
    """The golden model may be compiled for a minute."""
    monkeypatch.setattr("lethe_sim.rds.golden.GoldenFlow", None)
    ended = lethe("rds", "serve", configured, configured)
    assert ended.code == 3 and ended.err == f"lethe: {configured}: Address already in use; name another path\n"


@pytest.mark.parametrize("given", ["0", "x", "1.5"])
def test_a_count_is_a_natural_number(lethe, configured, given):
    ended = lethe("rds", "ping", configured, "10.0.0.2", "--count", given)
    assert ended.code == 2 and "--count: must be " in ended.err and ended.err.count("\n") == 1


def test_several_programs_use_a_network_that_is_served(process, configured, tmp_path):
    serving = subprocess.Popen(
        [sys.executable, "-m", "lethe_sim.cli", "rds", "serve", "my.toml", "at"],
        cwd=tmp_path, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert serving.stdout is not None
    try:
        assert serving.stdout.readline() == "2 nodes, 10.0.0.1 to 10.0.0.2, at at; Ctrl-C ends it\n"
        assert process("rds", "ping", "at", "10.0.0.2", "--count", "2").out.splitlines()[-1].startswith("2 of 2 pings")
        told = process("rds", "info", "at", "--tables", "cn").out
        assert "Connections:" in told and "Sockets:" not in told
        assert any(line.split() == ["recv_ping", "2"] for line in told.splitlines())
        wrong = process("rds", "info", "at", "--node", "2")
        assert (wrong.code, wrong.err) == (2, "lethe: --node: the network has nodes 0 to 1, not 2\n")
        twice = process("rds", "serve", "my.toml", "at")
        assert twice.code in (2, 3) and twice.err == "lethe: at: Address already in use; name another path\n"
    finally:
        serving.send_signal(signal.SIGINT)
        _, err = serving.communicate(timeout=30)
    assert (serving.returncode, err) == (130, "lethe: interrupted\n")
    assert not (tmp_path / "at").exists()

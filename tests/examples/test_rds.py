"""The examples of RDS: a stress, a stalled port, a dead link, a chat; each runs as a user starts it, and can fail."""

import csv
import io
import os
import re
import runpy
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from pathlib import Path

import pytest

from lethe_sim.rds.stress import Running, Wrong
from lethe_sim.report.timeline import Stretch
from tests.helpers import ROOT
from tests.helpers.html_balance import Balance

EXAMPLES = ROOT / "examples" / "rds"
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


def example(name: str, *arguments: str | Path) -> subprocess.CompletedProcess:
    """An example, in a process of its own."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=ENVIRONMENT, check=False)


@pytest.mark.push
def test_sixty_four_sockets_ask_and_answer():
    done = example("stress.py", "--cycles", "1200")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    said = re.fullmatch(
        r"(\d+) requests and (\d+) acks of 64 sockets in .*: every one whole, once and in order", lines[-7]
    )
    assert said and int(said[1]) == int(said[2]) > 64
    counted = dict(line.split(": ") for line in lines[-5:])
    assert int(counted["send_queued"]) == int(counted["recv_delivered"]) == 2 * int(said[1])
    least, median, most = map(int, re.findall(r"\d+", lines[-6]))
    assert 0 < least <= median <= most and 64 * least <= int(said[1]) <= 64 * most


def test_a_stress_that_finds_something_wrong_says_so(monkeypatch, capsys):
    def broken(self):
        raise Wrong("message 3: one is lost")
        yield

    monkeypatch.setattr(Running, "run", broken)
    assert runpy.run_path(str(EXAMPLES / "stress.py"))["main"]([]) == 1
    assert capsys.readouterr().out.endswith("broken: message 3: one is lost\n")


@pytest.mark.push
def test_a_link_dies_and_its_messages_take_another_path():
    done = example("failover.py", "--cycles", "11000")
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row.split()[0]: [int(n.replace(",", "")) for n in row.split()[1:]] for row in done.stdout.splitlines()[3:6]}
    # Messages, median and longest of the streams on the path that dies; then of the others.
    assert rows["while"][2] > 1.5 * rows["before"][2] > rows["before"][1]
    assert rows["after"][1] <= 1.1 * rows["before"][1] and rows["while"][5] < 2 * rows["before"][5]
    sent = sum(row[0] + row[3] for row in rows.values())
    assert f"{sent:,} of {sent:,} messages read, 0 out of order" in done.stdout


@pytest.fixture(scope="module")
def stalled(tmp_path_factory) -> tuple[str, str]:
    """What the example says, and its page."""
    output = tmp_path_factory.mktemp("stall") / "stall.html"
    done = example("stall.py", "--cycles", "10000", "-o", output)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, output.read_text(encoding="utf-8")


def numbers(page: str) -> dict[str, list[tuple[str, int, int]]]:
    """What can be downloaded from the page: rows (port, cycle, value) by name."""
    found = re.findall(r'download="(\w+)\.csv" href="data:[^,]*,([^"]*)"', page)
    tables = {name: list(csv.reader(io.StringIO(b64decode(data).decode())))[1:] for name, data in found}
    return {name: [(port, int(cycle), int(value)) for port, cycle, value in rows] for name, rows in tables.items()}


@pytest.mark.push
def test_one_port_stalls_and_the_others_do_not_notice(stalled):
    out, page = stalled
    tables = numbers(page)
    assert set(tables) == {"read", "without", "waiting", "refused"}
    total, without = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) (?:messages read|without)", out))
    sums = {name: Counter() for name in ("read", "without")}
    for name, counts in sums.items():
        for port, cycle, value in tables[name]:
            counts[port] += value
            # From 3,000 to 7,000 nobody reads it.
            assert not (name == "read" and port == "port 4002" and 3000 <= cycle < 7000 and value)
    assert sum(sums["read"].values()) == total and sum(sums["without"].values()) == without
    assert min(sums["read"].values()) > 30
    peaks = {port: max(v for p, _, v in tables["waiting"] if p == port) for port in sums["read"]}
    assert peaks.pop("port 4002") >= 500 > 200 > max(peaks.values())


@pytest.mark.push
def test_the_page_of_a_stall_stands_alone(stalled):
    _, page = stalled
    balance = Balance()
    balance.feed(page)
    assert balance.open == [] and page.count("<svg") == 4 and "<script" not in page
    assert all(address.startswith("data:") for address in re.findall(r'(?:src|href)="([^"]*)"', page))
    assert "One port stalled. The others did not notice." in page and "from cycle 3,000 to 7,000" in page


def test_a_stall_that_is_noticed_is_told():
    """Every other message of another port is late: the page says so."""
    names = runpy.run_path(str(EXAMPLES / "stall.py"))
    course, read, span = names["Course"], names["Read"], Stretch(1000, 3000, "")
    without, late, fewer = course(), course(), course()
    for port in names["PORTS"]:
        for at in range(1000, 2000, 20):
            without.reads.append(read(port, at, at + 50))
            late.reads.append(read(port, at, at + (900 if port == 4003 and at % 40 else 50)))
            if port != 4003 or at % 200:
                fewer.reads.append(read(port, at, at + 50))
    for run, share, slower, kept in ((without, 1, 1, True), (late, 1, 18, False), (fewer, 0.9, 1, False)):
        text, found = names["page"](run, without, span, 3000)
        assert found is kept and ("The others noticed." in text) is not kept
        assert f"had {share:.3f} or more" in text and f"was {slower:.2f} times" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("stall.py", "--cycles", "9999"), "--cycles: must be at least 10000; until 2500 the nodes connect"),
        (("stall.py", "-o", EXAMPLES / "network.toml"), "network.toml"),
        (("stress.py", "--cycles", "0"), "cycles: must be at least 1, not 0"),
        (("chat.py", "nowhere", "0", "1"), "nowhere: No such file or directory: no network is served there"),
    ],
)
def test_mistakes_are_one_line(arguments, said):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / arguments[0]), *map(str, arguments[1:])],
        input="", capture_output=True, text=True, timeout=60, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert done.returncode in (1, 2) and said in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr


def started(*command: str | Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *map(str, command)], text=True, env=ENVIRONMENT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def line(program: subprocess.Popen) -> str:
    assert program.stdout is not None
    return program.stdout.readline().rstrip("\n")


def test_two_programs_talk_through_a_network_that_a_third_simulates(tmp_path):
    path = tmp_path / "at.socket"
    programs = [started("-m", "lethe_sim", "rds", "serve", EXAMPLES / "network.toml", path)]
    try:
        assert line(programs[0]).startswith("16 nodes, 10.0.0.1 to 10.0.0.16")
        a, b = (started(EXAMPLES / "chat.py", path, *nodes) for nodes in (("0", "5"), ("5", "0")))
        programs += [a, b]
        assert (line(a), line(b)) == ("you are 10.0.0.1", "you are 10.0.0.6")
        for program, other, text in ((a, b, "are you there?"), (b, a, "yes – 16 nodes away"), (a, b, "x" * 3000)):
            assert program.stdin is not None
            program.stdin.write(text + "\n")
            program.stdin.flush()
            assert line(other) == f"{'10.0.0.1' if program is a else '10.0.0.6'}: {text}"
        # Two lines at once, the second without an end: both arrive before the chat ends.
        assert a.communicate("bye\nreally", timeout=60) == ("", "")
        assert b.communicate(timeout=60) == ("10.0.0.1: bye\n10.0.0.1: really\n10.0.0.1 has left\n", "")
        assert a.returncode == b.returncode == 0
    finally:
        for program in programs:
            program.kill()
            program.wait(20)

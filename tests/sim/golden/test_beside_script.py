"""`scripts/beside`: two golden models timed in turns, and what it cannot time is told in one line."""

import pytest

#: Stands for a golden model: half a second and 8 datagrams in the files of the other commit.
STANDS_FOR = """
import os, sys
for line in sys.stdin:
    print([0.5, 8] if "lethe-beside-" in os.environ["PYTHONPATH"] else SPENT, flush=True)
"""


@pytest.fixture(scope="module")
def beside(script):
    return script("beside")


@pytest.mark.parametrize(
    ("spent", "delivered", "code", "ratio", "per_cycle"),
    [
        (0.25, 8, 0, "2.000", "2.000"),
        (1.0, 8, 1, "0.500", "0.500"),
        (1.0, 16, 0, "1.000", "0.500"),
        (0.5, 4, 1, "0.500", "1.000"),
    ],
)
def test_the_ratios_and_the_exit_code(beside, monkeypatch, capsys, spent, delivered, code, ratio, per_cycle):
    """The verdict is that per delivered datagram."""
    monkeypatch.setattr(beside, "TURN", STANDS_FOR.replace("SPENT", f"[{spent}, {delivered}]"))
    assert beside.main(["HEAD", "--pairs", "3"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(f"{ratio} of the speed of HEAD per delivered datagram" in line for line in lines)
    assert all(f" {per_cycle} per cycle; delivered {delivered} and 8" in line for line in lines)


def test_nothing_delivered(beside, monkeypatch, capsys):
    monkeypatch.setattr(beside, "TURN", STANDS_FOR.replace("SPENT", "[0.5, 0]"))
    assert beside.main(["HEAD", "--pairs", "1"]) == 2
    assert "beside: load 0.05: nothing is delivered" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.full
def test_of_the_same_commit(beside, capsys):
    """The whole: HEAD beside these files, on a small system; what they deliver is the same unless cycles change."""
    assert beside.main(["HEAD", "--pairs", "1", "--set", "topology.levels=2"]) in (0, 1)
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "nosuch: fatal"),
        (["HEAD", "--set", "load"], "write it as section.key=value"),
        (["HEAD", "--set", "topology.kind=ring"], "does not run this system"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_timed(beside, capsys, arguments, said):
    assert beside.main(arguments) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "beside: " in error and said in error

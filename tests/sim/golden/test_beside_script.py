"""`scripts/beside`: two golden models timed in turns, and what it cannot time is told in one line."""

import pytest

#: Stands for a golden model: half as fast in the files of the other commit.
STANDS_FOR = """
import os, sys
for line in sys.stdin:
    print([0.5 if "lethe-beside-" in os.environ["PYTHONPATH"] else SPENT, 7], flush=True)
"""


@pytest.fixture(scope="module")
def beside(script):
    return script("beside")


@pytest.mark.parametrize(("spent", "code", "said"), [("0.25", 0, "2.000 of"), ("1.0", 1, "0.500 of")])
def test_the_ratio_and_the_exit_code(beside, monkeypatch, capsys, spent, code, said):
    monkeypatch.setattr(beside, "TURN", STANDS_FOR.replace("SPENT", spent))
    assert beside.main(["HEAD", "--pairs", "3"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(said in line and "delivered 7 and 7" in line for line in lines)


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

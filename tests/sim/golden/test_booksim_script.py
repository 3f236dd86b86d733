"""`scripts/booksim.py`: what it tells a BookSim, what it reads from it, and what it says where there is none."""

import pytest

from lethe_sim.golden.study.plain import Plain

SAYS = """#!/bin/sh
grep -q 'injection_rate = 1.0' "$1" && rate=0.{rate} || rate=0.1
echo "Packet latency average = 99"
echo "Accepted flit rate average = 0.5"
echo "Packet latency average = 30.5 (1 samples)"
echo "Accepted flit rate average = $rate (1 samples)"
cp "$1" {copy}
"""


@pytest.fixture(scope="module")
def booksim(script):
    return script("booksim")


@pytest.fixture
def few(booksim, monkeypatch):
    """Two settings, and a reference that is not run."""
    settings = [booksim.Setting(4, 1, "pinned"), booksim.Setting(16, 4, "adaptive", 0.3)]
    monkeypatch.setattr(booksim, "SETTINGS", settings)
    monkeypatch.setattr(booksim, "reference", lambda setting, cycles: Plain(setting.load / 4, 32.0))


def binary(tmp_path, rate: int):
    path = tmp_path / "booksim"
    path.write_text(SAYS.format(rate=rate, copy=tmp_path / "told"))
    path.chmod(0o755)
    return path


def test_both_are_in_the_table(booksim, few, tmp_path, capsys):
    assert booksim.main(["--booksim", str(binary(tmp_path, 24)), "--cycles", "500"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == [
        "| 1 | 4 | drawn | 1 | 0.240 | 0.250 | +4.2% |",
        "| 4 | 16 | adaptive | 0.3 | 30.5 cycles | 32.0 cycles | +4.9% |",
    ]
    told = (tmp_path / "told").read_text()
    for line in ("num_vcs = 4;", "vc_buf_size = 16;", "routing_function = anca;", "injection_rate = 0.3;"):
        assert line in told.splitlines()


def test_a_figure_that_is_far_off_fails(booksim, few, tmp_path, capsys):
    assert booksim.main(["--booksim", str(binary(tmp_path, 2))]) == 1
    assert "channels=1, path='pinned', load=1.0) differs by +25.0%" in capsys.readouterr().err


def test_without_booksim_the_reference_is_alone(booksim, few, capsys):
    assert booksim.main([]) == 0
    said = capsys.readouterr()
    assert "| 1 | 4 | drawn | 1 | – | 0.250 |  |" in said.out
    assert "give --booksim BINARY" in said.err


def test_what_is_no_booksim(booksim, few, tmp_path, capsys):
    assert booksim.main(["--booksim", str(tmp_path / "nothing")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert booksim.main(["--booksim", "/bin/true"]) == 2
    assert capsys.readouterr().err == (
        "booksim: --booksim /bin/true: printed no accepted flit rate and packet latency; is it BookSim 2?\n"
    )
    with pytest.raises(SystemExit):
        booksim.main(["--cycles", "1"])
    assert "--cycles: must be 100 or more, not 1" in capsys.readouterr().err


def test_a_setting_runs_in_the_reference(booksim):
    found = booksim.reference(booksim.Setting(4, 2, "adaptive", 0.1), 500)
    assert found.accepted == pytest.approx(0.1, rel=0.1)

"""`lethe cosim --pcap`: the capture of a lockstep is that of `lethe run`, to the byte."""

import pytest

from lethe_sim import cli
from lethe_sim.lockstep.simulators import has_icarus

CONFIGURATION = '[topology]\nkind = "wire"\n[ni]\nslots = 4\n[faults]\nloss = 0.2\n[workload]\ncount = 1\nload = 0.3\n'


@pytest.mark.push
@pytest.mark.skipif(not has_icarus(), reason="no Icarus Verilog; `apt-get install iverilog`")
def test_the_capture_of_a_lockstep_is_that_of_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(CONFIGURATION)
    assert cli.main(["run", "my.toml", "--no-audit", "--pcap", "run.pcapng"]) == cli.GOOD
    told = next(line for line in capsys.readouterr().out.splitlines() if "messages" in line)
    options = ["--simulator", "icarus", "--golden-trace", "golden.parquet"]
    assert cli.main(["cosim", "my.toml", "--pcap", "rtl.pcapng", *options]) == cli.GOOD
    assert told.replace("run.pcapng", "rtl.pcapng") in capsys.readouterr().out
    for kind in ("pcapng", "lua"):
        assert (tmp_path / f"rtl.{kind}").read_bytes() == (tmp_path / f"run.{kind}").read_bytes()


@pytest.mark.full
@pytest.mark.skipif(not has_icarus(), reason="no Icarus Verilog; `apt-get install iverilog`")
def test_a_capture_that_cannot_be_written_does_not_end_the_lockstep(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(CONFIGURATION)
    command = ["cosim", "my.toml", "--simulator", "icarus", "--pcap", "/dev/full", "--pcap-links", "node0"]
    assert cli.main(command) == cli.ENVIRONMENT
    told = capsys.readouterr()
    assert told.out.startswith("equal: ") and "messages on" not in told.out
    assert told.err == "lethe: /dev/full: cannot be written: No space left on device; name another\n"

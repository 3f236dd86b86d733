"""The cocotb bench behind `block_groups.hold`; runs inside the simulator, reads its job from ``$LETHE_JOB``."""

import itertools
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from .block_groups import blocks_of
from .blocks import Block


@cocotb.test()
async def hold(dut):
    """Every seed in turn, until a block differs; the outcome goes to ``outcome.json`` beside the job."""
    job_path = Path(os.environ["LETHE_JOB"])
    job = json.loads(job_path.read_text())
    blocks = blocks_of(job["group"], job["only"])
    for block in blocks.values():
        block.patient, block.fickle = job.get("patient", False), job.get("fickle", False)
    seen: Counter[str] = Counter()
    report, ran, differ = "", 0, []
    Clock(dut.clk, 10, unit="ns", impl="gpi").start()
    for seed in range(job["seeds"]):
        await restart(dut)
        found, cycles = await _compare(dut, blocks, seed, job["cycles"], seen)
        ran += cycles
        if found:
            report = report or f"{found}\nreproduce: {job['reproduce'].format(seeds=seed + 1)}"
            differ.append(seed)
            if not job["every"]:
                break
    outcome = {"report": report, "cycles": ran, "seen": seen, "differ": differ}
    job_path.with_name("outcome.json").write_text(json.dumps(outcome))


async def restart(dut) -> None:
    """System reset; returns at the beginning of cycle 0."""
    dut.i.value = 0
    dut.rst.value = 1
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0


def side_by_side(blocks: dict[str, Block], seed: int) -> Iterator[tuple[int, int, list[int]]]:
    """Input and expected output of the whole group, and the output of each block, for every cycle of a seed."""
    plays = [block.play(seed) for block in blocks.values()]
    while True:
        given = expected = given_bits = expected_bits = 0
        outputs = []
        for block, play in zip(blocks.values(), plays, strict=True):
            i, o = next(play)
            given |= i << given_bits
            expected |= o << expected_bits
            given_bits += block.inputs
            expected_bits += block.output_bits
            outputs.append(o)
        yield given, expected, outputs


async def _compare(dut, blocks: dict[str, Block], seed: int, cycles: int, seen: Counter[str]) -> tuple[str, int]:
    """One seed from system reset on, whose first cycle begins now: (report or "", cycles compared)."""
    history: list[tuple[str, int, list[str]]] = []
    for cycle, (given, expected, outputs) in enumerate(itertools.islice(side_by_side(blocks, seed), cycles)):
        if cycle:
            await RisingEdge(dut.clk)
        dut.i.value = given
        await FallingEdge(dut.clk)
        try:
            shown = dut.o.value.to_unsigned()
        except ValueError:
            return f"X or Z on an output in cycle {cycle} of seed {seed}", cycle
        if shown != expected:
            return _report(blocks, seed, cycle, shown, expected, history), cycle
        for (name, block), o in zip(blocks.items(), outputs, strict=True):
            happened = [*block.seen(o), *block.reached]
            seen.update(happened)
            if happened:
                history.append((name, cycle, happened))
    return "", cycles


def _report(
    blocks: dict[str, Block], seed: int, cycle: int, rtl: int, golden: int, history: list[tuple[str, int, list[str]]]
) -> str:
    """Every part that differs, both sides of it, and what its block did before."""
    lines, at = [f"RTL and golden model part in cycle {cycle} of seed {seed}"], 0
    for name, block in blocks.items():
        before = len(lines)
        for part in block.outputs:
            ours, theirs = (side >> at & (1 << part.bits) - 1 for side in (golden, rtl))
            at += part.bits
            if ours != theirs:
                lines += [f"  {name}, {part.label}:", f"    golden {part.say(ours)}", f"    rtl    {part.say(theirs)}"]
        if len(lines) > before:
            past = [f"{when} {', '.join(what)}" for who, when, what in history if who == name]
            lines.append(f"  {name} before: {'; '.join(past[-12:]) or 'nothing'}")
    return "\n".join(lines)

"""Kernels: right on a network that delivers once, wrong as soon as one datagram is lost, doubled or altered."""

import random

import pytest

from lethe.spec.config import System
from lethe.spec.sections.workload import KERNELS
from lethe_sim import running
from lethe_sim.golden.model import Golden
from lethe_sim.workloads import Play, build, judge
from tests.helpers.perfect_network import carried, played

SIZES = {"sort": 10, "fft": 6, "halo": 7, "reduce": 5, "bfs": 20}


def system(kernel: str, nodes: int = 4, **keys) -> System:
    workload = {"kind": "kernel", "kernel": kernel, "size": SIZES[kernel], "steps": 3} | keys
    return System.make(
        "k.toml", topology={"kind": "crossbar", "nodes": nodes}, workload=workload, run={"cycles": 100_000}
    )


def kernel(name: str, *args, **keys):
    workload = build(system(name, *args, **keys))
    assert workload is not None
    return workload


@pytest.mark.parametrize("nodes", [2, 3, 4, 6])
@pytest.mark.parametrize("name", KERNELS)
def test_the_answer_is_numpys(name, nodes):
    verdict = played(kernel(name, nodes))
    assert verdict.good, verdict.text
    assert verdict.text.startswith(f"kernel {name}: ") and "as NumPy's" in verdict.text


@pytest.mark.parametrize("name", KERNELS)
def test_the_order_of_what_is_received_does_not_matter(name):
    chance = random.Random(1)
    verdict = played(kernel(name), lambda phase, rows: chance.shuffle(rows))
    assert verdict.good, verdict.text


def every_datagram(workload) -> list[tuple[int, int]]:
    """(phase, number) of every datagram."""
    found = []
    played(workload, lambda phase, rows: found.extend((phase, i) for i in range(len(rows))))
    return found


def lose(rows, i, chance):
    del rows[i]


def double(rows, i, chance):
    rows.append(rows[i])


def alter(rows, i, chance):
    node, source, cycle, payload = rows[i]
    bit = chance.randrange(8 * len(payload))
    changed = (int.from_bytes(payload, "little") ^ 1 << bit).to_bytes(len(payload), "little")
    rows[i] = node, source, cycle, changed


def misroute(rows, i, chance):
    node, source, cycle, payload = rows[i]
    rows[i] = (node + 1) % 4, source, cycle, payload


@pytest.mark.parametrize("change", [lose, double, alter, misroute])
@pytest.mark.parametrize("name", KERNELS)
def test_the_answer_is_wrong_after_any_change(name, change):
    workload, chance = kernel(name), random.Random(2)
    for phase, number in every_datagram(workload):

        def meddle(now, rows, phase=phase, number=number):
            if now == phase:
                change(rows, number, chance)

        verdict = played(workload, meddle)
        assert not verdict.good, (phase, number, verdict.text)
        assert "wrong answer" in verdict.text or "no answer" in verdict.text


@pytest.mark.parametrize("name", KERNELS)
def test_every_bit_of_a_datagram_counts(name):
    workload = kernel(name)
    phase, number = every_datagram(workload)[-1]
    size = 0

    def look(now, rows):
        nonlocal size
        if now == phase:
            size = 8 * len(rows[number][3])

    played(workload, look)
    for bit in range(size):

        def meddle(now, rows, bit=bit):
            if now == phase:
                node, source, cycle, payload = rows[number]
                changed = int.from_bytes(payload, "little") ^ 1 << bit
                rows[number] = node, source, cycle, changed.to_bytes(len(payload), "little")

        assert not played(workload, meddle).good, bit


@pytest.mark.parametrize("name", KERNELS)
def test_on_the_golden_model_over_lossy_links(name, tmp_path):
    lossy = system(name).replace(faults={"loss": 0.1, "flip": 0.001})
    ran = running.run(lossy, tmp_path / "k.parquet")
    assert ran.verdict and ran.verdict.good, ran.verdict
    again = running.run(lossy, tmp_path / "k.parquet")
    assert again.meta.digest == ran.meta.digest


def golden_run(name: str) -> tuple[Play, Golden]:
    """As a lockstep run does it: no events, strides of its own."""
    small = system(name)
    play = Play(kernel(name))
    golden = Golden(small, play.script)
    while not play.over and golden.cycle < small.run.cycles:
        running.advance(golden, play, 256)
    return play, golden


def test_strides_do_not_change_a_run(tmp_path):
    _, golden = golden_run("sort")
    assert golden.digest == running.run(system("sort"), tmp_path / "k.parquet").meta.digest


@pytest.mark.parametrize("name", KERNELS)
def test_the_deliveries_of_all_phases_together_give_the_same_verdict(name):
    play, golden = golden_run(name)
    letters = golden.letters()
    assert judge(play.workload, letters) == play.verdict(golden)
    verdict = judge(play.workload, letters.select(slice(0, len(letters) - 1)))
    assert not verdict.good and "unfinished" in verdict.text
    late = [*range(len(letters)), 0]
    verdict = judge(play.workload, letters.select(late))
    assert not verdict.good and "1 datagrams more than were sent" in verdict.text


def test_a_run_that_ends_within_a_phase_is_told():
    play = Play(kernel("reduce"))
    golden = Golden(system("reduce"), play.script)
    assert running.advance(golden, play, 40) == 40 and not play.over
    verdict = play.verdict(golden)
    assert verdict and not verdict.good and "unfinished: phase 1 was not over" in verdict.text


def test_the_seed_decides_the_input():
    one, other = (carried(next(kernel("sort").phases())), None)
    other = system("sort").replace(run={"seed": 2})
    workload = build(other)
    assert workload and carried(next(workload.phases())) != one

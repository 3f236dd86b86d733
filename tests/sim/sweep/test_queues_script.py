"""`scripts/queues`: its sweeps are legal, and what it tells of them is what they found."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from lethe_sim.report.sweep import Value
from lethe_sim.sweep.plan import load
from tests.helpers import ROOT
from tests.helpers.sweeping import alone

EXAMPLES = ROOT / "examples" / "queues"
BASE = (
    "base = { topology = { kind = 'crossbar', nodes = 4 }, run = { cycles = 4000 }, wire = { generation_bits = 20 } }\n"
)
NETWORKS = """
[axes.network]
"discards" = {}
"queue of 1 worm" = { router = { queue = 1 } }
"queue of 2 worms" = { router = { queue = 2 } }
"credits, 1 worm" = { router = { flow = "credits", queue = 1 } }
"credits, 64 flits" = { router = { flow = "credits", credit_flits = 64 } }
"""
SWEEPS = {
    "load": BASE + "warmup = 100\nwindow = 200\n" + NETWORKS + "[axes]\nworkload.load = [0.1, 1.0]\n",
    "patterns": BASE + "warmup = 100\nwindow = 200\n" + NETWORKS + "[axes.pattern]\n"
    "uniform = { workload = { kind = 'pattern', count = 9 } }\n"
    "hotspot = { workload = { kind = 'pattern', pattern = 'hotspot', count = 9 } }\n"
    "[axes]\nworkload.load = [0.1, 1.0]\n",
    "kernels": BASE + NETWORKS + "[axes.kernel]\n"
    "reduce = { workload = { kind = 'kernel', kernel = 'reduce', size = 8 } }\n",
    "timeouts": BASE + "warmup = 100\nwindow = 200\n[axes.timeouts]\nfixed = { timers = { ceiling = 0 } }\n"
    "[axes.buffers]\n'4 flits' = { router = { flow = 'credits' } }\n"
    "[axes.payload]\n'4 flits' = { workload = { load = 0.2 } }\n'32 flits' = { workload = { load = 0.5 } }\n",
    "pool": BASE + "warmup = 100\nwindow = 200\n[axes.network]\n"
    "'pool of 8 worms, any up-port, control first' = { router = { pool = 8 } }\n"
    "'credits, 1 worm' = { router = { flow = 'credits', queue = 1 } }\n"
    "[axes]\nni.slots = [8]\nworkload.load = [0.05, 1.0]\n",
    "stages": BASE + "warmup = 100\nwindow = 200\n[axes.network]\n"
    "'credits, 1 worm' = { router = { flow = 'credits', queue = 1, credit_delay = 2, latency = 5 } }\n"
    "[axes]\nni.slots = [16, 8]\nworkload.load = [0.05, 1.0]\n",
    "hotspot": BASE.replace("run =", "workload = { kind = 'pattern', pattern = 'hotspot', count = 60 }, run =")
    + "warmup = 100\nwindow = 200\n[axes.network]\n"
    "'discards' = {}\n'pool of 8 worms, any up-port, control first' = { router = { pool = 8 } }\n"
    "[axes.limit]\n'none' = {}\n'2' = { study = { per_destination = 2 } }\n[axes]\nni.slots = [16, 8]\n",
    "channels": BASE + "warmup = 100\nwindow = 200\n[axes.network]\n"
    "'pool of 8 worms' = { router = { pool = 8 } }\n"
    "'4 channels of 1 worm' = { router = { flow = 'credits', queue = 1, credit_channels = 4 } }\n"
    "[axes]\nni.slots = [16, 8]\nworkload.load = [0.05, 1.0]\n",
    "matter": BASE + "[axes.change]\nas-it-comes = { workload = { count = 3 } }\n"
    "[axes.traffic]\nuniform = { workload = { load = 0.5 } }\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def queues(script):
    return script("queues")


@pytest.fixture(scope="module")
def swept(queues, tmp_path_factory):
    root = tmp_path_factory.mktemp("queues")
    for name, text in SWEEPS.items():
        (root / f"{name}.toml").write_text(text)
        alone(root / f"{name}.toml", root / name)
    return {name: queues.Swept(root / name) for name in SWEEPS}


def test_every_sweep_is_legal_also_when_it_is_quick(queues, tmp_path):
    for name in queues.SWEEPS:
        runs = load(EXAMPLES / f"{name}.toml").runs
        text = queues.quick((EXAMPLES / f"{name}.toml").read_text())
        (tmp_path / f"{name}.toml").write_text(queues.moved(text, EXAMPLES / "base.toml", EXAMPLES))
        shorter = load(tmp_path / f"{name}.toml")
        fewer = shorter.runs
        assert shorter.measure.warmup == load(EXAMPLES / f"{name}.toml").measure.warmup
        assert {run.point for run in fewer} == {run.point for run in runs}
        assert len(fewer) < len(runs) and not any(run.replica for run in fewer)


def test_every_sweep_is_legal_with_routers_of_five_stages(queues, tmp_path):
    base = tmp_path / "base.toml"
    base.write_text(queues.staged((EXAMPLES / "base.toml").read_text(), 5))
    for name in queues.SWEEPS:
        text = queues.staged((EXAMPLES / f"{name}.toml").read_text(), 5)
        (tmp_path / f"{name}.toml").write_text(queues.moved(text, base, EXAMPLES))
        for before, run in zip(load(EXAMPLES / f"{name}.toml").runs, load(tmp_path / f"{name}.toml").runs, strict=True):
            router = run.system.router
            assert router.latency == (2 if before.system.router.latency == 2 else 5), name
            assert router.credit_delay == 2 or router.flow != "credits", name


def test_the_campaign_has_as_many_datagrams_as_it_says():
    """`examples/queues/once.toml`: the page says 15,360,000, over pools in which messages overtake each other."""
    systems = [run.system for run in load(EXAMPLES / "once.toml").runs]
    assert sum(system.workload.count * system.nodes for system in systems) == 15_360_000
    assert all(system.climbs_freely and system.control_first and system.linger for system in systems)


def test_buffers_that_are_compared_have_the_same_bits(queues):
    """Wherever worms are queued or credited, a router input has room for as many flits; what is named is there."""
    for name in [name for name in queues.SWEEPS if name not in ("timeouts", "matter")]:
        for run in load(EXAMPLES / f"{name}.toml").runs:
            network, system = str(run.settings["network"].name), run.system
            if system.format.max_flits == queues.WORM:
                each = system.credits * system.router.credit_channels or system.queue * queues.WORM
                assert queues.held(network) == system.pool * queues.WORM + queues.PORTS * each, (name, network)
            if shared := re.match(r"pool of (\d+) worms|\d channels of (\d+) flits", network):
                pool, credits = (int(number or 0) for number in shared.groups())
                assert (run.system.pool, run.system.credits) == (pool, credits)
                continue
            worms = re.search(r"(\d) worm", network)
            flits = run.system.credits or run.system.queue * run.system.format.max_flits
            assert flits == (int(worms[1]) * run.system.format.max_flits if worms else 64 if "64" in network else 0)


def test_ratios_are_those_of_the_tables(queues, swept):
    found = {h.expected: h for h in queues.hypotheses(swept)}
    text = next(h.found for e, h in found.items() if e.startswith("Two worms"))
    s, at = swept["load"], {"workload.load": "1"}
    ratio = s.mean("goodput", {"network": "queue of 2 worms", **at}) / s.mean(
        "goodput", {"network": "credits, 64 flits", **at}
    )
    assert text == f"saturated {ratio:.2f}"
    kernels = next(h.found for e, h in found.items() if e.startswith("Kernels"))
    k, at = swept["kernels"], {"kernel": "reduce"}
    ratio = k.mean("cycles", {"network": "discards", **at}) / k.mean("cycles", {"network": "credits, 64 flits", **at})
    assert kernels == f"reduce {ratio:.2f}"


@pytest.mark.parametrize(
    ("ratios", "least", "verdict"),
    [
        ([2.0, 3.0], True, "confirmed"), ([1.9, 2.1], True, "true for some"), ([1.0], True, "refuted"),
        ([2.0, 1.0], False, "confirmed"), ([2.1], False, "refuted"),
    ],
)  # fmt: skip
def test_a_hypothesis_is_judged_by_its_bound(queues, ratios, least, verdict):
    assert queues.judged("", [("x", ratio) for ratio in ratios], 2, least=least).verdict == verdict


class Means:
    """A sweep in which every network achieves the same everywhere."""

    def __init__(self, axis, at, achieved):
        self._names, self._achieved = {axis: [at], "network": list(achieved)}, achieved

    def names(self, axis):
        return self._names[axis]

    def mean(self, metric, at):
        achieved = self._achieved[at["network"]]
        return 1000 / achieved if metric == "cycles" else achieved


@pytest.mark.parametrize(
    ("achieved", "found", "verdict"),
    [
        ((2, 4.1, 2.2, 2, 2.9), ["2.05", "0.76", "1.00, 1.45", "1.45"], "confirmed"),
        ((2, 5.9, 3.4, 3.1, 5), ["1.90", "0.68", "1.55, 2.50", "2.50"], "refuted"),
    ],
)
def test_each_hypothesis_is_held_against_its_ratios(queues, achieved, found, verdict):
    networks = ("discards", "queue of 1 worm", "queue of 2 worms", "credits, 1 worm", "credits, 64 flits")
    means = dict(zip(networks, achieved, strict=True))
    axes = {"load": ("workload.load", "1"), "payload": ("payload", "short"), "nodes": ("nodes", "16")}
    axes["kernels"] = "kernel", "sort"
    judged = list(queues.hypotheses({name: Means(*axis, means) for name, axis in axes.items()}))
    assert {h.verdict for h in judged} == {verdict}
    ratios = [", ".join(re.findall(r"\d\.\d\d", h.found)) for h in judged]
    assert ratios == [", ".join(found[:1] * 3), *found[1:]]
    assert [name in judged[0].found for name in ("short ", "16 nodes ", "sort ")] == [True] * 3


def test_a_picture_for_each_choice_of_what_it_does_not_show(queues, swept):
    drawn = list(queues.pictures(swept["patterns"], ("goodput", "latency_p50")))
    assert [(name, figure.name) for name, figure in drawn] == [
        (name, f"{metric}-{name}") for name in ("uniform", "hotspot") for metric in ("goodput", "latency_p50")
    ]


@pytest.mark.parametrize(("codes", "ended"), [([0, 0], 0), ([1, 0], 1), ([0, 3], 3)])
def test_a_sweep_that_fails_ends_it_with_its_exit_code(queues, tmp_path, monkeypatch, capsys, codes, ended):
    commands = []

    def run(command, **_):
        commands.append(command)
        return SimpleNamespace(returncode=codes[len(commands) - 1])

    monkeypatch.setattr(queues.subprocess, "run", run)
    assert queues.main(["--only", "load", "--only", "kernels", "-o", str(tmp_path / "out")]) == ended
    assert [Path(command[-1]).name for command in commands] == ["load", "kernels"][: 1 if codes[0] else 2]
    assert (tmp_path / "out" / "index.html").exists() == (ended == 0)


def test_targets_of_pools_are_met_or_missed(queues, swept, monkeypatch):
    def told(ratio):
        def means(_self, _metric, at):
            return ratio if at["network"].startswith("pool") else 1.0

        monkeypatch.setattr(queues.Swept, "mean", means)
        return [target.verdict for target in queues.targets(swept["pool"])]

    assert len(list(queues.targets(swept["pool"]))) == 3, "no pool of 16 worms here"
    assert told(1.0) == ["missed", "met", "met", "missed"]
    assert told(1.4) == ["missed", "missed", "missed", "met"]
    assert told(1.6) == ["met", "missed", "missed", "met"]


def test_kernels_are_judged_beside_the_best_of_credits(queues, swept, monkeypatch):
    cycles = {"credits, 1 worm": 1000.0, "credits, 64 flits": 900.0}

    def told(pool):
        means = cycles | {"pool of 8 worms": pool, f"pool of 8 worms{queues.FREELY}": 5000.0}
        monkeypatch.setattr(queues.Swept, "names", lambda _self, _axis: list(means))
        monkeypatch.setattr(queues.Swept, "mean", lambda _self, _metric, at: means[at["network"]])
        return [target.verdict for target in queues.ends(swept["kernels"])]

    assert told(900.0) == ["met", "met", "met", "met"]
    assert told(901.0) == ["missed", "missed", "met", "met"]
    assert told(1351.0) == ["missed", "missed", "missed", "missed"]


@pytest.mark.parametrize(
    ("network", "flits", "wires"),
    [
        ("discards", 0, 67),
        ("queue of 1 worm", 48, 67),
        ("pool of 8 worms", 48, 67),
        ("pool of 16 worms, any up-port, control first", 96, 67),
        ("credits, 1 worm, adaptive", 48, 68),
        ("credits, 64 flits", 512, 68),
        ("2 channels of 1 worm", 96, 70),
        ("4 channels of 16 flits, adaptive", 512, 73),
    ],
)
def test_buffers_and_wires_of_a_network(queues, network, flits, wires):
    assert (queues.held(network), queues.wires_of(network)) == (flits, wires)


def test_a_hotspot_is_judged_by_the_others(queues, swept, monkeypatch):
    def told(cycles):
        monkeypatch.setattr(
            queues.Swept, "mean", lambda _self, _metric, at: cycles if "pool" in at["network"] else 99.0
        )
        return [(target.verdict, target.found) for target in queues.elsewhere(swept["hotspot"])]

    assert told(40.0) == [("met", "40 cycles (discards: 99)")]
    assert told(41.0) == [("missed", "41 cycles (discards: 99)")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (Value(1, 0.25, None, None, None), "0.250"),
        (Value(3, 0.25, 0.1, 0.2456, 0.2544), "0.250 ± 0.004"),
        (Value(3, 0.25, 0.1, 0.2499, 0.2501), "0.250"),
        (Value(3, 2710.0, 0.1, 1410.0, 4010.0), "2,710 ± 1,300"),
        (Value(3, 30.33, 0.6, 28.9, 31.76), "30.3 ± 1.4"),
    ],
)
def test_a_mean_is_told_with_its_interval(queues, value, text):
    assert queues.between(value) == text


def test_the_page_has_every_picture_and_table(queues, swept):
    text = queues.page(swept)
    assert text.count("<svg") == 9 and 'href="load/report.html"' in text and 'href="payload/' not in text
    assert "as-it-comes" in text and "Payload flits per node and cycle" in text
    assert {name for name, _, _ in queues.tables(swept)} == set(SWEEPS)

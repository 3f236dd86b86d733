"""`scripts/queues`: its sweeps are legal, and what it tells of them is what they found."""

import re
from dataclasses import replace
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
    "'credits, 1 worm' = { router = { flow = 'credits', queue = 1 } }\n"
    "[axes.limit]\n'none' = {}\n'2' = { study = { per_destination = 2 } }\n[axes]\nni.slots = [16, 8]\n",
    "channels": BASE + "warmup = 100\nwindow = 200\n[axes.network]\n"
    "'pool of 8 worms' = { router = { pool = 8 } }\n"
    "'4 channels of 1 worm' = { router = { flow = 'credits', queue = 1, credit_channels = 4 } }\n"
    "'4 channels of 1 worm, adaptive' = "
    "{ router = { flow = 'credits', queue = 1, credit_channels = 4, credit_path = 'adaptive' } }\n"
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
    for name in (*queues.SWEEPS, queues.CAMPAIGN):
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
        return SimpleNamespace(returncode=codes[len(commands) - 1], stdout="")

    monkeypatch.setattr(queues.subprocess, "run", run)
    assert queues.main(["--only", "load", "--only", "kernels", "-o", str(tmp_path / "out")]) == ended
    assert [Path(command[-1]).name for command in commands] == ["load", "kernels"][: 1 if codes[0] else 2]
    assert (tmp_path / "out" / "index.html").exists() == (ended == 0)


@pytest.fixture
def found(queues, swept, monkeypatch):
    """Sets metrics of the first run of a network in the sweep of channels, which is what every sweep then is."""
    sweep, results = swept["channels"], dict(swept["channels"].kept.results)
    monkeypatch.setattr(sweep, "kept", replace(sweep.kept, results=results))
    monkeypatch.setattr(queues, "Swept", lambda _directory: sweep)

    def change(network, **metrics):
        point = next(p for p, values in sweep.kept.points.items() if values["network"][0] == network)
        run = next(run["run"] for run in sweep.kept.runs if run["point"] == point)
        rows = (row._replace(value=metrics.get(row.metric, row.value)) for row in results[run].metrics)
        results[run] = replace(results[run], metrics=tuple(rows))
        return run

    return change


ADAPTIVE = "4 channels of 1 worm, adaptive"


def test_credits_with_adaptive_paths_may_deliver_twice_and_it_is_told(queues, swept, found, tmp_path):
    assert swept["channels"].twice() == "" and swept["channels"].again() == ([], [])
    found(ADAPTIVE, doubled=2.0)
    assert swept["channels"].again() == ([2], [])
    text = "Credits with adaptive paths delivered 2 datagrams twice, in 1 of 12 runs"
    assert swept["channels"].twice().startswith(text) and text in queues.page(swept)
    assert queues.excused("broken: datagrams doubled\n", tmp_path)
    assert not queues.excused("a sweep that did not end\n", tmp_path), "its tables may be those of another run"


@pytest.mark.parametrize(
    ("network", "metrics"),
    [
        ("pool of 8 worms", {"doubled": 1.0}), ("4 channels of 1 worm", {"doubled": 1.0}), (ADAPTIVE, {"lost": 1.0}),
        (ADAPTIVE, {"lost": 1.0, "doubled": 1.0}), (ADAPTIVE, {"wrong": 1.0, "doubled": 1.0}),
    ],
)  # fmt: skip
def test_all_else_that_comes_twice_or_not_at_all_is_a_failure(queues, swept, found, tmp_path, network, metrics):
    others = [found(network, **metrics)]
    assert swept["channels"].again() == ([], others)
    assert not queues.excused("broken: datagrams lost or doubled\n", tmp_path)
    found(ADAPTIVE if network != ADAPTIVE else "4 channels of 1 worm", doubled=1.0)
    assert not queues.excused("broken: datagrams lost or doubled\n", tmp_path)


def test_a_sweep_that_only_doubled_on_adaptive_paths_does_not_end_it(queues, found, tmp_path, monkeypatch, capsys):
    found(ADAPTIVE, doubled=1.0)
    (tmp_path / "channels").mkdir()
    (tmp_path / "channels" / "summary.parquet").touch()
    done = SimpleNamespace(returncode=1, stdout="broken: datagrams lost, doubled or altered in run x\n")
    monkeypatch.setattr(queues.subprocess, "run", lambda *_args, **_: done)
    assert queues.main(["--only", "channels", "-o", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "delivered 1 datagram twice, in 1 of 12 runs" in told.out and "broken: " in told.err
    found("pool of 8 worms", doubled=1.0)
    assert queues.main(["--only", "channels", "-o", str(tmp_path)]) == 1


def test_targets_of_pools_are_met_or_missed(queues, swept, monkeypatch):
    def told(ratio):
        monkeypatch.setattr(queues.Swept, "times", lambda *_: queues.Ratio(ratio, f"{ratio} times"))
        found = list(queues.targets(swept["pool"], swept["channels"]))
        assert all(f"{ratio} times; best of credits: " in target.found for target in found)
        return [target.verdict for target in found]

    assert len(list(queues.targets(swept["pool"], swept["pool"]))) == 3, "no pool of 16 worms here"
    assert told(1.0) == ["missed", "met", "met", "missed"]
    assert told(1.4) == ["missed", "missed", "missed", "met"]
    assert told(1.6) == ["met", "missed", "missed", "met"]


def test_a_ratio_is_the_mean_of_what_each_seed_has(queues, swept, found):
    sweep, at = swept["channels"], {"workload.load": "1", "ni.slots": "16"}
    assert sweep.times("goodput", "pool of 8 worms", "pool of 16 worms", at) is None
    pool, other = "pool of 8 worms", "4 channels of 1 worm"
    means = [queues.between(sweep.value("goodput", {"network": name, **at})) for name in (pool, other)]
    assert re.fullmatch(rf"\d\.\d\d times \({means[0]}, {means[1]}\)", sweep.times("goodput", pool, other, at).told)
    seeds = iter([{1: 2.0, 2: 3.0, 3: 8.0}, {1: 1.0, 2: 1.0, 3: 2.0}])
    sweep._seeds = lambda *_: next(seeds)
    ratio = sweep.times("goodput", pool, other, at)
    del sweep._seeds
    assert ratio.mean == 3 and ratio.told.startswith("3.00 ± 2.48 times (")


def test_the_best_of_credits_is_what_a_pool_is_held_against(queues, swept, monkeypatch):
    means = {"pool of 8 worms": 9.0, "credits, 1 worm": 1.0, "4 channels of 16 flits": 3.0, "discards": 0.5}
    monkeypatch.setattr(queues.Swept, "names", lambda *_: list(means))
    monkeypatch.setattr(queues.Swept, "value", lambda _self, _metric, at: Value(1, means[at["network"]], *[None] * 3))
    assert queues.reference(swept["pool"], "goodput", {}, least=True) == "3 (4 channels of 16 flits)"
    assert queues.reference(swept["pool"], "goodput", {}, least=False) == "1 (credits, 1 worm)"


def test_what_is_said_of_routers_of_five_stages_says_so(queues, swept):
    assert swept["pool"].where == "" and swept["stages"].where == ", 5 cycles a hop"


@pytest.mark.parametrize(("option", "directory"), [([], "queues"), (["--hop", "5"], "queues-5")])
def test_each_latency_has_a_directory_of_its_own(queues, tmp_path, monkeypatch, capsys, option, directory):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(queues.subprocess, "run", lambda *_args, **_: SimpleNamespace(returncode=0, stdout=""))
    assert queues.main(["--only", "load", *option]) == 0
    assert [path.name for path in (tmp_path / "build").iterdir()] == [directory]


def test_kernels_are_judged_beside_the_best_of_credits(queues, swept, monkeypatch):
    cycles = {"credits, 1 worm": 1000.0, "credits, 64 flits": 900.0}

    def told(pool):
        means = cycles | {"pool of 8 worms": pool, f"pool of 8 worms{queues.FREELY}": 5000.0}
        monkeypatch.setattr(queues.Swept, "names", lambda _self, _axis: list(means))
        monkeypatch.setattr(queues.Swept, "mean", lambda _self, _metric, at: means[at["network"]])
        monkeypatch.setattr(
            queues.Swept, "times", lambda _self, _metric, one, other, _at: queues.Ratio(means[one] / means[other], "")
        )
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
        def value(_self, _metric, at):
            return Value(1, cycles if "pool" in at["network"] else 99.0, None, None, None)

        monkeypatch.setattr(queues.Swept, "value", value)
        return [(target.verdict, target.found) for target in queues.elsewhere(swept["hotspot"])]

    assert told(40.0) == [("met", "40 cycles; best of credits: 99 (credits, 1 worm)")]
    assert told(41.0) == [("missed", "41 cycles; best of credits: 99 (credits, 1 worm)")]
    monkeypatch.setattr(queues.Swept, "where", ", 5 cycles a hop")
    assert told(41.0) == [], "the target is for one cycle a hop"


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

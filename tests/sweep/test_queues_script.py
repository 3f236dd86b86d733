"""`scripts/queues`: its sweeps are legal, and what it tells of them is what they found."""

import re
from pathlib import Path

import pytest
from sweeping import alone

from lethe_sim.sweep.plan import load

EXAMPLES = Path(__file__).parents[2] / "examples" / "queues"
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
    "kernels": BASE + NETWORKS + "[axes.kernel]\n"
    "reduce = { workload = { kind = 'kernel', kernel = 'reduce', size = 8 } }\n",
    "timeouts": BASE + "warmup = 100\nwindow = 200\n[axes.timeouts]\nfixed = { timers = { ceiling = 0 } }\n"
    "[axes.buffers]\n'4 flits' = { router = { flow = 'credits' } }\n"
    "[axes.payload]\n'4 flits' = { workload = { load = 0.2 } }\n'32 flits' = { workload = { load = 0.5 } }\n",
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
        text = queues.quick((EXAMPLES / f"{name}.toml").read_text(), EXAMPLES / "base.toml")
        (tmp_path / f"{name}.toml").write_text(text)
        fewer = load(tmp_path / f"{name}.toml").runs
        assert {run.point for run in fewer} == {run.point for run in runs}
        assert len(fewer) < len(runs) and not any(run.replica for run in fewer)


def test_buffers_that_are_compared_have_the_same_bits(queues):
    """Wherever worms are queued or credited, a router input has room for as many flits."""
    for name in ("load", "payload", "nodes", "patterns", "kernels"):
        for run in load(EXAMPLES / f"{name}.toml").runs:
            network = str(run.settings["network"].name)
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


def test_the_page_has_every_picture_and_table(queues, swept):
    text = queues.page(swept)
    assert text.count("<svg") == 5 and 'href="load/report.html"' in text and 'href="payload/' not in text
    assert "as-it-comes" in text and "Payload flits per node and cycle" in text
    assert {name for name, _, _ in queues.tables(swept)} == set(SWEEPS)

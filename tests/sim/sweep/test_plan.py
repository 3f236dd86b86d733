"""A sweep's TOML: which runs it comes to, how they are named, and what is refused."""

import pytest

from lethe_sim.sweep.jobs import number
from lethe_sim.sweep.plan import Measure, Range, SweepError, load, run_name, told


@pytest.fixture
def sweep(tmp_path):
    """A sweep from its text, beside a base of 4 nodes."""
    (tmp_path / "base.toml").write_text('[topology]\nkind = "crossbar"\nnodes = 4\n[run]\nseed = 10\n')

    def write(text: str, base: str = 'base = "base.toml"\n'):
        path = tmp_path / "load.toml"
        path.write_text(base + text)
        return load(path)

    return write


def test_a_grid_is_every_combination_and_replica(sweep):
    plan = sweep('replicas = 2\n[axes]\n"ni.slots" = [4, 8]\nfaults.loss = { from = 0, to = 0.2, steps = 3 }\n')
    assert len(plan.runs) == 12
    assert [run.settings for run in plan.runs[::2]] == [
        {"ni.slots": slots, "faults.loss": loss} for slots in (4, 8) for loss in (0.0, 0.1, 0.2)
    ]
    assert [run.system.run.seed for run in plan.runs[:4]] == [10, 11, 10, 11]
    assert [run.point for run in plan.runs[:4]] == [0, 0, 1, 1]
    assert all(run.system.nodes == 4 and run.system.run.name == run.name for run in plan.runs)
    assert len({run.name for run in plan.runs}) == 12


def test_tables_are_varied_together(sweep):
    plan = sweep(
        '[axes]\ntopology = [{ kind = "wire", nodes = 0 }, { kind = "mesh", nodes = 0, columns = 3, rows = 2 }]\n'
    )
    assert [run.system.nodes for run in plan.runs] == [2, 6]
    assert told(plan.runs[1].settings["topology"]) == "mesh, 0, 3, 2"


def test_choices_of_several_sections_are_varied_by_name(sweep):
    text = """
    [axes.network]
    "0 worms" = {}
    "2 worms" = { router = { queue = 2 }, ni = { slots = 8 } }
    [axes]
    ni.ways = [1, 2]
    """
    found = sweep(text).runs
    assert [(r.system.router.queue, r.system.ni.slots, r.system.ni.ways) for r in found] == [
        (0, 16, 1), (0, 16, 2), (2, 8, 1), (2, 8, 2),
    ]  # fmt: skip
    assert [(told(r.settings["network"]), number(r.settings["network"])) for r in found[1:3]] == [
        ("0 worms", 0.0), ("2 worms", 2.0),
    ]  # fmt: skip


def test_lists_of_faults_are_varied(sweep):
    plan = sweep("[axes]\nfaults.links = [[], [{ link = 0, start = 10, end = 20 }]]\n")
    assert [len(run.system.faults.links) for run in plan.runs] == [0, 1]


def test_an_inline_base_and_no_axes(sweep):
    plan = sweep("replicas = 3\n[base.topology]\nkind = 'wire'\n", base="")
    assert [run.system.nodes for run in plan.runs] == [2, 2, 2] and {run.point for run in plan.runs} == {0}


def test_a_random_design_draws_by_seed(sweep):
    text = """design = "random"\nsamples = {}\nseed = 3\n[axes]\nworkload.load = {{ from = 0.01, to = 0.5 }}
        "ni.slots" = [4, 8]\nni.ways = {{ from = 1, to = 8 }}\n"""
    few, many = sweep(text.format(5)), sweep(text.format(20))
    assert [run.name for run in many.runs[:5]] == [run.name for run in few.runs]
    loads = [run.system.workload.load for run in many.runs]
    assert len(set(loads)) == 20 and all(0.01 <= load <= 0.5 for load in loads)
    assert {run.system.ni.slots for run in many.runs} == {4, 8}
    assert {run.system.ni.ways for run in many.runs} <= set(range(1, 9))
    other = sweep(text.replace("seed = 3", "seed = 4").format(5))
    assert not {run.name for run in other.runs} & {run.name for run in few.runs}


def test_ranges():
    assert Range(low=1, high=8, steps=4, logarithmic=True, whole=True).values() == [1, 2, 4, 8]
    assert Range(low=1, high=3, steps=9, whole=True).values() == [1, 2, 3]
    assert Range(low=0, high=0.3, steps=4).values() == [0, 0.1, 0.2, 0.3]
    assert Range(low=0.02, high=0.5, steps=3, logarithmic=True).values() == [0.02, 0.1, 0.5]
    assert Range(low=5, high=9, steps=1).values() == [5]


def test_a_name_stands_for_all_that_results_depend_on(sweep, tmp_path):
    (run,) = sweep("").runs
    assert run_name(run.system.replace(run={"name": "other"}), Measure()) == run.name
    assert run_name(run.system.replace(run={"seed": 11}), Measure()) != run.name
    assert run_name(run.system.replace(ni={"ways": 8}), Measure()) != run.name
    assert run_name(run.system, Measure(window=100)) != run.name
    # What is written out is what was the default before.
    assert sweep("[axes]\nni.ways = [4]\n").runs[0].name == run.name


def test_a_name_sees_the_file_that_is_carried(sweep, tmp_path):
    (tmp_path / "data").write_bytes(b"one")
    text = '[axes]\nworkload = [{ kind = "file", path = "data" }]\n'
    first = sweep(text).runs[0].name
    assert sweep(text).runs[0].name == first
    (tmp_path / "data").write_bytes(b"other")
    assert sweep(text).runs[0].name != first


@pytest.mark.parametrize(
    "text, message",
    [
        ("replica = 2", "replica: no such key; did you mean replicas?"),
        ("replicas = 0", "replicas: must be 1 or more, not 0"),
        ("replicas = 2.5", "replicas: must be a whole number, not 2.5"),
        ("[ni]\nslots = 4", "ni: no such key (a key of the configuration goes under [base] or [axes])"),
        ("[axes]\nni.slot = [4]", "axes.ni.slot: no such key; did you mean slots?"),
        ("[axes]\nnii.slots = [4]", "axes.nii: no such section; did you mean ni?"),
        ("[axes]\nni.slots = []", "axes.ni.slots: must be a list of values"),
        ("[axes]\nni.slots = 4", "axes.ni.slots: must be a list of values, not 4"),
        ("[axes]\nni.slots = [4, 4]", "axes.ni.slots: has a value twice"),
        ("[axes]\nni.slots = { from = 1, to = 8 }", "axes.ni.slots.steps: is missing"),
        ("[axes]\nni.slots = { from = 8, to = 2, steps = 2 }", "axes.ni.slots: ends below its beginning"),
        ("[axes]\nni.slots = { from = 2, to = 8, step = 2 }", "axes.ni.slots.step: no such key; did you mean steps?"),
        ("[axes]\nfaults.loss = { from = 0, to = 1, steps = 2, scale = 'log' }", "axes.faults.loss.from: must be"),
        ("[axes]\ntopology.kind = { from = 1, to = 2, steps = 2 }", "axes.topology.kind: is no number"),
        ("[axes]\ntopology = ['tree']", "axes.topology: is a whole table"),
        ("[axes]\nfaults.links = [3]", "axes.faults.links: is a list of tables"),
        ("[axes]\nni.slots = [4]\nni = [{ slots = 4 }]", "is not TOML"),
        ("[axes.net.one]\nrouter.queue = 1\n[axes.net.two]\nrooter.queue = 2", "axes.net.two.rooter: no such section"),
        ("[axes.net.one]\nni.slots = 8\n[axes]\nni.slots = [4]", "axes.ni.slots: is varied twice"),
        ("replicas = 2\n[axes.net.one]\nrun.seed = 8", "replicas: are runs with other seeds"),
        ("[axes]\nnet.one = 1", "axes.net: no such section"),
        ('[axes]\n"ni.slots" = [4]\nni = [{ ways = 4 }]', "axes.ni.slots: is varied twice"),
        ("replicas = 2\n[axes]\nrun.seed = [1, 2]", "replicas: are runs with other seeds, but run.seed is an axis"),
        ("replicas = 2\n[axes]\nrun = [{ seed = 1 }, { seed = 2 }]", "replicas: are runs with other seeds"),
        ("[axes]\nrun.name = ['a']", "axes.run.name: is set by the sweep"),
        ("design = 'random'", "samples: is missing"),
        ("samples = 4", "samples: has no meaning in a grid"),
        ("design = 'square'", "design: must be grid or random, not 'square'"),
        ("warmup = 10", "warmup: needs a window"),
        ("[axes]\nrun.seed = { from = 1, to = 9000000, steps = 9000000 }", "axes.run.seed.steps: must be a"),
        ("replicas = 9000000", "axes: come to 9,000,000 runs; stay within 1,000,000"),
        ("base = [", "is not TOML"),
    ],
)  # fmt: skip
def test_mistakes_name_file_key_and_cure(sweep, tmp_path, text, message):
    with pytest.raises(SweepError) as error:
        sweep(text)
    assert str(error.value).startswith(f"{tmp_path / 'load.toml'}: {message}"), error.value


@pytest.mark.parametrize(
    "text, message",
    [
        ("[axes.net.one]\nrouter.queues = 1", "point net = one: router.queues: no such key; did you mean queue?"),
        ("[axes]\nni.slots = [4, 1]\nfaults.loss = [0.5]", "point ni.slots = 1, faults.loss = 0.5: ni.slots: must be"),
        ("[axes]\nni.slots = ['four']", "point ni.slots = four: ni.slots: must be a whole number, not 'four'"),
        ("window = 300000", "point the base: run.cycles: 200,000 end before warmup and window do"),
    ],
)
def test_a_bad_point_is_found_before_anything_runs(sweep, tmp_path, text, message):
    with pytest.raises(SweepError) as error:
        _ = sweep(text).runs
    assert str(error.value).startswith(f"{tmp_path / 'load.toml'}: {message}"), error.value


def test_a_base_that_is_not_there(tmp_path):
    (tmp_path / "a.toml").write_text('base = "b.toml"')
    with pytest.raises(SweepError, match="base: no such file"):
        load(tmp_path / "a.toml")
    with pytest.raises(SweepError, match="no such file; write one"):
        load(tmp_path / "c.toml")
    with pytest.raises(SweepError, match="is a directory"):
        load(tmp_path)


def test_replicas_are_planned_without_checking_each(tmp_path, monkeypatch):
    from lethe.spec import config
    from lethe_sim.sweep import plan

    checks, check, said = [], config._check, []
    monkeypatch.setattr(config, "_check", lambda system: (checks.append(system), check(system)))
    (tmp_path / "s.toml").write_text("replicas = 3000\n[base]\nrun.seed = 5\n[axes]\nni.slots = [2, 4]\n")
    sweep = plan.load(tmp_path / "s.toml")
    runs = sweep.planned(said.append)
    assert len(runs) == 6000 and len(checks) <= 20 and len(said) >= 6
    # As if each had been made alone.
    for run in (runs[0], runs[1], runs[2999], runs[-1]):
        alone = run.system.replace(run={"name": run.name})
        assert alone == run.system and run.name == plan.run_name(alone, sweep.measure)
        assert run.system.run.seed == 5 + run.replica


def test_the_last_seed_is_checked(tmp_path):
    (tmp_path / "s.toml").write_text(f"replicas = 3\n[base]\nrun.seed = {2**32 - 2}\n")
    with pytest.raises(SweepError, match=r"run\.seed"):
        _ = load(tmp_path / "s.toml").runs


def test_a_sweep_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "s.toml").write_text("replicas = 2\n", encoding="utf-8-sig")
    assert len(load(tmp_path / "s.toml").runs) == 2

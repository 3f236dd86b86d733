"""The golden model's runs pass the audit on every topology and under every fault."""

import numpy as np
import pytest

from lethe.spec.events import Event
from lethe_sim.golden.model import Golden
from lethe_sim.ledger.audit import ONCE, UNFINISHED
from lethe_sim.ledger.here import audit as audit_trace
from lethe_sim.ledger.here import judged
from lethe_sim.pipeline.jobs import compare_traces
from lethe_sim.trace import TraceReader, digest, events_from_words, open_trace
from lethe_sim.trace.ladder import find, unlucky
from tests.helpers.golden_runs import RUNS, system_of
from tests.helpers.golden_trace import write_golden, write_options
from tests.helpers.make_trace import tamper


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """name → an open trace, each run once."""
    made: dict[str, TraceReader] = {}

    def get(name: str) -> TraceReader:
        if name not in made:
            path = tmp_path_factory.mktemp("golden") / f"{name}.parquet"
            write_golden(path, system_of(name))
            made[name] = open_trace(path)
        return made[name]

    return get


@pytest.mark.parametrize("name", RUNS)
def test_every_datagram_once(traces, name):
    trace = traces(name)
    result = audit_trace(trace.path)
    assert result.verdict == ONCE, result.text()
    system, m = trace.meta.system, result.metrics
    assert m.datagrams == trace.meta.counters["ni"]["ACCEPTED"] or system.faults.resets
    if name in ("reset", "incarnations", "dead"):
        assert result.by_reset > 0
    elif name == "silent":
        assert m.unknown > 0 and m.never_sent > 0 and m.delivered < m.datagrams
    elif name == "crossbar":
        assert m.unknown > 0 and m.delivered < m.datagrams
    else:
        assert m.once == m.datagrams == 40 * system.nodes


def test_overtaking_in_queues_is_named(traces, tmp_path):
    """Two messages of a datagram change places behind the last queue of their path."""
    changed = []

    def swap(rows):
        row = next(r for r in rows if r["event"] == Event.DUPLICATE)
        here = [r for r in rows if (r["unit"], r["peer"], r["uid"]) == (row["unit"], row["peer"], row["uid"])]
        forgotten = next(r for r in here if r["event"] == Event.FORGOTTEN)
        row["cycle"], forgotten["cycle"] = forgotten["cycle"], row["cycle"]
        changed.append(row)

    tamper(tmp_path / "t.parquet", traces("queued").path, swap)
    result = audit_trace(tmp_path / "t.parquet")
    (finding,) = [finding for finding in result.findings if finding.name == "disordered"]
    assert changed[0]["uid"] in {example.uid for example in finding.examples}


def test_what_is_sent_to_the_dead_is_judged(traces):
    """A death excuses what was under way then, and nothing that another node accepts later."""
    trace = traces("dead")
    (death,) = trace.meta.system.faults.deaths
    (ledger,) = judged(trace, whole=True).rows["datagrams"]
    to_the_dead = [row for row in ledger.to_pylist() if row["destination"] == death.node]
    later = {row["uid"] for row in to_the_dead if row["accepted_at"] >= death.start}
    excused = {row["uid"] for row in to_the_dead if row["by_reset"]}
    assert later and excused and not later & excused


def test_ladders_show_rejects(tmp_path):
    path = tmp_path / "options.parquet"
    write_options(path)
    rows = open_trace(path).table().to_pylist()
    told = next(row for row in rows if row["event"] == Event.REJECT)
    life = find(path, str(told["uid"]))
    (worm,) = [worm for worm in life.worms if worm.name == "Reject"]
    assert worm.launched == told["cycle"] and not worm.from_sender
    assert worm.fate == "given up: its receiver was restarted" and "given up: restarted" in life.text()
    heads = {row["uid"] for row in rows if row["event"] == Event.FORWARD}
    assert heads <= {row["uid"] for row in rows if row["event"] == Event.ACCEPT}


def test_cut_short_is_unfinished(tmp_path):
    system = system_of("tree").replace(run={"cycles": 200})
    write_golden(tmp_path / "cut.parquet", system)
    assert audit_trace(tmp_path / "cut.parquet").verdict == UNFINISHED


def test_a_datagram_in_two_spans_is_one(tmp_path):
    """It is under way when a UID could first have come again, and when the run is cut short."""
    system = system_of("wrapping").replace(workload={"count": 4, "load": 0.1}, run={"cycles": 2000})
    write_golden(tmp_path / "whole.parquet", system)
    rows = open_trace(tmp_path / "whole.parquet").table().to_pylist()
    accepted = {row["uid"]: row["cycle"] for row in rows if row["event"] == Event.ACCEPT}
    delivered = {row["uid"]: row["cycle"] for row in rows if row["event"] == Event.DELIVER}
    span = system.wrap_time
    between = [uid for uid, cycle in delivered.items() if accepted[uid] // span < cycle // span]
    assert between
    cut = delivered[between[0]] + 1
    write_golden(tmp_path / "cut.parquet", system.replace(run={"cycles": cut}))
    result = audit_trace(tmp_path / "cut.parquet")
    assert (result.verdict, result.metrics.datagrams, result.metrics.delivered) == (
        UNFINISHED, sum(cycle < cut for cycle in accepted.values()), sum(cycle < cut for cycle in delivered.values()),
    )  # fmt: skip


def test_seed_makes_the_first_difference(spark, traces, tmp_path):
    trace = traces("tree")
    other = tmp_path / "other.parquet"
    write_golden(other, trace.meta.system.replace(run={"seed": 4}), "rtl")
    result = compare_traces(trace.path, other, spark=spark)
    assert not result.equal
    left = trace.table().drop_columns(["run"]).to_pylist()
    right = open_trace(other).table().drop_columns(["run"]).to_pylist()
    at = next(i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    assert result.cycle == min(left[at]["cycle"], right[at]["cycle"])


def test_words_and_recorded_events_agree():
    system = system_of("reset")
    recorded, dense = Golden(system, record=True), Golden(system)
    words = np.zeros((700, system.layout.words), np.uint64)
    recorded.run(700)
    dense.run(700, words=words)
    events = recorded.take_events()
    assert digest(events) == recorded.digest
    events = events[np.lexsort((events["lane"], events["unit"], events["cycle"]))]
    assert events_from_words(words, system.layout).tolist() == events.tolist()


@pytest.mark.parametrize("name", ["tree", "narrow", "mesh", "wire", "queued"])
def test_ladders_explain_every_worm(traces, name):
    """Where a worm of the unluckiest datagram died is always known, even when heads hold no UID."""
    trace = traces(name)
    uid = unlucky(trace)
    life = find(trace.path, str(uid))
    assert life.uid == uid and life.worms[0].name == "Send" and len(life.worms) > 3
    assert not [worm for worm in life.worms if "vanished" in worm.fate]
    assert life.worms[-1].fate in ("forgotten", "nothing to forget") or life.worms[-1].arrived is None
    text = life.text()
    assert life.title in text and "accepted" in text and "completed ACCEPTED" in text


def test_ladders_without_uids_in_queues(tmp_path):
    system = system_of("narrow").replace(router={"queue": 1}, workload={"count": 5})
    write_golden(tmp_path / "narrow.parquet", system)
    life = find(tmp_path / "narrow.parquet", "unlucky")
    assert {worm.fate for worm in life.worms} == {
        "not known: a first flit does not hold the UID, and routers keep it for a while"
    }


def test_head_uids_are_those_of_nis(traces):
    """What routers forward is what NIs have launched."""
    rows = traces("tree").table().to_pylist()
    nodes = traces("tree").meta.system.nodes
    launched = {r["uid"] for r in rows if r["unit"] < nodes and r["event"] == Event.ACCEPT}
    assert {r["uid"] for r in rows if r["unit"] >= nodes and r["event"] == Event.FORWARD} <= launched
